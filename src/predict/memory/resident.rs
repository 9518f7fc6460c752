//! What a stage holds between the moments of a step: weights, masters, gradients,
//! states, and the buffers of sharding.

use std::collections::BTreeSet;

use crate::framework::Gather;
use crate::model::{Element, Part, Weight, is_covered};
use crate::plan::keywords::{Attention, Engine, Mode, Optimizer, Sharding};
use crate::predict::job::Job;
use crate::predict::job::optimizer::{
    Temporary, is_matrix, newton_schulz, newton_schulz_flops, rounded, rule_of, state_bytes,
};
use crate::predict::memory::companions::frozen_models;
use crate::predict::memory::few_bits::quantised;
use crate::predict::memory::zero_step;
use crate::predict::step::StageTapes;
use crate::predict::step::adapter_element;
use crate::units::Bytes;

/// What a stage holds whatever runs.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::predict) struct Resident {
    /// Parameters of this rank before sharding, tied ones where they are held.
    pub params: u64,
    /// Of which trained.
    pub trained: u64,
    /// Tensors that the trained ones are.
    pub tensors: u64,
    /// Elements of the largest trained tensor.
    pub largest: u64,
    /// The same without those that a stage before holds as well.
    pub largest_own: u64,
    /// Weights.
    pub weights: Bytes,
    /// A frozen copy of them, stored and sharded alike (TRL, `trainer/dpo_trainer.py`, `prepare_deepspeed` and
    /// `prepare_fsdp` of `ref_model`).
    pub reference: Bytes,
    /// Other frozen models, stored and sharded as the weights are.
    pub frozen_models: Bytes,
    /// Weights, masters and states of a critic of the same size.
    pub critic: Bytes,
    /// Keys and values of all requests (inference).
    pub kv_cache: Bytes,
    /// Of which those of micro-batches whose prompts were read before.
    pub kv_cache_waiting: Bytes,
    /// FP8 copies of 16-bit weights, made once a step and kept (Transformer Engine).
    pub fp8_copies: Bytes,
    /// Master copies.
    pub masters: Bytes,
    /// All gradients once they exist.
    pub gradients: Bytes,
    /// Gradients exist between steps.
    pub gradients_stay: bool,
    /// Gradients exist when the forward pass of the last micro-batch begins.
    pub gradients_before: bool,
    /// Optimizer states.
    pub states: Bytes,
    /// Temporaries of the optimizer step.
    pub optimizer_temporary: Bytes,
    /// Operations of a step that make Muon's matrices orthogonal: this rank's share.
    pub orthogonalised: u64,
    /// Stand-ins for weight gradients, one for each shape of matrix (Transformer Engine).
    pub dummies: Bytes,
    /// Megatron's buffer for gathered inputs and for scores, which stays.
    pub global_buffer: Bytes,
    /// Gradients in fp32 that the optimizer makes of 16-bit ones, until the next step begins.
    pub gradient_copies: Bytes,
    /// Buffers of data-parallel reduction.
    pub buckets: Bytes,
    /// Unsharded weights of the ends (FSDP's root), alive through forward and backward.
    pub root: Bytes,
    /// Unsharded weights of the largest layer.
    pub unsharded_layer: Bytes,
    /// Layers whose weights are there unsharded while one runs, with those gathered ahead.
    pub gathered_layers: u64,
    /// Bytes of whole gradients that wait for their turn beside those being made (Megatron FSDP).
    pub reduce_queue: Option<Bytes>,
    /// Weights that stay unsharded from their forward to their backward pass (DeepSpeed).
    pub live: Bytes,
    /// A buffer that gradients are reduced in, there while the backward pass runs.
    pub reduce_bucket: Bytes,
    /// Unsharded gradients of the largest layer.
    pub unsharded_gradients: Bytes,
    /// The same, copied in the type that they are reduced in.
    pub reduced_layer: Bytes,
    /// Whole gradients of all layers, to which those of each micro-batch are added (FSDP2 under a pipeline).
    pub accumulated: Bytes,
    /// Buffers that other stages' activations and gradients are received in (PyTorch's pipelines).
    pub received: Bytes,
    /// Unsharded gradients of the head, which is reduced with the root.
    pub head_gradients: Bytes,
    /// The root's gradients, copied in the type that they are reduced in.
    pub reduced_root: Bytes,
    /// Most bytes that all-gathers need at one time, the root's and a layer's.
    pub gathered: Bytes,
}

impl Resident {
    /// What is there in every phase of a step.
    pub fn lasting(&self) -> Bytes {
        self.weights
            + self.reference
            + self.frozen_models
            + self.critic
            + self.fp8_copies
            + self.kv_cache_waiting
            + self.masters
            + self.states
            + self.buckets
            + self.dummies
            + self.global_buffer
            + self.received
    }
}

/// What the optimizer's step of single parameters comes to.
#[derive(Debug, Clone, Copy, Default)]
struct StepTemporaries {
    /// The largest parameter in the states' type.
    largest: Bytes,
    /// Most that one matrix needs to be made orthogonal.
    newton_schulz: Bytes,
    /// What is no matrix, in the states' type.
    others: Bytes,
    /// Elements of the parameter stepped last.
    previous: u64,
    /// Most elements that a parameter whose turn it is and the one before it need.
    in_turn: u64,
    /// Elements that this rank steps, of experts and of the rest: an optimizer of its own has each.
    shares: [u64; 2],
}

impl StageTapes<'_> {
    /// Adds everything up.
    pub fn resident(&self) -> Resident {
        self.offloading(self.on_card(), self.job.training.cpu_offload)
    }

    /// What there would be if nothing were offloaded.
    pub fn on_card(&self) -> Resident {
        let job = self.job;
        let mut sum = Resident::default();
        let mut stepped = StepTemporaries::default();
        let stands_in = job.modules.transformer_engine.is && job.training.gradient_accumulation_fusion;
        let mut shapes: BTreeSet<(u64, u64)> = BTreeSet::new();
        for (tape, times) in self.tapes() {
            for weight in &tape.weights {
                // A tied head is the embedding itself unless another stage holds that.
                if weight.tied && self.first {
                    continue;
                }
                self.add(weight, times, &mut sum, &mut stepped);
                let matrix = matches!(weight.part, Part::Attention | Part::Mlp | Part::Expert | Part::Head);
                // Transformer Engine makes none for weights without gradients (`pytorch/module/linear.py`).
                if stands_in && weight.trained && matrix && weight.numel > weight.rows {
                    shapes.insert((weight.rows, weight.numel));
                }
            }
        }
        if job.training.mode == Mode::Inference {
            return sum;
        }
        if job.training.reference_model {
            sum.reference = sum.weights;
        }
        sum.frozen_models = frozen_models(job);
        if job.training.companions.critic {
            sum.critic = sum.weights + sum.masters + sum.states;
        }
        sum.gradients_stay = job.gradients_stay();
        sum.gradients_before =
            sum.gradients_stay || (job.batch.accumulation > 1 && !job.training.optimizer_in_backward);
        if job.training.optimizer_in_backward {
            sum.gradients = Bytes::ZERO;
        }
        if stands_in {
            let seen = job.storage.seen.bytes();
            sum.dummies = shapes.iter().map(|(_, numel)| Bytes(rounded(numel.saturating_mul(seen)))).sum();
        }
        self.temporaries(&mut sum, &stepped);
        self.buffers(&mut sum);
        if job.is_stepped_by_bf16_optimizer() {
            sum.buckets += Bytes(job.storage.weight.bytes()) * sum.trained;
        }
        if job.is_stepped_by_zero() {
            zero_step::allocate(job, &mut sum);
        }
        if job.modules.global_buffer.is {
            sum.global_buffer = self.global_buffer();
        }
        if job.profile.optimizer.copies_gradients.is {
            // The precision-aware optimizer reads the main gradients as they are (`decoupled_grad`).
            let copied = job.storage.gradient.bytes() < 4 && job.storage.precision_aware.is_none();
            sum.gradient_copies = if copied { sum.masters } else { Bytes::ZERO };
            sum.optimizer_temporary += sum.gradient_copies + states_cast_to_step(job, &stepped);
        }
        sum
    }

    /// The largest tensor that this stage asks of Megatron's buffer: a gathered input of the output matrix, or of any
    /// where Transformer Engine does not run; the scores of attention that is written out, which their product is
    /// given to add to; the tokens of all ranks that share the experts, where each gathers them
    /// (core/transformer/moe/token_dispatcher.py, `MoEAllGatherTokenDispatcher.token_dispatch`).
    fn global_buffer(&self) -> Bytes {
        let job = self.job;
        let Some(block) = job.architecture.block() else { return Bytes::ZERO };
        let gathers = match job.modules.gather.is {
            Gather::Saved => false,
            Gather::KeptByHead => self.last,
            Gather::Kept => true,
        };
        let seen = job.storage.seen.bytes();
        let batch = &job.batch;
        let tokens = batch.micro.saturating_mul(batch.sequence.div_ceil(job.degrees.context));
        let gathered = if gathers && job.degrees.sequence_parallel { tokens.saturating_mul(block.hidden) } else { 0 };
        let written_out = job.modules.gather.is == Gather::Kept && job.training.attention == Attention::Eager;
        let heads = block.heads.div_ceil(job.degrees.tensor);
        let scores = if written_out && !self.layers.is_empty() {
            tokens.saturating_mul(heads).saturating_mul(batch.sequence)
        } else {
            0
        };
        let degrees = &job.degrees;
        let sharers = degrees.expert.saturating_mul(degrees.expert_tensor);
        let mixes =
            self.layers.iter().any(|layer| self.step.tape(*layer).weights.iter().any(|one| one.part == Part::Expert));
        let sent = if degrees.gathers_tokens && mixes && sharers > 1 {
            let own = if degrees.sequence_parallel { tokens.div_ceil(degrees.tensor) } else { tokens };
            own.saturating_mul(sharers).saturating_mul(block.hidden)
        } else {
            0
        };
        Bytes(rounded(gathered.max(scores).max(sent).saturating_mul(seen)))
    }

    fn add(&self, weight: &Weight, times: u64, sum: &mut Resident, stepped: &mut StepTemporaries) {
        let job = self.job;
        let storage = &job.storage;
        let (degrees, sharding) = (&job.degrees, job.degrees.sharding);
        let ranks = if weight.part == Part::Expert { degrees.expert_shard_ranks } else { degrees.shard_ranks };
        let share = |when: bool| if when { weight.numel.div_ceil(ranks) } else { weight.numel };
        let times = weight.copies.saturating_mul(times);
        let total = weight.numel.saturating_mul(times);
        sum.params = sum.params.saturating_add(total);
        let element = stored(job, weight);
        let bytes = |numel: u64, element: Element| Bytes(rounded(numel.saturating_mul(element.bytes()))) * times;
        let held = share(sharding == Sharding::Zero3);
        let in_fp8 = storage
            .operands
            .filter(|_| is_covered(weight.part) && weight.numel > weight.rows)
            .map(|operands| Bytes(rounded(operands.both(operands.bytes(held)))) * times);
        let stored = match (quantised(job, weight), in_fp8) {
            (Some(few), _) => Bytes(few.held(held, weight.numel)) * times,
            (None, Some(bytes)) if storage.fp8_weights => bytes,
            _ => bytes(held, element),
        };
        sum.weights += stored;
        sum.fp8_copies += in_fp8.filter(|_| !storage.fp8_weights).unwrap_or_default();
        if !weight.trained {
            return;
        }
        sum.trained = sum.trained.saturating_add(total);
        sum.tensors = sum.tensors.saturating_add(times);
        sum.largest = sum.largest.max(weight.numel);
        sum.largest_own = sum.largest_own.max(if weight.tied { 0 } else { weight.numel });
        let (gradient, state) = match weight.part {
            Part::Adapter => job.trained_types(),
            _ => (storage.gradient, storage.state),
        };
        let split = matches!(sharding, Sharding::Zero2 | Sharding::Zero3);
        sum.gradients += bytes(share(split), gradient);
        let part = share(sharding != Sharding::None);
        if let Some(master) = storage.master {
            sum.masters += bytes(part, master);
        }
        self.add_states(weight, (part, state, times), sum, stepped);
    }

    /// The optimizer's states of a weight that is there `times`, of which this rank steps `part` parameters; and what its
    /// turn takes.
    fn add_states(
        &self,
        weight: &Weight,
        (part, state, times): (u64, Element, u64),
        sum: &mut Resident,
        stepped: &mut StepTemporaries,
    ) {
        let job = self.job;
        let step = &mut stepped.shares[usize::from(weight.part == Part::Expert)];
        *step = step.saturating_add(part.saturating_mul(times));
        let row = rule_of(job);
        let mut states = Bytes(state_bytes(&row, weight, part, state));
        let bytes = part.saturating_mul(state.bytes());
        if is_matrix(weight) {
            stepped.newton_schulz = stepped.newton_schulz.max(Bytes(newton_schulz(weight, part, state)));
            if job.training.optimizer == Optimizer::Muon {
                let ranks = weight.numel.div_ceil(part.max(1)).max(1);
                let own = newton_schulz_flops(weight).saturating_mul(times) / ranks;
                sum.orthogonalised = sum.orthogonalised.saturating_add(own);
            }
        } else {
            stepped.others += Bytes(rounded(bytes)) * times;
            // Muon is for matrices; the rest is left to AdamW.
            states = states * if job.training.optimizer == Optimizer::Muon { 2 } else { 1 };
        }
        sum.states += states * times;
        stepped.largest = stepped.largest.max(Bytes(bytes));
        let before = stepped.previous.max(if weight.copies > 1 { part } else { 0 }).max(row.roots(weight, part));
        stepped.in_turn = stepped.in_turn.max(part.saturating_mul(row.turn(state)).saturating_add(before));
        stepped.previous = part;
    }

    fn temporaries(&self, sum: &mut Resident, stepped: &StepTemporaries) {
        let largest = stepped.largest;
        let training = &self.job.training;
        let row = rule_of(self.job);
        let at_once = |bytes: Bytes| stepped.at_once(self.job, bytes);
        sum.optimizer_temporary = match row.temporary {
            Temporary::Nothing => Bytes::ZERO,
            Temporary::AllStates => at_once(Bytes(sum.states.0 / 2)),
            Temporary::Largest(tensors) => largest * tensors,
            Temporary::LargestUpcast(_) => Bytes(4) * stepped.in_turn,
            Temporary::LargestWide(tensors) => Bytes(4 * tensors) * (largest.0 / self.job.storage.state.bytes()),
            Temporary::NewtonSchulz => stepped.newton_schulz.max(stepped.others),
            Temporary::StatesAndDecayedGradients if training.weight_decay > 0.0 => at_once(sum.states + sum.gradients),
            Temporary::StatesAndDecayedGradients => at_once(sum.states),
            Temporary::DecayedGradients if training.weight_decay > 0.0 => at_once(sum.gradients),
            Temporary::DecayedGradients => Bytes::ZERO,
        };
        if training.optimizer_in_backward {
            // Each parameter steps within the backward pass.
            sum.optimizer_temporary = Bytes::ZERO;
        }
    }
}

/// Elements that DeepSpeed's third stage steps together (runtime/zero/config.py, `sub_group_size`; stage3.py,
/// `_optimizer_step`).
const SUB_GROUP: u64 = 1_000_000_000;

impl StepTemporaries {
    /// What of temporaries over a rank's whole share is there at a time.
    fn at_once(&self, job: &Job, bytes: Bytes) -> Bytes {
        let all = self.shares.into_iter().fold(0, u64::saturating_add);
        let groups = job.degrees.engine == Engine::Deepspeed && job.degrees.sharding == Sharding::Zero3;
        if !groups || all <= SUB_GROUP {
            return bytes;
        }
        Bytes::from_f64(bytes.0 as f64 * SUB_GROUP as f64 / all as f64)
    }
}

/// The fp32 copies of narrow states of one optimizer's parameters, which are there together while it steps.
fn states_cast_to_step(job: &Job, stepped: &StepTemporaries) -> Bytes {
    let moments = rule_of(job).moments;
    let elements = stepped.shares.into_iter().max().unwrap_or(0);
    Bytes(4) * job.storage.states_cast_to_step(moments).saturating_mul(elements)
}

/// Type in which a weight lies.
pub(in crate::predict) fn stored(job: &Job, weight: &Weight) -> Element {
    if weight.part == Part::Adapter { adapter_element(job) } else { job.storage.weight }
}
