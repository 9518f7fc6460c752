//! Every pane at the sizes that people have, on a simulated run of an example plan.

use crate::support::demo::{START, look, open, press, run, screen};
use memwall::advise::SearchProgress;
use memwall::app::{Event, KeyPress, Pane, SearchRequest, State, update};
use memwall::reading::playback::Playback;
use memwall::reading::{Absence, Reading};
use memwall::ui::{Look, Theme};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

pub const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

/// Holds a drawn screen against `tests/snapshots/screens__NAME.snap`.
pub fn assert_drawn(name: &str, drawn: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(format!("screens__{name}"), drawn));
}

pub fn snapshot(name: &str, state: &State) {
    for (width, height) in SIZES {
        assert_drawn(&format!("{name}_{width}x{height}"), &screen(state, &look(), (width, height)));
    }
}

/// At 60x20 too.
fn snapshot_small(name: &str, state: &State) {
    snapshot(name, state);
    assert_drawn(&format!("{name}_60x20"), &screen(state, &look(), (60, 20)));
}

fn after_two_minutes(example: &str) -> State {
    let mut state = open(example);
    run(&mut state, 120);
    state
}

pub fn focused(pane: Pane) -> State {
    let mut state = after_two_minutes("13b_long_sequence");
    state.views.focus = pane;
    state
}

#[test]
fn the_first_screen() {
    snapshot("first", &open("13b_long_sequence"));
}

#[test]
fn the_plan_pane() {
    let mut state = focused(Pane::Plan);
    press(&mut state, &[KeyPress::Down; 5]);
    snapshot("plan", &state);
}

#[test]
fn the_vram_pane_with_its_named_terms() {
    let mut state = focused(Pane::Vram);
    snapshot("vram", &state);
    press(&mut state, &[KeyPress::Char('v'), KeyPress::Down]);
    snapshot("vram_layers", &state);
    press(&mut state, &[KeyPress::Char('v'), KeyPress::Char('v'), KeyPress::End]);
    snapshot("vram_timeline", &state);
    press(&mut state, &[KeyPress::Char('v'), KeyPress::Down, KeyPress::Down]);
    snapshot("vram_terms", &state);
}

/// A collective: its bytes, group, link, rate and hidden share are read in full, narrow as the screen may be.
#[test]
fn the_time_of_a_step_with_its_named_terms() {
    let mut state = after_two_minutes("70b_hybrid_training");
    press(&mut state, &[KeyPress::Char('2')]);
    press(&mut state, &[KeyPress::Char('v'); 5]);
    press(&mut state, &[KeyPress::Down; 5]);
    snapshot("vram_times", &state);
}

#[test]
fn the_stages_of_a_pipeline() {
    let mut state = after_two_minutes("70b_hybrid_training");
    press(&mut state, &[KeyPress::Char('2'), KeyPress::Char('v'), KeyPress::Char('v'), KeyPress::Down]);
    snapshot("vram_stages", &state);
}

#[test]
fn the_roofline_pane() {
    let mut state = focused(Pane::Roofline);
    press(&mut state, &[KeyPress::Down]);
    snapshot("roofline", &state);
    press(&mut state, &[KeyPress::Char('v')]);
    snapshot("roofline_table", &state);
}

#[test]
fn one_kind_of_operators_under_every_roof_narrowed() {
    let mut state = focused(Pane::Roofline);
    press(&mut state, &[KeyPress::Char('/'), KeyPress::Char('p'), KeyPress::Char('+')]);
    snapshot("roofline_zoom", &state);
}

#[test]
fn a_plan_against_its_baseline() {
    let mut state = focused(Pane::Plan);
    press(
        &mut state,
        &[
            KeyPress::Char('b'),
            KeyPress::Home,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Right,
        ],
    );
    snapshot("baseline", &state);
}

#[test]
fn every_field_with_the_values_beside_it() {
    let mut state = focused(Pane::Plan);
    press(&mut state, &[KeyPress::Char('z'), KeyPress::Down]);
    snapshot("plan_zoomed", &state);
}

#[test]
fn the_plan_as_text_with_an_offer_and_a_fault() {
    let mut state = focused(Pane::Plan);
    press(&mut state, &[KeyPress::Char('e')]);
    snapshot("text", &state);
    press(&mut state, &[KeyPress::Up, KeyPress::End, KeyPress::Enter, KeyPress::Char('d'), KeyPress::Char('e')]);
    snapshot("text_offer", &state);
}

#[test]
fn a_list_of_cards() {
    let mut state = focused(Pane::Plan);
    press(&mut state, &[KeyPress::Down, KeyPress::Down, KeyPress::Enter, KeyPress::Char('h'), KeyPress::Char('2')]);
    snapshot("picker", &state);
}

#[test]
fn what_is_to_be_saved() {
    let mut state = focused(Pane::Plan);
    press(
        &mut state,
        &[KeyPress::End, KeyPress::Right, KeyPress::Up, KeyPress::Up, KeyPress::Right, KeyPress::Char('s')],
    );
    snapshot("diff", &state);
}

#[test]
fn a_sweep_of_one_key_and_of_two() {
    let mut state = focused(Pane::Plan);
    press(
        &mut state,
        &[
            KeyPress::Home,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Char('w'),
        ],
    );
    snapshot("sweep", &state);
    press(
        &mut state,
        &[
            KeyPress::Char('a'),
            KeyPress::Char('t'),
            KeyPress::Char('e'),
            KeyPress::Char('n'),
            KeyPress::Char('s'),
            KeyPress::Enter,
        ],
    );
    snapshot("sweep_two", &state);
}

#[test]
fn the_largest_that_fits_and_an_export() {
    let mut state = focused(Pane::Plan);
    press(&mut state, &[KeyPress::Char('m')]);
    snapshot("largest", &state);
    press(&mut state, &[KeyPress::Esc, KeyPress::Char('E'), KeyPress::Down, KeyPress::Enter]);
    snapshot("export", &state);
}

#[test]
fn a_search_under_way_and_what_it_found() {
    let mut state = focused(Pane::Plan);
    press(&mut state, &[KeyPress::Char('f')]);
    snapshot("search_begins", &state);
    let answer = SearchRequest::of(&state).unwrap().answer(&SearchProgress::default(), &|_| {}).map(Box::new);
    update(&mut state, Event::Searched { number: 1, answer });
    press(&mut state, &[KeyPress::Down]);
    snapshot("search", &state);
}

#[test]
fn open_plans_in_a_table() {
    let mut state = focused(Pane::Plan);
    press(&mut state, &[KeyPress::Char('d'), KeyPress::End, KeyPress::Right, KeyPress::Char('=')]);
    snapshot("plans", &state);
}

#[test]
fn the_monitor_pane_attached_to_a_process() {
    let mut state = focused(Pane::Monitor);
    press(&mut state, &[KeyPress::End, KeyPress::Enter, KeyPress::Up]);
    snapshot("monitor", &state);
}

#[test]
fn the_history_of_the_selected_gpu() {
    let mut state = focused(Pane::Monitor);
    press(&mut state, &[KeyPress::Char('h'), KeyPress::Down]);
    snapshot("history", &state);
    press(&mut state, &[KeyPress::Left, KeyPress::Char('z')]);
    snapshot("history_zoomed", &state);
    // One metric over the others, of all GPUs.
    press(&mut state, &[KeyPress::Char('m'), KeyPress::Char('+'), KeyPress::Char('d')]);
    snapshot_small("history_over", &state);
}

#[test]
fn a_recording_that_is_played() {
    let mut state = open("13b_long_sequence");
    let position = |millis| Playback {
        start: START,
        end: START.plus_millis(3_600_000),
        at: START.plus_millis(millis),
        speed: 4.0,
        paused: true,
        rewound: 0,
        from: 0,
        going_to: None,
        found: None,
        damage: None,
    };
    update(&mut state, Event::Played(position(0)));
    run(&mut state, 120);
    update(&mut state, Event::Played(position(119_000)));
    // The clock on the wall is another one.
    update(&mut state, Event::Tick(START.plus_millis(86_400_000)));
    snapshot("replay", &state);
}

#[test]
fn what_is_observed_being_recorded() {
    let mut state = focused(Pane::Monitor);
    press(&mut state, &[KeyPress::Char('r')]);
    update(&mut state, Event::Recording("memwall-20260921T141320Z.ndjson".into()));
    snapshot("recording", &state);
}

#[test]
fn the_compare_pane() {
    snapshot_small("compare", &focused(Pane::Compare));
}

#[test]
fn a_zoomed_pane() {
    let mut state = focused(Pane::Vram);
    press(&mut state, &[KeyPress::Char('z')]);
    snapshot("zoomed", &state);
}

#[test]
fn the_help() {
    let mut state = focused(Pane::Plan);
    press(&mut state, &[KeyPress::Char('?')]);
    snapshot("help", &state);
}

#[test]
fn the_topics_are_searched_and_read() {
    let mut state = focused(Pane::Monitor);
    press(&mut state, &[KeyPress::Char('?'), KeyPress::Char('/')]);
    snapshot("topics", &state);
    press(&mut state, &"fewest".chars().map(KeyPress::Char).collect::<Vec<_>>());
    press(&mut state, &[KeyPress::Enter, KeyPress::Down]);
    snapshot("topic", &state);
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!(state.dialogs.overlay, None);
}

#[test]
fn a_plan_that_does_not_fit() {
    let mut state = focused(Pane::Plan);
    for _ in 0..6 {
        press(&mut state, &[KeyPress::Down]);
    }
    press(&mut state, &[KeyPress::Right, KeyPress::Right]);
    snapshot_small("does_not_fit", &state);
    press(&mut state, &[KeyPress::Char('X')]);
    snapshot_small("fixes", &state);
}

#[test]
fn a_broken_value() {
    let mut state = focused(Pane::Plan);
    press(
        &mut state,
        &[KeyPress::Down, KeyPress::Down, KeyPress::Down, KeyPress::Enter, KeyPress::Char('7'), KeyPress::Enter],
    );
    snapshot("broken", &state);
}

#[test]
fn a_gpu_that_is_gone_and_figures_that_are_old() {
    let mut state = focused(Pane::Monitor);
    let mut sample = state.monitor.sample.clone().unwrap();
    sample.devices[2].memory = Reading::Absent(Absence::Gone);
    sample.devices[2].dram_bandwidth = Reading::Absent(Absence::Gone);
    sample.devices[3].tensor_activity = Reading::Absent(Absence::NotSupported);
    let later = sample.at.plus_millis(42_000);
    update(&mut state, Event::Sample(Box::new(sample)));
    update(&mut state, Event::Tick(later));
    press(&mut state, &[KeyPress::Down, KeyPress::Down]);
    snapshot("gone", &state);
}

#[test]
fn a_source_that_failed() {
    let mut state = open("13b_long_sequence");
    update(&mut state, Event::SourceFailed("the NVIDIA driver is not loaded: run nvidia-smi to see why".to_owned()));
    state.views.focus = Pane::Monitor;
    snapshot("source_failed", &state);
}

#[test]
fn ascii_alone() {
    let state = focused(Pane::Roofline);
    let plain = Look::new(look().theme, true);
    for size in SIZES {
        let drawn = screen(&state, &plain, size);
        assert!(drawn.is_ascii());
        assert_drawn(&format!("ascii_{}x{}", size.0, size.1), &drawn);
    }
}

#[test]
fn without_colours_no_cell_has_one() {
    let state = focused(Pane::Vram);
    let look = Look::new(Theme::colourless(), false);
    let mut terminal = Terminal::new(TestBackend::new(200, 50)).unwrap();
    terminal.draw(|frame| memwall::ui::draw(&state, &look, frame)).unwrap();
    for cell in &terminal.backend().buffer().content {
        assert_eq!((cell.fg, cell.bg), (ratatui::style::Color::Reset, ratatui::style::Color::Reset));
    }
}

#[test]
fn every_size_draws_without_panic() {
    for example in ["13b_long_sequence", "70b_hybrid_training"] {
        let mut state = after_two_minutes(example);
        for pane in Pane::ALL {
            state.views.focus = pane;
            for zoomed in [false, true] {
                state.views.zoomed = zoomed;
                for width in (1..=210).step_by(19) {
                    for height in (1..=60).step_by(11) {
                        screen(&state, &look(), (width, height));
                    }
                }
            }
        }
    }
}
