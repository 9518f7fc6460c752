//! Pauses of a run that are meant to be.

use super::*;

/// A run that evaluates or saves makes no step because it is meant to.
#[test]
fn an_evaluation_is_named_and_no_warning() {
    for (activity, call, words, said) in [
        (Activity::Evaluation, "evaluate", "EVALUATING", "41 s in evaluation (evaluate), train.py:47"),
        (Activity::Checkpoint, "torch.save", "CHECKPOINT", "41 s in checkpoint saving (torch.save), train.py:47"),
        (Activity::Code, "time.sleep", "NO STEP", "41 s in time.sleep, train.py:47"),
    ] {
        let places = HookPlaces {
            places: vec![place(activity, call, 47, 0.0)],
            stall: Some(HookStall { lasting: Seconds(41.0), place: 0, here: Seconds(41.0), collective: None }),
            ..HookPlaces::default()
        };
        let state =
            attached(|at| RunNews { hooks: vec![hooked(PID, at, about(0), Some(places))], ..RunNews::default() });
        let verdict = run_verdict(&state);
        assert!(verdict.words.starts_with(words), "{verdict:?}");
        assert_eq!(verdict.gravity == Gravity::Warning, activity == Activity::Code, "{verdict:?}");
        assert!(line(&state, 1).contains(said), "{}", line(&state, 1));
    }
}
