//! What the hook inside of a training process tells: the run, its steps, its modules.

use serde::{Deserialize, Serialize};

use super::{
    Absence, HeldMemory, HookPlaces, Moment, OutOfMemory, ProcessExit, Progress, ProgressSource, Reading, StepPace,
    exit_words,
};
use crate::units::{Bytes, Seconds, SignedBytes, TokensPerSec};

/// One training process with the hook in it.
#[derive(Debug, Clone, PartialEq)]
pub struct HookedRun {
    /// Its pid, in its own namespace.
    pub pid: u32,
    /// When its hook was loaded, in seconds since the Unix epoch by its own clock. Another time under this pid is another
    /// process, or another program in it.
    pub began: Option<f64>,
    /// What it runs, once told.
    pub about: Option<HookAbout>,
    /// The newest step that was told.
    pub step: Option<HookStep>,
    /// How long its newest steps took.
    pub pace: StepPace,
    /// What it held after its steps.
    pub held: HeldMemory,
    /// Whether its steps take as many tokens each.
    pub tokens: TokensSeen,
    /// The newest sampled step, module by module.
    pub modules: Option<HookModules>,
    /// What it printed of its loss, wherever that goes.
    pub printed: Option<PrintedLoss>,
    /// Where its training thread spends its time.
    pub places: Option<HookPlaces>,
    /// When its places were told.
    pub placed: Moment,
    /// How it ended, once it has told.
    pub end: Option<HookEnd>,
    /// How and when it ended as the system has it, where somebody watched it.
    pub exit: Option<(ProcessExit, Moment)>,
    /// When it was heard last.
    pub heard: Moment,
}

/// How the tokens of a run's steps compare: batches that are padded to their longest sample differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokensSeen {
    /// Fewer than two steps have told them.
    #[default]
    Once,
    /// As many in every step.
    Alike,
    /// They have differed.
    Varying,
}

impl TokensSeen {
    /// After a step with `now` tokens behind one with `before`.
    #[must_use]
    pub fn then(self, before: Option<u64>, now: Option<u64>) -> Self {
        match (self, before, now) {
            (Self::Varying, ..) => Self::Varying,
            (_, Some(before), Some(now)) if before != now => Self::Varying,
            (_, Some(_), Some(_)) => Self::Alike,
            _ => self,
        }
    }
}

/// What a process trains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookAbout {
    /// Its rank and how many there are.
    pub rank: Option<u32>,
    /// Its rank on this machine.
    pub local_rank: Option<u32>,
    /// All ranks of the run.
    pub world: Option<u32>,
    /// The pid of the `memwall run` that started it.
    pub launcher: Option<u32>,
    /// How often torchrun had started the ranks again by then.
    pub restarts: u32,
    /// The pid of the torchrun that started it, in its own namespace.
    pub torchrun: Option<u32>,
    /// PyTorch's version.
    pub torch: String,
    /// The class of the model.
    pub model: Option<String>,
    /// The class of the optimizer.
    pub optimizer: String,
    /// The device of the parameters (`cuda:0`, `cpu`).
    pub device: String,
    /// What the device is called.
    pub device_name: Option<String>,
    /// Threads that compute, where the device is a CPU.
    pub threads: Option<u32>,
    /// Elements of all parameters, sharded ones whole.
    pub params: u64,
    /// Those with gradients.
    pub trainable: u64,
    /// False while only the optimizer's parameters are known: frozen ones are missing.
    pub params_are_all: bool,
    /// Some are quantised, several to an element, and counted as the weights that they stand for.
    pub counts_packed: bool,
    /// Bytes of parameters on this device.
    pub param_bytes: Bytes,
    /// Bytes of gradients between steps on this device.
    pub gradient_bytes: Bytes,
    /// Bytes of optimizer states on this device.
    pub optimizer_state_bytes: Bytes,
    /// Elements by type, the most first.
    pub dtypes: Vec<(String, u64)>,
    /// Whether its blocks are computed again for the backward pass, where its modules say so.
    pub checkpointed: Option<bool>,
    /// A second optimizer's class, and the parameters that it trains beside the model's.
    pub beside: Option<(String, u64)>,
    /// Why modules are not looked into.
    pub no_modules: Option<String>,
    /// Optimizer steps of this process from its beginning to its end, where its trainer knows them.
    pub total_steps: Option<u64>,
}

/// The newest loss that a process has printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrintedLoss {
    /// The loss.
    pub loss: f64,
    /// Where it became no number, if it is none since.
    pub turned: Option<PrintedTurn>,
}

/// The first of the newest printed losses that are no numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrintedTurn {
    /// What it is: NaN or an infinity.
    pub loss: f64,
    /// The step that its line tells.
    pub step: Option<u64>,
    /// Optimizer steps that the process had made.
    pub made: u64,
}

/// How a process with the hook in it ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookEnd {
    /// The exception that nobody caught, by its class.
    pub error: Option<String>,
    /// What it says, where that is that memory ran out.
    pub out_of_memory: Option<OutOfMemory>,
    /// Its exit code, or where nobody saw that the one of the command that `memwall run` had started: 128 and more for a
    /// signal, as shells say it.
    pub code: Option<u8>,
}

impl HookEnd {
    /// In a few words: `exit 1`, `RuntimeError`; nothing where it ended as it should, or nobody can tell.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        match (&self.error, self.code) {
            (Some(error), Some(code)) => Some(format!("{error}, exit {code}")),
            (Some(error), None) => Some(error.clone()),
            (None, Some(code)) => Some(exit_words(code.into())),
            (None, None) => None,
        }
    }
}

/// What the memory figures of a process are counts of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookMemory {
    /// PyTorch's caching allocator on a CUDA (or ROCm) device.
    #[default]
    Allocator,
    /// The resident set of the process: on a CPU nobody counts tensors.
    Resident,
}

/// A process after one of its steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookStep {
    /// Optimizer steps since the process began.
    pub step: u64,
    /// Mean time of the steps since the message before.
    pub step_time: Reading<Seconds>,
    /// What the memory figures count.
    pub memory: HookMemory,
    /// Allocated, or resident.
    pub allocated: Reading<Bytes>,
    /// Reserved by the caching allocator.
    pub reserved: Reading<Bytes>,
    /// The most allocated since the script reset it, or the most resident.
    pub peak_allocated: Reading<Bytes>,
    /// The most reserved.
    pub peak_reserved: Reading<Bytes>,
    /// Tokens of one step of this process, where the model takes token ids.
    pub tokens: Option<u64>,
    /// Times that the allocator had to free its cache and try again.
    pub retries: u64,
    /// Times that it ran out of memory.
    pub ooms: u64,
}

/// A sampled step, module by module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookModules {
    /// The step.
    pub step: u64,
    /// Whether forward and backward figures are the allocator's; else they are sums of saved tensors.
    pub by_allocator: bool,
    /// Passes of the model in the step, forward and backward; none where two cannot be told apart.
    pub passes: Option<u64>,
    /// What a layer took that has the length before the samples: both.
    pub length_first: Option<(u64, u64)>,
    /// Everything that the forward pass of a micro batch saved for the backward pass, parameters aside.
    pub saved: Bytes,
    /// By kind: layers of a list are counted together.
    pub kinds: Vec<ModuleKind>,
    /// By block of the model's list of layers.
    #[serde(skip)]
    pub blocks: Vec<ModuleBlock>,
    /// Rows that found no room.
    pub left_out: u64,
}

impl HookModules {
    /// The kind of linear layer or convolution with the most parameters: what it answers in is what matrices are multiplied in.
    #[must_use]
    pub fn linear(&self) -> Option<&ModuleKind> {
        let multiplies = |kind: &&ModuleKind| kind.leaf && (kind.class == "Linear" || kind.class.starts_with("Conv"));
        let ran = |kind: &&ModuleKind| kind.dtype.is_some();
        self.kinds.iter().filter(multiplies).filter(ran).max_by_key(|kind| kind.params)
    }

    /// What each of `count` layers from `first` on keeps for the backward pass, on average; none where the model has
    /// several lists of layers, or not all of these.
    #[must_use]
    pub fn saved_in_layers(&self, first: u64, count: u64) -> Option<Bytes> {
        let named = |block: &ModuleBlock| {
            let (list, number) = block.name.rsplit_once('.').unwrap_or(("", &block.name));
            Some((list.to_owned(), number.parse::<u64>().ok()?, block.saved))
        };
        let blocks: Vec<(String, u64, Bytes)> = self.blocks.iter().filter_map(named).collect();
        let list = &blocks.first()?.0;
        let asked: Vec<Bytes> = blocks
            .iter()
            .filter(|(_, number, _)| (first..first + count).contains(number))
            .map(|(.., saved)| *saved)
            .collect();
        let is_one_list = blocks.iter().all(|(other, ..)| other == list);
        (is_one_list && asked.len() as u64 == count && count > 0)
            .then(|| Bytes(asked.iter().map(|saved| saved.0).sum::<u64>() / count))
    }
}

/// All modules that differ only in the number of their layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleKind {
    /// Its name with `*` for numbers (`layers.*.mlp.up`); empty for the model itself.
    pub name: String,
    /// The class.
    pub class: String,
    /// How many.
    pub count: u64,
    /// Without modules in it.
    pub leaf: bool,
    /// Saved for the backward pass in all of them, what is in them included.
    pub saved: Bytes,
    /// What their forward passes left allocated.
    #[serde(skip)]
    pub forward: SignedBytes,
    /// The most allocated as the backward pass reached one.
    pub backward: Bytes,
    /// Elements of their own parameters.
    pub params: u64,
    /// Bytes of their own parameters on this device.
    pub param_bytes: Bytes,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Type of the output.
    pub dtype: Option<String>,
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleBlock {
    /// Its name (`layers.3`).
    pub name: String,
    /// Saved for the backward pass.
    pub saved: Bytes,
    /// What its forward pass left allocated.
    pub forward: SignedBytes,
    /// Allocated as the backward pass reached it.
    pub backward: Bytes,
}

/// What came through the socket and was not taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookLosses {
    /// Messages that are none of the hook's, or of a version that is not understood.
    pub garbage: u64,
    /// Messages beyond what is taken in a second.
    pub flood: u64,
}

impl HookedRun {
    /// A process that has told nothing yet, heard at `now`.
    #[must_use]
    pub fn new(pid: u32, now: Moment) -> Self {
        Self {
            pid,
            began: None,
            about: None,
            step: None,
            pace: StepPace::default(),
            held: HeldMemory::default(),
            tokens: TokensSeen::default(),
            modules: None,
            printed: None,
            places: None,
            placed: now,
            end: None,
            exit: None,
            heard: now,
        }
    }

    /// After one more message of its steps.
    pub fn stepped(&mut self, step: HookStep) {
        let before = self.step.as_ref();
        // Fewer than before: somebody else by that pid.
        let steps = before.map_or(Some(1), |before| step.step.checked_sub(before.step));
        match (steps, step.step_time.value()) {
            (None, _) => (self.pace, self.held) = (StepPace::default(), HeldMemory::default()),
            (Some(steps), Some(each)) if steps > 0 => self.pace.then(steps, *each),
            _ => {}
        }
        if let Reading::Known { value, at, .. } = &step.allocated {
            self.held.note(step.step, *at, *value);
        }
        self.tokens = self.tokens.then(before.and_then(|before| before.tokens), step.tokens);
        self.step = Some(step);
    }

    /// The newest step, in the time that its like take: the last one may have been interrupted.
    #[must_use]
    pub fn usual_step(&self) -> Option<HookStep> {
        let mut step = self.step.clone()?;
        if let Some(each) = self.pace.usual() {
            step.step_time = Reading::measured(each, self.heard);
        }
        Some(step)
    }

    /// The hook's own view of how far the run is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let Some(step) = &self.step else { return Progress::default() };
        let tokens = match (&step.step_time, step.tokens) {
            // Counted by the hook on one step, over a measured time.
            (Reading::Known { value, at, .. }, Some(tokens)) => {
                Reading::estimated(TokensPerSec(tokens as f64 / value.0), *at)
            }
            (Reading::Absent(why), _) => Reading::Absent(why.clone()),
            (_, None) => Reading::Absent(Absence::NotRead),
        };
        let by_allocator = |reading: &Reading<Bytes>| match step.memory {
            HookMemory::Allocator => reading.clone(),
            HookMemory::Resident => Reading::Absent(Absence::NotSupported),
        };
        let total = self.about.as_ref().and_then(|about| about.total_steps).filter(|total| *total >= step.step);
        Progress {
            told_by: ProgressSource::Hook,
            step: Reading::measured(step.step, self.heard),
            total_steps: total.map_or_else(Reading::not_read, |total| Reading::measured(total, self.heard)),
            step_time: step.step_time.clone(),
            tokens_per_s_per_gpu: tokens,
            allocated: by_allocator(&step.allocated),
            peak_allocated: by_allocator(&step.peak_allocated),
            peak_reserved: by_allocator(&step.peak_reserved),
            loss: self.printed.map_or_else(Reading::not_read, |printed| Reading::measured(printed.loss, self.heard)),
            ..Progress::default()
        }
    }

    /// Whether it is the one that speaks for the run: rank 0, or the only one.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.about.as_ref().and_then(|about| about.rank).unwrap_or(0) == 0
    }
}
