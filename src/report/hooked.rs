//! What a run with the hook came to, for a few lines at its end.

use std::fmt::Write as _;

use crate::predict::{Prediction, StageMemory};
use crate::printable::printable;
use crate::reading::{HookMemory, HookStep, HookedRun, Reading};
use crate::units::{Bytes, three_figures};

/// The run in a few lines, against the plan where there is one.
#[must_use]
pub fn summary(runs: &[HookedRun], prediction: Option<&Prediction>) -> String {
    let with_steps = runs.iter().filter_map(|run| Some((run, run.step.as_ref()?)));
    let most = with_steps.max_by_key(|(run, step)| (step.peak_allocated.value().copied(), std::cmp::Reverse(run.pid)));
    let Some((run, step)) = most else {
        return "memwall: no optimizer step was observed (no PyTorch, or a Python that ignores PYTHONPATH)\n"
            .to_owned();
    };
    let mut text = String::from("memwall: ");
    let _ = write!(text, "{} steps", step.step);
    if let Reading::Known { value, .. } = &step.step_time {
        let _ = write!(text, ", {value} each at the end");
    }
    if let Some(about) = &run.about {
        let _ = write!(
            text,
            "; {} parameters{}, {} on {}",
            about.params,
            if about.params_are_all { "" } else { " in the optimizer" },
            printable(&about.optimizer),
            printable(about.device_name.as_deref().unwrap_or(&about.device))
        );
        if let (Some(rank), Some(world)) = (about.rank, about.world.filter(|world| *world > 1)) {
            let _ = write!(text, ", rank {rank} of {world} held most");
        }
    }
    text.push('\n');
    memory(&mut text, step, prediction.map(Prediction::largest));
    text
}

fn memory(text: &mut String, step: &HookStep, plan: Option<&StageMemory>) {
    let figures = [
        ("allocated", &step.peak_allocated, plan.map(|plan| plan.peak_allocated)),
        ("reserved", &step.peak_reserved, plan.map(|plan| plan.peak_reserved)),
    ];
    if step.memory == HookMemory::Resident {
        if let Reading::Known { value, .. } = &step.peak_allocated {
            let note = if plan.is_some() { "; a plan predicts a GPU's memory" } else { "" };
            let _ = writeln!(text, "memwall: {value} resident at most (no GPU was used){note}");
        }
        return;
    }
    for (name, observed, predicted) in figures {
        let Reading::Known { value, .. } = observed else { continue };
        let _ = write!(text, "memwall: {name} {value} at most");
        if let Some(predicted) = predicted {
            let _ = write!(text, ", predicted {predicted}: {} ({})", *value - predicted, relative(*value, predicted));
        }
        text.push('\n');
    }
    if step.retries > 0 {
        let _ = writeln!(text, "memwall: the allocator freed its cache and tried again {} times", step.retries);
    }
}

/// How far observed is from predicted.
fn relative(observed: Bytes, predicted: Bytes) -> String {
    match predicted.as_f64() {
        0.0 => "–".to_owned(),
        predicted => {
            let percent = (observed.as_f64() / predicted - 1.0) * 100.0;
            format!("{}{} %", if percent < 0.0 { "" } else { "+" }, three_figures(percent))
        }
    }
}
