//! Files of schedulers with a training command in them: Slurm's directives in a script, `SkyPilot`'s, Beaker's and
//! `MosaicML`'s YAML.

use std::collections::BTreeMap;

use super::imported::ImportedPlan;
use super::kubernetes;
use super::origin::{Origin, Setting};
use super::settings::{Settings, text};
use super::shell::quoted;
use crate::plan::keys;
use serde_json::Value;

/// A command that a job file holds, as a shell script, and the variables that its scheduler sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobScript {
    /// The script.
    pub script: String,
    /// Variables by name.
    pub variables: BTreeMap<String, String>,
    /// The scheduler starts it in several places, and how many the file does not tell.
    pub withheld: bool,
}

/// The job of a YAML file, if it is a scheduler's.
pub fn of_settings(settings: &Settings) -> Option<JobScript> {
    if settings.holds("apiVersion") && settings.holds("kind") {
        return kubernetes::of_settings(settings);
    }
    if let Some(job) = recorded(settings).or_else(|| beaker(settings)).or_else(|| mosaic(settings)) {
        return Some(job);
    }
    let sky = ["resources", "num_nodes", "setup", "workdir", "file_mounts"].iter().any(|name| settings.holds(name));
    let run = settings.text("run").filter(|_| sky)?;
    Some(skypilot(settings, run.value))
}

/// What W&B wrote down of a run's command (`wandb-metadata.json`); who launched it is not in it.
fn recorded(settings: &Settings) -> Option<JobScript> {
    let program =
        settings.text("program").filter(|found| found.value.ends_with(".py") && settings.holds("startedAt"))?;
    let mut line = format!("python {}", quoted(&program.value));
    for word in settings.texts("args").map(|found| found.value).unwrap_or_default() {
        line.push(' ');
        line.push_str(&quoted(&word));
    }
    Some(JobScript { script: line, withheld: true, ..JobScript::default() })
}

/// The only task of an experiment of Beaker's, on as many machines as it has replicas.
fn beaker(settings: &Settings) -> Option<JobScript> {
    let Value::Array(tasks) = &settings.get("tasks")?.value else { return None };
    let [task] = tasks.as_slice() else { return None };
    let words = |name: &str| -> Vec<String> {
        task.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(text).collect()
    };
    let (command, arguments) = (words("command"), words("arguments"));
    task.get("image")?;
    let shell = command.first().is_some_and(|first| matches!(first.rsplit('/').next(), Some("sh" | "bash")));
    // A line that YAML folds is one command.
    let script = match arguments.first() {
        Some(script) if shell => script.clone(),
        _ => command.into_iter().chain(arguments).collect::<Vec<_>>().join(" "),
    };
    let mut job = JobScript { script, ..JobScript::default() };
    for variable in task.get("envVars").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name").and_then(text), variable.get("value").and_then(text)) {
            job.variables.insert(name, value);
        }
    }
    let replicas = task.get("replicas").and_then(text).unwrap_or_else(|| "1".to_owned());
    job.variables.insert("BEAKER_REPLICA_COUNT".to_owned(), replicas);
    job.variables.insert("BEAKER_REPLICA_RANK".to_owned(), "0".to_owned());
    Some(job).filter(|job| !job.script.trim().is_empty())
}

/// A run of MosaicML's `mcli`, on machines of eight GPUs each. One with `parameters` is read by these.
fn mosaic(settings: &Settings) -> Option<JobScript> {
    const PER_NODE: u64 = 8;
    let run = ["integrations", "compute", "gpu_num", "gpu_type"].iter().any(|name| settings.holds(name));
    let script =
        settings.text("command").filter(|_| run && settings.holds("image") && !settings.holds("parameters"))?;
    let mut job = JobScript { script: script.value, ..JobScript::default() };
    let gpus = ["gpu_num", "gpus", "compute.gpus"].iter().find_map(|name| settings.whole(name));
    let nodes = gpus.map(|found| found.value).filter(|gpus| *gpus <= PER_NODE || gpus.is_multiple_of(PER_NODE));
    for (name, value) in [("WORLD_SIZE", nodes), ("NUM_NODES", nodes.map(|gpus| gpus.div_ceil(PER_NODE)))] {
        job.variables.extend(value.map(|value| (name.to_owned(), value.to_string())));
    }
    job.variables.insert("NODE_RANK".to_owned(), "0".to_owned());
    Some(job)
}

/// What a task of SkyPilot calls its GPUs.
pub const ACCELERATORS: &str = "resources.accelerators";

fn skypilot(settings: &Settings, script: String) -> JobScript {
    let mut job = JobScript { script, ..JobScript::default() };
    for (name, found) in settings.iter() {
        let Some(variable) = name.strip_prefix("envs.").or_else(|| name.strip_prefix("secrets.")) else { continue };
        if let Some(value) = text(&found.value) {
            job.variables.insert(variable.to_owned(), value);
        }
    }
    let nodes = settings.whole("num_nodes").map_or(1, |found| found.value);
    job.variables.insert("SKYPILOT_NUM_NODES".to_owned(), nodes.to_string());
    job.variables.insert("SKYPILOT_NODE_RANK".to_owned(), "0".to_owned());
    let asked = accelerators(settings);
    let mut counts: Vec<&str> = asked.iter().map(|(_, count)| count.as_str()).collect();
    counts.dedup();
    if let [gpus] = counts.as_slice() {
        job.variables.insert("SKYPILOT_NUM_GPUS_PER_NODE".to_owned(), (*gpus).to_owned());
    }
    // `A100` has 40 GB there, and one with 80 another name (`sky show-gpus`).
    if let [(name, _)] = asked.as_slice() {
        let plain = name.eq_ignore_ascii_case("A100");
        job.variables.insert(ACCELERATORS.to_owned(), if plain { "A100 40GB".to_owned() } else { name.clone() });
    }
    job
}

/// The GPUs that a task of SkyPilot asks for, each with how many of it a node has: `A100-80GB:8`, `{A100: 8}`. Several are
/// alternatives, of which the scheduler takes one (`[A100-80GB:8, H100:8]`, `{A100:8, H100:8}`).
fn accelerators(settings: &Settings) -> Vec<(String, String)> {
    let of = |word: &str| {
        let (name, count) = word.split_once(':').unwrap_or((word, "1"));
        (name.trim().to_owned(), count.trim().to_owned())
    };
    match settings.get(ACCELERATORS).map(|found| &found.value) {
        Some(Value::Array(words)) => words.iter().filter_map(text).map(|word| of(&word)).collect(),
        Some(word) => text(word).iter().map(|word| of(word)).collect(),
        None => {
            let below = settings.below(ACCELERATORS);
            let one = |(name, found): (&str, &Setting<Value>)| match text(&found.value) {
                Some(count) => (name.to_owned(), count),
                None => of(name),
            };
            below.iter().map(one).collect()
        }
    }
}

/// A plan with the places in a job's file of what its scheduler decides.
pub fn with_places(mut imported: ImportedPlan, settings: &Settings) -> ImportedPlan {
    let by_job = Origin::Environment(ACCELERATORS.to_owned());
    if let Some(gpu) = imported.get(keys::hardware::gpu_type).filter(|found| found.origin == by_job).cloned() {
        let below = settings.below(ACCELERATORS);
        let told = settings.get(ACCELERATORS).or_else(|| below.iter().next().map(|(_, found)| found));
        if let Some(told) = told {
            imported.say(keys::hardware::gpu_type, gpu.value, told.origin.clone());
        }
    }
    imported
}

/// The options that a job of Slurm names its kind of GPUs in.
pub const GPU_KINDS: [&str; 5] = ["--gres", "--gpus-per-node", "--gpus", "-G", "--gpus-per-task"];

/// No node has more.
const MOST_GPUS: u64 = 64;

/// The kind of `gpu:h100:4`, of `gpu:h100`, of `h100:4`. A cluster calls boards of two sizes by these names: they tell none.
fn kind_of_gpu(value: &str) -> Option<&str> {
    const OF_TWO_SIZES: [&str; 6] = ["a100", "v100", "h100_mig", "p100", "gh200", "2080"];
    let parts: Vec<&str> = value.split(':').collect();
    let kind = match parts.as_slice() {
        ["gpu", kind, _] => *kind,
        ["gpu", kind] if kind.parse::<u64>().is_err() => *kind,
        [kind, _] if *kind != "gpu" => *kind,
        _ => return None,
    };
    (!OF_TWO_SIZES.contains(&kind.to_lowercase().as_str())).then_some(kind)
}

/// The last number of `gpu:a100:8`, of `1-4`; of a resource without one there is one (`man sbatch`, --gres).
fn number_of(option: &str, value: &str) -> Option<String> {
    let last = value.rsplit([':', '-']).next().unwrap_or("");
    let is_number = last.parse::<u64>().is_ok();
    let alone = option == "--gres" && value.split(':').next() == Some("gpu") && !is_number;
    if alone { Some("1".to_owned()) } else { is_number.then(|| last.to_owned()) }
}

/// What Slurm sets for a script by its `#SBATCH` lines.
pub fn slurm(script: &str) -> BTreeMap<String, String> {
    let mut told: BTreeMap<&str, String> = BTreeMap::new();
    let mut kinds = BTreeMap::new();
    for line in script.lines().filter_map(|line| line.trim().strip_prefix("#SBATCH")) {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let (name, joined) = word.split_once('=').map_or((*word, None), |(name, value)| (name, Some(value)));
            let (name, joined) = match name {
                short if short.starts_with('-') && !short.starts_with("--") && short.len() > 2 => {
                    (short.get(..2).unwrap_or(short), short.get(2..))
                }
                _ => (name, joined),
            };
            let Some(value) = joined.or_else(|| words.get(at).copied().filter(|word| !word.starts_with('-'))) else {
                continue;
            };
            let key = match name {
                "-N" | "--nodes" => "nodes",
                "-n" | "--ntasks" => "tasks",
                "--ntasks-per-node" | "--tasks-per-node" => "tasks_per_node",
                "--gpus-per-node" | "--gres" => "gpus",
                "-G" | "--gpus" => "all_gpus",
                "--gpus-per-task" => "gpus_per_task",
                _ => continue,
            };
            if let Some(number) = number_of(name, value) {
                told.insert(key, number);
            }
            let option = GPU_KINDS.iter().find(|option| **option == name);
            if let Some((option, kind)) = option.zip(kind_of_gpu(value)) {
                kinds.insert((*option).to_owned(), kind.to_owned());
            }
        }
    }
    let whole = |name: &str| told.get(name).and_then(|text| text.parse::<u64>().ok());
    let mut variables = BTreeMap::new();
    let mut put = |names: &[&str], value: Option<u64>| {
        if let Some(value) = value {
            variables.extend(names.iter().map(|name| ((*name).to_owned(), value.to_string())));
        }
    };
    let nodes = whole("nodes").or_else(|| (!told.is_empty()).then_some(1));
    put(&["SLURM_NNODES", "SLURM_JOB_NUM_NODES"], nodes);
    let tasks = whole("tasks").or_else(|| nodes?.checked_mul(whole("tasks_per_node")?));
    put(&["SLURM_NTASKS", "SLURM_NPROCS"], tasks);
    put(&["SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"], whole("tasks_per_node"));
    let of_tasks = || whole("gpus_per_task")?.checked_mul(whole("tasks_per_node").unwrap_or(1));
    let gpus = whole("gpus").or_else(of_tasks).or_else(|| whole("all_gpus")?.checked_div(nodes?.max(1)));
    put(&["SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"], gpus);
    if let Some(gpus) = gpus.filter(|gpus| (1..=MOST_GPUS).contains(gpus)) {
        let list = (0..gpus).map(|gpu| gpu.to_string()).collect::<Vec<_>>().join(",");
        variables.extend(["SLURM_JOB_GPUS", "SLURM_STEP_GPUS"].map(|name| (name.to_owned(), list.clone())));
    }
    variables.extend(kinds);
    variables
}

#[cfg(test)]
mod tests {
    use super::slurm;

    #[test]
    fn directives_say_what_slurm_sets() {
        let found = slurm(
            "#!/bin/bash\n#SBATCH --nodes=4 # four\n#SBATCH --ntasks-per-node 8\n#SBATCH --gres=gpu:a100:8\n#SBATCH -t 1:00\n",
        );
        for (name, value) in [
            ("SLURM_NNODES", "4"),
            ("SLURM_NTASKS", "32"),
            ("SLURM_NTASKS_PER_NODE", "8"),
            ("SLURM_GPUS_ON_NODE", "8"),
            ("SLURM_JOB_GPUS", "0,1,2,3,4,5,6,7"),
        ] {
            assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
        }
        // A100s have 40 or 80 GB, H100s of one node one size.
        assert_eq!(found.get("--gres"), None);
        for (line, option, gpus) in [
            ("--gres=gpu:h100:4", "--gres", "4"),
            ("--gres=gpu:h100", "--gres", "1"),
            ("--gpus-per-node=h100:2", "--gpus-per-node", "2"),
            ("-G h100:2", "-G", "2"),
        ] {
            let found = slurm(&format!("#SBATCH {line}\n"));
            assert_eq!(found.get(option).map(String::as_str), Some("h100"), "{line}");
            assert_eq!(found.get("SLURM_GPUS_ON_NODE").map(String::as_str), Some(gpus), "{line}");
        }
        let found = slurm("#SBATCH --gpus-per-task=2\n#SBATCH --ntasks-per-node=2\n");
        assert_eq!(found.get("SLURM_GPUS_ON_NODE").map(String::as_str), Some("4"));
        assert!(slurm("#SBATCH\necho 1").is_empty());
    }
}
