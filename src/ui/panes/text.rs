//! The plan as text: numbered lines in colours, faults at their places, the key under the
//! cursor explained, what may be written offered.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};
use unicode_width::UnicodeWidthChar;

use super::scroll;
use crate::app::{Completion, Pane, Plans, State, TextView};
use crate::plan::Fault;
use crate::printable::{printable, steers};
use crate::ui::Look;
use crate::ui::text::{fit, left, wrapped};

/// Lines of explanation below the text.
const EXPLAINED: u16 = 3;

/// Rows of what is offered.
const OFFERED: usize = 8;

/// Blanks that a tab is shown as.
const TAB: usize = 4;

/// Bytes of a line beyond which it is looked at only where it is in view.
const LONG: usize = 4096;

pub fn draw(state: &State, view: &TextView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let [body, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(EXPLAINED)]).areas(area);
    let gutter = gutter(view);
    let (row, column) = view.cursor();
    let first = first_line(view, body.height as usize);
    let room = (body.width as usize).saturating_sub(gutter);
    let shift = column.saturating_sub(room.saturating_sub(4));
    let faults = state.plans.editor.faults();
    let numbered = view.lines().iter().enumerate().skip(first);
    for ((index, line), place) in numbered.zip(body.rows()) {
        let fault = faults.iter().find(|fault| fault.at.is_some_and(|at| at.line == index + 1));
        let mut spans = vec![number(index, gutter, fault.is_some(), look)];
        let cursor = (index == row && state.views.focus == Pane::Plan).then_some(column);
        spans.extend(coloured(line, fault, cursor, shift, room, look));
        Line::from(spans).render(place, buffer);
    }
    draw_explanation(&state.plans, view, look, below, buffer);
    if let Some(completion) = view.completion.as_ref().filter(|_| state.views.focus == Pane::Plan) {
        let x = body.x + (gutter + column - shift).saturating_sub(completion.typed).min(body.width as usize / 2) as u16;
        draw_offer(completion, look, (x, body.y + (row - first) as u16), body, buffer);
    }
}

/// Cells of line numbers and the mark of a fault.
fn gutter(view: &TextView) -> usize {
    view.lines().len().to_string().len().max(2) + 2
}

fn first_line(view: &TextView, height: usize) -> usize {
    scroll(view.cursor().0, view.lines().len(), height)
}

/// The line and column of the text that lie at a row and column of the pane.
pub fn place(view: &TextView, (row, column): (usize, usize), height: u16) -> (usize, usize) {
    let height = height.saturating_sub(EXPLAINED + 2) as usize;
    (first_line(view, height) + row, column.saturating_sub(gutter(view)))
}

fn number<'a>(index: usize, gutter: usize, faulty: bool, look: &Look) -> Span<'a> {
    let text = format!("{:>width$} ", index + 1, width = gutter - 2);
    if faulty {
        Span::styled(format!("{text}●"), look.theme.danger())
    } else {
        Span::styled(format!("{text} "), look.theme.frame())
    }
}

/// What a stretch of a line is.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Key,
    Text,
    Number,
    Comment,
    Mark,
}

/// What each character of a line is. A line by itself tells enough for colours.
fn parts(letters: &[char]) -> Vec<Part> {
    let mut parts = vec![Part::Text; letters.len()];
    let mut start = 0;
    let mut quote = None;
    for (at, letter) in letters.iter().enumerate() {
        if let Some(open) = quote {
            if *letter == open {
                quote = None;
            }
            continue;
        }
        let starts = at == 0 || letters[at - 1].is_whitespace();
        match letter {
            '#' if starts => {
                word(letters, &mut parts, start, at);
                parts[at..].fill(Part::Comment);
                return parts;
            }
            '"' | '\'' if letters[start..at].iter().all(|c| c.is_whitespace()) => quote = Some(*letter),
            ':' if letters.get(at + 1).is_none_or(|next| next.is_whitespace()) => {
                parts[start..at].fill(Part::Key);
                parts[at] = Part::Mark;
                start = at + 1;
            }
            '{' | '}' | '[' | ']' | ',' => {
                word(letters, &mut parts, start, at);
                parts[at] = Part::Mark;
                start = at + 1;
            }
            _ => {}
        }
    }
    word(letters, &mut parts, start, letters.len());
    parts
}

/// A value that is a number or a truth value.
fn word(letters: &[char], parts: &mut [Part], start: usize, end: usize) {
    let text: String = letters[start..end].iter().collect();
    let bare = text.trim().replace('_', "");
    if bare.parse::<f64>().is_ok() || matches!(bare.as_str(), "true" | "false" | "null" | "~") {
        parts[start..end].fill(Part::Number);
    }
}

fn style(part: Part, look: &Look) -> Style {
    let theme = &look.theme;
    match part {
        Part::Key => theme.predicted(),
        Part::Text => theme.text(),
        Part::Number => theme.observed(),
        Part::Comment => theme.dim(),
        Part::Mark => theme.frame(),
    }
}

/// A line in its colours, the fault underlined up to the end of its word, the cursor inverse.
fn coloured<'a>(
    line: &str,
    fault: Option<&Fault>,
    cursor: Option<usize>,
    shift: usize,
    room: usize,
    look: &Look,
) -> Vec<Span<'a>> {
    let from = if line.len() > LONG { shift } else { 0 };
    let letters: Vec<char> = line.chars().skip(from).take(LONG).collect();
    let (parts, shift) = (parts(&letters), shift - from);
    let cursor = cursor.map(|cursor| cursor.saturating_sub(from));
    let wrong = fault.and_then(|fault| fault.at).filter(|at| at.column > from).map(|at| {
        let start = (at.column - 1 - from).min(letters.len().saturating_sub(1));
        let long =
            letters.iter().skip(start).take_while(|c| !c.is_whitespace() && !matches!(c, ',' | '}' | ']')).count();
        start..start + long.max(1)
    });
    let mut spans: Vec<Span<'a>> = Vec::new();
    let mut used = 0;
    for (at, letter) in letters.iter().enumerate().skip(shift) {
        let shown = match letter {
            '\t' => "→".to_owned() + &" ".repeat(TAB - 1),
            letter if steers(*letter) => "·".to_owned(),
            letter => letter.to_string(),
        };
        let cells: usize = shown.chars().map(|c| c.width().unwrap_or(0)).sum();
        if used + cells > room {
            break;
        }
        used += cells;
        let mut style = style(parts[at], look);
        if wrong.as_ref().is_some_and(|wrong| wrong.contains(&at)) {
            style = look.theme.danger().add_modifier(Modifier::UNDERLINED);
        }
        if cursor == Some(at) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        match spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(&shown),
            _ => spans.push(Span::styled(shown, style)),
        }
    }
    if cursor.is_some_and(|cursor| cursor >= letters.len()) {
        spans.push(Span::styled(" ", look.theme.text().add_modifier(Modifier::REVERSED)));
    }
    spans
}

/// The fault of the cursor's line, else the first one; else the key under the cursor.
fn draw_explanation(plans: &Plans, view: &TextView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let width = area.width as usize;
    let (row, _) = view.cursor();
    let faults = plans.editor.faults();
    let here = faults.iter().find(|fault| fault.at.is_some_and(|at| at.line == row + 1));
    let lines = match (here.or(faults.first()), view.key()) {
        (Some(fault), _) => {
            let more = if faults.len() > 1 { format!(" (and {} more)", faults.len() - 1) } else { String::new() };
            let words = wrapped(&printable(&format!("{fault}{more}")), width, EXPLAINED as usize);
            words.into_iter().map(|line| Line::styled(line, theme.danger())).collect()
        }
        (None, Some(key)) => {
            let value = plans.editor.said(key.path).unwrap_or_default();
            let meaning = key.kind.words().iter().find(|word| word.name == value).map(|word| word.meaning);
            let rule = key.kind.to_string();
            let said = meaning.map_or(rule, |meaning| format!("{value}: {meaning}"));
            let mut lines = vec![Line::from(vec![
                Span::styled(key.path, theme.accent()),
                Span::styled(format!("  {}", fit(key.line, width.saturating_sub(key.path.len() + 2))), theme.text()),
            ])];
            let words = wrapped(&printable(&said), width, EXPLAINED as usize - 1);
            lines.extend(words.into_iter().map(|line| Line::styled(line, theme.dim())));
            lines
        }
        (None, None) => Vec::new(),
    };
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

/// What may be written, below the cursor where there is room, else above it.
fn draw_offer(completion: &Completion, look: &Look, (x, y): (u16, u16), body: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let rows = completion.choices.len().min(OFFERED);
    let height = rows as u16;
    let y = if y + 1 + height <= body.bottom() { y + 1 } else { y.saturating_sub(height).max(body.y) };
    let place = Rect { x, y, width: body.right().saturating_sub(x), height };
    Clear.render(place, buffer);
    let names = completion.choices.iter().map(|choice| choice.name.chars().count()).max().unwrap_or(0).min(32);
    let first = scroll(completion.selected, completion.choices.len(), rows);
    let shown = completion.choices.iter().enumerate().skip(first).take(rows);
    for ((index, choice), row) in shown.zip(place.rows()) {
        let chosen = index == completion.selected;
        let style = if chosen { theme.accent().add_modifier(Modifier::REVERSED) } else { theme.text() };
        let facts = fit(&printable(&choice.facts), (place.width as usize).saturating_sub(names + 4));
        Line::from(vec![
            Span::styled(format!(" {} ", left(&printable(&choice.name), names)), style),
            Span::styled(format!(" {facts}"), theme.dim()),
        ])
        .render(row, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, parts};

    /// One letter a character: what it is taken for.
    fn read(line: &str) -> String {
        let letter = |part: &Part| match part {
            Part::Key => 'k',
            Part::Text => 't',
            Part::Number => 'n',
            Part::Comment => 'c',
            Part::Mark => 'm',
        };
        parts(&line.chars().collect::<Vec<_>>()).iter().map(letter).collect()
    }

    #[test]
    fn keys_values_and_comments_are_told_apart() {
        assert_eq!(read("a: 12 # b"), "kmnnnnccc"[..9].to_owned());
        assert_eq!(read("a: \"#b\""), "kmttttt");
        assert_eq!(read("{a: x, b: 1}"), "mkmttmkkmnnm");
        assert_eq!(read("# a: 1"), "cccccc");
    }
}
