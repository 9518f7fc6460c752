//! What `memwall --once --json` writes.

use serde_json::{Value, json};

use super::summary::{Summary, last_step};
use crate::app::{Editor, Gravity, State, measured_rows, run_verdict};
use crate::compare::{Bands, Comparison, Residual};
use crate::reading::{DeviceSample, Reading};
use crate::report::hooked;
use crate::ui::cause_words;
use crate::units::{Bytes, Seconds, TokensPerSec};

/// What is known of the run, with every figure as a number.
pub fn of(state: &State) -> Value {
    let Summary { source, devices, pid, launcher, gone, command, plan, unpredicted } = Summary::of(state);
    let verdict = run_verdict(state);
    let prediction = plan.and_then(Editor::prediction);
    json!({
        "source": source.map(|source| json!({"kind": source.kind, "detail": source.detail})),
        "at": state.monitor.sample.as_ref().map(|sample| sample.at),
        "gpus": devices.iter().copied().map(device_json).collect::<Vec<_>>(),
        "run": pid.map(|pid| {
            let hooked = state.run.telemetry.hooked(&state.monitor, state.now);
            let modules = hooked.and_then(|run| run.modules.as_ref()).map(hooked::modules_json);
            json!({"pid": pid, "launcher": launcher, "command": command, "ended": gone, "modules": modules})
        }),
        "plan": plan.map(|plan| json!({
            "name": plan.name(),
            "path": plan.path(),
            "device_used": prediction.map(|prediction| prediction.capacity.needed.0),
            "step_s": prediction.map(|prediction| prediction.time.step.0),
            "healthy_step": plan.job().map(|job| {
                let bands = Bands::of(job);
                let within = bands.time.within(2.0);
                json!({"below": within.below, "above": within.above, "few_measured": bands.few})
            }),
        })),
        "not_predicted": unpredicted,
        "compared": state.run.comparison.as_ref().map(compared_json),
        "told": told_json(state),
        "progress": progress_json(state),
        "verdict": {
            "words": verdict.words,
            "gravity": match verdict.gravity {
                Gravity::Good => "good",
                Gravity::Quiet => "quiet",
                Gravity::Warning => "warning",
                Gravity::Danger => "danger",
            },
        },
        "cause": cause_words(state),
        "last_step_age_s": last_step(state).map(|age| age.0),
        "waits_for": state.run.telemetry.news.waits.first().map(|wait| wait.kind.words()),
    })
}

/// What was observed of each quantity that the plan predicts, beside the prediction.
fn compared_json(comparison: &Comparison) -> Value {
    let bytes = |residual| residual_json(residual, |bytes: &Bytes| json!(bytes.0));
    let tokens = |residual| residual_json(residual, |rate: &TokensPerSec| json!(rate.0));
    json!({
        "device_used": bytes(&comparison.memory),
        "reserved": bytes(&comparison.reserved),
        "allocated": bytes(&comparison.allocated),
        "dram_bytes_per_s": residual_json(&comparison.bandwidth, |rate| json!(rate.0)),
        "flops_per_s": residual_json(&comparison.compute, |rate| json!(rate.0)),
        "step_s": residual_json(&comparison.step, |time| json!(time.0)),
        "power_w": comparison.power.as_ref().map(|power| residual_json(power, |power| json!(power.0))),
        "tokens_per_s": comparison.tokens.as_ref().map(tokens),
        "mfu": comparison.mfu.as_ref().map(|mfu| residual_json(mfu, |share| json!(share.0))),
    })
}

fn residual_json<T>(residual: &Residual<T>, number: impl Fn(&T) -> Value) -> Value {
    json!({
        "predicted": number(&residual.predicted),
        "observed": reading(&residual.observed, &number),
        "off": residual.relative,
        "beyond_band": residual.observed.value().map(|_| residual.notable),
    })
}

/// What the run tells of itself: its rows as they are shown.
fn told_json(state: &State) -> Value {
    measured_rows(state).into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect()
}

/// How far the run is: what `told` says of its steps, in figures; null where nobody tells anything.
fn progress_json(state: &State) -> Value {
    let run = &state.run.telemetry;
    let Some((_, known)) = run.progress(&state.monitor, state.now) else { return Value::Null };
    let count = |count: &Reading<u64>| reading(count, |count| json!(count));
    // JSON has no number that is none: a loss that broke is said in a word.
    let of = |number: &f64| if number.is_finite() { json!(number) } else { json!(number.to_string()) };
    let number = |number: &Reading<f64>| reading(number, of);
    let seconds = |time: &Reading<Seconds>| reading(time, |time| json!(time.0));
    let rate = |rate: &Reading<TokensPerSec>| reading(rate, |rate| json!(rate.0));
    let bytes = |bytes: &Reading<Bytes>| reading(bytes, |bytes| json!(bytes.0));
    json!({
        "step": count(&known.step),
        "total_steps": count(&known.total_steps),
        "epochs_done": number(&known.epoch),
        "loss": number(&known.loss),
        "step_s": seconds(&known.step_time),
        "remaining_s": seconds(&run.remaining(&known, &state.monitor, state.now)),
        "tokens_per_s": rate(&known.tokens_per_s),
        "tokens_per_s_per_gpu": rate(&known.tokens_per_s_per_gpu),
        "peak_allocated": bytes(&known.peak_allocated),
        "peak_reserved": bytes(&known.peak_reserved),
    })
}

/// A value, or the reason why there is none.
fn reading<T>(reading: &Reading<T>, value: impl Fn(&T) -> Value) -> Value {
    match reading {
        Reading::Known { value: known, .. } => value(known),
        Reading::Absent(why) => json!({"absent": why.to_string()}),
    }
}

fn device_json(device: &DeviceSample) -> Value {
    json!({
        "index": device.index,
        "location": device.location,
        "name": reading(&device.name, |name| json!(name)),
        "uuid": reading(&device.uuid, |uuid| json!(uuid)),
        "memory_used": reading(&device.memory, |memory| json!(memory.used.0)),
        "memory_total": reading(&device.memory, |memory| json!(memory.total.0)),
        "busy": reading(&device.busy, |busy| json!(busy.0)),
        "power_w": reading(&device.power, |power| json!(power.0)),
        "temperature_c": reading(&device.temperature, |heat| json!(heat.0)),
        "dram_bytes_per_s": reading(&device.dram_bandwidth, |rate| json!(rate.0)),
        "processes": reading(&device.processes, |processes| {
            let rows = processes.iter().map(|process| {
                json!({"pid": process.pid, "memory": reading(&process.memory, |bytes| json!(bytes.0))})
            });
            rows.collect()
        }),
    })
}
