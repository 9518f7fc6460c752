//! The report as a person wants it in a terminal: the verdict first, then why.

use std::fmt::Write as _;

use super::Report;
use super::table::{Align, Table};
use crate::advise::Advice;
use crate::predict::{Component, Prediction, StageMemory, StepTime, Verdict};
use crate::printable::printable;
use crate::units::{self, Bytes, Fraction, three_figures};

/// No line is wider.
const WIDTH: usize = 100;

/// Operators that the short report shows; the rest are summed up in a line.
const TOP_OPERATORS: usize = 8;

/// The report; `verbose` adds every term with its formula and source, the whole timeline
/// and all operators.
#[must_use]
pub fn report(report: &Report, verbose: bool) -> String {
    let prediction = report.prediction;
    let mut text = format!("{}\n", verdict(prediction));
    subject(&mut text, report);
    for (_, missing) in prediction.lacking() {
        paragraph(&mut text, "", &format!("warning: {missing}"));
    }
    if let Some(found) = report.max_batch {
        paragraph(&mut text, "", &found.words(prediction.capacity.bytes));
    }
    if let Some(found) = report.max_sequence {
        paragraph(&mut text, "", &found.words(prediction.capacity.bytes));
    }
    if let Some(advice) = report.advice.filter(|advice| !advice.findings.is_empty()) {
        bottlenecks(&mut text, advice);
    }
    memory(&mut text, prediction);
    if prediction.stages.len() > 1 {
        stages(&mut text, prediction);
    }
    time(&mut text, report);
    roofline(&mut text, prediction, verbose);
    if verbose {
        terms(&mut text, prediction.largest());
        timeline(&mut text, prediction.largest());
    }
    if !prediction.assumptions.is_empty() {
        text.push_str("\nassumptions\n");
        for assumption in &prediction.assumptions {
            paragraph(&mut text, "  ", assumption);
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
    format!("{word}: {} device-used of {} on each GPU, {left}", capacity.needed, capacity.bytes)
}

fn subject(text: &mut String, report: &Report) {
    let prediction = report.prediction;
    let gpus = match prediction.num_gpus {
        1 => prediction.gpu.clone(),
        several => format!("{several}x {}", prediction.gpu),
    };
    paragraph(text, "", &format!("{} on {gpus}, plan {}", prediction.model, report.plan));
    let params = prediction.params;
    let mut counts = format!("{} parameters", count(params.total));
    if params.trainable != params.total {
        let _ = write!(counts, ", {} trainable", count(params.trainable));
    }
    if params.active_per_token != params.total {
        let _ = write!(counts, ", {} active for each token", count(params.active_per_token));
    }
    let _ = writeln!(text, "{counts}");
}

fn bottlenecks(text: &mut String, advice: &Advice) {
    text.push_str("\nbottlenecks\n");
    for finding in &advice.findings {
        paragraph(text, "  ", &format!("{}: {}", finding.severity.word(), finding.message));
        for fix in &finding.fixes {
            paragraph(text, "      ", &fix.line(&advice.outline));
        }
    }
}

fn memory(text: &mut String, prediction: &Prediction) {
    let stage = prediction.largest();
    let of = match prediction.stages.len() {
        1 => String::new(),
        several => format!(", stage {} of {several}", stage.stage),
    };
    let _ = writeln!(text, "\nmemory of a GPU at the peak{of}");
    let mut table = Table::new([("", Align::Left), ("GiB", Align::Right), ("%", Align::Right)]);
    for component in Component::ALL {
        let bytes = stage.component(component);
        if bytes > Bytes::ZERO {
            table.row([component.key().replace('_', " "), bytes.in_gib(), percent(bytes, stage.device_used)]);
        }
    }
    table.row(["device-used".to_owned(), stage.device_used.in_gib(), percent(stage.device_used, stage.device_used)]);
    text.push_str(&table.render("  "));
    let cause = format!("peak in {}: {}", stage.peak_phase.word(), stage.peak_cause);
    paragraph(text, "  ", &cause);

    text.push('\n');
    let mut figures = Table::new([("", Align::Left), ("GiB", Align::Right), ("", Align::Left)]);
    let rows = [
        ("static", stage.static_bytes, "allocated between steps"),
        ("allocated", stage.peak_allocated, "tensors at the peak: torch.cuda.max_memory_allocated()"),
        ("reserved", stage.peak_reserved, "held by the caching allocator: torch.cuda.max_memory_reserved()"),
        ("device-used", stage.device_used, "with CUDA context, NCCL and workspaces: nvidia-smi"),
    ];
    for (name, bytes, meaning) in rows {
        figures.row([name.to_owned(), bytes.in_gib(), meaning.to_owned()]);
    }
    text.push_str(&figures.render("  "));
}

fn stages(text: &mut String, prediction: &Prediction) {
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
    text.push_str(&table.render("  "));
}

fn time(text: &mut String, report: &Report) {
    let prediction = report.prediction;
    let time = &prediction.time;
    let what = if prediction.decode.is_some() { "prompts read" } else { "time of a step" };
    let _ = writeln!(text, "\n{what}: {}", time.step);
    let _ = writeln!(
        text,
        "  compute-bound {}, memory-bound {}, communication {}, bubble {},\n  waiting for the host {}: mostly {}",
        time.compute,
        time.memory_bound,
        time.communication,
        time.bubble,
        time.launch,
        time.bottleneck().phrase()
    );
    let mut rates = vec![format!("{} samples/s", grouped(time.samples_per_s))];
    if let Some(tokens) = time.tokens_per_s {
        rates.push(format!("{} tokens/s", grouped(tokens)));
    }
    if let Some(tokens) = time.tokens_per_s_per_gpu.filter(|_| prediction.num_gpus > 1) {
        rates.push(format!("{} tokens/s a GPU", grouped(tokens)));
    }
    let _ = writeln!(text, "  {}", rates.join(", "));
    let mut usage = vec![format!("model {} a GPU", time.model_flops_per_gpu)];
    usage.extend(time.mfu.map(|mfu| format!("MFU {}", Fraction(mfu))));
    usage.extend(time.hfu.map(|hfu| format!("HFU {}", Fraction(hfu))));
    usage.push(format!("DRAM {} ({} of peak)", time.bandwidth, Fraction(time.mbu)));
    let _ = writeln!(text, "  {}", usage.join(", "));
    // Above that, the plan's kernels differ from those of the lone GPU: no measure of what splitting costs.
    if let Some(share) = report.scaling.filter(|share| share.0 <= 1.0) {
        let _ =
            writeln!(text, "  scaling efficiency {share} (100 %: one GPU with memory for the whole model and batch)");
    }
    if let Some(token) = &prediction.decode {
        decode(text, token);
    }
    if let Some(hours) = time.total_hours {
        let cost = time.total_cost.map_or(String::new(), |cost| format!(", cost {}", grouped(cost)));
        let tokens = time.total_tokens().unwrap_or_default();
        let energy = prediction.energy().map_or(String::new(), |energy| format!(", {} kWh", grouped(energy.0 / 3.6e6)));
        let whole = crate::units::Seconds(hours * 3600.0);
        let gpu_hours = grouped(prediction.gpu_hours().unwrap_or(hours));
        let _ = writeln!(text, "  whole training {tokens:.3e} tokens: {whole}, {gpu_hours} GPU-hours{energy}{cost}");
    }
}

/// One more token for each request.
fn decode(text: &mut String, token: &StepTime) {
    let _ = writeln!(text, "then, with the cache full, a token for each request: {}", token.step);
    let tokens = token.tokens_per_s.map_or(String::new(), |tokens| format!("{} tokens/s, ", grouped(tokens)));
    let _ = writeln!(
        text,
        "  {tokens}DRAM {} ({} of peak), communication {}, bubble {}",
        token.bandwidth,
        Fraction(token.mbu),
        token.communication,
        token.bubble
    );
}

fn roofline(text: &mut String, prediction: &Prediction, all: bool) {
    let roofline = &prediction.roofline;
    if roofline.ops.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\nroofline: {} in {}, {}, ridge {}",
        roofline.peak, roofline.peak_name, roofline.bandwidth, roofline.ridge
    );
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
    text.push_str(&table.render("  "));
    let rest = &roofline.ops[shown..];
    if !rest.is_empty() {
        let seconds: f64 = rest.iter().map(|op| op.seconds.0).sum();
        let _ = writeln!(text, "  {} more: {} % of the time", rest.len(), share(seconds));
    }
}

fn terms(text: &mut String, stage: &StageMemory) {
    text.push_str("\nterms of the memory at the peak\n");
    for component in Component::ALL {
        let mut terms: Vec<_> = stage.terms.iter().filter(|term| term.component == component).collect();
        terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
        for term in terms {
            let component = component.key().replace('_', " ");
            let head = format!("{}, {component}: {} ({} bytes)", term.name, term.bytes, term.bytes.0);
            paragraph(text, "  ", &head);
            paragraph(text, "      ", &format!("= {}", term.formula));
            paragraph(text, "      ", &format!("source: {}", term.source));
        }
    }
}

fn timeline(text: &mut String, stage: &StageMemory) {
    if stage.timeline.is_empty() {
        return;
    }
    text.push_str("\nallocated over the step\n");
    let mut table = Table::new([("phase", Align::Left), ("at", Align::Left), ("GiB", Align::Right)]);
    for point in &stage.timeline {
        table.row([point.phase.word().to_owned(), shortened(&point.at.to_string(), 60), point.allocated.in_gib()]);
    }
    text.push_str(&table.render("  "));
}

/// `words` as lines within the width, later ones set in.
pub(super) fn paragraph(text: &mut String, indent: &str, words: &str) {
    let hanging = format!("{indent}  ");
    let options = textwrap::Options::new(WIDTH).initial_indent(indent).subsequent_indent(&hanging);
    for line in textwrap::wrap(&printable(words), options) {
        text.push_str(&line);
        text.push('\n');
    }
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
