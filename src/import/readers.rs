//! Who reads what: every framework's reader, in the order in which they are asked.

use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::launch::Program;
use crate::plan::keys;
use crate::{
    align_anything, areal, automodel, axolotl, bridge, build_nanogpt, chatlearn, colossal, deepspeed, diffusers,
    easy_r1, fms_fsdp, galore, glm, gpt_neox, halos, intern_evo, levanter, lingua, litgpt, llama_accessory,
    llama_factory, llama_recipes, llm_c, llm_foundry, llm_recipes, megatron, mistral_finetune, model_center, nanogpt,
    nanotron, nemo, nemo_factories, nemo_rl, oat, olmo, open_instruct, open_lm, openrlhf, oumi, own_loop, prime_rl,
    primus, python_calls, python_sizes, sky_rl, swift, timm, torchtitan, torchtune, trainer, veomni, verl, xtuner,
};

/// The framework that runs, by its program's name and arguments.
pub fn framework(context: &ImportContext) -> ImportedPlan {
    const MOST_WORDS: usize = 20_000;
    type Reader = (fn(&ImportContext) -> bool, fn(&ImportContext) -> ImportedPlan);
    const READERS: &[Reader] = &[
        (swift::runs, swift::import),
        (gpt_neox::runs, gpt_neox::import),
        (nemo_factories::runs, nemo_factories::import),
        (nemo::runs, nemo::import),
        (bridge::script::runs, bridge::script::import),
        (llama_recipes::runs, llama_recipes::import),
        (llm_recipes::runs, llm_recipes::import),
        (llm_c::runs, llm_c::import),
        (veomni::runs, veomni::import),
        (levanter::runs, levanter::import),
        (intern_evo::runs, intern_evo::import),
        (open_lm::runs, open_lm::import),
        (model_center::runs, model_center::import),
        (megatron::runs, megatron::import),
        (nemo_rl::runs, nemo_rl::import),
        (automodel::runs, automodel::import),
        (oumi::runs, oumi::import),
        (primus::runs, primus::import),
        (areal::runs, areal::import),
        (easy_r1::runs, easy_r1::import),
        (chatlearn::runs, chatlearn::import),
        (sky_rl::runs, sky_rl::import),
        (prime_rl::runs, prime_rl::import),
        (lingua::runs, lingua::import),
        (xtuner::runs, xtuner::import),
        (verl::runs, verl::import),
        (openrlhf::runs, openrlhf::import),
        (oat::runs, oat::import),
        (open_instruct::runs, open_instruct::import),
        (llama_accessory::runs, llama_accessory::import),
        (align_anything::runs, align_anything::import),
        (glm::runs, glm::import),
        (halos::runs, halos::import),
        (galore::runs, galore::import),
        (fms_fsdp::runs, fms_fsdp::import),
        (mistral_finetune::runs, mistral_finetune::import),
        (nanotron::runs, nanotron::import),
        (olmo::runs, olmo::import),
        (olmo::runs_core, olmo::import_core),
        (torchtitan::runs, torchtitan::import),
        (axolotl::runs, axolotl::import),
        (llama_factory::runs, llama_factory::import),
        (torchtune::runs, torchtune::import),
        (llm_foundry::runs, llm_foundry::import),
        (litgpt::runs, litgpt::import),
        (nanogpt::runs, nanogpt::import),
        (build_nanogpt::runs, build_nanogpt::import),
        (colossal::runs, colossal::import),
        (diffusers::runs, diffusers::import),
        (timm::runs, timm::import),
        (trainer::runs, trainer::import),
        (python_calls::runs, python_calls::import),
        (deepspeed::runs, deepspeed::import),
    ];
    let looked_at = !context.program.trains_nothing() && context.program.words.len() <= MOST_WORDS;
    let reader = READERS.iter().find(|(runs, _)| looked_at && runs(context));
    reader.map_or_else(|| unknown(context), |(_, import)| import(context))
}

/// A program of nobody's: what stands around it is still told.
fn unknown(context: &ImportContext) -> ImportedPlan {
    const LONGEST_SHOWN: usize = 100;
    let mut imported = ImportedPlan::default();
    // Of what is no Python the command says more than the word that stands last in it.
    let shown = match context.program {
        Program { python: true, .. } | Program { module: true, .. } => context.program.shown(),
        _ => context.run.command.join(" ").chars().take(LONGEST_SHOWN).collect(),
    };
    let none = || "it has no command line".to_owned();
    let script = Some(&context.program.path).filter(|path| context.program.python && path.ends_with(".py"));
    let why = match script.map(|path| context.run.files.read(path)) {
        _ if shown.is_empty() => none(),
        // What is not there may well be of one.
        Some(Err(unread)) => format!("{}, and by its name it is of no framework that is known", unread.0),
        _ => format!("`{shown}` is of no framework that is known"),
    };
    imported.miss("model", why);
    python_sizes::tell_of_unknown(&mut imported, context);
    // Without a launcher it may start its ranks itself.
    let path = Some(&context.program.path).filter(|path| path.ends_with(".py") && context.launchers.is_empty());
    let text = path.and_then(|path| context.run.files.read(path).ok());
    if let Some(part) = text.as_deref().and_then(own_loop::several_processes) {
        imported
            .miss(keys::cluster::num_gpus, format!("no launcher is named, and {} has {part}", context.program.path));
    }
    imported
}
