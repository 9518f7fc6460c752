//! A setting that no reader knows is said, wherever it stands: a made-up name is put into every section of every case.

use std::collections::BTreeMap;

use memwall::import;
use serde_json::Value;

use super::support::catalog;
use super::{Case, cases, words};

/// A file with a line more in each place where one may stand, and the place's name.
pub fn widened(name: &str, text: &str, key: &str, value: &str) -> Vec<(String, String)> {
    match name.rsplit('.').next().unwrap_or("") {
        "yaml" | "yml" => in_yaml(text, key, value),
        "toml" => in_toml(text, key, value),
        "json" => in_json(text, key, value),
        "sh" | "sbatch" | "slurm" => in_shell(text, key, value),
        "py" => in_python(text, key, value),
        _ => Vec::new(),
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn in_yaml(text: &str, key: &str, value: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    if text.trim_start().starts_with('{') {
        return in_json(text, key, value);
    }
    let mut found = Vec::new();
    let first = lines.iter().position(|line| !line.trim().is_empty() && !line.starts_with(['#', '-', '%']));
    let at = |number: usize, depth: usize| {
        let mut all: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        all.insert(number, format!("{}{key}: {value}", " ".repeat(depth)));
        all.join("\n") + "\n"
    };
    if let Some(first) = first.filter(|first| indent(lines[*first]) == 0) {
        found.push(("top".to_owned(), at(first, 0)));
    }
    let mut above: Vec<(usize, String)> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with('#') {
            continue;
        }
        above.retain(|(depth, _)| *depth < indent(line));
        let head = bare.split(" #").next().unwrap_or(bare).trim_end();
        let Some(section) = head.strip_suffix(':').filter(|section| !section.starts_with('-')) else { continue };
        above.push((indent(line), section.to_owned()));
        let next = lines[number + 1..].iter().find(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
        if let Some(next) = next.filter(|next| indent(next) > indent(line) && !next.trim().starts_with(['-', '{', '['])) {
            let place: Vec<&str> = above.iter().map(|(_, section)| section.as_str()).collect();
            found.push((place.join("."), at(number + 1, indent(next))));
        }
    }
    found
}

fn in_toml(text: &str, key: &str, value: &str) -> Vec<(String, String)> {
    let mut found = vec![("top".to_owned(), format!("{key} = {value}\n{text}"))];
    for line in text.lines().filter(|line| line.starts_with('[') && !line.starts_with("[[")) {
        found.push((line.trim().to_owned(), text.replacen(line, &format!("{line}\n{key} = {value}"), 1)));
    }
    found
}

fn in_json(text: &str, key: &str, value: &str) -> Vec<(String, String)> {
    let Ok(whole) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let mut found = Vec::new();
    let mut places = vec![String::new()];
    while let Some(place) = places.pop() {
        let mut copy = whole.clone();
        let Some(Value::Object(section)) = copy.pointer_mut(&place) else { continue };
        places.extend(section.iter().filter(|(_, inner)| inner.is_object()).map(|(name, _)| format!("{place}/{name}")));
        section.insert(key.to_owned(), serde_json::from_str(value).unwrap());
        found.push((place, copy.to_string()));
    }
    found
}

fn in_shell(text: &str, key: &str, value: &str) -> Vec<(String, String)> {
    let option = |line: &&str| {
        let bare = line.trim().trim_end_matches('\\').trim();
        bare.starts_with("--") && bare.split_whitespace().count() == 2 && !bare.contains(['"', '\'', '$'])
    };
    let Some(line) = text.lines().find(option) else { return Vec::new() };
    vec![("options".to_owned(), text.replacen(line, &format!("    --{key} {value} {}", line.trim_start()), 1))]
}

fn in_python(text: &str, key: &str, value: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for ending in ["Arguments(", "Config("] {
        for (at, _) in text.match_indices(ending) {
            let line = text[..at].lines().next_back().unwrap_or("");
            if line.contains("class ") || text[at + ending.len()..].trim_start().starts_with([')', '*']) {
                continue;
            }
            let (before, after) = text.split_at(at + ending.len());
            found.push((format!("{}{ending}", line.trim()), format!("{before}{key}={value}, {after}")));
        }
    }
    found
}

/// A word more, as the command's own are written: `actor.optim.lr=1e-6`, `--n_layer=12` or `--bf16 true`.
fn in_command(command: &str, key: &str, value: &str) -> Vec<(String, String)> {
    let mut sections = BTreeMap::new();
    for word in command.split_whitespace() {
        let Some((name, _)) = word.split_once('=').filter(|(name, _)| !name.starts_with('-')) else { continue };
        let plus = name.len() - name.trim_start_matches('+').len();
        let section = name.rsplit_once('.').map_or(String::new(), |(section, _)| format!("{section}."));
        if name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._+".contains(letter)) && plus == 0 {
            sections.insert(section.clone(), format!("{section}{key}={value}"));
        }
    }
    if sections.len() > 1 || command.contains("torchtune") || command.contains("tune run") {
        return sections.into_iter().collect();
    }
    let joined = command.split_whitespace().filter(|word| word.starts_with("--") && word.contains('=')).count() > 1;
    let word = if joined { format!("--{key}={value}") } else { format!("--{key} {value}") };
    vec![("options".to_owned(), word)]
}

/// What was said beside the values.
fn said(case: &Case) -> Option<String> {
    let imported = std::panic::catch_unwind(|| super::read(case, catalog())).ok()?.ok()?;
    let missing: Vec<String> = imported.missing.iter().map(|missing| missing.why.clone()).collect();
    Some(format!("{}\n{}", imported.notes.join("\n"), missing.join("\n")))
}

#[test]
fn survey() {
    let mut count = BTreeMap::new();
    for (path, case) in cases() {
        for (key, value) in [("sharding_degree_foo", "4"), ("seq_len_override", "8192"), ("mystery_foo", "true"), ("quantize_foo", "true")] {
            let mut variants: Vec<(String, Case)> = Vec::new();
            for (name, text) in &case.files {
                for (place, text) in widened(name, text, key, value) {
                    let mut copy = case.clone();
                    copy.files.insert(name.clone(), text);
                    variants.push((format!("{name} {place}"), copy));
                }
            }
            if let Some(command) = &case.command {
                for (place, word) in in_command(command, key, value) {
                    let mut copy = case.clone();
                    copy.command = Some(format!("{command} {word}"));
                    variants.push((format!("command {place}"), copy));
                }
            }
            for (place, variant) in variants {
                let Some(text) = said(&variant) else { continue };
                let is_said = text.replace('-', "_").contains(key);
                let entry = count.entry((case.tool.clone(), key)).or_insert((0, 0));
                entry.0 += 1;
                if !is_said {
                    entry.1 += 1;
                    println!("SILENT {} | {key} | {place} | {path}", case.tool);
                }
            }
        }
    }
    for ((tool, key), (all, silent)) in count {
        println!("COUNT {tool} {key} {silent}/{all}");
    }
    let _ = words("");
}
