//! What the process itself says of its training, against what the plan says: it is right, whatever its figures are.

use super::batch;
use super::stated::{ADAPTERS, computes_in};
use crate::app::state::State;
use crate::catalog::Generation;
use crate::model::Element;
use crate::plan::keywords::{Optimizer, Precision};
use crate::plan::{Change, Checkpointing, keys};
use crate::predict::Job;
use crate::reading::{HookAbout, HookModules, HookedRun, StatedType, TokensSeen};
use crate::units::parameter_count;

/// Parameters of one type are the model's if they are this share of all.
const MOST: f64 = 0.9;

/// What the attached process does otherwise than its plan, as its hook tells: each in a few words.
#[must_use]
pub fn other_settings(state: &State, job: &Job) -> Vec<String> {
    state
        .run
        .telemetry
        .hooked(&state.monitor, state.now)
        .map_or_else(Vec::new, |run| ToldSettings::of(run, job).words())
}

/// What it uses of the machine otherwise than the measurement that its plan's times come from.
#[must_use]
pub fn other_machine(state: &State, job: &Job) -> Option<String> {
    let run = state.run.telemetry.hooked(&state.monitor, state.now)?;
    ToldSettings::of(run, job).machine().map(str::to_owned)
}

/// A key that a process with the hook tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToldSetting {
    key: &'static str,
    /// The values that agree with what it does; none where that has no value in a plan.
    values: Vec<String>,
    /// What it does, where the plan says otherwise.
    words: Option<String>,
}

impl ToldSetting {
    /// Of a key that takes a number.
    pub(super) fn number(key: &'static str, runs: u64, planned: u64, words: impl FnOnce() -> String) -> Self {
        Self { key, values: vec![runs.to_string()], words: (runs != planned).then(words) }
    }

    /// Of a key whose value is not what the run does, which has none in a plan.
    pub(super) const fn otherwise(key: &'static str, words: String) -> Self {
        Self { key, values: Vec::new(), words: Some(words) }
    }

    /// Whether a plan with this change agrees.
    fn agrees(&self, change: &Change) -> bool {
        match change.set.iter().find(|(key, _)| *key == self.key) {
            Some((_, value)) => self.values.contains(value),
            // What goes is what the run does not have.
            None => change.remove.contains(&self.key) == self.words.is_some(),
        }
    }
}

/// Everything that a process with the hook tells of keys of a plan, and of how it uses the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToldSettings {
    keys: Vec<ToldSetting>,
    /// What the prediction's measurement of the machine did otherwise.
    machine: Option<String>,
    /// Each step has as many tokens as planned.
    same_tokens: bool,
    /// What the only step that was looked into took: others may take more or less.
    first_look: Vec<ToldSetting>,
}

impl ToldSettings {
    /// What `run` tells of the plan that comes to `job`.
    #[must_use]
    pub fn of(run: &HookedRun, job: &Job) -> Self {
        let (about, modules) = (run.about.as_ref(), run.modules.as_ref());
        // Of batches that are padded to their longest sample no one step tells the plan's length.
        let newest = run.step.as_ref().and_then(|step| step.tokens);
        let tokens = newest.filter(|_| run.tokens == TokensSeen::Alike);
        let first = newest.filter(|_| run.tokens == TokensSeen::Once);
        let told = [
            about.and_then(|about| precision(about, modules, job)),
            about.and_then(|about| optimizer(about, job)),
            about.and_then(|about| checkpointing(about, job)),
            about.and_then(|about| adapters(about, job)),
        ];
        let beside = about.and_then(second_optimizer);
        Self {
            keys: told.into_iter().flatten().chain(batch::told(modules, tokens, job)).chain(beside).collect(),
            machine: about.and_then(|about| threads(about, job)),
            same_tokens: batch::tokens_are_as_planned(tokens, job),
            first_look: first.map_or_else(Vec::new, |first| batch::told(modules, Some(first), job).collect()),
        }
    }

    /// Whether anything is told of a key.
    pub(super) fn tells(&self, key: &str) -> bool {
        self.keys.iter().any(|told| told.key == key)
    }

    /// Whether what is seen agrees with the plan and with this value alike: weights in fp32 where no layer tells what it
    /// computes in.
    pub(super) fn leaves_open(&self, key: &str, value: &str) -> bool {
        let open = |told: &ToldSetting| told.words.is_none() && told.values.iter().any(|runs| runs == value);
        self.keys.iter().any(|told| told.key == key && open(told))
    }

    /// Whether the only step that was looked into took otherwise than this value: what a script is read to take, which is
    /// less sure, is not said then.
    pub(super) fn denies(&self, key: &str, value: &str) -> bool {
        let seen = self.first_look.iter().filter(|seen| seen.key == key && !seen.values.is_empty());
        seen.into_iter().any(|seen| seen.values.iter().all(|runs| runs != value))
    }

    /// Whether each step is seen to have as many tokens as planned.
    #[must_use]
    pub const fn same_tokens(&self) -> bool {
        self.same_tokens
    }

    /// What is otherwise than planned: each in a few words.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.keys.iter().filter_map(|told| told.words.clone()).collect()
    }

    /// What is otherwise than where the times that are predicted were measured: no plan says it.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// Keys that are as planned, each with every value of which that is true: no cause has the run do otherwise.
    #[must_use]
    pub fn as_planned(&self) -> Vec<(&'static str, String)> {
        let planned = self.keys.iter().filter(|told| told.words.is_none());
        planned.flat_map(|told| told.values.iter().map(|value| (told.key, value.clone()))).collect()
    }

    /// Whether a plan with this change agrees with all of it.
    #[must_use]
    pub fn agree_with(&self, change: &Change) -> bool {
        self.keys.iter().all(|told| told.agrees(change))
    }
}

/// The type that nearly all parameters are stored in, and the one that linear layers answer in.
fn precision(about: &HookAbout, modules: Option<&HookModules>, job: &Job) -> Option<ToldSetting> {
    let (name, count) = about.dtypes.first().filter(|_| about.params_are_all)?;
    let all: u64 = about.dtypes.iter().map(|(_, count)| count).sum();
    let stored = stated_type(name)?;
    if (*count as f64) < MOST * all as f64 || job.training.lora.is_some() {
        return None;
    }
    let computed = modules.and_then(|modules| stated_type(modules.linear()?.dtype.as_deref()?));
    let (planned, same) = (job.storage.precision, element(stored) == job.storage.weight);
    let computes = |precision: Precision| computed.is_none_or(|computed| computes_in(precision, computed));
    let words = match computed {
        _ if !same => Some(format!("weights in {}, the plan's precision is {}", stored.name(), planned.name())),
        Some(runs) if !computes(planned) => {
            Some(format!("matrices in {}, the plan's precision is {}", runs.name(), planned.name()))
        }
        _ => None,
    };
    let values = Precision::ALL.iter().filter(|one| match words {
        None if **one == planned => true,
        _ => weights_of(**one).is_none_or(|weights| weights == element(stored)) && computes(**one),
    });
    let values = values.map(|one| one.name().to_owned()).collect();
    Some(ToldSetting { key: keys::training::precision, values, words })
}

fn stated_type(name: &str) -> Option<StatedType> {
    match name {
        "float32" => Some(StatedType::Fp32),
        "bfloat16" => Some(StatedType::Bf16),
        "float16" => Some(StatedType::Fp16),
        _ => None,
    }
}

const fn element(stored: StatedType) -> Element {
    match stored {
        StatedType::Fp32 => Element::F32,
        StatedType::Bf16 => Element::Bf16,
        StatedType::Fp16 => Element::F16,
    }
}

/// What weights lie in; none where that depends on the framework.
const fn weights_of(precision: Precision) -> Option<Element> {
    use Precision as P;
    match precision {
        P::Fp32 | P::Tf32 | P::Bf16Mixed | P::Fp16Mixed => Some(Element::F32),
        P::Bf16 | P::Bf16Fp32Master => Some(Element::Bf16),
        P::Fp16 | P::Fp16Fp32Master => Some(Element::F16),
        P::Fp8Mixed => None,
    }
}

/// What a plan may say of an optimizer's class; none of one that is not known.
pub(super) fn optimizers_like(class: &str) -> Option<&'static [Optimizer]> {
    use Optimizer as O;
    let class = class.to_ascii_lowercase();
    Some(match class.trim_start_matches("deepspeed").trim_start_matches("fused").trim_start_matches("cpu") {
        "adam" | "adamw" => &[O::Adamw, O::AdamwFused, O::AdamwLoop],
        "adamw8bit" | "adam8bit" | "pagedadamw8bit" | "pagedadam8bit" => &[O::Adamw8bit],
        "sgd" => &[O::Sgd, O::SgdMomentum],
        "adafactor" => &[O::Adafactor],
        "lion" => &[O::Lion],
        "muon" => &[O::Muon],
        "rmsprop" => &[O::Rmsprop],
        // No plan has these: one says what holds as many states of each parameter (torch/optim, `_init_group`).
        "adagrad" => &[O::Rmsprop, O::SgdMomentum],
        "adadelta" | "adamax" | "nadam" | "radam" => &[O::Adamw, O::AdamwFused, O::AdamwLoop],
        _ => return None,
    })
}

/// The plan's word for its optimizer: a CPU's AdamW goes tensor by tensor, whether the plan says so or not.
pub(super) fn planned_optimizer(job: &Job) -> &'static str {
    match job.training.optimizer {
        Optimizer::AdamwLoop if job.hardware.gpu.generation == Generation::Cpu => Optimizer::Adamw.name(),
        planned => planned.name(),
    }
}

/// The optimizer's class, where it is known.
fn optimizer(about: &HookAbout, job: &Job) -> Option<ToldSetting> {
    let alike = optimizers_like(&about.optimizer)?;
    let words = (!alike.contains(&job.training.optimizer))
        .then(|| format!("optimizer {}, the plan's is {}", about.optimizer, planned_optimizer(job)));
    let values = alike.iter().map(|one| one.name().to_owned()).collect();
    Some(ToldSetting { key: keys::training::optimizer, values, words })
}

/// A model beside the plan's, such as a generator's critic: its passes and states are what no cause in the plan explains.
fn second_optimizer(about: &HookAbout) -> Option<ToldSetting> {
    let (class, count) = about.beside.as_ref()?;
    let words = format!("a second optimizer ({class}) for {} parameters beside its model's", parameter_count(*count));
    Some(ToldSetting::otherwise(keys::model::preset, words))
}

/// Whether blocks are computed again; none of what only parts of them do.
fn checkpointing(about: &HookAbout, job: &Job) -> Option<ToldSetting> {
    let runs = about.checkpointed?;
    let words = match (runs, &job.training.checkpointing) {
        (true, Checkpointing::None) => Some("activation checkpointing, the plan has none".to_owned()),
        (false, Checkpointing::Full) => Some("no activation checkpointing, the plan has full".to_owned()),
        _ => None,
    };
    let values: &[&str] =
        if runs { &["full", "selective", "selective-op"] } else { &["none", "selective", "selective-op"] };
    let values = values.iter().map(|one| (*one).to_owned()).collect();
    Some(ToldSetting { key: keys::training::activation_checkpointing, values, words })
}

/// Whether adapters alone are trained.
fn adapters(about: &HookAbout, job: &Job) -> Option<ToldSetting> {
    if !about.params_are_all || about.params == 0 {
        return None;
    }
    let (trained, all) = (parameter_count(about.trainable), parameter_count(about.params));
    let few = (about.trainable as f64) < ADAPTERS * about.params as f64;
    let frozen = !job.training.frozen.is_nothing();
    let words = match job.training.lora {
        Some(_) if about.trainable == about.params => Some(format!("all {all} parameters trained, the plan has LoRA")),
        None if few && !frozen => {
            Some(format!("{trained} of {all} parameters trained, the plan all: adapters or frozen parts"))
        }
        _ => None,
    };
    // No cause takes away what is there.
    let values = job.training.lora.iter().map(|_| "there".to_owned()).collect();
    Some(ToldSetting { key: keys::training::lora, values, words })
}

/// The threads that a run on a CPU computes with, where the curves that its times come from were measured with others.
fn threads(about: &HookAbout, job: &Job) -> Option<String> {
    let measured = job.speed.curves.measured.as_ref()?.threads?;
    let runs = about.threads.filter(|runs| about.device == "cpu" && *runs != measured)?;
    let plural = if runs == 1 { "" } else { "s" };
    Some(format!("{runs} thread{plural}, memwall bench measured with {measured} (OMP_NUM_THREADS)"))
}

#[cfg(test)]
mod tests;
