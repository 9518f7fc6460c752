//! What the command's own output says of its loss, where that goes to a file: at the end it may be no number, or rise.

use std::path::PathBuf;

use crate::app::loss_words;
use crate::observe::log::Log;
use crate::reading::{Moment, ReadingKind};
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
}

impl LossWatch {
    /// Of what the command's output and errors go to, where these are files: ours are its own.
    pub fn of_output() -> Self {
        let is_file = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
        let mut paths: Vec<PathBuf> =
            [1, 2].iter().filter_map(|number| std::fs::read_link(format!("/proc/self/fd/{number}")).ok()).collect();
        paths.retain(is_file);
        paths.dedup();
        Self { log: (!paths.is_empty()).then(|| Log::of_files(paths, None)), ..Self::default() }
    }

    /// Reads on, now and then; `last` at the end in any case.
    pub fn look(&mut self, now: Moment, last: bool) {
        let Some(log) = &mut self.log else { return };
        if !last && self.looked.is_some_and(|looked| now.0 < looked.0 + APART) {
            return;
        }
        self.looked = Some(now);
        log.read(now);
        let progress = log.progress();
        let Some(loss) = progress.loss.value() else { return };
        let step = progress.step.value().copied().filter(|_| progress.step.kind() == Some(ReadingKind::Measured));
        if self.losses.last().is_some_and(|known| known.0 == step && known.1.to_bits() == loss.to_bits()) {
            return;
        }
        if self.losses.len() == KEPT {
            let mut number = 0;
            self.losses.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        self.losses.push((step, *loss));
    }

    /// What is wrong with the loss; none where nothing is, or nobody knows.
    pub fn words(&self) -> Option<String> {
        let (_, last) = self.losses.last()?;
        if !last.is_finite() {
            let since = self.losses.iter().rposition(|(_, loss)| loss.is_finite()).map_or(0, |before| before + 1);
            let step =
                self.losses.get(since)?.0.map_or_else(String::new, |step| format!(" from step {} on", grouped(step)));
            return Some(format!("the loss is {}{step}", loss_words(*last)));
        }
        self.rise()
    }

    /// A loss that falls no more and rises: each quarter behind the lowest lies above the one before.
    fn rise(&self) -> Option<String> {
        if self.losses.len() < LEAST {
            return None;
        }
        let quarter = self.losses.len() / 4;
        let medians: Vec<f64> = self.losses.chunks(quarter).take(4).map(median).collect();
        let (place, lowest) = medians.iter().copied().enumerate().min_by(|one, other| one.1.total_cmp(&other.1))?;
        let end = *medians.last()?;
        let climbs = medians[place..].windows(2).all(|pair| pair[1] > pair[0]);
        let around =
            self.losses[place * quarter].0.map_or_else(String::new, |step| format!(" (from step {})", grouped(step)));
        let rises = lowest > 0.0 && climbs && end >= RISEN * lowest;
        rises.then(|| format!("the loss rises: {}{around}, then {} at the end", loss_words(lowest), loss_words(end)))
    }
}

fn median(losses: &[(Option<u64>, f64)]) -> f64 {
    let mut losses: Vec<f64> = losses.iter().map(|(_, loss)| *loss).collect();
    losses.sort_by(f64::total_cmp);
    losses[losses.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(losses: &[f64]) -> Option<String> {
        let losses = losses.iter().enumerate().map(|(step, loss)| (Some(step as u64 * 10), *loss)).collect();
        LossWatch { losses, ..LossWatch::default() }.words()
    }

    #[test]
    fn a_loss_that_is_no_number_and_one_that_rises_are_told() {
        assert_eq!(of(&[3.0, 2.5, f64::NAN, f64::NAN]).as_deref(), Some("the loss is NaN from step 20 on"));
        assert_eq!(of(&[3.0, f64::INFINITY]).as_deref(), Some("the loss is inf from step 10 on"));
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
}
