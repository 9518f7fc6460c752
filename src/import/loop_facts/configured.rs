//! Settings that a command puts over a script's own names.

use crate::common::ImportContext;
use crate::script_defaults::is_name;

/// nanoGPT's `configurator.py`, which its copies run by `exec`: files of assignments, and `--name=value` with a literal in
/// Python, else a text. Lines keep their places.
pub(super) fn by_configurator(context: &ImportContext, text: &str) -> String {
    let told = |word: &String| match word.split_once('=') {
        Some((name, value)) => assignment(name.strip_prefix("--")?, value),
        None if word.starts_with("--") => None,
        None => Some(context.run.files.read(word).ok()?.lines().collect::<Vec<_>>().join("; ")),
    };
    let runs = |line: &str| line.starts_with("exec(") && line.contains("configurator.py");
    let configured = |line: &str| match runs(line) {
        true => context.program.words.iter().filter_map(told).collect::<Vec<_>>().join("; "),
        false => line.to_owned(),
    };
    text.lines().map(configured).collect::<Vec<_>>().join("\n")
}

/// `ast.literal_eval`, and what is no literal as it stands.
fn assignment(name: &str, value: &str) -> Option<String> {
    let is_literal = matches!(value, "True" | "False" | "None") || value.parse::<f64>().is_ok();
    let quoted = || format!("\"{}\"", value.replace(['\\', '"'], ""));
    is_name(name).then(|| format!("{name} = {}", if is_literal { value.to_owned() } else { quoted() }))
}
