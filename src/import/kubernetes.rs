//! Manifests of Kubernetes with a training command in them: pods, jobs, and the jobs of Kubeflow, Ray and Volcano.
//!
//! An operator starts the same command in several pods and tells each how many there are. What it sets is taken from
//! its source: `pkg/controller.v1/pytorch/envvar.go` of Kubeflow's training operator (1.8), `pkg/controller/mpi_job_controller.go`
//! of its MPI operator (0.6), and `RayJob`'s reference.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::jobs::JobScript;
use super::settings::{Settings, UNKNOWN, text, whole};
use super::shell::quoted;

/// Containers and commands in each other deeper than this are none.
const DEEPEST: usize = 16;

/// The name under which a manifest asks for GPUs, and under which they are a variable here.
pub const GPUS: &str = "nvidia.com/gpu";

/// The label of NVIDIA's GPU operator with the product's name.
pub const PRODUCT: &str = "nvidia.com/gpu.product";

/// The number of processes that `mpirun` starts where nobody tells it another.
pub const SLOTS: &str = "slotsPerWorker x Worker.replicas";

/// The job of a manifest.
pub fn of_settings(settings: &Settings) -> Option<JobScript> {
    let kind = settings.text("kind")?.value;
    match kind.as_str() {
        "TrainJob" => train_job(settings),
        "RayJob" => ray_job(settings),
        _ => {
            let (_, container) = settings.iter().find_map(|(name, found)| Some((name, started(&found.value)?)))?;
            let mut job = of_container(container)?;
            let pods = pods(settings, &kind);
            match kind.as_str() {
                "PyTorchJob" => pytorch_job(settings, &mut job, pods),
                "MPIJob" => mpi_job(settings, &mut job),
                // Several pods that nothing but their command tells of each other.
                _ => job.withheld = pods != Some(1),
            }
            surroundings(settings, &mut job);
            Some(job)
        }
    }
}

/// How many pods run the command; none where the manifest leaves it open.
fn pods(settings: &Settings, kind: &str) -> Option<u64> {
    let count = |name: &str| match settings.get(name) {
        None => Some(1),
        Some(found) => whole(&found.value),
    };
    match kind {
        "PyTorchJob" => {
            let replicas = |role: &str| {
                let above = format!("spec.pytorchReplicaSpecs.{role}");
                let is_there = settings.iter().any(|(name, _)| name.starts_with(&format!("{above}.")));
                if is_there { count(&format!("{above}.replicas")) } else { Some(0) }
            };
            replicas("Master")?.checked_add(replicas("Worker")?)
        }
        "Job" => count("spec.parallelism"),
        "CronJob" => count("spec.jobTemplate.spec.parallelism"),
        "Pod" => Some(1),
        "Deployment" | "StatefulSet" | "ReplicaSet" => count("spec.replicas"),
        "JobSet" => sum(settings, "spec.replicatedJobs", |one| {
            let inner = one.pointer("/template/spec/parallelism");
            one.get("replicas").map_or(Some(1), whole)?.checked_mul(inner.map_or(Some(1), whole)?)
        }),
        // Volcano's.
        _ => sum(settings, "spec.tasks", |one| one.get("replicas").map_or(Some(1), whole)),
    }
}

fn sum(settings: &Settings, list: &str, count: impl Fn(&Value) -> Option<u64>) -> Option<u64> {
    let items = settings.get(list)?.value.as_array()?;
    items.iter().try_fold(0_u64, |sum, one| sum.checked_add(count(one)?))
}

/// Each pod is a node to torchrun, and a rank to a script that nothing starts several times.
fn pytorch_job(settings: &Settings, job: &mut JobScript, pods: Option<u64>) {
    let Some(pods) = pods else {
        job.withheld = true;
        return;
    };
    let processes = ["spec.nprocPerNode", "spec.elasticPolicy.nProcPerNode"];
    let processes =
        processes.iter().find_map(|name| settings.text(name)).map_or_else(|| "auto".to_owned(), |n| n.value);
    let a_pod = processes.parse::<u64>().unwrap_or(1);
    job.put("PET_NNODES", pods.to_string());
    job.put("PET_NPROC_PER_NODE", processes);
    job.put("WORLD_SIZE", pods.saturating_mul(a_pod).to_string());
    job.put("RANK", "0".to_owned());
}

/// The workers' slots are what `mpirun` starts processes in.
fn mpi_job(settings: &Settings, job: &mut JobScript) {
    let slots = settings.whole("spec.slotsPerWorker").map_or(1, |found| found.value);
    match settings.whole("spec.mpiReplicaSpecs.Worker.replicas") {
        Some(workers) => {
            if let Some(all) = workers.value.checked_mul(slots) {
                job.put(SLOTS, all.to_string());
            }
        }
        None => job.withheld = true,
    }
}

/// Ray starts as many workers as the script asks for: nobody else tells how many.
fn ray_job(settings: &Settings) -> Option<JobScript> {
    let script = settings.text("spec.entrypoint")?.value;
    let mut job = JobScript { script, withheld: true, ..JobScript::default() };
    surroundings(settings, &mut job);
    Some(job)
}

/// Kubeflow's trainer: its runtime starts torchrun.
fn train_job(settings: &Settings) -> Option<JobScript> {
    let trainer = settings.below("spec.trainer");
    let container: Map<String, Value> = ["command", "args", "env"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), trainer.get(name)?.value.clone())))
        .collect();
    let mut job = of_container(&container)?;
    for (key, variable) in [("numNodes", "PET_NNODES"), ("numProcPerNode", "PET_NPROC_PER_NODE")] {
        if let Some(number) = trainer.text(key) {
            job.put(variable, number.value);
        }
    }
    // What is not told is the runtime's.
    job.withheld = trainer.get("numNodes").is_none();
    surroundings(settings, &mut job);
    Some(job)
}

impl JobScript {
    /// Sets a variable, unless the container does.
    fn put(&mut self, name: &str, value: String) {
        self.variables.entry(name.to_owned()).or_insert(value);
    }
}

/// The GPUs of a pod, and what they are.
fn surroundings(settings: &Settings, job: &mut JobScript) {
    let mut gpus = None;
    let mut product = None;
    for (name, found) in settings.iter() {
        // A limit that is written as a key of its own: `spec.trainer.resourcesPerNode.limits.nvidia.com/gpu`.
        gpus = gpus.max(name.ends_with(&format!("limits.{GPUS}")).then(|| whole(&found.value)).flatten());
        gpus = gpus.max(limit(&found.value, 0));
        product = product.or_else(|| name.ends_with(PRODUCT).then(|| text(&found.value)).flatten());
    }
    // Those of one pod of several are not what a script without a launcher trains on.
    if let Some(gpus) = gpus.filter(|gpus| *gpus > 0 && !job.withheld) {
        job.put(GPUS, gpus.to_string());
    }
    if let Some(product) = product {
        job.put(PRODUCT, product);
    }
}

/// The most GPUs that a container below is limited to: a launcher has none, its workers do.
fn limit(value: &Value, depth: usize) -> Option<u64> {
    let inner: Box<dyn Iterator<Item = &Value>> = match value {
        _ if depth > DEEPEST => return None,
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => return None,
    };
    let own = value.pointer("/limits").and_then(|limits| whole(limits.get(GPUS)?));
    inner.filter_map(|inner| limit(inner, depth + 1)).max().max(own)
}

/// The first container with a command.
fn started(value: &Value) -> Option<&Map<String, Value>> {
    fn at(value: &Value, depth: usize) -> Option<&Map<String, Value>> {
        match value {
            _ if depth > DEEPEST => None,
            Value::Array(items) => items.iter().find_map(|item| at(item, depth + 1)),
            Value::Object(map) => {
                let is = (map.contains_key("command") || map.contains_key("args")) && map.contains_key("image");
                if is { Some(map) } else { map.values().find_map(|inner| at(inner, depth + 1)) }
            }
            _ => None,
        }
    }
    at(value, 0)
}

/// What a container starts, with its variables.
fn of_container(container: &Map<String, Value>) -> Option<JobScript> {
    let mut variables = BTreeMap::new();
    for variable in container.get("env").and_then(Value::as_array).into_iter().flatten() {
        let name = variable.get("name").and_then(Value::as_str);
        if let Some(name) = name {
            // From a secret, a map or a field it may be anything.
            let value = variable.get("value").and_then(text).unwrap_or_else(|| UNKNOWN.to_owned());
            variables.insert(name.to_owned(), value);
        }
    }
    let words = ["command", "args"].iter().flat_map(|name| match container.get(*name) {
        Some(Value::Array(items)) => items.iter().filter_map(text).collect(),
        Some(other) => text(other).into_iter().collect::<Vec<_>>(),
        None => Vec::new(),
    });
    // Kubernetes itself puts values in place of `$(NAME)`.
    let replaced =
        |word: String| variables.iter().fold(word, |word, (name, value)| word.replace(&format!("$({name})"), value));
    let words: Vec<String> = words.map(replaced).collect();
    Some(JobScript { script: script(&words)?, variables, withheld: false })
}

/// `command: [bash, -c]` and `args: [ … ]` as one line of a shell.
fn script(words: &[String]) -> Option<String> {
    // What a shell is told in its own argument is the script.
    if let [shell, option, told, ..] = words
        && shell.ends_with("sh")
        && option.starts_with('-')
        && option.ends_with('c')
    {
        return Some(told.clone());
    }
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}
