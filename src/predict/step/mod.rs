//! One micro-batch of a job on one GPU: its tapes, played.

mod checkpoints;
pub(in crate::predict) mod layers;
pub(super) mod micro_batch;
pub(in crate::predict) mod outputs;
pub(in crate::predict) mod pending;
pub(in crate::predict) mod pipeline;
pub(in crate::predict) mod play;
pub(in crate::predict) mod prefill;
pub(in crate::predict) mod rounds;

use crate::model::{Tape, Walk};
use crate::plan::Checkpointing;
use crate::plan::keywords::{Engine, Mode, RecomputeModule, Sharding};
use crate::predict::job::Job;
use crate::predict::job::optimizer::rule_of;
use crate::predict::step::play::{Offload, Recompute, RecomputedModules, TapePlay, WeightGradients, play};
use crate::predict::step::prefill::play_inference;

pub(in crate::predict) use micro_batch::{adapter_element, gathers_fp8, takes_flash_attn, walked};

/// The tapes of a job, and each as played.
pub(in crate::predict) struct StepTapes {
    pub walk: Walk,
    pub first: TapePlay,
    /// Each kind of layer: with and without recomputation.
    pub kinds: Vec<[TapePlay; 2]>,
    pub last: TapePlay,
    /// What is recomputed of a checkpointed layer.
    pub recompute: Recompute,
    /// Each how many-th layer is checkpointed; 0: none.
    pub every: u64,
    /// Layers that are recomputed: bridges between stacks are not counted.
    pub(in crate::predict) checkpointed: Vec<bool>,
    /// Where weight gradients go.
    pub gradients: WeightGradients,
    /// Parameters of each kind of layer on this rank.
    parameters: Vec<u64>,
}

/// One stage of the pipeline: its layers, and which ends of the model it has.
pub(in crate::predict) struct StageTapes<'a> {
    pub job: &'a Job,
    pub step: &'a StepTapes,
    pub layers: Vec<u64>,
    pub first: bool,
    pub last: bool,
}

impl StageTapes<'_> {
    /// Tapes with how often each occurs.
    pub(in crate::predict) fn tapes(&self) -> impl Iterator<Item = (&Tape, u64)> {
        let order = &self.step.walk.order;
        let mut counts = vec![0_u64; self.step.walk.kinds.len()];
        for layer in &self.layers {
            counts[order[usize::try_from(*layer).unwrap_or(0)]] += 1;
        }
        let kinds = self.step.walk.kinds.iter().zip(counts).map(|((_, tape), count)| (tape, count));
        let first = self.first.then_some((&self.step.walk.first, 1));
        let last = self.last.then_some((&self.step.walk.last, 1));
        first.into_iter().chain(kinds).chain(last)
    }
}

impl StepTapes {
    /// Walks and plays `job`.
    pub fn of(job: &Job) -> Self {
        let mut walk = walked(job);
        if job.training.mode == Mode::Inference {
            return Self::of_inference(walk);
        }
        let (recompute, every) = recompute(job);
        let classes = match &job.training.checkpointing {
            Checkpointing::Classes(classes) => Some(classes.as_slice()),
            _ => None,
        };
        let checkpointed = checkpointed(&walk, every, classes);
        if recompute == Recompute::All {
            checkpoints::own_inputs(&mut walk, &checkpointed);
            checkpoints::stop_early(&mut walk, job);
        }
        let gradients = weight_gradients(job);
        let offload = Offload::of(&job.training.offload_modules);
        let ends = |tape: &Tape| play(tape, Recompute::Nothing, gradients, offload);
        // Modules that predict further tokens stand behind the last layer, and recompute what it does.
        let behind = match recompute {
            Recompute::Modules(_) => recompute,
            _ => Recompute::Nothing,
        };
        let kinds = walk
            .kinds
            .iter()
            .map(|(_, tape)| {
                let saved = if every == 1 && classes.is_none() { None } else { Some(ends(tape)) };
                let again = if every == 0 { None } else { Some(play(tape, recompute, gradients, offload)) };
                match (saved, again) {
                    (Some(saved), Some(again)) => [saved, again],
                    (Some(one), None) | (None, Some(one)) => [one.clone(), one],
                    (None, None) => {
                        let one = ends(tape);
                        [one.clone(), one]
                    }
                }
            })
            .collect();
        let parameters = walk.kinds.iter().map(|(_, tape)| tape.parameters()).collect();
        Self {
            checkpointed,
            first: ends(&walk.first),
            last: play(&walk.last, behind, gradients, offload),
            kinds,
            walk,
            recompute,
            every,
            gradients,
            parameters,
        }
    }

    /// Bytes of what layers share.
    pub fn shared(&self) -> u64 {
        let layers = self.walk.mask_of.iter().zip(&self.checkpointed);
        let keeps = |wanted: usize| layers.clone().any(|(mask, again)| *again && *mask == wanted);
        let masks = self.walk.masks.iter().enumerate().filter(|(mask, _)| keeps(*mask));
        masks.fold(self.walk.shared, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Where the weight gradients of `job` go: what its sharding and accumulation change in the walk.
    pub fn gradients_of(job: &Job) -> WeightGradients {
        weight_gradients(job)
    }

    /// A forward pass that saves nothing.
    fn of_inference(walk: Walk) -> Self {
        let twice = |one: TapePlay| [one.clone(), one];
        let kinds = walk.kinds.iter().map(|(_, tape)| twice(play_inference(tape))).collect();
        let (first, last) = (play_inference(&walk.first), play_inference(&walk.last));
        let gradients = WeightGradients::InPlace;
        Self {
            walk,
            first,
            kinds,
            last,
            recompute: Recompute::Nothing,
            every: 0,
            checkpointed: Vec::new(),
            gradients,
            parameters: Vec::new(),
        }
    }

    /// The kind of layer `index`.
    pub fn kind(&self, index: u64) -> usize {
        self.walk.order[usize::try_from(index).unwrap_or(0)]
    }

    /// Layer `index` as played.
    pub fn layer(&self, index: u64) -> &TapePlay {
        &self.kinds[self.kind(index)][usize::from(self.is_checkpointed(index))]
    }

    /// Parameters of layer `index` on this rank.
    pub fn parameters(&self, index: u64) -> u64 {
        self.parameters[self.kind(index)]
    }

    /// The tape of layer `index`.
    pub fn tape(&self, index: u64) -> &Tape {
        &self.walk.kinds[self.kind(index)].1
    }

    /// Whether layer `index` is recomputed.
    pub fn is_checkpointed(&self, index: u64) -> bool {
        self.checkpointed.get(usize::try_from(index).unwrap_or(usize::MAX)).copied().unwrap_or(false)
    }
}

/// What a checkpointed layer recomputes, and each how many-th layer is one.
fn recompute(job: &Job) -> (Recompute, u64) {
    match &job.training.checkpointing {
        Checkpointing::None => (Recompute::Nothing, 0),
        Checkpointing::Full | Checkpointing::Classes(_) => (Recompute::All, 1),
        Checkpointing::Every(each) => (Recompute::All, (*each).max(1)),
        Checkpointing::SelectiveOp => (Recompute::SelectiveOp { compiled: job.training.compile }, 1),
        Checkpointing::Selective => {
            (Recompute::Modules(RecomputedModules { core: true, ..RecomputedModules::default() }), 1)
        }
        Checkpointing::Modules(list) => {
            let has = |module| list.contains(&module);
            let modules = RecomputedModules {
                core: has(RecomputeModule::CoreAttn),
                mlp: has(RecomputeModule::Mlp),
                moe: has(RecomputeModule::Moe),
                moe_act: has(RecomputeModule::MoeAct),
                norms: has(RecomputeModule::Layernorm),
                mla_up: has(RecomputeModule::MlaUpProj),
                shared_experts: has(RecomputeModule::SharedExperts),
            };
            (Recompute::Modules(modules), 1)
        }
    }
}

/// Each `every`-th layer is checkpointed, the first of all; of `classes`, where they are named, alone.
fn checkpointed(walk: &Walk, every: u64, classes: Option<&[String]>) -> Vec<bool> {
    let mut count = 0_u64;
    let layers = walk.order.iter().map(|kind| {
        let (name, tape) = &walk.kinds[*kind];
        let plain = tape.plain || classes.is_some_and(|classes| !classes.iter().any(|class| class == name));
        let again = every > 0 && !plain && count.is_multiple_of(every);
        count += u64::from(!plain);
        again
    });
    layers.collect()
}

/// What an optimizer's step of one parameter takes, in bytes an element.
fn step_bytes(job: &Job) -> u64 {
    let storage = &job.storage;
    let row = rule_of(job);
    row.alone(storage.state, storage.gradient, job.training.weight_decay > 0.0)
}

/// Where a framework puts weight gradients.
fn weight_gradients(job: &Job) -> WeightGradients {
    if job.training.optimizer_in_backward {
        WeightGradients::Used(step_bytes(job))
    } else if job.gradients_stay() {
        if job.training.gradient_accumulation_fusion { WeightGradients::InPlace } else { WeightGradients::Added }
    } else if is_reduced_by_unit(job) {
        WeightGradients::UntilReduced
    } else if job.degrees.sharding == Sharding::Zero3
        || job.degrees.sharding == Sharding::Zero2
        || job.batch.accumulation > 1
    {
        WeightGradients::Added
    } else {
        WeightGradients::Made
    }
}

/// Whether FSDP keeps gradients whole until the last of several micro-batches: `no_sync`, or what FSDP2 has in its place
/// (torch/distributed/fsdp/_runtime_utils.py, `_post_backward_hook`; _fully_shard/_fsdp_param_group.py, `post_backward`).
pub(in crate::predict) fn accumulates_whole(job: &Job) -> bool {
    let by_framework = job.profile.data_parallel.accumulates_whole.is && !job.architecture.has_own_loop();
    let waits = job.degrees.syncs_each.map_or(by_framework, |each| !each);
    let steps = job.training.mode == Mode::Train && !job.training.optimizer_in_backward;
    waits && job.batch.accumulation > 1 && steps && job.degrees.engine.is_fsdp() && is_reduced_by_unit(job)
}

/// Whether PyTorch's FSDP reduces gradients layer by layer. Under a pipeline they may wait for the last micro-batch.
pub(in crate::predict) fn is_reduced_by_unit(job: &Job) -> bool {
    let degrees = &job.degrees;
    let ranks = degrees.data.saturating_mul(degrees.context);
    let shares = degrees.sharding == Sharding::Zero3 && (degrees.engine.is_fsdp() || degrees.engine == Engine::Ddp);
    ranks > 1 && shares && job.stages.len() == 1
}
