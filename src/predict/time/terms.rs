//! The time of a step as named terms: classes of kernels, each collective, the bubble, the host.

use super::collectives::{backward_gathers, between_ranks, each_within, sharded};
use super::cost::{KernelClass, ModuleSharder, Pass, Passes};
use super::link::LinkGroup;
use super::offload::REACHED;
use super::pass_costs::PassCosts;
use super::{Stage, StageGroup, StepTimeline, boundary, collectives, count, interleaves, transfers};
use crate::catalog::LinkCurve;
use crate::model::{CollectiveKind, RankGroup, Tape};
use crate::plan::keywords::{CpuOffload, Mode, Sharding};
use crate::predict::job::Job;
use crate::predict::prediction::{KernelWork, StepTime, TimeFormula, TimePart, TimeSource, TimeTerm, Transfer};
use crate::predict::step::StepTapes;
use crate::predict::step::accumulates_whole;
use crate::predict::step::play::Recompute;
use crate::units::{Bytes, Flops, Seconds};

/// What the terms are made from; `largest` is the stage whose GPU they are of.
pub(in crate::predict) struct StepParts<'a> {
    pub job: &'a Job,
    pub step: &'a StepTapes,
    pub passes: &'a Passes,
    pub classes: Vec<KernelClass>,
    pub largest: usize,
}

/// A collective over a step.
#[derive(Clone)]
struct Moved {
    name: String,
    group: LinkGroup,
    kind: CollectiveKind,
    count: f64,
    bytes: f64,
    comm: Seconds,
    waits: Seconds,
}

impl StepTimeline {
    /// The terms of a step that takes `time`: kernels, then what the step waits for.
    pub(in crate::predict) fn terms(&self, parts: &StepParts<'_>, time: &StepTime) -> Vec<TimeTerm> {
        let job = parts.job;
        let own = self.stages.iter().rfind(|alike| alike.index <= parts.largest);
        let own = own.map_or_else(Stage::default, |alike| alike.stage);
        let mut terms: Vec<TimeTerm> = parts.classes.iter().map(|class| class.term(job)).collect();
        let mut moved = in_tapes(parts);
        moved.extend(self.between_stages(job, parts.largest));
        moved.extend(exchanged(job, &own));
        terms.extend(moved.into_iter().map(|one| one.term(job)));
        let host = self.host(job, parts.step);
        terms.push(TimeTerm {
            name: "host memory".to_owned(),
            part: TimePart::Offload,
            seconds: host,
            hidden: Seconds::ZERO,
            efficiency: Some(REACHED),
            formula: TimeFormula::Host {
                share: REACHED,
                each_way: job.hardware.gpu.host_link,
                updates: job.training.cpu_offload != CpuOffload::Activations,
            },
            source: TimeSource::Stated("ZeRO-Offload, arXiv 2101.06840, table 4; NVIDIA/nvbandwidth, README.md"),
            transfer: None,
        });
        terms.push(self.bubble(job, time));
        terms.push(launch(job, &own, time));
        terms.retain(|term| term.seconds.0 > 0.0 || term.hidden.0 > 0.0);
        terms
    }

    /// Activations and their gradients that stages send each other.
    fn between_stages(&self, job: &Job, index: usize) -> Option<Moved> {
        let stages = job.stages.len() as u64;
        let waits =
            if interleaves(job) { self.sends } else { transfers(job, index).all() * job.batch.accumulation as f64 };
        (stages > 1).then(|| Moved {
            name: "activations between stages".to_owned(),
            group: LinkGroup { ranks: 2, stride: job.degrees.num_gpus / stages },
            kind: CollectiveKind::Ring,
            count: job.batch.accumulation.saturating_mul(job.degrees.virtual_pipeline) as f64,
            bytes: 0.0,
            comm: (boundary(job).all() * (job.batch.accumulation.saturating_mul(job.degrees.virtual_pipeline)) as f64)
                .max(waits),
            waits,
        })
    }

    fn bubble(&self, job: &Job, time: &StepTime) -> TimeTerm {
        let each = |alike: &StageGroup| (alike.index, alike.index + alike.count - 1, alike.stage.seconds(job));
        TimeTerm {
            name: "pipeline bubble".to_owned(),
            part: TimePart::Bubble,
            seconds: time.bubble,
            hidden: Seconds::ZERO,
            efficiency: None,
            formula: TimeFormula::Bubble {
                stages: job.stages.len(),
                chunks: job.degrees.virtual_pipeline,
                micro_batches: job.batch.accumulation,
                each: self.stages.iter().map(each).collect(),
            },
            source: TimeSource::Stated("arXiv 2104.04473, section 2.2"),
            transfer: None,
        }
    }
}

/// Time that the GPU waits for the host.
fn launch(job: &Job, own: &Stage, time: &StepTime) -> TimeTerm {
    let stack = &job.speed.stack;
    TimeTerm {
        name: "waiting for the host".to_owned(),
        part: TimePart::Host,
        seconds: time.launch,
        hidden: Seconds::ZERO,
        efficiency: None,
        formula: TimeFormula::Launch {
            host: own.host.all(),
            each_us: stack.host_us,
            busy: own.busy(),
            reads: own.reads,
            gathers: ModuleSharder::of(job).is_some(),
        },
        source: TimeSource::Efficiency(stack.source.clone()),
        transfer: None,
    }
}

/// Collectives that a micro batch runs in each tape of the stage, summed by kind over the step.
fn in_tapes(parts: &StepParts<'_>) -> Vec<Moved> {
    let job = parts.job;
    let train = job.training.mode == Mode::Train;
    let mut all: Vec<Moved> = Vec::new();
    for (tape, pass, again, times) in tapes(parts) {
        let times = times * job.batch.accumulation as f64;
        let within = each_within(job, tape, pass, (train, again), |one, group, runs, comm, waits| {
            add(
                &mut all,
                Moved {
                    name: format!("{} {}", word(one.group), one.kind.word()),
                    group,
                    kind: one.kind,
                    count: runs * times,
                    bytes: one.bytes as f64 * runs * times,
                    comm: comm.all() * times,
                    waits: waits.all() * times,
                },
            );
        });
        let weights = super::Weights::of(job, tape);
        let gathers = backward_gathers(job, tape, (train, again));
        let shared = sharded(job, weights, pass, &within, gathers);
        if shared.comm.all().0 > 0.0 {
            let stays = job.degrees.stays_gathered;
            let once = if accumulates_whole(job) { 1.0 / job.batch.accumulation as f64 } else { 1.0 };
            let passes = if stays { once } else { 1.0 + f64::from(gathers.unwrap_or(0)) };
            let scatters = if train { once } else { 0.0 };
            let gathered = weights.all_gathered(job.storage.compute.bytes() as f64) * passes;
            let scattered = weights.whole(job.storage.reduce.bytes() as f64) * scatters;
            add(
                &mut all,
                Moved {
                    name: "weights gathered, gradients scattered".to_owned(),
                    group: LinkGroup { ranks: job.degrees.shard_ranks, stride: job.degrees.tensor },
                    kind: CollectiveKind::AllGather,
                    count: (passes + scatters) * times,
                    bytes: (gathered + scattered) * times,
                    comm: shared.comm.all() * times,
                    waits: shared.waits.all() * times,
                },
            );
        }
    }
    all
}

fn add(all: &mut Vec<Moved>, more: Moved) {
    match all.iter_mut().find(|known| known.name == more.name) {
        Some(known) => {
            known.count += more.count;
            known.bytes += more.bytes;
            known.comm += more.comm;
            known.waits += more.waits;
        }
        None => all.push(more),
    }
}

/// Tapes of the stage with their pass, what of them runs again, and how often a micro batch runs them.
fn tapes<'a>(parts: &StepParts<'a>) -> Vec<(&'a Tape, &'a Pass, Recompute, f64)> {
    let (job, step, passes) = (parts.job, parts.step, parts.passes);
    let mut counts = vec![[0; 2]; passes.kinds.len()];
    count(job, step, parts.largest, &mut counts);
    let mut all = Vec::new();
    for (kind, counts) in counts.iter().enumerate() {
        for (again, times) in counts.iter().enumerate().filter(|(_, times)| **times > 0) {
            if let Some(passed) = &passes.kinds[kind][again] {
                let recompute = if again == 1 { step.recompute } else { Recompute::Nothing };
                all.push((&step.walk.kinds[kind].1, &passed.pass, recompute, *times as f64));
            }
        }
    }
    if parts.largest == 0 {
        all.push((&step.walk.first, &passes.first.pass, Recompute::Nothing, 1.0));
    }
    if parts.largest + 1 == job.stages.len() {
        all.push((&step.walk.last, &passes.last.pass, Recompute::Nothing, 1.0));
    }
    all
}

/// What data-parallel ranks exchange once a step.
fn exchanged(job: &Job, own: &Stage) -> Option<Moved> {
    if job.training.mode != Mode::Train {
        return None;
    }
    let exchange = between_ranks(job, own.weights, own.beside.left(own.card) + own.late(job));
    let degrees = &job.degrees;
    let ranks = degrees.shard_ranks.max(degrees.data.saturating_mul(degrees.context));
    let name = match degrees.sharding {
        Sharding::None => "gradients reduced",
        Sharding::Zero1 | Sharding::Zero2 => "gradients scattered, weights gathered",
        Sharding::Zero3 => "gradients summed between groups",
    };
    (exchange.comm.all().0 > 0.0).then(|| Moved {
        name: name.to_owned(),
        group: LinkGroup { ranks, stride: degrees.tensor },
        kind: if degrees.sharding == Sharding::None { CollectiveKind::AllReduce } else { CollectiveKind::AllGather },
        count: 1.0,
        bytes: own.weights.whole(job.storage.exchanged.bytes() as f64),
        comm: exchange.comm.all(),
        waits: collectives(job, own),
    })
}

impl Moved {
    fn term(self, job: &Job) -> TimeTerm {
        let (link, curve) = self.group.link(job);
        let share = of_kind(curve, self.kind);
        let hidden = (self.comm - self.waits).max(Seconds::ZERO);
        let hides = hidden.ratio_to(self.comm).unwrap_or(0.0);
        let bytes = Bytes::from_f64(self.bytes);
        let ranks = self.group.ranks;
        TimeTerm {
            formula: TimeFormula::Collective {
                runs: self.count,
                ranks,
                bytes: if self.bytes > 0.0 { bytes } else { Bytes::ZERO },
                link: link.name.clone(),
                share,
                each_way: link.each_way,
                seconds: self.comm,
                beside: hides,
            },
            name: self.name,
            part: TimePart::Communication,
            seconds: self.waits,
            hidden,
            efficiency: Some(share),
            source: TimeSource::Efficiency(curve.source.clone()),
            transfer: Some(Transfer { bytes, count: self.count, ranks, link: link.name.clone() }),
        }
    }
}

const fn of_kind(curve: &LinkCurve, kind: CollectiveKind) -> f64 {
    match kind {
        CollectiveKind::AllToAll | CollectiveKind::HeadsForTokens => curve.all_to_all,
        _ => curve.ring,
    }
}

const fn word(group: RankGroup) -> &'static str {
    match group {
        RankGroup::Tensor => "tensor-parallel",
        RankGroup::Context => "context-parallel",
        RankGroup::ContextPair => "context-parallel pairs",
        RankGroup::ContextPairs => "context-parallel ring of pairs",
        RankGroup::Expert => "expert-parallel",
    }
}

impl KernelClass {
    fn term(&self, job: &Job) -> TimeTerm {
        let work = if self.is_arithmetic {
            KernelWork::Arithmetic(Flops(self.flops), self.peak)
        } else {
            KernelWork::Traffic(Bytes(self.bytes), job.hardware.gpu.bandwidth)
        };
        TimeTerm {
            name: self.name.clone(),
            part: TimePart::Kernels,
            seconds: self.seconds,
            hidden: Seconds::ZERO,
            efficiency: Some(self.sustained),
            formula: TimeFormula::Kernels { count: self.count, work, sustained: self.sustained, seconds: self.seconds },
            source: TimeSource::Efficiency(self.source.clone()),
            transfer: None,
        }
    }
}

/// Sums of a pass's collectives and what the step waits for of them.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::predict) struct Exchange {
    pub comm: PassCosts,
    pub waits: Seconds,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::{Document, plan_of};
    use crate::predict::{Prediction, of};

    fn predicted(text: &str) -> Prediction {
        let plan = plan_of(&Document::parse(text).unwrap(), Path::new("")).unwrap();
        of(&plan, &Catalog::embedded().unwrap()).unwrap()
    }

    const PLANS: [&str; 6] = [
        "model: {preset: gpt2, batch_size: 8}",
        "model: {preset: llama-3-8b, batch_size: 16}\ncluster: {num_gpus: 8}\ndistribution: {strategy: fsdp}",
        "model: {preset: llama-3-8b, batch_size: 32, framework: megatron}\ncluster: {num_gpus: 16}\n\
         distribution: {tensor_parallel: 2, pipeline_parallel: 4, context_parallel: 2}\ntraining: {micro_batch_size: 1}",
        "model: {preset: mixtral-8x7b, batch_size: 16, framework: megatron}\ncluster: {num_gpus: 16}\n\
         distribution: {expert_parallel: 8, tensor_parallel: 1}\ntraining: {micro_batch_size: 1}",
        "model: {preset: llama-3-8b, batch_size: 8}\ntraining: {cpu_offload: optimizer}",
        "model: {preset: llama-3-70b, batch_size: 8}\ntraining: {mode: inference}\ncluster: {num_gpus: 8}\n\
         distribution: {tensor_parallel: 8}",
    ];

    #[test]
    fn the_terms_sum_to_the_step_and_to_its_parts() {
        for text in PLANS {
            let prediction = predicted(text);
            let time = &prediction.time;
            let sum = |which: &dyn Fn(&TimeTerm) -> bool| -> f64 {
                prediction.time_terms.iter().filter(|term| which(term)).map(|term| term.seconds.0).sum()
            };
            let near = |one: f64, other: f64| (one - other).abs() < 1e-6 * time.step.0;
            let kernels = sum(&|term| term.part == TimePart::Kernels);
            assert!(near(kernels, time.compute.0 + time.memory_bound.0), "{text}: {kernels}");
            let waits = sum(&|term| matches!(term.part, TimePart::Communication | TimePart::Offload));
            assert!(near(waits, time.communication.0), "{text}: {waits} {:?}", prediction.time_terms);
            assert!(near(sum(&|_| true), time.step.0), "{text}");
        }
    }

    /// Autocast makes a 16-bit copy of a weight in the name of the matmul that reads it: the copy is no matmul, and the matmul
    /// no copy. One sample of 1024 tokens of Llama 3 8B: 32 blocks of 218 103 808 weights and a head of 525 336 576, 6
    /// operations each.
    #[test]
    fn a_matmul_is_in_its_own_class_beside_the_cast_of_its_weight() {
        for precision in ["bf16", "bf16-mixed"] {
            let text = format!(
                "model: {{preset: llama-3-8b, batch_size: 1, sequence_length: 1024}}\ntraining: {{precision: {precision}}}"
            );
            let terms = predicted(&text).time_terms;
            let term = terms.iter().find(|term| term.name == "matrix multiplications in bf16").unwrap();
            let TimeFormula::Kernels { work: KernelWork::Arithmetic(flops, _), .. } = term.formula else {
                panic!("{term:?}")
            };
            assert!((flops.0 / (6.0 * 1024.0 * 7_504_658_432.0) - 1.0).abs() < 0.01, "{precision}: {flops:?}");
        }
    }

    /// Llama 3 8B over 8 ranks: 8.03e9 parameters in bf16 are gathered twice, and scattered in fp32 once: 16.06 GB + 16.06 GB
    /// + 32.1 GB.
    #[test]
    fn a_collective_says_its_bytes_ranks_and_link() {
        let prediction = predicted(PLANS[1]);
        let term = prediction.time_terms.iter().find(|term| term.transfer.is_some()).unwrap();
        let moved = term.transfer.as_ref().unwrap();
        assert_eq!((moved.ranks, moved.link.as_str()), (8, "nvlink_4"));
        let least = 2.0 * 2.0 * 8.03e9;
        assert!(moved.bytes.as_f64() >= least && moved.bytes.as_f64() < least + 4.0 * 8.1e9, "{moved:?}");
        let formula = term.formula.to_string();
        assert!(formula.contains("among 8 ranks") && formula.contains("nvlink_4"), "{formula}");
    }

    /// Under adapters the frozen weights are gathered all the same: 16.06 GB twice, and of the adapters (32 layers of two
    /// matrices of rank 8, 4096 wide, and of 4096 and 1024 rows) a few MB.
    #[test]
    fn frozen_weights_are_gathered_too() {
        let prediction = predicted(
            "model: {preset: llama-3-8b, batch_size: 16}\ncluster: {num_gpus: 8}\ndistribution: {strategy: fsdp}\n\
             training: {lora: {rank: 8, targets: [q_proj, v_proj]}}",
        );
        let moved: f64 =
            prediction.time_terms.iter().filter_map(|term| term.transfer.as_ref()).map(|one| one.bytes.as_f64()).sum();
        assert!((moved / (2.0 * 16.06e9) - 1.0).abs() < 0.01, "{moved}");
    }
}
