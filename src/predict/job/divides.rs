//! What of a model the degrees of parallelism must divide.

use super::degrees::Degrees;
use super::{Notes, limits};
use crate::framework::{Profile, SharedSequence};
use crate::model::{Architecture, CONTEXT_PAIR, Decoder, ModelShape, Start};
use crate::plan::keys;
use crate::plan::keywords::{CpComm, Mode};

/// Degrees that a family's walk does not split.
fn check_family(degrees: &Degrees, architecture: &Architecture, profile: &Profile, notes: &mut Notes) {
    // Megatron's encoder runs through the same parallel layers as its decoders.
    let parallel = match &architecture.shape {
        ModelShape::Decoder(_) => return,
        ModelShape::Encoder(encoder) => profile.support.splits_encoders.is && !encoder.stack.post_norm,
        ModelShape::EncoderDecoder(model) => profile.support.splits_encoders.is && model.start == Start::Learned,
        _ => false,
    };
    let kind = architecture.kind();
    let given = [
        ("tensor_parallel", degrees.tensor, parallel),
        ("pipeline_parallel", degrees.pipeline, parallel && matches!(architecture.shape, ModelShape::Encoder(_))),
        ("context_parallel", degrees.context, false),
        ("expert_parallel", degrees.expert, false),
        (
            "sequence_parallel",
            if degrees.sequence_parallel { degrees.tensor } else { 1 },
            parallel && matches!(architecture.shape, ModelShape::EncoderDecoder(_)),
        ),
    ];
    for (key, degree, _) in given.iter().filter(|(_, degree, is)| *degree > 1 && !is) {
        notes.fault(
            &format!("distribution.{key}"),
            format!("{degree}: this framework does not split a {kind} that way; must be 1"),
        );
    }
}

/// Heads and experts that the degrees must divide.
pub(super) fn check_model(
    (degrees, mode): (&Degrees, Option<Mode>),
    architecture: &Architecture,
    profile: &Profile,
    notes: &mut Notes,
) {
    let tensor = degrees.tensor;
    check_family(degrees, architecture, profile, notes);
    let Some(decoder) = architecture.block() else { return };
    if !decoder.heads.is_multiple_of(tensor) {
        notes.fault(
            keys::distribution::tensor_parallel,
            format!("{tensor} must divide the model's {} attention heads", decoder.heads),
        );
    } else if decoder.mla.is_none()
        && !decoder.kv_heads.is_multiple_of(tensor)
        && !tensor.is_multiple_of(decoder.kv_heads)
    {
        notes.fault(
            keys::distribution::tensor_parallel,
            format!("{tensor} must divide the model's {} KV heads, or they it", decoder.kv_heads),
        );
    } else if decoder.mla.is_none() && tensor > decoder.kv_heads && mode != Some(Mode::Inference) {
        limits::shared_kv_heads(tensor, decoder.kv_heads, profile, notes);
    }
    match &decoder.moe {
        Some(moe) if moe.experts % degrees.expert != 0 => notes.fault(
            keys::distribution::expert_parallel,
            format!("{} must divide the model's {} experts", degrees.expert, moe.experts),
        ),
        None if degrees.expert > 1 => {
            notes.fault(keys::distribution::expert_parallel, format!("{}: the model has no experts", degrees.expert));
        }
        None if degrees.expert_tensor > 1 && degrees.expert_tensor != tensor => notes.fault(
            keys::distribution::expert_tensor_parallel,
            format!("{}: the model has no experts", degrees.expert_tensor),
        ),
        _ => {}
    }
    // Elsewhere `cp_comm` has no effect, and who sends heads for tokens may repeat those that are too few.
    if profile.modules.shared_sequence.is == SharedSequence::Engine {
        check_heads_sent(degrees, decoder, notes);
    }
}

/// Ranks that send each other heads for tokens each need a whole number of heads, of keys and values too
/// (TransformerEngine, attention/dot_product_attention/context_parallel.py, `AttnFuncWithCPAndQKVOA2A` and
/// `flash_attn_a2a_communicate`).
fn check_heads_sent(degrees: &Degrees, decoder: &Decoder, notes: &mut Notes) {
    let (word, ranks) = match degrees.exchange {
        CpComm::AllToAll => ("a2a: context_parallel", degrees.context),
        CpComm::Both => ("a2a+p2p: pairs of ranks,", CONTEXT_PAIR),
        CpComm::P2p | CpComm::AllGather => return,
    };
    if degrees.context < 2 {
        return;
    }
    if degrees.exchange == CpComm::Both && !degrees.context.is_multiple_of(CONTEXT_PAIR) {
        let why = format!("a2a+p2p: a ring over pairs of ranks; context_parallel {} is odd", degrees.context);
        return notes.fault(keys::distribution::cp_comm, why);
    }
    let own = |heads: u64| (heads / degrees.tensor).max(1);
    let kv_heads = if decoder.mla.is_some() { decoder.heads } else { decoder.kv_heads };
    for (heads, kind) in [(own(decoder.heads), "attention"), (own(kv_heads), "KV")] {
        if !heads.is_multiple_of(ranks) {
            let s = if heads == 1 { "" } else { "s" };
            let why = format!("{word} {ranks} must divide the {heads} {kind} head{s} of a tensor rank");
            return notes.fault(keys::distribution::cp_comm, why);
        }
    }
}
