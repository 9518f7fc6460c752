//! What a search found, for people and for scripts.

mod limits;
mod trust;

use std::time::Duration;

pub use limits::{gpus, gpus_json, model, model_json, smallest, smallest_json};
pub use trust::{text as trust, write as trust_json};

use serde_json::{Map, Value, json};

use super::csv::{cell, table};
use super::page::paragraph;
use super::sweep::figures_json;
use super::table::{Align, Table};
use super::text::grouped;
use crate::advise::{KNOBS, Knobs, RankedPlan, SearchOutcome, SearchStatus, fold, throughput, why_slower};
use crate::compare::{Bands, level};
use crate::plan::Fault;
use crate::plan::keywords::CpuOffload;
use crate::predict::{Outline, Verdict};
use crate::units::{self, Bytes, Fraction, three_figures};

/// A search as text: the answer, what it was searched on (`subject`), the `top` best, why the next ones lost, memory
/// against speed.
#[must_use]
pub fn text(plan: &str, subject: &str, found: &SearchOutcome, (took, top): (Duration, usize), width: usize) -> String {
    let mut text = String::new();
    match found.ranked.first() {
        Some(best) => winner(&mut text, plan, found, best, width),
        None => nothing(&mut text, plan, found, width),
    }
    paragraph(&mut text, "", subject, width);
    let mut folded = fold(&found.ranked);
    folded.truncate(top);
    if !folded.is_empty() {
        text.push('\n');
        text.push_str(&plans(folded.iter().map(|one| one.plan)).render("  ", width));
    }
    for (at, one) in folded.iter().enumerate().filter(|(_, one)| !one.alike.is_empty()) {
        paragraph(&mut text, "  ", &format!("as fast as #{}: {}", at + 1, one.alike.join(", ")), width);
    }
    let folded: Vec<&RankedPlan> = folded.iter().map(|one| one.plan).collect();
    if let [best, rest @ ..] = folded.as_slice() {
        lost(&mut text, best, rest, width);
    }
    // Of those that the figures shown do not tell apart, the one that needs least.
    let shown = |one: &RankedPlan| grouped(throughput(&one.outline));
    let mut front: Vec<&RankedPlan> = found.front.iter().collect();
    front.dedup_by(|next, kept| {
        shown(next) == shown(kept) && {
            *kept = next;
            true
        }
    });
    if front.len() > 1 {
        text.push_str("\nless memory for less speed: nothing is better in both\n");
        let numbers = front_numbers(&front, &folded);
        text.push_str(&numbered(front.into_iter().zip(numbers)).render("  ", width));
    }
    text.push('\n');
    paragraph(&mut text, "", &counts(found, took), width);
    text
}

fn winner(text: &mut String, plan: &str, found: &SearchOutcome, best: &RankedPlan, width: usize) {
    let time = &best.outline.time;
    let mfu = time.mfu.map_or_else(String::new, |mfu| format!(", MFU {}", Fraction(mfu)));
    let capacity = best.outline.capacity;
    let tight = if capacity.verdict() == Verdict::Tight { ", TIGHT" } else { "" };
    paragraph(
        text,
        "",
        &format!(
            "{plan}: best of {} plans: {} {}{mfu}, step {}, {} of {}{tight}",
            units::grouped(found.evaluated + found.pruned),
            grouped(throughput(&best.outline)),
            unit(&best.outline),
            time.step,
            capacity.needed,
            capacity.bytes
        ),
        width,
    );
    if let Some(host) = best.host.filter(|host| *host > Bytes::ZERO) {
        paragraph(text, "", &format!("{host} of host memory for each GPU, for what is offloaded"), width);
    }
    paragraph(text, "", &beside(&found.own, &best.outline), width);
    let change = best.change.words();
    paragraph(
        text,
        "",
        &if change.is_empty() { "nothing to change".to_owned() } else { format!("change: {change}") },
        width,
    );
}

/// The best plan beside the one that was given.
fn beside(own: &Result<RankedPlan, Fault>, best: &Outline) -> String {
    let own = match own {
        Ok(own) => &own.outline,
        Err(fault) => return format!("the plan as it is does not run: {fault}"),
    };
    let than = throughput(best) / throughput(own) - 1.0;
    match own.capacity.needed <= own.capacity.bytes {
        false => format!("the plan as it is does not fit: {}", own.capacity.needed),
        true if than < -0.0005 => {
            format!("the plan as it is is faster: {} more tokens a second", Fraction(1.0 / (1.0 + than) - 1.0))
        }
        true if than < 0.0005 => "the plan as it is is as fast".to_owned(),
        true => format!("{} faster than the plan as it is", Fraction(than)),
    }
}

fn nothing(text: &mut String, plan: &str, found: &SearchOutcome, width: usize) {
    paragraph(text, "", &format!("{plan}: no plan fits"), width);
    if let Some(other) = &found.unsupported {
        let capacity = other.outline.capacity;
        let words = format!(
            "offloading that this framework has no switch for would make it fit, {} of {}: {}; it is searched only where \
             the plan or --set asks for it",
            capacity.needed,
            capacity.bytes,
            other.change.words()
        );
        paragraph(text, "", &words, width);
    }
    if let Some(nearest) = &found.nearest {
        let capacity = nearest.outline.capacity;
        let over = Bytes(capacity.needed.0.saturating_sub(capacity.bytes.0));
        let closest = format!("the closest needs {}, {over} too much: {}", capacity.needed, nearest.change.words());
        paragraph(text, "", &closest, width);
    }
}

/// The numbers of the front: those of the first table keep theirs, the others go on from its end. What is said of #3 is
/// said of one plan.
fn front_numbers(front: &[&RankedPlan], first: &[&RankedPlan]) -> Vec<String> {
    let mut next = first.len();
    let mut number = |one: &RankedPlan| {
        let known = first.iter().position(|known| known.knobs == one.knobs);
        let at = known.unwrap_or_else(|| {
            next += 1;
            next - 1
        });
        (at + 1).to_string()
    };
    front.iter().map(|one| number(one)).collect()
}

/// Plans numbered from 1.
fn plans<'a>(ranked: impl IntoIterator<Item = &'a RankedPlan>) -> Table {
    numbered(ranked.into_iter().zip((1..).map(|number: usize| number.to_string())))
}

fn numbered<'a>(ranked: impl IntoIterator<Item = (&'a RankedPlan, String)>) -> Table {
    let (ranked, numbers): (Vec<&RankedPlan>, Vec<String>) = ranked.into_iter().unzip();
    let columns = PlanColumns::of(&ranked);
    let mut table = Table::new(columns.heads());
    for (one, number) in ranked.iter().zip(numbers) {
        table.row(columns.cells(one, number));
    }
    let silent = [("", ""), ("cp", "1"), ("schedule", "–"), ("shard", "none"), ("offload", "none")];
    // MFU says of plans of one model on as many GPUs what their speed says.
    table.without_constant(&silent).narrowed_by(&["MFU %"])
}

/// Which columns a table of plans has.
struct PlanColumns {
    unit: &'static str,
    moe: bool,
    batches: bool,
    hosts: bool,
}

impl PlanColumns {
    fn of(ranked: &[&RankedPlan]) -> Self {
        Self {
            unit: ranked.first().map_or("tokens/s", |one| unit(&one.outline)),
            moe: ranked.iter().any(|one| one.knobs.expert > 1),
            batches: ranked.windows(2).any(|two| two[0].knobs.batch() != two[1].knobs.batch()),
            hosts: ranked.iter().any(|one| one.host.is_some()),
        }
    }

    fn heads(&self) -> Vec<(&'static str, Align)> {
        let right = |head: &'static str| (head, Align::Right);
        let mut heads = vec![
            right("#"),
            right(self.unit),
            right("MFU %"),
            right("GiB"),
            ("", Align::Left),
            right("dp"),
            right("tp"),
            right("pp"),
            right("cp"),
        ];
        if self.moe {
            heads.extend([right("ep"), right("etp")]);
        }
        if self.batches {
            heads.push(right("batch"));
        }
        heads.extend([
            right("micro"),
            ("schedule", Align::Left),
            ("shard", Align::Left),
            ("recompute", Align::Left),
            ("offload", Align::Left),
        ]);
        if self.hosts {
            heads.push(right("host GiB"));
        }
        heads
    }

    fn cells(&self, one: &RankedPlan, number: String) -> Vec<String> {
        let knobs = &one.knobs;
        let mut cells = vec![
            number,
            grouped(throughput(&one.outline)),
            one.outline.time.mfu.map_or_else(|| "–".to_owned(), |mfu| three_figures(100.0 * mfu)),
            one.outline.capacity.needed.in_gib(),
            if one.outline.capacity.verdict() == Verdict::Tight { "TIGHT" } else { "" }.to_owned(),
            knobs.data.to_string(),
            format!("{}{}", knobs.tensor, if knobs.sequence { "+sp" } else { "" }),
            knobs.pipeline.to_string(),
            knobs.context.to_string(),
        ];
        if self.moe {
            cells.extend([knobs.expert.to_string(), knobs.expert_tensor.to_string()]);
        }
        if self.batches {
            cells.push(knobs.batch().to_string());
        }
        cells.extend([
            knobs.micro.to_string(),
            schedule(knobs),
            knobs.sharding.to_string(),
            knobs.checkpointing.to_string(),
            knobs.offload.to_string(),
        ]);
        if self.hosts {
            cells.push(one.host.map_or_else(|| "–".to_owned(), Bytes::in_gib));
        }
        cells
    }
}

fn schedule(knobs: &Knobs) -> String {
    match (knobs.pipeline, knobs.chunks) {
        (1, _) => "–".to_owned(),
        (_, 1) => knobs.schedule.to_string(),
        (_, chunks) => format!("{} {chunks}", knobs.schedule),
    }
}

/// Why the runner-up lost, and the next that differs in more than a detail.
fn lost(text: &mut String, best: &RankedPlan, rest: &[&RankedPlan], width: usize) {
    let degrees = |one: &RankedPlan| (one.knobs.tensor, one.knobs.pipeline, one.knobs.context, one.knobs.expert);
    let Some(second) = rest.first() else { return };
    text.push('\n');
    paragraph(text, "", &format!("why #2 lost: {}", why_slower(best, second)), width);
    let other = rest.iter().enumerate().skip(1).find(|(_, one)| degrees(one) != degrees(best));
    if let Some((at, other)) = other.filter(|_| degrees(second) == degrees(best)) {
        paragraph(
            text,
            "",
            &format!("why #{}, the first with other degrees, lost: {}", at + 2, why_slower(best, other)),
            width,
        );
    }
}

fn counts(found: &SearchOutcome, took: Duration) -> String {
    let all = found.evaluated + found.pruned;
    let seconds = took.as_secs_f64();
    let mut line = format!(
        "{} plans in {}: {} evaluated ({} a second), {} pruned",
        units::grouped(all),
        crate::units::Seconds(seconds),
        units::grouped(found.evaluated),
        grouped(found.evaluated as f64 / seconds.max(1e-9)),
        units::grouped(found.pruned),
    );
    if found.cancelled {
        line.push_str("; stopped before the end: better plans may be left");
    }
    line
}

fn unit(outline: &Outline) -> &'static str {
    let time = outline.decode.as_ref().unwrap_or(&outline.time);
    if time.tokens_per_s.is_some() { "tokens/s" } else { "samples/s" }
}

/// A line for whoever waits.
#[must_use]
pub fn progress(seen: &SearchStatus) -> String {
    let best = seen.best.map_or_else(|| "none fits yet".to_owned(), |best| format!("best {}/s", grouped(best)));
    format!(
        "searching: {:.0} %, {} evaluated, {} pruned, {best}",
        100.0 * seen.share,
        units::grouped(seen.evaluated),
        units::grouped(seen.pruned)
    )
}

/// The search as one JSON object; figures as in the report of a plan.
#[must_use]
pub fn json(plan: &str, found: &SearchOutcome, took: Duration) -> Value {
    let best = found.ranked.first();
    let all = |ranked: &[RankedPlan]| ranked.iter().map(|one| Value::Object(row(one, best))).collect::<Vec<_>>();
    json!({
        "plan": plan,
        "ranked": all(&found.ranked),
        "front": all(&found.front),
        "given": found.own.as_ref().map(|own| row(own, best)).ok(),
        "given_fault": found.own.as_ref().err().map(ToString::to_string),
        "nearest": found.nearest.as_ref().map(|one| row(one, None)),
        "unsupported": found.unsupported.as_ref().map(|one| row(one, None)),
        "fitting": found.fitting,
        "evaluated": found.evaluated,
        "pruned": found.pruned,
        "seconds": took.as_secs_f64(),
        "complete": !found.cancelled,
    })
}

/// The ranked plans as CSV, each with its band.
///
/// # Errors
/// Where a row cannot be written.
pub fn csv(found: &SearchOutcome, bands: Option<&Bands>) -> Result<String, ::csv::Error> {
    let best = found.ranked.first();
    let level = bands.map_or(0, |bands| level(&found.ranked, bands));
    table(found.ranked.iter().enumerate().map(|(place, one)| {
        let trust = bands.map(|bands| trust::of_row(one, bands, place < level));
        let trust = trust.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        let columns = row(one, best).into_iter().filter(|(name, _)| name != "change").chain(trust);
        columns.map(|(name, value)| (name, cell(&value))).collect()
    }))
}

fn row(one: &RankedPlan, best: Option<&RankedPlan>) -> Map<String, Value> {
    let mut row = Map::new();
    let knobs = &one.knobs;
    let values: [Value; KNOBS.len()] = [
        knobs.data.into(),
        knobs.tensor.into(),
        knobs.pipeline.into(),
        knobs.context.into(),
        knobs.expert.into(),
        knobs.expert_tensor.into(),
        knobs.sequence.into(),
        knobs.sharding.name().into(),
        knobs.schedule.name().into(),
        knobs.chunks.into(),
        knobs.micro.into(),
        knobs.accumulation.into(),
        knobs.checkpointing.to_string().into(),
        knobs.offload.name().into(),
    ];
    for (key, value) in KNOBS.iter().zip(values) {
        row.insert((*key).to_owned(), value);
    }
    figures_json(Some(&one.outline), &mut row);
    let nothing = (knobs.offload == CpuOffload::None).then_some(Bytes::ZERO);
    row.insert("host_memory".to_owned(), one.host.or(nothing).map_or(Value::Null, |host| Value::from(host.0)));
    let why = best.filter(|best| *best != one).map(|best| why_slower(best, one));
    row.insert("why_slower".to_owned(), why.map_or(Value::Null, Value::from));
    row.insert("change".to_owned(), json!({"set": one.change.set_json(), "remove": one.change.remove}));
    row
}
