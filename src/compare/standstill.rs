//! What a run stood still for at its end: it made no step any more, and then it ended or was ended.

use super::failures::{ProcessEnd, last_start};
use super::late_steps::{StalledRank, stalled};
use crate::reading::{Activity, HookPlaces, HookedRun, Moment};
use crate::units::Seconds;

/// Where the ranks were that made no step until the end, and for how long: `stood still for the last 31 s: …`. The end is
/// what came first after that began: somebody `asked` the command to end, a process failed, the command was `over`.
///
/// A run that evaluates or saves does not stand still: it `made no step for the last 31 s`. Anything else may be as it
/// should as well. So it is said only where somebody had to end the run, or killed it, or where the process that failed
/// first had waited for other ranks.
#[must_use]
pub fn stood_still(runs: &[HookedRun], over: Moment, asked: Option<Moment>) -> Option<String> {
    let runs: Vec<(&HookedRun, ProcessEnd)> =
        last_start(runs).into_iter().map(|run| (run, ProcessEnd::of(run))).collect();
    // Of its own will, and as it should.
    let is_done = |(run, end): &(&HookedRun, ProcessEnd)| {
        !is_killed(run, end) && !end.has_failed() && end.at().is_some_and(|at| asked.is_none_or(|asked| at < asked))
    };
    let others = || runs.iter().filter(|run| !is_done(run));
    // The last to come to a stop: from then on none has made a step.
    let stopped = others().filter_map(|(run, _)| stopped_at(run)).max()?;
    let after = |at: Option<Moment>| at.filter(|at| *at > stopped);
    let first = others().filter(|(_, end)| after(end.at()).is_some()).min_by_key(|(_, end)| end.at());
    let first_at = first.and_then(|(_, end)| end.at());
    let end = [first_at, Some(over), asked].into_iter().filter_map(after).min()?;
    let was_asked = asked.is_some_and(|asked| asked <= end);
    let breaks = |(run, ended): &(&HookedRun, ProcessEnd)| {
        ended.at() == Some(end) && (ended.was_asked() || is_killed(run, ended) || waits_for_ranks(run, runs.len()))
    };
    if !was_asked && !first.is_some_and(breaks) {
        return None;
    }
    let untold = HookPlaces::default();
    let ranks: Vec<StalledRank<'_>> = runs
        .iter()
        .map(|one @ (run, ended)| StalledRank {
            rank: rank(run),
            places: run.places.as_ref().unwrap_or(&untold),
            has_ended: (is_done(one) || stopped_at(run).is_none())
                && ended.exited.or(ended.told).is_some_and(|at| at < end),
            age: Seconds((end.0 as f64 - run.placed.0 as f64) / 1000.0),
        })
        .collect();
    let own = ranks.iter().find(|rank| rank.places.stall.is_some() && !rank.has_ended)?;
    let cause = stalled(own, &ranks)?;
    let goes_on = ranks.iter().any(|rank| rank.places.stall.is_none() && !rank.has_ended);
    let name = own.rank.filter(|_| goes_on).map_or_else(String::new, |rank| format!("rank {rank} "));
    let pauses = cause.activity.is_intended_pause();
    let verb = if pauses { "made no step" } else { "stood still" };
    Some(format!("{name}{verb} for the last {}: {}", end.since(stopped).to_the_second(), cause.words))
}

/// Whether a process that made no step any more was ended without being asked: by SIGKILL, or it is gone without a word and
/// nobody saw how.
fn is_killed(run: &HookedRun, end: &ProcessEnd) -> bool {
    stopped_at(run).is_some() && (end.was_killed() || end.is_unseen())
}

/// Whether a process stood in a collective, as far as it tells: one of several ranks joins them in its backward pass, too.
fn waits_for_ranks(run: &HookedRun, ranks: usize) -> bool {
    let Some(places) = &run.places else { return false };
    places.stall.as_ref().is_some_and(|stall| {
        let activity = places.places.get(stall.place).map(|place| place.activity);
        stall.collective.as_ref().is_some_and(|pending| pending.call.is_some())
            || activity == Some(Activity::Collective)
            || (ranks > 1 && activity == Some(Activity::Backward))
    })
}

/// When a process made its last step, where it has stood still since.
fn stopped_at(run: &HookedRun) -> Option<Moment> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let millis = |time: Seconds| (time.0 * 1000.0).round() as u64;
    let stall = run.places.as_ref()?.stall.as_ref()?;
    Some(Moment(run.placed.0.saturating_sub(millis(stall.lasting))))
}

fn rank(run: &HookedRun) -> Option<u32> {
    run.about.as_ref().and_then(|about| about.rank).or_else(|| run.places.as_ref()?.rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{CodePlace, HookEnd, HookStall, ProcessExit};
    use crate::units::Fraction;

    /// A rank that told at `placed` of a stall of so many seconds at that line of train.py.
    fn still(rank: u32, activity: Activity, call: &str, line: u32, lasting: f64, placed: u64) -> HookedRun {
        let place =
            CodePlace { activity, call: call.into(), file: "/w/train.py".into(), line, share: Fraction::default() };
        let stall = HookStall { lasting: Seconds(lasting), place: 0, here: Seconds(lasting), collective: None };
        let places = HookPlaces { rank: Some(rank), places: vec![place], stall: Some(stall), ..HookPlaces::default() };
        HookedRun { places: Some(places), ..HookedRun::new(100 + rank, Moment(placed)) }
    }

    #[test]
    fn who_holds_the_others_up_is_named_with_its_line() {
        // Both came to a stop at 10 s; the last words are of 39 s and 40 s; the command is asked to end at 41 s.
        let waits = still(0, Activity::Backward, "loss.backward", 24, 29.0, 39_000);
        let sleeps = still(1, Activity::Code, "time.sleep", 19, 30.0, 40_000);
        let said = "stood still for the last 31 s: loss.backward: rank 1 has not come: 31 s in time.sleep, train.py:19; \
                    rank 0 waits, train.py:24";
        let (over, asked) = (Moment(41_300), Some(Moment(41_000)));
        assert_eq!(stood_still(&[waits.clone(), sleeps.clone()], over, asked).unwrap(), said);
        // Nobody asks: rank 0 gives up by itself at 41 s. Where rank 1 is the one that fails, it was busy until then.
        let failed = |run: &HookedRun| ended(run.clone(), Some("RuntimeError"), 1, 41_000);
        assert_eq!(stood_still(&[failed(&waits), sleeps.clone()], over, None).unwrap(), said);
        assert_eq!(stood_still(&[waits.clone(), failed(&sleeps)], over, None), None);
        // One that has not been ended yet tells of it still after that.
        let late = still(0, Activity::Backward, "loss.backward", 24, 33.0, 43_000);
        assert_eq!(stood_still(&[late, sleeps], over, asked).unwrap(), said);
        // One that was done long before.
        let exit = ProcessExit { pid: 101, code: Some(0), signal: None };
        let done = HookedRun { exit: Some((exit, Moment(10_000))), ..HookedRun::new(101, Moment(9_000)) };
        let mut done = HookedRun { about: None, ..done };
        done.places = Some(HookPlaces { rank: Some(1), ..HookPlaces::default() });
        let said = "stood still for the last 31 s: loss.backward: rank 1 has ended; rank 0 waits, train.py:24";
        assert_eq!(stood_still(&[waits, done], over, asked).unwrap(), said);
    }

    #[test]
    fn one_process_says_where() {
        let alone = still(0, Activity::Code, "time.sleep", 19, 30.0, 40_000);
        let said = "stood still for the last 31 s: 31 s in time.sleep, train.py:19";
        let asked = Some(Moment(41_000));
        assert_eq!(stood_still(std::slice::from_ref(&alone), Moment(41_000), asked).unwrap(), said);
        assert_eq!(
            stood_still(std::slice::from_ref(&alone), Moment(9_000), Some(Moment(9_000))),
            None,
            "that was before"
        );
        assert_eq!(stood_still(&[HookedRun::new(7, Moment(1))], Moment(41_000), asked), None);
        // Somebody asked the process itself: SIGTERM. Or killed it, and a shell asked for its end before anybody else.
        for (code, signal) in [(None, Some(15)), (None, Some(9)), (None, None)] {
            let exit = ProcessExit { pid: 100, code, signal };
            let ended = HookedRun { exit: Some((exit, Moment(41_000))), ..alone.clone() };
            assert_eq!(stood_still(&[ended], Moment(41_300), None).unwrap(), said, "{signal:?}");
        }
    }

    #[test]
    fn an_evaluation_and_a_checkpoint_are_no_standstill() {
        for (activity, call, doing) in [
            (Activity::Evaluation, "evaluate", "evaluation (evaluate)"),
            (Activity::Checkpoint, "torch.save", "checkpoint saving (torch.save)"),
        ] {
            let run = still(0, activity, call, 19, 30.0, 40_000);
            let exit = ProcessExit { pid: 100, code: None, signal: Some(9) };
            let killed = HookedRun { exit: Some((exit, Moment(41_000))), ..run.clone() };
            let said = format!("made no step for the last 31 s: 31 s in {doing}, train.py:19");
            let asked = Some(Moment(41_000));
            assert_eq!(stood_still(&[run], Moment(41_300), asked).unwrap(), said);
            assert_eq!(stood_still(&[killed], Moment(41_300), None).unwrap(), said);
            // Rank 0 does it, and rank 1 waits for it.
            let does = still(0, activity, call, 19, 30.0, 40_000);
            let waits = still(1, Activity::Collective, "barrier", 24, 29.0, 40_000);
            let said = stood_still(&[waits, does], Moment(41_300), asked).unwrap();
            let words =
                format!("barrier: rank 0 has not come: 31 s in {doing}, train.py:19; rank 1 waits, train.py:24");
            assert_eq!(said, format!("made no step for the last 30 s: {words}"));
        }
    }

    #[test]
    fn processes_without_ranks_have_no_name() {
        let mut runs = [7, 8].map(|rank| still(rank, Activity::Code, "time.sleep", 19, 30.0, 40_000));
        runs.iter_mut().filter_map(|run| run.places.as_mut()).for_each(|places| places.rank = None);
        let said = "stood still for the last 31 s: 31 s in time.sleep, train.py:19";
        assert_eq!(stood_still(&runs, Moment(41_000), Some(Moment(41_000))).unwrap(), said);
    }

    #[test]
    fn one_that_works_until_it_ends_has_not_stood_still() {
        let evaluates = still(0, Activity::Evaluation, "evaluate", 19, 14.0, 40_000);
        // It fails, it leaves with exit code 2, it is killed for lack of memory.
        for (error, code) in [(Some("ValueError"), 1), (None, 2), (None, 137)] {
            let failed = ended(evaluates.clone(), error, code, 40_010);
            assert_eq!(stood_still(&[failed], Moment(40_100), None), None, "{error:?} {code}");
        }
        // It ends well, and its shell fails, or is interrupted, 8 s later.
        let done = [ended(evaluates, None, 0, 40_010)];
        assert_eq!(stood_still(&done, Moment(48_000), None), None);
        assert_eq!(stood_still(&done, Moment(48_000), Some(Moment(47_000))), None);
    }

    /// It tells that it ends, with that exception, and ends with that code.
    fn ended(run: HookedRun, error: Option<&str>, code: u32, at: u64) -> HookedRun {
        let end = HookEnd { error: error.map(str::to_owned), ..HookEnd::default() };
        let exit = ProcessExit { pid: run.pid, code: Some(code), signal: None };
        HookedRun { end: Some(end), heard: Moment(at), exit: Some((exit, Moment(at))), ..run }
    }
}
