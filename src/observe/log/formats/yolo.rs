//! YOLOv5's and Ultralytics' bars, with the epoch and the GPU's memory before them:
//! `      0/299     10.5G   0.00112   0.02345    0.0123        87       640:  1%|▏         | 1/1849 [00:01<10:00,  3.02it/s]`.

use super::super::facts::{LineFacts, LineFormat, of_total};
use super::bar;
use crate::reading::LogFormat;

/// Such bars.
#[derive(Default)]
pub struct Yolo {
    /// Epochs are counted from 0, to one less than there are: `YOLOv5`'s and `YOLOv9`'s (train.py, `f"{epoch}/{epochs - 1}"`)
    /// and not Ultralytics' (ultralytics/engine/trainer.py, `f"{epoch + 1}/{self.epochs}"`), whose columns are `YOLOv9`'s.
    from_zero: bool,
}

impl LineFormat for Yolo {
    fn name(&self) -> LogFormat {
        LogFormat::Bar
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let mut words = line.split_whitespace();
        if words.next() == Some("Epoch") && words.next().is_some_and(|word| word.eq_ignore_ascii_case("gpu_mem")) {
            // The heads of the columns: objectness is YOLOv5's alone.
            self.from_zero |= words.any(|word| word == "obj" || word == "obj_loss");
            return None;
        }
        let bar = bar::bar(line)?;
        let mut label = bar.label.split_whitespace();
        let (epoch, last) = of_total(label.next()?)?;
        let memory = label.next()?;
        memory.strip_suffix('G')?.parse::<f64>().ok()?;
        self.from_zero |= epoch == 0;
        let each = bar.total?;
        let mut facts = LineFacts { step_time: bar.each, batch: Some(bar.done), ..LineFacts::default() };
        if self.from_zero {
            facts.step = epoch.checked_mul(each).and_then(|before| before.checked_add(bar.done));
            facts.step_is_derived = true;
            facts.total_steps = last.checked_add(1).and_then(|epochs| epochs.checked_mul(each));
            #[allow(clippy::cast_precision_loss)]
            let done = epoch as f64 + bar.done as f64 / each as f64;
            facts.epoch = Some(done);
        }
        Some(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_counted_as_the_heads_of_the_columns_say() {
        let line = "      2/100     10.5G   0.00112   0.02345    0.0123        87       640:  5%|▍         | 50/1000 [00:01<10:00,  4.00it/s]";
        let read = |head: &str| {
            let mut yolo = Yolo::default();
            assert_eq!(yolo.read(head), None);
            let facts = yolo.read(line).unwrap();
            (facts.step, facts.total_steps, facts.step_time.map(|time| time.0))
        };
        let five = "      Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size";
        assert_eq!(read(five), (Some(2_050), Some(101_000), Some(0.25)));
        // The second epoch of Ultralytics, or the third of YOLOv9: the columns are the same.
        for head in [
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
            "      Epoch    GPU_mem   box_loss  pose_loss  kobj_loss   cls_loss   dfl_loss  Instances       Size",
            "",
        ] {
            assert_eq!(read(head), (None, None, Some(0.25)), "{head}");
        }
        assert_eq!(Yolo::default().read("Epoch 1:  5%|▍ | 50/1000 [00:01<10:00,  4.00it/s]"), None);
    }
}
