//! What a run stood still for at its end: it made no step any more, and then it ended or was ended.

use super::failures::last_start;
use super::late_steps::{StalledRank, stalled};
use crate::reading::{HookPlaces, HookedRun, Moment};
use crate::units::Seconds;

/// Where the ranks were that made no step until the end, and for how long: `stood still for the last 31 s: …`. The end is
/// the first of `ends` after that began: somebody asked the command to end, a process failed, the command was over.
#[must_use]
pub fn stood_still(runs: &[HookedRun], ends: &[Moment]) -> Option<String> {
    let runs = last_start(runs);
    // The last to come to a stop: from then on none has made a step.
    let stopped = runs.iter().filter_map(|run| stopped_at(run)).max()?;
    let end = *ends.iter().filter(|end| **end > stopped).min()?;
    let untold = HookPlaces::default();
    let ranks: Vec<StalledRank<'_>> = runs
        .iter()
        .map(|run| StalledRank {
            rank: rank(run),
            places: run.places.as_ref().unwrap_or(&untold),
            has_ended: stopped_at(run).is_none() && run.exit.is_some_and(|(_, at)| at < end),
            age: Seconds((end.0 as f64 - run.placed.0 as f64) / 1000.0),
        })
        .collect();
    let own = ranks.iter().find(|rank| rank.places.stall.is_some())?;
    let cause = stalled(own, &ranks)?;
    let goes_on = ranks.iter().any(|rank| rank.places.stall.is_none() && !rank.has_ended);
    let name = own.rank.filter(|_| goes_on).map_or_else(String::new, |rank| format!("rank {rank} "));
    Some(format!("{name}stood still for the last {}: {}", end.since(stopped).roughly(), cause.words))
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
    use crate::reading::{Activity, CodePlace, HookStall, ProcessExit};
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
        let ends = [Moment(41_000), Moment(41_300)];
        assert_eq!(stood_still(&[waits.clone(), sleeps.clone()], &ends).unwrap(), said);
        // One that has not been ended yet tells of it still after that.
        let late = still(0, Activity::Backward, "loss.backward", 24, 33.0, 43_000);
        assert_eq!(stood_still(&[late, sleeps], &ends).unwrap(), said);
        // One that was done long before.
        let exit = ProcessExit { pid: 101, code: Some(0), signal: None };
        let done = HookedRun { exit: Some((exit, Moment(10_000))), ..HookedRun::new(101, Moment(9_000)) };
        let mut done = HookedRun { about: None, ..done };
        done.places = Some(HookPlaces { rank: Some(1), ..HookPlaces::default() });
        let said = "stood still for the last 31 s: loss.backward: rank 1 has ended; rank 0 waits, train.py:24";
        assert_eq!(stood_still(&[waits, done], &ends).unwrap(), said);
    }

    #[test]
    fn one_process_says_where() {
        let alone = still(0, Activity::Code, "time.sleep", 19, 30.0, 40_000);
        let said = "stood still for the last 31 s: 31 s in time.sleep, train.py:19";
        assert_eq!(stood_still(std::slice::from_ref(&alone), &[Moment(41_000)]).unwrap(), said);
        assert_eq!(stood_still(&[alone], &[Moment(9_000)]), None, "that was before");
        assert_eq!(stood_still(&[HookedRun::new(7, Moment(1))], &[Moment(41_000)]), None);
    }
}
