//! The bottom line: a message where there is one, else the keys that work here now.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::Look;
use super::text::{fit, width_of};
use crate::app::{Overlay, Pane, Severity, State, footer};
use crate::printable::printable;

/// The question before changes are lost.
pub const UNSAVED: &str = "Unsaved changes:  s save and quit   q discard them   any other key stays";

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    if state.overlay == Some(Overlay::ConfirmQuit) {
        let text = fit(&format!(" {UNSAVED}"), area.width as usize);
        return Line::styled(text, theme.warning()).render(area, buffer);
    }
    if let Some(notice) = &state.notice {
        let style = match notice.severity {
            Severity::Info => theme.good(),
            Severity::Problem => theme.danger(),
        };
        return Line::styled(fit(&format!(" {}", printable(&notice.text)), area.width as usize), style)
            .render(area, buffer);
    }
    if state.form.typing.is_some() && state.focus == Pane::Plan {
        return keys(&[("⏎", "take"), ("esc", "leave"), ("tab", "complete")], look, area, buffer);
    }
    let mut shown: Vec<(&str, &str)> = Vec::new();
    if state.editor.is_example() && !state.editor.modified() && state.playback.is_none() {
        shown.push(("memwall PLAN.yaml", "opens yours"));
    }
    shown.extend(footer(state.focus, state.playback.is_some()).map(|binding| (binding.shown, binding.word)));
    keys(&shown, look, area, buffer);
}

fn keys(keys: &[(&str, &str)], look: &Look, area: Rect, buffer: &mut Buffer) {
    let part = |(key, word): &(&str, &str)| {
        [Span::styled(format!(" {key}"), look.theme.text()), Span::styled(format!(" {word} "), look.theme.dim())]
    };
    // How to get help and how to leave are always there.
    let (last, others): (Vec<_>, Vec<_>) = keys.iter().partition(|(key, _)| matches!(*key, "?" | "q"));
    let last: Vec<Span<'_>> = last.into_iter().flat_map(part).collect();
    let room = (area.width as usize).saturating_sub(width_of(&last));
    let mut spans: Vec<Span<'_>> = Vec::new();
    for part in others.into_iter().map(part) {
        if width_of(&spans) + width_of(&part) > room {
            break;
        }
        spans.extend(part);
    }
    Line::from(spans).render(area, buffer);
    Line::from(last).right_aligned().render(area, buffer);
}
