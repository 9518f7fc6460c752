//! Loops that count batches within an epoch: `PyTorch`'s example (`Epoch: [0][  10/5005]  Time  0.254 ( 0.301)  …  Loss 7.0e+00`),
//! torchvision (`Epoch: [0]  [  10/1251]  …  loss: 6.9 (6.9)  …  time: 0.25  …  max mem: 3524`), timm (`Train: 0 [  50/1251 (  4%)]
//! Loss: 6.9 (6.9)  Time: 0.351s, …`), OpenMMLab (`Epoch [1][50/7330]  …  time: 0.38, data_time: 0.01, memory: 3800, …  loss: 1.2`)
//! and fairseq (`epoch 001:  100 / 10000 loss=15.2, …, num_updates=100`).

use std::sync::LazyLock;

use regex::Regex;

use super::super::facts::{LineFacts, LineFormat, count_after, leading_number};
use super::text;
use crate::reading::LogFormat;
use crate::units::{Bytes, Seconds};

/// An epoch, perhaps of how many, and behind it batches of those that it has.
static POSITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)\b (?: epoch\(train\) | (?:train\s+)? epoch\b | train\b ) \s* :? \s* \[? \s*
          (\d+) (?: \s* / \s* (\d+) )? \s* \]? \s* [|,:]? \s* [\[(]? \s* (?: iter: \s* )? (\d+) \s* / \s* (\d+) \b",
    )
    .ok()
});

/// The time of a batch in seconds, in the forms of such loops: beside its mean, beside a rate, before the time that data took
/// (detectron2's `CommonMetricPrinter` has that of the last one between them); or
/// in milliseconds. A time of data, of the epoch or since the start has other words before it.
static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)(?:^|[\s,|]) (data[_\s]|total[_\s]|elapsed[_\s]|epoch[_\s])? time :? \s+ (\d[\d.]*)
          (?: \s*\(\s*\d[\d.]*\s*\) | \s*s,\s+\d[\d.]*/s | ,?\s+(?:last_time:\s*\d[\d.]*\s+)?data(?:_time)?: ) | \bms/batch \s+ (\d[\d.]*)
          | \b(?: batch_cost: | Batch\ \(t\): ) \s* (\d[\d.]*)",
    )
    .ok()
});

/// `torch.cuda.max_memory_allocated` in MiB, as torchvision, maskrcnn-benchmark and detectron2 write it; OpenMMLab's beside the
/// time that data took (`mmengine/device/utils.py`, `get_max_cuda_memory`).
static MEMORY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:\bmax[_ ]mem:\s*|\bdata_time:.*\bmemory:\s*)(\d+)(?:M\b|[\s,]|$)").ok());

/// Lines that say where in an epoch they are, and a loss.
#[derive(Default)]
pub struct Epochs {
    /// An epoch 0 was seen: epochs are counted from 0.
    from_zero: bool,
}

impl LineFormat for Epochs {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let line = &*text::training(line)?;
        let found = (*POSITION).as_ref()?.captures(line)?;
        let whole = |group| text::counted(&found, group);
        let (epoch, done, each) = (whole(1)?, whole(3)?, whole(4)?);
        let loss = text::loss(line)?;
        if each == 0 || done > each {
            return None;
        }
        let place = found.get(0)?.as_str().to_ascii_lowercase();
        // PyTorch's examples, torchvision and timm count epochs from 0, wherever in the log it is read first.
        self.from_zero |= epoch == 0 || place.starts_with("epoch: [") || place.starts_with("train:");
        let before = if self.from_zero { epoch } else { epoch.saturating_sub(1) };
        let mut facts = LineFacts {
            #[allow(clippy::cast_precision_loss)]
            epoch: Some(before as f64 + done as f64 / each as f64),
            loss: Some(loss),
            ..LineFacts::default()
        };
        // PyTorch's first example counts samples: `Train Epoch: 1 [640/60000 (1%)]`.
        if place.starts_with("train epoch") || (line.contains("samples") && !line.contains("samples/s")) {
            measured(line, &mut facts);
            return Some(facts);
        }
        facts.step = before.checked_mul(each).and_then(|before| before.checked_add(done));
        facts.step_is_derived = true;
        if let Some(updates) = count_after(line, "num_updates=") {
            (facts.step, facts.step_is_derived) = (Some(updates), false);
        }
        facts.total_steps = whole(2).and_then(|epochs| epochs.checked_mul(each));
        facts.epoch_steps = facts.total_steps.is_none().then_some(each);
        measured(line, &mut facts);
        Some(facts)
    }
}

/// The time of a batch and the most that was allocated, where a line tells them in the words of such loops.
pub fn measured(line: &str, facts: &mut LineFacts) {
    let positive = |text: &str| leading_number(text).filter(|number| number.is_finite() && *number > 0.0);
    let times = (*TIME).as_ref().into_iter().flat_map(|pattern| pattern.captures_iter(line));
    if let Some(found) = times.into_iter().find(|found| found.get(1).is_none()) {
        let seconds = found.get(2).or(found.get(4)).and_then(|text| positive(text.as_str()));
        let millis = found.get(3).and_then(|text| positive(text.as_str())).map(|time| time / 1000.0);
        facts.step_time = seconds.or(millis).map(Seconds);
    }
    let held = (*MEMORY).as_ref().and_then(|pattern| pattern.captures(line));
    facts.peak_allocated = held
        .and_then(|found| positive(found.get(1)?.as_str()))
        .map(|mebibytes| Bytes::from_f64(mebibytes * 1024.0 * 1024.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line of the first epoch tells: the step, its time and the loss.
    fn read(line: &str) -> Option<(Option<u64>, Option<f64>, Option<f64>)> {
        let facts = Epochs::default().read(line)?;
        Some((facts.step, facts.step_time.map(|time| time.0), facts.loss))
    }

    #[test]
    fn batches_of_an_epoch_in_the_words_of_common_loops() {
        for (line, step, time, loss) in [
            // pytorch/examples, imagenet/main.py
            (
                "Epoch: [0][  10/5005]\tTime  0.254 (  0.301)\tData  0.001 (  0.050)\tLoss 6.9000e+00 (7.0e+00)\tAcc@1   0.39 (  0.20)",
                Some(10),
                Some(0.254),
                6.9,
            ),
            // huggingface/pytorch-image-models, train.py
            (
                "Train: 0 [  50/1251 (  4%)]  Loss: 6.951 (6.96)  Time: 0.351s,  729.12/s  (0.402s,  636.1/s)  LR: 1.000e-06",
                Some(50),
                Some(0.351),
                6.951,
            ),
            // open-mmlab/mmengine, runner/log_processor.py
            (
                "03/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][  50/7330]  lr: 2.0e-02  eta: 1 day, 2:00:00  time: 0.3800  \
                 data_time: 0.0100  memory: 3800  loss: 0.9012  loss_rpn_cls: 0.1",
                Some(50),
                Some(0.38),
                0.9012,
            ),
            // facebookresearch/fairseq, logging/progress_bar.py (SimpleProgressBar)
            (
                "2021-03-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 10000 loss=15.2, nll_loss=14.9, wps=25000, num_updates=99",
                Some(99),
                None,
                15.2,
            ),
            // pytorch/examples, word_language_model/main.py
            (
                "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 250.00 | loss  7.10 | ppl  1211.97",
                Some(200),
                Some(0.25),
                7.1,
            ),
            // mlfoundations/open_clip, src/open_clip_train/train.py: samples, and the time of an optimizer step.
            (
                "Train Epoch: 0 [ 16384/3200000 (1%)] Data (t): 0.029 Batch (t): 6.655, 2461.78/s, 76.9308/s/gpu LR: 0.000000 \
                 Logit Scale: 14.286 Contrastive_loss: 9.7031 (9.7031) Loss: 9.7031 (9.7031)",
                None,
                Some(6.655),
                9.7031,
            ),
            // PaddlePaddle/PaddleDetection, ppdet/engine/callbacks.py (`LogPrinter`)
            (
                "[03/01 10:00:00] ppdet.engine INFO: Epoch: [0] [ 600/7329] learning_rate: 0.0001 loss: 3.1 eta: 1 day, 2:10:11 \
                 batch_cost: 0.6012 data_cost: 0.0010 ips: 13.3067 images/s",
                Some(600),
                Some(0.6012),
                3.1,
            ),
            // PaddlePaddle/PaddleClas, ppcls/engine/train/utils.py (`log_info`)
            (
                "[2026/03/01 10:00:00] ppcls INFO: [Train][Epoch 1/120][Iter: 10/1251]lr(CosineAnnealingDecay): 0.0001, loss: 6.9, \
                 batch_cost: 0.50000s, reader_cost: 0.1, ips: 100.0 samples/s, eta: 1:00:00",
                Some(10),
                Some(0.5),
                6.9,
            ),
            // pytorch/examples, mnist/main.py: samples.
            ("Train Epoch: 1 [6400/60000 (11%)]\tLoss: 1.730000", None, None, 1.73),
        ] {
            assert_eq!(read(line), Some((step, time, Some(loss))), "{line}");
        }
        for line in [
            "Epoch(val)  [1][  50/313]    eta: 0:00:10  time: 0.05  data_time: 0.01  memory: 900  loss: 1.0",
            "Test: [  10/196]\tTime  0.1 (  0.2)\tLoss 2.0 (2.1)",
            "Epoch 3/10 done, loss 1.2",
            "Epoch [2/3], Step [40/100], Loss: 0.25",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn steps_of_all_epochs_are_counted() {
        let mut epochs = Epochs::default();
        // The third epoch of 100 batches from 1 on: 2 x 100 + 40, of 5 x 100.
        let facts = epochs.read("Epoch [3/5][ 40/100] loss: 0.25").unwrap();
        assert_eq!((facts.step, facts.total_steps, facts.epoch), (Some(240), Some(500), Some(2.4)));
        assert!(facts.step_is_derived);
        // From 0 on it is the fourth, as the form says where epoch 0 is not read.
        assert_eq!(Epochs::default().read("Epoch: [3][ 40/100] loss: 0.25").unwrap().step, Some(340));
        assert_eq!(Epochs::default().read("Train: 3 [ 40/100 (40%)] Loss: 0.25").unwrap().step, Some(340));
    }

    #[test]
    fn other_times_are_no_batchs() {
        let time =
            |words: &str| Epochs::default().read(&format!("Epoch: [0][ 10/100] loss: 0.25 {words}")).unwrap().step_time;
        for words in [
            "Time 250 ms",
            "Time: 3.0 min",
            "Elapsed time: 25.0 s",
            "Total time: 125.0 s",
            "Time: 195.0s",
            "Data Time 0.010 (0.020)",
        ] {
            assert_eq!(time(words), None, "{words}");
        }
        assert_eq!(time("Data Time 0.010 (0.020) Time 0.300 (0.310)"), Some(Seconds(0.3)));
        // facebookresearch/detectron2, utils/events.py
        let printed = "time: 0.3012  last_time: 0.2470  data_time: 0.0091  last_data_time: 0.0080   lr: 0.02";
        assert_eq!(time(printed), Some(Seconds(0.3012)));
    }
}
