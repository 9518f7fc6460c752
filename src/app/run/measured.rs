//! What the attached run tells of itself, whether or not its plan makes a prediction: by its hook, else by its log.

use crate::app::state::State;
use crate::reading::{HookAbout, HookMemory, HookModules, HookedRun, InputShape, Reading};
use crate::units::{grouped, parameter_count, three_figures};

/// A name and what is told.
pub type MeasuredRow = (&'static str, String);

/// Everything that is told of the attached run, or of one whose log is followed alone; nothing where nobody tells anything.
#[must_use]
pub fn rows(state: &State) -> Vec<MeasuredRow> {
    if state.monitor.attached.is_none() && !state.run.telemetry.is_logged(&state.monitor) {
        return Vec::new();
    }
    let hooked = state.run.telemetry.hooked(&state.monitor, state.now);
    let about = hooked.and_then(|run| run.about.as_ref());
    let rows = [
        ("model", about.map(|about| model(about, hooked.and_then(|run| run.modules.as_ref())))),
        ("batch", hooked.and_then(batch)),
        ("steps", steps(state)),
        ("static", about.and_then(HookAbout::static_words)),
        ("held", hooked.and_then(held).or_else(|| resident(state))),
    ];
    rows.into_iter().filter_map(|(name, text)| Some((name, text?))).collect()
}

/// `Lit, 620 576 parameters in fp32 (GRU 388 800, Linear 154 976), AdamW on cpu`
fn model(about: &HookAbout, modules: Option<&HookModules>) -> String {
    let class = about.model.as_deref().map_or_else(String::new, |class| format!("{class}, "));
    let whose = if about.params_are_all { "parameters" } else { "parameters in the optimizer" };
    let stored = about.stored().map_or_else(String::new, |stored| format!(" in {stored}"));
    let layers = modules.and_then(HookModules::classes).map_or_else(String::new, |layers| format!(" ({layers})"));
    let trained = if about.trainable < about.params {
        format!(", {} of them trained", parameter_count(about.trainable))
    } else {
        String::new()
    };
    let count = parameter_count(about.params);
    format!("{class}{count} {whose}{stored}{layers}{trained}, {} on {}", about.optimizer, about.device)
}

/// `10 samples of 48 tokens a pass, 2 passes a step`
fn batch(run: &HookedRun) -> Option<String> {
    let tokens = run.step.as_ref().and_then(|step| step.tokens);
    let modules = run.modules.as_ref()?;
    let a_step = |passes: Option<u64>| passes.map_or_else(String::new, |passes| format!(", {passes} a step"));
    if let Some(shape) = InputShape::of_tokens(modules, tokens) {
        let passes = a_step(tokens.and_then(|tokens| shape.passes(tokens)).filter(|passes| *passes > 0));
        return Some(format!("passes of {} samples of {} tokens{passes}", grouped(shape.samples), shape.length));
    }
    let images = InputShape::of_images(modules)?;
    let passes = a_step(modules.passes);
    Some(format!("passes of {} images of {} pixels a side{passes}", grouped(images.samples), images.length))
}

/// `step 198 of 400, 21.3 ms each, loss 0.06, ETA 4 s`; where nobody counts steps, `1.25 epochs done` in their place.
fn steps(state: &State) -> Option<String> {
    let (_, progress) = state.run.telemetry.progress(&state.monitor, state.now)?;
    let progress = state.run.telemetry.to_its_end(progress, &state.monitor, state.now);
    let done = progress.step.value().map(|step| {
        let total = progress.total_steps.value().filter(|total| *total >= step);
        let total = total.map_or_else(String::new, |total| format!(" of {}", grouped(*total)));
        format!("step {}{total}", grouped(*step))
    });
    let epochs = || {
        progress.epoch.value().map(|done| match done.fract() {
            // Which of its batches is the last nobody says.
            0.0 => format!("epoch {:.0} under way", done + 1.0),
            _ => format!("{done:.2} epochs done"),
        })
    };
    let each = progress.step_time.value().map(|told| match state.run.telemetry.phases().apart_from(*told) {
        Some(usual) => format!("{usual} each, {told} now"),
        None => format!("{told} each"),
    });
    let loss = progress.loss.value().map(|loss| format!("loss {}", loss_words(*loss)));
    let left = state.run.telemetry.remaining(&progress, &state.monitor, state.now);
    let left = left.value().map(|left| format!("ETA {}", left.roughly()));
    let parts: Vec<String> = [done.or_else(epochs), each, loss, left].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A loss in three figures; one that is no number is said as that.
#[must_use]
pub fn loss_words(loss: f64) -> String {
    match loss {
        loss if loss.is_nan() => "NaN".to_owned(),
        loss if loss.is_infinite() => if loss > 0.0 { "inf" } else { "-inf" }.to_owned(),
        loss => three_figures(loss),
    }
}

/// What the system tells of a process that uses no GPU, where the process itself tells nothing: `0.83 GiB resident now`.
fn resident(state: &State) -> Option<String> {
    let on_cpu = state.run.telemetry.uses_no_gpu(&state.monitor, state.now);
    let attached = state.monitor.attached.as_ref().filter(|_| on_cpu)?;
    let host = state.monitor.host(attached.pid).filter(|host| attached.is(host) && !host.starts_run())?;
    let is_over = state.run.telemetry.ended(&state.monitor, state.now).is_some();
    Some(format!("{} resident now", host.resident.value().filter(|_| !is_over)?))
}

fn held(run: &HookedRun) -> Option<String> {
    let step = run.step.as_ref()?;
    let Reading::Known { value: peak, .. } = &step.peak_allocated else { return None };
    Some(match step.memory {
        HookMemory::Resident => format!("{peak} resident at most"),
        HookMemory::Allocator => {
            let reserved = step.peak_reserved.value().map_or_else(String::new, |bytes| format!(", {bytes} reserved"));
            format!("{peak} allocated at most{reserved}")
        }
    })
}
