//! What starts a file of settings, where that is written beside it: a command in the file's own comments, or in a
//! README of its folder or of one above. The launcher and the script of such a command say what the file leaves open.

pub mod arguments;
pub mod scripts;
pub mod starters;

use std::collections::BTreeMap;

use super::common::ImportContext;
use super::documented_commands::{Documented, commands};
use super::imported::{ImportedPlan, InferredValue};
use super::origin::Origin;
use super::script_files::ScriptFiles;
use super::trainer;
use super::{ProcessView, run};
use crate::plan::keys;

/// Files that no command trains with: they are a part of one.
const PARTS: [&str; 3] = ["accelerate", "DeepSpeed", "Hugging Face"];

/// Sections of a plan that follow from others.
const FOLLOWING: [&str; 2] = ["model.batch_size", "distribution.data_parallel"];

/// Fills in what a command that starts the file says beside it, where one is written near. What the file states itself
/// stays.
pub fn complete(imported: &mut ImportedPlan, name: &str, content: &str, context: &ImportContext) {
    if imported.tool.is_empty() || PARTS.contains(&imported.tool.as_str()) {
        return;
    }
    const MOST_NAMED: usize = 4;
    let mut commands = commands(name, content, context);
    // Of a script by itself only one command that starts it tells how it runs; several are examples, whose launchers may
    // be the same.
    commands.retain(|command| !command.neighbour || !name.ends_with(".py"));
    let several = name.ends_with(".py") && commands.len() > 1;
    commands.iter_mut().for_each(|command| command.neighbour |= several);
    // What starts a full training beside it says nothing of one of adapters.
    let adapts = imported.get(keys::lora::rank).is_some();
    let alike = |command: &Documented| {
        let mut told = command.words.iter().filter(|word| *word != name).chain([&command.named]);
        !(command.neighbour && adapts && !several) || told.any(|word| word.to_lowercase().contains("lora"))
    };
    let mut found: Vec<(Documented, ImportedPlan)> = commands
        .into_iter()
        .filter(alike)
        .filter_map(|command| {
            let plan = started(&command.words, name, context);
            (plan.tool == imported.tool).then_some((command, plan))
        })
        .collect();
    if found.is_empty() && !name.ends_with(".py") {
        found = starters::starting_scripts(name, context).runs;
        found.retain(|(_, plan)| plan.tool == imported.tool);
        if found.len() > 1 {
            let told: Vec<&str> = found.iter().map(|(run, _)| run.place.as_str()).take(MOST_NAMED).collect();
            imported.note(format!("started in {} ways beside it, which say more: {}", found.len(), told.join(", ")));
            found.clear();
        }
    }
    if let Some((first, _)) = found.first() {
        let shown = brief(&first.words);
        let how = match (several, first.neighbour) {
            (true, _) => "started as",
            (_, true) => "its neighbours are started as",
            _ => "started by",
        };
        let told = format!("{}: {how} `{shown}`: what that says beside the file is taken", first.place);
        if !first.neighbour {
            imported.note(&told);
            imported.notes.retain(|note| note != trainer::NO_SCRIPT);
        }
        let before = imported.json();
        merge(imported, &found, context.run.world);
        // A neighbour that says nothing more is not worth a word.
        if first.neighbour && imported.json() != before {
            imported.note(told);
        }
        if several {
            doubt_launcher(imported, &found);
        }
    }
    doubt(imported, content);
}

/// Whether a command that starts the file is written anywhere near: in its comments, a README or a script of a shell.
pub fn is_started(name: &str, content: &str, context: &ImportContext) -> bool {
    !commands(name, content, context).is_empty() || !starters::starting_scripts(name, context).paths.is_empty()
}

/// The plan of a file that no tool is known by, where a command that starts it is written near: the file is what that
/// command's script reads.
pub fn alone(name: &str, content: &str, context: &ImportContext) -> Option<ImportedPlan> {
    let found: Vec<(Documented, ImportedPlan)> = commands(name, content, context)
        .into_iter()
        .filter(|command| !command.neighbour)
        .map(|command| {
            let plan = started(&command.words, name, context);
            (command, plan)
        })
        .filter(|(_, plan)| !plan.tool.is_empty() && plan.names_no_model().is_none_or(|_| !name.ends_with(".py")))
        .collect();
    let mut ways: Vec<&(Documented, ImportedPlan)> = Vec::new();
    for run in &found {
        if ways.iter().all(|(_, known)| known.json() != run.1.json()) {
            ways.push(run);
        }
    }
    let chosen = context.run.which.and_then(|which| ways.get(which.checked_sub(1)?));
    if let Some((run, plan)) = chosen {
        let mut imported = plan.clone();
        imported.note(format!("{}: started by `{}`", run.place, brief(&run.words)));
        return Some(imported);
    }
    let (first, plan) = found.first()?;
    let mut imported = plan.clone();
    imported.note(format!("{}: started by `{}`", first.place, brief(&first.words)));
    if ways.len() > 1 {
        let told = ways.iter().enumerate().map(|(at, (run, _))| format!("[{}] {}", at + 1, brief(&run.words)));
        let told: Vec<String> = told.collect();
        imported.note(format!("started in {} ways, of which --which takes one: {}", ways.len(), told.join(" ")));
    }
    let differs = |key: &str| {
        found.iter().any(|(_, other)| other.get(key).map(|told| &told.value) != plan.get(key).map(|told| &told.value))
    };
    for key in plan.values.iter().map(|inferred| inferred.key).filter(|key| differs(key)) {
        imported.drop(key);
        imported.miss(key, format!("{} starts the file in several ways", first.place));
    }
    Some(imported)
}

/// The plan of a script that takes its settings from a file of its own, where one command near it starts it, or several that
/// come to the same.
pub fn started_alone(name: &str, content: &str, context: &ImportContext) -> Option<ImportedPlan> {
    let several = |imported: &ImportedPlan| imported.notes.iter().any(|note| note.starts_with("started in "));
    alone(name, content, context).filter(|found| !several(found)).or_else(|| starters::only(name, context))
}

/// Takes defaults out that examples of a script's launch by another engine contradict.
fn doubt_launcher(imported: &mut ImportedPlan, found: &[(Documented, ImportedPlan)]) {
    let engine = |plan: &ImportedPlan| plan.get(keys::distribution::engine).map(|told| told.value.clone());
    let own = engine(imported);
    if found.iter().all(|(_, plan)| engine(plan) == own) {
        return;
    }
    for key in [keys::distribution::sharding, keys::distribution::engine, keys::training::precision] {
        let Some(own) = imported.get(key).cloned().filter(|own| matches!(own.origin, Origin::Default { .. })) else {
            continue;
        };
        let other = found.iter().find(|(_, plan)| plan.get(key).is_some_and(|told| told.value != own.value));
        if let Some((command, _)) = other {
            imported.drop(key);
            imported.miss(key, format!("{} starts the file in several ways", command.place));
        }
    }
}

/// The first words of a command.
fn brief(words: &[String]) -> String {
    const LONGEST: usize = 100;
    let whole = words.join(" ");
    if whole.chars().count() <= LONGEST { whole } else { whole.chars().take(LONGEST).chain(['…']).collect() }
}

/// The plan of a command, its files looked for as the file itself was.
pub fn started(words: &[String], name: &str, context: &ImportContext) -> ImportedPlan {
    let files = ScriptFiles::around(context.run.files, name);
    let view = ProcessView {
        command: words.to_vec(),
        variables: BTreeMap::new(),
        ancestors: Vec::new(),
        gpus: context.run.gpus.clone(),
        withheld: true,
        world: context.run.world,
        which: None,
        versions: context.run.versions.clone(),
        files: &files,
    };
    run(&view, context.catalog)
}

/// Takes what all commands say alike and the file leaves open; what they say differently is open.
fn merge(imported: &mut ImportedPlan, found: &[(Documented, ImportedPlan)], world: Option<u64>) {
    let [(first, plan), others @ ..] = found else { return };
    let states_gpus = states_gpus(imported);
    let open = |imported: &ImportedPlan, key: &str| is_open(imported, key);
    // Of a neighbour's command only the launcher and the script are this file's.
    let adapts = imported.get(keys::lora::rank).is_some();
    let launched = |key: &str| {
        let of_adapters = [keys::lora::base_bits, keys::lora::double_quant, keys::lora::targets].contains(&key);
        let part = key.starts_with("distribution.") || (adapts && of_adapters);
        part || ["training.precision", "training.gradient_dtype", "training.cpu_offload", "training.attention"]
            .contains(&key)
    };
    // A tower is counted when all is read.
    let tower = imported.tower.is_some();
    let own = |key: &str| {
        let following = FOLLOWING.contains(&key) || (tower && key == "training.frozen_models_billions");
        !following && (!first.neighbour || launched(key))
    };
    let follows = |value: &&InferredValue| {
        let key =
            value.key == keys::training::gradient_accumulation_steps || tower && value.key == keys::training::frozen;
        key && matches!(value.origin, Origin::Derived(_))
    };
    // Degrees that the file states in full have a number of GPUs of their own.
    let other =
        ranks(imported).is_some_and(|ranks| plan.whole(keys::cluster::num_gpus).is_some_and(|all| all != ranks));
    let counts = |key: &str| other && key.starts_with("cluster.");
    let told = plan.values.iter().filter(|value| own(value.key) && !follows(value) && !counts(value.key));
    for inferred in told {
        let InferredValue { key, value, origin } = inferred;
        if !open(imported, key) && !is_engines_own(imported, plan, key, value) {
            said_otherwise(imported, (first, others.is_empty()), inferred);
            continue;
        }
        if others.iter().all(|(_, other)| other.get(key).is_some_and(|told| told.value == *value)) {
            let same = imported.get(key).is_some_and(|told| told.value == *value);
            // The user's own word no text says.
            let given = world.is_some() && key.starts_with("cluster.") && origin.to_string() == "--gpus";
            let origin = match origin {
                Origin::Default { .. } | Origin::Derived(_) => origin.clone(),
                said if given => said.clone(),
                said => Origin::Program(format!("{}: {said}", first.place)),
            };
            if !same {
                imported.say(key, value.clone(), origin);
            }
        } else if !(first.neighbour || states_gpus && matches!(origin, Origin::Default { .. })) {
            imported.drop(key);
            imported.miss(key, format!("{} starts the file in several ways", first.place));
        }
    }
    for missing in plan.missing.iter().filter(|_| !first.neighbour) {
        if own(missing.key) && open(imported, missing.key) && imported.get(missing.key).is_some() {
            imported.drop(missing.key);
            imported.miss(missing.key, missing.why.clone());
        }
    }
    let of_options = |line: &&String| {
        // Names of accelerate's file, whose values are taken with the command's.
        const LAUNCHED: [&str; 5] = [" --", "deepspeed_config.", "fsdp_config.", "distributed_type", "mixed_precision"];
        let kept = ["not understood:", "not modelled:", "not known"].iter().any(|start| line.starts_with(start));
        kept && LAUNCHED.iter().any(|part| line.contains(part))
    };
    for line in plan.notes.iter().filter(of_options) {
        imported.note(line.clone());
    }
}

/// What a command says of a key that the file does not leave open: over a default of the script's it counts, where it is the
/// `only` one; else it is noted.
fn said_otherwise(imported: &mut ImportedPlan, (command, only): (&Documented, bool), inferred: &InferredValue) {
    let InferredValue { key, value, origin } = inferred;
    let Some(told) = imported.get(key).filter(|told| told.value != *value) else { return };
    if !matches!(origin, Origin::Argument(_)) {
        return;
    }
    // A script's own argument was taken at its default.
    let of_script = matches!(&told.origin, Origin::File { name, .. } if name.ends_with(".py"));
    if of_script && only {
        imported.say(key, value.clone(), Origin::Program(format!("{}: {origin}", command.place)));
    } else if !command.neighbour {
        let what = format!("{origin}, {key} {value}, goes over the file's own {key}, which is taken");
        imported.note(format!("{}: there {what}", command.place));
    }
}

/// Whether the file itself states its nodes and the GPUs of each.
fn states_gpus(imported: &ImportedPlan) -> bool {
    let own = |key: &&str| imported.get(key).is_some_and(|told| matches!(told.origin, Origin::File { .. }));
    [keys::cluster::nodes, keys::cluster::gpus_per_node].iter().all(own)
}

/// Whether the file leaves a key open; the product of its own nodes and GPUs it does not.
fn is_open(imported: &ImportedPlan, key: &str) -> bool {
    let unsaid = |origin: &Origin| matches!(origin, Origin::Default { .. } | Origin::Derived(_));
    let follows = key == keys::cluster::num_gpus && states_gpus(imported);
    imported.get(key).is_none_or(|told| !follows && unsaid(&told.origin))
}

/// The ranks of degrees of which the file itself states the data-parallel one.
fn ranks(imported: &ImportedPlan) -> Option<u64> {
    const OTHERS: [&str; 3] = [
        keys::distribution::tensor_parallel,
        keys::distribution::pipeline_parallel,
        keys::distribution::context_parallel,
    ];
    let data = imported.get(keys::distribution::data_parallel)?;
    let stated = matches!(data.origin, Origin::File { .. }) || imported.states_shards;
    let data = imported.whole(keys::distribution::data_parallel).filter(|_| stated)?;
    OTHERS.iter().try_fold(data, |all, key| all.checked_mul(imported.whole(key).unwrap_or(1)))
}

/// Whether a launcher's engine decides a value that a script's own call tells: DeepSpeed trains weights that were loaded in
/// 16 bits with masters of fp32 (`runtime/engine.py`, `_configure_zero_optimizer`), and casts those of fp32 that the script
/// would compute with under autocast (`_configure_distributed_model`).
fn is_engines_own(imported: &ImportedPlan, plan: &ImportedPlan, key: &str, value: &serde_json::Value) -> bool {
    let engine = plan.get("distribution.engine").is_some_and(|found| found.value == "deepspeed");
    let Some(told) = imported.get(key).filter(|_| engine && key == "training.precision") else { return false };
    let loaded = told.origin.to_string().contains("from_pretrained(") || matches!(told.origin, Origin::File { .. });
    let masters = told.value.as_str().map(|half| format!("{}-fp32-master", half.trim_end_matches("-mixed")));
    loaded && masters.is_some_and(|masters| *value == masters)
}

/// Takes a default of the launcher's out, where a comment of the file starts it by accelerate with a file of its own
/// that was not found: `# accelerate launch --config_file fsdp2_config.yaml src/train.py this.yaml`.
fn doubt(imported: &mut ImportedPlan, content: &str) {
    let comments = || content.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let says = |part: &str| comments().any(|line| line.contains(part));
    if !says("accelerate launch") || !says("--config_file") {
        return;
    }
    for key in ["distribution.sharding", "distribution.engine"] {
        // A default of accelerate's own comes from such a file, which was read.
        let guessed =
            |origin: &Origin| matches!(origin, Origin::Default { framework, .. } if *framework != "accelerate");
        if imported.get(key).is_some_and(|found| guessed(&found.origin)) {
            imported.drop(key);
            imported.miss(key, "a comment of the file starts it by accelerate with a file that may say it");
        }
    }
}
