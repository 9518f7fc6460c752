//! Files of events of real loggers; `tests/events/README.md` says what their writers were given.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::support::standin::wait_for;
use memwall::observe::log::Log;
use memwall::reading::{Absence, LogFormat, Moment, Progress, ProgressSource, ReadingKind};

const TENSORBOARD: &str = "events.out.tfevents.1700000000.example";
const WANDB: &str = "run-example.wandb";

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/events").join(name)
}

fn read(path: &Path) -> Progress {
    let mut log = Log::at(path.to_owned(), None);
    log.read(Moment(1_800_000_000_000));
    log.progress().clone()
}

fn known(progress: &Progress) -> (Option<u64>, Option<f64>) {
    (progress.step.value().copied(), progress.loss.value().copied())
}

/// The last of TensorBoard's: 4 - 36 / 16.
const LAST: (Option<u64>, Option<f64>) = (Some(36), Some(1.75));

#[test]
fn tensorboard() {
    let progress = read(&example(TENSORBOARD));
    assert_eq!(progress.told_by, ProgressSource::Log(LogFormat::TensorBoard));
    assert_eq!(known(&progress), LAST);
    // Four steps in two seconds.
    let step = progress.step_time.value().unwrap().0;
    assert!((step - 0.5).abs() < 1e-6, "{step}");
    assert_eq!(progress.step_time.kind(), Some(ReadingKind::Estimated));
}

#[test]
fn wandb() {
    let progress = read(&example(WANDB));
    assert_eq!(progress.told_by, ProgressSource::Log(LogFormat::Wandb));
    // 3 - 29 / 32 at the thirtieth call.
    assert_eq!(known(&progress), (Some(290), Some(2.093_75)));
    assert_eq!(progress.step.kind(), Some(ReadingKind::Measured));
    // A call each 0.05 s and more is ten steps.
    let step = progress.step_time.value().unwrap().0;
    assert!((0.005..0.01).contains(&step), "{step}");
}

fn put(folder: &Path, path: &str, seconds: u64) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let name = if path.extension().is_some_and(|kind| kind == "wandb") { WANDB } else { TENSORBOARD };
    fs::copy(example(name), &path).unwrap();
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().append(true).open(&path).unwrap().set_modified(at).unwrap();
}

#[test]
fn of_a_folder_the_file_that_was_written_to_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::at(folder.path().to_owned(), None);
    assert!(!log.read(Moment(0)));
    let Some(Absence::Because(why)) = log.trouble() else { panic!("{:?}", log.trouble()) };
    assert_eq!(why.as_ref(), "no file of TensorBoard's or W&B's in that folder so far");
    put(folder.path(), "runs/first/events.out.tfevents.1.a", 1_000);
    // Losses of other data.
    put(folder.path(), "runs/first/valid/events.out.tfevents.1.b", 3_000);
    // It is not looked for at each read.
    assert!(!log.read(Moment(9_000)));
    assert!(log.read(Moment(10_000)));
    assert_eq!((known(log.progress()), log.trouble()), (LAST, None));
    // Another run.
    put(folder.path(), "wandb/run-2/run-2.wandb", 2_000);
    assert!(log.read(Moment(20_000)));
    assert_eq!(log.format(), Some(LogFormat::Wandb));
}

/// A process that has the file open, and whose output goes elsewhere.
struct Holder(Child);

impl Holder {
    fn of(file: &Path, output: Stdio) -> Self {
        let script = "exec 7>>\"$1\"; read end";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(file).stdin(Stdio::piped()).stdout(output).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let held = PathBuf::from(format!("/proc/{}/fd/7", child.id()));
        wait_for("the open file", || fs::read_link(&held).is_ok());
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_process_without_lines_tells_by_the_file_that_it_has_open() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), TENSORBOARD, 1_000);
    let holder = Holder::of(&folder.path().join(TENSORBOARD), Stdio::null());
    let mut log = Log::of_process(holder.0.id(), None).unwrap();
    assert!(log.read(Moment(1_800_000_000_000)));
    assert_eq!(known(log.progress()), LAST);
    assert_eq!(log.paths().count(), 1);
}

#[test]
fn lines_come_before_events() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), TENSORBOARD, 1_000);
    let lines = folder.path().join("log");
    let holder = Holder::of(&folder.path().join(TENSORBOARD), File::create(&lines).unwrap().into());
    fs::write(&lines, "iter 7: loss 2.5000, time 300.00ms, mfu 40.00%\n").unwrap();
    let mut log = Log::of_process(holder.0.id(), None).unwrap();
    assert!(log.read(Moment(1_000)));
    assert_eq!(known(log.progress()), (Some(7), Some(2.5)));
    assert_eq!(log.format(), Some(LogFormat::NanoGpt));
}
