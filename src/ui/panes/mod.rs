//! One file a pane.

mod compare;
mod history;
mod history_axis;
mod monitor;
mod plan;
mod progress;
mod roofline;
mod text;
mod vram;

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Look;
use super::header::is_unplanned;
use super::text::{RenderLine, fit, wrapped};
use crate::app::{Editor, MonitorView, Pane, Plans, State};
use crate::reading::Absence;
use crate::units::Bytes;

pub use text::place as place_in_text;

/// Draws a pane with its frame.
pub fn draw(pane: Pane, state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let detail = match pane {
        Pane::Plan => plan::title(&state.plans),
        Pane::Vram => vram::title(state),
        Pane::Roofline => roofline::title(state),
        Pane::Monitor if state.monitor.view == MonitorView::History => history::title(&state.monitor),
        Pane::Monitor => monitor::title(&state.monitor),
        Pane::Compare => compare::title(state, state.views.curves),
    };
    let detail = match (pane, baseline(&state.plans)) {
        (Pane::Monitor, Some(baseline)) => format!("{baseline} · {detail}"),
        // Nobody has a plan of what runs: these figures are none of its.
        (Pane::Vram | Pane::Roofline, None) if is_unplanned(state) => format!("example, not the run's · {detail}"),
        _ => detail,
    };
    let focused = state.views.focus == pane;
    let (frame, name) =
        if focused { (look.theme.accent(), look.theme.accent()) } else { (look.theme.frame(), look.theme.text()) };
    let detail = fit(&detail, (area.width as usize).saturating_sub(pane.name().len() + 8));
    let title = vec![
        Span::styled(format!(" {} {} ", pane.digit(), pane.name()), name),
        Span::styled(if detail.is_empty() { String::new() } else { format!("· {detail} ") }, look.theme.dim()),
    ];
    let inner = draw_frame(title, frame, area, buffer);
    match pane {
        Pane::Plan => match &state.plans.text {
            Some(view) => text::draw(state, view, look, inner, buffer),
            None => plan::draw(state, look, inner, buffer),
        },
        Pane::Vram => vram::draw(state, look, inner, buffer),
        Pane::Roofline => roofline::draw(state, look, inner, buffer),
        Pane::Monitor if state.monitor.view == MonitorView::History && state.monitor.sample.is_some() => {
            history::draw(state, look, inner, buffer);
        }
        Pane::Monitor => monitor::draw(state, look, inner, buffer),
        Pane::Compare => compare::draw(state, look, inner, buffer),
    }
}

/// Draws lines around `area`, the title in the upper one, and returns what is within. A block of the library goes through
/// each cell of the area for it, which is more than what most panes have to draw anew.
fn draw_frame(title: Vec<Span<'_>>, style: Style, area: Rect, buffer: &mut Buffer) -> Rect {
    let inner = area.inner(Margin::new(1, 1));
    let (left, right, top, bottom) = (area.left(), area.right() - 1, area.top(), area.bottom() - 1);
    for line in [top, bottom] {
        let between = Rect { y: line, height: 1, ..inner };
        Line::styled("─".repeat(usize::from(inner.width)), style).render(between, buffer);
    }
    for line in inner.rows() {
        buffer[(left, line.y)].set_char('│').set_style(style);
        buffer[(right, line.y)].set_char('│').set_style(style);
    }
    for (corner, place) in [('╭', (left, top)), ('╮', (right, top)), ('╰', (left, bottom)), ('╯', (right, bottom))]
    {
        buffer[place].set_char(corner).set_style(style);
    }
    Line::from(title).render(Rect { y: top, height: 1, ..inner }, buffer);
    inner
}

/// What of the observed stands in a pane that otherwise shows the plan: while it is the same, nothing there changes but
/// by a hand.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// None of it.
    Nothing,
    /// The run's memory, what it tells of its allocator, whether nothing can be read any more, and whether the run is one
    /// that has ended.
    Memory { now: Result<Bytes, Absence>, peak: Option<Bytes>, told: [Option<String>; 2], failed: bool, is_over: bool },
    /// Why the run has no point on the roofline.
    NoPoint(String),
}

/// What of the observed stands in a pane; none where that is most of what it shows.
pub fn observed(pane: Pane, state: &State) -> Option<Observed> {
    match pane {
        Pane::Plan => Some(Observed::Nothing),
        Pane::Vram => vram::observed(state),
        Pane::Roofline => roofline::why_no_point(state).map(Observed::NoPoint),
        Pane::Monitor | Pane::Compare => None,
    }
}

/// How the plan differs from the baseline, for a pane that shows nothing else of the plan.
fn baseline(plans: &Plans) -> Option<String> {
    let outcome = plans.baseline.as_ref()?.outcome(plans.editor.prediction()?);
    (outcome.memory.0 != 0).then(|| format!("plan {} to base", outcome.memory))
}

/// Why a pane has nothing to show.
fn say(text: &str, look: &Look, area: Rect, buffer: &mut Buffer) {
    let lines = wrapped(text, area.width as usize, area.height as usize);
    for (line, place) in lines.into_iter().zip(area.rows()) {
        Line::styled(line, look.theme.dim()).render(place, buffer);
    }
}

/// Why a pane has nothing to show while the plan makes no prediction: `what` is shown once it does.
fn unpredicted(editor: &Editor, what: &str) -> String {
    match editor.waits_for_bench() {
        true => format!("the CPU is not measured yet: {what} shown once `memwall bench --cpu` has run"),
        false => format!("the plan has errors: {what} shown once they are corrected"),
    }
}

/// Values as bars of one cell each up to `top`. No value is blank; nothing at all looks other than little.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn sparks(values: impl Iterator<Item = Option<f64>>, top: f64) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let cell = |value: Option<f64>| match value.filter(|_| top > 0.0) {
        None => ' ',
        Some(value) if value > 0.0 => LEVELS[(value / top * 8.0).floor().clamp(0.0, 7.0) as usize],
        Some(_) => '_',
    };
    values.map(cell).collect()
}

/// The first visible row, so that `selected` is in view and the list does not jump.
pub fn scroll(selected: usize, rows: usize, visible: usize) -> usize {
    let last = rows.saturating_sub(visible);
    selected.saturating_sub(visible.saturating_sub(1)).max(selected.saturating_sub(visible / 2)).min(last)
}

#[cfg(test)]
mod tests {
    use super::scroll;

    #[test]
    fn the_selected_row_is_always_in_view() {
        for rows in 0..40 {
            for visible in 1..12 {
                for selected in 0..rows {
                    let first = scroll(selected, rows, visible);
                    assert!(first <= selected && selected < first + visible);
                    assert!(first == 0 || first + visible <= rows);
                }
            }
        }
    }
}
