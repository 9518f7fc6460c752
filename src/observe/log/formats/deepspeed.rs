//! DeepSpeed: `epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=220.7, CurrSamplesPerSec=222.9,
//! MemAllocated=0.07GB, MaxMemAllocated=1.36GB` (`ThroughputTimer.stop` in deepspeed/utils/timer.py, whose
//! GB are 2^30 bytes; before 0.7 the line began `0/20, `) and `step=10, skipped=10, lr=…`
//! (`DeepSpeedEngine._report_progress`); its pipeline engine `steps: 10 loss: 0.8 iter time (s): 0.5 samples/sec: 12.3`
//! (`PipelineEngine.train_batch` in deepspeed/runtime/pipe/engine.py).

use super::super::facts::{LineFacts, LineFormat, count_after, number_after, of_total, positive_after};
use crate::reading::LogFormat;
use crate::units::{Bytes, Seconds};

pub struct DeepSpeed;

impl LineFormat for DeepSpeed {
    fn name(&self) -> LogFormat {
        LogFormat::DeepSpeed
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        if line.contains(", skipped=") && line.contains(", lr=") {
            return Some(LineFacts { step: Some(count_after(line, "step=")?), ..LineFacts::default() });
        }
        if line.contains(" iter time (s): ") {
            return pipeline(line);
        }
        let (before, _) = line.split_once("SamplesPerSec=")?;
        let step = count_after(line, "global_step=").or_else(|| older_step(before))?;
        let samples =
            positive_after(line, "CurrSamplesPerSec=").or_else(|| positive_after(line, "RunningAvgSamplesPerSec="));
        Some(LineFacts {
            step: Some(step),
            samples_per_s: samples.or_else(|| positive_after(line, "SamplesPerSec=")),
            allocated: positive_after(line, ", MemAllocated=").map(Bytes::from_gib),
            peak_allocated: positive_after(line, "MaxMemAllocated=").map(Bytes::from_gib),
            ..LineFacts::default()
        })
    }
}

/// The pipeline engine's line.
fn pipeline(line: &str) -> Option<LineFacts> {
    let (_, fields) = line.split_once("steps: ")?;
    Some(LineFacts {
        step: Some(count_after(line, "steps: ")?),
        loss: number_after(fields, " loss: "),
        step_time: positive_after(fields, "iter time (s): ").map(Seconds),
        samples_per_s: positive_after(fields, "samples/sec: "),
        ..LineFacts::default()
    })
}

/// `… 0/20, RunningAvg`: epoch and step.
fn older_step(before: &str) -> Option<u64> {
    let (head, _) = before.rsplit_once(',')?;
    let (_, step) = of_total(head.rsplit([' ', ']']).next()?)?;
    Some(step)
}
