//! A plan as others write it: Megatron's arguments, a torchrun command, DeepSpeed's JSON,
//! torchtitan's TOML and its configuration in Python. What the target has no word for is listed, never dropped in silence.

mod deepspeed;
mod megatron;
mod shape;
mod stages;
mod torchrun;
mod torchtitan;
mod torchtitan_python;

use crate::catalog::Catalog;
use crate::plan::keys::{self, Plan};
use crate::plan::keywords::{Framework, Mode};
use crate::plan::types::Checkpointing;

pub use shape::ExportDegrees;

/// What a plan can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Megatron-LM's arguments, one a line.
    Megatron,
    /// The command that starts the run.
    Torchrun,
    /// A DeepSpeed configuration.
    Deepspeed,
    /// A torchtitan configuration of up to February 2026.
    Torchtitan,
    /// A torchtitan configuration since.
    TorchtitanPython,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Megatron, Self::Torchrun, Self::Deepspeed, Self::Torchtitan, Self::TorchtitanPython];

    /// Its name in lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Megatron => "megatron",
            Self::Torchrun => "torchrun",
            Self::Deepspeed => "deepspeed",
            Self::Torchtitan => "torchtitan",
            Self::TorchtitanPython => "torchtitan-python",
        }
    }

    /// What is written for it.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Megatron => "Megatron-LM's arguments, one a line",
            Self::Torchrun => "the command that starts the run",
            Self::Deepspeed => "a DeepSpeed configuration, JSON",
            Self::Torchtitan => "a torchtitan configuration, TOML (to February 2026)",
            Self::TorchtitanPython => "a torchtitan configuration, Python (since February 2026)",
        }
    }

    /// How the name of its file ends.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Megatron => "megatron.args",
            Self::Torchrun => "torchrun.sh",
            Self::Deepspeed => "deepspeed.json",
            Self::Torchtitan => "torchtitan.toml",
            Self::TorchtitanPython => "torchtitan.py",
        }
    }

    /// The versions whose names and defaults it is written for.
    #[must_use]
    pub const fn versions(self) -> &'static str {
        match self {
            Self::Megatron => "Megatron-LM core 0.16",
            Self::Torchrun => "PyTorch 2.0 and later; Megatron-LM core 0.16, torchtitan 0.2",
            Self::Deepspeed => "DeepSpeed 0.18",
            Self::Torchtitan => "torchtitan 0.2, whose TOML ended in February 2026",
            Self::TorchtitanPython => "torchtitan of August 2026 (b5bcd76c)",
        }
    }

    /// Whether its text may have comments.
    #[must_use]
    pub const fn takes_comments(self) -> bool {
        !matches!(self, Self::Deepspeed)
    }
}

/// A plan in another's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedPlan {
    /// The text.
    pub text: String,
    /// What it does not say, one line each.
    pub notes: Vec<String>,
    /// Why nothing is written: the target has no words for the model.
    pub refused: Option<String>,
}

impl ExportedPlan {
    /// The versions that it is written for and what it does not say stand in the text too, as comments above it, where
    /// `target` has those.
    #[must_use]
    pub fn with_notes(mut self, target: Target) -> Self {
        if target.takes_comments() && self.refused.is_none() {
            let versions = format!("# written for {}\n", target.versions());
            let notes = self.notes.iter().map(|note| format!("# not said: {note}\n"));
            self.text = [versions].into_iter().chain(notes).chain([std::mem::take(&mut self.text)]).collect();
        }
        self
    }
}

/// Writes `plan` for `target`. A preset's shape comes from the catalogue.
#[must_use]
pub fn export(plan: &Plan, catalog: &Catalog, target: Target) -> ExportedPlan {
    let by_arguments =
        target == Target::Megatron || (target == Target::Torchrun && plan.model.framework == Some(Framework::Megatron));
    if by_arguments && shape::architecture(plan, catalog).is_none() {
        let model = &plan.model;
        let why = match &model.preset {
            Some(name) => format!("Megatron-LM's arguments cannot say the shape of {name}"),
            None if model.hf_config.is_some() => {
                "Megatron-LM's arguments cannot say the shape of this model".to_owned()
            }
            None => "no shape is given: model.preset or model.architecture gives one".to_owned(),
        };
        let refused = Some(format!("model: {why}; nothing is written"));
        return ExportedPlan { refused, ..ExportedPlan::default() };
    }
    let mut exported = match target {
        Target::Megatron => megatron::arguments(plan, catalog),
        Target::Torchrun => torchrun::command(plan, catalog),
        Target::Deepspeed => deepspeed::json(plan),
        Target::Torchtitan => torchtitan::toml(plan, catalog),
        Target::TorchtitanPython => torchtitan_python::python(plan, catalog),
    };
    let ExportDegrees { gpus, nodes, per_node, .. } = ExportDegrees::of(plan);
    if target == Target::Megatron && gpus > 1 {
        exported.notes.push(format!(
            "cluster.num_gpus: {gpus}; what starts the run says it, as `--to torchrun` writes: torchrun --nnodes {nodes} \
             --nproc-per-node {per_node}"
        ));
    }
    if plan.training.mode == Some(Mode::Inference) {
        exported.notes.insert(0, "training.mode: inference; what is written here trains".to_owned());
    }
    if plan.training.autocast == Some(true) {
        exported.notes.push(format!("{}: no key says it", keys::training::autocast));
    }
    if plan.training.launch_blocking == Some(true) {
        let key = keys::training::launch_blocking;
        exported.notes.push(format!("{key}: CUDA_LAUNCH_BLOCKING=1 in the environment says it"));
    }
    exported
}

/// What recomputation is called where it has no word of the target's own.
fn recomputation_name(checkpointing: &Checkpointing) -> String {
    match checkpointing {
        Checkpointing::None => "none".to_owned(),
        Checkpointing::Selective => "selective".to_owned(),
        Checkpointing::SelectiveOp => "selective-op".to_owned(),
        Checkpointing::Full => "full".to_owned(),
        Checkpointing::Every(each) => format!("every {each} blocks"),
        Checkpointing::Modules(modules) => {
            let names: Vec<_> = modules.iter().map(|module| module.name()).collect();
            format!("of {}", names.join(", "))
        }
        Checkpointing::Classes(classes) => format!("of {}", classes.join(", ")),
    }
}
