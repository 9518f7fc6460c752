//! Logs of JSON, an object a line: `{"step": 40, "train/loss": 2.1, "_timestamp": 1.7e9}`, as many write by hand and as
//! W&B, fairseq and `logging` with a JSON formatter do; and dictionaries as Python prints them.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::super::facts::{LineFacts, LineFormat, count, leading_number};
use super::words::OTHER;
use crate::reading::LogFormat;
use crate::units::Seconds;

pub(super) const STEP: [&str; 8] = [
    "num_updates",
    "step",
    "global_step",
    "trainer/global_step",
    "train/global_step",
    "iteration",
    "iter",
    "current_steps",
];
/// Calls of W&B's `log`: steps where each step is logged.
const CALLS: &str = "_step";
const TOTAL: [&str; 4] = ["total_steps", "max_steps", "num_steps", "total_iterations"];
/// With those that torchtitan, NeMo, Lightning and Composer give to TensorBoard and W&B.
pub(super) const LOSS: [&str; 15] = [
    "loss",
    "train_loss",
    "train/loss",
    "training_loss",
    "lm_loss",
    "loss/train",
    "train/CrossEntropyLoss",
    "lm loss",
    "Loss/train",
    "Train/Loss",
    "loss_metrics/global_avg_loss",
    "reduced_train_loss",
    "train_loss_step",
    "loss/train/total",
    "train/total_loss",
];
const NORM: [&str; 5] = ["gnorm", "grad_norm", "train/grad_norm", "optim/total_grad_norm", "gradient_norm"];
/// With Megatron's, NeMo's and torchtitan's.
const TIME_S: [&str; 11] = [
    "sec_per_step",
    "s_per_step",
    "step_time",
    "step_time_s",
    "time_per_step",
    "seconds_per_step",
    "iteration_time",
    "train/step_time",
    "iteration-time",
    "train_step_timing in s",
    "time_metrics/end_to_end(s)",
];
const TIME_MS: [&str; 3] = ["step_time_ms", "ms_per_step", "iter_time_ms"];
const TOKENS: [&str; 5] =
    ["tokens_per_second", "tokens_per_sec", "tokens/s", "throughput/tokens_per_sec", "tok_per_sec"];

/// Objects in each other deeper than this are not looked into.
const DEEPEST: usize = 3;

/// Sections that people put the figures of a step into: `train/step`, `perf/step_time`.
const SECTIONS: [&str; 9] =
    ["train", "trainer", "training", "perf", "performance", "time", "timing", "progress", "throughput"];

/// Those of them that hold times.
const DURATIONS: [&str; 5] = ["perf", "performance", "time", "timing", "throughput"];

/// A name and a number of a dictionary as Python prints it, the number perhaps one of NumPy's or a tensor.
static ENTRY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"'([^']{1,60})':\s*(?:np\.\w+\(|tensor\()?\s*'?([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))\b").ok()
});

/// One object a line.
pub struct Json;

impl LineFormat for Json {
    fn name(&self) -> LogFormat {
        LogFormat::Json
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        if let Some(fields) = printed(line) {
            return facts(&fields).filter(|_| !is_of_evaluation(line, &fields));
        }
        // A logger writes its own words in front.
        let line = line.get(line.find("{\"")?..)?.trim_end();
        if !line.ends_with('}') {
            return None;
        }
        let object: Map<String, Value> = serde_json::from_str(line).ok()?;
        let mut fields = Vec::new();
        flatten(&object, "", 0, &mut fields);
        facts(&fields)
    }
}

/// The numbers of a dictionary as Python prints it.
fn printed(line: &str) -> Option<Vec<(String, f64)>> {
    let inside = line.get(line.find("{'")?..)?.trim_end().strip_suffix('}')?;
    let found = (*ENTRY).as_ref()?.captures_iter(inside);
    Some(found.filter_map(|entry| Some((entry[1].to_owned(), leading_number(&entry[2])?))).collect())
}

/// Whether a printed dictionary is an evaluation's, or may be: by the words before it, or by its own where no loss is named a
/// training's.
fn is_of_evaluation(line: &str, fields: &[(String, f64)]) -> bool {
    let is_other = |text: &str| (*OTHER).as_ref().is_none_or(|pattern| pattern.is_match(text));
    let is_trained = fields.iter().any(|(name, _)| name.contains("train") && name.contains("loss"));
    let before = line.split("{'").next().unwrap_or_default();
    is_other(before) || !is_trained && is_other(line)
}

/// Whether a figure is of that name, alone or in a section of training.
fn is_named(known: &str, name: &str) -> bool {
    // `time/step` is how long one takes.
    let counts = |above: &str| name != "step" || !DURATIONS.contains(&above);
    let is_of = |above: &str| SECTIONS.contains(&above) && counts(above);
    let within = || known.rsplit_once('/').is_some_and(|(above, last)| last == name && is_of(above));
    known == name || within()
}

/// What numbers tell by their names; none where they are no step's.
pub fn facts(fields: &[(String, f64)]) -> Option<LineFacts> {
    let first = |names: &[&str]| {
        let named = |name: &str| fields.iter().find(|(known, _)| is_named(known, name)).map(|(_, value)| *value);
        names.iter().find_map(|name| named(name))
    };
    let positive = |names: &[&str]| first(names).filter(|number| number.is_finite() && *number > 0.0);
    let step = first(&STEP).and_then(count);
    let facts = LineFacts {
        step: step.or_else(|| first(&[CALLS]).and_then(count)),
        step_is_derived: step.is_none(),
        total_steps: first(&TOTAL).and_then(count),
        epoch: first(&["epoch", "train/epoch"]),
        loss: first(&LOSS),
        grad_norm: first(&NORM),
        step_time: positive(&TIME_S).map(Seconds).or_else(|| positive(&TIME_MS).map(|ms| Seconds(ms / 1000.0))),
        tokens_per_s: positive(&TOKENS),
        ..LineFacts::default()
    };
    // A step alone is what many other logs have, too.
    (facts.step.is_some() && (facts.loss.is_some() || facts.step_time.is_some())).then_some(facts)
}

/// Numbers by their names, those of inner objects behind a stroke.
pub fn flatten(object: &Map<String, Value>, above: &str, depth: usize, fields: &mut Vec<(String, f64)>) {
    for (name, value) in object {
        let name = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
        match value {
            Value::Object(inner) if depth < DEEPEST => {
                flatten(inner, &name, depth + 1, fields);
                // `{"data": {"step": 1, "loss": 2}}`: what they lie in is nobody's matter.
                flatten(inner, "", DEEPEST, fields);
            }
            Value::Number(number) => fields.extend(number.as_f64().map(|number| (name, number))),
            Value::String(text) if text.len() < 32 && text.parse::<f64>().is_ok() => {
                fields.extend(leading_number(text).map(|number| (name, number)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_many_hands() {
        let read = |line: &str| Json.read(line).map(|facts| (facts.step, facts.loss));
        for (line, step, loss) in [
            (r#"{"step": 40, "loss": 2.5, "lr": 1e-4}"#, 40, Some(2.5)),
            (r#"{"_step": 3, "train/loss": 1.5, "_timestamp": 1700000000.5}"#, 3, Some(1.5)),
            (r#"{"ts": "2026-01-01", "data": {"iteration": 9, "train_loss": "0.25"}}"#, 9, Some(0.25)),
            (r#"{"train": {"loss": 3.0, "global_step": 8}}"#, 8, Some(3.0)),
            (r#"{"global_step": 8, "step_time_ms": 250}"#, 8, None),
        ] {
            assert_eq!(read(line), Some((Some(step), loss)), "{line}");
        }
        for line in [
            r#"{"step": 4}"#,
            r#"{"loss": 4}"#,
            r#"{"eval_loss": 2, "step": 3}"#,
            "{",
            "{}",
            "{'step': 4}",
            "{'eval/loss': 2.0, 'eval/step': 3}",
            "{'lr': 0.1, 'n_step': 4, 'loss': [1, 2]}",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn dictionaries_as_python_prints_them() {
        let line = "step done: {'train/loss': 8.5, 'train/grad_norm': np.float64(0.62), 'train/step': 70, 'perf/step_time': 0.25, \
                    'eval/loss': 9.5, 'name': 'run 3'}";
        let facts = Json.read(line).unwrap();
        assert_eq!((facts.step, facts.loss, facts.grad_norm), (Some(70), Some(8.5), Some(0.62)));
        assert_eq!(facts.step_time, Some(Seconds(0.25)));
        let facts = Json.read("{'step': 3, 'loss': tensor(1.5, grad_fn=<NllLossBackward0>), 'lr': 1e-05}").unwrap();
        assert_eq!((facts.step, facts.loss), (Some(3), Some(1.5)));
        let facts = Json.read("{'iter': 12, 'loss': nan}").unwrap();
        assert!(facts.step == Some(12) && facts.loss.is_some_and(f64::is_nan));
        for line in [
            "eval: {'step': 200, 'loss': 3.7}",
            "Validation results at 200: {'loss': 3.6, 'step': 200}",
            "{'step': 100, 'val': {'loss': 3.9}}",
            "val {'loss': 3.1} train {'loss': 2.5, 'step': 100}",
            // The time of a step, and an epoch's length.
            "{'train/loss': 2.5, 'time/step': 0.53}",
            "{'epoch': 2, 'steps': 938, 'loss': 0.4}",
        ] {
            assert_eq!(Json.read(line), None, "{line}");
        }
        let facts = Json.read("{'train/loss': 2.5, 'time/step': 3.0, 'train/step': 90}").unwrap();
        assert_eq!(facts.step, Some(90));
    }
}
