//! A plan's own numbers for a term, as the prediction has them: nothing is computed here that it does not say.

use crate::order::StableOrder;
use crate::plan::keywords::{Mode, Sharding};
use crate::predict::{Bound, Component, Job, Prediction, Verdict, scaling_efficiency};
use crate::units::{Bytes, Fraction};

/// Operators, terms and layers that are told.
const MOST: usize = 5;

/// The lines for the term of that name.
pub fn of(name: &str, job: &Job, prediction: &Prediction) -> Vec<String> {
    let stage = prediction.largest();
    match name {
        "Allocated" => vec![
            format!("peak {} in {}: {}", stage.peak_allocated, stage.peak_phase.word(), stage.peak_cause),
            format!("between steps {}", stage.static_bytes),
        ],
        "Reserved" => vec![format!("{} at {} allocated", stage.peak_reserved, stage.peak_allocated)],
        "Fragmentation" => {
            let left = stage.peak_reserved.saturating_sub(stage.peak_allocated);
            vec![format!("{} reserved - {} allocated = {left}", stage.peak_reserved, stage.peak_allocated)]
        }
        "Device-used" | "Tight" => capacity(prediction),
        "CUDA context" => terms(prediction, |term| term.to_lowercase().contains("context")),
        "Master weights" => terms(prediction, |term| term.to_lowercase().contains("master")),
        "Parameters" => parameters(job, prediction),
        "Gradients" => component(prediction, Component::Gradients),
        "Optimizer states" => component(prediction, Component::OptimizerStates),
        "Activations" => activations(prediction),
        "Temporaries" => component(prediction, Component::Temporaries),
        "Communication buffers" => component(prediction, Component::CommunicationBuffers),
        "Overhead" => component(prediction, Component::Overhead),
        "KV cache" => component(prediction, Component::KvCache),
        "LoRA" | "Parameters offload" => adapters(name, job, prediction),
        "Power" => prediction.time.power.iter().map(|watts| format!("{watts} on average over the step")).collect(),
        _ => layout(name, job).unwrap_or_else(|| rates(name, job, prediction)),
    }
}

fn capacity(prediction: &Prediction) -> Vec<String> {
    let (needed, bytes) = (prediction.capacity.needed, prediction.capacity.bytes);
    let verdict = match prediction.capacity.verdict() {
        Verdict::Fits => "fits",
        Verdict::Tight => "tight",
        Verdict::DoesNotFit => "does not fit",
    };
    let share = Fraction(needed.as_f64() / bytes.as_f64());
    vec![format!("{needed} of {bytes}, {share}: {verdict}")]
}

/// The named terms whose name is meant, with their formulas.
fn terms(prediction: &Prediction, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let terms = prediction.largest().terms.iter().filter(|term| is_meant(&term.name) && term.bytes > Bytes(0));
    terms.take(MOST).map(|term| format!("{}: {} = {}", term.name, term.bytes, term.formula)).collect()
}

/// A component's bytes at the peak, and its largest terms.
fn component(prediction: &Prediction, component: Component) -> Vec<String> {
    let stage = prediction.largest();
    let mut terms: Vec<_> = stage.terms.iter().filter(|term| term.component == component).collect();
    if terms.is_empty() {
        return Vec::new();
    }
    terms.order_by_key(|term| std::cmp::Reverse(term.bytes));
    let own = terms.iter().take(MOST).map(|term| format!("{}: {} = {}", term.name, term.bytes, term.formula));
    std::iter::once(format!("{} at the peak", stage.component(component))).chain(own).collect()
}

fn parameters(job: &Job, prediction: &Prediction) -> Vec<String> {
    let params = &prediction.params;
    let count = |number: u64| format!("{:.2} billion", number as f64 / 1e9);
    let trained = match job.training.mode {
        Mode::Train => format!(", {} trained", count(params.trainable)),
        Mode::Inference => String::new(),
    };
    let mut lines = vec![format!("{} in all{trained}", count(params.total))];
    if params.active_per_token != params.total {
        lines.push(format!("{} for each token", count(params.active_per_token)));
    }
    lines.extend(component(prediction, Component::Parameters));
    lines
}

fn activations(prediction: &Prediction) -> Vec<String> {
    let mut lines = component(prediction, Component::Activations);
    let layers = prediction.layers.iter().filter(|layer| layer.saved > Bytes(0)).take(MOST);
    lines.extend(layers.map(|layer| format!("{} x {}: {} saved by each", layer.count, layer.name, layer.saved)));
    lines
}

fn adapters(name: &str, job: &Job, prediction: &Prediction) -> Vec<String> {
    match (name, &job.training.lora) {
        ("LoRA", Some(lora)) => vec![format!(
            "rank {}: {:.1} million of {:.2} billion parameters are trained",
            lora.rank,
            prediction.params.trainable as f64 / 1e6,
            prediction.params.total as f64 / 1e9
        )],
        _ => Vec::new(),
    }
}

/// How the plan shares its work out.
fn layout(name: &str, job: &Job) -> Option<Vec<String>> {
    let degrees = &job.degrees;
    let degree = |word: &str, degree: u64| vec![format!("{word} {degree} of {} GPUs", degrees.num_gpus)];
    let sharded = |sharding: Sharding| {
        if degrees.sharding == sharding { vec![format!("shared by {} ranks", degrees.shard_ranks)] } else { Vec::new() }
    };
    Some(match name {
        "Data parallel" => degree("data parallel", degrees.data),
        "Tensor parallel" => degree("tensor parallel", degrees.tensor),
        "Pipeline parallel" => degree("pipeline parallel", degrees.pipeline),
        "Context parallel" => degree("context parallel", degrees.context),
        "Expert parallel" => degree("expert parallel", degrees.expert),
        "Sequence parallel" => vec![format!("{}", if degrees.sequence_parallel { "on" } else { "off" })],
        "ZeRO-1" => sharded(Sharding::Zero1),
        "ZeRO-2" => sharded(Sharding::Zero2),
        "ZeRO-3" => sharded(Sharding::Zero3),
        "Micro batch" => {
            let batch = &job.batch;
            vec![format!(
                "batch {} = micro batch {} x {} accumulation steps x {} data-parallel ranks",
                batch.global, batch.micro, batch.accumulation, degrees.data
            )]
        }
        _ => return None,
    })
}

/// What the plan reaches.
fn rates(name: &str, job: &Job, prediction: &Prediction) -> Vec<String> {
    let (time, roofline) = (prediction.decode.as_ref().unwrap_or(&prediction.time), &prediction.roofline);
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    // Time is of a step of generation where there is one; the roofline's operators are those that read the prompts.
    let step = if prediction.decode.is_some() { "a step of generation" } else { "a step" };
    match name {
        "Ridge" => vec![format!(
            "{}, {}: {} / {} = {}",
            prediction.gpu, roofline.peak_name, roofline.peak, roofline.bandwidth, roofline.ridge
        )],
        "Arithmetic intensity" | "Roofline" => operators(prediction, |_| true),
        "Flash attention" => operators(prediction, |op| op.starts_with("attention")),
        "Memory-bound" => vec![format!(
            "compute-bound {} and memory-bound {} of {} {step}",
            time.compute, time.memory_bound, time.step
        )],
        "Small kernel" => {
            let small = roofline.ops.iter().filter(|op| op.bound == Bound::SmallKernel).take(MOST);
            small.map(|op| format!("{}: {} {}", op.name, op.seconds, of_operators(prediction))).collect()
        }
        "MFU" => time.mfu.iter().map(|mfu| format!("{} of {}", share(*mfu), roofline.peak)).collect(),
        "HFU" => time.hfu.iter().map(|hfu| format!("{} of {}", share(*hfu), roofline.peak)).collect(),
        "MBU" => vec![format!("{} of {} = {}", time.bandwidth, roofline.bandwidth, share(time.mbu))],
        "Step time" if job.training.mode == Mode::Train => vec![
            format!("{} a step, most of it {}", time.step, time.bottleneck().phrase()),
            format!("compute {}, memory-bound {}", time.compute, time.memory_bound),
            format!("links {}, bubble {}, waiting for the host {}", time.communication, time.bubble, time.launch),
        ],
        "Tokens per second" => {
            time.tokens_per_s.iter().map(|rate| format!("{rate:.0} tokens/s on {} GPUs", prediction.num_gpus)).collect()
        }
        "Bubble" => vec![format!(
            "{} of {} {step} in stage {} of {}; {} micro batches",
            time.bubble, time.step, prediction.largest_stage, job.degrees.pipeline, job.batch.accumulation
        )],
        "Collective" => vec![format!("{} of {} {step} that nothing hides", time.communication, time.step)],
        "Launch-bound" => vec![format!("{} of {} {step}", time.launch, time.step)],
        "Scaling efficiency" => scaling_efficiency(job, &prediction.time)
            .map(|share| format!("{share} of what {} lone GPUs would reach together", prediction.num_gpus))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// What the time of a roofline's operator is a part of.
const fn of_operators(prediction: &Prediction) -> &'static str {
    if prediction.decode.is_some() { "in reading the prompts" } else { "a step" }
}

/// The operators that are meant with their intensities, those of most time first.
fn operators(prediction: &Prediction, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let ops = prediction.roofline.ops.iter().filter(|op| is_meant(&op.name)).take(MOST);
    let line = |op: &crate::predict::RooflineOp| {
        let intensity = op.intensity.map_or_else(|| "no bytes".to_owned(), |intensity| intensity.to_string());
        format!("{}: {intensity}, {}, {} {}", op.name, op.bound.phrase(), op.seconds, of_operators(prediction))
    };
    ops.map(line).collect()
}
