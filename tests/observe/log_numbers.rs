//! Numbers of logs in the forms of languages and locales, through the whole reader of logs.

use std::fmt::Write as _;

use memwall::observe::log::{Log, Pattern};
use memwall::reading::{Moment, Progress, Reading};

/// What the log of steps 1 to 3 tells, a line each.
fn told(line: impl Fn(u32) -> String, own: Option<&str>) -> Progress {
    let mut text = String::new();
    for step in 1..=3 {
        writeln!(text, "{}", line(step)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    std::fs::write(&path, text).unwrap();
    let mut log = Log::of_files(vec![path], own.map(|own| Pattern::new(own).unwrap()));
    log.read(Moment(1_000));
    log.progress().clone()
}

fn figures(now: &Progress) -> (Option<u64>, Option<f64>, Option<f64>, Option<f64>) {
    fn value<T: Copy>(reading: &Reading<T>) -> Option<T> {
        reading.value().copied()
    }
    let time = value(&now.step_time).map(|time| time.0);
    (value(&now.step), value(&now.loss), time, value(&now.tokens_per_s).map(|rate| rate.0))
}

#[test]
fn rates_with_exponents() {
    let now = told(|step| format!("Step: {step}/100, Loss: 2.10, Throughput: 1.15e+04 tokens/sec, Time: 1.5s"), None);
    assert_eq!(figures(&now), (Some(3), Some(2.1), None, Some(11_500.0)));
    let now = told(|step| format!("step={step} loss=1.01 tok/s=1.2e4"), None);
    assert_eq!(figures(&now), (Some(3), Some(1.01), None, Some(12_000.0)));
    let now = told(|step| format!("iter {step} loss 2.10 dt 9.17e2ms tok/sec 7.1e4"), None);
    assert_eq!(figures(&now), (Some(3), Some(2.1), Some(0.917), Some(71_000.0)));
}

#[test]
fn commas_and_blanks() {
    let now = told(|step| format!("step {step}/100 | loss 1,05 | 1,5 s/it"), None);
    assert_eq!(figures(&now), (Some(3), Some(1.05), Some(1.5), None));
    let now = told(|step| format!("step {step}/100 loss 2,2100 step time 2,0s"), None);
    assert_eq!(figures(&now), (Some(3), Some(2.21), Some(2.0), None));
    let now = told(|step| format!("step {step}/100 | loss 1.01 | 12 300 tokens/s"), None);
    assert_eq!(figures(&now), (Some(3), Some(1.01), None, Some(12_300.0)));
    let now = told(|step| format!("Step 1,03{step} of 1.000.000 loss 2.5 step time 0.9s"), None);
    assert_eq!(figures(&now), (Some(1_033), Some(2.5), Some(0.9), None));
    assert_eq!(now.total_steps.value(), Some(&1_000_000));
    // 1 234, or 1.234.
    let now = told(|step| format!("step {step} loss 1,234"), None);
    assert_eq!(figures(&now).1, None);
}

#[test]
fn a_pattern_of_ones_own_is_of_the_line_as_it_stands() {
    let own = r"Schritt (?<step>\d+)/\d+ - Verlust: (?<loss>\d+,\d+)";
    let now = told(|step| format!("2026-11-29 12:00:01,123 INFO Schritt {step}/100 - Verlust: 2,4900"), Some(own));
    assert_eq!(figures(&now), (Some(3), Some(2.49), None, None));
}

#[test]
fn a_figure_of_an_evaluation_beside() {
    for line in ["loss 2.14 | 0.9s/it | val_loss 5.5 loss_scale 65536", "val_loss 5.5 | loss 2.14 | 0.9s/it"] {
        let now = told(|step| format!("step {step} | {line}"), None);
        assert_eq!(figures(&now), (Some(3), Some(2.14), Some(0.9), None), "{line}");
    }
}
