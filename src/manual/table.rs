//! A table in columns that fit a width.

use super::wrap::{length, longest_word, wrap};
use super::{Tone, ToneSpan, TopicLine};

/// Cells between two columns.
const GAP: usize = 2;

/// The rows of a table, a line below its head. Cells that are too long go on below.
pub fn table(right: &[bool], rows: &[Vec<Vec<ToneSpan>>], width: usize) -> Vec<TopicLine> {
    let columns = right.len();
    let widths = widths(rows, columns, width.saturating_sub(GAP * columns.saturating_sub(1)));
    let mut lines = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<Vec<Vec<ToneSpan>>> = (0..columns)
            .map(|column| row.get(column).map_or_else(Vec::new, |cell| wrap(&headed(cell, at == 0), widths[column])))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let parts = cells.iter().map(|cell| cell.get(line).cloned().unwrap_or_default());
            lines.push(joined(parts, &widths, right));
        }
        if at == 0 {
            let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join(&" ".repeat(GAP));
            lines.push(TopicLine { spans: vec![ToneSpan { tone: Tone::Faint, text: rule }], is_heading: false });
        }
    }
    lines
}

fn headed(cell: &[ToneSpan], head: bool) -> Vec<ToneSpan> {
    let tone = |span: &ToneSpan| if head && span.tone == Tone::Text { Tone::Strong } else { span.tone };
    cell.iter().map(|span| ToneSpan { tone: tone(span), text: span.text.clone() }).collect()
}

/// What each column takes: as much as it needs where all of them have room; else the wide ones share what is left.
fn widths(rows: &[Vec<Vec<ToneSpan>>], columns: usize, room: usize) -> Vec<usize> {
    let most = |of: fn(&[ToneSpan]) -> usize, column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| of(cell)).max().unwrap_or(0).max(1)
    };
    let needed: Vec<usize> = (0..columns).map(|column| most(length, column)).collect();
    let least: Vec<usize> = (0..columns).map(|column| most(longest_word, column)).collect();
    if needed.iter().sum::<usize>() <= room {
        return needed;
    }
    // Words stay whole where there is room for that; else every column has its share.
    let floor = |column: usize| if least.iter().sum::<usize>() <= room { least[column] } else { 1 };
    let mut widths: Vec<usize> = (0..columns).map(floor).collect();
    for _ in widths.iter().sum()..room {
        let short = (0..columns).filter(|column| widths[*column] < needed[*column]);
        let Some(column) = short.min_by_key(|column| widths[*column]) else { break };
        widths[column] += 1;
    }
    widths
}

fn joined(parts: impl Iterator<Item = Vec<ToneSpan>>, widths: &[usize], right: &[bool]) -> TopicLine {
    let mut spans: Vec<ToneSpan> = Vec::new();
    let mut blanks = 0;
    for (column, part) in parts.enumerate() {
        let free = widths[column].saturating_sub(length(&part));
        let before = if right[column] { free } else { 0 };
        if !part.is_empty() {
            spans.push(ToneSpan { tone: Tone::Text, text: " ".repeat(blanks + before) });
            spans.extend(part);
            blanks = 0;
        }
        // Blanks at the end of a line are not written.
        blanks += GAP + if spans.is_empty() || !right[column] { free } else { 0 };
    }
    spans.retain(|span| !span.text.is_empty());
    TopicLine { spans, is_heading: false }
}
