//! Logs of speech synthesis, whose steps take several lines: Coqui's trainer (`trainer/logging/console_logger.py`:
//! `--> TIME: … -- STEP: 25/406 -- GLOBAL_STEP: 25`, below it `| > loss: 3.2  (3.3)`, `| > step_time: 0.4`) and VITS
//! (`train_ms.py`: `Train Epoch: 1 [45%]`, below it `[2.1, …, 30.2, 200, 0.0002]`: losses, the step, the learning rate).

use std::sync::LazyLock;

use regex::Regex;

use super::super::facts::{LineFacts, LineFormat, count_after, positive_after};
use super::text;
use crate::reading::LogFormat;
use crate::units::Seconds;

/// Coqui's lines: the figures of a step follow it.
#[derive(Default)]
pub struct Coqui {
    /// The last heading was a training step's.
    in_step: bool,
}

impl LineFormat for Coqui {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        if line.contains("-->") {
            // An evaluation's steps have no count of the run.
            let step =
                count_after(line, "GLOBAL_STEP:").filter(|_| line.contains("-- STEP:") || line.contains("> STEP:"));
            self.in_step = step.is_some();
            return Some(LineFacts { step: Some(step?), ..LineFacts::default() });
        }
        let figure = line.trim_start().strip_prefix("| >").filter(|_| self.in_step)?;
        let figure = figure.trim_start();
        let loss = figure.starts_with("loss:").then(|| text::loss(figure)).flatten();
        let step_time = figure.starts_with("step_time:").then(|| positive_after(figure, "step_time:")).flatten();
        (loss.is_some() || step_time.is_some()).then(|| LineFacts {
            loss,
            step_time: step_time.map(Seconds),
            ..LineFacts::default()
        })
    }
}

static EPOCH: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bTrain Epoch: \d+ \[\d+%\]$").ok());
static FIGURES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?:^|\s)\[(?:[-+.\de]+|nan|inf)(?:, (?:[-+.\de]+|nan|inf))*, (\d+), [.\de-]+\]$").ok()
});

/// VITS' lines, and those of what was made from it.
#[derive(Default)]
pub struct Vits {
    /// The line before was a training epoch's.
    in_epoch: bool,
}

impl LineFormat for Vits {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let line = line.trim_end();
        if (*EPOCH).as_ref()?.is_match(line) {
            self.in_epoch = true;
            return None;
        }
        let found = (*FIGURES).as_ref()?.captures(line).filter(|_| self.in_epoch);
        self.in_epoch = false;
        // Of its losses, the discriminator's and the generator's parts, none is the one.
        Some(LineFacts { step: Some(text::counted(&found?, 1)?), ..LineFacts::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coquis_figures_belong_to_the_step_above() {
        let mut coqui = Coqui::default();
        assert_eq!(coqui.read("     | > loss: 9.1  (9.2)"), None);
        let step = coqui.read("   --> TIME: 2025-10-02 23:20:45 -- STEP: 5/27 -- GLOBAL_STEP: 32").unwrap();
        assert_eq!((step.step, step.total_steps), (Some(32), None));
        assert_eq!(coqui.read("     | > loss_text_ce: 0.04  (0.05)"), None);
        assert_eq!(coqui.read("     | > loss: 5.42  (5.50)").unwrap().loss, Some(5.42));
        assert_eq!(coqui.read("     | > step_time: 0.9667  (0.9667)").unwrap().step_time, Some(Seconds(0.9667)));
        // Without the time, as it was before 2022.
        assert_eq!(coqui.read("   --> STEP: 430/449 -- GLOBAL_STEP: 58800").unwrap().step, Some(58_800));
        assert_eq!(coqui.read("  --> EVAL PERFORMANCE"), None);
        assert_eq!(coqui.read("     | > loss: 7.1 (+0.0)"), None);
        assert_eq!(coqui.read("   --> TRAIN PERFORMACE -- EPOCH TIME: 8.43 sec -- GLOBAL_STEP: 29144"), None);
    }

    #[test]
    fn the_step_of_vits_is_the_last_but_one() {
        let mut vits = Vits::default();
        let figures = "2026-03-01 10:00:00,124\tljs_base\tINFO\t[2.1, 2.5, 6.1, 30.217, 1.2, 2.0, 1200, 0.0002]";
        // A list of nobody knows what.
        assert_eq!(vits.read(figures), None);
        assert_eq!(vits.read("2026-03-01 10:00:00,123\tljs_base\tINFO\tTrain Epoch: 1 [45%]"), None);
        let facts = vits.read(figures).unwrap();
        assert_eq!((facts.step, facts.loss), (Some(1_200), None));
        assert_eq!(vits.read(figures), None);
    }
}
