//! The open plans side by side.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::header::tokens;
use super::text::{fit, left, right, signed_percent, wrapped};
use crate::app::{Baseline, Editor, FIELDS, Plans, StepOutcome};
use crate::predict::Verdict;
use crate::printable::printable;

/// Cells of a row besides its name and what it is.
const FIGURES: usize = 57;

/// With less room what a plan is is not said.
const SUMMARY: usize = 10;

/// Draws one row a plan: what it is, whether it fits, how fast it is, against the baseline or
/// else the plan in front.
pub fn draw(plans: &Plans, selected: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    Clear.render(area, buffer);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(" open plans ", theme.accent()));
    let inner = block.inner(area);
    block.render(area, buffer);
    let name = (inner.width as usize / 4).clamp(12, 30);
    let against = match plans.reference() {
        Some(baseline) => format!("the baseline, {}", printable(&baseline.name)),
        None => format!("the plan in front, {}", printable(plans.editor.name())),
    };
    let room = (inner.width as usize).saturating_sub(name + FIGURES);
    let head = format!(
        "  {}{}{}{}{}{}{}  {}",
        left("plan", name),
        right("memory", 10),
        right("of GiB", 7),
        right("step", 9),
        right("tok/s", 8),
        right("Δ memory", 11),
        right("Δ speed", 8),
        if room < SUMMARY { "" } else { "what it is" }
    );
    let mut lines = vec![Line::styled(head, theme.dim())];
    for (place, plan) in plans.tabs.all(&plans.editor).enumerate() {
        let chosen = place == selected;
        let mark = if chosen { "▸ " } else { "  " };
        let style = if chosen { theme.selected() } else { theme.text() };
        let star = if plan.modified() { "*" } else { "" };
        let style = if plan.faults().is_empty() { style } else { theme.danger() };
        let title = left(&format!("{}{star}", printable(plan.name())), name);
        let mut spans = vec![Span::styled(mark, theme.accent()), Span::styled(title, style)];
        spans.extend(figures(plans, plan, look, room));
        lines.push(Line::from(spans));
    }
    lines.push(Line::default());
    let differs = plans.tabs.all(&plans.editor).nth(selected).map(|plan| differences(plans, plan)).unwrap_or_default();
    let said = format!("Δ against {against}{differs}");
    let said = wrapped(&said, (inner.width as usize).saturating_sub(4), 5);
    lines.extend(said.into_iter().map(|line| Line::styled(format!("  {line}"), theme.dim())));
    for (line, row) in lines.into_iter().zip(inner.rows()) {
        line.render(row, buffer);
    }
}

/// The plan whose row lies there: below the frame and the heads.
pub fn row_at(plans: &Plans, area: Rect, at: Position) -> Option<usize> {
    let place = usize::from(at.y.checked_sub(area.y + 2)?);
    (area.contains(at) && at.y + 1 < area.bottom() && place < plans.tabs.place().1).then_some(place)
}

fn figures<'a>(plans: &Plans, plan: &Editor, look: &Look, room: usize) -> Vec<Span<'a>> {
    let theme = &look.theme;
    let Some(prediction) = plan.prediction() else {
        let why = plan.faults().first().map(ToString::to_string).unwrap_or_default();
        return vec![Span::styled(fit(&format!("  no valid plan: {}", printable(&why)), room + 55), theme.danger())];
    };
    let capacity = prediction.capacity;
    let memory = if capacity.verdict() == Verdict::DoesNotFit { theme.danger() } else { theme.predicted() };
    let rate = prediction.time.tokens_per_s.map_or_else(|| "–".to_owned(), tokens);
    let base = plans.reference().map(|baseline| &baseline.prediction).or_else(|| plans.editor.prediction());
    let outcome = base.map(|base| StepOutcome::between(base, prediction));
    let (more, faster) = match outcome.filter(|outcome| outcome.memory.0 != 0 || outcome.speed != 0.0) {
        Some(outcome) => (outcome.memory.to_string(), signed_percent(outcome.speed)),
        None => ("·".to_owned(), "·".to_owned()),
    };
    vec![
        Span::styled(right(&capacity.needed.to_string(), 10), memory),
        Span::styled(right(&capacity.bytes.in_gib(), 7), theme.dim()),
        Span::styled(right(&prediction.time.step.to_string(), 9), theme.predicted()),
        Span::styled(right(&rate, 8), theme.predicted()),
        Span::styled(right(&more, 11), theme.text()),
        Span::styled(right(&faster, 8), theme.text()),
        if room < SUMMARY {
            Span::raw("")
        } else if plan.faults().is_empty() {
            Span::styled(format!("  {}", fit(&printable(&plan.summary()), room)), theme.dim())
        } else {
            Span::styled(format!("  {}", fit("broken: the last good one", room)), theme.danger())
        },
    ]
}

/// What the selected plan says otherwise than the one that it is compared with.
fn differences(plans: &Plans, plan: &Editor) -> String {
    let Some(base) = plans.reference().map(Baseline::job).or_else(|| plans.editor.job()) else {
        return String::new();
    };
    let Some(job) = plan.job() else { return String::new() };
    if let Some(fault) = plan.faults().first() {
        return format!("; these numbers are from its last valid text: {}", printable(&fault.to_string()));
    }
    let said: Vec<String> = FIELDS
        .into_iter()
        .filter_map(|field| {
            let (now, was) = (field.effective(job)?, field.effective(base)?);
            (now != was).then(|| format!("{} {} (there {})", field.label(), printable(&now), printable(&was)))
        })
        .collect();
    match said.as_slice() {
        [] if plans.tabs.place().1 > 1 => "; choose another plan to see what it says otherwise".to_owned(),
        [] => String::new(),
        said => format!(": {}", said.join(", ")),
    }
}
