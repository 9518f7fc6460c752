//! What the command's own output says of its loss, where that goes to a file, else what its processes print of it: at the
//! end it may be no number, or rise.

use std::path::PathBuf;

use crate::app::loss_words;
use crate::observe::log::{Log, LossTurn};
use crate::reading::{HookedRun, Moment, ReadingKind};
use crate::units::grouped;

/// Milliseconds between two looks.
const APART: u64 = 250;

/// Losses that are kept: where there are more, every second one goes.
const KEPT: usize = 256;

/// Losses that a judgement needs, and how far above the lowest quarter the last one of a loss that rises lies.
const LEAST: usize = 8;
const RISEN: f64 = 1.25;

/// The losses that a command has written.
#[derive(Default)]
pub struct LossWatch {
    log: Option<Log>,
    losses: Vec<(Option<u64>, f64)>,
    looked: Option<Moment>,
    /// What stood in the files before the command began: others wrote it.
    others: Option<(Option<u64>, f64)>,
    /// Where the loss became no number.
    turned: Option<LossTurn>,
}

impl LossWatch {
    /// Of what the command's output and errors go to, where these are files: ours are its own.
    pub fn of_output(now: Moment) -> Self {
        let is_file = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
        let mut paths: Vec<PathBuf> =
            [1, 2].iter().filter_map(|number| std::fs::read_link(format!("/proc/self/fd/{number}")).ok()).collect();
        paths.retain(is_file);
        paths.dedup();
        let mut log = (!paths.is_empty()).then(|| Log::of_files(paths, None));
        let others = log.as_mut().and_then(|log| {
            log.read(now);
            log.forget_losses();
            last_of(log)
        });
        Self { log, others, ..Self::default() }
    }

    /// Reads on, now and then; `last` at the end in any case.
    pub fn look(&mut self, now: Moment, last: bool) {
        let Some(log) = &mut self.log else { return };
        if !last && self.looked.is_some_and(|looked| now.0 < looked.0 + APART) {
            return;
        }
        self.looked = Some(now);
        log.read(now);
        self.turned = log.loss_turned();
        let Some(told) = last_of(log) else { return };
        let same = |known: &(Option<u64>, f64)| known.0 == told.0 && known.1.to_bits() == told.1.to_bits();
        if self.losses.last().or(self.others.as_ref()).is_some_and(same) {
            return;
        }
        if self.losses.len() == KEPT {
            let mut number = 0;
            self.losses.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        self.losses.push(told);
    }

    /// What is wrong with the loss; none where nothing is, or nobody knows.
    pub fn words(&self, runs: &[HookedRun]) -> Option<String> {
        let Some((_, last)) = self.losses.last() else { return printed(runs) };
        if last.is_finite() { self.rise() } else { Some(turned(*last, self.turned.and_then(|turned| turned.step))) }
    }

    /// A loss that falls no more and rises: each quarter behind the lowest lies above the one before.
    fn rise(&self) -> Option<String> {
        if self.losses.len() < LEAST {
            return None;
        }
        let count = self.losses.len();
        let start = |place: usize| place * count / 4;
        let medians: Vec<f64> = (0..4).map(|place| median(&self.losses[start(place)..start(place + 1)])).collect();
        let (place, lowest) = medians.iter().copied().enumerate().min_by(|one, other| one.1.total_cmp(&other.1))?;
        let end = *medians.last()?;
        let climbs = medians[place..].windows(2).all(|pair| pair[1] > pair[0]);
        let around =
            self.losses[start(place)].0.map_or_else(String::new, |step| format!(" (from step {})", grouped(step)));
        let rises = lowest > 0.0 && climbs && end >= RISEN * lowest;
        rises.then(|| format!("the loss rises: {}{around}, then {} at the end", loss_words(lowest), loss_words(end)))
    }
}

/// What is wrong with the loss that the processes print: the first of their own steps where no line tells another.
fn printed(runs: &[HookedRun]) -> Option<String> {
    let turns = runs.iter().filter_map(|run| run.printed?.turned);
    let first = turns.min_by_key(|turn| turn.made)?;
    let words = turned(first.loss, first.step);
    Some(if first.step.is_some() { words } else { format!("{words} after {} optimizer steps", grouped(first.made)) })
}

fn turned(loss: f64, step: Option<u64>) -> String {
    let at = step.map_or_else(String::new, |step| format!(" at step {}", grouped(step)));
    format!("the loss turned {}{at}", loss_words(loss))
}

/// The last loss that a log tells, with its step.
fn last_of(log: &Log) -> Option<(Option<u64>, f64)> {
    let progress = log.progress();
    let step = progress.step.value().copied().filter(|_| progress.step.kind() == Some(ReadingKind::Measured));
    Some((step, *progress.loss.value()?))
}

fn median(losses: &[(Option<u64>, f64)]) -> f64 {
    let mut losses: Vec<f64> = losses.iter().map(|(_, loss)| *loss).collect();
    losses.sort_by(f64::total_cmp);
    losses[losses.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{PrintedLoss, PrintedTurn};

    /// What is said of losses that were told each tenth step.
    fn of(losses: &[f64]) -> Option<String> {
        let losses: Vec<_> = losses.iter().enumerate().map(|(step, loss)| (Some(step as u64 * 10), *loss)).collect();
        let mut log = Log::of_files(Vec::new(), None);
        for (step, loss) in &losses {
            log.take_line(&format!("step {} loss {loss}", step.unwrap()), Moment(1));
        }
        LossWatch { losses, turned: log.loss_turned(), ..LossWatch::default() }.words(&[])
    }

    #[test]
    fn a_loss_that_is_no_number_and_one_that_rises_are_told() {
        assert_eq!(of(&[3.0, 2.5, f64::NAN, f64::NAN]).as_deref(), Some("the loss turned NaN at step 20"));
        assert_eq!(of(&[3.0, f64::INFINITY]).as_deref(), Some("the loss turned inf at step 10"));
        // A batch that was skipped.
        assert_eq!(of(&[3.0, f64::NAN, 2.5]), None);
        let rises: Vec<f64> =
            (0..16).map(|step| if step < 4 { 3.0 } else { 2.0 + f64::from(step - 4) * 0.1 }).collect();
        // Quarters: 3.0, then around 2.2, 2.6 and 3.0.
        assert_eq!(of(&rises).as_deref(), Some("the loss rises: 2.20 (from step 40), then 3.00 at the end"));
        let falls: Vec<f64> = (0..16).map(|step| 3.0 - f64::from(step) * 0.1).collect();
        let noisy: Vec<f64> = (0..16).map(|step| 2.0 + f64::from(step % 3) * 0.3).collect();
        assert_eq!((of(&falls), of(&noisy), of(&[1.0, 9.0])), (None, None, None));
    }

    #[test]
    fn what_the_processes_print_is_told_where_no_file_has_it() {
        let run = |pid, turned| {
            let printed = Some(PrintedLoss { loss: f64::NAN, turned });
            HookedRun { printed, ..HookedRun::new(pid, Moment(1)) }
        };
        let turn = |step, made| Some(PrintedTurn { loss: f64::NAN, step, made });
        let said = |runs: &[HookedRun]| LossWatch::default().words(runs);
        let both = [run(7, turn(Some(1_040), 40)), run(8, turn(Some(1_026), 26)), run(9, None)];
        assert_eq!(said(&both).as_deref(), Some("the loss turned NaN at step 1 026"));
        assert_eq!(said(&[run(7, turn(None, 40))]).as_deref(), Some("the loss turned NaN after 40 optimizer steps"));
        assert_eq!(said(&[run(9, None)]), None);
    }
}
