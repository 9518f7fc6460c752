//! The local Hugging Face cache: the config.json of a model by its name on the Hub.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use crate::files;

/// The file of a branch holds the name of a commit.
const MOST_NAME: u64 = 4096;

/// Where the cache is: `$HF_HUB_CACHE`, else `$HF_HOME/hub`, else `~/.cache/huggingface/hub` (huggingface_hub,
/// src/huggingface_hub/constants.py).
fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HF_HUB_CACHE")
        .or_else(|| set("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| set("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("huggingface/hub")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/huggingface/hub")))
}

/// The config.json of a model that was downloaded, `meta-llama/Llama-3.1-8B`: that of its main branch, else of any
/// revision.
///
/// A model lies in `models--OWNER--NAME`, the commit of a branch in `refs/main`, and its files below
/// `snapshots/COMMIT` (huggingface_hub, docs/source/en/guides/manage-cache.md).
pub fn config(name: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let (owner, model) = name.split_once('/')?;
    let plain = |word: &str| {
        !word.is_empty()
            && !word.starts_with('.')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    if !plain(owner) || !plain(model) {
        return None;
    }
    let folder = cache(variable)?.join(format!("models--{owner}--{model}"));
    let main = files::read_text(&folder.join("refs/main"), MOST_NAME).ok();
    let main = main.filter(|commit| plain(commit.trim())).map(|commit| folder.join("snapshots").join(commit.trim()));
    let others = || {
        let mut all: Vec<PathBuf> =
            fs::read_dir(folder.join("snapshots")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        all.sort();
        all
    };
    main.into_iter().chain(others()).map(|snapshot| snapshot.join("config.json")).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_the_main_branch_is_found() {
        let home = tempfile::tempdir().unwrap();
        let model = home.path().join("hub/models--owner--a-model");
        for commit in ["aaa", "bbb"] {
            std::fs::create_dir_all(model.join("snapshots").join(commit)).unwrap();
            std::fs::write(model.join("snapshots").join(commit).join("config.json"), "{}").unwrap();
        }
        let found = || config("owner/a-model", |name| (name == "HF_HOME").then(|| home.path().into()));
        assert_eq!(found().unwrap(), model.join("snapshots/aaa/config.json"), "any revision");
        std::fs::create_dir_all(model.join("refs")).unwrap();
        std::fs::write(model.join("refs/main"), "bbb").unwrap();
        assert_eq!(found().unwrap(), model.join("snapshots/bbb/config.json"));
        // A pipe that nobody writes to is no branch.
        std::fs::remove_file(model.join("refs/main")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(model.join("refs/main")).status().unwrap().success());
        assert_eq!(found().unwrap(), model.join("snapshots/aaa/config.json"));
        for other in ["a-model", "owner/none", "../hub", "owner/../a-model"] {
            assert_eq!(config(other, |name| (name == "HF_HOME").then(|| home.path().into())), None, "{other}");
        }
    }
}
