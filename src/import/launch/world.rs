//! How many processes a launcher starts, or an environment tells of.

use std::collections::BTreeMap;

use super::{Launcher, LauncherKind};
use crate::kubernetes;
use crate::origin::{Origin, Setting};
use crate::settings::{Settings, UNKNOWN};

/// How many processes there are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct World {
    /// Processes, one a GPU.
    pub total: Option<Setting<u64>>,
    /// Nodes.
    pub nodes: Option<Setting<u64>>,
    /// Processes on a node.
    pub per_node: Option<Setting<u64>>,
}

impl World {
    /// From any two the third.
    pub fn completed(mut self) -> Self {
        match (&self.total, &self.nodes, &self.per_node) {
            (None, Some(nodes), Some(per_node)) => {
                let origin = Origin::Derived(format!(
                    "{} {} ({}) x {} ({})",
                    nodes.value,
                    if nodes.value == 1 { "node" } else { "nodes" },
                    nodes.origin,
                    per_node.value,
                    per_node.origin
                ));
                self.total = nodes.value.checked_mul(per_node.value).map(|total| Setting::new(total, origin));
            }
            (Some(total), Some(nodes), None) if nodes.value > 0 && total.value.is_multiple_of(nodes.value) => {
                let origin = Origin::Derived(format!("{} processes / {} nodes", total.value, nodes.value));
                self.per_node = Some(Setting::new(total.value / nodes.value, origin));
            }
            (Some(total), None, Some(per_node)) if per_node.value > 0 => {
                let origin = Origin::Derived(format!("{} processes / {} a node", total.value, per_node.value));
                self.nodes = Some(Setting::new(total.value.div_ceil(per_node.value), origin));
            }
            _ => {}
        }
        self
    }

    /// What somebody has said, not the launcher itself.
    fn without_defaults(self) -> Self {
        let said = |found: &Setting<u64>| !matches!(found.origin, Origin::Default { .. });
        Self { total: self.total.filter(said), nodes: self.nodes.filter(said), per_node: self.per_node.filter(said) }
    }

    /// `n` processes on this machine.
    pub fn here(n: u64, origin: Origin) -> Self {
        let one = Setting::new(1, origin.clone());
        Self { total: Some(Setting::new(n, origin.clone())), nodes: Some(one), per_node: Some(Setting::new(n, origin)) }
    }
}

/// Surroundings that decide how many processes a launcher starts.
pub struct LaunchEnvironment<'a> {
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<Setting<String>>,
    /// The GPUs that are in sight.
    pub gpus: Option<Setting<u64>>,
    /// A file that the launcher names.
    pub file: &'a dyn Fn(&str) -> Option<String>,
}

impl Launcher {
    /// How many processes it starts.
    pub fn world(&self, around: &LaunchEnvironment) -> World {
        let options = &self.options;
        let whole = |names: &[&str]| options.first_whole(names);
        let world = match self.kind {
            LauncherKind::Torchrun => torchrun(options, around),
            LauncherKind::Accelerate => {
                World { total: whole(&["num_processes"]), nodes: whole(&["num_machines"]), per_node: None }
            }
            LauncherKind::Deepspeed => deepspeed(options, around),
            LauncherKind::Composer => World {
                total: whole(&["world_size"]),
                nodes: options.get("world_size").is_none().then(|| {
                    let option = "no --world_size: this node".to_owned();
                    Setting::new(1, Origin::Default { framework: "composer", option })
                }),
                per_node: whole(&["n", "nproc"]).or_else(|| around.gpus.clone()),
            },
            LauncherKind::Srun => {
                // What is not said again is as the job has it.
                let job = |names: &[&str]| {
                    let found = names.iter().find_map(|name| (around.variable)(name));
                    found.and_then(|found| found.and_then(|text| range(&text)))
                };
                let total = whole(&["n", "ntasks"]);
                let per_node = whole(&["ntasks_per_node"]).or_else(|| job(&["SLURM_NTASKS_PER_NODE"]));
                let nodes = options.first_text(&["N", "nodes"]).and_then(|nodes| nodes.and_then(|text| range(&text)));
                let nodes = nodes.or_else(|| job(&["SLURM_NNODES", "SLURM_JOB_NUM_NODES"]));
                World { total: total.or_else(|| job(&["SLURM_NTASKS"])), nodes, per_node }
            }
            LauncherKind::Mpirun => mpirun(options, around),
            LauncherKind::Colossal => {
                let hosts = options.text("host").map(|found| found.map(|text| text.split(',').count() as u64));
                let listed = options.holds("hostfile");
                let one = || {
                    let option = "no --host: this node".to_owned();
                    Setting::new(1, Origin::Default { framework: "colossalai", option })
                };
                let nodes = hosts.or_else(|| (!listed).then(one));
                World { total: None, nodes, per_node: whole(&["nproc_per_node"]) }
            }
        };
        // Options that only the run knows may say it: no default is taken.
        if options.get(UNKNOWN).is_some() { world.without_defaults() } else { world }.completed()
    }
}

/// `2`, or `1:4` and `1-4`: the most that may take part.
fn range(text: &str) -> Option<u64> {
    text.rsplit([':', '-']).next()?.trim().parse().ok()
}

fn torchrun(options: &Settings, around: &LaunchEnvironment) -> World {
    const FRAMEWORK: &str = "torchrun";
    let default = |option: &str| Origin::Default { framework: FRAMEWORK, option: option.to_owned() };
    let given = |names: &[&str], variable: &str| options.first_text(names).or_else(|| (around.variable)(variable));
    // An option whose value only the run knows is no default.
    let said = |names: &[&str]| names.iter().any(|name| options.get(name).is_some());
    // The job's own number, where a wrapper takes it (`oumi/cli/distributed_run.py`, `_detect_process_run_info`).
    let of_job = options.is("of_job").then(|| {
        let names = ["SKYPILOT_NUM_NODES", "SLURM_NNODES"];
        names.iter().find_map(|name| (around.variable)(name))
    });
    let nodes = match given(&["nnodes", "nnode"], "PET_NNODES").or(of_job.flatten()) {
        Some(found) => found.and_then(|text| range(&text)),
        None if said(&["nnodes", "nnode"]) => None,
        None => Some(Setting::new(1, default("--nnodes 1"))),
    };
    let per_node = match given(&["nproc_per_node"], "PET_NPROC_PER_NODE") {
        None if said(&["nproc_per_node"]) => None,
        None => Some(Setting::new(1, default("--nproc-per-node 1"))),
        Some(found) => match found.value.parse() {
            Ok(number) => Some(Setting::new(number, found.origin)),
            // As many as there are; `cpu` starts no process a GPU.
            Err(_) if matches!(found.value.as_str(), "gpu" | "auto" | "xpu") => around.gpus.clone(),
            Err(_) => None,
        },
    };
    World { total: None, nodes, per_node }
}

/// `--num_nodes`, `--num_gpus`, `--include`, `--exclude`, the host file; else every GPU in sight.
fn deepspeed(options: &Settings, around: &LaunchEnvironment) -> World {
    if let Some(told) = options.text("world_info").and_then(|found| of_world_info(&found)) {
        return told;
    }
    let hostfile = options.first_text(&["H", "hostfile"]).map_or("/job/hostfile".to_owned(), |found| found.value);
    // A host that only a run could name was written in a loop: over how many, the script does not say.
    let text = (around.file)(&hostfile).filter(|text| !text.contains(UNKNOWN));
    let hosts = text.map(|text| slots(&text)).filter(|slots| !slots.is_empty());
    let here = || around.gpus.as_ref().map(|gpus| vec![("localhost".to_owned(), gpus.value)]);
    let all = hosts.clone().or_else(here).unwrap_or_default();
    for (names, includes) in [(&["i", "include"], true), (&["e", "exclude"], false)] {
        let Some(filter) = options.first_text(names) else { continue };
        if includes && filter.value.trim().ends_with(':') {
            return World::default();
        }
        if let Some(left) = filtered(&filter.value, includes, &all) {
            let nodes = Setting::new(left.len() as u64, filter.origin.clone());
            return World {
                total: Some(Setting::new(left.iter().sum(), filter.origin)),
                nodes: Some(nodes),
                per_node: None,
            };
        }
    }
    // A file of hosts that is named and not at hand tells more than this node.
    let listed = options.first_text(&["H", "hostfile"]).is_some() && hosts.is_none();
    let from_file = |line: &str| Origin::File { name: hostfile.clone(), line: None, key: line.to_owned() };
    let positive = |found: &Setting<u64>| found.value > 0;
    let nodes = options.whole("num_nodes").filter(positive);
    let per_node = options.first_whole(&["num_gpus", "num_accelerators"]).filter(positive);
    let nodes = nodes.or_else(|| hosts.as_ref().map(|hosts| Setting::new(hosts.len() as u64, from_file("hosts"))));
    let per_node = per_node
        .or_else(|| hosts.as_ref()?.first().map(|(_, slots)| Setting::new(*slots, from_file("slots"))))
        .or_else(|| around.gpus.clone().filter(|_| !listed));
    let one =
        || Setting::new(1, Origin::Default { framework: "deepspeed", option: "no host file: this node".to_owned() });
    World { total: None, nodes: nodes.or_else(|| (!listed).then(one)), per_node }
}

/// What DeepSpeed's runner tells its launcher on each node: `{"worker-0": [0, 1]}` in base64 (`deepspeed/launcher/runner.py`).
fn of_world_info(told: &Setting<String>) -> Option<World> {
    let json = of_base64(&told.value)?;
    let hosts: BTreeMap<String, Vec<u64>> = serde_json::from_slice(&json).ok()?;
    let total = hosts.values().map(|slots| slots.len() as u64).sum();
    let nodes = Setting::new(hosts.len() as u64, told.origin.clone());
    let all = (total > 0).then(|| Setting::new(total, told.origin.clone()))?;
    Some(World { total: Some(all), nodes: Some(nodes), per_node: None })
}

/// RFC 4648, also with its letters for URLs; none where anything else stands there.
fn of_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0_u32);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (bits, held) = ((bits << 6 | u32::from(value)) & 0x3fff, held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

/// Slots that are left of each host by `worker-0@worker-1:0,2`: those named, or all but those; none where a host is
/// named of which nobody says how many it has.
fn filtered(filter: &str, includes: bool, hosts: &[(String, u64)]) -> Option<Vec<u64>> {
    let mut left: Vec<(&str, u64)> =
        if includes { Vec::new() } else { hosts.iter().map(|(name, slots)| (name.as_str(), *slots)).collect() };
    for named in filter.split('@') {
        let (host, some) = named.split_once(':').map_or((named, None), |(host, slots)| (host, Some(slots)));
        let host = host.trim();
        // `localhost:` and nothing behind it is to be filled in.
        if some.is_some_and(|slots| slots.trim().is_empty()) {
            return None;
        }
        let counted = some.map(|slots| slots.split(',').count() as u64);
        if includes {
            let all = || hosts.iter().find(|(name, _)| name == host).map(|(_, slots)| *slots);
            left.push((host, counted.or_else(all)?));
        } else {
            let at = left.iter().position(|(name, _)| *name == host)?;
            left[at].1 = counted.map_or(0, |out| left[at].1.saturating_sub(out));
        }
    }
    Some(left.into_iter().map(|(_, slots)| slots).filter(|slots| *slots > 0).collect())
}

/// `worker-1 slots=4`, a line each.
fn slots(text: &str) -> Vec<(String, u64)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (host, slots) = line.split_once("slots=")?;
            Some((host.trim().to_owned(), slots.trim().parse().ok()?))
        })
        .collect()
}

fn mpirun(options: &Settings, around: &LaunchEnvironment) -> World {
    // Without a number it starts a process in each slot; one whose value only the run knows is not without.
    const COUNTS: [&str; 4] = ["np", "n", "c", "_np"];
    let said = COUNTS.iter().any(|name| options.get(name).is_some());
    let slots = || (around.variable)(kubernetes::SLOTS).and_then(|found| found.and_then(|text| text.parse().ok()));
    let total = options.first_whole(&COUNTS).or_else(|| slots().filter(|_| !said));
    let per_node = options.first_whole(&["npernode", "ppn", "N"]).or_else(|| {
        // ppr:8:node
        let map = options.first_text(&["map_by"])?;
        map.and_then(|text| text.strip_prefix("ppr:")?.split(':').next()?.parse().ok())
    });
    let hosts =
        options.first_text(&["H", "host", "hosts"]).map(|found| found.map(|text| text.split(',').count() as u64));
    let nodes = if total.is_some() && per_node.is_some() { None } else { hosts };
    World { total, nodes, per_node }
}

/// The world as the process's own environment tells it.
pub fn of_environment(variable: &dyn Fn(&str) -> Option<Setting<String>>) -> World {
    let whole = |name: &str| variable(name).and_then(|found| found.and_then(|text| text.trim().parse::<u64>().ok()));
    // A cluster sets WORLD_SIZE for its launchers too; a rank has only what the launcher has started.
    let rank = ["LOCAL_RANK", "RANK"].iter().any(|name| whole(name).is_some());
    if rank && let Some(total) = whole("WORLD_SIZE") {
        let nodes = whole("GROUP_WORLD_SIZE");
        return World { total: Some(total), nodes, per_node: whole("LOCAL_WORLD_SIZE") }.completed();
    }
    if let Some(total) = whole("OMPI_COMM_WORLD_SIZE").or_else(|| whole("PMI_SIZE")) {
        let per_node = whole("OMPI_COMM_WORLD_LOCAL_SIZE").or_else(|| whole("MPI_LOCALNRANKS"));
        return World { total: Some(total), nodes: None, per_node }.completed();
    }
    World::default()
}

/// The world of a job step of Slurm in which every task is a training process.
pub fn of_slurm(variable: &dyn Fn(&str) -> Option<Setting<String>>) -> World {
    let whole = |name: &str| variable(name).and_then(|found| found.and_then(|text| text.trim().parse::<u64>().ok()));
    let in_step =
        variable("SLURM_PROCID").is_some() && variable("SLURM_STEP_ID").is_none_or(|step| step.value != "batch");
    if !in_step {
        return World::default();
    }
    let total = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"].iter().find_map(|name| whole(name));
    let nodes = ["SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"].iter().find_map(|name| whole(name));
    World { total, nodes, per_node: None }.completed()
}
