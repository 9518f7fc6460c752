//! What stands around a training program on its command line: interpreters, wrappers and
//! launchers, and how many processes they start.

mod container;
mod in_turn;
pub mod open;
mod redirections;
mod submitted;
mod world;
mod wrappers;

use std::collections::BTreeMap;

use super::arguments;
use super::settings::{Settings, UNKNOWN};
use super::shell;
use wrappers::{options_of, options_of_torchrun};

pub use in_turn::{in_turn, trains as starts};
pub use world::{LaunchEnvironment, World, of_environment, of_slurm};
pub use wrappers::inner_at;

/// A command taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchCommand {
    /// Launchers, the outermost first.
    pub launchers: Vec<Launcher>,
    /// What they start.
    pub program: Program,
    /// Variables that are set on the command line itself.
    pub variables: Vec<(String, String)>,
}

/// A launcher with its own options.
#[derive(Debug, Clone, PartialEq)]
pub struct Launcher {
    /// Which.
    pub kind: LauncherKind,
    /// Its options by name, `-` as `_`.
    pub options: Settings,
}

/// The training program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// The script or module, as it was given.
    pub path: String,
    /// Whether it is a module (`python -m`).
    pub module: bool,
    /// Whether Python runs it.
    pub python: bool,
    /// Its arguments.
    pub words: Vec<String>,
}

impl Program {
    /// The script without its folder, the module with all its parts.
    pub fn name(&self) -> &str {
        if self.module { &self.path } else { base(&self.path) }
    }

    /// Whether its name says that it does something other than training: many tools take the same options for that.
    pub fn trains_nothing(&self) -> bool {
        const TRAINING: [&str; 7] = ["train", "tune", "sft", "dpo", "rlhf", "grpo", "ppo"];
        const OTHERS: [&str; 26] = [
            "analyze",
            "eval",
            "create",
            "index",
            "sample",
            "infer",
            "generat",
            "serve",
            "predict",
            "convert",
            "merge",
            "export",
            "preprocess",
            "prepare",
            "tokenize",
            "download",
            "setup",
            "server",
            "benchmark",
            "chatbot",
            "gradio",
            "streamlit",
            "demo",
            "judge",
            "inspect",
            "visuali",
        ];
        let stem =
            self.path.rsplit(['/', '.']).find(|part| *part != "py" && *part != "sh").unwrap_or("").to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| stem.contains(part));
        // `retrieval` evaluates nothing.
        let other = stem == "pip" || has(&OTHERS) && stem.replace("retrieval", "") == stem;
        // `eval_finetuned.py` evaluates what was trained.
        let evaluates = stem.starts_with("eval") && !stem.contains("_and_");
        other && (evaluates || !has(&TRAINING))
    }

    /// Whether it is a script that is called after a training.
    pub fn trains_by_its_name(&self) -> bool {
        const NAMES: [&str; 6] = ["train", "finetun", "sft", "dpo", "grpo", "ppo"];
        let stem = self.name().to_lowercase();
        self.python && NAMES.iter().any(|part| stem.contains(part)) && !self.trains_nothing()
    }

    /// How screens and origins call it.
    pub fn shown(&self) -> String {
        if self.module { format!("-m {}", self.path) } else { self.name().to_owned() }
    }
}

/// The launchers that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LauncherKind {
    /// `torchrun`, `python -m torch.distributed.run`, `… .launch`.
    Torchrun,
    /// `accelerate launch`.
    Accelerate,
    /// `deepspeed`.
    Deepspeed,
    /// Mosaic's `composer`.
    Composer,
    /// `srun`.
    Srun,
    /// `mpirun`, `mpiexec`.
    Mpirun,
    /// `colossalai run`.
    Colossal,
}

/// A path without its folders.
pub fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|letter| letter.is_ascii_digit() || letter == '.' || letter == 't'))
}

fn is_shell(name: &str) -> bool {
    matches!(name.trim_start_matches('-'), "sh" | "bash" | "dash" | "zsh" | "ksh" | "busybox" | "ash" | "fish")
}

/// Takes a command apart.
pub fn take_apart(words: &[String]) -> LaunchCommand {
    let mut launched = LaunchCommand::default();
    follow(redirections::without(words), &mut launched, 0);
    launched
}

/// More commands in each other than this are none.
const DEEPEST: usize = 16;

fn follow(words: Vec<String>, launched: &mut LaunchCommand, depth: usize) {
    let mut rest = words.as_slice();
    while let Some((name, value)) = rest.first().and_then(|word| variable(word)) {
        launched.variables.push((name.to_owned(), value.to_owned()));
        rest = &rest[1..];
    }
    let Some((first, after)) = rest.split_first() else { return };
    let name = base(first);
    if depth > DEEPEST {
        return;
    }
    if let Some(options) = options_of_torchrun(rest) {
        follow([&["torchrun".to_owned()], options].concat(), launched, depth + 1);
    } else if name == "eval" {
        follow(after.to_vec(), launched, depth + 1);
    } else if name == "env" {
        follow(behind_env(after), launched, depth + 1);
    } else if let Some(rest) = inline(name, after) {
        follow(rest.to_vec(), launched, depth + 1);
    } else if name == "debugpy-run" {
        // `debugpy-run -m torch.distributed.run -p 5678 -- ARGUMENTS`
        let behind = after.iter().position(|word| word == "--").map_or(0, |at| at + 1);
        let module = after.iter().position(|word| word == "-m").and_then(|at| after.get(at..at + 2));
        let python = std::iter::once("python".to_owned()).chain(module.unwrap_or_default().iter().cloned());
        follow(python.chain(after[behind..].iter().cloned()).collect(), launched, depth + 1);
    } else if is_python(name) || starts_script(name, after) {
        let (path, module, words) = interpreted(after, "m");
        started(path, module, true, words, launched, depth);
    } else if is_shell(name) {
        match shell_text(after) {
            Some((text, behind)) => {
                let given: BTreeMap<_, _> = launched.variables.iter().cloned().collect();
                let commands = shell::read(text, &|name| given.get(name).cloned()).commands;
                let commands = commands.into_iter().map(|command| command.words).collect();
                follow(in_turn::last_that_trains(commands, depth), launched, depth + 1);
                // Its own words (`$0`, `$1`, …) where the text itself starts nothing that trains.
                let redirected = behind.first().is_none_or(|word| word.contains('>'));
                if launched.launchers.is_empty() && !launched.program.python && !redirected {
                    follow(behind.to_vec(), launched, depth + 1);
                }
            }
            None => {
                let (path, _, words) = interpreted(after, "");
                started(path, false, false, words, launched, depth);
            }
        }
    } else {
        // `./train.py --fp16`: its first line names Python.
        started(first.clone(), false, first.ends_with(".py"), after.to_vec(), launched, depth);
    }
}

/// Whether a word that only the run knows is an interpreter: `$PYTHON train.py`.
fn starts_script(name: &str, words: &[String]) -> bool {
    name == UNKNOWN && words.first().is_some_and(|word| word.ends_with(".py"))
}

/// Behind a program that is itself an argument: `python -c '…' WORDS`.
fn inline<'a>(name: &str, words: &'a [String]) -> Option<&'a [String]> {
    let option = if is_python(name) { "-c" } else { "-e" };
    if !is_python(name) && !matches!(name, "perl" | "ruby" | "node") {
        return None;
    }
    let at = words.iter().take_while(|word| word.starts_with('-')).position(|word| word == option)?;
    words.get(at + 2..)
}

/// What a shell is told to do in its own arguments, and the words behind it: `bash -lc '…'`.
fn shell_text(words: &[String]) -> Option<(&str, &[String])> {
    let at = words.iter().position(|word| !word.starts_with('-') || word.ends_with('c'))?;
    let option = words.get(at)?;
    let told = option.starts_with('-') && !option.starts_with("--");
    let text = words.get(at + 1).filter(|_| told)?;
    Some((text, words.get(at + 2..).unwrap_or_default()))
}

/// Behind an interpreter's own options: its script, or the module behind `-m`.
fn interpreted(words: &[String], module: &str) -> (String, bool, Vec<String>) {
    const WITH_VALUE: [&str; 4] = ["-X", "-W", "-Q", "-o"];
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if !module.is_empty() && word.starts_with('-') && !word.starts_with("--") && word.ends_with(module) {
            let path = words.get(at + 1).cloned().unwrap_or_default();
            return (path, true, words.get(at + 2..).unwrap_or_default().to_vec());
        }
        if WITH_VALUE.contains(&word.as_str()) {
            at += 2;
        } else if word.starts_with('-') && word.len() > 1 {
            at += 1;
        } else {
            return (word.clone(), false, words.get(at + 1..).unwrap_or_default().to_vec());
        }
    }
    (String::new(), false, Vec::new())
}

/// A program, which may itself be one that starts another.
fn started(path: String, module: bool, python: bool, words: Vec<String>, launched: &mut LaunchCommand, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    let name = if module { path.as_str() } else { base(&path) };
    let launches = wrappers::find(name).filter(|wrapper| wrapper.words == 0 || wrappers::leads_on(wrapper, &words));
    let Some(wrapper) = launches else {
        if let Some(inner) = handed_on(python || module, &words) {
            return follow(inner.to_vec(), launched, depth + 1);
        }
        if let Some(inner) = submitted::command(name, &words) {
            return follow(inner, launched, depth + 1);
        }
        launched.program = Program { path, module, python, words };
        return;
    };
    if name == "singularity" || name == "apptainer" {
        container::hand_into(launched);
    }
    let (own, inner) = options_of(wrapper, &words);
    if name == "ray" {
        container::of_ray(launched, &own);
    }
    let options = arguments::read(&own).options;
    let inner_module = ["m", "module", "module_mode"].iter().any(|flag| options.is(flag));
    let plain = ["no_python", "command_mode", "c"].iter().any(|flag| options.is(flag));
    let Some(kind) = wrapper.kind else {
        // `uv run -m pkg.train`
        let module = options.text("m").filter(|_| wrapper.runs_modules());
        let behind = module.map(|found| vec!["python".to_owned(), "-m".to_owned(), found.value]).unwrap_or_default();
        return follow([behind, wrapper.completed(inner)].concat(), launched, depth + 1);
    };
    launched.launchers.push(Launcher { kind, options });
    if matches!(kind, LauncherKind::Srun | LauncherKind::Mpirun) || plain {
        return follow(inner, launched, depth + 1);
    }
    if let Some((path, words)) = inner.split_first() {
        // torchrun and the others start a script with Python; a command of theirs may be named all the same.
        started(path.clone(), inner_module, true, words.to_vec(), launched, depth + 1);
    }
}

/// The command that a program hands on to: an entry point of a container, `tini`, a wrapper of
/// one's own in front of Python or a launcher.
fn handed_on(python: bool, words: &[String]) -> Option<&[String]> {
    let at = words.iter().position(|word| !word.starts_with('-'))?;
    let name = base(words.get(at)?);
    let leads = is_python(name) || wrappers::find(name).is_some_and(|wrapper| wrapper.kind.is_some());
    words.get(at..).filter(|_| leads && !python)
}

/// Behind `env` and its options; what it sets stays in front.
fn behind_env(words: &[String]) -> Vec<String> {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        at += if matches!(word.as_str(), "-u" | "-C" | "--unset" | "--chdir") { 2 } else { 1 };
    }
    words.get(at..).unwrap_or_default().to_vec()
}

fn variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let good = !name.is_empty()
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    good.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(line: &str) -> (Vec<LauncherKind>, String, usize) {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('~', " ")).collect();
        let launched = take_apart(&words);
        let kinds = launched.launchers.iter().map(|launcher| launcher.kind).collect();
        (kinds, launched.program.path.clone(), launched.program.words.len())
    }

    #[test]
    fn what_stands_around_a_program_is_taken_off() {
        use LauncherKind::{Accelerate, Composer, Deepspeed, Mpirun, Srun, Torchrun};
        for (line, kinds, path, words) in [
            ("python train.py --a 1", vec![], "train.py", 2),
            ("/usr/bin/python3.11 -u -X dev -m pkg.train x", vec![], "pkg.train", 1),
            ("torchrun --nproc_per_node 8 --standalone train.py x", vec![Torchrun], "train.py", 1),
            ("python -m torch.distributed.run --nnodes=2 -m pkg.train x y", vec![Torchrun], "pkg.train", 2),
            ("env A=1 nohup nice -n 10 torchrun --tee 3 a.py", vec![Torchrun], "a.py", 0),
            ("timeout -k 5 10m python a.py b", vec![], "a.py", 1),
            ("srun -N4 --ntasks-per-node=8 -l -p part python a.py", vec![Srun], "a.py", 0),
            (
                "env SINGULARITYENV_N=4 singularity exec --nv a.sif bash -lc torchrun~--nproc_per_node=$N~a.py~$N",
                vec![Torchrun],
                "a.py",
                1,
            ),
            ("srun --nodes 4 bash -c torchrun~--nproc_per_node~8~a.py~x", vec![Srun, Torchrun], "a.py", 1),
            ("mpirun -np 16 --allow-run-as-root -x PATH --mca btl ^tcp python a.py x", vec![Mpirun], "a.py", 1),
            ("accelerate launch --multi_gpu --num_processes 8 a.py --x", vec![Accelerate], "a.py", 1),
            ("accelerate launch -m axolotl.cli.train c.yml", vec![Accelerate], "axolotl.cli.train", 1),
            ("deepspeed --num_gpus 4 a.py --deepspeed ds.json", vec![Deepspeed], "a.py", 2),
            ("/bin/sh /opt/bin/deepspeed --num_gpus 4 a.py", vec![Deepspeed], "a.py", 0),
            // A script of one's own may be called as a launcher is.
            ("deepspeed --num_gpus 2 ds.py --deepspeed --deepspeed_config a.json", vec![Deepspeed], "ds.py", 3),
            ("composer -n 8 train.py c.yaml k=v", vec![Composer], "train.py", 2),
            (
                "tune run --nproc_per_node 4 full_finetune_distributed --config x",
                vec![Torchrun],
                "full_finetune_distributed",
                2,
            ),
            ("tini -- torchrun --nproc-per-node=2 a.py", vec![Torchrun], "a.py", 0),
            ("uv run --no-sync python a.py", vec![], "a.py", 0),
            ("uv run --extra cuda -m torch.distributed.run --nproc_per_node 2 a.py", vec![Torchrun], "a.py", 0),
            ("uvx --from torch torchrun a.py x", vec![Torchrun], "a.py", 1),
            ("A=1 stdbuf -oL python -u a.py x", vec![], "a.py", 1),
            ("nice -n10 taskset -c 0-3 python a.py", vec![], "a.py", 0),
            ("bash -lc cd~/w~&&~A=1~torchrun~--nproc_per_node~8~a.py~x~|&~tee~log", vec![Torchrun], "a.py", 1),
            ("axolotl train c.yml --launcher torchrun -- --nproc_per_node=2", vec![], "axolotl", 6),
            ("python mason.py --gpus 8 -- source e.sh && python a.py x y", vec![], "a.py", 2),
            ("python mason.py --gpus 8 -- accelerate launch --num_processes 8 a.py x", vec![Accelerate], "a.py", 1),
            ("python mason.py --gpus 8 -- source e.sh && uv run python a.py x y", vec![], "a.py", 2),
            ("torchrun a.py --flag > log.txt 2>&1", vec![Torchrun], "a.py", 1),
            ("torchrun a.py <model> --x &>>log", vec![Torchrun], "a.py", 2),
            ("srun -N 2 -- torchrun --nproc_per_node 8 a.py", vec![Srun, Torchrun], "a.py", 0),
        ] {
            assert_eq!(apart(line), (kinds, path.to_owned(), words), "{line}");
        }
    }

    #[test]
    fn commands_in_each_other_have_an_end() {
        let (_, path, _) = apart(&"torchrun ".repeat(100_000));
        assert!(path.is_empty());
        apart(&"env ".repeat(100_000));
    }
}
