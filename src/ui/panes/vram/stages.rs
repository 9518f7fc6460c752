//! Every pipeline stage: what it needs, what was seen of its GPUs.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::{render, unit};
use crate::app::{Pane, State};
use crate::predict::Prediction;
use crate::reading::DeviceSample;
use crate::ui::Look;
use crate::ui::panes::scroll;
use crate::ui::text::right;
use crate::units::Bytes;

pub fn draw(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let (theme, unit) = (&look.theme, unit(state));
    let columns = |cells: [&str; 8]| -> String {
        let wide = area.width >= 76;
        let cells = cells.iter().zip([6, 7, 8, 10, 9, 12, 10, 9]);
        cells.take(if wide { 8 } else { 7 }).map(|(cell, width)| right(cell, width)).collect()
    };
    let base = if state.plans.reference().is_some() { "Δbase" } else { "" };
    let head = columns([
        "stage",
        "layers",
        "static",
        "allocated",
        "reserved",
        prediction.device_used_name(),
        "observed",
        base,
    ]);
    let mut lines = vec![Line::styled(head, theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let selected = state.views.memory.selected.min(prediction.stages.len().saturating_sub(1));
    let first = scroll(selected, prediction.stages.len(), room);
    for (index, stage) in prediction.stages.iter().enumerate().skip(first).take(room) {
        look.place_row(area, lines.len(), index);
        let before = state.plans.reference().and_then(|baseline| baseline.prediction.stages.get(index));
        let text = columns([
            &stage.stage.to_string(),
            &stage.layers.to_string(),
            &unit.show(stage.static_bytes),
            &unit.show(stage.peak_allocated),
            &unit.show(stage.peak_reserved),
            &unit.show(stage.device_used),
            &observed(state, prediction, stage.stage).map_or_else(|| "–".to_owned(), |bytes| unit.show(bytes)),
            &before.map_or_else(String::new, |before| unit.difference(stage.device_used, before.device_used)),
        ]);
        let style = stage_style(prediction, index, state.views.focus == Pane::Vram && index == selected, look);
        lines.push(Line::styled(text, style));
    }
    render(lines, area, buffer);
}

/// The most that any GPU of that stage holds now; none where nobody can tell which those are, nor beside a lesson.
fn observed(state: &State, prediction: &Prediction, stage: u64) -> Option<Bytes> {
    if state.plans.stands_alone() {
        return None;
    }
    let monitor = &state.monitor;
    let count = monitor.devices().len();
    let stage_of = |(position, device): (usize, &DeviceSample)| match monitor.cluster.layout().rank_at(position) {
        Some(rank) if monitor.cluster.is_there() => monitor.cluster.place_of(rank).map(|place| place.stage as u64),
        _ => prediction.stage_of(device.index, count).map(|held| held.stage),
    };
    let of_stage = monitor.run_devices().filter(|one| stage_of(*one) == Some(stage)).map(|(_, device)| device);
    of_stage.filter_map(|device| device.memory.value().map(|memory| memory.used)).max()
}

fn stage_style(prediction: &Prediction, index: usize, chosen: bool, look: &Look) -> Style {
    if chosen {
        look.theme.selected()
    } else if prediction.stages[index].device_used > prediction.capacity.bytes {
        look.theme.danger()
    } else {
        look.theme.text()
    }
}
