//! What was predicted: the model's batch and its parts, degrees, links, engine, types and GPU, as they were decided.

use serde_json::{Value, json};

use super::text::count;
use crate::catalog::Generation;
use crate::model::{Element, Input, ModelShape};
use crate::plan::keywords::{CpuOffload, MasterDtype, Mode, Schedule, Sharding};
use crate::predict::{Component, Job, Phase, host_memory};
use crate::units::{self, Bytes};

/// A plan as it was decided, in words and as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// What each line is about, and what it says.
    pub lines: Vec<(&'static str, String)>,
    /// The same for scripts; bytes and bytes a second, unrounded.
    pub value: Value,
    /// Samples of a step, and tokens where the model reads tokens.
    pub samples: u64,
    /// Tokens of a step.
    pub tokens: u64,
    /// `run.currency`.
    pub currency: String,
    /// Whether the optimizer steps within the backward pass.
    pub frees_gradients: bool,
}

impl Setup {
    /// Why a GPU holds no byte of a component at a peak of that phase. None where nobody expects one.
    #[must_use]
    pub fn why_none(&self, component: Component, peak: Phase) -> Option<&'static str> {
        let of = |key: &str| self.value.get(key).and_then(Value::as_str).unwrap_or_default();
        let trains = of("mode") == Mode::Train.name();
        let offload = of("cpu_offload");
        let in_host = || [CpuOffload::Parameters.name(), CpuOffload::Optimizer.name()].contains(&offload);
        match component {
            Component::Parameters if offload == CpuOffload::Parameters.name() => Some("in host memory"),
            Component::Gradients if trains && in_host() => Some("in host memory"),
            Component::Gradients if trains && self.frees_gradients && peak != Phase::Forward => {
                Some("each is freed once it is applied")
            }
            Component::Gradients if trains => Some("none exist yet at the peak"),
            Component::OptimizerStates if trains && in_host() => Some("in host memory"),
            Component::OptimizerStates if trains => Some("this optimizer keeps none"),
            Component::Activations if trains => Some("all are freed again at the peak"),
            _ => None,
        }
    }

    /// The setup of a job.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let host = host_memory(job);
        Self {
            lines: lines(job, host),
            value: value(job, host),
            samples: job.batch.global,
            tokens: job.batch.tokens(),
            currency: job.currency.clone(),
            frees_gradients: job.training.optimizer_in_backward,
        }
    }
}

fn lines(job: &Job, host: Bytes) -> Vec<(&'static str, String)> {
    let device = if is_cpu(job) { "CPU" } else { "GPU" };
    let mut lines = vec![("model", model(job)), ("batch", batch(job)), (device, gpu(job)), ("degrees", degrees(job))];
    if job.degrees.num_gpus > 1 {
        lines.push(("links", links(job)));
    }
    lines.push(("framework", framework(job)));
    lines.push(("precision", precision(job)));
    if host > Bytes::ZERO {
        let gpus = job.hardware.gpus_per_node.min(job.degrees.num_gpus).max(1);
        let node = host * gpus;
        lines.push(("host memory", format!("{host} for each GPU, {node} on a node of {gpus}, for what is offloaded")));
    }
    lines
}

fn is_cpu(job: &Job) -> bool {
    job.hardware.gpu.generation == Generation::Cpu
}

fn model(job: &Job) -> String {
    let mut said = format!("{}, {} parameters", job.architecture.kind(), count(job.params.total));
    if let Some(decoder) = job.decoder() {
        said += &format!("; {} layers, hidden {}", decoder.layers, decoder.hidden);
        if decoder.attention_layers() > 0 {
            said += &format!(", {} heads ({} of keys and values)", decoder.heads, decoder.kv_heads);
        }
        if matches!(job.architecture.input(), Input::Tokens(_) | Input::Pair(..)) {
            said += &format!(", vocabulary {}", units::grouped(decoder.vocab));
        }
    }
    if let Some(sight) = job.architecture.sight() {
        said += &format!("; a tower of {} layers, hidden {}", sight.tower.layers, sight.tower.hidden);
    }
    said
}

fn batch(job: &Job) -> String {
    let batch = &job.batch;
    let mut said = format!(
        "{} = micro batch {} x {} accumulated x {} data parallel",
        batch.global, batch.micro, batch.accumulation, job.degrees.data
    );
    if batch.image > 0 {
        let what = if matches!(job.architecture.input(), Input::Captioned(_)) { "latents" } else { "images" };
        said += &format!("; {what} of {0} x {0}", batch.image);
    } else {
        said += &format!("; sequence {}", units::grouped(batch.sequence));
        if batch.target > 0 {
            said += &format!(" and {} of the decoder", units::grouped(batch.target));
        }
        said += &format!(", {} tokens a step", units::grouped(batch.tokens()));
    }
    if let Some(sight) = job.architecture.sight().filter(|_| batch.seen.images > 0) {
        let (images, side) = (batch.seen.images, batch.seen.side);
        let tokens = units::grouped(images.saturating_mul(sight.tokens_of(side)));
        let word = if images == 1 { "image" } else { "images" };
        said += &format!("; {images} {word} of {side} x {side} a sample, {tokens} of its tokens");
    }
    said
}

fn gpu(job: &Job) -> String {
    let hardware = &job.hardware;
    let memory = hardware.capacity;
    let limit =
        if memory < hardware.gpu.memory { format!(", limited from {}", hardware.gpu.memory) } else { String::new() };
    // The machine's own processor has no other name.
    let name = if is_cpu(job) { String::new() } else { format!("{}, ", hardware.gpu.name) };
    format!(
        "{name}{memory} = {} GB{limit}; {} DRAM",
        units::three_figures(memory.as_f64() / 1e9),
        hardware.gpu.bandwidth
    )
}

fn degrees(job: &Job) -> String {
    let degrees = &job.degrees;
    let ranks = match degrees.num_gpus {
        1 if is_cpu(job) => "1 process".to_owned(),
        several if is_cpu(job) => format!("{} processes", units::grouped(several)),
        count => gpus(count),
    };
    let mut said = format!(
        "{ranks} = data {} x tensor {} x pipeline {} x context {}",
        degrees.data, degrees.tensor, degrees.pipeline, degrees.context
    );
    if degrees.expert > 1 {
        said += &format!("; experts over {} x {}", degrees.expert, degrees.expert_tensor);
    }
    if degrees.sequence_parallel {
        said += "; sequence parallel";
    }
    if degrees.pipeline > 1 {
        let chunks = if degrees.schedule == Schedule::Interleaved {
            format!(" of {} chunks", degrees.virtual_pipeline)
        } else {
            String::new()
        };
        said += &format!("; {} schedule{chunks}", degrees.schedule);
    }
    if job.training.mode == Mode::Train {
        said += &match degrees.asked() {
            Sharding::None => "; nothing sharded".to_owned(),
            sharding => format!("; {sharding} over {} ranks", degrees.shard_ranks),
        };
        if degrees.data * degrees.context > 1 {
            said += &format!(", engine {}", degrees.engine);
        }
    }
    said
}

/// `1 GPU`, `8 GPUs`.
pub(super) fn gpus(count: u64) -> String {
    if count == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", units::grouped(count)) }
}

fn links(job: &Job) -> String {
    let hardware = &job.hardware;
    let near = format!(
        "{} {} each way among {} GPUs",
        hardware.interconnect.name,
        hardware.interconnect.each_way,
        hardware.node_gpus.min(job.degrees.num_gpus)
    );
    if job.degrees.num_gpus <= hardware.node_gpus {
        return near;
    }
    format!("{near}; {} {} each way beyond", hardware.network.name, hardware.network.each_way)
}

fn framework(job: &Job) -> String {
    let training = &job.training;
    let compiled = if training.compile { ", compiled" } else { "" };
    if training.mode == Mode::Inference {
        let cache = match (job.keeps_cache(), &job.architecture.shape) {
            (true, _) => ", KV cache",
            (false, ModelShape::Decoder(_)) => ", no KV cache",
            (false, _) => "",
        };
        return format!("{}{compiled}; inference, attention {}{cache}", job.profile.name(), training.attention);
    }
    let lora = training.lora.as_ref().map_or(String::new(), |lora| format!(", LoRA of rank {}", lora.rank));
    let offload = match training.cpu_offload {
        CpuOffload::None => String::new(),
        what => format!(", offload of {what}"),
    };
    format!(
        "{}{compiled}; training, attention {}, checkpointing {}, loss {}{lora}{offload}",
        job.profile.name(),
        training.attention,
        training.checkpointing,
        training.loss
    )
}

fn precision(job: &Job) -> String {
    let storage = &job.storage;
    if job.training.mode == Mode::Inference {
        let packed = match job.training.weight_bits {
            Some(_) => ", blocks' matrices in 4 bits",
            None if storage.fp8 => ", blocks' matrices in FP8",
            None => "",
        };
        return format!("{}: weights {}{packed}", storage.precision, storage.weight.name());
    }
    // What int16 masters lack stands in the weights: as many bytes as bf16, and another type.
    let own = storage.precision_aware.map(MasterDtype::name);
    // Of adapters, which alone are trained.
    let (gradient, _) = job.trained_types();
    let master = storage.master.map_or(String::new(), |master| format!(", masters {}", own.unwrap_or(master.name())));
    let under = if storage.autocast && storage.weight != Element::F32 { " under autocast" } else { "" };
    format!(
        "{}{under}: weights {}, gradients {}{master}; {} {}",
        storage.precision,
        storage.weight.name(),
        gradient.name(),
        job.training.optimizer,
        job.states_kept(),
    )
}

fn value(job: &Job, host: Bytes) -> Value {
    let (batch, degrees, training, hardware) = (&job.batch, &job.degrees, &job.training, &job.hardware);
    let shown = if batch.seen.images > 0 { batch.seen.side } else { 0 };
    let side = batch.image.max(shown);
    let network = (degrees.num_gpus > hardware.node_gpus).then_some(&hardware.network);
    json!({
        "kind": job.architecture.kind().to_string(),
        "mode": training.mode.to_string(),
        "framework": job.profile.name(),
        "engine": degrees.engine.to_string(),
        "precision": job.storage.precision.to_string(),
        "optimizer": training.optimizer.to_string(),
        "attention": training.attention.to_string(),
        "activation_checkpointing": training.checkpointing.to_string(),
        "loss": training.loss.to_string(),
        "compile": training.compile,
        "cpu_offload": training.cpu_offload.to_string(),
        "batch": {
            "global": batch.global,
            "micro": batch.micro,
            "accumulation": batch.accumulation,
            "sequence_length": (batch.sequence > 0).then_some(batch.sequence),
            "image_size": (side > 0).then_some(side),
            "images": job.architecture.sight().map(|_| batch.seen.images),
            "tokens_per_step": batch.tokens(),
        },
        "gpus": degrees.num_gpus,
        "data_parallel": degrees.data,
        "tensor_parallel": degrees.tensor,
        "pipeline_parallel": degrees.pipeline,
        "context_parallel": degrees.context,
        "expert_parallel": degrees.expert,
        "expert_tensor_parallel": degrees.expert_tensor,
        "sequence_parallel": degrees.sequence_parallel,
        "sharding": degrees.asked().to_string(),
        "shard_ranks": degrees.shard_ranks,
        "pipeline_schedule": degrees.schedule.to_string(),
        "virtual_pipeline": degrees.virtual_pipeline,
        "gpus_per_node": hardware.gpus_per_node,
        "nvlink_domain": hardware.node_gpus,
        "interconnect": hardware.interconnect.name,
        "interconnect_bytes_per_s": hardware.interconnect.each_way.0,
        "network": network.map(|link| link.name.clone()),
        "network_bytes_per_s": network.map(|link| link.each_way.0),
        "host_memory": host.0,
        "price_per_gpu_hour": job.price_per_gpu_hour,
        "currency": job.currency,
    })
}
