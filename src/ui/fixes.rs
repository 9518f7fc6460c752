//! What holds the plan back and what would help, over the panes.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};
use ratatui::text::{Line, Span};

use super::Look;
use super::sheet;
use super::text::{fit, left, right, signed_percent, wrapped};
use crate::advise::{Finding, Fix, Severity};
use crate::app::FixesView;
use crate::predict::{Outline, Verdict};
use crate::printable::printable;
use crate::units::three_figures;

/// Cells of the widest box.
const WIDTH: u16 = 110;

/// Cells of the columns of what a fix does, beside its name: its memory, the step, its time in words or with a sign, and
/// whether the plan fits then.
#[derive(Clone, Copy)]
struct Columns {
    name: usize,
    memory: usize,
    step: usize,
    time: usize,
    in_words: bool,
}

/// Cells of the longest of the last column with its gap: `fits, tight`.
const THEN: usize = 13;

/// Cells of the box from which on the step's own time is shown, and from which on a change of time is in words: the
/// longest single fix, `checkpointing selective`, has its 24 cells in any.
const WITH_STEP: usize = 82;
const IN_WORDS: usize = 66;

impl Columns {
    fn of(width: usize) -> Self {
        let columns = match width {
            WITH_STEP.. => Self { name: 0, memory: 11, step: 12, time: 13, in_words: true },
            IN_WORDS.. => Self { name: 0, memory: 11, step: 0, time: 13, in_words: true },
            _ => Self { name: 0, memory: 10, step: 0, time: 9, in_words: false },
        };
        Self { name: columns.rest(width), ..columns }
    }

    /// What they leave of a width, besides the mark.
    const fn rest(self, width: usize) -> usize {
        width.saturating_sub(2 + self.memory + self.step + self.time + THEN)
    }
}

/// Draws the findings, gravest first, each with its fixes, cheapest first.
pub fn draw(view: &FixesView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let (place, listed) = laid_out(view, look, area);
    let inside = sheet::frame("what would help", look.theme.accent(), place, buffer);
    let first = first_shown(view, &listed, inside.height);
    sheet::scrolled(listed.into_iter().map(|(line, _)| line).collect(), first, inside, buffer);
}

/// The fix whose row lies there, counted over all findings.
pub fn row_at(view: &FixesView, look: &Look, area: Rect, at: Position) -> Option<usize> {
    let (place, listed) = laid_out(view, look, area);
    let inside = place.inner(Margin::new(1, 1));
    let first = first_shown(view, &listed, inside.height);
    let row = usize::from(at.y.checked_sub(inside.y)?);
    listed.get(first + row).filter(|_| inside.contains(at))?.1
}

/// The line that is shown first: the selected fix is in view, and the last screenful stays full.
fn first_shown(view: &FixesView, listed: &[(Line<'_>, Option<usize>)], height: u16) -> usize {
    let chosen = listed.iter().position(|(_, fix)| *fix == Some(view.selected)).unwrap_or(0);
    let last = listed.len().saturating_sub(usize::from(height));
    (chosen + 2).saturating_sub(usize::from(height)).min(last)
}

/// Where they lie, and their lines, those of fixes with their number.
fn laid_out<'a>(view: &FixesView, look: &Look, area: Rect) -> (Rect, Vec<(Line<'a>, Option<usize>)>) {
    let width = WIDTH.min(area.width);
    let inner = usize::from(width).saturating_sub(2);
    let columns = Columns::of(inner);
    let step = if columns.step > 0 { right("step", columns.step) } else { String::new() };
    let (memory, time) = (right("memory", columns.memory), right("time", columns.time));
    let head = format!("  {}{memory}{step}{time}  then", left("change", columns.name));
    let mut listed = vec![(Line::styled(fit(&head, inner), look.theme.dim()), None)];
    let mut number = 0;
    for finding in &view.findings {
        listed.extend(said(finding, look, inner).into_iter().map(|line| (line, None)));
        if finding.fixes.is_empty() {
            let said = match finding.kind {
                "operator" => "    nothing tried takes a tenth off it",
                kind if view.told_above.contains(&kind) => "    its fixes stand above",
                _ => "    no change of the plan that was tried helps",
            };
            listed.push((Line::styled(said, look.theme.dim()), None));
        }
        for fix in &finding.fixes {
            listed.push((row(fix, &view.now, number == view.selected, columns, look), Some(number)));
            number += 1;
        }
    }
    let height = u16::try_from(listed.len() + 2).unwrap_or(u16::MAX).min(area.height);
    (Rect { x: area.x + (area.width - width) / 2, width, height, ..area }, listed)
}

/// The finding in its words.
fn said<'a>(finding: &Finding, look: &Look, width: usize) -> Vec<Line<'a>> {
    let style = match finding.severity {
        Severity::Critical => look.theme.danger(),
        Severity::High => look.theme.warning(),
        Severity::Medium | Severity::Low => look.theme.text(),
    };
    let words = format!("{}: {}", finding.severity.word(), printable(&finding.message));
    // Of an operator all is said; of findings there are many.
    let most = if finding.kind == "operator" { 4 } else { 2 };
    wrapped(&words, width.saturating_sub(2), most)
        .into_iter()
        .map(|line| Line::styled(format!(" {line}"), style))
        .collect()
}

fn row<'a>(fix: &Fix, now: &Outline, selected: bool, columns: Columns, look: &Look) -> Line<'a> {
    let theme = &look.theme;
    let mark = if selected { "▸ " } else { "  " };
    let style = if selected { theme.selected() } else { theme.text() };
    let (word, then) = match (now.capacity.verdict(), fix.outline.capacity.verdict()) {
        (_, Verdict::Fits) => ("fits", theme.good()),
        (_, Verdict::Tight) => ("fits, tight", theme.warning()),
        (Verdict::DoesNotFit, Verdict::DoesNotFit) => ("not enough", theme.dim()),
        (_, Verdict::DoesNotFit) => ("no longer", theme.danger()),
    };
    let time = fix.outline.decode.as_ref().unwrap_or(&fix.outline.time);
    let step = if columns.step > 0 { right(&time.step.to_string(), columns.step) } else { String::new() };
    let pace = pace(fix.speed, columns.in_words);
    Line::from(vec![
        Span::styled(mark, theme.accent()),
        Span::styled(left(&printable(&fix.name), columns.name), style),
        Span::styled(right(&fix.memory.to_string(), columns.memory), theme.text()),
        Span::styled(step, theme.predicted()),
        Span::styled(right(&pace, columns.time), theme.text()),
        Span::styled(format!("  {word}"), then),
    ])
}

/// `24 % more`, `3 % less`, or `+24 %`, `-3 %`: time for the same samples.
fn pace(speed: f64, in_words: bool) -> String {
    let time = 100.0 * (1.0 / (1.0 + speed) - 1.0);
    match time {
        _ if !time.is_finite() => "–".to_owned(),
        _ if time.abs() < 0.5 => "the same".to_owned(),
        _ if !in_words => signed_percent(time / 100.0),
        _ if time < 0.0 => format!("{} % less", three_figures(-time)),
        _ => format!("{} % more", three_figures(time)),
    }
}
