//! Models by the names that training commands have for them: a folder, a name on the Hugging
//! Face hub, a preset.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::base;
use super::origin::{Origin, Setting};
use super::{model_paths, vision};
use crate::plan::keys;

const CONFIG: &str = "config.json";

/// Endings of hub names that leave the architecture as it is.
const VARIANTS: [&str; 46] = [
    "-mpo",
    "-hf",
    "-pretrained",
    "-thinking",
    "-instruct",
    "-chat",
    "-base",
    "-it",
    "-pt",
    "-bnb-4bit",
    "-unsloth",
    "-fp16",
    "-bf16",
    "-awq",
    "-gptq",
    "-gptq-int4",
    "-gptq-int8",
    "-int4",
    "-int8",
    "-instruct-v0.1",
    "-instruct-v0.2",
    "-instruct-v0.3",
    "-v0.1",
    "-v0.2",
    "-v0.3",
    "-v1.0",
    "-2407",
    "-2507",
    "-instruct-2507",
    "-thinking-2507",
    "-nf4",
    "-dequantized",
    "-preview",
    "-deduped",
    "-v0",
    "-text",
    "-chat-v1.0",
    "-whole-word-masking",
    // Tasks of GLUE: the encoder's shape with a small head.
    "-mnli",
    "-sst2",
    "-qqp",
    "-qnli",
    "-cola",
    "-mrpc",
    "-rte",
    "-stsb",
];

/// Sets the model that `found` names: a folder with a `config.json` or that file, a name of the
/// catalogue, a configuration in the hub's cache; else a size that the name tells.
pub fn set(imported: &mut ImportedPlan, context: &ImportContext, found: Setting<String>) {
    let name = found.value.trim().trim_end_matches('/').to_owned();
    let origin = found.origin;
    // An option whose variable is empty stands alone, or takes an empty word for its value.
    if matches!(name.as_str(), "" | "true") {
        return imported.miss(keys::model::preset, format!("{origin} is given no name"));
    }
    imported.quantised = bits(&name).map(|bits| Setting::new(bits, Origin::Derived(format!("the name {name}"))));
    if let Some(path) = folder(context, &name) {
        return imported.say(keys::model::hf_config, path, origin);
    }
    // ModelScope keeps `Qwen1.5-0.5B` in a folder `Qwen1___5-0___5B`.
    let name = name.replace("___", ".");
    let name = stored(&name).unwrap_or(name);
    if vision::set(imported, context, &name, &origin) {
        return;
    }
    if let Some(preset) = preset(context, &name) {
        if is_bare_folder(&name) {
            let why = format!("{name}: the name of a folder, which tells no size ({preset} is called so)");
            return imported.miss(keys::model::preset, why);
        }
        return imported.say(keys::model::preset, preset, named(&origin, &name));
    }
    if let Some(path) = cached(context, &name) {
        return imported.say(
            keys::model::hf_config,
            path,
            Origin::Derived(format!("{origin}: {name} in the hub's cache")),
        );
    }
    if let Some(preset) = held(context, &name) {
        imported.note(format!("model: {name} is not known: taken as {preset}, which its name holds"));
        if vision::set(imported, context, &preset, &origin) {
            return;
        }
        return imported.say(
            keys::model::preset,
            preset,
            Origin::Derived(format!("{origin} {name}: its name holds it")),
        );
    }
    if let Some(preset) = model_paths::above(context, &name) {
        imported.note(format!("model: {name} is not known: taken as {preset}, which a folder of its path is called"));
        let origin = Origin::Derived(format!("{origin} {name}: a folder of its path"));
        if vision::set(imported, context, &preset, &origin) {
            return;
        }
        return imported.say(keys::model::preset, preset, origin);
    }
    if let Some(preset) = model_paths::sized_below(context, &name) {
        imported.note(format!("model: {name} is not known: taken as {preset}, which its path calls it"));
        let origin = Origin::Derived(format!("{origin} {name}: a folder and a size"));
        return imported.say(keys::model::preset, preset, origin);
    }
    let why = format!("{name}: neither a model of the catalogue nor a config.json on this machine");
    match billions(&name) {
        _ if vision::is_multimodal(&name) => imported.miss(
            keys::model::preset,
            format!(
                "{why}; no size stands in for a model of pictures or sound: give its config.json, or memwall trace --hf"
            ),
        ),
        Some(size) => {
            imported.say(keys::model::size_billions, size, Origin::Derived(format!("guessed from the name {name}")));
            imported.note(format!("model: {why}; a standard architecture of that size stands in"));
        }
        None => imported.miss(keys::model::preset, why),
    }
}

fn named(origin: &Origin, name: &str) -> Origin {
    match origin {
        Origin::Argument(option) => Origin::Argument(format!("{option} {name}")),
        Origin::File { name: file, line, key } => {
            Origin::File { name: file.clone(), line: *line, key: format!("{key}: {name}") }
        }
        other => other.clone(),
    }
}

/// Where the configuration of a model lies on this machine: in its folder, or in the hub's cache.
pub fn configuration(context: &ImportContext, name: &str) -> Option<String> {
    folder(context, name).or_else(|| cached(context, name))
}

/// The configuration of a folder or file on this machine.
fn folder(context: &ImportContext, name: &str) -> Option<String> {
    let files = context.run.files;
    let path = if name.ends_with(".json") { name.to_owned() } else { format!("{name}/{CONFIG}") };
    files.read(&path).is_ok().then(|| files.absolute(&path))
}

/// A name without one after the other of the endings that leave an architecture as it is.
pub fn tuned(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |rest| VARIANTS.iter().find_map(|ending| rest.strip_suffix(ending)))
}

/// The catalogue's name of a model.
pub fn preset(context: &ImportContext, name: &str) -> Option<String> {
    let known = |name: &str| context.catalog.model(name).map(|model| model.name.clone());
    // Gemma 1.1 has Gemma's shapes.
    let plain = base(name).to_lowercase().replace('_', "-").replace("gemma-1.1-", "gemma-");
    let plain = pointed(&plain).unwrap_or(plain);
    known(name).or_else(|| known(&plain)).or_else(|| {
        let mut rest = plain.as_str();
        // `Meta-Llama-3.1-8B-Instruct-bnb-4bit`: one ending after the other.
        while let Some(shorter) = VARIANTS.iter().find_map(|ending| rest.strip_suffix(ending)) {
            rest = shorter;
            if let Some(preset) = known(rest).or_else(|| known(rest.strip_prefix("meta-").unwrap_or(rest))) {
                return Some(preset);
            }
        }
        known(rest.strip_prefix("meta-").unwrap_or(rest)).or_else(|| known(&without_tuning(rest)))
    })
}

/// A model of the catalogue that a name holds, whatever else it says of how that was trained: `Llama-3-8b-sft-mixture`.
/// None where a word speaks of another architecture.
pub fn held(context: &ImportContext, name: &str) -> Option<String> {
    const OTHERS: [&str; 38] = [
        "moe",
        "deep",
        "select",
        "vl",
        "vid",
        "video",
        "llava",
        "omni",
        "audio",
        "vision",
        "vlm",
        "draft",
        "eagle",
        "medusa",
        "pruned",
        "prune",
        "sheared",
        "minitron",
        "depth",
        "tiny",
        "random",
        "reward",
        "rm",
        "embedding",
        "clip",
        "fused",
        "adapter",
        "small",
        "large",
        "mini",
        "owl",
        "owl2",
        "aqlm",
        "nvfp4",
        "fp8",
        "2bit",
        "4bit",
        "8bit",
    ];
    let plain = base(name).to_lowercase().replace('_', "-");
    let plain = pointed(&plain).unwrap_or(plain);
    let words: Vec<&str> = plain.split('-').collect();
    let sized = |words: &[&str]| words.iter().any(|word| billions(word).is_some());
    if words.iter().any(|word| OTHERS.contains(word) || word.contains("moe") || word.contains("select")) {
        return None;
    }
    // `LLaMA-Pro` has blocks more; the Pro of `Hermes-2-Pro-Mistral-7B` is the tuning's.
    let first = words.iter().rposition(|word| *word == "pro").map_or(0, |at| at + 1);
    (2..words.len()).rev().find_map(|long| {
        words.get(first..)?.windows(long).filter(|part| sized(part)).find_map(|part| {
            let name = part.join("-");
            context.catalog.model(&name).map(|model| model.name.clone())
        })
    })
}

/// A name whose version is written with `-` for the point: `llama-3-1-8b`.
fn pointed(name: &str) -> Option<String> {
    let words: Vec<&str> = name.split('-').collect();
    let number = |word: &str| word.len() == 1 && word.bytes().all(|letter| letter.is_ascii_digit());
    let ends = |word: &str| word.ends_with(|letter: char| letter.is_ascii_digit()) && billions(word).is_none();
    let at = words.windows(3).position(
        |part| matches!(part, [major, minor, size] if ends(major) && number(minor) && billions(size).is_some()),
    )?;
    let (before, behind) = (words.get(..=at)?.join("-"), words.get(at + 1..)?.join("-"));
    Some(format!("{before}.{behind}"))
}

/// A name without the words for how a model was trained further, wherever they stand: `llama-3-base-8b-sft` has the
/// shapes of `llama-3-8b`.
fn without_tuning(name: &str) -> String {
    const TUNING: &str = "base instruct chat it hf sft dpo rlhf full ppo grpo orpo kto lora qlora merged mixture finetuned \
                          finetune tuned tldr deduped model";
    let name = name.replace("-constitutional-ai", "");
    let kept: Vec<&str> =
        name.split('-').filter(|word| TUNING.split_whitespace().all(|other| other != *word)).collect();
    kept.join("-")
}

/// The name on the hub of a model by the folder that the hub's library stores it in, wherever that lies:
/// `/shared/models--Qwen--Qwen3-8B/snapshots/HASH` (`huggingface_hub/file_download.py`, `repo_folder_name`).
fn stored(path: &str) -> Option<String> {
    let (_, rest) = path.split_once("models--")?;
    let (folder, behind) = rest.split_once('/').unwrap_or((rest, ""));
    let (owner, name) = folder.split_once("--")?;
    (behind.is_empty() || behind.starts_with("snapshots")).then(|| format!("{owner}/{}", name.replace("--", "/")))
}

/// A configuration that the hub's library has stored: `hub/models--A--B/snapshots/HASH/config.json`.
fn cached(context: &ImportContext, name: &str) -> Option<String> {
    let variable = |name: &str| context.variable(name).map(|found| found.value);
    let hub = ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"].iter().find_map(|name| variable(name));
    let hub = hub
        .or_else(|| variable("HF_HOME").map(|home| format!("{home}/hub")))
        .or_else(|| variable("HOME").map(|home| format!("{home}/.cache/huggingface/hub")))?;
    if name.contains("..") || name.matches('/').count() > 1 {
        return None;
    }
    let files = context.run.files;
    let model = format!("{hub}/models--{}", name.replace('/', "--"));
    let revision = files.read(&format!("{model}/refs/main")).ok()?;
    let path = format!("{model}/snapshots/{}/{CONFIG}", revision.trim());
    files.read(&path).is_ok().then(|| files.absolute(&path))
}

/// Bits of weights by the endings that the hub has for them: `-AWQ`, `-GPTQ-Int4`, `-bnb-4bit`.
fn bits(name: &str) -> Option<u64> {
    let lower = base(name).to_lowercase();
    let mut parts = lower.split(['-', '_']);
    let eight = ["int8", "8bit"];
    let four = ["awq", "gptq", "int4", "4bit", "nf4"];
    if lower.split(['-', '_']).any(|part| eight.contains(&part)) {
        return Some(8);
    }
    parts.any(|part| four.contains(&part)).then_some(4)
}

/// A size in a name: `my-7B-model`, `opt_1.3b`, `350m`.
pub fn billions(name: &str) -> Option<f64> {
    let lower = base(name).to_lowercase();
    let lower = lower.trim_end_matches(".json");
    // `17B-16E`, `8x7B`: a size of one expert, or of what a token meets, is not the model's.
    let digits = |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
    let experts = |part: &str| {
        part.strip_suffix('e').is_some_and(digits) || part.split_once('x').is_some_and(|(count, _)| digits(count))
    };
    if lower.split(['-', '_', '/']).any(experts) {
        return None;
    }
    lower.split(['-', '_', '/']).find_map(|part| {
        let (number, of_a_billion) = match part.strip_suffix('b') {
            Some(number) => (number, 1.0),
            None => (part.strip_suffix('m')?, 1000.0),
        };
        let digits = number.starts_with(|letter: char| letter.is_ascii_digit());
        let size = number.parse::<f64>().ok().filter(|size| digits && size.is_finite() && *size > 0.0)?;
        let size = size / of_a_billion;
        (size < 1e4).then_some(size)
    })
}
/// Whether a name is a path of this machine's whose end is a family's name alone: `/data/model/bloom` may hold any of it.
fn is_bare_folder(name: &str) -> bool {
    name.starts_with(['/', '.', '~']) && base(name).chars().all(|letter| letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::{billions, bits, pointed, stored};

    #[test]
    fn a_stored_models_folder_tells_its_name() {
        for (path, name) in [
            ("/shared/models--Qwen--Qwen3-8B/snapshots/5d8e171e", Some("Qwen/Qwen3-8B")),
            ("/shared/hub/models--gpt2", None),
            ("models--a--b-c", Some("a/b-c")),
            ("/shared/models--a--b/tuned", None),
            ("Qwen/Qwen3-8B", None),
        ] {
            assert_eq!(stored(path).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn a_version_may_be_written_without_its_point() {
        for (name, told) in [
            ("llama-3-1-8b", Some("llama-3.1-8b")),
            ("llama-3-2-1b-instruct", Some("llama-3.2-1b-instruct")),
            ("llama-3-8b", None),
            ("llama-2-7b", None),
            ("qwen2-5-7b", Some("qwen2.5-7b")),
        ] {
            assert_eq!(pointed(name).as_deref(), told, "{name}");
        }
    }

    #[test]
    fn sizes_are_read_out_of_names() {
        for (name, size) in [
            ("org/My-7B-chat", Some(7.0)),
            ("a_1.3b", Some(1.3)),
            ("x-350M", Some(0.35)),
            ("bert", None),
            ("4bit", None),
            ("Llama-4-Scout-17B-16E", None),
            ("Mixtral-8x7B-v0.1", None),
        ] {
            assert_eq!(billions(name), size, "{name}");
        }
    }

    #[test]
    fn bits_are_read_out_of_names() {
        for (name, told) in [
            ("TechxGenus/Meta-Llama-3-8B-Instruct-GPTQ", Some(4)),
            ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", Some(8)),
            ("unsloth/llama-3-8b-bnb-4bit", Some(4)),
            ("casperhansen/llama-3-8b-instruct-awq", Some(4)),
            ("meta-llama/Llama-3.1-8B", None),
        ] {
            assert_eq!(bits(name), told, "{name}");
        }
    }
}
