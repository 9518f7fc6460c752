mod any;
mod playing;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use any::samples;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::format::{decode, encode};
use super::writer::part_path;
use super::*;
use crate::reading::{Absence, DeviceSample, Moment, Reading, Sample, SourceInfo, SourceKind};
use crate::units::{Bytes, Fraction, Watts};

const START: Moment = Moment(1_790_000_000_000);

fn header() -> Header {
    let source = SourceInfo { kind: SourceKind::Nvml, detail: "driver 580.82".to_owned() };
    Header::new(START, Duration::from_secs(1), source)
}

/// A sample at that second, with a power of as many watts.
fn sample(second: u64) -> Sample {
    let at = START.plus_millis(second * 1000);
    let power = Reading::measured(Watts(second as f64 + 0.1), at);
    Sample { at, devices: vec![DeviceSample { power, ..DeviceSample::default() }], ..Sample::default() }
}

fn write(path: &Path, compression: Compression, rotation: Rotation, samples: &[Sample]) -> RecordingTotals {
    let mut recorder = Recorder::create(path, header(), compression, rotation).unwrap();
    for sample in samples {
        recorder.write(sample).unwrap();
    }
    recorder.finish().unwrap()
}

fn read(path: &Path) -> (Vec<Sample>, Option<Damage>) {
    let mut samples = Samples::of(Recording::open(path).unwrap());
    let read = (0..).map_while(|index| samples.get(index, index)).collect();
    (read, samples.recording().damage().cloned())
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_recorded_plays_back_as_the_same_samples(
        samples in samples(), packed in any::<bool>(), size in prop::option::of(1..4_000_u64)
    ) {
        let folder = folder();
        let path = folder.path().join("run.ndjson");
        let compression = if packed { Compression::Gzip } else { Compression::None };
        let written = write(&path, compression, Rotation { size: size.map(Bytes), keep: None }, &samples);
        prop_assert_eq!(written.samples, samples.len() as u64);
        prop_assert_eq!(read(&path), (samples, None));
    }

    #[test]
    fn whatever_is_in_a_file_is_played_up_to_where_it_breaks(
        text in "(\\{\"at\":[0-9]{1,20}\\}\n|.*\n)*", bytes in prop::collection::vec(any::<u8>(), 0..200), packed in any::<bool>()
    ) {
        let folder = folder();
        let path = folder.path().join("run.ndjson");
        let head = serde_json::to_string(&header()).unwrap();
        let content = [head.as_bytes(), b"\n", text.as_bytes(), &bytes].concat();
        let mut content = if packed {
            let mut out = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(&content).unwrap();
            out.finish().unwrap()
        } else {
            content
        };
        if packed {
            content.extend_from_slice(&bytes);
        }
        fs::write(&path, content).unwrap();
        match Recording::open(&path) {
            Ok(recording) => {
                let count = recording.len();
                let (read, _) = read(&path);
                prop_assert!(read.len() <= count);
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }

    #[test]
    fn a_cut_recording_plays_up_to_the_cut_and_says_where(count in 1..20_u64, share in 0.0..1.0_f64) {
        let folder = folder();
        let path = folder.path().join("run.ndjson");
        let all: Vec<Sample> = (0..count).map(sample).collect();
        write(&path, Compression::None, Rotation::default(), &all);
        let bytes = fs::read(&path).unwrap();
        let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let cut = first + ((bytes.len() - first) as f64 * share) as usize;
        fs::write(&path, &bytes[..cut]).unwrap();
        let whole_lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        let line_start = bytes[..cut].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        let kept = whole_lines - 1;
        match Recording::open(&path) {
            Err(OpenError::Empty(_)) => prop_assert!(kept == 0 && cut == line_start),
            Err(OpenError::Damaged(damage)) => {
                prop_assert_eq!((kept, damage.line, damage.byte, damage.after), (0, 2, line_start as u64, None));
            }
            Err(other) => prop_assert!(false, "{}", other),
            Ok(_) => {
                let (read, damage) = read(&path);
                prop_assert_eq!(&read[..], &all[..kept]);
                let place = damage.map(|damage| (damage.line, damage.byte, damage.after));
                let cut_off = (whole_lines as u64 + 1, line_start as u64, Some(all[kept - 1].at));
                prop_assert_eq!(place, (cut != line_start).then_some(cut_off));
            }
        }
    }
}

#[test]
fn a_line_is_as_documented() {
    let at = Moment(5);
    let device = DeviceSample {
        power: Reading::measured(Watts(612.5), at),
        busy: Reading::upper_bound(Fraction(0.5), Moment(4)),
        name: Reading::Absent(Absence::Gone),
        ..DeviceSample::default()
    };
    let line = encode(&Sample { at, devices: vec![device], ..Sample::default() }).unwrap();
    assert!(line.starts_with(r#"{"at":5,"devices":[{"index":0,"name":{"absent":"gone"},"#), "{line}");
    // What nobody asked for is not there.
    assert!(!line.contains("not_read") && !line.contains("{}") && !line.contains("null"), "{line}");
    // Its own time stays only where it is another than the sample's.
    assert!(line.contains(r#""power":{"value":612.5}"#), "{line}");
    assert!(line.contains(r#""busy":{"value":0.5,"at":4,"kind":"upper_bound"}"#), "{line}");
    assert_eq!(decode(line.as_bytes(), at).unwrap().devices[0].power, Reading::measured(Watts(612.5), at));
}

#[test]
fn the_first_line_tells_version_units_and_plan() {
    let folder = folder();
    let path = folder.path().join("run.ndjson");
    let text = "model: {hf_config: gone.json}\n";
    let config = serde_json::json!({"model_type": "llama"});
    let inline = crate::plan::HfConfig::Inline(config.as_object().unwrap().clone());
    let plan = PlanText::new("mine", text, Some(&inline));
    let header = Header { plan: Some(plan), attach: Some(7), ..header() };
    Recorder::create(&path, header.clone(), Compression::None, Rotation::default()).unwrap().finish().unwrap();
    let first: serde_json::Value = serde_json::from_str(fs::read_to_string(&path).unwrap().trim()).unwrap();
    assert_eq!(first["memwall_recording"], 1);
    assert_eq!(first["units"]["power, power_limit"], "W");
    assert_eq!(Header::read(&path).unwrap(), header);
    let loaded = header.plan.unwrap().load().unwrap();
    assert_eq!((loaded.document.text(), loaded.plan.model.hf_config), (text, Some(inline)));
}

#[test]
fn a_header_of_before_a_key_was_known_is_read() {
    let folder = folder();
    let path = folder.path().join("old.ndjson");
    let line = r#"{"memwall_recording":1,"started":5,"source":{"kind":"nvml","detail":""}}"#;
    fs::write(&path, format!("{line}\n{}\n", encode(&sample(0)).unwrap())).unwrap();
    assert_eq!(read(&path), (vec![sample(0)], None));
}

#[test]
fn a_packed_recording_that_was_killed_reads_up_to_its_last_line() {
    let folder = folder();
    let path = folder.path().join("run.ndjson.gz");
    assert_eq!(Compression::of(&path), Compression::Gzip);
    let mut recorder = Recorder::create(&path, header(), Compression::Gzip, Rotation::default()).unwrap();
    let all: Vec<Sample> = (0..50).map(sample).collect();
    for (index, sample) in all.iter().enumerate() {
        recorder.write(sample).unwrap();
        if index % 10 == 0 {
            // What is on the disk now is what a kill would leave.
            let killed = folder.path().join("killed.gz");
            fs::copy(&path, &killed).unwrap();
            assert_eq!(read(&killed), (all[..=index].to_vec(), None));
        }
    }
    // Cut in the middle of what a line was packed to.
    let bytes = fs::read(&path).unwrap();
    let cut = folder.path().join("cut.gz");
    fs::write(&cut, &bytes[..bytes.len() - 9]).unwrap();
    let (read, damage) = read(&cut);
    assert_eq!(read, all[..49]);
    let damage = damage.unwrap();
    assert_eq!((damage.line, damage.after), (51, Some(all[48].at)), "{damage}");
}

#[test]
fn a_damaged_line_ends_the_recording_and_is_told_with_line_byte_and_time() {
    let folder = folder();
    let path = folder.path().join("run.ndjson");
    let all: Vec<Sample> = (0..10).map(sample).collect();
    write(&path, Compression::None, Rotation::default(), &all);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let byte: usize = lines[..6].iter().map(|line| line.len() + 1).sum();
    let damages = [
        ("a lost bracket", lines[6].replacen('[', "", 1)),
        ("bytes of nothing", "\0".repeat(200)),
        ("another shape", lines[6].replace("612", "\"watts\"").replacen("\"index\":0", "\"index\":\"zero\"", 1)),
        ("the time goes back", lines[6].replacen("\"at\":17", "\"at\":16", 1)),
    ];
    for (what, damaged) in damages {
        let mut broken = lines.clone();
        broken[6] = &damaged;
        fs::write(&path, broken.join("\n")).unwrap();
        let (read, damage) = read(&path);
        let damage = damage.unwrap_or_else(|| panic!("{what} is not noticed"));
        assert_eq!(read, all[..5], "{what}");
        assert_eq!((damage.line, damage.byte, damage.after), (7, byte as u64, Some(all[4].at)), "{what}: {damage}");
        let said = damage.to_string();
        let place = format!("run.ndjson: damaged at line 7, byte {byte}, after 2026-09-21T14:13:24Z: ");
        assert!(said.contains(&place) && !said.contains('\n'), "{said}");
    }
}

#[test]
fn what_is_no_recording_is_told_in_a_line() {
    let folder = folder();
    let path = folder.path().join("x");
    let newer = r#"{"memwall_recording":2,"everything":"else"}"#;
    for (content, said) in [
        ("", "not a recording"),
        ("model: {}\n", "not a recording"),
        ("{\"at\":5}\n", "not a recording"),
        (&format!("{newer}\n"), "schema 2"),
        (&format!("{}\n", serde_json::to_string(&header()).unwrap()), "no sample"),
        (&format!("{}\nx\n", serde_json::to_string(&header()).unwrap()), "damaged at line 2"),
        (&"x".repeat(100_000), "not a recording"),
    ] {
        fs::write(&path, content).unwrap();
        let error = Recording::open(&path).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("/x") && !error.contains('\n'), "{error}");
    }
    assert!(Recording::open(&folder.path().join("none")).unwrap_err().is_usage());
}

#[test]
fn parts_are_numbered_and_the_oldest_go() {
    for (path, part, expected) in [
        ("a/run.ndjson", 1, "a/run.ndjson"),
        ("a/run.ndjson", 2, "a/run.2.ndjson"),
        ("run.v1.ndjson.gz", 12, "run.v1.12.ndjson.gz"),
        ("run", 3, "run.3"),
        (".gz", 2, ".gz.2"),
    ] {
        assert_eq!(part_path(Path::new(path), part), PathBuf::from(expected));
    }
    let folder = folder();
    let path = folder.path().join("run.ndjson");
    let all: Vec<Sample> = (10..50).map(sample).collect();
    let line = encode(&all[0]).unwrap().len() as u64 + 1;
    let first = serde_json::to_string(&header()).unwrap().len() as u64 + 1;
    // Room for the first line and ten samples.
    let rotation = Rotation { size: Some(Bytes(first + 9 * line + 1)), keep: Some(2) };
    let written = write(&path, Compression::None, rotation, &all);
    assert_eq!((written.parts, written.oldest, written.samples), (4, 3, 40));
    let summary = written.summary();
    let third = folder.path().join("run.3.ndjson");
    assert!(summary.contains(&format!("to {} and later, 2 of 4 parts kept", third.display())), "{summary}");
    let gone = Recording::open(&path).unwrap_err().to_string();
    assert!(gone.ends_with(&format!("the oldest one left is {}", third.display())), "{gone}");
    let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["run.3.ndjson", "run.4.ndjson"]);
    // The third part goes on into the fourth; another recording's part does not.
    assert_eq!(read(&folder.path().join("run.3.ndjson")), (all[20..].to_vec(), None));
    let other = Header { started: Moment(1), part: 4, ..header() };
    fs::remove_file(folder.path().join("run.4.ndjson")).unwrap();
    let mut file = fs::File::create(folder.path().join("run.4.ndjson")).unwrap();
    writeln!(file, "{}\n{}", serde_json::to_string(&other).unwrap(), encode(&all[39]).unwrap()).unwrap();
    assert_eq!(read(&folder.path().join("run.3.ndjson")), (all[20..30].to_vec(), None));
}

#[test]
fn nobody_else_reads_a_recording() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = folder.path().join("run.ndjson");
    write(&path, Compression::None, Rotation { size: Some(Bytes(1)), keep: None }, &[sample(0), sample(1)]);
    for part in [1, 2] {
        assert_eq!(fs::metadata(part_path(&path, part)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn the_same_command_goes_on_with_its_recording() {
    for name in ["run.ndjson", "run.ndjson.gz"] {
        let folder = folder();
        let path = folder.path().join(name);
        let all: Vec<Sample> = (0..9).map(sample).collect();
        // A part for each sample, and the last two are kept: 5 and 6 of six. Then a restart at another time.
        let rotation = Rotation { size: Some(Bytes(1)), keep: Some(2) };
        let packed = Compression::of(&path);
        assert_eq!(write(&path, packed, rotation, &all[..5]).oldest, 5);
        let later = Header { started: START.plus_millis(7_000), attach: Some(8), ..header() };
        let mut recorder = Recorder::create(&path, later, packed, rotation).unwrap();
        for sample in &all[6..] {
            assert!(recorder.write(sample).unwrap());
        }
        let written = recorder.finish().unwrap();
        assert_eq!((written.continued, written.parts, written.oldest), (Some(7), 10, 9));
        let summary = written.summary();
        assert!(summary.contains("run.9.ndjson") && summary.contains("this begins in part 7"), "{summary}");
        assert_eq!(read(&part_path(&path, 9)), (all[7..].to_vec(), None));
        // Another plan's is left alone.
        let other = Header { plan: Some(PlanText::new("other", "model: {}", None)), ..header() };
        let error = Recorder::create(&path, other, packed, rotation).unwrap_err();
        assert!(error.to_string().contains("another plan"), "{error}");
    }
}

#[test]
fn a_part_that_a_kill_cut_off_is_followed_by_the_next() {
    let folder = folder();
    let path = folder.path().join("run.ndjson");
    let all: Vec<Sample> = (0..6).map(sample).collect();
    let rotation = Rotation { size: Some(Bytes(1 << 20)), keep: None };
    write(&path, Compression::None, rotation, &all[..4]);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    write(&path, Compression::None, rotation, &all[4..]);
    let (read, damage) = read(&path);
    assert_eq!(read, [&all[..3], &all[4..]].concat());
    let damage = damage.unwrap();
    assert_eq!((damage.line, damage.what.as_str()), (5, "the line breaks off"));
}

#[test]
fn nothing_is_written_over_and_a_full_disk_is_an_error() {
    let folder = folder();
    let path = folder.path().join("run.ndjson");
    fs::write(&path, "mine").unwrap();
    let error = Recorder::create(&path, header(), Compression::None, Rotation::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    let full = Recorder::create(Path::new("/dev/full"), header(), Compression::None, Rotation::default());
    assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let nowhere = folder.path().join("no/such/folder.ndjson");
    assert!(Recorder::create(&nowhere, header(), Compression::None, Rotation::default()).is_err());
}

#[test]
fn what_other_programs_unpack_is_the_same_lines() {
    let folder = folder();
    let (plain, packed) = (folder.path().join("a.ndjson"), folder.path().join("b.ndjson.gz"));
    let all: Vec<Sample> = (0..100).map(sample).collect();
    write(&plain, Compression::None, Rotation::default(), &all);
    let written = write(&packed, Compression::Gzip, Rotation::default(), &all);
    assert_eq!(written.bytes.0, fs::metadata(&packed).unwrap().len());
    let mut text = String::new();
    MultiGzDecoder::new(fs::File::open(&packed).unwrap()).read_to_string(&mut text).unwrap();
    assert_eq!(text, fs::read_to_string(&plain).unwrap());
}
