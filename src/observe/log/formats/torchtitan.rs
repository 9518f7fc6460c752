//! torchtitan: `step:  4  loss:  7.62585  grad_norm: 26.6  memory: 66.91GiB(37.51%)  tps: 10,050  mfu: 13.99%`
//! (`MetricsProcessor.log` in torchtitan/components/metrics.py; the memory is the most that was
//! reserved, tokens are of one device; releases of 2024 said `wps`).

use super::super::facts::{LineFacts, LineFormat, count_after, number_after, positive_after};
use crate::reading::LogFormat;
use crate::units::{Bytes, FlopsPerSec, Fraction};

pub struct Torchtitan;

impl LineFormat for Torchtitan {
    fn name(&self) -> LogFormat {
        LogFormat::Torchtitan
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let (before, fields) = line.split_once("step: ")?;
        if before.ends_with("validate ") {
            return None;
        }
        let reserved = positive_after(fields, "memory: ").filter(|_| fields.contains("GiB("));
        let tokens = positive_after(fields, "tps: ").or_else(|| positive_after(fields, "wps: "));
        if reserved.is_none() && tokens.is_none() {
            return None;
        }
        let step = count_after(line, "step: ")?;
        Some(LineFacts {
            step: Some(step),
            loss: number_after(fields, "loss: "),
            grad_norm: number_after(fields, "grad_norm: "),
            tokens_per_s_per_gpu: tokens,
            mfu: positive_after(fields, "mfu: ").map(|percent| Fraction(percent / 100.0)),
            model_flops_per_gpu: positive_after(fields, "tflops: ").map(FlopsPerSec::from_tera),
            peak_reserved: reserved.map(Bytes::from_gib),
            ..LineFacts::default()
        })
    }
}
