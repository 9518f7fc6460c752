//! Where the panes go at each terminal size.

use ratatui::layout::{Constraint, Layout, Rect};

use crate::app::Pane;

/// Below this nothing useful can be drawn.
pub const SMALLEST: (u16, u16) = (60, 16);

/// From this size on all panes are in one view.
const GRID: (u16, u16) = (100, 30);

/// From this width on the comparison has a place of its own in the grid.
const WIDE: u16 = 160;

/// From this width on the plan has the VRAM pane beside it.
const PAIR: u16 = 80;

const PLAN_WIDTH: u16 = 36;

/// From this width on it has one beside its text too.
const TEXT_PAIR: u16 = 110;

/// The plan as text wants lines that are not cut.
const TEXT_WIDTH: u16 = 78;

fn plan_width(body: Rect, text: bool) -> u16 {
    if text { TEXT_WIDTH.min(body.width / 2).max(PLAN_WIDTH) } else { PLAN_WIDTH }
}

/// The parts of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenLayout {
    /// Two lines: what runs, and how it stands.
    pub header: Rect,
    /// One line that names the panes, where not all are in view.
    pub tabs: Option<Rect>,
    /// The panes in view.
    pub panes: Vec<(Pane, Rect)>,
    /// One line of keys.
    pub footer: Rect,
}

/// Lays the screen out; none when the terminal is too small. `text`: the plan is shown as text.
#[must_use]
pub fn arrange(area: Rect, focus: Pane, zoomed: bool, text: bool) -> Option<ScreenLayout> {
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return None;
    }
    let [header, body, footer] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let grid = area.width >= GRID.0 && area.height >= GRID.1;
    let in_grid = focus != Pane::Compare || area.width >= WIDE;
    if grid && in_grid && !zoomed {
        return Some(ScreenLayout { header, tabs: None, panes: all_in_one(body, text), footer });
    }
    let [tabs, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(body);
    let panes = if focus == Pane::Plan && !zoomed && body.width >= if text { TEXT_PAIR } else { PAIR } {
        // What a changed value does is seen beside it.
        let [plan, vram] =
            Layout::horizontal([Constraint::Length(plan_width(body, text)), Constraint::Fill(1)]).areas(body);
        vec![(Pane::Plan, plan), (Pane::Vram, vram)]
    } else {
        vec![(focus, body)]
    };
    Some(ScreenLayout { header, tabs: Some(tabs), panes, footer })
}

fn all_in_one(body: Rect, text: bool) -> Vec<(Pane, Rect)> {
    let [top, bottom] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(body);
    let [plan, memory] =
        Layout::horizontal([Constraint::Length(plan_width(body, text)), Constraint::Fill(1)]).areas(top);
    let [roofline, monitor] = Layout::horizontal([Constraint::Percentage(47), Constraint::Fill(1)]).areas(bottom);
    let mut panes = vec![(Pane::Plan, plan)];
    if body.width >= WIDE {
        let [vram, compare] = Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).areas(memory);
        panes.extend([(Pane::Vram, vram), (Pane::Roofline, roofline), (Pane::Monitor, monitor)]);
        panes.push((Pane::Compare, compare));
    } else {
        panes.extend([(Pane::Vram, memory), (Pane::Roofline, roofline), (Pane::Monitor, monitor)]);
    }
    panes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_shows_the_focused_pane_inside_the_screen_without_overlap() {
        for width in (60..260).step_by(7) {
            for height in (16..80).step_by(3) {
                for focus in Pane::ALL {
                    for (zoomed, text) in [(false, false), (true, false), (false, true), (true, true)] {
                        let area = Rect::new(0, 0, width, height);
                        let screen = arrange(area, focus, zoomed, text).unwrap();
                        assert!(screen.panes.iter().any(|(pane, _)| *pane == focus));
                        let rects: Vec<Rect> = screen.panes.iter().map(|(_, rect)| *rect).collect();
                        for (index, rect) in rects.iter().enumerate() {
                            assert_eq!(rect.intersection(area), *rect);
                            assert!(rect.height >= 8, "{width}x{height} {focus:?}: {rect:?}");
                            assert!(rects[index + 1..].iter().all(|other| !rect.intersects(*other)));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn too_small_is_said_not_drawn() {
        assert_eq!(arrange(Rect::new(0, 0, 59, 40), Pane::Plan, false, false), None);
        assert_eq!(arrange(Rect::new(0, 0, 100, 15), Pane::Plan, false, false), None);
    }

    #[test]
    fn the_contracts_sizes() {
        let panes = |width, height, focus| {
            let screen = arrange(Rect::new(0, 0, width, height), focus, false, false).unwrap();
            screen.panes.iter().map(|(pane, _)| *pane).collect::<Vec<_>>()
        };
        assert_eq!(panes(120, 40, Pane::Plan), [Pane::Plan, Pane::Vram, Pane::Roofline, Pane::Monitor]);
        assert_eq!(panes(200, 50, Pane::Plan).len(), 5);
        assert_eq!(panes(80, 24, Pane::Plan), [Pane::Plan, Pane::Vram]);
        assert_eq!(panes(80, 24, Pane::Monitor), [Pane::Monitor]);
        assert_eq!(panes(120, 40, Pane::Compare), [Pane::Compare]);
    }
}
