//! What wants a hand before any figure is read: an alert, a rank that is off its equals, or what the GPU lacks.

use ratatui::style::Style;
use ratatui::text::Span;

use crate::app::{Alert, Plans, RaisedAlert, SourceState, State, broken_loss};
use crate::printable::printable;
use crate::reading::Absence;
use crate::ui::Look;
use crate::ui::header::is_for_cpu;
use crate::ui::text::{ends, fit};

/// Fewer cells say nothing.
const SHORTEST: usize = 12;

/// Why nothing is read, in at most `width` cells; else the gravest alert that nobody has seen, unless the verdict says it;
/// else the rank that is farthest off its equals; else what the GPU lacks.
pub(super) fn urgent<'a>(state: &State, width: usize, look: &Look) -> Vec<Span<'a>> {
    if let Some(why) = unread(state) {
        let text = fit(&format!("! {}", printable(&why)), width);
        return if width < SHORTEST { Vec::new() } else { vec![Span::styled(text, look.theme.danger())] };
    }
    if let Some(alert) = alert(state, width, look) {
        return vec![alert];
    }
    match straggler(state, width) {
        Some((text, more)) => marked(&text, (more, width), look.theme.warning()).into_iter().collect(),
        None => lacking(&state.plans, width, look),
    }
}

/// The gravest alert that nobody has seen, unless the verdict says it.
pub(super) fn alert<'a>(state: &State, width: usize, look: &Look) -> Option<Span<'a>> {
    let is_full = state.run.ran_out.is_some() || state.run.outlook.is_growing();
    let planned = state.plans.compared().prediction().map_or(1, |prediction| prediction.num_gpus);
    let devices = state.monitor.devices();
    let own = state.monitor.run_device().and_then(|at| Some(state.monitor.gpu_name(devices.get(at)?)));
    // Of a run on all GPUs each is its own; else the one that is followed.
    let all = state.monitor.run_devices().count() as u64;
    let is_own = |gpu: &Option<String>| planned >= all || *gpu == own;
    let said = |raised: &&RaisedAlert| match raised.alert {
        Alert::FullIn | Alert::Ended | Alert::OutOfMemory => !raised.outlived,
        // The verdict and its cause say that, and since when.
        Alert::Loss => broken_loss(state).is_some_and(|broken| broken.is_dated()),
        Alert::Memory => is_full && is_own(&raised.gpu),
        _ => false,
    };
    let mut unsaid = state.run.alerts.raised.iter().filter(|raised| !raised.seen && !said(raised));
    let (raised, more) = (unsaid.next()?, unsaid.count());
    let restarted = if raised.outlived { "restarted after " } else { "" };
    marked(&printable(&format!("{restarted}{}", raised.text)), (more, width), look.theme.danger())
}

/// What wants a hand, and how many more things do; nothing where there is no room to say it.
fn marked<'a>(text: &str, (more, width): (usize, usize), style: Style) -> Option<Span<'a>> {
    let more = if more > 0 { format!(" (+{more})") } else { String::new() };
    let text = fit(text, width.saturating_sub(2 + more.len()));
    (width >= SHORTEST).then(|| Span::styled(format!("! {text}{more}"), style))
}

/// Why nothing is read: the source does not open, or no GPU answers. That there is no GPU for a CPU's plan is no fault.
pub(super) fn unread(state: &State) -> Option<String> {
    match &state.monitor.source {
        SourceState::Failed(why) if !is_for_cpu(state) => Some(why.clone()),
        SourceState::Running(_) if state.monitor.has_no_gpu_of_job() => {
            state.monitor.no_gpu_of_job().map(|words| printable(&words))
        }
        SourceState::Running(_) if state.monitor.is_unanswered() => {
            let why = state.monitor.devices().iter().find_map(|device| device.memory.absence())?;
            let words = if let Absence::Failed(words) = why { words.to_string() } else { why.to_string() };
            Some(format!("no GPU answers: {words}"))
        }
        _ => None,
    }
}

/// The rank that is farthest off its equals, by its host and GPU, and how many more are off: all others wait for it. A long
/// name leaves room for why it is off.
fn straggler(state: &State, width: usize) -> Option<(String, usize)> {
    let cluster = &state.monitor.cluster;
    let (first, others) = cluster.stragglers().split_first()?;
    let device = state.monitor.devices().get(*cluster.layout().ranks.get(first.rank)?)?;
    let (name, cause) = (state.monitor.gpu_name(device), first.cause.to_string());
    // `! GPU ` and `: ` beside both, what is cut behind them, ` (+3)` where others are off.
    let beside = 9 + cause.chars().count() + if others.is_empty() { 0 } else { 4 + others.len().to_string().len() };
    let name = ends(&name, width.saturating_sub(beside).max(SHORTEST));
    Some((format!("GPU {name}: {}", first.words()), others.len()))
}

/// What the plan says that its GPU has no kernels or no link for, else what its figures leave out.
fn lacking<'a>(plans: &Plans, width: usize, look: &Look) -> Vec<Span<'a>> {
    let compared = plans.compared();
    let left_out = || {
        let key = compared.prediction()?.not_modelled().next()?;
        Some(format!("not modelled: {}", key.rsplit('.').next().unwrap_or(key)))
    };
    let Some(lacks) = compared.lacking().map(|(_, lacks)| lacks).or_else(left_out) else { return Vec::new() };
    let text = fit(&format!("! {}", printable(&lacks)), width);
    vec![Span::styled(text, look.theme.warning())]
}
