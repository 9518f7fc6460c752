#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
//! Plans from elsewhere: what a training command, its files and its surroundings say about the plan that it runs. Texts in,
//! a plan out, every value with its origin: nothing here reads a file or a process by itself, and nothing of what is read
//! is ever run. Python scripts are read by their syntax and followed as far as their values can be told (`python`).

use memwall_core::{catalog, files, order, plan, printable, reading, units};

mod accelerate;
mod adapters;
mod align_anything;
mod areal;
mod arguments;
mod automodel;
mod axolotl;
mod axolotl_kernels;
mod bridge;
mod build_nanogpt;
mod chatlearn;
mod colossal;
mod common;
mod concept_table;
mod concepts;
mod copied;
mod data_arguments;
mod deepspeed;
mod diffusers;
mod documented;
mod documented_commands;
mod easy_r1;
mod expression;
mod file;
mod fms_fsdp;
mod fused_adam;
mod galore;
mod glm;
mod gpt_neox;
mod halos;
mod hooked;
mod hydra;
mod idle_arguments;
mod imported;
mod inert;
mod intern_evo;
mod jobs;
mod kinds;
mod kubernetes;
mod launch;
mod levanter;
mod liger;
mod lingua;
mod litgpt;
mod litgpt_shape;
mod llama_accessory;
mod llama_factory;
mod llama_recipes;
mod llm_c;
mod llm_foundry;
mod llm_recipes;
mod loop_facts;
mod loose_yaml;
mod megatron;
mod methods;
mod mistral_finetune;
mod model;
mod model_center;
mod model_paths;
mod nanogpt;
mod nanogpt_copy;
mod nanotron;
mod nemo;
mod nemo_factories;
mod nemo_legacy;
mod nemo_recipes;
mod nemo_rl;
mod nemo_trainer;
mod oat;
mod olmo;
mod open_instruct;
mod open_lm;
mod openrlhf;
mod origin;
mod oumi;
mod own_config;
mod own_loop;
mod precision_aware;
mod preset_length;
mod prime_rl;
mod primus;
mod python;
mod python_adapters;
mod python_calls;
mod python_lengths;
mod python_models;
mod python_sizes;
mod rank_count;
mod readers;
mod recomputed;
mod refused;
mod roll;
mod rollout;
mod rows;
mod run_length;
mod scontrol;
mod script_adapters;
mod script_classes;
mod script_defaults;
mod script_doubts;
mod script_effects;
mod script_files;
mod script_head;
mod script_keywords;
mod script_loading;
mod script_modules;
mod script_patches;
mod script_upcasts;
mod script_vocabulary;
mod settings;
mod shell;
mod sky_rl;
mod swift;
mod swift_names;
mod swift_packing;
mod text;
mod timm;
mod torchtitan;
mod torchtune;
mod trainer;
mod trainer_by_name;
mod trl;
mod unread;
mod unset;
mod veomni;
mod verl;
mod versions;
mod vision;
mod vision_parts;
mod xtuner;

use std::collections::BTreeMap;

use crate::catalog::Catalog;
use crate::files::Unread;
use common::ImportContext;
use launch::{LaunchCommand, LaunchEnvironment, Launcher, Program, World};
use settings::{UNKNOWN, UNKNOWN_OPTIONS};

pub use common::without_driver;
pub use file::is_foreign;
pub use hooked::{other_model, several as tell_several, tell as tell_hook, tell_vocabulary};
pub use imported::{ImportedPlan, InferredValue, MissingKey};
pub use loop_facts::torchvision_parameters;
pub use origin::{Origin, Setting};
pub use refused::Refused;

/// Files as the process that is looked at sees them.
pub trait Files {
    /// The text of a file; a relative path starts at the process's working directory.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, path: &str) -> Result<String, Unread>;

    /// The path as it leads there from anywhere.
    fn absolute(&self, path: &str) -> String;

    /// The names of what lies in a folder, in order: none of one that cannot be looked into.
    fn names(&self, _folder: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A training run as it looks from outside.
pub struct ProcessView<'a> {
    /// The words of its command.
    pub command: Vec<String>,
    /// Its environment.
    pub variables: BTreeMap<String, String>,
    /// The commands of its parent, its parent's parent and so on.
    pub ancestors: Vec<Vec<String>>,
    /// The names of the GPUs that it may use, or of the machine's.
    pub gpus: Vec<String>,
    /// Whether its environment could not be read, so that what is not there may be all the same.
    pub withheld: bool,
    /// The number of its processes, where the user says it.
    pub world: Option<u64>,
    /// Which of several training commands of a script is meant, from 1, where the user says it.
    pub which: Option<usize>,
    /// Versions of libraries in its environment by name, where they are known: `transformers`, `torch`.
    pub versions: BTreeMap<String, String>,
    /// Its files.
    pub files: &'a dyn Files,
}

impl<'a> ProcessView<'a> {
    /// The same, for another with some of it changed.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            command: self.command.clone(),
            variables: self.variables.clone(),
            ancestors: self.ancestors.clone(),
            gpus: self.gpus.clone(),
            versions: self.versions.clone(),
            ..*self
        }
    }

    /// A command and nothing else.
    #[must_use]
    pub fn of(command: Vec<String>, files: &'a dyn Files) -> Self {
        Self {
            command,
            variables: BTreeMap::new(),
            ancestors: Vec::new(),
            gpus: Vec::new(),
            withheld: false,
            world: None,
            which: None,
            versions: BTreeMap::new(),
            files,
        }
    }
}

/// What a run says about its plan. What nobody says is in [`ImportedPlan::missing`].
#[must_use]
pub fn run(run: &ProcessView, catalog: &Catalog) -> ImportedPlan {
    let path = launch::take_apart(&run.command).program.path;
    let (view, stated) = run.with_stated_versions(&path, "");
    let mut imported = of_command(&view, catalog);
    copied::hold_against_source(&mut imported, run.files);
    imported.notes.extend(stated);
    imported
}

/// The plan of a file called `name`: a Hugging Face `config.json`, a configuration of a framework,
/// or a script or text with a training command in it.
///
/// # Errors
/// That it cannot be read, or is none of these.
pub fn file(name: &str, content: &str, around: &ProcessView, catalog: &Catalog) -> Result<ImportedPlan, Refused> {
    let (view, stated) = around.with_stated_versions(name, content);
    let mut imported = file::file(name, content, &view, catalog)?;
    versions::finish(&mut imported, &view.versions);
    copied::hold_against_source(&mut imported, around.files);
    imported.notes.extend(stated);
    Ok(imported)
}

/// What the script of a running process says of its batch, its samples, its optimizer and its types, whatever tool it is of
/// or of none: for the comparison of that process with a plan, beside what [`run`] reads.
///
/// # Examples
///
/// ```
/// use memwall_core::{catalog::Catalog, files::Unread};
/// use memwall_import::{Files, ProcessView, loop_facts};
///
/// struct Folder;
/// impl Files for Folder {
///     fn read(&self, path: &str) -> Result<String, Unread> {
///         let text = "BATCH = 8\nloader = DataLoader(data, batch_size=BATCH)\nfor batch in loader:\n    model(batch).backward()\n";
///         if path == "train.py" { Ok(text.to_owned()) } else { Err(Unread("no such file".to_owned())) }
///     }
///     fn absolute(&self, path: &str) -> String {
///         path.to_owned()
///     }
/// }
/// let run = ProcessView::of(vec!["python".to_owned(), "train.py".to_owned()], &Folder);
/// let told = loop_facts(&run, &Catalog::embedded()?);
/// assert!(told.iter().any(|one| one.key == "training.micro_batch_size" && one.value == 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn loop_facts(run: &ProcessView, catalog: &Catalog) -> Vec<InferredValue> {
    with_context(run, catalog, loop_facts::of_script)
}

/// A run with versions as they are known.
fn of_command(run: &ProcessView, catalog: &Catalog) -> ImportedPlan {
    with_context(run, catalog, of_context)
}

/// Takes a command apart, and reads what is known of the run by it.
fn with_context<T>(run: &ProcessView, catalog: &Catalog, read: impl FnOnce(&ImportContext) -> T) -> T {
    let mut launched = launch::take_apart(&run.command);
    if let Some(inner) = script_command(run, &launched.program) {
        let outer = std::mem::take(&mut launched.launchers);
        launched = launch::take_apart(&inner);
        launched.launchers.splice(0..0, outer);
    }
    let LaunchCommand { launchers: own, program, variables } = launched;
    let mut all = run.variables.clone();
    all.extend(variables);
    let above = run.ancestors.iter().rev().flat_map(|words| launch::take_apart(words).launchers);
    let inherited: Vec<Launcher> = above.collect();
    let mut context = ImportContext {
        run,
        catalog,
        program: &program,
        launchers: own.iter().chain(&inherited).collect(),
        variables: &all,
        world: World::default(),
    };
    context.world = world(&context, &own, &inherited);
    read(&context)
}

fn of_context(context: &ImportContext) -> ImportedPlan {
    let mut imported = readers::framework(context);
    if has_unknown_options(&context.program.words) && !imported.tool.is_empty() {
        imported.note("options in it depend on a condition that only the run knows: no default is taken");
        imported.unread.get_or_insert_with(|| "a condition of the script".to_owned());
    }
    versions::finish(&mut imported, &context.run.versions);
    imported.distrust();
    // Of a program that nobody starts as a training and that no framework is known by, nothing is to be read.
    let trains = context.program.python || !context.launchers.is_empty() || context.variable("WORLD_SIZE").is_some();
    if trains || !imported.values.is_empty() {
        common::surroundings(&mut imported, context);
    }
    liger::fit(&mut imported, context);
    imported.settle()
}

/// Whether a command has words that nobody knows and that may be options: a part that depends on a condition, or a word
/// behind an option's value (`--lr 1e-4 $EXTRA`).
fn has_unknown_options(words: &[String]) -> bool {
    let behind_value = |pair: &[String]| matches!(pair, [value, word] if word == UNKNOWN && !value.starts_with('-'));
    words.iter().any(|word| word == UNKNOWN_OPTIONS) || words.windows(2).any(behind_value)
}

/// The training command in a shell script that is being run.
fn script_command(run: &ProcessView, program: &Program) -> Option<Vec<String>> {
    let may_be = !program.python && !program.module && !program.path.is_empty();
    let text = may_be.then(|| run.files.read(&program.path).ok())??;
    let first = text.lines().next().unwrap_or("");
    if !(program.path.ends_with(".sh") || (first.starts_with("#!") && first.ends_with("sh"))) {
        return None;
    }
    let arguments = &program.words;
    let commands = file::commands(&text, &|name| match (name, name.parse::<usize>()) {
        ("@", _) => Some(arguments.join(" ")),
        ("#", _) => Some(arguments.len().to_string()),
        (_, Ok(number)) => Some(arguments.get(number.checked_sub(1)?).cloned().unwrap_or_default()),
        _ => run.variables.get(name).cloned(),
    });
    commands.into_iter().next_back()
}

/// What the user says.
fn stated_world(run: &ProcessView) -> Option<World> {
    let total = Some(Setting::new(run.world?, Origin::Argument("--gpus".to_owned())));
    Some(World { total, ..World::default() })
}

/// How many processes there are: what the rank itself was told, else its launcher, else a
/// launcher among its ancestors, else Slurm.
fn world(context: &ImportContext, own: &[Launcher], inherited: &[Launcher]) -> World {
    if let Some(told) = stated_world(context.run) {
        return told;
    }
    let variable = |name: &str| context.variable(name);
    let file = |path: &str| context.run.files.read(path).ok();
    let around = LaunchEnvironment { variable: &variable, gpus: context.visible_gpus(), file: &file };
    let starts =
        |launcher: &&Launcher| !matches!(launcher.kind, launch::LauncherKind::Srun | launch::LauncherKind::Mpirun);
    // srun around torchrun starts one torchrun a node: the inner launcher counts.
    let inner = own.iter().rev().find(starts).or_else(|| own.last());
    if let Some(launcher) = inner {
        let mut world = accelerate::configured(context, launcher, launcher.world(&around));
        if world.total.is_none() {
            world = launcher.world(&around);
        }
        return world;
    }
    let told = launch::of_environment(&variable);
    if told.total.is_some() {
        return told;
    }
    if let Some(launcher) = inherited.iter().rev().find(starts).or_else(|| inherited.last()) {
        return accelerate::configured(context, launcher, launcher.world(&around));
    }
    launch::of_slurm(&variable)
}
