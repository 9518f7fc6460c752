//! Pools of GPUs of verl: the roles of a run that does not have one pool (`examples/split_placement/main_ppo_split.py`).

use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::origin::Origin;
use crate::rows::not_modelled;
use crate::settings::Settings;

/// What is said of a run whose actor has a pool that is a part of the GPUs.
pub(super) fn say(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    if context.program.name().contains("split") || is_started_in_parts(settings, context).unwrap_or(false) {
        not_modelled(imported, "the pools of a split placement: the actor has a part of the GPUs, the plan all");
    }
}

/// Whether the script beside a configuration that names it (`@hydra.main(config_path="config", config_name=…)`) makes
/// several pools.
fn is_started_in_parts(settings: &Settings, context: &ImportContext) -> Option<bool> {
    let Origin::File { name, .. } = settings.text("actor_rollout_ref.model.path")?.origin else { return None };
    let (folder, file) = name.rsplit_once('/')?;
    let (above, _) = folder.rsplit_once('/').unwrap_or(("", folder));
    let named = format!("config_name=\"{}\"", file.trim_end_matches(".yaml"));
    let files = context.run.files;
    let scripts = files.names(above).into_iter().filter(|name| name.ends_with(".py"));
    let texts = scripts.filter_map(|script| files.read(format!("{above}/{script}").trim_start_matches('/')).ok());
    Some(texts.filter(|text| text.contains(&named)).any(|text| pools(&text) > 1))
}

/// How many pools the first dictionary of them has.
fn pools(text: &str) -> usize {
    let Some((_, rest)) = text.split_once("resource_pool_spec = {") else { return 0 };
    let inside = rest.split_once('}').map_or("", |(inside, _)| inside);
    inside.lines().filter(|line| line.contains(": [")).count()
}
