//! The dashboard's loop without a terminal: a plan, keys, and what has become of both.

mod attached;
mod form;
mod played;
mod saving;

use memwall::app::{Effect, Event, KeyPress, Pane, State};
use memwall::reading::{DeviceMemory, DeviceProcess, DeviceSample, Moment, Reading, Sample};
use memwall::units::Bytes;

use crate::support::demo;
use crate::support::plan::open;

/// Eight GPUs as 2 data x 2 tensor x 2 pipeline; 32 samples = 2 replicas x 4 micro batches x 4.
const PLAN: &str = "\
model:
  preset: llama-2-7b   # the base
  batch_size: 32
  sequence_length: 2048

training:
  precision: bf16-mixed
  micro_batch_size: 4
  gradient_accumulation_steps: 4

hardware:
  gpu_type: NVIDIA H100

cluster:
  num_gpus: 8

distribution:
  data_parallel: 2
  tensor_parallel: 2
  pipeline_parallel: 2
";

fn press(state: &mut State, keys: &[KeyPress]) -> Vec<Effect> {
    let effects = keys.iter().flat_map(|key| demo::happen(state, Event::Key(*key)));
    // That unsaved text is kept is another test's.
    effects.filter(|effect| !matches!(effect, Effect::Keep(_) | Effect::Forget { .. })).collect()
}

fn type_text(state: &mut State, text: &str) {
    let keys: Vec<KeyPress> =
        std::iter::once(KeyPress::Enter).chain(text.chars().map(KeyPress::Char)).chain([KeyPress::Enter]).collect();
    press(state, &keys);
}

/// Moves to the field of that key of the plan.
fn go_to(state: &mut State, key: &str) {
    press(state, &[KeyPress::Char('1'), KeyPress::Home]);
    for _ in 0..30 {
        if state.plans.form.field(&state.plans.editor).unwrap().key() == key {
            return;
        }
        press(state, &[KeyPress::Down]);
    }
    panic!("no field for {key}");
}

/// The lines in which the text differs from what was opened.
fn changed_lines(state: &State) -> Vec<&str> {
    state
        .plans
        .editor
        .text()
        .lines()
        .zip(PLAN.lines())
        .filter(|(now, before)| now != before)
        .map(|(now, _)| now)
        .collect()
}

#[test]
fn the_focus_goes_round_and_the_digits_jump() {
    let mut state = open(PLAN);
    let mut seen = vec![state.views.focus];
    for _ in 0..5 {
        press(&mut state, &[KeyPress::Tab]);
        seen.push(state.views.focus);
    }
    assert_eq!(seen, [Pane::Plan, Pane::Vram, Pane::Roofline, Pane::Monitor, Pane::Compare, Pane::Plan]);
    press(&mut state, &[KeyPress::BackTab]);
    assert_eq!(state.views.focus, Pane::Compare);
    press(&mut state, &[KeyPress::Char('3')]);
    assert_eq!(state.views.focus, Pane::Roofline);
}

fn sample(second: u64, processes: &[(u32, u64)]) -> Event {
    let at = Moment(second * 1000);
    let held: Vec<DeviceProcess> = processes
        .iter()
        .map(|(pid, gib)| DeviceProcess::holding(*pid, Reading::measured(Bytes::from_mib(gib * 1024), at)))
        .collect();
    let used: Bytes = held.iter().filter_map(|process| process.memory.value().copied()).sum();
    let total = Bytes::from_mib(81_559);
    let memory = DeviceMemory { total, used, free: total.saturating_sub(used) };
    let device = DeviceSample {
        memory: Reading::measured(memory, at),
        processes: Reading::measured(held, at),
        ..DeviceSample::default()
    };
    Event::Sample(Box::new(Sample { at, devices: vec![device], ..Sample::default() }))
}
