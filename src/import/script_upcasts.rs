//! Weights that a script raises to fp32, before adapters stand beside them or after.

use super::imported::ImportedPlan;
use super::origin::Origin;
use super::python::ScriptReader;
use super::script_doubts::code;
use super::settings::Settings;
use crate::plan::keys;

/// Sets what is held where a loop raises what trains: all weights of a model that has no adapters yet, else the adapters.
/// An engine that stores weights in types of its own, or quantised ones, are left alone.
pub fn apply(imported: &mut ImportedPlan, reader: &ScriptReader, settings: &Settings) {
    let precision = imported.get(keys::training::precision).and_then(|found| found.value.as_str());
    let in_16_bits = matches!(precision, Some("bf16" | "fp16"));
    let engine = imported.get(keys::distribution::engine).is_none_or(|found| found.value == "ddp");
    let quantised = imported.get(keys::lora::base_bits).is_some();
    if !in_16_bits || !engine || quantised {
        return;
    }
    match raised(reader.content()) {
        Some(RaisedWeights::All) => {
            let word = ["bf16", "fp16"].into_iter().find(|half| settings.is(half));
            let word = word.map_or_else(|| "fp32".to_owned(), |half| format!("{half}-mixed"));
            let origin = Origin::Program(format!("{}: all weights are raised to fp32", reader.name()));
            imported.say(keys::training::precision, word, origin);
        }
        Some(RaisedWeights::Adapters) if imported.get(keys::lora::rank).is_some() => {
            let origin = Origin::Program(format!("{}: what trains is raised to fp32", reader.name()));
            imported.say(keys::lora::dtype, "fp32", origin);
        }
        _ => {}
    }
}

/// What a script raises to fp32.
#[derive(Debug, PartialEq, Eq)]
enum RaisedWeights {
    All,
    Adapters,
}

/// Whether a loop raises what trains, before or after the script makes adapters.
fn raised(text: &str) -> Option<RaisedWeights> {
    let raises = |line: &str| {
        let value = line.split_once(".data = ").map_or("", |(_, value)| value);
        value.contains(".data.to(torch.float32)") || value.contains(".data.float()")
    };
    let over_all =
        |line: &str| line.starts_with("for ") && line.contains(".parameters()") && line.contains("requires_grad");
    let lines: Vec<&str> = code(text).filter(|line| !line.is_empty()).collect();
    let at = lines.windows(2).position(|pair| matches!(pair, [first, second] if over_all(first) && raises(second)))?;
    let made = |line: &&str| line.contains("get_peft_model(") || line.contains("PeftModel.from_pretrained(");
    Some(if lines.iter().take(at).any(made) { RaisedWeights::Adapters } else { RaisedWeights::All })
}

#[cfg(test)]
mod tests {
    use super::{RaisedWeights, raised};

    /// MedicalGPT's `dpo_training.py` has TRL's trainer make adapters; its `supervised_finetuning.py` makes them before.
    #[test]
    fn weights_are_raised_before_adapters_are_made_or_after() {
        let raise = "for param in filter(lambda p: p.requires_grad, model.parameters()):\n    \
                     param.data = param.data.to(torch.float32)\n";
        let before = format!("model = load()\n{raise}trainer = DPOTrainer(model, peft_config=peft_config)\n");
        assert_eq!(raised(&before), Some(RaisedWeights::All));
        let after = format!("model = get_peft_model(model, peft_config)\n{raise}");
        assert_eq!(raised(&after), Some(RaisedWeights::Adapters));
        assert_eq!(raised("model = load()\n"), None);
    }
}
