//! Runs of NeMo 2's recipes: a script that makes one and changes it, and `nemo llm finetune --factory llama3_8b`.

pub mod changes;

use serde_json::Value;

use super::bridge;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::{Program, World};
use super::megatron;
use super::nemo_recipes::{fused_loss, preset_of, vocabulary};
use super::origin::Origin;
use super::python::ScriptReader;
use super::rows::not_modelled;
use super::settings::Settings;
use super::text::{arguments, python_literal};
use crate::plan::keys;
use changes::RecipeChange;

/// What the recipes are made with.
const RECIPES: &str = include_str!("nemo_recipes.txt");

/// The version whose recipes are meant.
const VERSION: &str = "NeMo 2.6";

/// The names of the table, Megatron's for them, and what a recipe has that says nothing of them.
const COLUMNS: [(&str, &str, &str); 20] = [
    ("nodes", "nodes", "1"),
    ("gpus", "gpus_per_node", "8"),
    ("tp", "tensor_model_parallel_size", "1"),
    ("pp", "pipeline_model_parallel_size", "1"),
    ("vp", "num_virtual_stages_per_pipeline_rank", ""),
    ("cp", "context_parallel_size", "1"),
    ("ep", "expert_model_parallel_size", ""),
    ("etp", "expert_tensor_parallel_size", ""),
    ("sp", "sequence_parallel", "False"),
    ("gbs", "global_batch_size", ""),
    ("mbs", "micro_batch_size", "1"),
    ("seq", "seq_length", ""),
    ("distopt", "use_distributed_optimizer", "True"),
    ("wd", "weight_decay", "0.1"),
    ("recompute", "recompute_granularity", ""),
    ("method", "recompute_method", ""),
    ("layers", "recompute_num_layers", ""),
    ("rank", "dim", "32"),
    ("overlap", "overlap_grad_reduce", "False"),
    ("gather", "overlap_param_gather", "False"),
];

/// A recipe's module and its function: `llama3_8b`, `finetune_recipe`.
#[derive(Debug, PartialEq, Eq)]
struct Recipe<'a> {
    module: &'a str,
    function: &'static str,
}

/// The plan of a script that makes one recipe; none where it makes none that is known, or several.
pub fn of_script(name: &str, content: &str, context: &ImportContext) -> Option<ImportedPlan> {
    let recipe = made(content)?;
    let reader = ScriptReader::new(name, content, Settings::default());
    let called = reader.calls(&[recipe.function]);
    let mut given = Settings::default();
    // `dir`, `name`, `num_nodes` and `num_gpus_per_node` come first.
    given.adopt_all(&called, |key| {
        Some(match key {
            "2" => "num_nodes".to_owned(),
            "3" => "num_gpus_per_node".to_owned(),
            other => other.to_owned(),
        })
    });
    let changes = changes::of_script(name, content, &reader);
    let program = Origin::Program(format!("{name}: {}.{}", recipe.module, recipe.function));
    plan(&recipe, &given, changes, program, context)
}

/// Whether a command starts a recipe that is known.
pub fn is_command(program: &Program) -> bool {
    matches!(program.name(), "nemo" | "nemo_run") && of_words(&program.words).is_some()
}

/// The same of the command that a context has.
pub fn runs(context: &ImportContext) -> bool {
    is_command(context.program)
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let words = &context.program.words;
    let program = Origin::Program(context.program.shown());
    let Some((recipe, inner)) = of_words(words) else { return ImportedPlan::of("NeMo") };
    let mut given = Settings::default();
    let inner = arguments(&format!("{inner})"));
    for (key, text) in inner.iter().filter_map(|part| part.split_once('=')) {
        let origin = Origin::Argument(format!("--factory {}({})", recipe.module, key.trim()));
        given.set(key.trim(), python_literal(text.trim()).unwrap_or_else(|| Value::from("?")), origin);
    }
    let overrides = words.iter().filter(|word| !word.starts_with('-')).filter_map(|word| word.split_once('='));
    let changes = overrides.map(|(path, text)| RecipeChange {
        path: path.to_owned(),
        value: python_literal(text).or_else(|| Some(text.into())),
        text: text.to_owned(),
        origin: Origin::Argument(path.to_owned()),
        sure: true,
    });
    plan(&recipe, &given, changes.collect(), program, context).unwrap_or_else(|| ImportedPlan::of("NeMo"))
}

/// The recipe that `nemo llm pretrain --factory "llama3_8b(num_nodes=2)"` names, with what stands in its brackets.
fn of_words(words: &[String]) -> Option<(Recipe<'_>, &str)> {
    let function = match words.get(..2)?.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["llm", "pretrain"] => "pretrain_recipe",
        ["llm", "finetune"] => "finetune_recipe",
        _ => return None,
    };
    let named = words.iter().enumerate().find_map(|(at, word)| {
        word.strip_prefix("--factory=")
            .or_else(|| words.get(at + 1).filter(|_| word == "--factory").map(String::as_str))
    })?;
    let (module, inner) = named.split_once('(').unwrap_or((named, ""));
    row(module, "pretrain").or_else(|| row(module, "full"))?;
    Some((Recipe { module, function }, inner.trim_end_matches(')')))
}

/// What the table has of a recipe.
fn row(module: &str, kind: &str) -> Option<Vec<(&'static str, &'static str)>> {
    let line = RECIPES.lines().find_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let (other, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        (name == module && other == kind).then_some(rest)
    })?;
    Some(line.split(' ').filter_map(|part| part.split_once('=')).collect())
}

/// The one recipe that a script makes, as it calls it: `llm.llama3_8b.pretrain_recipe(`, or by its function's name alone.
fn made(content: &str) -> Option<Recipe<'_>> {
    if !content.contains("nemo_run") && !content.contains("nemo.collections") {
        return None;
    }
    let mut found: Option<Recipe> = None;
    for line in content.lines().map(|line| line.split('#').next().unwrap_or("")) {
        for function in ["pretrain_recipe", "finetune_recipe"] {
            let Some((before, _)) = line.split_once(&format!("{function}(")) else { continue };
            let module = match before.strip_suffix('.') {
                Some(path) => path.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?,
                None if before.trim_end().ends_with("def") => continue,
                None => imported_from(content, function)?,
            };
            let recipe = Recipe { module, function };
            if found.as_ref().is_some_and(|other| *other != recipe) {
                return None;
            }
            found = Some(recipe);
        }
    }
    found
}

/// The module of `from nemo.collections.llm.recipes.llama3_8b import pretrain_recipe`.
fn imported_from<'c>(content: &'c str, function: &str) -> Option<&'c str> {
    content.lines().find_map(|line| {
        let (module, names) = line.trim().strip_prefix("from nemo.collections.llm.recipes.")?.split_once(" import ")?;
        names.split(',').any(|name| name.trim() == function).then_some(module)
    })
}

fn plan(
    recipe: &Recipe,
    given: &Settings,
    changes: Vec<RecipeChange>,
    program: Origin,
    context: &ImportContext,
) -> Option<ImportedPlan> {
    let scheme = given.get("peft_scheme").map(|found| found.value.as_str().unwrap_or("none").to_lowercase());
    let kind = match (recipe.function, scheme.as_deref()) {
        ("pretrain_recipe", _) => "pretrain",
        (_, None | Some("lora" | "dora")) => "lora",
        (_, Some("none")) => "full",
        _ => return None,
    };
    let told = row(recipe.module, kind)?;
    let mut imported = ImportedPlan::of("NeMo");
    imported.say(keys::model::framework, "megatron", program.clone());
    match preset_of(context, recipe.module) {
        Some(preset) => imported.say(keys::model::preset, preset, program),
        None => imported.miss(keys::model::preset, format!("{} is no model of the catalogue", recipe.module)),
    }
    let mut settings = usual(recipe, &told, kind);
    let mut open = called(&mut imported, &mut settings, given, &told);
    for change in changes {
        open.extend(change.apply(&mut imported, &mut settings));
    }
    let nodes = settings.whole("nodes");
    let world = World { total: None, nodes, per_node: settings.whole("gpus_per_node") }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    megatron::train(&mut imported, &settings, context);
    fused_loss(&mut imported, VERSION);
    if let Some(found) = settings.flag("cross_entropy_loss_fusion").filter(|found| !found.value) {
        imported.say(keys::training::loss, "vocab_parallel", found.origin);
    }
    if kind == "lora" {
        bridge::low_rank(&mut imported, &settings, if scheme.as_deref() == Some("dora") { "DoRA" } else { "LoRA" });
    }
    if kind == "pretrain" {
        vocabulary(&mut imported, recipe.module);
    }
    for (_, what) in told.iter().filter(|(key, _)| *key == "other") {
        not_modelled(&mut imported, &format!("the recipe {}: {what}", recipe.module));
    }
    // The model's own.
    imported.drop(keys::training::dropout);
    for (key, why) in open {
        imported.drop(key);
        imported.miss(key, why);
    }
    Some(imported)
}

/// What a recipe is made with.
fn usual(recipe: &Recipe, told: &[(&str, &str)], kind: &str) -> Settings {
    let default = |option: &str| Origin::Default {
        framework: VERSION,
        option: format!("{}.{}: {option}", recipe.module, recipe.function),
    };
    let of_table = |short: &str| told.iter().find(|(key, _)| *key == short).map(|(_, text)| *text);
    let mut settings = Settings::default();
    // `bf16_mixed` (`recipes/precision/mixed_precision.py`).
    settings.set("bf16", true.into(), default("bf16_mixed"));
    for (short, name, usual) in COLUMNS {
        if let Some(value) = read(of_table(short).unwrap_or(usual)) {
            settings.set(name, value, default(name));
        }
    }
    let steps = if kind == "pretrain" { "1168251" } else { "1000" };
    if let Some(value) = read(of_table("steps").unwrap_or(steps)) {
        settings.set("train_iters", value, default("max_steps"));
    }
    if let Some(names) = of_table("targets") {
        settings.set("target_modules", names.split(',').collect(), default("target_modules"));
    }
    if let Some(value) = of_table("fused").and_then(read) {
        settings.set("cross_entropy_loss_fusion", value, default("cross_entropy_loss_fusion"));
    }
    settings
}

/// A value of the table.
fn read(text: &str) -> Option<Value> {
    match text {
        "" => None,
        "true" | "false" => Some((text == "true").into()),
        _ => text
            .parse::<u64>()
            .map(Value::from)
            .or_else(|_| text.parse::<f64>().map(Value::from))
            .ok()
            .or(Some(text.into())),
    }
}

/// Takes what a recipe is called with, and gives what of it is not known.
fn called(
    imported: &mut ImportedPlan,
    settings: &mut Settings,
    given: &Settings,
    told: &[(&str, &str)],
) -> Vec<(&'static str, String)> {
    let mut open = Vec::new();
    for (theirs, ours, key) in [
        ("num_nodes", "nodes", keys::cluster::num_gpus),
        ("num_gpus_per_node", "gpus_per_node", keys::cluster::num_gpus),
        ("seq_length", "seq_length", keys::model::sequence_length),
    ] {
        let Some(found) = given.get(theirs).filter(|found| !found.value.is_null()) else { continue };
        if given.whole(theirs).is_none() {
            open.push((key, format!("{} is not followed", found.origin)));
        }
        settings.set(ours, found.value.clone(), found.origin.clone());
    }
    let packed =
        told.iter().find(|(key, _)| *key == "packed").map(|(_, text)| text.split_once(',').unwrap_or((text, "8")));
    if let (Some(found), Some((length, batch))) = (given.on("packed_sequence"), packed) {
        if given.whole("seq_length").is_none() {
            settings.set("seq_length", read(length).unwrap_or_default(), found.origin.clone());
        }
        settings.set("global_batch_size", read(batch).unwrap_or_default(), found.origin);
    }
    if let Some(found) = given.on("performance_mode") {
        not_modelled(imported, &format!("{}: what it changes of the recipe", found.origin));
    }
    open
}

#[cfg(test)]
mod tests {
    use super::{Recipe, made, of_words, row};

    #[test]
    fn a_recipe_goes_by_its_module() {
        let of = |line: &str| format!("import nemo_run as run\n{line}\n");
        let made_by = |line: &str| made(&of(line)).map(|recipe| (recipe.module.to_owned(), recipe.function));
        let expected = Some(("llama3_8b".to_owned(), "pretrain_recipe"));
        assert_eq!(made_by("recipe = llm.llama3_8b.pretrain_recipe(dir='x')"), expected);
        assert_eq!(made_by("recipe = partial(llama3_8b.pretrain_recipe(dir='x'))"), expected);
        let direct = "from nemo.collections.llm.recipes.llama3_8b import pretrain_recipe\nrecipe = pretrain_recipe()";
        assert_eq!(made_by(direct), expected);
        assert_eq!(made_by("a = llm.llama3_8b.pretrain_recipe()\nb = llm.llama3_70b.pretrain_recipe()"), None);
        assert_eq!(made_by("# llm.llama3_8b.pretrain_recipe()"), None);
    }

    #[test]
    fn a_factory_may_be_given_arguments() {
        let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let told = words(&["llm", "finetune", "--factory", "llama3_8b(num_nodes=2)"]);
        let recipe = Recipe { module: "llama3_8b", function: "finetune_recipe" };
        assert_eq!(of_words(&told), Some((recipe, "num_nodes=2")));
        assert_eq!(of_words(&words(&["llm", "pretrain", "--factory", "my_own"])), None);
    }

    #[test]
    fn every_row_is_of_a_kind() {
        for line in super::RECIPES.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let (module, kind) = (words.next().unwrap(), words.next().unwrap());
            assert!(["pretrain", "lora", "full"].contains(&kind), "{line}");
            let told = row(module, kind).unwrap();
            assert!(told.iter().any(|(key, _)| *key == "gbs") && told.iter().any(|(key, _)| *key == "seq"), "{line}");
        }
    }
}
