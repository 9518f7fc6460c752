//! What lies under the mouse.

use ratatui::layout::{Position, Rect};

use super::layout;
use crate::app::{MouseTarget, Pane, State};

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
    let screen = layout::arrange(
        Rect::new(0, 0, width, height),
        state.views.focus,
        state.views.zoomed,
        state.plans.text.is_some(),
    )?;
    let at = Position::new(pointer.column, pointer.row);
    if let Some(tabs) = screen.tabs.filter(|tabs| tabs.contains(at)) {
        return tab(usize::from(at.x - tabs.x)).map(MouseTarget::Tab);
    }
    let (pane, place) = screen.panes.into_iter().find(|(_, place)| place.contains(at))?;
    if let Some(rows) = pointer.rows {
        return Some(MouseTarget::Scroll { pane, rows });
    }
    let inside = |at: u16, start: u16| usize::from(at.saturating_sub(start + 1));
    let (row, column) = (inside(at.y, place.y), inside(at.x, place.x));
    let (row, column) = super::panes::place_in(pane, state, (row, column), place.height);
    Some(MouseTarget::Row { pane, row, column })
}

/// The tab at a column, as they are written: ` 1 Plan  2 VRAM `.
fn tab(column: usize) -> Option<Pane> {
    let mut start = 0;
    Pane::ALL.into_iter().find(|pane| {
        start += pane.name().len() + 4;
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
