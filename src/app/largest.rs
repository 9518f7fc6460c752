//! The largest value of a field that fits on the card.

use super::editor::Editor;
use super::field::Field;
use super::step::change;
use crate::advise::divisors;
use crate::catalog::Catalog;
use crate::plan::Change;
use crate::predict::{Job, largest};

/// No search goes beyond this: a sequence or batch that long fits nowhere.
const MOST: u64 = 1 << 36;

/// Sequences are cut to a multiple of this: kernels are fastest so, and people write them so.
const TOKENS: u64 = 128;

/// The change to the largest value of `field` that fits, in words and as one.
///
/// # Errors
/// In a few words, why there is none.
pub fn largest_that_fits(field: Field, editor: &Editor, catalog: &Catalog) -> Result<(String, Change), String> {
    let Some(job) = editor.job().filter(|_| editor.faults().is_empty()) else {
        return Err("the plan is not valid".to_owned());
    };
    let fitting = |change: Change| -> Option<Change> {
        let capacity = editor.outline(&change, catalog)?.capacity;
        (capacity.needed <= capacity.bytes).then_some(change)
    };
    let with = |value: u64| change(field, &value.to_string(), editor, job);
    let found = match field {
        Field::Batch => largest(MOST, |micro| fitting(whole_batch(micro, editor, job)?)).map(|(micro, change)| {
            let batch = micro * ratio(job);
            (format!("batch {batch}, {micro} at a time"), change)
        }),
        Field::MicroBatch => divisors((job.batch.global / job.degrees.data.max(1)).max(1))
            .into_iter()
            .rev()
            .find_map(|micro| Some((format!("micro batch {micro}"), fitting(with(micro)?)?))),
        Field::Sequence => largest(MOST, |tokens| fitting(with(tokens)?)).and_then(|(tokens, _)| {
            let tidy = if tokens > TOKENS { tokens / TOKENS * TOKENS } else { tokens };
            Some((format!("sequence {tidy}"), with(tidy)?))
        }),
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
