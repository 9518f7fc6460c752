//! Bars that Rich draws, `Epoch 1/3 ━━━━━╸━━━━ 37/40 0:00:01 loss 0.081` (`rich.progress.Progress` with a
//! `MofNCompleteColumn`): in a file once at their end, and at each refresh where a terminal is forced. Lightning's are read
//! by the rate in them, beside its other bars.

use super::super::facts::{LineFacts, LineFormat, leading_number, of_total};
use crate::reading::LogFormat;

/// What the bar is drawn with (`rich.progress_bar.ProgressBar`); the last is for terminals without Unicode.
const STROKES: [char; 3] = ['━', '╸', '╺'];

/// Fewer strokes in a row may be anything's.
const LEAST: usize = 5;

/// A bar of a loop of anybody's.
#[derive(Default)]
pub struct RichBar {
    /// An epoch 0 was seen.
    from_zero: bool,
    /// The total of the bar that is under way: one with fewer rounds in between is an evaluation.
    under_way: Option<u64>,
}

impl LineFormat for RichBar {
    fn name(&self) -> LogFormat {
        LogFormat::Bar
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let begin = line.find(STROKES)?;
        let end = line.rfind(STROKES).map(|at| at + line[at..].chars().next().map_or(1, char::len_utf8))?;
        if line[begin..end].chars().filter(|letter| STROKES.contains(letter)).count() < LEAST {
            return None;
        }
        let (label, rest) = (line[..begin].trim(), &line[end..]);
        let mut words = rest.split_whitespace();
        let (done, total) = words.find_map(of_total).filter(|(done, total)| *total > 0 && done <= total)?;
        let lower = label.to_ascii_lowercase();
        if !["train", "step", "iter", "epoch"].iter().any(|word| lower.contains(word)) && !label.is_empty() {
            return None;
        }
        if self.under_way.is_some_and(|under_way| total < under_way) {
            return None;
        }
        self.under_way = (done < total).then_some(total);
        let loss = loss(rest);
        let Some(epoch) = lower.split("epoch").nth(1) else {
            return Some(LineFacts { step: Some(done), total_steps: Some(total), loss, ..LineFacts::default() });
        };
        let epoch = epoch.trim_start_matches([' ', ':', '[', '#']);
        let (number, epochs) = match of_total(epoch) {
            Some((number, epochs)) => (number, Some(epochs)),
            None => (leading_number(epoch).and_then(super::super::facts::count)?, None),
        };
        self.from_zero |= number == 0;
        let before = if self.from_zero { number } else { number - 1 };
        Some(LineFacts {
            step: before.checked_mul(total).and_then(|before| before.checked_add(done)),
            step_is_derived: true,
            // Of epochs from 0 the last may be one less than their number, or not.
            total_steps: epochs.filter(|_| !self.from_zero).and_then(|epochs| epochs.checked_mul(total)),
            epoch: Some(before as f64 + done as f64 / total as f64),
            loss,
            ..LineFacts::default()
        })
    }
}

/// `loss 0.081`, `loss: 0.081`, `loss=0.081` behind the bar; none of an evaluation.
fn loss(rest: &str) -> Option<f64> {
    let mut words =
        rest.split(|letter: char| letter.is_whitespace() || "=:,|•".contains(letter)).filter(|w| !w.is_empty());
    words.find(|word| matches!(word.to_ascii_lowercase().as_str(), "loss" | "train_loss" | "train/loss"))?;
    leading_number(words.next()?)
}
