//! What the command of the attached process, its files and its environment say, against what the plan says. What a
//! hook tells and a log states comes before it.

use super::mismatch::SAME_SIZE;
use crate::app::event::Effect;
use crate::app::monitor::{Monitor, SourceState};
use crate::app::run::Telemetry;
use crate::app::run::inferred::StatedValues;
use crate::app::run::settings::{ToldSettings, optimizers_like, planned_optimizer};
use crate::app::run::stated::{STEP, STEPS};
use crate::app::state::State;
use crate::plan::keywords::{Optimizer, Precision};
use crate::plan::{Checkpointing, keys};
use crate::predict::{Job, Prediction};
use crate::reading::StatedSettings;
use crate::units::{counted, grouped, parameter_count};

/// What is said of the run where its process was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandPlan {
    /// The process, by its pid here.
    pub pid: u32,
    /// Keys of a plan with what is said of them.
    pub settings: Vec<CommandSetting>,
    /// Parameters of the model that it names; none where it names none that is known.
    pub params: Option<u64>,
    /// Optimizer steps of the whole run; none where nothing says so.
    pub steps: Option<u64>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSetting {
    /// The plan's key.
    pub key: &'static str,
    /// Its value, as a plan writes it.
    pub value: String,
    /// Who says so: `--per_device_train_batch_size`, `ds.json:3: bf16.enabled`.
    pub origin: String,
    /// Nobody says it: what the framework does then.
    pub is_default: bool,
}

/// Asks for what the command of the attached process says, once for each program in a process that is compared with a
/// plan.
pub fn ask(state: &mut State) -> Option<Effect> {
    let live = matches!(&state.monitor.source, SourceState::Running(info) if info.kind.is_live());
    let pid = state.monitor.attached_here().filter(|_| live && state.plans.run.is_some())?;
    let now = state.monitor.attached.as_ref()?.identity();
    let telemetry = &mut state.run.telemetry;
    match telemetry.asked_command.take() {
        Some(asked) if !asked.differs_from(&now) => {
            telemetry.asked_command = Some(asked.with(now));
            None
        }
        _ => {
            // What the program before it said is not its own.
            (telemetry.commanded, telemetry.stated) = (None, None);
            telemetry.asked_command = Some(now);
            Some(Effect::ReadCommand(pid))
        }
    }
}

/// It has been read.
pub fn arrived(state: &mut State, read: CommandPlan) {
    let sure = read.settings.iter().filter(|setting| !setting.is_default);
    let values = sure.map(|setting| (setting.key, setting.value.clone())).collect();
    state.run.telemetry.stated = Some(StatedValues { pid: read.pid, values, steps: read.steps });
    state.run.telemetry.commanded = Some(read);
}

/// What was read of the attached process.
fn of_command(state: &State) -> Option<&CommandPlan> {
    let told = state.run.telemetry.commanded.as_ref()?;
    (state.monitor.attached_here() == Some(told.pid)).then_some(told)
}

/// Whether its command, its files or its script say of a training.
pub(super) fn is_training(state: &State) -> bool {
    state.run.telemetry.is_commanded(&state.monitor)
}

impl Telemetry {
    /// Whether the command of the attached process, its files or its script say of a training.
    pub(super) fn is_commanded(&self, monitor: &Monitor) -> bool {
        let says = |setting: &CommandSetting| !setting.is_default && setting.key.starts_with("training.");
        let told = self.commanded.as_ref().filter(|told| monitor.attached_here() == Some(told.pid));
        told.is_some_and(|command| command.settings.iter().any(says))
    }
}

/// How many ranks there are, as a launcher tells each in its environment.
pub(super) fn ranks(state: &State) -> Option<u64> {
    let told = |setting: &&CommandSetting| setting.key == keys::cluster::num_gpus && setting.origin == WORLD;
    of_command(state)?.settings.iter().find(told)?.value.parse().ok()
}

/// Who says it: as [`crate::import::Origin::Environment`] is shown.
const WORLD: &str = "environment: WORLD_SIZE";

/// Whether a key says which model it is; how many samples it takes, and of what length, does not.
fn names_model(key: &str) -> bool {
    key.starts_with("model.") && ![keys::model::batch_size, keys::model::sequence_length].contains(&key)
}

/// Whether the hook or the log counts the model's parameters: both have seen it.
fn is_counted(state: &State) -> bool {
    let log = state.run.telemetry.log_states(&state.monitor);
    let hooked = state.run.telemetry.hooked(&state.monitor, state.now);
    let by_hook = hooked.is_some_and(|run| run.about.as_ref().is_some_and(|about| about.params_are_all));
    by_hook || log.params.is_some() || log.trainable.is_some()
}

/// The model that it names, where that has other parameters than the plan's.
pub fn other_model(state: &State, prediction: &Prediction) -> Option<String> {
    let command = of_command(state)?;
    let (runs, planned) = (command.params?, prediction.params.total);
    let same = runs.abs_diff(planned) as f64 <= SAME_SIZE * planned as f64;
    if same || is_counted(state) {
        return None;
    }
    let named = command.settings.iter().find(|setting| names_model(setting.key) && !setting.is_default);
    let by = named.map_or_else(|| "by its command".to_owned(), |setting| format!("by {}", setting.origin));
    Some(format!("{} parameters ({by}), the plan has {}", parameter_count(runs), parameter_count(planned)))
}

/// The blocks of the language model that its script makes, and their width, where the plan's has others.
pub fn other_shape(state: &State, job: &Job) -> Option<String> {
    let command = of_command(state).filter(|command| command.params.is_none() && !is_counted(state))?;
    let decoder = job.decoder()?;
    let told = |key: &str| command.settings.iter().find(|setting| setting.key == key && !setting.is_default);
    let layers = told(keys::architecture::num_layers)?;
    let width: u64 = told(keys::architecture::hidden_size)?.value.parse().ok()?;
    let differs = (layers.value.parse::<u64>().ok()?, width) != (decoder.layers, decoder.hidden);
    differs.then(|| {
        let (runs, by) = (&layers.value, &layers.origin);
        format!("{runs} layers of width {width} (by {by}), the plan has {} of {}", decoder.layers, decoder.hidden)
    })
}

/// What it says otherwise than the plan: each in a few words.
pub fn other_settings(state: &State, job: &Job) -> Vec<String> {
    let Some(command) = of_command(state) else { return Vec::new() };
    let log = state.run.telemetry.log_states(&state.monitor);
    // A hook that is heard tells of the batch some steps later: what the command says holds until then.
    let hooked = state.run.telemetry.hooked(&state.monitor, state.now).map(|run| ToldSettings::of(run, job));
    let is_told = |one: &CommandSetting| {
        let by_hook = |told: &ToldSettings| {
            told.tells(one.key) && !told.leaves_open(one.key, &one.value) || told.denies(one.key, &one.value)
        };
        is_logged(one.key, log) || hooked.as_ref().is_some_and(by_hook)
    };
    command.settings.iter().filter(|setting| !is_told(setting)).filter_map(|one| one.against(job)).collect()
}

/// Whether the log states the same: it has seen the run.
fn is_logged(key: &str, log: &StatedSettings) -> bool {
    match key {
        keys::training::micro_batch_size => log.micro_batch.is_some(),
        keys::training::gradient_accumulation_steps => log.accumulation.is_some(),
        keys::model::batch_size => log.global_batch.is_some() || log.micro_batch.is_some(),
        keys::model::sequence_length => log.sequence.is_some(),
        keys::training::precision => log.compute.is_some() || log.weights.is_some(),
        keys::training::activation_checkpointing => log.checkpointing.is_some(),
        _ => false,
    }
}

impl CommandSetting {
    /// What differs from the plan, in a few words.
    fn against(&self, job: &Job) -> Option<String> {
        let whole = || self.value.parse::<u64>().ok();
        let other = |planned: u64| whole().filter(|runs| *runs != planned && !self.is_default);
        let differs = |planned: u64| other(planned).map(grouped);
        let batch = &job.batch;
        let words = match self.key {
            keys::training::micro_batch_size => {
                format!("micro batch {}, the plan's is {}", differs(batch.micro)?, grouped(batch.micro))
            }
            keys::training::gradient_accumulation_steps => {
                let planned = grouped(batch.accumulation);
                format!("{}, the plan has {planned}", counted(other(batch.accumulation)?, STEP, STEPS))
            }
            keys::model::sequence_length if job.decoder().is_some() => {
                let planned = grouped(batch.sequence);
                format!("samples of {} tokens, the plan of {planned}", differs(batch.sequence)?)
            }
            keys::training::precision => {
                let planned = job.storage.precision;
                let runs = Precision::ALL.iter().find(|one| one.name() == self.value)?;
                let full = |one: Precision| matches!(one, Precision::Fp32 | Precision::Tf32);
                (*runs != planned && !(full(*runs) && full(planned)))
                    .then(|| format!("precision {}, the plan's is {}", runs.name(), planned.name()))?
            }
            keys::training::activation_checkpointing => self.checkpointing(&job.training.checkpointing)?,
            keys::training::optimizer if !self.is_default => {
                let planned = job.training.optimizer;
                let family = |word: &str| (word.split('-').next().map(str::to_owned), word.contains("8bit"));
                // A class without a word in a plan is what holds as many states.
                let is_word = Optimizer::ALL.iter().any(|one| one.name() == self.value);
                let is_like = |alike: &[Optimizer]| !is_word && alike.contains(&planned);
                (family(&self.value) != family(planned.name()) && !optimizers_like(&self.value).is_some_and(is_like))
                    .then(|| format!("optimizer {}, the plan's is {}", self.value, planned_optimizer(job)))?
            }
            keys::lora::rank if job.training.lora.is_none() => {
                format!("LoRA of rank {}, the plan trains all parameters", self.value)
            }
            _ => return None,
        };
        Some(format!("{words} (by {})", self.origin))
    }

    fn checkpointing(&self, planned: &Checkpointing) -> Option<String> {
        match (self.value.as_str(), planned) {
            ("none", Checkpointing::None) => None,
            ("none", _) => Some("no activation checkpointing, the plan has some".to_owned()),
            ("full", Checkpointing::None) => Some("full activation checkpointing, the plan has none".to_owned()),
            (_, Checkpointing::None) => Some(format!("activation checkpointing {}, the plan has none", self.value)),
            _ => None,
        }
    }
}
