//! Keys that are read and have no effect on the figures: said, never silently ignored.

use super::speed::exchanges_as_recipes;
use super::storage::{has_typed_masters, wraps};
use super::training::{attends, recomputes_blocks};
use super::{Degrees, Notes};
use crate::framework::Profile;
use crate::model::{Architecture, EncoderDecoder, Input, ModelShape, Start};
use crate::plan::keys;
use crate::plan::keywords::{CpuOffload, Engine, Mode, ModelType, Optimizer, Precision, RecomputeModule, Sharding};
use crate::plan::{Checkpointing, ModelPart, Plan, TrainingPart};

/// The same plan, silent on the type that gradients are reduced in.
fn without_reduce_dtype(plan: &Plan) -> Plan {
    let mut silent = plan.clone();
    silent.distribution.reduce_dtype = None;
    silent
}

/// What is said of a key that would change the prediction and does not.
pub(in crate::predict) const NOT_MODELLED: &str = "not modelled, the prediction leaves it out";

/// Keys of an architecture that the plan gives beside another that decides: the first in the order of
/// [`architecture::of_plan`](super::architecture::of_plan).
fn beside_the_model(model: &ModelPart) -> Vec<String> {
    let ways = [
        (keys::model::trace, model.trace.is_some()),
        (keys::model::hf_config, model.hf_config.is_some()),
        (keys::model::preset, model.preset.is_some()),
        (keys::model::layers, model.layers.is_some()),
        ("model.architecture", model.architecture.is_some()),
        (keys::model::size_billions, model.size_billions.is_some()),
    ];
    let mut given = ways.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
    let Some(first) = given.next() else { return Vec::new() };
    given.map(|key| format!("{key}: has no effect beside {first}, which the plan gives")).collect()
}

/// Whether a plan has a key in vain, or has what a line says; the key, or the line.
type Idle = (bool, &'static str);

/// The keys of a plan beside what it came to.
struct IdleKeys<'a> {
    plan: &'a Plan,
    profile: &'a Profile,
    degrees: &'a Degrees,
    architecture: &'a Architecture,
    inference: bool,
}

/// Names every key of the plan that is given and changes nothing.
pub(super) fn note(
    plan: &Plan,
    (profile, degrees): (&Profile, &Degrees),
    architecture: &Architecture,
    notes: &mut Notes,
) {
    let inference = plan.training.mode == Some(Mode::Inference);
    let asked = IdleKeys { plan, profile, degrees, architecture, inference };
    asked.refuse(notes);
    let given = asked.of_model().into_iter().chain(asked.of_training()).chain(asked.of_layout()).chain(asked.of_run());
    for (_, key) in given.chain(asked.of_companions()).filter(|(is, _)| *is) {
        notes.assumptions.push(format!("{key}: given, has no effect on the prediction yet"));
    }
    notes.assumptions.extend(beside_the_model(&plan.model));
    for (_, key) in asked.left_out().iter().filter(|(is, _)| *is) {
        notes.assumptions.push(format!("{key}: {NOT_MODELLED}"));
    }
    let said = std::iter::once(asked.partly_counted()).chain(nothing_to_count(&plan.training));
    let companions = companions_left_out(&plan.training).into_iter().filter(|_| !inference);
    for (_, line) in said.chain(companions).chain(asked.of_speed()).filter(|(is, _)| *is) {
        notes.assumptions.push(line.to_owned());
    }
    overlaps(plan, degrees, notes);
}

impl IdleKeys<'_> {
    /// Whether the framework reads a key that not all have.
    fn reads(&self, key: &str) -> bool {
        self.profile.support.own_keys.is.contains(&key)
    }

    fn is_traced(&self) -> bool {
        matches!(self.architecture.shape, ModelShape::Traced(_))
    }

    fn sees(&self) -> bool {
        self.architecture.sight().is_some()
    }

    fn in_fp8(&self) -> bool {
        self.plan.training.precision == Some(Precision::Fp8Mixed) && !self.inference
    }

    /// Keys that the kind of model has no meaning for.
    fn refuse(&self, notes: &mut Notes) {
        let stacked = matches!(
            self.architecture.shape,
            ModelShape::Decoder(_) | ModelShape::Encoder(_) | ModelShape::EncoderDecoder(_)
        );
        let frozen = self.plan.training.frozen.as_ref().is_some_and(|parts| !parts.is_empty());
        if !stacked && !self.is_traced() && frozen {
            let kind = self.architecture.kind();
            notes.fault(keys::training::frozen, format!("is for decoders and encoders only, not for a {kind}"));
        }
        if self.plan.model.image_size.is_some() && self.architecture.image().is_none() && self.is_traced() {
            notes.fault(
                keys::model::image_size,
                "the trace is sized by model.sequence_length, its tokens (a latent diffusion transformer's: pixels a side / \
                 16, squared)",
            );
        }
    }

    fn of_model(&self) -> [Idle; 8] {
        let m = &self.plan.model;
        let image = self.architecture.image().is_some();
        let both = matches!(self.architecture.input(), Input::Pair(..));
        // Whisper's encoder has as many positions as its spectrum.
        let listens = |model: &EncoderDecoder| matches!(model.start, Start::Audio { .. });
        let listens = matches!(&self.architecture.shape, ModelShape::EncoderDecoder(model) if listens(model));
        let text = (both && !listens) || matches!(self.architecture.shape, ModelShape::Unet(_));
        let layers = matches!(self.architecture.shape, ModelShape::Layers(_));
        let predicts_more = m.architecture.as_ref().is_some_and(|given| given.mtp_layers.is_some());
        let sized = image || self.sees() || self.is_traced();
        [
            (m.encoder_sequence_length.is_some() && !text, "model.encoder_sequence_length"),
            (m.decoder_sequence_length.is_some() && !both, "model.decoder_sequence_length"),
            (predicts_more && !self.profile.modules.prediction.is, "model.architecture.mtp_layers"),
            (m.input_gradient.is_some() && !layers, "model.input_gradient"),
            (m.image_size.is_some() && !sized, "model.image_size"),
            (m.images.is_some() && !self.sees(), "model.images"),
            (
                m.sequence_length.is_some() && image,
                "model.sequence_length (the model takes images, sized by model.image_size)",
            ),
            (m.transformer_impl.is_some() && !self.reads("model.transformer_impl"), "model.transformer_impl"),
        ]
    }

    fn routes(&self) -> bool {
        self.architecture.block().is_some_and(|block| block.moe.is_some())
    }

    fn of_training(&self) -> [Idle; 27] {
        let (t, inference) = (&self.plan.training, self.inference);
        let latent = matches!(&self.architecture.shape, ModelShape::Decoder(decoder) if decoder.mla.is_some());
        let caches = inference && latent && t.use_cache != Some(false);
        let runs_again = recomputes_blocks(t) && !self.profile.modules.reruns_all.is;
        let keeps = self.profile.loss.returns_outputs.is && !inference;
        let masters = [Precision::Bf16Fp32Master, Precision::Fp16Fp32Master, Precision::Fp8Mixed];
        let has_masters = has_typed_masters(self.degrees.engine, t.optimizer)
            && !inference
            && t.precision.is_none_or(|precision| masters.contains(&precision));
        let lora = t.lora.as_ref();
        let quantises_scales = lora.is_some_and(|lora| lora.double_quant == Some(true) && lora.base_bits.is_none());
        let tower = t.lora.as_ref().is_some_and(|lora| lora.vision_tower == Some(true));
        let shards_in_fp8 = self.in_fp8() && self.profile.modules.fp8_shards.is;
        let other = t.cpu_offload.is_some_and(|offload| offload != CpuOffload::Activations);
        let unread = |given: bool, key: &'static str| (given && !self.reads(key), key);
        let routes = self.routes();
        let experts = [RecomputeModule::Moe, RecomputeModule::MoeAct, RecomputeModule::SharedExperts];
        let of_experts = match &t.activation_checkpointing {
            Some(Checkpointing::Modules(modules)) => modules.iter().any(|module| experts.contains(module)),
            _ => false,
        };
        [
            (
                of_experts && !routes,
                "training.activation_checkpointing.modules (what it names of experts: the model has none)",
            ),
            (tower && !self.sees(), "training.lora.vision_tower"),
            (
                lora.is_some() && t.gradient_dtype.is_some(),
                "training.gradient_dtype (adapters' gradients have their type)",
            ),
            (
                lora.is_some() && t.optimizer_state_dtype.is_some(),
                "training.optimizer_state_dtype (adapters' states have their type)",
            ),
            (quantises_scales, "training.lora.double_quant (without base_bits)"),
            (t.use_cache.is_some() && !inference, "training.use_cache"),
            (t.kv_cache_dtype.is_some() && !inference, "training.kv_cache_dtype"),
            (t.cache_latents == Some(true) && !caches, "training.cache_latents"),
            (t.use_reentrant == Some(true) && !runs_again, "training.use_reentrant"),
            (
                t.embedding_states_fp32 == Some(true) && t.optimizer != Some(Optimizer::Adamw8bit),
                "training.embedding_states_fp32 (without adamw-8bit)",
            ),
            (t.keep_outputs == Some(true) && !keeps, "training.keep_outputs"),
            (t.master_dtype.is_some() && !has_masters, "training.master_dtype"),
            (
                t.autocast.is_some()
                    && (inference || !t.precision.is_some_and(|precision| wraps(precision, self.profile))),
                "training.autocast (of 16-bit weights in training alone, where the framework has it)",
            ),
            (t.fp8_recipe.is_some() && t.precision != Some(Precision::Fp8Mixed), "training.fp8_recipe"),
            (t.fp8_param_gather == Some(true) && !shards_in_fp8, "training.fp8_param_gather"),
            unread(t.defer_embedding_wgrad == Some(true), "training.defer_embedding_wgrad"),
            unread(t.offload_modules.is_some(), "training.offload_modules"),
            unread(t.offload_layers.is_some(), "training.offload_layers"),
            (t.offload_modules.is_some() && other, "training.offload_modules (beside another cpu_offload)"),
            (t.offload_layers.is_some() && other, "training.offload_layers (beside another cpu_offload)"),
            unread(t.moe_grouped_gemm.is_some(), "training.moe_grouped_gemm"),
            unread(t.distributed_optimizer.is_some(), "training.distributed_optimizer"),
            (inference && t.optimizer.is_some(), "training.optimizer (inference)"),
            (inference && t.loss.is_some(), "training.loss (inference)"),
            (t.attention.is_some() && !attends(self.architecture), "training.attention (no layer attends)"),
            (inference && t.activation_checkpointing.is_some(), "training.activation_checkpointing (inference)"),
            (inference && t.reference_model == Some(true), "training.reference_model (inference)"),
        ]
    }

    fn of_layout(&self) -> [Idle; 12] {
        let (d, degrees) = (&self.plan.distribution, self.degrees);
        let shards = degrees.sharding == Sharding::Zero3;
        let each = shards && degrees.engine.is_fsdp();
        let buckets = degrees.engine == Engine::Ddp && degrees.data > 1;
        // It may be what makes a plan another than NVIDIA's recipes.
        let silent = d.reduce_dtype.is_some()
            && !shards
            && exchanges_as_recipes(&without_reduce_dtype(self.plan), self.profile, degrees);
        let nothing = degrees.sharding == Sharding::None;
        let routes = self.routes();
        let alone = degrees.tensor == 1;
        [
            (d.shard_group.is_some() && nothing, "distribution.shard_group (nothing is sharded)"),
            (d.optimizer_instances.is_some_and(|copies| copies > 1) && nothing, "distribution.optimizer_instances"),
            (
                d.virtual_pipeline.is_some_and(|chunks| chunks > 1) && degrees.pipeline == 1,
                "distribution.virtual_pipeline",
            ),
            (d.sequence_parallel == Some(true) && alone, "distribution.sequence_parallel (tensor_parallel is 1)"),
            (
                d.async_tensor_parallel == Some(true) && alone,
                "distribution.async_tensor_parallel (tensor_parallel is 1)",
            ),
            (
                d.overlap_tensor_parallel == Some(true) && alone,
                "distribution.overlap_tensor_parallel (tensor_parallel is 1)",
            ),
            (d.moe_dispatcher.is_some() && !routes, "distribution.moe_dispatcher"),
            (
                d.overlap_expert_parallel == Some(true) && degrees.expert == 1,
                "distribution.overlap_expert_parallel (expert_parallel is 1)",
            ),
            (d.reduce_dtype.is_some() && !shards && !silent, "distribution.reduce_dtype"),
            (d.sync_each_micro_batch.is_some() && !each, "distribution.sync_each_micro_batch"),
            (
                d.gradient_as_bucket_view.is_some() && !buckets,
                "distribution.gradient_as_bucket_view (no replicas under DDP)",
            ),
            (d.cp_comm.is_some() && !self.reads("distribution.cp_comm"), "distribution.cp_comm"),
        ]
    }

    /// Of a whole training's length and price, which a model that answers has not.
    fn of_run(&self) -> [Idle; 2] {
        let run = &self.plan.run;
        [
            (self.inference && run.total_tokens.is_some(), "run.total_tokens (inference)"),
            (self.inference && run.price_per_gpu_hour.is_some(), "run.price_per_gpu_hour (inference)"),
        ]
    }

    /// Of other models and engines on the same GPUs.
    fn of_companions(&self) -> [Idle; 4] {
        let (t, inference) = (&self.plan.training, self.inference);
        [
            (
                t.generation_beside.is_some() && t.generation_memory.is_none(),
                "training.generation_beside (needs training.generation_memory)",
            ),
            (inference && t.frozen_models_billions.is_some(), "training.frozen_models_billions (inference)"),
            (inference && t.critic_model == Some(true), "training.critic_model (inference)"),
            (inference && t.generation_memory.is_some(), "training.generation_memory (inference)"),
        ]
    }

    fn left_out(&self) -> [Idle; 4] {
        let (t, shape) = (&self.plan.training, &self.architecture.shape);
        let plain = matches!(shape, ModelShape::Layers(_) | ModelShape::ResidualNet(_));
        let recomputes = t.activation_checkpointing.as_ref().is_some_and(|kind| *kind != Checkpointing::None);
        // A user's own tape has whatever the step ran.
        let denoises = self.architecture.kind() == ModelType::DiffusionModel && self.plan.model.trace.is_none();
        let answers = self.inference && matches!(shape, ModelShape::EncoderDecoder(_));
        [
            (answers && t.use_cache != Some(false), keys::training::use_cache),
            // What prepares its inputs, or paints what it answers; in training their weights have a key.
            (denoises && (self.inference || t.frozen_models_billions.is_none()), "VAE and text encoders"),
            (plain && recomputes && !self.inference, keys::training::activation_checkpointing),
            (t.moe_capacity_factor.is_some_and(|room| room < 1.0), keys::training::moe_capacity_factor),
        ]
    }

    fn partly_counted(&self) -> Idle {
        let capacity = self.plan.training.moe_capacity_factor;
        (
            capacity.is_some_and(|room| room >= 1.0),
            "training.moe_capacity_factor: tokens are taken to be spread evenly: none is dropped, no room padded",
        )
    }

    fn of_speed(&self) -> [Idle; 4] {
        let t = &self.plan.training;
        [
            (t.cuda_graph.is_some(), "training.cuda_graph: changes the speed only; its pools are left out of memory"),
            (
                t.deterministic == Some(true),
                "training.deterministic: of slower kernels only flash-attn's backward pass is counted",
            ),
            (
                self.in_fp8() && !self.profile.modules.transformer_engine.is,
                "training.precision: fp8-mixed saves what 16 bit does, as torchao's linear layers do",
            ),
            (
                self.reads("training.defer_embedding_wgrad") && t.defer_embedding_wgrad == Some(true),
                "training.defer_embedding_wgrad: two micro-batches are deferred, as in Megatron's own configurations",
            ),
        ]
    }
}

/// Says what a plan's overlap needs and the plan does not have.
fn overlaps(plan: &Plan, degrees: &Degrees, notes: &mut Notes) {
    let told = plan.distribution.overlap_tensor_parallel == Some(true);
    if told && degrees.tensor > 1 && !degrees.sequence_parallel {
        let line = "distribution.overlap_tensor_parallel: no effect without distribution.sequence_parallel \
                    (Megatron-LM refuses it)";
        notes.assumptions.push(line.to_owned());
    }
    // PyTorch's FSDPs gather ahead and reduce behind without a switch.
    let distribution = &plan.distribution;
    let told = [
        (distribution.overlap_param_gather == Some(false), keys::distribution::overlap_param_gather),
        (distribution.overlap_grad_reduce == Some(false), keys::distribution::overlap_grad_reduce),
    ];
    for (_, key) in told.iter().filter(|(is, _)| *is && degrees.engine.is_fsdp() && degrees.sharding == Sharding::Zero3)
    {
        notes.assumptions.push(format!("{key}: no effect under FSDP, which overlaps by itself"));
    }
}

/// What is not counted of other models and engines on the same GPUs.
fn companions_left_out(t: &TrainingPart) -> [Idle; 3] {
    [
        (
            t.frozen_models_billions.is_some(),
            "training.frozen_models_billions: weights are counted; what their passes hold and take is not",
        ),
        (
            t.critic_model == Some(true),
            "training.critic_model: its states are counted; its own steps are not in the time",
        ),
        (
            t.generation_memory.is_some(),
            "training.generation_memory: the step is the update; the time in which answers are generated is not counted",
        ),
    ]
}

/// Settings that change what runs but not which bytes there are, with the reason.
fn nothing_to_count(t: &TrainingPart) -> [Idle; 2] {
    [
        (
            t.gradient_clipping == Some(true),
            "training.gradient_clipping: gradients are scaled in place; only a norm of 4 B a tensor is made",
        ),
        (
            t.attention_softmax_fp32.is_some(),
            "training.attention_softmax_fp32: fused kernels compute in fp32 and keep 16 bit either way",
        ),
    ]
}
