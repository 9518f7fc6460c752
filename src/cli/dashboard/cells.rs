//! Cells as bytes for the terminal, few of them: a slow line carries 8000 a second, and a library that writes colours
//! and places for every cell by itself needs half as many again. Only what every terminal knows since the VT220 is used.

use std::fmt;
use std::io::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

/// Writes the cells that have changed, whose columns and lines are given in the order of reading. The terminal writes
/// in its own colours before, and does again afterwards.
pub fn write_cells(bytes: &mut Vec<u8>, shown: &Buffer, changed: &[(u16, u16)]) {
    let mut pen = Pen { bytes, shown, at: None, style: CellStyle::PLAIN };
    let mut rest = changed;
    while let Some(&(column, line)) = rest.first() {
        let blanks = blanks(shown, rest);
        pen.go_to(column, line);
        if blanks > WORTH_ERASING {
            pen.erase(blanks);
            rest = &rest[blanks..];
        } else {
            pen.print(&shown[(column, line)]);
            rest = &rest[1..];
        }
    }
    pen.put_on(CellStyle::PLAIN);
}

/// More blanks in a row than it takes bytes to erase them and to go on behind them.
const WORTH_ERASING: usize = 10;

/// How many of the first of these cells are blanks beside each other without a colour of their own.
fn blanks(shown: &Buffer, cells: &[(u16, u16)]) -> usize {
    let Some(&(first, line)) = cells.first() else { return 0 };
    let is_next = |(column, cell): (u16, &(u16, u16))| {
        let stands = &shown[*cell];
        *cell == (column, line) && is_blank(stands) && stands.bg == Color::Reset
    };
    (first..).zip(cells).take_while(|next| is_next(*next)).count()
}

/// What shows where nothing is written.
const SHOWN_ON_BLANKS: Modifier = Modifier::UNDERLINED.union(Modifier::REVERSED).union(Modifier::CROSSED_OUT);

/// Nothing but the colour behind it is seen.
fn is_blank(cell: &Cell) -> bool {
    cell.symbol() == " " && !cell.modifier.intersects(SHOWN_ON_BLANKS)
}

/// In which a cell is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellStyle {
    foreground: Color,
    background: Color,
    modifier: Modifier,
}

impl CellStyle {
    /// The terminal's own.
    const PLAIN: Self = Self { foreground: Color::Reset, background: Color::Reset, modifier: Modifier::empty() };

    const fn of(cell: &Cell) -> Self {
        Self { foreground: cell.fg, background: cell.bg, modifier: cell.modifier }
    }

    /// Whether the cell, written in this style, looks as it should.
    fn suits(self, cell: &Cell) -> bool {
        let blank = is_blank(cell) && self.background == cell.bg && !self.modifier.intersects(SHOWN_ON_BLANKS);
        blank || self == Self::of(cell)
    }
}

/// Where the terminal writes next, and how.
struct Pen<'a> {
    bytes: &'a mut Vec<u8>,
    shown: &'a Buffer,
    /// None: nobody knows.
    at: Option<(u16, u16)>,
    style: CellStyle,
}

impl Pen<'_> {
    fn go_to(&mut self, column: u16, line: u16) {
        match self.at {
            Some((at, same)) if same == line && at <= column => self.go_right(at, column, line),
            Some((_, above)) if above + 1 == line && column == 0 => self.put("\r\n"),
            _ => self.write(format_args!("\x1b[{};{}H", line + 1, column + 1)),
        }
        self.at = Some((column, line));
    }

    /// Over a few cells the way is shorter with what stands there already.
    fn go_right(&mut self, from: u16, to: u16, line: u16) {
        let shown = self.shown;
        let between = || (from..to).map(|column| &shown[(column, line)]);
        let cells = usize::from(to - from);
        // An escape and two characters, and between them how many, where that is not one.
        let bytes = match cells {
            1 => 3,
            2..=9 => 4,
            _ => 5,
        };
        if cells <= bytes && between().all(|cell| is_ascii(cell) && self.style.suits(cell)) {
            between().for_each(|cell| self.put(cell.symbol()));
        } else if cells == 1 {
            self.put("\x1b[C");
        } else {
            self.write(format_args!("\x1b[{cells}C"));
        }
    }

    fn print(&mut self, cell: &Cell) {
        if !self.style.suits(cell) {
            self.put_on(CellStyle::of(cell));
        }
        self.put(cell.symbol());
        // Behind a wide character the terminal and this program may be of two minds.
        let is_narrow = is_ascii(cell) || cell.symbol().width() == 1;
        self.at = self.at.filter(|_| is_narrow).map(|(column, line)| (column + 1, line));
    }

    /// Erases so many cells from here on, and stays. Some terminals give them the colour behind that is on, some none.
    fn erase(&mut self, cells: usize) {
        if self.style.background != Color::Reset || self.style.modifier.intersects(SHOWN_ON_BLANKS) {
            self.put_on(CellStyle::PLAIN);
        }
        self.write(format_args!("\x1b[{cells}X"));
    }

    /// Writes in that style from here on.
    fn put_on(&mut self, style: CellStyle) {
        if style == self.style {
            return;
        }
        self.put("\x1b[");
        let begin = self.bytes.len();
        let mut from = self.style;
        if style == CellStyle::PLAIN || !style.modifier.contains(from.modifier) {
            // Alone it may be left out.
            if style != CellStyle::PLAIN {
                self.code(begin, format_args!("0"));
            }
            from = CellStyle::PLAIN;
        }
        let added = style.modifier.difference(from.modifier);
        for (_, code) in MODIFIERS.iter().filter(|(one, _)| added.contains(*one)) {
            self.code(begin, format_args!("{code}"));
        }
        if style.foreground != from.foreground {
            self.color(begin, style.foreground, '3');
        }
        if style.background != from.background {
            self.color(begin, style.background, '4');
        }
        self.put("m");
        self.style = style;
    }

    /// A code of the sequence whose codes begin at that byte.
    fn code(&mut self, begin: usize, code: fmt::Arguments<'_>) {
        if self.bytes.len() > begin {
            self.put(";");
        }
        self.write(code);
    }

    /// The code of a colour of the writing (`3`) or behind it (`4`). The sixteen have numbers too, so that no terminal
    /// makes bold text of another colour than the theme says.
    fn color(&mut self, begin: usize, color: Color, plane: char) {
        let number = match color {
            Color::Reset => return self.code(begin, format_args!("{plane}9")),
            Color::Rgb(red, green, blue) => {
                return self.code(begin, format_args!("{plane}8;2;{red};{green};{blue}"));
            }
            Color::Indexed(number) => number,
            Color::Black => 0,
            Color::Red => 1,
            Color::Green => 2,
            Color::Yellow => 3,
            Color::Blue => 4,
            Color::Magenta => 5,
            Color::Cyan => 6,
            Color::Gray => 7,
            Color::DarkGray => 8,
            Color::LightRed => 9,
            Color::LightGreen => 10,
            Color::LightYellow => 11,
            Color::LightBlue => 12,
            Color::LightMagenta => 13,
            Color::LightCyan => 14,
            Color::White => 15,
        };
        self.code(begin, format_args!("{plane}8;5;{number}"));
    }

    fn put(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        // Into memory, nothing fails.
        let _ = self.bytes.write_fmt(text);
    }
}

fn is_ascii(cell: &Cell) -> bool {
    matches!(cell.symbol().as_bytes(), [b' '..=b'~'])
}

/// Codes of ECMA-48's SGR.
const MODIFIERS: [(Modifier, &str); 9] = [
    (Modifier::BOLD, "1"),
    (Modifier::DIM, "2"),
    (Modifier::ITALIC, "3"),
    (Modifier::UNDERLINED, "4"),
    (Modifier::SLOW_BLINK, "5"),
    (Modifier::RAPID_BLINK, "6"),
    (Modifier::REVERSED, "7"),
    (Modifier::HIDDEN, "8"),
    (Modifier::CROSSED_OUT, "9"),
];

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use ratatui::layout::Rect;

    use super::*;

    const SIZE: (u16, u16) = (40, 6);

    const COLORS: [Color; 5] =
        [Color::Reset, Color::Red, Color::LightBlue, Color::Indexed(245), Color::Rgb(1, 20, 255)];

    /// What this terminal tells; bold and dim together it does not.
    const TOLD: [Modifier; 4] = [Modifier::BOLD, Modifier::ITALIC, Modifier::UNDERLINED, Modifier::REVERSED];

    /// A text in one style.
    type Piece = (u16, u16, String, usize, usize, usize);

    fn pieces() -> impl Strategy<Value = Vec<Piece>> {
        let text = prop_oneof!["[ a-z]{1,20}", " {1,30}", "[─│█⣀▁]{1,20}", "[a é]{1,8}"];
        vec((0..SIZE.0, 0..SIZE.1, text, 0..COLORS.len(), 0..COLORS.len(), 0..TOLD.len() + 3), 0..25)
    }

    fn drawn(pieces: &[Piece]) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
        for (column, line, text, foreground, background, modifier) in pieces {
            let style = ratatui::style::Style::new().fg(COLORS[*foreground]).bg(COLORS[*background]);
            let modifier = TOLD.get(*modifier).copied().unwrap_or_default();
            buffer.set_string(*column, *line, text, style.add_modifier(modifier));
        }
        buffer
    }

    fn told(color: Color) -> vt100::Color {
        match color {
            Color::Red => vt100::Color::Idx(1),
            Color::LightBlue => vt100::Color::Idx(12),
            Color::Indexed(number) => vt100::Color::Idx(number),
            Color::Rgb(red, green, blue) => vt100::Color::Rgb(red, green, blue),
            _ => vt100::Color::Default,
        }
    }

    /// The terminal shows in that place what stands there.
    fn assert_shows(terminal: &vt100::Parser, shown: &Buffer, column: u16, line: u16) {
        let cell = &shown[(column, line)];
        let seen = terminal.screen().cell(line, column).unwrap();
        if seen.is_wide_continuation() {
            return;
        }
        let text = if seen.contents().is_empty() { " " } else { seen.contents() };
        assert_eq!(text, cell.symbol(), "{column}, {line}");
        assert_eq!(seen.bgcolor(), told(cell.bg), "behind {text:?} in {column}, {line}");
        if !is_blank(cell) {
            assert_eq!(seen.fgcolor(), told(cell.fg), "{text:?} in {column}, {line}");
            let flags = [seen.bold(), seen.italic(), seen.underline(), seen.inverse()];
            assert_eq!(flags, TOLD.map(|one| cell.modifier.contains(one)), "{text:?} in {column}, {line}");
        }
    }

    fn bytes_between(before: &Buffer, after: &Buffer) -> Vec<u8> {
        let changed: Vec<(u16, u16)> = before.diff_iter(after).map(|(column, line, _)| (column, line)).collect();
        let mut bytes = Vec::new();
        write_cells(&mut bytes, after, &changed);
        bytes
    }

    proptest! {
        #[test]
        fn a_terminal_shows_what_is_written_frame_after_frame(frames in vec(pieces(), 1..5)) {
            let mut terminal = vt100::Parser::new(
                SIZE.1.try_into().unwrap(),
                SIZE.0.try_into().unwrap(),
                0,
            );
            let mut before = drawn(&[]);
            for pieces in frames {
                let after = drawn(&pieces);
                terminal.process(&bytes_between(&before, &after));
                for (line, column) in (0..SIZE.1).flat_map(|line| (0..SIZE.0).map(move |column| (line, column))) {
                    assert_shows(&terminal, &after, column, line);
                }
                before = after;
            }
        }
    }

    fn dim(column: u16, text: &str) -> Piece {
        (column, 0, text.to_owned(), 3, 0, TOLD.len())
    }

    fn plain(column: u16, line: u16, text: &str) -> Piece {
        (column, line, text.to_owned(), 0, 0, TOLD.len())
    }

    fn assert_written(before: &[Piece], after: &[Piece], bytes: &str) {
        let written = bytes_between(&drawn(before), &drawn(after));
        assert_eq!(String::from_utf8(written).unwrap(), bytes);
    }

    #[test]
    fn what_is_written_is_short() {
        // Blanks between need no other colour, and the end is in the terminal's own.
        let line = [dim(0, "a"), plain(1, 0, "  "), dim(3, "c")];
        assert_written(&[plain(1, 0, "xx")], &line, "\x1b[1;1H\x1b[38;5;245ma  c\x1b[m");
        // Over two cells with what stands there, over nine with a move, to the next line with two bytes.
        let changed = [&line[..2], &[dim(3, "b"), plain(13, 0, "y"), plain(0, 1, "next")]].concat();
        let bytes = "\x1b[1;4H\x1b[38;5;245mb\x1b[9C\x1b[my\r\nnext";
        assert_written(&line, &changed, bytes);
        let apart = [dim(0, "b"), plain(1, 0, "  "), dim(3, "d")];
        assert_written(&line, &apart, "\x1b[1;1H\x1b[38;5;245mb  d\x1b[m");
        // Thirty blanks are erased, ten are written.
        assert_written(&[plain(0, 2, &"x".repeat(30))], &[], "\x1b[3;1H\x1b[30X");
        assert_written(&[plain(0, 2, &"x".repeat(10))], &[], "\x1b[3;1H          ");
        // Behind a wide character the place is said anew.
        assert_written(&[], &[plain(0, 0, "模a"), plain(4, 0, "b")], "\x1b[1;1H模\x1b[1;3Ha b");
        // What ends and what begins is one sequence.
        let mut bold = dim(0, "a");
        bold.5 = 0;
        assert_written(&[], &[bold, dim(1, "b")], "\x1b[1;1H\x1b[1;38;5;245ma\x1b[0;38;5;245mb\x1b[m");
    }
}
