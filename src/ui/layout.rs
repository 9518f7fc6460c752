//! Where the panes go at each terminal size.

use ratatui::layout::{Constraint, Layout, Rect};

use crate::app::{Arrangement, LayoutPreset, Pane, Side, State};
use crate::order::StableOrder;

/// Below this nothing useful can be drawn.
pub const SMALLEST: (u16, u16) = (40, 10);

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

/// Below these a border is not moved.
const LEAST: (u16, u16) = (24, 8);

/// Columns and rows that one step moves a border.
const STEP: (i32, i32) = (4, 2);

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

/// What of the state decides where panes go.
#[derive(Debug, Clone, Copy)]
pub struct LayoutRequest<'a> {
    /// The pane with the focus.
    pub focus: Pane,
    /// It has the whole screen.
    pub zoomed: bool,
    /// The plan is shown as text.
    pub text: bool,
    /// How panes share the screen.
    pub arrangement: &'a Arrangement,
}

impl<'a> LayoutRequest<'a> {
    /// That of a dashboard.
    pub const fn of(state: &'a State) -> Self {
        Self {
            focus: state.views.focus,
            zoomed: state.views.zoomed,
            text: state.plans.text.is_some(),
            arrangement: &state.views.arrangement,
        }
    }
}

/// Lays the screen out; none when the terminal is too small.
#[must_use]
pub fn arrange(area: Rect, request: LayoutRequest<'_>) -> Option<ScreenLayout> {
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return None;
    }
    let LayoutRequest { focus, zoomed, text, arrangement } = request;
    let [header, body, footer] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let grid = area.width >= GRID.0 && area.height >= GRID.1 && arrangement.preset != LayoutPreset::Single;
    if grid && !zoomed {
        let panes = together(body, text, arrangement);
        if panes.iter().any(|(pane, _)| *pane == focus) {
            return Some(ScreenLayout { header, tabs: None, panes, footer });
        }
    }
    let [tabs, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(body);
    let paired = arrangement.preset != LayoutPreset::Single && arrangement.shows(Pane::Vram);
    let panes = if focus == Pane::Plan && !zoomed && paired && body.width >= if text { TEXT_PAIR } else { PAIR } {
        // What a changed value does is seen beside it.
        let plan = (Pane::Plan, Constraint::Length(plan_width(body, text)));
        side_by_side(body, vec![plan, (Pane::Vram, Constraint::Fill(1))], arrangement)
    } else {
        vec![(focus, body)]
    };
    Some(ScreenLayout { header, tabs: Some(tabs), panes, footer })
}

/// The panes that the preset has in view, as they are left in and their borders are moved; in the order of their digits.
fn together(body: Rect, text: bool, arrangement: &Arrangement) -> Vec<(Pane, Rect)> {
    let wide = body.width >= WIDE;
    let plan = Constraint::Length(plan_width(body, text));
    let fill = Constraint::Fill(1);
    let mut panes = match arrangement.preset {
        LayoutPreset::Grid | LayoutPreset::Single => {
            let mut top = vec![(Pane::Plan, plan), (Pane::Vram, Constraint::Fill(3))];
            if wide {
                top.push((Pane::Compare, Constraint::Fill(2)));
            }
            let bottom = vec![(Pane::Roofline, Constraint::Percentage(47)), (Pane::Monitor, fill)];
            let rows = shown(vec![top, bottom], arrangement);
            let places = rows_of(body, &rows, arrangement);
            rows.into_iter().zip(places).flat_map(|(row, place)| side_by_side(place, row, arrangement)).collect()
        }
        LayoutPreset::Edit => {
            let beside = vec![(Pane::Vram, fill), (Pane::Roofline, fill)];
            in_columns(body, vec![(vec![(Pane::Plan, fill)], plan), (beside, fill)], arrangement)
        }
        LayoutPreset::Watch => {
            let mut columns = vec![
                (vec![(Pane::Monitor, fill)], Constraint::Percentage(55)),
                (vec![(Pane::Compare, fill), (Pane::Vram, fill)], fill),
            ];
            if wide {
                let (monitor, rest) = (Constraint::Percentage(42), Constraint::Fill(1));
                columns = vec![
                    (vec![(Pane::Monitor, fill)], monitor),
                    (vec![(Pane::Compare, fill), (Pane::Roofline, fill)], rest),
                    (vec![(Pane::Plan, fill), (Pane::Vram, fill)], rest),
                ];
            }
            in_columns(body, columns, arrangement)
        }
    };
    panes.order_by_key(|(pane, _)| pane.digit());
    panes
}

/// Bands with the panes alone that are not left out.
fn shown(mut bands: Vec<Vec<(Pane, Constraint)>>, arrangement: &Arrangement) -> Vec<Vec<(Pane, Constraint)>> {
    for band in &mut bands {
        band.retain(|(pane, _)| arrangement.shows(*pane));
        // A pane that is left alone takes all.
        if let [(_, only)] = band.as_mut_slice() {
            *only = Constraint::Fill(1);
        }
    }
    bands.retain(|band| !band.is_empty());
    bands
}

/// Rows of panes, one over the other.
fn rows_of(body: Rect, rows: &[Vec<(Pane, Constraint)>], arrangement: &Arrangement) -> Vec<Rect> {
    let steps: Vec<i32> = rows.iter().map(|row| of_band(row, Side::Height, arrangement)).collect();
    let heights = Layout::vertical(rows.iter().map(|_| Constraint::Fill(1))).split(body);
    let sizes = moved(heights.iter().map(|place| place.height).collect(), &steps, STEP.1, LEAST.1);
    Layout::vertical(sizes.into_iter().map(Constraint::Length)).split(body).to_vec()
}

/// Panes of a row.
fn side_by_side(row: Rect, panes: Vec<(Pane, Constraint)>, arrangement: &Arrangement) -> Vec<(Pane, Rect)> {
    let steps: Vec<i32> = panes.iter().map(|(pane, _)| i32::from(arrangement.steps(*pane, Side::Width))).collect();
    let widths = Layout::horizontal(panes.iter().map(|(_, width)| *width)).split(row);
    let sizes = moved(widths.iter().map(|place| place.width).collect(), &steps, STEP.0, LEAST.0);
    let places = Layout::horizontal(sizes.into_iter().map(Constraint::Length)).split(row);
    panes.into_iter().map(|(pane, _)| pane).zip(places.iter().copied()).collect()
}

/// Columns of panes, each with its width.
fn in_columns(
    body: Rect,
    columns: Vec<(Vec<(Pane, Constraint)>, Constraint)>,
    arrangement: &Arrangement,
) -> Vec<(Pane, Rect)> {
    let (bands, widths): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let mut kept: Vec<(Vec<(Pane, Constraint)>, Constraint)> = Vec::new();
    for (band, width) in bands.into_iter().zip(widths) {
        kept.extend(shown(vec![band], arrangement).into_iter().map(|band| (band, width)));
    }
    if let [(_, only)] = kept.as_mut_slice() {
        *only = Constraint::Fill(1);
    }
    let steps: Vec<i32> = kept.iter().map(|(band, _)| of_band(band, Side::Width, arrangement)).collect();
    let places = Layout::horizontal(kept.iter().map(|(_, width)| *width)).split(body);
    let sizes = moved(places.iter().map(|place| place.width).collect(), &steps, STEP.0, LEAST.0);
    let places = Layout::horizontal(sizes.into_iter().map(Constraint::Length)).split(body);
    let mut panes = Vec::new();
    for ((band, _), place) in kept.into_iter().zip(places.iter()) {
        let steps: Vec<i32> = band.iter().map(|(pane, _)| i32::from(arrangement.steps(*pane, Side::Height))).collect();
        let heights = Layout::vertical(band.iter().map(|(_, height)| *height)).split(*place);
        let sizes = moved(heights.iter().map(|place| place.height).collect(), &steps, STEP.1, LEAST.1);
        let heights = Layout::vertical(sizes.into_iter().map(Constraint::Length)).split(*place);
        panes.extend(band.into_iter().map(|(pane, _)| pane).zip(heights.iter().copied()));
    }
    panes
}

/// Steps of a row's height or a column's width: those of its panes together.
fn of_band(band: &[(Pane, Constraint)], side: Side, arrangement: &Arrangement) -> i32 {
    band.iter().map(|(pane, _)| i32::from(arrangement.steps(*pane, side))).sum()
}

/// Sizes after each border was moved by its steps: what one gains, the next one gives, and the last one takes from the
/// one before.
fn moved(sizes: Vec<u16>, steps: &[i32], step: i32, least: u16) -> Vec<u16> {
    let mut sizes: Vec<i32> = sizes.into_iter().map(i32::from).collect();
    let least = i32::from(least);
    for (at, steps) in steps.iter().enumerate().filter(|(_, steps)| **steps != 0) {
        let other = if at + 1 < sizes.len() { at + 1 } else { at.wrapping_sub(1) };
        let (Some(own), Some(others)) = (sizes.get(at).copied(), sizes.get(other).copied()) else { continue };
        let by = (steps * step).max(least.min(own) - own).min(others - least.min(others));
        (sizes[at], sizes[other]) = (own + by, others - by);
    }
    sizes.into_iter().map(|size| u16::try_from(size).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(size: (u16, u16), focus: Pane, arrangement: &Arrangement) -> Option<ScreenLayout> {
        let request = LayoutRequest { focus, zoomed: false, text: false, arrangement };
        arrange(Rect::new(0, 0, size.0, size.1), request)
    }

    fn panes(size: (u16, u16), focus: Pane, arrangement: &Arrangement) -> Vec<Pane> {
        laid_out(size, focus, arrangement).unwrap().panes.iter().map(|(pane, _)| *pane).collect()
    }

    /// The presets as they are, and with borders moved as far as they go.
    fn arrangements() -> Vec<Arrangement> {
        let mut all = Vec::new();
        for preset in LayoutPreset::ALL {
            let plain = Arrangement::of(preset);
            for (pane, by) in [(Pane::Plan, 12), (Pane::Vram, -12), (Pane::Monitor, 12), (Pane::Compare, 12)] {
                let mut moved = plain.clone();
                moved.resize(pane, Side::Width, by);
                moved.resize(pane, Side::Height, by);
                all.push(moved);
            }
            let mut few = plain.clone();
            few.show_only(&[Pane::Plan, Pane::Monitor]);
            all.extend([plain, few]);
        }
        all
    }

    #[test]
    fn every_size_shows_the_focused_pane_inside_the_screen_without_overlap() {
        let arrangements = arrangements();
        // Both sides of each border where panes come or go.
        for width in [40, 59, 60, 79, 80, 99, 100, 109, 110, 159, 160, 400] {
            for height in [10, 15, 16, 24, 29, 30, 31, 120] {
                let area = Rect::new(0, 0, width, height);
                for (focus, arrangement) in
                    Pane::ALL.into_iter().flat_map(|pane| arrangements.iter().map(move |a| (pane, a)))
                {
                    for (zoomed, text) in [(false, false), (true, false), (false, true), (true, true)] {
                        let screen = arrange(area, LayoutRequest { focus, zoomed, text, arrangement }).unwrap();
                        assert!(screen.panes.iter().any(|(pane, _)| *pane == focus));
                        let rects: Vec<Rect> = screen.panes.iter().map(|(_, rect)| *rect).collect();
                        for (index, rect) in rects.iter().enumerate() {
                            assert_eq!(rect.intersection(area), *rect);
                            let least = if height < 16 { 6 } else { 8 };
                            assert!(rect.height >= least, "{width}x{height} {focus:?} {arrangement:?}: {rect:?}");
                            assert!(rect.width >= 22, "{width}x{height} {focus:?} {arrangement:?}: {rect:?}");
                            assert!(rects[index + 1..].iter().all(|other| !rect.intersects(*other)));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn too_small_is_said_not_drawn() {
        let plain = Arrangement::default();
        assert_eq!(laid_out((39, 40), Pane::Plan, &plain), None);
        assert_eq!(laid_out((100, 9), Pane::Plan, &plain), None);
        // Two lines of status, one of tabs, one of keys: six for the pane.
        assert_eq!(laid_out((40, 10), Pane::Plan, &plain).unwrap().panes, [(Pane::Plan, Rect::new(0, 3, 40, 6))]);
    }

    #[test]
    fn the_contracts_sizes() {
        let plain = Arrangement::default();
        assert_eq!(panes((120, 40), Pane::Plan, &plain), [Pane::Plan, Pane::Vram, Pane::Roofline, Pane::Monitor]);
        assert_eq!(panes((200, 50), Pane::Plan, &plain).len(), 5);
        assert_eq!(panes((80, 24), Pane::Plan, &plain), [Pane::Plan, Pane::Vram]);
        assert_eq!(panes((80, 24), Pane::Monitor, &plain), [Pane::Monitor]);
        assert_eq!(panes((120, 40), Pane::Compare, &plain), [Pane::Compare]);
    }

    #[test]
    fn presets_and_panes_that_are_left_out() {
        let edit = Arrangement::of(LayoutPreset::Edit);
        assert_eq!(panes((120, 40), Pane::Plan, &edit), [Pane::Plan, Pane::Vram, Pane::Roofline]);
        assert_eq!(panes((120, 40), Pane::Monitor, &edit), [Pane::Monitor], "alone, with tabs");
        let watch = Arrangement::of(LayoutPreset::Watch);
        assert_eq!(panes((120, 40), Pane::Monitor, &watch), [Pane::Vram, Pane::Monitor, Pane::Compare]);
        assert_eq!(panes((200, 50), Pane::Monitor, &watch).len(), 5);
        assert_eq!(panes((200, 50), Pane::Vram, &Arrangement::of(LayoutPreset::Single)), [Pane::Vram]);
        let mut few = Arrangement::default();
        few.show_only(&[Pane::Plan, Pane::Monitor]);
        assert_eq!(panes((120, 40), Pane::Plan, &few), [Pane::Plan, Pane::Monitor]);
        assert_eq!(panes((120, 40), Pane::Vram, &few), [Pane::Vram]);
    }

    #[test]
    fn a_step_moves_a_border_by_four_columns_or_two_rows() {
        let place = |arrangement: &Arrangement, pane| {
            let screen = laid_out((120, 40), Pane::Plan, arrangement).unwrap();
            screen.panes.into_iter().find(|(known, _)| *known == pane).unwrap().1
        };
        let (plain, mut moved) = (Arrangement::default(), Arrangement::default());
        moved.resize(Pane::Plan, Side::Width, 2);
        moved.resize(Pane::Monitor, Side::Height, 1);
        // The plan is 36 wide at first. 37 lines are shared by two rows: the monitor's gains two.
        assert_eq!((place(&plain, Pane::Plan).width, place(&moved, Pane::Plan).width), (36, 36 + 2 * 4));
        assert_eq!(place(&moved, Pane::Vram).width, 120 - 44);
        assert_eq!(place(&moved, Pane::Monitor).height, place(&plain, Pane::Monitor).height + 2);
        assert_eq!(place(&moved, Pane::Plan).height, place(&plain, Pane::Plan).height - 2);
    }
}
