//! Worked accounts: predictions held term by term against arithmetic written out from
//! the frameworks' code, so that a right total is not two wrongs.

mod fsdp2;
mod hugging_face;
mod megatron;

use crate::support::{catalog, truth};
use std::collections::BTreeMap;

use memwall::plan::Document;
use memwall::predict::{self, Layer, Prediction, StageMemory};
use serde_json::Value;

/// A measured case by its id.
fn case(file: &str, id: &str) -> Value {
    truth::cases(file).into_iter().find(|case| case["id"] == id).unwrap_or_else(|| panic!("no case {id}"))
}

fn predicted(plan: &Value) -> Prediction {
    let plan = Document::parse(&plan.to_string()).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap()
}

/// Holds the allocated terms of a stage against what they should be, and none besides but `apart`.
fn assert_terms(stage: &StageMemory, expected: &[(&str, u64)], apart: &[&str]) {
    let allocated = stage.terms.iter().filter(|term| term.layer == Layer::Allocated);
    let held = allocated.filter(|term| !apart.contains(&term.name.as_ref()));
    let found: BTreeMap<&str, u64> = held.map(|term| (term.name.as_ref(), term.bytes.0)).collect();
    let expected: BTreeMap<&str, u64> = expected.iter().copied().collect();
    assert_eq!(found, expected);
}
