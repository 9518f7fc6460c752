//! Which dataclasses of a project a script's parser fills in: `HfArgumentParser((ModelArguments, TrainingArguments))`.

use std::collections::{BTreeMap, BTreeSet};

use super::text::arguments;

/// What fills dataclasses in from a command line or a file.
pub const PARSERS: [&str; 4] = ["HfArgumentParser(", "TrlParser(", "H4ArgumentParser(", "ArgumentParserPlus("];

/// No script that people write has more parsers, and no project more such classes.
const MOST: usize = 200;

/// Names of those classes, with those that they stand on; none where the script does not show them. A class that a
/// variable stands for (LMFlow: `PipelineArguments = AutoArguments.get_pipeline_args_class(name)`) is one that stands on
/// `TrainingArguments` itself.
pub fn parsed(script: &str, texts: &[&str]) -> Option<BTreeSet<String>> {
    let classes = classes(texts);
    let mut names = BTreeSet::new();
    let mut computed = false;
    for name in filled(script) {
        if classes.contains_key(name) {
            names.insert(name.to_owned());
        } else {
            computed |= script.lines().any(|line| line.trim_start().starts_with(&format!("{name} =")));
        }
    }
    if names.is_empty() {
        return None;
    }
    if computed {
        let direct = |bases: &[&str]| bases.iter().any(|base| base.rsplit('.').next() == Some("TrainingArguments"));
        names.extend(classes.iter().filter(|(_, bases)| direct(bases)).map(|(name, _)| (*name).to_owned()));
    }
    Some(with_bases(names, &classes))
}

/// Names of the classes of a project that a script names anywhere, with those that they stand on.
pub fn named(script: &str, texts: &[&str]) -> Option<BTreeSet<String>> {
    let classes = classes(texts);
    let words: BTreeSet<&str> = script.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
    let names: BTreeSet<String> =
        classes.keys().filter(|name| words.contains(*name)).map(|name| (*name).to_owned()).collect();
    (!names.is_empty()).then(|| with_bases(names, &classes))
}

/// Whether a script's parser fills in nothing but classes that the texts show and that stand on none of a library's.
pub fn fills_own_alone(script: &str, texts: &[&str]) -> bool {
    let classes = classes(texts);
    let names: BTreeSet<String> = filled(script).into_iter().map(str::to_owned).collect();
    let shown = |base: &&str| *base == "object" || classes.contains_key(base.rsplit('.').next().unwrap_or(base));
    let own = |name: &String| classes.get(name.as_str()).is_some_and(|bases| bases.iter().all(shown));
    !names.is_empty() && with_bases(names, &classes).iter().all(own)
}

/// What the classes of a text stand on, by the last parts of their names.
pub fn bases(text: &str) -> BTreeSet<&str> {
    let last = |base: &'_ str| -> usize { base.rfind('.').map_or(0, |at| at + 1) };
    classes(&[text]).into_values().flatten().filter_map(|base| base.get(last(base)..)).collect()
}

fn with_bases(mut names: BTreeSet<String>, classes: &BTreeMap<&str, Vec<&str>>) -> BTreeSet<String> {
    let mut open: Vec<String> = names.iter().cloned().collect();
    while let Some(name) = open.pop() {
        for base in classes.get(name.as_str()).into_iter().flatten() {
            let base = base.rsplit('.').next().unwrap_or(base);
            if classes.contains_key(base) && names.insert(base.to_owned()) {
                open.push(base.to_owned());
            }
        }
    }
    names
}

/// The classes of some texts, and what each stands on.
fn classes<'a>(texts: &[&'a str]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let lines = |text: &'a str| {
        let others = text.match_indices('\n').filter_map(move |(at, _)| text.get(at + 1..));
        std::iter::once(text).chain(others)
    };
    texts.iter().flat_map(|text| lines(text)).filter_map(class).take(MOST).collect()
}

/// The class that a text begins, and what it stands on, each on a line of its own or not.
fn class(text: &str) -> Option<(&str, Vec<&str>)> {
    let rest = text.strip_prefix("class ")?;
    let (name, behind) = rest.split_at(rest.find([':', '(', '\n'])?);
    let bases = behind.strip_prefix('(').and_then(|inner| inner.split(')').next()).unwrap_or("");
    let plain = |base: &&str| {
        !base.is_empty() && base.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'))
    };
    let written = bases.lines().map(|line| line.split('#').next().unwrap_or(""));
    Some((name.trim(), written.flat_map(|line| line.split(',')).map(str::trim).filter(plain).collect()))
}

/// Names in the calls of parsers.
fn filled<'a>(script: &'a str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for parser in PARSERS {
        for (at, _) in script.match_indices(parser).take(MOST) {
            let behind = script.get(at + parser.len()..).unwrap_or("");
            let Some(first) = arguments(behind).into_iter().next() else { continue };
            let length = first.len();
            let list = behind.get(..length.min(behind.len())).unwrap_or("");
            let is_name = |name: &&str| {
                !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            };
            // `utils.Arguments`, of a module of the project's.
            let last = |word: &'a str| word.rsplit('.').next().unwrap_or(word);
            found.extend(list.split([',', '(', ')', '[', ']']).map(str::trim).map(last).filter(is_name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{fills_own_alone, parsed};

    const ARGUMENTS: &str = "\
class ModelArguments:
class Common(TrainingArguments):
class Tuner(Common):
class Other(transformers.TrainingArguments):
class Aligner:
";

    #[test]
    fn a_parser_names_its_classes() {
        let names =
            |script: &str| parsed(script, &[script, ARGUMENTS]).map(|names| names.into_iter().collect::<Vec<_>>());
        let plain = "parser = HfArgumentParser((ModelArguments, Tuner))";
        assert_eq!(names(plain).unwrap(), ["Common", "ModelArguments", "Tuner"]);
        // Of a class that a variable stands for, those on TrainingArguments itself; never one on nothing.
        let computed = "Pipeline = of(name)\nparser = HfArgumentParser(\n    (ModelArguments, Pipeline)\n)";
        assert_eq!(names(computed).unwrap(), ["Common", "ModelArguments", "Other"]);
        // A module's class, whose bases stand on lines of their own.
        let wide = "class Whole(\n    ModelArguments,  # the model's\n    Tuner,\n):\n    rank: int = 8\n";
        let script = "parser = ArgumentParserPlus((utils.Whole, Aligner))";
        let found = parsed(script, &[script, wide, ARGUMENTS]).unwrap();
        assert_eq!(Vec::from_iter(found), ["Aligner", "Common", "ModelArguments", "Tuner", "Whole"]);
        assert_eq!(names("HfArgumentParser(CLASSES)"), None);
        assert_eq!(names("parser = argparse.ArgumentParser()"), None);
    }

    #[test]
    fn classes_of_a_scripts_own_stand_on_none_of_a_library() {
        let own = |script: &str| fills_own_alone(script, &[script, ARGUMENTS]);
        assert!(own("HfArgumentParser((ModelArguments, Aligner))"));
        // One that stands on TrainingArguments, one that no text shows, and none that is named.
        assert!(!own("HfArgumentParser((ModelArguments, Tuner))"));
        assert!(!own("HfArgumentParser((ModelArguments, TrainingArguments))"));
        assert!(!own("argparse.ArgumentParser()"));
    }
}
