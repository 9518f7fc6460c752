//! Collectives within the passes as terms of a step's time, by kind.

use super::collectives::{backward_gathers, each_within, sharded};
use super::cost::Pass;
use super::link::LinkGroup;
use super::terms::{Moved, StepParts};
use super::{Weights, count};
use crate::catalog::LinkCurve;
use crate::model::{CollectiveKind, RankGroup, Tape};
use crate::plan::keywords::Mode;
use crate::predict::step::accumulates_whole;
use crate::predict::step::play::Recompute;

/// Collectives that a micro batch runs in each tape of the stage, summed by kind over the step.
pub(super) fn in_tapes(parts: &StepParts<'_>) -> Vec<Moved> {
    let job = parts.job;
    let mut all: Vec<Moved> = Vec::new();
    for TapeRun { tape, pass, again, times, train } in tapes(parts) {
        let times = times * job.batch.accumulation as f64;
        let within = each_within(job, tape, pass, (train, again), |one, group, runs, comm, waits| {
            add(
                &mut all,
                Moved {
                    name: format!("{} {}", word(one.group), one.kind.word()),
                    group,
                    share: share_of(one.kind),
                    count: runs * times,
                    bytes: one.bytes as f64 * runs * times,
                    comm: comm.all() * times,
                    waits: waits.all() * times,
                },
            );
        });
        let weights = Weights::of(job, tape);
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
                    share: |curve| curve.ring,
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

/// A tape of the stage as a micro batch runs it.
struct TapeRun<'a> {
    tape: &'a Tape,
    pass: &'a Pass,
    /// What of it runs again.
    again: Recompute,
    /// How often.
    times: f64,
    /// Backward too.
    train: bool,
}

/// Tapes of the stage as a micro batch runs them, and the reference model's, which are the same forward alone.
fn tapes<'a>(parts: &StepParts<'a>) -> Vec<TapeRun<'a>> {
    let (job, step, passes) = (parts.job, parts.step, parts.passes);
    let train = job.training.mode == Mode::Train;
    let once = |tape, pass| TapeRun { tape, pass, again: Recompute::Nothing, times: 1.0, train };
    let mut counts = vec![[0; 2]; passes.kinds.len()];
    count(job, step, parts.largest, &mut counts);
    let mut all = Vec::new();
    for (kind, counts) in counts.iter().enumerate() {
        for (again, times) in counts.iter().enumerate().filter(|(_, times)| **times > 0) {
            if let Some(passed) = &passes.kinds[kind][again] {
                let run = once(&step.walk.kinds[kind].1, &passed.pass);
                let again = if again == 1 { step.recompute } else { Recompute::Nothing };
                all.push(TapeRun { again, times: *times as f64, ..run });
            }
        }
    }
    if parts.largest == 0 {
        all.push(once(&step.walk.first, &passes.first.pass));
    }
    if parts.largest + 1 == job.stages.len() {
        all.push(once(&step.walk.last, &passes.last.pass));
    }
    if job.training.reference_pass {
        let forward = |run: &TapeRun<'a>| TapeRun { times: run.times, train: false, ..once(run.tape, run.pass) };
        let reference: Vec<TapeRun<'a>> = all.iter().map(forward).collect();
        all.extend(reference);
    }
    all
}

/// The share of a link's rate that such collectives reach.
fn share_of(kind: CollectiveKind) -> fn(&LinkCurve) -> f64 {
    match kind {
        CollectiveKind::AllToAll | CollectiveKind::HeadsForTokens => |curve| curve.all_to_all,
        _ => |curve| curve.ring,
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
