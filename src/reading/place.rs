//! Where a training thread spends its time, by samples of its Python stack.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{HookedRun, Reading};
use crate::units::{Fraction, Seconds};

/// What a training thread does at a place of its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It waits for a batch of its data loader.
    Data,
    /// It waits for the device: `.item()`, `.cpu()`.
    Synchronization,
    /// It writes or reads a checkpoint.
    Checkpoint,
    /// It evaluates.
    Evaluation,
    /// Python collects garbage.
    Gc,
    /// It waits for other ranks.
    Collective,
    /// The model's forward pass.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer's step.
    Optimizer,
    /// The work on a batch that is larger than the usual ones.
    Batch,
    /// Code of the script.
    Code,
    /// It waits in the kernel, for a disk, a connection, another process: what `/proc` tells without the hook.
    System,
}

impl Activity {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Data,
        Self::Synchronization,
        Self::Checkpoint,
        Self::Evaluation,
        Self::Gc,
        Self::Collective,
        Self::Forward,
        Self::Backward,
        Self::Optimizer,
        Self::Batch,
        Self::Code,
        Self::System,
    ];

    /// Those in which nothing is trained, whatever other ranks do.
    pub const ASIDE: [Self; 4] = [Self::Data, Self::Checkpoint, Self::Evaluation, Self::Gc];

    /// The word for it in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Synchronization => "synchronization",
            Self::Checkpoint => "checkpoint",
            Self::Evaluation => "evaluation",
            Self::Gc => "gc",
            Self::Collective => "collective",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Batch => "batch",
            Self::Code => "code",
            Self::System => "system",
        }
    }

    /// Whether it is what every step consists of, and no cause of a late one.
    #[must_use]
    pub const fn is_work(self) -> bool {
        matches!(self, Self::Forward | Self::Backward | Self::Optimizer)
    }

    /// Whether a run that does it makes no steps because it is meant to.
    #[must_use]
    pub const fn is_intended_pause(self) -> bool {
        matches!(self, Self::Evaluation | Self::Checkpoint)
    }
}

/// A place of the training's code.
#[derive(Debug, Clone, PartialEq)]
pub struct CodePlace {
    /// What the thread does there.
    pub activity: Activity,
    /// The call: `DataLoader.__next__`, `.item()`, `evaluate`.
    pub call: String,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// Its share of the time of steps that are not late.
    pub share: Fraction,
}

impl CodePlace {
    /// `train.py:88`; of a library its folder, too: `transformers/trainer.py:2241`.
    #[must_use]
    pub fn location(&self) -> String {
        let path = Path::new(&self.file);
        let name = |path: Option<&Path>| path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let file = name(Some(path)).unwrap_or_else(|| self.file.clone());
        let library = self.file.contains("/site-packages/") || self.file.contains("/dist-packages/");
        match name(path.parent()).filter(|_| library) {
            Some(folder) => format!("{folder}/{file}:{}", self.line),
            None => format!("{file}:{}", self.line),
        }
    }

    /// What the thread does there, in words.
    #[must_use]
    pub fn doing(&self) -> String {
        match self.activity {
            Activity::Checkpoint if self.call.contains("load") => format!("checkpoint loading ({})", self.call),
            Activity::Checkpoint => format!("checkpoint saving ({})", self.call),
            Activity::Evaluation if self.call.is_empty() => "evaluation".to_owned(),
            Activity::Evaluation => format!("evaluation ({})", self.call),
            Activity::Gc => "garbage collection".to_owned(),
            _ => self.call.clone(),
        }
    }

    /// That a step spends its time there: `38 % of the step in DataLoader.__next__, train.py:88`.
    #[must_use]
    pub fn of_step(&self) -> String {
        format!("{:.0} % of the step in {}", self.share.percent(), self.words())
    }

    /// Both: `DataLoader.__next__, train.py:88`.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{}, {}", self.doing(), self.location())
    }
}

/// A step that was late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LateStep {
    /// Which, from the process's beginning.
    pub step: u64,
    /// How long it took.
    pub took: Seconds,
    /// The place where it was seen most, among [`HookPlaces::places`].
    pub place: usize,
    /// How long before the message it ended.
    pub ago: Seconds,
}

/// A step that does not end.
#[derive(Debug, Clone, PartialEq)]
pub struct HookStall {
    /// How long it lasts by now.
    pub lasting: Seconds,
    /// Where the thread is, among [`HookPlaces::places`].
    pub place: usize,
    /// How long it has been there.
    pub here: Seconds,
    /// What PyTorch's flight recorder says of collectives.
    pub collective: Option<PendingCollective>,
}

/// The state of a rank's collectives, by PyTorch's NCCL flight recorder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingCollective {
    /// The oldest that has not ended: its call (`nccl:all_reduce`).
    pub call: Option<String>,
    /// Its process group.
    pub group: String,
    /// Its number in the group.
    pub sequence: i64,
    /// The newest that this rank has begun, by process group.
    pub enqueued: Vec<(String, i64)>,
}

/// What samples of a training thread's stack tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookPlaces {
    /// The process's rank.
    pub rank: Option<u32>,
    /// The pid of the `memwall run` that started it.
    pub launcher: Option<u32>,
    /// Optimizer steps since the process began, as it told this.
    pub step: u64,
    /// What a step takes as a rule.
    pub usual: Option<Seconds>,
    /// Samples in steps that were not late.
    pub samples: u64,
    /// Places in late steps, in a stall, and those that take most of other steps.
    pub places: Vec<CodePlace>,
    /// Steps that were late since the process began.
    pub late_steps: u64,
    /// The newest of those that were seen anywhere, oldest first.
    pub late: Vec<LateStep>,
    /// The step that does not end now.
    pub stall: Option<HookStall>,
}

/// Fewer samples of a stack tell no shares.
pub const FEWEST_SAMPLES: u64 = 20;

/// Less of a step in code of the script may be work that no module does: its loss.
const LEAST_OWN: f64 = 0.25;

impl HookPlaces {
    /// The code beside a step's work that healthy steps spend a large part of their time in, the largest; none of few
    /// samples. A wait for the device or for other ranks is none: it may be their work.
    #[must_use]
    pub fn own_code(&self) -> Option<&CodePlace> {
        let told = self.places.iter().filter(|place| self.samples >= FEWEST_SAMPLES && place.share.0 >= LEAST_OWN);
        let own = told.filter(|place| {
            matches!(place.activity, Activity::Code | Activity::Checkpoint | Activity::Evaluation | Activity::Gc)
        });
        own.max_by(|one, other| one.share.0.total_cmp(&other.share.0))
    }

    /// Share of healthy steps in which it waits for a batch of its data loader; none of few samples.
    #[must_use]
    pub fn data_share(&self) -> Option<Fraction> {
        let loads = self.places.iter().filter(|place| place.activity == Activity::Data);
        (self.samples >= FEWEST_SAMPLES).then(|| Fraction(loads.map(|place| place.share.0).sum()))
    }
}

/// Why steps are late, or one does not end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCause {
    /// In words, with its file and line.
    pub words: String,
    /// What is done there.
    pub activity: Activity,
    /// The step does not end.
    pub stalls: bool,
    /// Share of all time that late steps took beyond the usual; none in a stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Fraction>,
}

impl StepCause {
    /// The share of all time that was lost to something other than work: of larger batches it is none.
    #[must_use]
    pub fn wasted(&self) -> Option<Fraction> {
        self.lost.filter(|_| self.activity != Activity::Batch)
    }
}

/// Steps that take so many times as long as others are not of their kind.
const OTHER_STEPS: f64 = 1.5;

impl HookedRun {
    /// What is told of places in healthy steps, where those are such as a step of now; `step` is what that takes. A run that
    /// has become slower makes late steps alone until what is usual has followed.
    fn places_of(&self, step: &Reading<Seconds>) -> Option<&HookPlaces> {
        let places = self.places.as_ref()?;
        let of_others = places
            .usual
            .zip(step.value())
            .is_some_and(|(usual, now)| now.0 > OTHER_STEPS * usual.0 || usual.0 > OTHER_STEPS * now.0);
        (!of_others).then_some(places)
    }

    /// Share of healthy steps in which it waits for a batch of its data loader.
    #[must_use]
    pub fn data_wait(&self, step: &Reading<Seconds>) -> Reading<Fraction> {
        let share = self.places_of(step).and_then(HookPlaces::data_share);
        share.map_or_else(Reading::not_read, |share| Reading::measured(share, self.placed))
    }

    /// The code beside a step's work that a large part of healthy steps goes to.
    #[must_use]
    pub fn own_code(&self, step: &Reading<Seconds>) -> Reading<CodePlace> {
        let place = self.places_of(step).and_then(HookPlaces::own_code);
        place.map_or_else(Reading::not_read, |place| Reading::measured(place.clone(), self.placed))
    }
}
