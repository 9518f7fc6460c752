//! What one line of a log tells, and the small change of reading it.

use crate::reading::LogFormat;
use crate::units::{Bytes, FlopsPerSec, Fraction, Seconds};

/// What one line tells. All of it may be missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineFacts {
    /// Optimizer steps done.
    pub step: Option<u64>,
    /// The step is counted from epochs rather than said.
    pub step_is_derived: bool,
    /// Optimizer steps of the run.
    pub total_steps: Option<u64>,
    /// Optimizer steps of an epoch, where the line counts them within one.
    pub epoch_steps: Option<u64>,
    /// Batches done of an epoch of which nobody says how many it has.
    pub batch: Option<u64>,
    /// Epochs done.
    pub epoch: Option<f64>,
    /// The loss.
    pub loss: Option<f64>,
    /// Time of an optimizer step.
    pub step_time: Option<Seconds>,
    /// One micro batch of those that an optimizer step is made of.
    pub micro_step: Option<MicroStep>,
    /// Of the whole run.
    pub tokens_per_s: Option<f64>,
    /// Norm of all gradients, before they were clipped.
    pub grad_norm: Option<f64>,
    /// Of one GPU.
    pub tokens_per_s_per_gpu: Option<f64>,
    /// Of the whole run.
    pub samples_per_s: Option<f64>,
    /// The framework's own.
    pub mfu: Option<Fraction>,
    /// The framework's own, of one GPU.
    pub model_flops_per_gpu: Option<FlopsPerSec>,
    /// Allocated now.
    pub allocated: Option<Bytes>,
    /// The most allocated.
    pub peak_allocated: Option<Bytes>,
    /// The most reserved.
    pub peak_reserved: Option<Bytes>,
}

/// One micro batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MicroStep {
    /// How many there were before it and with it, over the whole run.
    pub count: u64,
    /// Its time.
    pub time: Seconds,
    /// The optimizer stepped after it.
    pub last: bool,
}

/// A way to read a line.
pub trait LineFormat: Send {
    /// Whose lines these are.
    fn name(&self) -> LogFormat;

    /// Whether it takes lines as they are written, their numbers not yet made plain.
    fn reads_as_written(&self) -> bool {
        false
    }

    /// What the line tells; none where it is not one of this format's.
    fn read(&mut self, line: &str) -> Option<LineFacts>;
}

/// The number at the beginning of `text`, blanks skipped; none where a comma parts its digits, which may be a decimal one.
/// `nan` and `inf` are numbers: a loss may be one.
pub fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim_start().trim_start_matches(['\'', '"']);
    let of_a_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let mut end = text.find(|c| !of_a_number(c)).unwrap_or(text.len());
    if text[end..].strip_prefix(',').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return None;
    }
    while end > 0 {
        match text[..end].parse::<f64>() {
            // `info` begins like a number, too.
            Ok(number) if number.is_finite() || !text[end..].starts_with(char::is_alphanumeric) => return Some(number),
            // What follows without a blank is a unit (`48.67ms`).
            _ => end -= 1,
        }
    }
    None
}

/// The count at the beginning of `text`. Commas between its digits part thousands: a count has no decimals.
pub fn leading_count(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(text.len());
    let mut groups = text[..end].trim_end_matches(',').split(',');
    let lead = groups.next()?;
    let rest: Vec<&str> = groups.collect();
    if rest.is_empty() || lead.is_empty() || lead.len() > 3 || rest.iter().any(|group| group.len() != 3) {
        return count(leading_number(text)?);
    }
    count(leading_number(&format!("{lead}{}{}", rest.concat(), &text[end..]))?)
}

/// The number that follows the first `key` in `line`.
pub fn number_after(line: &str, key: &str) -> Option<f64> {
    leading_number(&line[line.find(key)? + key.len()..])
}

/// The same where only a finite number above zero makes sense.
pub fn positive_after(line: &str, key: &str) -> Option<f64> {
    number_after(line, key).filter(|number| number.is_finite() && *number > 0.0)
}

/// The same for a count.
pub fn count_after(line: &str, key: &str) -> Option<u64> {
    leading_count(&line[line.find(key)? + key.len()..])
}

/// A count that a log wrote as a number. What exceeds 2^53 is none.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn count(number: f64) -> Option<u64> {
    ((0.0..9.007e15).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// `3/1617` at the beginning of `text`.
pub fn of_total(text: &str) -> Option<(u64, u64)> {
    let (done, rest) = text.trim_start().split_once('/')?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((done.trim_end().parse().ok()?, rest[..end].parse().ok()?))
}

/// The name that ends `line` before its number, and the number, for `name: 1.5` and `name=1.5`.
pub fn named_number(field: &str, between: char) -> Option<(&str, f64)> {
    let (name, value) = field.rsplit_once(between)?;
    Some((name.trim(), leading_number(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_frameworks_write_them() {
        for (text, number) in [("  1.376514E+01 |", 13.765_14), ("48.67ms, mfu", 48.67), ("-100.00%", -100.0)] {
            assert_eq!(leading_number(text), Some(number), "{text}");
        }
        assert!(leading_number("nan").unwrap().is_nan());
        assert_eq!(leading_number("n/a"), None);
        assert_eq!(leading_number(""), None);
        assert_eq!(leading_number("|"), None);
        // 4 376, or 4.376: a count is the one, any other figure may be either.
        assert_eq!(leading_number("4,376  tflops"), None);
        assert_eq!(leading_number("4, 376"), Some(4.0));
        for (text, count) in
            [("4,376 steps", Some(4_376)), ("1,234,567", Some(1_234_567)), ("12,34", None), ("7, loss", Some(7))]
        {
            assert_eq!(leading_count(text), count, "{text}");
        }
    }

    #[test]
    fn a_share_of_a_total() {
        assert_eq!(of_total("   11/50000 |"), Some((11, 50_000)));
        assert_eq!(of_total("      199/  317892 | consumed"), Some((199, 317_892)));
        assert_eq!(of_total("a/b"), None);
        assert_eq!(count(1.5), None);
        assert_eq!(count(f64::NAN), None);
    }
}
