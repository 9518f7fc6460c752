use super::*;
use crate::catalog::{Peaks, Vendor};
use crate::predict::{
    Capacity, Fragmentation, Params, Phase, Place, Roofline, StageMemory, StepFlops, StepTime, TimelinePoint, Traffic,
};
use crate::reading::ReadingKind;
use crate::units::{Flops, FlopsPerSec, Intensity};

const STEP: f64 = 4.0;

pub(crate) fn card(generation: Generation) -> Gpu {
    Gpu {
        name: "Test 80GB".to_owned(),
        short: "T-80".to_owned(),
        aliases: Vec::new(),
        driver_name: None,
        vendor: Vendor::Nvidia,
        generation,
        compute_capability: None,
        memory: Bytes::from_gib(80.0),
        unified: false,
        inline_ecc: false,
        bandwidth: BytesPerSec::from_giga(3000.0),
        l2: None,
        sm_count: None,
        tdp: Some(Watts(700.0)),
        max_sm_clock: Some(Megahertz(1980.0)),
        exceeds_boost: false,
        boost_clock: None,
        peaks: Peaks::default(),
        bridge: None,
        link: "none".to_owned(),
        host_link: generation.host_link(),
        process: None,
        l2_bandwidth: None,
    }
}

pub(crate) fn stage(number: u64, device_used: f64) -> StageMemory {
    let point = |phase, share: f64| TimelinePoint {
        phase,
        at: Place::Named("somewhere"),
        allocated: Bytes::from_gib((device_used - 2.0) * share),
        parts: [Bytes::ZERO; 8],
    };
    StageMemory {
        stage: number,
        layers: 10,
        terms: Vec::new(),
        static_bytes: Bytes::from_gib((device_used - 2.0) * 0.5),
        peak_allocated: Bytes::from_gib(device_used - 2.0),
        peak_reserved: Bytes::from_gib(device_used - 1.0),
        device_used: Bytes::from_gib(device_used),
        activations_end_of_forward: Bytes::from_gib(10.0),
        peak_phase: Phase::Backward,
        peak_cause: "the loss".into(),
        timeline: vec![
            point(Phase::Forward, 0.6),
            point(Phase::Forward, 0.8),
            point(Phase::Backward, 1.0),
            point(Phase::Optimizer, 0.5),
        ],
    }
}

/// A step of 4 s that moves 4 TB (1 TB/s) and computes 1200 TFLOP (300 TFLOP/s of 1000).
pub(crate) fn prediction(stages: Vec<StageMemory>, num_gpus: u64) -> Prediction {
    let (largest_stage, needed) =
        stages.iter().map(|stage| stage.device_used).enumerate().max_by_key(|(_, bytes)| *bytes).unwrap();
    let (bandwidth, peak) = (BytesPerSec::from_giga(3000.0), FlopsPerSec::from_tera(1000.0));
    Prediction {
        model: "test".to_owned(),
        gpu: "Test 80GB".to_owned(),
        gpu_short: "T-80".to_owned(),
        on_cpu: false,
        num_gpus,
        params: Params::default(),
        stages,
        largest_stage,
        layers: Vec::new(),
        fragmentation: Fragmentation::default(),
        capacity: Capacity { bytes: Bytes::from_gib(80.0), needed },
        flops: StepFlops { forward: Flops(400e12), backward: Flops(800e12), recompute: Flops(0.0) },
        traffic: Traffic {
            parameters: Bytes(1_000_000_000_000),
            gradients: Bytes(500_000_000_000),
            activations: Bytes(2_000_000_000_000),
            optimizer_states: Bytes(500_000_000_000),
        },
        time: StepTime {
            step: Seconds(STEP),
            compute: Seconds(3.0),
            memory_bound: Seconds(1.0),
            communication: Seconds(0.0),
            bubble: Seconds(0.0),
            launch: Seconds(0.0),
            tokens_per_s: None,
            tokens_per_s_per_gpu: None,
            samples_per_s: 1.0,
            model_flops_per_gpu: FlopsPerSec::from_tera(300.0),
            mfu: None,
            hfu: None,
            bandwidth: BytesPerSec::from_giga(1000.0),
            mbu: 1.0 / 3.0,
            total_hours: None,
            total_cost: None,
            power: None,
        },
        time_terms: Vec::new(),
        decode: None,
        roofline: Roofline {
            bandwidth,
            peak,
            peak_name: "bf16",
            ridge: Intensity(333.3),
            roofs: Vec::new(),
            l2: None,
            ops: Vec::new(),
        },
        assumptions: [].into(),
    }
}

fn samples(demo: Demo, seconds: u64) -> Vec<Sample> {
    let mut demo = demo;
    (0..seconds).map(|second| demo.sample(Moment(1_700_000_000_000 + second * 1000))).collect()
}

fn mean(samples: &[Sample], of: impl Fn(&DeviceSample) -> f64) -> f64 {
    let values: Vec<f64> = samples.iter().flat_map(|sample| &sample.devices).map(of).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

fn used(device: &DeviceSample) -> Bytes {
    device.memory.value().unwrap().used
}

#[test]
fn the_same_seed_gives_the_same_samples_and_another_does_not() {
    let plan = prediction(vec![stage(0, 60.0)], 4);
    let demo = || Demo::new(&plan, &card(Generation::Hopper));
    assert_eq!(samples(demo(), 90), samples(demo(), 90));
    assert_ne!(samples(demo(), 90), samples(demo().with_seed(1), 90));
}

#[test]
fn a_steady_run_stays_near_its_plan_but_not_on_it() {
    let plan = prediction(vec![stage(0, 60.0)], 8);
    let demo = Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(60.0));
    let steady = samples(demo, 120);
    for device in steady.iter().flat_map(|sample| &sample.devices) {
        let over = used(device).gib() / 60.0;
        assert!((1.0..1.03).contains(&over), "memory {over} of the plan");
    }
    // 4 TB every 4.24 s: 0.943 TB/s over a whole number of steps (120 s are 28.3 of them).
    let bandwidth = mean(&steady, |device| device.dram_bandwidth.value().unwrap().0);
    assert!((0.90e12..0.98e12).contains(&bandwidth), "bandwidth {bandwidth}");
    // 1200 TFLOP every 4.24 s over 1000 TFLOP/s.
    let tensor = mean(&steady, |device| device.tensor_activity.value().unwrap().0);
    assert!((0.27..0.30).contains(&tensor), "tensor activity {tensor}");
    let power = mean(&steady, |device| device.power.value().unwrap().0);
    assert!((0.3 * 700.0..0.97 * 700.0).contains(&power), "power {power}");
}

#[test]
fn bandwidth_moves_with_the_phases_of_a_step() {
    let plan = prediction(vec![stage(0, 60.0)], 1);
    let mut demo = Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(60.0));
    let rates: Vec<f64> = (0..100)
        .map(|tick| demo.sample(Moment(1_700_000_000_000 + tick * 100)))
        .map(|sample| sample.devices[0].dram_bandwidth.value().unwrap().0)
        .collect();
    let (low, high) = (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
    // The optimizer streams at 85 % of peak, slowed by 6 %: 2.4 TB/s; the rest has under 1 TB/s.
    assert!(high > 2.0e12 && high < 2.7e12, "highest {high}");
    assert!(low > 0.6e12 && low < 1.0e12, "lowest {low}");
}

#[test]
fn it_loads_then_grows_through_the_first_step_then_stays() {
    let plan = prediction(vec![stage(0, 60.0)], 1);
    let run = samples(Demo::new(&plan, &card(Generation::Hopper)), 40);
    let memory: Vec<f64> = run.iter().map(|sample| used(&sample.devices[0]).gib()).collect();
    assert!(memory[0] < 0.01);
    assert!(memory.windows(2).all(|pair| pair[1] >= pair[0]), "{memory:?}");
    // Half of the static tensors (29 GiB) and of what is beside them (2 GiB), 1 % more, half-way through loading.
    assert!((memory[5] / (15.5 * 1.01) - 1.0).abs() < 0.01, "{}", memory[5]);
    assert!((memory[20] - memory[39]).abs() < 0.01);
    let degrees: Vec<f64> = run.iter().map(|sample| sample.devices[0].temperature.value().unwrap().0).collect();
    assert!(degrees[39] > degrees[5] + 10.0);
}

#[test]
fn one_card_runs_hotter_than_the_rest() {
    let plan = prediction(vec![stage(0, 60.0)], 8);
    let settled = samples(Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(600.0)), 1);
    let mut degrees: Vec<f64> = settled[0].devices.iter().map(|device| device.temperature.value().unwrap().0).collect();
    degrees.sort_by(f64::total_cmp);
    assert!(degrees[7] >= degrees[6] + 5.0, "{degrees:?}");
}

#[test]
fn a_power_cap_is_rare_and_explains_its_clock() {
    let plan = prediction(vec![stage(0, 60.0)], 8);
    let run = samples(Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(60.0)), 1200);
    let all: Vec<&DeviceSample> = run.iter().flat_map(|sample| &sample.devices).collect();
    let capped: Vec<&&DeviceSample> =
        all.iter().filter(|device| !device.throttle.value().unwrap().is_empty()).collect();
    assert!(!capped.is_empty() && capped.len() * 20 < all.len(), "{} of {}", capped.len(), all.len());
    for device in capped {
        assert_eq!(device.throttle.value().unwrap(), &["power cap"]);
        assert!(device.sm_clock.value().unwrap().0 < 0.9 * 1980.0);
        assert!(device.power.value().unwrap().0 > 0.99 * 700.0);
    }
}

#[test]
fn a_card_without_counters_shows_a_bound() {
    let plan = prediction(vec![stage(0, 60.0)], 1);
    let run = samples(Demo::new(&plan, &card(Generation::Ampere)).after(Seconds(60.0)), 20);
    for device in run.iter().map(|sample| &sample.devices[0]) {
        assert_eq!(device.dram_bandwidth.kind(), Some(ReadingKind::UpperBound));
        let bound = device.memory_busy.value().unwrap().0 * 3e12;
        assert!((device.dram_bandwidth.value().unwrap().0 - bound).abs() < 1.0);
        assert_eq!(device.tensor_activity, Reading::Absent(Absence::NotSupported));
    }
}

#[test]
fn processes_are_none_that_could_exist_and_say_that_they_are_a_demo() {
    let plan = prediction(vec![stage(0, 60.0)], 16);
    let sample = samples(Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(60.0)), 1).remove(0);
    assert_eq!(sample.devices.len(), 8);
    assert_eq!(sample.processes.len(), 8);
    for (device, host) in sample.devices.iter().zip(&sample.processes) {
        let processes = device.processes.value().unwrap();
        assert_eq!(processes.len(), 1);
        assert_eq!(processes[0].pid, host.pid);
        assert!(host.pid > 1 << 22);
        assert_eq!(processes[0].memory.value(), Some(&used(device)));
        assert!(host.command.value().unwrap().contains("demo"));
        assert_eq!(host.cpu.kind(), Some(ReadingKind::Estimated));
        // Started 60 s before the first sample.
        assert_eq!(host.started.value(), Some(&(1_700_000_000 - 60)));
    }
}

/// Steps of 4 s for twenty hours are 18 000, six thousand more than the run began with.
#[test]
fn no_step_is_counted_beyond_the_last() {
    let plan = prediction(vec![stage(0, 60.0)], 1);
    let sample = samples(Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(20.0 * 3600.0)), 1).remove(0);
    let progress = sample.progress.as_ref().unwrap();
    let (done, of) = (*progress.step.value().unwrap(), *progress.total_steps.value().unwrap());
    assert!((16_000..=18_000).contains(&done), "{done}");
    assert_eq!(of, 24_000);
}

#[test]
fn a_pipeline_shows_the_node_with_the_largest_stage() {
    // 4 stages on 32 GPUs: each node of 8 is one stage, and stage 2 is the largest.
    let stages = vec![stage(0, 40.0), stage(1, 50.0), stage(2, 60.0), stage(3, 30.0)];
    let plan = prediction(stages, 32);
    let sample = samples(Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(60.0)), 1).remove(0);
    assert!(sample.devices.iter().all(|device| (used(device).gib() / 60.0 - 1.01).abs() < 0.02));
    // The same on 8 GPUs: two for each stage.
    let stages = vec![stage(0, 40.0), stage(1, 50.0), stage(2, 60.0), stage(3, 30.0)];
    let plan = prediction(stages, 8);
    let sample = samples(Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(60.0)), 1).remove(0);
    let expected = [40.0, 40.0, 50.0, 50.0, 60.0, 60.0, 30.0, 30.0];
    for (device, gib) in sample.devices.iter().zip(expected) {
        assert!((used(device).gib() / gib - 1.01).abs() < 0.02);
    }
}

#[test]
fn a_tight_plan_keeps_fitting() {
    let plan = prediction(vec![stage(0, 79.5)], 2);
    let run = samples(Demo::new(&plan, &card(Generation::Hopper)).after(Seconds(60.0)), 60);
    for device in run.iter().flat_map(|sample| &sample.devices) {
        assert!(used(device) <= Bytes::from_gib(80.0) && used(device).gib() > 79.0);
    }
}

#[test]
fn a_plan_that_does_not_fit_runs_out_of_memory_and_is_started_again() {
    let plan = prediction(vec![stage(0, 95.0)], 2);
    let run = samples(Demo::new(&plan, &card(Generation::Hopper)), 60);
    assert!(run.iter().flat_map(|sample| &sample.devices).all(|device| used(device) <= Bytes::from_gib(80.0)));
    let dead: Vec<bool> = run.iter().map(|sample| sample.processes.is_empty()).collect();
    let falls = dead.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let starts = dead.windows(2).filter(|pair| pair[0] && !pair[1]).count();
    assert!(falls >= 2 && starts >= 1, "{falls} falls, {starts} starts");
    let mut pids: Vec<u32> = run.iter().flat_map(|sample| &sample.processes).map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert!(pids.len() >= 4, "a new process has a new pid");
}

#[test]
fn a_plan_without_a_step_time_still_moves() {
    let mut plan = prediction(vec![stage(0, 60.0)], 1);
    plan.time.step = Seconds(f64::NAN);
    plan.flops = StepFlops::default();
    plan.traffic = Traffic::default();
    let run = samples(Demo::new(&plan, &card(Generation::Hopper)), 30);
    assert!(run.iter().all(|sample| sample.devices[0].dram_bandwidth.value().unwrap().0.abs() < 1.0));
    assert!(used(&run[29].devices[0]).gib() > 60.0);
}
