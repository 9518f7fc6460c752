use super::*;
use crate::reading::{HookAbout, HookEnd};

/// A rank, its exception, its exit as Python has it, and the milliseconds of its last word and of its exit.
fn run(rank: u32, error: Option<&str>, code: Option<i32>, [told, exited]: [u64; 2]) -> HookedRun {
    let pid = 100 + rank;
    let end = error.map(|error| HookEnd { error: Some(error.to_owned()), ..HookEnd::default() });
    HookedRun {
        about: Some(HookAbout { rank: Some(rank), ..HookAbout::default() }),
        end,
        exit: code.map(|code| (exit(pid, code), Moment(exited))),
        ..HookedRun::new(pid, Moment(told))
    }
}

fn exit(pid: u32, code: i32) -> ProcessExit {
    let number = code.unsigned_abs();
    match code {
        0.. => ProcessExit { pid, code: Some(number), signal: None },
        _ => ProcessExit { pid, code: None, signal: Some(number) },
    }
}

fn report(ranks: &[(u32, i32)]) -> [LauncherReport; 1] {
    let failed = |(rank, code): &(u32, i32)| FailedRank { rank: Some(*rank), exit: exit(100 + rank, *code) };
    [LauncherReport { run: None, ranks: ranks.iter().map(failed).collect() }]
}

fn first(runs: &[HookedRun], reports: &[LauncherReport]) -> Option<String> {
    let ends = process_ends(runs, reports);
    first_failure(&ends, reports).map(ProcessEnd::name)
}

#[test]
fn one_that_was_killed_comes_before_who_fails_because_of_it() {
    // Rank 1 is killed and tells nothing more; rank 0 loses the connection 7 ms later.
    let runs = [run(0, Some("RuntimeError"), Some(1), [1_007, 1_200]), run(1, None, Some(-9), [500, 1_000])];
    assert_eq!(first(&runs, &[]).unwrap(), "rank 1");
    let ends = process_ends(&runs, &[]);
    let said = "rank 1 ended first: SIGKILL, exit 137 (by you, a scheduler, or for lack of memory: dmesg tells of the last); \
                rank 0 failed after it: RuntimeError";
    assert_eq!(failure_words(first_failure(&ends, &[]).unwrap(), &ends).unwrap(), said);
    // It is seen to have ended a moment after rank 0 has told; rank 0 goes on for a while.
    let seen_late = [run(0, Some("RuntimeError"), Some(1), [1_007, 1_200]), run(1, None, Some(-9), [500, 1_010])];
    assert_eq!(first(&seen_late, &[]).unwrap(), "rank 1");
    // One that dies because another has failed dies after it.
    let aborted = [run(0, Some("ValueError"), Some(1), [1_000, 1_200]), run(1, None, Some(-6), [500, 1_250])];
    assert_eq!(first(&aborted, &[]).unwrap(), "rank 0");
    // An exception is told before its process is gone.
    let runs =
        [run(0, Some("RuntimeError"), Some(1), [1_020, 1_100]), run(1, Some("ValueError"), Some(1), [1_000, 1_300])];
    assert_eq!(first(&runs, &[]).unwrap(), "rank 1");
}

#[test]
fn what_the_launcher_says_comes_before_when_they_ended() {
    let runs = [run(0, Some("RuntimeError"), Some(1), [1_000, 1_200]), run(1, None, Some(7), [500, 1_204])];
    assert_eq!(first(&runs, &report(&[(1, 7)])).unwrap(), "rank 1");
    // Two in one look: torchrun's root cause is the first of its list, whichever ended first.
    assert_eq!(first(&runs, &report(&[(1, 7), (0, 1)])).unwrap(), "rank 0");
    let runs = [run(0, Some("RuntimeError"), Some(1), [1_007, 1_200]), run(1, None, Some(7), [500, 1_000])];
    assert_eq!(first(&runs, &report(&[(0, 1), (1, 7)])).unwrap(), "rank 1");
    // Two that made no step, in one look: Python exits with 1 for an exception.
    assert_eq!(first(&[], &report(&[(0, 1), (1, 7)])).unwrap(), "rank 1");
    assert_eq!(first(&[], &report(&[(0, 1), (1, 1)])).unwrap(), "rank 0");
    // One that made no step is known to its launcher alone.
    let runs = [run(0, None, Some(-15), [500, 1_200])];
    assert_eq!(first(&runs, &report(&[(3, 1)])).unwrap(), "rank 3");
}

#[test]
fn who_was_asked_to_end_has_not_failed_first() {
    let asked = [run(0, None, Some(-15), [500, 900]), run(1, Some("KeyboardInterrupt"), Some(-2), [800, 1_000])];
    assert_eq!(first(&asked, &[]), None);
    // torchrun ends the others once one has failed.
    let runs = [run(0, None, Some(-15), [500, 1_100]), run(1, Some("ValueError"), Some(1), [1_000, 1_050])];
    let ends = process_ends(&runs, &[]);
    let first = first_failure(&ends, &[]).unwrap();
    assert_eq!((first.name().as_str(), failure_words(first, &ends)), ("rank 1", None), "it has said so itself");
}

#[test]
fn of_ranks_that_were_started_again_the_last_start_counts() {
    let again = |mut run: HookedRun| {
        run.pid += 10;
        run.about.as_mut().unwrap().restarts = 1;
        run
    };
    let runs = [
        run(0, Some("RuntimeError"), Some(1), [1_007, 1_200]),
        run(1, None, Some(7), [500, 1_000]),
        again(run(0, None, Some(3), [4_000, 4_500])),
        again(run(1, Some("RuntimeError"), Some(1), [4_510, 4_600])),
    ];
    assert_eq!(first(&runs, &[]).unwrap(), "rank 0");
    // The last start made no step: its launcher knows other processes by those ranks.
    let failed = |rank, code| FailedRank { rank: Some(rank), exit: exit(200 + rank, code) };
    let told = [LauncherReport { run: None, ranks: vec![failed(0, 1), failed(1, -6)] }];
    let ends = process_ends(&runs[..2], &told);
    assert_eq!(ends.iter().map(|end| end.pid).collect::<Vec<_>>(), [200, 201]);
    assert_eq!(first_failure(&ends, &told).unwrap().pid, 201);
}

#[test]
fn one_that_is_gone_without_a_word_has_failed_where_another_rank_did() {
    let gone = ProcessExit { pid: 101, code: None, signal: None };
    let silent = HookedRun { exit: Some((gone, Moment(1_000))), ..run(1, None, None, [500, 0]) };
    let runs = [run(0, Some("RuntimeError"), Some(1), [1_020, 1_100]), silent.clone()];
    let ends = process_ends(&runs, &[]);
    let words = failure_words(first_failure(&ends, &[]).unwrap(), &ends).unwrap();
    assert_eq!(words, "rank 1 ended first: without a word; rank 0 failed after it: RuntimeError");
    // Forked children that are done are gone like that: both are, or the one that started them fails later.
    let other =
        HookedRun { exit: Some((ProcessExit { pid: 100, ..gone }, Moment(1_010))), ..run(0, None, None, [500, 0]) };
    assert_eq!(first(&[silent.clone(), other.clone()], &[]), None);
    let mut parent = run(2, Some("ValueError"), Some(1), [9_000, 9_100]);
    parent.about.as_mut().unwrap().rank = None;
    assert_eq!(first(&[silent.clone(), other, parent], &[]).unwrap(), "process 102");
    // Python's own end is told, whatever nobody saw.
    let told = HookedRun { end: Some(HookEnd::default()), ..silent };
    assert_eq!(first(&[run(0, Some("RuntimeError"), Some(1), [1_020, 1_100]), told], &[]).unwrap(), "rank 0");
}

#[test]
fn of_two_torchruns_in_turn_the_one_is_judged_that_failed_last() {
    let under = |mut run: HookedRun, torchrun: u32, restarts: u32| {
        run.pid += 10 * torchrun + 2 * restarts;
        let pid = run.pid;
        run.exit = run.exit.map(|(exit, at)| (ProcessExit { pid, ..exit }, at));
        let about = run.about.as_mut().unwrap();
        (about.torchrun, about.restarts) = (Some(torchrun), restarts);
        run
    };
    // The first one starts its ranks again, and they end well; rank 1 of the second one fails, and rank 0 after it.
    let mut runs = vec![
        under(run(0, Some("RuntimeError"), Some(1), [1_007, 1_200]), 1, 0),
        under(run(1, None, Some(7), [500, 1_000]), 1, 0),
        under(run(0, None, Some(0), [4_000, 4_500]), 1, 1),
        under(run(1, None, Some(0), [4_000, 4_510]), 1, 1),
        under(run(0, Some("RuntimeError"), Some(1), [8_007, 8_200]), 2, 0),
        under(run(1, Some("ValueError"), Some(1), [8_000, 8_100]), 2, 0),
    ];
    let said = "rank 1 ended first: ValueError; rank 0 failed after it: RuntimeError";
    let judged = |runs: &[HookedRun], reports: &[LauncherReport]| {
        let (runs, reports) = last_job(runs, reports);
        let ends = process_ends(&runs, &reports);
        failure_words(first_failure(&ends, &reports).unwrap(), &ends).unwrap()
    };
    assert_eq!(judged(&runs, &[]), said);
    // The first one failed for good, and said so.
    let failed = FailedRank { rank: Some(1), exit: exit(111, 7) };
    let told = [LauncherReport { run: None, ranks: vec![failed] }];
    assert_eq!(judged(&[&runs[..2], &runs[4..]].concat(), &told), said);
    // Two machines' ranks on one: nobody has the same rank, and each torchrun started one.
    runs.drain(..4);
    runs[1].about.as_mut().unwrap().torchrun = Some(3);
    assert_eq!(judged(&runs, &[]), said);
}

/// Two scripts that a shell runs one after the other, without ranks: what the first one came to is not why the second failed.
#[test]
fn trainings_that_follow_each_other_are_jobs_of_their_own() {
    let plain = |pid: u32, began: f64, error: Option<&str>, exited: u64| HookedRun {
        began: Some(began),
        end: Some(HookEnd { error: error.map(str::to_owned), ..HookEnd::default() }),
        exit: Some((exit(pid, i32::from(error.is_some())), Moment(exited))),
        ..HookedRun::new(pid, Moment(exited))
    };
    let job = |runs: &[HookedRun]| last_job(runs, &[]).0.iter().map(|run| run.pid).collect::<Vec<_>>();
    // From 1 s to 10 s and from 12 s to 20 s.
    let (one, two) = (plain(7, 1.0, Some("ValueError"), 10_000), plain(8, 12.0, Some("ValueError"), 20_000));
    assert_eq!(job(&[one.clone(), two.clone()]), [8]);
    // The last that failed is asked for, and of those that did not the last.
    assert_eq!(job(&[one.clone(), plain(8, 12.0, None, 20_000)]), [7]);
    assert_eq!(job(&[plain(7, 1.0, None, 10_000), plain(8, 12.0, None, 20_000)]), [8]);
    // Beside each other they may be ranks that do not say so.
    assert_eq!(job(&[one, plain(8, 9.0, Some("ValueError"), 20_000)]), [7, 8]);
    assert_eq!(job(&[]), [] as [u32; 0]);
}
