//! Files that are made to harm whoever reads them: each is refused or read within 256 MiB and a few seconds.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use flate2::write::GzEncoder;

use super::text;

/// KiB of writable memory that the program may map: 256 MiB and the stacks of its threads.
const MOST_KIB: &str = "300000";

/// KiB that it may ever have resident.
const MOST_RESIDENT_KIB: u64 = 256 << 10;

/// Built without optimisations it takes ten times as long as the five seconds that people wait.
const MOST_TIME: Duration = Duration::from_secs(50);

const HEADER: &str = r#"{"memwall_recording":1,"started":0,"source":{"kind":"demo","detail":"x"}}"#;

/// What the program makes of a file, within the bounds.
fn bounded(arguments: &[&str], file: &Path) -> Output {
    let script = format!("ulimit -d {MOST_KIB}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_memwall")]).args(arguments).arg(file);
    // Stacks of as many threads as a large machine has cores are no memory of the file's.
    command.env("RAYON_NUM_THREADS", "2").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let child = command.spawn().unwrap();
    let pid = child.id().to_string();
    let (done, ended) = std::sync::mpsc::channel();
    let watch = std::thread::spawn(move || {
        let mut peak = 0;
        while ended.recv_timeout(Duration::from_millis(2)).is_err() {
            peak = peak.max(peak_resident_kib(&pid));
            if start.elapsed() > MOST_TIME {
                drop(Command::new("kill").args(["-KILL", &pid]).status());
            }
        }
        peak
    });
    let output = child.wait_with_output().unwrap();
    done.send(()).unwrap();
    let peak = watch.join().unwrap();
    assert!(start.elapsed() < MOST_TIME, "{arguments:?} {}: too long", file.display());
    assert!(peak < MOST_RESIDENT_KIB, "{arguments:?} {}: {peak} KiB", file.display());
    assert!(output.status.code().is_some(), "{arguments:?} {}: {output:?}", file.display());
    output
}

/// What a process has had resident at most; 0 once it is gone.
fn peak_resident_kib(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn refused(arguments: &[&str], file: &Path, why: &str) {
    let output = bounded(arguments, file);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains(why), "{arguments:?} {}: {said}", file.display());
}

fn gzip(path: &Path, parts: &[(&str, usize)]) {
    let mut out = GzEncoder::new(std::fs::File::create(path).unwrap(), flate2::Compression::fast());
    for (part, times) in parts {
        for _ in 0..*times {
            out.write_all(part.as_bytes()).unwrap();
        }
    }
    out.finish().unwrap();
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for command in ["predict", "validate", "import", "replay", "explain"] {
        for file in [&pipe, Path::new("/dev/zero")] {
            refused(&[command], file, "not a regular file");
        }
    }
    // A model's configuration, which a plan, or another user's process, names.
    let plan = folder.path().join("plan.yaml");
    std::fs::write(&plan, "model: {hf_config: pipe.json, batch_size: 1, sequence_length: 8}\n").unwrap();
    refused(&["predict"], &plan, "not a regular file");
}

#[test]
fn a_list_of_millions_is_refused_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.json");
    let plan = folder.path().join("plan.yaml");
    std::fs::write(&plan, "model: {hf_config: list.json, batch_size: 1, sequence_length: 8}\n").unwrap();
    for item in ["1,", "[],", "{\"a\":1},"] {
        let many = item.repeat(8_000_000 / item.len());
        std::fs::write(&list, format!("{{\"model_type\":\"llama\",\"x\":[{many}0]}}")).unwrap();
        refused(&["predict"], &list, "more than 200000 values");
        refused(&["import"], &list, "");
        refused(&["predict"], &plan, "values");
    }
    let toml = folder.path().join("many.toml");
    std::fs::write(&toml, format!("[model]\nname=\"x\"\na=[{}1]\n", "1,".repeat(4_000_000))).unwrap();
    refused(&["import"], &toml, "");
}

#[test]
fn a_recording_that_unpacks_to_gigabytes_is_played_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ndjson.gz");
    let play = || bounded(&["replay", "--format", "json"], &path);
    let header = format!("{HEADER}\n");
    let good = "{\"at\":1}\n";
    let zeros = " ".repeat(1 << 20);
    // A line that never ends, and millions of GPUs of two bytes each.
    gzip(&path, &[(&header, 1), (good, 3), (&zeros, 40)]);
    assert!(text(&play().stdout).contains("longer than any sample's"));
    gzip(&path, &[(&header, 1), (good, 3), ("{\"at\":1,\"devices\":[{}", 1), (&",{}".repeat(1 << 20), 4), ("]}\n", 1)]);
    assert!(text(&play().stdout).contains("more than 30000 parts"));
    gzip(
        &path,
        &[("{\"memwall_recording\":1,\"units\":{\"a\":[1", 1), (&",1".repeat(1 << 20), 6), ("]}}\n", 1), (good, 1)],
    );
    assert!(text(&play().stderr).contains("not a recording"));
    // Lines that are as long as a line may be, packed a hundredfold.
    gzip(&path, &[(&header, 1), (good, 3), (&format!("{{\"at\":2,\"x\":\"{}\"}}\n", "x".repeat(10 << 20)), 12)]);
    assert!(text(&play().stdout).contains("unpacks to far more than samples do"));
}

#[test]
fn samples_of_thousands_of_gpus_are_not_held_by_the_dozen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ndjson");
    let written = |gpu: &str| {
        let sample = |number: u32| format!("{{\"at\":{number},\"devices\":[{{}}{}]}}\n", gpu.repeat(20_000));
        let samples: String = (1..=24).map(sample).collect();
        std::fs::write(&path, format!("{HEADER}\n{{\"at\":1}}\n{samples}")).unwrap();
        bounded(&["replay", "--format", "json"], &path)
    };
    // A dozen bytes each, which become kilobytes: twenty-four such samples at once would be a gigabyte.
    let played = written(",{\"index\":1}");
    assert!(text(&played.stdout).contains("\"samples\": 25"), "{}", text(&played.stderr));
    // Of three bytes each, a file of 200 kB would hold millions: more than anybody waits for.
    assert!(text(&written(",{}").stdout).contains("parts in"), "refused");
}

/// A pickle of protocol 4 around `body`.
fn pickle(path: &Path, body: &[&[u8]]) {
    let whole = [b"\x80\x04", &body.concat()[..], b"."].concat();
    std::fs::write(path, whole).unwrap();
}

#[test]
fn a_pickle_that_refers_to_itself_without_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pickle");
    let over_and_over = "refers to the same parts over and over";
    let many = b"h\x03".repeat(60_000);
    // One segment with fifty thousand keys, sixty thousand times: 3·10⁹ comparisons.
    let keys: Vec<u8> =
        (0..50_000_u16).flat_map(|key| [b'M', key.to_le_bytes()[0], key.to_le_bytes()[1], b'N']).collect();
    let end = b"\x8c\x06deviceK\x00\x8c\x0atotal_sizeK\x01uq\x03";
    pickle(&path, &[b"}(\x8c\x08segments](}(", &keys, end, &many, b"eu"]);
    refused(&["explain"], &path, over_and_over);
    // A segment of sixty thousand blocks, sixty thousand times; and failed requests the same.
    let block = b"}(\x8c\x04sizeK\x01\x8c\x05state\x8c\x10active_allocateduq\x03";
    let blocks = [b"\x8c\x06blocks](", &block[..], &many, b"e"].concat();
    let segment = [b"}(\x8c\x06deviceK\x00\x8c\x0atotal_sizeK\x01", &blocks[..], b"uq\x03"].concat();
    pickle(&path, &[b"}(\x8c\x08segments](", &segment, &many, b"eu"]);
    refused(&["explain"], &path, over_and_over);
    let trace = [b"](}(\x8c\x06action\x8c\x03oomuq\x03", &many[..], b"eq\x03"].concat();
    pickle(&path, &[b"}(\x8c\x08segments]\x8c\x0ddevice_traces](", &trace, &many, b"eu"]);
    refused(&["explain"], &path, over_and_over);
}

#[test]
fn a_pickle_of_many_times_its_size_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pickle");
    for (part, what) in [(&b"]"[..], "lists"), (b"\x94", "references"), (b"(", "marks"), (b"2\x85", "tuples")] {
        for size in [12 << 20, 20 << 20, 190 << 20] {
            pickle(&path, &[b"N", &part.repeat(size / part.len())]);
            let output = bounded(&["explain"], &path);
            assert_eq!(output.status.code(), Some(2), "{what}: {output:?}");
        }
    }
    pickle(&path, &[&b"N".repeat(201 << 20)]);
    refused(&["explain"], &path, "`--memory` allows more");
}

#[test]
fn a_snapshot_of_blocks_that_all_differ_is_read_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pickle");
    // Slots 1 to 7: the keys of a block and of a frame, and a state; slot 8: a file's long name.
    let name = format!("/home/me/{}", "x".repeat(240));
    let mut keys = vec![];
    for (slot, word) in
        ["size", "state", "frames", "filename", "name", "line", "active_allocated", &name].iter().enumerate()
    {
        keys.extend([0x8c, u8::try_from(word.len()).unwrap()]);
        keys.extend([word.as_bytes(), b"q", &[u8::try_from(slot + 1).unwrap()], b"0"].concat());
    }
    let block = |number: u32| {
        let frame = [b"}(h\x04h\x08h\x05h\x08h\x06J", &number.to_le_bytes()[..], b"u"].concat();
        [b"}(h\x01K\x01h\x02h\x07h\x03]", &frame[..], b"au"].concat()
    };
    let segment = |device: u32, blocks: &[u8]| {
        let device = device.to_le_bytes();
        [b"}(\x8c\x06deviceJ", &device[..], b"\x8c\x0atotal_sizeK\x01\x8c\x06blocks](", blocks, b"eu"].concat()
    };
    let blocks: Vec<u8> = (0..60_000).flat_map(block).collect();
    pickle(&path, &[&keys, b"}(\x8c\x08segments](", &segment(0, &blocks), b"eu"]);
    let output = bounded(&["explain", "--format", "json"], &path);
    assert!(output.status.success() && text(&output.stdout).contains("further places"), "{output:?}");
    // Two million blocks that are one, beside as many values that pay for going through them.
    let same = [&block(1)[..], b"q\x09", &b"h\x09".repeat(2_000_000)].concat();
    pickle(&path, &[&keys, b"](", &b"N".repeat(4_000_000), b"e0}(\x8c\x08segments](", &segment(0, &same), b"eu"]);
    bounded(&["explain"], &path);
    let devices: Vec<u8> = (0..300_000).flat_map(|device| segment(device, b"")).collect();
    pickle(&path, &[b"}(\x8c\x08segments](", &devices, b"eu"]);
    refused(&["explain"], &path, "an impossible device");
}

#[test]
fn a_line_of_nothing_but_messages_is_read_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train.log");
    let message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. ";
    std::fs::write(&file, message.repeat(200_000)).unwrap();
    let said = bounded(&["explain"], &file);
    assert!(said.status.success() && text(&said.stdout).contains("2.00 GiB"), "{said:?}");
}

#[test]
fn a_name_of_half_a_megabyte_is_refused_in_a_short_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.yaml");
    let long = "(a+)+".repeat(100_000);
    for plan in [format!("model: {{preset: \"{long}\"}}"), format!("model: {{\"{long}\": 1}}")] {
        std::fs::write(&file, plan).unwrap();
        let start = Instant::now();
        let said = bounded(&["predict"], &file);
        assert_eq!(said.status.code(), Some(2));
        // Some two hundred names are compared with it: half a minute without a bound.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(said.stderr.len() < 2_000, "{} bytes", said.stderr.len());
    }
}
