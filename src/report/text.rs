//! The report as a person wants it in a terminal: the verdict first, then why.

mod figures;
mod parts;

use std::fmt::Write as _;

use parts::parts;

use super::Report;
use super::page::paragraph;
use super::table::{Align, Table};
use crate::advise::Advice;
use crate::order::StableOrder;
use crate::plan::keys;
use crate::predict::{Component, NOTHING_GIVEN, Prediction, StageMemory, StepTime, Verdict};
use crate::units::{self, Bytes, Fraction, three_figures};

/// Operators that the short report shows; the rest are summed up in a line.
const TOP_OPERATORS: usize = 8;

/// The report on a page of that width; `verbose` adds every term with its formula and source, the whole timeline and all
/// operators.
#[must_use]
pub fn report(report: &Report, verbose: bool, width: usize) -> String {
    let prediction = report.prediction;
    let mut text = String::new();
    paragraph(&mut text, "", &verdict(prediction), width);
    subject(&mut text, report, width);
    // What is predicted of a stand-in is no answer about somebody's model.
    let stands_in = |said: &&String| said.starts_with(keys::model::size_billions) && said.contains(NOTHING_GIVEN);
    let stand_in = prediction.assumptions.iter().find(stands_in);
    if let Some(stand_in) = stand_in {
        paragraph(&mut text, "", &format!("no model is given: assumed {stand_in}"), width);
    }
    for (_, missing) in prediction.lacking() {
        paragraph(&mut text, "", &format!("warning: {missing}"), width);
    }
    let left_out: Vec<&str> = prediction.not_modelled().collect();
    if !left_out.is_empty() {
        paragraph(&mut text, "", &format!("not modelled: {}", left_out.join(", ")), width);
    }
    if let Some(found) = report.max_batch {
        paragraph(&mut text, "", &found.words(prediction), width);
    }
    if let Some(found) = report.max_sequence {
        paragraph(&mut text, "", &found.words(prediction), width);
    }
    if let Some(layer) = report.layer {
        text.push_str(&layer.text(prediction.largest(), width));
    }
    if report.basic && !verbose {
        memory(&mut text, report, width);
        time(&mut text, report, width);
        return text;
    }
    if let Some(setup) = report.setup {
        text.push_str("\nwhat is predicted\n");
        let mut table = Table::new([("", Align::Left), ("", Align::Left)]);
        setup.lines.iter().for_each(|(about, said)| table.row([(*about).to_owned(), said.clone()]));
        text.push_str(table.render("  ", width).trim_start_matches('\n'));
    }
    if let Some(advice) = report.advice.filter(|advice| !advice.findings.is_empty()) {
        bottlenecks(&mut text, advice, width);
    }
    memory(&mut text, report, width);
    figures::table(&mut text, prediction, width);
    if prediction.stages.len() > 1 {
        stages(&mut text, prediction, width);
    }
    time(&mut text, report, width);
    roofline(&mut text, prediction, verbose, width);
    if verbose {
        time_terms(&mut text, prediction, width);
        terms(&mut text, prediction.largest(), width);
        timeline(&mut text, prediction.largest(), width);
    }
    if !prediction.assumptions.is_empty() {
        text.push_str("\nassumptions\n");
        for assumption in prediction.assumptions.iter() {
            paragraph(&mut text, "  ", assumption, width);
        }
    }
    text
}

/// The answer in a line: whether it fits, what it uses of what there is, and what is left.
#[must_use]
pub fn verdict(prediction: &Prediction) -> String {
    let capacity = prediction.capacity;
    let word = match capacity.verdict() {
        Verdict::Fits => "fits",
        Verdict::Tight => "tight",
        Verdict::DoesNotFit => "does not fit",
    };
    let left = capacity.bytes - capacity.needed;
    let share = left.magnitude().share_of(capacity.bytes).map_or(String::new(), |share| format!(" ({share})"));
    let left = if left.is_negative() {
        format!("{} too much{share}", left.magnitude())
    } else {
        format!("{} headroom{share}", left.magnitude())
    };
    let each = if prediction.on_cpu { "" } else { " on each GPU" };
    // Memory alone does not make it run.
    let warned = match (prediction.lacking().next(), prediction.not_modelled().next()) {
        (Some(_), _) => ", see the warning",
        (None, Some(key)) => {
            let are = if key.contains(" and ") { "are" } else { "is" };
            &format!(" ({} {are} not modelled)", key.rsplit('.').next().unwrap_or(key))
        }
        (None, None) => "",
    };
    format!("{word}{warned}: {} {} of {}{each}, {left}", capacity.needed, prediction.device_used_name(), capacity.bytes)
}

fn subject(text: &mut String, report: &Report, width: usize) {
    let prediction = report.prediction;
    let gpus = match prediction.num_gpus {
        1 => prediction.gpu.clone(),
        several => format!("{several}x {}", prediction.gpu),
    };
    paragraph(text, "", &format!("{} on {gpus}, plan {}", prediction.model, report.plan), width);
    let params = prediction.params;
    let mut counts = format!("{} parameters", count(params.total));
    if params.trainable != params.total {
        let _ = write!(counts, ", {} trainable", count(params.trainable));
    }
    if params.active_per_token != params.total {
        let _ = write!(counts, ", {} active for each token", count(params.active_per_token));
    }
    paragraph(text, "", &counts, width);
}

fn bottlenecks(text: &mut String, advice: &Advice, width: usize) {
    text.push_str("\nbottlenecks\n");
    for finding in &advice.findings {
        paragraph(text, "  ", &format!("{}: {}", finding.severity.word(), finding.message), width);
        for fix in &finding.fixes {
            paragraph(text, "      ", &fix.line(&advice.outline), width);
        }
    }
}

fn memory(text: &mut String, report: &Report, width: usize) {
    let prediction = report.prediction;
    let stage = prediction.largest();
    let of = match prediction.stages.len() {
        1 => String::new(),
        several => format!(", stage {} of {several}", stage.stage),
    };
    let whose = if prediction.on_cpu { "" } else { " of a GPU" };
    let _ = writeln!(text, "\nmemory{whose} at the peak{of}");
    let mut table = Table::new([("", Align::Left), ("GiB", Align::Right), ("%", Align::Right), ("", Align::Left)]);
    for component in Component::ALL {
        let bytes = stage.component(component);
        let why =
            report.setup.and_then(|setup| setup.why_none(component, stage.peak_phase)).filter(|_| bytes == Bytes::ZERO);
        if bytes > Bytes::ZERO || why.is_some() {
            let note = why.unwrap_or_default().to_owned();
            table.row([component.key().replace('_', " "), bytes.in_gib(), percent(bytes, stage.device_used), note]);
        }
    }
    let all = percent(stage.device_used, stage.device_used);
    table.row([prediction.device_used_name().to_owned(), stage.device_used.in_gib(), all, String::new()]);
    text.push_str(&table.render("  ", width));
    let cause = format!("peak in {}: {}", stage.peak_phase.word(), stage.peak_cause);
    paragraph(text, "  ", &cause, width);
    if let Some(spread) = report.spread {
        paragraph(text, "  ", &spread.of_memory(prediction.capacity.bytes), width);
    }
}

fn stages(text: &mut String, prediction: &Prediction, width: usize) {
    text.push_str("\nstages, GiB on each GPU\n");
    let mut table = Table::new([
        ("stage", Align::Right),
        ("layers", Align::Right),
        ("static", Align::Right),
        ("allocated", Align::Right),
        ("reserved", Align::Right),
        ("device-used", Align::Right),
        ("peak in", Align::Left),
    ]);
    for stage in &prediction.stages {
        table.row([
            stage.stage.to_string(),
            stage.layers.to_string(),
            stage.static_bytes.in_gib(),
            stage.peak_allocated.in_gib(),
            stage.peak_reserved.in_gib(),
            stage.device_used.in_gib(),
            stage.peak_phase.word().to_owned(),
        ]);
    }
    text.push_str(&table.render("  ", width));
}

fn time(text: &mut String, report: &Report, width: usize) {
    let prediction = report.prediction;
    let time = &prediction.time;
    let what = if prediction.decode.is_some() { "prompts read" } else { "time of a step" };
    let _ = writeln!(text, "\n{what}: {}, mostly {}", time.step, time.bottleneck().phrase());
    text.push_str(&parts(prediction, time).render("  ", width));
    if let Some(spread) = report.spread {
        paragraph(text, "  ", &spread.of_step(), width);
    }
    let mut rates = vec![format!("{} samples/s", grouped(time.samples_per_s))];
    if let Some(tokens) = time.tokens_per_s {
        rates.push(format!("{} tokens/s", grouped(tokens)));
    }
    if let Some(tokens) = time.tokens_per_s_per_gpu.filter(|_| prediction.num_gpus > 1) {
        rates.push(format!("{} tokens/s a GPU", grouped(tokens)));
    }
    paragraph(text, "  ", &rates.join(", "), width);
    let each = if prediction.on_cpu { "" } else { " a GPU" };
    let mut usage = vec![format!("model {}{each}", time.model_flops_per_gpu)];
    usage.extend(time.mfu.map(|mfu| format!("MFU {}", Fraction(mfu))));
    usage.extend(time.hfu.map(|hfu| format!("HFU {}", Fraction(hfu))));
    usage.push(format!("DRAM {} ({} of peak)", time.bandwidth, Fraction(time.mbu)));
    paragraph(text, "  ", &usage.join(", "), width);
    if let Some(share) = report.scaling {
        let said = format!("scaling efficiency {share} (100 %: one GPU with memory for the whole model and batch)");
        paragraph(text, "  ", &said, width);
    }
    if let Some(token) = &prediction.decode {
        decode(text, token, width);
    }
    whole_training(text, report, width);
}

/// Steps, hours, energy and cost of all tokens.
fn whole_training(text: &mut String, report: &Report, width: usize) {
    let prediction = report.prediction;
    let Some(hours) = prediction.time.total_hours else { return };
    let tokens = prediction.time.total_tokens().unwrap_or_default();
    let steps = report.total_steps().map_or(String::new(), |steps| format!(" in {} steps", grouped(steps)));
    let energy = prediction.energy().map_or(String::new(), |energy| format!(", {} kWh", grouped(energy.0 / 3.6e6)));
    let currency = report.setup.map_or("", |setup| setup.currency.as_str());
    let cost = prediction.time.total_cost.map_or(String::new(), |cost| format!(", cost {} {currency}", grouped(cost)));
    let whole = crate::units::Seconds(hours * 3600.0);
    let gpu_hours = match prediction.gpu_hours().filter(|_| !prediction.on_cpu) {
        Some(hours) => format!(", {} GPU-hours", grouped(hours)),
        None => String::new(),
    };
    let said = format!("whole training {tokens:.3e} tokens{steps}: {whole}{gpu_hours}{energy}{}", cost.trim_end());
    paragraph(text, "  ", &said, width);
}

/// One more token for each request.
fn decode(text: &mut String, token: &StepTime, width: usize) {
    paragraph(text, "", &format!("then, with the cache full, a token for each request: {}", token.step), width);
    let tokens = token.tokens_per_s.map_or(String::new(), |tokens| format!("{} tokens/s, ", grouped(tokens)));
    let said = format!(
        "{tokens}DRAM {} ({} of peak), communication {}, bubble {}",
        token.bandwidth,
        Fraction(token.mbu),
        token.communication,
        token.bubble
    );
    paragraph(text, "  ", &said, width);
}

fn roofline(text: &mut String, prediction: &Prediction, all: bool, width: usize) {
    let roofline = &prediction.roofline;
    if roofline.ops.is_empty() {
        return;
    }
    text.push('\n');
    let head = format!(
        "roofline: {} in {}, {}, ridge {}",
        roofline.peak, roofline.peak_name, roofline.bandwidth, roofline.ridge
    );
    paragraph(text, "", &head, width);
    let mut table = Table::new([
        ("operator", Align::Left),
        ("runs", Align::Right),
        ("FLOP", Align::Right),
        ("traffic", Align::Right),
        ("FLOP/B", Align::Right),
        ("bound", Align::Left),
        ("time", Align::Right),
        ("%", Align::Right),
    ]);
    let whole: f64 = roofline.ops.iter().map(|op| op.seconds.0).sum();
    let shown = if all { roofline.ops.len() } else { TOP_OPERATORS.min(roofline.ops.len()) };
    let share = |seconds: f64| if whole > 0.0 { format!("{:.0}", 100.0 * seconds / whole) } else { String::new() };
    for op in &roofline.ops[..shown] {
        table.row([
            shortened(&op.name, 30),
            op.count.to_string(),
            if op.flops.0 > 0.0 { op.flops.to_string() } else { "0".to_owned() },
            op.bytes.to_string(),
            op.intensity.map_or_else(|| "–".to_owned(), |intensity| three_figures(intensity.0)),
            op.bound.word().to_owned(),
            op.seconds.to_string(),
            share(op.seconds.0),
        ]);
    }
    text.push_str(&table.render("  ", width));
    let rest = &roofline.ops[shown..];
    if !rest.is_empty() {
        let seconds: f64 = rest.iter().map(|op| op.seconds.0).sum();
        let _ = writeln!(text, "  {} more: {} % of kernel time", rest.len(), share(seconds));
    }
}

/// Where the time of the step goes, term by term: what the step waits for, and what runs beside kernels.
fn time_terms(text: &mut String, prediction: &Prediction, width: usize) {
    if prediction.time_terms.is_empty() {
        return;
    }
    text.push_str("\nterms of the time of the step\n");
    for term in &prediction.time_terms {
        let hidden =
            if term.hidden.0 > 0.0 { format!(", {} hidden beside kernels", term.hidden) } else { String::new() };
        let share = percent_of(term.seconds.0, prediction.time.step.0);
        let head = format!("{}, {}: {} ({share}){hidden}", term.name, term.part.word(), term.seconds);
        paragraph(text, "  ", &head, width);
        paragraph(text, "      ", &format!("= {}", term.formula), width);
        paragraph(text, "      ", &format!("source: {}", term.source), width);
    }
}

fn percent_of(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", 100.0 * part / whole) } else { "–".to_owned() }
}

fn terms(text: &mut String, stage: &StageMemory, width: usize) {
    text.push_str("\nterms of the memory at the peak\n");
    for component in Component::ALL {
        let mut terms: Vec<_> = stage.terms.iter().filter(|term| term.component == component).collect();
        terms.order_by_key(|term| std::cmp::Reverse(term.bytes));
        for term in terms {
            let component = component.key().replace('_', " ");
            let head = format!("{}, {component}: {} ({} bytes)", term.name, term.bytes, term.bytes.0);
            paragraph(text, "  ", &head, width);
            paragraph(text, "      ", &format!("= {}", term.formula), width);
            paragraph(text, "      ", &format!("source: {}", term.source), width);
        }
    }
}

fn timeline(text: &mut String, stage: &StageMemory, width: usize) {
    if stage.timeline.is_empty() {
        return;
    }
    text.push_str("\nallocated over the step\n");
    let mut table = Table::new([("phase", Align::Left), ("at", Align::Left), ("GiB", Align::Right)]);
    for point in &stage.timeline {
        table.row([point.phase.word().to_owned(), shortened(&point.at.to_string(), 60), point.allocated.in_gib()]);
    }
    text.push_str(&table.render("  ", width));
}

pub(super) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(std::iter::once('…')).collect()
}

fn percent(bytes: Bytes, whole: Bytes) -> String {
    bytes.share_of(whole).map_or_else(|| "–".to_owned(), |share| format!("{:.0}", share.percent()))
}

/// `124 M`, `13.0 B`, `1.04 T`: counts as people say them.
#[must_use]
pub fn count(value: u64) -> String {
    let value = value as f64;
    let steps = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")];
    steps
        .iter()
        .find(|(scale, _)| value >= scale * 0.9995)
        .map_or_else(|| format!("{value}"), |(scale, letter)| format!("{} {letter}", three_figures(value / scale)))
}

/// Three figures, thousands set apart: `12 000`.
pub(super) fn grouped(value: f64) -> String {
    let text = three_figures(value);
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), String::new()), |(w, r)| (w, format!(".{r}")));
    whole.parse().map_or_else(|_| whole.to_owned(), units::grouped) + &rest
}

#[cfg(test)]
mod tests;
