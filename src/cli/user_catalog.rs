//! The catalogue with the user's own files on top.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::catalog::Catalog;
use crate::compare::Bands;
use crate::files;

/// Any of these may stand in the user's folder, each with the lists of its namesake under `configs/`.
const FILES: [&str; 4] = ["gpus.yaml", "interconnects.yaml", "efficiency.yaml", "models.yaml"];

/// Larger than all files of the catalogue together.
const MOST_BYTES: u64 = 1 << 20;

/// What is embedded, extended by the files in `$XDG_CONFIG_HOME/memwall` (else
/// `~/.config/memwall`), and a line for each file and entry that cannot be used. `variable` looks up an environment variable.
pub fn load(variable: impl Fn(&str) -> Option<OsString>) -> (Catalog, Vec<String>) {
    let mut catalog = match Catalog::embedded() {
        Ok(catalog) => catalog,
        Err(error) => return (Catalog::default(), vec![error.to_string()]),
    };
    let mut faults: Vec<String> = Bands::check().err().map(|error| error.to_string()).into_iter().collect();
    let Some(folder) = folder(variable) else { return (catalog, faults) };
    for name in FILES {
        let path = folder.join(name);
        let shown = path.display().to_string();
        match files::read_text(&path, MOST_BYTES) {
            Ok(text) => faults.extend(catalog.extend_own(&shown, &text)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => faults.push(format!("{shown}: {error}")),
        }
    }
    (catalog, faults)
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
        assert_eq!(load(at_home).0.gpu("h100").unwrap().short, "Mine");
        assert_ne!(load(|_| None).0.gpu("h100").unwrap().short, "Mine");
        let elsewhere = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some(OsString::from("/nowhere")),
            other => at_home(other),
        };
        assert_ne!(load(elsewhere).0.gpu("h100").unwrap().short, "Mine");
    }

    /// A million brackets took the parser minutes.
    #[test]
    fn a_file_that_nests_without_end_is_refused_at_once() {
        let mut catalog = Catalog::embedded().unwrap();
        for text in ["{a: ".repeat(100_000), "gpus: ".to_owned() + &"[".repeat(900_000), "- ".repeat(500_000)] {
            let begun = std::time::Instant::now();
            let fault = catalog.extend("gpus.yaml", &text).unwrap_err().to_string();
            assert_eq!(fault, "gpus.yaml: nested too deep");
            assert!(begun.elapsed().as_secs() < 2);
        }
    }

    #[test]
    fn a_broken_file_is_named() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("memwall");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("models.yaml"), "models: 3").unwrap();
        std::fs::write(folder.join("gpus.yaml"), OWN).unwrap();
        let (catalog, faults) = load(|name| (name == "XDG_CONFIG_HOME").then(|| home.path().into()));
        assert!(faults.len() == 1 && faults[0].contains("models.yaml"), "{faults:?}");
        assert_eq!(catalog.gpu("h100").unwrap().short, "Mine", "the others are read");
    }
}
