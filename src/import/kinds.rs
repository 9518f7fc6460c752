//! Who reads the settings of a file: each tool by what only it has.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::Origin;
use super::settings::Settings;
use super::{
    accelerate, align_anything, areal, automodel, axolotl, chatlearn, deepspeed, easy_r1, galore, glm, gpt_neox,
    levanter, lingua, litgpt, llama_factory, llm_foundry, mistral_finetune, nanotron, nemo, nemo_rl, olmo,
    open_instruct, oumi, own_config, prime_rl, primus, roll, swift, torchtitan, torchtune, trainer, veomni, verl,
};
use crate::plan::keys;

/// Reads the settings of a file of that name.
pub type Reader = fn(Settings, &str, &ImportContext) -> ImportedPlan;

/// Who reads settings, by what is in them.
pub fn kind(settings: &Settings) -> Option<Reader> {
    type Kind = (fn(&Settings) -> bool, Reader);
    const KINDS: &[Kind] = &[
        (automodel::is_config, |settings, _, context| automodel::of_file(settings, context)),
        (primus::is_config, |settings, name, context| primus::of_file(&settings, name, context)),
        (oumi::is_config, |settings, _, context| oumi::of_file(settings, context)),
        (nemo_rl::is_config, nemo_rl::of_file),
        (roll::is_config, |settings, _, context| roll::of_file(settings, context)),
        (prime_rl::is_config, |settings, _, context| prime_rl::of_file(settings, context)),
        (areal::is_config, |settings, _, context| areal::of_file(settings, context)),
        (chatlearn::is_config, |settings, _, context| chatlearn::of_file(settings, context)),
        (easy_r1::is_config, |settings, _, context| easy_r1::of_file(settings, context)),
        (verl::is_config, |settings, _, context| verl::of_file(settings, context)),
        (levanter::is_config, |settings, _, context| levanter::of_file(settings, context)),
        (veomni::is_config, |settings, _, context| veomni::of_file(settings, context)),
        (lingua::is_config, |settings, _, _| lingua::of_file(settings)),
        (torchtune::is_config, torchtune::of_file),
        (gpt_neox::is_config, |settings, _, _| gpt_neox::of_file(&settings)),
        (olmo::is_config, |settings, _, _| olmo::of_file(settings)),
        (align_anything::is_config, |settings, name, context| align_anything::of_file(&settings, name, context)),
        (glm::is_config, |settings, _, context| glm::of_file(&settings, context)),
        (galore::is_config, |settings, _, context| galore::of_file(settings, context)),
        (mistral_finetune::is_config, |settings, _, context| mistral_finetune::of_file(settings, context)),
        (nanotron::is_config, |settings, _, _| nanotron::of_file(settings)),
        (nemo::is_nemo, |settings, _, context| nemo::of_nemo(settings, context)),
        (nemo::is_bridge, |settings, _, _| nemo::of_bridge(&settings)),
        (torchtitan::is_config, |settings, _, context| torchtitan::of_file(settings, context)),
        (axolotl::is_config, |settings, _, context| axolotl::of_file(settings, context)),
        (llama_factory::is_config, llama_factory::of_file),
        (swift::is_config, |settings, _, context| swift::of_file(settings, context)),
        (open_instruct::is_config, open_instruct::of_file),
        (trainer::is_config, trainer::of_file),
        (llm_foundry::is_config, |settings, _, context| llm_foundry::of_file(settings, context)),
        (
            |settings| settings.holds("command") && llm_foundry::is_config(&settings.below("parameters")),
            |settings, _, context| llm_foundry::of_job(&settings, context),
        ),
        (litgpt::is_config, |settings, _, context| litgpt::of_file(settings, context)),
        (own_config::is_config, |settings, name, context| own_config::of_file(&settings, name, context)),
        (trainer::is_recipe, trainer::of_file),
        (accelerate::is_config, |settings, _, context| accelerate::of_file(&settings, context)),
        (deepspeed::is_config, |settings, _, _| deepspeed::of_file(&settings)),
        (is_hugging_face, hugging_face),
    ];
    KINDS.iter().find(|(is, _)| is(settings)).map(|(_, read)| *read)
}

/// The plan of settings, by whoever reads them.
pub fn of_settings(settings: Settings, name: &str, context: &ImportContext) -> Option<ImportedPlan> {
    kind(&settings).map(|read| read(settings, name, context))
}

fn is_hugging_face(settings: &Settings) -> bool {
    let sized = [
        "hidden_size",
        "n_embd",
        "d_model",
        "dim",
        "hidden_sizes",
        "text_config",
        "block_out_channels",
        "num_layers",
        "sample_size",
        "depths",
    ];
    let named = settings.holds("model_type") || settings.holds("architectures") || settings.holds("_class_name");
    named && sized.iter().any(|key| settings.holds(key))
}

fn hugging_face(_: Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Hugging Face");
    let origin = Origin::Program("the configuration of a model".to_owned());
    imported.say(keys::model::hf_config, context.run.files.absolute(name), origin);
    imported.miss("training", "a model's configuration says nothing about its training");
    imported
}
