//! Any line with a step and a loss: `step 120/5000 | loss 2.31 | 310 ms/step`, `[iter 40] train_loss=6.2`. Whose it is
//! nobody knows; lines of a framework that is known come before.

use std::borrow::Cow;

use regex::Captures;

use super::super::facts::{LineFacts, LineFormat, leading_count, leading_number};
use super::epochs;
use super::words::{BESIDE, EPOCH, LOSS, OTHER, PLACE, TOKENS, WordPattern, has_two_models, named_step, time};
use crate::reading::LogFormat;

/// What is looked at of a line.
const LONGEST: usize = 2_000;

/// A run of more than so many is none of epochs.
const MOST_EPOCHS: u64 = 1000;

fn groups<'a>(pattern: &WordPattern, line: &'a str) -> Option<Captures<'a>> {
    (**pattern).as_ref()?.captures(line)
}

fn number(found: &Captures, group: usize) -> Option<f64> {
    leading_number(found.get(group)?.as_str())
}

/// A count that a pattern has found.
pub fn counted(found: &Captures, group: usize) -> Option<u64> {
    leading_count(found.get(group)?.as_str())
}

/// The line as far as it is training's: no bar, no evaluation's line, and without the figures of an evaluation that
/// stand beside its own.
pub fn training(line: &str) -> Option<Cow<'_, str>> {
    if line.len() > LONGEST || line.contains("%|") {
        return None;
    }
    if groups(&OTHER, line).is_none() {
        return Some(Cow::Borrowed(line));
    }
    let own = (*BESIDE).as_ref()?.replace_all(line, "$1");
    // nanoGPT's evaluation tells the mean of the training's data beside the other, and no time.
    let is_summary = line.to_ascii_lowercase().contains("train loss") && time(&own).is_none();
    (groups(&OTHER, &own).is_none() && !is_summary).then_some(own)
}

/// The loss of a line.
pub fn loss(line: &str) -> Option<f64> {
    number(&groups(&LOSS, line)?, 1)
}

/// Lines of nobody's that tell a step and a loss.
#[derive(Default)]
pub struct Text {
    /// An epoch 0 was seen: epochs are counted from 0.
    from_zero: bool,
    /// The epoch and the step of the line before.
    before: Option<(u64, u64)>,
    /// Whether the steps are the run's, and not those of an epoch; none before a line has told.
    runs_on: Option<bool>,
    /// The newest place alone.
    place: Option<u64>,
    /// Places alone are those of steps: they go on by more than one.
    strides: bool,
}

impl LineFormat for Text {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let line = &*training(line)?;
        // A loss of `8,279` may be a small or a large one: its step is known all the same.
        if groups(&LOSS, line).is_none() && !has_two_models(line) {
            return None;
        }
        let loss = loss(line);
        let found = named_step(line);
        let (step, total) = match &found {
            Some(found) => (counted(found, 1)?, counted(found, 2)),
            None => self.place(line)?,
        };
        let mut facts = LineFacts { step: Some(step), total_steps: total, loss, ..LineFacts::default() };
        if line.contains("data_time:") || line.contains("max mem:") {
            epochs::measured(line, &mut facts);
        }
        if let Some(found) = groups(&EPOCH, line) {
            // A global step is the run's, whatever the epoch.
            let is_global = named_step(line).is_some_and(|step| step[0].to_ascii_lowercase().starts_with("global"));
            self.epoch(&mut facts, &found, (line, is_global));
        }
        facts.step_time = time(line).or(facts.step_time);
        facts.tokens_per_s = groups(&TOKENS, line).and_then(|found| rate(&found));
        Some(facts)
    }
}

impl Text {
    /// What a place alone counts nobody says: it may be epochs, which are told one by one and are not many.
    fn place(&mut self, line: &str) -> Option<(u64, Option<u64>)> {
        let found = groups(&PLACE, line).filter(|_| groups(&EPOCH, line).is_none())?;
        let (step, total) = (counted(&found, 1)?, counted(&found, 2)?);
        self.strides |= self.place.is_some_and(|before| step > before.saturating_add(1));
        self.place = Some(step);
        (step <= total && (self.strides || total > MOST_EPOCHS)).then_some((step, Some(total)))
    }

    /// A step of an epoch, where it says how many each has, is one of the run.
    fn epoch(&mut self, facts: &mut LineFacts, found: &Captures, (line, is_global): (&str, bool)) {
        let Some(epoch) = counted(found, 1) else { return };
        self.from_zero |= epoch == 0;
        let Some(step) = facts.step else { return };
        let before = self.before.replace((epoch, step));
        if let Some((_, last)) = before.filter(|(then, _)| *then < epoch) {
            // As an epoch began they went on, or began again. Of two epochs that are told once each nobody knows.
            self.runs_on = Some(last < step && self.runs_on != Some(false));
        }
        // YOLOX (yolox/core/trainer.py, `after_iter`): they are the epoch's.
        if line.contains("iter_time:") && line.contains("size:") {
            self.runs_on = Some(false);
        }
        if is_global || self.runs_on == Some(true) {
            return;
        }
        let before = if self.from_zero { epoch } else { epoch.saturating_sub(1) };
        let Some(each) = facts.total_steps else {
            // In the first epoch both are the same.
            if before > 0 {
                facts.batch = facts.step.take();
                #[allow(clippy::cast_precision_loss)]
                let done = before as f64;
                facts.epoch = Some(done);
            }
            return;
        };
        let epochs = counted(found, 2);
        if self.runs_on.is_none() && epochs.is_some_and(|epochs| !is_before_epoch(before, epochs, step, each)) {
            // `Epoch 2/3 step 150/300` is in the middle of the run, or in the middle of its second epoch.
            facts.step = facts.step.filter(|_| before == 0);
            facts.total_steps = None;
            return;
        }
        if epochs.is_some() {
            self.runs_on = Some(false);
        }
        facts.step = before.checked_mul(each).and_then(|before| before.checked_add(step));
        facts.step_is_derived = true;
        facts.total_steps = epochs.and_then(|epochs| epochs.checked_mul(each));
    }
}

/// Whether `step` of `total`, taken as those of the run, lies before the epoch that the line names, of which `before` are
/// done: then it is one of an epoch. One that lies behind it may be of a run that a limit of steps ends early.
#[allow(clippy::cast_precision_loss)]
fn is_before_epoch(before: u64, epochs: u64, step: u64, total: u64) -> bool {
    step as f64 / total as f64 * (epochs as f64) < before as f64
}

/// Tokens a second of the whole run. Where a number stands on either side nobody knows which is its.
fn rate(found: &Captures) -> Option<f64> {
    let scaled = |group: usize| {
        let rate = number(found, group).filter(|rate| rate.is_finite() && *rate > 0.0)?;
        let scale = match found.get(group + 1).map(|unit| unit.as_str().to_lowercase()).as_deref() {
            Some("k") => 1e3,
            Some("m") => 1e6,
            _ => 1.0,
        };
        Some(rate * scale)
    };
    if found.get(3).is_some() {
        return None;
    }
    match (found.get(1), found.get(4), found.get(5)) {
        (_, Some(_), Some(_)) | (None, _, Some(_)) => scaled(5),
        (Some(_), None, None) => scaled(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::figures::NumberStyle;
    use super::*;
    use crate::units::Seconds;

    #[test]
    fn a_step_and_a_loss_in_whatever_words() {
        let read = |line: &str| Text::default().read(line).map(|facts| (facts.step, facts.total_steps, facts.loss));
        for (line, step, total, loss) in [
            ("step 120/5000 | loss 2.31 | lr 1e-4", 120, Some(5_000), 2.31),
            ("[2026-01-02 10:00:00] iter: 40, train_loss=6.25, time 3", 40, None, 6.25),
            ("Iteration 1,200 of 4,000: Loss: 1.5e-1", 1_200, Some(4_000), 0.15),
            ("global_step=7 loss=3.0", 7, None, 3.0),
            ("loss 3.0 | 12 ms/step 814 tok/s | step 7", 7, None, 3.0),
            ("train/loss: 3.0 train/step: 7", 7, None, 3.0),
            ("Step [10/20], Training Loss: 0.5", 10, Some(20), 0.5),
            ("it=0040 loss=9.25", 40, None, 9.25),
            // NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT/run_pretraining.py through DLLogger
            (
                "DLL 2026-03-01 10:00:00.123456 - Training Epoch: 0 Training Iteration: 10  step_loss : 10.5  learning_rate : 0.0001",
                10,
                None,
                10.5,
            ),
            // OpenNMT/OpenNMT-py, onmt/utils/statistics.py
            (
                "[2021-03-01 10:00:00,123 INFO] Step 50/100000; acc: 3.0; ppl: 100.1; xent: 9.2; 1000/1100 tok/s; 10 sec",
                50,
                Some(100_000),
                9.2,
            ),
        ] {
            assert_eq!(read(line), Some((Some(step), total, Some(loss))), "{line}");
        }
        for line in [
            "step 100: train loss 3.1, val loss 3.2",
            "loss 2.0",
            "step 5 of the plan",
            "stepwise 3 lossless 4",
            " [=====>.........]  Step: 4s205ms | Tot: 44s505ms | Loss: 3.055 | Acc: 8.333% (16/192) 12/250",
            " [=====>.........]  Step: 65ms | Tot: 6s542ms | Loss: 1.201 | Acc: 40.212% (1/128) 101/391",
            "step 40% loss 2.5",
            "2026-11-30 18:15:29.213 | INFO | __main__:main:41 - loss=4.5917 lr=3.00e-04 884ms/step 814 tok/s",
            "loss 4.5 | 0.9 s / step 814 tok/s",
            "loss 4.5 | tokens per step 4096",
            "eval step 3 loss 2",
            "4.4it/s 3 loss 2",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn a_place_alone_is_a_steps_where_it_goes_on_in_strides() {
        let mut text = Text::default();
        let mut read = |line: &str| text.read(line).map(|facts| (facts.step, facts.total_steps, facts.loss));
        // It may be the fortieth of 300 epochs.
        assert_eq!(read("[   40/300] loss=3.9 | 387 ms | 2645 tok/s"), None);
        assert_eq!(read("[   45/300] loss=3.8 | 387 ms | 2645 tok/s"), Some((Some(45), Some(300), Some(3.8))));
        assert_eq!(read("2026-01-02 10:00:00 50/300 train loss 3.7"), Some((Some(50), Some(300), Some(3.7))));
        let mut epochs = Text::default();
        let mut read = |line: &str| epochs.read(line).map(|facts| facts.step);
        for line in
            ["[1/30] loss: 2.0", "[2/30] loss: 1.9", "[3/30] loss: 1.8", "Epoch [9/30] loss: 1.8", "lr 3/4 loss 2"]
        {
            assert_eq!(read(line), None, "{line}");
        }
        assert_eq!(Text::default().read("[7/5000] loss: 2.0").unwrap().step, Some(7));
    }

    #[test]
    fn figures_of_an_evaluation_are_passed_over_beside_the_trainings_own() {
        let read = |line: &str| Text::default().read(line).map(|facts| (facts.step, facts.loss));
        for line in [
            "step 14 | loss 2.14 | 0.9s/it | val_loss 5.5 loss_scale 65536",
            "step 14 | val_loss 5.5 | loss 2.14 | 0.9s/it",
            "step 14 | val/loss=5.5 | eval_acc: 0.25 | loss 2.14",
            "step 14 validation loss: 5.5 train loss: 2.14 310 ms/step",
        ] {
            assert_eq!(read(line), Some((Some(14), Some(2.14))), "{line}");
        }
        for line in
            ["step 14 | val_loss 5.5", "val step 14 | loss 2.14", "step 14 eval loss 5.5", "test_step 14 loss 2"]
        {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn a_number_of_another_figure_is_no_rate_of_steps() {
        let time = |line: &str| Text::default().read(line).unwrap().step_time.map(|time| time.0);
        assert_eq!(time("global_step = 35, loss = 8.5, steps/sec: 4"), Some(0.25));
        assert_eq!(time("step 35, loss 8.5, s/step: 0.5"), Some(0.5));
        assert_eq!(time("step 35 loss 8.5, it/s 4"), None);
        assert_eq!(time("step 35, loss 8.5, 4.0 it/s"), Some(0.25));
        assert_eq!(time("step 35, loss 8.5, 4 steps/second"), Some(0.25));
        assert_eq!(time("step 200 loss 2.4 it/s: 4"), Some(0.25));
        assert_eq!(time("step 200 loss 0.4 ms/step: 250"), Some(0.25));
        assert_eq!(time("step 35, loss 8.5, 250 ms/step"), Some(0.25));
    }

    #[test]
    fn words_of_other_languages_and_of_two_models() {
        let read = |line: &str| {
            let facts = Text::default().read(&NumberStyle::default().plain(line))?;
            Some((facts.step, facts.total_steps, facts.loss))
        };
        for (line, step, total, loss) in [
            ("Schritt 70/2000 - Verlust: 8.3135", 70, Some(2_000), Some(8.3135)),
            ("Epoche 1, Schritt 12 von 90, Trainingsverlust 2,25", 12, None, Some(2.25)),
            ("Époque 1/5, étape 10/200, perte = 8,25", 10, None, Some(8.25)),
            ("Paso 10 de 200, pérdida 8.5", 10, Some(200), Some(8.5)),
            ("étape 40/200, perte = 8,279", 40, Some(200), None),
            ("step 40/90 d_loss 0.5 g_loss 0.75", 40, Some(90), None),
            ("num_updates: 5 | train_loss: 2.5", 5, None, Some(2.5)),
        ] {
            assert_eq!(read(line), Some((Some(step), total, loss)), "{line}");
        }
        for line in ["Schritt 70 Validierung: Verlust 8.3", "étape 3, perte de validation : 2.5", "step 40 id_loss 0.5"]
        {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn a_rate_of_tokens_is_no_count_and_no_neighbours() {
        let rate = |line: &str| {
            let line = format!("step 3 loss 2.0 {line}");
            Text::default().read(&NumberStyle::default().plain(&line)).unwrap().tokens_per_s
        };
        assert_eq!(rate("| tokens=65536"), None);
        assert_eq!(rate("| mem 70.5 tok/s 7047"), None);
        assert_eq!(rate("| TFLOP/s/device: 100.123, Tokens/s/device: 2000.123"), None);
        assert_eq!(rate("| tok/s: 7047"), Some(7_047.0));
        assert_eq!(rate("| tps 7,047 | lr 1e-4"), Some(7_047.0));
        assert_eq!(rate("| 12.5k tok/s"), Some(12_500.0));
        assert_eq!(rate("| 12.5k tok/s 33 ms"), None);
        assert_eq!(rate("| tokens_per_sec=7047"), Some(7_047.0));
        assert_eq!(rate("| Throughput: 1.15e+04 tokens/sec, Time: 1.5s"), Some(11_500.0));
        assert_eq!(rate("| 12 300 tokens/s"), Some(12_300.0));
        // Twelve thousand three hundred, or step 12 and 300.
        assert_eq!(rate("| 1,5 s/it | 12,300 tokens/s"), None);
    }

    #[test]
    fn steps_that_run_on_are_not_multiplied() {
        let mut text = Text::default();
        assert_eq!(text.read("Epoch 2/3 | global_step 150/300 | loss 2.0").unwrap().step, Some(150));
        let mut step = |line: &str| text.read(line).map(|facts| (facts.step, facts.total_steps));
        // The whole first epoch of three, or a third of each.
        assert_eq!(step("Epoch 1/3 step 100/300 loss 2.0"), Some((Some(100), None)));
        assert_eq!(step("Epoch 2/3 step 101/300 loss 2.0"), Some((Some(101), Some(300))));
        // In the middle of the run, or of its second epoch: the next lines tell.
        let mut open = Text::default();
        let mut step = |line: &str| open.read(line).map(|facts| (facts.step, facts.total_steps));
        assert_eq!(step("Epoch 2/3 step 150/300 loss 2.0"), Some((None, None)));
        // Past the second of three, which a limit of steps may do as well.
        assert_eq!(step("Epoch 2/3 step 201/300 loss 2.0"), Some((None, None)));
        // Before the third, were it the run's.
        assert_eq!(step("Epoch 3/3 step 1/300 loss 2.0"), Some((Some(601), Some(900))));
        for line in ["Testing: step 20/20 loss 3.3", "Evaluating step 7/20 loss 3.3", "[dev] step 7/20 loss 3.3"] {
            assert_eq!(Text::default().read(line), None, "{line}");
        }
        let facts = Text::default().read("Iter(train) [   50/160000]  lr: 1e-2  eta: 1:00:00  time: 0.5000  data_time: 0.0100  memory: 900  loss: 1.5");
        let facts = facts.unwrap();
        assert_eq!((facts.step, facts.total_steps, facts.step_time), (Some(50), Some(160_000), Some(Seconds(0.5))));
    }

    #[test]
    fn steps_of_an_epoch_of_unknown_length_are_no_steps_of_the_run() {
        let mut text = Text::default();
        let mut read = |line: &str| text.read(line).map(|facts| (facts.step, facts.batch)).unwrap();
        assert_eq!(read("epoch 0 step 90 loss 6.8"), (Some(90), None));
        assert_eq!(read("epoch 1 step 10 loss 6.7"), (None, Some(10)));
        assert_eq!(read("epoch 2 step 20 loss 6.7"), (None, Some(20)));
        let mut text = Text::default();
        let mut read = |line: &str| text.read(line).map(|facts| (facts.step, facts.batch)).unwrap();
        // Both would be possible until another epoch begins.
        assert_eq!(read("epoch 3 step 1200 loss 6.8"), (None, Some(1_200)));
        assert_eq!(read("epoch 4 step 1300 loss 6.8"), (Some(1_300), None));
        assert_eq!(read("epoch 4 step 1350 loss 6.8"), (Some(1_350), None));
    }

    #[test]
    fn iterations_of_yolox_are_an_epochs() {
        let line = "epoch: 2/300, iter: 10/1849, mem: 5512Mb, iter_time: 0.802s, data_time: 0.001s, total_loss: 20.0, lr: 1e-06, \
                    size: 640, ETA: 1 day, 12:50:10";
        let facts = Text::default().read(line).unwrap();
        // 1 849 + 10 of 300 x 1 849.
        assert_eq!((facts.step, facts.total_steps, facts.loss), (Some(1_859), Some(554_700), Some(20.0)));
        assert_eq!(facts.step_time, Some(Seconds(0.802)));
    }

    #[test]
    fn detectron2_tells_the_time_and_the_memory_too() {
        // detectron2/utils/events.py, `CommonMetricPrinter`
        let line = "[03/01 10:00:00 d2.utils.events]:  eta: 1:02:03  iter: 19  total_loss: 2.3  time: 0.3012  data_time: 0.01  max_mem: 4321M";
        let facts = Text::default().read(line).unwrap();
        assert_eq!((facts.step, facts.loss, facts.step_time), (Some(19), Some(2.3), Some(Seconds(0.3012))));
        assert_eq!(facts.peak_allocated, Some(crate::units::Bytes(4321 << 20)));
    }

    #[test]
    fn steps_of_an_epoch_are_steps_of_the_run() {
        let mut text = Text::default();
        // Step 10 of 100 lies in the first of three epochs, were it the run's: it is the second epoch's.
        assert_eq!(text.read("Epoch [2/3], Step [10/100], Loss: 0.3").unwrap().step, Some(110));
        // The second of three epochs of 100 steps: 100 + 40 of 300.
        let facts = text.read("Epoch [2/3], Step [40/100], Loss: 0.25, 0.5 s/step, 12.5k tok/s").unwrap();
        assert_eq!((facts.step, facts.total_steps, facts.step_is_derived), (Some(140), Some(300), true));
        assert_eq!((facts.step_time, facts.tokens_per_s), (Some(Seconds(0.5)), Some(12_500.0)));
        assert_eq!(text.read("Epoch: 0 Step: 40/100 Loss: 1").unwrap().step, Some(40));
        assert_eq!(text.read("Epoch: 1 Step: 1/100 Loss: 1 dt 250ms").unwrap().step, Some(101));
    }
}
