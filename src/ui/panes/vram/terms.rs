//! Every named term of the largest stage: how much, how it comes about, how it differs from the baseline's.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{render, unit};
use crate::app::{MemoryView, Pane, State};
use crate::order::StableOrder;
use crate::predict::{Layer, StageMemory, Term};
use crate::ui::Look;
use crate::ui::bar;
use crate::ui::panes::scroll;
use crate::ui::text::{fit, left, right, wrapped};
use crate::units::Bytes;

/// Terms that are listed at least.
pub(super) const LEAST_ROWS: usize = 3;

/// Cells of the difference to the baseline.
const SINCE: usize = 8;

pub fn draw(state: &State, stage: &StageMemory, look: &Look, area: Rect, buffer: &mut Buffer) {
    let is_chosen_from = state.views.focus == Pane::Vram;
    draw_list(state, stage, (look, is_chosen_from), area, buffer);
}

/// The largest of them below another list, which is the one to choose from.
pub fn draw_below(state: &State, stage: &StageMemory, look: &Look, area: Rect, buffer: &mut Buffer) {
    draw_list(state, stage, (look, false), area, buffer);
}

fn draw_list(state: &State, stage: &StageMemory, (look, focused): (&Look, bool), area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let unit = unit(state);
    let before = state.plans.reference().map(|baseline| baseline.prediction.largest());
    let rows = rows(stage, before);
    let is_list = state.views.memory.view == MemoryView::Terms;
    let selected = if is_list { state.views.memory.selected.min(rows.len().saturating_sub(1)) } else { 0 };
    let width = area.width as usize;
    let height = area.height as usize;
    let detail = rows.get(selected).filter(|_| focused).map_or_else(Vec::new, |row| {
        // Some rows of the list stay, however much there is to say.
        detail(row, width.saturating_sub(2), height.saturating_sub(LEAST_ROWS + 1))
    });
    let room = height.saturating_sub(1 + detail.len());
    let name_width = (width / 3).clamp(18, 34);
    let since = if before.is_some() { SINCE } else { 0 };
    let words = width.saturating_sub(name_width + 14 + since);
    let head = format!(
        " {}{}{} {}",
        left("named term", name_width + 3),
        right(unit.word(), 9),
        right(if before.is_some() { "Δbase" } else { "" }, since),
        fit("how it comes about", words)
    );
    let mut lines = vec![Line::styled(head, theme.dim())];
    for (index, row) in rows.iter().enumerate().skip(scroll(selected, rows.len(), room)).take(room) {
        if is_list {
            look.place_row(area, lines.len(), index);
        }
        let chosen = focused && index == selected;
        let style = if chosen { theme.selected() } else { theme.text() };
        let component = row.term.component;
        let difference = row.before.map_or_else(String::new, |before| unit.difference(row.now, before));
        let formula = if row.gone { "not in this plan".to_owned() } else { row.term.formula.to_string() };
        lines.push(Line::from(vec![
            Span::styled(if chosen { "▸" } else { " " }, theme.accent()),
            Span::styled(format!("{} ", bar::pattern(component).repeat(2)), theme.component(component)),
            Span::styled(left(&row.term.name, name_width), style),
            Span::styled(right(&unit.show(row.now), 9), theme.text()),
            Span::styled(right(&difference, since), theme.warning()),
            Span::styled(format!(" {}", fit(&formula, words)), theme.dim()),
        ]));
    }
    lines.extend(detail.into_iter().map(|line| Line::styled(format!(" {line}"), theme.dim())));
    render(lines, area, buffer);
}

/// The whole formula of a term with its inputs, where it counts, and who says so.
fn detail(row: &Row<'_>, width: usize, most: usize) -> Vec<String> {
    let counted = match row.term.layer {
        Layer::Allocated => "allocated",
        Layer::Reserved => "reserved",
        Layer::Device => "outside the allocator",
    };
    let source = format!("{counted}; source: {}", row.term.source);
    let formula = format!("{} = {}", row.term.name, row.term.formula);
    let formula = if row.gone { "not in this plan".to_owned() } else { formula };
    let mut lines = wrapped(&formula, width, most.saturating_sub(1).max(1));
    let left = most.saturating_sub(lines.len()).max(1);
    lines.extend(wrapped(&source, width, left));
    lines
}

/// A term, and what the baseline has under its name.
struct Row<'a> {
    term: &'a Term,
    now: Bytes,
    /// None where nothing is pinned.
    before: Option<Bytes>,
    /// The baseline's alone.
    gone: bool,
}

/// The largest first, of now or of before: what is gone shows how much it was.
fn rows<'a>(stage: &'a StageMemory, before: Option<&'a StageMemory>) -> Vec<Row<'a>> {
    let same = |one: &Term, other: &Term| (&one.name, one.component) == (&other.name, other.component);
    let was = |term: &Term| {
        before.map(|before| before.terms.iter().filter(|other| same(other, term)).map(|term| term.bytes).sum())
    };
    let mut rows: Vec<Row<'a>> =
        stage.terms.iter().map(|term| Row { term, now: term.bytes, before: was(term), gone: false }).collect();
    let known = |term: &Term| stage.terms.iter().any(|other| same(other, term));
    let gone = before.into_iter().flat_map(|before| &before.terms).filter(|term| !known(term));
    rows.extend(gone.map(|term| Row { term, now: Bytes::ZERO, before: Some(term.bytes), gone: true }));
    rows.order_by_key(|row| std::cmp::Reverse(row.term.bytes));
    rows
}
