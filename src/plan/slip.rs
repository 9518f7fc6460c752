//! What is wrong with a text that the parser could not read, at its cause and in words that name it.

use saphyr_parser::{Marker, ScanError};

use super::build::MAX_DEPTH;
use super::fault::{Fault, TextPosition};
use super::unclosed::{UnclosedDelimiter, unclosed};

/// What the parser says of `body`, whose fault it places at `at`.
pub fn slip(error: &ScanError, body: &str, at: TextPosition) -> Fault {
    let marker = *error.marker();
    let lines_before = at.line.saturating_sub(marker.line());
    let told = |line: usize, column: usize, message: String| {
        Fault::of("", message).placed(Some(TextPosition { line: line + lines_before, column: column + 1 }))
    };
    if let Some((line, column)) = tab_near(body, marker) {
        return told(line, column, "a tab cannot indent YAML; use blanks".to_owned());
    }
    // The parser has a limit of its own for brackets that it looks ahead into.
    if error.info().contains("recursion limit") {
        return Fault::of("", format!("nested deeper than {MAX_DEPTH} levels")).placed(Some(at));
    }
    let before = |open: &UnclosedDelimiter| (open.line, open.column) <= (marker.line(), marker.col());
    if let Some(open) = unclosed(body).filter(before) {
        let UnclosedDelimiter { mark, line, column, wrong } = open;
        let what = match mark {
            '{' => "brace",
            '[' => "bracket",
            _ => "quote",
        };
        let found = wrong.map(|wrong| format!("; `{wrong}` stands where it should be")).unwrap_or_default();
        return told(line, column, format!("this {what} `{mark}` is never closed{found}"));
    }
    // Which the parser notices at whatever comes next.
    if let Some((line, column)) = word_before(body, marker).filter(|_| error.info().contains("simple key")) {
        return told(line, column, "a key without a `:`, or a value without its key".to_owned());
    }
    // A comment ends a value; the parser stops at it, and what is wrong is the line that would go on with the value.
    if let Some((line, column)) = word_after(body, marker).filter(|_| error.info().contains("comment intercepting")) {
        return told(
            line,
            column,
            "indented as if it went on with the value above; indent it like that key".to_owned(),
        );
    }
    Fault::of("", format!("not readable as YAML or JSON: {}", plainly(error.info()))).placed(Some(at))
}

/// Line from 1 and column from 0 of the beginning of the first line with a word on it after the parser's.
fn word_after(body: &str, marker: Marker) -> Option<(usize, usize)> {
    let worded = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let (number, line) = body.lines().enumerate().skip(marker.line()).find(|(_, line)| worded(line))?;
    Some((number + 1, line.chars().take_while(|letter| letter.is_whitespace()).count()))
}

/// Line from 1 and column from 0 of the beginning of the last line with a word on it, before the parser's place.
fn word_before(body: &str, marker: Marker) -> Option<(usize, usize)> {
    let mut lines: Vec<&str> = body.lines().take(marker.line()).collect();
    if lines.len() == marker.line() {
        let last = lines.pop().unwrap_or_default();
        lines.push(last.char_indices().nth(marker.col()).map_or(last, |(at, _)| &last[..at]));
    }
    let worded = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let (number, line) = lines.into_iter().enumerate().rev().find(|(_, line)| worded(line))?;
    Some((number + 1, line.chars().take_while(|letter| letter.is_whitespace()).count()))
}

/// The parser's words for the most common slips, in everyone's words.
fn plainly(info: &str) -> &str {
    const PLAIN: &[(&str, &str)] = &[
        (
            "mapping values are not allowed",
            "a `:` where no key is allowed; is the indentation right, or are quotes missing?",
        ),
        ("block mapping, did not find expected key", "indented unlike the keys above"),
        ("while parsing a node, did not find expected node content", "a value is missing"),
        ("expected ',' or '}'", "a comma is missing"),
        ("expected ',' or ']'", "a comma is missing"),
        ("did not find expected <document start>", "text after the end of the document"),
        ("misplaced bracket", "a closing bracket without an opening one"),
        ("invalid indentation in flow construct", "a line within brackets that is not indented"),
        ("invalid trailing content after double-quoted", "text behind a closing quote"),
        ("found unknown anchor", "an alias (`*…`) of nothing: no `&…` of that name comes before it"),
        ("unexpected character", "no value begins with this letter; put the value in quotes"),
        ("found unprintable character", "a control character, which no text has"),
        ("unknown escape character", "within \"…\" a backslash begins an escape that there is not; write \\\\"),
    ];
    PLAIN.iter().find(|(said, _)| info.contains(said)).map_or(info, |(_, plain)| plain)
}

/// Line from 1 and column from 0 of a tab in the indentation of the line where the parser stopped, or of a
/// neighbour.
fn tab_near(body: &str, marker: Marker) -> Option<(usize, usize)> {
    let first = marker.line().saturating_sub(2);
    body.lines().enumerate().skip(first).take(3).find_map(|(number, line)| {
        let indent = line.len() - line.trim_start().len();
        let column = line[..indent].chars().position(|letter| letter == '\t')?;
        (indent < line.len()).then_some((number + 1, column))
    })
}
