//! What the fuzz targets feed bytes to. Nothing here may panic but for a broken promise.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use memwall::app::{AlertRules, Keymap};
use memwall::catalog::Catalog;
use memwall::files::Unread;
use memwall::import::{Files, ProcessView, file};
use memwall::observe::hook::{Directory, Listener};
use memwall::observe::log::{Log, Pattern};
use memwall::observe::{Access, Prometheus, Recording, Samples};
use memwall::plan::traced::read_trace;
use memwall::plan::{Document, Fault};
use memwall::predict::{Prediction, of};
use memwall::reading::Moment;
use memwall::report::recording::RecordingSummary;
use memwall::ui::Theme;
use serde_json::{Value, json};

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().expect("the embedded catalogue is well-formed"))
}

fn predicted(text: &str) -> Result<Prediction, Vec<Fault>> {
    let prediction = of(&Document::parse(text)?.plan()?, catalog())?;
    for stage in &prediction.stages {
        let terms: u64 = stage.terms.iter().map(|term| term.bytes.0).sum();
        assert_eq!(terms, stage.device_used.0, "the terms of stage {} are not its total", stage.stage);
    }
    assert!(prediction.time.step.0.is_finite(), "a step takes {:?}", prediction.time.step);
    Ok(prediction)
}

/// The bytes of a plan file, whether it was predicted.
pub fn plan(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| predicted(text).is_ok())
}

/// The bytes of a `config.json`, whether it was predicted.
pub fn config(bytes: &[u8]) -> bool {
    let Ok(Value::Object(config)) = serde_json::from_slice(bytes) else { return false };
    let read = memwall::model::from_hf(&config);
    let plan = json!({"model": {"hf_config": config}});
    let found = predicted(&plan.to_string());
    assert!(read.is_ok() || found.is_err(), "predicted what could not be read");
    found.is_ok()
}

/// The bytes of a PyTorch memory snapshot, whether it was read.
pub fn snapshot(bytes: &[u8]) -> bool {
    let Ok(devices) = memwall::observe::snapshot::read(bytes, memwall::units::Bytes(64 << 20)) else { return false };
    for device in &devices {
        let terms = device.terms.iter().fold(0_u64, |sum, term| sum.saturating_add(term.bytes.0));
        assert_eq!(terms, device.allocated.0, "the terms of device {} are not its total", device.device);
    }
    true
}

/// The bytes of a text, whether it has an out-of-memory message with figures.
pub fn message(bytes: &[u8]) -> bool {
    let found = memwall::observe::out_of_memory::find(&String::from_utf8_lossy(bytes));
    found.is_some_and(|found| found.asked.is_some() && found.elsewhere().is_some())
}

/// Another tool's file of that name, whether it was read as a plan.
fn imported(name: &str, bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(imported) = file(name, text, &ProcessView::of(Vec::new(), &NoFiles), catalog()) else { return false };
    assert!(Document::parse(&imported.yaml("x")).is_ok(), "the plan that it was read as is none");
    true
}

/// No file that another one names can be read.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str) -> Result<String, Unread> {
        Err(Unread("there is no such file".to_owned()))
    }

    fn absolute(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// The bytes of a TOML file of torchtitan.
pub fn toml(bytes: &[u8]) -> bool {
    imported("a.toml", bytes)
}

/// The bytes of a YAML file of another tool.
pub fn yaml(bytes: &[u8]) -> bool {
    imported("a.yaml", bytes)
}

/// The bytes of a shell script.
pub fn shell(bytes: &[u8]) -> bool {
    imported("a.sh", bytes)
}

/// The bytes of a Python script.
pub fn python(bytes: &[u8]) -> bool {
    imported("a.py", bytes)
}

/// A file with these bytes, of this thread alone.
fn written(name: &str, bytes: &[u8]) -> PathBuf {
    thread_local!(static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder"));
    let path = FOLDER.with(|folder| folder.path().join(name));
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// The bytes of a training log, whether it told of progress.
pub fn log(bytes: &[u8]) -> bool {
    let mut log = Log::of_files(vec![written("a.log", bytes)], None);
    while log.read(Moment(1)) {}
    log.format().is_some()
}

/// The bytes of a logger's file of events, whether it told of progress.
pub fn events(bytes: &[u8]) -> bool {
    ["a.wandb", "a.tfevents.1"].iter().any(|name| {
        let mut log = Log::at(written(name, bytes), None);
        while log.read(Moment(1)) {}
        log.format().is_some()
    })
}

/// The bytes of a pattern for lines of logs, whether it is one.
pub fn pattern(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| Pattern::new(text).is_ok())
}

/// The bytes of a datagram of the hook's, whether a run was told of.
pub fn hook(bytes: &[u8]) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("hooks").into_os_string();
    let directory = Directory::open(|name| (name == "MEMWALL_HOOK_DIR").then(|| place.clone())).expect("a directory");
    let mut listener = Listener::bind(&directory).expect("a socket");
    let sender = UnixDatagram::unbound().expect("a socket");
    if sender.send_to(bytes, listener.path()).is_err() {
        return false;
    }
    listener.listen(Duration::from_millis(20), || Moment(1)).is_ok() && !listener.runs().is_empty()
}

/// The bytes of a recording, whether all of it can be played.
pub fn recording(bytes: &[u8]) -> bool {
    let gzip = bytes.starts_with(&[0x1f, 0x8b]);
    let path = written(if gzip { "a.ndjson.gz" } else { "a.ndjson" }, bytes);
    let Ok(recording) = Recording::open(&path) else { return false };
    let mut samples = Samples::of(recording);
    let last = samples.recording().len() - 1;
    samples.find_event(0, true);
    samples.find_event(last, false);
    let summary = RecordingSummary::of(&mut samples);
    // What is said of it is written for people and for programs.
    assert!(!summary.text(80).is_empty() && summary.json().is_object() && summary.csv().is_ok());
    summary.damage.is_none()
}

/// The bytes of an exporter's page, whether a GPU was found on it.
pub fn prometheus(bytes: &[u8]) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let page = bytes.to_vec();
    let served = std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        // Whatever is asked for.
        let _ = stream.read(&mut [0; 4096]);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
        // A reader that has had enough goes away.
        drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&page)));
    });
    let found = Prometheus::open(&format!("http://{address}/metrics"), Access::default(), catalog().clone()).is_ok();
    drop(served.join());
    found
}

fn parsed<T, E>(bytes: &[u8], parse: impl Fn(&str) -> Result<T, E>) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| parse(text).is_ok())
}

/// The bytes of a theme, whether it is one.
pub fn theme(bytes: &[u8]) -> bool {
    parsed(bytes, |text| Theme::parse("a", text))
}

/// The bytes of a key map, whether it is one.
pub fn keys(bytes: &[u8]) -> bool {
    parsed(bytes, Keymap::parse)
}

/// The bytes of rules for alerts, whether they are some.
pub fn alerts(bytes: &[u8]) -> bool {
    parsed(bytes, AlertRules::parse)
}

/// The bytes of a tape of a traced model, whether it was read.
pub fn trace(bytes: &[u8]) -> bool {
    let gzip = bytes.starts_with(&[0x1f, 0x8b]);
    let path: PathBuf = written(if gzip { "a.tape.json.gz" } else { "a.tape.json" }, bytes);
    read_trace(Path::new(&path)).is_ok()
}
