//! What a search may choose from: every legal setting of the knobs that are not kept.

use super::super::legal;
use super::knobs::{KEYS, Knobs};
use crate::plan::Checkpointing;
use crate::plan::keywords::{CpuOffload, Mode, RecomputeWord, Schedule, Sharding};
use crate::predict::Job;

/// The knobs' choices for one plan.
pub struct Space<'a> {
    job: &'a Job,
    own: Knobs,
    keep: &'a [&'static str],
    free_batch: bool,
}

/// Degrees and micro batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DegreeGroup {
    pub data: u64,
    pub tensor: u64,
    pub pipeline: u64,
    pub context: u64,
    pub expert: u64,
    pub expert_tensor: u64,
    pub sequence: bool,
    pub micro: u64,
    pub accumulation: u64,
}

impl DegreeGroup {
    /// Samples of a step.
    pub const fn batch(&self) -> u64 {
        self.data.saturating_mul(self.micro).saturating_mul(self.accumulation)
    }

    /// How ranks share out a layer and its sequence.
    pub const fn within(&self) -> [u64; 4] {
        [self.tensor, self.context, self.expert, self.expert_tensor]
    }

    /// What decides the operators of a micro-batch: a walk is shared by groups that agree in it.
    pub const fn operators(&self) -> ([u64; 5], bool) {
        ([self.tensor, self.context, self.expert, self.expert_tensor, self.micro], self.sequence)
    }
}

impl<'a> Space<'a> {
    /// The choices for `job`, with the keys in `keep` as they are.
    pub fn of(job: &'a Job, keep: &'a [&'static str], free_batch: bool) -> Self {
        Self { job, own: Knobs::of(job), keep, free_batch }
    }

    fn kept(&self, knob: usize) -> bool {
        self.keep.contains(&KEYS[knob])
    }

    /// Batches: the plan's own, or from an eighth of it to eight times as much.
    fn batches(&self) -> Vec<u64> {
        let own = self.job.batch.global;
        if !self.free_batch {
            return vec![own];
        }
        let smaller = (1..=3).rev().filter(|power| own.is_multiple_of(1 << power)).map(|power| own >> power);
        smaller.chain((0..=3).map(|power| own.saturating_mul(1 << power))).collect()
    }

    /// Every combination of degrees, batch and micro batch, the number of GPUs held.
    pub fn groups(&self) -> Vec<DegreeGroup> {
        let gpus = self.job.degrees.num_gpus;
        let mut groups = Vec::new();
        for tensor in self.degree(1, self.own.tensor, gpus) {
            for pipeline in self.degree(2, self.own.pipeline, gpus / tensor) {
                for context in self.degree(3, self.own.context, gpus / tensor / pipeline) {
                    let data = gpus / tensor / pipeline / context;
                    let fits = data * context * pipeline * tensor == gpus;
                    if fits && (!self.kept(0) || data == self.own.data) && legal::cuts_sequence(self.job, context) {
                        for batch in self.batches().into_iter().filter(|batch| batch.is_multiple_of(data)) {
                            self.within([tensor, pipeline, context, data], batch / data, &mut groups);
                        }
                    }
                }
            }
        }
        groups
    }

    /// A degree: a divisor of what is left, or as the plan has it.
    fn degree(&self, knob: usize, own: u64, of: u64) -> Vec<u64> {
        if self.kept(knob) {
            return if of.is_multiple_of(own) { vec![own] } else { Vec::new() };
        }
        if knob == 2 && !legal::pipelines(self.job) {
            return vec![1];
        }
        divisors(of)
    }

    fn within(&self, [tensor, pipeline, context, data]: [u64; 4], each: u64, groups: &mut Vec<DegreeGroup>) {
        for sequence in self.sequences(tensor) {
            for (expert, expert_tensor) in self.experts(tensor, data * context * tensor) {
                for micro in self.micros(each) {
                    let accumulation = each / micro;
                    groups.push(DegreeGroup {
                        data,
                        tensor,
                        pipeline,
                        context,
                        expert,
                        expert_tensor,
                        sequence,
                        micro,
                        accumulation,
                    });
                }
            }
        }
    }

    fn sequences(&self, tensor: u64) -> Vec<bool> {
        match (tensor > 1, self.kept(6)) {
            (false, _) => vec![false],
            // A plan without tensor parallelism has no say of its own.
            (true, true) if self.own.tensor > 1 => vec![self.own.sequence],
            (true, _) if legal::needs_sequence_parallel(self.job) => vec![true],
            (true, _) if !self.job.profile.splits_sequence() => vec![false],
            (true, _) => vec![false, true],
        }
    }

    /// Experts are shared out over ranks that divide them; each one's matrices by tensor parallelism, or not.
    fn experts(&self, tensor: u64, ranks: u64) -> Vec<(u64, u64)> {
        let Some(moe) = self.job.decoder().and_then(|decoder| decoder.moe.as_ref()) else { return vec![(1, tensor)] };
        let expert = if self.kept(4) { vec![self.own.expert] } else { divisors(moe.experts) };
        let mut within = if self.kept(5) { vec![self.own.expert_tensor] } else { vec![1, tensor] };
        within.dedup();
        let pairs = expert.iter().flat_map(|expert| within.iter().map(move |within| (*expert, *within)));
        // Beside what the plan itself asks for.
        let ranks = |expert: u64| match self.job.profile.support.experts_in_tensor.is && expert != self.own.expert {
            true => tensor,
            false => ranks,
        };
        pairs.filter(|(expert, within)| ranks(*expert).is_multiple_of(expert * within)).collect()
    }

    fn micros(&self, each: u64) -> Vec<u64> {
        let all = if self.kept(10) { vec![self.own.micro] } else { divisors(each) };
        all.into_iter()
            .filter(|micro| each.is_multiple_of(*micro) && (!self.kept(11) || each / micro == self.own.accumulation))
            .collect()
    }

    /// Schedules with their chunks a stage.
    pub fn schedules(&self, group: &DegreeGroup) -> Vec<(Schedule, u64)> {
        let train = self.job.training.mode == Mode::Train;
        if group.pipeline == 1 || !train {
            return vec![(Schedule::OneFOneB, 1)];
        }
        let layers = self.job.architecture.layers();
        let chunks = if layers.is_multiple_of(group.pipeline) { divisors(layers / group.pipeline) } else { Vec::new() };
        // Megatron hands micro batches round in groups of a stage's number (core/pipeline_parallel/schedules.py,
        // forward_backward_pipelining_with_interleaving).
        let rounds = group.accumulation.is_multiple_of(group.pipeline);
        let interleaved = chunks.into_iter().filter(|chunks| *chunks > 1 && rounds);
        let plain = [(Schedule::OneFOneB, 1), (Schedule::Gpipe, 1)];
        let all = plain.into_iter().chain(interleaved.map(|chunks| (Schedule::Interleaved, chunks)));
        let own = |(schedule, chunks): &(Schedule, u64)| {
            self.own.pipeline == 1
                || ((!self.kept(8) || *schedule == self.own.schedule) && (!self.kept(9) || *chunks == self.own.chunks))
        };
        all.filter(own).collect()
    }

    /// Whether the smallest micro batch is run, or one without accumulation: no other needs less memory.
    pub fn is_frugal(&self, group: &DegreeGroup) -> bool {
        let each = group.micro.saturating_mul(group.accumulation);
        group.accumulation == 1 || self.micros(each).first() == Some(&group.micro)
    }

    /// What may be shared out over data-parallel ranks; what the plan itself asks for is always among it.
    pub fn shardings(&self, group: &DegreeGroup) -> Vec<Sharding> {
        if self.kept(7) {
            return vec![self.own.sharding];
        }
        if group.data * group.context == 1 || self.job.training.mode == Mode::Inference {
            return vec![Sharding::None];
        }
        let mut all = legal::shardings(self.job).to_vec();
        if !all.contains(&self.own.sharding) {
            all.push(self.own.sharding);
        }
        all
    }

    /// What may be recomputed; what the plan itself asks for is always among it.
    pub fn checkpointings(&self) -> Vec<Checkpointing> {
        if self.kept(12) || self.job.training.mode == Mode::Inference {
            return vec![self.own.checkpointing.clone()];
        }
        let mut all = vec![Checkpointing::None, Checkpointing::Selective, Checkpointing::Full];
        if self.job.profile.support.selective.is == RecomputeWord::SelectiveOp {
            all.insert(2, Checkpointing::SelectiveOp);
        }
        if !all.contains(&self.own.checkpointing) {
            all.push(self.own.checkpointing.clone());
        }
        all
    }

    /// Whether the framework lets both be in a pipeline of `group`, of which so much is shared out.
    pub fn allows(
        &self,
        group: &DegreeGroup,
        sharding: Sharding,
        (offload, checkpointing): (CpuOffload, &Checkpointing),
    ) -> bool {
        let held = || {
            offload != CpuOffload::Parameters || legal::holds_weights(self.job, sharding, group.data * group.context)
        };
        self.kept(13) || (legal::offloads(self.job, (sharding, group.pipeline), offload, checkpointing) && held())
    }

    /// What may lie in host memory.
    pub fn offloads(&self) -> Vec<CpuOffload> {
        match (self.kept(13), self.job.training.mode) {
            (true, _) => vec![self.own.offload],
            (false, Mode::Inference) => vec![CpuOffload::None, CpuOffload::Parameters],
            (false, Mode::Train) => CpuOffload::ALL.to_vec(),
        }
    }
}

/// The divisors of a number, ascending.
#[must_use]
pub fn divisors(of: u64) -> Vec<u64> {
    let mut low: Vec<u64> = (1..=of.isqrt()).filter(|candidate| of.is_multiple_of(*candidate)).collect();
    let high: Vec<u64> = low.iter().rev().map(|small| of / small).filter(|large| large * large != of).collect();
    low.extend(high);
    low
}

#[cfg(test)]
mod tests {
    use super::divisors;

    #[test]
    fn divisors_ascend() {
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(1), [1]);
    }
}
