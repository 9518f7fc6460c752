//! Other models and engines on the GPUs that train: frozen models, PPO's critic, an engine that generates answers.

use crate::plan::TrainingPart;
use crate::plan::keywords::{GenerationBeside, Mode};

/// Other models and engines on the GPUs that train.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Companions {
    /// Parameters of other frozen models.
    pub frozen: u64,
    /// A second trained model of the same size (PPO's critic).
    pub critic: bool,
    /// An engine that generates answers.
    pub generation: Option<GenerationEngine>,
}

/// An engine that generates answers on the GPUs that train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GenerationEngine {
    /// Part of the GPU's memory that it takes.
    pub share: f64,
    /// What stands beside it while it generates.
    pub beside: GenerationBeside,
}

impl Companions {
    /// What a plan says of them; a training step alone has them.
    pub(super) fn of(part: &TrainingPart, mode: Mode) -> Self {
        if mode == Mode::Inference {
            return Self::default();
        }
        let beside = part.generation_beside.unwrap_or(GenerationBeside::Step);
        // The schema bounds it to 1e5 billions.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let frozen = part.frozen_models_billions.map_or(0, |billions| (billions * 1e9).round() as u64);
        Self {
            frozen,
            critic: part.critic_model == Some(true),
            generation: part.generation_memory.map(|share| GenerationEngine { share, beside }),
        }
    }
}
