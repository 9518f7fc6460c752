//! Files of other tools as plans: the kind is told by what is in them.

mod config_maps;
mod documents;
mod started;
mod training_commands;

use std::collections::BTreeMap;

use super::common::{self, ImportContext};
use super::imported::{ImportedPlan, InferredValue};
use super::kinds::{kind, of_settings};
use super::launch::Program;
use super::liger;
use super::refused::{self, Refused};
use super::rows::not_modelled;
use super::script_files::{ScriptFiles, near};
use super::script_modules;
use super::settings::Settings;
use super::text::Unparsable;
use super::{
    ProcessView, bridge, build_nanogpt, diffusers, documented, hydra, intern_evo, jobs, nanogpt, nanotron,
    nemo_factories, nemo_recipes, of_command, olmo, own_loop, python_calls, scontrol, shell, stated_world, text,
    torchtitan, trainer, xtuner,
};
use crate::catalog::Catalog;
use crate::plan::{keys, schema};
use documents::documents;
use started::{StartedCommands, handed_in, started, trains};
pub use training_commands::{commands, trains_by_itself};

/// The plan of a file called `name`: a Hugging Face `config.json`, a configuration of a framework,
/// or a script or text with a training command in it.
///
/// # Errors
/// That it cannot be read, or is none of these.
pub fn file(name: &str, content: &str, around: &ProcessView, catalog: &Catalog) -> Result<ImportedPlan, Refused> {
    let program = Program::default();
    let variables = BTreeMap::new();
    let context = ImportContext {
        run: around,
        catalog,
        program: &program,
        launchers: Vec::new(),
        variables: &variables,
        world: stated_world(around).unwrap_or_default(),
    };
    let (mut remarks, mut unread) = (Vec::new(), Vec::new());
    let unreadable = |why: Unparsable| Refused::Unreadable(format!("{name}:{why}"));
    if scontrol::is_listing(content) {
        return of_slurm_job(name, content, around, catalog);
    }
    let read = match ending(name, content).as_str() {
        "toml" => {
            let settings = text::toml(name, content).map_err(unreadable)?;
            diffusers::tools::check(name, &settings)?;
            of_settings(settings, name, &context)
        }
        ending if SETTINGS.contains(&ending) => {
            let settings = documents(name, content).map_err(unreadable)?;
            if let Some(job) = jobs::of_settings(&settings) {
                let around = ProcessView { withheld: around.withheld || job.withheld, ..around.copy() };
                let script = config_maps::written(name, content) + &job.script;
                let read = of_script(name, &script, &job.variables, &around, catalog);
                return read.map(|imported| jobs::with_places(imported, &settings));
            }
            diffusers::tools::check(name, &settings)?;
            remarks = settings.remarks().to_vec();
            let plan = is_plan(&settings);
            let (settings, left) = hydra::composed(settings, name, around.files);
            unread = left;
            match of_settings(settings, name, &context) {
                None if plan => return Err(Refused::Plan(name.to_owned())),
                read => read,
            }
        }
        "py" if bridge::is_recipe(content) => Some(bridge::of_file(name, content, &context)?),
        "py" => {
            let chosen = torchtitan::chosen(name, content, around.which)?;
            if hydra::is_script(content)
                && let Some(started) = documented::started_alone(name, content, &context)
            {
                return Ok(started);
            }
            let composed = hydra::is_script(content).then(|| of_arguments(name, content, &context).ok()).flatten();
            let alone = || of_python(name, chosen.as_deref().unwrap_or(content), &context);
            let Some(read) = composed.or_else(alone) else {
                return of_arguments(name, content, &context)
                    .or_else(|refused| documented::starters::plan(name, content, &context, refused))
                    .or_else(|refused| hydra::plan_of_script(name, content, &context).ok_or(refused));
            };
            // What starts it gives its arguments, and says how many there are of it.
            let started = python_calls::parses_arguments(content).then(|| documented::starters::only(name, &context));
            if let Some(started) = started.flatten() {
                return Ok(started);
            }
            Some(read)
        }
        _ => {
            let command = bare_arguments(content);
            let script = command.as_deref().unwrap_or(content);
            return of_script(name, script, &jobs::slurm(content), around, catalog);
        }
    };
    let unknown = || Refused::NoTool(format!("{name}: no tool known that has such a configuration"));
    let mut imported = match read {
        Some(read) => read,
        None if name == "-" => return Err(unknown()),
        None => documented::starters::plan(name, content, &context, unknown())?,
    };
    imported = documented::starters::of_part(imported, name, content, &context);
    remarks.into_iter().for_each(|line| imported.note(line));
    for path in unread {
        imported.note(format!("not read: {path}, which the list of defaults names"));
        imported.unread.get_or_insert(path);
    }
    documented::complete(&mut imported, name, content, &context);
    imported = documented::scripts::complete(imported, (name, content), &context);
    imported.distrust();
    common::surroundings(&mut imported, &context);
    liger::fit(&mut imported, &context);
    Ok(imported.settle())
}

/// How the name of a file ends; of standard input, what it holds: `kubectl get pytorchjob train -o yaml`.
fn ending(name: &str, content: &str) -> String {
    let is_manifest = || content.lines().any(|line| line.starts_with("apiVersion:")) || content.starts_with('{');
    match name.rsplit('.').next().unwrap_or("").to_lowercase() {
        _ if name == "-" && is_manifest() => "yaml".to_owned(),
        ending => ending,
    }
}

/// The job of a listing of Slurm's: its batch script is read, with what the job was given.
fn of_slurm_job(name: &str, content: &str, around: &ProcessView, catalog: &Catalog) -> Result<ImportedPlan, Refused> {
    let job = scontrol::read(name, content)?;
    let script = job.script();
    let text = around.files.read(&script).map_err(|why| {
        let id = &job.id;
        Refused::NoTool(format!(
            "{name}: the script of job {id} cannot be read: {why}; scontrol write batch_script {id} job.sbatch writes it"
        ))
    })?;
    of_script(&script, &text, &job.surroundings(&text), around, catalog)
}

/// The command of a text that holds options and nothing else, as an export of Megatron's arguments does; what starts it
/// is not said.
fn bare_arguments(content: &str) -> Option<String> {
    let lines = || content.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let bare = lines().next()?.starts_with("--") && lines().all(|line| line.starts_with("--"));
    let words: Vec<&str> = lines().map(|line| line.trim_end_matches('\\')).collect();
    bare.then(|| format!("$LAUNCHER python pretrain_gpt.py {}", words.join(" ")))
}

fn of_python(name: &str, content: &str, context: &ImportContext) -> Option<ImportedPlan> {
    let settings = text::python(name, content);
    // Its configurations are assignments and nothing else; its own script reads them by its configurator.
    let assigns = !content.lines().any(|line| line.starts_with("def ") || line.starts_with("class "));
    if (assigns || content.contains("configurator.py")) && nanogpt::is_config(&settings) {
        return Some(nanogpt::of_file(settings, name, context));
    }
    if xtuner::is_config(content) {
        return Some(xtuner::of_file(name, content, context));
    }
    if intern_evo::is_config(content) {
        return Some(intern_evo::of_file(name, content));
    }
    if nemo_recipes::is_recipe(content) {
        return Some(nemo_recipes::of_file(name, content, context));
    }
    if olmo::scripts::is_script(content) {
        return Some(olmo::scripts::of_file(name, content, context));
    }
    if nanotron::is_python(content) {
        return Some(nanotron::of_python(name, content));
    }
    if let Some(imported) = nemo_factories::of_script(name, content, context) {
        return Some(imported);
    }
    if let Some(imported) = bridge::script::of_file(name, content, context) {
        return Some(imported);
    }
    if torchtitan::is_python(content) {
        return Some(torchtitan::of_python(name, content, context));
    }
    if build_nanogpt::is_script(name, content, context) {
        return Some(build_nanogpt::of_file(name, content, context));
    }
    let content = script_modules::by_library_names(content);
    let trains = python_calls::is_script(&content) || python_calls::is_part(&content);
    let mut imported = trains.then(|| python_calls::of_file(name, &content, context))?;
    trainer::spread_alone(&mut imported, name, &content, context);
    Some(imported)
}

/// The plan of a script that takes its arguments from a command line, or that trains in a loop of its own, as it starts
/// where nobody gives it any: what it says by itself names a model and a batch.
fn of_arguments(name: &str, content: &str, context: &ImportContext) -> Result<ImportedPlan, Refused> {
    let around = context.run;
    let parses = python_calls::parses_arguments(content) || content.contains("fire.Fire(") || hydra::is_script(content);
    let why = refused::why_not(content, parses);
    let refused = || Refused::NoTool(format!("{name}: {why}"));
    let loops = || own_loop::loops(content) && own_loop::starts(content);
    if !(parses || loops()) {
        return Err(refused());
    }
    let command = vec!["python".to_owned(), name.to_owned()];
    let files = ScriptFiles::around(around.files, name);
    let inner = ProcessView { command, withheld: true, which: None, files: &files, ..around.copy() };
    let mut imported = of_command(&inner, context.catalog);
    // What follows from a library's default is one too.
    let library = |found: &InferredValue| {
        let told = found.origin.to_string();
        told.starts_with("default of ") && !told.starts_with("default of the script")
    };
    let batch = imported.get(keys::training::micro_batch_size).is_some_and(|found| !library(found));
    if imported.tool.is_empty() || imported.names_no_model().is_some() || !batch {
        return Err(refused());
    }
    if parses {
        imported
            .note("its arguments are taken at their defaults: import the command that starts it, where it gives some");
    }
    if !own_loop::is_loop(content) && imported.is_default(keys::distribution::sharding) {
        if let Some(started) = documented::starters::only(name, context) {
            return Ok(started);
        } else if documented::is_started(name, content, context) {
            trainer::by_launcher(&mut imported);
        } else {
            imported.note(format!("nothing here starts it: taken as `python {name}`, without DeepSpeed or FSDP"));
        }
    }
    Ok(imported)
}

/// How names of files end that hold settings, never commands.
const SETTINGS: [&str; 4] = ["json", "yaml", "yml", "jsonc"];

/// Whether a text that is no plan may be one of these, by its name and its keys.
#[must_use]
pub fn is_foreign(name: &str, content: &str) -> bool {
    let ending = name.rsplit('.').next().unwrap_or("").to_lowercase();
    match ending.as_str() {
        "toml" | "sh" | "py" | "sbatch" | "slurm" => true,
        ending if !SETTINGS.contains(&ending) && !commands(content, &|_| None).is_empty() => true,
        _ => documents(name, content).is_ok_and(|settings| {
            !is_plan(&settings) && (kind(&settings).is_some() || jobs::of_settings(&settings).is_some())
        }),
    }
}

/// Whether settings are a plan's: no section of another's name, and a key that a plan has.
pub fn is_plan(settings: &Settings) -> bool {
    const SECTIONS: [&str; 7] = ["model", "training", "hardware", "cluster", "distribution", "run", "analysis"];
    let mut names = settings.iter().map(|(name, _)| name.split('.').next().unwrap_or(name)).peekable();
    let known = settings.iter().any(|(name, _)| schema::keys().iter().any(|key| name.starts_with(key.path)));
    names.peek().is_some() && names.all(|name| SECTIONS.contains(&name)) && known
}

/// The plan of a script's training; of several, the one that was asked for. What the script leaves to its arguments a
/// README beside it may say.
pub fn of_script(
    name: &str,
    content: &str,
    scheduled: &BTreeMap<String, String>,
    around: &ProcessView,
    catalog: &Catalog,
) -> Result<ImportedPlan, Refused> {
    let alone = of_script_alone(name, content, scheduled, around, catalog);
    let lacks = documented::arguments::are_lacking(&alone);
    if !lacks || !documented::arguments::are_asked_for(content) {
        return alone;
    }
    documented::arguments::plan(name, around, catalog).unwrap_or(alone)
}

/// The same of the script alone.
pub fn of_script_alone(
    name: &str,
    content: &str,
    scheduled: &BTreeMap<String, String>,
    around: &ProcessView,
    catalog: &Catalog,
) -> Result<ImportedPlan, Refused> {
    let variables: BTreeMap<String, String> =
        scheduled.iter().chain(&around.variables).map(|(name, value)| (name.clone(), value.clone())).collect();
    let script = followed(name, content, &variables, around);
    let options = script.options_of_a_model();
    let factories = script.commands.iter().find_map(|command| refused::factory(&command.words));
    let jobs = handed_in(&script);
    let StartedCommands { mut trainings, others, further, absent } = started(name, script, &variables, around, catalog);
    let further = further
        .into_iter()
        .chain(absent.iter().filter(|path| trains(path)).map(|path| format!("{path}, which is not at hand")));
    let further: Vec<String> = further.collect();
    let number = trainings.len();
    if let Some(which) = around.which {
        let chosen = which.checked_sub(1).filter(|at| *at < number).map(|at| trainings.swap_remove(at).1);
        return chosen
            .ok_or_else(|| Refused::NoTool(format!("{name}: --which {which}, and it has {number} trainings")));
    }
    match (trainings.pop(), number) {
        (Some((_, mut imported)), 1) => {
            if let Some(first) = further.first() {
                not_modelled(&mut imported, &format!("further trainings by what is not recognised: {first}"));
            }
            Ok(imported)
        }
        (None, _) if others.is_empty() && options.is_some() => {
            Ok(of_options(options.unwrap_or_default(), around, catalog))
        }
        (None, _) if others.is_empty() && jobs.len() == 1 => of_job_file(name, &jobs.concat(), around, catalog),
        (None, _) => Err(Refused::NoTool(match others.last() {
            Some(command) => format!("{name}: no tool known that trains by: {command}"),
            None if factories.is_some() => format!("{name}: {}", factories.unwrap_or_default()),
            None if !absent.is_empty() => {
                format!("{name}: it starts {}, which is not at hand", absent.join(", "))
            }
            None => format!("{name}: no tool known, and no training command in it"),
        })),
        (Some(last), _) => {
            let commands = trainings.into_iter().chain([last]).map(|(command, _)| command).collect();
            Err(Refused::Several { file: name.to_owned(), commands })
        }
    }
}

/// The job of a file that a script hands to a scheduler.
fn of_job_file(name: &str, path: &str, around: &ProcessView, catalog: &Catalog) -> Result<ImportedPlan, Refused> {
    let absent = || Refused::NoTool(format!("{name}: it hands in {path}, which is no job that can be read here"));
    let (text, there) = near(around.files, name, path).map_err(|_| absent())?;
    let settings = documents(&there, &text).map_err(|_| absent())?;
    let job = jobs::of_settings(&settings).ok_or_else(absent)?;
    let around = ProcessView { withheld: around.withheld || job.withheld, ..around.copy() };
    let mut imported = jobs::with_places(of_script(&there, &job.script, &job.variables, &around, catalog)?, &settings);
    imported.note(format!("{name} hands in {there}"));
    Ok(imported)
}

/// A script as far as it can be followed, with what it sources.
fn followed(name: &str, content: &str, variables: &BTreeMap<String, String>, around: &ProcessView) -> shell::Script {
    let known = |variable: &str| match variable {
        "0" => Some(name.to_owned()),
        _ => variables.get(variable).cloned(),
    };
    let source = |path: &str| near(around.files, name, path).ok().map(|(text, _)| text);
    shell::read_around(content, &shell::Surroundings { variable: &known, file: &source, shifted: None })
}

/// What those commands of a script start that fit, each with its words and its plan.
pub fn runs_of_script(
    name: &str,
    content: &str,
    context: &ImportContext,
    fits: &dyn Fn(&[String]) -> bool,
) -> Vec<(Vec<String>, ImportedPlan)> {
    let mut variables = jobs::slurm(content);
    variables.extend(context.run.variables.clone());
    let script = followed(name, content, &variables, context.run);
    let around = ProcessView { variables, which: None, ..context.run.copy() };
    started::fitting(name, script, &around, context.catalog, fits)
}

/// Megatron's options that a script sets for another one: what the rest of the command says is not known.
fn of_options(options: Vec<String>, around: &ProcessView, catalog: &Catalog) -> ImportedPlan {
    let mut command = vec!["python".to_owned(), "pretrain_gpt.py".to_owned()];
    command.extend(options);
    let inner = ProcessView { command, withheld: true, which: None, ..around.copy() };
    let mut imported = of_command(&inner, catalog);
    imported.note("a part of a command: another script starts it, and says the rest");
    imported.unread = Some("the script that starts it".to_owned());
    imported.distrust();
    imported
}
