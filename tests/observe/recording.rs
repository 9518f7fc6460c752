//! Recordings without a screen: `memwall record`, `memwall replay --format`, and what a day of
//! history costs.

use crate::support::{demo, memwall_with_all_signals};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::support::standin::{in_child, wait_for};
use memwall::app::{Event, update};
use memwall::observe::{Compression, Demo, Header, Recorder, Recording, Rotation, Samples, Source};
use memwall::reading::{DeviceSample, Sample};

/// The program where it finds no driver and nobody's files.
fn memwall(folder: &Path) -> Command {
    let mut command = memwall_with_all_signals();
    command.current_dir(folder).env("HOME", folder).env("XDG_CONFIG_HOME", folder.join("config"));
    command.env("MEMWALL_NVML_LIB", folder.join("none.so")).env("MEMWALL_SYS_ROOT", folder.join("none"));
    command.stdin(Stdio::null());
    command
}

fn plan() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/plans/13b_long_sequence.yaml")
}

/// `memwall record` of a demo run at ten samples a second, with these arguments.
fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = memwall(folder);
    command.arg("record").arg(plan()).args(["--source", "demo", "--interval", "100ms"]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until so many samples have been written.
fn wait_for_samples(path: &Path, samples: usize) {
    wait_for("samples in the recording", || {
        fs::read(path).is_ok_and(|bytes| bytes.iter().filter(|byte| **byte == b'\n').count() > samples)
    });
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Everything in a recording, which must be whole.
fn samples(path: &Path) -> Vec<Sample> {
    let mut samples = Samples::of(Recording::open(path).unwrap());
    let all: Vec<_> = (0..).map_while(|index| samples.get(index, index)).collect();
    assert_eq!(samples.recording().damage(), None);
    all
}

#[test]
fn a_sample_of_ten_thousand_gpus_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.ndjson");
    let state = demo::open("70b_hybrid_training");
    let gpu = state.plans.editor.job().unwrap().hardware.gpu.clone();
    let mut source = Demo::new(state.plans.editor.prediction().unwrap(), &gpu);
    let mut sample = source.sample(demo::START);
    // As a cluster's database tells of them: figures, and no board or links.
    let plain = |device: DeviceSample| DeviceSample {
        board: Default::default(),
        links: Default::default(),
        health: Default::default(),
        ..device
    };
    sample.devices = sample.devices.into_iter().map(plain).cycle().take(10_000).collect();
    let header = Header::new(demo::START, Duration::from_secs(15), source.info());
    let mut recorder = Recorder::create(&path, header, Compression::None, Rotation::default()).unwrap();
    for _ in 0..3 {
        sample.at = sample.at.plus_millis(15_000);
        recorder.write(&sample).unwrap();
    }
    // What could not be read back is not written, and what was is whole.
    let most = Sample { devices: sample.devices.iter().cycle().take(60_000).cloned().collect(), ..sample.clone() };
    assert!(recorder.write(&most).unwrap_err().to_string().contains("a sample of 60000 GPUs is larger than"));
    recorder.finish().unwrap();
    let read = samples(&path);
    assert_eq!(read.len(), 3);
    assert_eq!(read[2].devices, sample.devices);
}

#[test]
fn a_signal_ends_a_recording_as_it_should() {
    for name in ["TERM", "INT", "HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ndjson");
        let child = start(folder.path(), &["-o", "run.ndjson", "--attach", "77"]);
        wait_for_samples(&path, 3);
        signal(&child, name);
        let (code, out, err) = said(&child.wait_with_output().unwrap());
        let all = samples(&path);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert!(out.starts_with(&format!("recorded {} samples", all.len())) && out.contains("run.ndjson"), "{out}");
        assert_eq!(all[0].devices.len(), 8);
        let recording = Recording::open(&path).unwrap();
        assert_eq!((recording.header().attach, recording.header().interval_ms), (Some(77), 100));
        let kept = recording.header().plan.as_ref().unwrap();
        assert_eq!((kept.name.as_str(), &kept.text), ("13b_long_sequence", &fs::read_to_string(plan()).unwrap()));
    }
}

#[test]
fn a_kill_loses_nothing_that_was_written() {
    for name in ["run.ndjson", "run.ndjson.gz"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut child = start(folder.path(), &["-o", name]);
        wait_for("a few samples", || Recording::open(&path).is_ok_and(|recording| recording.len() > 2));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut samples = Samples::of(Recording::open(&path).unwrap());
        let read = (0..).map_while(|index| samples.get(index, index)).count();
        assert!(read > 2, "{read} samples");
        // Whatever the kill cut is the last line alone.
        let cut = samples.recording().damage().is_none_or(|damage| damage.line == read as u64 + 2);
        assert!(cut, "{:?}", samples.recording().damage());
    }
}

#[test]
fn it_ends_after_its_time_and_turns_files_over_by_size() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["-o", "run.ndjson.gz", "--duration", "3s", "--rotate", "64KiB", "--keep", "2", "--compress"];
    let (code, out, err) = said(&start(folder.path(), &args).wait_with_output().unwrap());
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let plain = ["-o", "run.ndjson", "--duration", "3s", "--rotate", "64KiB", "--keep", "2"];
    let (code, out, _) = said(&start(folder.path(), &plain).wait_with_output().unwrap());
    assert_eq!(code, Some(0), "{out}");
    let parts = |ending: &str| {
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
        names.sort();
        names
    };
    assert_eq!(parts(".ndjson").len(), 2, "{:?}", parts(".ndjson"));
    let first = &parts(".ndjson")[0];
    assert!(samples(&folder.path().join(first)).len() > 2);
    assert!(!parts(".gz").is_empty());
}

#[test]
fn a_recording_is_summed_up_for_people_and_for_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ndjson");
    demo::record(&path, "13b_long_sequence", 60);
    let run = |args: &[&str]| said(&memwall(folder.path()).args(["replay", "run.ndjson"]).args(args).output().unwrap());
    let (code, out, err) = run(&["--format", "json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&summary["samples"], &summary["duration_s"]), (&60.into(), &59.0.into()));
    assert_eq!((&summary["plan"], &summary["damage"]), (&"13b_long_sequence".into(), &serde_json::Value::Null));
    assert_eq!(summary["devices"].as_array().unwrap().len(), 8);
    // The most that the first GPU held, from the samples themselves.
    let most = samples(&path).iter().map(|sample| sample.devices[0].memory.value().unwrap().used.0).max().unwrap();
    assert_eq!(summary["devices"][0]["memory_used"]["most"].as_f64(), Some(most as f64));
    assert_eq!(summary["devices"][0]["dram_bandwidth"]["kind"], "measured");
    let (code, out, _) = run(&["--format", "csv"]);
    assert_eq!((code, out.lines().count()), (Some(0), 9));
    assert!(out.starts_with("index,name,memory_total,memory_used.least,"), "{out}");
    // Without a terminal there is nothing to play it on.
    let (code, out, _) = run(&[]);
    assert_eq!(code, Some(0));
    assert!(out.contains("60, 0 lost") && out.contains("NVIDIA H100"), "{out}");
    let other = said(&memwall(folder.path()).args(["--source", "replay:run.ndjson"]).output().unwrap());
    assert_eq!(other.1, out);
}

#[test]
fn a_cut_recording_is_summed_up_to_the_cut_and_the_cut_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ndjson");
    demo::record(&path, "13b_long_sequence", 30);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    let output = memwall(folder.path()).args(["replay", "run.ndjson", "--format", "json"]).output().unwrap();
    let (code, out, err) = said(&output);
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &summary["samples"]), (Some(0), &29.into()));
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("memwall: run.ndjson: damaged at line 31, byte ") && err.contains("breaks off"), "{err}");
    assert_eq!(format!("memwall: {}\n", summary["damage"].as_str().unwrap()), err);
}

#[test]
fn what_cannot_be_recorded_or_played_is_told_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine"), "mine").unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    let demo = ["--source", "demo"];
    let plan = plan();
    let plan = plan.to_str().unwrap();
    for (args, code, part) in [
        (&["record", plan, demo[0], demo[1], "-o", "mine"][..], 1, "mine exists already"),
        (&["record", plan, demo[0], demo[1], "-o", "no/such/folder.ndjson"], 1, "No such file"),
        (&["record", plan, demo[0], demo[1], "-o", "/dev/full"], 1, "No space left"),
        (&["record", "-o", "x", "--source", "nvml"], 1, "cannot load"),
        (&["record", plan, "-o", "x"], 1, "cannot load"),
        (&["record", "-o", "x", "--source", "demo"], 2, "a simulated run needs a plan"),
        (&["record", "-o", "x", "--source", "replay:mine"], 2, "a recording already"),
        (&["record", "none.yaml", "-o", "x"], 2, "no such file"),
        (&["replay", "none"], 2, "none: there is no such file\n"),
        (&["replay", "mine"], 2, "not a recording"),
        (&["replay", "empty"], 2, "not a recording"),
        (&["replay", "."], 2, "directory"),
    ] {
        let (exit, out, err) = said(&memwall(folder.path()).args(args).output().unwrap());
        assert_eq!((exit, out.as_str()), (Some(code), ""), "{args:?}: {err}");
        assert!(err.contains(part) && err.lines().count() == 1 && err.starts_with("memwall: "), "{args:?}: {err}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("mine")).unwrap(), "mine");
}

#[test]
fn a_file_that_may_not_grow_further_ends_the_recording_with_a_line_and_what_was_written_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    // Files of at most a hundred blocks of 512 or 1024 bytes.
    shell.args(["-c", "ulimit -f 100; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_memwall")]);
    shell.arg("record").arg(plan()).args(["--source", "demo", "--interval", "100ms", "-o", "run.ndjson"]);
    shell.current_dir(folder.path()).env("HOME", folder.path()).stdin(Stdio::null());
    let (code, _, err) = said(&shell.output().unwrap());
    assert_eq!((code, err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("recording broke off") && err.contains("can be replayed"), "{err}");
    assert!(!Recording::open(&folder.path().join("run.ndjson")).unwrap().is_empty());
}

/// Run again by the test below, in a folder that has room for little.
#[test]
fn on_a_small_disk() {
    let Some(folder) = std::env::var_os("MEMWALL_TEST_SMALL_DISK").map(PathBuf::from) else { return };
    for name in ["run.ndjson", "run.ndjson.gz"] {
        let (path, filler) = (folder.join(name), folder.join("filler"));
        let mut child = start(&folder, &["-o", name]);
        let mut said_so_far = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        wait_for("a few samples", || Recording::open(&path).is_ok_and(|recording| recording.len() > 2));
        // All that is left, and the kernel's word that there is no more.
        let mut file = fs::File::create(&filler).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        let line = said_so_far.next().unwrap();
        assert!(line.contains("no space left on the disk"), "{line}");
        let before = Recording::open(&path).unwrap().len();
        drop(file);
        fs::remove_file(&filler).unwrap();
        let line = said_so_far.next().unwrap();
        assert!(line.contains("has room again"), "{line}");
        wait_for("samples again", || Recording::open(&path).unwrap().len() > before + 2);
        signal(&child, "TERM");
        let (code, out, _) = said(&child.wait_with_output().unwrap());
        assert_eq!((code, said_so_far.next()), (Some(0), None));
        assert!(out.contains("samples were lost while the disk was full"), "{out}");
        // What was lost is counted by the next sample that was written.
        assert!(samples(&path).iter().any(|sample| sample.dropped > 0));
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_full_disk_loses_samples_with_a_word_and_the_recording_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=4m small \"$1\" || exit 77; exec \"$0\" --exact recording::on_a_small_disk";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(std::env::current_exe().unwrap()).arg(folder.path());
    match command.env("MEMWALL_TEST_SMALL_DISK", folder.path()).output() {
        Ok(done) if done.status.success() => {}
        Ok(done) if done.status.code() == Some(101) => panic!("{done:?}"),
        _ => eprintln!("not run: this user may not mount"),
    }
}

/// Resident memory of this process in MiB.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

#[test]
fn a_day_of_eight_gpus_stays_within_forty_mebibytes_and_flat() {
    in_child("recording::a_day_of_eight_gpus_stays_within_forty_mebibytes_and_flat", "", None, |_| {
        let mut state = demo::open("13b_long_sequence");
        let gpu = state.plans.editor.job().unwrap().hardware.gpu.clone();
        let mut source = Demo::new(state.plans.editor.prediction().unwrap(), &gpu);
        update(&mut state, Event::SourceStarted(source.info()));
        // Every two seconds, so that all buckets of all spans but the shortest are filled as at one.
        let mut hours = |from: u64, to: u64| {
            for second in (from * 3600..to * 3600).step_by(2) {
                let sample = source.sample(demo::START.plus_millis(second * 1000));
                assert_eq!(sample.devices.len(), 8);
                update(&mut state, Event::Sample(Box::new(sample)));
            }
            resident()
        };
        let after_a_day = hours(0, 24);
        let after_more = hours(24, 27);
        assert!(after_a_day <= 40.0, "{after_a_day} MiB after 24 h");
        assert!(after_more - after_a_day < 1.0, "{after_a_day} MiB after 24 h, {after_more} after 27");
    });
}
