//! The English of the pages and of `--help`: short sentences and the field's words.

use clap::CommandFactory;
use memwall::cli::Cli;

use super::pages;

/// Words of ours for which the field has others.
const OWN_WORDS: [(&str, &str); 9] = [
    ("made-up", "simulated"),
    ("made up", "simulated"),
    ("card", "GPU"),
    ("cards", "GPUs"),
    ("exchange of experts", "expert all-to-all"),
    ("matrix product", "matrix multiplication"),
    ("figure", "metric, value or number"),
    ("figures", "metrics, values or numbers"),
    ("hand over", "pass"),
];

/// A sentence of more words is two.
const LONGEST: usize = 26;

fn has_word(text: &str, word: &str) -> bool {
    let letter = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(letter)
            && !text[at + word.len()..].chars().next().is_some_and(letter)
    })
}

/// Everything that `--help` says, of all commands.
fn help() -> String {
    let mut program = Cli::command();
    program.build();
    let mut text = program.render_long_help().to_string();
    for name in program.get_subcommands().map(|command| command.get_name().to_owned()).collect::<Vec<_>>() {
        text.push_str(&program.find_subcommand_mut(&name).unwrap().render_long_help().to_string());
    }
    text
}

#[test]
fn the_words_are_the_fields() {
    let mut found = Vec::new();
    for (page, text) in pages().into_iter().chain([("--help".to_owned(), help())]) {
        for line in text.lines() {
            let own = OWN_WORDS.iter().filter(|(own, _)| has_word(&line.to_lowercase(), own));
            found.extend(own.map(|(own, better)| format!("{page}: say {better}, not {own}: {line}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Sentences outside of code and tables.
fn sentences(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut fenced = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let apart = line.trim().is_empty() || line.trim_start().starts_with(['#', '|', '<', '!', '-']) || fence;
        if apart {
            paragraphs.push(String::new());
        }
        if !fenced && !fence && !line.trim_start().starts_with(['#', '|', '<', '!']) {
            let paragraph = paragraphs.last_mut().unwrap();
            paragraph.push_str(line.trim());
            paragraph.push(' ');
        }
    }
    let ends = [". ", ": ", "; ", "? "];
    paragraphs
        .iter()
        .flat_map(|paragraph| {
            let marked = ends.iter().fold(paragraph.clone(), |text, end| text.replace(end, "\n"));
            marked.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn sentences_are_short() {
    let mut long = Vec::new();
    for (page, text) in pages() {
        // The generated part of a page is lists of words.
        let prose: String = text.split("<!-- end -->").map(|part| part.split("<!-- ").next().unwrap()).collect();
        for sentence in sentences(&prose) {
            let words = sentence.split_whitespace().count();
            if words > LONGEST {
                long.push(format!("{page}: {words} words: {sentence}"));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}
