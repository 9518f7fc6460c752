//! What a script does that no reader follows and that may change what is held: calls on its model and its Trainer, methods
//! of a Trainer of its own, an optimizer that it hands over, lengths beside the one that was taken. Each is said, so that
//! a plan is not right by silence.

use super::imported::ImportedPlan;
use super::own_loop;
use super::python::{PassedArgument, ScriptReader};
use super::python_calls::{ARGUMENTS, call};
use super::python_lengths::LENGTHS;
use super::rows::not_modelled;
use super::script_doubts::code;
use super::trainer_by_name::TRAINERS;
use crate::plan::keys;

/// No more of a kind are named.
const MOST_NAMED: usize = 4;

/// Says of a script that it trains several times, or loads models beside the one that trains.
pub fn say_several(imported: &mut ImportedPlan, reader: &ScriptReader, models: &[String]) {
    const DECIDING: [&str; 11] = [
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "gradient_checkpointing",
        "bf16",
        "fp16",
        "optim",
        "max_length",
        "max_seq_length",
        "deepspeed",
        "fsdp",
        "num_generations",
    ];
    let name = reader.name();
    let changed = reader.changed_later(&ARGUMENTS, &DECIDING);
    if !changed.is_empty() {
        let names = changed.join(", ");
        not_modelled(imported, &format!("{name} trains several times, with other {names}: the first is read"));
    }
    let models: Vec<&str> = models.iter().map(String::as_str).collect();
    let others = reader.other_models(&models);
    if !others.is_empty() {
        not_modelled(imported, &format!("{name} loads further models: {}", others.join(", ")));
    }
}

/// Packages that train a model in `PyTorch`'s place where a script imports them, and what they are called.
const ENGINES: [(&str, &str); 4] = [
    ("colossalai", "Colossal-AI"),
    ("onnxruntime.training", "ONNX Runtime"),
    ("torch_xla", "XLA"),
    ("horovod", "Horovod"),
];

/// Says of a script that another engine trains its model; what the usual one would do is doubtful then.
pub fn say_engine(imported: &mut ImportedPlan, path: &str, text: &str) {
    let imports = |package: &str| {
        let line = |line: &str| {
            ["import ", "from "]
                .iter()
                .any(|word| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(package)))
        };
        text.lines().any(line)
    };
    let Some((_, name)) = ENGINES.iter().find(|(package, _)| imports(package)) else { return };
    not_modelled(imported, &format!("{path}: {name} runs the model: what it holds and shards is not followed"));
    for key in ["training.precision", "training.optimizer", "distribution.sharding", "distribution.engine"] {
        imported.doubt(key, format!("{path}: {name} decides it"));
    }
}

/// Says what a script does beside what was read of it.
pub fn say(imported: &mut ImportedPlan, reader: &ScriptReader) {
    let path = reader.name();
    say_engine(imported, path, reader.content());
    let mut effects = reader.unfollowed_effects();
    // It adds three rows to the vocabulary at most (`llava/model/llava_arch.py`).
    effects.retain(|effect| !effect.starts_with("initialize_vision_tokenizer("));
    let builds = ["initialize_vision_modules(", "build_vision_tower("].iter().any(|part| reader.whole().contains(part));
    if builds && imported.tower.is_none() {
        not_modelled(imported, &format!("{path}: a vision tower, which no argument that is known names"));
    }
    effects.truncate(MOST_NAMED);
    if !effects.is_empty() {
        not_modelled(imported, &format!("{path}: what {} does to the model is not followed", effects.join(", ")));
    }
    let overridden = overridden(reader.whole());
    if !overridden.is_empty() {
        let names = overridden.join(", ");
        not_modelled(imported, &format!("{path}: {names} of its own Trainer goes over the library's"));
    }
    own_parts(imported, reader);
    own_optimizer(imported, reader);
    other_lengths(imported, reader);
}

/// Says of classes of the script's own, and of modules that were not read, that what they hold is not followed. A model
/// around a vision tower that is known is counted with it.
fn own_parts(imported: &mut ImportedPlan, reader: &ScriptReader) {
    let sees = imported.tower.is_some() || imported.notes.iter().any(|line| line.contains("vision tower"));
    let mut parts = reader.own_parts();
    parts.retain(|part| !(sees && part.ends_with("model of its own")));
    parts.truncate(MOST_NAMED);
    if !parts.is_empty() {
        not_modelled(imported, &format!("{}: what {} hold is not followed", reader.name(), parts.join(" and ")));
    }
}

/// Methods by which a Trainer of a script's own decides its optimizer, its steps or further models, where their text does
/// more than to hand on.
fn overridden(whole: &str) -> Vec<String> {
    let mut found = Vec::new();
    for class in whole.split("\nclass ").skip(1) {
        let Some((head, body)) = class.split_once(":\n") else { continue };
        if !head.split_once('(').is_some_and(|(_, bases)| bases.contains("Trainer")) {
            continue;
        }
        let name = head.split('(').next().unwrap_or(head).trim();
        if !is_used(whole, name) {
            continue;
        }
        let end = body.lines().take_while(|line| line.is_empty() || line.starts_with([' ', '\t', '#', ')']));
        let body: Vec<&str> = end.collect();
        for (method, text) in methods(&body) {
            let decides = match method {
                "training_step" | "_inner_training_loop" | "get_optimizer_cls_and_kwargs" => true,
                "create_optimizer" | "create_optimizer_and_scheduler" => {
                    !["get_optimizer_cls_and_kwargs", "super()"].iter().any(|part| text.contains(part))
                }
                "compute_loss" => {
                    // The library's own loss is what it answers with, whatever weighs it after.
                    let library = [".loss", "[\"loss\"]", "['loss']", "super()", "outputs[0]"];
                    ["no_grad", "teacher", "ref_model"].iter().any(|part| text.contains(part))
                        || text.matches("model(").count() > 1
                        || !library.iter().any(|part| text.contains(part))
                }
                _ => false,
            };
            let named = format!("{name}.{method}");
            if decides && found.len() < MOST_NAMED && !found.contains(&named) {
                found.push(named);
            }
        }
    }
    found
}

/// Whether a class of the project is named by more than its definition and what imports it.
fn is_used(whole: &str, name: &str) -> bool {
    let mut imports = false;
    let lines = code(whole).filter(|line| {
        let starts = ["from ", "import "].iter().any(|word| line.trim_start().starts_with(word));
        let within = imports;
        imports = if starts { line.contains('(') && !line.contains(')') } else { imports && !line.contains(')') };
        !starts && !within
    });
    let letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let defines = format!("class {name}");
    let named = |line: &str| line.split(|sign| !letter(sign)).any(|word| word == name);
    lines.into_iter().any(|line| named(line) && !line.starts_with(&defines))
}

/// The methods in a class's body by name, each with its text.
fn methods<'t>(body: &[&'t str]) -> Vec<(&'t str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for line in body {
        if let Some(rest) = line.trim_start().strip_prefix("def ") {
            found.push((rest.split('(').next().unwrap_or(rest).trim(), String::new()));
        } else if let Some((_, text)) = found.last_mut().filter(|_| !line.trim_start().starts_with('#')) {
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

/// An optimizer that a script makes and hands its Trainer goes over the one that its arguments name.
fn own_optimizer(imported: &mut ImportedPlan, reader: &ScriptReader) {
    let trainers: Vec<&str> = ["Trainer", "Seq2SeqTrainer"].into_iter().chain(TRAINERS).collect();
    let passed = reader.passed(&trainers, "optimizers");
    if !passed.iter().any(|(passed, _)| !matches!(passed, PassedArgument::Nothing)) {
        return;
    }
    let made = own_loop::optimizer(reader.content(), reader, &|part| Some(part.contains("fused")));
    let same = imported.get(keys::training::optimizer).is_some_and(|found| found.value == "adamw");
    if made == Some("adamw") && same {
        return;
    }
    imported.drop(keys::training::optimizer);
    imported.miss(keys::training::optimizer, format!("{} hands its Trainer an optimizer of its own", reader.name()));
}

/// What scripts call the longest sample as well.
const FURTHER: [&str; 2] = ["MAX_LEN", "MAX_SEQ_LEN"];

/// No shorter sample is trained on.
const SHORTEST: u64 = 16;

/// Names further lengths that the script writes down: which of them cuts the samples was taken by their names.
fn other_lengths(imported: &mut ImportedPlan, reader: &ScriptReader) {
    let Some(taken) = imported.whole(keys::model::sequence_length) else { return };
    // TRL cuts to the length of its own configuration, whatever else the script names.
    let configured = reader.calls(&ARGUMENTS);
    let cut_by_trl = ["max_length", "max_seq_length"].iter().any(|name| configured.holds(name));
    let trl = TRAINERS.iter().any(|name| call(reader.content(), name).is_some());
    if cut_by_trl && trl {
        return;
    }
    let mut others: Vec<String> = Vec::new();
    for line in code(reader.content()).filter(|line| !is_of_another(line)) {
        for (name, value) in LENGTHS.iter().chain(&FURTHER).filter_map(|name| Some((name, written(line, name)?))) {
            let said = format!("{name} of {value}");
            if value != taken && value >= SHORTEST && !others.contains(&said) {
                others.push(said);
            }
        }
    }
    others.truncate(MOST_NAMED);
    if !others.is_empty() {
        imported.note(format!(
            "assumed: samples of {taken} tokens; {} names {} as well",
            reader.name(),
            others.join(", ")
        ));
    }
}

/// Whether a line is of an evaluation, or of answers that are generated.
fn is_of_another(line: &str) -> bool {
    ["generat", "max_new_tokens", "eval", "infer", "test", "pipeline", "prompt", "print"]
        .iter()
        .any(|part| line.contains(part))
}

/// The number that a line gives a name: `max_length=512`, `"max_length": 512`, `max_length: int = 512`.
fn written(line: &str, name: &str) -> Option<u64> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let at = line.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = line.get(..*at).unwrap_or("");
        let behind = line.get(at + name.len()..).unwrap_or("");
        !before.ends_with(is_of_name) && !behind.starts_with(is_of_name)
    })?;
    let behind = line.get(at + name.len()..)?.trim_start_matches(['"', '\'', ']']).trim_start();
    let value = match behind.strip_prefix(':') {
        Some(rest) => {
            rest.trim_start().strip_prefix("int").map_or(rest, |rest| rest.trim_start().trim_start_matches('='))
        }
        None => behind.strip_prefix('=').filter(|rest| !rest.starts_with('='))?,
    };
    let digits: String =
        value.trim_start().chars().take_while(|letter| letter.is_ascii_digit() || *letter == '_').collect();
    digits.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{overridden, written};

    #[test]
    fn a_line_gives_a_name_its_number() {
        assert_eq!(written("    max_length=512,", "max_length"), Some(512));
        assert_eq!(written("config = {\"max_length\": 1_024}", "max_length"), Some(1024));
        assert_eq!(written("max_length: int = 256", "max_length"), Some(256));
        assert_eq!(written("max_prompt_length=512", "max_length"), None);
        assert_eq!(written("if max_length == 512:", "max_length"), None);
        assert_eq!(written("max_length=args.max_length", "max_length"), None);
    }

    #[test]
    fn a_trainers_own_steps_are_named() {
        let own = "\nclass Distiller(Trainer):\n    def compute_loss(self, model, inputs):\n        with torch.no_grad():\n            \
            t = self.teacher(**inputs)\n        return kl(model(**inputs), t)\n";
        assert!(overridden(own).is_empty(), "nobody makes one");
        assert_eq!(overridden(&format!("{own}Distiller(model).train()\n")), ["Distiller.compute_loss"]);
        let weighted = "\nclass Weighted(Trainer):\n    def compute_loss(self, model, inputs):\n        \
            return weigh(model(**inputs).loss)\n    def create_optimizer(self):\n        kind, kwargs = \
            self.get_optimizer_cls_and_kwargs(self.args)\nWeighted(model).train()\n";
        assert!(overridden(weighted).is_empty());
    }
}
