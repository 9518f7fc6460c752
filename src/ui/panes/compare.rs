//! Predicted against observed, with the kind of each figure.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::say;
use crate::app::{Baseline, State};
use crate::compare::{Comparison, Of, Residual, Whose};
use crate::predict::Prediction;
use crate::printable::printable;
use crate::reading::Reading;
use crate::ui::Look;
use crate::ui::header::difference;
use crate::ui::picker::in_words;
use crate::ui::text::{left, marked, right, signed_percent, wrapped};

pub fn title(state: &State) -> String {
    match state.comparison.as_ref().map(|comparison| comparison.whose) {
        None => "predicted and observed".to_owned(),
        Some(Whose::Process { pid, device: None }) => format!("process {pid}, on no GPU"),
        Some(Whose::Process { pid, device: Some(device) }) => format!("process {pid} on GPU {device}"),
        Some(Whose::Device { device }) => format!("all of GPU {device}; attach to a process for its share"),
    }
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let Some(prediction) = state.editor.prediction() else {
        return say("no valid plan: nothing to compare with", look, area, buffer);
    };
    let Some(comparison) = &state.comparison else {
        return say("nothing observed yet", look, area, buffer);
    };
    let head =
        format!(" {}{}{}{}", left("", 9), right("predicted", 14), right("observed", 15), right("difference", 12));
    let mut lines = vec![Line::styled(head, theme.dim())];
    lines.push(row("memory", &comparison.memory, ToString::to_string, look));
    lines.push(row("DRAM", &comparison.bandwidth, ToString::to_string, look));
    lines.push(row("compute", &comparison.compute, ToString::to_string, look));
    lines.push(Line::from(vec![
        Span::styled(format!(" {}", left("step", 9)), theme.text()),
        Span::styled(right(&prediction.time.step.to_string(), 14), theme.predicted()),
        Span::styled(right("–", 15), theme.dim()),
    ]));
    lines.extend(baseline_line(state, prediction, look));
    lines.push(Line::default());
    for (what, text) in kinds(comparison) {
        let wrapped = wrapped(&text, (area.width as usize).saturating_sub(11), 2);
        lines.extend(wrapped.into_iter().enumerate().map(|(index, line)| {
            Line::from(vec![
                Span::styled(format!(" {}", left(if index == 0 { what } else { "" }, 10)), theme.text()),
                Span::styled(line, theme.dim()),
            ])
        }));
    }
    lines.push(Line::default());
    lines.push(Line::styled(" what the prediction assumes", theme.dim()));
    let first = state.assumption.min(prediction.assumptions.len().saturating_sub(1));
    for text in prediction.assumptions.iter().skip(first) {
        let wrapped = wrapped(&printable(text), (area.width as usize).saturating_sub(3), 4);
        lines.extend(
            wrapped.into_iter().enumerate().map(|(index, line)| {
                Line::styled(format!(" {} {line}", if index == 0 { "·" } else { " " }), theme.dim())
            }),
        );
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

/// The plan against the baseline, where one is pinned.
fn baseline_line<'a>(state: &State, prediction: &Prediction, look: &Look) -> Option<Line<'a>> {
    let baseline = state.baseline.as_ref()?;
    let outcome = baseline.outcome(prediction);
    let said = format!("{}, step {}", in_words(&outcome), step_since(baseline, prediction));
    Some(Line::from(vec![
        Span::styled(format!(" {}", left("baseline", 9)), look.theme.text()),
        Span::styled(format!(" {}: {said}", printable(&baseline.name)), look.theme.warning()),
    ]))
}

fn step_since(baseline: &Baseline, prediction: &Prediction) -> String {
    let ratio = prediction.time.step.ratio_to(baseline.prediction.time.step);
    ratio.map_or_else(|| "–".to_owned(), |ratio| signed_percent(ratio - 1.0))
}

fn row<'a, T: Copy>(what: &'a str, residual: &Residual<T>, show: impl Fn(&T) -> String, look: &Look) -> Line<'a> {
    let theme = &look.theme;
    let mut spans = vec![
        Span::styled(format!(" {}", left(what, 9)), theme.text()),
        Span::styled(right(&show(&residual.predicted), 14), theme.predicted()),
        Span::styled(right(&marked(&residual.observed, show), 15), theme.observed()),
    ];
    if let Some(relative) = residual.relative {
        let (style, arrow) = difference(residual, relative, look);
        spans.push(Span::styled(format!("{}{arrow}", right(&signed_percent(relative), 12)), style));
    }
    Line::from(spans)
}

/// What kind of figure each observation is, or why there is none; and of what.
fn kinds(comparison: &Comparison) -> Vec<(&'static str, String)> {
    let memory = match comparison.whose {
        Whose::Process { .. } => "peak since attached, as the driver charges the process",
        Whose::Device { .. } => "peak since start, everything on the GPU",
    };
    // Counters are the device's: they do not tell its processes apart.
    let on = comparison.whose.device().map_or_else(String::new, |index| format!(", everything on GPU {index}"));
    let measured = format!("mean over steps, from GPM counters{on}");
    let bound = format!("memory-busy share times peak{on}");
    let tensor = format!("tensor activity times the peak{on}");
    let mut kinds = vec![
        ("memory", said(&comparison.memory.observed, memory, memory)),
        ("DRAM", said(&comparison.bandwidth.observed, &measured, &bound)),
        ("compute", said(&comparison.compute.observed, &tensor, &tensor)),
        ("step", "not observed: no log or hook is read".to_owned()),
    ];
    let of = match comparison.of {
        Of::Whole => None,
        Of::Stage(stage) => Some(format!("of stage {stage}, which that GPU holds")),
        Of::LargestStage(stage) => {
            Some(format!("of stage {stage}, the largest: which one that GPU holds is not known"))
        }
    };
    kinds.extend(of.map(|of| ("predicted", of)));
    kinds
}

fn said<T>(reading: &Reading<T>, measured: &str, bound: &str) -> String {
    match reading {
        Reading::Known { kind: crate::reading::Kind::UpperBound, .. } => format!("upper bound: {bound}"),
        Reading::Known { kind, .. } => format!("{}: {measured}", kind.word()),
        Reading::Absent(why) => format!("none: {}", printable(&why.to_string())),
    }
}
