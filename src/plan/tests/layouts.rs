//! Edits in plans of every layout: indented and in braces, with comments and gaps anywhere.

use proptest::prelude::*;

use super::editing::{change, comments};
use crate::plan::Document;
use crate::plan::schema::{self, PlanKey, ValueKind};

/// How one section is written.
#[derive(Debug, Clone)]
struct Section {
    key: &'static PlanKey,
    form: u8,
    /// Which of its keys: each picks one out of those left.
    picks: Vec<prop::sample::Index>,
    comments: [bool; 4],
    gap: bool,
}

fn section(key: &'static PlanKey) -> impl Strategy<Value = Section> {
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 1..5);
    (0..8_u8, picks, any::<[bool; 4]>(), any::<bool>()).prop_map(move |(form, picks, comments, gap)| Section {
        key,
        form,
        picks,
        comments,
        gap,
    })
}

/// A value that its kind allows, written as people do.
fn value(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Word(words) | ValueKind::WordOrSection(words) => words[0].name,
        ValueKind::Words(_) | ValueKind::Texts | ValueKind::Wholes { .. } => "[]",
        ValueKind::Whole { .. } => "1_0",
        ValueKind::Choice(_) => "4",
        ValueKind::Positive { .. } | ValueKind::Amount { .. } | ValueKind::Share => "0.5",
        ValueKind::Flag | ValueKind::FlagOrAmount => "true",
        ValueKind::Text | ValueKind::PathOrKeys | ValueKind::Section => "'a #b'",
    }
}

impl Section {
    fn keys(&self) -> Vec<&'static PlanKey> {
        let mut left: Vec<_> = schema::children(self.key.path)
            .filter(|key| !key.kind.holds_keys() && key.kind != ValueKind::PathOrKeys)
            .collect();
        let picked = self.picks.iter().map(|pick| (!left.is_empty()).then(|| left.remove(pick.index(left.len()))));
        picked.flatten().collect()
    }

    fn text(&self, indent: &str) -> String {
        let name = self.key.name();
        let note = |which: usize, text: &str| {
            if self.comments[which] { format!(" # {text} of {name}") } else { String::new() }
        };
        let pairs: Vec<_> = self.keys().iter().map(|key| format!("{}: {}", key.name(), value(key.kind))).collect();
        let body = match self.form {
            0 => format!("{name}:{}\n", note(0, "head")),
            1 => format!("{name}: ~{}\n", note(0, "head")),
            2 => format!("{name}: {{}}{}\n", note(0, "head")),
            3 => format!("{name}: {{{}}}{}\n", pairs.join(", "), note(0, "head")),
            4 => {
                let lines: Vec<_> = pairs.iter().map(|pair| format!("{indent}{pair}")).collect();
                format!("{name}: {{{}\n{}{}\n}}\n", note(0, "head"), lines.join(",\n"), note(1, "last"))
            }
            _ => {
                let lines: Vec<_> = pairs.iter().map(|pair| format!("{indent}{pair}{}\n", note(1, pair))).collect();
                format!("{name}:{}\n{}", note(0, "head"), lines.concat())
            }
        };
        let before = if self.comments[2] { format!("# before {name}\n") } else { String::new() };
        let after = if self.comments[3] { format!("{indent}# after {name}\n") } else { String::new() };
        format!("{before}{body}{after}{}", if self.gap { "\n" } else { "" })
    }
}

/// Sections in any order, with blanks of either width and line ends of either kind.
fn layout() -> impl Strategy<Value = String> {
    let sections: Vec<_> = schema::children("").map(section).collect();
    (sections, any::<prop::sample::Index>(), 1..8_usize, 0..16_u8).prop_map(|(mut sections, first, count, style)| {
        let middle = first.index(sections.len());
        sections.rotate_left(middle);
        let indent = if style & 1 == 0 { "  " } else { "    " };
        let text: String = sections.iter().take(count).map(|section| section.text(indent)).collect();
        let text = if style & 2 == 0 { text } else { format!("# head of all\n\n{text}") };
        let text = if style & 4 == 0 { text } else { text.trim_end().to_owned() };
        if style & 8 == 0 { text } else { text.replace('\n', "\r\n") }
    })
}

proptest! {
    #[test]
    fn edits_stay_where_they_belong(text in layout(), changes in prop::collection::vec(change(), 1..5)) {
        let mut document = Document::parse(&text).unwrap();
        for (key, value) in changes {
            match document.with_value(key, &value) {
                Ok(next) => document = next,
                Err(fault) => prop_assert!(key.starts_with("training.activation_checkpointing."), "{} in {:?}", fault, document.text()),
            }
        }
        let now = comments(document.text());
        prop_assert!(comments(&text).iter().all(|comment| now.contains(comment)), "{} became {}", text, document.text());
        let lone = |text: &str| text.replace("\r\n", "").contains('\n');
        prop_assert!(!(text.contains("\r\n") && lone(document.text())), "{:?}", document.text());
    }

    #[test]
    fn keys_go_without_taking_others_along(text in layout(), picks in prop::collection::vec(any::<prop::sample::Index>(), 1..5)) {
        let mut document = Document::parse(&text).unwrap();
        for pick in picks {
            let held: Vec<_> = schema::keys().iter().filter(|key| document.node(key.path).is_some()).collect();
            if held.is_empty() {
                break;
            }
            let key = held[pick.index(held.len())].path;
            document = document.without(key).unwrap_or_else(|fault| panic!("{fault} in {:?}", document.text()));
            prop_assert!(document.node(key).is_none());
        }
    }
}
