//! The lines of a recording.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::plan::{Document, Fault, HfConfig, LoadedPlan};
use crate::reading::{Moment, Reading, Sample, SourceInfo, taken_at};

/// The version of the schema that is written here. A reader knows its own and those before it.
pub const VERSION: u32 = 1;

/// What each figure of a sample is counted in, by the name of its field.
const UNITS: &[(&str, &str)] = &[
    ("at", "ms since the Unix epoch; missing: the sample's"),
    ("any reading that is missing", "not read"),
    ("memory*, resident, swapped, total, used, free", "B"),
    ("dram_*, *_received, *_sent, read, written", "B/s"),
    ("busy, *_busy, *_activity, occupancy, tensor_*, fp*, fan", "share, 1 is all of it"),
    ("cpu", "1 is one core"),
    ("cpu_wait", "share of the time, 1 is all of it"),
    ("power, power_limit", "W"),
    ("energy", "J"),
    ("temperature, *_temperature", "°C"),
    ("*_clock, *_clock_max", "MHz"),
    ("started", "s since the Unix epoch"),
    ("progress", "s, 1/s; allocated and reserved in B"),
];

/// The first line of a recording, and of every part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the schema: [`VERSION`] where this program wrote it.
    pub memwall_recording: u32,
    /// When it began: what its parts have in common.
    pub started: Moment,
    /// Which part of the recording this file is, from 1.
    #[serde(default = "first")]
    pub part: u32,
    /// Time between samples in milliseconds.
    #[serde(default)]
    pub interval_ms: u64,
    /// What was watched.
    pub source: SourceInfo,
    /// The process that the plan was compared with.
    #[serde(default)]
    pub attach: Option<u32>,
    /// The plan of that time.
    #[serde(default)]
    pub plan: Option<PlanText>,
    /// What each figure is counted in.
    #[serde(default)]
    pub units: Map<String, Value>,
}

const fn first() -> u32 {
    1
}

/// A plan as a recording keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanText {
    /// What it is called.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The configuration file that it names, which may be gone by the time of the replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hf_config: Option<Map<String, Value>>,
}

impl Header {
    /// The first line of a recording that begins now.
    #[must_use]
    pub fn new(started: Moment, interval: Duration, source: SourceInfo) -> Self {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let units = UNITS.iter().map(|(fields, unit)| ((*fields).to_owned(), Value::from(*unit))).collect();
        Self { memwall_recording: VERSION, started, part: 1, interval_ms, source, attach: None, plan: None, units }
    }
}

impl PlanText {
    /// The plan of this text, with the configuration that it names.
    #[must_use]
    pub fn new(name: &str, text: &str, config: Option<&HfConfig>) -> Self {
        let hf_config = match config {
            Some(HfConfig::Inline(keys)) => Some(keys.clone()),
            Some(HfConfig::Path(_)) | None => None,
        };
        Self { name: name.to_owned(), text: text.to_owned(), hf_config }
    }

    /// The plan as if it had been opened now.
    ///
    /// # Errors
    /// Where the text is no plan for this version of the program.
    pub fn load(&self) -> Result<LoadedPlan, Vec<Fault>> {
        let document = Document::parse(&self.text)?;
        let mut plan = document.plan()?;
        if let (Some(HfConfig::Path(_)), Some(config)) = (&plan.model.hf_config, &self.hf_config) {
            plan.model.hf_config = Some(HfConfig::Inline(config.clone()));
        }
        Ok(LoadedPlan { document, plan, name: self.name.clone(), path: None })
    }
}

/// A sample as a line, without its end. What nobody has asked for is left out, and so is the
/// time of a reading that was taken when the sample was, as nearly all are: that makes the file a
/// fraction of what it would be.
///
/// # Errors
/// Never for what sources give.
pub fn encode(sample: &Sample) -> serde_json::Result<String> {
    let mut line = serde_json::to_value(sample)?;
    let at = Value::from(sample.at.0);
    each_reading(&mut line, &mut |reading| {
        if reading.get("at") == Some(&at) {
            reading.shift_remove("at");
        }
    });
    leave_out(&mut line, &serde_json::to_value(Reading::<()>::not_read())?);
    serde_json::to_string(&line)
}

/// Leaves out what reads the same where it is missing: readings that were not taken, groups of
/// nothing else, and nulls.
fn leave_out(value: &mut Value, not_read: &Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| leave_out(value, not_read)),
        Value::Object(keys) => {
            keys.values_mut().for_each(|value| leave_out(value, not_read));
            let empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            keys.retain(|_, value| value != not_read && !value.is_null() && !empty(value));
        }
        _ => {}
    }
}

/// GPUs and processes of a sample together: more than the longest line has of those that tell all.
pub const MOST_PARTS: usize = 30_000;

/// A part of a line has a name and a value at least, `{"pid":4711}`: of shorter ones a small file would have so
/// many that nobody waits for them. A few may be.
const SHORTEST_PART: usize = 12;
const ANY_PARTS: usize = 1000;

/// How many GPUs and processes a line has at most: `{}` is a whole GPU, two bytes become thousands. What has a name
/// before it is a figure of one of them, and each has room for all of its figures.
pub fn parts(line: &[u8]) -> usize {
    let mut before = b' ';
    let mut parts = 0;
    for byte in line.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        parts += usize::from(*byte == b'{' && before != b':');
        before = *byte;
    }
    parts
}

/// The sample of a line, which was taken `at`.
///
/// # Errors
/// Where the line is none.
pub fn decode(line: &[u8], at: Moment) -> serde_json::Result<Sample> {
    let parts = parts(line);
    let refused = |what| Err(serde_json::Error::io(io::Error::other(what)));
    if parts > MOST_PARTS {
        return refused(format!("more than {MOST_PARTS} parts"));
    }
    if parts > ANY_PARTS + line.len() / SHORTEST_PART {
        return refused(format!("{parts} parts in {} bytes", line.len()));
    }
    taken_at(at, || serde_json::from_slice(line))
}

/// Does something to every reading that has a value, at any depth.
fn each_reading(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| each_reading(value, change)),
        Value::Object(keys) => {
            if keys.contains_key("value") {
                change(keys);
            }
            keys.values_mut().for_each(|value| each_reading(value, change));
        }
        _ => {}
    }
}
