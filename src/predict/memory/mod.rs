//! A stage's memory over one step: the tapes of its layers, played one after another on
//! top of what the stage holds, up to the peak.

pub(in crate::predict) mod buffers;
pub(in crate::predict) mod companions;
pub(in crate::predict) mod few_bits;
mod offloaded;
pub(in crate::predict) mod overhead;
pub(in crate::predict) mod peak;
mod player;
pub(in crate::predict) mod replay;
pub(in crate::predict) mod reserved;
pub(in crate::predict) mod resident;
pub(in crate::predict) mod shards;
mod stage_run;
mod units;
pub(in crate::predict) mod zero_step;

use crate::plan::keywords::Mode;
use crate::predict::job::Job;
use crate::predict::memory::buffers::Buffers;
use crate::predict::memory::peak::Peak;
use crate::predict::memory::replay::CompanionBytes;
use crate::predict::memory::reserved::hole;
use crate::predict::memory::resident::Resident;
use crate::predict::memory::units::Units;
use crate::predict::prediction::{Phase, Place, TimelinePoint};
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use crate::predict::step::layers::Ends;
use crate::predict::step::outputs::kept;
use crate::predict::step::pipeline::{in_flight, inputs, left_over};
use crate::predict::step::play::{Groups, PassPeak};
pub(in crate::predict) use stage_run::{StageDetail, StageRun, resident_of};

/// Before anything runs.
pub(in crate::predict) const START: &str = "start";

/// Behind every layer.
const BEHIND: u64 = u64::MAX - 1;

struct Player<'a> {
    step: &'a StepTapes,
    train: bool,
    /// What stands before and behind the layers is called.
    ends: Ends,
    resident: Resident,
    /// What is there in every phase.
    base: u64,
    /// Of which library workspaces.
    workspaces: u64,
    in_flight: u64,
    /// What the last step left.
    left: u64,
    shared: u64,
    offload: bool,
    /// Named modules' saved tensors alone are sent to the host.
    by_module: bool,
    /// Layers from this one on keep theirs.
    offload_until: u64,
    peak: Peak,
    timeline: Vec<TimelinePoint>,
    /// The timeline is wanted.
    curve: bool,
    /// Each how many-th layer is a point of the timeline.
    stride: u64,
    /// Retained so far.
    retained: Groups,
    gradients: u64,
    buffers: Buffers,
    /// Where FSDP shares weights out.
    units: Option<Units>,
}

/// Plays stage `index` with what is asked of it.
pub(in crate::predict) fn stage(
    job: &Job,
    step: &StepTapes,
    index: usize,
    workspaces: u64,
    detail: StageDetail<'_>,
) -> StageRun {
    let layers = &job.stages[index];
    let list = job.stages[index].layers();
    let (first, last) = (index == 0, index + 1 == job.stages.len());
    let held = StageTapes { job, step, layers: list, first, last };
    let resident = resident_of(job, step, index);
    let inputs = inputs(job, step, first, last).saturating_add(step.walk.buffers);
    let kept = kept(job, step, last);
    let base = resident.lasting().0 + workspaces + inputs + kept;
    let stays = if resident.gradients_stay { resident.gradients.0 } else { 0 };
    let left = left_over(job, step, layers, first);
    let static_bytes = base - inputs
        + stays
        + left
        + resident.gradient_copies.0
        + resident.kv_cache.saturating_sub(resident.kv_cache_waiting).0;
    let train = job.training.mode == Mode::Train;
    let in_flight = if train { in_flight(job, index, &held) } else { 0 };
    let mut player = Player::of(&held, resident, base, in_flight);
    player.curve = detail.curve;
    player.workspaces = workspaces;
    // A point for each layer shown, there and back, and a handful beside.
    player.timeline.reserve(if detail.curve { 2 * held.layers.len().min(25) + 8 } else { 0 });
    player.left = left;
    player.start();
    player.forward(&held);
    let mut activations_end_of_forward = 0;
    if train {
        player.leave_autocast(&held);
        let output = if last { step.last.output } else { 0 };
        activations_end_of_forward = player.retained.iter().sum::<u64>() + player.shared + step.passed(BEHIND) + output;
        player.backward(&held);
        player.optimizer();
    }
    if player.peak.total == 0 {
        // A stage without layers between others: it holds what it has.
        player.meet(Phase::Forward, Place::Named("no layers"), &PassPeak::NONE, player.buffers.gathered(0), true);
    }
    player.show_summit();
    let models = (resident.reference + resident.frozen_models + resident.critic).0;
    let beside = CompanionBytes { workspaces, inputs, kept, models };
    StageRun {
        reserved: detail.reserved(&held, &beside, player.peak.total),
        fragmentation: detail.fragmentation,
        resident,
        workspaces,
        inputs,
        kept,
        hole: if last && train { hole(step, held.layers.last().map(|layer| step.layer(*layer))) } else { 0 },
        peak: player.peak,
        activations_end_of_forward,
        static_bytes,
        timeline: player.timeline,
    }
}
