//! The import rules of the house: a module imports only from those above it in this list.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From the top of the house down. What stands in one row may not import each other.
const ORDER: &[&[&str]] = &[
    &["printable"],
    &["ascii"],
    &["manual"],
    &["files"],
    &["packed"],
    &["order"],
    &["units"],
    &["reading"],
    &["catalog"],
    &["plan"],
    &["framework"],
    &["model"],
    &["predict"],
    &["bench"],
    &["import"],
    &["advise"],
    &["lessons"],
    &["observe"],
    &["compare"],
    &["report"],
    &["prelude"],
    &["app"],
    &["ui"],
    &["cli"],
];

/// Imports that the order would allow and the design forbids.
const FORBIDDEN: &[(&str, &str)] = &[("app", "observe"), ("ui", "observe"), ("app", "report"), ("ui", "report")];

/// Paths of the standard library and of crates that a pure module has no business with.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::process",
    "tokio",
    "crossterm",
    "nvml_wrapper",
    "sysinfo",
    "procfs",
];

/// Modules that compute and decide, and touch nothing.
const PURE: &[&str] = &[
    "printable",
    "ascii",
    "manual",
    "packed",
    "order",
    "units",
    "reading",
    "catalog",
    "framework",
    "model",
    "predict",
    "bench",
    "import",
    "advise",
    "lessons",
    "compare",
    "report",
    "app",
    "ui",
];

pub fn rust_files(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn sources() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    files
        .into_iter()
        .filter_map(|path| {
            let inside = path.strip_prefix(&root).unwrap().to_path_buf();
            let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
            let module = first.strip_suffix(".rs").unwrap_or(first).to_owned();
            let text = fs::read_to_string(&path).unwrap();
            // The roots of crates, and the folder of a manifest.
            (!["lib", "main", "core"].contains(&module.as_str())).then_some((module, inside, text))
        })
        .collect()
}

/// Every line that names a path, comments aside.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with("//"))
}

fn named_modules(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in line.split("crate::").skip(1) {
        if let Some(group) = part.strip_prefix('{') {
            found.extend(group.split([',', '}']).map(|name| first_name(name.trim())));
        } else {
            found.push(first_name(part));
        }
    }
    found
}

fn first_name(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn modules_import_only_from_those_above_them() {
    let level: BTreeMap<&str, usize> =
        ORDER.iter().enumerate().flat_map(|(level, row)| row.iter().map(move |module| (*module, level))).collect();
    let mut faults = Vec::new();
    for (module, file, text) in sources() {
        let own = *level.get(module.as_str()).unwrap_or_else(|| panic!("{module} has no place in the order"));
        for line in code(&text) {
            for imported in named_modules(line).into_iter().filter(|imported| *imported != module) {
                let Some(other) = level.get(imported.as_str()) else { continue };
                let forbidden = FORBIDDEN.contains(&(module.as_str(), imported.as_str()));
                if *other >= own || forbidden {
                    faults.push(format!("{}: `{module}` imports `{imported}`: {line}", file.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pure_modules_touch_nothing() {
    let mut faults = Vec::new();
    for (module, file, text) in sources() {
        if !PURE.contains(&module.as_str()) || file.ends_with("tests.rs") {
            continue;
        }
        let found = code(&text).find(|line| {
            IMPURE.iter().any(|impure| line.contains(&format!("{impure}::")) || line.ends_with(&format!("{impure};")))
        });
        if let Some(line) = found {
            faults.push(format!("{}: {line}", file.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_module_is_in_the_order() {
    let listed: Vec<&str> = ORDER.iter().flat_map(|row| row.iter().copied()).collect();
    let root = |name: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name)).unwrap();
    let roots = root("lib.rs") + &root("core.rs");
    let own = roots.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let crates =
        roots.lines().filter_map(|line| line.strip_prefix("pub use memwall_")?.split_once(" as ")?.1.strip_suffix(';'));
    let modules: Vec<&str> = own.chain(crates).collect();
    assert!(modules.contains(&"cli") && modules.contains(&"plan") && modules.contains(&"observe"), "{modules:?}");
    for module in modules {
        assert!(listed.contains(&module), "{module} has no place in the order");
    }
}

/// The rooms of `predict`, each built on those before it. What stands beside them (`mod.rs`, `outline.rs` …) uses all.
const PREDICT: [&str; 6] = ["job", "prediction", "step", "memory", "time", "account"];

#[test]
fn rooms_of_predict_import_only_from_those_before_them() {
    let level = |room: &str| PREDICT.iter().position(|own| *own == room);
    let mut faults = Vec::new();
    for (_, file, text) in sources().iter().filter(|(module, _, _)| module == "predict") {
        let Some(own) = file.iter().nth(1).and_then(|room| level(room.to_str()?)) else { continue };
        let tests = text.find("#[cfg(test)]").unwrap_or(text.len());
        for line in code(&text[..tests]) {
            for path in line.split("crate::predict::").skip(1) {
                let room = first_name(path);
                if level(&room).is_some_and(|other| other > own) {
                    faults.push(format!("{}: {line}", file.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A framework is a value (`framework::Profile`): what predicts, advises and compares asks the value, never its name.
#[test]
fn nobody_asks_which_framework_it_is() {
    let asks = |line: &&str| line.contains("Framework::") && !line.contains("Field::Framework");
    let faults: Vec<String> = sources()
        .iter()
        .filter(|(module, _, _)| !["framework", "plan", "cli"].contains(&module.as_str()))
        .flat_map(|(_, file, text)| code(text).filter(asks).map(|line| format!("{}: {line}", file.display())))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each binary of tests is linked with the whole program: more of them make `cargo test` slow to build.
#[test]
fn tests_are_in_six_binaries_and_every_file_is_in_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut binaries = Vec::new();
    for entry in fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.extension().is_none_or(|ending| ending != "rs"), "{}: belongs into a folder", path.display());
        if path.join("main.rs").exists() {
            binaries.push(path);
        }
    }
    assert!(binaries.len() <= 6, "{binaries:?}");
    for binary in &binaries {
        let mut files = Vec::new();
        rust_files(binary, &mut files);
        for file in files.iter().filter(|file| !file.ends_with("main.rs") && !file.ends_with("mod.rs")) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let parent = ["main.rs", "mod.rs"].map(|root| fs::read_to_string(file.with_file_name(root)));
            let declared =
                parent.into_iter().flatten().any(|text| code(&text).any(|line| line == format!("mod {name};")));
            assert!(declared, "{}: never compiled", file.display());
        }
    }
}
