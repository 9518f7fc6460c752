//! OLMo and OLMo-core: a line with the step, and its metrics below, a line each: `[step=10/739328,epoch=0]`,
//! `    train/CrossEntropyLoss=8.01`, `    throughput/device/tokens_per_second=9,812` (`olmo/train.py`, `log_metrics_to_console`;
//! `olmo_core/train/callbacks/console_logger.py`).

use super::super::facts::{LineFacts, LineFormat, leading_count, leading_number};
use crate::reading::LogFormat;
use crate::units::Seconds;

pub struct Olmo;

impl LineFormat for Olmo {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        if let Some((_, rest)) = line.split_once("[step=").filter(|(_, rest)| rest.contains(",epoch=")) {
            let (step, total) = rest.split_once('/')?;
            // Of a run without an end the total is `???`.
            let total_steps = leading_count(total);
            return Some(LineFacts { step: step.parse().ok(), total_steps, ..LineFacts::default() });
        }
        let line = line.trim_start();
        // `f"{value:,}"` where it is large (olmo/train.py, `format_float`): a comma parts thousands.
        let value = |name: &str| leading_number(&line.strip_prefix(name)?.strip_prefix('=')?.replace(',', ""));
        let named = |names: [&str; 2]| names.into_iter().find_map(value).filter(|number| *number > 0.0);
        let facts = LineFacts {
            // One that is no number is told as well.
            loss: ["train/CrossEntropyLoss", "train/CE loss"].into_iter().find_map(value),
            grad_norm: named(["optim/total_grad_norm", "optim/total grad norm"]),
            tokens_per_s_per_gpu: named(["throughput/device/tokens_per_second", "throughput/device/TPS"]),
            step_time: named(["throughput/device/batches_per_second", "throughput/device/BPS"])
                .map(|rate| Seconds(1.0 / rate)),
            ..LineFacts::default()
        };
        (facts != LineFacts::default()).then_some(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_and_its_metrics_below() {
        let read = |line: &str| Olmo.read(line);
        let head = read("2024-03-01 10:00:00.123\thost:0\tolmo.train:816\tINFO\t[step=10/739328,epoch=0]").unwrap();
        assert_eq!((head.step, head.total_steps), (Some(10), Some(739_328)));
        let head = read("2026-03-01\tINFO\t[step=7/???,epoch=1,eta=3h]").unwrap();
        assert_eq!((head.step, head.total_steps), (Some(7), None));
        assert_eq!(read("    train/CrossEntropyLoss=8.013").unwrap().loss, Some(8.013));
        assert_eq!(read("    train/CE loss=2.5").unwrap().loss, Some(2.5));
        assert!(read("    train/CE loss=nan").unwrap().loss.unwrap().is_nan());
        let rate = read("    throughput/device/tokens_per_second=9,812").unwrap().tokens_per_s_per_gpu;
        assert_eq!(rate, Some(9_812.0));
        assert_eq!(read("    throughput/device/BPS=0.25").unwrap().step_time, Some(Seconds(4.0)));
        for line in ["    throughput/device/BPS (actual avg)=0.25", "    train/Perplexity=3000", "[step=3] done"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
