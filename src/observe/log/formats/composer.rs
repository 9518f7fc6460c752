//! Composer, and llm-foundry through it: `[batch=3/100]:`, then a metric a line, ` Train loss/train/total: 10.9`
//! (`ConsoleLogger.log_to_console` in composer/loggers/console_logger.py; a run that ends after so many tokens or
//! samples counts those, `[token=1048576/2000000000]:`, and tells its batches as a metric; throughput from
//! composer/callbacks/speed_monitor.py, memory in units of 1e9 bytes from memory_monitor.py).

use super::super::facts::{LineFacts, LineFormat, count, count_after, named_number, of_total};
use crate::reading::LogFormat;
use crate::units::{Bytes, FlopsPerSec, Fraction, Seconds};

pub struct Composer;

impl LineFormat for Composer {
    fn name(&self) -> LogFormat {
        LogFormat::Composer
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let line = line.trim();
        if line.starts_with('[') {
            return progress(line);
        }
        let (name, number) = named_number(line.strip_prefix("Train ")?, ':')?;
        metric(name, number)
    }
}

/// `[batch=3/100]`, `[epoch=2][batch=3/100]`.
fn progress(line: &str) -> Option<LineFacts> {
    let (_, batch) = line.split_once("[batch=")?;
    let Some((batch, total)) = of_total(batch) else {
        return Some(LineFacts { step: Some(count_after(line, "[batch=")?), ..LineFacts::default() });
    };
    // In an epoch the batches are counted anew: the run's own count stands in `trainer/…` metrics.
    match count_after(line, "[epoch=") {
        Some(epoch) if epoch > 0 => Some(LineFacts {
            step: Some((epoch - 1).checked_mul(total)?.checked_add(batch)?),
            step_is_derived: true,
            epoch: (total > 0).then(|| (epoch - 1) as f64 + batch as f64 / total as f64),
            ..LineFacts::default()
        }),
        _ => Some(LineFacts { step: Some(batch), total_steps: Some(total), ..LineFacts::default() }),
    }
}

fn metric(name: &str, number: f64) -> Option<LineFacts> {
    const GB: f64 = 1e9;
    let mut facts = LineFacts::default();
    let positive = Some(number).filter(|number| number.is_finite() && *number > 0.0);
    match name {
        "loss/train/total" => facts.loss = Some(number),
        // Those that were done before this one.
        "time/batch" => facts.step = count(number).map(|before| before + 1),
        "l2_norm/grad/global" => facts.grad_norm = Some(number),
        "throughput/batches_per_sec" => facts.step_time = positive.map(|rate| Seconds(1.0 / rate)),
        "throughput/samples_per_sec" => facts.samples_per_s = positive,
        "throughput/tokens_per_sec" => facts.tokens_per_s = positive,
        "throughput/device/tokens_per_sec" => facts.tokens_per_s_per_gpu = positive,
        "throughput/device/flops_per_sec" => facts.model_flops_per_gpu = positive.map(FlopsPerSec),
        "throughput/device/mfu" => facts.mfu = positive.map(Fraction),
        // Until 0.17 without `current`.
        "memory/current_allocated_mem" | "memory/allocated_mem" => {
            facts.allocated = positive.map(|held| Bytes::from_f64(held * GB))
        }
        "memory/peak_allocated_mem" => facts.peak_allocated = positive.map(|held| Bytes::from_f64(held * GB)),
        "memory/peak_reserved_mem" => facts.peak_reserved = positive.map(|held| Bytes::from_f64(held * GB)),
        _ => return None,
    }
    Some(facts)
}
