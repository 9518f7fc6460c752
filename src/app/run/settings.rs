//! What the process itself says of its training, against what the plan says: it is right, whatever its figures are.

use super::batch;
use super::stated::{ADAPTERS, computes_in};
use crate::app::state::State;
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

/// Everything that a process with the hook tells of keys of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToldSettings(Vec<ToldSetting>);

impl ToldSettings {
    /// What `run` tells of the plan that comes to `job`.
    #[must_use]
    pub fn of(run: &HookedRun, job: &Job) -> Self {
        let (about, modules) = (run.about.as_ref(), run.modules.as_ref());
        // Of batches that are padded to their longest sample no one step tells the plan's length.
        let tokens = run.step.as_ref().and_then(|step| step.tokens).filter(|_| run.tokens == TokensSeen::Alike);
        let told = [
            about.and_then(|about| precision(about, modules, job)),
            about.and_then(|about| optimizer(about, job)),
            about.and_then(|about| checkpointing(about, job)),
            about.and_then(|about| adapters(about, job)),
        ];
        Self(told.into_iter().flatten().chain(batch::told(modules, tokens, job)).collect())
    }

    /// What is otherwise than planned: each in a few words.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.0.iter().filter_map(|told| told.words.clone()).collect()
    }

    /// Keys that are as planned, each with every value of which that is true: no cause has the run do otherwise.
    #[must_use]
    pub fn as_planned(&self) -> Vec<(&'static str, String)> {
        let planned = self.0.iter().filter(|told| told.words.is_none());
        planned.flat_map(|told| told.values.iter().map(|value| (told.key, value.clone()))).collect()
    }

    /// Whether a plan with this change agrees with all of it.
    #[must_use]
    pub fn agree_with(&self, change: &Change) -> bool {
        self.0.iter().all(|told| told.agrees(change))
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

/// The optimizer's class, where it is known.
fn optimizer(about: &HookAbout, job: &Job) -> Option<ToldSetting> {
    use Optimizer as O;
    let class = about.optimizer.to_ascii_lowercase();
    let alike: &[O] = match class.trim_start_matches("deepspeed").trim_start_matches("fused").trim_start_matches("cpu")
    {
        "adam" | "adamw" => &[O::Adamw, O::AdamwFused, O::AdamwLoop],
        "adamw8bit" | "adam8bit" | "pagedadamw8bit" | "pagedadam8bit" => &[O::Adamw8bit],
        "sgd" => &[O::Sgd, O::SgdMomentum],
        "adafactor" => &[O::Adafactor],
        "lion" => &[O::Lion],
        "muon" => &[O::Muon],
        _ => return None,
    };
    let planned = job.training.optimizer;
    let words =
        (!alike.contains(&planned)).then(|| format!("optimizer {}, the plan's is {}", about.optimizer, planned.name()));
    let values = alike.iter().map(|one| one.name().to_owned()).collect();
    Some(ToldSetting { key: keys::training::optimizer, values, words })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::{Document, plan_of};
    use crate::reading::{HookMemory, HookStep, ModuleKind, Moment, Reading};
    use crate::units::{Bytes, SignedBytes};

    fn job(training: &str) -> Job {
        let text = format!("model: {{preset: gpt2, batch_size: 8, sequence_length: 256}}\ntraining: {{{training}}}");
        let plan = plan_of(&Document::parse(&text).unwrap(), std::path::Path::new("")).unwrap();
        Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap()
    }

    fn kind(name: &str, class: &str, params: u64, shape: &[u64], dtype: &str) -> ModuleKind {
        ModuleKind {
            name: name.to_owned(),
            class: class.to_owned(),
            count: 1,
            leaf: true,
            saved: Bytes::ZERO,
            forward: SignedBytes(0),
            backward: Bytes::ZERO,
            params,
            param_bytes: Bytes(4 * params),
            shape: shape.to_vec(),
            dtype: Some(dtype.to_owned()),
        }
    }

    /// GPT-2 as its hook sees it: 4 samples of 128 ids; positions are the same of all samples.
    fn run(dtype: &str, tokens: u64) -> HookedRun {
        let about = HookAbout {
            params: 124_439_808,
            trainable: 124_439_808,
            params_are_all: true,
            optimizer: "AdamW".to_owned(),
            dtypes: vec![("float32".to_owned(), 124_439_808)],
            checkpointed: Some(false),
            ..HookAbout::default()
        };
        let kinds = vec![
            kind("transformer.wpe", "Embedding", 786_432, &[1, 128], "float32"),
            kind("encoder.block.*.relative_attention_bias", "Embedding", 256, &[128, 128], "float32"),
            kind("transformer.wte", "Embedding", 38_597_376, &[4, 128], "float32"),
            kind("transformer.h.*.mlp.c_fc", "Conv1D", 28_348_416, &[4, 128, 768], dtype),
        ];
        let modules =
            HookModules { step: 1, by_allocator: false, saved: Bytes::ZERO, kinds, blocks: Vec::new(), left_out: 0 };
        let step = HookStep {
            step: 3,
            step_time: Reading::not_read(),
            memory: HookMemory::Resident,
            allocated: Reading::not_read(),
            reserved: Reading::not_read(),
            peak_allocated: Reading::not_read(),
            peak_reserved: Reading::not_read(),
            tokens: Some(tokens),
            retries: 0,
            ooms: 0,
        };
        HookedRun {
            about: Some(about),
            step: Some(step),
            tokens: TokensSeen::Alike,
            modules: Some(modules),
            ..HookedRun::new(7, Moment(0))
        }
    }

    #[test]
    fn batches_padded_to_their_longest_sample_are_no_other_settings() {
        // 4 samples of 128 ids now and of other lengths before: nobody planned those.
        let mut run = run("float32", 512);
        run.tokens = TokensSeen::Once.then(Some(480), Some(512));
        assert_eq!(run.tokens, TokensSeen::Varying);
        run.tokens = run.tokens.then(Some(512), Some(512));
        let plan = "precision: fp32, micro_batch_size: 4, gradient_accumulation_steps: 2";
        assert_eq!(ToldSettings::of(&run, &job(plan)).words(), Vec::<String>::new());
    }

    #[test]
    fn a_run_of_its_plan_tells_nothing_else_and_no_cause_may() {
        let plan = "precision: fp32, micro_batch_size: 4, gradient_accumulation_steps: 2";
        let mut run = run("float32", 1024);
        if let Some(modules) = &mut run.modules {
            modules.kinds.iter_mut().for_each(|kind| kind.shape[1] = if kind.shape[1] == 128 { 256 } else { 768 });
        }
        run.step.as_mut().unwrap().tokens = Some(2048);
        let told = ToldSettings::of(&run, &job(plan));
        assert_eq!(told.words(), Vec::<String>::new());
        let stated = told.as_planned();
        for (key, values) in [
            ("training.precision", &["fp32", "tf32"][..]),
            ("training.micro_batch_size", &["4"]),
            ("model.sequence_length", &["256"]),
            ("training.gradient_accumulation_steps", &["2"]),
            ("training.activation_checkpointing", &["none", "selective", "selective-op"]),
            ("training.optimizer", &["adamw", "adamw-fused", "adamw-loop"]),
        ] {
            let all: Vec<&str> =
                stated.iter().filter(|(told, _)| *told == key).map(|(_, value)| value.as_str()).collect();
            assert_eq!(all, values, "{key}");
        }
        assert!(told.agree_with(&Change::default()));
        assert!(!told.agree_with(&Change::to("training.precision", "bf16")));
    }

    /// TRL's packing puts the samples of a micro batch behind each other: 4 of 256 ids are one row of 1024.
    #[test]
    fn samples_in_one_row_are_the_micro_batch() {
        let told = |length: u64| {
            let mut run = run("float32", 2 * length);
            for kind in &mut run.modules.as_mut().unwrap().kinds {
                kind.shape = vec![1, length];
            }
            ToldSettings::of(&run, &job("precision: fp32, micro_batch_size: 4, gradient_accumulation_steps: 2")).words()
        };
        assert_eq!(told(1024), Vec::<String>::new());
        assert_eq!(
            told(2048).first().map(String::as_str),
            Some("a micro batch of 2 048 tokens in one row, the plan's is 4 samples of 256")
        );
    }

    #[test]
    fn what_is_otherwise_is_told_key_by_key() {
        let told = |training: &str, run: &HookedRun| ToldSettings::of(run, &job(training)).words();
        let two = run("float32", 1024);
        assert_eq!(
            told("precision: fp32, micro_batch_size: 8", &two),
            [
                "micro batch 4, the plan's is 8",
                "sequences of 128 tokens, the plan's have 256",
                "2 passes a step, the plan 1"
            ]
        );
        // Both hold fp32 weights: what linear layers answer in tells them apart.
        let mixed = told("precision: bf16-mixed, micro_batch_size: 8", &two);
        assert_eq!(mixed[0], "matrices in fp32, the plan's precision is bf16-mixed");
        let autocast = told("precision: fp32, micro_batch_size: 8", &run("bfloat16", 1024));
        assert_eq!(autocast[0], "matrices in bf16, the plan's precision is fp32");
        let lora = told("precision: fp32, micro_batch_size: 8, lora: {rank: 8}", &two);
        assert_eq!(lora[0], "all 124 M parameters trained, the plan has LoRA");
    }

    #[test]
    fn pixels_beside_a_denoiser_are_not_its_latents() {
        let text = "model: {preset: stable-diffusion-1.5, batch_size: 4}\ntraining: {micro_batch_size: 4}";
        let plan = plan_of(&Document::parse(text).unwrap(), std::path::Path::new("")).unwrap();
        let denoiser = Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap();
        let mut run = run("float32", 512);
        // What the image encoder takes of the same batch, in samples of its own.
        run.modules.as_mut().unwrap().kinds =
            vec![kind("vae.encoder.conv_in", "Conv2d", 3584, &[2, 3, 512, 512], "float32")];
        let told = ToldSettings::of(&run, &denoiser).words();
        assert!(told.iter().all(|words| !words.contains("images of") && !words.contains("micro batch")), "{told:?}");
    }

    #[test]
    fn figures_stand_beside_it_only_where_they_agree() {
        let told = ToldSettings::of(&run("float32", 512), &job("precision: bf16, micro_batch_size: 8"));
        assert!(!told.agree_with(&Change::to("training.precision", "fp32")), "it has other samples too");
        let all = Change::to("training.precision", "fp32")
            .and("training.micro_batch_size", "4")
            .and("model.sequence_length", "128");
        assert!(told.agree_with(&all));
        assert!(!told.agree_with(&all.and("training.optimizer", "sgd")));
    }
}
