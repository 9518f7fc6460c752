//! The rules by which the hook knows late steps and names what makes them late: on made-up times and stacks, without a
//! clock.

use std::process::Command;

use memwall::observe::hook::HOOK;
use serde_json::{Value, json};

use super::{folder, output, python, text};

/// What `late_rules.py` says of each of its cases.
fn said() -> Option<Value> {
    let python = python("import json")?;
    let hook = tempfile::tempdir().unwrap();
    std::fs::write(hook.path().join("memwall_hook.py"), HOOK).unwrap();
    let mut command = Command::new(python);
    command.arg(folder().join("late_rules.py")).arg(hook.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    let done = output(&mut command);
    assert!(done.status.success(), "{}", text(&done.stderr));
    Some(serde_json::from_slice(&done.stdout).unwrap())
}

fn are(cases: &[(&str, Value)]) {
    let Some(said) = said() else { return };
    for (case, expected) in cases {
        assert_eq!(&said[case], expected, "{case}");
    }
}

#[test]
fn late_steps_are_known_from_the_first_however_often_they_come() {
    are(&[
        ("first", json!([4, 8])),
        ("every third", json!([3, 6, 9])),
        ("twice as long", json!([10])),
        ("every second", json!([2, 4, 6])),
        ("two of three", json!([2, 3, 5])),
        ("every second, thrice", json!([2, 4, 6])),
        // Twice as long by design, and a change of phase: neither is late. Step 32 takes nine times as long.
        ("twice, every second", json!([])),
        ("twice, three of four", json!([])),
        ("second loss", json!([])),
        ("late among two kinds", json!([32])),
        ("phase", json!([])),
        // Four of five: that is what a step takes.
        ("most", json!([])),
        // Steps that differ by themselves are none.
        ("uneven", json!([])),
        ("lengths", json!([])),
        ("noise", json!([])),
    ]);
}

#[test]
fn saving_is_a_checkpoint_where_a_checkpoint_is_saved() {
    are(&[
        ("torch.save in save", json!(["checkpoint", "save", "<lambda>"])),
        ("save_checkpoint", json!(["checkpoint", "save_checkpoint"])),
        ("a figure's save", json!("code")),
        ("json.dump", json!("code")),
        ("dump of the script", json!("code")),
        ("checkpoint", json!([["checkpoint", "checkpoint", "<lambda>"], "code"])),
        // The call is made right there: neither, then one.
        ("waits", json!([false, true])),
    ]);
}

#[test]
fn what_healthy_steps_do_not_do_makes_a_step_late() {
    are(&[
        ("code", json!(["code", 7])),
        ("more than usual", json!(["code", 7])),
        ("forward", json!(["evaluating", "forward"])),
        ("evaluation", json!(["evaluation", 8])),
        ("work elsewhere", json!(["code", 8])),
        ("work as ever", json!(["forward", 3])),
        ("a module's hook", json!(["code", 16])),
        // Before it is known what healthy steps do.
        ("too few samples", json!(["forward", 8])),
    ]);
}

#[test]
fn a_larger_batch_makes_a_step_late() {
    are(&[
        // By the call that is told, else the function.
        ("batches", json!([["a batch 8 times as large", 3], ["loop", 4], ["loop", 4], ["loop", 4], ["loop", 7]])),
        // 8 + 2; 5 + 6.
        ("numbers", json!([10, 11, null])),
    ]);
}

#[test]
fn a_slow_data_set_is_named_where_the_loop_itself_loads() {
    let inside = ["data", "DataLoader.__next__ (__getitem__)", "__getitem__"];
    are(&[("loader", json!([inside, ["data", "DataLoader.__next__", "<lambda>"]]))]);
}

#[test]
fn few_healthy_samples_tell_what_they_do_not_do() {
    // 9 of 9 late steps where none of 11 samples was: 9! 12! / 21! x 12 of all shares, as likely as any other, bring that
    // by chance (4e-6); 3 of 3: 3! 12! / 15! x 12 (0.03). Of no sample at all: a tenth.
    are(&[("few samples", json!(["code", "forward", "forward"]))]);
}

#[test]
fn late_steps_in_one_function_or_at_one_line_are_at_one_place() {
    are(&[("one place", json!([[16, 16], 1, [7, 8], [8, 8]])), ("scheduler", json!(["code", "optimizer"]))]);
}

#[test]
fn shares_of_all_steps_are_told_once() {
    are(&[("shares", json!([[0.4, 0.6], [0.6, 0.4]]))]);
}

#[test]
fn a_coroutine_that_waits_is_at_its_own_line() {
    are(&[("awaited", json!(["code", "/w/async_train.py", 3]))]);
}

#[test]
fn samples_stand_for_the_time_around_them() {
    are(&[("around samples", json!([{"7": 0.012, "4": 0.006}, {"4": 0.003, "7": 0.015}, {}]))]);
}

#[test]
fn what_is_late_by_much_more_is_not_hidden_by_others() {
    // All that are kept otherwise: eight of the machine's after each of one's own.
    let among =
        |lines: &[u32]| json!(lines.iter().flat_map(|line| [*line].into_iter().chain([4; 8])).collect::<Vec<_>>());
    are(&[("long ones", json!([[7, 7, 7], among(&[7, 7, 8]), among(&[7, 7])]))]);
}

#[test]
fn samples_come_closer_while_late_steps_come() {
    // A quarter of a step of 0.1 s, for a minute. What a turn cost, 0.2 ms, is 0.4 % of the time until the next one, then
    // 0.1 %; short steps are looked at more often for five seconds alone.
    are(&[("closer", json!([0.05, 0.025, 0.05])), ("costly", json!([0.05, 0.2])), ("short", json!([0.02, 0.2]))]);
}

#[test]
fn the_number_of_steps_is_known_where_a_trainer_knows_it() {
    are(&[
        // 3 steps of 4 batches in 10, in 3 epochs; the least of both bounds; unknown; of two optimizers nobody counts them.
        ("lightning", json!([9, 5, null, null])),
        // What is left of 100 in this process.
        ("transformers", json!([40, 40])),
        ("own loop", json!(null)),
    ]);
}
