//! Text in columns.

use unicode_width::UnicodeWidthStr;

use super::page::{longest_word, paragraph, wrapped};
use crate::printable::printable;

/// Cells of words in sentences are not made narrower.
const SENTENCE: usize = 24;

/// Blanks between columns, where there is room.
const GAP: usize = 2;

/// On which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells whose columns line up.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
    /// Columns that a narrow page does without; none: no page does.
    dispensable: &'static [&'static str],
    /// Blanks between columns.
    gap: usize,
}

impl Table {
    /// A table with these column heads.
    #[must_use]
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        let (heads, columns) = columns.into_iter().map(|(head, align)| (head.to_owned(), align)).unzip();
        Self { columns, rows: vec![heads], dispensable: &[], gap: GAP }
    }

    /// On a page that is too narrow for it, without the columns of these heads, and with one blank between columns where
    /// that is still too wide.
    #[must_use]
    pub fn narrowed_by(mut self, columns: &'static [&'static str]) -> Self {
        self.dispensable = columns;
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// Without the columns of these heads whose every cell is that word: they tell no row from another.
    #[must_use]
    pub fn without_constant(mut self, columns: &[(&str, &str)]) -> Self {
        for (head, word) in columns {
            let Some(column) = self.rows[0].iter().position(|known| known == head) else { continue };
            if self.rows[1..].iter().all(|row| row.get(column).is_some_and(|cell| cell == word)) {
                self.remove(column);
            }
        }
        self
    }

    fn remove(&mut self, column: usize) {
        self.columns.remove(column);
        self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
    }

    /// The table without what a narrow page can do without; none where it fits as it is.
    fn narrowed(&self, room: usize) -> Option<Self> {
        if self.dispensable.is_empty() || self.natural_width() <= room {
            return None;
        }
        let mut narrow = self.clone();
        narrow.dispensable = &[];
        for head in self.dispensable {
            if let Some(column) = narrow.rows[0].iter().position(|known| known == head) {
                narrow.remove(column);
            }
        }
        if narrow.natural_width() > room {
            narrow.gap = 1;
        }
        Some(narrow)
    }

    /// Its width where no cell is wrapped.
    fn natural_width(&self) -> usize {
        let widest = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
        let cells: usize = (0..self.columns.len()).filter_map(widest).sum();
        cells + self.gap * self.columns.len().saturating_sub(1)
    }

    /// Whether it holds more than its heads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The rows as lines of at most `width`, two blanks between columns and `indent` before them. Where they are too wide,
    /// cells are wrapped at their blanks; then the last column's words stand below their row, the first column's above it;
    /// then columns follow in tables of their own, each with the first column. No word is broken.
    #[must_use]
    pub fn render(&self, indent: &str, width: usize) -> String {
        let room = width.saturating_sub(indent.width());
        if let Some(narrow) = self.narrowed(room) {
            return narrow.render(indent, width);
        }
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let notes = self.columns.len() > 2 && self.columns.last() == Some(&Align::Left);
        let leads = self.columns.len() > 2 && self.columns.first() == Some(&Align::Left);
        for (lead, note) in [(false, false), (false, true), (true, false), (true, true)] {
            if (lead && !leads) || (note && !notes) {
                continue;
            }
            let columns = &all[usize::from(lead)..all.len() - usize::from(note)];
            let room = room.saturating_sub(if lead { 2 } else { 0 });
            if let Some(widths) = self.widths(columns, room) {
                return self.lines(indent, (columns, &widths), (lead, note), width);
            }
        }
        self.in_parts(indent, room, width)
    }

    /// Widths of `columns` that fit the room; none where they cannot.
    fn widths(&self, columns: &[usize], room: usize) -> Option<Vec<usize>> {
        let most = |of: &dyn Fn(&str) -> usize, column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| of(cell)).max().unwrap_or(0)
        };
        let natural: Vec<usize> = columns.iter().map(|column| most(&UnicodeWidthStr::width, *column)).collect();
        let least: Vec<usize> = columns
            .iter()
            .zip(&natural)
            .map(|(column, natural)| {
                let sentence = *natural > SENTENCE && self.columns[*column] == Align::Left;
                most(&longest_word, *column).max(if sentence { SENTENCE } else { 0 })
            })
            .collect();
        let gaps = self.gap * columns.len().saturating_sub(1);
        let mut widths = natural;
        while widths.iter().sum::<usize>() + gaps > room {
            let widest = (0..widths.len()).filter(|at| widths[*at] > least[*at]).max_by_key(|at| widths[*at])?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    fn lines(
        &self,
        indent: &str,
        (columns, widths): (&[usize], &[usize]),
        (lead, note): (bool, bool),
        width: usize,
    ) -> String {
        let mut text = String::new();
        let mut above: Option<&String> = None;
        let inner = if lead { format!("{indent}  ") } else { indent.to_owned() };
        for row in &self.rows {
            let first = row.first().filter(|first| lead && above != Some(*first));
            if let Some(first) = first {
                // A name without blanks stays on one line, however long it is.
                paragraph(&mut text, indent, first, width);
                above = Some(first);
            }
            let cells: Vec<Vec<String>> = columns
                .iter()
                .zip(widths)
                .map(|(column, width)| wrapped(row.get(*column).map_or("", String::as_str), *width))
                .collect();
            for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut line = inner.clone();
                for (place, (cell, width)) in cells.iter().zip(widths).enumerate() {
                    let cell = cell.get(at).map_or("", String::as_str);
                    let blanks = " ".repeat(width.saturating_sub(cell.width()));
                    line.push_str(&" ".repeat(if place > 0 { self.gap } else { 0 }));
                    match self.columns[columns[place]] {
                        Align::Left => line.extend([cell, blanks.as_str()]),
                        Align::Right => line.extend([blanks.as_str(), cell]),
                    }
                }
                text.push_str(line.trim_end());
                text.push('\n');
            }
            if let Some(words) = row.last().filter(|words| note && !words.is_empty()) {
                paragraph(&mut text, &format!("{inner}    "), words, width);
            }
        }
        text
    }

    /// As many columns at a time as fit, the first before each.
    fn in_parts(&self, indent: &str, room: usize, width: usize) -> String {
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut part = vec![0];
        for column in 1..self.columns.len() {
            part.push(column);
            if part.len() > 2 && self.widths(&part, room).is_none() {
                part.pop();
                parts.push(std::mem::replace(&mut part, vec![0, column]));
            }
        }
        parts.push(part);
        let each = parts.iter().map(|part| {
            let widths = self.widths(part, room).or_else(|| self.widths(part, usize::MAX)).unwrap_or_default();
            self.lines(indent, (part, &widths), (false, false), width)
        });
        each.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, Table};

    #[test]
    fn columns_line_up_by_display_width() {
        let mut table = Table::new([("name", Align::Left), ("GiB", Align::Right)]);
        table.row(["µ-batch".to_owned(), "1.00".to_owned()]);
        table.row(["x".to_owned(), "12.5".to_owned()]);
        assert_eq!(table.render(" ", 80), " name      GiB\n µ-batch  1.00\n x        12.5\n");
    }

    #[test]
    fn a_narrow_page_does_without_what_can_be_spared() {
        let heads = [("#", Align::Right), ("speed", Align::Right), ("MFU %", Align::Right), ("recompute", Align::Left)];
        let mut table = Table::new(heads).narrowed_by(&["MFU %"]);
        table.row(["1", "67 160", "46.3", "none"].map(str::to_owned));
        // 1 + 6 + 5 + 9 and three gaps of two.
        assert_eq!(table.render("", 27), "#   speed  MFU %  recompute\n1  67 160   46.3  none\n");
        assert_eq!(table.render("", 26), "#   speed  recompute\n1  67 160  none\n");
        assert_eq!(table.render("", 19), "#  speed recompute\n1 67 160 none\n");
    }

    fn wide() -> Table {
        let mut table = Table::new([
            ("case", Align::Left),
            ("quantity", Align::Left),
            ("error %", Align::Right),
            ("", Align::Left),
        ]);
        let row = |reason: &str| {
            ["llama-3-8b".to_owned(), "peak_allocated_bytes".to_owned(), "+1.25".to_owned(), reason.to_owned()]
        };
        table.row(row(""));
        table.row(row("the formula of HFU does not apply to this model"));
        table
    }

    #[test]
    fn what_is_too_wide_is_wrapped_then_stands_below_its_row_then_its_name_above() {
        assert_eq!(
            wide().render("", 75),
            "case        quantity              error %\n\
             llama-3-8b  peak_allocated_bytes    +1.25\n\
             llama-3-8b  peak_allocated_bytes    +1.25  the formula of HFU does not\n\
             \x20                                          apply to this model\n"
        );
        assert_eq!(
            wide().render("", 42),
            "case        quantity              error %\n\
             llama-3-8b  peak_allocated_bytes    +1.25\n\
             llama-3-8b  peak_allocated_bytes    +1.25\n    \
             the formula of HFU does not apply to\n      this model\n"
        );
        assert_eq!(
            wide().render("", 31),
            "case\n  quantity              error %\nllama-3-8b\n  \
             peak_allocated_bytes    +1.25\n  peak_allocated_bytes    +1.25\n      \
             the formula of HFU does\n        not apply to this model\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_page_and_no_word_is_lost() {
        let words = |text: &str| {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words.dedup();
            words
        };
        let whole = words(&wide().render("", 400));
        for width in 31..120 {
            let text = wide().render("", width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert_eq!(words(&text), whole, "{width}");
        }
    }
}
