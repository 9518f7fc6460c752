//! Versions of libraries in a process's own environment, by the folders that `pip` leaves beside them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::observe::ProcessCommand;

/// Libraries whose defaults differ by version.
const LIBRARIES: [&str; 7] = ["torch", "transformers", "trl", "peft", "accelerate", "deepspeed", "axolotl"];

/// Words of launchers before the interpreter.
const MOST_WORDS: usize = 16;

/// No environment has more packages.
const MOST_ENTRIES: usize = 20_000;

/// Versions by name, from the first of the environment's folders that has each: those of `PYTHONPATH`, of the interpreter
/// that runs, and of the virtual environment that is active.
pub fn of_environment(command: &ProcessCommand) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for folder in folders(command) {
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

fn folders(command: &ProcessCommand) -> Vec<PathBuf> {
    let variables = &command.variables;
    let named = |name: &str| variables.get(name).filter(|value| value.starts_with('/')).map(PathBuf::from);
    let python_path = variables.get("PYTHONPATH").into_iter().flat_map(|path| path.split(':'));
    let mut folders: Vec<PathBuf> = python_path
        .filter(|path| path.starts_with('/'))
        .map(|path| on_host(command.root.as_deref(), Path::new(path)))
        .collect();
    // Behind `memwall run --`, `nohup` and their kin it is not among the first words.
    let is_python =
        |word: &&String| Path::new(word).file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    let later = command.words.iter().skip(2).take(MOST_WORDS).filter(is_python);
    let interpreters: Vec<PathBuf> =
        command.words.iter().take(2).chain(later).filter_map(|word| executable(command, word)).collect();
    // `/opt/venv/bin/python`: the environment is the folder above.
    let above =
        |path: &PathBuf| path.parent().filter(|folder| folder.ends_with("bin"))?.parent().map(Path::to_path_buf);
    let variable = |name: &str| named(name).map(|prefix| on_host(command.root.as_deref(), &prefix));
    let variables = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable);
    let prefixes: Vec<PathBuf> = interpreters.iter().filter_map(above).chain(variables).collect();
    folders.extend(prefixes.iter().flat_map(|prefix| packages(prefix)));
    // A virtual environment that does not share them does not see the interpreter's own (`site.py`, `venv`).
    let is_closed = |prefix: &PathBuf| {
        let text = fs::read_to_string(prefix.join("pyvenv.cfg")).ok();
        text.is_some_and(|text| {
            !text.to_ascii_lowercase().replace(' ', "").contains("include-system-site-packages=true")
        })
    };
    if prefixes.iter().any(is_closed) {
        return folders;
    }
    if let Some(home) = variable("HOME") {
        folders.extend(packages(&home.join(".local")));
    }
    // A container's links lead to other files here.
    let followed = interpreters.iter().filter(|_| command.root.is_none());
    let real = followed.filter_map(|path| fs::canonicalize(path).ok());
    folders.extend(real.filter_map(|path| above(&path)).flat_map(|prefix| {
        // Debian's packages of Python lie beside those of pip.
        let local = prefix.join("local");
        packages(&local).into_iter().chain(packages(&prefix)).collect::<Vec<_>>()
    }));
    folders
}

/// Folders of packages below a prefix, of every Python there.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten().map(|entry| entry.path());
    let pythons =
        entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    pythons.flat_map(|python| [python.join("site-packages"), python.join("dist-packages")]).collect()
}

/// The interpreter that a word names, found as the shell found it: by its path, else in the process's own `PATH`.
fn executable(command: &ProcessCommand, word: &str) -> Option<PathBuf> {
    let root = command.root.as_deref();
    if word.contains('/') {
        let path = command.folder.as_deref().map_or_else(|| PathBuf::from(word), |folder| folder.join(word));
        return path.is_absolute().then(|| on_host(root, &path));
    }
    if !word.starts_with("python") && !word.starts_with("pypy") {
        return None;
    }
    let path = command.variables.get("PATH")?;
    let found = path.split(':').filter(|folder| folder.starts_with('/'));
    found.map(|folder| on_host(root, &Path::new(folder).join(word))).find(|path| path.exists())
}

/// Where a path of a container's lies here.
fn on_host(root: Option<&Path>, path: &Path) -> PathBuf {
    match (root, path.strip_prefix("/")) {
        (Some(root), Ok(below)) => root.join(below),
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_names() {
        let of = |name: &str| release(name).map(|(name, version)| format!("{name} {version}"));
        assert_eq!(of("transformers-5.0.1.dist-info").as_deref(), Some("transformers 5.0.1"));
        assert_eq!(of("torch-2.9.0+cu128.dist-info").as_deref(), Some("torch 2.9.0+cu128"));
        assert_eq!(of("torch-1.13.1-py3.11.egg-info").as_deref(), Some("torch 1.13.1"));
        assert_eq!(of("torch"), None);
    }

    fn command(words: &[&str], variables: &[(&str, &str)]) -> ProcessCommand {
        ProcessCommand {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..ProcessCommand::default()
        }
    }

    fn transformers_in(prefix: &Path, version: &str) {
        let site = prefix.join("lib/python3.12/site-packages");
        fs::create_dir_all(site.join(format!("transformers-{version}.dist-info"))).unwrap();
        fs::create_dir_all(site.join("numpy-2.0.0.dist-info")).unwrap();
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::write(prefix.join("bin/python"), "").unwrap();
    }

    #[test]
    fn the_environment_of_the_interpreter_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (venv, other) = (folder.path().join("venv"), folder.path().join("other"));
        transformers_in(&venv, "5.1.0");
        transformers_in(&other, "4.40.0");
        let python = venv.join("bin/python").display().to_string();
        let found = of_environment(&command(&[&python, "train.py"], &[]));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("transformers".to_owned(), "5.1.0".to_owned())]);
        // As the shell finds it, where nothing is activated.
        let path = format!("/nowhere:{}:{}", venv.join("bin").display(), other.join("bin").display());
        for words in [&["python", "train.py"][..], &["memwall", "run", "--", "python", "train.py"]] {
            assert_eq!(of_environment(&command(words, &[("PATH", &path)]))["transformers"], "5.1.0", "{words:?}");
        }
    }

    #[test]
    fn a_closed_environment_has_nothing_of_the_interpreter_that_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let (base, venv) = (folder.path().join("base"), folder.path().join("venv"));
        transformers_in(&base, "4.40.0");
        fs::create_dir_all(venv.join("bin")).unwrap();
        std::os::unix::fs::symlink(base.join("bin/python"), venv.join("bin/python")).unwrap();
        let python = venv.join("bin/python").display().to_string();
        for (shares, found) in [("false", None), ("true", Some("4.40.0"))] {
            fs::write(venv.join("pyvenv.cfg"), format!("include-system-site-packages = {shares}\n")).unwrap();
            let versions = of_environment(&command(&[&python, "train.py"], &[]));
            assert_eq!(versions.get("transformers").map(String::as_str), found);
        }
    }
}
