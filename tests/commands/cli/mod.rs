//! The commands as a shell sees them: what they print, where, and how they exit.

mod cases;
mod faults;
mod lists;
mod reports;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SMALL: &str = "\
model: {preset: gpt2, batch_size: 8, sequence_length: 1024}
training: {precision: bf16-mixed}
hardware: {gpu_type: NVIDIA H100}
";

/// 70 billion parameters with their states on one GPU of 80 GB.
const TOO_LARGE: &str = "\
model: {type: transformer, size_billions: 70, batch_size: 8, sequence_length: 2048}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 1}
";

const PIPELINE: &str = "\
model: {preset: gpt2, batch_size: 16, sequence_length: 1024, framework: megatron}
training: {micro_batch_size: 2}
cluster: {num_gpus: 4}
distribution: {pipeline_parallel: 2, data_parallel: 2}
";

/// The program in a folder of its own and with no files of the user's.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let bench = Self::new();
        for (name, text) in files {
            let path = bench.folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        bench
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.args(args).current_dir(self.folder.path()).env("XDG_CONFIG_HOME", self.folder.path().join("config"));
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        self.feed(args, "")
    }

    fn feed(&self, args: &[&str], input: &str) -> Done {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that stops before it has read everything closes the pipe: its output says why.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Done::of(&child.wait_with_output().unwrap())
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }
}

#[derive(Debug)]
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Ended with `code`, and each line of standard error is a message of ours.
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.lines().all(|line| line.starts_with("memwall: ")), "{self:?}");
        assert_eq!(self.err.is_empty(), code == 0 || code == 3, "{self:?}");
        self
    }
}
