//! The plan as text, several plans, the baseline, lists, the palette: through keys.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "support/demo.rs"]
mod demo;
#[path = "support/plan.rs"]
mod plan;

use std::path::PathBuf;

use memwall::advise::{Progress, throughput};
use memwall::app::{
    Conflict, Effect, Event, InTheWay, Key, Keymap, Overlay, Pane, Purpose, SearchWish, State, Target, offer, update,
};
use memwall::predict::Verdict;
use plan::open;

const PLAN: &str = "\
# mine
model:
  preset: llama-2-7b   # the base
  batch_size: 32
  sequence_length: 2048

training:
  precision: bf16-mixed
  micro_batch_size: 4
hardware: {gpu_type: NVIDIA H100}
cluster:
  num_gpus: 8
distribution:
  strategy: zero3
";

fn press(state: &mut State, keys: &[Key]) -> Vec<Effect> {
    keys.iter().flat_map(|key| update(state, Event::Key(*key))).collect()
}

fn letters(state: &mut State, text: &str) -> Vec<Effect> {
    press(state, &text.chars().map(Key::Char).collect::<Vec<_>>())
}

fn go_to(state: &mut State, key: &str) {
    press(state, &[Key::Char('1')]);
    state.form.select(key, &state.editor);
    press(state, &[Key::Down, Key::Up]);
}

#[test]
fn letters_typed_into_the_text_change_the_plan_at_once() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Char('e')]);
    assert_eq!(state.text.as_ref().unwrap().cursor(), (4, 19), "at the field's value");
    let before = state.editor.prediction().unwrap().capacity.needed;
    press(&mut state, &[Key::End, Key::Backspace, Key::Backspace, Key::Backspace, Key::Backspace]);
    letters(&mut state, "4096");
    assert_eq!(state.editor.text(), PLAN.replace("2048", "4096"));
    assert!(state.editor.prediction().unwrap().capacity.needed > before);
    press(&mut state, &[Key::Esc]);
    assert_eq!(state.form.field(&state.editor).unwrap().key(), "model.sequence_length");
}

#[test]
fn while_the_text_is_broken_the_last_good_plan_stays_and_the_fault_has_its_place() {
    let mut state = open(PLAN);
    let good = state.editor.prediction().unwrap().clone();
    press(&mut state, &[Key::Char('e'), Key::PageUp, Key::Down, Key::Home]);
    letters(&mut state, "  x: [");
    assert!(state.editor.document().is_none());
    assert_eq!(state.editor.faults()[0].at.map(|at| at.line >= 2), Some(true));
    assert_eq!(state.editor.prediction(), Some(&good));
    // The form says so and changes nothing.
    press(&mut state, &[Key::Esc]);
    let broken = state.editor.text().to_owned();
    press(&mut state, &[Key::Right]);
    assert_eq!(state.editor.text(), broken);
    // Opened again, the cursor is at the fault; undo mends it.
    press(&mut state, &[Key::Char('e')]);
    while state.editor.modified() {
        press(&mut state, &[Key::Ctrl('z')]);
    }
    assert_eq!((state.editor.text(), state.editor.faults()), (PLAN, [].as_slice()));
}

#[test]
fn keys_and_values_are_completed_from_the_schema() {
    let mut state = open(PLAN);
    go_to(&mut state, "training.precision");
    press(&mut state, &[Key::Char('e'), Key::End, Key::Enter]);
    letters(&mut state, "optim");
    assert_eq!(state.text.as_ref().unwrap().completion.as_ref().unwrap().choice().unwrap().name, "optimizer");
    press(&mut state, &[Key::Tab]);
    letters(&mut state, "8bit");
    press(&mut state, &[Key::Tab]);
    assert!(state.editor.text().contains("\n  optimizer: adamw-8bit\n"), "{}", state.editor.text());
    assert_eq!(state.editor.faults(), []);
    assert_eq!(state.text.as_ref().unwrap().key().unwrap().path, "training.optimizer");
}

#[test]
fn the_largest_batch_that_fits_fits_and_one_more_does_not() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.batch_size");
    press(&mut state, &[Key::Char('m')]);
    let found = state.largest.clone().unwrap();
    let next = found.next.unwrap();
    assert!(next.capacity.needed > next.capacity.bytes && found.size.capacity.needed <= next.capacity.bytes);
    assert_eq!(state.editor.text(), PLAN, "shown, not taken");
    press(&mut state, &[Key::Enter]);
    let prediction = state.editor.prediction().unwrap();
    assert_ne!(prediction.capacity.verdict(), Verdict::DoesNotFit);
    let job = state.editor.job().unwrap();
    let (batch, micro) = (job.batch.global, job.batch.micro);
    assert_eq!(batch, micro * 8, "8 replicas, one micro batch each as before");
    let more = state
        .editor
        .text()
        .replace(&format!("batch_size: {batch}"), &format!("batch_size: {}", batch + 8))
        .replace(&format!("micro_batch_size: {micro}"), &format!("micro_batch_size: {}", micro + 1));
    assert_eq!(open(&more).editor.prediction().unwrap().capacity.verdict(), Verdict::DoesNotFit);
    let said = format!("micro batch {micro}, batch {batch} = {micro} x 8 replicas x 1 accumulation step");
    assert!(state.notice.as_ref().unwrap().text.contains(&said), "{:?}", state.notice);
    // Asked for again, it is that already.
    press(&mut state, &[Key::Char('m'), Key::Enter]);
    assert_eq!(state.editor.job().unwrap().batch.global, batch);
}

#[test]
fn a_baseline_tells_what_changed_and_is_let_go() {
    let mut state = open(PLAN);
    press(&mut state, &[Key::Char('b')]);
    let needed = state.editor.prediction().unwrap().capacity.needed;
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right]);
    let prediction = state.editor.prediction().unwrap();
    let outcome = state.baseline.as_ref().unwrap().outcome(prediction);
    assert_eq!(outcome.memory, prediction.capacity.needed - needed);
    // Pinned again it moves here; then it is let go.
    press(&mut state, &[Key::Char('b')]);
    assert_eq!(state.baseline.as_ref().unwrap().outcome(state.editor.prediction().unwrap()).memory.0, 0);
    press(&mut state, &[Key::Char('b')]);
    assert!(state.baseline.is_none());
}

#[test]
fn copies_are_tabs_of_their_own() {
    let mut state = open(PLAN);
    press(&mut state, &[Key::Char('d')]);
    assert_eq!((state.editor.name(), state.tabs.place()), ("test-2", (1, 2)));
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right]);
    assert!(state.editor.text().contains("4096"));
    press(&mut state, &[Key::Char('[')]);
    assert_eq!((state.editor.name(), state.editor.text()), ("test", PLAN));
    press(&mut state, &[Key::Char('='), Key::Down, Key::Enter]);
    assert_eq!((state.editor.name(), state.overlay), ("test-2", None));
    // With unsaved changes it is not closed; leaving asks about it wherever one is.
    press(&mut state, &[Key::Ctrl('w')]);
    assert_eq!(state.tabs.place().1, 2);
    press(&mut state, &[Key::Char(']'), Key::Char('q')]);
    assert_eq!((state.editor.name(), state.overlay), ("test-2", Some(Overlay::ConfirmQuit)));
    assert_eq!(press(&mut state, &[Key::Char('q')]).last(), Some(&Effect::Quit));
}

#[test]
fn a_plan_is_opened_from_the_list_beside_the_first() {
    let mut state = open(PLAN);
    assert_eq!(press(&mut state, &[Key::Char('o')]), [Effect::ListPlans]);
    update(
        &mut state,
        Event::PlansListed(["plans/big.yaml", "small.yaml"].map(|path| (path.into(), "file".into())).to_vec()),
    );
    letters(&mut state, "big");
    assert_eq!(press(&mut state, &[Key::Enter]), [Effect::Open(PathBuf::from("plans/big.yaml"))]);
    let (name, path) = ("big".to_owned(), PathBuf::from("plans/big.yaml"));
    let text = "model: {preset: gpt2}\n".to_owned();
    update(&mut state, Event::Opened { name: name.clone(), path: path.clone(), text: text.clone(), recovered: None });
    assert_eq!((state.editor.name(), state.tabs.place()), ("big", (1, 2)));
    // A second time it comes to the front as it is.
    press(&mut state, &[Key::Char('[')]);
    update(&mut state, Event::Opened { name, path, text, recovered: None });
    assert_eq!((state.editor.name(), state.tabs.place()), ("big", (1, 2)));
    // What is no plan yet is opened as text, at its fault.
    let broken = "model:\n  preset: gpt2\n  bach_size: 3\n".to_owned();
    let (name, path) = ("broken".to_owned(), PathBuf::from("broken.yaml"));
    update(&mut state, Event::Opened { name, path, text: broken, recovered: None });
    assert_eq!(state.text.as_ref().unwrap().cursor(), (2, 2));
}

#[test]
fn unsaved_text_is_kept_until_it_is_saved_or_taken_back() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    let effects = press(&mut state, &[Key::Right]);
    let [Effect::Keep(kept)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(kept.text, PLAN.replace("2048", "4096"));
    assert_eq!(press(&mut state, &[Key::Down]), [], "it is kept already");
    assert!(matches!(press(&mut state, &[Key::Char('u')]).as_slice(), [Effect::Forget { .. }]));
    // The terminal goes: what is unsaved was kept before.
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    state.form.upper.as_ref().unwrap();
    let effects = press(&mut state, &[Key::Right]);
    assert!(matches!(effects.as_slice(), [Effect::Keep(_)]));
    assert_eq!(update(&mut state, Event::TerminalGone), [Effect::Quit]);
}

#[test]
fn what_was_kept_is_offered_and_taken_back_as_an_edit() {
    let mut state = open(PLAN);
    let kept = PLAN.replace("2048", "8192");
    offer(&mut state, Some(kept.clone()));
    assert_eq!(state.overlay, Some(Overlay::Recovered(0)));
    press(&mut state, &[Key::Char('r')]);
    assert_eq!((state.editor.text(), state.editor.modified()), (kept.as_str(), true));
    press(&mut state, &[Key::Char('u')]);
    assert_eq!(state.editor.text(), PLAN);
    offer(&mut state, Some(PLAN.to_owned()));
    assert_eq!(state.overlay, None, "nothing is different");
    offer(&mut state, Some(kept));
    // It is not passed by: the next edit would take its place.
    press(&mut state, &[Key::Down]);
    assert_eq!(state.overlay, Some(Overlay::Recovered(1)));
    press(&mut state, &[Key::Esc]);
    assert!(state.overlay.is_some());
    assert!(matches!(press(&mut state, &[Key::Char('d')]).as_slice(), [Effect::Forget { .. }]));
}

/// Somebody else wrote that to the plan's file.
fn newer(theirs: &str) -> Event {
    Event::SaveRefused(Conflict { path: "test.yaml".into(), found: InTheWay::Newer(Some(theirs.to_owned())) })
}

#[test]
fn both_sets_of_changes_are_merged() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right, Key::Char('s'), Key::Char('s')]);
    // The neighbouring line: lines meet, values do not.
    let theirs = PLAN.replace("batch_size: 32", "batch_size: 64 # theirs");
    update(&mut state, newer(&theirs));
    press(&mut state, &[Key::Char('m')]);
    assert_eq!(state.editor.text(), theirs.replace("2048", "4096"));
    assert_eq!(state.editor.saved_text(), theirs);
    // The same value twice: both stand there, between marks.
    press(&mut state, &[Key::Char('s'), Key::Char('s')]);
    let again = theirs.replace("2048", "1024");
    update(&mut state, newer(&again));
    press(&mut state, &[Key::Char('m')]);
    let text = state.editor.text();
    assert!(text.contains("<<<<<<<") && text.contains("4096") && text.contains("1024"), "{text}");
    assert!(state.text.is_some() && !state.editor.faults().is_empty());
}

#[test]
fn actions_are_found_by_parts_of_their_names() {
    let mut state = open(PLAN);
    press(&mut state, &[Key::Char(':')]);
    assert_eq!(state.picker.as_ref().unwrap().purpose, Purpose::Action);
    letters(&mut state, "foc roof");
    press(&mut state, &[Key::Enter]);
    assert_eq!((state.focus, state.picker.is_none()), (Pane::Roofline, true));
    // An action of a pane goes to that pane.
    press(&mut state, &[Key::Char(':')]);
    letters(&mut state, "add key");
    press(&mut state, &[Key::Enter]);
    assert_eq!(state.focus, Pane::Plan);
    assert_eq!(state.picker.as_ref().unwrap().purpose, Purpose::NewKey);
}

#[test]
fn a_key_is_added_and_taken_out() {
    let mut state = open(PLAN);
    press(&mut state, &[Key::Char('a')]);
    letters(&mut state, "clipping");
    press(&mut state, &[Key::Enter]);
    if state.picker.is_some() {
        letters(&mut state, "true");
    } else {
        letters(&mut state, "1.0");
    }
    press(&mut state, &[Key::Enter]);
    assert!(state.editor.text().contains("gradient_clipping: "), "{}", state.editor.text());
    assert_eq!(state.form.field(&state.editor).unwrap().key(), "training.gradient_clipping");
    press(&mut state, &[Key::Char('x')]);
    assert_eq!(state.editor.text(), PLAN);
    // One that is left again is not written.
    press(&mut state, &[Key::Char('a')]);
    letters(&mut state, "total_tokens");
    press(&mut state, &[Key::Enter, Key::Char('3'), Key::Esc]);
    assert_eq!(state.editor.text(), PLAN);
}

#[test]
fn numbers_take_units_and_say_what_they_would_do() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Enter]);
    letters(&mut state, "8k");
    let step = state.form.typed.as_ref().unwrap();
    assert_eq!(step.value, "8192");
    let announced = step.outcome;
    let before = state.editor.prediction().unwrap().capacity.needed;
    press(&mut state, &[Key::Enter]);
    assert_eq!(state.editor.text(), PLAN.replace("2048", "8192"));
    assert_eq!(state.editor.prediction().unwrap().capacity.needed - before, announced.memory);
}

#[test]
fn ones_own_keys_do_what_they_are_told() {
    let mut state = open(PLAN);
    state.keys = Keymap::parse("plan: {w: save, s: none}\nanywhere: {ctrl-q: quit}\n").unwrap();
    assert_eq!(press(&mut state, &[Key::Char('s')]), []);
    assert_eq!(state.overlay, None);
    assert_eq!(press(&mut state, &[Key::Ctrl('q')]), [Effect::Quit]);
}

#[test]
fn a_configuration_that_is_named_anew_is_asked_for() {
    let mut state = open("model: {preset: gpt2}\n");
    press(&mut state, &[Key::Char('e'), Key::End, Key::Left]);
    let effects = letters(&mut state, ", hf_config: a.json");
    let named = |effect: &Effect| matches!(effect, Effect::ReadConfig { named, .. } if named == "a.json");
    assert!(effects.iter().any(named), "{effects:?}");
    let config = Err("a.json: there is no such file".to_owned());
    update(&mut state, Event::ConfigRead { named: "a.json".to_owned(), config });
    assert!(state.editor.faults()[0].to_string().contains("no such file"));
}

/// Whatever a file holds is opened as it is, marked where it is wrong, and given back to the byte.
#[test]
fn odd_texts_are_opened_marked_and_kept() {
    let bomb: String = std::iter::once("a0: &a0 [x, x]\n".to_owned())
        .chain((1..40).map(|level| format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1)))
        .collect();
    let deep = format!("model: {}1{}\n", "[".repeat(5000), "]".repeat(5000));
    let large = format!("model: {{preset: gpt2}}\n# {}\n", "x".repeat(10_000_000));
    for (text, line, said) in [
        ("model:\n\tpreset: gpt2\n", Some(2), "a tab cannot indent"),
        ("model:\r\n  preset: gpt2\r\n  bach_size: 1\r\n", Some(3), "did you mean `batch_size`"),
        ("\u{feff}model:\n  batch_size: lots\n", Some(2), "a whole number"),
        ("model:\n  batch_size: 1\n  batch_size: 2\n", Some(3), "given twice"),
        ("model: {preset: gpt2\n", Some(1), "this brace `{` is never closed"),
        (bomb.as_str(), None, "values"),
        (deep.as_str(), Some(1), "nested deeper"),
        (large.as_str(), None, "too large"),
    ] {
        let mut state = open("model: {preset: gpt2}\n");
        let (name, path) = ("odd".to_owned(), PathBuf::from("odd.yaml"));
        update(&mut state, Event::Opened { name, path, text: text.to_owned(), recovered: None });
        let faults = state.editor.faults();
        let shown: String = text.chars().take(60).collect();
        assert!(faults.iter().any(|fault| fault.to_string().contains(said)), "{shown}: {faults:?}");
        if let Some(line) = line {
            assert_eq!(faults[0].at.map(|at| at.line), Some(line), "{shown}: {faults:?}");
        }
        // It is there as text, nothing was changed by opening it, and typing is taken back whole.
        assert!(state.text.is_some());
        assert_eq!(state.editor.text(), text);
        press(&mut state, &[Key::Char('x'), Key::Enter, Key::Ctrl('z'), Key::Ctrl('z'), Key::Ctrl('z')]);
        assert!(state.editor.text() == text, "{shown}");
    }
}

#[test]
fn a_point_of_a_sweep_is_taken_as_one_edit() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Char('w')]);
    assert_eq!(state.overlay, Some(Overlay::Sweep));
    press(&mut state, &[Key::Char('a')]);
    letters(&mut state, "checkp");
    press(&mut state, &[Key::Enter]);
    let view = state.sweep.as_ref().unwrap();
    assert_eq!(
        view.sweep.axes.iter().map(|axis| axis.key.path).collect::<Vec<_>>(),
        ["model.sequence_length", "training.activation_checkpointing"]
    );
    // From 2048 and no checkpointing to 4096 and the last: full.
    press(&mut state, &[Key::Down, Key::Right, Key::Right, Key::Right, Key::Enter]);
    let text = state.editor.text();
    assert!(text.contains("sequence_length: 4096") && text.contains("activation_checkpointing: full"), "{text}");
    let view = state.sweep.as_ref().unwrap();
    let point = view.sweep.points[view.selected].outcome.as_ref().unwrap();
    assert_eq!(point.capacity, state.editor.prediction().unwrap().capacity);
    press(&mut state, &[Key::Char('u')]);
    assert_eq!(state.editor.text(), PLAN);
}

#[test]
fn the_mouse_chooses_fields_and_places_in_the_text() {
    let mut state = open(PLAN);
    update(&mut state, Event::Click(Target::Row { pane: Pane::Plan, row: 6, column: 3 }));
    assert_eq!(state.form.field(&state.editor).unwrap().key(), "model.sequence_length");
    press(&mut state, &[Key::Char('e')]);
    update(&mut state, Event::Click(Target::Row { pane: Pane::Plan, row: 3, column: 5 }));
    assert_eq!(state.text.as_ref().unwrap().cursor(), (3, 5));
    update(&mut state, Event::Click(Target::Scroll { pane: Pane::Roofline, rows: 1 }));
    assert_eq!((state.focus, state.roofline.selected), (Pane::Roofline, 1));
}

/// Answers the search that the keys have asked for, as the loop does on a thread.
fn searched(state: &mut State, effects: &[Effect]) {
    let Some(Effect::Search(number)) = effects.last() else { panic!("no search: {effects:?}") };
    let answer = SearchWish::of(state).unwrap().answer(&Progress::default(), &|_| {}).map(Box::new);
    update(state, Event::Searched { number: *number, answer });
}

#[test]
fn a_plan_that_a_search_found_is_taken_as_one_edit() {
    let mut state = open(PLAN);
    let effects = press(&mut state, &[Key::Char('f')]);
    searched(&mut state, &effects);
    let view = state.search.as_ref().unwrap();
    let rows = view.rows();
    let speeds: Vec<f64> = rows.iter().map(|row| throughput(&row.plan.outline)).collect();
    assert!(speeds.len() > 1 && speeds.is_sorted_by(|a, b| a >= b), "{speeds:?}");
    let wanted = rows[1].plan.outline.capacity;
    press(&mut state, &[Key::Down, Key::Enter]);
    assert_eq!(state.overlay, None);
    assert_eq!(state.editor.prediction().unwrap().capacity, wanted);
    assert!(state.editor.text().contains("# the base"));
    // It is there still, around what is the plan no more; then around the new one.
    press(&mut state, &[Key::Char('u')]);
    assert_eq!(state.editor.text(), PLAN);
    assert_eq!(press(&mut state, &[Key::Char('f')]), Vec::new());
    assert!(!state.search.as_ref().unwrap().rows().is_empty());
}

#[test]
fn constraints_hold_for_what_a_search_finds() {
    let mut state = open(PLAN);
    let effects = press(&mut state, &[Key::Char('f')]);
    searched(&mut state, &effects);
    press(&mut state, &[Key::Char('g'), Key::Ctrl('u')]);
    let effects = [letters(&mut state, "16"), press(&mut state, &[Key::Enter])].concat();
    searched(&mut state, &effects);
    press(&mut state, &[Key::Char('k')]);
    let effects = [letters(&mut state, "tensor_par"), press(&mut state, &[Key::Enter])].concat();
    searched(&mut state, &effects);
    let view = state.search.as_ref().unwrap();
    let rows = view.rows();
    assert!(!rows.is_empty());
    for row in rows {
        let knobs = &row.plan.knobs;
        assert_eq!((knobs.data * knobs.tensor * knobs.pipeline * knobs.context, knobs.tensor), (16, 1));
    }
    // The plan in front is as it was until one is taken.
    assert_eq!(state.editor.text(), PLAN);
    press(&mut state, &[Key::Enter]);
    assert_eq!(state.editor.said("cluster.num_gpus").as_deref(), Some("16"));
}

#[test]
fn the_fewest_gpus_and_the_largest_model_are_taken_with_the_plan_that_was_found() {
    let mut state = open(PLAN);
    let effects = press(&mut state, &[Key::Char('f'), Key::Char('a')]);
    searched(&mut state, &effects);
    let rows = state.search.as_ref().unwrap().rows();
    let (label, found) = (rows[0].label.clone(), rows[0].plan.outline.clone());
    press(&mut state, &[Key::Enter]);
    assert_eq!(format!("{} GPUs", state.editor.said("cluster.num_gpus").unwrap()), label);
    assert_eq!(state.editor.prediction().unwrap().capacity, found.capacity);
    press(&mut state, &[Key::Char('u')]);
    assert_eq!(state.editor.text(), PLAN);

    press(&mut state, &[Key::Char('f')]);
    let effects = press(&mut state, &[Key::Char('a')]);
    searched(&mut state, &effects);
    let rows = state.search.as_ref().unwrap().rows();
    let (label, found) = (rows[0].label.clone(), rows[0].plan.outline.clone());
    press(&mut state, &[Key::Enter]);
    assert_eq!(state.editor.said("model.preset"), Some(label));
    assert_eq!(state.editor.prediction().unwrap().capacity, found.capacity);
}

#[test]
fn an_answer_to_another_search_is_none() {
    let mut state = open(PLAN);
    press(&mut state, &[Key::Char('f')]);
    update(&mut state, Event::Searched { number: 7, answer: Err("late".to_owned()) });
    assert!(state.search.as_ref().unwrap().under_way.is_some());
    // Left while it is under way, it is stopped.
    assert_eq!(press(&mut state, &[Key::Esc]), [Effect::CancelSearch]);
}

#[test]
fn both_walls_of_a_sweep_may_stand_at_one_point() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Char('w')]);
    let view = state.sweep.as_ref().unwrap();
    let marks: Vec<_> = (0..view.sweep.points.len()).map(|index| view.marks(index)).collect();
    assert_eq!(marks.iter().filter(|marks| marks.last_that_fits).count(), 1);
    assert_eq!(view.walls_here().count(), 1, "one line, one pair of walls");
    // Over two keys each line has its own; the selected point lies on one line of each.
    press(&mut state, &[Key::Char('a')]);
    letters(&mut state, "tensor");
    press(&mut state, &[Key::Enter]);
    let view = state.sweep.as_ref().unwrap();
    assert!(view.sweep.walls.len() > 2);
    assert_eq!(view.walls_here().map(|wall| wall.axis).collect::<Vec<_>>(), [0, 1]);
    press(&mut state, &[Key::Char('v')]);
    assert!(state.sweep.as_ref().unwrap().memory && state.overlay == Some(Overlay::Sweep));
}

#[test]
fn questions_of_the_bottom_line_fit_a_narrow_screen() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right]);
    let found = [InTheWay::Newer(Some(String::new())), InTheWay::Newer(None), InTheWay::Other(None), InTheWay::Nothing];
    let narrow = |state: &State| {
        let shown = demo::screen(state, &demo::look(), (80, 24));
        let footer = shown.lines().last().unwrap();
        assert!(footer.len() > 10 && !footer.contains('…'), "{footer}");
    };
    for found in found {
        update(&mut state, Event::SaveRefused(Conflict { path: "test.yaml".into(), found }));
        narrow(&state);
        press(&mut state, &[Key::Esc]);
    }
    for keys in
        [vec![Key::Char('m')], vec![Key::Char('w')], vec![Key::Char('f')], vec![Key::Char('s')], vec![Key::Char('q')]]
    {
        press(&mut state, &keys);
        narrow(&state);
        press(&mut state, &[Key::Esc]);
    }
    offer(&mut state, Some("model: {}\n".to_owned()));
    narrow(&state);
}
