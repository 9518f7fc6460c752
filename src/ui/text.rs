//! Text that is safe and the right width.

use std::borrow::Cow;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Alignment, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::printable::{printable, steers};
use crate::reading::{Absence, Reading};

/// The last line of defence: whatever a pane forgot to clean is not sent to the terminal.
pub fn disarm(cells: &mut [Cell]) {
    for cell in cells {
        // One byte is one plain character: nearly all cells.
        if cell.symbol().len() > 1 && cell.symbol().chars().any(steers) {
            let clean = printable(cell.symbol());
            cell.set_symbol(&clean);
        }
    }
}

/// Draws a line at a third of the cost where each of its characters is a cell, as nearly all are: how characters join
/// need not be asked then.
pub trait RenderLine {
    /// Draws it at the top of `area`.
    fn render(self, area: Rect, buffer: &mut Buffer);
}

impl RenderLine for Line<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        let cells = self
            .spans
            .iter()
            .flat_map(|span| span.content.chars())
            .try_fold(0_usize, |cells, character| is_one_cell(character).then_some(cells + 1));
        let missing = cells.and_then(|cells| usize::from(area.width).checked_sub(cells));
        let before = match (self.alignment, cells, missing) {
            (None | Some(Alignment::Left), Some(_), _) => 0,
            (Some(Alignment::Right), _, Some(missing)) => missing,
            _ => return Widget::render(self, area, buffer),
        };
        if area.is_empty() {
            return;
        }
        let area = Rect { height: 1, ..area };
        if self.style != Style::new() {
            buffer.set_style(area, self.style);
        }
        let start = buffer.index_of(area.x, area.y);
        let mut cells = buffer.content[start..start + usize::from(area.width)].iter_mut().skip(before);
        for span in &self.spans {
            for character in span.content.chars() {
                let Some(cell) = cells.next() else { return };
                cell.set_char(character).set_style(span.style);
            }
        }
    }
}

/// A character that takes one cell by itself and joins no other: ASCII, lines, blocks and dots, and the signs that the
/// screen is full of.
const fn is_one_cell(character: char) -> bool {
    matches!(character, ' '..='~' | '\u{2500}'..='\u{25cf}' | '\u{2800}'..='\u{28ff}' | '°' | '·' | '×' | '–' | '…' | '→' | '≤')
}

/// Whether nothing but that one cell changes where it is drawn.
pub fn stands_alone(cell: &Cell) -> bool {
    let mut characters = cell.symbol().chars();
    characters.next().is_some_and(is_one_cell) && characters.next().is_none()
}

/// Cells that a text takes.
fn cells(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// At most `width` cells of `text`; what is cut off is said by an ellipsis.
#[must_use]
pub fn fit(text: &str, width: usize) -> String {
    fitting(text, width).into_owned()
}

fn fitting(text: &str, width: usize) -> Cow<'_, str> {
    if cells(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut taken = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        taken.push(c);
        used += wide;
    }
    if width > 0 {
        taken.push('…');
    }
    Cow::Owned(taken)
}

/// At most `width` cells of `text`, its beginning and its end: names of nodes differ in either.
#[must_use]
pub fn ends(text: &str, width: usize) -> String {
    if cells(text) <= width || width < 3 {
        return fit(text, width);
    }
    let (start, end) = (width / 2, width - width / 2 - 1);
    let mut tail: Vec<char> = Vec::new();
    let mut used = 0;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > end {
            break;
        }
        tail.push(c);
    }
    // The ellipsis is in it.
    format!("{}{}", fit(text, start + 1), tail.iter().rev().collect::<String>())
}

/// `text` cut or padded on the right to exactly `width` cells.
#[must_use]
pub fn left(text: &str, width: usize) -> String {
    let mut fitted = fit(text, width);
    let missing = width.saturating_sub(cells(&fitted));
    pad(&mut fitted, missing);
    fitted
}

/// `text` cut or padded on the left to exactly `width` cells.
#[must_use]
pub fn right(text: &str, width: usize) -> String {
    let fitted = fitting(text, width);
    let missing = width.saturating_sub(cells(&fitted));
    let mut padded = String::with_capacity(missing + fitted.len());
    pad(&mut padded, missing);
    padded.push_str(&fitted);
    padded
}

fn pad(text: &mut String, mut blanks: usize) {
    const BLANKS: &str = "                                ";
    while blanks > 0 {
        let some = blanks.min(BLANKS.len());
        text.push_str(&BLANKS[..some]);
        blanks -= some;
    }
}

/// `text` broken between words into at most `most` lines of `width` cells.
#[must_use]
pub fn wrapped(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let full = lines.len() >= most;
        match lines.last_mut() {
            Some(line) if full || line.width() + 1 + word.width() <= width => {
                let longer = format!("{line} {word}");
                *line = fit(&longer, width);
                if *line != longer {
                    break;
                }
            }
            _ => lines.push(fit(word, width)),
        }
    }
    lines
}

/// Cells that spans take together.
#[must_use]
pub fn width_of(spans: &[Span<'_>]) -> usize {
    spans.iter().map(Span::width).sum()
}

/// A reading with the mark of its kind, or a dash.
#[must_use]
pub fn marked<T>(reading: &Reading<T>, show: impl FnOnce(&T) -> String) -> String {
    match reading {
        Reading::Known { value, kind, .. } => format!("{}{}", kind.mark(), show(value)),
        Reading::Absent(_) => "–".to_owned(),
    }
}

/// Why there is no mean of a figure that may be seen to move elsewhere.
#[must_use]
pub fn without_mean(why: &Absence) -> String {
    match why {
        Absence::TooShort => "averaging".to_owned(),
        other => other.to_string(),
    }
}

/// A relative difference as `+5 %`; under half a percent it is `0 %`.
#[must_use]
pub fn signed_percent(relative: f64) -> String {
    let percent = (relative * 100.0).round();
    if percent == 0.0 { "0 %".to_owned() } else { format!("{percent:+.0} %") }
}

#[cfg(test)]
mod tests {
    use ratatui::style::{Color, Stylize};

    use super::*;

    #[test]
    fn a_line_is_drawn_as_the_library_draws_it() {
        let texts = ["", "plain", "▕██▌ ⣿⣶ 44.1 °C ≤ 3…", "訓練 a\u{301} e\u{200d}", "\u{25fd}▲▼◆○●", "a\tb"];
        for text in texts {
            for width in [0, 1, 5, 9, 30] {
                let area = Rect::new(2, 1, width, 2);
                let filled = || {
                    let mut buffer = Buffer::filled(Rect::new(0, 0, 20, 4), ratatui::buffer::Cell::new("x"));
                    buffer.set_style(buffer.area, Style::new().fg(Color::Green));
                    buffer
                };
                let line = || {
                    let spans = vec![Span::raw("> "), Span::raw(text).fg(Color::Red).bold(), Span::raw(text).on_blue()];
                    Line::from(spans).italic()
                };
                for line in [line(), line().right_aligned(), line().centered()] {
                    let (mut ours, mut theirs) = (filled(), filled());
                    RenderLine::render(line.clone(), area, &mut ours);
                    Widget::render(line, area, &mut theirs);
                    assert_eq!(ours, theirs, "{text:?} in {width}");
                }
            }
        }
        // Each of those that are taken for one cell is one.
        for character in (0..=0x3000).filter_map(char::from_u32).filter(|character| is_one_cell(*character)) {
            assert_eq!(character.width(), Some(1), "{character}");
        }
    }

    #[test]
    fn a_hidden_mark_in_a_cell_is_disarmed() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 1));
        buffer.set_string(0, 0, "my\u{202e} card", Style::new());
        disarm(&mut buffer.content);
        assert!(!buffer.content.iter().any(|cell| cell.symbol().chars().any(steers)));
    }

    #[test]
    fn wide_characters_count_double() {
        assert_eq!(fit("訓練中", 5), "訓練…");
        assert_eq!(left("訓練", 5), "訓練 ");
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("abcd", 0), "");
    }

    #[test]
    fn words_are_wrapped_and_what_is_left_out_is_said() {
        assert_eq!(wrapped("the cat sat on the mat", 7, 9), ["the cat", "sat on", "the mat"]);
        assert_eq!(wrapped("the cat sat on the mat", 7, 2), ["the cat", "sat on…"]);
        assert_eq!(wrapped("", 7, 2), Vec::<String>::new());
    }

    #[test]
    fn differences_carry_their_sign() {
        assert_eq!(signed_percent(0.054), "+5 %");
        assert_eq!(signed_percent(-0.08), "-8 %");
        assert_eq!(signed_percent(-0.001), "0 %");
    }
}
