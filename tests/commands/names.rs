//! The names of types: nouns of the field, and each public one once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Bare adverbs, pronouns, participles and adjectives, and metaphors that a noun of the field has replaced.
const NO_NOUNS: &[&str] = &[
    "Absent",
    "Alarm",
    "Alerts",
    "Alike",
    "Alive",
    "Along",
    "Around",
    "As",
    "Asked",
    "At",
    "Attached",
    "Attends",
    "Awaited",
    "Beside",
    "Beyond",
    "Came",
    "Closed",
    "Closely",
    "Counted",
    "Course",
    "Doing",
    "Edited",
    "Elsewhere",
    "Expected",
    "Explaining",
    "Exported",
    "Fixed",
    "Follow",
    "Following",
    "Found",
    "From",
    "Gathered",
    "Given",
    "Good",
    "Grows",
    "Hands",
    "Heard",
    "Held",
    "Imported",
    "InTheWay",
    "Inferred",
    "Inside",
    "Keeps",
    "Kept",
    "Largest",
    "Launched",
    "Left",
    "Lies",
    "Listening",
    "Loaded",
    "Logged",
    "Looking",
    "Lost",
    "Means",
    "Meant",
    "Measured",
    "Meets",
    "Mine",
    "Missing",
    "Near",
    "Nobody",
    "Of",
    "Open",
    "Opened",
    "Others",
    "Out",
    "Outside",
    "Own",
    "Passed",
    "Past",
    "Placed",
    "Plain",
    "Planned",
    "Played",
    "Raised",
    "RanOut",
    "Ranked",
    "Registered",
    "Remembered",
    "Says",
    "Seen",
    "Selected",
    "Sent",
    "Shown",
    "Sized",
    "Slowly",
    "Somebody",
    "Spent",
    "Standing",
    "Stated",
    "Stepped",
    "Still",
    "Stored",
    "Summit",
    "Sure",
    "Taken",
    "Told",
    "Tried",
    "Unclosed",
    "Unsaved",
    "Unsure",
    "Walked",
    "Walks",
    "Wanted",
    "Wants",
    "Ways",
    "Whatever",
    "When",
    "Wherever",
    "Whether",
    "Whose",
    "Wish",
    "Written",
    "Wrong",
    "Yours",
];

/// Types that are defined in `src`: whether one is public without limits, its name, and where it is. Types that belong
/// to traits are not.
fn types() -> Vec<(bool, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    crate::layering::rust_files(&root, &mut files);
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            if let Some((public, name)) = defined(line) {
                let place = format!("{}:{}", file.strip_prefix(&root).unwrap().display(), number + 1);
                found.push((public, name, place));
            }
        }
    }
    found
}

/// The type that a line defines, and whether it is public without limits.
fn defined(line: &str) -> Option<(bool, String)> {
    let code = line.trim_start();
    let (visibility, rest) = match code.strip_prefix("pub ") {
        Some(rest) => ("pub", rest),
        None if code.starts_with("pub(") => code.split_once(") ")?,
        None => ("", code),
    };
    let (keyword, rest) = rest.split_once(' ')?;
    let associated = keyword == "type" && visibility.is_empty() && line.starts_with(' ');
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) || associated {
        return None;
    }
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    name.starts_with(char::is_uppercase).then_some((visibility == "pub", name))
}

#[test]
fn a_definition_is_read_with_its_visibility() {
    assert_eq!(defined("pub struct Peak {"), Some((true, "Peak".to_owned())));
    assert_eq!(defined("    pub(super) enum Exit {"), Some((false, "Exit".to_owned())));
    assert_eq!(defined("pub(in super::super) struct Pass<'a>(u8);"), Some((false, "Pass".to_owned())));
    assert_eq!(defined("type Line = Vec<u8>;"), Some((false, "Line".to_owned())));
    assert_eq!(defined("    type Output = Self;"), None);
    assert_eq!(defined("let structure = 1;"), None);
}

#[test]
fn types_are_named_by_nouns() {
    let faults: Vec<String> = types()
        .into_iter()
        .filter(|(_, name, _)| NO_NOUNS.contains(&name.as_str()))
        .map(|(_, name, place)| format!("{place}: {name} does not say what the type is"))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_two_public_types_share_a_name() {
    let all = types();
    assert!(all.len() > 500, "only {} types were found", all.len());
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, name, place) in all.into_iter().filter(|(public, _, _)| *public) {
        places.entry(name).or_default().push(place);
    }
    let twice: Vec<String> = places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(twice.is_empty(), "{}", twice.join("\n"));
}
