//! The largest batch or sequence that fits, over the panes: what it takes, what one more would need.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Look;
use super::picker::in_words;
use super::sheet;
use super::text::{left, wrapped};
use crate::app::{LargestSize, Size};
use crate::predict::Verdict;

/// Cells of the widest box.
const WIDTH: u16 = 100;

/// Cells of what a line is about.
const LABEL: usize = 10;

/// Draws it.
pub fn draw(found: &LargestSize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let width = WIDTH.min(area.width);
    let mut lines = Vec::new();
    let inner = usize::from(width).saturating_sub(2);
    let mut add = |label: &'static str, said: &str, style: Style| {
        for (index, words) in wrapped(said, inner.saturating_sub(LABEL + 2), 3).into_iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!(" {}", left(label, LABEL)), theme.dim()),
                Span::styled(words, style),
            ]));
        }
    };
    let same = found.now.words == found.size.words;
    add("largest", &found.size.words, theme.accent());
    let tight = if found.size.capacity.verdict() == Verdict::Tight { ": tight" } else { "" };
    add("takes", &format!("{}{tight}", needs(&found.size)), theme.good());
    let change = if same { "the plan is that already".to_owned() } else { in_words(&found.outcome) };
    add("change", &change, theme.text());
    add("now", &format!("{}: {}", found.now.words, needs(&found.now)), theme.dim());
    match &found.next {
        Some(next) => add("one more", &format!("{}: {}", next.words, needs(next)), theme.warning()),
        None => add("one more", "is no valid plan", theme.dim()),
    }
    let height = (lines.len() as u16 + 2).min(area.height);
    let place = Rect { x: area.x + (area.width - width) / 2, width, height, ..area };
    let inside = sheet::frame("the largest that fits", theme.accent(), place, buffer);
    sheet::scrolled(lines, 0, inside, buffer);
}

/// `78.3 of 79.6 GiB, 1.30 GiB left`.
fn needs(size: &Size) -> String {
    let capacity = &size.capacity;
    let rest = if capacity.needed <= capacity.bytes {
        format!("{} left", capacity.bytes.saturating_sub(capacity.needed))
    } else {
        format!("{} too much", capacity.needed.saturating_sub(capacity.bytes))
    };
    format!("{} of {} GiB, {rest}", capacity.needed.in_gib(), capacity.bytes.in_gib())
}
