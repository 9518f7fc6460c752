//! The largest stage layer by layer: parameters, and what each keeps for the backward pass.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{render, unit};
use crate::app::{Pane, Plans, State};
use crate::predict::{Component, LayerGroup, Prediction};
use crate::reading::HookModules;
use crate::ui::Look;
use crate::ui::bar;
use crate::ui::memory_unit::MemoryUnit;
use crate::ui::panes::scroll;
use crate::ui::text::{left, right};
use crate::units::{Bytes, three_figures};

/// Cells of a row before its bar.
const COLUMNS: usize = 62;

/// Cells of what the run was seen to save.
const RUN_COLUMN: usize = 10;

pub fn draw(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let groups = &prediction.layers;
    // Without a backward pass the cache is what stays.
    let serves = state.plans.editor.serves();
    let kept = if serves { Component::KvCache } else { Component::Activations };
    let base = if state.plans.reference().is_some() { "Δbase" } else { "" };
    let observed = observed(state);
    let head = format!(
        "  {}{}{}{}{}{}",
        left("layers", 24),
        right("param. M", 10),
        right(if serves { "cache each" } else { "saved each" }, 11),
        right(if serves { "cache all" } else { "saved all" }, 10),
        right(if observed.is_some() { "run each" } else { "" }, RUN_COLUMN * usize::from(observed.is_some())),
        right(base, 7)
    );
    let mut lines = vec![Line::styled(head, theme.dim())];
    let room = (area.height as usize).saturating_sub(3);
    let selected = state.views.memory.selected.min(groups.len().saturating_sub(1));
    let unit = unit(state);
    let most = groups.iter().map(all).max().unwrap_or_default();
    let columns = COLUMNS + RUN_COLUMN * usize::from(observed.is_some());
    let width = (area.width as usize).saturating_sub(columns + 3);
    for (index, group) in groups.iter().enumerate().skip(scroll(selected, groups.len(), room)).take(room) {
        look.place_row(area, lines.len(), index);
        let chosen = state.views.focus == Pane::Vram && index == selected;
        let style = if chosen { theme.selected() } else { theme.text() };
        let params = three_figures(group.parameters as f64 / 1e6);
        lines.push(Line::from(vec![
            Span::styled(if chosen { "▸ " } else { "  " }, theme.accent()),
            Span::styled(left(&name(group), 24), style),
            Span::styled(right(&params, 10), theme.dim()),
            Span::styled(right(&unit.show(group.saved), 11), theme.text()),
            Span::styled(right(&unit.show(all(group)), 10), theme.predicted()),
            Span::styled(run_each((observed, unit), group), theme.observed()),
            Span::styled(right(&before((&state.plans, unit), prediction, index), 7), theme.warning()),
            Span::raw(" "),
            Span::styled(bar::pattern(kept).repeat(bar::cells(all(group), most, width)), theme.component(kept)),
        ]));
    }
    let sum = prediction.saved_by_layers();
    let several = if prediction.stages.len() > 1 { "; the pipeline keeps several at a time" } else { "" };
    let said = match serves {
        true => format!("  the cache of all requests holds {sum} in all"),
        false => match observed {
            Some(modules) => format!(
                "  one micro batch saves {sum} in all{several}; in step {} the run's saved {}",
                modules.step, modules.saved
            ),
            None => format!("  one micro batch saves {sum} in all{several}"),
        },
    };
    lines.push(Line::styled(left(&said, area.width as usize), theme.dim()));
    render(lines, area, buffer);
}

/// What the hook saw of the modules of the run that follows the plan shown; a draft is nobody's run.
fn observed(state: &State) -> Option<&HookModules> {
    let plans = &state.plans;
    let drafted = plans.drafted_beside().is_some() || plans.stands_alone() || plans.editor.serves();
    let run = state.run.telemetry.hooked(&state.monitor, state.now).filter(|_| !drafted)?;
    run.modules.as_ref()
}

fn run_each((observed, unit): (Option<&HookModules>, MemoryUnit), group: &LayerGroup) -> String {
    let Some(modules) = observed else { return String::new() };
    let saved = group.first.and_then(|first| modules.saved_in_layers(first, group.count));
    right(&saved.map_or_else(String::new, |saved| unit.show(saved)), RUN_COLUMN)
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

fn before((plans, unit): (&Plans, MemoryUnit), prediction: &Prediction, index: usize) -> String {
    let groups = plans.reference().map(|baseline| &baseline.prediction.layers);
    // Another number of groups is another model: its rows are not these.
    let comparable = groups.filter(|groups| groups.len() == prediction.layers.len());
    comparable
        .and_then(|groups| Some(unit.difference(all(prediction.layers.get(index)?), all(groups.get(index)?))))
        .unwrap_or_default()
}
