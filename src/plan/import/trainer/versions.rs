//! What differs by the version of a library that the run's environment has.

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::Origin;
use super::super::settings::{DefaultValue, Settings};

/// The first numbers of a version: `2.8.0+cu128` is 2 and 8.
fn numbers(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split(|letter: char| !letter.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next().and_then(|part| part.parse().ok()).unwrap_or(0)))
}

/// Sets the defaults of the versions that run over those of the table; why the types of weights stay open, where they do.
pub fn apply(imported: &mut ImportedPlan, settings: &mut Settings, context: &ImportContext) -> Option<String> {
    let version = |name: &str| context.run.versions.get(name).and_then(|text| numbers(text));
    // `TrainingArguments.default_optim` (transformers, `training_args.py`): the fused one with PyTorch 2.8 and later.
    if version("torch").is_some_and(|torch| torch < (2, 8)) && !settings.is_set("optim") {
        settings.over(Settings::defaults(
            "transformers under PyTorch before 2.8",
            &[("optim", DefaultValue::Text("adamw_torch"))],
        ));
    }
    let transformers = version("transformers")?;
    let text = context.run.versions.get("transformers").map_or("", String::as_str);
    if transformers != (4, 57) {
        imported.note(format!("transformers {text} runs: what is not said here is as in 4.57"));
    }
    let told = ["torch_dtype", "dtype", "model_dtype"].iter().any(|name| settings.is_set(name));
    let named = settings.first_text(&["model_name_or_path", "model_name"]);
    let name = named.filter(|_| transformers.0 >= 5 && !told)?.value;
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

/// The type that a checkpoint's configuration names, in a folder or in the hub's cache.
fn checkpoint_type(context: &ImportContext, name: &str) -> Option<String> {
    let files = context.run.files;
    let name = name.trim_end_matches('/');
    let text = files
        .read(&format!("{name}/config.json"))
        .or_else(|why| files.read(&super::super::model::configuration(context, name).ok_or(why)?))
        .ok()?;
    let config: serde_json::Value = serde_json::from_str(&text).ok()?;
    ["dtype", "torch_dtype"].iter().find_map(|key| Some(config.get(*key)?.as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_have_two_numbers() {
        for (text, version) in [("2.8.0+cu128", (2, 8)), ("5.0.0rc1", (5, 0)), ("4.57.1", (4, 57))] {
            assert_eq!(numbers(text), Some(version), "{text}");
        }
        assert_eq!(numbers("main"), None);
    }
}
