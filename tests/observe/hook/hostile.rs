//! Files that are made to harm whoever reads them: each is refused or read within 256 MiB and a few seconds.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use flate2::write::GzEncoder;

use super::text;

/// KiB of writable memory that the program may map: 256 MiB, its own data and the stacks of its threads.
const MOST_KIB: &str = "360000";

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
        if ended.recv_timeout(MOST_TIME).is_err() {
            drop(Command::new("kill").args(["-KILL", &pid]).status());
        }
    });
    let output = child.wait_with_output().unwrap();
    done.send(()).unwrap();
    watch.join().unwrap();
    assert!(start.elapsed() < MOST_TIME, "{arguments:?} {}: too long", file.display());
    assert!(output.status.code().is_some(), "{arguments:?} {}: {output:?}", file.display());
    output
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
        pickle(&path, &[b"N", &part.repeat((12 << 20) / part.len())]);
        let output = bounded(&["explain"], &path);
        assert_eq!(output.status.code(), Some(2), "{what}: {output:?}");
    }
}
