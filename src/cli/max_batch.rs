//! `predict --max-batch-size`: the largest batch that fits, by predicting changed plans.

use crate::plan::Plan;
use crate::predict::Prediction;
use crate::report::MaxBatch;
use crate::units::Bytes;

/// No search goes beyond this many samples a GPU: their token numbers alone would fill any card.
const MOST: u64 = 1 << 36;

/// The largest micro batch whose prediction fits. The ratio of the batch to the micro
/// batch (accumulation steps x data-parallel ranks) stays as the plan has it, so that
/// pipelines stay as full. `predict` gives none where a size is beyond what can be
/// predicted: that fits nowhere.
pub fn search(plan: &Plan, ratio: u64, mut predict: impl FnMut(&Plan) -> Option<Prediction>) -> MaxBatch {
    let mut device_used = |micro: u64| -> Option<Bytes> {
        let capacity = predict(&with_batch(plan, micro, micro.checked_mul(ratio)?))?.capacity;
        (capacity.needed <= capacity.bytes).then_some(capacity.needed)
    };
    let Some(mut used) = device_used(1) else { return MaxBatch::NothingFits };
    let (mut fits, mut too_large) = (1, 2);
    while too_large < MOST {
        let Some(more) = device_used(too_large) else { break };
        (fits, used, too_large) = (too_large, more, too_large * 2);
    }
    while too_large - fits > 1 {
        let middle = fits + (too_large - fits) / 2;
        match device_used(middle) {
            Some(more) => (fits, used) = (middle, more),
            None => too_large = middle,
        }
    }
    MaxBatch::Fits { micro_batch_size: fits, batch_size: fits * ratio, device_used: used }
}

fn with_batch(plan: &Plan, micro: u64, batch: u64) -> Plan {
    let mut plan = plan.clone();
    plan.training.micro_batch_size = Some(micro);
    plan.model.batch_size = Some(batch);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// A card of 1000 bytes, 100 of them taken, and `each` for a sample.
    fn card(each: u64, plan: &Plan) -> Option<Prediction> {
        let micro = plan.training.micro_batch_size.unwrap();
        assert_eq!(plan.model.batch_size, Some(micro * 8));
        let mut prediction = sample::two_stages();
        prediction.capacity.bytes = Bytes(1000);
        prediction.capacity.needed = Bytes(100 + each * micro);
        (micro < 4096).then_some(prediction)
    }

    #[test]
    fn the_last_batch_that_fits_is_found_exactly() {
        for (each, micro, used) in [(900, 1, 1000), (451, 1, 551), (450, 2, 1000), (129, 6, 874), (1, 900, 1000)] {
            let found = search(&Plan::default(), 8, |plan| card(each, plan));
            let by_hand = MaxBatch::Fits { micro_batch_size: micro, batch_size: micro * 8, device_used: Bytes(used) };
            assert_eq!(found, by_hand, "{each} bytes a sample");
        }
    }

    #[test]
    fn nothing_may_fit_and_beyond_prediction_does_not() {
        assert_eq!(search(&Plan::default(), 8, |plan| card(901, plan)), MaxBatch::NothingFits);
        let found = search(&Plan::default(), 8, |plan| card(0, plan));
        assert!(matches!(found, MaxBatch::Fits { micro_batch_size: 4095, .. }), "{found:?}");
    }
}
