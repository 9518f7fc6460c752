//! A job over many nodes: a cell for each GPU, the spread of the metric in numbers, and the ranks that are off.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::super::{scroll, sparks};
use crate::app::{Cluster, ClusterGroup, OffGpu, OffReason, Pane, RaisedAlert, SelectedRow, State, off_gpus};
use crate::compare::Straggler;
use crate::printable::printable;
use crate::reading::{Activity, DeviceSample, RankReport};
use crate::ui::Look;
use crate::ui::text::{RenderLine, ends, fit, left};
use crate::units::grouped;

/// Most cells of a group side by side.
const WIDEST: usize = 64;
/// Lines of the ranks that are off, at most.
const MOST_NAMED: usize = 8;
/// Cells of what is said first of each.
const CAUSE: usize = 20;

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let off = off_gpus(state);
    let named = off.len().clamp(1, MOST_NAMED).min((area.height as usize / 3).max(1));
    let [head, map, selected, list] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(named as u16),
    ])
    .areas(area);
    let values = Values::of(state);
    let lines = [
        Line::styled(fit(&summary(state, off.len()), area.width as usize), look.theme.text()),
        spread(state, &values, look, area.width as usize),
    ];
    for (line, place) in lines.into_iter().zip(head.rows()) {
        line.render(place, buffer);
    }
    draw_map(state, (&values, &off), look, map, buffer);
    draw_selected(state, &values, look, selected, buffer);
    draw_off(state, &off, look, list, buffer);
}

/// The metric of each GPU of the job, by the GPU's place in the samples.
struct Values {
    by_device: Vec<Option<f64>>,
    sorted: Vec<(f64, usize)>,
}

impl Values {
    fn of(state: &State) -> Self {
        let cluster = &state.monitor.cluster;
        let devices = state.monitor.devices();
        let prediction = state.plans.compared().prediction();
        let mut by_device = vec![None; devices.len()];
        let mut sorted = Vec::with_capacity(cluster.layout().ranks.len());
        for place in &cluster.layout().ranks {
            let Some(device) = devices.get(*place) else { continue };
            let expected = prediction.and_then(|prediction| cluster.expected_memory(*place, prediction));
            if let Some(value) = cluster.metric.value(device, expected) {
                by_device[*place] = Some(value);
                sorted.push((value, *place));
            }
        }
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self { by_device, sorted }
    }

    fn median(&self) -> Option<f64> {
        self.sorted.get(self.sorted.len() / 2).map(|(value, _)| *value)
    }
}

/// What is watched: the job, its GPUs and nodes, how the plan divides them, how many are off.
fn summary(state: &State, off: usize) -> String {
    let cluster = &state.monitor.cluster;
    let layout = cluster.layout();
    let job =
        cluster.selector.as_ref().map_or_else(|| "all GPUs".to_owned(), |selector| printable(&selector.to_string()));
    let plan = match cluster.degrees() {
        Some(degrees) => {
            let of_stage = degrees.gpus / degrees.stages.max(1);
            let replicas = of_stage / degrees.within.max(1);
            format!("{} × {}", counted(degrees.stages, "stage"), counted(replicas, "replica"))
        }
        None if layout.missing > 0 => format!("no ranks: {} of --hosts without GPU", counted(layout.missing, "line")),
        None => {
            let gpus = state.plans.compared().job().map_or(0, |job| job.degrees.num_gpus);
            format!("no ranks: the plan has {}", counted(usize::try_from(gpus).unwrap_or(usize::MAX), "GPU"))
        }
    };
    let off = match off {
        0 => "none off".to_owned(),
        off => format!("{off} off"),
    };
    let (gpus, nodes) = (counted(layout.ranks.len(), "GPU"), counted(layout.nodes.len(), "node"));
    format!(" {off} │ {gpus} on {nodes} │ {plan} │ {job}")
}

fn counted(count: usize, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{} {what}{end}", grouped(count as u64))
}

/// The metric over all GPUs: lowest, median, highest.
fn spread<'a>(state: &State, values: &Values, look: &Look, width: usize) -> Line<'a> {
    let metric = state.monitor.cluster.metric;
    let theme = &look.theme;
    let name = Span::styled(format!(" {} ", metric.word()), theme.accent());
    let (Some((low, lowest)), Some(median), Some((high, highest))) =
        (values.sorted.first(), values.median(), values.sorted.last())
    else {
        let device = state.monitor.cluster.layout().ranks.first().and_then(|place| state.monitor.devices().get(*place));
        let why = device.map_or_else(|| "no GPU is the job's".to_owned(), |device| metric.absence(device));
        return Line::from(vec![name, Span::styled(format!("– {}", printable(&why)), theme.dim())]);
    };
    let mark = state.monitor.devices().get(*lowest).map_or("", |device| metric.mark(device));
    let short = |device: &DeviceSample| format!(" ({})", ends(&state.monitor.gpu_name(device), longest_name(width)));
    let at = |place: &usize| state.monitor.devices().get(*place).map(short).unwrap_or_default();
    let [low, median, high] = [*low, median, *high].map(|value| format!("{mark}{}", metric.text(value)));
    let text = |lowest: &str, highest: &str| format!("min {low}{lowest}  median {median}  max {high}{highest}");
    let whole = text(&at(lowest), &at(highest));
    // The numbers are what the line is for: whose they are comes where there is room.
    let is_too_long = name.width() + Span::raw(&*whole).width() > width;
    let text = if is_too_long { text("", "") } else { whole };
    Line::from(vec![name, Span::styled(text, theme.text())])
}

/// Cells that a name may take beside what is said of it.
fn longest_name(width: usize) -> usize {
    (width / 3).max(12)
}

/// How groups are laid over the pane: cells side by side, lines of a group, groups side by side.
struct Shape {
    label: usize,
    cells: usize,
    lines: usize,
    columns: usize,
}

impl Shape {
    fn of(groups: &[ClusterGroup], width: usize) -> Self {
        // Names leave room for what they name.
        let label = groups.iter().map(|group| group.label.chars().count()).max().unwrap_or(0).min(longest_name(width));
        let largest = groups.iter().map(|group| group.devices.len()).max().unwrap_or(0).max(1);
        let cells = largest.min(width.saturating_sub(label + 3).clamp(1, WIDEST));
        let columns = (width / (label + cells + 4)).max(1);
        Self { label, cells, lines: largest.div_ceil(cells), columns }
    }
}

fn draw_map(state: &State, (values, off): (&Values, &[OffGpu<'_>]), look: &Look, area: Rect, buffer: &mut Buffer) {
    let groups = state.monitor.cluster.groups();
    let shape = Shape::of(&groups, area.width as usize);
    let rows = groups.len().div_ceil(shape.columns);
    let area = note_hidden(state, &groups, &shape, look, area, buffer);
    let room = (area.height as usize / shape.lines).max(1);
    let first = scroll_to_chosen(state, &groups, rows, room);
    let off = marks(off, state.monitor.devices().len());
    for row in first..rows.min(first + room) {
        for column in 0..shape.columns {
            let Some(group) = groups.get(column * rows + row) else { continue };
            let x = area.x + (column * (shape.label + shape.cells + 4)) as u16;
            let y = area.y + ((row - first) * shape.lines) as u16;
            let place = Rect { x, y, width: area.right().saturating_sub(x), height: shape.lines as u16 };
            draw_group(state, (group, &shape), (values, &off), look, place.intersection(area), buffer);
        }
    }
}

/// Says on the last line how many groups have no room, and leaves the lines above it.
fn note_hidden(
    state: &State,
    groups: &[ClusterGroup],
    shape: &Shape,
    look: &Look,
    area: Rect,
    buffer: &mut Buffer,
) -> Rect {
    let rows = groups.len().div_ceil(shape.columns);
    if rows * shape.lines <= area.height as usize || area.height < 2 {
        return area;
    }
    let above = Rect { height: area.height - 1, ..area };
    let room = (above.height as usize / shape.lines).max(1);
    let first = scroll_to_chosen(state, groups, rows, room);
    let is_shown = |index: &usize| (first..first + room).contains(&(index % rows));
    let hidden = (0..groups.len()).filter(|index| !is_shown(index)).count();
    let what = state.monitor.cluster.grouping.word();
    let zooms = if state.views.zoomed { "" } else { ", z zooms" };
    let all = grouped(groups.len() as u64);
    let text = format!(" {} of {all} not in view: ↓ goes on{zooms}", counted(hidden, what));
    let line = Rect { y: above.bottom(), height: 1, ..area };
    Line::styled(fit(&look.keys(&text), area.width as usize), look.theme.dim()).render(line, buffer);
    above
}

/// The first row of groups that is drawn: names go down each column, as they do in a list.
fn scroll_to_chosen(state: &State, groups: &[ClusterGroup], rows: usize, room: usize) -> usize {
    let chosen = state.monitor.shown_device();
    let at = groups.iter().position(|group| group.devices.contains(&chosen)).unwrap_or(0);
    scroll(at % rows.max(1), rows, room)
}

/// Which GPUs are off, by place in the samples.
fn marks(off: &[OffGpu<'_>], devices: usize) -> Vec<bool> {
    let mut marks = vec![false; devices];
    for off in off {
        if let Some(mark) = marks.get_mut(off.place) {
            *mark = true;
        }
    }
    marks
}

fn draw_group(
    state: &State,
    (group, shape): (&ClusterGroup, &Shape),
    (values, off): (&Values, &[bool]),
    look: &Look,
    area: Rect,
    buffer: &mut Buffer,
) {
    let theme = &look.theme;
    let focused = state.views.focus == Pane::Monitor;
    for (line, (devices, place)) in group.devices.chunks(shape.cells).zip(area.rows()).enumerate() {
        let label = if line == 0 { ends(&printable(&group.label), shape.label) } else { String::new() };
        let mut spans = vec![Span::styled(format!(" {} ", left(&label, shape.label)), theme.dim())];
        let left = place.x + (shape.label + 2) as u16;
        spans.extend(devices.iter().enumerate().map(|(cell, device)| {
            look.place_cells(Rect { x: left + cell as u16, width: 1, ..place }, *device);
            let chosen = focused && state.monitor.selected == SelectedRow::Device(*device);
            let (text, style) =
                match (state.monitor.devices().get(*device), values.by_device.get(*device).copied().flatten()) {
                    (Some(sample), Some(value)) => {
                        let share = state.monitor.cluster.metric.share(value, sample, values.median().unwrap_or(value));
                        let style = if off[*device] { theme.danger() } else { theme.observed() };
                        (sparks(std::iter::once(Some(share)), 1.0), style)
                    }
                    _ if off.get(*device) == Some(&true) => ("×".to_owned(), theme.danger()),
                    _ => ("·".to_owned(), theme.dim()),
                };
            Span::styled(text, if chosen { style.add_modifier(Modifier::REVERSED) } else { style })
        }));
        Line::from(spans).render(place, buffer);
    }
}

/// The selected GPU in numbers: its rank, the metric, its memory against what the plan predicts for the rank.
fn draw_selected(state: &State, values: &Values, look: &Look, area: Rect, buffer: &mut Buffer) {
    let cluster = &state.monitor.cluster;
    let place = state.monitor.shown_device();
    let Some(device) = state.monitor.devices().get(place) else { return };
    let value = values.by_device.get(place).copied().flatten();
    let shown = match value {
        Some(value) => {
            format!("{} {}{}", cluster.metric.word(), cluster.metric.mark(device), cluster.metric.text(value))
        }
        None => format!("{} – {}", cluster.metric.word(), printable(&cluster.metric.absence(device))),
    };
    let name = ends(&state.monitor.gpu_name(device), longest_name(area.width as usize));
    let mut parts = vec![format!("{name}{}", rank_words(cluster, place)), shown];
    let prediction = state.plans.compared().prediction();
    if let Some(expected) = prediction.and_then(|prediction| cluster.expected_memory(place, prediction)) {
        let seen = device.memory.value().map_or_else(|| "–".to_owned(), |memory| memory.used.in_gib());
        parts.push(format!("memory {}→{seen} GiB", expected.in_gib()));
    }
    parts.extend(device.rank.as_deref().and_then(told));
    let whose = device.location.as_ref().and_then(|location| location.job.as_ref().or(location.pod.as_ref()));
    parts.extend(whose.map(|whose| printable(whose)));
    let text = format!(" {}", parts.join(" │ "));
    Line::styled(fit(&text, area.width as usize), look.theme.text()).render(area, buffer);
}

/// `step 7.75 s, 30 % data` of what a rank tells: its step, and what keeps it from training.
fn told(rank: &RankReport) -> Option<String> {
    let stall = rank.stall.map(|stall| match stall.activity {
        Some(activity) => format!("no step for {:.0} s ({})", stall.lasting.0, activity.word()),
        None => format!("no step for {:.0} s", stall.lasting.0),
    });
    let step = || rank.step_time.map(|time| format!("step {time}"));
    let most = Activity::ASIDE
        .into_iter()
        .filter_map(|activity| Some((activity, rank.share_of(activity)?)))
        .max_by(|one, other| one.1.0.total_cmp(&other.1.0))
        .filter(|(_, share)| share.0 >= 0.01)
        .map(|(activity, share)| format!("{:.0} % {}", share.0 * 100.0, activity.word()));
    let parts: Vec<String> = stall.or_else(step).into_iter().chain(most).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// `  rank 59, stage 1` of the GPU at a place.
fn rank_words(cluster: &Cluster, place: usize) -> String {
    let Some(rank) = cluster.layout().rank_at(place) else { return "  not the job's".to_owned() };
    if cluster.layout().missing > 0 {
        return String::new();
    }
    let stage = cluster.place_of(rank).map_or_else(String::new, |place| format!(", stage {}", place.stage));
    format!("  rank {rank}{stage}")
}

fn draw_off(state: &State, named: &[OffGpu<'_>], look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let cluster = &state.monitor.cluster;
    if named.is_empty() {
        let text = match (cluster.layout().ranks.is_empty(), cluster.degrees()) {
            (true, _) => "",
            // Who does not answer does as much as nobody.
            _ if state.monitor.is_unanswered() => " no GPU answers",
            (false, Some(_)) => " every rank does as much as its equals",
            // Which are equals the plan does not say.
            (false, None) => " every GPU does as much as the others",
        };
        return Line::styled(fit(text, area.width as usize), theme.dim()).render(area, buffer);
    }
    let devices = state.monitor.devices();
    let width = named
        .iter()
        .take(MOST_NAMED)
        .filter_map(|off| devices.get(off.place))
        .map(|device| state.monitor.gpu_name(device).chars().count())
        .max()
        .unwrap_or(0)
        .min(longest_name(area.width as usize));
    for (off, place) in named.iter().zip(area.rows()) {
        let name = left(
            &ends(&devices.get(off.place).map(|device| state.monitor.gpu_name(device)).unwrap_or_default(), width),
            width,
        );
        let rank = rank_words(cluster, off.place);
        let text = match off.why {
            OffReason::Straggles(straggler) => words(straggler, &name, &rank),
            OffReason::Alerts(raised) => format!(" {}{name}{rank}  {}", left("alert", CAUSE), alert_words(raised)),
        };
        Line::styled(fit(&text, area.width as usize), theme.danger()).render(place, buffer);
    }
    let hidden = named.len().saturating_sub(area.height as usize);
    if hidden > 0 {
        let more = format!(" and {hidden} more ");
        let last = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
        Line::styled(more, theme.warning()).right_aligned().render(last, buffer);
    }
}

/// What an alert says of a GPU that is named beside it.
fn alert_words(raised: &RaisedAlert) -> String {
    let named = raised.gpu.as_ref().map(|gpu| format!("GPU {gpu}: ")).unwrap_or_default();
    printable(raised.text.strip_prefix(&named).unwrap_or(&raised.text))
}

/// `hot  node0007/3  rank 59, stage 1  15 % less work than its equals  for 40 s`.
fn words(straggler: &Straggler, name: &str, rank: &str) -> String {
    let off = straggler.difference();
    let lasted = straggler.lasted.0;
    let since = if lasted < 1.0 { "  now".to_owned() } else { format!("  for {:.0} s", lasted) };
    format!(" {}{name}{rank}{off}{since}", left(&straggler.cause.to_string(), CAUSE))
}
