//! Versions of libraries in a process's own environment, by the folders that `pip` leaves beside them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Libraries whose defaults differ by version.
const LIBRARIES: [&str; 6] = ["torch", "transformers", "trl", "peft", "accelerate", "deepspeed"];

/// No environment has more packages.
const MOST_ENTRIES: usize = 20_000;

/// Versions by name, from the first of the environment's folders that has each: those of `PYTHONPATH`, of the virtual
/// environment, and of the interpreter that runs. `root` is where a container's files lie.
pub fn of_environment(
    words: &[String],
    variables: &BTreeMap<String, String>,
    root: Option<&Path>,
) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for folder in folders(words, variables) {
        let folder = match (root, folder.strip_prefix("/")) {
            (Some(root), Ok(below)) => root.join(below),
            _ => folder,
        };
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten().take(MOST_ENTRIES) {
            if let Some((name, version)) = entry.file_name().to_str().and_then(release)
                && LIBRARIES.contains(&name.as_str())
            {
                versions.entry(name).or_insert(version);
            }
        }
    }
    versions
}

/// `transformers-4.57.1.dist-info`, also `.egg-info` as distributions leave it.
fn release(name: &str) -> Option<(String, String)> {
    let stem = name.strip_suffix(".dist-info").or_else(|| name.strip_suffix(".egg-info"))?;
    let (name, version) = stem.split_once('-')?;
    let version = version.split("-py").next().unwrap_or(version);
    Some((name.to_lowercase().replace('_', "-"), version.to_owned()))
}

fn folders(words: &[String], variables: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let named = |name: &str| variables.get(name).filter(|value| value.starts_with('/'));
    for path in variables.get("PYTHONPATH").into_iter().flat_map(|path| path.split(':')) {
        if path.starts_with('/') {
            folders.push(PathBuf::from(path));
        }
    }
    // `/opt/venv/bin/python`: the environment is the folder above.
    let interpreter = words.iter().take(2).find_map(|word| {
        let path = Path::new(word);
        let bin = path.parent().filter(|folder| folder.ends_with("bin") && path.is_absolute())?;
        bin.parent().map(Path::to_path_buf)
    });
    let prefixes = [named("VIRTUAL_ENV").map(PathBuf::from), interpreter, named("CONDA_PREFIX").map(PathBuf::from)];
    for prefix in prefixes.into_iter().flatten() {
        let lib = prefix.join("lib");
        let versions = fs::read_dir(&lib).into_iter().flatten().flatten().map(|entry| entry.path());
        let pythons =
            versions.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
        for python in pythons {
            folders.push(python.join("site-packages"));
            folders.push(python.join("dist-packages"));
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::{of_environment, release};
    use std::collections::BTreeMap;

    #[test]
    fn releases_are_read_from_names() {
        let of = |name: &str| release(name).map(|(name, version)| format!("{name} {version}"));
        assert_eq!(of("transformers-5.0.1.dist-info").as_deref(), Some("transformers 5.0.1"));
        assert_eq!(of("torch-2.9.0+cu128.dist-info").as_deref(), Some("torch 2.9.0+cu128"));
        assert_eq!(of("torch-1.13.1-py3.11.egg-info").as_deref(), Some("torch 1.13.1"));
        assert_eq!(of("torch"), None);
    }

    #[test]
    fn the_environment_of_the_interpreter_counts() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("venv/lib/python3.12/site-packages");
        std::fs::create_dir_all(site.join("transformers-5.1.0.dist-info")).unwrap();
        std::fs::create_dir_all(site.join("numpy-2.0.0.dist-info")).unwrap();
        let python = folder.path().join("venv/bin/python").display().to_string();
        let found = of_environment(&[python, "train.py".to_owned()], &BTreeMap::new(), None);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("transformers".to_owned(), "5.1.0".to_owned())]);
    }
}
