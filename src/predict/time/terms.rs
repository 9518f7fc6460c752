//! The time of a step as named terms: classes of kernels, each collective, the bubble, the host.

use super::between::{Boundary, interleaves, transfers, transfers_in_turn};
use super::collectives::between_ranks;
use super::cost::{KernelClass, ModuleSharder, Passes};
use super::link::{LinkGroup, Volume};
use super::offload::REACHED;
use super::pass_costs::PassCosts;
use super::tape_terms::in_tapes;
use super::{Stage, StageGroup, StepTimeline, collectives};
use crate::catalog::LinkCurve;
use crate::plan::keywords::{CpuOffload, Mode, Sharding};
use crate::predict::job::Job;
use crate::predict::prediction::{KernelWork, StepTime, TimeFormula, TimePart, TimeSource, TimeTerm, Transfer};
use crate::predict::step::StepTapes;
use crate::predict::step::pipeline::is_whole;
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
pub(super) struct Moved {
    pub name: String,
    pub group: LinkGroup,
    /// Which share of the link's rate it is reckoned with.
    pub share: fn(&LinkCurve) -> f64,
    pub count: f64,
    pub bytes: f64,
    pub comm: Seconds,
    pub waits: Seconds,
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
    fn between_stages(&self, job: &Job, index: usize) -> Vec<Moved> {
        let (stages, boundary) = (job.stages.len() as u64, Boundary::of(job));
        if stages < 2 {
            return Vec::new();
        }
        let ways = if job.training.mode == Mode::Train { 2.0 } else { 1.0 };
        let passes = ways * job.batch.accumulation.saturating_mul(job.degrees.virtual_pipeline) as f64;
        let (sent, gathered) = (boundary.sent, boundary.gathered);
        let sends = passes * transfers_in_turn(job, index);
        let comm = sent.seconds * sends + gathered.seconds * passes;
        let waits =
            if interleaves(job) { self.sends } else { transfers(job, index).all() * job.batch.accumulation as f64 };
        // Where they are hidden, both are to the same share.
        let waited = waits.ratio_to(comm).unwrap_or(0.0);
        let moved = |name: &str, group, share, volume: Volume, count: f64| Moved {
            name: name.to_owned(),
            group,
            share,
            count,
            bytes: volume.bytes * count,
            comm: volume.seconds * count,
            waits: volume.seconds * (count * waited),
        };
        let neighbours = LinkGroup { ranks: 2, stride: job.degrees.num_gpus / stages };
        let behind = LinkGroup { ranks: boundary.parts, stride: 1 };
        vec![
            moved("activations between stages", neighbours, |curve| curve.point_to_point, sent, sends),
            moved("activations gathered behind sends", behind, |curve| curve.ring, gathered, passes),
        ]
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
            passes: own.host_passes(job),
            each_us: stack.host_us,
            reads: own.reads,
            gathers: ModuleSharder::of(job).is_some(),
        },
        source: TimeSource::Efficiency(stack.source.clone()),
        transfer: None,
    }
}

/// What data-parallel ranks exchange once a step.
fn exchanged(job: &Job, own: &Stage) -> Option<Moved> {
    if job.training.mode != Mode::Train {
        return None;
    }
    let exchange = between_ranks(job, own.weights, own.beside.left(own.card) + own.late(job));
    let degrees = &job.degrees;
    let ranks = degrees.shard_ranks.max(degrees.data.saturating_mul(degrees.context));
    let all = LinkGroup { ranks, stride: degrees.tensor };
    let shards = degrees.shard_ranks.max(1);
    let group = match degrees.sharding {
        Sharding::Zero3 if !is_whole(job) => {
            LinkGroup { ranks: ranks / shards, stride: degrees.tensor.saturating_mul(shards) }
        }
        _ => all,
    };
    let name = match degrees.sharding {
        Sharding::Zero3 if is_whole(job) => "weights gathered, gradients scattered",
        Sharding::None => "gradients reduced",
        Sharding::Zero1 | Sharding::Zero2 => "gradients scattered, weights gathered",
        Sharding::Zero3 => "gradients summed between groups",
    };
    (exchange.comm.all().0 > 0.0).then(|| Moved {
        name: name.to_owned(),
        group,
        share: |curve| curve.ring,
        count: exchange.runs,
        bytes: exchange.bytes,
        comm: exchange.comm.all(),
        waits: collectives(job, own),
    })
}

impl Moved {
    fn term(self, job: &Job) -> TimeTerm {
        let (link, curve) = self.group.link(job);
        let share = (self.share)(curve);
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
    /// Bytes of the whole tensors, over the step.
    pub bytes: f64,
    /// How often gradients and weights go over the step, each counted.
    pub runs: f64,
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

    const PLANS: [&str; 10] = [
        "model: {preset: gpt2, batch_size: 8}",
        "model: {preset: llama-3-8b, batch_size: 16}\ncluster: {num_gpus: 8}\ndistribution: {strategy: fsdp}",
        "model: {preset: llama-3-8b, batch_size: 32, framework: megatron}\ncluster: {num_gpus: 16}\n\
         distribution: {tensor_parallel: 2, pipeline_parallel: 4, context_parallel: 2}\ntraining: {micro_batch_size: 1}",
        "model: {preset: mixtral-8x7b, batch_size: 16, framework: megatron}\ncluster: {num_gpus: 16}\n\
         distribution: {expert_parallel: 8, tensor_parallel: 1}\ntraining: {micro_batch_size: 1}",
        "model: {preset: llama-3-8b, batch_size: 8}\ntraining: {cpu_offload: optimizer}",
        "model: {preset: llama-3-70b, batch_size: 8}\ntraining: {mode: inference}\ncluster: {num_gpus: 8}\n\
         distribution: {tensor_parallel: 8}",
        "model: {preset: llama-3-8b, batch_size: 8}\ncluster: {num_gpus: 8}\ndistribution: {sharding: zero3}\n\
         training: {precision: bf16, reference_model: true, activation_checkpointing: full}",
        "model: {preset: llama-3-8b, batch_size: 8}\ncluster: {num_gpus: 8}\ndistribution: {tensor_parallel: 2}\n\
         training: {reference_model: true, lora: {rank: 8}}",
        "model: {preset: mixtral-8x7b, batch_size: 8}\ncluster: {num_gpus: 8}\ndistribution: {sharding: zero2}\n\
         training: {precision: bf16, reference_model: true}",
        "model: {preset: llama-3-8b, batch_size: 32, framework: megatron}\ncluster: {num_gpus: 8}\n\
         training: {micro_batch_size: 1, reference_model: true}\n\
         distribution: {tensor_parallel: 2, pipeline_parallel: 2, virtual_pipeline: 4, pipeline_schedule: interleaved}",
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

    fn term(prediction: &Prediction, name: &str) -> TimeTerm {
        let found = prediction.time_terms.iter().find(|term| term.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", prediction.time_terms)).clone()
    }

    /// Mixtral's 46 702 792 704 parameters but for 32 layers of 8 experts of three matrices of 4096 x 14336, fp32 gradients: its
    /// experts are on one rank each. With a second replica of the experts an eighth of them goes too.
    #[test]
    fn experts_without_a_replica_are_not_exchanged() {
        let (all, experts) = (46_702_792_704.0, 32.0 * 8.0 * 3.0 * 4096.0 * 14336.0);
        for (gpus, moved) in [(8, all - experts), (16, all - experts + experts / 8.0)] {
            let text = format!(
                "model: {{preset: mixtral-8x7b, batch_size: 16, framework: megatron}}\ncluster: {{num_gpus: {gpus}}}\n\
                 distribution: {{expert_parallel: 8, tensor_parallel: 1}}\ntraining: {{micro_batch_size: 1}}"
            );
            let bytes = term(&predicted(&text), "gradients reduced").transfer.unwrap().bytes.as_f64();
            assert!((bytes / (4.0 * moved) - 1.0).abs() < 1e-3, "{gpus}: {bytes}");
        }
    }

    /// Llama 3 8B has 8 030 261 248 parameters: gradients go in fp32, weights come in bf16.
    #[test]
    fn an_exchange_says_the_weights_that_are_gathered_too() {
        let of = |more: &str| {
            predicted(&format!(
                "model: {{preset: llama-3-8b, batch_size: 16, framework: megatron}}\ncluster: {{num_gpus: 8}}\n\
                 distribution: {{sharding: zero1{more}}}\ntraining: {{micro_batch_size: 1}}"
            ))
        };
        let moved = term(&of(""), "gradients scattered, weights gathered").transfer.unwrap();
        assert!((moved.bytes.as_f64() / (6.0 * 8_030_261_248.0) - 1.0).abs() < 1e-3, "{moved:?}");
        assert!((moved.count - 2.0).abs() < 1e-9);
    }

    /// Two stages and 16 micro batches of 2048 tokens of 4096 channels: each stage waits for 16 transfers of 16.8 MB each way, and
    /// the share of the link that is printed is the one that they are reckoned with.
    #[test]
    fn sends_between_stages_say_what_they_take() {
        let prediction = predicted(
            "model: {preset: llama-3-8b, batch_size: 16, sequence_length: 2048, framework: megatron}\n\
             cluster: {num_gpus: 2}\ndistribution: {pipeline_parallel: 2}\ntraining: {micro_batch_size: 1}",
        );
        let term = term(&prediction, "activations between stages");
        let moved = term.transfer.unwrap();
        assert!((moved.count - 32.0).abs() < 1e-9 && moved.bytes.0 == 32 * 2048 * 4096 * 2, "{moved:?}");
        let TimeFormula::Collective { each_way, share, .. } = term.formula else { panic!() };
        let least = moved.bytes.as_f64() / (each_way.0 * share);
        // The rest is a latency of microseconds each.
        assert!(term.seconds.0 >= least && term.seconds.0 < least + 32.0 * 25e-6, "{} {least}", term.seconds);
    }

    /// What a micro batch waits for its host, as often as there are micro batches, is the term.
    #[test]
    fn waiting_for_the_host_adds_up() {
        for (text, micro_batches) in [(PLANS[2], 32.0), (PLANS[3], 1.0)] {
            let term = term(&predicted(text), "waiting for the host");
            let TimeFormula::Launch { passes, reads, .. } = term.formula else { panic!() };
            let waits: f64 = passes.iter().map(|pass| pass.waits.0).sum();
            assert!((micro_batches * (waits + reads.0) / term.seconds.0 - 1.0).abs() < 1e-6, "{text}");
            for pass in passes.iter().filter(|pass| !pass.is_held) {
                assert!((pass.waits.0 - (pass.host.0 - pass.busy.0).max(0.0)).abs() < 1e-9, "{pass:?}");
            }
        }
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
