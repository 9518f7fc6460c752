//! How the bytes of weights, gradients and optimizer states come about, in words.

use crate::framework::AdapterType;
use crate::model::Element;
use crate::plan::keywords::{Engine, MasterDtype, Mode, Optimizer, Sharding};
use crate::predict::job::Job;
use crate::predict::job::optimizer::rule_of;
use crate::predict::memory::resident::Resident;
use crate::predict::prediction::{Words, words};
use crate::predict::step::{accumulates_whole, adapter_element};

/// " / 8 ranks" where one of `kinds` shards, with the experts' own ranks where those differ.
pub(in crate::predict) fn shared(job: &Job, kinds: &[Sharding]) -> Words {
    let degrees = &job.degrees;
    if !kinds.contains(&degrees.sharding) {
        return Words::NONE;
    }
    let all = words![" / ", degrees.shard_ranks, " ranks"];
    let experts = job.architecture.block().is_some_and(|block| block.moe.is_some());
    if experts && degrees.expert_shard_ranks != degrees.shard_ranks {
        return all.then(words![" (experts / ", degrees.expert_shard_ranks, ")"]);
    }
    all
}

impl Job {
    /// Type of the adapters; none where there are none.
    fn adapter_type(&self) -> Option<Element> {
        self.training.lora.as_ref().map(|_| adapter_element(self))
    }

    /// Types of gradients and of states of what is trained: the adapters' own, but those of any weight where adapters in
    /// the model's type have masters (megatron-core, optimizer/optimizer.py, Float16OptimizerWithFloat16Params).
    #[must_use]
    pub fn trained_types(&self) -> (Element, Element) {
        let mastered = self.storage.master.is_some() && self.modules.adapters.is == AdapterType::Model;
        let own = self.adapter_type().filter(|_| !mastered);
        own.map_or((self.storage.gradient, self.storage.state), |own| (own, own))
    }
}

/// Weights.
pub(in crate::predict) fn weights(job: &Job, held: &Resident) -> Words {
    let storage = &job.storage;
    let usual = words![held.params, " parameters x ", storage.weight.bytes(), " B (", storage.weight.name(), ")"];
    let in_fp8 = storage.fp8_weights || (storage.fp8 && job.training.mode == Mode::Inference);
    let bits = job.training.lora.as_ref().and_then(|lora| lora.base_bits);
    let shares = job.degrees.sharding == Sharding::Zero3 && job.degrees.shard_ranks > 1;
    let whole_scales = shares && !job.profile.modules.shares_scales.is;
    let usual = match bits {
        Some(bits) => usual.then(words![", blocks' matrices x ", bits, " bits"]).then(match bits {
            4 if whole_scales => words![" with scales, of which every rank has all"],
            4 => words![" with scales"],
            _ => Words::NONE,
        }),
        None if job.training.weight_bits.is_some() => usual.then(words![", blocks' matrices x 4 bits with scales"]),
        None if in_fp8 => usual.then(words![", blocks' matrices in FP8"]),
        None => usual,
    };
    let own = job.adapter_type().filter(|own| *own != storage.weight);
    let own = own.map_or(Words::NONE, |own| words![", adapters x ", own.bytes(), " B"]);
    usual.then(own).then(shared(job, &[Sharding::Zero3]))
}

/// Optimizer states.
pub(in crate::predict) fn states(job: &Job, held: &Resident) -> Words {
    let row = rule_of(job);
    let state = job.trained_types().1.bytes();
    let trained = words![held.trained];
    if row.factored && row.flat {
        let each = words![" parameters x 1 state of 4 B (flat shares have no rows)"];
        return trained.then(each).then(shared(job, &[Sharding::Zero1, Sharding::Zero2, Sharding::Zero3]));
    }
    if row.factored {
        // Each rank keeps the rows and columns of the whole matrix.
        return trained.then(words![" parameters, rows and columns only"]);
    }
    let what = if row.eight_bit && row.wide_embeddings {
        words![" parameters x 2 states of 1 B, with scales; embeddings' of 4 B"]
    } else if row.eight_bit {
        words![" parameters x 2 states of 1 B, with scales"]
    } else if job.training.optimizer == Optimizer::Muon {
        words![" parameters x 1 state of ", state, " B, 2 where they are no matrix of a block"]
    } else {
        words![" parameters x ", row.moments, " states of ", state, " B"]
    };
    trained.then(what).then(shared(job, &[Sharding::Zero1, Sharding::Zero2, Sharding::Zero3]))
}

/// Master weights beside those that are computed with.
pub(in crate::predict) fn masters(job: &Job, held: &Resident) -> Words {
    let kind = match job.storage.precision_aware {
        None | Some(MasterDtype::Fp32) => " B (fp32)",
        Some(MasterDtype::Int16) => " B (the bits that bf16 weights lack)",
        Some(MasterDtype::Bf16 | MasterDtype::Fp16) => " B",
    };
    words![held.trained, " parameters x ", job.storage.master.map_or(4, Element::bytes), kind]
}

/// Whose code decides in which types weights, masters and states lie.
pub(in crate::predict) fn source(job: &Job) -> &'static str {
    let storage = &job.storage;
    let engine = job.degrees.engine;
    if storage.precision_aware.is_some() {
        return "Transformer Engine 2.1, pytorch/optimizers/fused_adam.py, FusedAdam (master_weights, store_param_remainders)";
    }
    match (storage.master, engine) {
        (Some(_), Engine::Deepspeed) => "DeepSpeed, runtime/bf16_optimizer.py and runtime/fp16/fused_optimizer.py",
        (Some(_), Engine::Megatron | Engine::MegatronFsdp) => {
            "megatron-core 0.16, core/optimizer/optimizer.py, Float16OptimizerWithFloat16Params"
        }
        (Some(_), Engine::Ddp | Engine::Fsdp1 | Engine::Fsdp2) => {
            "NVIDIA/apex, apex/fp16_utils/fp16_optimizer.py, FP16_Optimizer (fp32_from_fp16 groups)"
        }
        (None, _) if storage.autocast && storage.weight == Element::F32 => {
            "PyTorch 2.9, torch/amp/autocast_mode.py, autocast (weights stay in fp32)"
        }
        (None, Engine::Fsdp1) => "PyTorch 2.9, torch/distributed/fsdp/api.py, MixedPrecision",
        (None, Engine::Fsdp2) => "PyTorch 2.9, torch/distributed/fsdp/_fully_shard/_fsdp_api.py, MixedPrecisionPolicy",
        (None, _) => "PyTorch 2.9, torch/nn/modules/module.py, Module.to",
    }
}

/// Whose code decides in which type gradients lie, and how long.
pub(in crate::predict) fn gradient_source(job: &Job) -> &'static str {
    if job.is_stepped_by_zero() {
        return job.profile.data_parallel.has_bf16_optimizer.source;
    }
    let rule = &job.profile.data_parallel.gradients_stay;
    if rule.is { rule.source } else { "PyTorch 2.9, torch/csrc/autograd/functions/accumulate_grad.h" }
}

/// Of gradients that stay whole until the last micro-batch: how many bytes each, and whose code has it so.
pub(in crate::predict) fn whole_gradients(job: &Job) -> (Words, &'static str) {
    let storage = &job.storage;
    let first = accumulates_whole(job) && job.degrees.engine == Engine::Fsdp1;
    let each = if first { storage.compute } else { storage.reduce };
    let source = if accumulates_whole(job) {
        job.profile.data_parallel.accumulates_whole.source
    } else {
        "PyTorch, torch/distributed/pipelining/stage.py, backward_maybe_with_nosync (reduced behind the last backward pass)"
    };
    (words!["of the stage, to which every micro-batch adds: x ", each.bytes(), " B"], source)
}
