//! What the walk of a model is told of a job: types, adapters, cuts and kernels of one micro-batch on one GPU.

use crate::catalog::Generation;
use crate::framework::AdapterType;
use crate::model::{
    Adapters, AttentionChoice, Cache, Count, Cut, Element, LossRule, MicroBatch, ModelShape, TiedGrad, Types, Walk,
};
use crate::plan::Checkpointing;
use crate::plan::keywords::{Attention, Engine, Fp8Recipe, Loss, Mode};
use crate::predict::job::{Job, fused_kernels};

/// The operators of one micro-batch of `job`.
pub(in crate::predict) fn walked(job: &Job) -> Walk {
    let types = types(job);
    let adapters = adapters(job);
    let mut walk = job.architecture.walk(&run(job, &types, adapters.as_ref()));
    if job.stages.len() > 1 {
        part_ties(&mut walk);
    }
    if job.training.reentrant {
        walk.kinds.iter_mut().for_each(|(_, tape)| tape.reruns_all = true);
    }
    walk
}

fn types(job: &Job) -> Types {
    let storage = &job.storage;
    let autocast = storage.autocast.then_some(storage.compute);
    let weight_cache = storage.autocast && job.modules.autocast.is;
    Types {
        weight: storage.seen,
        autocast,
        weight_cache,
        fp8: storage.operands,
        gathers_fp8: gathers_fp8(job),
        // torch/distributed/fsdp/_fully_shard/_fsdp_api.py, `cast_forward_inputs`; FSDP1 casts the root's alone.
        casts_inputs: job.degrees.engine == Engine::Fsdp2,
    }
}

/// Whether operands are cast to FP8 before sequence parallel gathers them: by Transformer Engine (pytorch/distributed.py,
/// `gather_along_first_dim` with a quantizer), and by torchao where a tensor has one scale (float8/
/// float8_tensor_parallel.py, `PrepareFloat8ModuleInput`; torchtitan leaves rows scaled each for themselves in 16 bit).
pub(in crate::predict) fn gathers_fp8(job: &Job) -> bool {
    let torchao = job.modules.fp8_gathers.is && job.speed.fp8_recipe == Fp8Recipe::Tensorwise;
    job.storage.operands.is_some() || (torchao && job.storage.fp8 && job.training.mode == Mode::Train)
}

/// Type of adapters: the plan's, else the framework's; diffusers' keep the model's (loaders/peft.py, `add_adapter`).
pub(in crate::predict) fn adapter_element(job: &Job) -> Element {
    if let Some(told) = job.training.lora.as_ref().and_then(|lora| lora.dtype) {
        return told;
    }
    match job.modules.adapters.is {
        AdapterType::Model => job.storage.weight,
        AdapterType::Fp32 if matches!(job.architecture.shape, ModelShape::Unet(_)) => job.storage.weight,
        AdapterType::Fp32 => Element::F32,
    }
}

fn adapters(job: &Job) -> Option<Adapters> {
    let lora = job.training.lora.as_ref()?;
    Some(Adapters {
        rank: lora.rank,
        targets: lora.targets.clone(),
        tower: lora.tower.clone(),
        saved: lora.saved.clone(),
        dropout: if trains(job) { lora.dropout } else { 0.0 },
        element: adapter_element(job),
        base_bits: lora.base_bits,
        restores_input_type: job.modules.restores_input_type.is,
        kernels: lora.kernels.clone(),
    })
}

/// What a job's model has and trains in all, however GPUs share it.
pub(in crate::predict) fn count(job: &Job) -> Count {
    let adapters = adapters(job);
    let parts = (job.training.frozen, adapters.as_ref());
    job.architecture.count_adapted(parts, job.profile, job.vocab_multiple())
}

fn trains(job: &Job) -> bool {
    job.training.mode == Mode::Train
}

fn run<'a>(job: &'a Job, types: &'a Types, adapters: Option<&'a Adapters>) -> MicroBatch<'a> {
    let degrees = &job.degrees;
    MicroBatch {
        modules: &job.modules,
        types,
        adapters,
        batch: job.batch.micro,
        sequence: job.batch.sequence,
        target: job.batch.target,
        image: job.batch.image,
        seen: job.batch.seen,
        cut: Cut {
            tensor: degrees.tensor,
            // What it trains it replaces within layers alone (deepspeed, module_inject/replace_module.py, `set_lm_head`).
            whole_head: degrees.engine == Engine::Deepspeed && job.modules.family_classes.is && trains(job),
            sequence: degrees.sequence_parallel,
            context: degrees.context,
            exchange: degrees.exchange,
            expert: degrees.expert,
            gathers_tokens: degrees.gathers_tokens,
            expert_tensor: degrees.expert_tensor,
        },
        attention: match job.training.attention {
            Attention::Sdpa => AttentionChoice::Dispatch,
            Attention::Flash => AttentionChoice::Flash,
            Attention::Eager => AttentionChoice::Eager,
        },
        fused: fused_kernels(&job.hardware.gpu),
        flash_attn: takes_flash_attn(job),
        checkpointed: trains(job) && job.training.checkpointing != Checkpointing::None,
        // Its reentrant kind learns nothing of blocks whose input needs no gradient: peft and transformers make it need one
        // (`enable_input_require_grads`).
        graded_inputs: job.training.reentrant,
        padded: job.training.padded_batch,
        head_only: !trains(job),
        loss: match job.training.loss {
            Loss::Hf | Loss::Plain if job.profile.loss.sharded_logits.is && degrees.tensor > 1 => {
                LossRule::ShardedLogits
            }
            Loss::Hf => LossRule::Upcast,
            Loss::Plain => LossRule::Plain,
            // torchtune's default number of chunks (modules/loss/ce_chunked_output_loss.py).
            Loss::Chunked => {
                LossRule::Chunked { chunks: 8, compiled: job.training.compile || job.profile.loss.compiles_parts.is }
            }
            Loss::Fused => LossRule::Fused { parts: job.profile.loss.parts.is },
            Loss::VocabParallel => LossRule::VocabParallel,
            Loss::VocabParallelFused => LossRule::VocabParallelFused,
            Loss::TeFused => LossRule::TeFused,
        },
        dropout: if trains(job) { job.training.dropout } else { Some(0.0) },
        frozen: job.training.frozen,
        vocab_multiple: job.vocab_multiple(),
        // Keys and values are kept by decoders that answer.
        cache: job.keeps_cache().then_some(Cache {
            element: job.storage.kv_cache,
            past: job.batch.past,
            latents: job.training.cache_latents,
        }),
    }
}

/// Whether Transformer Engine takes flash-attn's attention: cuDNN's is preferred from compute capability 9.0 on
/// (pytorch/attention/dot_product_attention/utils.py, `get_attention_backend`), and refuses results that must not vary on
/// Blackwell where there is dropout (common/fused_attn/fused_attn.cpp, `nvte_get_fused_attn_backend`).
pub(in crate::predict) fn takes_flash_attn(job: &Job) -> bool {
    let dropout = job.training.dropout.is_some_and(|dropout| dropout > 0.0);
    job.modules.transformer_engine.is
        && match job.hardware.gpu.generation {
            Generation::Ampere | Generation::Ada => true,
            Generation::Blackwell => job.training.deterministic && dropout,
            _ => false,
        }
}

/// Each pipeline stage runs a backward pass of its own, which adds a shared matrix's gradient to `.grad`: no part of it
/// waits for another's.
fn part_ties(walk: &mut Walk) {
    let ends = [&mut walk.first, &mut walk.last];
    let tapes = walk.kinds.iter_mut().map(|(_, tape)| tape).chain(ends);
    for weight in tapes.flat_map(|tape| &mut tape.weights) {
        weight.meets = TiedGrad::Nothing;
    }
}
