//! Commands that start another: their names, and which of their options take no value, so that
//! what they start is found behind them.

use super::LauncherKind;
use crate::settings::{UNKNOWN, UNKNOWN_OPTIONS};

/// A command in front of another: its options that take no value; every other takes one.
pub struct Wrapper {
    names: &'static [&'static str],
    pub kind: Option<LauncherKind>,
    flags: &'static [&'static str],
    /// Words that belong to it and are no options (`accelerate launch`, `timeout 10m`).
    pub words: usize,
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher"],
        kind: Some(LauncherKind::Torchrun),
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
        kind: Some(LauncherKind::Torchrun),
        flags: &["standalone", "no_python", "m", "module", "run_path", "virtual_local_rank"],
        words: 1,
    },
    Wrapper {
        names: &["accelerate-launch", "accelerate.commands.launch"],
        kind: Some(LauncherKind::Accelerate),
        flags: ACCELERATE_FLAGS,
        words: 0,
    },
    Wrapper {
        names: &["accelerate", "accelerate.commands.accelerate_cli"],
        kind: Some(LauncherKind::Accelerate),
        flags: ACCELERATE_FLAGS,
        words: 1,
    },
    Wrapper {
        names: &["deepspeed", "ds", "deepspeed.launcher.runner", "deepspeed.pt", "deepspeed.launcher.launch"],
        kind: Some(LauncherKind::Deepspeed),
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
        kind: Some(LauncherKind::Composer),
        flags: &["v", "verbose", "m", "module_mode", "c", "command_mode"],
        words: 0,
    },
    Wrapper { names: &["colossalai"], kind: Some(LauncherKind::Colossal), flags: &["standalone", "m"], words: 1 },
    Wrapper {
        names: &["docker", "podman", "nvidia-docker"],
        kind: None,
        flags: &[
            "it",
            "ti",
            "i",
            "t",
            "d",
            "rm",
            "privileged",
            "init",
            "interactive",
            "tty",
            "detach",
            "P",
            "read_only",
            "dit",
            "itd",
        ],
        words: 2,
    },
    // Its nodes and their GPUs it tells torchrun itself (`oumi/cli/distributed_run.py`).
    Wrapper { names: &["oumi"], kind: None, flags: &[], words: 1 },
    Wrapper { names: &["ray"], kind: None, flags: &["no_wait", "verbose", "v"], words: 2 },
    Wrapper {
        names: &["srun"],
        kind: Some(LauncherKind::Srun),
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
        kind: Some(LauncherKind::Mpirun),
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
    // MemWall itself: `memwall run --plan PLAN -- COMMAND`.
    Wrapper { names: &["memwall"], kind: None, flags: &["modules", "q", "quiet"], words: 1 },
    Wrapper { names: &["sudo", "doas"], kind: None, flags: &["E", "H", "n", "i", "s", "b"], words: 0 },
    Wrapper {
        names: &["uv", "poetry", "pdm", "hatch", "pipenv", "pixi"],
        kind: None,
        flags: &[
            "no_sync",
            "frozen",
            "locked",
            "active",
            "isolated",
            "exact",
            "inexact",
            "no_project",
            "q",
            "quiet",
            "v",
            "verbose",
            "offline",
            "all_extras",
            "all_groups",
            "all_packages",
            "no_dev",
            "no_cache",
        ],
        words: 1,
    },
    Wrapper { names: &["uvx"], kind: None, flags: &["isolated", "q", "v"], words: 0 },
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

impl Wrapper {
    /// Whether `-m` names a module for it, as for Python.
    pub fn runs_modules(&self) -> bool {
        self.names.contains(&"uv")
    }

    /// The command behind it with what it adds: `oumi distributed torchrun` tells torchrun the job's nodes and their GPUs.
    pub fn completed(&self, mut inner: Vec<String>) -> Vec<String> {
        if self.names == ["oumi"] && inner.first().is_some_and(|word| word == "torchrun") {
            inner.splice(1..1, ["--nproc_per_node=gpu", "--of_job=true"].map(str::to_owned));
        }
        inner
    }
}

/// The wrapper of that name.
pub fn find(name: &str) -> Option<&'static Wrapper> {
    let name = name.strip_suffix(".exe").unwrap_or(name);
    WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name))
}

/// Whether a wrapper with a word of its own has the one that runs a command.
pub fn leads_on(wrapper: &Wrapper, words: &[String]) -> bool {
    const RUN: [&str; 7] = ["launch", "run", "exec", "profile", "record", "job", "distributed"];
    let first = words.iter().find(|word| !word.starts_with('-'));
    match wrapper.names {
        ["timeout"] | ["taskset"] => true,
        _ => first.is_some_and(|word| RUN.contains(&word.as_str())),
    }
}

/// Where in a command the one begins that those in front of it start, once on each node or as it is: `srun --nodes 2
/// singularity exec image.sif bash train.sh`. Launchers that start Python are none of them.
pub fn inner_at(words: &[String]) -> usize {
    const MOST: usize = 8;
    let mut at = 0;
    for _ in 0..MOST {
        let Some((name, rest)) = words.get(at..).and_then(<[String]>::split_first) else { break };
        let runs = |wrapper: &&Wrapper| {
            let plain = matches!(wrapper.kind, None | Some(LauncherKind::Srun)) && !wrapper.runs_modules();
            plain && (wrapper.words == 0 || leads_on(wrapper, rest))
        };
        let Some(wrapper) = find(super::base(name)).filter(runs) else { break };
        let inner = options_of(wrapper, rest).1.len();
        at = words.len().saturating_sub(inner).max(at + 1);
    }
    at.min(words.len())
}

/// A wrapper's own words, and the command behind them.
pub fn options_of(wrapper: &Wrapper, words: &[String]) -> (Vec<String>, Vec<String>) {
    let mut own = Vec::new();
    let mut at = 0;
    let mut words_left = wrapper.words;
    while let Some(word) = words.get(at) {
        at += 1;
        if word == "--" {
            break;
        }
        // All that follows an image is the container's own command.
        if words_left == 0 && ["docker", "apptainer"].iter().any(|name| wrapper.names.contains(name)) {
            at -= 1;
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
        // What stands there nobody knows; it is no option that takes the next word.
        if word == UNKNOWN_OPTIONS {
            own.push(format!("--{UNKNOWN}=true"));
            continue;
        }
        let name = word.trim_start_matches('-').replace('-', "_");
        let ray = wrapper.names.contains(&"ray");
        if ray && !word.contains('=') && !wrapper.flags.contains(&name.as_str()) {
            at += 1;
            continue;
        }
        // Of short options the value may stand directly behind: `-N4`, `stdbuf -oL`.
        let short = matches!(wrapper.kind, Some(LauncherKind::Srun) | None);
        let joined = !word.starts_with("--") && short && name.len() > 1 && !word.contains('=');
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
            at += 1 + usize::from(wrapper.kind == Some(LauncherKind::Mpirun) && name.ends_with("mca"));
        }
    }
    let program = entry(wrapper, &own).into_iter();
    let command = program.chain(words.get(at..).unwrap_or_default().iter().cloned()).collect();
    (own, command)
}

/// What a container starts in place of its image's own program: `docker run --entrypoint python3 image -m module`.
fn entry(wrapper: &Wrapper, own: &[String]) -> Option<String> {
    let contained = wrapper.names.contains(&"docker");
    let found = own.iter().find_map(|word| word.trim_start_matches('-').strip_prefix("entrypoint="));
    found.filter(|program| contained && !program.is_empty()).map(str::to_owned)
}

/// The words behind a launcher that stands in a variable which only the run knows (`$RUN --nproc_per_node 4 train.py`), where
/// an option in front of the script is torchrun's alone.
pub fn options_of_torchrun(words: &[String]) -> Option<&[String]> {
    let unknown = words.first().is_some_and(|word| word == UNKNOWN);
    let options = if unknown { &words[1..] } else { words };
    let before = || options.iter().take_while(|word| !word.ends_with(".py"));
    let own = |word: &String| {
        let name = word.split('=').next().unwrap_or(word).replace('-', "_");
        matches!(name.as_str(), "__nproc_per_node" | "__rdzv_endpoint" | "__rdzv_backend")
    };
    let starts = options.first().is_some_and(|word| word.starts_with("--"));
    (starts && before().any(own) && before().count() < options.len()).then_some(options)
}
