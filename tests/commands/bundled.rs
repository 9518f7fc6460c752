//! Every file that is built into the program reads: none is left out of this, and none has a default behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use memwall::catalog::Catalog;
use memwall::compare::Bands;
use memwall::observe::trace::install;
use memwall::plan::{EXAMPLES, LoadedPlan};
use memwall::ui::{EMBEDDED, Theme};

/// The YAML files of a folder, by their names without the ending.
fn files(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let yaml = paths.filter(|path: &PathBuf| path.extension().is_some_and(|ending| ending == "yaml"));
    yaml.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn names(of: &[(&str, &str)]) -> BTreeSet<String> {
    of.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[test]
fn the_tables_read() {
    let known = ["accuracy", "efficiency", "gpus", "interconnects", "models"].map(str::to_owned);
    assert_eq!(files("configs"), BTreeSet::from(known));
    let catalog = Catalog::embedded().unwrap_or_else(|error| panic!("{error}"));
    assert!(!catalog.gpus.is_empty() && !catalog.links.is_empty() && !catalog.models.is_empty());
    assert!(!catalog.curves.is_empty() && !catalog.stacks.is_empty());
    for model in catalog.models.iter() {
        assert!(!model.hf_config.is_empty(), "{}", model.name);
    }
    Bands::check().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_themes_read() {
    assert_eq!(files("themes"), names(EMBEDDED));
    for (name, text) in EMBEDDED {
        Theme::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_example_plans_read() {
    assert_eq!(files("configs/plans"), names(EXAMPLES));
    for (name, text) in EXAMPLES {
        LoadedPlan::from_text(name, text).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
    }
}

/// The tracer goes in packed: what comes out is its folder, but for the module that writes it.
#[test]
fn the_tracer_is_written_whole() {
    let (from, to) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("src/observe/trace"), tempfile::tempdir().unwrap());
    let started = install(to.path()).unwrap();
    assert!(started.is_file());
    let texts = |folder: &Path| -> BTreeMap<OsString, String> {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let sources = paths.filter(|path| path.extension().is_some_and(|ending| ending != "rs"));
        sources.map(|path| (path.file_name().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())).collect()
    };
    assert_eq!(texts(&from), texts(to.path()));
}
