//! A plan as others write it: Megatron's arguments, a torchrun command, DeepSpeed's JSON,
//! torchtitan's TOML. What the target has no word for is listed, never dropped in silence.

mod deepspeed;
mod megatron;
mod shape;
mod torchrun;
mod torchtitan;

use crate::catalog::Catalog;
use crate::plan::keys::Plan;
use crate::plan::keywords::Mode;
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
    /// A torchtitan configuration.
    Torchtitan,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Megatron, Self::Torchrun, Self::Deepspeed, Self::Torchtitan];

    /// Its name in lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Megatron => "megatron",
            Self::Torchrun => "torchrun",
            Self::Deepspeed => "deepspeed",
            Self::Torchtitan => "torchtitan",
        }
    }

    /// What is written for it.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Megatron => "Megatron-LM's arguments, one a line",
            Self::Torchrun => "the command that starts the run",
            Self::Deepspeed => "a DeepSpeed configuration, JSON",
            Self::Torchtitan => "a torchtitan configuration, TOML",
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
}

impl ExportedPlan {
    /// What it does not say stands in the text too, as comments above it, where `target` has those.
    #[must_use]
    pub fn with_notes(mut self, target: Target) -> Self {
        if target.takes_comments() {
            let notes = self.notes.iter().map(|note| format!("# not said: {note}\n"));
            self.text = notes.chain([std::mem::take(&mut self.text)]).collect();
        }
        self
    }
}

/// Writes `plan` for `target`. A preset's shape comes from the catalogue.
#[must_use]
pub fn export(plan: &Plan, catalog: &Catalog, target: Target) -> ExportedPlan {
    let mut exported = match target {
        Target::Megatron => megatron::arguments(plan, catalog),
        Target::Torchrun => torchrun::command(plan, catalog),
        Target::Deepspeed => deepspeed::json(plan),
        Target::Torchtitan => torchtitan::toml(plan, catalog),
    };
    if plan.training.mode == Some(Mode::Inference) {
        exported.notes.insert(0, "training.mode: inference; what is written here trains".to_owned());
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
    }
}
