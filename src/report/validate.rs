//! Measured cases held against their predictions: a row for each quantity that was
//! measured, and what the errors amount to.

mod cases;
mod output;
mod summary;

pub use cases::{Case, read};
pub use output::{csv, json, text};
pub use summary::{ErrorSummary, summaries};

use serde_json::{Map, Value};
use thiserror::Error;

use super::json::number;
use crate::model::ClassCount;
use crate::predict::{Prediction, StageMemory};

/// One measured figure beside the predicted one.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationRow {
    /// The case.
    pub id: String,
    /// Its group, if it has one.
    pub group: Option<String>,
    /// The name under `measured`; an entry of a list with its index.
    pub quantity: String,
    /// As the case says.
    pub measured: Value,
    /// None where it cannot be answered; `reason` then says why.
    pub predicted: Option<Value>,
    /// 100 x (predicted - measured) / measured. None where the quantity is not graded.
    pub error_pct: Option<f64>,
    /// Why there is no prediction or no grade.
    pub reason: Option<String>,
}

impl ValidationRow {
    /// The quantity without an index: what entries of one list share.
    #[must_use]
    pub fn family(&self) -> &str {
        self.quantity.split('[').next().unwrap_or(&self.quantity)
    }
}

/// A case that gave no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCase {
    /// The case, or its place in the file where it has no id.
    pub id: String,
    /// What is wrong with it.
    pub error: String,
}

/// What came of all cases.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ValidationOutcome {
    /// A row a case and quantity, in the order of the cases.
    pub rows: Vec<ValidationRow>,
    /// Cases that could not be read or predicted.
    pub failed: Vec<FailedCase>,
}

impl ValidationOutcome {
    /// Predicts `case` and adds its rows, or the reason why there are none. A model whose parameters alone are known
    /// answers for those.
    pub fn add<R: Into<Refusal>>(
        &mut self,
        case: Result<Case, FailedCase>,
        predict: impl FnOnce(&Value) -> Result<Prediction, R>,
    ) {
        let predicted = case.and_then(|case| match predict(&case.plan).map_err(Into::into) {
            Ok(prediction) => Ok(rows(&case, &prediction)),
            Err(Refusal { reason, count: Some(count) }) if counts_alone(&case) => Ok(counted(&case, &count, &reason)),
            Err(Refusal { reason, .. }) => Err(FailedCase { id: case.id, error: reason }),
        });
        match predicted {
            Ok(rows) => self.rows.extend(rows),
            Err(failure) => self.failed.push(failure),
        }
    }
}

/// Why a plan has no prediction, and what is known of its model all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In a line.
    pub reason: String,
    /// Its parameters, where its class is known.
    pub count: Option<ClassCount>,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self { reason, count: None }
    }
}

/// Whether a case measured parameters.
fn counts_alone(case: &Case) -> bool {
    case.measured.iter().any(|(quantity, _)| matches!(quantity.as_str(), "params" | "trainable_params"))
}

/// The rows of a case whose parameters alone are known.
fn counted(case: &Case, count: &ClassCount, reason: &str) -> Vec<ValidationRow> {
    let answer = |quantity: &str| match quantity {
        "params" => Ok(Answer::Number(count.total as f64)),
        "trainable_params" => Ok(Answer::Number((count.total - count.frozen) as f64)),
        _ => Err(Ungraded::NoPrediction(reason.to_owned())),
    };
    case.measured.iter().map(|(quantity, measured)| row(case, quantity.clone(), measured, answer(quantity))).collect()
}

/// A predicted figure.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    Number(f64),
    Flag(bool),
}

/// Why a measured quantity has no prediction, or no grade.
#[derive(Debug, Clone, PartialEq, Error)]
enum Ungraded {
    #[error("{0}")]
    NoPrediction(String),
    #[error("the publisher's own count of operations: shown, not graded")]
    Publishers,
    #[error("no error in percent of a measured {0}")]
    NoPercent(f64),
    #[error("the measured value is of the wrong type")]
    WrongType,
    #[error("the plan's samples are not tokens")]
    NoTokens,
    #[error("the formula of {0} does not apply to this model")]
    NoFormula(&'static str),
    #[error("not a known quantity")]
    Unknown,
    #[error("the prediction has no finite value")]
    NotFinite,
    #[error("not a quantity that is measured rank by rank")]
    NotByRank,
    #[error("the plan has {0} ranks")]
    NoRank(usize),
    #[error("the stages do not divide the ranks")]
    UnevenStages,
}

impl Answer {
    fn json(self) -> Value {
        match self {
            Self::Number(value) => number(value),
            Self::Flag(flag) => Value::Bool(flag),
        }
    }
}

fn rows(case: &Case, prediction: &Prediction) -> Vec<ValidationRow> {
    let mut rows = Vec::new();
    for (quantity, measured) in &case.measured {
        match measured {
            Value::Array(entries) => {
                for (rank, entry) in entries.iter().enumerate() {
                    rows.push(row(case, format!("{quantity}[{rank}]"), entry, by_rank(quantity, rank, prediction)));
                }
            }
            one => rows.push(row(case, quantity.clone(), one, answer(quantity, prediction))),
        }
    }
    rows
}

fn row(case: &Case, quantity: String, measured: &Value, answer: Result<Answer, Ungraded>) -> ValidationRow {
    let graded = answer.as_ref().map_err(Clone::clone).and_then(|answer| grade(&quantity, measured, *answer));
    ValidationRow {
        id: case.id.clone(),
        group: case.group.clone(),
        quantity,
        measured: measured.clone(),
        predicted: answer.ok().map(Answer::json),
        error_pct: graded.as_ref().ok().copied(),
        reason: graded.err().map(|why| why.to_string()),
    }
}

/// The error in percent, or why there is none.
fn grade(quantity: &str, measured: &Value, answer: Answer) -> Result<f64, Ungraded> {
    if quantity == "model_tflops_per_gpu" {
        return Err(Ungraded::Publishers);
    }
    match (measured, answer) {
        (Value::Bool(measured), Answer::Flag(predicted)) => Ok(if *measured == predicted { 0.0 } else { 100.0 }),
        (Value::Number(measured), Answer::Number(predicted)) => {
            let measured = measured.as_f64().unwrap_or(f64::NAN);
            let error = 100.0 * (predicted - measured) / measured;
            match (predicted == measured, error.is_finite()) {
                (true, _) => Ok(0.0),
                (false, true) => Ok(error),
                (false, false) => Err(Ungraded::NoPercent(measured)),
            }
        }
        _ => Err(Ungraded::WrongType),
    }
}

/// What is predicted of these quantities, as a case states what was measured of them; without those that have no answer.
#[must_use]
pub fn figures(prediction: &Prediction, quantities: &[&str]) -> Map<String, Value> {
    let figure = |quantity: &&str| Some(((*quantity).to_owned(), answer(quantity, prediction).ok()?.json()));
    quantities.iter().filter_map(figure).collect()
}

fn answer(quantity: &str, prediction: &Prediction) -> Result<Answer, Ungraded> {
    let params = prediction.params;
    let time = &prediction.time;
    let known = |value: Option<f64>, why: Ungraded| value.ok_or(why);
    let value = match quantity {
        "fits" => return Ok(Answer::Flag(prediction.capacity.needed <= prediction.capacity.bytes)),
        "params" => params.total as f64,
        "trainable_params" => params.trainable as f64,
        "flops_forward" => prediction.flops.forward.0,
        "flops_backward" => prediction.flops.backward.0,
        "step_time_s" => time.step.0,
        "tokens_per_s_per_gpu" => known(time.tokens_per_s_per_gpu, Ungraded::NoTokens)?,
        "samples_per_s_per_gpu" => time.samples_per_s / prediction.num_gpus as f64,
        "model_tflops_per_gpu" => time.model_flops_per_gpu.0 / 1e12,
        "mfu" => known(time.mfu, Ungraded::NoFormula("MFU"))?,
        "hfu" => known(time.hfu, Ungraded::NoFormula("HFU"))?,
        _ => {
            let last = quantity.strip_suffix("_last_rank").and_then(|plain| Some((plain, prediction.stages.last()?)));
            let (plain, stage) = last.unwrap_or_else(|| (quantity, prediction.largest()));
            of_stage(plain, stage).ok_or(Ungraded::Unknown)?
        }
    };
    if value.is_finite() { Ok(Answer::Number(value)) } else { Err(Ungraded::NotFinite) }
}

fn of_stage(quantity: &str, stage: &StageMemory) -> Option<f64> {
    let bytes = match quantity {
        "peak_allocated_bytes" => stage.peak_allocated,
        "peak_reserved_bytes" => stage.peak_reserved,
        "device_used_bytes" => stage.device_used,
        "static_bytes" => stage.static_bytes,
        "activation_bytes" => stage.activations_end_of_forward,
        _ => return None,
    };
    Some(bytes.as_f64())
}

/// The figure of one rank. Pipeline is the slowest dimension of Megatron's rank order
/// (tensor, context, data, pipeline), so that each stage has one run of ranks.
fn by_rank(quantity: &str, rank: usize, prediction: &Prediction) -> Result<Answer, Ungraded> {
    let plain = quantity.strip_suffix("_by_rank").ok_or(Ungraded::NotByRank)?;
    let gpus = usize::try_from(prediction.num_gpus).unwrap_or(usize::MAX);
    if rank >= gpus {
        return Err(Ungraded::NoRank(gpus));
    }
    let stage = prediction.stages.get(rank / gpus.div_ceil(prediction.stages.len().max(1)));
    let stage = stage.ok_or(Ungraded::UnevenStages)?;
    of_stage(plain, stage).map(Answer::Number).ok_or(Ungraded::Unknown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::sample;
    use crate::units::GIB;

    fn outcome(measured: &Value) -> ValidationOutcome {
        let text = json!([{"id": "a", "group": "g", "plan": {"model": {}}, "measured": measured}]).to_string();
        let mut outcome = ValidationOutcome::default();
        for case in read(&text).unwrap() {
            outcome.add(case, |_| Ok::<_, String>(sample::two_stages()));
        }
        outcome
    }

    fn only(measured: &Value) -> ValidationRow {
        let outcome = outcome(measured);
        assert_eq!(outcome.rows.len(), 1, "{outcome:?}");
        outcome.rows.into_iter().next().unwrap()
    }

    #[test]
    fn an_error_is_signed_and_relative_to_what_was_measured() {
        // Predicted 0.5 s.
        let slow = only(&json!({"step_time_s": 0.4}));
        assert!((slow.error_pct.unwrap() - 25.0).abs() < 1e-9, "{slow:?}");
        let quick = only(&json!({"step_time_s": 0.625}));
        assert!((quick.error_pct.unwrap() + 20.0).abs() < 1e-9, "{quick:?}");
        assert_eq!(quick.predicted, Some(json!(0.5)));
    }

    #[test]
    fn ranks_go_to_stages_with_pipeline_slowest() {
        // Four GPUs, two stages: ranks 0 and 1 hold the first.
        let outcome = outcome(&json!({"peak_allocated_bytes_by_rank": [1, 1, 1, 1, 1]}));
        let predicted: Vec<_> = outcome.rows.iter().map(|row| row.predicted.clone()).collect();
        let (first, second) = (json!(8 * GIB + 1), json!(6 * GIB));
        assert_eq!(predicted[..4], [Some(first.clone()), Some(first), Some(second.clone()), Some(second)]);
        assert_eq!(predicted[4], None);
        assert_eq!(outcome.rows[4].reason.as_deref(), Some("the plan has 4 ranks"));
        assert_eq!(outcome.rows[1].quantity, "peak_allocated_bytes_by_rank[1]");
        assert_eq!(outcome.rows[1].family(), "peak_allocated_bytes_by_rank");
    }

    #[test]
    fn the_last_rank_is_of_the_last_stage_and_the_rest_of_the_largest() {
        assert_eq!(only(&json!({"static_bytes_last_rank": 1})).predicted, Some(json!(3 * GIB + 1)));
        assert_eq!(only(&json!({"static_bytes": 1})).predicted, Some(json!(3 * GIB)));
        assert_eq!(only(&json!({"activation_bytes": 1})).predicted, Some(json!(4 * GIB + 1)));
        // 64 samples a second on four GPUs.
        assert_eq!(only(&json!({"samples_per_s_per_gpu": 16})).error_pct, Some(0.0));
    }

    #[test]
    fn fits_is_right_or_wholly_wrong() {
        assert_eq!(only(&json!({"fits": true})).error_pct, Some(0.0));
        assert_eq!(only(&json!({"fits": false})).error_pct, Some(100.0));
    }

    #[test]
    fn what_cannot_be_answered_says_why() {
        for (measured, reason) in [
            (json!({"hfu": 0.5}), "HFU does not apply"),
            (json!({"colour": 3}), "not a known quantity"),
            (json!({"params_by_colour": [3]}), "not a quantity that is measured rank by rank"),
        ] {
            let row = only(&measured);
            assert!(row.predicted.is_none() && row.error_pct.is_none(), "{row:?}");
            assert!(row.reason.as_ref().unwrap().contains(reason), "{row:?}");
        }
        for (measured, reason) in
            [(json!({"step_time_s": "fast"}), "wrong type"), (json!({"model_tflops_per_gpu": 12.5}), "not graded")]
        {
            let row = only(&measured);
            assert!(row.predicted.is_some() && row.error_pct.is_none(), "{row:?}");
            assert!(row.reason.as_ref().unwrap().contains(reason), "{row:?}");
        }
    }

    #[test]
    fn a_plan_that_cannot_be_predicted_fails_its_case_alone() {
        let text = r#"{"id": "bad", "plan": {}, "measured": {"params": 1}}
                      {"id": "good", "plan": {"model": {}}, "measured": {"params": 1}}"#;
        let mut outcome = ValidationOutcome::default();
        for case in read(text).unwrap() {
            outcome.add(
                case,
                |plan| {
                    if plan == &json!({}) { Err("no model".to_owned()) } else { Ok(sample::two_stages()) }
                },
            );
        }
        assert_eq!(outcome.failed, [FailedCase { id: "bad".to_owned(), error: "no model".to_owned() }]);
        assert_eq!(outcome.rows.len(), 1);
    }
}
