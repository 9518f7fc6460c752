//! Where lines start and end in a text that may have either kind of line end.

use std::ops::Range;

/// A replacement of some bytes.
pub type Splice = (Range<usize>, String);

/// The text with replacements made; they may not overlap.
pub fn spliced(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|(range, _)| range.start);
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    for (range, replacement) in splices {
        result.push_str(text.get(at..range.start).unwrap_or_default());
        result.push_str(&replacement);
        at = range.end.max(at);
    }
    result.push_str(text.get(at..).unwrap_or_default());
    result
}

/// The line end that the text uses.
pub fn line_end_of(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Where the line of byte `at` starts.
pub fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or_else(|| if text.starts_with('\u{feff}') { 3.min(at) } else { 0 }, |end| end + 1)
}

/// Where the line of byte `at` ends, its line end not included.
pub fn line_stop(text: &str, at: usize) -> usize {
    match text[at..].find('\n') {
        Some(end) if text[..at + end].ends_with('\r') && end > 0 => at + end - 1,
        Some(end) => at + end,
        None => text.len(),
    }
}

/// Where the line after byte `at` starts; none where `at` is on the last one and that has
/// no line end. A value that takes its own line end along ends where the next line starts.
pub fn next_line(text: &str, at: usize) -> Option<usize> {
    if at > 0 && text[..at].ends_with('\n') {
        return Some(at);
    }
    text[at..].find('\n').map(|end| at + end + 1)
}

/// Where the line end before the line that starts at `start` begins.
pub fn line_end_before(text: &str, start: usize) -> usize {
    let above = &text[..start];
    let above = above.strip_suffix('\n').unwrap_or(above);
    above.strip_suffix('\r').unwrap_or(above).len()
}

/// Characters between the start of its line and byte `at`.
pub fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

/// Only blanks before it on its line.
pub fn starts_its_line(text: &str, at: usize) -> bool {
    text[line_start(text, at)..at].trim().is_empty()
}

/// Whether the line that starts at `start` has nothing but blanks; false behind the text's end.
pub fn is_blank_line(text: &str, start: usize) -> bool {
    start < text.len() && text[start..line_stop(text, start)].trim().is_empty()
}
