//! The largest value of a field that fits on the card.

use super::editor::Editor;
use super::field::Field;
use super::step::{change, divisors};
use crate::catalog::Catalog;
use crate::plan::{Change, Document};
use crate::predict::{Job, largest};

/// No search goes beyond this: a sequence or batch that long fits nowhere.
const MOST: u64 = 1 << 36;

/// Sequences are cut to a multiple of this: kernels are fastest so, and people write them so.
const TOKENS: u64 = 128;

/// The plan with the largest value of `field` that fits.
///
/// # Errors
/// In a few words, why there is none.
pub fn largest_that_fits(field: Field, editor: &Editor, catalog: &Catalog) -> Result<(String, Document), String> {
    let Some(job) = editor.job().filter(|_| editor.faults().is_empty()) else {
        return Err("the plan is not valid".to_owned());
    };
    let fitting = |change: &Change| -> Option<Document> {
        let document = editor.with(change).ok()?;
        let capacity = editor.try_out(&document, catalog).ok()?.capacity;
        (capacity.needed <= capacity.bytes).then_some(document)
    };
    let found = match field {
        Field::Batch => largest(MOST, |micro| fitting(&whole_batch(micro, editor, job)?)).map(|(micro, document)| {
            let batch = micro * ratio(job);
            (format!("batch {batch}, {micro} at a time"), document)
        }),
        Field::MicroBatch => divisors((job.batch.global / job.degrees.data.max(1)).max(1))
            .into_iter()
            .rev()
            .find_map(|micro| Some((micro, fitting(&change(field, &micro.to_string(), editor, job)?)?)))
            .map(|(micro, document)| (format!("micro batch {micro}"), document)),
        Field::Sequence => {
            let at = |tokens: u64| fitting(&change(field, &tokens.to_string(), editor, job)?);
            let found = largest(MOST, at);
            let tidy = |tokens: u64| if tokens > TOKENS { tokens / TOKENS * TOKENS } else { tokens };
            found.and_then(|(tokens, _)| Some((format!("sequence {}", tidy(tokens)), at(tidy(tokens))?)))
        }
        _ => return Err("what fits is searched for batch, micro batch and sequence: select one of these".to_owned()),
    };
    found.ok_or_else(|| format!("{}: nothing fits, not even the smallest", field.label()))
}

/// Samples of the global batch for one at a time: replicas times accumulation steps.
fn ratio(job: &Job) -> u64 {
    (job.batch.global / job.batch.micro.max(1)).max(1)
}

/// A larger micro batch with as many micro batches as now, so that pipelines stay as full.
fn whole_batch(micro: u64, editor: &Editor, job: &Job) -> Option<Change> {
    let batch = micro.checked_mul(ratio(job))?;
    let set = [("model.batch_size", batch, true), ("training.micro_batch_size", micro, false)];
    let accumulated = editor.has("training.gradient_accumulation_steps");
    // Two of the three say everything; a third that stands there has to agree.
    let set = set.into_iter().filter(|(key, _, always)| *always || editor.has(key) || !accumulated);
    Some(Change { set: set.map(|(key, value, _)| (key, value.to_string())).collect(), remove: Vec::new() })
}
