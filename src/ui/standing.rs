//! The second line: how far observed is from predicted, and why.

mod metric;
mod served;
mod urgent;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use self::metric::{LineMetric, MetricRank, most_important};
use self::served::answered;
use self::urgent::{alert, unread, urgent};
use super::Look;
use super::header::{difference, is_unplanned, joined, terabytes, tokens};
use super::memory_unit::MemoryUnit;
use super::text::{RenderLine, fit, marked, signed_percent, width_of, without_mean};
use crate::app::{SOON, State, broken_loss, core_wait, mismatch_words, other_machine, unexplained};
use crate::compare::{Comparison, Explanation, Forecast, GrowthKind, Residual, named_first};
use crate::predict::Prediction;
use crate::printable::printable;
use crate::reading::{Absence, Reading, ReadingKind};
use crate::units::{BytesPerSec, Seconds, three_figures};

/// Draws the line.
pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let width = area.width as usize;
    if state.plans.editor.is_unbegun() {
        let words = format!(" {}.yaml is not there: choose what it begins with", printable(state.plans.editor.name()));
        return broken(state, look, Line::styled(words, theme.dim()), area, buffer);
    }
    if state.plans.run.is_none()
        && let Some(fault) = state.plans.editor.first_fault()
    {
        let shown = if state.plans.editor.prediction().is_some() { " (panes: last good)" } else { "" };
        let place = state.plans.editor.faults().first().and_then(|fault| fault.at);
        let (line, style) = match place.filter(|_| state.plans.editor.waits_for_model()) {
            Some(at) => (format!(" no model yet{shown}: its name is wanted in line {}", at.line), theme.warning()),
            None if state.plans.editor.waits_for_bench() => (format!(" {}{shown}", fault.message), theme.warning()),
            None => (format!(" plan broken{shown}: {}", printable(&fault.to_string())), theme.danger()),
        };
        return broken(state, look, Line::styled(line, style), area, buffer);
    }
    let Some(prediction) = state.plans.compared().prediction() else { return };
    let parts = parts(state, prediction, look);
    // An alert has half the line at most, then the reason comes whole before anything else is cut, then what wants a hand,
    // then as many figures as fit.
    let alerted = alert(state, width / 2, look).map_or(0, |alert| alert.width() + 3);
    let why = why(state, width.saturating_sub(1 + alerted), look);
    let room = width.saturating_sub(1 + if why.is_empty() { 0 } else { width_of(&why) + 3 });
    // Beside figures it takes half the line; where nothing is read they are predictions alone.
    let most = if why.is_empty() && unread(state).is_none() { width / 2 } else { room };
    let urgent = urgent(state, most.max(alerted.saturating_sub(3)), look);
    let room = room.saturating_sub(if urgent.is_empty() { 0 } else { width_of(&urgent) + 3 });
    let middle = joined(most_important(parts, room), room, look);
    let mut spans = vec![Span::raw(" ")];
    for (index, part) in [urgent, middle, why].into_iter().filter(|part| !part.is_empty()).enumerate() {
        if index > 0 {
            spans.push(Span::styled(" │ ", theme.frame()));
        }
        spans.extend(part);
    }
    Line::from(spans).render(area, buffer);
}

/// The line of a plan that makes no prediction. What has become of the run comes before it: how it ended, what holds it
/// up, how long its steps take.
fn broken(state: &State, look: &Look, plan: Line<'_>, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let width = area.width as usize;
    let stalls = || state.run.telemetry.step_cause(&state.monitor, state.now).filter(|cause| cause.stalls);
    let mut spans = Vec::new();
    if let Some(alert) = alert(state, width.saturating_sub(1), look) {
        spans.extend([Span::raw(" "), alert]);
    } else if let Some(ended) = state.run.telemetry.ended(&state.monitor, state.now) {
        spans.push(Span::styled(format!(" {}", printable(&ended)), theme.danger()));
    } else if let Some(cause) = stalls() {
        spans.push(Span::styled(fit(&format!(" {}", printable(&cause.words)), width), theme.warning()));
    } else if state.monitor.attached.is_some() {
        // Its last part is for runs that nobody has a plan of.
        let mut told = unplanned(state, look);
        told.pop();
        let told = if step_of(state).value().is_some() { joined(told, width / 2, look) } else { Vec::new() };
        spans.extend(if told.is_empty() { None } else { Some(Span::raw(" ")) });
        spans.extend(told);
    }
    if spans.is_empty() {
        return Line::styled(fit(&plan.to_string(), width), plan.style).render(area, buffer);
    }
    let left = width.saturating_sub(width_of(&spans) + 2);
    if left > LEAST_OF_A_FAULT {
        spans.push(Span::styled(" │", theme.frame()));
        spans.push(Span::styled(fit(&plan.to_string(), left), plan.style));
    }
    Line::from(spans).render(area, buffer);
}

/// A plan's fault that has less room than this says nothing.
const LEAST_OF_A_FAULT: usize = 16;

/// The metrics, the most important first.
fn parts<'a>(state: &State, prediction: &Prediction, look: &Look) -> Vec<LineMetric<'a>> {
    if is_unplanned(state) {
        return unplanned(state, look).into_iter().map(LineMetric::usual).collect();
    }
    let mut parts = match &state.run.comparison {
        Some(comparison) => compared(state, comparison, look),
        None => alone(prediction, look).into_iter().map(LineMetric::usual).collect(),
    };
    let mut predicted = match state.plans.compared().serves() {
        true => answered(prediction, state.run.comparison.as_ref(), look).into_iter().map(LineMetric::usual).collect(),
        false => predicted(prediction, state.run.comparison.as_ref(), look),
    }
    .into_iter();
    parts.extend(predicted.next());
    parts.extend(eta(state, look).map(LineMetric::usual));
    parts.extend(predicted);
    if !state.run.calibration.is_empty() {
        // What stands left of the arrows is no longer what the plan alone predicts: it is said before any of it.
        let calibrated = vec![Span::styled("calibrated", look.theme.warning())];
        parts.insert(0, LineMetric { spans: calibrated, rank: MetricRank::Off });
    }
    parts
}

/// What an attached process that has no plan tells itself: an example's figures are none of its.
fn unplanned<'a>(state: &State, look: &Look) -> Vec<Vec<Span<'a>>> {
    let theme = &look.theme;
    let step = marked(&step_of(state), ToString::to_string);
    let mut parts = vec![vec![Span::styled("step ", theme.dim()), Span::styled(step, theme.observed())]];
    parts.extend(eta(state, look));
    parts.push(vec![Span::styled("no plan to compare it with (i in the monitor reads one)", theme.dim())]);
    parts
}

/// How long a step of the run takes, as it tells.
fn step_of(state: &State) -> Reading<Seconds> {
    let told = state.run.telemetry.progress(&state.monitor, state.now);
    told.map_or_else(Reading::not_read, |(_, progress)| progress.step_time)
}

/// When the run will be done.
fn eta<'a>(state: &State, look: &Look) -> Option<Vec<Span<'a>>> {
    if state.plans.compared().serves() {
        return None;
    }
    let (_, progress) = state.run.telemetry.progress(&state.monitor, state.now)?;
    let left = state.run.telemetry.remaining(&progress, &state.monitor, state.now).value().copied()?;
    Some(vec![Span::styled("ETA ", look.theme.dim()), Span::styled(left.roughly(), look.theme.observed())])
}

/// What the verdict comes from, in words.
#[must_use]
pub fn cause_words(state: &State) -> Option<String> {
    let (words, sure) = cause(state)?;
    let tried = unexplained(state).filter(|[said, _]| *said == words).map(|[_, brackets]| brackets);
    Some(words + &sure + &tried.unwrap_or_default())
}

/// What the verdict comes from: how the run ended, what grows, what is another than planned, or the likeliest reason for
/// what lies outside; with how sure that is.
fn cause(state: &State) -> Option<(String, String)> {
    let said = |words: String| Some((words, String::new()));
    if let Some(known) = &state.run.ran_out {
        return said(known.explained.headline.clone());
    }
    if let Some(ended) = state.run.telemetry.ended(&state.monitor, state.now) {
        return said(ended);
    }
    // How fast it is matters to nobody.
    if let Some(broken) = broken_loss(state) {
        return broken.is_dated().then(|| (format!("loss {}", broken.words()), String::new()));
    }
    let below = &state.run.telemetry.news.runs_below;
    if !below.is_empty() {
        let pids: Vec<String> = below.iter().take(4).map(ToString::to_string).collect();
        return said(format!("attach to one of its {} runs: {}", below.len(), pids.join(", ")));
    }
    let place = state.run.telemetry.step_cause(&state.monitor, state.now);
    // What a step that does not end waits for is known for sure.
    if let Some(stall) = place.as_ref().filter(|cause| cause.stalls) {
        return said(stall.words.clone());
    }
    if let Some(mismatch) = mismatch_words(state).filter(|_| state.run.comparison.is_some()) {
        return said(mismatch);
    }
    let is_notable = state.run.comparison.as_ref().is_some_and(Comparison::is_notable);
    let machine = || other_machine(state, state.plans.compared().job()?);
    // How it uses the machine explains a part at most of what its stack shows elsewhere.
    let seen = state.run.explaining.found.first().is_some_and(Explanation::is_seen);
    if let Some(machine) = (is_notable && !seen).then(machine).flatten() {
        let machine = format!("the run has {machine}");
        return said(core_wait(state).map_or(machine.clone(), |wait| format!("{wait}; {machine}")));
    }
    let grows = || match state.run.outlook.memory {
        Forecast::Growing(growth) if is_notable || growth.left.0 < SOON.0 => {
            Some(state.run.outlook.grows.map_or("memory grows with time, which no plan's does", GrowthKind::words))
        }
        _ => None,
    };
    match state.run.explaining.found.first() {
        Some(best) if best.fits => {
            let named = named_first(&state.run.explaining.found);
            let words: Vec<String> = named.iter().map(Explanation::words).collect();
            let shares: Vec<String> = named.iter().map(|one| format!("{:.0} %", one.share.percent())).collect();
            let words = words.join(" or ");
            // Beside another share it is said what this one is.
            let sure = if words.contains('%') { " sure" } else { "" };
            Some((words, format!(" ({}{sure})", shares.join(", "))))
        }
        best => match grows() {
            Some(grows) => said(grows.to_owned()),
            None => {
                let nearest = place.map(|cause| cause.words).or_else(|| core_wait(state));
                let nearest = nearest.or_else(|| Some(best?.verdict()));
                // What was tried stands in Compare: the figures of the line keep their room.
                said(nearest.or_else(|| unexplained(state).map(|[said, _]| said))?)
            }
        },
    }
}

/// The cause, whole where `width` cells hold it; nothing while there is none.
fn why<'a>(state: &State, width: usize, look: &Look) -> Vec<Span<'a>> {
    let Some((words, sure)) = cause(state) else { return Vec::new() };
    let mut words = printable(&words);
    if words.chars().count() > width
        && let Some((first, _)) = words.split_once(" (")
    {
        // Figures in parentheses are said again where the whole of it stands.
        words.truncate(first.len());
    }
    let (label, sure) = match width.checked_sub(words.chars().count()) {
        Some(left) if left >= WHY.len() + sure.len() => (WHY, sure),
        Some(left) if left >= WHY.len() => (WHY, String::new()),
        _ => ("", String::new()),
    };
    vec![
        Span::styled(label, look.theme.dim()),
        Span::styled(fit(&words, width), look.theme.warning()),
        Span::styled(sure, look.theme.dim()),
    ]
}

const WHY: &str = "why: ";

/// Memory and bandwidth, while nothing is observed.
fn alone<'a>(prediction: &Prediction, look: &Look) -> Vec<Vec<Span<'a>>> {
    let theme = &look.theme;
    let figure = |label: &'static str, value: String| {
        vec![Span::styled(label, theme.dim()), Span::styled(value, theme.predicted())]
    };
    vec![
        // Said once, before the first: nothing of the line is observed.
        figure("predicted memory ", prediction.largest().device_used.to_string()),
        figure("DRAM ", prediction.time.bandwidth.to_string()),
    ]
}

fn compared<'a>(state: &State, comparison: &Comparison, look: &Look) -> Vec<LineMetric<'a>> {
    // What the verdict is of stands beside it.
    let (label, seen) = comparison.notable_memory();
    let unit = MemoryUnit::of(seen.predicted.max(seen.observed.value().copied().unwrap_or_default()));
    let word = if unit == MemoryUnit::Mib { " MiB" } else { " GiB" };
    let mut memory = residual(label, seen, |bytes| unit.show(bytes), word, look);
    // Of many hosts' GPUs the one that is off is named.
    let device = comparison.whose.device().filter(|_| comparison.memory.notable && state.monitor.cluster.is_there());
    if let Some(device) = device {
        memory.insert(1, Span::styled(format!("{} ", state.monitor.gpu_name_at(device)), look.theme.warning()));
    }
    let memory = LineMetric::of(memory, seen);
    let bandwidth = &comparison.bandwidth;
    // Nobody counts the DRAM traffic of a CPU.
    let counted = bandwidth.observed.absence() != Some(&Absence::NoGpu);
    let (show, unit) = if bandwidth.predicted.0 < SLOW.0 {
        (gigabytes as fn(BytesPerSec) -> String, " GB/s")
    } else {
        (terabytes as fn(BytesPerSec) -> String, " TB/s")
    };
    let dram = || LineMetric::of(residual("DRAM ", bandwidth, show, unit, look), bandwidth);
    std::iter::once(memory).chain(counted.then(dram)).collect()
}

/// Step time and what follows from it: against what is observed of it, else as the plan predicts.
fn predicted<'a>(prediction: &Prediction, comparison: Option<&Comparison>, look: &Look) -> Vec<LineMetric<'a>> {
    let theme = &look.theme;
    let mut parts = Vec::new();
    // Beside observed figures those that are not say so.
    let label = if comparison.is_some() { " predicted" } else { "" };
    let step = comparison.map(|comparison| &comparison.step).filter(|step| step.observed.value().is_some());
    match step {
        Some(step) => {
            let longest = step.observed.value().map_or(step.predicted.0, |seen| seen.0.max(step.predicted.0));
            let (show, unit) = if longest < 0.999_5 {
                (milliseconds as fn(Seconds) -> String, " ms")
            } else {
                (seconds as fn(Seconds) -> String, " s")
            };
            parts.push(LineMetric::of(residual("step ", step, show, unit, look), step));
        }
        None => parts.push(LineMetric::usual(vec![
            Span::styled("step ", theme.dim()),
            Span::styled(prediction.time.step.to_string(), theme.predicted()),
            Span::styled(label, theme.dim()),
        ])),
    }
    match comparison.and_then(|comparison| comparison.tokens.as_ref()).filter(|rate| rate.observed.value().is_some()) {
        Some(rate) => {
            let spans = residual("", rate, |rate| tokens(rate.0), " tok/s", look);
            // Beside the step they say the same again.
            parts.push(if step.is_some() { LineMetric::usual(spans) } else { LineMetric::of(spans, rate) });
        }
        None => parts.extend(prediction.time.tokens_per_s.map(|rate| {
            let unit = Span::styled(format!(" tok/s{label}"), theme.dim());
            LineMetric::usual(vec![Span::styled(tokens(rate), theme.predicted()), unit])
        })),
    }
    let mfu = comparison.and_then(|comparison| comparison.mfu.as_ref()).filter(|mfu| mfu.observed.value().is_some());
    let shown = match mfu {
        Some(mfu) => Some(residual("MFU ", mfu, |mfu| format!("{:.0}", mfu.percent()), " %", look)),
        None => prediction.time.mfu.map(|mfu| {
            let share = format!("{:.0} %", mfu * 100.0);
            vec![
                Span::styled("MFU ", theme.dim()),
                Span::styled(share, theme.predicted()),
                Span::styled(label, theme.dim()),
            ]
        }),
    };
    parts.extend(shown.map(LineMetric::usual));
    parts
}

/// Below this two places of TB/s show no figure.
const SLOW: BytesPerSec = BytesPerSec(1e10);

fn gigabytes(rate: BytesPerSec) -> String {
    three_figures(rate.0 / 1e9)
}

fn seconds(time: Seconds) -> String {
    three_figures(time.0)
}

fn milliseconds(time: Seconds) -> String {
    three_figures(time.0 * 1e3)
}

/// `memory 71.2→75.1 GiB +5 % ▲`: predicted, observed, difference.
fn residual<'a, T: Copy>(
    label: &'static str,
    residual: &Residual<T>,
    show: impl Fn(T) -> String,
    unit: &'static str,
    look: &Look,
) -> Vec<Span<'a>> {
    let theme = &look.theme;
    let observed = marked(&residual.observed, |value| show(*value));
    let predicted = show(residual.predicted);
    // A thousand that both have is written once: `35.2→33.1 k`.
    let shared = predicted.rsplit_once(' ').filter(|(_, unit)| observed.ends_with(&format!(" {unit}")));
    let predicted = shared.map_or(predicted.as_str(), |(figure, _)| figure).to_owned();
    // Of a log alone no device is seen: what is left says more.
    if residual.observed.absence() == Some(&Absence::NotAttached) {
        return vec![
            Span::styled(label, theme.dim()),
            Span::styled(predicted, theme.predicted()),
            Span::styled(unit, theme.dim()),
            Span::styled(" predicted", theme.dim()),
        ];
    }
    let mut spans = vec![
        Span::styled(label, theme.dim()),
        Span::styled(predicted, theme.predicted()),
        Span::styled(look.arrow(), theme.dim()),
        Span::styled(observed, theme.observed()),
        Span::styled(unit, theme.dim()),
    ];
    if let Reading::Absent(why) = &residual.observed {
        spans.push(Span::styled(format!(" {}", without_mean(why)), theme.dim()));
    }
    if let Some(relative) = residual.relative {
        let (style, arrow) = difference(residual, relative, look);
        // Of a bound the difference is one as well.
        let mark =
            residual.observed.kind().filter(|kind| *kind == ReadingKind::UpperBound).map_or("", ReadingKind::mark);
        spans.push(Span::styled(format!(" {mark}{}{arrow}", signed_percent(relative)), style));
    }
    spans
}
