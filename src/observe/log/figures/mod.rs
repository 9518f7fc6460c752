//! Numbers as a program's language and locale write them (`1.15e+04`, `1,5`, `12 300`, `1.000.000`), rewritten in place as
//! plain ones, so that whoever looks for a figure in the line finds all of it.

mod scan;

use std::borrow::Cow;
use std::fmt::Write;

use scan::{Figure, Separators};

/// The mark that parts the decimals of a run's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecimalMark {
    Point,
    Comma,
}

/// What the lines of a run so far say of how it writes numbers.
#[derive(Debug, Clone, Default)]
pub struct NumberStyle {
    /// The mark of the newest line that told something and shows one.
    known: Option<DecimalMark>,
    /// The mark that the line read last shows; none where it shows none, or both.
    shown: Option<DecimalMark>,
}

impl NumberStyle {
    /// The style that one line shows.
    pub fn of_line(line: &str) -> Self {
        let mut style = Self::default();
        style.plain(line);
        style.keep();
        style
    }

    /// The line with its numbers written plainly. A comma that may part thousands or decimals is left as it is: readers
    /// of counts take it for the one, and readers of other figures for neither.
    pub fn plain<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        self.shown = None;
        // JSON has one way to write a number.
        if line.trim_start().starts_with("{\"") {
            return Cow::Borrowed(line);
        }
        let figures = scan::figures(line);
        let shows = |mark| figures.iter().any(|figure| figure.shows == Some(mark));
        let (point, comma) = (shows(DecimalMark::Point), shows(DecimalMark::Comma));
        self.shown = match (point, comma) {
            (true, false) => Some(DecimalMark::Point),
            (false, true) => Some(DecimalMark::Comma),
            _ => None,
        };
        // Where a line shows both, neither is its own, and that of the run is none of its business.
        let mark = if point && comma { None } else { self.shown.or(self.known) };
        let mut text = String::new();
        let mut end = 0;
        for figure in &figures {
            let Some(plain) = figure.plain(line, mark) else { continue };
            text.push_str(&line[end..figure.begin]);
            text.push_str(&plain);
            end = figure.end;
        }
        if end == 0 {
            return Cow::Borrowed(line);
        }
        text.push_str(&line[end..]);
        Cow::Owned(text)
    }

    /// The line read last told something: what it shows holds for the run.
    pub fn keep(&mut self) {
        self.known = self.shown.or(self.known);
    }
}

impl Figure {
    /// As plain digits and a decimal point; none where it is that already, or may be read in two ways.
    fn plain(&self, line: &str, mark: Option<DecimalMark>) -> Option<String> {
        let digits = &line[self.begin..self.digits_end];
        let plain = match self.separators {
            Separators::None => digits.to_owned(),
            Separators::Decimal => digits.replace(',', "."),
            Separators::Groups { decimals_at } => {
                let (groups, decimals) = digits.split_at(decimals_at);
                let whole: String = groups.chars().filter(char::is_ascii_digit).collect();
                whole + &decimals.replace(',', ".")
            }
            // `3,512` and `3.512`.
            Separators::OneComma => match mark? {
                DecimalMark::Point => digits.replace(',', ""),
                DecimalMark::Comma => digits.replace(',', "."),
            },
            Separators::OnePoint => match mark {
                Some(DecimalMark::Comma) => digits.replace('.', ""),
                _ => digits.to_owned(),
            },
        };
        let plain = match self.exponent {
            Some(exponent) => shifted(&plain, exponent),
            None => plain,
        };
        (plain != line[self.begin..self.end]).then_some(plain)
    }
}

/// `1.15` shifted by 4 digits: `11500`. The text of the number changes and its value does not.
fn shifted(number: &str, exponent: i32) -> String {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{decimals}");
    #[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation)]
    let point = whole.len() as i32 + exponent;
    let mut text = String::new();
    let Ok(point) = usize::try_from(point) else {
        let _ = write!(text, "0.{}{digits}", "0".repeat(point.unsigned_abs() as usize));
        return text;
    };
    if point >= digits.len() {
        let _ = write!(text, "{digits}{}", "0".repeat(point - digits.len()));
    } else {
        let (whole, decimals) = digits.split_at(point);
        let _ = write!(text, "{}.{decimals}", if whole.is_empty() { "0" } else { whole });
    }
    let kept = text.trim_start_matches('0');
    let cut = text.len() - kept.len();
    // One zero stays before the point, or alone.
    let keep = usize::from(cut > 0 && !kept.starts_with(|next: char| next.is_ascii_digit()));
    text.split_off(cut - keep)
}

#[cfg(test)]
mod tests;
