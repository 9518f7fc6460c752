//! Draws a [`State`]: reads it, decides nothing.

mod account;
mod ascii;
mod bar;
mod chart;
mod conflict;
mod diff;
mod export;
mod fixes;
mod footer;
mod header;
mod help;
mod largest;
mod layout;
mod memory_unit;
mod panes;
mod picker;
mod plans;
mod point;
mod ran_out;
mod required_metrics;
mod screen;
mod search;
mod sheet;
mod standing;
mod sweep;
mod text;
mod theme;
mod topics;

pub use point::{Pointer, hit};
pub use required_metrics::required_metrics;
pub use screen::Screen;
pub use standing::cause_words;
pub use text::{signed_percent, wrapped};
pub use theme::{EMBEDDED, Theme, ThemeError};

use std::borrow::Cow;
use std::cell::RefCell;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::app::{Overlay, Pane, State};
use crate::printable::printable;

/// How a screen looks, apart from what it says.
#[derive(Debug, Clone)]
pub struct Look {
    /// Colours.
    pub theme: Theme,
    /// Nothing but ASCII characters.
    pub ascii: bool,
    /// Where rows stand that can be selected, while they are drawn to find the one under the mouse.
    rows: Option<RefCell<Vec<(Rect, usize)>>>,
}

impl Look {
    /// How screens look.
    #[must_use]
    pub const fn new(theme: Theme, ascii: bool) -> Self {
        Self { theme, ascii, rows: None }
    }

    /// As it is drawn, without its colours, noting where its rows are.
    fn of_rows(ascii: bool) -> Self {
        Self { rows: Some(RefCell::default()), ..Self::new(Theme::colourless(), ascii) }
    }

    /// A line of what is drawn in `area` stands for a row that can be selected.
    fn place_row(&self, area: Rect, line: usize, row: usize) {
        let Ok(line) = u16::try_from(line) else { return };
        self.place_cells(Rect { y: area.y.saturating_add(line), height: 1, ..area }.intersection(area), row);
    }

    /// These cells stand for a row that can be selected.
    fn place_cells(&self, cells: Rect, row: usize) {
        if let Some(rows) = &self.rows {
            rows.borrow_mut().push((cells, row));
        }
    }

    /// The row whose cells are there; of several the one that was drawn last, which is what is seen.
    fn row_at(&self, at: Position) -> Option<usize> {
        let rows = self.rows.as_ref()?.borrow();
        rows.iter().rev().find(|(cells, _)| cells.contains(at)).map(|(_, row)| *row)
    }

    /// Between a figure and what it became.
    const fn arrow(&self) -> &'static str {
        if self.ascii { " -> " } else { "→" }
    }

    /// Keys in words that the screen has: a single character would not tell `⏎`.
    fn keys<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.ascii { Cow::Owned(text.replace('⏎', "Enter")) } else { Cow::Borrowed(text) }
    }
}

/// Draws the whole screen.
pub fn draw(state: &State, look: &Look, frame: &mut Frame<'_>) {
    let buffer = frame.buffer_mut();
    draw_all(state, look, buffer);
    finish(look, buffer);
}

/// Draws every part of the screen, as large as `buffer`.
fn draw_all(state: &State, look: &Look, buffer: &mut Buffer) {
    let area = buffer.area;
    let Some(screen) = layout::arrange(area, layout::LayoutRequest::of(state)) else {
        return draw_too_small(state, look, area, buffer);
    };
    header::draw(state, look, screen.header, buffer);
    if let Some(tabs) = screen.tabs {
        draw_tabs(state, look, tabs, buffer);
    }
    for (pane, place) in &screen.panes {
        panes::draw(*pane, state, look, *place, buffer);
    }
    let body = body(area, &screen);
    draw_overlay(state, look, body, buffer);
    if let Some(picker) = &state.dialogs.picker {
        picker::draw(picker, look, body, buffer);
    }
    footer::draw(state, look, screen.footer, buffer);
}

/// Puts what was drawn into the theme's colours and into characters that do no harm.
fn finish(look: &Look, buffer: &mut Buffer) {
    paint(look, buffer);
    text::disarm(&mut buffer.content);
}

/// Puts what was drawn into the theme's colours and into the characters that the screen has.
fn paint(look: &Look, buffer: &mut Buffer) {
    look.theme.paint(buffer);
    if look.ascii {
        ascii::reduce(buffer);
    }
}

fn draw_too_small(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let (width, height) = layout::SMALLEST;
    let text = format!("{}×{} is too small for MemWall: it needs {width}×{height}. q quits.", area.width, area.height);
    let question = state.dialogs.overlay == Some(Overlay::ConfirmQuit);
    let text = if question { format!("{} {text}", footer::unsaved(&state.plans, usize::from(u16::MAX))) } else { text };
    let lines = text::wrapped(&text, area.width as usize, area.height as usize);
    for (line, place) in lines.into_iter().zip(area.rows()) {
        Line::styled(line, look.theme.warning()).render(place, buffer);
    }
}

/// What lies between the status and the keys: where overlays and lists are.
fn body(area: Rect, screen: &layout::ScreenLayout) -> Rect {
    Rect { y: screen.header.bottom(), height: area.height - 3, ..area }
}

fn draw_overlay(state: &State, look: &Look, body: Rect, buffer: &mut Buffer) {
    let editor = &state.plans.editor;
    let (saved, text) = (editor.saved_text(), editor.text());
    match state.dialogs.overlay {
        None => {}
        Some(Overlay::Help(line)) => help::draw(state, line, look, body, buffer),
        Some(Overlay::Topic { topic, line }) => topics::draw(topic, line, state.views.size, look, body, buffer),
        Some(Overlay::Tutorial(line)) => topics::draw_tutorial(state, line, look, body, buffer),
        Some(Overlay::Lesson(line)) => topics::draw_lesson(state, line, look, body, buffer),
        Some(Overlay::ConfirmQuit) => {
            let title = format!("unsaved: {}", printable(editor.name()));
            diff::draw(&title, (saved, text), 0, look, body, buffer);
        }
        Some(Overlay::Diff(line)) => {
            let title =
                if editor.faults().is_empty() { "to be saved" } else { "to be saved, though it is no valid plan" };
            diff::draw(title, (saved, text), line, look, body, buffer);
        }
        Some(Overlay::Conflict(line)) => conflict::draw(state, line, look, body, buffer),
        Some(Overlay::Export(line)) => {
            if let Some(export) = &state.plans.export {
                export::draw(export, line, look, body, buffer);
            }
        }
        Some(Overlay::Imported(line)) => {
            if let Some(account) = &state.plans.imported {
                account::draw(account, line, look, body, buffer);
            }
        }
        Some(Overlay::Recovered(line)) => {
            if let Some(draft) = state.plans.drafts.first() {
                let title = format!("{}, unsaved at {}", printable(editor.name()), printable(&draft.origin()));
                let with = draft.on(text).unwrap_or_else(|conflict| conflict.both);
                diff::draw(&title, (text, &with), line, look, body, buffer);
            }
        }
        Some(Overlay::Search) => {
            if let Some(view) = &state.dialogs.search {
                search::draw(view, state.plans.reference(), look, body, buffer);
            }
        }
        Some(Overlay::Sweep) => {
            if let Some(view) = &state.dialogs.sweep {
                sweep::draw(view, state.plans.reference(), look, body, buffer);
            }
        }
        Some(Overlay::Proposal(line)) => {
            if let Some(proposal) = &state.run.proposal {
                account::draw(&proposal.account, line, look, body, buffer);
            }
        }
        Some(Overlay::Fixes) => {
            if let Some(view) = &state.dialogs.fixes {
                fixes::draw(view, look, body, buffer);
            }
        }
        Some(Overlay::Largest) => {
            if let Some(found) = &state.dialogs.largest {
                largest::draw(found, look, body, buffer);
            }
        }
        Some(Overlay::RanOut(line)) => {
            if let Some(known) = &state.run.ran_out {
                ran_out::draw(known, line, look, body, buffer);
            }
        }
        Some(Overlay::Plans(selected)) => plans::draw(&state.plans, selected, look, body, buffer),
    }
}

fn draw_tabs(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let views = &state.views;
    let mut spans = Vec::new();
    // Where there is no room for all names, the digits tell the others.
    let named = area.width >= point::TABS;
    for pane in Pane::ALL {
        let style = if pane == views.focus { look.theme.accent() } else { look.theme.dim() };
        // As wide as either word: nothing moves when a draft begins.
        let name = match (pane, &state.plans.run) {
            (Pane::Plan, Some(_)) if state.plans.drafted_beside().is_some() => "Draft",
            (Pane::Plan, Some(_)) => "Plan ",
            (pane, _) => pane.name(),
        };
        let text = if named || pane == views.focus {
            format!(" {} {name} ", pane.digit())
        } else {
            format!(" {} ", pane.digit())
        };
        spans.push(Span::styled(text, style));
    }
    if views.zoomed {
        spans.push(Span::styled(" zoomed ", look.theme.dim()));
    }
    let product = if area.width < header::WITH_THE_PRODUCT { "memwall " } else { "" };
    if text::width_of(&spans) + product.len() < area.width as usize {
        Line::styled(product, look.theme.dim()).right_aligned().render(area, buffer);
    }
    Line::from(spans).render(area, buffer);
}
