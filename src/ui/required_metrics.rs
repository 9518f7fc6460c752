//! What is on the screen, and so what has to be asked for.

use ratatui::layout::Rect;

use super::layout;
use crate::app::{Alert, MonitorView, Pane, RecordingState, State};
use crate::reading::{DetailTarget, RequiredMetrics};

/// What the screen shows beyond what every sample has; everything while a recording is written.
#[must_use]
pub fn required_metrics(state: &State) -> RequiredMetrics {
    let process = state.monitor.attached.as_ref().map(|attached| attached.pid);
    if state.recordings.recording != RecordingState::Off {
        return RequiredMetrics { process, ..RequiredMetrics::everything() };
    }
    // An alert comes whatever is on the screen.
    let alerted = state.run.alerts.rules.threshold(Alert::Gpu).is_some();
    let area = Rect::new(0, 0, state.views.size.0, state.views.size.1);
    let Some(screen) = layout::arrange(area, layout::LayoutRequest::of(state)) else {
        return RequiredMetrics { health: alerted, process, ..RequiredMetrics::default() };
    };
    let monitor = screen.panes.iter().any(|(pane, _)| *pane == Pane::Monitor);
    let view = monitor.then_some(state.monitor.view);
    let shown = state.monitor.devices().get(state.monitor.shown_device());
    RequiredMetrics {
        // Bandwidth and tensor activity are in the header and most panes.
        counters: true,
        health: monitor || alerted,
        closely: match (view, shown) {
            (Some(MonitorView::Device), Some(device)) => DetailTarget::Device(device.index),
            // Its past is asked for too, where the source keeps one.
            (Some(MonitorView::History), Some(device)) if state.monitor.cluster.is_there() => {
                DetailTarget::Device(device.index)
            }
            _ => DetailTarget::None,
        },
        processes: view == Some(MonitorView::Processes),
        process,
    }
}
