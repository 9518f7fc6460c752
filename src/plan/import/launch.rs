//! What stands around a training program on its command line: interpreters, wrappers and
//! launchers, and how many processes they start.

use super::arguments;
use super::origin::{Found, Origin};
use super::settings::Settings;
use super::shell;

/// A command taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Launched {
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
    pub kind: Kind,
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

    /// How screens and origins call it.
    pub fn shown(&self) -> String {
        if self.module { format!("-m {}", self.path) } else { self.name().to_owned() }
    }
}

/// The launchers that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
}

/// A command in front of another: its options that take no value; every other takes one.
struct Wrapper {
    names: &'static [&'static str],
    kind: Option<Kind>,
    flags: &'static [&'static str],
    /// Words that belong to it and are no options (`accelerate launch`, `timeout 10m`).
    words: usize,
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher"],
        kind: Some(Kind::Torchrun),
        flags: &[
            "standalone",
            "no_python",
            "m",
            "module",
            "run_path",
            "use_env",
            "virtual_local_rank",
            "signals_to_handle_none",
        ],
        words: 0,
    },
    Wrapper {
        names: &["tune"],
        kind: Some(Kind::Torchrun),
        flags: &["standalone", "no_python", "m", "module", "run_path", "virtual_local_rank"],
        words: 1,
    },
    Wrapper {
        names: &["accelerate-launch", "accelerate.commands.launch"],
        kind: Some(Kind::Accelerate),
        flags: ACCELERATE_FLAGS,
        words: 0,
    },
    Wrapper {
        names: &["accelerate", "accelerate.commands.accelerate_cli"],
        kind: Some(Kind::Accelerate),
        flags: ACCELERATE_FLAGS,
        words: 1,
    },
    Wrapper {
        names: &["deepspeed", "ds", "deepspeed.launcher.runner", "deepspeed.pt", "deepspeed.launcher.launch"],
        kind: Some(Kind::Deepspeed),
        flags: &[
            "module",
            "no_python",
            "no_local_rank",
            "no_ssh",
            "no_ssh_check",
            "force_multi",
            "save_pid",
            "elastic_training",
            "bind_cores_to_rank",
            "q",
            "quiet",
            "enable_elastic_training",
        ],
        words: 0,
    },
    Wrapper {
        names: &["composer", "composer.cli.launcher"],
        kind: Some(Kind::Composer),
        flags: &["v", "verbose", "m", "module_mode", "c", "command_mode"],
        words: 0,
    },
    Wrapper {
        names: &["srun"],
        kind: Some(Kind::Srun),
        flags: &[
            "l",
            "label",
            "u",
            "unbuffered",
            "v",
            "verbose",
            "vv",
            "vvv",
            "Q",
            "quiet",
            "X",
            "disable_status",
            "s",
            "oversubscribe",
            "overcommit",
            "O",
            "overlap",
            "exclusive",
            "exact",
            "pty",
            "no_kill",
            "k",
            "K",
            "kill_on_bad_exit",
            "Z",
            "no_allocate",
            "E",
            "preserve_env",
            "H",
            "hold",
            "W0",
            "no_container_mount_home",
            "container_mount_home",
            "container_writable",
            "container_readonly",
            "container_remap_root",
            "no_container_remap_root",
            "no_container_entrypoint",
            "container_entrypoint",
            "contiguous",
            "multi_prog",
            "spread_job",
            "use_min_nodes",
            "mem_bind_none",
            "I",
            "immediate",
            "test_only",
        ],
        words: 0,
    },
    Wrapper {
        names: &["mpirun", "mpiexec", "orterun", "prun", "mpiexec.hydra", "mpirun.real", "mpirun_rsh"],
        kind: Some(Kind::Mpirun),
        flags: &[
            "allow_run_as_root",
            "v",
            "verbose",
            "q",
            "quiet",
            "bind_to_none",
            "report_bindings",
            "tag_output",
            "oversubscribe",
            "nooversubscribe",
            "display_map",
            "display_allocation",
            "use_hwthread_cpus",
            "bycore",
            "bynode",
            "byslot",
            "bind_to_core",
            "bind_to_socket",
            "pernode",
            "enable_recovery",
            "disable_recovery",
            "timestamp_output",
            "nolocal",
        ],
        words: 0,
    },
    Wrapper {
        names: &["nohup", "setsid", "ionice", "time", "unbuffer", "catchsegv", "ddtrace-run", "exec"],
        kind: None,
        flags: &[],
        words: 0,
    },
    Wrapper { names: &["nice", "chrt", "stdbuf", "prlimit"], kind: None, flags: &[], words: 0 },
    Wrapper { names: &["timeout"], kind: None, flags: &["foreground", "preserve_status", "v", "verbose"], words: 1 },
    Wrapper { names: &["taskset"], kind: None, flags: &["a", "all_tasks", "c", "cpu_list"], words: 1 },
    Wrapper { names: &["numactl"], kind: None, flags: &["l", "localalloc", "a", "all"], words: 0 },
    Wrapper { names: &["sudo", "doas"], kind: None, flags: &["E", "H", "n", "i", "s", "b"], words: 0 },
    Wrapper {
        names: &["uv", "poetry", "pdm", "hatch", "pipenv", "pixi"],
        kind: None,
        flags: &["no_sync", "frozen", "active", "isolated", "no_project", "q", "v", "all_extras"],
        words: 1,
    },
    Wrapper {
        names: &["conda", "mamba", "micromamba"],
        kind: None,
        flags: &["no_capture_output", "live_stream", "v"],
        words: 1,
    },
    Wrapper {
        names: &["nsys", "ncu", "py-spy", "scalene", "memray"],
        kind: None,
        flags: &["f", "nvtx", "v", "native", "subprocesses", "force"],
        words: 1,
    },
    Wrapper {
        names: &["singularity", "apptainer"],
        kind: None,
        flags: &["nv", "rocm", "cleanenv", "e", "contain", "c", "writable_tmpfs", "no_home"],
        words: 2,
    },
];

const ACCELERATE_FLAGS: &[&str] = &[
    "q",
    "quiet",
    "cpu",
    "multi_gpu",
    "tpu",
    "enable_cpu_affinity",
    "dynamo_use_fullgraph",
    "dynamo_use_dynamic",
    "dynamo_use_regional_compilation",
    "use_deepspeed",
    "use_fsdp",
    "use_parallelism_config",
    "use_megatron_lm",
    "same_network",
    "m",
    "module",
    "no_python",
    "tpu_cluster",
    "no_tpu_cluster",
    "tpu_use_sudo",
    "downcast_bf16",
    "debug",
    "use_fp8",
    "use_mps_device",
    "mps",
    "ipex",
    "use_xpu",
    "fp8_use_autocast_during_eval",
];

/// A path without its folders.
pub fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn wrapper(name: &str) -> Option<&'static Wrapper> {
    let name = name.strip_suffix(".exe").or_else(|| name.strip_suffix(".py")).unwrap_or(name);
    WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name))
}

fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|letter| letter.is_ascii_digit() || letter == '.' || letter == 't'))
}

fn is_shell(name: &str) -> bool {
    matches!(name.trim_start_matches('-'), "sh" | "bash" | "dash" | "zsh" | "ksh" | "busybox" | "ash" | "fish")
}

/// Takes a command apart.
pub fn take_apart(words: &[String]) -> Launched {
    let mut launched = Launched::default();
    follow(words.to_vec(), &mut launched, 0);
    launched
}

/// More commands in each other than this are none.
const DEEPEST: usize = 16;

fn follow(words: Vec<String>, launched: &mut Launched, depth: usize) {
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
    if name == "env" {
        follow(behind_env(after), launched, depth + 1);
    } else if is_python(name) {
        let (path, module, words) = interpreted(after, "m");
        started(path, module, true, words, launched, depth);
    } else if is_shell(name) {
        match shell_text(after) {
            Some(text) => {
                let command = shell::read(text, &|_| None).commands.pop().unwrap_or_default();
                follow(command, launched, depth + 1);
            }
            None => {
                let (path, _, words) = interpreted(after, "");
                started(path, false, false, words, launched, depth);
            }
        }
    } else {
        started(first.clone(), false, false, after.to_vec(), launched, depth);
    }
}

/// What a shell is told to do in its own arguments: `bash -lc '…'`.
fn shell_text(words: &[String]) -> Option<&str> {
    let at = words.iter().position(|word| !word.starts_with('-') || word.ends_with('c'))?;
    let option = words.get(at)?;
    let told = option.starts_with('-') && !option.starts_with("--");
    if told { words.get(at + 1).map(String::as_str) } else { None }
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
fn started(path: String, module: bool, python: bool, words: Vec<String>, launched: &mut Launched, depth: usize) {
    let name = if module { path.as_str() } else { base(&path) };
    let launches = wrapper(name).filter(|wrapper| wrapper.words == 0 || leads_on(wrapper, &words));
    let Some(wrapper) = launches else {
        launched.program = Program { path, module, python, words };
        return;
    };
    let (own, inner) = options_of(wrapper, &words);
    let options = arguments::read(&own).options;
    let inner_module = ["m", "module", "module_mode"].iter().any(|flag| options.is(flag));
    let plain = ["no_python", "command_mode", "c"].iter().any(|flag| options.is(flag));
    let Some(kind) = wrapper.kind else {
        return follow(inner, launched, depth + 1);
    };
    launched.launchers.push(Launcher { kind, options });
    if matches!(kind, Kind::Srun | Kind::Mpirun) || plain {
        return follow(inner, launched, depth + 1);
    }
    if let Some((path, words)) = inner.split_first() {
        // torchrun and the others start a script with Python; a command of theirs may be named all the same.
        started(path.clone(), inner_module, true, words.to_vec(), launched, depth + 1);
    }
}

/// Whether a wrapper with a word of its own has the one that runs a command.
fn leads_on(wrapper: &Wrapper, words: &[String]) -> bool {
    const RUN: [&str; 5] = ["launch", "run", "exec", "profile", "record"];
    let first = words.iter().find(|word| !word.starts_with('-'));
    match wrapper.names {
        ["timeout"] | ["taskset"] => true,
        _ => first.is_some_and(|word| RUN.contains(&word.as_str())),
    }
}

/// A wrapper's own words, and the command behind them.
fn options_of(wrapper: &Wrapper, words: &[String]) -> (Vec<String>, Vec<String>) {
    let mut own = Vec::new();
    let mut at = 0;
    let mut words_left = wrapper.words;
    while let Some(word) = words.get(at) {
        at += 1;
        if word == "--" {
            break;
        }
        if !word.starts_with('-') || word.len() < 2 {
            if words_left == 0 {
                at -= 1;
                break;
            }
            words_left -= 1;
            continue;
        }
        let name = word.trim_start_matches('-').replace('-', "_");
        // Of short options the value may stand directly behind: `-N4`.
        let joined = !word.starts_with("--") && wrapper.kind == Some(Kind::Srun) && name.len() > 1;
        if joined && !wrapper.flags.contains(&name.as_str()) {
            let (short, value) = name.split_at(name.chars().next().map_or(0, char::len_utf8));
            own.push(format!("--{short}={value}"));
            continue;
        }
        if word.contains('=') {
            own.push(word.clone());
        } else if wrapper.flags.contains(&name.as_str()) {
            own.push(format!("--{name}=true"));
        } else if let Some(value) = words.get(at) {
            own.push(format!("--{}={value}", word.trim_start_matches('-')));
            at += 1 + usize::from(wrapper.kind == Some(Kind::Mpirun) && name.ends_with("mca"));
        }
    }
    (own, words.get(at..).unwrap_or_default().to_vec())
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

/// How many processes there are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct World {
    /// Processes, one a GPU.
    pub total: Option<Found<u64>>,
    /// Nodes.
    pub nodes: Option<Found<u64>>,
    /// Processes on a node.
    pub per_node: Option<Found<u64>>,
}

impl World {
    /// From any two the third.
    pub fn completed(mut self) -> Self {
        match (&self.total, &self.nodes, &self.per_node) {
            (None, Some(nodes), Some(per_node)) => {
                let origin = Origin::Derived(format!(
                    "{} nodes ({}) x {} ({})",
                    nodes.value, nodes.origin, per_node.value, per_node.origin
                ));
                self.total = nodes.value.checked_mul(per_node.value).map(|total| Found::new(total, origin));
            }
            (Some(total), Some(nodes), None) if nodes.value > 0 && total.value.is_multiple_of(nodes.value) => {
                let origin = Origin::Derived(format!("{} processes / {} nodes", total.value, nodes.value));
                self.per_node = Some(Found::new(total.value / nodes.value, origin));
            }
            (Some(total), None, Some(per_node)) if per_node.value > 0 => {
                let origin = Origin::Derived(format!("{} processes / {} a node", total.value, per_node.value));
                self.nodes = Some(Found::new(total.value.div_ceil(per_node.value), origin));
            }
            _ => {}
        }
        self
    }

    /// `n` processes on this machine.
    pub fn here(n: u64, origin: Origin) -> Self {
        let one = Found::new(1, origin.clone());
        Self { total: Some(Found::new(n, origin.clone())), nodes: Some(one), per_node: Some(Found::new(n, origin)) }
    }
}

/// Surroundings that decide how many processes a launcher starts.
pub struct Around<'a> {
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<Found<String>>,
    /// The GPUs that are in sight.
    pub gpus: Option<Found<u64>>,
    /// A file that the launcher names.
    pub file: &'a dyn Fn(&str) -> Option<String>,
}

impl Launcher {
    /// How many processes it starts.
    pub fn world(&self, around: &Around) -> World {
        let options = &self.options;
        let whole = |names: &[&str]| options.first_whole(names);
        match self.kind {
            Kind::Torchrun => torchrun(options, around),
            Kind::Accelerate => {
                World { total: whole(&["num_processes"]), nodes: whole(&["num_machines"]), per_node: None }
            }
            Kind::Deepspeed => deepspeed(options, around),
            Kind::Composer => World {
                total: whole(&["world_size"]),
                nodes: None,
                per_node: whole(&["n", "nproc"]).or_else(|| around.gpus.clone()),
            },
            Kind::Srun => World {
                total: whole(&["n", "ntasks"]),
                nodes: options.first_text(&["N", "nodes"]).and_then(|nodes| nodes.and_then(|text| range(&text))),
                per_node: whole(&["ntasks_per_node"]),
            },
            Kind::Mpirun => mpirun(options),
        }
        .completed()
    }
}

/// `2`, or `1:4` and `1-4`: the most that may take part.
fn range(text: &str) -> Option<u64> {
    text.rsplit([':', '-']).next()?.trim().parse().ok()
}

fn torchrun(options: &Settings, around: &Around) -> World {
    const FRAMEWORK: &str = "torchrun";
    let default = |option: &str| Origin::Default { framework: FRAMEWORK, option: option.to_owned() };
    let given = |names: &[&str], variable: &str| options.first_text(names).or_else(|| (around.variable)(variable));
    let nodes = given(&["nnodes"], "PET_NNODES")
        .and_then(|nodes| nodes.and_then(|text| range(&text)))
        .unwrap_or_else(|| Found::new(1, default("--nnodes 1")));
    let per_node = match given(&["nproc_per_node"], "PET_NPROC_PER_NODE") {
        None => Some(Found::new(1, default("--nproc-per-node 1"))),
        Some(found) => match found.value.parse() {
            Ok(number) => Some(Found::new(number, found.origin)),
            // `gpu` and `auto`: as many as there are.
            Err(_) => around.gpus.clone(),
        },
    };
    World { total: None, nodes: Some(nodes), per_node }
}

/// `--num_nodes`, `--num_gpus`, `--include`, the host file; else every GPU in sight.
fn deepspeed(options: &Settings, around: &Around) -> World {
    if let Some(include) = options.first_text(&["i", "include"]) {
        // worker-0:0,1@worker-1:0,1
        let slots: Vec<Option<u64>> = include
            .value
            .split('@')
            .map(|host| host.split_once(':').map(|(_, slots)| slots.split(',').count() as u64))
            .collect();
        if let Some(total) = slots.iter().copied().sum::<Option<u64>>() {
            let nodes = Found::new(slots.len() as u64, include.origin.clone());
            return World { total: Some(Found::new(total, include.origin)), nodes: Some(nodes), per_node: None };
        }
    }
    let hostfile = options.first_text(&["H", "hostfile"]).map_or("/job/hostfile".to_owned(), |found| found.value);
    let hosts = (around.file)(&hostfile).map(|text| slots(&text)).filter(|slots| !slots.is_empty());
    let from_file = |line: &str| Origin::File { name: hostfile.clone(), line: None, key: line.to_owned() };
    let positive = |found: &Found<u64>| found.value > 0;
    let nodes = options.whole("num_nodes").filter(positive);
    let per_node = options.first_whole(&["num_gpus", "num_accelerators"]).filter(positive);
    let nodes = nodes.or_else(|| hosts.as_ref().map(|hosts| Found::new(hosts.len() as u64, from_file("hosts"))));
    let per_node = per_node
        .or_else(|| hosts.as_ref()?.first().map(|slots| Found::new(*slots, from_file("slots"))))
        .or_else(|| around.gpus.clone());
    let one =
        || Found::new(1, Origin::Default { framework: "deepspeed", option: "no host file: this node".to_owned() });
    World { total: None, nodes: nodes.or_else(|| Some(one())), per_node }
}

/// `worker-1 slots=4`, a line each.
fn slots(text: &str) -> Vec<u64> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split_once("slots=")?.1.trim().parse().ok()).collect()
}

fn mpirun(options: &Settings) -> World {
    let total = options.first_whole(&["np", "n", "c", "_np"]);
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
pub fn of_environment(variable: &dyn Fn(&str) -> Option<Found<String>>) -> World {
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
pub fn of_slurm(variable: &dyn Fn(&str) -> Option<Found<String>>) -> World {
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
