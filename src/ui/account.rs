//! What was read out of a process or another tool's file, over the panes: each value with what said so.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Look;
use super::sheet;
use super::text::{fit, left, wrapped};
use crate::app::Account;
use crate::printable::printable;

const MOST_KEY: usize = 40;
const MOST_VALUE: usize = 30;

pub fn draw(account: &Account, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let lines = |width| lines(account, look, width);
    sheet::fitted(&printable(&account.title), look.theme.accent(), lines, first, area, buffer);
}

/// A key in so many cells: its last part tells it from others.
fn ending(key: &str, width: usize) -> String {
    let over = (key.chars().count() + 1).saturating_sub(width);
    if over <= 1 { key.to_owned() } else { format!("…{}", key.chars().skip(over).collect::<String>()) }
}

/// `text` with words that are longer than a line in parts.
fn breakable(text: &str, width: usize) -> String {
    let mut run = 0;
    let mut broken = String::with_capacity(text.len());
    for letter in text.chars() {
        run = if letter.is_whitespace() { 0 } else { run + 1 };
        if run > width.max(1) {
            broken.push(' ');
            run = 1;
        }
        broken.push(letter);
    }
    broken
}

fn lines(account: &Account, look: &Look, width: usize) -> Vec<Line<'static>> {
    let theme = &look.theme;
    let column = |at: usize, most: usize| {
        let widest = account.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        widest.min(most).min(width / 3)
    };
    let (keys, values) = (column(0, MOST_KEY), column(1, MOST_VALUE));
    let mut lines: Vec<Line<'static>> = account
        .rows
        .iter()
        .map(|[key, value, origin]| {
            let rest = width.saturating_sub(keys + values + 5);
            Line::from(vec![
                Span::styled(format!(" {}  ", left(&ending(key, keys), keys)), theme.text()),
                Span::styled(format!("{}  ", left(&fit(&printable(value), values), values)), theme.accent()),
                Span::styled(fit(&printable(origin), rest), theme.dim()),
            ])
        })
        .collect();
    if !account.open.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled(" not found, or not for a plan to say", theme.warning()));
        // Whole: a command among them is for typing.
        let whole = |line: &String| {
            wrapped(&breakable(&printable(line), width.saturating_sub(5)), width.saturating_sub(5), usize::MAX)
        };
        let open = account.open.iter().flat_map(|line| {
            let lead = ["  ", "    "].into_iter().chain(std::iter::repeat("    "));
            lead.zip(whole(line)).map(|(lead, part)| format!("{lead}{part}")).collect::<Vec<_>>()
        });
        lines.extend(open.map(|line| Line::styled(line, theme.dim())));
    }
    lines
}
