//! The largest batch, sweeps and searches, taken into the plan.

use memwall::advise::{SearchProgress, advise, throughput};
use memwall::app::{Effect, Event, KeyPress, Overlay, SearchRequest, State, WhatIfError, update};
use memwall::predict::Verdict;

use super::{PLAN, go_to, letters, press};
use crate::support::demo::{look, screen};
use crate::support::plan::open;

#[test]
fn the_largest_batch_that_fits_fits_and_one_more_does_not() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.batch_size");
    press(&mut state, &[KeyPress::Char('m')]);
    let found = state.dialogs.largest.clone().unwrap();
    let next = found.next.unwrap();
    assert!(next.capacity.needed > next.capacity.bytes && found.size.capacity.needed <= next.capacity.bytes);
    assert_eq!(state.plans.editor.text(), PLAN, "shown, not taken");
    press(&mut state, &[KeyPress::Enter]);
    let prediction = state.plans.editor.prediction().unwrap();
    assert_ne!(prediction.capacity.verdict(), Verdict::DoesNotFit);
    let job = state.plans.editor.job().unwrap();
    let (batch, micro) = (job.batch.global, job.batch.micro);
    assert_eq!(batch, micro * 8, "8 replicas, one micro batch each as before");
    let more = state
        .plans
        .editor
        .text()
        .replace(&format!("batch_size: {batch}"), &format!("batch_size: {}", batch + 8))
        .replace(&format!("micro_batch_size: {micro}"), &format!("micro_batch_size: {}", micro + 1));
    assert_eq!(open(&more).plans.editor.prediction().unwrap().capacity.verdict(), Verdict::DoesNotFit);
    let said = format!("micro batch {micro}, batch {batch} = {micro} x 8 replicas x 1 accumulation step");
    assert!(state.notice.as_ref().unwrap().text.contains(&said), "{:?}", state.notice);
    // Asked for again, it is that already.
    press(&mut state, &[KeyPress::Char('m'), KeyPress::Enter]);
    assert_eq!(state.plans.editor.job().unwrap().batch.global, batch);
}

#[test]
fn a_point_of_a_sweep_is_taken_as_one_edit() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Char('w')]);
    assert_eq!(state.dialogs.overlay, Some(Overlay::Sweep));
    press(&mut state, &[KeyPress::Char('a')]);
    letters(&mut state, "checkp");
    press(&mut state, &[KeyPress::Enter]);
    let view = state.dialogs.sweep.as_ref().unwrap();
    assert_eq!(
        view.sweep.axes.iter().map(|axis| axis.key.path).collect::<Vec<_>>(),
        ["model.sequence_length", "training.activation_checkpointing"]
    );
    // From 2048 and no checkpointing to 4096 and the last: full.
    press(&mut state, &[KeyPress::Down, KeyPress::Right, KeyPress::Right, KeyPress::Right, KeyPress::Enter]);
    let text = state.plans.editor.text();
    assert!(text.contains("sequence_length: 4096") && text.contains("activation_checkpointing: full"), "{text}");
    let view = state.dialogs.sweep.as_ref().unwrap();
    let point = view.sweep.points[view.selected].outcome.as_ref().unwrap();
    assert_eq!(point.capacity, state.plans.editor.prediction().unwrap().capacity);
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!(state.plans.editor.text(), PLAN);
}

#[test]
fn a_second_key_without_other_values_says_so_over_the_sweep() {
    // One GPU is shared out in one way alone.
    let mut state = open(&PLAN.replace("num_gpus: 8", "num_gpus: 1"));
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Char('w'), KeyPress::Char('a')]);
    letters(&mut state, "tensor");
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.dialogs.overlay, Some(Overlay::Sweep));
    assert!(state.notice.as_ref().unwrap().text.contains("has no other values to try"), "{:?}", state.notice);
    let screen = crate::support::demo::screen(&state, &crate::support::demo::look(), (80, 24));
    assert!(screen.lines().last().unwrap().contains("has no other values to try"), "{screen}");
}

/// Answers the search that the keys have asked for, as the loop does on a thread.
fn searched(state: &mut State, effects: &[Effect]) {
    let Some(Effect::Search(number)) = effects.last() else { panic!("no search: {effects:?}") };
    let answer = SearchRequest::of(state).unwrap().answer(&SearchProgress::default(), &|_| {}).map(Box::new);
    update(state, Event::Searched { number: *number, answer });
}

#[test]
fn a_plan_that_a_search_found_is_taken_as_one_edit() {
    let mut state = open(PLAN);
    let effects = press(&mut state, &[KeyPress::Char('f')]);
    searched(&mut state, &effects);
    let view = state.dialogs.search.as_ref().unwrap();
    let rows = view.rows();
    let speeds: Vec<f64> = rows.iter().map(|row| throughput(&row.plan.outline)).collect();
    assert!(speeds.len() > 1 && speeds.is_sorted_by(|a, b| a >= b), "{speeds:?}");
    let wanted = rows[1].plan.outline.capacity;
    press(&mut state, &[KeyPress::Down, KeyPress::Enter]);
    assert_eq!(state.dialogs.overlay, None);
    assert_eq!(state.plans.editor.prediction().unwrap().capacity, wanted);
    assert!(state.plans.editor.text().contains("# the base"));
    // It is there still, around what is the plan no more; then around the new one.
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!(state.plans.editor.text(), PLAN);
    assert_eq!(press(&mut state, &[KeyPress::Char('f')]), Vec::new());
    assert!(!state.dialogs.search.as_ref().unwrap().rows().is_empty());
}

#[test]
fn constraints_hold_for_what_a_search_finds() {
    let mut state = open(PLAN);
    let effects = press(&mut state, &[KeyPress::Char('f')]);
    searched(&mut state, &effects);
    press(&mut state, &[KeyPress::Char('g'), KeyPress::Ctrl('u')]);
    let effects = [letters(&mut state, "16"), press(&mut state, &[KeyPress::Enter])].concat();
    searched(&mut state, &effects);
    press(&mut state, &[KeyPress::Char('k')]);
    let effects = [letters(&mut state, "tensor_par"), press(&mut state, &[KeyPress::Enter])].concat();
    searched(&mut state, &effects);
    let view = state.dialogs.search.as_ref().unwrap();
    let rows = view.rows();
    assert!(!rows.is_empty());
    for row in rows {
        let knobs = &row.plan.knobs;
        assert_eq!((knobs.data * knobs.tensor * knobs.pipeline * knobs.context, knobs.tensor), (16, 1));
    }
    // The plan in front is as it was until one is taken.
    assert_eq!(state.plans.editor.text(), PLAN);
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.plans.editor.said("cluster.num_gpus").as_deref(), Some("16"));
}

#[test]
fn the_fewest_gpus_and_the_largest_model_are_taken_with_the_plan_that_was_found() {
    let mut state = open(PLAN);
    let effects = press(&mut state, &[KeyPress::Char('f'), KeyPress::Char('a'), KeyPress::Char('a')]);
    searched(&mut state, &effects);
    let rows = state.dialogs.search.as_ref().unwrap().rows();
    let (label, found) = (rows[0].label.clone(), rows[0].plan.outline.clone());
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(format!("{} GPUs", state.plans.editor.said("cluster.num_gpus").unwrap()), label);
    assert_eq!(state.plans.editor.prediction().unwrap().capacity, found.capacity);
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!(state.plans.editor.text(), PLAN);

    // Of two GPUs there are few ways for each model.
    let mut state = open(&PLAN.replace("num_gpus: 8", "num_gpus: 2"));
    let effects =
        press(&mut state, &[KeyPress::Char('f'), KeyPress::Char('a'), KeyPress::Char('a'), KeyPress::Char('a')]);
    searched(&mut state, &effects);
    let rows = state.dialogs.search.as_ref().unwrap().rows();
    let (label, found) = (rows[0].label.clone(), rows[0].plan.outline.clone());
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.plans.editor.said("model.preset"), Some(label));
    assert_eq!(state.plans.editor.prediction().unwrap().capacity, found.capacity);
}

#[test]
fn gpu_batch_and_sequence_are_shown_and_chosen_and_the_batch_freed() {
    let mut state = open(&PLAN.replace("num_gpus: 8", "num_gpus: 2"));
    press(&mut state, &[KeyPress::Char('f')]);
    let mut effects = Vec::new();
    for (key, value) in [('u', "a100 sxm 80"), ('b', "64"), ('s', "4096")] {
        press(&mut state, &[KeyPress::Char(key), KeyPress::Ctrl('u')]);
        effects = [letters(&mut state, value), press(&mut state, &[KeyPress::Enter])].concat();
    }
    searched(&mut state, &effects);
    for size in [(60, 20), (80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        assert!(shown.contains("u GPU A100-80G  b batch 64  s sequence 4096"), "{shown}");
    }
    assert!(state.dialogs.search.as_ref().unwrap().rows().iter().all(|row| row.plan.knobs.batch() == 64));
    press(&mut state, &[KeyPress::Char('k')]);
    let effects = [letters(&mut state, "batch_size"), press(&mut state, &[KeyPress::Enter])].concat();
    searched(&mut state, &effects);
    let view = state.dialogs.search.as_ref().unwrap();
    assert!(view.free_batch && view.rows().iter().any(|row| row.plan.knobs.batch() != 64));
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains("b batch free") && shown.contains("k stays: nothing"), "{shown}");
}

#[test]
fn the_smallest_change_that_fits_is_an_aim_of_its_own() {
    let mut state =
        open(&PLAN.replace("micro_batch_size: 4", "micro_batch_size: 128").replace("size: 32", "size: 1024"));
    assert_eq!(state.plans.editor.prediction().unwrap().capacity.verdict(), Verdict::DoesNotFit);
    let effects = press(&mut state, &[KeyPress::Char('f'), KeyPress::Char('a')]);
    searched(&mut state, &effects);
    for size in [(60, 20), (80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        assert!(
            shown.contains("search · smallest change") && shown.contains("changing one key makes it fit"),
            "{shown}"
        );
        crate::snapshots::assert_drawn(&format!("search_smallest_{}x{}", size.0, size.1), &shown);
    }
    press(&mut state, &[KeyPress::Enter]);
    assert_ne!(state.plans.editor.prediction().unwrap().capacity.verdict(), Verdict::DoesNotFit);
}

#[test]
fn an_answer_to_another_search_is_none() {
    let mut state = open(PLAN);
    press(&mut state, &[KeyPress::Char('f')]);
    update(&mut state, Event::Searched { number: 7, answer: Err(WhatIfError::InvalidPlan) });
    assert!(state.dialogs.search.as_ref().unwrap().under_way.is_some());
    // Left while it is under way, it is stopped.
    assert_eq!(press(&mut state, &[KeyPress::Esc]), [Effect::CancelSearch]);
}

#[test]
fn both_walls_of_a_sweep_may_stand_at_one_point() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Char('w')]);
    let view = state.dialogs.sweep.as_ref().unwrap();
    let marks: Vec<_> = (0..view.sweep.points.len()).map(|index| view.marks(index)).collect();
    assert_eq!(marks.iter().filter(|marks| marks.last_that_fits).count(), 1);
    assert_eq!(view.walls_here().count(), 1, "one line, one pair of walls");
    // Over two keys each line has its own; the selected point lies on one line of each.
    press(&mut state, &[KeyPress::Char('a')]);
    letters(&mut state, "tensor");
    press(&mut state, &[KeyPress::Enter]);
    let view = state.dialogs.sweep.as_ref().unwrap();
    assert!(view.sweep.walls.len() > 2);
    assert_eq!(view.walls_here().map(|wall| wall.axis).collect::<Vec<_>>(), [0, 1]);
    press(&mut state, &[KeyPress::Char('v')]);
    assert!(state.dialogs.sweep.as_ref().unwrap().memory && state.dialogs.overlay == Some(Overlay::Sweep));
}

/// What does not fit has its first fix in its line, two keys from there, and it is the one that
/// `predict --bottlenecks` tells first.
#[test]
fn the_first_fix_is_two_keys_away_and_makes_the_plan_fit() {
    let too_large =
        PLAN.replace("micro_batch_size: 4", "micro_batch_size: 128").replace("batch_size: 32", "batch_size: 1024");
    let mut state = open(&too_large);
    let before = state.plans.editor.prediction().unwrap().clone();
    assert_eq!(before.capacity.verdict(), Verdict::DoesNotFit);
    let editor = &state.plans.editor;
    let advice = advise(editor.plan().unwrap(), editor.job().unwrap(), &before, &state.catalog);
    let first = advice.findings[0].fixes[0].clone();
    assert_eq!(advice.findings[0].kind, "does_not_fit");
    let shown = screen(&state, &look(), (200, 50));
    assert!(shown.contains("X fixes: micro batch 4,"), "{}\n{shown}", first.name);
    press(&mut state, &[KeyPress::Char('3'), KeyPress::Char('X')]);
    assert_eq!(state.dialogs.overlay, Some(Overlay::Fixes));
    for size in [(60, 20), (80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        let row = shown.lines().find(|line| line.contains('▸') && line.contains("fits"));
        let start: String = first.name.chars().take(6).collect();
        assert!(row.is_some_and(|row| row.contains(&start)), "{size:?}\n{shown}");
        assert!(shown.contains("critical: "), "{size:?}\n{shown}");
    }
    press(&mut state, &[KeyPress::Enter]);
    let prediction = state.plans.editor.prediction().unwrap();
    assert_eq!(prediction.capacity, first.outline.capacity);
    assert_ne!(prediction.capacity.verdict(), Verdict::DoesNotFit);
    assert!(state.notice.as_ref().unwrap().text.contains(&first.name), "{:?}", state.notice);
    press(&mut state, &[KeyPress::Char('1'), KeyPress::Char('u')]);
    assert_eq!(state.plans.editor.text(), too_large, "one edit");
}
