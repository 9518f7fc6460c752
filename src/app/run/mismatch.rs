//! A run that is not of its plan at all: another model, another GPU, another number of GPUs. Nothing else has to be
//! searched for then.

use crate::app::monitor::SourceState;
use crate::app::state::State;
use crate::model::DecoderOutput;
use crate::plan::keys;
use crate::predict::{Job, Prediction};
use crate::reading::{DeviceSample, HookAbout, SourceKind};
use crate::units::{counted, parameter_count};

/// What the plan and the run do not have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// The model: what runs, in words.
    Model(String),
    /// What the process itself says to do otherwise, in words.
    Settings(String),
    /// The GPU that is watched.
    Gpu(String),
    /// The run is on a CPU, the plan for that GPU.
    NoGpu(String),
    /// How many GPUs: planned, seen.
    Gpus(u64, u64),
    /// How many processes of a run on a CPU: planned, seen.
    Ranks(u64, u64),
}

impl Mismatch {
    /// In one word, for the end of the first line.
    #[must_use]
    pub fn short(&self) -> String {
        match self {
            Self::Model(_) => "OTHER MODEL".to_owned(),
            Self::Settings(_) => "OTHER SETTINGS".to_owned(),
            Self::Gpu(_) => "OTHER GPU".to_owned(),
            Self::NoGpu(_) => "NO GPU IS USED".to_owned(),
            Self::Gpus(planned, seen) if seen > planned => format!("{seen} GPUS, PLAN HAS {planned}"),
            Self::Gpus(planned, seen) => format!("{seen} OF {planned} GPUS"),
            Self::Ranks(..) => "OTHER RANKS".to_owned(),
        }
    }

    /// In a line.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Model(runs) => format!("another model: {runs}"),
            Self::Settings(runs) => format!("the run has {runs}"),
            Self::NoGpu(planned) => {
                format!("the run is on the CPU, the plan for {planned}: they cannot be compared")
            }
            Self::Gpu(name) => format!("another GPU than the plan's: {name}"),
            Self::Gpus(planned, seen) => {
                format!("the plan is for {}, the run is on {seen}", counted(*planned, "GPU", "GPUs"))
            }
            Self::Ranks(planned, ranks) => {
                format!("the run has {}, the plan {planned} (cluster.num_gpus)", counted(*ranks, "rank", "ranks"))
            }
        }
    }
}

/// Parameters that are counted in two ways differ by less than this: of a padded vocabulary, of a head.
pub(super) const SAME_SIZE: f64 = 0.02;

/// The same where the plan knows the model's size alone, as people say it.
pub(super) const ABOUT_SAME_SIZE: f64 = 0.1;

/// The least part that a rank holds, over an even one.
const UNEVEN: f64 = 0.25;

/// What is not as planned, as far as anybody knows; none where the run is of its plan.
#[must_use]
pub fn of(state: &State) -> Option<Mismatch> {
    all(state).into_iter().next()
}

/// All that is not as planned in a line, the gravest first.
#[must_use]
pub fn all_words(state: &State) -> Option<String> {
    let all: Vec<String> = all(state).iter().map(Mismatch::words).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// All that is not as planned, the gravest first: a run of another model may have another batch as well.
fn all(state: &State) -> Vec<Mismatch> {
    let Some(plan) = state.plans.run.as_ref().map(super::plan::RunPlan::plan) else { return Vec::new() };
    let Some((job, prediction)) = plan.job().zip(plan.prediction()) else { return Vec::new() };
    let card = state.other_card().map(|name| Mismatch::Gpu(name.to_owned()));
    let is_simulated = state.run.simulated.is_some();
    if is_simulated {
        return card.or_else(|| simulated(state, job, prediction)).into_iter().collect();
    }
    let no_gpu = || {
        let is = !prediction.on_cpu
            && state.run.telemetry.uses_no_gpu(&state.monitor, state.now)
            && !super::verdict::is_no_training(state);
        is.then(|| Mismatch::NoGpu(prediction.gpu_short.clone()))
    };
    // That nothing can be compared comes before what differs. Of settings each leaves out what one before it tells.
    let hooked = state.run.telemetry.hooked(&state.monitor, state.now).and_then(|run| run.about.as_ref());
    let adapters = hooked.filter(|about| about.params_are_all && about.trainable < about.params);
    let mut settings: Vec<String> =
        adapters.and_then(|about| other_adapters(about.trainable, job, prediction)).into_iter().collect();
    settings.extend(super::settings::other_settings(state, job));
    settings.extend(super::stated::other_settings(state, job, prediction));
    settings.extend(super::commanded::other_settings(state, job));
    let stated = || super::stated::other_model(state, job, prediction).map(Mismatch::Model);
    let model = model(state, job, prediction)
        .or_else(stated)
        .or_else(|| super::commanded::other_model(state, prediction).map(Mismatch::Model))
        .or_else(|| super::commanded::other_shape(state, job).map(Mismatch::Model));
    let settings = (!settings.is_empty()).then(|| Mismatch::Settings(settings.join("; ")));
    [card, model, no_gpu(), settings, number(state, job, prediction)].into_iter().flatten().collect()
}

/// What the simulated run is that the plan is not.
fn simulated(state: &State, job: &Job, prediction: &Prediction) -> Option<Mismatch> {
    let simulated = state.run.simulated.as_ref()?.plan();
    let (of, runs) = simulated.job().zip(simulated.prediction())?;
    if (runs.params.total, &of.architecture.name) != (prediction.params.total, &job.architecture.name) {
        return Some(Mismatch::Model(of.architecture.name.clone()));
    }
    gpus(prediction.num_gpus, runs.num_gpus)
}

fn gpus(planned: u64, seen: u64) -> Option<Mismatch> {
    (planned != seen).then_some(Mismatch::Gpus(planned, seen))
}

/// How many ranks a process of the run counts, where the plan has another number of GPUs, or of processes on a CPU.
#[must_use]
pub fn told_ranks(about: &HookAbout, prediction: &Prediction) -> Option<Mismatch> {
    of_ranks(prediction, u64::from(about.world?), about.device == "cpu")
}

fn of_ranks(prediction: &Prediction, ranks: u64, runs_on_cpu: bool) -> Option<Mismatch> {
    let planned = prediction.num_gpus;
    let on_cpu = prediction.on_cpu || runs_on_cpu;
    let mismatch = if on_cpu { Mismatch::Ranks(planned, ranks) } else { Mismatch::Gpus(planned, ranks) };
    (planned != ranks).then_some(mismatch)
}

/// By the hook, where it has counted all parameters of the whole model.
fn model(state: &State, job: &Job, prediction: &Prediction) -> Option<Mismatch> {
    let about = state.run.telemetry.hooked(&state.monitor, state.now)?.about.as_ref()?;
    let by_name = state.plans.run.as_ref()?.plan().document()?.value("model.size_billions").is_none();
    told_model(about, job, prediction, by_name).map(Mismatch::Model)
}

/// Adapters of another size than the plan's, where a rank holds all of them.
pub(super) fn other_adapters(trained: u64, job: &Job, prediction: &Prediction) -> Option<String> {
    let planned = prediction.params.trainable;
    let differs = trained.abs_diff(planned) as f64 > SAME_SIZE * planned as f64;
    // peft trains a head of classes beside the adapters (peft/peft_model.py, `modules_to_save`), which no plan's adapters are.
    let says_tokens = job.decoder().is_some_and(|decoder| decoder.says == DecoderOutput::Tokens);
    let rank = job.training.lora.as_ref().filter(|_| differs && says_tokens && prediction.num_gpus == 1)?.rank;
    let (trained, planned) = (parameter_count(trained), parameter_count(planned));
    Some(format!("{trained} trained parameters, the plan's adapters of rank {rank} have {planned}"))
}

/// The model that a process with the hook trains, where it is another one than the plan's, which names it or knows its size
/// alone.
#[must_use]
pub fn told_model(about: &HookAbout, job: &Job, prediction: &Prediction, by_name: bool) -> Option<String> {
    let ways = job.degrees.tensor * job.degrees.pipeline * job.degrees.expert;
    let packed = job.training.lora.as_ref().is_some_and(|lora| lora.base_bits.is_some());
    if !about.params_are_all || packed && !about.counts_packed || about.params == 0 {
        return None;
    }
    let same_size = if by_name { SAME_SIZE } else { ABOUT_SAME_SIZE };
    let planned = prediction.params.total as f64;
    let share = about.params as f64 / planned;
    // Adapters that the plan does not have lie over a model that may well be its own.
    let base = (about.params - about.trainable.min(about.params)) as f64;
    // Those that it has may be of another rank.
    let planned_base = job.training.lora.as_ref().map(|_| prediction.params.total - prediction.params.trainable);
    let is_base = |of: f64| (base / of - 1.0).abs() <= same_size;
    if is_base(planned) || planned_base.is_some_and(|of| is_base(of as f64)) {
        return None;
    }
    // A rank of several holds a part, which need not be an even one.
    let differs = match ways {
        1 => (share - 1.0).abs() > same_size,
        _ => share > 1.0 + same_size || share * (ways as f64) < UNEVEN,
    };
    let class = about.model.as_deref().unwrap_or("a model");
    let (runs, planned) = (parameter_count(about.params), parameter_count(prediction.params.total));
    differs.then(|| format!("{class} of {runs} parameters, the plan has {planned}"))
}

/// The plan's model as what a process with the hook is told, where it counts all of that model's parameters: no cause
/// has it train another one.
#[must_use]
pub fn planned_model(about: &HookAbout, job: &Job, prediction: &Prediction) -> Option<(&'static str, String)> {
    let whole = job.degrees.tensor * job.degrees.pipeline * job.degrees.expert == 1;
    let share = about.params as f64 / prediction.params.total as f64;
    let is_same = about.params_are_all && whole && (share - 1.0).abs() <= SAME_SIZE;
    is_same.then(|| (keys::model::preset, job.architecture.name.clone()))
}

/// By the hook's world; else by the log's; else by what the launcher tells its ranks; else by the GPUs that anybody is on,
/// where those of one machine are watched.
fn number(state: &State, job: &Job, prediction: &Prediction) -> Option<Mismatch> {
    let hooked = state.run.telemetry.hooked(&state.monitor, state.now).and_then(|run| run.about.as_ref());
    if let Some(about) = hooked.filter(|about| about.world.is_some()) {
        return told_ranks(about, prediction);
    }
    if let Some(world) = state.run.telemetry.log_states(&state.monitor).world {
        return gpus(prediction.num_gpus, world);
    }
    if let Some(ranks) = super::commanded::ranks(state) {
        return of_ranks(prediction, ranks, state.run.telemetry.uses_no_gpu(&state.monitor, state.now));
    }
    if state.monitor.cluster.is_there() {
        return of_job(state, prediction);
    }
    let here = matches!(&state.monitor.source, SourceState::Running(info)
        if matches!(info.kind, SourceKind::Nvml | SourceKind::Amdgpu));
    let devices = state.monitor.devices();
    let known = devices.iter().all(|device| device.processes.value().is_some());
    if !here || !known || devices.is_empty() {
        return None;
    }
    let planned = prediction.num_gpus.min(job.hardware.gpus_per_node);
    let busy = devices.iter().filter(|device| !DeviceSample::is_idle(device)).count() as u64;
    // More are busy where somebody else is on the machine too.
    if busy > 0 && busy < planned { gpus(planned, busy) } else { None }
}

/// By the GPUs of a job over nodes. Others beside them may be free: where those that work are as many as planned, they are
/// the job's.
fn of_job(state: &State, prediction: &Prediction) -> Option<Mismatch> {
    let devices = state.monitor.devices();
    let ranks = &state.monitor.cluster.layout().ranks;
    let working = ranks.iter().filter(|place| devices.get(**place).is_some_and(|device| !device.is_idle())).count();
    if working as u64 == prediction.num_gpus { None } else { gpus(prediction.num_gpus, ranks.len() as u64) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::{Document, plan_of};
    use crate::predict::predict;

    /// GPT-2 has 124,439,808 parameters, GPT-2 medium 354,823,168 (transformers, `num_parameters`).
    #[test]
    fn a_count_of_parameters_tells_another_model() {
        let text = "model: {preset: gpt2, batch_size: 8}";
        let plan = plan_of(&Document::parse(text).unwrap(), Path::new("")).unwrap();
        let job = Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap();
        let prediction = predict(&job);
        let told = |params| {
            let about = HookAbout { params, trainable: params, params_are_all: true, ..HookAbout::default() };
            told_model(&about, &job, &prediction, true)
        };
        assert_eq!(told(124_439_808), None);
        let other = told(354_823_168).unwrap();
        assert!(other.contains("355 M") && other.contains("124 M"), "{other}");
    }

    /// Adapters on GPT-2's `c_attn` (768 in, 2 304 out, 12 blocks): 36 864 a rank and so 294 912 of rank 8, 2 359 296 of 64.
    #[test]
    fn adapters_of_another_rank_are_no_other_model() {
        let text = "model: {preset: gpt2, batch_size: 8}\ntraining: {lora: {rank: 64, targets: [c_attn]}}";
        let plan = plan_of(&Document::parse(text).unwrap(), Path::new("")).unwrap();
        let job = Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap();
        let prediction = predict(&job);
        let about = HookAbout {
            params: 124_439_808 + 294_912,
            trainable: 294_912,
            params_are_all: true,
            ..HookAbout::default()
        };
        assert_eq!(told_model(&about, &job, &prediction, true), None);
        let words = other_adapters(about.trainable, &job, &prediction).unwrap();
        assert!(words.contains("294 912") && words.contains("rank 64"), "{words}");
        assert_eq!(other_adapters(2_359_296, &job, &prediction), None);
    }
}
