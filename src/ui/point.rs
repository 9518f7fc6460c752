//! What lies under the mouse.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};

use super::{Look, Theme, fixes, footer, layout, panes, picker, plans, search, sweep};
use crate::app::{KeyPress, MouseTarget, Overlay, Pane, State, key_on_screen};

/// Where the mouse was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// Cells from the left.
    pub column: u16,
    /// Lines from the top.
    pub row: u16,
    /// Rows down that the wheel asks for; none for a click.
    pub rows: Option<isize>,
}

/// What the mouse chose on the screen as it is drawn; none where there is nothing to choose.
#[must_use]
pub fn hit(state: &State, pointer: Pointer) -> Option<MouseTarget> {
    let (width, height) = state.views.size;
    let area = Rect::new(0, 0, width, height);
    let screen = layout::arrange(area, layout::LayoutRequest::of(state))?;
    let at = Position::new(pointer.column, pointer.row);
    if screen.footer.contains(at) && pointer.rows.is_none() {
        return hint(state, screen.footer, at).map(MouseTarget::Key);
    }
    let wheel = pointer.rows.map(|rows| if rows < 0 { KeyPress::Up } else { KeyPress::Down });
    if let Some(picker) = &state.dialogs.picker {
        let body = super::body(area, &screen);
        return wheel.map(MouseTarget::Key).or_else(|| picker::row_at(picker, body, at).map(MouseTarget::Choice));
    }
    if let Some(overlay) = state.dialogs.overlay {
        let body = super::body(area, &screen);
        return wheel.map(MouseTarget::Key).or_else(|| row_of(state, overlay, body, at).map(MouseTarget::Choice));
    }
    if let Some(tabs) = screen.tabs.filter(|tabs| tabs.contains(at)) {
        return tab(state, usize::from(at.x - tabs.x), tabs.width).map(MouseTarget::Tab);
    }
    let (pane, place) = screen.panes.into_iter().find(|(_, place)| place.contains(at))?;
    if let Some(rows) = pointer.rows {
        return Some(MouseTarget::Scroll { pane, rows });
    }
    let look = Look::of_rows(state.views.ascii);
    let mut drawn = Buffer::empty(place);
    panes::draw(pane, state, &look, place, &mut drawn);
    if state.views.focus == pane {
        let symbol = drawn.cell(at).map(|cell| cell.symbol().to_owned()).unwrap_or_default();
        if let Some(key) = key_on_screen(&symbol).filter(|_| matches!(symbol.as_str(), "‹" | "›")) {
            return Some(MouseTarget::Key(key));
        }
    }
    let inside = |at: u16, start: u16| usize::from(at.saturating_sub(start + 1));
    let (row, column) = match (pane, &state.plans.text) {
        (Pane::Plan, Some(view)) => {
            panes::place_in_text(view, (inside(at.y, place.y), inside(at.x, place.x)), place.height)
        }
        _ => match look.row_at(at) {
            Some(row) => (row, inside(at.x, place.x)),
            None => return Some(MouseTarget::Pane(pane)),
        },
    };
    Some(MouseTarget::Row { pane, row, column })
}

/// The row of what lies on top, where it has rows to choose from.
fn row_of(state: &State, overlay: Overlay, body: Rect, at: Position) -> Option<usize> {
    let dialogs = &state.dialogs;
    match overlay {
        Overlay::Fixes => fixes::row_at(dialogs.fixes.as_ref()?, &plain(state), body, at),
        Overlay::Search => search::row_at(dialogs.search.as_ref()?, body, at),
        Overlay::Sweep => sweep::row_at(dialogs.sweep.as_ref()?, state.plans.reference(), &plain(state), body, at),
        Overlay::Plans(_) => plans::row_at(&state.plans, body, at),
        _ => None,
    }
}

/// What is drawn, without its colours.
fn plain(state: &State) -> Look {
    Look::new(Theme::colourless(), state.views.ascii)
}

/// The key of the word of the bottom line that was clicked.
fn hint(state: &State, area: Rect, at: Position) -> Option<KeyPress> {
    if !footer::lists_keys(state) {
        return None;
    }
    let mut drawn = Buffer::empty(area);
    footer::draw(state, &plain(state), area, &mut drawn);
    let symbols: Vec<&str> = drawn.content.iter().map(Cell::symbol).collect();
    let here = usize::from(at.x - area.x);
    // Words stand two blanks or more apart.
    let apart = |at: usize| symbols.get(at) == Some(&" ") && symbols.get(at + 1).is_none_or(|next| *next == " ");
    if apart(here) {
        return None;
    }
    let start = (0..here).rev().find(|before| apart(*before)).map_or(0, |before| before + 1);
    let part: String = symbols.iter().skip(start).take_while(|symbol| !symbol.is_empty()).copied().collect();
    let word = part.split_whitespace().next()?;
    // Of two arrows the one that was clicked.
    let clicked = symbols
        .get(here)
        .and_then(|symbol| key_on_screen(symbol))
        .filter(|key| matches!(key, KeyPress::Up | KeyPress::Down | KeyPress::Left | KeyPress::Right));
    clicked.or_else(|| key_on_screen(word))
}

/// Cells that the names of all panes take as tabs.
pub const TABS: u16 = 52;

/// The tab at a column, as they are written: ` 1 Plan  2 VRAM `, or ` 1  2 VRAM  3 ` on a narrow screen.
fn tab(state: &State, column: usize, width: u16) -> Option<Pane> {
    let mut start = 0;
    Pane::ALL.into_iter().find(|pane| {
        // A plan with a run beside it is as wide as `Draft`.
        let name = if *pane == Pane::Plan && state.plans.run.is_some() { "Draft" } else { pane.name() };
        start += if width >= TABS || *pane == state.views.focus { name.len() + 4 } else { 3 };
        column < start
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::LoadedPlan;
    use crate::reading::Moment;

    fn state(size: (u16, u16)) -> State {
        let loaded = LoadedPlan::from_text("a", "model: {preset: gpt2}\n").unwrap();
        let mut state = State::new(loaded, Catalog::embedded().unwrap(), None, Moment(0));
        state.views.size = size;
        state
    }

    #[test]
    fn tabs_panes_and_rows_are_hit() {
        let click = |column, row| Pointer { column, row, rows: None };
        let small = state((80, 24));
        assert_eq!(hit(&small, click(12, 2)), Some(MouseTarget::Tab(Pane::Vram)));
        assert_eq!(hit(&small, click(3, 6)), Some(MouseTarget::Row { pane: Pane::Plan, row: 2, column: 2 }));
        assert_eq!(hit(&small, click(3, 0)), None);
        let wheel = Pointer { column: 60, row: 10, rows: Some(-1) };
        assert_eq!(hit(&state((120, 40)), wheel), Some(MouseTarget::Scroll { pane: Pane::Vram, rows: -1 }));
        assert_eq!(hit(&state((20, 5)), wheel), None);
    }
}
