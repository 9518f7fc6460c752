//! What may be changed about a plan, in the order of what it costs.

use super::super::legal;
use crate::model::Input;
use crate::plan::keys;
use crate::plan::keywords::{Attention, CpuOffload, Loss, Mode, Optimizer, Precision, RecomputeWord};
use crate::plan::{Change, Checkpointing, Plan};
use crate::predict::{Job, lacking};

/// What sort of change a fix is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixKind {
    /// The same batch in other pieces; of an inference server a smaller one.
    Batch,
    /// Other kernels for the same arithmetic.
    Kernels,
    /// Matrix multiplications in another type.
    Precision,
    /// More or less is recomputed.
    Recomputation,
    /// Optimizer states and gradients in less room.
    States,
    /// Replicas share out what they hold.
    Sharding,
    /// Other degrees of parallelism.
    Degrees,
    /// Host memory helps.
    Offload,
    /// The link that the GPU has.
    Link,
    /// Something else is learned or answered: adapters, coarser weights or caches, shorter contexts.
    Other,
}

impl FixKind {
    /// What it takes of whoever makes it, the least first: a switch, other sizes, another layout, other hardware.
    #[must_use]
    pub const fn effort(self) -> u8 {
        match self {
            Self::Kernels | Self::Batch => 0,
            Self::Recomputation => 1,
            Self::States | Self::Sharding | Self::Precision => 2,
            Self::Degrees => 3,
            Self::Offload => 4,
            Self::Link => 5,
            Self::Other => 6,
        }
    }
}

/// A change that may help.
#[derive(Debug, Clone)]
pub(in crate::advise) struct Candidate {
    pub name: String,
    pub kind: FixKind,
    pub change: Change,
}

/// Adapters of the usual rank (peft's and torchtune's recipes: 8 to 64).
const ADAPTER_RANK: u64 = 16;

/// The link within a node.
const LINK: &str = "cluster.interconnect";

/// The shortest context that is worth proposing.
const SHORTEST: u64 = 256;

/// Every change that `plan`, which comes to `job`, leaves room for, cheapest first.
pub(in crate::advise) fn candidates(plan: &Plan, job: &Job) -> Vec<Candidate> {
    let mut all = List(Vec::new());
    if job.training.mode == Mode::Train {
        all.batch(job);
        all.kernels(job);
        all.recomputation(job);
        all.states(job);
        all.sharding(plan, job);
        all.degrees(plan, job);
        all.offload(job, &[CpuOffload::Optimizer, CpuOffload::Activations, CpuOffload::Parameters]);
        all.otherwise(job);
        all.more_samples(job);
        all.link(job);
    } else {
        all.fused_attention(job);
        all.cache(job);
        all.degrees(plan, job);
        all.requests(job);
        all.offload(job, &[CpuOffload::Parameters]);
        all.link(job);
    }
    all.0
}

/// Changes as they come together, each once.
pub(super) struct List(pub(super) Vec<Candidate>);

impl List {
    pub(super) fn add(&mut self, name: impl Into<String>, kind: FixKind, change: Change) {
        let known = self.0.iter().any(|one| one.change == change);
        if !known {
            self.0.push(Candidate { name: name.into(), kind, change });
        }
    }

    /// The same batch in other pieces.
    fn batch(&mut self, job: &Job) {
        let each = job.batch.global / job.degrees.data.max(1);
        let change = |micro: u64| {
            Change::to(keys::training::micro_batch_size, micro.to_string())
                .and("model.batch_size", job.batch.global.to_string())
        };
        let micro = job.batch.micro;
        let smaller = (1..micro).rev().filter(|smaller| each.is_multiple_of(*smaller));
        for smaller in smaller {
            self.add(format!("micro batch {smaller}, accumulated"), FixKind::Batch, change(smaller));
        }
        if let Some(larger) = (micro + 1..=each).find(|larger| each.is_multiple_of(*larger)) {
            self.add(format!("micro batch {larger}"), FixKind::Batch, change(larger));
        }
    }

    fn fused_attention(&mut self, job: &Job) {
        // Where flash kernels are not, PyTorch's own choice is a fused one as well, mostly.
        let fused = if job.hardware.gpu.generation.is_before_ampere() { Attention::Sdpa } else { Attention::Flash };
        if job.training.attention != Attention::Flash && job.training.attention != fused && job.decoder().is_some() {
            self.add("fused attention", FixKind::Kernels, Change::to(keys::training::attention, fused.name()));
        }
    }

    /// Kernels that keep less.
    fn kernels(&mut self, job: &Job) {
        let training = &job.training;
        self.fused_attention(job);
        if training.launch_blocking {
            let change = Change::to(keys::training::launch_blocking, "false");
            self.add("launches that do not block", FixKind::Kernels, change);
        }
        let fused = job.profile.loss.fused.is;
        let loss = match training.loss {
            Loss::VocabParallel => Some(fused).filter(|fused| *fused == Loss::VocabParallelFused),
            Loss::Hf | Loss::Plain => Some(Loss::Fused),
            Loss::TeFused => Some(fused).filter(|fused| *fused == Loss::Fused),
            _ => None,
        };
        if let Some(loss) = loss {
            self.add("fused loss", FixKind::Kernels, Change::to(keys::training::loss, loss.name()));
        }
        if !training.compile && job.profile.support.compile.is {
            self.add("torch.compile", FixKind::Kernels, Change::to(keys::training::compile, "true"));
        }
        let peaks = &job.hardware.gpu.peaks;
        let half = if peaks.bf16.is_some() { Precision::Bf16Mixed } else { Precision::Fp16Mixed };
        let narrower: &[Precision] = match job.storage.precision {
            // Without units for bf16 it is emulated.
            Precision::Bf16Mixed if peaks.bf16.is_none() => &[Precision::Fp16Mixed],
            Precision::Bf16Fp32Master if peaks.bf16.is_none() => &[Precision::Fp16Fp32Master],
            Precision::Bf16 if peaks.bf16.is_none() => &[Precision::Fp16],
            Precision::Fp32 if peaks.tf32.is_some() => &[Precision::Tf32, half],
            Precision::Fp32 | Precision::Tf32 => &[half],
            Precision::Bf16Fp32Master | Precision::Bf16Mixed if peaks.fp8.is_some() => &[Precision::Fp8Mixed],
            _ => &[],
        };
        for precision in narrower {
            let change = Change::to(keys::training::precision, precision.name());
            let change = job.under_same_engine(change, job.degrees.asked(), *precision);
            self.add(format!("precision {precision}"), FixKind::Precision, change);
        }
    }

    fn recomputation(&mut self, job: &Job) {
        let selective = match job.profile.support.selective.is {
            RecomputeWord::SelectiveOp => Checkpointing::SelectiveOp,
            _ => Checkpointing::Selective,
        };
        let further = match job.training.checkpointing {
            Checkpointing::None => vec![selective, Checkpointing::Full],
            Checkpointing::Full => vec![Checkpointing::None, selective],
            _ => vec![Checkpointing::None, Checkpointing::Full],
        };
        for way in further {
            let change = Change::to(keys::training::activation_checkpointing, way.to_string());
            self.add(format!("checkpointing {way}"), FixKind::Recomputation, change);
        }
    }

    fn states(&mut self, job: &Job) {
        let adam = matches!(job.training.optimizer, Optimizer::Adamw | Optimizer::AdamwFused | Optimizer::AdamwLoop);
        if adam && job.profile.support.swappable_parts.is {
            let change = Change::to(keys::training::optimizer, Optimizer::Adamw8bit.name());
            self.add("8-bit optimizer", FixKind::States, change);
        }
        if job.training.optimizer == Optimizer::Adamw {
            let change = Change::to(keys::training::optimizer, Optimizer::AdamwFused.name());
            self.add("fused optimizer", FixKind::States, change);
        }
        let alone = job.degrees.num_gpus == 1 && job.batch.accumulation == 1;
        if alone && job.profile.support.swappable_parts.is && !job.training.optimizer_in_backward {
            let change = Change::to(keys::training::optimizer_in_backward, "true");
            self.add("optimizer in backward", FixKind::States, change);
        }
    }

    fn sharding(&mut self, plan: &Plan, job: &Job) {
        let degrees = &job.degrees;
        if degrees.data * degrees.context < 2 {
            return;
        }
        for sharding in legal::shardings(job).iter().filter(|sharding| **sharding != degrees.sharding) {
            let mut change = Change::to(keys::distribution::sharding, sharding.name());
            if plan.training.distributed_optimizer.is_some() {
                change.remove.push(keys::training::distributed_optimizer);
            }
            let change = job.under_same_engine(change, *sharding, job.storage.precision);
            self.add(format!("sharding {sharding}"), FixKind::Sharding, change);
        }
    }

    /// The GPU's own link, for one that it does not have.
    fn link(&mut self, job: &Job) {
        let gpu = &job.hardware.gpu;
        if lacking(&gpu.name, &job.assumptions).any(|(key, _)| key == LINK) {
            self.add(format!("interconnect {}", gpu.link), FixKind::Link, Change::to(LINK, gpu.link.clone()));
        }
    }

    fn offload(&mut self, job: &Job, possible: &[CpuOffload]) {
        if job.training.cpu_offload == CpuOffload::None {
            let (layout, again) = ((job.degrees.sharding, job.degrees.pipeline), &job.training.checkpointing);
            for what in possible.iter().filter(|what| legal::offloads(job, layout, **what, again)) {
                let change = Change::to(keys::training::cpu_offload, what.name());
                self.add(format!("offload of {what}"), FixKind::Offload, change);
            }
        }
    }

    /// What trains something else: adapters instead of all weights, and no fp32 copy of them.
    fn otherwise(&mut self, job: &Job) {
        let whole = job.training.lora.is_none();
        if whole && job.profile.support.swappable_parts.is && job.decoder().is_some() {
            let change = Change::to(keys::lora::rank, ADAPTER_RANK.to_string());
            self.add(format!("LoRA of rank {ADAPTER_RANK}"), FixKind::Other, change);
            let change = Change::to(keys::lora::rank, ADAPTER_RANK.to_string()).and("training.lora.base_bits", "4");
            self.add(format!("QLoRA of rank {ADAPTER_RANK}"), FixKind::Other, change);
        } else if job.training.lora.as_ref().is_some_and(|lora| lora.base_bits.is_none()) {
            self.add("QLoRA, 4 bits", FixKind::Other, Change::to(keys::lora::base_bits, "4"));
        }
        let copies = matches!(job.storage.precision, Precision::Fp32 | Precision::Tf32 | Precision::Bf16Mixed);
        if whole && copies && job.hardware.gpu.peaks.bf16.is_some() && job.profile.support.swappable_parts.is {
            let change = Change::to(keys::training::precision, Precision::Bf16.name());
            let change = job.under_same_engine(change, job.degrees.asked(), Precision::Bf16);
            self.add("precision bf16, weights and states too", FixKind::Other, change);
        }
    }

    /// Larger batches in micro batches as much larger: as many kernels for more samples. What is learned in a step
    /// changes with it.
    fn more_samples(&mut self, job: &Job) {
        for times in [2, 4, 8, 16] {
            let (batch, micro) = (job.batch.global.saturating_mul(times), job.batch.micro.saturating_mul(times));
            let change = Change::to(keys::model::batch_size, batch.to_string());
            let change = change.and(keys::training::micro_batch_size, micro.to_string());
            self.add(format!("batch {batch}, micro batch {micro}"), FixKind::Other, change);
        }
    }

    /// Caches in fewer bits.
    fn cache(&mut self, job: &Job) {
        if job.storage.kv_cache.is_none_or(|kept| kept.bytes() > 1) && job.training.use_cache && job.decoder().is_some()
        {
            self.add("KV cache in fp8", FixKind::Other, Change::to(keys::training::kv_cache_dtype, "fp8"));
        }
        let latent = job.decoder().is_some_and(|decoder| decoder.mla.is_some());
        if latent && job.training.use_cache && !job.training.cache_latents {
            let change = Change::to(keys::training::cache_latents, "true");
            self.add("KV cache of latents, as servers keep them", FixKind::Other, change);
        }
    }

    /// Fewer requests at a time, and shorter ones.
    fn requests(&mut self, job: &Job) {
        let each = job.batch.global / job.degrees.data.max(1);
        let fewer = std::iter::successors(Some(each / 2), |each| Some(each / 2)).take_while(|each| *each > 0);
        for fewer in fewer {
            let requests = fewer * job.degrees.data;
            let mut change = Change::to(keys::model::batch_size, requests.to_string());
            change.remove.extend(["training.micro_batch_size", "training.gradient_accumulation_steps"]);
            let plural = if requests == 1 { "" } else { "s" };
            self.add(format!("{requests} request{plural} at a time"), FixKind::Batch, change);
        }
        let sequence = job.batch.sequence;
        if !matches!(job.architecture.input(), Input::Tokens(_)) {
            return;
        }
        let shorter = std::iter::successors(Some(sequence / 2), |tokens| Some(tokens / 2));
        for shorter in shorter.take_while(|tokens| *tokens >= SHORTEST).take(3) {
            let change = Change::to(keys::model::sequence_length, shorter.to_string());
            self.add(format!("{shorter} tokens a request"), FixKind::Other, change);
        }
    }
}
