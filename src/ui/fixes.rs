//! What holds the plan back and what would help, over the panes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Look;
use super::sheet;
use super::text::{fit, left, right, wrapped};
use crate::advise::{Finding, Fix, Severity};
use crate::app::FixesView;
use crate::predict::{Outline, Verdict};
use crate::printable::printable;
use crate::units::three_figures;

/// Cells of the widest box.
const WIDTH: u16 = 110;

/// Cells of what a fix does, beside its name; without the step's own time where there is little room.
const EFFECTS: usize = 51;
const NARROW: usize = 39;

/// Draws the findings, gravest first, each with its fixes, cheapest first.
pub fn draw(view: &FixesView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let width = WIDTH.min(area.width);
    let inner = usize::from(width).saturating_sub(2);
    let wide = inner >= 2 * EFFECTS - 20;
    let name = inner.saturating_sub(if wide { EFFECTS } else { NARROW } + 2);
    let step = if wide { right("step", 12) } else { String::new() };
    let head = format!("  {}{}{step}{}  then", left("change", name), right("memory", 11), right("time", 13));
    let mut lines = vec![Line::styled(fit(&head, inner), look.theme.dim())];
    let mut chosen = 0;
    let mut number = 0;
    for finding in &view.findings {
        lines.extend(said(finding, look, inner));
        if finding.fixes.is_empty() {
            lines.push(Line::styled(
                if finding.kind == "operator" {
                    "    nothing tried takes a tenth off it"
                } else {
                    "    its fixes are told above, or there are none"
                },
                look.theme.dim(),
            ));
        }
        for fix in &finding.fixes {
            let selected = number == view.selected;
            if selected {
                chosen = lines.len();
            }
            lines.push(row(fix, &view.now, selected, (name, wide), look));
            number += 1;
        }
    }
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let place = Rect { x: area.x + (area.width - width) / 2, width, height, ..area };
    let inside = sheet::frame("what would help", look.theme.accent(), place, buffer);
    let first = (chosen + 2).saturating_sub(usize::from(inside.height));
    sheet::scrolled(lines, first, inside, buffer);
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

fn row<'a>(fix: &Fix, now: &Outline, selected: bool, (name, wide): (usize, bool), look: &Look) -> Line<'a> {
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
    Line::from(vec![
        Span::styled(mark, theme.accent()),
        Span::styled(left(&printable(&fix.name), name), style),
        Span::styled(right(&fix.memory.to_string(), 11), theme.text()),
        Span::styled(if wide { right(&time.step.to_string(), 12) } else { String::new() }, theme.predicted()),
        Span::styled(right(&pace(fix.speed), 13), theme.text()),
        Span::styled(format!("  {word}"), then),
    ])
}

/// `24 % more`, `3 % less`: time for the same samples.
fn pace(speed: f64) -> String {
    let time = 100.0 * (1.0 / (1.0 + speed) - 1.0);
    match time {
        _ if !time.is_finite() => "–".to_owned(),
        _ if time.abs() < 0.5 => "the same".to_owned(),
        _ if time < 0.0 => format!("{} % less", three_figures(-time)),
        _ => format!("{} % more", three_figures(time)),
    }
}
