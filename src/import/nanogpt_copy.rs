//! What a copy of nanoGPT has beside nanoGPT: settings, optimizers, layers of its own.

use serde_json::Value;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::nanogpt::{DEFAULTS, LENGTH};
use super::origin::Origin;
use super::python::ScriptReader;
use super::rows::not_modelled;
use super::script_doubts::code;
use super::settings::Settings;
use super::text;
use crate::plan::keys;

/// A copy that makes its optimizer in several places chooses by a setting of its own, `if algorithm == 'adafactor':`:
/// nanoGPT's stays where that leads to it.
pub fn own_optimizer(imported: &mut ImportedPlan, path: &str, script: &str, settings: &Settings) {
    const CALL: &str = "configure_optimizers";
    let made = code(script).filter(|line| line.trim_start().starts_with("optimizer =")).count();
    let told: Vec<String> = settings.iter().filter_map(|(name, found)| assignment(name, &found.value)).collect();
    let configured = |line: &str| if line.contains("configurator.py") { told.join("\n") } else { line.to_owned() };
    let text = script.lines().map(configured).collect::<Vec<_>>().join("\n");
    if made > 1 && ScriptReader::new(path, &text, Settings::default()).reached(&[CALL]) != Some(true) {
        imported.drop(keys::training::optimizer);
        imported.miss(keys::training::optimizer, format!("{path}: which of its optimizers it makes is not followed"));
    }
    if let Some(name) = code(script).find_map(other_step) {
        imported.drop(keys::training::optimizer);
        imported.miss(
            keys::training::optimizer,
            format!("{path}: `{name}.step()` is none of the optimizer that it configures"),
        );
    }
}

/// What takes a step in a line, where it is neither nanoGPT's optimizer nor its scaler: a wrapper, another optimizer.
fn other_step(line: &str) -> Option<&str> {
    const OWN: [&str; 2] = ["optim", "sched"];
    const OTHERS: [&str; 5] = ["scaler", "prof", "profiler", "env", "timer"];
    let before = line.split_once(".step(")?.0;
    let name = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()?;
    let own = OWN.iter().any(|part| name.contains(part)) || OTHERS.contains(&name) || name == "opt";
    // `for opt in optimizers: opt.step()` steps what is configured.
    (!own && !name.is_empty()).then_some(name)
}

/// A copy whose context is `nullcontext()` and never autocast computes in the type of its weights, whatever `dtype` says.
pub fn own_context(imported: &mut ImportedPlan, path: &str, script: &str) {
    let made: Vec<&str> = code(script).map(str::trim_start).filter(|line| line.starts_with("ctx =")).collect();
    if !made.is_empty() && !code(script).any(|line| line.contains("autocast(")) {
        let precision = if code(script).any(|line| line.contains("allow_tf32 = True")) { "tf32" } else { "fp32" };
        imported.say(keys::training::precision, precision, Origin::Program(format!("{path}: no autocast in it")));
    } else if !code(script)
        .any(|line| line.contains("allow_tf32 = True") || line.contains("set_float32_matmul_precision"))
        && imported.get(keys::training::precision).is_some_and(|found| found.value == "tf32")
    {
        imported.say(
            keys::training::precision,
            "fp32",
            Origin::Program(format!("{path}: allow_tf32 is not set in it")),
        );
    }
}

/// A copy that gives its model a vocabulary of its own, `model_args['vocab_size'] = 1025`, whatever its data set has.
pub fn own_vocabulary(imported: &mut ImportedPlan, path: &str, script: &str) {
    let value = |line: &str| {
        let (name, value) = line.trim().split_once('=')?;
        matches!(name.trim(), "model_args['vocab_size']" | "model_args[\"vocab_size\"]")
            .then(|| value.trim().to_owned())
    };
    let told: Vec<String> = code(script).filter_map(value).filter(|value| !value.contains("meta_vocab_size")).collect();
    let Some(last) = told.last() else { return };
    imported.drop(keys::architecture::vocab_size);
    match last.parse::<u64>() {
        Ok(size) if told.len() == 1 => {
            imported.say(keys::architecture::vocab_size, size, Origin::Program(format!("{path}: its own vocab_size")));
        }
        _ => imported.miss(keys::architecture::vocab_size, format!("{path}: its vocab_size is {last}")),
    }
}

/// A setting as the configurator of nanoGPT has it: a line of Python.
fn assignment(name: &str, value: &Value) -> Option<String> {
    let written = match value {
        Value::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Value::Number(_) | Value::String(_) => value.to_string(),
        _ => return None,
    };
    (!name.contains('.')).then(|| format!("{name} = {written}"))
}

/// What the model of a copy has that nanoGPT's has not, and what it lacks of it.
pub fn altered(imported: &mut ImportedPlan, path: &str, context: &ImportContext) {
    const CLASSES: [&str; 6] = ["LayerNorm", "CausalSelfAttention", "MLP", "Block", "GPTConfig", "GPT"];
    const MARKS: [(&str, &[&str]); 4] = [
        (keys::architecture::position, &["wpe"]),
        (keys::architecture::activation, &["gelu", "GELU"]),
        (
            keys::architecture::tie_embeddings,
            &["wte.weight = self.lm_head.weight", "lm_head.weight = self.transformer.wte"],
        ),
        (keys::training::attention, &["scaled_dot_product_attention"]),
    ];
    let Some(text) = context.run.files.read(path).ok().filter(|text| text.contains("class GPT(")) else { return };
    let class = |line: &&str| -> Option<String> {
        let (name, bases) = line.strip_prefix("class ")?.split_once('(')?;
        let name = Some(name.trim().to_owned()).filter(|_| bases.contains("Module"))?;
        let made = text.matches(&format!("{name}(")).count() > usize::from(line.contains('('));
        (made && !CLASSES.contains(&name.as_str())).then_some(name)
    };
    let added: Vec<String> = text.lines().filter_map(|line| class(&line)).collect();
    if !added.is_empty() {
        not_modelled(imported, &format!("{path}: {}: layers that nanoGPT has not", added.join(", ")));
    }
    if !text.contains("x = block(x)") {
        not_modelled(imported, &format!("{path}: how it goes through its layers, which is not nanoGPT's"));
    }
    for (key, marks) in MARKS {
        if imported.get(key).is_some() && !marks.iter().any(|mark| text.contains(mark)) {
            imported.drop(key);
            imported.miss(key, format!("{path} has not nanoGPT's `{}`", marks.first().unwrap_or(&"")));
        }
    }
}

/// Settings that a copy declares for its configurations beside nanoGPT's: what they do in it is not known.
pub fn own_settings(path: &str, script: &str) -> Settings {
    let Some((declared, _)) = script.split_once("configurator.py") else { return Settings::default() };
    let all = text::python(path, declared);
    let mut own = Settings::default();
    own.adopt_all(&all, |name| {
        let theirs = DEFAULTS.iter().any(|(known, _)| *known == name) || name == LENGTH;
        (!theirs && all.get(name).is_some_and(|found| !found.value.is_string())).then(|| name.to_owned())
    });
    own
}
