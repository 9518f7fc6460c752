//! What a run that makes no step waits for, by the processes that do nothing: without the hook, `/proc` alone tells it.

use crate::order::StableOrder;
use crate::reading::{Activity, Moment, ProcessWait, StepCause, WaitKind};
use crate::units::Seconds;

/// Who has done nothing for less long may well be about to.
const SHORTEST: Seconds = Seconds(5.0);

/// The cause of a stall, of a run of so many processes; none where nobody has waited for one thing for a while. The
/// caller knows that no step is made: a healthy run's processes wait, too.
#[must_use]
pub fn waiting(waits: &[ProcessWait], processes: usize, now: Moment) -> Option<StepCause> {
    // One that is stopped does nothing, however short that has been.
    let is_long = |wait: &&ProcessWait| wait.kind == WaitKind::Stopped || now.since(wait.since).0 >= SHORTEST.0;
    let mut waits: Vec<&ProcessWait> = waits.iter().filter(is_long).collect();
    // Who holds the others up comes first, then who has waited longest.
    waits.order_by_key(|wait| (!wait.kind.holds_others_up(), wait.since, wait.rank, wait.pid));
    let first = waits.first()?;
    let least = if first.is_from_first_look { "at least " } else { "" };
    let long = format!("{least}{}", now.since(first.since).to_the_second());
    let alike = waits.iter().filter(|wait| wait.kind == first.kind).count();
    let words = if processes > 1 && alike == processes {
        format!("all {processes} ranks wait {long} for {}", object(first))
    } else {
        let name = first.rank.map_or_else(String::new, |rank| format!("rank {rank} "));
        let others = waits.iter().find(|wait| wait.kind != first.kind);
        let other = others.and_then(|wait| Some(format!("; rank {} waits for {}", wait.rank?, object(wait))));
        format!("{name}waits {long} for {}{}", object(first), other.unwrap_or_default())
    };
    Some(StepCause { words, activity: Activity::System, stalls: true, lost: None })
}

/// What is waited for, with the file or connection: `the disk: /data/shard-3.bin`.
fn object(wait: &ProcessWait) -> String {
    let target = wait.target.as_ref().map_or_else(String::new, |target| format!(": {target}"));
    match (wait.worker, wait.kind) {
        (Some(worker), WaitKind::Stopped) => format!("its worker {worker}, which is stopped"),
        (Some(worker), kind) => format!("its worker {worker}, which waits for {}{target}", kind.words()),
        (None, kind) => format!("{}{target}", kind.words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment(100_000);

    fn wait(rank: Option<u32>, kind: WaitKind, target: &str, seconds: u64) -> ProcessWait {
        let target = (!target.is_empty()).then(|| target.to_owned());
        ProcessWait { rank, target, ..ProcessWait::new(7, kind, Moment(NOW.0 - seconds * 1000)) }
    }

    fn words(waits: &[ProcessWait], processes: usize) -> Option<String> {
        waiting(waits, processes, NOW).map(|cause| cause.words)
    }

    #[test]
    fn one_process_says_for_what_and_how_long() {
        let disk = wait(None, WaitKind::Disk, "/data/a.bin", 41);
        assert_eq!(words(&[disk], 1).unwrap(), "waits 41 s for the disk: /data/a.bin");
        let worker = ProcessWait { worker: Some(9), ..wait(None, WaitKind::NetworkStorage, "/nfs/a", 12) };
        let said = "waits 12 s for its worker 9, which waits for network storage: /nfs/a";
        assert_eq!(words(&[worker], 1).unwrap(), said);
        assert_eq!(words(&[wait(None, WaitKind::Lock, "", 4)], 1), None, "for less than 5 s");
        let stopped = ProcessWait { is_from_first_look: true, ..wait(None, WaitKind::Stopped, "", 1) };
        assert_eq!(words(&[stopped], 1).unwrap(), "waits at least 1 s for SIGCONT (it is stopped)");
        assert_eq!(words(&[], 1), None);
    }

    #[test]
    fn of_ranks_the_one_that_holds_the_others_up_is_named() {
        let socket = |rank, seconds| wait(Some(rank), WaitKind::Socket, "10.0.0.3:29500", seconds);
        let disk = wait(Some(2), WaitKind::Disk, "/data/a.bin", 38);
        let said = "rank 2 waits 38 s for the disk: /data/a.bin; rank 0 waits for a socket: 10.0.0.3:29500";
        assert_eq!(words(&[socket(0, 40), socket(1, 39), disk], 3).unwrap(), said);
        let said = "all 2 ranks wait 40 s for a socket: 10.0.0.3:29500";
        assert_eq!(words(&[socket(0, 40), socket(1, 39)], 2).unwrap(), said);
        // Of the others nothing is known: they may compute.
        assert_eq!(words(&[socket(1, 39)], 2).unwrap(), "rank 1 waits 39 s for a socket: 10.0.0.3:29500");
    }
}
