//! The verdict and its cause of twenty kinds of run, on small screens.

use crate::run_and_draft::departing;
use crate::support::demo::{START, happen, look, open, press, run, screen, watch};
use memwall::app::{AttachedProcess, Event, KeyPress, State, run_verdict};
use memwall::observe::{Demo, Source};
use memwall::plan::Change;
use memwall::reading::{DeviceProcess, DeviceSample, OutOfMemory, Reading, RunNews, Sample, SourceInfo, SourceKind};
use memwall::units::{Bytes, Seconds};

/// A dashboard on an example, two minutes into a run with one value changed.
fn departed(example: &str, key: &'static str, value: &str) -> State {
    let mut state = open(example);
    let mut run = state.plans.editor.clone();
    run.apply(run.with(&Change::to(key, value)).unwrap(), &state.catalog);
    let mut demo = Demo::new(run.prediction().unwrap(), &run.job().unwrap().hardware.gpu);
    watch(&mut state, &mut demo, 0..120);
    state
}

/// The same run under another plan, which it is said to follow.
fn followed(key: &'static str, value: &str) -> State {
    let (mut state, mut run) = departing();
    watch(&mut state, &mut run, 0..120);
    let changed = state.plans.editor.with(&Change::to(key, value)).unwrap();
    state.plans.editor.apply(changed, &state.catalog.clone());
    press(&mut state, &[KeyPress::Char('R')]);
    state
}

fn with_source(kind: SourceKind) -> State {
    let mut state = open("13b_long_sequence");
    happen(&mut state, Event::SourceStarted(SourceInfo { kind, detail: String::new() }));
    state
}

fn leaking() -> State {
    let mut state = open("13b_long_sequence");
    let plan = &state.plans.editor;
    let demo = Demo::new(plan.prediction().unwrap(), &plan.job().unwrap().hardware.gpu);
    watch(&mut state, &mut demo.leaking(Seconds(1500.0)), 0..400);
    state
}

fn ended() -> State {
    let (mut state, mut run) = departing();
    watch(&mut state, &mut run, 0..120);
    let mut sample = run.sample(START.plus_millis(121_000));
    for device in &mut sample.devices {
        device.processes = Reading::measured(Vec::new(), sample.at);
    }
    happen(&mut state, Event::Sample(Box::new(sample)));
    state
}

fn out_of_memory() -> State {
    let (mut state, mut run) = departing();
    watch(&mut state, &mut run, 0..120);
    let gib = |gib: f64| Some(Bytes::from_gib(gib));
    let message = OutOfMemory {
        backend: "CUDA".to_owned(),
        device: Some(0),
        asked: gib(2.0),
        free: gib(1.0),
        ..OutOfMemory::default()
    };
    let news = RunNews { out_of_memory: Some(message), ..RunNews::default() };
    happen(&mut state, Event::Run(Box::new(news)));
    press(&mut state, &[KeyPress::Esc]);
    state
}

fn attached_to_nothing() -> State {
    let (mut state, mut run) = departing();
    state.monitor.attached = Some(AttachedProcess::to(4_000_000));
    watch(&mut state, &mut run, 0..3);
    state
}

/// Every one with how its verdict begins and the whole of its cause.
fn scenarios() -> Vec<(State, &'static str, &'static str)> {
    let checkpointing = "training.activation_checkpointing";
    let mut failed = with_source(SourceKind::Nvml);
    happen(&mut failed, Event::SourceFailed("no driver".to_owned()));
    let mut as_planned = open("13b_long_sequence");
    run(&mut as_planned, 120);
    let mut warming = open("8b_single_gpu");
    run(&mut warming, 2);
    let mut idle = with_source(SourceKind::Nvml);
    let devices = vec![DeviceSample { processes: Reading::measured(Vec::new(), START), ..DeviceSample::default() }];
    happen(&mut idle, Event::Sample(Box::new(Sample { at: START, devices: devices.clone(), ..Sample::default() })));
    let mut nobodys = with_source(SourceKind::Nvml);
    let process = DeviceProcess::holding(7, Reading::measured(Bytes::from_gib(9.0), START));
    let busy = vec![DeviceSample { processes: Reading::measured(vec![process], START), ..devices[0].clone() }];
    happen(&mut nobodys, Event::Sample(Box::new(Sample { at: START, devices: busy, ..Sample::default() })));
    vec![
        (
            departed("13b_long_sequence", "distribution.sequence_parallel", "false"),
            "MEMORY +",
            "off: sequence parallel",
        ),
        (departed("13b_long_sequence", checkpointing, "full"), "MEMORY -", "every block checkpointed"),
        (departed("13b_long_sequence", checkpointing, "selective"), "", ""),
        (departed("8b_single_gpu", "training.attention", "eager"), "", "eager attention"),
        (departed("7b_lora", "training.precision", "fp32"), "", "everything in fp32, no autocast"),
        (departed("8b_fsdp_torchtitan", checkpointing, "full"), "", "every block checkpointed"),
        (followed("model.preset", "llama-2-7b"), "OTHER MODEL", "another model: llama-2-13b"),
        (
            followed("hardware.gpu_type", "NVIDIA A100"),
            "OTHER GPU",
            "another GPU than the plan's: NVIDIA H100 SXM 80GB",
        ),
        (leaking(), "GROWING: full in ", "a leak: tensors are kept from step to step"),
        (ended(), "ENDED", "ended after"),
        (out_of_memory(), "OUT OF MEMORY", "CUDA out of memory on GPU 0: 1.00 GiB short"),
        (attached_to_nothing(), "NOT ON A GPU", ""),
        (failed, "NO SOURCE", ""),
        (as_planned, "AS PLANNED", ""),
        (warming, "", ""),
        (idle, "IDLE", ""),
        (nobodys, "NO PLAN", ""),
        (open("13b_long_sequence"), "STARTING", ""),
        (with_source(SourceKind::Prometheus), "STARTING", ""),
        (with_source(SourceKind::Demo), "STARTING", ""),
    ]
}

#[test]
fn verdict_and_cause_are_whole_on_small_screens() {
    let scenarios = scenarios();
    assert_eq!(scenarios.len(), 20);
    for (number, (state, verdict, cause)) in scenarios.iter().enumerate() {
        let whole = run_verdict(state).words;
        assert!(whole.starts_with(verdict), "{number}: {whole} {verdict}");
        for size in [(60, 20), (80, 24)] {
            let shown = screen(state, &look(), size);
            let mut lines = shown.lines();
            assert!(lines.next().unwrap().ends_with(&format!(" {whole}")), "{number}\n{shown}");
            assert!(lines.next().unwrap().contains(cause), "{number} {cause}\n{shown}");
            assert!(shown.contains("memwall"), "{shown}");
        }
    }
}

/// An example's GPUs, batch and memory are none of the process's.
#[test]
fn nothing_of_an_example_stands_beside_a_process_that_has_no_plan() {
    let mut state = with_source(SourceKind::Nvml);
    let process = DeviceProcess::holding(7, Reading::measured(Bytes::from_gib(9.0), START));
    let busy = vec![DeviceSample { processes: Reading::measured(vec![process], START), ..DeviceSample::default() }];
    happen(&mut state, Event::Sample(Box::new(Sample { at: START, devices: busy, ..Sample::default() })));
    let heading = |state: &State| screen(state, &look(), (160, 40)).lines().next().unwrap().to_owned();
    let before = heading(&state);
    assert!(before.contains("FITS") && before.contains("8× H100"), "{before}");
    state.monitor.toggle_attach(7);
    let attached = heading(&state);
    assert!(attached.contains(" 7 ") && attached.ends_with("NO PLAN"), "{attached}");
    assert!(
        !attached.contains("FITS") && !attached.contains("8× H100") && !attached.contains("megatron"),
        "{attached}"
    );
}

/// While nothing is observed the line says once, before its first figure, that all of it is predicted.
#[test]
fn what_nobody_has_observed_is_said_to_be_predicted() {
    let state = open("13b_long_sequence");
    for size in [(80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        let second = shown.lines().nth(1).unwrap();
        assert!(second.contains(" predicted memory ") && second.matches("predicted").count() == 1, "{second}");
    }
}
