//! Blocks as lines of a width.

use super::blocks::{Block, read};
use super::table::table;
use super::wrap::wrap;
use super::{Tone, ToneSpan, TopicLine};

/// Cells that code is moved in.
const CODE: usize = 2;

/// The lines of a Markdown text for so many cells. Only lines of code may be longer: they are not broken.
#[must_use]
pub fn layout(markdown: &str, width: usize) -> Vec<TopicLine> {
    let mut rows: Vec<TopicLine> = Vec::new();
    let mut last: Option<Block> = None;
    for block in read(markdown) {
        if last.as_ref().is_some_and(|last| is_apart(last, &block)) {
            rows.push(TopicLine::default());
        }
        rows.extend(lines(&block, width));
        last = Some(block);
    }
    rows
}

/// Whether a blank line stands between them: not between the items of a list.
fn is_apart(above: &Block, below: &Block) -> bool {
    let is_item = |block: &Block| matches!(block, Block::Text { mark, indent, .. } if *indent > 0 && !mark.is_empty());
    let is_listed = |block: &Block| matches!(block, Block::Text { indent, .. } if *indent > 0);
    !(is_listed(above) && is_item(below))
}

fn lines(block: &Block, width: usize) -> Vec<TopicLine> {
    match block {
        Block::Heading(spans) => {
            let lines = wrap(spans, width).into_iter();
            lines.enumerate().map(|(at, spans)| TopicLine { spans, is_heading: at == 0 }).collect()
        }
        Block::Text { mark, indent, spans } => {
            let lines = wrap(spans, width.saturating_sub(*indent)).into_iter();
            lines.enumerate().map(|(at, line)| moved(if at == 0 { mark } else { "" }, *indent, line)).collect()
        }
        Block::Code { indent, lines } => {
            lines.iter().map(|line| moved("", indent + CODE, vec![line.clone()])).collect()
        }
        Block::Table { right, rows } => table(right, rows, width),
    }
}

/// A line moved in, with `mark` right before it.
fn moved(mark: &str, indent: usize, line: Vec<ToneSpan>) -> TopicLine {
    let blank = format!("{}{mark}", " ".repeat(indent.saturating_sub(mark.chars().count())));
    let first = (!blank.is_empty()).then_some(ToneSpan { tone: Tone::Text, text: blank });
    TopicLine { spans: first.into_iter().chain(line).collect(), is_heading: false }
}
