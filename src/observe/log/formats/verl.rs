//! verl: `step:12 - global_seqlen/mean:1000.000 - actor/grad_norm:0.512 - timing_s/step:45.600 - perf/throughput:1234.500`, one
//! line a step (`verl/utils/logger/aggregate_logger.py`, `concat_dict_to_str`), of its fine-tuning `step:3 - train/loss:0.5`.

use super::super::facts::{LineFacts, LineFormat, leading_number};
use crate::reading::LogFormat;
use crate::units::{Bytes, Seconds};

pub struct Verl;

impl LineFormat for Verl {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        // Ray puts the name of a task before it.
        let (_, rest) = line.split_once("step:")?;
        let mut fields = rest.split(" - ");
        let mut facts = LineFacts { step: Some(fields.next()?.parse().ok()?), ..LineFacts::default() };
        let mut trains = false;
        for (name, value) in fields.filter_map(|field| field.split_once(':')) {
            let Some(number) = leading_number(value).filter(|number| number.is_finite()) else { continue };
            let positive = Some(number).filter(|number| *number > 0.0);
            // Gigabytes are of 2^30 bytes (`verl/workers/fsdp_workers.py`).
            let bytes = || positive.map(Bytes::from_gib);
            match name {
                "train/loss" => facts.loss = Some(number),
                "actor/grad_norm" | "train/grad_norm" => facts.grad_norm = Some(number),
                "timing_s/step" => facts.step_time = positive.map(Seconds),
                "perf/throughput" => facts.tokens_per_s_per_gpu = positive,
                "perf/max_memory_allocated_gb" => facts.peak_allocated = bytes(),
                "perf/max_memory_reserved_gb" => facts.peak_reserved = bytes(),
                _ => continue,
            }
            trains = true;
        }
        // A line of validation alone has the step too.
        trains.then_some(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_line_of_named_figures() {
        let line = "(TaskRunner pid=1234) step:12 - global_seqlen/mean:1000.000 - actor/pg_loss:-0.010 - actor/grad_norm:0.512 - \
            perf/max_memory_allocated_gb:41.500 - timing_s/step:45.600 - perf/throughput:1234.500";
        let facts = Verl.read(line).unwrap();
        assert_eq!((facts.step, facts.step_time, facts.loss), (Some(12), Some(Seconds(45.6)), None));
        assert_eq!((facts.tokens_per_s_per_gpu, facts.grad_norm), (Some(1_234.5), Some(0.512)));
        assert_eq!(facts.peak_allocated, Some(Bytes::from_gib(41.5)));
        assert_eq!(Verl.read("step:3 - train/loss:0.500 - train/lr:0.000").unwrap().loss, Some(0.5));
        for line in ["step:12 - val/test_score/gsm8k:0.500", "step:12", "global_step: 5 - loss"] {
            assert_eq!(Verl.read(line), None, "{line}");
        }
    }
}
