//! A job: a plan with everything decided. What absent keys come to mean, and how keys
//! must agree, stands here and nowhere else.

mod adapters;
mod architecture;
mod batch;
mod cache;
mod companions;
mod cpu;
mod degrees;
mod delta;
mod divides;
mod fragmentation;
mod frozen_modules;
mod hardware;
mod idle;
mod kernels;
mod liger;
mod limits;
pub(in crate::predict) mod mfu;
mod notes;
pub(in crate::predict) mod optimizer;
mod sight;
mod sized;
mod speed;
mod stages;
mod storage;
mod support;
mod traced;
mod training;

pub use architecture::NOTHING_GIVEN;
pub use batch::Batch;
pub use companions::{Companions, GenerationEngine};
pub use degrees::Degrees;
pub use fragmentation::Fragmentation;
pub use hardware::Hardware;
pub(in crate::predict) use idle::NOT_MODELLED;
pub(super) use kernels::fused_kernels;
pub(super) use limits::in_a_row;
pub(super) use notes::Notes;
pub use speed::Speed;
pub use stages::StageLayers;
pub use storage::Storage;
pub use training::{Lora, Training};

use std::sync::{Arc, RwLock};

use crate::catalog::Catalog;
use crate::framework::{Modules, Profile};
use crate::model::{self, Architecture, Count};
use crate::plan::keys;
use crate::plan::keywords::{Loss, Mode, Precision, Sharding, TransformerImpl};
use crate::plan::{Change, Fault, Plan};

/// A plan with every value decided. The plan's form shows these as the values in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The model.
    pub architecture: Arc<Architecture>,
    /// What its framework does.
    pub profile: &'static Profile,
    /// What the modules of this family do under it, compiled where the plan says so.
    pub modules: Arc<Modules>,
    /// Exact parameter counts of the whole model.
    pub params: Count,
    /// How it is trained.
    pub training: Training,
    /// What is stored in which type.
    pub storage: Storage,
    /// Samples and tokens.
    pub batch: Batch,
    /// How GPUs share the work.
    pub degrees: Degrees,
    /// Layers of each pipeline stage.
    pub stages: Vec<StageLayers>,
    /// The GPU and its links.
    pub hardware: Arc<Hardware>,
    /// What decides how fast it runs.
    pub speed: Speed,
    /// `run.total_tokens`.
    pub total_tokens: Option<f64>,
    /// `run.price_per_gpu_hour`.
    pub price_per_gpu_hour: Option<f64>,
    /// `run.currency`: what that price is in.
    pub currency: String,
    /// Every value that was stood in for a missing key, and every key that has no effect on the figures.
    pub assumptions: Arc<[String]>,
}

impl Job {
    /// Decides everything that the plan leaves open, and checks what it says against each other.
    ///
    /// # Errors
    /// Every fault found, each naming its key and the rule.
    pub fn resolve(plan: &Plan, catalog: &Catalog) -> Result<Self, Vec<Fault>> {
        let mut notes = Notes::default();
        let framework = notes.or(keys::model::framework, plan.model.framework, Profile::standard().framework);
        let implementation = plan.model.transformer_impl.unwrap_or(TransformerImpl::TransformerEngine);
        let profile = Profile::of(framework, implementation);
        let mut architecture = match architecture::of_plan(plan, catalog, profile, &mut notes) {
            Ok(architecture) => architecture,
            Err(fault) => {
                notes.faults.push(fault);
                None
            }
        };
        if let (Some(architecture), Some(names)) = (&mut architecture, &plan.training.frozen) {
            frozen_modules::freeze(names, architecture, &mut notes);
        }
        let profile = fork_for(profile, architecture.as_ref(), &mut notes);
        let hardware = hardware::resolve(plan, catalog, &mut notes);
        let degrees = degrees::resolve(plan, profile, &mut notes);
        let (Some(architecture), Some(hardware), Some(degrees)) = (architecture, hardware, degrees) else {
            return Err(notes.faults);
        };
        let modules = model::modules_of(profile, architecture.family);
        let modules = if plan.training.compile == Some(true) { modules.compiled() } else { modules };
        let modules = modules.with_liger(liger::kernels(plan, profile, &architecture, &mut notes));
        let mut architecture = architecture;
        let mtp_layers = architecture.block().map_or(0, |block| block.mtp_layers);
        if mtp_layers > 0 && !modules.prediction.is {
            architecture.name.push_str(", without its MTP layers");
            if plan.model.hf_config.is_some() {
                let said = format!("{mtp_layers} left out: {} does not build them", profile.name());
                notes.assume("model.hf_config.num_nextn_predict_layers", &said);
            }
        }
        let what = LayoutIndependent {
            profile,
            architecture: Arc::new(architecture),
            modules: Arc::new(modules),
            hardware: Arc::new(hardware),
        };
        what.arranged(plan, degrees, catalog, &KnownCounts::default(), notes)
    }

    /// The job of `plan`, where that differs from the plan of this one in `distribution`, in batches, checkpointing and
    /// offload only: what model and GPU are is not looked up again. Parameters are counted where `counts`, of jobs of this
    /// model alone, has none.
    ///
    /// # Errors
    /// As [`Job::resolve`].
    pub fn rearranged(&self, plan: &Plan, catalog: &Catalog, counts: &KnownCounts) -> Result<Self, Vec<Fault>> {
        let mut notes = Notes::default();
        let Some(degrees) = degrees::resolve(plan, self.profile, &mut notes) else { return Err(notes.faults) };
        let what = LayoutIndependent {
            profile: self.profile,
            architecture: Arc::clone(&self.architecture),
            modules: Arc::clone(&self.modules),
            hardware: Arc::clone(&self.hardware),
        };
        what.arranged(plan, degrees, catalog, counts, notes)
    }

    /// `change`, which makes the plan share `sharding` out in `precision`, with the engine named where that would
    /// otherwise become another one.
    #[must_use]
    pub fn under_same_engine(&self, change: Change, sharding: Sharding, precision: Precision) -> Change {
        let degrees = &self.degrees;
        let derived = self.profile.data_parallel.derived(sharding, precision).is;
        let stays = degrees.engine_is_given || degrees.data.saturating_mul(degrees.context) < 2;
        let can = degrees.sharding != Sharding::None && degrees.engine.shardings().contains(&sharding);
        if stays || derived == degrees.engine || !can {
            return change;
        }
        change.and(keys::distribution::engine, degrees.engine.name())
    }

    /// The fields of the model's transformer blocks, where it has some.
    #[must_use]
    pub fn decoder(&self) -> Option<&model::Decoder> {
        self.architecture.block()
    }

    /// Whether keys and values of what was read are kept for later tokens.
    #[must_use]
    pub fn keeps_cache(&self) -> bool {
        let keeps = match &self.architecture.shape {
            model::ModelShape::Decoder(_) => self.training.use_cache,
            model::ModelShape::Traced(trace) => trace.keeps_cache(),
            _ => false,
        };
        keeps && self.training.mode == Mode::Inference
    }

    /// Whether tensor-parallel ranks each have whole logits: what cuts transformers' classes gathers them (transformers 4.57.6,
    /// models/llama/modeling_llama.py, `_tp_plan`: `colwise_rep`).
    #[must_use]
    pub fn gathers_logits(&self) -> bool {
        let whole = matches!(self.training.loss, Loss::Hf | Loss::Plain);
        self.modules.family_classes.is && self.training.mode == Mode::Train && whole
    }

    /// Rows that the vocabulary is padded to a multiple of.
    #[must_use]
    pub fn vocab_multiple(&self) -> u64 {
        let multiple = self.modules.vocab_multiple.is;
        // Without padding of its own a framework splits the rows over the ranks as they are.
        if multiple > 1 { multiple.saturating_mul(self.degrees.tensor) } else { 1 }
    }
}

/// What a plan's model and GPU come to, however GPUs share the work.
struct LayoutIndependent {
    profile: &'static Profile,
    architecture: Arc<Architecture>,
    modules: Arc<Modules>,
    hardware: Arc<Hardware>,
}

/// Parameters of one model where they were counted before, by the rows that its vocabulary is padded to.
#[derive(Debug, Default)]
pub struct KnownCounts(RwLock<Vec<(u64, Count)>>);

impl KnownCounts {
    fn of(&self, rows: u64, count: impl FnOnce() -> Count) -> Count {
        let find = |known: &Vec<(u64, Count)>| known.iter().find(|(own, _)| *own == rows).map(|(_, count)| *count);
        if let Some(known) = self.0.read().ok().and_then(|known| find(&known)) {
            return known;
        }
        let counted = count();
        if let Ok(mut known) = self.0.write() {
            known.push((rows, counted));
        }
        counted
    }
}

impl LayoutIndependent {
    /// Decides the rest.
    fn arranged(
        self,
        plan: &Plan,
        degrees: Degrees,
        catalog: &Catalog,
        counts: &KnownCounts,
        mut notes: Notes,
    ) -> Result<Job, Vec<Fault>> {
        let Self { profile, architecture, modules, hardware } = self;
        divides::check_model((&degrees, plan.training.mode), &architecture, profile, &mut notes);
        support::check((profile, &degrees), &architecture, plan, &mut notes);
        sight::check(plan, (profile, &degrees), &architecture, &mut notes);
        traced::check(plan, (profile, &degrees), &architecture, &mut notes);
        let lora = adapters::resolve(plan, profile, &architecture, &mut notes);
        let mut training = training::resolve(plan, (profile, &architecture), lora, &mut notes);
        cpu::resolve(plan, (&hardware, &degrees), &mut training, &mut notes);
        adapters::check_loss(training.lora.as_ref(), training.loss, &mut notes);
        let storage = storage::resolve(plan, profile, (&degrees, &hardware), &mut notes);
        sight::check_types(&architecture, &storage, &mut notes);
        let batch = batch::resolve(plan, (profile, &degrees), &architecture, &mut notes);
        if let Some(batch) = &batch {
            traced::check_types(&architecture, (&storage, &degrees), batch, &mut notes);
        }
        let architecture = traced::with_own_layers(architecture, &storage, &degrees);
        let stages = stages::resolve(plan, (profile, &degrees), architecture.layers(), &mut notes);
        let speed = speed::resolve(plan, catalog, &hardware, &degrees, profile, &mut notes);
        let (Some(batch), Some(stages), Some(speed)) = (batch, stages, speed) else { return Err(notes.faults) };
        let (multiple, rows) = padded(&architecture, &modules, &degrees);
        let params = counts.of(rows, || architecture.count(profile, multiple));
        limits::size(&params, (&batch, &degrees, training.mode), &architecture, &mut notes);
        limits::check(profile, &architecture, (&degrees, &batch, &training), &mut notes);
        idle::note(plan, (profile, &degrees), &architecture, &mut notes);
        delta::check((profile, &architecture), (&degrees, &training, storage.autocast), &mut notes);
        kernels::note(&hardware.gpu, &architecture, (&training, &storage), &mut notes);
        kernels::note_recipe(&hardware.gpu, speed.fp8_recipe, (&training, &storage), &mut notes);
        kernels::note_experts(&speed.curves, &architecture, (&modules, &degrees), &mut notes);
        kernels::note_sequential(&architecture, (&modules, &degrees), &training, &mut notes);
        cache::note_latents(&training, &architecture, &mut notes);
        cache::note(&modules, (&training, &storage), &architecture, &mut notes);
        mfu::note(&training, &architecture, (&params, &batch), &mut notes);
        optimizer::note_on_host(&training, &degrees, &mut notes);
        optimizer::note_shared_muon(&training, &degrees, &mut notes);
        let total_tokens = total_tokens(plan, &training, &architecture, &params, &mut notes);
        if !notes.faults.is_empty() {
            return Err(notes.faults);
        }
        Ok(Job {
            architecture,
            profile,
            modules,
            params,
            training,
            storage,
            batch,
            degrees,
            stages,
            hardware,
            speed,
            total_tokens,
            price_per_gpu_hour: plan.run.price_per_gpu_hour,
            currency: plan.run.currency.clone().unwrap_or_else(|| "USD".to_owned()),
            assumptions: notes.assumptions.into(),
        })
    }
}

/// What the vocabulary is padded to a multiple of where all ranks' rows are counted, and to how many rows that comes:
/// models of one decoder that agree in them have as many parameters.
fn padded(architecture: &Architecture, modules: &Modules, degrees: &Degrees) -> (u64, u64) {
    let multiple = modules.vocab_multiple.is;
    let multiple = if multiple > 1 { multiple.saturating_mul(degrees.tensor) } else { degrees.tensor };
    let rows = match &architecture.shape {
        model::ModelShape::Decoder(decoder) => decoder.padded_vocab(multiple),
        _ => multiple,
    };
    (multiple, rows)
}

/// Tokens of the whole training: the plan's, else those by which a model of that size is trained with the least
/// compute. Adapters are tuned on as much as there is, and so is what learns beside a reference or a critic: no law says how
/// much.
fn total_tokens(
    plan: &Plan,
    training: &Training,
    architecture: &Architecture,
    params: &Count,
    notes: &mut Notes,
) -> Option<f64> {
    // Hoffmann et al. 2022, arXiv 2203.15556, table 3: about 20 tokens a parameter at every size.
    const TOKENS_A_PARAMETER: f64 = 20.0;
    let by_law = training.mode == Mode::Train
        && training.lora.is_none()
        && training.frozen.is_nothing()
        && !(training.reference_pass || training.companions.critic || training.companions.generation.is_some())
        && matches!(architecture.shape, model::ModelShape::Decoder(_));
    plan.run.total_tokens.or_else(|| {
        let tokens = TOKENS_A_PARAMETER * params.active as f64;
        by_law.then(|| {
            notes.assume(
                keys::run::total_tokens,
                format!("{tokens:.3e} (Chinchilla: 20 a parameter that a token passes)"),
            );
            tokens
        })
    })
}

/// The profile that can train `architecture`: `profile`, or the fork of it that has the model's attention.
fn fork_for(profile: &'static Profile, architecture: Option<&Architecture>, notes: &mut Notes) -> &'static Profile {
    let Some(block) = architecture.and_then(Architecture::block) else { return profile };
    let fork = profile.for_position(block.position);
    if fork.framework != profile.framework {
        let said = format!("{}: {} has no ALiBi, this fork of it has", fork.name(), profile.name());
        notes.assume(keys::model::framework, said);
    }
    fork
}
