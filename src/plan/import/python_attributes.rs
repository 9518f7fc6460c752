//! Arguments that a script sets after it has made its `TrainingArguments`: `training_args.bf16 = True`. Read, never run.

use super::origin::Origin;
use super::python::ScriptReader;
use super::python_calls::{ARGUMENTS, call};
use super::script_doubts::STEP_ARGUMENTS;
use super::settings::{Settings, UNKNOWN};

/// What a script gives the attributes of its arguments. One that decides what a step holds, and stands on a condition, is
/// open.
pub fn set_later(name: &str, content: &str, reader: &ScriptReader) -> Settings {
    let mut settings = Settings::default();
    let Some(at) = ARGUMENTS.iter().filter_map(|name| call(content, name)).min() else { return settings };
    let Some(start) = content.get(..at).and_then(|before| before.rsplit('\n').next()) else { return settings };
    let indent = start.len() - start.trim_start().len();
    let variable = start.trim().split_once('=').map_or("", |(left, _)| left.split(':').next().unwrap_or("").trim());
    let plain = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if variable.is_empty() || !plain(variable) {
        return settings;
    }
    let first = content.get(..at).map_or(0, |before| before.matches('\n').count());
    for (line, text) in content.lines().enumerate().skip(first + 1) {
        let Some(rest) = text.trim_start().strip_prefix(variable).and_then(|rest| rest.strip_prefix('.')) else {
            continue;
        };
        let Some((key, value)) = rest.split_once(" = ").filter(|(key, _)| plain(key)) else { continue };
        let origin = Origin::File { name: name.to_owned(), line: Some(line + 1), key: key.to_owned() };
        let deeper = text.len() - text.trim_start().len() > indent;
        let value = value.split(" #").next().unwrap_or(value).trim();
        if !deeper {
            let found = reader.expression(value).unwrap_or_else(|| UNKNOWN.into());
            settings.set(key, found, origin);
        } else if STEP_ARGUMENTS.contains(&key) {
            settings.set(key, UNKNOWN.into(), origin);
        }
    }
    settings
}
