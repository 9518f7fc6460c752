//! Plans as files: reading one with what it refers to, and saving one so that nothing is
//! lost on the way. Faults do not name the file itself: whoever asked for it does.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::document::{Document, MAX_BYTES, place_of, too_large};
use super::fault::{Fault, Mark};
use super::keys::{self, Plan};
use super::types::HfConfig;

/// A plan with its text and where both come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The text as it was read.
    pub document: Document,
    /// What it says; `hf_config` is always inline.
    pub plan: Plan,
    /// The file's name without folder and ending, or what the plan was called.
    pub name: String,
    /// The file; none for an example or standard input.
    pub path: Option<PathBuf>,
}

impl Loaded {
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
    /// As [`Loaded::load`].
    pub fn from_text(name: &str, text: &str) -> Result<Self, Vec<Fault>> {
        Self::from_document(name, Document::parse(text)?)
    }

    /// The same for a document of a stream.
    ///
    /// # Errors
    /// As [`Loaded::load`].
    pub fn from_document(name: &str, document: Document) -> Result<Self, Vec<Fault>> {
        let plan = plan_of(&document, Path::new(""))?;
        Ok(Self { document, plan, name: name.to_owned(), path: None })
    }

    /// The plan of an edited text of this file: paths in it start where they did.
    ///
    /// # Errors
    /// As [`Loaded::load`].
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
            vec![document.placed(Fault::of(key, message))]
        })?;
        plan.model.hf_config = Some(HfConfig::Inline(config));
    }
    Ok(plan)
}

/// Whether a file's content is anything but `text`.
#[must_use]
pub fn differs(path: &Path, text: &str) -> bool {
    read_bytes(path).map_or(true, |bytes| bytes != text.as_bytes())
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
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a plan's file.
///
/// # Errors
/// Where it cannot be read, is too large or no UTF-8.
pub fn read_text(path: &Path) -> Result<String, Fault> {
    let bytes = read_bytes(path).map_err(|error| Fault::of("", reason(&error)))?;
    if bytes.len() > MAX_BYTES {
        let long = fs::metadata(path).map_or(bytes.len() as u64, |meta| meta.len().max(bytes.len() as u64));
        return Err(too_large(&bytes, long));
    }
    decoded(bytes)
}

fn decoded(bytes: Vec<u8>) -> Result<String, Fault> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let start = Mark { line: 1, column: 1 };
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

/// A Hugging Face configuration: the file, or the directory of the model that holds it.
///
/// # Errors
/// In one line, why it cannot be read or is none.
pub fn read_config(path: &Path) -> Result<Map<String, Value>, String> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let shown = file.display();
    let text = read_text(&file).map_err(|fault| format!("{shown}: {fault}"))?;
    let config = match serde_json::from_str(&text) {
        Ok(Value::Object(config)) => config,
        Ok(_) => return Err(format!("{shown}: not a JSON object")),
        // Python writes `Infinity` and `NaN`, which JSON does not have and YAML reads as words.
        Err(error) => match Document::parse(&text) {
            Ok(document) if document.is_json() => document.root().to_json_map(),
            _ => return Err(format!("{shown}: not JSON: {error}")),
        },
    };
    if ["model_type", "_class_name", "architectures"].iter().any(|key| config.contains_key(*key)) {
        Ok(config)
    } else {
        let keys = "none of `model_type`, `_class_name` and `architectures`";
        Err(format!("{shown}: not a model's config.json: it has {keys}"))
    }
}

/// Writes a file so that it holds either the old text or the new, whatever happens: the new
/// one is written beside it and takes its place when it is on the disk. The mode stays; a
/// link stays and what it points to changes.
///
/// # Errors
/// Where that is not possible; the file is untouched then.
pub fn save(path: impl AsRef<Path>, text: &str) -> Result<(), Fault> {
    let path = path.as_ref();
    replace(path, text).map_err(|error| Fault::of("", format!("not saved: {}", reason(&error))))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = followed(path)?;
    let permissions = match fs::metadata(&target) {
        Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("this is not a file")),
        // Whoever may write all the same has to say so to the file system first.
        Ok(meta) if meta.permissions().readonly() => return Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        Ok(meta) => {
            // A rename would replace what its owner has protected against writing.
            OpenOptions::new().write(true).open(&target)?;
            Some(meta.permissions())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".memwall-").suffix(".tmp");
    #[cfg(unix)]
    if permissions.is_none() {
        // As any new file has it, the user's mask taken off.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    if !folder.exists() {
        return Err(io::Error::other("there is no such folder"));
    }
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(&target)?;
    // So that the new name is on the disk too; not every file system can.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// What a chain of links ends at, also where nothing is there yet.
fn followed(path: &Path) -> io::Result<PathBuf> {
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
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
        let faults = Loaded::load(path).unwrap_err();
        assert_eq!(faults.len(), 1);
        faults[0].to_string()
    }

    #[test]
    fn a_file_gives_plan_name_and_path() {
        let (_folder, path) = folder_with("my plan.v2.yaml", "model: {batch_size: 3}\n");
        let loaded = Loaded::load(&path).unwrap();
        assert_eq!(loaded.plan.model.batch_size, Some(3));
        assert_eq!(loaded.name, "my plan.v2");
        assert_eq!(loaded.path.as_deref(), Some(path.as_path()));
        assert!(!loaded.changed_on_disk());
        fs::write(&path, "model: {batch_size: 4}\n").unwrap();
        assert!(loaded.changed_on_disk());
        fs::remove_file(&path).unwrap();
        assert!(loaded.changed_on_disk());
        assert!(!Loaded::from_text("stdin", "").unwrap().changed_on_disk());
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
        assert!(refused(Path::new("/dev/zero")).contains("too large"));
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
        let Some(HfConfig::Inline(read)) = Loaded::load(&path).unwrap().plan.model.hf_config else { panic!() };
        assert_eq!(read["eps"], 1e-5);
        fs::write(&path, "model:\n  hf_config: llama\n").unwrap();
        assert!(
            matches!(Loaded::load(&path).unwrap().plan.model.hf_config, Some(HfConfig::Inline(_))),
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
    fn saving_keeps_mode_and_links_and_leaves_nothing_beside() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let (folder, path) = folder_with("plan.yaml", "model: {}\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link.yaml");
        symlink("plan.yaml", &link).unwrap();
        save(&link, "run: {}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "run: {}\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let new = folder.path().join("new.yaml");
        save(&new, "a").unwrap();
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o600, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn what_cannot_be_saved_stays_as_it_is() {
        let (folder, path) = folder_with("plan.yaml", "model: {}\n");
        assert!(save(folder.path(), "x").unwrap_err().message.contains("not saved: this is a directory"));
        assert!(save(folder.path().join("no/such.yaml"), "x").unwrap_err().message.contains("no such folder"));
        assert!(save(path.join("below"), "x").is_err());
        let circle = folder.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(save(&circle, "x").unwrap_err().message.contains("too many links"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "model: {}\n");
    }

    #[test]
    fn every_example_loads() {
        for (name, text) in crate::plan::EXAMPLES {
            assert_eq!(Loaded::from_text(name, text).unwrap().name, *name);
        }
    }
}
