//! Plans as files: reading one with what it refers to. Faults do not name the file itself: whoever asked for it does.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

use serde_json::{Map, Value};

use super::document::{Document, MAX_BYTES, place_of, too_large};
use super::fault::{Fault, TextPosition};
use super::keys::{self, Plan};
use super::keywords::Mode;
use super::traced::{TracedModel, TracedPass, read_trace};
use super::types::{HfConfig, ModelTrace};
use crate::files;

/// A plan with its text and where both come from.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedPlan {
    /// The text as it was read.
    pub document: Document,
    /// What it says; `hf_config` is always inline.
    pub plan: Plan,
    /// The file's name without folder and ending, or what the plan was called.
    pub name: String,
    /// The file; none for an example or standard input.
    pub path: Option<PathBuf>,
}

impl LoadedPlan {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it cannot be read, is no plan, or refers to a configuration that cannot be read.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Vec<Fault>> {
        let path = path.as_ref();
        let text = read_text(path).map_err(|fault| vec![fault])?;
        let document = Document::parse(&text)?;
        let plan = plan_of(&document, folder(path))?;
        Ok(Self { document, plan, name: name_of(path), path: Some(path.to_owned()) })
    }

    /// Reads a text that is in no file: an example, or standard input. Paths in it are
    /// relative to the working directory.
    ///
    /// # Errors
    /// As [`LoadedPlan::load`].
    pub fn from_text(name: &str, text: &str) -> Result<Self, Vec<Fault>> {
        Self::from_document(name, Document::parse(text)?)
    }

    /// The same for a document of a stream.
    ///
    /// # Errors
    /// As [`LoadedPlan::load`].
    pub fn from_document(name: &str, document: Document) -> Result<Self, Vec<Fault>> {
        let plan = plan_of(&document, Path::new(""))?;
        Ok(Self { document, plan, name: name.to_owned(), path: None })
    }

    /// The plan of an edited text of this file: paths in it start where they did.
    ///
    /// # Errors
    /// As [`LoadedPlan::load`].
    pub fn plan_of(&self, edited: &Document) -> Result<Plan, Vec<Fault>> {
        plan_of(edited, self.path.as_deref().map_or(Path::new(""), folder))
    }

    /// Whether the file holds something else now than when it was read, so that saving
    /// would undo another's work. A file that cannot be read any more counts as changed.
    #[must_use]
    pub fn changed_on_disk(&self) -> bool {
        self.path.as_deref().is_some_and(|path| differs(path, self.document.text()))
    }
}

/// The plan of a document, with a configuration that it names by path read in. `folder` is
/// where relative paths start.
///
/// # Errors
/// What [`Document::plan`] finds, or why the configuration cannot be read.
pub fn plan_of(document: &Document, folder: &Path) -> Result<Plan, Vec<Fault>> {
    let mut plan = document.plan()?;
    if let Some(HfConfig::Path(written)) = &plan.model.hf_config {
        let config = read_config(&folder.join(written)).map_err(|message| {
            let key = keys::model::hf_config;
            vec![document.placed(Fault::of(key, message.to_string()))]
        })?;
        plan.model.hf_config = Some(HfConfig::Inline(config));
    }
    if let Some(ModelTrace::Path(written)) = &plan.model.trace {
        let trace = read_trace(&folder.join(written)).map_err(|why| {
            let why = format!("{}: {why}", folder.join(written).display());
            vec![document.placed(Fault::of(keys::model::trace, why))]
        })?;
        plan.take_trace(trace);
    }
    Ok(plan)
}

impl Plan {
    /// The trace that it names, where that was read.
    #[must_use]
    pub fn trace(&self) -> Option<&Arc<TracedModel>> {
        match &self.model.trace {
            Some(ModelTrace::Read(trace)) => Some(trace),
            _ => None,
        }
    }

    /// Puts a trace in the place of its path. One of a forward pass is for inference, where the plan says nothing.
    pub fn take_trace(&mut self, trace: Arc<TracedModel>) {
        if trace.pass == TracedPass::Forward {
            self.training.mode.get_or_insert(Mode::Inference);
        }
        self.model.trace = Some(ModelTrace::Read(trace));
    }
}

/// Whether a file's content is anything but `text`.
#[must_use]
pub fn differs(path: &Path, text: &str) -> bool {
    read_bytes(files::open(path)).map_or(true, |bytes| bytes != text.as_bytes())
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// What the plan of a file is called: the file's name without folder and ending.
#[must_use]
pub fn name_of(path: &Path) -> String {
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// The file's bytes, not more than a plan may have and one.
fn read_bytes(file: io::Result<File>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a plan's file, which a user has named.
///
/// # Errors
/// Where it cannot be read, is too large or no UTF-8.
pub fn read_text(path: &Path) -> Result<String, Fault> {
    text_of(path, files::open_argument(path))
}

fn text_of(path: &Path, file: io::Result<File>) -> Result<String, Fault> {
    let bytes = read_bytes(file).map_err(|error| Fault::of("", reason(&error)))?;
    if bytes.len() > MAX_BYTES {
        let long = fs::metadata(path).map_or(bytes.len() as u64, |meta| meta.len().max(bytes.len() as u64));
        return Err(too_large(&bytes, long));
    }
    decoded(bytes)
}

/// The text of bytes that were read elsewhere.
///
/// # Errors
/// Where they are no UTF-8.
pub fn decoded(bytes: Vec<u8>) -> Result<String, Fault> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let start = TextPosition { line: 1, column: 1 };
        return Err(Fault::of("", "the text is UTF-16; save it as UTF-8").placed(Some(start)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (byte, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let value = bytes.get(byte).copied().unwrap_or_default();
        let message =
            format!("not UTF-8 text: byte {byte} is 0x{value:02x}, which no letter has here; save it as UTF-8");
        Fault::of("", message).placed(Some(place_of(bytes, byte)))
    })
}

/// Why a file cannot be read or written, in words that need no knowledge of error numbers.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "no permission".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "read-only".to_owned(),
        io::ErrorKind::StorageFull => "no space left on the disk".to_owned(),
        io::ErrorKind::IsADirectory => "this is a directory, not a file".to_owned(),
        _ => error.to_string(),
    }
}

/// A configuration with the names of twenty thousand classes has less.
const MOST_VALUES: usize = 400_000;

/// Why a model's configuration cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {why}", path.display())]
pub struct ConfigFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: ConfigFault,
}

/// What is wrong with a file that should be a model's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigFault {
    /// It is not there, or is no text.
    #[error("{0}")]
    Unreadable(Fault),
    /// Larger than any model's.
    #[error("not a model's config.json: more than {MOST_VALUES} values")]
    TooManyValues,
    /// JSON of something else.
    #[error("not a JSON object")]
    NoObject,
    /// No JSON.
    #[error("not JSON: {0}")]
    NoJson(String),
    /// An object that names no model.
    #[error("not a model's config.json: it has none of `model_type`, `_class_name` and `architectures`")]
    NoModel,
}

/// A Hugging Face configuration: the file, or the directory of the model that holds it.
///
/// # Errors
/// Why it cannot be read or is none.
pub fn read_config(path: &Path) -> Result<Map<String, Value>, ConfigFileError> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let refused = |why: ConfigFault| ConfigFileError { path: file.clone(), why };
    let text = text_of(&file, files::open(&file)).map_err(|fault| refused(ConfigFault::Unreadable(fault)))?;
    if files::most_json_values(text.as_bytes()) > MOST_VALUES {
        return Err(refused(ConfigFault::TooManyValues));
    }
    let config = match serde_json::from_str(&text) {
        Ok(Value::Object(config)) => config,
        Ok(_) => return Err(refused(ConfigFault::NoObject)),
        // Python writes `Infinity` and `NaN`, which JSON does not have and YAML reads as words.
        Err(error) => match Document::parse(&text) {
            Ok(document) if document.is_json() => document.root().to_json_map(),
            _ => return Err(refused(ConfigFault::NoJson(error.to_string()))),
        },
    };
    if ["model_type", "_class_name", "architectures"].iter().any(|key| config.contains_key(*key)) {
        Ok(config)
    } else {
        Err(refused(ConfigFault::NoModel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(name: &str, content: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn refused(path: &Path) -> String {
        let faults = LoadedPlan::load(path).unwrap_err();
        assert_eq!(faults.len(), 1);
        faults[0].to_string()
    }

    #[test]
    fn a_file_gives_plan_name_and_path() {
        let (_folder, path) = folder_with("my plan.v2.yaml", "model: {batch_size: 3}\n");
        let loaded = LoadedPlan::load(&path).unwrap();
        assert_eq!(loaded.plan.model.batch_size, Some(3));
        assert_eq!(loaded.name, "my plan.v2");
        assert_eq!(loaded.path.as_deref(), Some(path.as_path()));
        assert!(!loaded.changed_on_disk());
        fs::write(&path, "model: {batch_size: 4}\n").unwrap();
        assert!(loaded.changed_on_disk());
        fs::remove_file(&path).unwrap();
        assert!(loaded.changed_on_disk());
        assert!(!LoadedPlan::from_text("stdin", "").unwrap().changed_on_disk());
    }

    #[test]
    fn what_is_no_readable_file_is_said_in_one_line() {
        let (folder, path) = folder_with("a.yaml", b"model:\n  preset: \xff\n");
        assert!(refused(&path).starts_with("2:11: not UTF-8 text: byte 17 is 0xff,"));
        fs::write(&path, b"a: \xc3\xa4 b \xc3\nc: 1\n").unwrap();
        assert!(refused(&path).starts_with("1:8: not UTF-8 text: byte 8 is 0xc3,"), "columns are letters");
        fs::write(&path, b"\xff\xfem\0o\0").unwrap();
        assert!(refused(&path).contains("UTF-16"));
        assert!(refused(&folder.path().join("none.yaml")) == "there is no such file");
        assert!(refused(folder.path()) == "this is a directory, not a file");
        fs::write(&path, vec![b'#'; 10_000_001]).unwrap();
        assert!(refused(&path).starts_with("1:10000001: 10000001 bytes are too large"));
        assert!(refused(Path::new("/dev/zero")).contains("not a regular file"));
    }

    #[test]
    fn a_configuration_is_found_beside_the_plan() {
        let (folder, path) = folder_with("plan.yaml", "model:\n  hf_config: llama/config.json\n");
        assert_eq!(
            refused(&path),
            format!(
                "2:14: model.hf_config: {}: there is no such file",
                folder.path().join("llama/config.json").display()
            )
        );
        fs::create_dir(folder.path().join("llama")).unwrap();
        let config = folder.path().join("llama/config.json");
        fs::write(
            &config,
            "{\"model_type\": \"llama\", \"time_step_limit\": [0.0, Infinity], \"n\": \"\\ud83e\\udd80\"}",
        )
        .unwrap();
        // Not JSON because of `Infinity`, not YAML because of the surrogate pair: told as JSON's fault.
        assert!(refused(&path).contains("not JSON"));
        fs::write(&config, "{\"model_type\": \"llama\", \"time_step_limit\": [0.0, Infinity], \"eps\": 1e-05}")
            .unwrap();
        let Some(HfConfig::Inline(read)) = LoadedPlan::load(&path).unwrap().plan.model.hf_config else { panic!() };
        assert_eq!(read["eps"], 1e-5);
        fs::write(&path, "model:\n  hf_config: llama\n").unwrap();
        assert!(
            matches!(LoadedPlan::load(&path).unwrap().plan.model.hf_config, Some(HfConfig::Inline(_))),
            "the model's directory"
        );
    }

    #[test]
    fn a_file_of_another_kind_is_no_configuration() {
        let (folder, path) = folder_with("plan.yaml", "model: {hf_config: other.json}\n");
        let other = folder.path().join("other.json");
        for (content, said) in [
            ("{\"zero_optimization\": {\"stage\": 2}}", "not a model's config.json"),
            ("[1, 2]", "not a JSON object"),
            ("model_type: llama\n", "not JSON"),
            ("{\"model_type\": ", "not JSON"),
            ("", "not JSON"),
        ] {
            fs::write(&other, content).unwrap();
            let message = refused(&path);
            assert!(message.starts_with("1:20: model.hf_config: ") && message.contains(said), "{message}");
        }
    }

    #[test]
    fn every_example_loads() {
        for (name, text) in crate::plan::EXAMPLES {
            assert_eq!(LoadedPlan::from_text(name, text).unwrap().name, *name);
        }
    }
}
