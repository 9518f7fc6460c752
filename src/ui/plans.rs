//! The open plans side by side.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::header::tokens;
use super::text::{fit, left, right, signed_percent};
use crate::app::{Editor, Outcome, State};
use crate::predict::Verdict;
use crate::printable::printable;

/// Draws one row a plan: what it is, whether it fits, how fast it is, against the baseline or
/// else the plan in front.
pub fn draw(state: &State, selected: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    Clear.render(area, buffer);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(" open plans ", theme.accent()));
    let inner = block.inner(area);
    block.render(area, buffer);
    let name = (inner.width as usize / 4).clamp(12, 30);
    let head = format!(
        "  {}{}{}{}{}{}{}  {}",
        left("plan", name),
        right("memory", 12),
        right("of", 10),
        right("step", 10),
        right("tok/s", 10),
        right("memory", 11),
        right("speed", 8),
        "what it is"
    );
    let against = if state.baseline.is_some() { "against the baseline" } else { "against the plan in front" };
    let mut lines = vec![Line::styled(head, theme.dim())];
    for (place, plan) in state.tabs.all(&state.editor).enumerate() {
        let chosen = place == selected;
        let mark = if chosen { "▸ " } else { "  " };
        let style = if chosen { theme.selected() } else { theme.text() };
        let star = if plan.modified() { "*" } else { "" };
        let title = left(&format!("{}{star}", printable(plan.name())), name);
        let mut spans = vec![Span::styled(mark, theme.accent()), Span::styled(title, style)];
        spans.extend(figures(state, plan, look, (inner.width as usize).saturating_sub(name + 65)));
        lines.push(Line::from(spans));
    }
    lines.push(Line::default());
    lines.push(Line::styled(format!("  the last two columns of figures: {against}"), theme.dim()));
    for (line, row) in lines.into_iter().zip(inner.rows()) {
        line.render(row, buffer);
    }
}

fn figures<'a>(state: &State, plan: &Editor, look: &Look, room: usize) -> Vec<Span<'a>> {
    let theme = &look.theme;
    let Some(prediction) = plan.prediction() else {
        return vec![Span::styled("  no valid plan", theme.danger())];
    };
    let capacity = prediction.capacity;
    let memory = if capacity.verdict() == Verdict::DoesNotFit { theme.danger() } else { theme.predicted() };
    let rate = prediction.time.tokens_per_s.map_or_else(|| "–".to_owned(), tokens);
    let base = state.baseline.as_ref().map(|baseline| &baseline.prediction).or_else(|| state.editor.prediction());
    let outcome = base.map(|base| Outcome::between(base, prediction));
    let (more, faster) = match outcome.filter(|outcome| outcome.memory.0 != 0 || outcome.speed != 0.0) {
        Some(outcome) => (outcome.memory.to_string(), signed_percent(outcome.speed)),
        None => ("·".to_owned(), "·".to_owned()),
    };
    vec![
        Span::styled(right(&capacity.needed.to_string(), 12), memory),
        Span::styled(right(&capacity.bytes.in_gib(), 10), theme.dim()),
        Span::styled(right(&prediction.time.step.to_string(), 10), theme.predicted()),
        Span::styled(right(&rate, 10), theme.predicted()),
        Span::styled(right(&more, 11), theme.text()),
        Span::styled(right(&faster, 8), theme.text()),
        Span::styled(format!("  {}", fit(&printable(&plan.summary()), room)), theme.dim()),
    ]
}
