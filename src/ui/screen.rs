//! The screen as it stands on the terminal: a frame that brings nothing but figures draws again only where they are.

use std::ops::Range;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use super::layout::{LayoutRequest, ScreenLayout, arrange};
use super::panes::Observed;
use super::text::{disarm, stands_alone};
use super::{Look, draw_all, draw_tabs, finish, footer, header, paint, panes};
use crate::app::{Pane, State};

/// What a terminal shows, cell by cell.
#[derive(Debug, Default)]
pub struct Screen {
    shown: Buffer,
    /// The parts of the last frame, in the order of the layout, where it had nothing above them.
    parts: Vec<(Part, Rect)>,
    /// What of the observed stood in each; none: it is not known.
    stood: Vec<Option<Observed>>,
}

/// A part of the screen, which draws in its own cells alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Tabs,
    Pane(Pane),
    Footer,
}

impl Screen {
    /// Nothing is on the terminal, which has so many columns and lines.
    #[must_use]
    pub fn blank((width, height): (u16, u16)) -> Self {
        Self { shown: Buffer::empty(Rect::new(0, 0, width, height)), ..Self::default() }
    }

    /// Columns and lines.
    #[must_use]
    pub const fn size(&self) -> (u16, u16) {
        (self.shown.area.width, self.shown.area.height)
    }

    /// More has happened than that something was observed: all is drawn anew.
    pub fn forget(&mut self) {
        self.parts.clear();
    }

    /// What it shows.
    #[must_use]
    pub const fn shown(&self) -> &Buffer {
        &self.shown
    }

    /// Draws a state and returns the columns and lines of the cells that have changed, each part's in the order of
    /// reading.
    pub fn update(&mut self, state: &State, look: &Look) -> Vec<(u16, u16)> {
        let area = self.shown.area;
        let dialogs = &state.dialogs;
        let bare = dialogs.overlay.is_none() && dialogs.picker.is_none();
        let layout = arrange(area, LayoutRequest::of(state)).filter(|_| bare);
        let parts = layout.as_ref().map(parts_of).unwrap_or_default();
        let stands: Vec<Option<Observed>> = parts.iter().map(|(part, _)| part.observed(state)).collect();
        let mut changed = Vec::new();
        if !parts.is_empty() && parts == self.parts {
            for (index, (part, place)) in parts.iter().enumerate() {
                if stands[index].is_none() || stands[index] != self.stood[index] {
                    self.draw_in(*place, look, &mut changed, |buffer| part.draw(state, look, *place, buffer));
                }
            }
        } else {
            self.draw_in(area, look, &mut changed, |buffer| draw_all(state, look, buffer));
        }
        (self.parts, self.stood) = (parts, stands);
        debug_assert!(self.is_right(state, look), "a part that was kept has changed, or one draws beyond its cells");
        changed
    }

    /// Draws afresh at `place`, and notes what has become another there.
    fn draw_in(&mut self, place: Rect, look: &Look, changed: &mut Vec<(u16, u16)>, draw: impl FnOnce(&mut Buffer)) {
        let mut fresh = Buffer::empty(place);
        draw(&mut fresh);
        paint(look, &mut fresh);
        let width = usize::from(place.width.max(1));
        for (row, line) in place.rows().zip(fresh.content.chunks_mut(width)) {
            let start = self.shown.index_of(row.x, row.y);
            let stands = &mut self.shown.content[start..start + line.len()];
            let Some(range) = range_of_changes(stands, line) else { continue };
            disarm(&mut line[range.clone()]);
            note_changes(stands, line, range.clone(), row, changed);
            stands[range.clone()].swap_with_slice(&mut line[range]);
        }
    }

    /// Whether the whole, drawn anew, would look the same.
    fn is_right(&self, state: &State, look: &Look) -> bool {
        let mut whole = Buffer::empty(self.shown.area);
        draw_all(state, look, &mut whole);
        finish(look, &mut whole);
        whole == self.shown
    }
}

impl Part {
    fn draw(self, state: &State, look: &Look, place: Rect, buffer: &mut Buffer) {
        match self {
            Self::Header => header::draw(state, look, place, buffer),
            Self::Tabs => draw_tabs(state, look, place, buffer),
            Self::Pane(pane) => panes::draw(pane, state, look, place, buffer),
            Self::Footer => footer::draw(state, look, place, buffer),
        }
    }

    /// What of the observed stands in it; none where that is most of what it shows.
    fn observed(self, state: &State) -> Option<Observed> {
        match self {
            Self::Header | Self::Tabs => None,
            Self::Pane(pane) => panes::observed(pane, state),
            Self::Footer => footer::is_still(state).then_some(Observed::Nothing),
        }
    }
}

/// From the first cell of a row that has become another to the last.
fn range_of_changes(stands: &[Cell], fresh: &[Cell]) -> Option<Range<usize>> {
    let differs = |(before, after): (&Cell, &Cell)| before != after;
    let first = stands.iter().zip(fresh).position(differs)?;
    let last = stands.iter().zip(fresh).rposition(differs)?;
    Some(first..last + 1)
}

/// Notes which cells of a row have become others: all of them lie in `range`.
fn note_changes(stands: &[Cell], fresh: &[Cell], range: Range<usize>, row: Rect, changed: &mut Vec<(u16, u16)>) {
    // With the cell before: a wide character may begin there.
    let near = range.start.saturating_sub(1)..range.end;
    if stands[near.clone()].iter().chain(&fresh[near]).all(stands_alone) {
        let cells = (row.left()..row.right()).zip(stands.iter().zip(fresh));
        let differing = cells.take(range.end).skip(range.start).filter(|(_, (before, after))| before != after);
        changed.extend(differing.map(|(column, _)| (column, row.y)));
    } else {
        // As one line each, which is how a wide character takes its second cell.
        let before = Buffer { area: row, content: stands.to_vec() };
        let after = Buffer { area: row, content: fresh.to_vec() };
        changed.extend(before.diff_iter(&after).map(|(column, line, _)| (column, line)));
    }
}

fn parts_of(layout: &ScreenLayout) -> Vec<(Part, Rect)> {
    let tabs = layout.tabs.map(|place| (Part::Tabs, place));
    let panes = layout.panes.iter().map(|(pane, place)| (Part::Pane(*pane), *place));
    [(Part::Header, layout.header)]
        .into_iter()
        .chain(tabs)
        .chain(panes)
        .chain([(Part::Footer, layout.footer)])
        .collect()
}
