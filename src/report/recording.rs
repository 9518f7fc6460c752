//! A recording in figures: what each device did over its time.

use serde_json::{Value, json};

use super::csv;
use super::table::{Align, Table};
use crate::observe::Samples;
use crate::reading::{DeviceMetric, DeviceSample, Moment, Reading, ReadingKind, Spread};
use crate::units::{Bytes, Fraction, Seconds};

/// What a recording holds.
#[derive(Debug, Clone)]
pub struct RecordingSummary {
    file: String,
    parts: usize,
    source: String,
    plan: Option<String>,
    span: (Moment, Moment),
    samples: u64,
    dropped: u64,
    devices: Vec<Device>,
    /// Where the recording breaks off, and why.
    pub damage: Option<String>,
}

/// One device over the whole time.
#[derive(Debug, Clone)]
struct Device {
    index: u32,
    name: Reading<String>,
    total: Reading<Bytes>,
    figures: [Option<Spread>; DeviceMetric::SUMMARISED.len()],
}

/// The keys of [`DeviceMetric::SUMMARISED`] in the report, which are those of a sample.
const KEYS: [&str; DeviceMetric::SUMMARISED.len()] = ["memory_used", "dram_bandwidth", "tensor_activity", "power"];

impl Device {
    fn new(sample: &DeviceSample) -> Self {
        Self { index: sample.index, name: Reading::not_read(), total: Reading::not_read(), figures: Default::default() }
    }

    fn note(&mut self, sample: &DeviceSample) {
        if sample.name.value().is_some() || self.name.value().is_none() {
            self.name = sample.name.clone();
        }
        if sample.memory.value().is_some() || self.total.value().is_none() {
            self.total = sample.memory.map(|memory| memory.total);
        }
        for (into, figure) in self.figures.iter_mut().zip(DeviceMetric::SUMMARISED) {
            let now = figure.of(sample);
            if let (Some(value), Some(kind)) = (now.value(), now.kind()) {
                let now = Spread::of(*value, kind);
                *into = Some(into.map_or(now, |before| before.with(now)));
            }
        }
    }

    /// Its row of the table for people.
    fn cells(&self) -> [String; 10] {
        let dash = || "–".to_owned();
        let both = |spread: Option<Spread>, show: fn(f64) -> String| {
            let marked = |value, kind: ReadingKind| format!("{}{}", kind.mark(), show(value));
            spread.map_or_else(
                || [dash(), dash()],
                |spread| [spread.mean(), spread.high].map(|value| marked(value, spread.kind)),
            )
        };
        let [memory, bandwidth, tensor, power] = self.figures;
        let [memory_mean, memory_most] = both(memory, |value| Bytes::from_f64(value).in_gib());
        let [bandwidth_mean, bandwidth_most] = both(bandwidth, |value| format!("{:.2}", value / 1e12));
        let [tensor_mean, tensor_most] = both(tensor, |value| Fraction(value).to_string());
        let [power_mean, power_most] = both(power, |value| format!("{value:.0}"));
        [
            self.index.to_string(),
            memory_mean,
            memory_most,
            self.total.value().map_or_else(dash, |total| total.in_gib()),
            bandwidth_mean,
            bandwidth_most,
            tensor_mean,
            tensor_most,
            power_mean,
            power_most,
        ]
    }

    fn json(&self) -> Value {
        let mut device = json!({
            "index": self.index,
            "name": self.name.value(),
            "memory_total": self.total.value(),
        });
        for (key, figure) in KEYS.into_iter().zip(self.figures) {
            device[key] = figure.map_or(
                Value::Null,
                |spread| json!({"least": spread.low, "mean": spread.mean(), "most": spread.high, "kind": spread.kind}),
            );
        }
        device
    }
}

impl RecordingSummary {
    /// Reads the recording from its beginning to its end, or to where it breaks off.
    #[must_use]
    pub fn of(samples: &mut Samples) -> Self {
        let (mut devices, mut taken, mut dropped) = (Vec::<Device>::new(), 0, 0);
        let mut index = 0;
        while let Some(sample) = samples.get(index, usize::MAX) {
            index += 1;
            taken += 1;
            dropped = sample.dropped;
            for (position, device) in sample.devices.iter().enumerate() {
                if position == devices.len() {
                    devices.push(Device::new(device));
                }
                devices[position].note(device);
            }
        }
        let recording = samples.recording();
        let header = recording.header();
        Self {
            file: recording.parts().first().map(|path| path.display().to_string()).unwrap_or_default(),
            parts: recording.parts().len(),
            source: format!("{}: {}", header.source.kind.word(), header.source.detail),
            plan: header.plan.as_ref().map(|plan| plan.name.clone()),
            span: (recording.time(0), recording.time(usize::MAX)),
            samples: taken,
            dropped,
            devices,
            damage: recording.damage().map(ToString::to_string),
        }
    }

    fn length(&self) -> Seconds {
        self.span.1.since(self.span.0)
    }

    /// How many GPUs of which model: `8 x NVIDIA H100 SXM 80GB`.
    fn models(&self) -> String {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for device in &self.devices {
            let name = device.name.value().cloned().unwrap_or_else(|| "unknown".to_owned());
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        let counted: Vec<String> = counts.iter().map(|(name, count)| format!("{count} x {name}")).collect();
        counted.join(", ")
    }

    /// For people.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let mut facts = Table::new([("recording", Align::Left), ("", Align::Left)]);
        let parts = if self.parts > 1 { format!(" and {} parts more", self.parts - 1) } else { String::new() };
        facts.row(["file".to_owned(), format!("{}{parts}", self.file)]);
        facts.row(["source".to_owned(), self.source.clone()]);
        facts.row(["plan".to_owned(), self.plan.clone().unwrap_or_else(|| "none".to_owned())]);
        facts.row(["from".to_owned(), self.span.0.to_string()]);
        facts.row(["to".to_owned(), format!("{}, {} later", self.span.1, self.length())]);
        facts.row(["samples".to_owned(), format!("{}, {} lost", self.samples, self.dropped)]);
        if self.devices.is_empty() {
            facts.row(["GPUs".to_owned(), "none".to_owned()]);
            return facts.render("", width);
        }
        facts.row(["GPUs".to_owned(), self.models()]);
        let mut table = Table::new([
            ("GPU", Align::Right),
            ("GiB mean", Align::Right),
            ("most", Align::Right),
            ("of", Align::Right),
            ("TB/s mean", Align::Right),
            ("most", Align::Right),
            ("tensor mean", Align::Right),
            ("most", Align::Right),
            ("W mean", Align::Right),
            ("most", Align::Right),
        ]);
        self.devices.iter().for_each(|device| table.row(device.cells()));
        format!("{}\n{}", facts.render("", width), table.render("", width))
    }

    /// For scripts; bytes, bytes a second, shares and watts.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "file": self.file,
            "parts": self.parts,
            "source": self.source,
            "plan": self.plan,
            "from": self.span.0,
            "to": self.span.1,
            "duration_s": self.length(),
            "samples": self.samples,
            "dropped": self.dropped,
            "damage": self.damage,
            "devices": self.devices.iter().map(Device::json).collect::<Vec<_>>(),
        })
    }

    /// A row a device.
    ///
    /// # Errors
    /// Never for what is here.
    pub fn csv(&self) -> Result<String, ::csv::Error> {
        csv::table(self.devices.iter().map(|device| {
            let mut cells = Vec::new();
            csv::flatten("", &device.json(), &mut cells);
            cells
        }))
    }
}
