//! What a report is laid out for: how wide its lines may be, and whether it has colours.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use crate::ascii::reduced;
use crate::printable::printable;

/// The width where nothing is known of the reader.
pub const USUAL: usize = 80;

/// Paragraphs are no wider: longer lines are hard to read.
const WIDEST_PROSE: usize = 100;

/// Where a report is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Columns of its lines.
    pub width: usize,
    /// Headings and verdicts stand out.
    pub colours: bool,
    /// The reader's locale has ASCII alone.
    pub ascii: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self { width: USUAL, colours: false, ascii: false }
    }
}

impl Page {
    /// `text` as it is shown here: a text without escapes on a page without colours, in the letters that it has.
    #[must_use]
    pub fn show(&self, text: &str) -> String {
        let text = if self.ascii { reduced(text) } else { Cow::Borrowed(text) };
        if !self.colours {
            return text.into_owned();
        }
        let mut shown = String::with_capacity(text.len() + 256);
        let mut after_blank = true;
        for line in text.split_inclusive('\n') {
            shown.push_str(&coloured(line, after_blank));
            after_blank = line.trim().is_empty();
        }
        shown
    }
}

/// ECMA-48, select graphic rendition.
const BOLD: &str = "1";
const RED: &str = "1;31";
const GREEN: &str = "1;32";
const YELLOW: &str = "1;33";

/// Words that a line begins with, behind its indent, and how they are set off.
const WORDS: [(&str, &str); 9] = [
    ("does not fit:", RED),
    ("fits:", GREEN),
    ("tight:", YELLOW),
    ("warning:", YELLOW),
    ("critical:", RED),
    ("high:", RED),
    ("medium:", YELLOW),
    ("low:", BOLD),
    ("error:", RED),
];

/// A line with the word that it begins with set off; a heading, which stands behind an empty line, as a whole.
fn coloured(line: &str, after_blank: bool) -> String {
    let text = line.trim_start_matches(' ');
    let indent = &line[..line.len() - text.len()];
    if let Some((word, tone)) = WORDS.iter().find(|(word, _)| text.starts_with(word)) {
        return format!("{indent}\x1b[{tone}m{word}\x1b[0m{}", &text[word.len()..]);
    }
    let heading = after_blank && indent.is_empty() && !text.trim().is_empty();
    if !heading {
        return line.to_owned();
    }
    format!("\x1b[{BOLD}m{}\x1b[0m{}", text.trim_end_matches('\n'), if text.ends_with('\n') { "\n" } else { "" })
}

/// Keeps a number and its unit on one line until the text is wrapped.
const GLUE: char = '\u{a0}';

/// What stands behind a number as its unit.
const UNITS: [&str; 32] = [
    "%", "B", "KiB", "MiB", "GiB", "TiB", "MB", "GB", "TB", "B/s", "MB/s", "GB/s", "TB/s", "FLOP", "MFLOP", "GFLOP",
    "TFLOP", "PFLOP", "GFLOP/s", "TFLOP/s", "PFLOP/s", "FLOP/B", "ns", "µs", "ms", "s", "min", "h", "W", "kWh", "MWh",
    "GPUs",
];

/// `words` with numbers and what belongs to them joined: `3.2 GiB`, `65 536`, `12 %`.
fn glued(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    let mut before = "";
    for (at, word) in words.split(' ').enumerate() {
        if at > 0 {
            let number = before.ends_with(|letter: char| letter.is_ascii_digit());
            let bare = word.trim_end_matches([',', ';', ':', '.', ')']);
            let group = bare.len() >= 3
                && bare.as_bytes()[..3].iter().all(u8::is_ascii_digit)
                && bare[3..].chars().next().is_none_or(|next| next == '.');
            let joins = number && (UNITS.contains(&bare) || group);
            text.push(if joins { GLUE } else { ' ' });
        }
        text.push_str(word);
        before = word;
    }
    text
}

fn options(width: usize) -> textwrap::Options<'static> {
    textwrap::Options::new(width.max(1)).break_words(false).word_splitter(textwrap::WordSplitter::NoHyphenation)
}

/// `words` in lines of at most `width`, where no word is longer than that.
pub(super) fn wrapped(words: &str, width: usize) -> Vec<String> {
    textwrap::wrap(&glued(words), options(width)).into_iter().map(|line| line.replace(GLUE, " ")).collect()
}

/// The longest part of `words` that stays on one line.
pub(super) fn longest_word(words: &str) -> usize {
    glued(words).split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// `words` as lines within the width, later ones set in.
pub(super) fn paragraph(text: &mut String, indent: &str, words: &str, width: usize) {
    let hanging = format!("{indent}  ");
    let options = options(width.min(WIDEST_PROSE)).initial_indent(indent).subsequent_indent(&hanging);
    for line in textwrap::wrap(&glued(&printable(words)), options) {
        text.push_str(&line.replace(GLUE, " "));
        text.push('\n');
    }
}

/// `words` as a paragraph of its own.
#[must_use]
pub fn prose(words: &str, width: usize) -> String {
    let mut text = String::new();
    paragraph(&mut text, "", words, width);
    text
}

/// `words` behind `head`, later lines below the first word, or set in where the head leaves too little room.
#[must_use]
pub fn beside(head: &str, words: &str, width: usize) -> String {
    let room = width.saturating_sub(head.width());
    let column = if room < NARROWEST_COMMENT { 2 } else { head.width() };
    let options = options(width).initial_indent(head);
    let hanging = " ".repeat(column);
    let words = glued(&printable(words));
    let lines = textwrap::wrap(&words, options.subsequent_indent(&hanging));
    lines.into_iter().map(|line| format!("{}\n", line.replace(GLUE, " "))).collect()
}

/// Cells of a comment below which it is not worth continuing it beside the values.
const NARROWEST_COMMENT: usize = 24;

/// A plan's YAML with comments continued on lines of their own where they pass `width`, in the column where they begin.
#[must_use]
pub fn comments_within(yaml: &str, width: usize) -> String {
    yaml.split_inclusive('\n').map(|line| comment_within(line, width)).collect()
}

fn comment_within(line: &str, width: usize) -> String {
    let text = line.trim_end_matches('\n');
    // A `#` in quotes is no comment.
    let starts = text.match_indices('#').map(|(at, _)| at);
    let mut starts = starts.filter(|at| text[..*at].chars().next_back().is_none_or(char::is_whitespace));
    let start = starts.find(|at| text[..*at].matches(['"', '\'']).count().is_multiple_of(2));
    let Some(start) = start.filter(|_| text.width() > width) else { return line.to_owned() };
    let (value, comment) = (text[..start].trim_end(), text[start + 1..].trim());
    let column = text[..start].width();
    // Where little room is left beside the value, the comment stands above it.
    let indent = value.len() - value.trim_start().len();
    let beside = width.saturating_sub(column + 2) >= NARROWEST_COMMENT;
    let column = if beside { column } else { indent };
    let mut lines = wrapped(comment, width.saturating_sub(column + 2)).into_iter();
    let mut laid = String::new();
    if beside && let Some(first) = lines.next() {
        laid.push_str(&format!("{}# {first}\n", &text[..start]));
    }
    for line in lines {
        laid.push_str(&format!("{}# {line}\n", " ".repeat(column)));
    }
    if !beside && !value.is_empty() {
        laid.push_str(&format!("{value}\n"));
    }
    laid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_continued_in_their_column_and_the_plan_stays_the_same() {
        let yaml = "model:\n  preset: gpt2      # a comment that goes on for longer than the page\n  name: 'a # b, no comment at all'\n";
        let laid =
            "model:\n  preset: gpt2      # a comment that goes on\n                    # for longer than the page\n";
        assert_eq!(comments_within(yaml, 46), format!("{laid}  name: 'a # b, no comment at all'\n"));
        // Nothing beside the value: above it.
        let laid = "model:\n  # a comment that goes on\n  # for longer than the\n  # page\n  preset: gpt2\n";
        assert!(comments_within(yaml, 26).starts_with(laid), "{}", comments_within(yaml, 26));
        assert_eq!(comments_within(yaml, 90), yaml);
    }

    #[test]
    fn later_lines_stand_below_the_first_word() {
        let text = beside("ok      driver       ", "no driver was found here, so there is a demo", 50);
        assert_eq!(text, "ok      driver       no driver was found here, so\n                     there is a demo\n");
    }

    #[test]
    fn a_number_and_its_unit_stay_together() {
        let mut text = String::new();
        paragraph(&mut text, "", "needs 12 % and 65 536 tokens, 3.25 GiB", 10);
        assert_eq!(text, "needs 12 %\n  and\n  65 536\n  tokens,\n  3.25 GiB\n");
    }

    #[test]
    fn no_word_is_broken_however_narrow_the_page() {
        let words = "infiniband_ndr pre-allocated a/long/path.yaml";
        for width in 1..60 {
            let mut text = String::new();
            paragraph(&mut text, "", words, width);
            assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), words);
        }
    }

    #[test]
    fn colours_are_for_terminals_and_take_no_letter() {
        let text = "fits: 1 GiB\n\nstages\n  stage  layers\n  warning: old\n";
        assert_eq!(Page::default().show(text), text);
        let shown = Page { colours: true, ..Page::default() }.show(text);
        assert!(shown.starts_with("\x1b[1;32mfits:\x1b[0m 1 GiB\n\n\x1b[1mstages\x1b[0m\n  stage"), "{shown:?}");
        assert!(shown.contains("  \x1b[1;33mwarning:\x1b[0m old"), "{shown:?}");
        let narrow = Page { ascii: true, ..Page::default() };
        assert_eq!(narrow.show("3 × 2 – ≤ 7 µs\n"), "3 x 2 - < 7 us\n");
    }
}
