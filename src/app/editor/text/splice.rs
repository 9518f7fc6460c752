//! What an edit of lines is in the bytes of the text: a large one is not gone through for a letter.

use std::ops::Range;

use super::TextView;

/// May stand before the first line.
pub const BOM: char = '\u{feff}';

/// Rows that were edited: so many, from the first on, are now so many others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditedRows {
    /// The first of them.
    pub first: usize,
    /// How many they were.
    pub before: usize,
    /// How many they are.
    pub after: usize,
}

impl TextView {
    /// What was changed here since the text was `before`: the bytes of it that are others now, and what they are. Lines
    /// that are the same keep their bytes, line ends included.
    pub fn splice(&mut self, before: &str) -> Option<(Range<usize>, String)> {
        let edited = self.edited.take()?;
        let start = self.byte_of(edited.first, before);
        self.anchor = (edited.first, start);
        // With the line after them, which is the same: only the last of a text has no end.
        let end = ends(&before[start..]).nth(edited.before).map_or(before.len(), |end| start + end);
        let last = (edited.first + edited.after + 1).min(self.lines.len());
        let ending = ending_of(before);
        Some((start..end, merged(&before[start..end], &self.lines[edited.first..last], ending)))
    }

    /// The byte at which a row begins, from the nearest that is known.
    fn byte_of(&self, row: usize, text: &str) -> usize {
        let (known, byte) = self.anchor;
        if row == known {
            return byte;
        }
        if row > known {
            return ends(&text[byte..]).nth(row - known - 1).map_or(text.len(), |end| byte + end + 1);
        }
        let before = text[..byte].rmatch_indices('\n').nth(known - row);
        before.map_or_else(|| bom_of(text), |(end, _)| end + 1)
    }
}

/// Bytes before the first line.
pub fn bom_of(text: &str) -> usize {
    if text.starts_with(BOM) { BOM.len_utf8() } else { 0 }
}

/// Where each line ends.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('\n').map(|(at, _)| at)
}

/// How the lines of a text end: as its first does.
fn ending_of(text: &str) -> &'static str {
    if text.find('\n').is_some_and(|at| text[..at].ends_with('\r')) { "\r\n" } else { "\n" }
}

/// The bytes of `body` with `lines` as its lines, new ones with that `ending`: where these are the same as before at the
/// beginning and at the end, so are their ends.
fn merged(body: &str, lines: &[String], ending: &str) -> String {
    let same = |(old, new): &(&str, &String)| old.strip_suffix('\r').unwrap_or(old) == new.as_str();
    let (count, last) = (body.matches('\n').count() + 1, lines.len().saturating_sub(1));
    // A last line has no end: what is one, or was, is not copied with its end.
    let fronts = body.split('\n').zip(lines).take(last.min(count - 1)).take_while(same);
    let (start, front) = fronts.fold((0, 0), |(number, bytes), (old, _)| (number + 1, bytes + old.len() + 1));
    let backs = body.rsplit('\n').zip(lines.iter().rev()).take(lines.len().min(count) - start).take_while(same);
    let (end, back) = backs.fold((0, 0), |(number, bytes), (old, _)| (number + 1, bytes + old.len() + 1));
    let mut text = String::with_capacity(body.len() + 16);
    text.push_str(&body[..front]);
    for (at, line) in lines.iter().enumerate().take(lines.len() - end).skip(start) {
        text.push_str(line);
        if at < last {
            text.push_str(ending);
        }
    }
    text.push_str(&body[(body.len() + 1).saturating_sub(back).min(body.len())..]);
    text
}
