//! The log of a process, found by where its output goes.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use crate::support::standin::wait_for;
use memwall::observe::log::Log;
use memwall::reading::{Absence, Moment};
use memwall::units::Bytes;

/// A process whose output goes there.
struct Writer(Child);

impl Writer {
    fn start(out: Stdio) -> Self {
        Self(Command::new("sleep").arg("1000").stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_log_of_a_process_is_found_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    let mut file = fs::File::create(&path).unwrap();
    let writer = Writer::start(file.try_clone().unwrap().into());
    let mut log = Log::of_process(writer.0.id(), None).unwrap();
    assert_eq!(log.paths().collect::<Vec<_>>(), [path.as_path()]);
    assert!(!log.read(Moment(1)));
    writeln!(file, "iter 1: loss 9.5, time 20.00ms, mfu -100.00%").unwrap();
    assert!(log.read(Moment(2)));
    assert_eq!(log.progress().step.value(), Some(&1));
    assert_eq!(log.progress().mfu.value(), None);
    // Garbage is passed over, a line that is not whole is waited for.
    file.write_all(b"\x00\x01\x02\xff\xfe\x07\x07\x07\niter 2: loss 9").unwrap();
    assert!(!log.read(Moment(3)));
    writeln!(file, ".25, time 20.00ms, mfu 12.00%").unwrap();
    assert!(log.read(Moment(4)));
    assert_eq!((log.progress().step.value(), log.progress().loss.value()), (Some(&2), Some(&9.25)));
    let message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has";
    writeln!(file, "{message}").unwrap();
    assert!(log.read(Moment(5)));
    assert_eq!(log.out_of_memory().unwrap().asked, Some(Bytes(2 << 30)));
    // Read anew it is the end of the run, until the run has gone on.
    let mut anew = Log::of_files(vec![path.clone()], None);
    anew.read(Moment(6));
    assert!(anew.out_of_memory().is_some());
    writeln!(file, "iter 3: loss 9.00, time 20.00ms, mfu 12.00%").unwrap();
    let mut anew = Log::of_files(vec![path], None);
    anew.read(Moment(7));
    assert_eq!(anew.out_of_memory(), None);
}

#[test]
fn the_source_in_a_traceback_is_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    // As CPython 3.11 writes it, and torchrun's prefix before a rank's lines.
    let traceback = |prefix: &str, message: &str| {
        let lines = [
            "Traceback (most recent call last):",
            "  File \"/w/train.py\", line 21, in <module>",
            "    raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB' if full else 'no such batch')",
            message,
        ];
        lines.map(|line| format!("{prefix}{line}\n")).concat()
    };
    let found = |text: &str| {
        fs::write(&path, text).unwrap();
        let mut log = Log::of_files(vec![path.clone()], None);
        log.read(Moment(1));
        log.out_of_memory().map(|message| message.asked)
    };
    assert_eq!(found(&traceback("", "RuntimeError: no such batch")), None);
    assert_eq!(found(&traceback("[rank1]: ", "RuntimeError: no such batch")), None);
    let message = "RuntimeError: CUDA out of memory. Tried to allocate 3.00 GiB";
    assert_eq!(found(&traceback("", message)), Some(Some(Bytes(3 << 30))));
}

#[test]
fn an_output_that_is_no_file_is_said_to_be_none() {
    let writer = Writer::start(Stdio::piped());
    let mut log = Log::of_process(writer.0.id(), None).unwrap();
    assert!(!log.read(Moment(1)));
    assert_eq!(log.trouble(), Some(&Absence::Because("its output goes into a pipe".into())));
    assert_eq!(Log::of_process(u32::MAX, None).err(), Some(Absence::Gone));
}

/// `python train.py >> train.log`, started again: what the run before has written there is none of its steps.
#[test]
fn lines_of_the_run_before_are_none_of_a_process_that_appends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    let old = "iter 499: loss 2.5, time 20.00ms, mfu 12.00%\niter 500: loss 2.25, time 20.00ms, mfu 12.00%\n";
    fs::write(&path, old).unwrap();
    let append = fs::OpenOptions::new().append(true).open(&path).unwrap();
    // It says what it loads, and then waits for somebody to let it train.
    let script = "echo loading; read line; echo iter 3: loss 9.5, time 20.00ms, mfu 12.00%; read line";
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(append).stderr(Stdio::null());
    let mut writer = Writer(command.spawn().unwrap());
    wait_for("its first line", || fs::read_to_string(&path).unwrap().contains("loading"));
    let mut log = Log::of_process(writer.0.id(), None).unwrap();
    log.read(Moment(1));
    assert_eq!(log.progress().step.value(), None);
    // Whoever names the file means all of it.
    let mut named = Log::at(path.clone(), None);
    named.read(Moment(1));
    assert_eq!(named.progress().step.value(), Some(&500));
    writeln!(writer.0.stdin.as_mut().unwrap()).unwrap();
    wait_for("its step", || fs::read_to_string(&path).unwrap().contains("iter 3"));
    log.read(Moment(2));
    assert_eq!(log.progress().step.value(), Some(&3));
    // Who attaches now sees it, too.
    let mut anew = Log::of_process(writer.0.id(), None).unwrap();
    anew.read(Moment(3));
    assert_eq!((anew.progress().step.value(), anew.progress().loss.value()), (Some(&3), Some(&9.5)));
}
