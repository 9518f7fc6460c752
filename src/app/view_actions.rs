//! Actions that change what is looked at, and nothing else.

use crate::app::arrangement::Side;
use crate::app::editor::editing;
use crate::app::event::Effect;
use crate::app::keymap::Action;
use crate::app::memory_rows::memory_rows;
use crate::app::monitor::MonitorView;
use crate::app::notice::{info, problem};
use crate::app::pane::Pane;
use crate::app::picker::picking;
use crate::app::run::explanation_search::CompareRow;
use crate::app::run::offer;
use crate::app::state::State;
use crate::app::views::MemoryView;
use crate::reading::DeviceMetric;

/// The focused pane alone, or with the others again.
pub fn zoom(state: &mut State) {
    state.views.zoomed = !state.views.zoomed;
    // Only a large plan pane shows what every value would do, and that takes several predictions.
    if state.views.focus == Pane::Plan {
        editing::look_around(state);
    }
}

/// Begins to type the selected value.
pub fn type_value(state: &mut State) {
    editing::type_value(state);
    picking::look(state);
}

/// Takes the mouse from the terminal, or leaves it to it.
pub fn turn_mouse(state: &mut State) -> Vec<Effect> {
    state.views.mouse = !state.views.mouse;
    let who = if state.views.mouse { "chooses panes and rows" } else { "is the terminal's again" };
    state.notice = Some(info(format!("the mouse {who}")));
    vec![Effect::Mouse(state.views.mouse)]
}

/// Gives a pane the focus.
pub fn focus(state: &mut State, pane: Pane) {
    editing::leave_value(state);
    state.views.focus = pane;
    if state.views.zoomed && pane == Pane::Plan {
        editing::look_around(state);
    }
}

/// Moves the selection of the focused pane: from (row, last row) to a row.
pub fn select(state: &mut State, to: impl Fn(usize, usize) -> usize) {
    let prediction = state.plans.editor.prediction();
    let (selected, rows) = match state.views.focus {
        Pane::Plan => {
            let rows = state.plans.form.fields(&state.plans.editor).len();
            (&mut state.plans.form.selected, rows)
        }
        Pane::Vram => {
            let rows = prediction.map_or(0, |prediction| match state.views.memory.view {
                MemoryView::Stages => prediction.stages.len(),
                MemoryView::Layers => prediction.layers.len(),
                MemoryView::Timeline => prediction.largest().timeline.len(),
                MemoryView::Times => prediction.time_terms.len(),
                MemoryView::Components => memory_rows(&state.plans, prediction.largest()).len(),
                MemoryView::Terms => prediction.largest().terms.len(),
            });
            (&mut state.views.memory.selected, rows)
        }
        Pane::Roofline => {
            let rows = prediction.map_or(0, |prediction| state.views.roofline.ops(&prediction.roofline).count());
            (&mut state.views.roofline.selected, rows)
        }
        Pane::Monitor => {
            let last = state.monitor.rows().saturating_sub(1);
            let row = to(state.monitor.selected_row().min(last), last);
            return state.monitor.select_row(row);
        }
        Pane::Compare => {
            let assumptions = prediction.map_or(0, |prediction| prediction.assumptions.len());
            let rows = CompareRow::count(state, assumptions);
            (&mut state.views.compared, rows)
        }
    };
    let last = rows.saturating_sub(1);
    *selected = to((*selected).min(last), last);
    if state.views.focus == Pane::Plan {
        editing::look_around(state);
    }
}

/// Whether the focused pane shows one device closely, which has pages and not rows.
pub fn is_detail(state: &State) -> bool {
    state.views.focus == Pane::Monitor && state.monitor.view == MonitorView::Device
}

/// Whether a recording is played and the past is not shown, whose spans could be meant.
pub fn is_played_now(state: &State) -> bool {
    state.recordings.playback.is_some() && state.monitor.view != MonitorView::History
}

/// The next view of the focused pane.
pub fn turn_view(state: &mut State) {
    match state.views.focus {
        Pane::Vram => {
            state.views.memory.view = state.views.memory.view.next();
            state.views.memory.selected = 0;
        }
        Pane::Roofline => state.views.roofline.table = !state.views.roofline.table,
        Pane::Monitor => {
            let next = state.monitor.view.next();
            let is_last = state.monitor.cluster.is_there() && state.monitor.view == MonitorView::Now;
            state.monitor.view = if is_last { MonitorView::Cluster } else { next };
        }
        Pane::Compare => state.views.curves = !state.views.curves,
        Pane::Plan => {}
    }
}

/// Another metric in front, one over the others, or every device in each chart: the past is shown with it.
pub fn turn_history(state: &mut State, action: Action) {
    let monitor = &mut state.monitor;
    monitor.view = MonitorView::History;
    match action {
        Action::Metric => monitor.metric = monitor.metric.next(),
        Action::OverlayMetric => {
            monitor.over = match monitor.over {
                None => Some(DeviceMetric::ALL[0]),
                Some(last) if last.next() == DeviceMetric::ALL[0] => None,
                Some(metric) => Some(metric.next()),
            };
            let said = monitor.over.map_or("no metric over the others".to_owned(), |metric| {
                format!("{} over every metric, in its own scale", metric.word())
            });
            state.notice = Some(info(said));
        }
        _ => monitor.every_device = !monitor.every_device,
    }
}

/// The next kind of operators.
pub fn turn_kind(state: &mut State) {
    if let Some(prediction) = state.plans.editor.prediction() {
        state.views.roofline.kind = state.views.roofline.kind.next(&prediction.roofline);
        state.views.roofline.selected = 0;
    }
}

/// The next preset of the layout.
pub fn next_layout(state: &mut State) {
    let preset = state.views.arrangement.preset.next();
    state.views.arrangement.preset = preset;
    state.views.zoomed = false;
    state.notice = Some(info(format!(
        "layout {}: {}; Ctrl and arrows move borders, 0 puts them back",
        preset.name(),
        preset.summary()
    )));
}

/// Moves a border of the focused pane, or puts all back.
pub fn resize(state: &mut State, action: Action) {
    let pane = state.views.focus;
    let (side, by) = match action {
        Action::Wider => (Side::Width, 1),
        Action::Narrower => (Side::Width, -1),
        Action::Taller => (Side::Height, 1),
        Action::Shorter => (Side::Height, -1),
        _ => {
            state.views.arrangement.reset();
            state.notice = Some(info("every pane as the layout has it"));
            return;
        }
    };
    if state.views.zoomed {
        state.notice = Some(problem("it has the whole screen: z gives the others their places back"));
    } else if !state.views.arrangement.resize(pane, side, by) {
        state.notice = Some(problem("it is as far as it goes; 0 puts every border back"));
    }
}

/// One step back: an offer, what is sought, another view of the monitor, the whole screen.
pub fn back(state: &mut State) {
    if offer::dismiss(state) {
        return;
    }
    if state.views.focus == Pane::Monitor && state.monitor.list.clear() {
        return;
    }
    let first = if state.monitor.cluster.is_there() { MonitorView::Cluster } else { MonitorView::Now };
    if state.views.focus == Pane::Monitor && state.monitor.view != first {
        state.monitor.view = first;
        return;
    }
    if state.views.zoomed {
        return zoom(state);
    }
    state.notice = Some(info("nothing to go back from: q leaves, ? lists the keys"));
}
