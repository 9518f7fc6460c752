//! Everything that can be alerted about, as it stands now against its threshold.

use super::AlertState;
use super::rules::{Alert, AlertRules};
use crate::app::run::loss::broken as broken_loss;
use crate::app::state::{RunState, State};
use crate::compare::Forecast;
use crate::reading::{Absence, Activity, DeviceSample, Reading};
use crate::units::{Seconds, three_figures};

/// How a figure stands against its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// Beyond it.
    Over,
    /// Well back from it.
    Back,
    /// In between: whatever was, stays.
    Near,
}

/// One thing that can be alerted about.
#[derive(Debug, Clone)]
pub struct Condition {
    pub alert: Alert,
    pub gpu: Option<String>,
    pub state: Crossing,
    pub text: String,
    pub value: String,
    pub threshold: String,
}

/// Of a share of memory, in points; of a temperature, in degrees; of other figures, as a share of the threshold:
/// so far it must go back before it may cross again.
const BACK_POINTS: f64 = 2.0;
const BACK_DEGREES: f64 = 5.0;
const BACK_SHARE: f64 = 0.25;

/// Whether `value` is at or over `threshold`, or `by` below it.
fn upwards(value: f64, threshold: f64, by: f64) -> Crossing {
    if value >= threshold {
        Crossing::Over
    } else if value < threshold - by {
        Crossing::Back
    } else {
        Crossing::Near
    }
}

/// What is, or is not.
const fn whether(is: bool) -> Crossing {
    if is { Crossing::Over } else { Crossing::Back }
}

/// Everything that is known now; what is not known neither raises an alert nor ends one.
pub fn of(state: &State) -> Vec<Condition> {
    let rules = &state.run.alerts.rules;
    let mut conditions = Vec::new();
    for (_, device) in state.monitor.run_devices() {
        let gpu = state.monitor.gpu_name(device);
        conditions.extend(
            [memory(&gpu, device, rules), temperature(&gpu, device, rules), trouble(&gpu, device, &state.run.alerts)]
                .into_iter()
                .flatten(),
        );
    }
    conditions.extend(
        [full_in(&state.run), slow_step(state), stalled(state), loss(state), ended(state)].into_iter().flatten(),
    );
    conditions.extend(out_of_memory(&state.run));
    conditions
}

fn condition(alert: Alert, state: Crossing, text: String) -> Condition {
    Condition { alert, gpu: None, state, text, value: String::new(), threshold: String::new() }
}

/// A condition with a figure.
fn figure(alert: Alert, state: Crossing, text: String, value: f64, threshold: f64) -> Condition {
    Condition { value: three_figures(value), threshold: three_figures(threshold), ..condition(alert, state, text) }
}

fn memory(gpu: &str, device: &DeviceSample, rules: &AlertRules) -> Option<Condition> {
    let threshold = rules.threshold(Alert::Memory)?;
    let memory = device.memory.value()?;
    let share = memory.used.share_of(memory.total)?.percent();
    let text = format!("GPU {gpu}: memory {share:.0} % full");
    let condition = figure(Alert::Memory, upwards(share, threshold, BACK_POINTS), text, share, threshold);
    Some(Condition { gpu: Some(gpu.to_owned()), ..condition })
}

fn temperature(gpu: &str, device: &DeviceSample, rules: &AlertRules) -> Option<Condition> {
    let threshold = rules.threshold(Alert::Temperature)?;
    let degrees = device.temperature.value()?.0;
    let text = format!("GPU {gpu}: {degrees:.0} °C");
    let condition = figure(Alert::Temperature, upwards(degrees, threshold, BACK_DEGREES), text, degrees, threshold);
    Some(Condition { gpu: Some(gpu.to_owned()), ..condition })
}

fn trouble(gpu: &str, device: &DeviceSample, alerts: &AlertState) -> Option<Condition> {
    alerts.rules.threshold(Alert::Gpu)?;
    let health = &device.health;
    let is = |flag: &Reading<bool>, what: &str| (flag.value() == Some(&true)).then(|| what.to_owned());
    let xid = || {
        let xids = health.xids.value().filter(|xids| xids.count > 0)?;
        Some(xids.last.and_then(|last| last.code).map_or("a critical error".to_owned(), |code| format!("Xid {code}")))
    };
    let recovered = || match alerts.recovered(gpu, device) {
        0 => None,
        1 => Some("NVLink recovered from an error".to_owned()),
        more => Some(format!("NVLink recovered from {more} errors")),
    };
    // The gravest alone.
    let what = (device.memory.absence() == Some(&Absence::Gone))
        .then(|| "gone".to_owned())
        .or_else(xid)
        .or_else(|| is(&health.sram_exceeded, "SRAM errors beyond the threshold"))
        .or_else(|| is(&health.repair_failed, "no spare memory row left"))
        .or_else(recovered)
        .or_else(|| device.narrow_link());
    let text = format!("GPU {gpu}: {}", what.as_deref().unwrap_or_default());
    let condition = condition(Alert::Gpu, whether(what.is_some()), text);
    Some(Condition { gpu: Some(gpu.to_owned()), ..condition })
}

fn full_in(run: &RunState) -> Option<Condition> {
    let threshold = run.alerts.rules.threshold(Alert::FullIn)?;
    match run.outlook.memory {
        Forecast::TooShort => None,
        Forecast::Flat => Some(condition(Alert::FullIn, Crossing::Back, "memory no longer grows".to_owned())),
        Forecast::Growing(growth) => {
            let minutes = growth.left.0 / 60.0;
            let crossing = upwards(-minutes, -threshold, BACK_SHARE * threshold);
            Some(figure(Alert::FullIn, crossing, growth.words(), minutes, threshold))
        }
    }
}

fn slow_step(state: &State) -> Option<Condition> {
    let threshold = state.run.alerts.rules.threshold(Alert::SlowStep)?;
    let usual = state.run.telemetry.phases().step()?;
    let (_, progress) = state.run.telemetry.progress(&state.monitor, state.now)?;
    let told = *progress.step_time.value()?;
    let times = told.0 / usual.0;
    let late = state.run.telemetry.newest_late(&state.monitor, state.now);
    let cause = state.run.telemetry.step_cause(&state.monitor, state.now);
    let activities = [cause.map(|cause| cause.activity), late.map(|(_, activity)| activity)];
    if activities.into_iter().flatten().any(Activity::is_intended_pause) {
        // The time that is told is of steps with an evaluation or a checkpoint between them: it tells of neither.
        return None;
    }
    // The hook tells the mean of some steps: of the late one it knows more.
    let (verb, took) = match late.filter(|(late, _)| late.took > told) {
        Some((late, _)) => ("took", late.took),
        None => ("takes", told),
    };
    let many = three_figures(took.0 / usual.0);
    let text = format!("a step {verb} {many} times the usual {usual}{}", place(state));
    let back = BACK_SHARE * (threshold - 1.0).max(0.0);
    Some(figure(Alert::SlowStep, upwards(times, threshold, back), text, times, threshold))
}

fn stalled(state: &State) -> Option<Condition> {
    let threshold = state.run.alerts.rules.threshold(Alert::Stalled)?;
    let pause = state.run.telemetry.pause(&state.monitor, state.now);
    let lasting = pause.as_ref().and_then(|pause| pause.lasting);
    let minutes = lasting.or_else(|| state.run.telemetry.phases().quiet_for(state.now))?.0 / 60.0;
    let crossing = if lasting.is_some() { upwards(minutes, threshold, threshold) } else { Crossing::Back };
    let text = format!("no step for {}{}", Seconds((minutes * 60.0).round()).roughly(), place(state));
    Some(figure(Alert::Stalled, crossing, text, minutes, threshold))
}

/// Where in the code that is, as the text goes on: `: DataLoader.__next__, train.py:88`.
fn place(state: &State) -> String {
    let cause = state.run.telemetry.step_cause(&state.monitor, state.now);
    cause.map_or_else(String::new, |cause| format!(": {}", cause.words))
}

fn loss(state: &State) -> Option<Condition> {
    state.run.alerts.rules.threshold(Alert::Loss)?;
    let (_, progress) = state.run.telemetry.progress(&state.monitor, state.now)?;
    let loss = progress.loss.value()?;
    let words = broken_loss(state).map_or_else(|| loss.to_string(), |broken| broken.words());
    Some(condition(Alert::Loss, whether(!loss.is_finite()), format!("the loss is {words}")))
}

fn ended(state: &State) -> Option<Condition> {
    state.run.alerts.rules.threshold(Alert::Ended)?;
    let ended = state.run.telemetry.ended(&state.monitor, state.now);
    // A log alone names no process.
    let attached = state.monitor.attached.as_ref();
    let whose = attached.map_or_else(|| "the run".to_owned(), |attached| format!("process {}", attached.pid));
    let text = format!("{whose} has {}", ended.as_deref().unwrap_or("ended"));
    Some(condition(Alert::Ended, whether(ended.is_some()), text))
}

fn out_of_memory(run: &RunState) -> Option<Condition> {
    run.alerts.rules.threshold(Alert::OutOfMemory)?;
    let text = run.ran_out.as_ref().map(|known| known.explained.headline.clone());
    Some(condition(Alert::OutOfMemory, whether(text.is_some()), text.unwrap_or_default()))
}
