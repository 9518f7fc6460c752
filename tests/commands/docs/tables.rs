//! Tables in the topics, from what the program itself goes by.

use std::collections::HashSet;
use std::fmt::Write as _;

use memwall::app::{Pane, by_context};
use memwall::catalog::{Catalog, Scope};
use memwall::cli::config::OPTIONS;
use memwall::manual::TOPICS;
use memwall::observe::{LIBRARY_VARIABLE, METRICS, ROOT_VARIABLE};
use memwall::plan::keywords::{Engine, Framework, Sharding};
use memwall::plan::schema::{PlanKey, ValueKind, children};

use super::{hold_part, path, read};

#[test]
fn the_keys_are_those_that_the_program_uses() {
    let mut table = "| where | keys | what |\n|---|---|---|\n".to_owned();
    for (context, bindings) in by_context(Pane::Plan) {
        let name = context.name();
        for binding in bindings {
            writeln!(table, "| {name} | {} | {} |", binding.shown, binding.help).unwrap();
        }
    }
    hold_part("configs/help/keys.md", "table of keys", &table);
}

#[test]
fn the_nvml_calls_are_those_that_the_source_is_held_to() {
    let mut table = "| value | NVML | asked |\n|---|---|---|\n".to_owned();
    for metric in METRICS {
        let symbols: Vec<String> = metric.symbols.iter().map(|symbol| format!("`{symbol}`")).collect();
        writeln!(table, "| {} | {} | {} |", metric.name, symbols.join(" "), metric.asked.word()).unwrap();
    }
    hold_part("configs/help/nvml.md", "table of NVML calls", &table);
}

#[test]
fn the_links_are_those_of_the_catalogue() {
    let mut table = "| name | where | GB/s each way |\n|---|---|--:|\n".to_owned();
    for link in Catalog::embedded().unwrap().links.iter() {
        let place = if link.scope == Scope::Node { "within a node" } else { "between nodes" };
        writeln!(table, "| `{}` | {place} | {} |", link.name, link.each_way.0 / 1e9).unwrap();
    }
    hold_part("configs/help/cluster.md", "table of links", &table);
}

/// A section's keys, then those of the sections in it.
fn section(table: &mut String, path: &str) {
    writeln!(table, "### {path}\n\n| key | value | meaning |\n|---|---|---|").unwrap();
    let keys: Vec<&PlanKey> = children(path).collect();
    for key in &keys {
        writeln!(table, "| `{}` | {} | {} |", key.name(), key.kind, key.line).unwrap();
    }
    table.push('\n');
    for word in keys.iter().filter(|key| !key.kind.words().is_empty()) {
        let words: Vec<String> =
            word.kind.words().iter().map(|word| format!("`{}` {}", word.name, word.meaning)).collect();
        writeln!(table, "- `{}`: {}.", word.path, words.join("; ")).unwrap();
    }
    if keys.iter().any(|key| !key.kind.words().is_empty()) {
        table.push('\n');
    }
    for key in keys.into_iter().filter(|key| matches!(key.kind, ValueKind::Section | ValueKind::WordOrSection(_))) {
        section(table, key.path);
    }
}

#[test]
fn the_plan_keys_are_those_of_the_schema() {
    let mut tables = String::new();
    for top in children("") {
        section(&mut tables, top.path);
    }
    hold_part("configs/help/plan.md", "tables of plan keys", &tables);
}

#[test]
fn every_framework_has_a_row() {
    let text = read("configs/help/frameworks.md");
    for word in Framework::WORDS {
        assert!(text.lines().any(|line| line.starts_with(&format!("| `{}`", word.name))), "{}", word.name);
    }
}

#[test]
fn every_engine_has_a_row_with_what_it_shards() {
    let text = read("configs/help/frameworks.md");
    for (engine, word) in Engine::ALL.iter().zip(Engine::WORDS) {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{}` | {}", word.name, word.meaning))).unwrap();
        for sharding in [Sharding::Zero1, Sharding::Zero2, Sharding::Zero3] {
            let named = row.contains(&format!("`{sharding}`"));
            assert_eq!(named, engine.shardings().contains(&sharding), "{row}");
        }
        assert_eq!(row.contains("nothing"), engine.shardings().contains(&Sharding::None), "{row}");
    }
}

#[test]
fn the_options_topic_names_the_variables_that_are_read() {
    let text = read("configs/help/config.md");
    for option in OPTIONS {
        assert!(text.contains(&format!("`{}`", option.key)), "{}", option.key);
    }
    for variable in [LIBRARY_VARIABLE, ROOT_VARIABLE, "NO_COLOR", "PAGER", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
        assert!(text.contains(&format!("| `{variable}` |")), "{variable}");
    }
}

#[test]
fn every_file_of_the_folder_is_a_topic() {
    let listed: HashSet<String> = TOPICS.iter().map(|topic| format!("{}.md", topic.name)).collect();
    let files = std::fs::read_dir(path("configs/help")).unwrap();
    let found: HashSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(listed, found);
}
