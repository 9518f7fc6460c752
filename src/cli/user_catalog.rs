//! The catalogue with the user's own files on top.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::catalog::{Catalog, CatalogError};
use crate::compare::{Bands, BandsError};

/// Why there is no catalogue to work with.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A list, embedded or the user's, does not read; it names its file.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The embedded table of bands does not read.
    #[error(transparent)]
    Bands(#[from] BandsError),
    /// A file of the user's is there and cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

/// Any of these may stand in the user's folder, each with the lists of its namesake under `configs/`.
const FILES: [&str; 4] = ["gpus.yaml", "interconnects.yaml", "efficiency.yaml", "models.yaml"];

/// What is embedded, extended by the files in `$XDG_CONFIG_HOME/memwall` (else
/// `~/.config/memwall`). `variable` looks up an environment variable.
///
/// # Errors
/// Where a file does not read, be it one of those inside the binary.
pub fn load(variable: impl Fn(&str) -> Option<OsString>) -> Result<Catalog, LoadError> {
    Bands::check()?;
    let mut catalog = Catalog::embedded()?;
    let Some(folder) = folder(variable) else { return Ok(catalog) };
    for name in FILES {
        let path = folder.join(name);
        let shown = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => catalog.extend(&shown, &text)?,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(LoadError::Unreadable { path: shown, error }),
        }
    }
    Ok(catalog)
}

/// Where the user's files are. A relative `XDG_CONFIG_HOME` counts as unset (XDG base directory specification).
pub fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    based(variable, "XDG_CONFIG_HOME", ".config")
}

/// Where the program keeps what it has learnt: `$XDG_STATE_HOME/memwall`, else `~/.local/state/memwall`.
pub fn state_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    based(variable, "XDG_STATE_HOME", ".local/state")
}

fn based(variable: impl Fn(&str) -> Option<OsString>, base: &str, otherwise: &str) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(base).or_else(|| absolute("HOME").map(|home| home.join(otherwise)))?;
    Some(base.join("memwall"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "
sources: {bench: measured here}
gpus:
- name: NVIDIA H100
  short: Mine
  vendor: nvidia
  architecture: hopper
  memory_gib: {value: 64, source: bench}
  bandwidth_gb_s: {value: 2000, source: bench}
  peak_tflops: {source: bench, bf16: 800}
  link: nvlink_4
";

    #[test]
    fn the_users_own_card_hides_the_embedded_one() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/memwall");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("gpus.yaml"), OWN).unwrap();
        let at_home = |name: &str| (name == "HOME").then(|| home.path().as_os_str().to_owned());
        assert_eq!(load(at_home).unwrap().gpu("h100").unwrap().short, "Mine");
        assert_ne!(load(|_| None).unwrap().gpu("h100").unwrap().short, "Mine");
        let elsewhere = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some(OsString::from("/nowhere")),
            other => at_home(other),
        };
        assert_ne!(load(elsewhere).unwrap().gpu("h100").unwrap().short, "Mine");
    }

    #[test]
    fn a_broken_file_is_named() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("memwall");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("models.yaml"), "models: 3").unwrap();
        let message = load(|name| (name == "XDG_CONFIG_HOME").then(|| home.path().into())).unwrap_err().to_string();
        assert!(message.contains("models.yaml"), "{message}");
    }
}
