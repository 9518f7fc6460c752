//! The operators by time, as a table.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::share;
use crate::app::{Pane, Plans, State};
use crate::predict::{Bound, Roofline, RooflineOp};
use crate::ui::Look;
use crate::ui::panes::scroll;
use crate::ui::text::{left, right, signed_percent};

/// One row an operator, most time first; with a baseline, how much longer each takes than there.
pub fn draw(state: &State, roofline: &Roofline, selected: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let base = if state.plans.reference().is_some() { 8 } else { 0 };
    let name = (area.width as usize).saturating_sub(33 + base).clamp(10, 40);
    let row = |cells: [&str; 5]| {
        let [operator, count, intensity, bound, time] = cells;
        format!(
            "{}{}{}  {}{}",
            left(operator, name),
            right(count, 7),
            right(intensity, 9),
            left(bound, 8),
            right(time, 6)
        )
    };
    let head = row(["operator", "runs", "FLOP/B", "bound", "time"]);
    let head = format!(" {head}{}", right(if base > 0 { "Δbase" } else { "" }, base));
    let mut lines = vec![Line::styled(head, theme.dim())];
    let ops: Vec<&RooflineOp> = state.views.roofline.ops(roofline).collect();
    let room = (area.height as usize).saturating_sub(1);
    let first = scroll(selected, ops.len(), room);
    for (index, op) in ops.into_iter().enumerate().skip(first).take(room) {
        look.place_row(area, lines.len(), index);
        let chosen = index == selected && state.views.focus == Pane::Roofline;
        let style = if chosen { theme.selected() } else { op_style(op, look) };
        let intensity = op.intensity.map_or_else(|| "–".to_owned(), |value| crate::units::three_figures(value.0));
        let time = format!("{:.1} %", share(roofline, op));
        let text = row([&op.name, &op.count.to_string(), &intensity, op.bound.word(), &time]);
        lines.push(Line::from(vec![
            Span::styled(format!("{}{text}", if chosen { "▸" } else { " " }), style),
            Span::styled(right(&since(&state.plans, op), base), theme.warning()),
        ]));
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

/// How much more time an operator takes than in the baseline.
pub fn since(plans: &Plans, op: &RooflineOp) -> String {
    let Some(baseline) = plans.reference() else { return String::new() };
    match baseline.op(&op.name).and_then(|before| op.seconds.ratio_to(before.seconds)) {
        Some(ratio) if (ratio - 1.0).abs() < 0.005 => "·".to_owned(),
        Some(ratio) => signed_percent(ratio - 1.0),
        None => "new".to_owned(),
    }
}

fn op_style(op: &RooflineOp, look: &Look) -> Style {
    match op.bound {
        Bound::Compute => look.theme.text(),
        Bound::Memory | Bound::SmallKernel => look.theme.dim(),
    }
}
