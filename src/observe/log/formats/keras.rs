//! Keras' bar below the line of its epoch, `Epoch 2/10`: `  20/1875 [>......] - ETA: 5s - loss: 0.49 - accuracy: 0.8` of Keras 2,
//! `  20/1875 ━━━━━━━━━━ 5s 3ms/step - accuracy: 0.8 - loss: 0.49` of Keras 3 (keras/src/utils/progbar.py).

use std::sync::LazyLock;

use regex::Regex;

use super::super::facts::{LineFacts, LineFormat, leading_number, of_total};
use super::text;
use crate::reading::LogFormat;
use crate::units::Seconds;

static EPOCH: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\s*Epoch (\d+)/(\d+)\s*$").ok());
static BAR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\s\x08]*(\d+/\d+) (?:\[[=>.]+\]|━+) ").ok());
static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r" (\d+)(us|ms|s)/step\b").ok());

/// Keras' bars.
#[derive(Default)]
pub struct Keras {
    /// The epoch under way, of how many.
    epoch: Option<(u64, u64)>,
    /// The batches of each: a bar of others is an evaluation.
    each: Option<u64>,
}

impl LineFormat for Keras {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        if let Some(found) = (*EPOCH).as_ref()?.captures(line) {
            // The first bar below it is training's.
            self.each = None;
            self.epoch = text::counted(&found, 1).filter(|epoch| *epoch > 0).zip(text::counted(&found, 2));
            return None;
        }
        let (epoch, epochs) = self.epoch?;
        let found = (*BAR).as_ref()?.captures(line)?;
        let (done, each) = of_total(found.get(1)?.as_str())?;
        if each == 0 || done > each || each != *self.each.get_or_insert(each) {
            return None;
        }
        let time = (*TIME).as_ref()?.captures(line).and_then(|found| {
            let scale = match found.get(2)?.as_str() {
                "us" => 1e-6,
                "ms" => 1e-3,
                _ => 1.0,
            };
            leading_number(found.get(1)?.as_str()).filter(|number| *number > 0.0).map(|number| Seconds(number * scale))
        });
        let before = epoch - 1;
        #[allow(clippy::cast_precision_loss)]
        let fraction = before as f64 + done as f64 / each as f64;
        Some(LineFacts {
            step: before.checked_mul(each).and_then(|before| before.checked_add(done)),
            step_is_derived: true,
            total_steps: epochs.checked_mul(each),
            epoch: Some(fraction),
            loss: text::loss(line),
            step_time: time,
            ..LineFacts::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_both_generations_count_within_the_epoch_above_them() {
        for (bar, time) in [
            ("  20/1875 [>.............................] - ETA: 5s - loss: 0.4990 - accuracy: 0.8", None),
            ("  20/1875 ━━━━━━━━━━━━━━━━━━━━ 5s 3ms/step - accuracy: 0.8 - loss: 0.4990", Some(Seconds(0.003))),
        ] {
            let mut keras = Keras::default();
            assert_eq!(keras.read(bar), None, "of no epoch that is known");
            assert_eq!(keras.read("Epoch 2/10"), None);
            let facts = keras.read(bar).unwrap();
            // 1 875 + 20 of 10 x 1 875.
            assert_eq!((facts.step, facts.total_steps), (Some(1_895), Some(18_750)), "{bar}");
            assert_eq!((facts.loss, facts.step_time), (Some(0.499), time), "{bar}");
            let evaluation = "313/313 ━━━━━━━━━━━━━━━━━━━━ 1s 2ms/step - accuracy: 0.9 - loss: 0.3";
            assert_eq!(keras.read(evaluation), None);
        }
    }
}
