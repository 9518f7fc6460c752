//! `--attach` on a machine without a driver: the process itself, and nothing made up beside it.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::plan::PLAN;
use crate::terminal::{Program, Terminal};

fn start(child: &Child) -> Terminal {
    let pid = child.id().to_string();
    Program::memwall().args(&["mine.yaml", "--attach", &pid]).file("mine.yaml", PLAN).size(160, 50).start()
}

#[test]
fn a_process_without_a_gpu_is_watched_and_its_end_noticed_with_its_code() {
    let mut child = Command::new("sh").args(["-c", "read line; exit 7"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut terminal = start(&child);
    let pid = child.id().to_string();
    // The command is known before the first sample is there.
    let screen =
        terminal.wait_until("a sample", |screen| screen.contains("NO TRAINING SEEN") && screen.contains("host live"));
    let first = screen.lines().next().unwrap();
    assert!(first.contains("host live") && first.contains(&format!("▶ {pid}")), "{first}");
    for invented in ["demo", "tok/s/GPU", "ETA"] {
        assert!(!screen.contains(invented), "{invented}: {screen}");
    }
    drop(child.stdin.take());
    // Its command says `exit 7` as well.
    let screen = terminal.wait_for(", exit 7");
    assert!(screen.lines().next().unwrap().trim_end().ends_with(" FAILED"), "{screen}");
    child.wait().unwrap();
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_log_alone_is_compared_and_no_demo_played_beside_it() {
    // 0.8 s a step, of 1 000: 960 are left, 13 min.
    let log = "iter 39: loss 6.25, time 800.00ms, mfu 10.07%\niter 40: loss 6.21, time 800.00ms, mfu 10.07%\n";
    let program = Program::memwall().args(&["mine.yaml", "--log", "train.log"]).file("mine.yaml", PLAN);
    let program = program.file("train.log", format!("Overriding: max_iters = 1000\n{log}")).size(160, 50);
    let mut terminal = program.start();
    let screen =
        terminal.wait_until("a step", |screen| screen.contains("step 40 of 1 000") && screen.contains("800 ms"));
    for invented in ["demo", "IDLE", "4200000"] {
        assert!(!screen.contains(invented), "{invented}: {screen}");
    }
    // Its step is held against the plan's, and its memory is nobody's.
    let screen = terminal.wait_until("a comparison", |screen| screen.contains("→0.80 s") || screen.contains("→800 ms"));
    assert!(screen.contains("not attached"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
}

/// One look at a log alone, beside a plan of 16 passes a step.
fn look(log: &Path, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["configs/plans/8b_single_gpu.yaml", "--once", "--log"]).arg(log).args(more).stdin(Stdio::null());
    let nowhere = [("MEMWALL_NVML_LIB", "/nowhere/libnvidia-ml.so"), ("MEMWALL_SYS_ROOT", "/nowhere")];
    let done = command.envs(nowhere).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn batches_of_a_log_are_not_held_against_steps_of_several() {
    // 0.595 s are a sixteenth of the plan's step, or sixteen times as quick: the log does not say.
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    fs::write(&log, fs::read("tests/logs/epochs_mmdet.log").unwrap()).unwrap();
    let said = look(&log, &[]);
    assert!(said.contains("step 2 500, 595 ms each, loss 0.47"), "{said}");
    // Its memory is another model's.
    assert!(said.contains("verdict  MEMORY -") && said.contains("another model"), "{said}");
}

/// A mistyped path is no run without steps: a script that asks reads it from the exit code.
#[test]
fn a_log_and_a_plan_that_are_not_there_are_named_as_that() {
    let log = ["configs/plans/8b_single_gpu.yaml", "--once", "--log", "/nowhere/a"];
    for (args, lacks) in [(&log[..], "there is no such file"), (&["/nowhere/a", "--once"], "no such plan file")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.args(args).stdin(Stdio::null());
        let nowhere = [("MEMWALL_NVML_LIB", "/nowhere/libnvidia-ml.so"), ("MEMWALL_SYS_ROOT", "/nowhere")];
        let done = command.envs(nowhere).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("/nowhere/a: {lacks}")), "{said}");
    }
}

/// What torchtitan logs alone names the deviation: where a plan has one stage, any GPU's peak is held against it.
#[test]
fn a_log_that_tells_memory_names_the_checkpointing() {
    let plan = fs::read_to_string("configs/plans/8b_fsdp_torchtitan.yaml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join("full.yaml");
    let full = plan.replace("activation_checkpointing: selective-op", "activation_checkpointing: full");
    assert_ne!(full, plan);
    fs::write(&changed, full).unwrap();
    let predicted = Command::new(env!("CARGO_BIN_EXE_memwall"))
        .args(["predict", "--format", "json"])
        .arg(&changed)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&predicted.stdout).unwrap();
    let (step, reserved) = (&report["time"]["step_s"], &report["memory"]["peak_reserved"]);
    let (step, reserved) = (step.as_f64().unwrap(), reserved.as_f64().unwrap() / f64::from(1 << 30));
    let log = folder.path().join("train.log");
    let line = |number: u32| {
        format!(
            "[rank0]:[titan] 2026-01-01 10:00:00,000 - root - INFO - step: {number:2}  loss:  6.2250  memory: {reserved:.2}GiB(34.00%)  \
             tps: {:.0}  tflops: 300.00  mfu: 30.00%\n",
            8192.0 / step
        )
    };
    fs::write(&log, (21..=60).map(line).collect::<String>()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["configs/plans/8b_fsdp_torchtitan.yaml", "--once", "--log"]).arg(&log).stdin(Stdio::null());
    let nowhere = [("MEMWALL_NVML_LIB", "/nowhere/libnvidia-ml.so"), ("MEMWALL_SYS_ROOT", "/nowhere")];
    let done = command.envs(nowhere).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("verdict  MEMORY -") && said.contains("why      every block checkpointed"), "{said}");
}

/// Megatron-LM's arguments (`training/arguments.py`, `_print_args`) of a run of llama-2-7b on two tensor ranks: 6 738 415 616
/// parameters, of which each holds half of all but the norms (65 of 4096): (6 738 415 616 - 266 240) / 2 + 266 240.
const MEGATRON: &str = "\
  micro_batch_size ................................ 2
  global_batch_size ............................... 256
  seq_length ...................................... 4096
  tensor_model_parallel_size ...................... 2
  pipeline_model_parallel_size .................... 1
  num_layers ...................................... 32
  hidden_size ..................................... 4096
  recompute_granularity ........................... full
  bf16 ............................................ True
  world_size ...................................... 16
  use_distributed_optimizer ....................... True
 > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 3369340928
";

#[test]
fn a_log_that_states_degrees_and_sizes_names_what_the_plan_has_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let (log, plan) = (folder.path().join("megatron.log"), folder.path().join("plan.yaml"));
    let steps = |millis: f64| -> String {
        let step = |step: u32| {
            format!(
                " [2025-01-01 10:{step:02}:00] iteration {step}/ 100000 | consumed samples: {} | \
                 elapsed time per iteration (ms): {millis} | global batch size:   256 | lm loss: 9.08E+00 |\n",
                256 * step
            )
        };
        (1..=40).map(step).collect()
    };
    let memory = "[Rank 0] (after 10 iterations) memory (MB) | allocated: 20012.5 | max allocated: 28051.1 | reserved: 30002.0 \
                  | max reserved: 30002.0\n";
    let write = |millis: f64| fs::write(&log, format!("{MEGATRON}{}{memory}", steps(millis))).unwrap();
    write(8152.3);
    let said = |model: &str, tensor: u64, pipeline: u64, distributed: bool| {
        let text = format!(
            "model: {{preset: {model}, batch_size: 256, sequence_length: 4096, framework: megatron}}\n\
             training: {{micro_batch_size: 2, activation_checkpointing: full, distributed_optimizer: {distributed}}}\n\
             hardware: {{gpu_type: NVIDIA H100}}\ncluster: {{num_gpus: 16}}\n\
             distribution: {{tensor_parallel: {tensor}, pipeline_parallel: {pipeline}}}\n"
        );
        fs::write(&plan, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.arg(&plan).args(["--once", "--log"]).arg(&log).stdin(Stdio::null());
        let nowhere = [("MEMWALL_NVML_LIB", "/nowhere/libnvidia-ml.so"), ("MEMWALL_SYS_ROOT", "/nowhere")];
        String::from_utf8(command.envs(nowhere).output().unwrap().stdout).unwrap()
    };
    for (model, tensor, pipeline, distributed, why) in [
        ("llama-2-7b", 4, 1, true, "the run has tensor parallel 2, the plan 4 (by its log)"),
        ("llama-2-7b", 2, 2, true, "the run has pipeline parallel 1, the plan 2 (by its log)"),
        ("llama-2-7b", 2, 1, false, "the run has a distributed optimizer, the plan has none (by its log)"),
        ("llama-3-8b", 2, 1, true, "another model: 6.74 B parameters by its log, the plan has 8.03 B"),
        ("llama-2-13b", 2, 1, true, "another model: 6.74 B parameters by its log, the plan has 13.0 B"),
        (
            "llama-2-13b",
            4,
            1,
            true,
            "another model: 6.74 B parameters by its log, the plan has 13.0 B; the run has tensor parallel 2, the plan 4 (by its log)",
        ),
    ] {
        let said = said(model, tensor, pipeline, distributed);
        assert!(said.contains(&format!("why      {why}")), "{model} {tensor} {pipeline}: {said}");
    }
    let as_planned = said("llama-2-7b", 2, 1, true);
    assert!(as_planned.contains("verdict  AS PLANNED") && !as_planned.contains("why "), "{as_planned}");
    // Twice as long for no reason that anybody tells: that is said, with what was tried, of which the log told no value.
    write(16_304.6);
    let slow = said("llama-2-7b", 2, 1, true);
    let why = slow.lines().find_map(|line| line.strip_prefix("why      ")).expect(&slow);
    assert!(slow.contains("verdict  SLOWER ") && why.starts_with("nothing tried explains it (none better "), "{slow}");
    assert!(why.contains("sequence parallel") && !why.contains("model") && !why.contains("micro batch"), "{why}");
}

#[test]
fn a_real_log_is_not_laid_over_a_demo() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["configs/plans/8b_single_gpu.yaml", "--once", "--source", "demo", "--log", "train.log"]);
    let done = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("a demo and a recording have steps of their own"), "{said}");
}

#[test]
fn a_log_that_nobody_has_written_to_for_days_is_no_run_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    let lines: String = (1..=40).map(|step| format!("step {step}/1000 loss 2.5 step_time 1.5s\n")).collect();
    fs::write(&log, lines).unwrap();
    // 960 steps of 1.5 s.
    let said = look(&log, &[]);
    assert!(said.contains("step 40 of 1 000, 1.50 s each, loss 2.50, ETA 24 min"), "{said}");
    let figures = |said: &str| serde_json::from_str::<serde_json::Value>(said).unwrap()["progress"].clone();
    let told = figures(&look(&log, &["--json"]));
    assert_eq!((&told["step"], &told["step_s"], &told["remaining_s"]), (&40.into(), &1.5.into(), &1_440.0.into()));
    assert_eq!(told["peak_reserved"]["absent"], "not read yet");
    let written = SystemTime::now() - Duration::from_secs(3 * 86_400);
    File::options().append(true).open(&log).unwrap().set_modified(written).unwrap();
    let said = look(&log, &[]);
    assert!(said.contains("step 40 of 1 000, 1.50 s each, loss 2.50\n"), "{said}");
    assert!(said.contains("verdict  NO STEP FOR 3.0 d"), "{said}");
    assert!(figures(&look(&log, &["--json"]))["remaining_s"]["absent"].is_string());
}

/// What a script caught is no end: steps that follow say so.
#[test]
fn a_log_that_ends_with_an_exception_is_a_run_that_ended() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    let step = |step: u32| format!("step {step}/1000 loss 2.5 step_time 1.5s\n");
    let raised = "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\n    main()\n\
                  RuntimeError: no data in shard 7\n";
    let lines: String = (1..=40).map(step).collect();
    fs::write(&log, format!("{lines}{raised}")).unwrap();
    let said = look(&log, &[]);
    assert!(said.contains("verdict  FAILED"), "{said}");
    assert!(said.contains("why      ended at step 40 or later, RuntimeError: no data in shard 7"), "{said}");
    assert!(!said.contains("ETA"), "{said}");
    fs::write(&log, format!("{lines}{raised}{}", step(41))).unwrap();
    let said = look(&log, &[]);
    assert!(!said.contains("FAILED") && said.contains("step 41 of 1 000"), "{said}");
}

#[test]
fn a_launcher_is_followed_to_its_ranks_and_a_killed_one_is_named() {
    let script = "for rank in 0 1; do RANK=$rank sh -c 'echo $$; exec sleep 1000' & done; exec sleep 1000";
    let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let ranks: Vec<u32> = lines.take(2).map(|line| line.unwrap().parse().unwrap()).collect();
    let mut terminal = start(&child);
    terminal.wait_until("a rank", |screen| {
        let first = screen.lines().next().unwrap_or_default();
        ranks.iter().any(|rank| first.contains(&format!("▶ {rank}")))
    });
    // Its parent waits for nobody: the code stays to be read.
    assert!(Command::new("kill").args(["-KILL", &ranks[1].to_string()]).status().unwrap().success());
    let screen = terminal.wait_for("SIGKILL, exit 137");
    assert!(screen.lines().next().unwrap().trim_end().ends_with(" KILLED"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
    for pid in ranks.iter().chain([&child.id()]) {
        drop(Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status());
    }
    child.wait().unwrap();
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    // Larger than any pid (`PID_MAX_LIMIT`, 2^22).
    let program = Program::memwall().args(&["mine.yaml", "--attach", "8388608"]).file("mine.yaml", PLAN);
    let terminal = program.size(120, 40).start();
    // Where other namespaces may have it, a source says so.
    let said = terminal.wait_for("there is no process 8388608");
    assert!(!said.contains("demo"), "{said}");
}

#[test]
fn a_script_that_trains_and_has_told_no_step_is_a_training() {
    const SCRIPT: &str = "import sys\n\
                          def train():\n    for x in DataLoader(data, batch_size=8):\n        model(x).backward()\n\
                          sys.stdin.read() and train()\n";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.py"), SCRIPT).unwrap();
    let mut python = Command::new("python3");
    python.arg("train.py").current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = python.spawn().unwrap();
    let pid = child.id().to_string();
    let once = |plan: &str| {
        let file = folder.path().join("plan.yaml");
        fs::write(&file, plan).unwrap();
        let mut memwall = Command::new(env!("CARGO_BIN_EXE_memwall"));
        let output = memwall.arg(&file).args(["--attach", &pid, "--once"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let as_planned = once("model: {preset: gpt2, batch_size: 8}\ntraining: {precision: fp32}\n");
    let otherwise = once("model: {preset: gpt2, batch_size: 16}\ntraining: {precision: fp32}\n");
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(as_planned.contains("NO STEP SEEN"), "{as_planned}");
    // By the eight of its loader.
    assert!(
        otherwise.contains("micro batch 8, the plan's is 16 (by train.py: DataLoader(batch_size=8))"),
        "{otherwise}"
    );
    assert!(otherwise.contains("OTHER SETTINGS"), "{otherwise}");
}
