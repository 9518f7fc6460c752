//! `memwall infer` on real processes, and plans from and to files as a shell sees it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a shell script under a program's name. It says when it runs, so that its command
/// line is its own by then, and waits for the end of its input.
fn start(folder: &Path, script: &str, words: &[&str], variables: &[(&str, &str)]) -> Running {
    std::fs::write(folder.join(script), "echo running\nread -r end\n").unwrap();
    let mut command = Command::new("/bin/sh");
    command.arg(script).args(words).current_dir(folder).env_clear().envs(variables.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "running\n");
    Running(child)
}

fn memwall(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    // No driver: what is not in sight must not change with the machine.
    command.env("MEMWALL_NVML_LIB", folder.join("none.so")).env("XDG_CONFIG_HOME", folder.join("none"));
    command.args(words).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn inferred(folder: &Path, pid: u32) -> Value {
    let output = memwall(folder, &["infer", &pid.to_string(), "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_rank_tells_its_plan_by_command_files_and_environment() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("c.toml"), "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\ntensor_parallel_degree = 2\n").unwrap();
    let variables = [("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "16"), ("LOCAL_WORLD_SIZE", "8")];
    let process = start(&work, "train.py", &["--job.config_file", "c.toml", "--training.seq_len=8192"], &variables);
    let found = inferred(folder.path(), process.0.id());
    assert_eq!(found["tool"], "torchtitan");
    let plan = &found["plan"];
    assert_eq!(plan["model"]["preset"], "llama-3.1-8b");
    assert_eq!(plan["model"]["sequence_length"], 8192);
    // 2 samples x 16 / 2 ranks
    assert_eq!(plan["model"]["batch_size"], 16);
    assert_eq!(plan["cluster"]["nodes"], 2);
    assert_eq!(found["origins"]["model.sequence_length"], "--training.seq_len");
    assert_eq!(found["origins"]["training.micro_batch_size"], "c.toml:5: training.local_batch_size");
    assert_eq!(found["origins"]["cluster.num_gpus"], "environment: WORLD_SIZE");
    assert!(found["missing"]["hardware.gpu_type"].is_string());
}

#[test]
fn what_is_inferred_is_a_plan_that_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let words =
        ["--nproc_per_node", "4", "run_clm.py", "--model_name_or_path", "gpt2", "--bf16", "--block_size", "512"];
    let process = start(folder.path(), "torchrun", &words, &[]);
    let pid = process.0.id().to_string();
    let saved = memwall(folder.path(), &["infer", &pid, "--save", "plan.yaml"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    let again = memwall(folder.path(), &["infer", &pid, "--save", "plan.yaml"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("exists already"));
    let report = memwall(folder.path(), &["predict", "plan.yaml", "--format", "json"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let yaml = std::fs::read_to_string(folder.path().join("plan.yaml")).unwrap();
    assert!(yaml.contains("# --bf16") && yaml.contains("# Not inferred:"), "{yaml}");
}

#[test]
fn nobody_waits_for_a_pipe_that_a_command_names() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo").arg(folder.path().join("c.toml")).status().unwrap();
    assert!(made.success());
    let process = start(folder.path(), "train.py", &["--job.config_file", "c.toml"], &[]);
    let found = inferred(folder.path(), process.0.id());
    assert!(found["notes"].to_string().contains("not a regular file"), "{found}");
}

#[test]
fn who_cannot_be_read_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut gone = Command::new("/bin/true").spawn().unwrap();
    gone.wait().unwrap();
    for (word, code, said) in [
        (gone.id().to_string(), 1, "there is no process"),
        ("4294967295".to_owned(), 1, "there is no process"),
        ("0".to_owned(), 1, "no process"),
        ("-1".to_owned(), 2, ""),
        ("x".to_owned(), 2, ""),
    ] {
        let output = memwall(folder.path(), &["infer", &word]);
        assert_eq!(output.status.code(), Some(code), "{word}");
        let err = text(&output.stderr);
        assert!(err.contains(said), "{err}");
        assert!(code == 2 || err.lines().count() == 1, "{err}");
    }
    // One that trains nothing.
    let idle = start(folder.path(), "idle", &[], &[]);
    let output = memwall(folder.path(), &["infer", &idle.0.id().to_string(), "--format", "json"]);
    assert!(!text(&output.stderr).contains("panicked"));
}

#[test]
fn files_of_others_open_where_a_plan_does() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| std::fs::write(folder.path().join(name), content).unwrap();
    put(
        "config.json",
        r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12, "n_head": 12}"#,
    );
    put(
        "t.toml",
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 2048\n[parallelism]\ndata_parallel_shard_degree = 8\n",
    );
    put("broken.yaml", "model: {presett: gpt2}\n");
    for (name, kind) in [("config.json", "Hugging Face"), ("t.toml", "torchtitan")] {
        let output = memwall(folder.path(), &["predict", name, "--format", "json"]);
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        assert_eq!(report["plan"], format!("{name} ({kind})"));
    }
    // A plan's own faults are told as ever.
    let output = memwall(folder.path(), &["predict", "broken.yaml"]);
    assert!(text(&output.stderr).contains("broken.yaml:1:9: model.presett"), "{}", text(&output.stderr));
}

/// What was not understood of another tool's file stands in the headline of its prediction, and above the plan.
#[test]
fn what_was_not_understood_stands_in_the_headline() {
    let folder = tempfile::tempdir().unwrap();
    let command = "torchrun --nproc_per_node 4 run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 1 \
                   --block_size 512 --lora_enabled true --vision_tower a/b\n";
    std::fs::write(folder.path().join("train.sh"), command).unwrap();
    let said = "not understood: --lora_enabled true; not modelled: --vision_tower";
    let output = memwall(folder.path(), &["predict", "train.sh", "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["plan"], format!("train.sh (transformers; {said})"));
    let plan = memwall(folder.path(), &["import", "train.sh"]);
    assert_eq!(text(&plan.stdout).lines().nth(1), Some(format!("# {said}").as_str()));
}

/// A script is started in its project's folder, wherever whoever asks about it stands.
#[test]
fn a_script_is_read_alike_from_its_folder_and_from_its_projects() {
    let project = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| std::fs::write(project.path().join(name), content).unwrap();
    for folder in ["configs", "scripts"] {
        std::fs::create_dir(project.path().join(folder)).unwrap();
    }
    put("configs/zero3.json", r#"{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}"#);
    let command = "deepspeed --num_gpus 8 run_clm.py --model_name_or_path gpt2 --block_size 512 --bf16 \
                   --per_device_train_batch_size 1 --deepspeed ./configs/zero3.json\n";
    put("scripts/sft.sh", command);
    // Before 4.36 nothing but its own code computes GPT-2's attention.
    put("requirements.txt", "transformers==4.31.0\n");
    let scripts = project.path().join("scripts");
    let whole = scripts.join("sft.sh").display().to_string();
    for (folder, name) in
        [(project.path(), "scripts/sft.sh"), (&scripts, "sft.sh"), (&scripts, "./sft.sh"), (&scripts, &whole)]
    {
        let output = memwall(folder, &["import", name, "--format", "json"]);
        let read: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(read["plan"]["distribution"]["sharding"], "zero3", "{name}");
        assert_eq!(read["plan"]["training"]["attention"], "eager", "{name}");
    }
}

#[test]
fn a_plan_goes_out_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let plan = "model: {preset: llama-3.1-8b, framework: torchtitan, batch_size: 16, sequence_length: 8192}\ncluster: {num_gpus: 8}\ndistribution: {tensor_parallel: 2, sharding: zero3}\n";
    std::fs::write(folder.path().join("p.yaml"), plan).unwrap();
    let out = memwall(folder.path(), &["export", "p.yaml", "--to", "torchtitan", "--output", "p.toml"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let back = memwall(folder.path(), &["import", "p.toml", "--gpus", "8", "--format", "json"]);
    let read: Value = serde_json::from_slice(&back.stdout).unwrap();
    assert_eq!(read["plan"]["model"]["batch_size"], 16);
    assert_eq!(read["plan"]["distribution"]["data_parallel"], 4);
    let json = memwall(folder.path(), &["export", "p.yaml", "--to", "deepspeed"]);
    let read: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(read["zero_optimization"]["stage"], 3);
    let said = text(&json.stderr);
    assert!(said.starts_with("memwall: written for DeepSpeed "), "{said}");
    assert!(said.lines().skip(1).all(|line| line.starts_with("memwall: not said: ")), "{said}");
    let wrong = memwall(folder.path(), &["import", "p.yaml"]);
    assert_eq!(wrong.status.code(), Some(2));
    let mut nothing = String::new();
    assert_eq!(wrong.stdout.as_slice().read_to_string(&mut nothing).unwrap(), 0);
}

/// Root may look at everyone, so the test gives its own rights up where it has them.
#[test]
fn of_another_users_process_the_command_alone_is_read() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.json"), "{\"gradient_accumulation_steps\": 4}").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["--nproc_per_node=2", "run_clm.py", "--model_name_or_path=gpt2", "--deepspeed=c.json"];
    let process = start(folder.path(), "torchrun", &words, &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["infer", &process.0.id().to_string(), "--format", "json"]);
    command.env_clear().current_dir(folder.path()).uid(NOBODY);
    // Who is not root can become nobody else, nor reach a program in a closed folder.
    let Ok(output) = command.output() else { return };
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(found["plan"]["cluster"]["num_gpus"], 2);
    let notes = found["notes"].to_string();
    // A file of that name in one's own directory is another one.
    assert!(notes.contains("the working directory is not known"), "{notes}");
    assert!(notes.contains("another user's"), "{notes}");
}

#[test]
fn a_process_that_trains_nothing_has_no_plan() {
    let folder = tempfile::tempdir().unwrap();
    let process = Running(Command::new("sleep").arg("60").env_clear().spawn().unwrap());
    // `/bin/sleep` has taken the child's place once its command line is its own.
    let its_own = format!("/proc/{}/cmdline", process.0.id());
    while !std::fs::read(&its_own).is_ok_and(|line| line.starts_with(b"sleep")) {
        std::thread::yield_now();
    }
    let output = memwall(folder.path(), &["infer", &process.0.id().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`sleep 60`"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

/// A plan for GPT-2, of 124 439 808 parameters, and a process whose command names a configuration: 1 000 x 128 and 256 x 128
/// embedded, two layers of 12 x 128 x 128 + 13 x 128, and a norm of 256.
#[test]
fn a_command_that_names_the_configuration_of_another_model_is_the_first_cause() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    std::fs::create_dir(place.join("tiny")).unwrap();
    let config = r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 128, "n_layer": 2, "n_head": 4,
        "vocab_size": 1000, "n_positions": 256}"#;
    std::fs::write(place.join("tiny/config.json"), config).unwrap();
    let steps: String = (1..=40).map(|step| format!("step {step}/1000 loss 2.5 step_time 1.5s\n")).collect();
    std::fs::write(place.join("train.log"), steps).unwrap();
    let plan = "model: {preset: gpt2, batch_size: 8, sequence_length: 128}\ntraining: {precision: fp32}\n";
    std::fs::write(place.join("plan.yaml"), plan).unwrap();
    let words = ["--config_name", "tiny", "--per_device_train_batch_size", "4", "--block_size", "128", "--do_train"];
    // A CPU that nobody has measured predicts nothing, and counts parameters all the same.
    for more in [&[][..], &["--use_cpu"]] {
        let process = start(place, "run_clm.py", &[&words, more].concat(), &[]);
        let pid = process.0.id().to_string();
        let said = text(&memwall(place, &["plan.yaml", "--once", "--attach", &pid, "--log", "train.log"]).stdout);
        // A line that is too long goes on under its beginning.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let model = "why another model: 557 568 parameters (by --config_name), the plan has 124 M; ";
        assert!(said.contains("verdict OTHER MODEL") && said.contains(model), "{said}");
        assert!(said.contains("the run has micro batch 4, the plan's is 8 (by"), "{said}");
    }
}
