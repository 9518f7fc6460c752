//! What was measured or recorded against what was predicted.

use super::{gib, plan_name};
use crate::observe::Samples;
use crate::predict::StageMemory;
use crate::report::plot::{BLACK, GREY, INKS, LIMIT, Plot, PlotAxis, PlotLabel, PlotLayer, WHITE};
use crate::report::validate::ValidationOutcome;
use crate::units::{Bytes, Seconds};

/// Measured against predicted memory of all cases, and their step times where there are some; equal ones lie on the line.
#[must_use]
pub fn validation(outcome: &ValidationOutcome) -> Vec<Plot> {
    let bytes = Plot::of_pairs(outcome, "Memory", "GiB", |family| family.contains("_bytes"), crate::units::GIB as f64);
    let time = Plot::of_pairs(outcome, "Step time", "s", |family| family == "step_time_s", 1.0);
    [bytes, time].into_iter().flatten().collect()
}

impl Plot {
    fn of_pairs(
        outcome: &ValidationOutcome,
        what: &str,
        unit: &str,
        is: impl Fn(&str) -> bool,
        scale: f64,
    ) -> Option<Self> {
        let mut groups: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for row in outcome.rows.iter().filter(|row| is(row.family())) {
            let value =
                |value: &serde_json::Value| value.as_f64().filter(|value| *value > 0.0).map(|value| value / scale);
            let Some(pair) = value(&row.measured).zip(row.predicted.as_ref().and_then(value)) else { continue };
            let name = row.family().replace('_', " ");
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, pairs)) => pairs.push(pair),
                None => groups.push((name, vec![pair])),
            }
        }
        let all = || groups.iter().flat_map(|(_, pairs)| pairs.iter().flat_map(|(one, other)| [*one, *other]));
        let (low, high) = all().fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high <= 0.0 {
            return None;
        }
        let equal = |factor: f64| vec![(low, low * factor), (high, high * factor)];
        let mut layers = vec![
            PlotLayer::dashed(GREY, equal(1.0)),
            PlotLayer::dashed(GREY, equal(1.1)),
            PlotLayer::dashed(GREY, equal(0.9)),
        ];
        let dots = groups.iter().enumerate().map(|(at, (name, pairs))| {
            PlotLayer::dots(Some(name.clone()), INKS[at % INKS.len()], WHITE, pairs.clone())
        });
        layers.extend(dots);
        Some(Self {
            title: format!(
                "{what}: predicted against measured, {} values",
                groups.iter().map(|(_, pairs)| pairs.len()).sum::<usize>()
            ),
            x: PlotAxis::over(&format!("measured, {unit}"), all()),
            y: PlotAxis::over(&format!("predicted, {unit}"), all()),
            layers,
            labels: vec![PlotLabel { at: (high, high), words: "equal; dashed beside it 10 %".to_owned(), ink: BLACK }],
        })
    }
}

/// Points of a recording that are drawn of each device.
const MOST_POINTS: usize = 400;

/// Devices whose lines can be told apart.
const MOST_DEVICES: usize = INKS.len();

/// Memory of each device over a recording, against what a plan predicts.
#[must_use]
pub fn recording(file: &str, samples: &mut Samples, predicted: Option<&StageMemory>) -> Plot {
    let count = samples.recording().len();
    let step = count.div_ceil(MOST_POINTS).max(1);
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let (mut start, mut devices) = (None, 0);
    for index in (0..count).step_by(step) {
        let Some(sample) = samples.get(index, usize::MAX) else { break };
        let from = *start.get_or_insert(sample.at);
        let Seconds(at) = sample.at.since(from);
        devices = devices.max(sample.devices.len());
        for (place, device) in sample.devices.iter().enumerate().take(MOST_DEVICES) {
            if place == lines.len() {
                lines.push((format!("GPU {}", device.index), Vec::new()));
            }
            if let Some(memory) = device.memory.value() {
                lines[place].1.push((at, gib(memory.used)));
            }
        }
    }
    let end = lines.iter().flat_map(|(_, points)| points.last()).map(|(at, _)| *at).fold(0.0, f64::max);
    let observed = lines.iter().flat_map(|(_, points)| points.iter().map(|(_, used)| *used)).collect::<Vec<_>>();
    let mut layers: Vec<PlotLayer> = lines
        .into_iter()
        .enumerate()
        .map(|(at, (name, points))| PlotLayer::line(name, INKS[at % INKS.len()], points))
        .collect();
    let mut labels = Vec::new();
    let wanted: Option<Bytes> = predicted.map(|stage| stage.device_used);
    if let Some(bytes) = wanted {
        layers.push(PlotLayer::dashed(LIMIT, vec![(0.0, gib(bytes)), (end, gib(bytes))]));
        labels.push(PlotLabel { at: (end / 2.0, gib(bytes)), words: format!("predicted {bytes}"), ink: LIMIT });
    }
    let each = match devices.checked_sub(MOST_DEVICES) {
        None | Some(0) => "each GPU".to_owned(),
        Some(_) => format!("the first {MOST_DEVICES} of {devices} GPUs"),
    };
    Plot {
        title: format!("Memory of {each} over the recording {}", plan_name(file)),
        x: PlotAxis::linear("time, s", 0.0, end),
        y: PlotAxis::over("memory in use, GiB", observed.into_iter().chain(wanted.map(gib))),
        layers,
        labels,
    }
}
