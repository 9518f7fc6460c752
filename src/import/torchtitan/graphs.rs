//! CUDA graphs of torchtitan's trainer.

use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::rows::not_modelled;
use crate::settings::Settings;

/// Releases whose trainer knows the switch capture forward and backward unless it is set (`trainer.py`,
/// `wrap_with_cuda_graph`): the graph keeps a pool of its own, and gradients are zeroed in place of being freed.
pub fn say(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    const NAME: &str = "training.disable_cuda_graphs";
    const CONFIGURATION: &str = "torchtitan/config/configs.py";
    let told = settings.flag(NAME).map(|found| found.value);
    let knows = || {
        let text = context.run.files.read(CONFIGURATION);
        text.is_ok_and(|text| text.contains("disable_cuda_graphs: bool = False"))
    };
    if told == Some(false) || (told.is_none() && knows()) {
        not_modelled(
            imported,
            "CUDA graphs of forward and backward: their pool, and gradients that stay between steps",
        );
    }
}
