//! The account in words: what each group of activations is made of, its numbers, and the
//! framework's file that says so. Bytes come from the walk; nothing here computes them.

use crate::framework::Gate;
use crate::model::{Decoder, Group, ModelShape};
use crate::plan::Checkpointing;
use crate::plan::keywords::{Engine, Loss, Mode, Norm, Sharding};
use crate::predict::job::Job;
use crate::predict::prediction::{Words, words};
use crate::predict::step::pipeline::{is_whole, loaded_by_stage, trains_in_stages};
use crate::units::Bytes;

/// PyTorch's list of what each operator saves for its gradient.
const DERIVATIVES: &str = "PyTorch, tools/autograd/derivatives.yaml";
/// Its engine: when gradients are made, added and freed.
const ENGINE: &str = "PyTorch, torch/csrc/autograd/engine.cpp and input_buffer.cpp";

/// What a group holds at the peak.
pub(in crate::predict) fn formula(job: &Job, group: Group, bytes: u64, layers: u64) -> Words {
    let what = what(job, group);
    let (ModelShape::Decoder(_), Some(d)) = (&job.architecture.shape, job.decoder()) else {
        return Words::Plain(what);
    };
    // A tower's layers have other widths than the language model's, and a mixer has no heads of keys.
    if bytes == 0 || (group == Group::Attention && mixes(job)) || job.batch.seen.images > 0 {
        return Words::Plain(what);
    }
    let ranks = job.degrees.tensor;
    let tokens = job.batch.micro.saturating_mul(job.batch.sequence.div_ceil(job.degrees.context));
    let stream = if job.degrees.sequence_parallel { tokens.div_ceil(ranks) } else { tokens };
    let spread = spread(job, group, bytes, layers);
    match group {
        Group::Residual | Group::Norm | Group::Embedding => {
            spread.then(words![what, ", ", stream, " tokens x ", d.hidden])
        }
        Group::Attention => {
            let (heads, keys) = (d.heads.div_ceil(ranks), d.kv_heads.div_ceil(ranks));
            let rows = words![what, ", ", tokens, " tokens x ", heads, " heads of ", d.head_dim];
            spread.then(rows).then(words![", ", keys, " of keys and values"])
        }
        Group::Mlp => spread.then(words![what, ", ", tokens, " tokens x "]).then(widths(job, d)),
        Group::Experts => {
            let (each, width) = d.moe.as_ref().map_or((0, 0), |moe| (moe.per_token, moe.intermediate));
            let width = width.div_ceil(job.degrees.expert_tensor);
            spread.then(words![what, ", ", stream, " tokens x ", each, " experts x ", width])
        }
        Group::Logits => {
            let ranks = if job.gathers_logits() { 1 } else { ranks };
            let rows = d.padded_vocab(job.vocab_multiple()).div_ceil(ranks);
            words![what, ", ", tokens, " tokens x ", rows, " of the vocabulary"]
        }
        _ => words![Bytes(bytes), ": ", what],
    }
}

/// Over how many layers a group is spread.
fn spread(job: &Job, group: Group, bytes: u64, layers: u64) -> Words {
    let whole = matches!(job.training.checkpointing, Checkpointing::Full | Checkpointing::Every(_));
    if group == Group::Embedding || layers == 0 {
        return Words::NONE;
    }
    // Blocks run one after another and keep nothing: the peak has one block's.
    if job.training.mode == Mode::Inference {
        return words![Bytes(bytes), " in the block that runs: "];
    }
    if whole && group != Group::Residual {
        return words![Bytes(bytes), " in the layer that is recomputed and those that are not: "];
    }
    let each = Bytes(bytes / layers);
    if bytes.is_multiple_of(layers) {
        words![layers, " layers x ", each, ": "]
    } else {
        words![layers, " layers, about ", each, " each: "]
    }
}

/// Columns of the feed-forward block on one rank; of the shared expert where there is one.
fn widths(job: &Job, d: &Decoder) -> Words {
    let ranks = job.degrees.tensor;
    let dense = d.intermediate.div_ceil(ranks);
    match &d.moe {
        Some(moe) if moe.shared_intermediate > 0 => {
            let shared = moe.shared_intermediate.div_ceil(ranks);
            let mixed = moe.first_dense > 0 || moe.frequency > 1;
            let only = words![shared, " in shared experts"];
            if mixed { words![dense, ", "].then(only) } else { only }
        }
        _ => words![dense],
    }
}

/// Whether the norms are layer norms, and whether the feed-forward block is gated. Models
/// without transformer blocks have neither terms.
fn traits(job: &Job) -> (bool, bool) {
    job.decoder().map_or((true, false), |d| (d.norm == Norm::Layernorm, d.gated))
}

/// What the tensors of a group are.
fn what(job: &Job, group: Group) -> &'static str {
    let (layernorm, gated) = traits(job);
    let products = job.training.checkpointing == Checkpointing::SelectiveOp;
    if matches!(job.architecture.shape, ModelShape::Layers(_)) && matches!(group, Group::Residual | Group::Mlp) {
        return "what layers save for their backward pass: inputs, and outputs of functions";
    }
    match group {
        Group::Residual if products => "inputs of checkpointed blocks",
        Group::Residual => "inputs of blocks and of residual additions, masks of dropouts",
        Group::Norm if layernorm => "inputs and results of norms, mean and deviation of each token",
        Group::Norm => "inputs and results of norms, and what lies between",
        Group::Attention if products => "every second matmul output and what the attention core returns",
        Group::Attention if mixes(job) => "projections of the mixers, and the states that their scans keep",
        Group::Attention => "queries, keys, values and the result, and what the attention core keeps of each row",
        Group::Mlp if products => "every second matmul output",
        Group::Mlp if !gated => "the first matmul output and its activation",
        Group::Mlp if job.modules.gate.is != Gate::Eager => "gate and up, and their product",
        Group::Mlp => "gate, its activation, up and product",
        Group::Experts => "router, dispatched tokens, matmul outputs of the experts and their activations",
        Group::Embedding => "embedding output and masks",
        Group::Convolution => "inputs of convolutions and of their norms",
        Group::Adapter => "adapters' inputs in their own type",
        Group::WeightCopy => "copies of weights in the compute type",
        Group::Logits => "logits and what the loss keeps of them",
        Group::ActivationGradient => "gradients on their way back, and what the operator that runs needs",
        Group::KvCache => "keys and values for later tokens",
        Group::WeightGradient => "made by the operator that runs",
    }
}

/// Whether layers are Llama's by their parts: RMS norms, gates and attention.
fn is_like_llama(job: &Job) -> bool {
    let is = |decoder: &Decoder| decoder.norm != Norm::Layernorm && decoder.gated && decoder.attends(0);
    job.decoder().is_some_and(is)
}

/// Whether no layer attends: what stands there is a state-space mixer's.
fn mixes(job: &Job) -> bool {
    job.decoder().is_some_and(|decoder| !(0..decoder.layers).any(|layer| decoder.attends(layer)))
}

/// Where a group's rule stands.
pub(in crate::predict) fn source(job: &Job, group: Group) -> &'static str {
    let rules = &job.modules;
    let (layernorm, gated) = traits(job);
    // The rules are read in Llama's modules; what others keep follows from the same derivatives.
    let others = rules.family_classes.is && !job.training.compile && !is_like_llama(job);
    let modules = if others { DERIVATIVES } else { rules.block.source };
    if others && matches!(group, Group::Attention | Group::Mlp) {
        return DERIVATIVES;
    }
    if matches!(job.architecture.shape, ModelShape::Layers(_)) && matches!(group, Group::Residual | Group::Mlp) {
        return DERIVATIVES;
    }
    match group {
        Group::Residual | Group::Embedding => modules,
        Group::Norm if !layernorm => rules.rms_norm.source,
        Group::Norm => rules.layer_norm.unwrap_or(DERIVATIVES),
        Group::Convolution => DERIVATIVES,
        Group::Attention => rules.heads.source,
        Group::Mlp if gated => rules.gate.source,
        Group::Mlp => rules.act.source,
        Group::Experts => rules.experts.source,
        Group::KvCache => "transformers 4.57.6, cache_utils.py, DynamicCache",
        Group::Adapter => "peft, tuners/lora/layer.py, Linear.forward",
        Group::WeightCopy => rules.autocast.source,
        Group::Logits => loss_source(job),
        Group::ActivationGradient | Group::WeightGradient => ENGINE,
    }
}

fn loss_source(job: &Job) -> &'static str {
    let rules = &job.profile.loss;
    let whole = matches!(job.training.loss, Loss::Hf | Loss::Plain);
    if whole && rules.sharded_logits.is && job.degrees.tensor > 1 {
        return rules.sharded_logits.source;
    }
    match (job.training.loss, rules.cross_entropy) {
        (Loss::Hf | Loss::Plain, Some(own)) => own,
        (Loss::Hf, _) if job.decoder().is_none() => "transformers 4.57.6, loss/loss_utils.py",
        (Loss::Hf, _) => "transformers 4.57.6, loss/loss_utils.py, ForCausalLMLoss",
        (Loss::Plain, _) => "PyTorch, torch/nn/functional.py, cross_entropy",
        (Loss::Chunked, _) => "torchtune, modules/loss/ce_chunked_output_loss.py",
        (Loss::Fused, _) => rules.parts.source,
        (Loss::VocabParallel, _) => "megatron-core 0.16, core/tensor_parallel/cross_entropy.py",
        (Loss::VocabParallelFused, _) => "megatron-core 0.16, core/fusions/fused_cross_entropy.py",
        (Loss::TeFused, _) if rules.fused.is != Loss::VocabParallelFused => "flash-attn, ops/triton/cross_entropy.py",
        (Loss::TeFused, _) => "Transformer Engine, pytorch/triton/cross_entropy.py",
    }
}

/// Buffers of sharding, with the largest layer's share and the ends' in bytes, and where they are described.
pub(in crate::predict) fn sharding(job: &Job, root: Bytes, layer: Bytes) -> (Words, &'static str) {
    match job.degrees.sharding {
        Sharding::Zero3 if job.degrees.engine == Engine::MegatronFsdp => (
            words![
                "embedding and head stay gathered; while a layer runs it and those ahead, ",
                layer,
                " each, and whole gradients until they are reduced"
            ],
            "megatron-core, core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py and megatron_fsdp.py",
        ),
        Sharding::Zero3 if job.degrees.is_deepspeed() => (
            Words::Plain(
                "a buffer of 5e8 elements for gradients; whole weights that are used again within 1e9 elements, or of a \
                 layer and 5e7 elements ahead with the layer's gradients",
            ),
            "DeepSpeed 0.19, runtime/zero/stage3.py and partitioned_param_coordinator.py",
        ),
        Sharding::Zero3 if is_whole(job) => (
            words![
                "unsharded from the first forward to the last backward pass: the stage's weights, ",
                root,
                ", and a layer's new gradients"
            ],
            "torchtitan, distributed/fsdp.py, get_fsdp_reshard_after_forward_policy (under a pipeline)",
        ),
        Sharding::Zero3 if job.degrees.stays_gathered => (
            Words::Plain(
                "unsharded from a layer's forward to its backward pass: all weights, and a layer's gradients twice",
            ),
            "PyTorch, torch/distributed/fsdp (reshard_after_forward=False; SHARD_GRAD_OP)",
        ),
        Sharding::Zero3 => (
            words![
                "unsharded: embedding and head ",
                root,
                ", and layers of ",
                layer,
                "; in their backward pass the gradients of what they train too"
            ],
            "PyTorch, torch/distributed/fsdp/_fully_shard (arXiv 2304.11277)",
        ),
        Sharding::Zero1 | Sharding::Zero2 if job.degrees.is_deepspeed() => (
            Words::Plain("a buffer of 5e8 elements, in the compute type, while the backward pass runs"),
            "DeepSpeed 0.19, runtime/zero/stage_1_and_2.py, setup_buckets (reduce_bucket_size)",
        ),
        Sharding::None | Sharding::Zero1 | Sharding::Zero2 => (
            Words::Plain("a bucket beside each gradient, for its reduction"),
            "PyTorch, torch/nn/parallel/distributed.py (arXiv 2006.15704)",
        ),
    }
}

/// What a loop holds of the model's outputs, and where that is said.
pub(in crate::predict) fn outputs(job: &Job) -> (&'static str, &'static str) {
    if trains_in_stages(job) {
        (
            "logits of the step's other micro-batches, until the next step begins",
            "PyTorch, torch/distributed/pipelining/stage.py, output_chunks",
        )
    } else {
        (
            "logits and hidden states that the model returned last, until the next forward pass has returned",
            "transformers 4.57.6, utils/generic.py, ModelOutput (held by the loop's variable: training.keep_outputs)",
        )
    }
}

/// What a stage loads, and where that is said.
pub(in crate::predict) fn inputs(job: &Job) -> (&'static str, &'static str) {
    if loaded_by_stage(job) {
        (
            "token and position ids, 8 B each, where the stage embeds; labels, 8 B, and their mask, 4 B, where it has \
             the loss; no attention mask",
            "megatron, training/utils.py, get_batch_on_this_tp_rank",
        )
    } else {
        (
            if job.batch.seen.images > 0 {
                "token ids and labels, 8 B each, pixels of the images in fp32, and the modules' buffers"
            } else {
                "token ids and labels, 8 B each, and the modules' buffers"
            },
            "PyTorch 2.9, torch/nn/functional.py, embedding (int64 ids)",
        )
    }
}

/// Positions and channels of the rotary tables.
pub(in crate::predict) fn rotary(job: &Job) -> Words {
    let positions = job.batch.sequence.div_ceil(job.degrees.context);
    let channels = job.decoder().map_or(0, |d| d.rotary_dim);
    words!["cosines and sines of ", positions, " positions x ", channels, " channels"]
}

/// Micro-batches under way beside the one that is played.
pub(in crate::predict) fn in_flight(job: &Job, bytes: u64) -> Words {
    words![
        Bytes(bytes),
        " saved by other micro-batches of the schedule: ",
        job.batch.accumulation,
        " a step over ",
        job.degrees.pipeline,
        " stages x ",
        job.degrees.virtual_pipeline,
        " chunks"
    ]
}
