//! Versions that files beside a launch file state.

use std::collections::BTreeMap;

use super::super::Files;
use super::range::VersionRange;

/// Libraries whose defaults differ by version, as packages name them, and as they are called here.
const LIBRARIES: [(&str, &str); 8] = [
    ("torch", "torch"),
    ("pytorch", "torch"),
    ("transformers", "transformers"),
    ("trl", "trl"),
    ("accelerate", "accelerate"),
    ("peft", "peft"),
    ("deepspeed", "deepspeed"),
    ("axolotl", "axolotl"),
];

/// Files that state versions, the most exact first.
const NAMES: [&str; 6] = [
    "requirements.txt",
    "requirements/requirements.txt",
    "environment.yml",
    "environment.yaml",
    "pyproject.toml",
    "setup.py",
];

/// A project's own files lie no deeper below its root.
const MOST_FOLDERS: usize = 4;

/// What the project's own copies of libraries are, then what the first such file beside `launch` or above it states, with its
/// path; else what `launch` installs itself.
pub fn beside(files: &dyn Files, launch: &str, content: &str) -> Option<(BTreeMap<String, String>, String)> {
    let (copies, place) = copies(files);
    match listed(files, launch, content) {
        found if copies.is_empty() => found,
        None => Some((copies, place)),
        Some((mut stated, path)) => {
            stated.extend(copies);
            Some((stated, format!("{path}, {place}")))
        }
    }
}

/// Libraries that lie in the checkout itself, a fork's own, with the version that each says it is; and where the last was read.
fn copies(files: &dyn Files) -> (BTreeMap<String, String>, String) {
    const COPIED: [&str; 5] = ["transformers", "trl", "peft", "accelerate", "deepspeed"];
    let (mut found, mut place) = (BTreeMap::new(), String::new());
    for name in COPIED {
        let paths = [
            format!("src/{name}/__init__.py"),
            format!("{name}/__init__.py"),
            format!("{name}/src/{name}/__init__.py"),
        ];
        let read = paths.into_iter().find_map(|path| Some((files.read(&path).ok()?, path)));
        let Some((text, path)) = read else { continue };
        let line = text.lines().find_map(|line| line.strip_prefix("__version__"));
        let version = line.and_then(|rest| rest.split(['"', '\'']).nth(1)).map(|version| format!("=={version}"));
        if let Some(version) = version.filter(|version| VersionRange::parse(version).is_some()) {
            found.insert(name.to_owned(), version);
            place = path;
        }
    }
    (found, place)
}

/// What a file beside a launch file states, or the launch file itself installs.
fn listed(files: &dyn Files, launch: &str, content: &str) -> Option<(BTreeMap<String, String>, String)> {
    let installed = installed(content);
    if !installed.is_empty() {
        return Some((installed, format!("pip install in {launch}")));
    }
    let mut folder = launch;
    for _ in 0..MOST_FOLDERS {
        let above = folder.rsplit_once('/').map(|(above, _)| above);
        for name in NAMES {
            let path = above.map_or_else(|| name.to_owned(), |above| format!("{above}/{name}"));
            let stated = files.read(&path).map(|text| stated(&text)).unwrap_or_default();
            if !stated.is_empty() && !rules_out(&stated, content) {
                return Some((stated, path));
            }
        }
        folder = above?;
    }
    None
}

/// Whether what a file states is another script's: this one asks for what came later. `GRPOTrainer` came with TRL 0.14,
/// whose setup.cfg asks for transformers 4.46; LLaMA-Factory's first release that is started by a YAML file, 0.7, asks for
/// 4.37.2 (setup.py).
fn rules_out(stated: &BTreeMap<String, String>, content: &str) -> bool {
    let range = stated.get("transformers").and_then(|text| VersionRange::parse(text));
    let below = |version| range.is_some_and(|range| range.is_within((0, 0), version) == Some(true));
    let of_factory = content.lines().any(|line| line.starts_with("finetuning_type:"));
    (content.contains("GRPOTrainer") && below((4, 46))) || (of_factory && below((4, 37)))
}

/// `pip install transformers==4.46.1` of a script.
fn installed(content: &str) -> BTreeMap<String, String> {
    let lines = content.lines().map(str::trim).filter(|line| !line.starts_with('#') && line.contains("pip install "));
    lines
        .filter_map(|line| line.split("pip install ").nth(1))
        .flat_map(str::split_whitespace)
        .filter_map(requirement)
        .collect()
}

/// The requirements of a text, in whatever list they stand: one a line, `"transformers>=4.40",`, conda's
/// `- pytorch=2.1`, Poetry's `transformers = "^4.46"`. The first of a library counts.
fn stated(text: &str) -> BTreeMap<String, String> {
    let mut stated = BTreeMap::new();
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or(line).trim();
        if line.starts_with('#') {
            continue;
        }
        let plain: String = line.trim_start_matches("- ").chars().filter(|letter| !"\"'()".contains(*letter)).collect();
        let whole = requirement(&plain);
        // Several stand in one line of `install_requires`.
        let quoted = || line.split(['"', '\'']).filter_map(requirement).collect::<Vec<_>>();
        for (name, range) in whole.map_or_else(quoted, |found| vec![found]) {
            stated.entry(name).or_insert(range);
        }
    }
    stated
}

/// A library of those that matter with the versions it may have.
fn requirement(text: &str) -> Option<(String, String)> {
    let text = text.split(';').next()?.trim().trim_matches(|letter| "\"',".contains(letter));
    let end = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)))?;
    let (name, rest) = text.split_at(end);
    let (_, name) = LIBRARIES.into_iter().find(|(package, _)| name.eq_ignore_ascii_case(package))?;
    // An extra stands between: `accelerate[testing]>=1.0`.
    let rest = rest.strip_prefix('[').and_then(|extra| extra.split_once(']')).map_or(rest, |(_, rest)| rest).trim();
    // Poetry's `= "^4.46"`, conda's `=2.1=py3.11_cuda`.
    let rest = rest.strip_prefix("= ").unwrap_or(rest).trim();
    let rest = match rest.strip_prefix('=') {
        Some(conda) if !conda.starts_with('=') => conda.split('=').next().unwrap_or(conda),
        _ => rest,
    };
    let range: String = rest.chars().filter(|letter| !letter.is_whitespace()).collect();
    VersionRange::parse(&range).map(|_| (name.to_owned(), range))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{beside, stated};
    use crate::Files;
    use crate::files::Unread;

    struct Project(BTreeMap<&'static str, &'static str>);

    impl Files for Project {
        fn read(&self, path: &str) -> Result<String, Unread> {
            self.0.get(path).map(|text| (*text).to_owned()).ok_or_else(|| Unread(format!("{path}: no such file")))
        }

        fn absolute(&self, path: &str) -> String {
            path.to_owned()
        }
    }

    fn of(text: &str) -> Vec<(String, String)> {
        stated(text).into_iter().collect()
    }

    fn pair(name: &str, range: &str) -> (String, String) {
        (name.to_owned(), range.to_owned())
    }

    #[test]
    fn requirements_are_read_from_every_kind_of_list() {
        assert_eq!(
            of("# ours\ntorch==2.1.0  # cu118\ntransformers[torch]>=4.40,<4.47 ; python_version > '3.8'\nnumpy\n"),
            [pair("torch", "==2.1.0"), pair("transformers", ">=4.40,<4.47")]
        );
        assert_eq!(
            of("dependencies:\n  - pytorch=2.1.0=py3.11_cuda\n  - pip:\n    - trl==0.12.2\n"),
            [pair("torch", "2.1.0"), pair("trl", "==0.12.2")]
        );
        assert_eq!(
            of("dependencies = [\"peft>=0.12\", \"accelerate~=1.2\"]\n"),
            [pair("accelerate", "~=1.2"), pair("peft", ">=0.12")]
        );
        assert_eq!(of("transformers = \"^4.46\"\n"), [pair("transformers", "^4.46")]);
        assert_eq!(of("transformers\ngit+https://github.com/huggingface/transformers@main\ntorchvision==0.2\n"), []);
    }

    #[test]
    fn a_fork_is_the_version_that_it_says() {
        let fork = Project(BTreeMap::from([
            ("src/transformers/__init__.py", "# the library\n__version__ = \"4.8.0.dev0\"\n"),
            ("setup.py", "install_requires=['torch>=1.0']"),
        ]));
        let (versions, path) = beside(&fork, "run_glue.sh", "").unwrap();
        assert_eq!((versions["transformers"].as_str(), versions["torch"].as_str()), ("==4.8.0.dev0", ">=1.0"));
        assert!(path.ends_with("src/transformers/__init__.py"));
    }

    #[test]
    fn the_nearest_file_counts_and_what_a_script_installs_before_it() {
        let project = Project(BTreeMap::from([
            ("project/requirements.txt", "transformers==4.30.2"),
            ("requirements.txt", "transformers==5.1.0"),
        ]));
        let (versions, path) = beside(&project, "project/scripts/run.sh", "").unwrap();
        assert_eq!((versions["transformers"].as_str(), path.as_str()), ("==4.30.2", "project/requirements.txt"));
        let (versions, _) = beside(&project, "project/run.sh", "pip install -U transformers==4.46.1 trl\n").unwrap();
        assert_eq!(versions["transformers"], "==4.46.1");
        // A project's root is older than one of its scripts.
        assert!(beside(&project, "trl/train_grpo.py", "from trl import GRPOTrainer\n").is_some());
        let old = Project(BTreeMap::from([("requirements.txt", "transformers>=4.32.0,<4.38.0")]));
        assert!(beside(&old, "trl/train_grpo.py", "from trl import GRPOTrainer\n").is_none());
        assert!(beside(&old, "trl/train_sft.py", "from trl import SFTTrainer\n").is_some());
        assert!(beside(&Project(BTreeMap::new()), "run.sh", "").is_none());
    }
}
