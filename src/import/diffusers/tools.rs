//! Files that no plan can be made of, and why, in one sentence: configurations of tools that train diffusion models of
//! kinds without rules (ostris/ai-toolkit `config/examples`, bghira/SimpleTuner `simpletuner/examples`,
//! tdrussell/diffusion-pipe `examples`), and adapters alone (peft, `adapter_config.json`).

use serde_json::Value;

use crate::refused::Refused;
use crate::settings::{Settings, text};

/// Refuses what is known and no plan can be made of.
///
/// # Errors
/// Why no plan is made of such settings.
pub fn check(name: &str, settings: &Settings) -> Result<(), Refused> {
    refusal(name, settings).map_or(Ok(()), |why| Err(Refused::NoTool(why)))
}

/// Why no plan is made of such settings; none where they are no such tool's.
fn refusal(name: &str, settings: &Settings) -> Option<String> {
    let trained = ai_toolkit(settings).or_else(|| simple_tuner(settings)).or_else(|| diffusion_pipe(settings));
    let why = trained.map(|(tool, model, how)| {
        format!(
            "{name}: {tool} trains {model} {how}; a diffusion model of this kind has no rules here: \
             `memwall trace` follows a training step of it in PyTorch"
        )
    });
    why.or_else(|| adapter(name, settings)).or_else(|| torchtune(name, settings))
}

/// Configurations of torchtune's recipes that generate, evaluate or quantise: they make a model and no optimizer
/// (`recipes/configs/generation.yaml`, `eleuther_evaluation.yaml`, `quantization.yaml`).
fn torchtune(name: &str, settings: &Settings) -> Option<String> {
    let made = settings.text("model._component_").is_some_and(|found| found.value.starts_with("torchtune."));
    let other = ["max_new_tokens", "tasks", "quantizer", "quantizer._component_"];
    let does_other = other.iter().any(|key| settings.holds(key));
    (made && does_other && !settings.holds("optimizer._component_"))
        .then(|| format!("{name}: torchtune generates, evaluates or quantises by it: nothing trains"))
}

type Trained = (&'static str, String, String);

/// `job: extension`, and a list of processes of which one trains.
fn ai_toolkit(settings: &Settings) -> Option<Trained> {
    settings.text("job").filter(|job| ["extension", "train"].contains(&job.value.as_str()))?;
    let processes = settings.get("config.process")?.value.as_array()?;
    let process = processes.iter().find(|one| one.get("model").is_some() && one.get("train").is_some())?;
    let model =
        process.pointer("/model/name_or_path").and_then(text).unwrap_or_else(|| "a model without a name".into());
    let network = process.get("network").filter(|network| network.is_object());
    let how = network.map_or_else(
        || "whole".to_owned(),
        |network| {
            let kind = network.get("type").and_then(text).unwrap_or_else(|| "adapters".to_owned());
            let rank =
                ["linear", "rank", "lokr_factor"].iter().find_map(|key| network.get(*key).and_then(Value::as_u64));
            adapted(&kind, rank)
        },
    );
    Some(("ai-toolkit", model, how))
}

/// `model_family` and `model_type`, with or without dashes in front.
fn simple_tuner(settings: &Settings) -> Option<Trained> {
    let said =
        |name: &str| settings.text(name).or_else(|| settings.text(&format!("--{name}"))).map(|found| found.value);
    let (family, kind) = said("model_family").zip(said("model_type"))?;
    let rank = said("lora_rank").and_then(|rank| rank.parse().ok());
    let how = match kind.as_str() {
        "full" => "whole".to_owned(),
        _ => adapted(&said("lora_type").unwrap_or_else(|| "lora".to_owned()), rank),
    };
    Some(("SimpleTuner", family, how))
}

/// A model's type beside micro-batches and stages of DeepSpeed's pipeline.
fn diffusion_pipe(settings: &Settings) -> Option<Trained> {
    let own = ["micro_batch_size_per_gpu", "pipeline_stages", "dataset"].iter().all(|name| settings.holds(name));
    let model = settings.text("model.type").filter(|_| own)?.value;
    let how = settings.text("adapter.type").map_or_else(
        || "whole".to_owned(),
        |kind| adapted(&kind.value, settings.whole("adapter.rank").map(|rank| rank.value)),
    );
    Some(("diffusion-pipe", model, how))
}

fn adapted(kind: &str, rank: Option<u64>) -> String {
    rank.map_or_else(|| format!("by {kind}"), |rank| format!("by {kind} of rank {rank}"))
}

/// An adapter's own file says nothing of its training.
fn adapter(name: &str, settings: &Settings) -> Option<String> {
    let kind = settings.text("peft_type")?.value;
    settings.get("task_type").or_else(|| settings.get("target_modules")).or_else(|| settings.get("r"))?;
    let rank = settings.whole("r").map(|rank| format!(" of rank {}", rank.value)).unwrap_or_default();
    Some(format!(
        "{name}: the configuration of adapters alone (peft's {kind}{rank}); import the file or the command that trains them"
    ))
}

#[cfg(test)]
mod tests {
    use super::refusal;
    use crate::text;

    fn told(name: &str, content: &str) -> String {
        let settings = if name.ends_with("toml") { text::toml(name, content) } else { text::yaml(name, content) };
        refusal(name, &settings.unwrap()).unwrap_or_default()
    }

    #[test]
    fn what_no_rules_are_there_for_is_named() {
        let flux = "job: extension\nconfig:\n  name: x\n  process:\n    - type: sd_trainer\n      network: {type: lora, linear: 16}\n      \
                    train: {batch_size: 1}\n      model: {name_or_path: black-forest-labs/FLUX.1-dev, is_flux: true}\n";
        let said = told("flux.yaml", flux);
        assert!(said.contains("FLUX.1-dev by lora of rank 16") && said.contains("memwall trace"), "{said}");
        let said = told("config.json", r#"{"--model_family": "sd3", "--model_type": "full", "--train_batch_size": 4}"#);
        assert!(said.contains("SimpleTuner trains sd3 whole"), "{said}");
        let said = told(
            "a.toml",
            "dataset = 'd.toml'\nmicro_batch_size_per_gpu = 1\npipeline_stages = 1\n[model]\ntype = 'qwen_image'\n[adapter]\ntype = 'lora'\nrank = 32\n",
        );
        assert!(said.contains("qwen_image by lora of rank 32"), "{said}");
        let said = told("adapter_config.json", r#"{"peft_type": "LORA", "r": 32, "target_modules": ["q_proj"]}"#);
        assert!(said.contains("adapters alone") && said.contains("rank 32"), "{said}");
        assert_eq!(told("a.yaml", "model_name_or_path: x\nlora_rank: 8\n"), "");
    }
}
