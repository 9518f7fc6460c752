//! Text in columns.

use unicode_width::UnicodeWidthStr;

use crate::printable::printable;

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
}

impl Table {
    /// A table with these column heads.
    #[must_use]
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        let (heads, columns) = columns.into_iter().map(|(head, align)| (head.to_owned(), align)).unzip();
        Self { columns, rows: vec![heads] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// Whether it holds more than its heads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The rows as lines, two blanks between columns and `indent` before them.
    #[must_use]
    pub fn render(&self, indent: &str) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = indent.to_owned();
            for (at, ((cell, align), width)) in row.iter().zip(&self.columns).zip(&widths).enumerate() {
                let blanks = " ".repeat(width.saturating_sub(cell.width()));
                line.push_str(if at > 0 { "  " } else { "" });
                match align {
                    Align::Left => line.extend([cell.as_str(), blanks.as_str()]),
                    Align::Right => line.extend([blanks.as_str(), cell.as_str()]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
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
        assert_eq!(table.render(" "), " name      GiB\n µ-batch  1.00\n x        12.5\n");
    }
}
