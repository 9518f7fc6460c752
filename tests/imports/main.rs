//! Training commands of every framework as plans. A case names where its command and its
//! settings stand, and what they mean by that framework's own documentation; files hold only
//! the keys that decide something.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod corpus;
mod garbage;
mod invalid_plans;
mod round_trip;

use std::collections::BTreeMap;
use std::fs;

use memwall::catalog::Catalog;
use memwall::plan::import::{self, Files, ImportedPlan, ProcessView};
use serde::Deserialize;
use serde_json::Value;
use support::catalog;

/// Files as a case gives them.
pub struct CaseFiles(pub BTreeMap<String, String>);

impl Files for CaseFiles {
    fn read(&self, path: &str) -> Result<String, String> {
        self.0.get(path).cloned().ok_or_else(|| format!("{path}: there is no such file"))
    }

    fn absolute(&self, path: &str) -> String {
        format!("/runs/{path}")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Repository and path.
    source: String,
    tool: String,
    /// A command, words separated by blanks; or the name of one of `files`.
    command: Option<String>,
    file: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    ancestors: Vec<String>,
    #[serde(default)]
    gpus: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    expect: BTreeMap<String, Value>,
    /// Keys that nobody tells.
    #[serde(default)]
    missing: Vec<String>,
    /// Keys that must have no value.
    #[serde(default)]
    absent: Vec<String>,
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn imported(case: &Case, catalog: &Catalog) -> ImportedPlan {
    let files = CaseFiles(case.files.clone());
    let run = ProcessView {
        command: case.command.as_deref().map(words).unwrap_or_default(),
        variables: case.environment.clone(),
        ancestors: case.ancestors.iter().map(|line| words(line)).collect(),
        gpus: case.gpus.clone(),
        withheld: false,
        world: None,
        which: None,
        files: &files,
    };
    match &case.file {
        Some(name) => import::file(name, &case.files[name], &run, catalog).unwrap(),
        None => import::run(&run, catalog),
    }
}

/// What is wrong with what was read.
fn faults(case: &Case, imported: &ImportedPlan) -> Vec<String> {
    let mut faults = Vec::new();
    if imported.tool != case.tool {
        faults.push(format!("read as {}", imported.tool));
    }
    for (key, value) in &case.expect {
        match imported.get(key) {
            Some(found) if same(&found.value, value) => {}
            Some(found) => faults.push(format!("{key}: {} ({}) instead of {value}", found.value, found.origin)),
            None => faults.push(format!("{key}: nothing instead of {value}; {:?}", imported.notes)),
        }
    }
    for key in &case.missing {
        if !imported.missing.iter().any(|missing| missing.key == key) {
            faults.push(format!("{key}: not said to be missing"));
        }
    }
    for key in &case.absent {
        if let Some(found) = imported.get(key) {
            faults.push(format!("{key}: {} ({})", found.value, found.origin));
        }
    }
    if let Err(why) = imported.plan() {
        faults.push(format!("no plan: {why:?}"));
    }
    faults
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| (a - b).abs() <= 1e-9 * b.abs())
}

#[test]
fn commands_and_files_of_every_framework_mean_what_they_mean_there() {
    let mut paths: Vec<_> = fs::read_dir("tests/imports/cases").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 20, "only {} cases", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let case: Case = serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(case.source.contains('/'), "{}: no source", path.display());
        let imported = imported(&case, catalog());
        let found = faults(&case, &imported);
        if !found.is_empty() {
            wrong.push(format!("{} ({}):\n  {}", path.display(), case.source, found.join("\n  ")));
        }
        // What is written reads back as the same plan.
        let written = imported.yaml("x");
        let read = memwall::plan::Document::parse(&written).unwrap_or_else(|why| panic!("{why:?}\n{written}"));
        assert_eq!(read.plan(), imported.plan(), "{}\n{written}", path.display());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
