//! Every broken plan is refused with the faults that it expects, each at its place.
//!
//! A plan names them in its first lines, `# expect: line:column: key: message`, or in an
//! `.expect` file beside it. A message that ends in `…` is only a beginning.

use std::fs;
use std::path::{Path, PathBuf};

use memwall::plan::{Fault, LoadedPlan};

/// Expected and found.
type Faults = (Vec<String>, Vec<String>);

fn faults(path: &Path) -> Option<Faults> {
    let beside = path.with_extension("expect");
    let expected: Vec<String> = if beside.exists() {
        fs::read_to_string(beside).unwrap().lines().map(str::to_owned).collect()
    } else {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map_while(|line| line.strip_prefix("# expect: ")).map(str::to_owned).collect()
    };
    let found = LoadedPlan::load(path).err().unwrap_or_default().iter().map(Fault::to_string).collect();
    (!expected.is_empty()).then_some((expected, found))
}

fn alike(expected: &str, found: &str) -> bool {
    expected.strip_suffix('…').map_or(expected == found, |beginning| found.starts_with(beginning))
}

#[test]
fn broken_plans_say_what_is_wrong_and_where() {
    let mut paths: Vec<PathBuf> =
        fs::read_dir("tests/invalid_plans").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for path in paths {
        let is_plan = path.extension().is_some_and(|ending| ending == "yaml") || path.with_extension("expect").exists();
        if !is_plan || path.extension().is_some_and(|ending| ending == "expect") {
            continue;
        }
        let (expected, found) = faults(&path).unwrap_or_else(|| panic!("{}: expects nothing", path.display()));
        checked += 1;
        let same = expected.len() == found.len();
        if !same || !expected.iter().zip(&found).all(|(expected, found)| alike(expected, found)) {
            wrong.push(format!("{}\n  expected {expected:#?}\n  found {found:#?}", path.display()));
        }
    }
    assert!(checked > 20, "only {checked} plans found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
