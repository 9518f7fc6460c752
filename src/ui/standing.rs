//! The second line: how far observed is from predicted, and why.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::Look;
use super::header::{difference, joined, terabytes, tokens};
use super::text::{fit, marked, signed_percent, width_of};
use crate::app::State;
use crate::compare::{Comparison, Residual};
use crate::predict::Prediction;
use crate::printable::printable;
use crate::reading::Reading;
use crate::units::{Bytes, Seconds, three_figures};

/// What the first quantity, the memory, takes with its difference: the reason leaves it that.
const FIRST: usize = 30;

/// Draws the line.
pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let width = area.width as usize;
    if let Some(fault) = state.editor.faults().first() {
        let shown = if state.editor.prediction().is_some() { " (panes: last good)" } else { "" };
        let text = fit(&format!(" plan broken{shown}: {}", printable(&fault.to_string())), width);
        Line::styled(text, theme.danger()).render(area, buffer);
        return;
    }
    let Some(prediction) = state.editor.prediction() else { return };
    let mut parts = match &state.comparison {
        Some(comparison) => compared(comparison, look),
        None => alone(prediction, look),
    };
    parts.extend(predicted(prediction, state.comparison.as_ref(), look));
    // The reason stays where all else falls out.
    let why = why(state, width.saturating_sub(1 + FIRST), look);
    let bar = if why.is_empty() { 0 } else { 3 };
    let mut spans = vec![Span::raw(" ")];
    spans.extend(joined(parts, width.saturating_sub(1 + bar + width_of(&why)), look));
    if bar > 0 {
        spans.push(Span::styled(" │ ", theme.frame()));
        spans.extend(why);
    }
    Line::from(spans).render(area, buffer);
}

/// The likeliest reason for what lies outside, in at most `width` cells; nothing while there is none.
fn why<'a>(state: &State, width: usize, look: &Look) -> Vec<Span<'a>> {
    let Some(best) = state.explaining.found.first() else { return Vec::new() };
    let sure = format!(" ({:.0} %)", best.share.percent());
    let words = fit(&printable(&best.words()), width.saturating_sub(5 + sure.len()));
    vec![
        Span::styled("why: ", look.theme.dim()),
        Span::styled(words, look.theme.warning()),
        Span::styled(sure, look.theme.dim()),
    ]
}

/// Memory and bandwidth, while nothing is observed.
fn alone<'a>(prediction: &Prediction, look: &Look) -> Vec<Vec<Span<'a>>> {
    let theme = &look.theme;
    let figure = |label: &'static str, value: String| {
        vec![Span::styled(label, theme.dim()), Span::styled(value, theme.predicted())]
    };
    vec![
        figure("memory ", prediction.largest().device_used.to_string()),
        figure("DRAM ", prediction.time.bandwidth.to_string()),
    ]
}

fn compared<'a>(comparison: &Comparison, look: &Look) -> Vec<Vec<Span<'a>>> {
    vec![
        residual("memory ", &comparison.memory, Bytes::in_gib, " GiB", look),
        residual("DRAM ", &comparison.bandwidth, terabytes, " TB/s", look),
    ]
}

/// Step time and what follows from it: against what is observed of it, else as the plan predicts.
fn predicted<'a>(prediction: &Prediction, comparison: Option<&Comparison>, look: &Look) -> Vec<Vec<Span<'a>>> {
    let theme = &look.theme;
    let mut parts = Vec::new();
    let step = comparison.map(|comparison| &comparison.step).filter(|step| step.observed.value().is_some());
    match step {
        Some(step) => {
            let longest = step.observed.value().map_or(step.predicted.0, |seen| seen.0.max(step.predicted.0));
            let (show, unit) = if longest < 0.999_5 {
                (milliseconds as fn(Seconds) -> String, " ms")
            } else {
                (seconds as fn(Seconds) -> String, " s")
            };
            parts.push(residual("step ", step, show, unit, look));
        }
        None => parts.push(vec![
            Span::styled("step ", theme.dim()),
            Span::styled(prediction.time.step.to_string(), theme.predicted()),
            Span::styled(" predicted", theme.dim()),
        ]),
    }
    match comparison.and_then(|comparison| comparison.tokens.as_ref()).filter(|rate| rate.observed.value().is_some()) {
        Some(rate) => parts.push(residual("", rate, |rate| tokens(rate.0), " tok/s", look)),
        None => parts.extend(
            prediction
                .time
                .tokens_per_s
                .map(|rate| vec![Span::styled(tokens(rate), theme.predicted()), Span::styled(" tok/s", theme.dim())]),
        ),
    }
    match comparison.and_then(|comparison| comparison.mfu.as_ref()).filter(|mfu| mfu.observed.value().is_some()) {
        Some(mfu) => parts.push(residual("MFU ", mfu, |mfu| format!("{:.0}", mfu.percent()), " %", look)),
        None => parts.extend(prediction.time.mfu.map(|mfu| {
            vec![Span::styled("MFU ", theme.dim()), Span::styled(format!("{:.0} %", mfu * 100.0), theme.predicted())]
        })),
    }
    parts
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
    let mut spans = vec![
        Span::styled(label, theme.dim()),
        Span::styled(predicted, theme.predicted()),
        Span::styled(if look.ascii { "->" } else { "→" }, theme.dim()),
        Span::styled(observed, theme.observed()),
        Span::styled(unit, theme.dim()),
    ];
    if let Reading::Absent(why) = &residual.observed {
        spans.push(Span::styled(format!(" {why}"), theme.dim()));
    }
    if let Some(relative) = residual.relative {
        let (style, arrow) = difference(residual, relative, look);
        spans.push(Span::styled(format!(" {}{arrow}", signed_percent(relative)), style));
    }
    spans
}
