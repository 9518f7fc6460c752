//! Runs that frameworks refuse, or that fail in their first step.

use super::{Batch, Degrees, Notes, Training, traced};
use crate::framework::{Experts, InterleavedRounds, Profile};
use crate::model::{Architecture, Count, Family, Input};
use crate::plan::Checkpointing;
use crate::plan::keys;
use crate::plan::keywords::{
    Attention, CpComm, CpuOffload, Engine, Mode, Optimizer, Position, RecomputeModule, Schedule, Sharding,
};

/// Checks samples against the model's positions, and both against how GPUs share the work.
pub(super) fn check(
    profile: &Profile,
    architecture: &Architecture,
    (degrees, batch, training): (&Degrees, &Batch, &Training),
    notes: &mut Notes,
) {
    positions(architecture, batch, notes);
    families(profile, architecture, training, notes);
    let shares = degrees.engine.is_fsdp() && degrees.sharding == Sharding::Zero3 && batch.accumulation > 1;
    if shares
        && degrees.syncs_each.is_none()
        && profile.data_parallel.accumulates_whole.is
        && architecture.has_own_loop()
    {
        notes.assume(
            keys::distribution::sync_each_micro_batch,
            "true (models that denoise and convolutional ones have loops of their own; under accelerator.accumulate: false)",
        );
    }
    // Each rank takes a chunk from the front and one from the back, for causal attention is uneven (megatron-core
    // 0.16, training/arguments.py, validate_args; torchtitan, train.py, seq_len_divisor).
    let chunks = degrees.context.saturating_mul(2);
    if degrees.context > 1 && !batch.sequence.is_multiple_of(chunks) {
        notes.fault(
            keys::model::sequence_length,
            format!("{}: must divide by 2 x distribution.context_parallel = {chunks}", batch.sequence),
        );
    }
    if degrees.sequence_parallel && degrees.context == 1 && batch.image == 0 {
        let padded = batch.sequence.next_multiple_of(degrees.tensor);
        if training.mode == Mode::Train && padded != batch.sequence {
            // core/tensor_parallel/mappings.py, `_split_along_first_dim`; torchtitan, train.py, seq_len_divisor
            let said = format!(
                "{}, which tools that run it pad to {padded}: {} ranks share it out",
                batch.sequence, degrees.tensor
            );
            notes.assume(keys::model::sequence_length, said);
        }
    }
    engines(degrees, training, notes);
    weights_on_host(degrees, training, notes);
    if training.mode == Mode::Train {
        switches(profile, architecture, (degrees, training), notes);
    }
    // torchtune, recipes/full_finetune_single_device.py: "Gradient accumulation is not supported with optimizer in bwd."
    if training.mode == Mode::Train && training.optimizer_in_backward && batch.accumulation > 1 {
        let words =
            format!("true: each of {} backward passes would step; must be false, or one pass", batch.accumulation);
        notes.fault(keys::training::optimizer_in_backward, words);
    }
    if degrees.schedule == Schedule::Interleaved && degrees.virtual_pipeline > 1 {
        rounds(profile.pipeline.interleaved.is, degrees.pipeline, batch.accumulation, notes);
    }
}

/// What single families have not, or not so.
fn families(profile: &Profile, architecture: &Architecture, training: &Training, notes: &mut Notes) {
    // models/albert/modeling_albert.py sets no `supports_gradient_checkpointing`: modeling_utils.py raises.
    let recomputes = training.mode == Mode::Train && training.checkpointing != Checkpointing::None;
    if architecture.family == Family::Albert && profile.modules.family_classes.is && recomputes {
        notes.fault(keys::training::activation_checkpointing, "transformers' ALBERT has none; must be none");
    }
    // ModernBERT's own way with flash-attn takes the padding out of its batch (models/modernbert/modeling_modernbert.py,
    // `_unpad_modernbert_input`).
    if architecture.family == Family::ModernBert
        && profile.modules.family_classes.is
        && training.attention == Attention::Flash
    {
        notes.fault(keys::training::attention, "ModernBERT without padding is not predicted; must be sdpa or eager");
    }
}

/// Refuses modules to recompute that Megatron refuses (core/transformer/transformer_config.py, `__post_init__`).
fn recomputed_modules(architecture: &Architecture, training: &Training, notes: &mut Notes) {
    let Checkpointing::Modules(modules) = &training.checkpointing else { return };
    let latent = architecture.block().is_some_and(|block| block.mla.is_some());
    let mut refuse = |module: RecomputeModule, why: &str| {
        if modules.contains(&module) {
            notes.fault(keys::training::activation_checkpointing, format!("{module}: {why}"));
        }
    };
    if !latent {
        refuse(RecomputeModule::MlaUpProj, "Megatron has it with multi-latent attention alone");
    }
    if !training.grouped_experts {
        refuse(RecomputeModule::MoeAct, "Megatron has it with moe_grouped_gemm alone");
    }
}

/// Says what the framework has no switch for, or refuses beside another.
fn switches(
    profile: &Profile,
    architecture: &Architecture,
    (degrees, training): (&Degrees, &Training),
    notes: &mut Notes,
) {
    let routes = architecture.block().is_some_and(|block| block.moe.is_some());
    // megatron-core 0.16, core/transformer/moe/moe_layer.py, `MoELayer.forward`
    let own = profile.modules.experts.is == Experts::Weighted;
    if routes && own && degrees.tensor > 1 && !degrees.sequence_parallel {
        notes.assume(
            keys::distribution::sequence_parallel,
            "false, which Megatron refuses: it trains experts under tensor parallelism with sequence parallelism alone",
        );
    }
    let apart = degrees.expert.saturating_mul(degrees.expert_tensor) > degrees.tensor;
    if routes && apart && degrees.expert > 1 && profile.support.experts_in_tensor.is {
        let words = "over data-parallel ranks, for which transformers has no switch: tokens are sent all to all";
        notes.assume(keys::distribution::expert_parallel, format!("{} {words}", degrees.expert));
    }
    if own {
        recomputed_modules(architecture, training, notes);
    }
    let keeps = !profile.support.offload.is.allows(CpuOffload::Parameters, 1, false);
    if training.cpu_offload == CpuOffload::Parameters && keeps {
        let words = "parameters, for which the framework has no switch: it keeps its weights on the GPU";
        notes.assume(keys::training::cpu_offload, words);
    }
}

/// More tensor-parallel ranks that train than KV heads: some hold a part of one. Servers give each rank a copy.
pub(super) fn shared_kv_heads(tensor: u64, heads: u64, profile: &Profile, notes: &mut Notes) {
    let key = keys::distribution::tensor_parallel;
    if profile.support.shares_kv_heads.is {
        notes.assume(key, format!("{tensor} over {heads} KV heads, which Megatron's core before 0.16 refuses"));
    } else {
        notes.fault(
            key,
            format!("{tensor}: no rank may hold a part of one of the model's {heads} KV heads; at most {heads}"),
        );
    }
}

/// Weights lie in host memory in shares: DeepSpeed has `offload_param` "only with stage 3" (runtime/zero/config.py), FSDP
/// moves what it shards; neither DDP nor what shares out optimizer states alone has a word for it.
fn weights_on_host(degrees: &Degrees, training: &Training, notes: &mut Notes) {
    let shares = degrees.sharding == Sharding::Zero3 || degrees.engine.is_megatron();
    if training.cpu_offload != CpuOffload::Parameters || training.mode != Mode::Train || shares {
        return;
    }
    if degrees.data.saturating_mul(degrees.context) > 1 {
        let words =
            format!("parameters: distribution.sharding is {}; must be zero3, or optimizer here", degrees.asked());
        notes.fault(keys::training::cpu_offload, words);
    } else {
        notes.assume(
            keys::training::cpu_offload,
            "parameters, as DeepSpeed's third stage and FSDP do on one data-parallel rank",
        );
    }
}

/// What engines refuse beside what shares samples out.
fn engines(degrees: &Degrees, training: &Training, notes: &mut Notes) {
    let pipes = degrees.pipeline > 1 && training.mode == Mode::Train;
    // accelerate 1.15, parallelism_config.py, `_validate_accelerator`. Attention that is told all to all stands in the model, whoever
    // shards its weights: verl has both (verl/workers/fsdp_workers.py, `ulysses_sequence_parallel_size` under `fsdp`).
    let in_attention = degrees.exchange == CpComm::AllToAll;
    if degrees.context > 1 && degrees.engine == Engine::Fsdp1 && training.mode == Mode::Train && !in_attention {
        notes.fault(keys::distribution::engine, "fsdp1: ranks share a sequence under fsdp2; must be fsdp2");
    }
    if pipes && degrees.engine == Engine::Deepspeed {
        let asked = degrees.asked();
        if !degrees.engine.shardings_with(degrees.pipeline).contains(&asked) {
            notes.fault(
                keys::distribution::sharding,
                format!(
                    "{asked}: a pipeline of DeepSpeed shares out nothing or optimizer states; must be none or zero1"
                ),
            );
        }
        // deepspeed/runtime/pipe/schedule.py, TrainSchedule
        if degrees.virtual_pipeline > 1 {
            let chunks = degrees.virtual_pipeline;
            let words = format!("{chunks}: a stage of DeepSpeed's pipeline has one chunk; must be 1");
            notes.fault(keys::distribution::virtual_pipeline, words);
        }
    }
    let megatrons = matches!(degrees.engine, Engine::Megatron | Engine::MegatronFsdp);
    // megatron-core 0.16, megatron/training/arguments.py, --optimizer
    if megatrons && matches!(training.optimizer, Optimizer::Adafactor | Optimizer::Adamw8bit) {
        let optimizer = training.optimizer;
        notes.assume(keys::training::optimizer, format!("{optimizer}: Megatron-LM has none; counted as PyTorch's"));
    }
    if megatrons && training.lora.as_ref().is_some_and(|lora| lora.base_bits.is_some()) {
        notes.assume(keys::training::lora, "Megatron-LM keeps no weights in so few bits; counted as transformers does");
    }
    // megatron-core 0.16, megatron/training/arguments.py, validate_args
    if training.optimizer == Optimizer::Muon && degrees.engine == Engine::MegatronFsdp {
        notes.fault(
            keys::training::optimizer,
            "muon: Megatron-FSDP refuses it; distribution.sharding may be none or zero1",
        );
    }
}

/// A learned table has no row for a token beyond its end: the lookup fails. Rotary positions go on; that the model was
/// not trained on them is for its user to know.
fn positions(architecture: &Architecture, batch: &Batch, notes: &mut Notes) {
    let learned = match architecture.block().map(|block| block.position) {
        Some(Position::Learned) => true,
        Some(Position::Rope) => false,
        _ => return,
    };
    let (read, most) = match architecture.input() {
        Input::Tokens(most) => (&[("model.sequence_length", batch.sequence)][..], most),
        // A source of fixed length has a table of its own.
        Input::Pair(Some(_), most) => (&[("model.decoder_sequence_length", batch.target)][..], most),
        Input::Pair(None, most) => {
            (&[("model.sequence_length", batch.sequence), ("model.decoder_sequence_length", batch.target)][..], most)
        }
        _ => return,
    };
    let Some(most) = most else { return };
    for (key, tokens) in read.iter().filter(|(_, tokens)| *tokens > most) {
        if learned {
            notes.fault(key, format!("{tokens}: the model has learned positions for {most} tokens"));
        } else {
            notes.assume(key, format!("{tokens}, beyond the {most} positions that the model is published with"));
        }
    }
}

/// Micro-batches that each chunk of an interleaved pipeline passes in a row.
///
/// Megatron's `microbatch_group_size_per_vp_stage` is by default as many as there are stages. Fewer are refused, and so is
/// a last group of fewer (core/pipeline_parallel/schedules.py, `forward_backward_pipelining_with_interleaving`): where the
/// default is, the least that is not. PyTorch makes rounds of at least as many as there are stages
/// (torch/distributed/pipelining/schedules.py, `ScheduleInterleaved1F1B`).
pub fn in_a_row(rounds: InterleavedRounds, stages: u64, batches: u64) -> u64 {
    let stages = stages.max(1);
    if rounds == InterleavedRounds::EqualRounds {
        return (batches / (batches / stages).max(1)).max(1);
    }
    let runs = |row: &u64| batches.is_multiple_of(*row) || batches % row >= stages;
    // One group of all is refused by neither rule.
    (stages..batches).find(runs).unwrap_or(batches).max(1)
}

/// The interleaved schedule goes through its micro-batches in rounds.
fn rounds(kind: InterleavedRounds, stages: u64, batches: u64, notes: &mut Notes) {
    let key = "training.gradient_accumulation_steps";
    if kind == InterleavedRounds::StageGroups {
        // Rounds of `microbatch_group_size_per_vp_stage`, at least as many as there are stages and by default as many
        // (core/pipeline_parallel/schedules.py, `forward_backward_pipelining_with_interleaving`).
        if batches < stages {
            notes
                .fault(key, format!("{batches}: interleaved needs at least distribution.pipeline_parallel = {stages}"));
        } else if !batches.is_multiple_of(stages) {
            notes.assume(
                key,
                format!(
                    "{batches} is no multiple of {stages} stages: runs only with \
                     --microbatch-group-size-per-virtual-pipeline-stage {} or such",
                    in_a_row(kind, stages, batches)
                ),
            );
        }
        return;
    }
    // Rounds of at least as many (torch/distributed/pipelining/schedules.py, `ScheduleInterleaved1F1B`).
    let rounds = (batches / stages.max(1)).max(1);
    if !batches.is_multiple_of(rounds) {
        notes
            .fault(key, format!("{batches}: interleaved needs a multiple of its {rounds} rounds over {stages} stages"));
    }
}

/// Micro batches whose activations or cache a GPU has at once: all of them where requests wait for their turn, or where
/// the forward passes come first.
fn held(batch: &Batch, degrees: &Degrees, mode: Mode) -> u64 {
    let all = mode == Mode::Inference || degrees.pipeline > 1 && degrees.schedule == Schedule::Gpipe;
    if all { batch.accumulation } else { 1 }
}

/// Sizes whose products would not fit in 64 bits are refused, so that nothing later can overflow.
pub(super) fn size(
    params: &Count,
    (batch, degrees, mode): (&Batch, &Degrees, Mode),
    architecture: &Architecture,
    notes: &mut Notes,
) {
    // Bytes of the largest tensors, some hundred times below what 64 bits hold: sums of them stay exact.
    const LIMIT: f64 = 1e17;
    let longest = batch.sequence.max(batch.target);
    let tokens = batch.micro as f64 * longest as f64;
    // A pixel takes as many channels as the widest layer at most.
    let tokens = tokens.max(batch.micro as f64 * (batch.image as f64).powi(2));
    let side = batch.seen.side;
    let tiles = architecture.sight().map_or(0, |sight| sight.tiles_of(side)) as f64;
    let patches = tiles * architecture.sight().map_or(0, |sight| sight.patches_of(side)) as f64;
    let tokens = tokens.max(batch.micro as f64 * batch.seen.images as f64 * patches);
    let layers = architecture.layers() as f64;
    let (width, heads) = architecture.widest();
    let widest = tokens * width as f64 * 16.0 * layers;
    // A UNet attends from every latent to every other.
    let longest = (longest as f64).max(patches).max(if matches!(architecture.input(), Input::Captioned(_)) {
        (batch.image as f64).powi(2)
    } else {
        0.0
    });
    let scores = tokens * longest * heads as f64 * 16.0 * layers;
    let widest = widest.max(traced::bytes_of_all(architecture, batch));
    if params.total as f64 * 20.0 > LIMIT {
        notes.fault("model", format!("{} parameters are more than can be counted in bytes", params.total));
    } else if widest > LIMIT || scores > LIMIT {
        notes.fault(
            if batch.image > 0 { "model.image_size" } else { "model.sequence_length" },
            format!(
                "{} {} of that size: more than can be counted{}",
                batch.micro,
                if batch.micro == 1 { "sample" } else { "samples" },
                match architecture.input() {
                    Input::Captioned(_) => "; latents a side are an eighth of the image's pixels",
                    _ => "",
                }
            ),
        );
    } else if widest * held(batch, degrees, mode) as f64 > LIMIT {
        notes.fault(
            keys::training::gradient_accumulation_steps,
            format!("{} micro batches held at once need more bytes than 64 bits count", batch.accumulation),
        );
    }
}
