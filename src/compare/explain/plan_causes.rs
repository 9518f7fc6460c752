//! What a run may do otherwise than its plan says: changes of the plan, each with the words for it.

use super::Cause;
use crate::catalog::Generation;
use crate::model::Element;
use crate::plan::keys;
use crate::plan::keywords::{
    Attention, CpuOffload, Dtype, Loss, Mode, Optimizer, Precision, RecomputeWord, Schedule, Sharding,
};
use crate::plan::{Change, Checkpointing};
use crate::predict::Job;

/// Every single change that is worth trying on `job`.
pub fn of(job: &Job) -> Vec<Cause> {
    let mut causes = Causes::default();
    if job.training.mode == Mode::Train {
        recomputation(job, &mut causes);
        precision(job, &mut causes);
        optimizer(job, &mut causes);
        switches(job, &mut causes);
        loss(job, &mut causes);
    }
    attention(job, &mut causes);
    sharding(job, &mut causes);
    batch(job, &mut causes);
    causes.0
}

#[derive(Default)]
struct Causes(Vec<Cause>);

impl Causes {
    fn add(&mut self, words: impl Into<String>, change: Change) {
        self.0.push(Cause::of_plan(words, change));
    }
}

fn recomputation(job: &Job, causes: &mut Causes) {
    const KEY: &str = "training.activation_checkpointing";
    let now = &job.training.checkpointing;
    for (word, words, itself) in [
        ("none", "off: activation checkpointing", Checkpointing::None),
        ("selective", "only attention checkpointed", Checkpointing::Selective),
        ("full", "every block checkpointed", Checkpointing::Full),
    ] {
        // Where the attention core alone can be recomputed by one flag; elsewhere nobody does so by mistake.
        let there = itself != Checkpointing::Selective || job.profile.modules.reruns_all.is;
        if there && *now != itself {
            causes.add(words, Change::to(KEY, word));
        }
    }
    let by_operator = job.profile.support.selective.is == RecomputeWord::SelectiveOp;
    if by_operator && *now != Checkpointing::SelectiveOp {
        causes.add("selective-op checkpointing", Change::to(KEY, "selective-op"));
    }
}

fn precision(job: &Job, causes: &mut Causes) {
    const KEY: &str = "training.precision";
    let support = &job.profile.support;
    for (precision, words) in [
        (Precision::Fp32, "everything in fp32, no autocast"),
        (Precision::Bf16Mixed, "fp32 weights with bf16 autocast"),
        (Precision::Bf16, "weights, gradients and states in bf16"),
        (Precision::Bf16Fp32Master, "bf16 weights with fp32 masters"),
    ] {
        let there = support.autocast.is || precision != Precision::Bf16Mixed;
        if there && job.storage.precision != precision {
            let change = Change::to(KEY, precision.name());
            causes.add(words, job.under_same_engine(change, job.degrees.asked(), precision));
        }
    }
    let peaks = &job.hardware.gpu.peaks;
    if job.storage.precision == Precision::Fp32 && peaks.tf32.is_some() {
        causes.add("matrices in TF32", Change::to(KEY, Precision::Tf32.name()));
    }
    if !job.storage.fp8 && peaks.fp8.is_some() {
        let change = Change::to(KEY, Precision::Fp8Mixed.name());
        let change = job.under_same_engine(change, job.degrees.asked(), Precision::Fp8Mixed);
        causes.add("matrices in FP8", change);
    }
    if job.storage.fp8 && job.profile.defaults.fp8_masters.is {
        causes.add("matrix multiplications in bf16, not FP8", Change::to(KEY, Precision::Bf16Fp32Master.name()));
    }
}

fn optimizer(job: &Job, causes: &mut Causes) {
    const KEY: &str = "training.optimizer";
    let now = job.training.optimizer;
    let others: &[(Optimizer, &str)] = match now {
        Optimizer::Adamw => &[
            (Optimizer::AdamwFused, "AdamW fused, not foreach"),
            (Optimizer::Adamw8bit, "AdamW states in 8 bit"),
            (Optimizer::Sgd, "SGD, no optimizer states"),
        ],
        Optimizer::AdamwFused => {
            &[(Optimizer::Adamw, "AdamW foreach, not fused"), (Optimizer::Adamw8bit, "AdamW states in 8 bit")]
        }
        Optimizer::Adamw8bit => &[(Optimizer::Adamw, "AdamW states not in 8 bit")],
        Optimizer::Adafactor | Optimizer::Lion | Optimizer::Muon => &[(Optimizer::Adamw, "AdamW's two states")],
        Optimizer::Sgd => &[(Optimizer::Adamw, "AdamW, not SGD"), (Optimizer::SgdMomentum, "SGD with momentum")],
        Optimizer::SgdMomentum => &[(Optimizer::Adamw, "AdamW, not SGD")],
        Optimizer::Rmsprop => &[(Optimizer::Adamw, "AdamW, not RMSprop")],
        // A CPU's AdamW is this one.
        Optimizer::AdamwLoop if job.hardware.gpu.generation == Generation::Cpu => {
            &[(Optimizer::Sgd, "SGD, no optimizer states"), (Optimizer::SgdMomentum, "SGD with momentum")]
        }
        Optimizer::AdamwLoop => &[],
    };
    for (optimizer, words) in others {
        let chosen = job.profile.optimizer.always_fused.is;
        if !(chosen && matches!(now, Optimizer::AdamwFused)) {
            causes.add(*words, Change::to(KEY, optimizer.name()));
        }
    }
    if job.profile.support.gradient_dtype.is {
        let (dtype, words) = match job.storage.gradient {
            Element::F32 => (Dtype::Bf16, "main gradients in bf16"),
            _ => (Dtype::Fp32, "main gradients in fp32"),
        };
        causes.add(words, Change::to(keys::training::gradient_dtype, dtype.name()));
    }
}

/// Savings that the plan counts on and the run may not have.
fn switches(job: &Job, causes: &mut Causes) {
    let training = &job.training;
    let off = |key: &'static str| Change::to(key, "false");
    if training.compile {
        causes.add("not compiled", off("training.compile"));
    }
    if training.optimizer_in_backward {
        causes.add("gradients kept until the optimizer step", off("training.optimizer_in_backward"));
    }
    if training.cpu_offload != CpuOffload::None {
        causes.add("nothing offloaded", Change::to(keys::training::cpu_offload, "none"));
    }
    if training.lora.is_some() {
        let change = Change { set: Vec::new(), remove: vec!["training.lora"] };
        causes.add("all weights trained, no LoRA", change);
        if training.lora.as_ref().is_some_and(|lora| lora.base_bits.is_some()) {
            let change = Change { set: Vec::new(), remove: vec!["training.lora.base_bits"] };
            causes.add("base weights not quantised", change);
        }
    }
    if !training.frozen.is_nothing() {
        causes.add("frozen parts are trained", Change { set: Vec::new(), remove: vec!["training.frozen"] });
    }
    let user_loop = job.profile.support.user_loop.is;
    if !training.padded_batch && user_loop && training.attention == Attention::Sdpa {
        causes.add("padded batches", Change::to(keys::training::padded_batch, "true"));
    }
    if !training.keep_outputs && user_loop {
        causes.add("outputs kept until the next step", Change::to(keys::training::keep_outputs, "true"));
    }
}

fn loss(job: &Job, causes: &mut Causes) {
    const KEY: &str = "training.loss";
    let words = "the loss keeps all logits";
    let full = job.profile.loss.full.is;
    let unfused = if job.profile.loss.fused.is == Loss::VocabParallelFused { Loss::VocabParallel } else { full };
    match job.training.loss {
        Loss::Fused | Loss::Chunked => {
            causes.add(words, Change::to(KEY, full.name()));
        }
        Loss::VocabParallelFused | Loss::TeFused => {
            causes.add("cross-entropy not fused", Change::to(KEY, unfused.name()));
        }
        Loss::Plain if full == Loss::Hf => {
            causes.add("logits upcast to fp32", Change::to(KEY, Loss::Hf.name()));
        }
        Loss::Hf | Loss::Plain | Loss::VocabParallel => {}
    }
}

fn attention(job: &Job, causes: &mut Causes) {
    const KEY: &str = "training.attention";
    if job.decoder().is_none() {
        return;
    }
    match job.training.attention {
        Attention::Eager => causes.add("fused attention", Change::to(KEY, "flash")),
        Attention::Sdpa | Attention::Flash => causes.add("eager attention", Change::to(KEY, "eager")),
    }
}

fn sharding(job: &Job, causes: &mut Causes) {
    const KEY: &str = "distribution.sharding";
    let degrees = &job.degrees;
    if degrees.sequence_parallel {
        causes.add("off: sequence parallel", Change::to(keys::distribution::sequence_parallel, "false"));
    } else if degrees.tensor > 1 && job.profile.splits_sequence() {
        causes.add("sequence parallel on", Change::to(keys::distribution::sequence_parallel, "true"));
    }
    if degrees.data * degrees.context > 1 {
        for (sharding, words) in [
            (Sharding::None, "nothing is sharded"),
            (Sharding::Zero1, "only optimizer states are sharded"),
            (Sharding::Zero2, "parameters are not sharded"),
            (Sharding::Zero3, "parameters are sharded"),
        ] {
            let rules = &job.profile.data_parallel;
            let possible = if degrees.engine_is_given { degrees.engine.shardings() } else { rules.proposed.is };
            if possible.contains(&sharding) && degrees.asked() != sharding {
                let same = Change::to(KEY, sharding.name());
                let by_flag = job.profile.support.own_keys.is.contains(&"training.distributed_optimizer");
                let change = if by_flag {
                    same.and("training.distributed_optimizer", (sharding == Sharding::Zero1).to_string())
                } else {
                    job.under_same_engine(same, sharding, job.storage.precision)
                };
                causes.add(words, change);
            }
        }
    }
    shard_group(job, causes);
    if degrees.schedule == Schedule::OneFOneB && degrees.pipeline > 1 {
        causes.add("GPipe, all micro batches in flight", Change::to(keys::distribution::pipeline_schedule, "gpipe"));
    }
    if degrees.schedule == Schedule::Gpipe && degrees.pipeline > 1 {
        causes.add("1F1B", Change::to(keys::distribution::pipeline_schedule, "1f1b"));
    }
}

/// Where parameters are gathered over nodes, each node may have a copy of its own (HSDP), and the other way round.
fn shard_group(job: &Job, causes: &mut Causes) {
    const KEY: &str = "distribution.shard_group";
    let degrees = &job.degrees;
    let (all, node) = (degrees.data * degrees.context, job.hardware.gpus_per_node);
    if degrees.sharding != Sharding::Zero3 || !job.profile.support.shard_groups.is {
        return;
    }
    if degrees.shard_ranks < all {
        causes.add("sharded over all GPUs, not in groups", Change { set: Vec::new(), remove: vec![KEY] });
    } else if all > node && all.is_multiple_of(node) {
        causes.add("sharded within each node alone", Change::to(KEY, node.to_string()));
    }
}

fn batch(job: &Job, causes: &mut Causes) {
    let batch = &job.batch;
    let sizes = |micro: u64, accumulation: u64| {
        let global = micro.checked_mul(accumulation)?.checked_mul(job.degrees.data)?;
        Some(
            Change::to(keys::model::batch_size, global.to_string())
                .and("training.micro_batch_size", micro.to_string())
                .and("training.gradient_accumulation_steps", accumulation.to_string()),
        )
    };
    let mut add = |words: String, change: Option<Change>| {
        if let Some(change) = change {
            causes.add(words, change);
        }
    };
    for micro in scaled(batch.micro) {
        // The batch of a step stays, where the larger or smaller part divides it.
        let per_rank = batch.micro * batch.accumulation;
        if per_rank.is_multiple_of(micro) {
            add(format!("micro batch {micro}"), sizes(micro, per_rank / micro));
        }
        if batch.accumulation == 1 || !per_rank.is_multiple_of(micro) {
            add(
                format!("micro batch {micro}, batch {}", micro * batch.accumulation * job.degrees.data),
                sizes(micro, batch.accumulation),
            );
        }
    }
    for accumulation in scaled(batch.accumulation) {
        let global = batch.micro * accumulation * job.degrees.data;
        add(format!("batch {global} by accumulation"), sizes(batch.micro, accumulation));
    }
    if batch.sequence > 0 && batch.image == 0 {
        for sequence in scaled(batch.sequence).into_iter().filter(|sequence| *sequence >= 16) {
            causes.add(
                format!("sequences of {sequence}"),
                Change::to(keys::model::sequence_length, sequence.to_string()),
            );
        }
    }
}

/// What a change takes beyond another of one value, as a negative log-probability: a run whose plan accumulates nothing is half as
/// likely to accumulate as to have another micro batch.
pub fn rarity(job: &Job, change: &Change) -> f64 {
    let accumulates = |(key, value): &(&str, String)| *key == "training.gradient_accumulation_steps" && value != "1";
    if job.batch.accumulation == 1 && change.set.iter().any(accumulates) { std::f64::consts::LN_2 } else { 0.0 }
}

/// Twice, four times, half and a quarter.
fn scaled(now: u64) -> Vec<u64> {
    let up = [2, 4].into_iter().filter_map(|times| now.checked_mul(times));
    let down = [2, 4].into_iter().filter(|by| now.is_multiple_of(*by)).map(|by| now / by);
    up.chain(down).filter(|value| *value > 0 && *value != now).collect()
}
