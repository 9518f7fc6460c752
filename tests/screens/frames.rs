//! A frame after nothing but a sample draws again only where figures are: it must look as if all had been drawn.

use memwall::app::{Event, MemoryView, Pane, State, update};
use memwall::observe::{Demo, Source};
use memwall::reading::Reading;
use memwall::ui::{Look, Screen, draw};
use memwall::units::Bytes;
use ratatui::Terminal;
use ratatui::backend::{Backend, TestBackend};

use crate::support::demo::{START, look, open, run, screen};

/// What a terminal shows that is only told what changes.
struct Follower {
    terminal: TestBackend,
    screen: Screen,
}

impl Follower {
    fn new(size: (u16, u16)) -> Self {
        Self { terminal: TestBackend::new(size.0, size.1), screen: Screen::blank(size) }
    }

    /// Passes on the cells of one frame and tells how many they were.
    fn frame(&mut self, state: &State, look: &Look) -> usize {
        let changed = self.screen.update(state, look);
        let cells = changed.iter().map(|(column, line)| (*column, *line, &self.screen.shown()[(*column, *line)]));
        self.terminal.draw(cells).unwrap();
        let (width, height) = self.screen.size();
        let mut whole = Terminal::new(TestBackend::new(width, height)).unwrap();
        whole.draw(|frame| draw(state, look, frame)).unwrap();
        assert_eq!(self.terminal.buffer(), whole.backend().buffer());
        changed.len()
    }
}

#[test]
fn what_only_figures_change_looks_as_if_all_were_drawn() {
    let look = look();
    for size in [(80, 24), (120, 40), (200, 50)] {
        for focus in Pane::ALL {
            for (view, zoomed) in [
                (MemoryView::Components, false),
                (MemoryView::Timeline, true),
                (MemoryView::Times, false),
                (MemoryView::Terms, true),
                (MemoryView::Layers, false),
                (MemoryView::Stages, true),
            ] {
                let mut state = open("70b_hybrid_training");
                (state.views.focus, state.views.zoomed, state.views.memory.view) = (focus, zoomed, view);
                state.views.size = size;
                let gpu = state.plans.editor.job().unwrap().hardware.gpu.clone();
                let mut demo = Demo::new(state.plans.editor.prediction().unwrap(), &gpu);
                let mut follower = Follower::new(size);
                follower.frame(&state, &look);
                update(&mut state, Event::SourceStarted(demo.info()));
                follower.screen.forget();
                follower.frame(&state, &look);
                for second in 0..4 {
                    let sample = demo.sample(START.plus_millis(second * 1000));
                    update(&mut state, Event::Sample(Box::new(sample)));
                    follower.frame(&state, &look);
                }
            }
        }
    }
}

#[test]
fn a_second_frame_of_the_same_has_nothing_to_tell() {
    let (look, mut state) = (look(), open("13b_long_sequence"));
    state.views.size = (120, 40);
    let mut follower = Follower::new(state.views.size);
    // Every cell that is not blank, at least.
    assert!(follower.frame(&state, &look) > 1000);
    assert_eq!(follower.frame(&state, &look), 0);
    follower.screen.forget();
    assert_eq!(follower.frame(&state, &look), 0);
}

/// The allocator's peak rises within what the process has reserved: the device's memory stays as it is.
#[test]
fn what_the_run_tells_of_its_allocator_is_shown_though_its_device_holds_the_same() {
    let (look, mut state) = (look(), open("13b_long_sequence"));
    state.views.size = (120, 40);
    let gpu = state.plans.editor.job().unwrap().hardware.gpu.clone();
    let mut demo = Demo::new(state.plans.editor.prediction().unwrap(), &gpu);
    update(&mut state, Event::SourceStarted(demo.info()));
    let mut follower = Follower::new(state.views.size);
    let mut sample = demo.sample(START);
    for second in 0..40 {
        sample = demo.sample(START.plus_millis(second * 1000));
        update(&mut state, Event::Sample(Box::new(sample.clone())));
    }
    follower.frame(&state, &look);
    for gib in [58, 59] {
        sample.at = sample.at.plus_millis(1000);
        let progress = sample.progress.as_mut().unwrap();
        progress.peak_allocated = Reading::measured(Bytes::from_gib(f64::from(gib)), sample.at);
        update(&mut state, Event::Sample(Box::new(sample.clone())));
        follower.frame(&state, &look);
        let shown: String = follower.terminal.buffer().content.iter().map(|cell| cell.symbol().to_owned()).collect();
        assert!(shown.contains(&format!("→{gib}.0")), "{shown}");
    }
}

#[test]
fn a_memory_bar_keeps_its_room_and_its_name() {
    let mut state = open("8b_single_gpu");
    run(&mut state, 30);
    for size in [(80, 24), (90, 30), (100, 30), (110, 40), (120, 40)] {
        let shown = screen(&state, &look(), size);
        let head = shown.lines().find(|line| line.contains("#  m"));
        assert!(head.is_none_or(|head| head.contains("#  memory ")), "{size:?}\n{shown}");
    }
}

/// GPT-2's smallest with one row of 64 tokens to serve: 124 439 808 parameters of two bytes are 237 MiB.
#[test]
fn figures_below_a_gib_are_in_mib() {
    let text = "model: {preset: gpt2, batch_size: 1, sequence_length: 64}\ntraining: {mode: inference, precision: bf16}\n\
                hardware: {gpu_type: NVIDIA T4}\ncluster: {num_gpus: 1}\n";
    let state = crate::support::plan::open(text);
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains("VRAM · components · MiB a GPU"), "{shown}");
    let row = shown.lines().find(|line| line.contains("██ parameters")).unwrap();
    let figure = row.split_once("parameters").unwrap().1.split_whitespace().next().unwrap();
    assert_eq!(figure, "237", "{shown}");
    assert!(shown.contains("of 15.0 GiB"), "{shown}");
}
