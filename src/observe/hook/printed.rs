//! What a process has printed of its loss: its lines are read as those of a log are.

use serde::Deserialize;

use crate::log::Log;
use crate::reading::{Moment, PrintedLoss, PrintedTurn, ReadingKind};

/// The newest line with a loss, and the first since the loss is no number.
#[derive(Deserialize)]
pub struct RawPrinted {
    last: RawLine,
    turned: Option<RawLine>,
}

#[derive(Deserialize)]
struct RawLine {
    line: String,
    /// As it stands there: JSON has no such numbers.
    loss: String,
    /// Optimizer steps that the process had made.
    step: u64,
}

/// The losses of those lines; none where they are no numbers of Python's.
pub fn loss(raw: RawPrinted, now: Moment) -> Option<PrintedLoss> {
    let loss = raw.last.loss.parse().ok()?;
    let turned = raw.turned.and_then(|raw| {
        let loss: f64 = raw.loss.parse().ok().filter(|loss: &f64| !loss.is_finite())?;
        let mut log = Log::of_files(Vec::new(), None);
        log.take_line(&raw.line, now);
        let step = &log.progress().step;
        let step = step.value().copied().filter(|_| step.kind() == Some(ReadingKind::Measured));
        Some(PrintedTurn { loss, step, made: raw.step })
    });
    Some(PrintedLoss { loss, turned })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<PrintedLoss> {
        loss(serde_json::from_str(text).unwrap(), Moment(1))
    }

    #[test]
    fn the_step_of_a_line_is_told_beside_those_that_were_made() {
        let line =
            |line: &str, loss: &str, step: u64| format!(r#"{{"line": "{line}", "loss": "{loss}", "step": {step}}}"#);
        // Resumed at step 1000.
        let first = line("step 1026/1040 loss nan", "nan", 26);
        let printed =
            read(&format!(r#"{{"last": {}, "turned": {first}}}"#, line("step 1030/1040 loss nan", "nan", 30)));
        let turned = printed.unwrap().turned.unwrap();
        assert!(turned.loss.is_nan() && (turned.step, turned.made) == (Some(1026), 26), "{turned:?}");
        // transformers' own line tells no step.
        let first = line("{'loss': inf, 'grad_norm': nan, 'epoch': 0.5}", "inf", 40);
        let turned = read(&format!(r#"{{"last": {first}, "turned": {first}}}"#)).unwrap().turned.unwrap();
        assert_eq!(turned, PrintedTurn { loss: f64::INFINITY, step: None, made: 40 });
        let fine = read(&format!(r#"{{"last": {}}}"#, line("loss 2.5", "2.5", 3))).unwrap();
        assert_eq!(fine, PrintedLoss { loss: 2.5, turned: None });
        assert_eq!(read(&format!(r#"{{"last": {}}}"#, line("loss x", "x", 3))), None);
    }
}
