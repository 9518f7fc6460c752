//! One file a framework. What each writes is in its own source; `tests/logs` holds lines of all.

mod bar;
mod basicsr;
mod batches;
mod composer;
mod csv;
mod custom;
mod deepspeed;
mod epochs;
mod hugging_face;
mod json;
mod keras;
mod litgpt;
mod megatron;
mod nanogpt;
mod nemo;
mod olmo;
mod rich;
mod speech;
mod stable_baselines;
mod text;
mod torchtitan;
mod torchtune;
mod verl;
mod words;
mod yolo;

use super::facts::LineFormat;
pub use custom::{CustomPattern, PatternError};
pub use json::{facts, flatten};

/// All that are known, the surest first.
pub fn all() -> Vec<Box<dyn LineFormat>> {
    vec![
        Box::new(megatron::Megatron),
        Box::new(torchtitan::Torchtitan),
        Box::new(nanogpt::NanoGpt),
        Box::new(litgpt::LitGpt),
        Box::new(deepspeed::DeepSpeed),
        Box::new(torchtune::Torchtune),
        Box::new(composer::Composer),
        Box::new(hugging_face::HuggingFace),
        Box::new(nemo::Nemo),
        Box::new(bar::TorchtuneBar),
        Box::new(bar::Lightning),
        Box::new(bar::PlainBar::default()),
        Box::new(rich::RichBar::default()),
        Box::new(json::Json),
        Box::new(csv::Columns::default()),
        Box::new(stable_baselines::StableBaselines::default()),
        Box::new(olmo::Olmo),
        Box::new(verl::Verl),
        Box::new(yolo::Yolo::default()),
        Box::new(keras::Keras::default()),
        Box::new(basicsr::BasicSr),
        Box::new(speech::Coqui::default()),
        Box::new(speech::Vits::default()),
        Box::new(epochs::Epochs::default()),
        Box::new(batches::Batches::default()),
        Box::new(text::Text::default()),
    ]
}
