//! Loops that say which batch of which epoch they are at, and mostly not how many an epoch has: `epoch: 1, batch: 10, loss: 4.9`,
//! icefall (`Epoch 1, batch 50, loss[loss=0.89, …], tot_loss[…]`), ESPnet (`1epoch:train:1-50batch: …, loss=79.1, …, train_time=0.9`),
//! WeNet (`TRAIN Batch 0/100 loss 200.1 loss_att 150.1 …`), PyTorch's tutorial (`[1,  2000] loss: 2.290`), PyTorch-GAN (`[Epoch 1/5] [Batch 10/938] [D loss: 0.5] [G loss: 0.9]`),
//! PyTorch's example of one (`[1/25][10/250] Loss_D: 0.3 Loss_G: 4.4`).

use std::sync::LazyLock;

use regex::Regex;

use super::super::facts::{LineFacts, LineFormat, positive_after};
use super::text;
use super::words::has_two_models;
use crate::reading::LogFormat;
use crate::units::Seconds;

/// The epoch, perhaps of how many, and the batch, perhaps of how many: one pair of groups for each of the three forms.
static POSITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix) \b epoch \b \s* [:=\#]? \s* [\[(]? (\d+) (?:\s*/\s*(\d+))? \s* [\])]? \s* [,|;:-]? \s* [\[(]? \s*
          batch \b \s* [:=\#]? \s* (\d+) (?:\s*/\s*(\d+))? \b
          | \b (\d+) epoch:train:\d+-(\d+) batch: | ^ \s* \[ (\d+), \s* (\d+) \] \s+ loss:
          | \b (TRAIN) \s (?: \| [^|]* \| \s* )? Batch \s (\d+) / (\d+) \s loss \b
          | ^ \s* \[ (\d+) / (\d+) \] \s* \[ (\d+) / (\d+) \] ",
    )
    .ok()
});

/// Lines that name an epoch, a batch and a loss.
#[derive(Default)]
pub struct Batches {
    /// An epoch 0 was seen: epochs are counted from 0.
    from_zero: bool,
    /// The first line that was read is the first of epoch 1: they are counted from 1, whatever the form has elsewhere.
    from_one: bool,
    begun: bool,
}

impl LineFormat for Batches {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let line = &*text::training(line)?;
        let found = (*POSITION).as_ref()?.captures(line)?;
        let whole = |group| text::counted(&found, group);
        let epoch = whole(1).or(whole(5)).or(whole(7)).or(whole(10)).or(whole(12))?;
        let batch = whole(3).or(whole(6)).or(whole(8)).or(whole(11)).or(whole(14))?;
        // Two places alone may be of anything.
        let of_two_models = has_two_models(line);
        if found.get(12).is_some() && !of_two_models {
            return None;
        }
        // PyTorch-GAN's form, that of PyTorch's example and WeNet's count from 0, wherever in the log it is read first.
        let counts_from_zero =
            (line.contains("[Epoch ") && line.contains("[Batch ")) || found.get(9).or_else(|| found.get(12)).is_some();
        self.from_one |= !self.begun && epoch == 1 && batch <= 1;
        self.begun = true;
        self.from_one &= epoch > 0;
        self.from_zero |= epoch == 0 || counts_from_zero;
        let before = if self.from_zero && !self.from_one { epoch } else { epoch.saturating_sub(1) };
        // Two models that train against each other have a loss each.
        let loss = text::loss(line).filter(|_| !of_two_models);
        // ESPnet: the mean of the batches since the last line (espnet2/train/reporter.py).
        let step_time = found.get(6).and_then(|_| positive_after(line, "train_time=")).map(Seconds);
        #[allow(clippy::cast_precision_loss)]
        let mut facts = LineFacts { epoch: Some(before as f64), loss, step_time, ..LineFacts::default() };
        match whole(4).or(whole(15)).filter(|each| *each > 0 && batch <= *each) {
            Some(each) => {
                facts.step = before.checked_mul(each).and_then(|before| before.checked_add(batch));
                facts.step_is_derived = true;
                facts.total_steps = whole(2).or(whole(13)).and_then(|epochs| epochs.checked_mul(each));
                #[allow(clippy::cast_precision_loss)]
                let done = before as f64 + batch as f64 / each as f64;
                facts.epoch = Some(done);
            }
            None => {
                facts.loss?;
                facts.batch = Some(batch);
            }
        }
        Some(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_an_epoch_of_unknown_length_is_no_step() {
        for (line, epoch, batch, loss) in [
            // k2-fsa/icefall, egs/librispeech/ASR/pruned_transducer_stateless7/train.py
            (
                "2022-03-01 10:01:00,123 INFO [train.py:904] (0/8) Epoch 2, batch 50, loss[loss=0.899, simple_loss=0.5, over 4000.00 \
                 frames. ], tot_loss[loss=0.8, over 800000.00 frames. ], batch size: 20, lr: 3.00e-03",
                1.0,
                50,
                0.899,
            ),
            // wenet-e2e/wenet, wenet/utils/train_utils.py, `log_per_step`: epochs from 0
            (
                "2026-03-01 10:01:00,123 DEBUG TRAIN Batch 1/100 loss 61.5 loss_att 50.1 lr 0.0001 rank 0",
                1.0,
                100,
                61.5,
            ),
            (
                "2026-03-01 10:01:00,123 DEBUG TRAIN | steps/sec 3.2| Batch 0/200 loss 9.5 lr 0.0001 rank 0",
                0.0,
                200,
                9.5,
            ),
            // pytorch/tutorials, beginner_source/blitz/cifar10_tutorial.py
            ("[1,  2000] loss: 2.290", 0.0, 2_000, 2.29),
            ("epoch: 3, batch: 10, loss: 4.99", 2.0, 10, 4.99),
        ] {
            let facts = Batches::default().read(line).unwrap();
            assert_eq!((facts.epoch, facts.batch, facts.loss), (Some(epoch), Some(batch), Some(loss)), "{line}");
            assert_eq!((facts.step, facts.total_steps), (None, None), "{line}");
        }
        for line in [
            "Epoch 2, validation: loss=0.89, batch 3",
            "epoch: 1, batch size: 10, loss: 4.99",
            "Epoch 3/10 done, loss 1.2",
            "[12, 34] items",
        ] {
            assert_eq!(Batches::default().read(line), None, "{line}");
        }
    }

    #[test]
    fn espnet_tells_the_time_of_a_batch() {
        // espnet2/train/reporter.py, `log_message`
        let line = "[host] 2021-03-01 10:01:00,123 (trainer:693) INFO: 1epoch:train:1-50batch: iter_time=0.01, forward_time=0.2, \
                    loss_ctc=100.1, acc=0.1, loss=79.1, backward_time=0.3, optim_step_time=0.05, train_time=0.9";
        let facts = Batches::default().read(line).unwrap();
        assert_eq!((facts.batch, facts.loss, facts.step_time), (Some(50), Some(79.1), Some(Seconds(0.9))));
    }

    #[test]
    fn two_models_against_each_other_have_no_one_loss() {
        // eriklindernoren/PyTorch-GAN, implementations/gan/gan.py: epochs from 0.
        let mut batches = Batches::default();
        batches.read("[Epoch 0/5] [Batch 930/938] [D loss: 0.5] [G loss: 0.9]");
        let facts = batches.read("[Epoch 1/5] [Batch 10/938] [D loss: 0.5] [G loss: 0.9]").unwrap();
        // 938 + 10 of 5 x 938.
        assert_eq!((facts.step, facts.total_steps, facts.loss), (Some(948), Some(4_690), None));
        assert!(facts.step_is_derived);
        // pytorch/examples, dcgan/main.py: epochs from 0.
        let line = "[1/25][100/250] Loss_D: 0.3173 Loss_G: 5.5289 D(x): 0.5000 D(G(z)): 0.1507 / 0.0043";
        let facts = Batches::default().read(line).unwrap();
        // 250 + 100 of 25 x 250.
        assert_eq!((facts.step, facts.total_steps, facts.loss), (Some(350), Some(6_250), None));
        assert_eq!(Batches::default().read("[1/25][100/250] moved to the cache"), None);
        // A log that begins with epoch 1 counts from there.
        let mut batches = Batches::default();
        let step = |batches: &mut Batches, place: &str| {
            batches.read(&format!("{place} Loss_D: 0.3 Loss_G: 5.5")).unwrap().step
        };
        assert_eq!(["[1/25][0/250]", "[2/25][40/250]"].map(|place| step(&mut batches, place)), [Some(0), Some(290)]);
        let mut batches = Batches::default();
        assert_eq!(["[0/25][0/250]", "[1/25][0/250]"].map(|place| step(&mut batches, place)), [Some(0), Some(250)]);
    }
}
