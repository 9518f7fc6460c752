//! 1024 GPUs that exporters tell of, of which three are slow.

use std::sync::Arc;

use crate::support::catalog;
use crate::support::demo::{START, happen};
use memwall::app::{Event, Pane, State};
use memwall::plan::{EXAMPLES, LoadedPlan};
use memwall::reading::{
    Absence, DeviceLocation, DeviceMemory, DeviceSample, Moment, Reading, Sample, SourceInfo, SourceKind,
};
use memwall::units::{Bytes, BytesPerSec, Celsius, Fraction, Megahertz, Watts};

pub const NODES: usize = 128;
pub const GPUS: usize = 8;

/// The example of 64 GPUs with sixteen times the data-parallel ranks: 4 stages of 256 GPUs.
pub fn open() -> State {
    opened("70b_hybrid_training")
}

/// The same under another name: a plan of a person's own is compared at once.
pub fn opened(name: &str) -> State {
    let (_, text) = EXAMPLES.iter().find(|(name, _)| *name == "70b_hybrid_training").unwrap();
    let text = text
        .replace("batch_size: 128 ", "batch_size: 2048 ")
        .replace("num_gpus: 64", "num_gpus: 1024")
        .replace("nodes: 8", "nodes: 128")
        .replace("data_parallel: 2", "data_parallel: 32");
    let mut state = State::new(LoadedPlan::from_text(name, &text).unwrap(), catalog().clone(), None, START);
    let detail = "http://prometheus:9090 (query API)".to_owned();
    happen(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Prometheus, detail }));
    state.views.focus = Pane::Monitor;
    state
}

/// The memory that the plan predicts for a rank: that of its stage, of four.
pub fn expected(state: &State, rank: usize) -> Bytes {
    state.plans.editor.prediction().unwrap().stages[rank / (NODES * GPUS / 4)].device_used
}

/// A GPU that does what the plan says; counters differ by a percent from one to the next.
pub fn healthy(state: &State, rank: usize, at: Moment) -> DeviceSample {
    let around = |value: f64| value * (1.0 + 0.005 * ((rank * 7919 % 5) as f64 - 2.0));
    let used = expected(state, rank);
    let total = Bytes::from_mib(81_559);
    let location = DeviceLocation {
        node: format!("node{}", rank / GPUS + 1),
        gpu: (rank % GPUS) as u32,
        pod: Some(format!("llama-worker-{}", rank / GPUS)),
        namespace: Some("ml".to_owned()),
        ..DeviceLocation::default()
    };
    DeviceSample {
        name: Reading::measured("NVIDIA H100 80GB HBM3".to_owned(), at),
        location: Some(Arc::new(location)),
        memory: Reading::measured(DeviceMemory { total, used, free: total.saturating_sub(used) }, at),
        busy: Reading::measured(Fraction(0.99), at),
        sm_activity: Reading::measured(Fraction(around(0.80)), at),
        tensor_activity: Reading::measured(Fraction(around(0.46)), at),
        dram_bandwidth: Reading::estimated(BytesPerSec(around(1.4e12)), at),
        dram_peak: Reading::estimated(BytesPerSec(3.35e12), at),
        power: Reading::measured(Watts(around(600.0)), at),
        power_limit: Reading::estimated(Watts(700.0), at),
        temperature: Reading::measured(Celsius(64.0), at),
        sm_clock: Reading::measured(Megahertz(1755.0), at),
        ..DeviceSample::absent(rank as u32, &Absence::NotExported)
    }
}

/// Three GPUs that are off, from the first interval on.
pub fn sample(state: &State, interval: u64) -> Sample {
    let at = START.plus_millis(interval * 5000);
    let mut devices: Vec<DeviceSample> = (0..NODES * GPUS).map(|rank| healthy(state, rank, at)).collect();
    let slower = |device: &mut DeviceSample, pace: f64| {
        device.tensor_activity = device.tensor_activity.map(|share| Fraction(share.0 * pace));
        device.sm_activity = device.sm_activity.map(|share| Fraction(share.0 * pace));
        device.power = device.power.map(|power| Watts(power.0 * pace));
    };
    slower(&mut devices[59], 0.82);
    devices[59].temperature = Reading::measured(Celsius(88.0), at);
    devices[59].sm_clock = Reading::measured(Megahertz(1380.0), at);
    devices[700].dram_bandwidth = devices[700].dram_bandwidth.map(|rate| BytesPerSec(rate.0 * 0.7));
    let location = devices[1000].location.clone();
    devices[1000] = DeviceSample { location, ..DeviceSample::absent(1000, &Absence::Gone) };
    Sample { at, devices, ..Sample::default() }
}

pub fn watched() -> State {
    let mut state = open();
    for interval in 0..4 {
        let sample = sample(&state, interval);
        happen(&mut state, Event::Sample(Box::new(sample)));
    }
    state
}
