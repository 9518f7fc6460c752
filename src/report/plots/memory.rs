//! A GPU's memory over the step, and of each stage at its peak.

use super::{gib, plan_name};
use crate::predict::{Component, Phase, Prediction, StageMemory};
use crate::report::drawing::Ink;
use crate::report::plot::{BLACK, INKS, LIMIT, Plot, PlotAxis, PlotLabel, PlotLayer, PlotShape};
use crate::units::Bytes;

/// Memory over the step of the stage that needs most, by component.
#[must_use]
pub fn step(plan: &str, prediction: &Prediction) -> Plot {
    let stage = prediction.largest();
    let points = &stage.timeline;
    let mut low = vec![0.0; points.len()];
    let mut layers = Vec::new();
    for (at, component) in Component::ALL.into_iter().enumerate() {
        if points.iter().all(|point| point.parts[at] == Bytes::ZERO) {
            continue;
        }
        let area = points.iter().zip(&mut low).enumerate().map(|(x, (point, low))| {
            let (from, to) = (*low, *low + gib(point.parts[at]));
            *low = to;
            (x as f64, from, to)
        });
        layers.push(layer(component, PlotShape::Area(area.collect())));
    }
    let most = gib(stage.peak_allocated.max(prediction.capacity.bytes));
    let last = points.len().saturating_sub(1) as f64;
    let ticks = ticks(stage);
    layers.push(PlotLayer::dashed(
        LIMIT,
        vec![(0.0, gib(prediction.capacity.bytes)), (last, gib(prediction.capacity.bytes))],
    ));
    let peak = points.iter().position(|point| point.allocated == stage.peak_allocated).unwrap_or(0) as f64;
    let labels = vec![
        PlotLabel {
            at: (last / 2.0, gib(prediction.capacity.bytes)),
            words: format!("capacity {}", prediction.capacity.bytes),
            ink: LIMIT,
        },
        PlotLabel {
            at: (peak, gib(stage.peak_allocated)),
            words: format!("peak {} allocated, in {}", stage.peak_allocated, stage.peak_phase.word()),
            ink: BLACK,
        },
    ];
    let of = match prediction.stages.len() {
        1 => String::new(),
        several => format!(", stage {} of {several}", stage.stage),
    };
    Plot {
        title: format!("Memory over a step: {} on {}{of} ({})", prediction.model, prediction.gpu, plan_name(plan)),
        x: PlotAxis::linear("place in the step", 0.0, last).with_ticks(ticks),
        y: PlotAxis::linear("allocated on a GPU, GiB", 0.0, most * 1.12),
        layers,
        labels,
    }
}

/// Where phases begin, and the last point.
fn ticks(stage: &StageMemory) -> Vec<(f64, String)> {
    let points = &stage.timeline;
    let starts = [Phase::Forward, Phase::Backward, Phase::Optimizer].into_iter().filter_map(|phase| {
        let at = points.iter().position(|point| point.phase == phase)?;
        Some((at as f64, phase.word().to_owned()))
    });
    starts.collect()
}

fn layer(component: Component, shape: PlotShape) -> PlotLayer {
    PlotLayer { name: Some(component.key().replace('_', " ")), ink: ink(component), shape }
}

const fn ink(component: Component) -> Ink {
    INKS[component as usize]
}

/// Memory of each stage at its peak, by component.
#[must_use]
pub fn stages(plan: &str, prediction: &Prediction) -> Plot {
    let names = prediction.stages.iter().map(|stage| format!("stage {}", stage.stage));
    bars(
        format!("Memory of each stage: {} on {} ({})", prediction.model, prediction.gpu, plan_name(plan)),
        PlotAxis::named("pipeline stage", names),
        prediction,
        &prediction.stages.iter().collect::<Vec<_>>(),
    )
}

/// Ranks that are drawn: more are too narrow to be told apart.
const MOST_RANKS: u64 = 64;

/// Memory of each rank at its stage's peak: pipeline ranks are the slowest to change, as Megatron orders them.
#[must_use]
pub fn ranks(plan: &str, prediction: &Prediction) -> Plot {
    let shown = prediction.num_gpus.min(MOST_RANKS);
    let each = (prediction.num_gpus / prediction.stages.len().max(1) as u64).max(1);
    // Of more ranks as many evenly spread ones.
    let ranks: Vec<u64> = (0..shown).map(|at| at * prediction.num_gpus / shown).collect();
    let of =
        |rank: &u64| &prediction.stages[usize::try_from(rank / each).unwrap_or(0).min(prediction.stages.len() - 1)];
    bars(
        format!("Memory of each rank: {} on {} ({})", prediction.model, prediction.gpu, plan_name(plan)),
        PlotAxis::named("rank", ranks.iter().map(u64::to_string)),
        prediction,
        &ranks.iter().map(of).collect::<Vec<_>>(),
    )
}

fn bars(title: String, x: PlotAxis, prediction: &Prediction, stages: &[&StageMemory]) -> Plot {
    let mut low = vec![0.0; stages.len()];
    let mut layers = Vec::new();
    for component in Component::ALL {
        if stages.iter().all(|stage| stage.component(component) == Bytes::ZERO) {
            continue;
        }
        let boxes = stages.iter().zip(&mut low).enumerate().map(|(at, (stage, low))| {
            let (from, to) = (*low, *low + gib(stage.component(component)));
            *low = to;
            (at as f64 + 0.15, at as f64 + 0.85, from, to)
        });
        layers.push(layer(component, PlotShape::Boxes(boxes.collect())));
    }
    let capacity = gib(prediction.capacity.bytes);
    let end = stages.len() as f64;
    layers.push(PlotLayer::dashed(LIMIT, vec![(0.0, capacity), (end, capacity)]));
    let words = format!("capacity {}", prediction.capacity.bytes);
    let most = low.iter().copied().fold(capacity, f64::max);
    Plot {
        title,
        x,
        y: PlotAxis::linear("device-used on a GPU, GiB", 0.0, most * 1.12),
        layers,
        labels: vec![PlotLabel { at: (end / 2.0, capacity), words, ink: LIMIT }],
    }
}
