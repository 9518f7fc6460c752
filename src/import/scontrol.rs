//! What `scontrol show job` prints: where the batch script is, and what Slurm gave the job.

use std::collections::BTreeMap;

use super::jobs;
use super::refused::Refused;

/// A job as Slurm tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlurmJob {
    /// Its number.
    pub id: String,
    /// The batch script with its arguments; none of an interactive job.
    pub command: Vec<String>,
    /// The directory in which it was submitted.
    pub folder: Option<String>,
    /// The variables that Slurm sets for it.
    pub variables: BTreeMap<String, String>,
}

/// Whether a text is that.
pub fn is_listing(text: &str) -> bool {
    text.trim_start().strip_prefix("JobId=").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The one job of a listing called `name`.
///
/// # Errors
/// Where it lists several, or a job without a batch script.
pub fn read(name: &str, text: &str) -> Result<SlurmJob, Refused> {
    let begins = |word: &&str| word.starts_with("JobId=");
    let jobs = text.split_whitespace().filter(begins).count();
    if jobs > 1 {
        return Err(Refused::NoTool(format!("{name}: {jobs} jobs; write one alone: scontrol show job ID")));
    }
    let job = of_text(text);
    if job.command.is_empty() {
        return Err(Refused::NoTool(format!(
            "{name}: Slurm tells no command of job {0}; scontrol write batch_script {0} job.sbatch writes its script, \
             which can be read instead",
            job.id
        )));
    }
    Ok(job)
}

fn of_text(text: &str) -> SlurmJob {
    let words = text.split_whitespace().filter_map(|word| word.split_once('='));
    let fields: BTreeMap<&str, &str> = words.filter(|(_, value)| !matches!(*value, "(null)" | "N/A" | "")).collect();
    let whole = |text: &str| text.rsplit(['-', ':']).next().and_then(|last| last.parse::<u64>().ok());
    let field = |name: &str| fields.get(name).copied().and_then(whole);
    let nodes = field("NumNodes");
    let tasks = field("NumTasks");
    // `8:0:*:*`: tasks on a node, board, socket, core; 0 where nobody asked.
    let tasks_per_node = fields.get("NtasksPerN:B:S:C").and_then(|told| told.split(':').next()?.parse::<u64>().ok());
    let a_node = fields.get("TresPerNode").copied().and_then(gpus);
    let all = ["AllocTRES", "TRES", "ReqTRES"].iter().find_map(|name| gpus(fields.get(name)?));
    let gpus = a_node.or_else(|| all?.checked_div(nodes.filter(|nodes| *nodes > 0)?));
    let mut job = SlurmJob {
        id: fields.get("JobId").map_or_else(String::new, |id| (*id).to_owned()),
        command: command(text),
        folder: fields.get("WorkDir").map(|folder| (*folder).to_owned()),
        variables: BTreeMap::new(),
    };
    for (names, value) in [
        (&["SLURM_NNODES", "SLURM_JOB_NUM_NODES"][..], nodes),
        (&["SLURM_NTASKS", "SLURM_NPROCS"], tasks),
        (&["SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"], tasks_per_node.filter(|tasks| *tasks > 0)),
        (&["SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"], gpus),
    ] {
        let Some(value) = value else { continue };
        job.variables.extend(names.iter().map(|name| ((*name).to_owned(), value.to_string())));
    }
    job.variables.extend([("SLURM_JOB_ID".to_owned(), job.id.clone())]);
    job
}

/// `cpu=64,gres/gpu=16,gres/gpu:a100=16`, `gres/gpu:a100:8`, `gres:gpu:8`: how many GPUs.
fn gpus(told: &str) -> Option<u64> {
    let is_gpu = |item: &&str| item.contains("gpu");
    let mut counts = told.split(',').filter(is_gpu).map(|item| {
        let last = item.rsplit(['=', ':']).next().unwrap_or_default();
        // A GPU without a number is one.
        last.parse::<u64>().ok().or_else(|| last.ends_with("gpu").then_some(1))
    });
    counts.next().flatten()
}

/// `Command=/home/a/train.sbatch 8b 4`: to the end of the line, or where all stands in one line, to the next field.
fn command(text: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once("Command=") else { return Vec::new() };
    let line = rest.lines().next().unwrap_or_default();
    let told = line.split(" WorkDir=").next().unwrap_or_default().trim();
    if matches!(told, "" | "(null)") {
        return Vec::new();
    }
    told.split_whitespace().map(str::to_owned).collect()
}

impl SlurmJob {
    /// The script's path.
    pub fn script(&self) -> String {
        let script = self.command.first().cloned().unwrap_or_default();
        match &self.folder {
            Some(folder) if !script.starts_with('/') => format!("{folder}/{}", script.trim_start_matches("./")),
            _ => script,
        }
    }

    /// What its script finds in its environment: its own directives, over them what Slurm gave it, and its arguments.
    pub fn surroundings(&self, script: &str) -> BTreeMap<String, String> {
        let mut variables = jobs::slurm(script);
        variables.extend(self.variables.clone());
        let arguments = self.command.get(1..).unwrap_or_default();
        for (number, argument) in arguments.iter().enumerate() {
            variables.insert((number + 1).to_string(), argument.clone());
        }
        variables.insert("@".to_owned(), arguments.join(" "));
        variables.insert("#".to_owned(), arguments.len().to_string());
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Slurm 23 prints a job, from a site's manual; the script's arguments and GPUs are added.
    const JOB: &str = "JobId=6484457 JobName=specific-job\n   UserId=dc-crou1(21859) GroupId=ds007(20133) MCS_label=N/A\n   \
        JobState=RUNNING Reason=None Dependency=(null)\n   NodeList=m[7401-7404]\n   \
        NumNodes=4 NumCPUs=112 NumTasks=32 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n   \
        TRES=cpu=112,mem=2040000M,node=4,billing=112,gres/gpu=32,gres/gpu:a100=32\n   \
        Socks/Node=* NtasksPerN:B:S:C=8:0:*:* CoreSpec=*\n   \
        Command=/cosma/home/ds007/dc-crou1/example-job.sh 8b fast\n   WorkDir=/cosma/home/ds007/dc-crou1\n   Power=\n";

    #[test]
    fn a_job_tells_its_script_its_arguments_and_what_it_was_given() {
        assert!(is_listing(JOB) && !is_listing("#!/bin/bash\necho JobId=3"));
        let job = read("job.txt", JOB).unwrap();
        assert_eq!((job.id.as_str(), job.script().as_str()), ("6484457", "/cosma/home/ds007/dc-crou1/example-job.sh"));
        let around = job.surroundings("#SBATCH --nodes=2\n");
        for (name, value) in [
            ("SLURM_NNODES", "4"),
            ("SLURM_NTASKS", "32"),
            ("SLURM_NTASKS_PER_NODE", "8"),
            // 32 GPUs on 4 nodes.
            ("SLURM_GPUS_ON_NODE", "8"),
            ("1", "8b"),
            ("@", "8b fast"),
            ("SLURM_JOB_ID", "6484457"),
        ] {
            assert_eq!(around.get(name).map(String::as_str), Some(value), "{name}");
        }
        // `scontrol --oneliner`.
        let line = JOB.replace('\n', " ");
        assert_eq!(read("job.txt", &line).unwrap().command, job.command);
    }

    #[test]
    fn a_job_without_a_script_and_several_jobs_are_refused_with_what_helps() {
        let none = JOB.replace("/cosma/home/ds007/dc-crou1/example-job.sh 8b fast", "(null)");
        let why = read("job.txt", &none).unwrap_err().to_string();
        assert!(why.contains("scontrol write batch_script 6484457 job.sbatch"), "{why}");
        let why = read("job.txt", &format!("{JOB}\n{JOB}")).unwrap_err().to_string();
        assert!(why.contains("2 jobs"), "{why}");
    }

    #[test]
    fn gpus_are_counted_in_every_form_that_slurm_has() {
        for (told, count) in [
            ("cpu=8,mem=32G,node=1,billing=8,gres/gpu=1", Some(1)),
            ("gres/gpu:a100:8", Some(8)),
            ("gres:gpu:4", Some(4)),
            ("gres/gpu", Some(1)),
            ("cpu=8", None),
        ] {
            assert_eq!(gpus(told), count, "{told}");
        }
    }
}
