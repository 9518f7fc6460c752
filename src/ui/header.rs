//! The two top lines: what runs and whether it fits; how far observed is from predicted.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::text::{RenderLine, fit, width_of};
use super::{Look, standing};
use crate::app::{
    AttachedProcess, AttachedState, Editor, Gravity, RecordingState, Recordings, SourceState, State, hangs_for,
    has_no_plan, run_verdict,
};
use crate::catalog::Generation;
use crate::compare::{Residual, RunPhase};
use crate::predict::{Prediction, Verdict};
use crate::printable::printable;
use crate::reading::playback::Playback;
use crate::reading::{Activity, SourceKind};
use crate::units::{BytesPerSec, Seconds, three_figures};

/// A plan's name is not cut below this.
const SHORTEST_NAME: usize = 8;
/// From this width on the product is named in this line, and the plan's figures stand beside whether it fits.
pub const WITH_THE_PRODUCT: u16 = 100;
const WITH_THE_FIGURES: u16 = 110;

/// Cells between what runs and whether it fits.
const GAP: usize = 3;

/// From this width on it says whether a draft fits.
const WITH_THE_DRAFT: u16 = 80;

/// Draws both lines into the top of `area`.
pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let rows = area.rows().collect::<Vec<_>>();
    if let [first, second, ..] = rows.as_slice() {
        what_runs(state, look, *first, buffer);
        standing::draw(state, look, *second, buffer);
    }
}

fn what_runs(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    // Of the run's plan: what is edited beside it changes nothing here.
    let plan = state.plans.compared();
    let changed = if state.plans.run.is_none() && plan.modified() { "*" } else { "" };
    let example = if plan.is_example() && state.recordings.playback.is_none() { " example" } else { "" };
    let source = source(state, look);
    let product = if area.width >= WITH_THE_PRODUCT { " memwall" } else { "" };
    let unwritten = hangs_for(state).map(|time| format!("saving for {time}"));
    let mut others: Vec<Vec<Span<'_>>> =
        unwritten.map(|text| vec![Span::styled(text, theme.danger())]).into_iter().collect();
    others.extend(recording(&state.recordings, look));
    others.extend(state.monitor.attached.as_ref().map(|attached| attached_to(state, attached, look)));
    if let Some(prediction) = plan.prediction().filter(|_| !is_unplanned(state)) {
        let gpus = format!("{}× {}", prediction.num_gpus, prediction.gpu_short);
        others.push(vec![Span::styled(gpus, theme.text())]);
    }
    // Where figures come from never falls out: the plan's name is cut before.
    let beside = width_of(&source) + 3 + product.len() + 1 + changed.len() + example.len();
    let name = width_of(&[Span::raw(printable(plan.name()))]);
    let left = beside + name + others.iter().map(|part| 3 + width_of(part)).sum::<usize>();
    let right = right_end(state, look, (area.width, left));
    let room = (area.width as usize).saturating_sub(width_of(&right) + 1);
    let name = room.saturating_sub(beside).max(SHORTEST_NAME);
    let mut parts = vec![
        vec![
            Span::styled(product, theme.dim()),
            Span::styled(format!(" {}{changed}", fit(&printable(plan.name()), name)), theme.accent()),
            Span::styled(example, theme.dim()),
        ],
        source,
    ];
    if state.recordings.playback.is_some() {
        // What time it is there comes first, and stays on narrow screens.
        parts.swap(0, 1);
        parts[0].insert(0, Span::raw(" "));
    }
    parts.extend(others);
    // A plan with errors has none.
    let summary = plan.summary();
    if !is_unplanned(state) && !summary.is_empty() {
        parts.push(vec![Span::styled(summary, theme.text())]);
    }
    let shown = joined(parts, room, look);
    Line::from(shown).render(area, buffer);
    Line::from(right).right_aligned().render(area, buffer);
}

/// Whether a process is attached that has no plan: what an example needs, and whether it fits, says nothing of it.
pub fn is_unplanned(state: &State) -> bool {
    state.monitor.attached.is_some() && has_no_plan(state)
}

/// How much of a plan's memory stands beside whether it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FitFigures {
    /// What it needs and what there is.
    Both,
    /// What it needs, or what is lacking.
    Needed,
    Neither,
}

/// The end of the line with as many of the plan's figures as leave room for `left` cells before it.
fn right_end<'a>(state: &State, look: &Look, (width, left): (u16, usize)) -> Vec<Span<'a>> {
    let with = |figures| verdicts(state, look, width, figures);
    let has_room = |end: &Vec<Span<'_>>| left + GAP + width_of(end) <= usize::from(width);
    if width >= WITH_THE_FIGURES {
        return with(FitFigures::Both);
    }
    let wide = [FitFigures::Both, FitFigures::Needed].into_iter().map(with).find(has_room);
    wide.unwrap_or_else(|| with(FitFigures::Neither))
}

/// Whether the run's plan fits, whether the draft beside it does, and the verdict about the run.
fn verdicts<'a>(state: &State, look: &Look, width: u16, figures: FitFigures) -> Vec<Span<'a>> {
    let mut spans = Vec::new();
    if state.plans.editor.is_unbegun() {
        spans.push(Span::styled("NEW PLAN", look.theme.dim()));
    } else if state.plans.run.is_none() && !state.plans.editor.faults().is_empty() {
        spans.push(match state.plans.editor.waits_for_bench() {
            true => Span::styled("UNMEASURED", look.theme.warning()),
            false => Span::styled("INVALID", look.theme.danger()),
        });
    } else if let Some(prediction) = state.plans.compared().prediction().filter(|_| !is_unplanned(state)) {
        spans.push(fits(prediction, look, figures));
    }
    if state.plans.drafted_beside().is_some() {
        spans.push(beside("draft", &state.plans.editor, look, width));
    } else if state.plans.run.is_some() && state.plans.stands_alone() {
        spans.push(beside("lesson", &state.plans.editor, look, width));
    }
    let run = run_verdict(state);
    let style = match run.gravity {
        Gravity::Good => look.theme.verdict(Verdict::Fits),
        Gravity::Quiet => look.theme.dim(),
        Gravity::Warning => look.theme.verdict(Verdict::Tight),
        Gravity::Danger => look.theme.verdict(Verdict::DoesNotFit),
    };
    spans.push(Span::raw(" "));
    spans.push(Span::styled(format!(" {} ", run.words), style));
    spans
}

/// Whether the draft or the lesson fits, behind what is said of the run's plan: nobody reads the one for the other.
fn beside<'a>(what: &str, plan: &Editor, look: &Look, width: u16) -> Span<'a> {
    let valid = plan.prediction().filter(|_| plan.faults().is_empty());
    let (words, style) = match valid.map(|prediction| prediction.capacity.verdict()) {
        None => (" invalid", look.theme.danger()),
        Some(Verdict::Fits) => (" fits", look.theme.accent()),
        Some(Verdict::Tight) => (" tight", look.theme.warning()),
        Some(Verdict::DoesNotFit) => (" too big", look.theme.danger()),
    };
    // Where figures come from stays before what the colour tells too.
    let words = if width < WITH_THE_DRAFT { "" } else { words };
    Span::styled(format!("  {what}{words}"), style)
}

/// Joins parts by a bar as far as they fit: the least important, at the end, fall out first.
pub fn joined<'a>(parts: Vec<Vec<Span<'a>>>, room: usize, look: &Look) -> Vec<Span<'a>> {
    let mut spans: Vec<Span<'a>> = Vec::new();
    for part in parts {
        let bar = if spans.is_empty() { 0 } else { 3 };
        if width_of(&spans) + bar + width_of(&part) > room {
            break;
        }
        if bar > 0 {
            spans.push(Span::styled(" │ ", look.theme.frame()));
        }
        spans.extend(part);
    }
    spans
}

fn source<'a>(state: &'a State, look: &Look) -> Vec<Span<'a>> {
    let theme = &look.theme;
    match &state.monitor.source {
        SourceState::Starting if state.plans.compared().prediction().is_none() => {
            vec![Span::styled("waits for a plan", theme.dim())]
        }
        SourceState::Starting => vec![Span::styled("source starting", theme.dim())],
        // Why, the monitor pane says.
        SourceState::Failed(_) if is_for_cpu(state) => vec![Span::styled("no GPU", theme.dim())],
        SourceState::Failed(_) => vec![Span::styled("no source", theme.danger())],
        SourceState::Unwatched => vec![Span::styled("no run", theme.dim())],
        SourceState::Running(info) => {
            let live = !matches!(info.kind, SourceKind::Demo | SourceKind::Replay);
            let style = if live { theme.good() } else { theme.warning() };
            let mut spans = vec![Span::styled(info.kind.word(), style)];
            let elsewhere = info.kind == SourceKind::Prometheus;
            if elsewhere && state.monitor.run_devices().any(|(_, device)| device.is_simulated()) {
                spans.push(Span::styled(" of a demo", theme.warning()));
            }
            match &state.recordings.playback {
                Some(playback) => spans.extend(position(playback, look)),
                None => spans.push(age(state, look)),
            }
            spans
        }
    }
}

/// Whether the plan trains without a GPU.
pub fn is_for_cpu(state: &State) -> bool {
    state.plans.compared().job().is_some_and(|job| job.hardware.gpu.generation == Generation::Cpu)
}

/// Where in a recording the screen stands: `0:12:03/1:00:00 ×4`; with where it is on the way to, `→ 0:50:00`.
fn position<'a>(playback: &Playback, look: &Look) -> Vec<Span<'a>> {
    let theme = &look.theme;
    let place = format!(" {}/{}", playback.clock(playback.at), playback.clock(playback.end));
    let mut spans = vec![Span::styled(place, theme.text())];
    if let Some(going_to) = playback.going_to {
        spans.push(Span::styled(format!(" {} {}", look.arrow().trim(), playback.clock(going_to)), theme.warning()));
    } else if playback.ended() {
        let end = if playback.damage.is_some() { " breaks off" } else { " end" };
        spans.push(Span::styled(end, theme.warning()));
    } else if playback.paused {
        spans.push(Span::styled(" paused", theme.warning()));
    }
    if playback.speed != 1.0 {
        spans.push(Span::styled(format!(" ×{}", playback.speed), theme.dim()));
    }
    spans
}

/// That what is observed is written to a file.
fn recording<'a>(recordings: &Recordings, look: &Look) -> Option<Vec<Span<'a>>> {
    match &recordings.recording {
        RecordingState::Off => None,
        RecordingState::Starting | RecordingState::Ending => Some(vec![Span::styled("○ rec", look.theme.dim())]),
        RecordingState::On(_) => Some(vec![Span::styled("● rec", look.theme.danger())]),
    }
}

/// Live while figures are as fresh as they can be (a clock that ticks says nothing), then
/// their age.
fn age<'a>(state: &State, look: &Look) -> Span<'a> {
    match state.monitor.age(state.now) {
        None => Span::styled(" no data yet", look.theme.dim()),
        Some(_) if state.monitor.is_unanswered() => Span::styled(" no answer", look.theme.danger()),
        Some(_) if state.monitor.is_fresh(state.now) => Span::styled(" live", look.theme.dim()),
        Some(age) => Span::styled(format!(" {} old", Seconds(age.0.round())), look.theme.danger()),
    }
}

fn attached_to<'a>(state: &State, attached: &AttachedProcess, look: &Look) -> Vec<Span<'a>> {
    let theme = &look.theme;
    let host = state.monitor.host(attached.pid).filter(|host| attached.is(host));
    let name = host.and_then(|host| host.name.value()).map(|name| format!("{} ", fit(&printable(name), 12)));
    let name = name.unwrap_or_default();
    let told = state.run.telemetry.phases();
    let is_paused = state.run.telemetry.pause(&state.monitor, state.now).is_some();
    if state.run.telemetry.ended(&state.monitor, state.now).is_some() && attached.state != AttachedState::Replaced {
        return vec![Span::styled(format!("▶ {} {name}ended", attached.pid), theme.danger())];
    }
    let (style, state) = match attached.state {
        AttachedState::Awaited if state.run.telemetry.uses_no_gpu(&state.monitor, state.now) => {
            match told.phase(state.now) {
                RunPhase::WarmingUp if !is_paused => (theme.observed(), "warming up"),
                RunPhase::WarmingUp | RunPhase::Between => (theme.warning(), between(state)),
                RunPhase::Steady | RunPhase::Untold => (theme.observed(), "on the CPU"),
            }
        }
        AttachedState::Awaited => (theme.warning(), "not on a GPU yet"),
        AttachedState::Missing => (theme.danger(), "no such process"),
        AttachedState::Unmatched => (theme.warning(), "pids not matched: GPU totals"),
        AttachedState::Present => match told.phase(state.now) {
            RunPhase::WarmingUp if !is_paused => (theme.observed(), "warming up"),
            RunPhase::WarmingUp | RunPhase::Between => (theme.warning(), between(state)),
            RunPhase::Steady | RunPhase::Untold => (theme.observed(), ""),
        },
        AttachedState::Ended => (theme.danger(), "ended"),
        AttachedState::Replaced => (theme.danger(), "pid reused"),
    };
    vec![Span::styled(format!("▶ {} {name}{state}", attached.pid).trim_end().to_owned(), style)]
}

/// What a run is about that makes no step now.
fn between(state: &State) -> &'static str {
    let cause = state.run.telemetry.step_cause(&state.monitor, state.now).filter(|cause| cause.stalls);
    match cause.map(|cause| cause.activity) {
        Some(Activity::Evaluation) => "evaluating",
        Some(Activity::Checkpoint) => "at a checkpoint",
        _ => "between steps",
    }
}

/// Whether a plan fits, with its figures.
fn fits<'a>(prediction: &Prediction, look: &Look, figures: FitFigures) -> Span<'a> {
    let capacity = prediction.capacity;
    let verdict = capacity.verdict();
    let (word, style) = match verdict {
        Verdict::Fits => ("FITS", look.theme.good()),
        Verdict::Tight => ("TIGHT", look.theme.warning()),
        Verdict::DoesNotFit => ("DOES NOT FIT", look.theme.danger()),
    };
    let figures = match verdict {
        _ if figures == FitFigures::Neither => String::new(),
        Verdict::DoesNotFit => format!(" +{}", capacity.needed.saturating_sub(capacity.bytes)),
        _ if figures == FitFigures::Needed => format!(" {}", capacity.needed),
        Verdict::Fits | Verdict::Tight => format!(" {} / {}", capacity.needed.in_gib(), capacity.bytes),
    };
    Span::styled(format!("{word}{figures}"), style)
}

/// Bandwidth in TB/s without its unit.
pub fn terabytes(rate: BytesPerSec) -> String {
    format!("{:.2}", rate.0 / 1e12)
}

/// A rate of tokens: `33.3 k`.
pub fn tokens(rate: f64) -> String {
    if rate >= 999_500.0 {
        format!("{} M", three_figures(rate / 1e6))
    } else if rate >= 999.5 {
        format!("{} k", three_figures(rate / 1e3))
    } else {
        three_figures(rate)
    }
}

/// How a difference is drawn: calm while it is small, says nothing, or needs no hand.
pub fn difference<T: Copy>(residual: &Residual<T>, relative: f64, look: &Look) -> (Style, &'static str) {
    if !residual.notable {
        (look.theme.dim(), "")
    } else if relative > 0.0 {
        (look.theme.warning(), " ▲")
    } else {
        (look.theme.observed(), " ▼")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_tokens_have_three_figures() {
        assert_eq!([812.4, 9_077.2, 33_312.0, 1_520_000.0].map(tokens), ["812", "9.08 k", "33.3 k", "1.52 M"]);
    }
}
