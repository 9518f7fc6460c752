//! The knobs of a search: how GPUs share the work, and what is done to save memory.

use crate::plan::keys;
use crate::plan::keywords::{CpuOffload, Schedule, Sharding, Strategy};
use crate::plan::{Change, Checkpointing, Plan};
use crate::predict::Job;

use super::space::DegreeGroup;

/// One setting of every knob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knobs {
    /// `distribution.data_parallel`
    pub data: u64,
    /// `distribution.tensor_parallel`
    pub tensor: u64,
    /// `distribution.pipeline_parallel`
    pub pipeline: u64,
    /// `distribution.context_parallel`
    pub context: u64,
    /// `distribution.expert_parallel`
    pub expert: u64,
    /// `distribution.expert_tensor_parallel`
    pub expert_tensor: u64,
    /// `distribution.sequence_parallel`
    pub sequence: bool,
    /// `distribution.sharding`
    pub sharding: Sharding,
    /// `distribution.pipeline_schedule`
    pub schedule: Schedule,
    /// `distribution.virtual_pipeline`
    pub chunks: u64,
    /// `training.micro_batch_size`
    pub micro: u64,
    /// `training.gradient_accumulation_steps`
    pub accumulation: u64,
    /// `training.activation_checkpointing`
    pub checkpointing: Checkpointing,
    /// `training.cpu_offload`
    pub offload: CpuOffload,
}

/// The keys of the knobs.
pub const KEYS: [&str; 14] = [
    "distribution.data_parallel",
    "distribution.tensor_parallel",
    "distribution.pipeline_parallel",
    "distribution.context_parallel",
    "distribution.expert_parallel",
    "distribution.expert_tensor_parallel",
    "distribution.sequence_parallel",
    "distribution.sharding",
    "distribution.pipeline_schedule",
    "distribution.virtual_pipeline",
    "training.micro_batch_size",
    "training.gradient_accumulation_steps",
    "training.activation_checkpointing",
    "training.cpu_offload",
];

/// Those of them that say how GPUs share a model and its sequence: what decides whether it can fit at all.
pub const LAYOUT: &[&str] = KEYS.split_at(7).0;

impl Knobs {
    /// Tensor, pipeline, context and expert parallel.
    pub const fn degrees(&self) -> [u64; 4] {
        [self.tensor, self.pipeline, self.context, self.expert]
    }

    /// As `job` has them.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let degrees = &job.degrees;
        Self {
            data: degrees.data,
            tensor: degrees.tensor,
            pipeline: degrees.pipeline,
            context: degrees.context,
            expert: degrees.expert,
            expert_tensor: degrees.expert_tensor,
            sequence: degrees.sequence_parallel,
            sharding: degrees.asked(),
            schedule: degrees.schedule,
            chunks: degrees.virtual_pipeline,
            micro: job.batch.micro,
            accumulation: job.batch.accumulation,
            checkpointing: job.training.checkpointing.clone(),
            offload: job.training.cpu_offload,
        }
    }

    /// The degrees and the micro batch of a group, and nothing done to save memory.
    pub(super) const fn of_group(group: &DegreeGroup) -> Self {
        Self {
            data: group.data,
            tensor: group.tensor,
            pipeline: group.pipeline,
            context: group.context,
            expert: group.expert,
            expert_tensor: group.expert_tensor,
            sequence: group.sequence,
            sharding: Sharding::None,
            schedule: Schedule::OneFOneB,
            chunks: 1,
            micro: group.micro,
            accumulation: group.accumulation,
            checkpointing: Checkpointing::None,
            offload: CpuOffload::None,
        }
    }

    /// Samples of a step.
    #[must_use]
    pub const fn batch(&self) -> u64 {
        self.data.saturating_mul(self.micro).saturating_mul(self.accumulation)
    }

    /// The knobs in which these differ from `other`, by their place in [`KEYS`], with these values.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<(usize, String)> {
        let pairs = self.values().into_iter().zip(other.values()).enumerate();
        pairs.filter(|(_, (own, other))| own != other).map(|(at, (own, _))| (at, own)).collect()
    }

    /// The values, as plans write them, in the order of [`KEYS`].
    fn values(&self) -> [String; KEYS.len()] {
        [
            self.data.to_string(),
            self.tensor.to_string(),
            self.pipeline.to_string(),
            self.context.to_string(),
            self.expert.to_string(),
            self.expert_tensor.to_string(),
            self.sequence.to_string(),
            self.sharding.to_string(),
            self.schedule.to_string(),
            self.chunks.to_string(),
            self.micro.to_string(),
            self.accumulation.to_string(),
            self.checkpointing.to_string(),
            self.offload.to_string(),
        ]
    }

    /// How much is done to save memory: offload before recomputation before sharding.
    pub(super) fn effort(&self) -> (u8, u8, u8) {
        let recomputed = match &self.checkpointing {
            Checkpointing::None => 0,
            Checkpointing::Selective | Checkpointing::SelectiveOp | Checkpointing::Modules(_) => 1,
            Checkpointing::Every(_) | Checkpointing::Classes(_) => 2,
            Checkpointing::Full => 3,
        };
        (self.offload as u8, recomputed, self.sharding as u8)
    }

    /// An order over all settings, for plans that are alike in everything that counts: one forward, one backward is
    /// what people run.
    pub(super) fn sequence_of(&self) -> [u64; 9] {
        let schedule = u64::from(self.schedule == Schedule::Gpipe);
        let (chunks, split) = (self.chunks, u64::from(self.sequence));
        [self.tensor, self.pipeline, self.context, self.expert, self.expert_tensor, self.micro, split, chunks, schedule]
    }

    /// Whether what is no knob stays as `job` has it only where it is said: experts that are sent between nodes would be
    /// taken to be sent beside another micro-batch, which Megatron does where it is told alone
    /// (`--overlap-moe-expert-parallel-comm`), and what was gained by that would be the layout's.
    fn waits_for_experts(&self, plan: &Plan, job: &Job) -> bool {
        plan.distribution.overlap_expert_parallel.is_none()
            && job.would_overlap_experts([self.expert, self.expert_tensor], self.chunks)
    }

    /// `plan`, which comes to `job`, with these; everything else that it says stays.
    pub fn apply(&self, plan: &mut Plan, job: &Job) {
        if self.waits_for_experts(plan, job) {
            plan.distribution.overlap_expert_parallel = Some(false);
        }
        // A plan that says nothing of it is silent with these, too: recipes fill in what such a plan leaves open.
        let silent = plan.distribution.sharding.is_none()
            && plan.training.distributed_optimizer.is_none()
            && self.sharding == Sharding::None
            && !self.refills(plan, job);
        let part = &mut plan.distribution;
        // What it would fill is all given, and what it would contradict is the knobs' to say.
        part.strategy = None;
        part.data_parallel = Some(self.data);
        part.tensor_parallel = Some(self.tensor);
        part.pipeline_parallel = Some(self.pipeline);
        part.context_parallel = Some(self.context);
        part.expert_parallel = Some(self.expert);
        part.expert_tensor_parallel = Some(self.expert_tensor);
        part.sequence_parallel = Some(self.sequence);
        part.sharding = (!silent).then_some(self.sharding);
        part.pipeline_schedule = Some(self.schedule);
        part.virtual_pipeline = Some(self.chunks);
        plan.model.batch_size = Some(self.batch());
        plan.training.micro_batch_size = Some(self.micro);
        plan.training.gradient_accumulation_steps = Some(self.accumulation);
        plan.training.activation_checkpointing = Some(self.checkpointing.clone());
        plan.training.cpu_offload = Some(self.offload);
        plan.training.distributed_optimizer = None;
    }

    /// What must change in `plan`, which comes to `job`, for it to come to these: no key that would say what is so
    /// anyway.
    #[must_use]
    pub fn change(&self, plan: &Plan, job: &Job) -> Change {
        let mut change = Change::default();
        self.change_degrees(plan, job, &mut change);
        let (given, now) = (&plan.training, Self::of(job));
        let mut set = |needed: bool, key: &'static str, value: String| {
            if needed {
                change.set.push((key, value));
            }
        };
        set(plan.model.batch_size != Some(self.batch()), "model.batch_size", self.batch().to_string());
        // A plan without one has all samples of a rank in as many passes as it gives steps, or in one.
        let needed = given.micro_batch_size.map_or_else(
            || given.gradient_accumulation_steps.is_none() && self.accumulation != 1,
            |micro| micro != self.micro,
        );
        set(needed, "training.micro_batch_size", self.micro.to_string());
        let steps = given.gradient_accumulation_steps.is_some_and(|steps| steps != self.accumulation);
        set(steps, "training.gradient_accumulation_steps", self.accumulation.to_string());
        let recomputed = self.checkpointing != now.checkpointing;
        set(recomputed, "training.activation_checkpointing", self.checkpointing.to_string());
        set(self.offload != now.offload, "training.cpu_offload", self.offload.to_string());
        set(self.waits_for_experts(plan, job), keys::distribution::overlap_expert_parallel, "false".to_owned());
        change
    }

    /// Whether the plan's strategy fills what is absent with others: everything must be said then.
    pub(super) fn refills(&self, plan: &Plan, job: &Job) -> bool {
        let shared_out = |knobs: &Self| (knobs.data, knobs.tensor, knobs.pipeline, knobs.context, knobs.sharding);
        let other = shared_out(self) != shared_out(&Self::of(job));
        other && plan.distribution.strategy.is_some_and(|strategy| strategy != Strategy::Hybrid)
    }

    fn change_degrees(&self, plan: &Plan, job: &Job, change: &mut Change) {
        let (given, now) = (&plan.distribution, Self::of(job));
        let refill = self.refills(plan, job);
        let counted = plan.gpus().is_none();
        let mut set = |needed: bool, key: &'static str, value: String| {
            if needed {
                change.set.push((key, value));
            }
        };
        set(refill, "distribution.strategy", Strategy::Hybrid.to_string());
        set(counted, "cluster.num_gpus", job.degrees.num_gpus.to_string());
        set(
            given.data_parallel.is_some_and(|data| data != self.data),
            "distribution.data_parallel",
            self.data.to_string(),
        );
        // A degree that is absent is 1, or what the strategy that goes had filled in.
        let degree = |own: u64, given: Option<u64>| own != given.unwrap_or(1);
        set(degree(self.tensor, given.tensor_parallel), "distribution.tensor_parallel", self.tensor.to_string());
        set(
            degree(self.pipeline, given.pipeline_parallel),
            "distribution.pipeline_parallel",
            self.pipeline.to_string(),
        );
        set(
            self.context != given.context_parallel.unwrap_or(1),
            "distribution.context_parallel",
            self.context.to_string(),
        );
        set(self.expert != given.expert_parallel.unwrap_or(1), "distribution.expert_parallel", self.expert.to_string());
        let within = given.expert_tensor_parallel.unwrap_or(self.tensor);
        set(self.expert_tensor != within, "distribution.expert_tensor_parallel", self.expert_tensor.to_string());
        let split = self.tensor > 1
            && self.sequence != given.sequence_parallel.unwrap_or(job.profile.defaults.sequence_parallel.is);
        set(split, "distribution.sequence_parallel", self.sequence.to_string());
        let several = self.chunks > 1;
        let schedule =
            given.pipeline_schedule.unwrap_or(if several { Schedule::Interleaved } else { Schedule::OneFOneB });
        set(
            self.pipeline > 1 && self.schedule != schedule,
            "distribution.pipeline_schedule",
            self.schedule.to_string(),
        );
        set(
            self.chunks != given.virtual_pipeline.unwrap_or(1),
            "distribution.virtual_pipeline",
            self.chunks.to_string(),
        );
        let distributed = plan.training.distributed_optimizer.is_some();
        let shards = self.sharding != now.sharding || refill;
        set(shards, "distribution.sharding", self.sharding.to_string());
        if shards && distributed {
            change.remove.push(keys::training::distributed_optimizer);
        }
    }
}
