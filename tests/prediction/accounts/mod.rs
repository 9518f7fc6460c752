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

/// Every term cites something that a reader can open: a file, or a paper.
#[test]
fn every_term_has_a_source_that_can_be_opened() {
    let opens =
        [".py", ".yaml", ".cpp", ".h", ".cu", ".md", ".mdx", ".json", ".sh", ".slurm", "arXiv ", "torch/distributed/"];
    let mut seen = BTreeMap::new();
    for file in ["published.json", "allocator.json", "torchtitan.json"] {
        for case in truth::cases(file) {
            let Ok(plan) = Document::parse(&case["plan"].to_string()).unwrap().plan() else { continue };
            let Ok(prediction) = predict::of(&plan, catalog()) else { continue };
            for term in prediction.stages.iter().flat_map(|stage| &stage.terms) {
                seen.entry(term.source.to_string()).or_insert_with(|| term.name.to_string());
            }
        }
    }
    assert!(seen.len() > 40, "{} sources", seen.len());
    let bare: Vec<_> = seen.iter().filter(|(source, _)| !opens.iter().any(|part| source.contains(part))).collect();
    assert!(bare.is_empty(), "{bare:#?}");
}
