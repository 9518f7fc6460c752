//! Which operations MFU counts, and what is said of that.

use super::{Batch, Notes, Training};
use crate::model::{Architecture, Count, Input, ModelShape};
use crate::plan::keywords::Mode;

/// Why the operators of the walk are counted and not (6 N + 12 L h s) a token: the formula is one of single stacks that read
/// tokens, each parameter once a token, and of which all is trained. None where it holds, or nothing is read in tokens.
pub(in crate::predict) fn counted(training: &Training, architecture: &Architecture) -> Option<&'static str> {
    if !matches!(architecture.input(), Input::Tokens(_)) && architecture.sight().is_none() {
        return None;
    }
    if architecture.sight().is_some() {
        Some("operators that run are counted, the tower's with them")
    } else if training.lora.is_some() || !training.frozen.is_nothing() {
        Some("operators that run are counted, not 6 N: frozen weights have no gradients")
    } else if matches!(architecture.shape, ModelShape::Traced(_)) {
        Some("operators that run are counted, not 6 N: a tape's parameters may run once a sample, or several times")
    } else if architecture.block().is_some_and(|block| block.class_rules.shared_layers) {
        Some("operators that run are counted, not 6 N: layers share their weights")
    } else {
        None
    }
}

/// The formula counts more than runs where most scores are masked: then it may pass what a GPU can do.
pub(super) fn note(
    training: &Training,
    architecture: &Architecture,
    (params, batch): (&Count, &Batch),
    notes: &mut Notes,
) {
    // Less of it is within what MFU is read for.
    const SHARE: f64 = 0.2;
    if training.mode == Mode::Inference {
        return;
    }
    if let Some(said) = counted(training, architecture) {
        return notes.assume("mfu", said);
    }
    let ModelShape::Decoder(decoder) = &architecture.shape else { return };
    let keys = decoder.attended_keys(batch.sequence);
    let [all, masked] = [keys.all, keys.masked].map(|keys| 12.0 * (decoder.heads * decoder.head_dim) as f64 * keys);
    let share = masked / (6.0 * params.active as f64 + all);
    if share > SHARE {
        let counted = format!(
            "6 N + 12 L h s operations a token are counted, {:.0} % of them masked scores that fused kernels skip",
            100.0 * share
        );
        notes.assume("mfu", counted);
    }
}
