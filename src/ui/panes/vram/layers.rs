//! The largest stage layer by layer: parameters, and what each keeps for the backward pass.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{more, render};
use crate::app::{Pane, Plans, State};
use crate::predict::{Component, LayerGroup, Prediction};
use crate::ui::Look;
use crate::ui::bar;
use crate::ui::panes::scroll;
use crate::ui::text::{left, right};
use crate::units::{Bytes, three_figures};

/// Cells of a row before its bar.
const COLUMNS: usize = 62;

pub fn draw(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let groups = &prediction.layers;
    // Without a backward pass the cache is what stays.
    let serves = state.plans.editor.serves();
    let kept = if serves { Component::KvCache } else { Component::Activations };
    let base = if state.plans.reference().is_some() { "Δbase" } else { "" };
    let head = format!(
        "  {}{}{}{}{}",
        left("layers", 24),
        right("param. M", 10),
        right(if serves { "cache each" } else { "saved each" }, 11),
        right(if serves { "cache all" } else { "saved all" }, 10),
        right(base, 7)
    );
    let mut lines = vec![Line::styled(head, theme.dim())];
    let room = (area.height as usize).saturating_sub(3);
    let selected = state.views.memory.selected.min(groups.len().saturating_sub(1));
    let most = groups.iter().map(all).max().unwrap_or_default();
    let width = (area.width as usize).saturating_sub(COLUMNS + 3);
    for (index, group) in groups.iter().enumerate().skip(scroll(selected, groups.len(), room)).take(room) {
        let chosen = state.views.focus == Pane::Vram && index == selected;
        let style = if chosen { theme.selected() } else { theme.text() };
        let params = three_figures(group.parameters as f64 / 1e6);
        lines.push(Line::from(vec![
            Span::styled(if chosen { "▸ " } else { "  " }, theme.accent()),
            Span::styled(left(&name(group), 24), style),
            Span::styled(right(&params, 10), theme.dim()),
            Span::styled(right(&group.saved.in_gib(), 11), theme.text()),
            Span::styled(right(&all(group).in_gib(), 10), theme.predicted()),
            Span::styled(right(&before(&state.plans, prediction, index), 7), theme.warning()),
            Span::raw(" "),
            Span::styled(bar::pattern(kept).repeat(bar::cells(all(group), most, width)), theme.component(kept)),
        ]));
    }
    let sum: Bytes = groups.iter().map(all).sum();
    let several = if prediction.stages.len() > 1 { "; the pipeline keeps several at a time" } else { "" };
    let said = match serves {
        true => format!("  the cache of all requests holds {sum} in all"),
        false => format!("  one micro batch saves {sum} in all{several}"),
    };
    lines.push(Line::styled(left(&said, area.width as usize), theme.dim()));
    render(lines, area, buffer);
}

fn all(group: &LayerGroup) -> Bytes {
    group.saved * group.count
}

fn name(group: &LayerGroup) -> String {
    match (group.first, group.count) {
        (None, _) => group.name.to_owned(),
        (Some(first), 1) => format!("{} {first}", group.name),
        (Some(first), count) => format!("{} {first} to {}", group.name, first + count - 1),
    }
}

fn before(plans: &Plans, prediction: &Prediction, index: usize) -> String {
    let groups = plans.reference().map(|baseline| &baseline.prediction.layers);
    // Another number of groups is another model: its rows are not these.
    let comparable = groups.filter(|groups| groups.len() == prediction.layers.len());
    comparable
        .and_then(|groups| Some(more(all(prediction.layers.get(index)?), all(groups.get(index)?))))
        .unwrap_or_default()
}
