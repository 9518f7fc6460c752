//! Runs of another model, precision, batch or checkpointing than their plans': whether that is named first, with the
//! hook, and with the run's log alone.
//!
//! With the hook the process itself says what it trains. Its messages are made here from the changed plan as
//! `src/observe/hook/python/hook.py` makes them from modules. A log says in its header what its framework writes before the first step:
//! it is written here from the changed plan as that framework writes it, and read as any log is. What nobody says is left
//! to the search for explanations.

use memwall::app::{CommandPlan, CommandSetting, Effect, Event, Mismatch, State, mismatch, update};
use memwall::compare::named_first;
use memwall::observe::log::Log;
use memwall::plan::keywords::{Optimizer, Precision};
use memwall::plan::{Checkpointing, Document, LoadedPlan};
use memwall::predict::{self, Job, Prediction};
use memwall::reading::{
    DeviceProcess, DeviceSample, HookAbout, HookStep, HookedRun, HostProcess, Moment, Reading, RunNews, Sample,
    SourceInfo, SourceKind, TokensSeen,
};
use memwall::units::{Bytes, Seconds};

use super::scenario::{Chance, Deviation, Looking, Scenario, changed};
use super::{SEED, header, plans};
use crate::support::catalog;

/// What of the plan the run does not share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Model,
    Precision,
    Batch,
    Checkpointing,
}

impl Subject {
    const ALL: [Self; 4] = [Self::Model, Self::Precision, Self::Batch, Self::Checkpointing];

    const fn key(self) -> &'static str {
        match self {
            Self::Model => "model.preset",
            Self::Precision => "training.precision",
            Self::Batch => "training.micro_batch_size",
            Self::Checkpointing => "training.activation_checkpointing",
        }
    }

    /// Whether a sentence about the run names it.
    fn is_named_in(self, words: &str) -> bool {
        let parts: &[&str] = match self {
            Self::Model => &["another model"],
            Self::Precision => &["weights in", "matrices in", "autocast", "precision", "fp32"],
            Self::Batch => &["tokens a step", "micro batch", "samples a step", "steps of accumulation"],
            Self::Checkpointing => &["checkpoint"],
        };
        parts.iter().any(|part| words.contains(part))
    }
}

const NOW: Moment = Moment(1_790_000_000_000);
const PID: u32 = 7;

struct Run {
    plan: &'static str,
    text: &'static str,
    subject: Subject,
    edits: &'static str,
    job: Job,
    prediction: Prediction,
    seed: u64,
}

fn resolved(document: &Document) -> Option<(Job, Prediction)> {
    let job = Job::resolve(&document.plan().ok()?, catalog()).ok()?;
    let prediction = predict::predict(&job);
    Some((job, prediction))
}

/// The values of the key that the plan does not have, and a run of which fits its GPU.
fn draw(chance: &mut Chance, subject: Subject) -> Option<Run> {
    let book: Vec<_> = plans::FIRST.iter().chain(plans::FURTHER).collect();
    let (plan, text, edits) = *book[chance.below(book.len())];
    let edits = match subject {
        Subject::Model => {
            let models = &catalog().models;
            vec![format!("model.preset={}", models[chance.below(models.len())].name)]
        }
        _ => edits.iter().filter(|edit| edit.starts_with(subject.key())).map(|edit| (*edit).to_owned()).collect(),
    };
    if edits.is_empty() {
        return None;
    }
    let edits: &'static str = edits[chance.below(edits.len())].clone().leak();
    let planned = resolved(&Document::parse(text).unwrap())?;
    let (job, prediction) = resolved(&changed(text, &[Deviation::Plan(edits)])?)?;
    let same_kind = planned.0.architecture.input() == job.architecture.input()
        && std::mem::discriminant(&planned.0.architecture.shape) == std::mem::discriminant(&job.architecture.shape);
    let other = subject != Subject::Model || planned.1.params.total != prediction.params.total;
    (same_kind && other && prediction.capacity.needed <= prediction.capacity.bytes).then(|| Run {
        plan,
        text,
        subject,
        edits,
        job,
        prediction,
        seed: chance.next(),
    })
}

fn runs(seed: u64, count: usize) -> Vec<Run> {
    let mut chance = Chance::new(seed);
    let next = |number: usize| loop {
        if let Some(run) = draw(&mut chance, Subject::ALL[number % 4]) {
            return run;
        }
    };
    (0..count).map(next).collect()
}

impl Run {
    fn scenario(&self, looking: Looking) -> Scenario {
        Scenario::straying(self.plan, vec![Deviation::Plan(self.edits)], self.seed, looking)
    }

    /// What the hook tells of the run, as far as it can see it.
    fn hooked(&self) -> HookedRun {
        let (job, degrees, batch) = (&self.job, &self.job.degrees, &self.job.batch);
        // A rank of several tensor, pipeline or expert ranks holds a part.
        let parts = degrees.tensor * degrees.pipeline * degrees.expert;
        let dtype = match job.storage.precision {
            Precision::Fp32 | Precision::Tf32 | Precision::Bf16Mixed | Precision::Fp16Mixed => "float32",
            Precision::Fp16 | Precision::Fp16Fp32Master => "float16",
            _ => "bfloat16",
        };
        let optimizer = match job.training.optimizer {
            Optimizer::Adamw8bit => "AdamW8bit",
            Optimizer::Sgd | Optimizer::SgdMomentum => "SGD",
            _ => "AdamW",
        };
        let params = self.prediction.params.total / parts;
        // Megatron's modules have no flag of their own.
        let checkpointed =
            (job.profile.name() != "megatron").then(|| job.training.checkpointing != Checkpointing::None);
        let about = HookAbout {
            optimizer: optimizer.to_owned(),
            device: "cuda:0".to_owned(),
            params,
            params_are_all: true,
            counts_packed: job.training.lora.as_ref().is_some_and(|lora| lora.base_bits.is_some()),
            trainable: self.prediction.params.trainable / parts,
            dtypes: vec![(dtype.to_owned(), params)],
            checkpointed,
            world: u32::try_from(self.prediction.num_gpus).ok(),
            ..HookAbout::default()
        };
        let tokens = (batch.image == 0).then(|| batch.micro * batch.accumulation * batch.sequence / degrees.context);
        let step =
            HookStep { step: 400, step_time: Reading::measured(Seconds(1.0), NOW), tokens, ..HookStep::default() };
        HookedRun { about: Some(about), step: Some(step), tokens: TokensSeen::Alike, ..HookedRun::new(PID, NOW) }
    }

    /// What does not fit the plan, by what the process says of itself.
    fn mismatch(&self) -> Option<Mismatch> {
        self.mismatch_with(RunNews { hooks: vec![self.hooked()], ..RunNews::default() })
    }

    /// The same by what its log says.
    fn mismatch_by_log(&self) -> Option<Mismatch> {
        self.mismatch_by_header(&header::of(&self.job, &self.prediction, self.seed))
    }

    fn mismatch_by_header(&self, header: &str) -> Option<Mismatch> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, header).unwrap();
        let mut log = Log::of_files(vec![path], None);
        log.read(NOW);
        self.mismatch_with(RunNews { pid: Some(PID), progress: log.progress().clone(), ..RunNews::default() })
    }

    fn mismatch_with(&self, news: RunNews) -> Option<Mismatch> {
        mismatch(&self.watched(news))
    }

    /// The dashboard that has seen the run and its news.
    fn watched(&self, news: RunNews) -> State {
        let loaded = LoadedPlan::from_text("own", self.text).unwrap();
        let mut state = State::new(loaded, catalog().clone(), None, NOW);
        update(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Nvml, detail: String::new() }));
        state.monitor.toggle_attach(PID);
        let process = DeviceProcess::holding(PID, Reading::measured(Bytes(1 << 30), NOW));
        // A rank is on every GPU of the machine.
        let here = self.prediction.num_gpus.min(self.job.hardware.gpus_per_node);
        let device = |index| DeviceSample {
            index,
            processes: Reading::measured(vec![process.clone()], NOW),
            ..DeviceSample::default()
        };
        let devices = (0..u32::try_from(here).unwrap()).map(device).collect();
        update(&mut state, Event::Sample(Box::new(Sample { at: NOW, devices, ..Sample::default() })));
        update(&mut state, Event::Run(Box::new(news)));
        state
    }

    /// Whether what differs is what is named first; else what is said.
    fn is_named_with_hook(&self) -> Result<(), String> {
        let Some(found) = self.mismatch() else { return self.is_named_by(Looking::Everything) };
        self.is_named_as(&found)
    }

    /// The same with the log alone: its header, else the search.
    fn is_named_with_log(&self, looking: Looking) -> Result<(), String> {
        let Some(found) = self.mismatch_by_log() else { return self.is_named_by(looking) };
        self.is_named_as(&found)
    }

    fn is_named_as(&self, found: &Mismatch) -> Result<(), String> {
        let words = found.words();
        let is_named = self.subject.is_named_in(words.split("; ").next().unwrap());
        if is_named { Ok(()) } else { Err(format!("{} {}: {words}", self.plan, self.edits)) }
    }

    fn is_named_by(&self, looking: Looking) -> Result<(), String> {
        let scenario = self.scenario(looking);
        let explanations = scenario.explanations();
        // Two that the evidence does not tell apart are named together.
        let is_named = named_first(&explanations).iter().any(|first| {
            let causes = first.causes.iter().chain(&first.alike);
            let mut keys = causes.filter_map(|cause| cause.change.as_ref()).flat_map(|change| &change.set);
            first.causes.len() == 1 && keys.any(|(key, _)| *key == self.subject.key())
        });
        if is_named { Ok(()) } else { Err(scenario.told(&explanations)) }
    }
}

fn share(of: &[Run], what: &str, is_named: impl Fn(&Run) -> Result<(), String>) -> f64 {
    let mut all = 0;
    for subject in Subject::ALL {
        let these: Vec<&Run> = of.iter().filter(|run| run.subject == subject).collect();
        let missed: Vec<String> = these.iter().filter_map(|run| is_named(run).err()).collect();
        for story in &missed {
            eprintln!("{what}, {subject:?}: missed {story}");
        }
        all += these.len() - missed.len();
        eprintln!("{what}, {subject:?}: {} of {}", these.len() - missed.len(), these.len());
    }
    let share = all as f64 / of.len() as f64;
    eprintln!("{what}: {:.1} % of {}", 100.0 * share, of.len());
    share
}

/// 120 runs, for the draw changes with every preset; `MEMWALL_SCENARIOS=1000` looks at so many, and at logs that state nothing as well.
#[test]
fn what_differs_is_named_first() {
    let asked = std::env::var("MEMWALL_SCENARIOS").ok().map(|count| count.parse().unwrap());
    let all = runs(SEED + 20, asked.unwrap_or(120));
    let hook = share(&all, "hook", Run::is_named_with_hook);
    let shown: Vec<Run> = all.into_iter().filter(|run| run.scenario(Looking::WithLog).shows()).collect();
    let log = share(&shown, "log and counters", |run| run.is_named_with_log(Looking::WithLog));
    let alone = share(&shown, "log", |run| run.is_named_with_log(Looking::WithoutCounters));
    assert!(hook >= 0.95 && log >= 0.90 && alone >= 0.90, "{hook} {log} {alone}");
    if asked.is_some() {
        // Twice the samples, or sequences of twice the length: memory and step time alone cannot tell these apart.
        let bare = share(&shown, "log without a header", |run| run.is_named_by(Looking::WithoutCounters));
        assert!(bare >= 0.65, "{bare}");
    }
}

/// nanoGPT at its smallest: 106 624 parameters of which it leaves 4 096 of positions out and prints two decimals of a million
/// (`model.py`, `get_num_params`). That is the plan's model; twice as many are not.
#[test]
fn a_count_that_a_log_rounds_is_the_plans() {
    const PLAN: &str = "
model:
  framework: nanogpt
  batch_size: 12
  sequence_length: 64
  architecture: {hidden_size: 64, num_layers: 2, num_attention_heads: 4, vocab_size: 65, max_position_embeddings: 64,
    tie_embeddings: true, position: learned, activation: gelu, norm: layernorm, linear_bias: false, norm_bias: false}
training: {precision: fp32, micro_batch_size: 12}
";
    let (job, prediction) = resolved(&Document::parse(PLAN).unwrap()).unwrap();
    let run = Run { plan: "nanogpt", text: PLAN, subject: Subject::Model, edits: "", job, prediction, seed: 0 };
    let told = |count: &str| run.mismatch_by_header(&format!("number of parameters: {count}\n"));
    assert_eq!(told("0.10M"), None);
    assert!(matches!(told("0.20M"), Some(Mismatch::Model(_))), "{:?}", told("0.20M"));
}

/// `run_clm.py --per_device_train_batch_size 8` of a plan with 4: its command says so where neither log nor hook does. A log
/// that states 4 has seen the run.
#[test]
fn what_a_command_says_is_asked_of_each_program_and_not_inherited() {
    const PLAN: &str = "
model: {preset: gpt2, batch_size: 4, sequence_length: 512}
training: {precision: bf16-mixed, micro_batch_size: 4, activation_checkpointing: none}
";
    let (job, prediction) = resolved(&Document::parse(PLAN).unwrap()).unwrap();
    let run = Run { plan: "clm", text: PLAN, subject: Subject::Batch, edits: "", job, prediction, seed: 0 };
    let mut state = run.watched(RunNews { pid: Some(PID), ..RunNews::default() });
    // A sample in which the process started then and has that command line: whether the command is read.
    let is_asked = |state: &mut State, started: u64, command: &str| {
        let mut sample = state.monitor.sample.clone().unwrap_or_default();
        sample.processes = vec![HostProcess {
            pid: PID,
            started: Reading::measured(started, NOW),
            command: Reading::measured(command.to_owned(), NOW),
            ..HostProcess::default()
        }];
        let effects = update(state, Event::Sample(Box::new(sample)));
        effects.iter().any(|effect| matches!(effect, Effect::ReadCommand(PID)))
    };
    let eight = CommandSetting {
        key: "training.micro_batch_size",
        value: "8".to_owned(),
        origin: "--per_device_train_batch_size".to_owned(),
        is_default: false,
    };
    // It was asked when it was attached; more is known by now of the same process.
    assert!(!is_asked(&mut state, 100, "sh run.sh"));
    update(
        &mut state,
        Event::CommandRead(Box::new(CommandPlan { pid: PID, settings: vec![eight], ..CommandPlan::default() })),
    );
    assert!(mismatch(&state).is_some());
    assert!(!is_asked(&mut state, 100, "sh run.sh") && mismatch(&state).is_some());
    // The shell has become the trainer: what its own command said is not the trainer's.
    assert!(is_asked(&mut state, 100, "python train.py"));
    assert!(mismatch(&state).is_none());
    assert!(!is_asked(&mut state, 100, "python train.py"));
}

#[test]
fn what_a_command_says_otherwise_is_named_where_nobody_else_speaks() {
    const PLAN: &str = "
model: {preset: gpt2, batch_size: 4, sequence_length: 512}
training: {precision: bf16-mixed, micro_batch_size: 4, activation_checkpointing: none}
";
    const BATCH: &str = "training.micro_batch_size";
    let (job, prediction) = resolved(&Document::parse(PLAN).unwrap()).unwrap();
    let run = Run { plan: "clm", text: PLAN, subject: Subject::Batch, edits: "", job, prediction, seed: 0 };
    let says = |key: &'static str, value: &str, origin: &str| CommandSetting {
        key,
        value: value.to_owned(),
        origin: origin.to_owned(),
        is_default: origin.starts_with("default"),
    };
    let named = |settings: Vec<CommandSetting>, params: Option<u64>, header: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, header).unwrap();
        let mut log = Log::of_files(vec![path], None);
        log.read(NOW);
        let news = RunNews { pid: Some(PID), progress: log.progress().clone(), ..RunNews::default() };
        let mut state = run.watched(news);
        update(
            &mut state,
            Event::CommandRead(Box::new(CommandPlan { pid: PID, settings, params, ..CommandPlan::default() })),
        );
        mismatch(&state).map(|found| found.words())
    };
    let batch = |value: &str| says(BATCH, value, "--per_device_train_batch_size");
    let eight = "the run has micro batch 8, the plan's is 4 (by --per_device_train_batch_size)";
    assert_eq!(named(vec![batch("8")], None, "").as_deref(), Some(eight));
    assert_eq!(named(vec![batch("4")], Some(124_439_808), ""), None);
    // Adadelta keeps two states of each parameter, as AdamW does. GPT-2 has 12 blocks of width 768.
    assert_eq!(named(vec![says("training.optimizer", "adadelta", "main.py: its optimizer")], None, ""), None);
    let shape = |layers: &str| {
        vec![
            says("model.architecture.num_layers", layers, "--n_layer"),
            says("model.architecture.hidden_size", "768", ""),
        ]
    };
    let other = "another model: 6 layers of width 768 (by --n_layer), the plan has 12 of 768";
    assert_eq!((named(shape("12"), None, ""), named(shape("6"), None, "").as_deref()), (None, Some(other)));
    assert_eq!(named(vec![batch("8")], None, "  Instantaneous batch size per device = 4\n"), None);
    for (setting, words) in [
        (says("training.precision", "fp32", "default of transformers 4.57: neither bf16 nor fp16"), "precision fp32"),
        (
            says("training.activation_checkpointing", "full", "--gradient_checkpointing"),
            "full activation checkpointing",
        ),
        (says("training.optimizer", "sgd", "--optim"), "optimizer sgd"),
        (says("model.sequence_length", "1024", "--block_size"), "samples of 1 024 tokens"),
        (says("training.gradient_accumulation_steps", "2", "--gradient_accumulation_steps"), "2 steps of accumulation"),
        (says("training.lora.rank", "8", "--lora_r"), "LoRA of rank 8"),
    ] {
        let named = named(vec![setting], None, "").unwrap_or_default();
        assert!(named.contains(words), "{words}: {named}");
    }
    // A launcher tells each rank how many there are; what else names GPUs may be those in sight.
    let ranks = |value: &str, origin: &str| named(vec![says("cluster.num_gpus", value, origin)], None, "");
    assert!(ranks("2", "environment: WORLD_SIZE").is_some_and(|words| words.contains('2') && words.contains("plan")));
    assert_eq!((ranks("1", "environment: WORLD_SIZE"), ranks("2", "2 GPUs in sight")), (None, None));
    let shorter = named(vec![], None, "tokens per iteration will be: 1,024\nOverriding: block_size = 256\n").unwrap();
    assert!(shorter.contains("samples of 256 tokens") && !shorter.contains("a step"), "{shorter}");
    // A default says less of a batch than whoever wrote the plan.
    assert_eq!(named(vec![says(BATCH, "8", "default of transformers 4.57: 8")], None, ""), None);
    // GPT-2 medium (transformers, `num_parameters`).
    let medium =
        named(vec![says("model.preset", "gpt2-medium", "--model_name_or_path")], Some(354_823_168), "").unwrap();
    assert!(medium.contains("355 M parameters (by --model_name_or_path), the plan has 124 M"), "{medium}");
}
