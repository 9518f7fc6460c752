//! Every variable of the environment that the program reads stands in a topic of `memwall help`.

use std::collections::BTreeSet;
use std::path::Path;

use super::{path, read};

/// What the program says to its own processes and to those that it starts, and what only tests set.
const OWN: [&str; 6] = [
    "MEMWALL_RUN",
    "MEMWALL_TRACE",
    "MEMWALL_TRACE_TRAINED",
    "MEMWALL_SUPERVISOR",
    "MEMWALL_TEST_MOUNTED",
    "HF_HUB_DISABLE_TELEMETRY",
];

/// What `memwall trace` sets for the libraries that it runs in a folder of its own.
const SET_FOR_OTHERS: [&str; 6] = [
    "HF_HUB_OFFLINE",
    "HF_HUB_DISABLE_PROGRESS_BARS",
    "HF_DATASETS_CACHE",
    "HF_EVALUATE_CACHE",
    "HF_MODULES_CACHE",
    "HF_DEACTIVATE_ASYNC_LOAD",
];

/// Names in quotes that begin as variables of ours, of XDG and of Hugging Face do.
fn named(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (file, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            named(&file, names);
        } else if name.ends_with(".rs") || name.ends_with(".py") {
            let text = std::fs::read_to_string(&file).unwrap();
            let quoted =
                text.split('"').filter(|word| ["MEMWALL_", "XDG_", "HF_"].iter().any(|start| word.starts_with(start)));
            let is_name =
                |word: &&str| word.chars().all(|c| c.is_ascii_uppercase() || c == '_') && !word.ends_with('_');
            names.extend(quoted.filter(is_name).map(str::to_owned));
        }
    }
}

#[test]
fn every_variable_that_is_read_is_explained() {
    let mut names = BTreeSet::new();
    named(&path("src"), &mut names);
    assert!(names.contains("MEMWALL_HOOK") && names.contains("XDG_CONFIG_HOME"), "{names:?}");
    let topics = std::fs::read_dir(path("configs/help")).unwrap().map(|entry| entry.unwrap().path());
    let text: String = topics.map(|topic| std::fs::read_to_string(topic).unwrap()).collect();
    for name in names.iter().filter(|name| !OWN.contains(&name.as_str()) && !SET_FOR_OTHERS.contains(&name.as_str())) {
        // Several of one kind stand together: `MEMWALL_ACCESS_TOKEN`, `_USER`.
        let (kind, last) = name.rsplit_once('_').unwrap();
        let together = text.contains(&format!("`{kind}_")) && text.contains(&format!("`_{last}`"));
        // Those of options stand by their rule.
        let option = name.strip_prefix("MEMWALL_").map(str::to_lowercase);
        let by_rule = option.is_some_and(|option| read("configs/help/config.md").contains(&format!("`{option}`")));
        assert!(text.contains(&format!("`{name}`")) || together || by_rule, "{name} is in no topic");
    }
}
