//! How Megatron's arguments train: batch, precision, recomputation, degrees.

use serde_json::{Value, json};

use super::Job;
use crate::common;
use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::precision_aware::{self, MegatronRunKind};
use crate::rows::not_modelled;
use crate::settings::Settings;

/// Options that mean a plan's key as they stand.
const FLAGS: &[(&str, &str)] = &[
    ("use_distributed_optimizer", keys::training::distributed_optimizer),
    // Megatron-LLaMA's (`alibaba/Megatron-LLaMA`).
    ("overlapped_distributed_optimizer", keys::training::distributed_optimizer),
    ("fp8_param_gather", keys::training::fp8_param_gather),
    ("moe_grouped_gemm", keys::training::moe_grouped_gemm),
    ("defer_embedding_wgrad_compute", keys::training::defer_embedding_wgrad),
    ("deterministic_mode", keys::training::deterministic),
    ("attention_softmax_in_fp32", keys::training::attention_softmax_fp32),
    ("overlap_grad_reduce", keys::distribution::overlap_grad_reduce),
    ("overlap_param_gather", keys::distribution::overlap_param_gather),
    ("tp_comm_overlap", keys::distribution::overlap_tensor_parallel),
    ("overlap_moe_expert_parallel_comm", keys::distribution::overlap_expert_parallel),
];

const WHOLES: &[(&str, &str)] = &[
    ("micro_batch_size", keys::training::micro_batch_size),
    ("global_batch_size", keys::model::batch_size),
    ("cpu_offloading_num_layers", keys::training::offload_layers),
    ("expert_model_parallel_size", keys::distribution::expert_parallel),
    ("expert_tensor_parallel_size", keys::distribution::expert_tensor_parallel),
    ("decoder_first_pipeline_num_layers", keys::distribution::first_stage_layers),
    ("decoder_last_pipeline_num_layers", keys::distribution::last_stage_layers),
    ("num_distributed_optimizer_instances", keys::distribution::optimizer_instances),
    ("tensor_model_parallel_size", keys::distribution::tensor_parallel),
    ("pipeline_model_parallel_size", keys::distribution::pipeline_parallel),
    ("context_parallel_size", keys::distribution::context_parallel),
];

/// Sets `training` and what of `model` the run decides.
pub fn set(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    for (option, key) in FLAGS {
        imported.set(key, settings.flag(option));
    }
    for (option, key) in WHOLES {
        imported.set(key, settings.whole(option));
    }
    lengths(imported, settings);
    // Pai-Megatron-Patch's: samples are filled up to it (`megatron_patch/data/json_sft.py`).
    let same = |length: u64| settings.whole("seq_length").is_some_and(|found| found.value == length);
    if settings.whole("max_padding_length").is_some_and(|found| same(found.value)) {
        settings.accept("max_padding_length");
    }
    // `0:16 2.4B:320 12B:1536`: tokens, and the batch from there on (`core/num_microbatches_calculator.py`).
    let schedule = settings.texts("step_batch_size_schedule");
    let ends = schedule.and_then(|found| {
        let last = found.value.iter().flat_map(|text| text.split_whitespace()).last()?.rsplit(':').next()?;
        Some(Setting::new(last.parse::<u64>().ok()?, found.origin))
    });
    if let Some(batch) = ends {
        settings.accept("step_batch_size_schedule");
        imported.fill(keys::model::batch_size, Some(batch));
    }
    // Of old Megatron: the micro batch.
    imported.fill(keys::training::micro_batch_size, settings.whole("batch_size"));
    if imported.get(keys::training::micro_batch_size).is_some() && imported.get(keys::model::batch_size).is_none() {
        let origin = Job::default("--global-batch-size micro batch x data parallel");
        imported.say(keys::training::gradient_accumulation_steps, 1, origin);
    }
    for option in ["rampup_batch_size", "step_batch_size_schedule"] {
        if settings.get(option).is_some() {
            imported.note(format!("--{}: the batch is the one that it ends with", option.replace('_', "-")));
        }
    }
    // It ends with --global-batch-size, which Megatron asks for beside it.
    if settings.get("global_batch_size").is_some() {
        settings.accept("rampup_batch_size");
    }
    precision(imported, job);
    optimizer(imported, job);
    attention(imported, job);
    layer_scaling(imported, job);
    recomputation(imported, job);
    loss(imported, job);
    if let Some(dropout) = settings.number("hidden_dropout").filter(|found| found.value < 1.0) {
        if settings.number("attention_dropout").is_some_and(|attention| (attention.value - dropout.value).abs() > 1e-9)
        {
            imported.note("--attention-dropout differs from --hidden-dropout: the plan has the latter for both");
        }
        imported.set(keys::training::dropout, Some(dropout));
    }
    imported.set(keys::training::weight_decay, settings.number("weight_decay").filter(|found| found.value <= 1.0));
    imported
        .set(keys::training::gradient_clipping, settings.number("clip_grad").map(|found| found.map(|norm| norm > 0.0)));
    imported.set(keys::training::gradient_accumulation_fusion, job.unless("no_gradient_accumulation_fusion"));
    imported.set(keys::training::moe_capacity_factor, settings.number("moe_expert_capacity_factor"));
    imported.set(
        keys::training::offload_modules,
        settings.texts("offload_modules").filter(|found| !found.value.is_empty()),
    );
    imported.set(keys::training::cuda_graph, cuda_graph(job));
    tokens(imported, job);
}

fn precision(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    let on = |name: &str| settings.on(name);
    let fp8 = settings.first_text(&["fp8_format", "fp8"]);
    let (word, sixteen) = match (on("bf16"), on("fp16")) {
        (Some(found), _) => (found.map(|_| "bf16-fp32-master"), Some("bf16")),
        (_, Some(found)) => (found.map(|_| "fp16-fp32-master"), Some("fp16")),
        _ => (Setting::new("fp32", Job::default("neither --bf16 nor --fp16")), None),
    };
    let word = match &fp8 {
        Some(found) => Setting::new("fp8-mixed", found.origin.clone()),
        None => word,
    };
    imported.set(keys::training::precision, Some(word));
    if fp8.is_some() {
        let recipe = settings
            .text("fp8_recipe")
            .unwrap_or_else(|| Setting::new("delayed".to_owned(), Job::default("--fp8-recipe delayed")));
        imported.set(keys::training::fp8_recipe, Some(recipe));
    }
    if let Some(found) = settings.first_text(&["fp4_format", "fp4"]) {
        imported.note(format!("{}: FP4 matrix multiplications have no plan key", found.origin));
    }
    let reduce = match sixteen {
        Some("bf16") => on("grad_reduce_in_bf16").map(|found| found.map(|_| "bf16")),
        // Half precision keeps its gradients in it, unless told otherwise.
        Some(_) if on("accumulate_allreduce_grads_in_fp32").is_none() => {
            Some(Setting::new("fp16", Job::default("gradients in --fp16's own type")))
        }
        _ => None,
    };
    settings.accept("accumulate_allreduce_grads_in_fp32");
    let main = if job.is("use_precision_aware_optimizer") { settings.text("main_grads_dtype") } else { None };
    imported.set(
        keys::training::gradient_dtype,
        main.map(|found| found.map(Value::from)).or(reduce.map(|found| found.map(Value::from))),
    );
    const OPTIMIZER: &str = "megatron/core/optimizer/optimizer_config.py";
    let own = job.context.run.files.read(OPTIMIZER).ok();
    let run = MegatronRunKind {
        bf16: sixteen == Some("bf16"),
        offloaded: job.is("optimizer_cpu_offload") || job.is("cpu_optimizer"),
        fp8_recipe: imported.get(keys::training::fp8_recipe).and_then(|found| found.value.as_str().map(str::to_owned)),
        whole_masters: own.is_some_and(|text| !text.contains("store_param_remainders")),
    };
    precision_aware::set(imported, settings, str::to_owned, &run);
    precision_aware::overlapped(imported, settings, "overlap_cpu_optimizer_d2h_h2d");
}

fn optimizer(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    let found = settings.text("optimizer").map(|found| {
        found.map(|name| match name.as_str() {
            // Apex's or Transformer Engine's FusedAdam.
            "adam" => "fused_adam".to_owned(),
            other => other.to_owned(),
        })
    });
    // `dist_muon`: each rank steps whole layers and holds their states (`core/optimizer/layer_wise_optimizer.py`).
    if let Some(found) = found.as_ref().filter(|found| found.value == "dist_muon") {
        imported.say(keys::distribution::sharding, "zero1", found.origin.clone());
    }
    let momentum = settings.number("sgd_momentum").is_none_or(|found| found.value > 0.0);
    match found {
        Some(found) if found.value == "sgd" && momentum => {
            imported.say(keys::training::optimizer, "sgd-momentum", found.origin)
        }
        other => common::set_optimizer(imported, other),
    }
    if let Some(found) =
        settings.flag("optimizer_cpu_offload").or_else(|| settings.flag("cpu_optimizer")).filter(|found| found.value)
    {
        imported.set(keys::training::cpu_offload, Some(found.map(|_| "optimizer")));
        // The rest of the states stays on the GPU (`core/optimizer/cpu_offloading/hybrid_optimizer.py`).
        if let Some(part) = settings.number("optimizer_offload_fraction").filter(|part| part.value < 1.0) {
            not_modelled(
                imported,
                &format!("{}: a part of the states goes to the host; all are counted there", part.origin),
            );
        }
    } else {
        settings.accept("optimizer_offload_fraction");
    }
}

/// The length of a sample; of a language model that sees, whose `--seq-length` is its tower's, that of its decoder
/// (`examples/multimodal/train.py`).
fn lengths(imported: &mut ImportedPlan, settings: &Settings) {
    let length = settings.first_whole(&["seq_length", "encoder_seq_length"]);
    let decoder = settings.whole("decoder_seq_length");
    let pair = imported.get(keys::model::model_type).is_some_and(|found| found.value == "transformer_encoder_decoder");
    if pair || decoder.is_none() {
        imported.set(keys::model::sequence_length, length);
        return imported.set(keys::model::decoder_sequence_length, decoder);
    }
    imported.set(keys::model::sequence_length, decoder);
}

/// Options that went before Transformer Engine's layers became the default (core 0.7, 2024).
const OLD: [&str; 6] =
    ["checkpoint_activations", "model_parallel_size", "DDP_impl", "data_impl", "batch_size", "attention_head_type"];

fn attention(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    let local = settings.text("transformer_impl").filter(|found| found.value == "local");
    imported.set(
        keys::model::transformer_impl,
        settings.text("transformer_impl").filter(|found| found.value != "inference_optimized"),
    );
    // Megatron-DeepSpeed, `megatron/arguments.py`: any of them turns `use_flash_attn` on.
    const FLASH: [&str; 5] =
        ["use_flash_attn", "use_flash_attn_v1", "use_flash_attn_v2", "use_flash_attn_triton", "use_flash_attn_builder"];
    let flash = FLASH.iter().find_map(|name| settings.on(name));
    let backend = settings.text("attention_backend").filter(|_| settings.is_set("attention_backend"));
    // Fused attention came with Transformer Engine's layers; older sources name an option that they alone have.
    let old = OLD.iter().find(|name| settings.is_set(name)).map(|name| format!("--{}", name.replace('_', "-")));
    // Where its own sources were before 2024, in a checkout without fused attention by itself.
    const SOURCE: &str = "megatron/arguments.py";
    let checkout = || job.context.run.files.read(SOURCE).is_ok_and(|text| !text.contains("attention-backend"));
    let old = old.or_else(|| checkout().then(|| SOURCE.to_owned()));
    if let (Some(option), None) = (&old, &local)
        && !settings.is_set("transformer_impl")
    {
        let option = format!("--transformer-impl local, of the time of {option}");
        imported.say(keys::model::transformer_impl, "local", Job::default(&option));
    }
    let deepspeed = settings.is_set("deepspeed") || settings.is_set("deepspeed_config");
    let by_engine = settings.text("transformer_impl").is_some_and(|found| found.value == "transformer_engine");
    let word = match (backend, flash, local) {
        // Its layers choose a fused kernel by themselves, whatever Megatron's own option says (`core/transformer/custom_layers/
        // transformer_engine.py`, `TEDotProductAttention`); by masks over whole pairs they cannot.
        (None, None, _) if old.is_some() && by_engine => {
            if imported.get(keys::model::model_type).is_some() {
                return imported.miss(keys::training::attention, "Transformer Engine chooses a kernel by the masks");
            }
            Setting::new("flash", Job::default("--transformer-impl transformer_engine, NVTE_FLASH_ATTN 1"))
        }
        (None, None, _) if old.is_some() || deepspeed => {
            Setting::new("eager", Job::default("no --use-flash-attn, in a Megatron that has its own attention"))
        }
        (Some(backend), ..) if matches!(backend.value.as_str(), "unfused" | "local") => backend.map(|_| "eager"),
        (Some(backend), ..) => backend.map(|_| "flash"),
        (None, Some(flash), _) => flash.map(|_| "flash"),
        (None, None, Some(local)) => local.map(|_| "eager"),
        (None, None, None) => Setting::new("flash", Job::default("--attention-backend auto")),
    };
    imported.set(keys::training::attention, Some(word));
}

/// Scores divided by the layer's number keep their softmax in fp32 (`core/transformer/transformer_config.py`,
/// `__post_init__`); Transformer Engine takes it by a variable alone (`core/extensions/transformer_engine.py`,
/// `TEDotProductAttention`).
fn layer_scaling(imported: &mut ImportedPlan, job: &Job) {
    const VARIABLE: &str = "NVTE_APPLY_QK_LAYER_SCALING";
    // Of an activation that the model has not.
    if !job.is("swiglu") {
        job.settings.accept("no_bias_swiglu_fusion");
    }
    let Some(found) = job.settings.on("apply_query_key_layer_scaling") else { return };
    let engine = job.settings.text("transformer_impl").is_some_and(|found| found.value == "transformer_engine");
    if engine && job.context.variable(VARIABLE).is_none_or(|found| found.value == "0") {
        imported.note(format!("{}: Transformer Engine refuses it unless {VARIABLE} is 1", found.origin));
    }
    imported.set(keys::training::attention_softmax_fp32, Some(found));
}

fn recomputation(imported: &mut ImportedPlan, job: &Job) {
    const KEY: &str = "training.activation_checkpointing";
    let settings = job.settings;
    let on = |name: &str| settings.on(name);
    // Of old sources: `uniform` or `block`, in pieces of `--activations-checkpoint-num-layers`.
    if let Some(found) = settings.text("activations_checkpoint_method") {
        settings.accept("activations_checkpoint_num_layers");
        return imported.set(KEY, Some(found.map(|_| "full")));
    }
    if let Some(found) = on("recompute_activations") {
        settings.accept("recompute_granularity");
        return imported.set(KEY, Some(found.map(|_| "selective")));
    }
    settings.accept("deepspeed_activation_checkpointing");
    if let Some(found) = on("checkpoint_activations").or_else(|| on("deepspeed_activation_checkpointing")) {
        return imported.set(KEY, Some(found.map(|_| "full")));
    }
    let Some(granularity) = settings.text("recompute_granularity") else {
        if on("moe_layer_recompute").is_some() {
            return imported.say(KEY, json!({"modules": ["moe"]}), Origin::Argument("--moe-layer-recompute".into()));
        }
        ["recompute_method", "recompute_num_layers"].iter().for_each(|name| settings.accept(name));
        return imported.say(KEY, "none", Job::default("no --recompute-granularity"));
    };
    if granularity.value == "selective" {
        let modules = settings.texts("recompute_modules").filter(|found| found.value != ["core_attn"]);
        return match modules {
            Some(found) => imported.set(KEY, Some(found.map(|modules| json!({"modules": modules})))),
            None => imported.set(KEY, Some(granularity.map(|_| "selective"))),
        };
    }
    let block = settings.text("recompute_method").is_some_and(|method| method.value == "block");
    let layers = settings.whole("recompute_num_layers").map_or(1, |found| found.value);
    let all = job.settings.whole("num_layers").map_or(u64::MAX, |found| found.value);
    let of_stage = all.div_ceil(job.value("pipeline_model_parallel_size"));
    if block && layers < of_stage {
        if layers == 0 {
            return imported.say(KEY, "none", Origin::Argument("--recompute-num-layers 0".to_owned()));
        }
        let of = if all == u64::MAX { String::new() } else { format!(" {of_stage}") };
        imported.note(format!("--recompute-method block: {layers} of a stage's{of} layers are recomputed, which a plan cannot say; all are counted as such"));
    } else if !block && layers > 1 {
        imported.note(format!(
            "--recompute-num-layers {layers}: inputs are kept of every {layers}-th layer only; the plan has one of each"
        ));
    }
    imported.set(KEY, Some(granularity.map(|_| "full")));
}

fn loss(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    let fused = settings.on("cross_entropy_loss_fusion");
    let word = match fused {
        Some(found) if settings.text("cross_entropy_fusion_impl").is_some_and(|kind| kind.value == "te") => {
            found.map(|_| "te_fused")
        }
        Some(found) => found.map(|_| "vocab_parallel_fused"),
        None => Setting::new("vocab_parallel", Job::default("no --cross-entropy-loss-fusion")),
    };
    imported.set(keys::training::loss, Some(word));
}

fn cuda_graph(job: &Job) -> Option<Setting<String>> {
    let settings = job.settings;
    let old = settings.on("enable_cuda_graph").map(|found| found.map(|_| "local".to_owned()));
    let external = settings.on("external_cuda_graph").map(|found| found.map(|_| "transformer_engine".to_owned()));
    settings.text("cuda_graph_impl").or(old).or(external)
}

/// The tokens of the whole run.
fn tokens(imported: &mut ImportedPlan, job: &Job) {
    let Some(length) = imported.whole(keys::model::sequence_length) else { return };
    let samples = job.settings.whole("train_samples").or_else(|| {
        let steps = job.settings.whole("train_iters")?;
        let batch = imported.whole(keys::model::batch_size)?;
        steps.and_then(|steps| steps.checked_mul(batch))
    });
    let tokens = samples.and_then(|found| found.and_then(|samples| samples.checked_mul(length)));
    // Megatron-DeepSpeed ends at whichever comes first (`megatron/training.py`, `train`).
    let told = job.settings.whole("train_tokens");
    if told.is_none() && job.settings.is_set("train_tokens") {
        return job.settings.accept("train_tokens");
    }
    let first = [tokens, told].into_iter().flatten().min_by_key(|found| found.value);
    imported.set(keys::run::total_tokens, first);
}
