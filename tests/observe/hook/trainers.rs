//! Trainers that none of us wrote, in the releases that go with Debian's PyTorch: what is said of each run that the hook
//! hears, with no word of the user's. `MEMWALL_TEST_TRAINERS` names a Python that has
//! `tests/hook/trainers/requirements.txt`; the loops of one's own need no more than PyTorch.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_yaml::Value;

use super::{DEADLINE, Meeting, folder, hear, output, python, text};

/// A training that runs until it is no longer looked at.
struct RealRun {
    meeting: Meeting,
    child: Child,
    /// The process that trains; of several the one that has started them.
    pid: u32,
}

impl RealRun {
    fn start(python: &OsString, script: &str) -> Self {
        let meeting = Meeting::new();
        let mut listener = meeting.listen();
        let place = meeting.folder.path();
        let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
        let log = File::create(place.join("log")).unwrap();
        command.args(["run", "--quiet", "--"]).arg(python).arg(folder().join("trainers").join(script));
        command.arg(place.join("ranks")).env_remove("PYTHONPATH").current_dir(place);
        command.stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        let child = command.spawn().unwrap();
        let heard = hear(&mut listener, "five steps", |run| run.step.as_ref().is_some_and(|step| step.step >= 5));
        let ranks = heard.about.as_ref().and_then(|about| about.world).unwrap_or(1);
        let pid = if ranks > 1 { parent(heard.pid) } else { heard.pid };
        Self { meeting, child, pid }
    }

    fn memwall(&self, arguments: &[&str]) -> String {
        let mut command = self.meeting.command(env!("CARGO_BIN_EXE_memwall"));
        let done = output(command.args(arguments).stderr(Stdio::piped()));
        assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    }

    /// The plan that it seems to have.
    fn plan(&self) -> Value {
        serde_yaml::from_str(&self.memwall(&["infer", &self.pid.to_string()])).unwrap()
    }

    /// What is said of it in one look.
    fn look(&self) -> String {
        self.memwall(&["--attach", &self.pid.to_string(), "--once"])
    }
}

impl Drop for RealRun {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        // Nobody is left where it has ended by itself.
        let _ = kill_process_group(group, Signal::KILL);
        drop(self.child.wait());
    }
}

fn parent(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}

/// A Python with the trainers of other people.
fn trainers() -> Option<OsString> {
    let python = std::env::var_os("MEMWALL_TEST_TRAINERS").filter(|path| Path::new(path).is_file());
    if python.is_none() {
        eprintln!("not run: MEMWALL_TEST_TRAINERS names no Python that has the trainers");
    }
    python
}

/// The plan's value under a path like `training.precision`, as YAML writes it.
fn value(plan: &Value, path: &str) -> String {
    let found = path.split('.').fold(plan, |value, key| &value[key]);
    serde_yaml::to_string(found).unwrap().trim().to_owned()
}

fn assert_plan(run: &RealRun, expected: &[(&str, &str)]) {
    let plan = run.plan();
    let wrong: Vec<_> =
        expected.iter().filter(|(path, expected)| value(&plan, path) != *expected).map(|(path, _)| path).collect();
    assert!(wrong.is_empty(), "{wrong:?} in {}", serde_yaml::to_string(&plan).unwrap());
}

fn assert_says(look: &str, parts: &[&str]) {
    let missing: Vec<_> = parts.iter().filter(|part| !look.contains(*part)).collect();
    assert!(missing.is_empty(), "{missing:?} in {look}");
}

#[test]
fn transformers_trainer() {
    let Some(python) = trainers() else { return };
    let run = RealRun::start(&python, "trainer.py");
    assert_plan(
        &run,
        &[
            ("model.hf_config.model_type", "gpt2"),
            ("model.hf_config.n_embd", "64"),
            ("model.hf_config.vocab_size", "200"),
            ("model.batch_size", "6"),
            ("model.sequence_length", "48"),
            ("training.micro_batch_size", "3"),
            ("training.gradient_accumulation_steps", "2"),
            ("training.precision", "fp32"),
            ("training.optimizer", "adamw-loop"),
            ("training.activation_checkpointing", "none"),
            ("hardware.gpu_type", "cpu"),
            // 60 000 steps of 6 samples of 48 tokens.
            ("run.total_tokens", "17280000"),
        ],
    );
    // 200 x 64 + 64 x 64 embedded; a layer 2 x 128 in norms, 64 x 192 + 192, 64 x 64 + 64, 64 x 256 + 256 and
    // 256 x 64 + 64; the last norm 128: 12 800 + 4 096 + 2 x 49 984 + 128.
    let parts = ["GPT2LMHeadModel, 116 992 parameters in fp32", "passes of 3 samples of 48 tokens, 2 a step"];
    let look = run.look();
    assert_says(&look, &parts);
    assert_says(&look, &["of 60 000, ", "loss ", "ETA ", "AdamW on cpu"]);
}

#[test]
fn trl_with_lora() {
    let Some(python) = trainers() else { return };
    let run = RealRun::start(&python, "sft.py");
    assert_plan(
        &run,
        &[
            ("model.hf_config.model_type", "llama"),
            ("model.hf_config.num_key_value_heads", "2"),
            ("model.batch_size", "8"),
            ("model.sequence_length", "64"),
            ("training.micro_batch_size", "2"),
            ("training.gradient_accumulation_steps", "4"),
            ("training.precision", "fp32"),
            ("training.lora.rank", "4"),
            ("training.lora.targets", "- q_proj\n- v_proj"),
        ],
    );
    // Twice 200 x 64; a layer 2 x 64 x 64 + 2 x 64 x 32, 3 x 64 x 160 and 128: 43 136; the last norm 64. Adapters: a layer
    // 4 x 64 + 64 x 4 and 4 x 64 + 32 x 4. 25 600 + 2 x 43 136 + 64 + 1 792.
    let look = run.look();
    assert_says(&look, &["113 728 parameters in fp32", "1 792 of them trained", "AdamW on cpu"]);
    assert_says(&look, &["passes of 2 samples of 64 tokens, 4 a step", "of 12 000, ", "loss ", "ETA "]);
}

#[test]
fn accelerate_in_a_loop_of_ones_own() {
    let Some(python) = trainers() else { return };
    let run = RealRun::start(&python, "accelerated.py");
    assert_plan(
        &run,
        &[
            ("model.hf_config.model_type", "bert"),
            ("model.batch_size", "12"),
            ("model.sequence_length", "64"),
            ("training.micro_batch_size", "6"),
            ("training.gradient_accumulation_steps", "2"),
            ("training.precision", "fp32"),
            ("training.optimizer", "adamw-loop"),
        ],
    );
    // 150 x 64 + 64 x 64 + 2 x 64 and a norm of 128; a layer 4 x (64 x 64 + 64), two norms, 64 x 256 + 256 and
    // 256 x 64 + 64: 49 984; the head 64 x 64 + 64, a norm and 150: 13 952 + 2 x 49 984 + 4 438.
    let look = run.look();
    assert_says(&look, &["BertForMaskedLM, 118 358 parameters in fp32", "passes of 6 samples of 64 tokens, 2 a step"]);
    // 60 000 samples in batches of 6 are 10 000, and two epochs of half as many steps.
    assert_says(&look, &["of 10 000, ", "loss ", "ETA "]);
}

#[test]
fn a_gpt_in_one_file() {
    let Some(python) = python("import torch") else { return };
    let run = RealRun::start(&python, "nano.py");
    assert_plan(
        &run,
        &[
            ("model.batch_size", "5"),
            ("model.sequence_length", "56"),
            ("training.micro_batch_size", "5"),
            ("training.gradient_accumulation_steps", "1"),
            ("training.precision", "fp32"),
            ("training.optimizer", "adamw"),
            ("hardware.gpu_type", "cpu"),
            ("cluster.num_gpus", "1"),
        ],
    );
    // 128 x 64, which is the head too, and 56 x 64; a layer as GPT-2's of this width, 49 984; a norm of 128:
    // 8 192 + 3 584 + 2 x 49 984 + 128.
    let look = run.look();
    assert_says(&look, &["GPT, 111 872 parameters in fp32", "passes of 5 samples of 56 tokens, 1 a step", "loss "]);
    // Nothing says how many steps it takes.
    assert!(!look.contains("ETA"), "{look}");
}

#[test]
fn two_ranks_of_ones_own() {
    let Some(python) = python("import torch") else { return };
    let run = RealRun::start(&python, "ddp.py");
    assert_plan(
        &run,
        &[
            ("model.batch_size", "8"),
            ("model.sequence_length", "32"),
            ("training.micro_batch_size", "4"),
            ("training.precision", "fp32"),
            // Adam, which differs from AdamW in no figure.
            ("training.optimizer", "adamw"),
            ("distribution.data_parallel", "2"),
            ("cluster.num_gpus", "2"),
        ],
    );
    // 120 x 48; a layer 48 x 144 + 144, 48 x 48 + 48, 48 x 192 + 192, 192 x 48 + 48 and two norms of 96: 28 272; the head
    // 48 x 120 + 120: 5 760 + 2 x 28 272 + 5 880.
    let look = run.look();
    assert_says(&look, &["68 184 parameters in fp32", "Adam on cpu", "passes of 4 samples of 32 tokens, 1 a step"]);
    assert_says(&look, &["of 40 000, ", "loss ", "ETA "]);
}

#[test]
fn models_that_are_trained_beside_each_other_are_no_single_process() {
    let Some(python) = python("import torch") else { return };
    let run = RealRun::start(&python, "spawned.py");
    let script = parent(run.pid).to_string();
    // The second is heard a moment after the first.
    let start = Instant::now();
    loop {
        let said = run.memwall(&["infer", &script]);
        if said.contains("2 processes train, and none tells how many ranks there are") {
            assert!(!said.contains("num_gpus: 1"), "{said}");
            break;
        }
        assert!(start.elapsed() < DEADLINE, "{said}");
    }
}
