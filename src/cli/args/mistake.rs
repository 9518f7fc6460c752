//! What is wrong with a command line, in one line.

use std::path::Path;

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;
use crate::cli::Failure;

/// Words for what there is under another name.
const MEANT: [(&str, &str); 2] =
    [("max-batch", "predict --max-batch-size"), ("max-batch-size", "predict --max-batch-size")];

/// Reads the command line; help and version are written here.
///
/// # Errors
/// What is wrong with it, with where to read on.
pub fn parsed() -> Result<Cli, Failure> {
    let matches = Cli::program().try_get_matches();
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            error.exit();
        }
        let words: Vec<String> = std::env::args().skip(1).collect();
        Failure::usage(said(&error, &words))
    })
}

/// The error of the words behind the program's name.
fn said(error: &clap::Error, words: &[String]) -> String {
    let command = Cli::program();
    let known = |word: &String| command.get_subcommands().any(|sub| sub.get_name() == word);
    let of = words.first().filter(|word| known(word)).map_or_else(String::new, |name| format!(" {name}"));
    let conflict = error.kind() == ErrorKind::ArgumentConflict;
    if let Some([first, second, ..]) = words.get(..).filter(|_| conflict)
        && is_file(first)
        && is_file(second)
    {
        return format!("memwall takes one plan: memwall {first}, and o in the dashboard opens {second} beside it");
    }
    if let Some(word) = words.first().filter(|word| conflict && !known(word) && !word.starts_with('-')) {
        return format!("{word}: no such command{}; see memwall --help", nearest(word).unwrap_or_default());
    }
    let rendered = error.to_string();
    let first = rendered.split("\n\n").next().unwrap_or_default();
    let first: Vec<&str> = first.split_whitespace().collect();
    let message = first.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let near = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(option)) => format!("; there is {option}"),
        _ => String::new(),
    };
    format!("{message}{near}; see memwall{of} --help")
}

/// Whether a word is a plan's file, there or not.
fn is_file(word: &str) -> bool {
    let has_ending = Path::new(word).extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    !word.starts_with('-') && (has_ending || Path::new(word).is_file())
}

/// The command that a word may have been meant as, behind a semicolon.
pub(super) fn nearest(word: &str) -> Option<String> {
    if let Some((_, meant)) = MEANT.iter().find(|(name, _)| *name == word) {
        return Some(format!("; it is memwall {meant}"));
    }
    let command = Cli::program();
    let distance = |name: &&str| strsim::levenshtein(name, word);
    let near = command.get_subcommands().map(clap::Command::get_name).min_by_key(distance)?;
    (distance(&near) < 3).then(|| format!("; the command is `{near}`"))
}
