//! hydra's lists of defaults: a file of settings that others are put under (`hydra/_internal/defaults_list.py`,
//! `hydra/core/default_element.py` of 1.3).

use std::collections::BTreeMap;

use serde_json::Value;

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::script_defaults;
use super::settings::Settings;
use super::{Files, ProcessView, documented::scripts::Without, file, text};

/// So deep do lists name files that have lists.
const MAX_DEPTH: usize = 4;

/// So many files is a configuration made of.
const MAX_FILES: usize = 64;

/// The settings of the file called `name` with those of the files that its list of defaults names; and which of these
/// were not to be read. A file without such a list stays what it is.
pub fn composed(settings: Settings, name: &str, files: &dyn Files) -> (Settings, Vec<String>) {
    composed_with(settings, name, files, BTreeMap::new())
}

/// The same with options that are taken of groups in the place of those in the list.
fn composed_with(
    settings: Settings,
    name: &str,
    files: &dyn Files,
    instead: BTreeMap<String, String>,
) -> (Settings, Vec<String>) {
    let root = name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let searched = searched(&settings);
    let mut group = GroupReader { files, root, searched, left: MAX_FILES, instead, unread: Vec::new() };
    let listed = entries(&settings);
    if listed.is_empty() || listed.iter().all(|entry| group.path("", entry).is_none_or(|path| !group.is_there(&path))) {
        return (settings, Vec::new());
    }
    let composed = group.compose(settings, "", "", MAX_DEPTH);
    (composed, group.unread)
}

/// The plan of the file of settings that a script in Python is started with where nobody names another.
pub fn plan_of_script(name: &str, content: &str, context: &ImportContext) -> Option<ImportedPlan> {
    let (path, text) = file_of_script(name, content, &Settings::default(), context.run.files)?;
    // The file would be asked which script is started with it.
    let files = Without::of(context.run.files, name);
    let around = ProcessView { files: &files, ..context.run.copy() };
    let mut imported = file::file(&path, &text, &around, context.catalog).ok()?;
    imported.note(format!("{name} is started with {path}, where its command names no other"));
    Some(imported)
}

/// Whether a script takes a file of settings by hydra: `@hydra.main(config_path="conf", config_name="train")`.
pub fn is_script(content: &str) -> bool {
    content.lines().any(|line| line.starts_with("@hydra.main("))
}

/// Whether a script is started with that file, where its command names no other.
pub fn is_started_with(script: &str, content: &str, file: &str, files: &dyn Files) -> bool {
    let found = || file_of_script(script, content, &Settings::default(), files);
    is_script(content) && found().is_some_and(|(path, _)| files.absolute(&path) == files.absolute(file))
}

/// The settings that hydra hands the script that runs: of its file and those that this lists, with what the command says.
pub fn of_program(context: &ImportContext, options: &Settings, imported: &mut ImportedPlan) -> Option<Settings> {
    let (name, content) = script_defaults::script_of(context).filter(|(_, content)| is_script(content))?;
    let (path, _) = file_of_script(&name, &content, options, context.run.files)?;
    let file = context.configuration(&path, imported)?;
    let listed: Vec<String> = entries(&file).into_iter().map(|entry| entry.group).filter(|it| !it.is_empty()).collect();
    let told = arguments::overrides(&context.program.words);
    let mut instead = BTreeMap::new();
    for group in listed {
        if let Some(found) = told.text(&group) {
            instead.insert(group, found.value);
        }
    }
    let (mut settings, unread) = composed_with(file, &path, context.run.files, instead.clone());
    settings.adopt_all(&told, |name| (!instead.contains_key(name)).then(|| name.to_owned()));
    settings.interpolate();
    ["config_name", "cn", "config_path", "cp", "config_dir"].iter().for_each(|name| options.accept(name));
    if let Some(path) = unread.into_iter().next() {
        imported.note(format!("not read: {path}, which the list of defaults names"));
        imported.unread.get_or_insert(path);
    }
    Some(settings)
}

/// The path and the text of that file: `@hydra.main(config_path="conf", config_name="gpt")`, NeMo's `@hydra_runner`; another
/// one by the command's `--config-name` and `--config-path`.
fn file_of_script(name: &str, content: &str, options: &Settings, files: &dyn Files) -> Option<(String, String)> {
    let (_, rest) = content.split_once("\n@hydra")?;
    let parts = text::arguments(rest.split_once('(')?.1);
    let told = |key: &str| {
        let value = parts.iter().find_map(|part| part.trim().strip_prefix(key)?.trim_start().strip_prefix('='))?;
        let value = value.trim();
        value.strip_prefix(['"', '\''])?.strip_suffix(['"', '\'']).map(str::to_owned)
    };
    let asked = |names: [&str; 2]| names.iter().find_map(|name| Some(options.text(name)?.value));
    let folder = asked(["config_path", "cp"]).or_else(|| told("config_path"))?;
    let file = asked(["config_name", "cn"]).or_else(|| told("config_name"))?;
    let own = name.rsplit_once('/').map_or("", |(own, _)| own);
    let folder = joined(own, &folder);
    let path = joined(&folder, &format!("{}.yaml", file.trim_end_matches(".yaml")));
    let text = files.read(&path).ok()?;
    Some((path, text))
}

/// A path below a folder, its steps upwards taken.
fn joined(folder: &str, path: &str) -> String {
    if path.starts_with('/') || folder.is_empty() {
        return path.trim_start_matches("./").to_owned();
    }
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Folders beside the file's own in which hydra looks for what lists name (`hydra.searchpath`): `file://verl/trainer/config`,
/// `pkg://verl.trainer.config`.
fn searched(settings: &Settings) -> Vec<String> {
    let named = settings.texts("hydra.searchpath").map(|found| found.value).unwrap_or_default();
    let folder = |name: &String| match name.split_once("://") {
        Some(("file", folder)) => Some(folder.to_owned()),
        Some(("pkg", package)) => Some(package.replace('.', "/")),
        _ => None,
    };
    named.iter().filter_map(folder).collect()
}

/// One entry of a list: `optim: adamw`, `model@encoder: bert`, `base`, `_self_`.
struct DefaultEntry {
    group: String,
    option: String,
    package: Option<String>,
    /// One that need not be there.
    optional: bool,
    /// One that is taken in the place of what another list has for its group.
    instead: bool,
}

/// The entries of the list of a file; a file that names one file, as other tools' do, has none.
fn entries(settings: &Settings) -> Vec<DefaultEntry> {
    let Some(Value::Array(items)) = settings.get("defaults").map(|found| &found.value) else { return Vec::new() };
    settings.accept("defaults");
    let mut found = Vec::new();
    for item in items {
        match item {
            Value::String(word) => found.push(entry("", word)),
            Value::Object(pairs) => {
                for (group, option) in pairs {
                    let options = option.as_array().cloned().unwrap_or_else(|| vec![option.clone()]);
                    found.extend(options.iter().filter_map(Value::as_str).map(|option| entry(group, option)));
                }
            }
            _ => {}
        }
    }
    found.retain(|entry| !entry.group.starts_with("hydra/"));
    found
}

fn entry(group: &str, option: &str) -> DefaultEntry {
    let mut group = group.trim();
    let (mut optional, mut instead) = (false, false);
    while let Some((word, rest)) = group.split_once(' ').filter(|(word, _)| ["override", "optional"].contains(word)) {
        optional |= word == "optional";
        instead |= word == "override";
        group = rest.trim();
    }
    // Without a group it is the file that names the package: `reward_manager@reward_manager`.
    let (option, package) = match option.split_once('@') {
        Some((option, package)) if group.is_empty() => (option, Some(package)),
        _ => (option, None),
    };
    // `base/model` names its group before the last stroke.
    let (group, option) = match option.rsplit_once('/') {
        Some((above, last)) if group.is_empty() => (above, last),
        _ => (group, option),
    };
    let (group, package) = group.split_once('@').map_or((group, package), |(group, package)| (group, Some(package)));
    let package = package.map(str::to_owned);
    DefaultEntry {
        group: group.to_owned(),
        option: option.trim_end_matches(".yaml").to_owned(),
        package,
        optional,
        instead,
    }
}

struct GroupReader<'a> {
    files: &'a dyn Files,
    /// The folder of the file that was asked for.
    root: String,
    /// Other folders that are looked into.
    searched: Vec<String>,
    left: usize,
    /// What is taken of a group whatever a list further in says.
    instead: BTreeMap<String, String>,
    unread: Vec<String>,
}

impl GroupReader<'_> {
    /// The file of an entry of a list that stands in a file of `group`.
    fn path(&self, group: &str, entry: &DefaultEntry) -> Option<String> {
        if entry.option == "_self_" || entry.option.contains(['$', ' ']) {
            return None;
        }
        let own = below_root(&self.root, group, entry);
        let there = |path: &String| self.is_there(path);
        let others = || self.searched.iter().map(|root| below_root(root, group, entry)).find(there);
        if self.is_there(&own) { Some(own) } else { others().or(Some(own)) }
    }

    fn is_there(&self, path: &str) -> bool {
        self.files.read(path).is_ok()
    }

    /// Settings over those of the files that they name: what stands behind `_self_` goes over them again.
    fn compose(&mut self, own: Settings, group: &str, package: &str, depth: usize) -> Settings {
        let mut composed = Settings::default();
        let placed = |own: &Settings| {
            let mut placed = Settings::default();
            placed.adopt_all(own, |name| (name != "defaults").then(|| below(package, name)));
            placed
        };
        let mut listed = entries(&own);
        for entry in listed.iter().filter(|entry| entry.instead) {
            self.instead.entry(inner(group, &entry.group)).or_insert_with(|| entry.option.clone());
        }
        listed.retain(|entry| !entry.instead);
        for entry in listed.iter_mut().filter(|entry| !entry.group.is_empty()) {
            if let Some(option) = self.instead.get(&inner(group, &entry.group)) {
                entry.option.clone_from(option);
            }
        }
        let last = !listed.iter().any(|entry| entry.option == "_self_");
        for entry in &listed {
            if entry.option == "_self_" {
                composed.over(placed(&own));
            } else if let Some(path) = self.path(group, entry).filter(|_| depth > 0 && self.left > 0) {
                self.left -= 1;
                match self.read(&path) {
                    Some((file, header)) => {
                        let group = inner(group, &entry.group);
                        let package = self.package(package, entry, header.as_deref());
                        composed.over(self.compose(file, &group, &package, depth - 1));
                    }
                    None if entry.optional => {}
                    None => self.unread.push(path),
                }
            }
        }
        if last {
            composed.over(placed(&own));
        }
        composed
    }

    /// The settings of a file, and the package that its head names.
    fn read(&self, path: &str) -> Option<(Settings, Option<String>)> {
        let text = self.files.read(path).ok()?;
        let header = text.lines().find_map(|line| line.trim().strip_prefix("# @package ")).map(str::trim);
        Some((text::yaml(path, &text).ok()?, header.map(str::to_owned)))
    }

    /// Where the settings of an entry's file go: below its group, where neither the entry nor the file says another place.
    fn package(&self, above: &str, entry: &DefaultEntry, header: Option<&str>) -> String {
        let named = entry.package.as_deref().or(header);
        match named {
            Some("_global_") => String::new(),
            Some("_here_") => above.to_owned(),
            Some(named) if entry.package.is_some() => below(above, named),
            Some(named) => named.to_owned(),
            None => below(above, &entry.group.trim_start_matches('/').replace('/', ".")),
        }
    }
}

/// Where an entry's file lies below `root`.
fn below_root(root: &str, group: &str, entry: &DefaultEntry) -> String {
    let parts = match entry.group.strip_prefix('/') {
        Some(absolute) => [root, "", absolute],
        None => [root, group, entry.group.as_str()],
    };
    let folder: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    [folder.join("/"), format!("{}.yaml", entry.option)].join("/").trim_start_matches('/').to_owned()
}

/// The group of the entries of a file that an entry names.
fn inner(group: &str, named: &str) -> String {
    match named.strip_prefix('/') {
        Some(absolute) => absolute.to_owned(),
        None if group.is_empty() || named.is_empty() => format!("{group}{named}"),
        None => format!("{group}/{named}"),
    }
}

fn below(package: &str, name: &str) -> String {
    match (package, name) {
        ("", name) => name.to_owned(),
        (package, "") => package.to_owned(),
        (package, name) => format!("{package}.{name}"),
    }
}
