//! How the run goes besides its plan: where its memory is going, what it is about, what wants a hand, what
//! predictions are multiplied by, what was lost on the way.

use super::Page;
use crate::app::{Alert, RaisedAlert, RunState, State};
use crate::compare::{Forecast, RunPhase};
use crate::printable::printable;
use crate::ui::Look;
use crate::units::{BytesPerSec, Seconds};

/// Adds a line for each.
pub fn add(state: &State, look: &Look, page: &mut Page<'_>) {
    // Where the memory of one that has ended was going, it went.
    if !state.run.last_attempt.is_shown() {
        memory(&state.run, look, page);
    }
    if let Some(text) = steps(state) {
        page.note("steps", &text, 2, look);
    }
    if let Some(cause) = state.run.telemetry.step_cause(&state.monitor, state.now) {
        page.styled_note(
            if cause.stalls { "stalled" } else { "late steps" },
            &printable(&cause.words),
            3,
            look.theme.warning(),
            look,
        );
    } else if let Some(share) = state.run.telemetry.step_share(&state.monitor) {
        page.note("stack", &printable(&share), 2, look);
    }
    // When memory will be full is said already.
    for raised in state.run.alerts.raised.iter().filter(|raised| raised.alert != Alert::FullIn) {
        page.styled_note("alert", &alert_text(raised), 2, look.theme.danger(), look);
    }
    for raised in &state.run.alerts.past {
        page.note("was alerted", &alert_text(raised), 1, look);
    }
    if let Some(kept) = state.calibrations_in_use() {
        let text = format!("{} on {}, kept {}; C drops it", kept.factors.words(), printable(&kept.gpu), kept.at);
        page.styled_note("calibrated", &text, 2, look.theme.warning(), look);
    }
    if let Some(text) = lost(&state.run) {
        page.styled_note("hook", &text, 2, look.theme.warning(), look);
    }
}

/// That memory ran out, and which key tells of it.
pub fn ran_out(state: &State, look: &Look, page: &mut Page<'_>) {
    if let Some(known) = &state.run.ran_out {
        let said = format!("{}: O explains it", printable(&known.explained.headline));
        page.styled_note("memory", &look.keys(&said), 2, look.theme.danger(), look);
    }
}

fn alert_text(raised: &RaisedAlert) -> String {
    let outlived = if raised.outlived { "; it was started again" } else { "" };
    format!("{}, first seen {}{outlived}", printable(&raised.text), raised.at)
}

fn memory(run: &RunState, look: &Look, page: &mut Page<'_>) {
    let outlook = &run.outlook;
    let left = outlook.headroom.map_or_else(String::new, |left| format!("; {left} were left at the peak"));
    match outlook.memory {
        Forecast::TooShort if outlook.headroom.is_none() => {}
        Forecast::TooShort => {
            page.note("memory", &format!("observed too briefly to say whether it grows{left}"), 2, look)
        }
        Forecast::Flat => page.note("memory", &format!("does not grow{left}"), 2, look),
        Forecast::Growing(growth) => {
            let what = outlook.grows.map_or_else(String::new, |grows| format!("; {}", grows.words()));
            let text = format!("grows by {}: {}{what}", speed(growth.rate), growth.words());
            page.styled_note("memory", &text, 3, look.theme.warning(), look);
        }
    }
}

/// `840 MiB a minute`, `1.20 GiB an hour`.
fn speed(rate: BytesPerSec) -> String {
    let over = |time: Seconds| crate::units::Bytes::from_f64(rate.0 * time.0);
    let minute = over(Seconds(60.0));
    if minute.gib() < 0.1 { format!("{} an hour", over(Seconds(3600.0))) } else { format!("{minute} a minute") }
}

/// What the run is about, where that is not plain training.
fn steps(state: &State) -> Option<String> {
    if let Some(ended) = state.run.telemetry.ended(&state.monitor, state.now) {
        return Some(ended);
    }
    let phases = state.run.telemetry.phases();
    let quiet = || phases.quiet_for(state.now).map_or_else(String::new, Seconds::roughly);
    match phases.phase(state.now) {
        RunPhase::Untold | RunPhase::Steady => None,
        RunPhase::WarmingUp => {
            let pause = state.run.telemetry.pause(&state.monitor, state.now).and_then(|pause| pause.lasting);
            let none = pause.map_or_else(String::new, |lasting| format!("none for {}; so far ", lasting.roughly()));
            Some(format!("{none}the first ones, which are compared with nothing"))
        }
        RunPhase::Between if state.run.telemetry.is_logged(&state.monitor) => Some(format!(
            "none for {}: ended, evaluating, saving, waiting or hung, which a log alone does not tell; the figures are \
             its last steps'",
            quiet()
        )),
        RunPhase::Between => Some(format!(
            "none for {}{}; not compared",
            quiet(),
            match state.run.telemetry.step_cause(&state.monitor, state.now) {
                Some(_) => "",
                None if state.run.telemetry.uses_no_gpu(&state.monitor, state.now) => {
                    ": an evaluation, a checkpoint, a wait, or it hangs"
                }
                None => ": an evaluation where the GPU is busy, else a checkpoint, a wait, or it hangs",
            }
        )),
    }
}

/// Messages of hooks that were not taken.
fn lost(run: &RunState) -> Option<String> {
    let losses = run.telemetry.news.losses;
    let deaf = run.telemetry.news.deaf.as_ref().map(|why| format!("nobody listens: {}", printable(why)));
    let counted = (losses.garbage + losses.flood > 0).then(|| {
        format!(
            "{} messages were damaged or none of the hook's, {} came too fast and were dropped",
            losses.garbage, losses.flood
        )
    });
    counted.or(deaf)
}
