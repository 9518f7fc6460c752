//! `predict --max-batch-size`: the largest batch and the longest context that fit, by predicting changed plans.

use crate::plan::Plan;
use crate::predict::{Prediction, largest};
use crate::report::{MaxBatch, MaxSequence};
use crate::units::Bytes;

/// No search goes beyond this many samples a GPU: their token numbers alone would fill any GPU.
const MOST: u64 = 1 << 36;

/// The largest micro batch whose prediction fits. The ratio of the batch to the micro
/// batch (accumulation steps x data-parallel ranks) stays as the plan has it, so that
/// pipelines stay as full. `predict` gives none where a size is beyond what can be
/// predicted: that fits nowhere.
pub fn batch(plan: &Plan, ratio: u64, mut predict: impl FnMut(&Plan) -> Option<Prediction>) -> MaxBatch {
    let found = largest(MOST, |micro| fitting(predict(&with_batch(plan, micro, micro.checked_mul(ratio)?))));
    found.map_or(MaxBatch::NothingFits, |(micro, device_used)| MaxBatch::Fits {
        micro_batch_size: micro,
        batch_size: micro * ratio,
        device_used,
    })
}

/// The longest sequence, up to `most` tokens, whose prediction fits.
pub fn sequence(plan: &Plan, most: u64, mut predict: impl FnMut(&Plan) -> Option<Prediction>) -> MaxSequence {
    let found = largest(most, |tokens| {
        let mut plan = plan.clone();
        plan.model.sequence_length = Some(tokens);
        fitting(predict(&plan))
    });
    found.map_or(MaxSequence::NothingFits, |(sequence_length, device_used)| MaxSequence::Fits {
        sequence_length,
        device_used,
    })
}

/// What a prediction needs, where the GPU has it.
fn fitting(prediction: Option<Prediction>) -> Option<Bytes> {
    let capacity = prediction?.capacity;
    (capacity.needed <= capacity.bytes).then_some(capacity.needed)
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

    /// A GPU of 1000 bytes, 100 of them taken, and `each` for a sample.
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
            let found = batch(&Plan::default(), 8, |plan| card(each, plan));
            let by_hand = MaxBatch::Fits { micro_batch_size: micro, batch_size: micro * 8, device_used: Bytes(used) };
            assert_eq!(found, by_hand, "{each} bytes a sample");
        }
    }

    #[test]
    fn nothing_may_fit_and_beyond_prediction_does_not() {
        assert_eq!(batch(&Plan::default(), 8, |plan| card(901, plan)), MaxBatch::NothingFits);
        let found = batch(&Plan::default(), 8, |plan| card(0, plan));
        assert!(matches!(found, MaxBatch::Fits { micro_batch_size: 4095, .. }), "{found:?}");
    }

    #[test]
    fn the_longest_sequence_is_found_exactly_and_not_beyond_the_most() {
        let each = |plan: &Plan| {
            let mut prediction = sample::two_stages();
            prediction.capacity.bytes = Bytes(1000);
            prediction.capacity.needed = Bytes(100 + 7 * plan.model.sequence_length.unwrap());
            Some(prediction)
        };
        // (1000 - 100) / 7 = 128.6
        let by_hand = MaxSequence::Fits { sequence_length: 128, device_used: Bytes(996) };
        assert_eq!(sequence(&Plan::default(), 1 << 20, each), by_hand);
        let capped = MaxSequence::Fits { sequence_length: 100, device_used: Bytes(800) };
        assert_eq!(sequence(&Plan::default(), 100, each), capped);
        let none = sequence(&Plan::default(), 1 << 20, |_| None);
        assert_eq!(none, MaxSequence::NothingFits);
    }
}
