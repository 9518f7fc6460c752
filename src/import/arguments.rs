//! Words of a command line as settings.

use serde_json::Value;

use super::origin::Origin;
use super::settings::Settings;

/// Options and what stands between them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    /// `--name value`, `--name=value`, `--name`: by name, `-` as `_`.
    pub options: Settings,
    /// Words before the first option, and `key=value` words anywhere.
    pub words: Vec<String>,
}

/// Reads words as argparse, tyro and Hydra commands have them. A word behind an option is its
/// value; several are its list; none makes it true.
pub fn read(words: &[String]) -> Arguments {
    let mut read = Arguments::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        let Some(name) = option_name(word) else {
            read.words.push(word.clone());
            continue;
        };
        if let Some((name, value)) = name.split_once('=') {
            set(&mut read.options, name, value.into());
            continue;
        }
        let start = at;
        while words.get(at).is_some_and(|word| option_name(word).is_none() && word != "--") {
            at += 1;
        }
        let (values, rest) = split_values(words.get(start..at).unwrap_or_default());
        read.words.extend(rest.iter().cloned());
        let value = match values {
            [] => Value::Bool(true),
            [one] => one.as_str().into(),
            many => many.iter().map(String::as_str).collect(),
        };
        set(&mut read.options, name, value);
    }
    read
}

/// A word `key=value` behind an option's first value is no value of it.
fn split_values(values: &[String]) -> (&[String], &[String]) {
    let end = values.iter().skip(1).position(|word| override_of(word).is_some()).map_or(values.len(), |at| at + 1);
    values.split_at(end)
}

fn set(options: &mut Settings, name: &str, value: Value) {
    let plain = name.trim_start_matches('-').replace('-', "_");
    let dashes = if plain.len() == 1 { "-" } else { "--" };
    options.set(&plain, value, Origin::Argument(format!("{dashes}{}", name.trim_start_matches('-'))));
}

/// The name of an option: behind `--`, or behind `-` where no number follows.
fn option_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--").or_else(|| {
        let short = word.strip_prefix('-')?;
        short.starts_with(|letter: char| letter.is_ascii_alphabetic()).then_some(short)
    })?;
    (!name.is_empty() && !name.starts_with(|letter: char| letter.is_whitespace())).then_some(name)
}

/// `key=value`, also `+key=value` and `~key` as Hydra has them.
pub fn override_of(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let name = name.trim_start_matches('+');
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-' | '/');
    (!name.is_empty() && name.chars().all(good)).then_some((name, value))
}

/// Every `key=value` among `words`, as settings.
pub fn overrides(words: &[String]) -> Settings {
    let mut settings = Settings::default();
    for word in words {
        let Some((name, value)) = override_of(word) else { continue };
        let value = match value {
            "null" | "None" | "" => Value::Null,
            other => other.trim_matches(['"', '\'']).into(),
        };
        settings.set(name, value, Origin::Argument(word_shown(word)));
    }
    settings
}

fn word_shown(word: &str) -> String {
    word.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn options_take_what_follows_them() {
        let read = read(&words("cfg.yaml --a-b 3 --c --d=x --e 1 -2 --f -4 k=v"));
        assert_eq!(read.words, ["cfg.yaml", "k=v"]);
        assert_eq!(read.options.whole("a_b").unwrap().value, 3);
        assert!(read.options.is("c"));
        assert_eq!(read.options.text("d").unwrap().value, "x");
        assert_eq!(read.options.texts("e").unwrap().value, ["1", "-2"]);
        assert_eq!(read.options.number("f").unwrap().value, -4.0);
        assert_eq!(read.options.whole("a_b").unwrap().origin, Origin::Argument("--a-b".into()));
    }

    #[test]
    fn overrides_are_words_with_a_sign() {
        let settings = overrides(&words("a.b=3 +c=null plain --d=4"));
        assert_eq!(settings.whole("a.b").unwrap().value, 3);
        assert!(settings.get("c").is_none());
        assert_eq!(settings.iter().count(), 3);
    }
}
