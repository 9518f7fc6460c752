//! Two texts and what is different in them.

use diffy::{DiffOptions, Line as Change};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Look;
use super::sheet;
use super::text::fit;
use crate::printable::printable;

/// Lines that are the same, shown around those that are not.
const CONTEXT: usize = 2;

/// Draws what turns the first text into the second, from that line on.
pub fn draw(title: &str, (old, new): (&str, &str), first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    sheet::fitted(title, look.theme.accent(), |width| lines(old, new, look, width), first, area, buffer);
}

/// The part of both texts in which they differ, some lines around it, and how many lines are before it. It is small
/// where a large text was edited in one place.
fn changed<'a>(old: &'a str, new: &'a str) -> (usize, &'a str, &'a str) {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    let line_before = |end: usize| a[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line_after =
        |start: usize| a[start..].iter().position(|byte| *byte == b'\n').map_or(a.len(), |at| start + at + 1);
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let first = line_before(same);
    let start = (0..CONTEXT).fold(first, |start, _| line_before(start.saturating_sub(1)));
    // What is the same at the end begins behind what is the same at the start.
    let rest = a.len().min(b.len()) - first;
    let same = a.iter().rev().zip(b.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let end = (0..=CONTEXT).fold(a.len() - same, |end, _| line_after(end));
    let lines = a[..start].iter().filter(|byte| **byte == b'\n').count();
    (lines, &old[start..end], &new[start..b.len() - (a.len() - end)])
}

fn lines<'a>(old: &str, new: &str, look: &Look, width: usize) -> Vec<Line<'a>> {
    let theme = &look.theme;
    if old == new {
        return vec![Line::styled(" no line is different: a new file with this text", theme.dim())];
    }
    let (before, old, new) = changed(old, new);
    let patch = DiffOptions::new().set_context_len(CONTEXT).create_patch(old, new);
    let mut lines = Vec::new();
    for hunk in patch.hunks() {
        if !lines.is_empty() {
            lines.push(Line::styled(" ⋮", theme.dim()));
        }
        let (mut old_line, mut new_line) = (before + hunk.old_range().start(), before + hunk.new_range().start());
        for change in hunk.lines() {
            let (number, mark, text, style) = match change {
                Change::Context(text) => (new_line, ' ', text, theme.dim()),
                Change::Delete(text) => (old_line, '-', text, theme.danger()),
                Change::Insert(text) => (new_line, '+', text, theme.good()),
            };
            old_line += usize::from(!matches!(change, Change::Insert(_)));
            new_line += usize::from(!matches!(change, Change::Delete(_)));
            let text = printable(text.trim_end_matches(['\n', '\r']));
            lines.push(Line::from(vec![
                Span::styled(format!("{number:>4} "), theme.dim()),
                Span::styled(fit(&format!("{mark} {text}"), width.saturating_sub(5)), style),
            ]));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_differs_is_whole_lines_with_some_around() {
        let text: String = (1..=20).map(|line| format!("línea {line}\n")).collect();
        let edited = text.replace("línea 10", "linea 10");
        let (before, old, new) = changed(&text, &edited);
        assert_eq!(before, 7, "lines 8 and 9 are shown before line 10");
        assert_eq!((old.lines().next(), new.lines().nth(2)), (Some("línea 8"), Some("linea 10")));
        assert!(old.ends_with("línea 12\n") || old.ends_with("línea 13\n"), "{old}");
        for (old, new) in
            [("", "a\n"), ("a", ""), ("a\na\n", "a\n"), ("a\n", "a\na\n"), ("ab\nb", "b"), ("x\ny", "x\nz\ny")]
        {
            let (before, a, b) = changed(old, new);
            assert_eq!(before, 0);
            assert_eq!(diffy::apply(a, &diffy::create_patch(a, b)).unwrap(), b);
            assert_eq!(old.len() - a.len(), new.len() - b.len(), "the same on both sides is left out");
        }
    }
}
