//! What a new user comes to do, as keys, with the number of them: at most two thirds of what the same took before
//! (0, 20, 7, 22, 30, 1 and 2).

use crate::support::catalog;
use crate::support::demo::{START, happen, look, open, press_and_search, screen, watch};
use memwall::app::{Effect, Event, KeyPress, Overlay, State};
use memwall::observe::{Demo, Source};
use memwall::plan::{Change, LoadedPlan};
use memwall::predict::Verdict;
use memwall::reading::SourceKind;

/// Keys as they are typed: letters, `⏎` and arrows. Searches are answered as the loop does.
struct Typist {
    state: State,
    keys: usize,
    effects: Vec<Effect>,
}

impl Typist {
    fn on(state: State) -> Self {
        Self { state, keys: 0, effects: Vec::new() }
    }

    fn types(mut self, keys: &str) -> Self {
        for key in keys.chars() {
            self.keys += 1;
            let key = match key {
                '⏎' => KeyPress::Enter,
                '↓' => KeyPress::Down,
                '↑' => KeyPress::Up,
                '→' => KeyPress::Right,
                '←' => KeyPress::Left,
                letter => KeyPress::Char(letter),
            };
            self.effects.extend(press_and_search(&mut self.state, &[key]));
        }
        self
    }

    fn within(&self, most: usize) {
        assert!(self.keys <= most, "{} keys, {most} at most", self.keys);
    }

    fn screen(&self) -> String {
        screen(&self.state, &look(), (120, 40))
    }

    /// What is written to a file last.
    fn saved(&self) -> &str {
        let saves = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Save { text, .. } => Some(text.as_str()),
            _ => None,
        });
        saves.unwrap_or_else(|| panic!("nothing is saved:\n{}", self.screen()))
    }
}

fn plan(text: &str) -> State {
    let mut loaded = LoadedPlan::from_text("mine", text).unwrap();
    loaded.path = Some("mine.yaml".into());
    State::new(loaded, catalog().clone(), None, START)
}

const ONE_GPU: &str = "\
model: {preset: llama-2-7b, batch_size: 8, sequence_length: 2048}
training: {precision: bf16, micro_batch_size: 1, gradient_accumulation_steps: 8}
hardware: {gpu_type: NVIDIA H100}
";

#[test]
fn the_start_is_understood_without_a_key() {
    let first = Typist::on(open("13b_long_sequence"));
    first.within(0);
    let shown = first.screen();
    // What it is, whether it fits, where keys are listed.
    for part in ["memwall", "example", "13b_long_sequence", "llama-2-13b", "FITS", "? help"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn a_plan_is_made_to_fit_another_gpu_and_saved() {
    let done = Typist::on(plan(ONE_GPU)).types("↓↓⏎a100⏎");
    let done = if done.state.plans.editor.prediction().unwrap().capacity.verdict() == Verdict::DoesNotFit {
        done.types("X⏎")
    } else {
        done
    };
    let done = done.types("ss");
    done.within(13);
    assert!(done.saved().contains("A100"), "{}", done.saved());
    assert_ne!(done.state.plans.editor.prediction().unwrap().capacity.verdict(), Verdict::DoesNotFit);
    // To one on which it does not fit, and back under its capacity.
    let done = Typist::on(plan(ONE_GPU)).types("↓↓⏎L40S⏎");
    assert_eq!(done.state.plans.editor.prediction().unwrap().capacity.verdict(), Verdict::DoesNotFit);
    let done = done.types("X⏎ss");
    done.within(13);
    assert!(done.saved().contains("L40S"), "{}", done.saved());
    assert_ne!(done.state.plans.editor.prediction().unwrap().capacity.verdict(), Verdict::DoesNotFit);
}

#[test]
fn both_walls_are_found() {
    let done = Typist::on(plan(ONE_GPU)).types("4W");
    done.within(4);
    assert_eq!(done.state.dialogs.overlay, Some(Overlay::Sweep));
    let shown = done.screen();
    assert!(shown.contains("wall"), "{shown}");
}

#[test]
fn the_best_plan_for_64_gpus_is_exported() {
    let text = "model: {preset: llama-2-7b, batch_size: 256, sequence_length: 2048, framework: megatron}\n\
                cluster: {num_gpus: 8}\n";
    let done = Typist::on(plan(text)).types("fg64⏎⏎E⏎s");
    done.within(14);
    let job = done.state.plans.editor.job().unwrap();
    assert_eq!(job.degrees.num_gpus, 64);
    assert!(done.saved().contains("llama") || done.saved().contains("--num-layers"), "{}", done.saved());
}

#[test]
fn a_lora_plan_is_made_from_nothing() {
    let done = Typist::on(open("13b_long_sequence")).types("nlora⏎ss");
    done.within(20);
    assert!(done.saved().contains("lora"), "{}", done.saved());
    assert!(done.state.plans.editor.job().unwrap().training.lora.is_some());
}

#[test]
fn why_a_run_differs_is_said_without_a_key() {
    let mut state = open("13b_long_sequence");
    let mut run = state.plans.editor.clone();
    run.apply(run.with(&Change::to("distribution.sequence_parallel", "false")).unwrap(), &state.catalog);
    let mut demo = Demo::new(run.prediction().unwrap(), &run.job().unwrap().hardware.gpu);
    watch(&mut state, &mut demo, 0..120);
    let done = Typist::on(state);
    done.within(0);
    let shown = screen(&done.state, &look(), (80, 24));
    assert!(shown.lines().nth(1).unwrap().contains("why: off: sequence parallel"), "{shown}");
}

#[test]
fn a_run_is_recorded_with_one_key() {
    let mut state = open("13b_long_sequence");
    let demo = Demo::new(state.plans.editor.prediction().unwrap(), &state.plans.editor.job().unwrap().hardware.gpu);
    assert_eq!(demo.info().kind, SourceKind::Demo);
    happen(&mut state, Event::SourceStarted(demo.info()));
    let done = Typist::on(state).types("r");
    done.within(1);
    assert!(done.effects.contains(&Effect::Record));
    let mut state = done.state;
    happen(&mut state, Event::Recording("memwall-1.ndjson.gz".into()));
    // How it is ended and played is said where it begins.
    let notice = state.notice.unwrap().text;
    assert_eq!(notice, "recording: r ends it; memwall replay memwall-1.ndjson.gz plays it");
}
