//! What differs by the version of a library that the run's environment has, of what the Trainer and TRL do.

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::Origin;
use super::super::settings::Settings;
use super::super::{trl, versions};
use super::checkpoint_types;

/// The first version of transformers whose defaults were not compared with those of 4.57 yet: what the tables name is the
/// same in `training_args.py` of 5.24.
const READ: (u64, u64) = (5, 25);

/// Sets the defaults of the versions that run over those of the tables; why the types of weights stay open, where they do.
pub fn apply(imported: &mut ImportedPlan, settings: &mut Settings, context: &ImportContext) -> Option<String> {
    apply_to(imported, settings, context, trl::method(context))
}

/// The same of a script that trains by one of TRL's methods, whatever it is called.
pub fn apply_to(
    imported: &mut ImportedPlan,
    settings: &mut Settings,
    context: &ImportContext,
    method: Option<&str>,
) -> Option<String> {
    defaults(imported, settings, context, method);
    // `torch_dtype: auto` is the checkpoint's own type in every version.
    let auto = settings.first_text(&["torch_dtype", "dtype"]).filter(|found| found.value == "auto");
    if let Some(found) = auto {
        let name = settings.first_text(&["model_name_or_path", "model_name"]).map(|found| found.value);
        return match name.and_then(|name| checkpoint_type(context, &name)) {
            Some(word) => {
                settings.set("torch_dtype", word.into(), found.origin);
                None
            }
            None => Some(format!("{} auto: the checkpoint's own type, which is not known here", found.origin)),
        };
    }
    usual_type(imported, settings, context, method)
}

/// Sets the defaults that the Trainer and TRL have in the versions that run.
pub fn defaults(imported: &mut ImportedPlan, settings: &mut Settings, context: &ImportContext, method: Option<&str>) {
    let known = &context.run.versions;
    versions::apply(versions::TRAINER, known, settings, imported);
    let Some(method) = method else { return };
    versions::apply(versions::TRL, known, settings, imported);
    if ["dpo", "kto", "reward", "reward_modeling"].contains(&method) {
        versions::apply(versions::TRL_PAIRS, known, settings, imported);
    }
    if method == "sft" {
        versions::apply(versions::TRL_SFT, known, settings, imported);
    }
    if method == "grpo" {
        versions::apply(versions::TRL_GROUPS, known, settings, imported);
    }
    if known.contains_key("transformers") && !known.contains_key("trl") {
        imported.note(
            "the version of TRL is not known: its defaults are those of 1.0, where its transformers tells no other",
        );
    }
}

/// Sets the type of weights that the version of transformers loads where nobody says one; why it stays open, where it
/// does.
fn usual_type(
    imported: &mut ImportedPlan,
    settings: &mut Settings,
    context: &ImportContext,
    method: Option<&str>,
) -> Option<String> {
    let known = &context.run.versions;
    let range = versions::of(known, "transformers")?;
    let text = known.get("transformers").map_or("", String::as_str);
    if range.is_within((4, 57), READ) != Some(true) {
        imported.note(format!("transformers {text} runs: what is not said here is as in 4.57"));
    }
    let names = ["torch_dtype", "dtype", "model_dtype"];
    // A default of TRL's scripts is handed to `from_pretrained` too.
    let told = names.iter().any(|name| settings.is_set(name) || settings.text(name).is_some())
        || (method.is_some() && !known.contains_key("trl"));
    let named = settings.first_text(&["model_name_or_path", "model_name"]);
    let name = named.filter(|_| !told)?.value;
    match range.is_within((5, 0), versions::NEWEST) {
        Some(true) => {}
        Some(false) => return None,
        None => {
            imported.note(format!(
                "transformers {text}: from 5.0 on weights keep the checkpoint's own type; as in 4.57 here"
            ));
            return None;
        }
    }
    // `from_pretrained(dtype="auto")` is the default since 5.0 (`modeling_utils.py`): the checkpoint's own type.
    match checkpoint_type(context, &name) {
        Some(word) => {
            let option = format!("dtype auto: {word} of the checkpoint");
            settings.set("torch_dtype", word.into(), Origin::Default { framework: "transformers 5", option });
            None
        }
        None => {
            Some(format!("transformers {text} keeps weights in the checkpoint's own type, which is not known here"))
        }
    }
}

/// The type that a checkpoint's configuration names, in a folder, in the hub's cache or as it was published.
fn checkpoint_type(context: &ImportContext, name: &str) -> Option<String> {
    let name = name.trim_end_matches('/');
    configured_type(context, name).or_else(|| checkpoint_types::published(name).map(str::to_owned))
}

fn configured_type(context: &ImportContext, name: &str) -> Option<String> {
    let files = context.run.files;
    let text = files
        .read(&format!("{name}/config.json"))
        .or_else(|why| files.read(&super::super::model::configuration(context, name).ok_or(why)?))
        .ok()?;
    let config: serde_json::Value = serde_json::from_str(&text).ok()?;
    ["dtype", "torch_dtype"].iter().find_map(|key| Some(config.get(*key)?.as_str()?.to_owned()))
}
