//! A recording in figures: what each device did over its time.

use serde_json::{Value, json};

use super::csv;
use super::table::{Align, Table};
use crate::observe::Samples;
use crate::printable::printable;
use crate::reading::{DeviceMetric, DeviceSample, Moment, Reading, ReadingKind, Sample, Spread};
use crate::units::{Bytes, Fraction, Seconds, grouped, three_figures};

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
    run: RecordedRun,
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

/// The run over the whole time, as its log, its hook and the system told.
#[derive(Debug, Clone, Default)]
struct RecordedRun {
    attach: Option<u32>,
    command: Option<String>,
    /// The first and the last step, and the last one of the whole run.
    steps: Option<(u64, u64)>,
    total: Option<u64>,
    loss: Option<(f64, f64)>,
    step_time: Option<Spread>,
    resident: Option<Spread>,
}

impl RecordedRun {
    fn note(&mut self, sample: &Sample) {
        let own = sample.processes.iter().find(|process| Some(process.pid) == self.attach);
        self.command = own.and_then(|process| process.command.value().cloned()).or(self.command.take());
        let noted = |into: &mut Option<Spread>, value: Option<f64>, kind: Option<ReadingKind>| {
            if let Some((value, kind)) = value.zip(kind) {
                let now = Spread::of(value, kind);
                *into = Some(into.map_or(now, |before| before.with(now)));
            }
        };
        if let Some(resident) = own.map(|process| &process.resident) {
            noted(&mut self.resident, resident.value().map(|bytes| bytes.as_f64()), resident.kind());
        }
        let Some(progress) = &sample.progress else { return };
        let is_new = progress.step.value().is_some_and(|step| self.steps.is_none_or(|(_, last)| *step != last));
        if let Some(step) = progress.step.value() {
            self.steps = Some((self.steps.map_or(*step, |(first, _)| first), *step));
        }
        self.total = progress.total_steps.value().copied().or(self.total);
        if let Some(loss) = progress.loss.value() {
            self.loss = Some((self.loss.map_or(*loss, |(first, _)| first), *loss));
        }
        let time = progress.step_time.value().map(|time| time.0).filter(|_| is_new);
        noted(&mut self.step_time, time, progress.step_time.kind());
    }

    /// `9 to 17 of 400, 647 ms each (mean, 1.65 s at most), loss 6.46 to 6.09`
    fn steps_words(&self) -> Option<String> {
        let (first, last) = self.steps?;
        let total = self.total.map_or_else(String::new, |total| format!(" of {}", grouped(total)));
        let mut words = format!("{} to {}{total}", grouped(first), grouped(last));
        if let Some(spread) = self.step_time {
            let (mean, most) = (Seconds(spread.mean()), Seconds(spread.high));
            words.push_str(&format!(", {}{mean} each (mean, {most} at most)", spread.kind.mark()));
        }
        if let Some((first, last)) = self.loss {
            words.push_str(&format!(", loss {} to {}", three_figures(first), three_figures(last)));
        }
        Some(words)
    }

    /// Its rows of the table for people.
    fn rows(&self) -> Vec<[String; 2]> {
        let pid = self.attach.map(|pid| format!("PID {pid}"));
        let command = self.command.as_ref().map(|command| printable(command));
        let run = pid.map(|pid| pid + &command.map_or_else(String::new, |command| format!("  {command}")));
        let resident = self.resident.map(|spread| {
            let [mean, most] = [spread.mean(), spread.high].map(Bytes::from_f64);
            format!("{mean} mean, {most} at most")
        });
        let rows = [("run", run), ("steps", self.steps_words()), ("resident", resident)];
        rows.into_iter().filter_map(|(name, words)| Some([name.to_owned(), words?])).collect()
    }

    fn json(&self) -> Value {
        let spread = |spread: Option<Spread>| {
            spread
                .map_or(Value::Null, |spread| json!({"least": spread.low, "mean": spread.mean(), "most": spread.high}))
        };
        let ends = |ends: Option<(Value, Value)>| ends.map_or(Value::Null, |(first, last)| json!([first, last]));
        json!({
            "pid": self.attach,
            "command": self.command,
            "steps": ends(self.steps.map(|(first, last)| (json!(first), json!(last)))),
            "total_steps": self.total,
            "loss": ends(self.loss.map(|(first, last)| (json!(first), json!(last)))),
            "step_s": spread(self.step_time),
            "resident": spread(self.resident),
        })
    }
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
        let attach = samples.recording().header().attach;
        let mut run = RecordedRun { attach, ..RecordedRun::default() };
        let mut index = 0;
        while let Some(sample) = samples.get(index, usize::MAX) {
            index += 1;
            taken += 1;
            dropped = sample.dropped;
            run.note(&sample);
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
            run,
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
        self.run.rows().into_iter().for_each(|row| facts.row(row));
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
            "run": self.run.json(),
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
