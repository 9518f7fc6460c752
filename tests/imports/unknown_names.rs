//! A setting that no reader knows is said, wherever it stands: a made-up name is put into every section of every case.

use std::collections::BTreeMap;

use serde_json::Value;

use super::support::catalog;
use super::{Case, cases};

/// A file with a line more in each place where one may stand, and the place's name.
fn widened(name: &str, text: &str, key: &str, value: &str) -> Vec<(String, String)> {
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
        if let Some(next) = next.filter(|next| indent(next) > indent(line) && !next.trim().starts_with(['-', '{', '[']))
        {
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

/// Where a made-up setting is passed over: sections of what does not train, jobs' own fields, files and calls that are not
/// the run's. A line is a tool and a place.
const PASSED_OVER: &str = include_str!("passed_over.txt");

#[test]
fn a_setting_that_no_reader_knows_is_said() {
    let mut silent = Vec::new();
    let mut all = 0;
    for (path, case) in cases() {
        for (key, value) in [("sharding_degree_foo", "4"), ("seq_len_override", "8192")] {
            let mut variants: Vec<(String, Case)> = Vec::new();
            for (name, text) in &case.files {
                for (place, text) in widened(name, text, key, value) {
                    let mut copy = case.clone();
                    copy.files.insert(name.clone(), text);
                    variants.push((place, copy));
                }
            }
            for (place, word) in case.command.iter().flat_map(|command| in_command(command, key, value)) {
                let command = format!("{} {word}", case.command.as_deref().unwrap_or(""));
                variants.push((format!("command {place}"), Case { command: Some(command), ..case.clone() }));
            }
            for (place, variant) in variants {
                let Some(text) = said(&variant) else { continue };
                all += 1;
                let line = format!("{} | {}", case.tool, place.trim());
                if !text.replace('-', "_").contains(key) && !PASSED_OVER.lines().any(|known| known == line) {
                    silent.push(format!("{line} ({key}, {path})"));
                }
            }
        }
    }
    assert!(all > 2500, "{all} places");
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// Commands with the value of one setting replaced by what only a run could tell, and that setting.
fn with_unknown_values(command: &str) -> Vec<(String, String)> {
    let all: Vec<&str> = command.split_whitespace().collect();
    let mut found = Vec::new();
    for (at, word) in all.iter().enumerate() {
        let joined = word.split_once('=').filter(|(name, _)| name.starts_with("--") || name.contains('.'));
        let replaced = match joined {
            Some((name, _)) => (at, format!("{name}=?"), name),
            None if at > 0 && all[at - 1].starts_with("--") && !all[at - 1].contains('=') && !word.starts_with('-') => {
                (at, "?".to_owned(), all[at - 1])
            }
            None => continue,
        };
        let mut copy: Vec<String> = all.iter().map(|word| (*word).to_owned()).collect();
        copy[replaced.0] = replaced.1;
        found.push((replaced.2.to_owned(), copy.join(" ")));
    }
    found
}

/// The same of a file in YAML: each plain value by itself.
fn with_unknown_lines(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        let value = value.split(" #").next().unwrap_or(value).trim();
        if value.starts_with(['{', '[', '&', '*', '|', '>']) || value.is_empty() || name.contains('#') {
            continue;
        }
        let changed = |(number, other): (usize, &str)| {
            if number == at { format!("{name}: ${{oc.env:NOBODY}}") } else { other.to_owned() }
        };
        let copy: Vec<String> = text.lines().enumerate().map(changed).collect();
        found.push((name.trim().to_owned(), copy.join("\n") + "\n"));
    }
    found
}

/// Copies of a case with one value that only a run could tell, and where it stands.
fn with_one_unknown(case: &Case) -> Vec<(String, Case)> {
    let mut variants = Vec::new();
    for (name, command) in case.command.as_deref().map(with_unknown_values).unwrap_or_default() {
        variants.push((name, Case { command: Some(command), ..case.clone() }));
    }
    for (file, text) in case.files.iter().filter(|(file, _)| file.ends_with("yaml") || file.ends_with("yml")) {
        for (name, text) in with_unknown_lines(text) {
            let mut copy = case.clone();
            copy.files.insert(file.clone(), text);
            variants.push((format!("{file} {name}"), copy));
        }
    }
    variants
}

#[test]
fn what_only_a_run_could_tell_is_said_and_no_default_stands_for_it() {
    // Jobs' numbers of pods and nodes, which their makers fill in; settings that are said under Megatron's name; a file of
    // accelerate that a README names; a loop that accumulates nothing; which variable of a pod has a value.
    const PASSED_OVER: [&str; 12] = [
        "k8s/train.yaml - name",
        "replicas",
        "slotsPerWorker",
        "num_nodes",
        "--model_type",
        "num_hidden_layers",
        "bias",
        "virtual_pipeline_model_parallel_size",
        "share_embeddings_and_output_weights",
        "zero3.yaml distributed_type",
        "zero3.yaml mixed_precision",
        "script_with_its_own_loop.yaml --gradient_accumulation_steps",
    ];
    let mut all = 0;
    let mut replaced = Vec::new();
    for (path, case) in cases() {
        let Ok(Ok(before)) = std::panic::catch_unwind(|| super::read(&case, catalog())) else { continue };
        for (name, variant) in with_one_unknown(&case) {
            let Ok(Ok(after)) = std::panic::catch_unwind(|| super::read(&variant, catalog())) else { continue };
            all += 1;
            let why: Vec<&str> = after.missing.iter().map(|missing| missing.why.as_str()).collect();
            let said = format!("{}\n{}", after.notes.join("\n"), why.join("\n")).replace('-', "_");
            let bare = name.rsplit([' ', '.']).next().unwrap_or(&name).trim_start_matches('-').replace('-', "_");
            // Primus' references have defaults of their own, which this one is taken for.
            if case.tool == "Primus" {
                continue;
            }
            if after.tool != before.tool || said.contains(bare.split('=').next().unwrap_or(&bare)) {
                continue;
            }
            for found in &before.values {
                let now = after.get(found.key);
                if let Some(now) = now.filter(|now| now.value != found.value) {
                    replaced.push(format!(
                        "{path} {name}: {} {} -> {} ({})",
                        found.key, found.value, now.value, now.origin
                    ));
                }
            }
            for found in after.values.iter().filter(|found| before.get(found.key).is_none()) {
                replaced.push(format!("{path} {name}: {} {} ({})", found.key, found.value, found.origin));
            }
        }
    }
    replaced.retain(|line| !PASSED_OVER.iter().any(|name| line.contains(&format!("{name}:"))));
    assert!(all > 3000, "{all} values");
    assert!(replaced.is_empty(), "{}", replaced.join("\n"));
}
