//! Commands, options, plan keys and files that a page shows exist.

use clap::{CommandFactory, Parser};
use memwall::app::{AlertRules, Keymap};
use memwall::cli::Cli;
use memwall::manual;
use memwall::plan::{Document, schema};

use super::{pages, path, read};

/// Options of other programs.
const FOREIGN: [&str; 4] =
    ["--model_name_or_path", "--bf16", "--block_size", "--async-tensor-model-parallel-allreduce"];

/// Code in fences: the language and its lines.
fn blocks(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            blocks.push((language, lines.by_ref().take_while(|line| line.trim() != "```").collect()));
        }
    }
    blocks
}

/// Code within lines.
fn spans(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// The words of a line of a shell, up to its comment or redirection.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() && !rest.starts_with('#') && !rest.starts_with('>') {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(if word == "PID" { "1".to_owned() } else { word.to_owned() });
        rest = after.trim_start();
    }
    words
}

/// The arguments of a line that runs the program.
fn arguments(line: &str) -> Option<Vec<String>> {
    let words = words(line);
    let own = words.first().is_some_and(|word| word == "memwall").then_some(0);
    let cargo = words.starts_with(&["cargo", "run", "--release"].map(str::to_owned)).then_some(2);
    let from = own.or(cargo)?;
    Some(words[from + 1..].iter().skip(usize::from(cargo.is_some() && words.len() > 3)).cloned().collect())
}

#[test]
fn every_command_that_is_shown_is_understood() {
    let mut shown = 0;
    for (page, text) in pages() {
        for line in blocks(&text).into_iter().flat_map(|(_, lines)| lines) {
            let Some(arguments) = arguments(line) else { continue };
            let parsed = Cli::try_parse_from(std::iter::once("memwall".to_owned()).chain(arguments.clone()));
            assert!(parsed.is_ok(), "{page}: {line}\n{}", parsed.unwrap_err());
            for file in arguments.iter().filter(|word| word.starts_with("configs/")) {
                assert!(path(file).exists(), "{page}: {file}");
            }
            shown += 1;
        }
    }
    assert!(shown > 40, "{shown} commands were found");
}

#[test]
fn every_command_topic_and_option_that_is_named_exists() {
    let program = Cli::command();
    let options: Vec<String> = program
        .get_subcommands()
        .chain([&program])
        .flat_map(|command| command.get_arguments().filter_map(clap::Arg::get_long))
        .map(|name| format!("--{name}"))
        .chain(["--help".to_owned(), "--version".to_owned()])
        .collect();
    for (page, text) in pages() {
        for span in spans(&text) {
            let words = words(span);
            let Some(first) = words.first() else { continue };
            for option in words.iter().filter(|word| word.starts_with("--") && word.contains(char::is_alphabetic)) {
                let known = options.contains(option)
                    || FOREIGN.contains(&option.as_str())
                    || words.iter().any(|word| word == "cargo");
                assert!(known, "{page}: {option} in `{span}`");
            }
            let capitals = |word: &String| word.chars().all(char::is_uppercase);
            let Some(second) = words.get(1).filter(|word| first == "memwall" && !capitals(word)) else { continue };
            let known = second.starts_with("--") || program.find_subcommand(second).is_some();
            assert!(known, "{page}: `{span}`");
            if let Some(topic) = words.get(2).filter(|word| second == "help" && !capitals(word)) {
                assert!(manual::topic(topic).is_some(), "{page}: `{span}`");
            }
        }
    }
}

#[test]
fn every_plan_key_that_is_named_is_in_the_schema() {
    let mut named = 0;
    for (page, text) in pages() {
        for span in spans(&text) {
            let key = span.split([':', ' ']).next().unwrap();
            let section = key.split('.').next().unwrap();
            let plain = key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._".contains(c));
            if key.contains('.') && plain && schema::children("").any(|top| top.path == section) {
                assert!(schema::key(key).is_some(), "{page}: `{span}`");
                named += 1;
            }
        }
    }
    assert!(named > 30, "{named} keys were found");
}

#[test]
fn every_yaml_that_is_shown_is_read() {
    for (page, text) in pages() {
        for (_, lines) in blocks(&text).into_iter().filter(|(language, _)| *language == "yaml") {
            let yaml = lines.join("\n");
            let faults = match page.as_str() {
                "configs/help/keys.md" => Keymap::parse(&yaml).err(),
                "configs/help/alerts.md" => AlertRules::parse(&yaml).err(),
                _ => Document::parse(&yaml).and_then(|document| document.plan()).err(),
            };
            assert_eq!(faults, None, "{page}:\n{yaml}");
        }
    }
}

#[test]
fn every_source_in_the_table_is_one() {
    let text = read("configs/help/sources.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let sources: Vec<&str> = rows.filter(|name| !name.starts_with("--")).collect();
    assert!(sources.len() >= 6, "{sources:?}");
    for source in sources {
        assert!(Cli::try_parse_from(["memwall", "--source", source]).is_ok(), "{source}");
    }
}

#[test]
fn files_of_the_repository_that_are_named_exist() {
    for (page, text) in pages() {
        for span in spans(&text) {
            let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let inside = ["src/", "tests/", "configs/", "themes/", ".github/", ".ci/"];
            if plain && inside.iter().any(|folder| span.starts_with(folder)) && !span.contains("NAME") {
                assert!(path(span).exists(), "{page}: `{span}`");
            }
        }
    }
}
