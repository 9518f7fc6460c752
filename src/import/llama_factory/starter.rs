//! What starts LLaMA-Factory's ranks.

use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::origin::Origin;
use crate::plan::keys;
use crate::rows::not_modelled;
use crate::script_defaults::script_of;
use crate::settings::Settings;

/// Whether the program starts torchrun itself, on every GPU in sight: the command, its module (`src/llamafactory/cli.py`,
/// `main`), or a script of a project's own that calls it.
pub fn starts_torchrun(context: &ImportContext) -> bool {
    let named = ["llamafactory-cli", "lmf", "llamafactory.cli"].contains(&context.program.name());
    named || script_of(context).is_some_and(|(_, text)| text.contains("llamafactory.cli import main"))
}

/// Ray starts as many ranks as the file says, one a GPU (`src/llamafactory/train/tuner.py`, `hparams/training_args.py`).
pub fn ray_workers(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.whole("ray_num_workers").filter(|found| found.value > 0) else { return };
    imported.set(keys::cluster::num_gpus, Some(found));
}

/// How a file in the layout of 2026 trains, which no key of it says: by the word behind the command, else by the name of the
/// file (`src/llamafactory/v1/launcher.py`, `examples/v1/train_lora/train_lora_dpo.yaml`).
pub fn v1_stage(settings: &mut Settings, context: &ImportContext) {
    const STAGES: [&str; 3] = ["sft", "dpo", "rm"];
    let told = context.program.words.first().filter(|word| STAGES.contains(&word.as_str()));
    if let Some(word) = told {
        return settings.set("stage", word.as_str().into(), Origin::Program(format!("llamafactory-cli {word}")));
    }
    let file = match settings.get("model_name_or_path").map(|found| &found.origin) {
        Some(Origin::File { name, .. }) => name.rsplit('/').next().unwrap_or_default().to_lowercase(),
        _ => return,
    };
    let named = |stage: &&&str| file.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|part| part == **stage);
    if let Some(stage) = STAGES.iter().find(named) {
        settings.set("stage", (*stage).into(), Origin::Derived(format!("the file is named after `{stage}`")));
    }
}

/// Says of a script of a project's own that starts LLaMA-Factory what its own modules may change before: `from patches import
/// apply`, of a `patches.py` beside it.
pub fn say_modules(imported: &mut ImportedPlan, context: &ImportContext) {
    let Some((path, text)) = script_of(context).filter(|(_, text)| text.contains("llamafactory")) else { return };
    let folder = path.rsplit_once('/').map_or_else(String::new, |(folder, _)| format!("{folder}/"));
    let module = |line: &str| {
        let line = line.trim_start();
        let rest = line.strip_prefix("from ").or_else(|| line.strip_prefix("import "))?;
        let name = rest.split([' ', '.', ',']).next().filter(|name| !name.is_empty() && *name != "llamafactory")?;
        context.run.files.read(&format!("{folder}{name}.py")).is_ok().then(|| name.to_owned())
    };
    if let Some(name) = text.lines().find_map(module) {
        not_modelled(imported, &format!("{path}: what {name}, a module beside it, changes of LLaMA-Factory"));
    }
}
