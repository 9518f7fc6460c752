//! torchtune's metric loggers: `Step 12 | loss:1.94 lr:2e-05 tokens_per_second_per_gpu:1234.5 peak_memory_alloc:6.2 …`
//! (`StdoutLogger.log_dict` in torchtune/training/metric_logging.py; memory in GiB, see
//! `get_memory_stats` in torchtune/training/memory.py). Its bar is among the bars.

use super::super::facts::{LineFacts, LineFormat, count_after, named_number};
use crate::reading::LogFormat;
use crate::units::Bytes;

pub struct Torchtune;

impl LineFormat for Torchtune {
    fn name(&self) -> LogFormat {
        LogFormat::Torchtune
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let (_, metrics) = line.strip_prefix("Step ")?.split_once(" | ")?;
        let mut facts = LineFacts { step: Some(count_after(line, "Step ")?), ..LineFacts::default() };
        for (name, number) in metrics.split_whitespace().filter_map(|field| named_number(field, ':')) {
            match name {
                "loss" => facts.loss = Some(number),
                "grad_norm" => facts.grad_norm = Some(number),
                // Until 0.0.1: `torch.cuda.memory_allocated()`.
                "gpu_resources" => facts.allocated = Some(Bytes::from_f64(number)),
                "tokens_per_second_per_gpu" => facts.tokens_per_s_per_gpu = Some(number),
                "peak_memory_alloc" => facts.peak_allocated = Some(Bytes::from_gib(number)),
                "peak_memory_reserved" => facts.peak_reserved = Some(Bytes::from_gib(number)),
                _ => {}
            }
        }
        facts.loss.is_some().then_some(facts)
    }
}
