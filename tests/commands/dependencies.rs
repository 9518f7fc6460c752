//! Licences and duplicates of what is linked in, as `.deny.toml` allows them; `cargo deny` looks at advisories besides.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use toml_edit::{DocumentMut, Item};

fn rules() -> DocumentMut {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/.deny.toml");
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

fn words(list: &Item, key: Option<&str>) -> BTreeSet<String> {
    let word = |value: &toml_edit::Value| {
        let value = key.map_or(Some(value), |key| value.as_inline_table()?.get(key))?;
        value.as_str().map(str::to_owned)
    };
    list.as_array().unwrap().iter().map(|value| word(value).unwrap()).collect()
}

/// The packages of this machine's platform, which are here because the test was built.
fn packages() -> Vec<Value> {
    let host = Command::new("rustc").arg("-vV").output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &host]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Whether a licence expression can be satisfied by the allowed ones: one of each group that is joined by AND.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    expression.split(" AND ").all(|group| group.split(" OR ").any(|licence| allowed.contains(licence.trim())))
}

#[test]
fn licences_are_those_that_are_allowed() {
    let allowed = words(&rules()["licenses"]["allow"], None);
    assert!(is_allowed("(MIT OR GPL-3.0) AND Zlib", &allowed) && !is_allowed("GPL-3.0-only", &allowed));
    let others: Vec<String> = packages()
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or_default(), &allowed))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert_eq!(others, Vec::<String>::new());
}

#[test]
fn no_package_is_linked_in_twice_but_for_those_that_are_known() {
    let known = words(&rules()["bans"]["skip"], Some("crate"));
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        if !known.contains(&format!("{name}@{version}")) {
            versions.entry(name.to_owned()).or_default().insert(version.to_owned());
        }
    }
    let twice: Vec<_> = versions.into_iter().filter(|(_, versions)| versions.len() > 1).collect();
    assert_eq!(twice, []);
}
