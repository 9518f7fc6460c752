//! What keys do in the view of a cluster.

use super::metric::ClusterMetric;
use super::off::off_gpus;
use super::selector::running;
use super::{Cluster, Grouping};
use crate::app::editor::editing::set_against;
use crate::app::key::PAGE;
use crate::app::keymap::Action;
use crate::app::monitor::{MonitorView, SelectedRow};
use crate::app::notice::{info, problem};
use crate::app::pane::Pane;
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::state::State;

/// The choice of all GPUs.
const ALL: &str = "all GPUs";

/// Whether the focused pane shows a cluster.
pub fn is_shown(state: &State) -> bool {
    state.views.focus == Pane::Monitor && state.monitor.view == MonitorView::Cluster
}

/// Does what `action` means in the view of a cluster, where it is shown and the action means something of its own there;
/// whether it did.
pub fn act(state: &mut State, action: Action) -> bool {
    if !is_shown(state) {
        return false;
    }
    match action {
        Action::Up => step(state, -1, 0),
        Action::Down => step(state, 1, 0),
        Action::PageUp => step(state, -PAGE.cast_signed(), 0),
        Action::PageDown => step(state, PAGE.cast_signed(), 0),
        Action::ShorterSpan => step(state, 0, -1),
        Action::LongerSpan => step(state, 0, 1),
        Action::Attach => show_device(state),
        Action::Metric => next_metric(state),
        Action::Sort => next_grouping(state),
        Action::Find => choose_job(state),
        _ => return false,
    }
    true
}

/// Whether any GPU of the job tells the metric.
fn is_told(state: &State, metric: ClusterMetric) -> bool {
    let cluster = &state.monitor.cluster;
    let prediction = state.plans.compared().prediction();
    cluster.layout().ranks.iter().any(|place| {
        let expected = prediction.and_then(|prediction| cluster.expected_memory(*place, prediction));
        state.monitor.devices().get(*place).is_some_and(|device| metric.value(device, expected).is_some())
    })
}

/// The next metric of the heat map that any GPU tells.
pub fn next_metric(state: &mut State) {
    let now = state.monitor.cluster.metric;
    let count = ClusterMetric::ALL.len();
    let all = ClusterMetric::ALL.into_iter().cycle().skip_while(|metric| *metric != now).skip(1).take(count);
    match all.into_iter().find(|metric| is_told(state, *metric)) {
        Some(next) if next == now => state.notice = Some(info(format!("no GPU tells more than {}", now.word()))),
        Some(next) => state.monitor.cluster.metric = next,
        None => state.notice = Some(problem("no GPU of the job tells any metric")),
    }
}

/// The next way to put GPUs together: by stage and replica where the plan has the job's ranks, by rack where racks
/// are known.
pub fn next_grouping(state: &mut State) {
    let cluster = &state.monitor.cluster;
    let (has_ranks, has_racks) = (cluster.degrees().is_some(), cluster.has_racks());
    let is_there = |grouping: &Grouping| match grouping {
        Grouping::Node => true,
        Grouping::Stage | Grouping::Replica => has_ranks,
        Grouping::Rack => has_racks,
    };
    let all = Grouping::ALL.into_iter().cycle();
    let next = all.skip_while(|one| *one != cluster.grouping).skip(1).find(is_there).unwrap_or_default();
    let gpus = cluster.layout().ranks.len();
    let planned = state.plans.compared().job().map_or(0, |job| job.degrees.num_gpus);
    state.notice = Some(if has_ranks || has_racks {
        let racks = if has_racks || next != Grouping::Node { "" } else { "; no rack is known" };
        info(format!("GPUs by {}{racks}", next.word()))
    } else {
        problem(format!("no stages: the plan has {planned} GPUs and the job {gpus}; and no rack is known"))
    });
    state.monitor.cluster.grouping = next;
}

/// Selects the next GPU that is off its equals.
pub fn next_straggler(state: &mut State) {
    let places: Vec<usize> = off_gpus(state).iter().map(|off| off.place).collect();
    let now = places.iter().position(|place| state.monitor.selected == SelectedRow::Device(*place));
    let next = now.map_or(0, |now| now + 1) % places.len().max(1);
    match places.get(next) {
        Some(place) => state.monitor.selected = SelectedRow::Device(*place),
        None => state.notice = Some(info("every rank does as much as its equals, and no alert is about a GPU")),
    }
}

/// Opens the list of the jobs that run.
pub fn choose_job(state: &mut State) {
    let devices = state.monitor.devices();
    let all = Choice::of(ALL, &format!("{} GPUs", devices.len()));
    let jobs = running(devices).into_iter().map(|job| {
        let nodes = if job.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", job.nodes) };
        Choice::of(&job.selector, &format!("{} GPUs on {nodes}", job.gpus))
    });
    let choices = std::iter::once(all).chain(jobs).collect();
    let current = state.monitor.cluster.selector.as_ref().map(ToString::to_string);
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Job, choices, current.as_deref()));
}

/// Takes a job: one of the list, or a selector that was typed.
pub fn chosen(state: &mut State, taken: &str) {
    let selector = if taken == ALL { None } else { Some(taken.parse()) };
    match selector.transpose() {
        Ok(selector) => {
            state.monitor.cluster.choose(selector);
            // What was highest on GPUs that were another job's is nothing of this one.
            state.monitor.peaks.clear();
            super::on_sample(state);
            set_against(state);
        }
        Err(why) => state.notice = Some(problem(why.to_string())),
    }
}

/// Everything of the selected GPU.
pub fn show_device(state: &mut State) {
    state.monitor.view = MonitorView::Device;
    state.monitor.page = 0;
}

/// Moves the selection: to another group, at the same place in it; or to another GPU.
pub fn step(state: &mut State, groups: isize, gpus: isize) {
    let place = state.monitor.shown_device();
    if let Some(place) = moved(&state.monitor.cluster, place, groups, gpus) {
        state.monitor.selected = SelectedRow::Device(place);
    }
}

fn moved(cluster: &Cluster, place: usize, groups: isize, gpus: isize) -> Option<usize> {
    let shown = cluster.groups();
    let at = shown.iter().enumerate().find_map(|(group, shown)| {
        shown.devices.iter().position(|device| *device == place).map(|column| (group, column))
    });
    let Some((group, column)) = at else { return shown.first()?.devices.first().copied() };
    if groups != 0 {
        let last = shown.len() - 1;
        let group = &shown[group.saturating_add_signed(groups).min(last)].devices;
        return group.get(column.min(group.len().checked_sub(1)?)).copied();
    }
    let all: Vec<usize> = shown.iter().flat_map(|group| group.devices.iter().copied()).collect();
    let now = all.iter().position(|device| *device == place)?;
    all.get(now.saturating_add_signed(gpus).min(all.len() - 1)).copied()
}
