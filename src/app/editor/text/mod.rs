//! The plan as text: a cursor in it, and what may be written there. The editor keeps the text
//! itself; this follows it.

mod complete;
mod splice;
mod spot;

use ratatui_textarea::{CursorMove, Input, TextArea};

use super::Editor;
use super::field::Field;
use crate::app::key::{KeyPress, PAGE};
use crate::catalog::{Catalog, UNKNOWN_MODEL};
use crate::plan::TextPosition;
use crate::plan::schema;
pub use complete::Completion;
use splice::{EditedRows, bom_of};
pub use spot::{Spot, SpotKind};

/// A column beyond which a line counts as very long.
const FAR: usize = 60_000;

/// Characters before the cursor that are edited with it on such a line.
const BESIDE: usize = 1_000;

/// A cursor in the plan's text.
#[derive(Debug, Clone)]
pub struct TextView {
    /// Without their ends; one at least.
    lines: Vec<String>,
    row: usize,
    /// In characters.
    column: usize,
    /// A row and the byte of the text at which it begins: near where the last change was.
    anchor: (usize, usize),
    /// What was changed since the text was last told.
    edited: Option<EditedRows>,
    /// What may be written at the cursor, while that is offered.
    pub completion: Option<Completion>,
}

impl TextView {
    /// Opens a text at a place of it.
    #[must_use]
    pub fn open(text: &str, at: Option<TextPosition>) -> Self {
        let (lines, anchor) = (lines_of(text), (0, bom_of(text)));
        let mut view = Self { lines, row: 0, column: 0, anchor, edited: None, completion: None };
        if let Some(at) = at {
            view.go_to(at.line.saturating_sub(1), at.column.saturating_sub(1));
        }
        view
    }

    /// The text of a plan that has nothing good to show yet, at its fault; none where it has, or
    /// where what it refers to is still being read.
    #[must_use]
    pub fn to_mend(editor: &Editor) -> Option<Self> {
        let hopeless = editor.prediction().is_none() && editor.unread_config().is_none();
        let fault = editor.faults().first().filter(|_| hopeless)?;
        Some(Self::open(editor.text(), fault.at))
    }

    /// Follows a text that was changed from elsewhere, to the byte at which it was.
    pub fn follow(&mut self, text: &str, at: usize) {
        self.lines = lines_of(text);
        (self.anchor, self.edited) = ((0, bom_of(text)), None);
        self.completion = None;
        let before = text.get(..at).unwrap_or(text).trim_start_matches(splice::BOM);
        let row = before.matches('\n').count();
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
        self.go_to(row, column);
    }

    /// The lines, without their ends.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Line and column of the cursor, from 0, in characters.
    #[must_use]
    pub fn cursor(&self) -> (usize, usize) {
        (self.row, self.column)
    }

    /// What may stand where the cursor is.
    #[must_use]
    pub fn spot(&self) -> Spot {
        let (row, column) = self.cursor();
        spot::at(self.lines(), row, column)
    }

    /// The key that the cursor is on, where the schema knows it.
    #[must_use]
    pub fn key(&self) -> Option<&'static schema::PlanKey> {
        schema::key(self.spot().key.as_deref()?)
    }

    /// Puts the cursor there, or as near as there is text.
    pub fn go_to(&mut self, row: usize, column: usize) {
        self.row = row.min(self.lines.len().saturating_sub(1));
        self.column = self.lines.get(self.row).map_or(0, |line| column.min(line.chars().count()));
    }

    /// Edits, or moves the cursor, with the library on the cursor's line and those beside it: it looks at all that it
    /// has each time. What `act` says.
    fn with_area<T>(&mut self, act: impl FnOnce(&mut TextArea<'static>) -> T) -> T {
        let near = self.row.saturating_sub(1)..(self.row + 2).min(self.lines.len());
        let (start, at) = (near.start, self.row - near.start);
        let mut lines: Vec<String> = self.lines[near.clone()].iter_mut().map(std::mem::take).collect();
        // What lies far before the cursor on its line waits aside: the library's jumps end at 65535.
        let far = if self.column > FAR { self.column - BESIDE } else { 0 };
        let cut = lines[at].char_indices().nth(far).map_or(0, |(byte, _)| byte);
        let rest = lines[at].split_off(cut);
        let mut before = std::mem::replace(&mut lines[at], rest);
        let mut area = TextArea::new(lines);
        // The editor keeps every change; twice would be one too many.
        area.set_max_histories(0);
        let jump = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        area.move_cursor(CursorMove::Jump(jump(at), jump(self.column - far)));
        let said = act(&mut area);
        let cursor = area.cursor();
        self.row = start + cursor.0;
        self.column = cursor.1 + if cursor.0 == at { far } else { 0 };
        let mut lines = area.into_lines();
        if far > 0 {
            // So far from its beginning the line is still there; the last of a text may be joined to the one above.
            before.push_str(&lines[at]);
            lines[at] = before;
        }
        self.edited = Some(EditedRows { first: start, before: near.len(), after: lines.len() });
        self.lines.splice(near, lines);
        said
    }

    /// Takes a key. Whether the lines are others now.
    pub fn take(&mut self, key: KeyPress) -> bool {
        if let Some(movement) = movement(key) {
            self.with_area(|area| area.move_cursor(movement));
            return false;
        }
        match key {
            KeyPress::PageUp | KeyPress::PageDown => {
                let (row, column) = self.cursor();
                let row = if key == KeyPress::PageUp { row.saturating_sub(PAGE) } else { row + PAGE };
                self.go_to(row.min(self.lines().len().saturating_sub(1)), column);
                false
            }
            KeyPress::Home | KeyPress::End => {
                self.go_to(self.row, if key == KeyPress::Home { 0 } else { usize::MAX });
                false
            }
            // Of a very long line the library has only what is near the cursor.
            KeyPress::Ctrl('u') if self.column > FAR => {
                let line = &mut self.lines[self.row];
                *line = line.chars().skip(self.column).collect();
                self.column = 0;
                self.edited = Some(EditedRows { first: self.row, before: 1, after: 1 });
                true
            }
            KeyPress::Enter => self.new_line(),
            KeyPress::Ctrl('w') => self.with_area(TextArea::delete_word),
            KeyPress::Ctrl('k') => self.with_area(TextArea::delete_line_by_end),
            KeyPress::Ctrl('u') => self.with_area(TextArea::delete_line_by_head),
            key => input(key).is_some_and(|key| {
                if matches!(key, ratatui_textarea::Key::Char(_)) {
                    self.drop_mark();
                }
                let input = Input { key, ctrl: false, alt: false, shift: false };
                self.with_area(|area| area.input_without_shortcuts(input))
            }),
        }
    }

    /// A new line, indented as the one above; deeper behind a key that opens a section.
    fn new_line(&mut self) -> bool {
        let (row, column) = self.cursor();
        let line: String = self.lines().get(row).map_or("", String::as_str).chars().take(column).collect();
        let mut indent = line.len() - line.trim_start_matches(' ').len();
        if line.trim_end().ends_with(':') {
            indent += spot::INDENT;
        }
        self.with_area(|area| {
            area.insert_newline();
            area.insert_str(" ".repeat(indent));
        });
        true
    }

    /// Takes pasted text.
    pub fn paste(&mut self, text: &str) -> bool {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let clean: String = text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
        self.drop_mark();
        self.with_area(|area| area.insert_str(clean))
    }

    /// Offers what may be written here. `asked`: also before anything of it is typed.
    pub fn offer(&mut self, asked: bool, editor: &Editor, catalog: &Catalog) {
        self.completion = Completion::at(&self.spot(), asked, editor, catalog);
    }

    /// Writes what is offered and selected. Whether there was any.
    pub fn complete(&mut self) -> bool {
        let Some(completion) = self.completion.take() else { return false };
        let Some(choice) = completion.choice() else { return false };
        let (row, column) = self.cursor();
        let goes_on = self.lines().get(row).is_some_and(|line| line.chars().skip(column).any(|c| c == ':'));
        let text = match completion.wanted {
            SpotKind::Key if goes_on => choice.name.clone(),
            SpotKind::Key => format!("{}: ", choice.name),
            _ => choice.name.clone(),
        };
        // A section goes on below.
        let text = if completion.opens_section() && !goes_on { text.trim_end() } else { &text };
        self.drop_mark();
        self.with_area(|area| {
            for _ in 0..completion.typed {
                area.delete_char();
            }
            area.insert_str(text);
        });
        true
    }

    /// What is written at the mark of a model that is not known yet takes its place.
    fn drop_mark(&mut self) {
        let (row, column) = self.cursor();
        let behind: String = self.lines[row].chars().skip(column).take(UNKNOWN_MODEL.len() + 1).collect();
        let word = behind.split([' ', ',', '}', '#']).next().unwrap_or_default();
        if word == UNKNOWN_MODEL && self.key().is_some_and(|key| key.path == Field::Model.key()) {
            self.with_area(|area| {
                for _ in word.chars() {
                    area.delete_next_char();
                }
            });
        }
    }

    /// Indents to the next multiple of two.
    pub fn indent(&mut self) -> bool {
        let (_, column) = self.cursor();
        self.with_area(|area| area.insert_str(" ".repeat(spot::INDENT - column % spot::INDENT)))
    }
}

fn lines_of(text: &str) -> Vec<String> {
    let body = &text[bom_of(text)..];
    body.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned()).collect()
}

fn movement(key: KeyPress) -> Option<CursorMove> {
    Some(match key {
        KeyPress::Up => CursorMove::Up,
        KeyPress::Down => CursorMove::Down,
        KeyPress::Left => CursorMove::Back,
        KeyPress::Right => CursorMove::Forward,
        KeyPress::WordLeft => CursorMove::WordBack,
        KeyPress::WordRight => CursorMove::WordForward,
        _ => return None,
    })
}

fn input(key: KeyPress) -> Option<ratatui_textarea::Key> {
    use ratatui_textarea::Key as Typed;
    match key {
        KeyPress::Char(letter) => Some(Typed::Char(letter)),
        KeyPress::Backspace => Some(Typed::Backspace),
        KeyPress::Delete => Some(Typed::Delete),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with what was changed in the view.
    fn told(view: &mut TextView, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some((place, inserted)) = view.splice(&text) {
            text.replace_range(place, &inserted);
        }
        assert_eq!(lines_of(&text), view.lines());
        text
    }

    fn typed(text: &str, keys: &[KeyPress]) -> String {
        let mut view = TextView::open(text, None);
        keys.iter().fold(text.to_owned(), |text, key| if view.take(*key) { told(&mut view, &text) } else { text })
    }

    #[test]
    fn a_models_name_takes_the_place_of_the_mark() {
        let text = "model:\n  preset: unknown  # a DeepSpeed file names none\n";
        let mut view = TextView::open(text, Some(TextPosition { line: 2, column: 11 }));
        assert!(view.take(KeyPress::Char('g')) && view.take(KeyPress::Char('2')));
        assert_eq!(told(&mut view, text), "model:\n  preset: g2  # a DeepSpeed file names none\n");
        // Elsewhere the word is a word.
        let text = "model:\n  hf_config: unknown\n";
        let mut view = TextView::open(text, Some(TextPosition { line: 2, column: 14 }));
        assert!(view.take(KeyPress::Char('g')));
        assert_eq!(told(&mut view, text), "model:\n  hf_config: gunknown\n");
    }

    #[test]
    fn what_is_not_touched_keeps_its_bytes() {
        for text in ["", "a: 1", "a: 1\n", "\u{feff}a: 1\r\nb: 2\n\r\n", "a: 1\r\n\tb\r\r\n"] {
            assert_eq!(typed(text, &[KeyPress::Char('x'), KeyPress::Backspace]), text);
            assert_eq!(typed(text, &[KeyPress::Down, KeyPress::Down, KeyPress::Char('x'), KeyPress::Backspace]), text);
        }
        let text = "\u{feff}a: 1\r\nb: 2\nc: 3";
        assert_eq!(typed(text, &[KeyPress::Down, KeyPress::End, KeyPress::Char('0')]), "\u{feff}a: 1\r\nb: 20\r\nc: 3");
        assert_eq!(typed(text, &[KeyPress::End, KeyPress::Char('0')]), "\u{feff}a: 10\r\nb: 2\nc: 3");
    }

    #[test]
    fn the_last_line_is_joined_to_the_one_above() {
        assert_eq!(typed("a: 1\n", &[KeyPress::Down, KeyPress::Backspace]), "a: 1");
        assert_eq!(typed("a: 1\nb: 2", &[KeyPress::Down, KeyPress::Backspace]), "a: 1b: 2");
        assert_eq!(typed("a: 1\nb: 2", &[KeyPress::End, KeyPress::Delete]), "a: 1b: 2");
    }

    #[test]
    fn changes_up_and_down_a_text_are_at_their_places() {
        let text: String = (0..50).map(|line| format!("k{line}: {line}\r\n")).collect();
        let mut view = TextView::open(&text, None);
        let mut now = text.clone();
        for row in [40, 3, 4, 49, 50, 0, 17, 16, 39] {
            view.go_to(row, usize::MAX);
            view.take(KeyPress::Char('x'));
            now = told(&mut view, &now);
            view.take(KeyPress::Left);
            view.take(KeyPress::Enter);
            now = told(&mut view, &now);
            view.take(KeyPress::Backspace);
            now = told(&mut view, &now);
        }
        assert_eq!(now.matches('x').count(), 9);
        assert_eq!(now.replace('x', ""), text);
    }

    #[test]
    fn a_new_line_ends_as_the_others_do_and_is_indented_alike() {
        let keys = [KeyPress::End, KeyPress::Enter, KeyPress::Char('x')];
        assert_eq!(typed("  a: 1\r\n  b: 2\r\n", &keys), "  a: 1\r\n  x\r\n  b: 2\r\n");
        assert_eq!(typed("a:\n", &keys), "a:\n  x\n");
        assert_eq!(typed("a: 1", &[KeyPress::End, KeyPress::Enter]), "a: 1\n");
    }

    #[test]
    fn a_change_from_elsewhere_takes_the_cursor_along() {
        let mut view = TextView::open("a: 1\nb: 2\n", None);
        view.follow("\u{feff}a: 1\nb: 25\n", "\u{feff}a: 1\nb: 25".len());
        assert_eq!(view.cursor(), (1, 5));
    }

    #[test]
    fn the_end_of_a_long_text_is_reached() {
        let text = "\n".repeat(70_000);
        let mut view = TextView::open(&text, None);
        view.follow(&text, text.len());
        assert_eq!(view.cursor(), (70_000, 0));
    }

    #[test]
    fn a_very_long_line_is_edited_at_its_end() {
        let long = "x".repeat(70_000);
        let text = format!("a: 1\n{long}\nb: 2\n");
        let keys = [
            KeyPress::Down,
            KeyPress::End,
            KeyPress::Char('y'),
            KeyPress::Left,
            KeyPress::Char('z'),
            KeyPress::Right,
            KeyPress::Enter,
        ];
        assert_eq!(typed(&text, &keys), format!("a: 1\n{long}zy\n\nb: 2\n"));
        let mut view = TextView::open(&text, None);
        view.go_to(1, 70_000);
        view.take(KeyPress::Left);
        assert_eq!(view.cursor(), (1, 69_999));
        view.take(KeyPress::Ctrl('u'));
        assert_eq!(told(&mut view, &text), "a: 1\nx\nb: 2\n");
        assert_eq!(
            typed(&text, &[KeyPress::Down, KeyPress::End, KeyPress::Right, KeyPress::Backspace]),
            format!("a: 1\n{long}b: 2\n")
        );
    }

    #[test]
    fn pasted_text_has_the_texts_line_ends() {
        let text = "a: 1\r\n";
        let mut view = TextView::open(text, None);
        view.paste("b: 2\rc: \u{1b}3\n");
        assert_eq!(told(&mut view, text), "b: 2\r\nc: 3\r\na: 1\r\n");
    }
}
