//! A list to choose from by typing parts of a name.

pub(super) mod choice;
pub(super) mod picking;

use std::cmp::Reverse;

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::app::editor::field::Field;
use crate::app::editor::step::StepOutcome;
use crate::app::what_if::search::Constraint;
use crate::order::StableOrder;
use choice::Choice;

/// The longest text that can be typed into it.
const LONGEST: usize = 400;

/// What is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickerPurpose {
    /// A value of that field.
    Value(Field),
    /// An action of the dashboard.
    Action,
    /// A plan to open.
    Open,
    /// What a new plan begins with.
    NewPlan,
    /// A theme; the selected one colours the screen.
    Theme,
    /// A key that the plan does not have yet.
    NewKey,
    /// A second key to sweep.
    SecondKey,
    /// A constraint of the search.
    Constraint(Constraint),
    /// A term that is explained.
    Term,
    /// A topic of the manual, or a section of one.
    Topic,
    /// The file to save to: typed, not chosen.
    SaveAs,
    /// What to export the plan as.
    Export,
    /// The file to export to: typed, not chosen.
    ExportTo,
    /// The job of a cluster that is watched.
    Job,
}

impl PickerPurpose {
    /// The words in its frame.
    #[must_use]
    pub fn title(self) -> String {
        match self {
            Self::Value(field) => field.label().to_owned(),
            Self::Action => "actions".to_owned(),
            Self::Open => "open a plan, or another tool's file as one: choose, or type a path".to_owned(),
            Self::NewPlan => "new plan: a model, a template, or the path of a config.json".to_owned(),
            Self::Theme => "theme: the screen shows the selected one".to_owned(),
            Self::NewKey => "a key to add".to_owned(),
            Self::SecondKey => "a second key to sweep".to_owned(),
            Self::Constraint(Constraint::Value(field)) => format!("search again with another {}", field.label()),
            Self::Constraint(Constraint::Keep) => "a knob that stays as it is".to_owned(),
            Self::Term => "explain: type a word of the screen".to_owned(),
            Self::Topic => "help: type a word, a key, an option".to_owned(),
            Self::SaveAs => "save as: type a path".to_owned(),
            Self::Export => "export the plan as".to_owned(),
            Self::ExportTo => "export to: type a path".to_owned(),
            Self::Job => "job: choose, or type like namespace=ml,pod=llama-*".to_owned(),
        }
    }

    /// Whether the path of a file is meant.
    #[must_use]
    pub const fn is_path(self) -> bool {
        matches!(self, Self::Open | Self::NewPlan | Self::SaveAs | Self::ExportTo)
    }

    /// Whether text that is none of the names may be meant.
    #[must_use]
    pub const fn takes_any_text(self) -> bool {
        self.is_path() || matches!(self, Self::Value(_) | Self::Job | Self::Constraint(Constraint::Value(_)))
    }
}

/// The list, what has been typed, and what is selected.
#[derive(Debug, Clone)]
pub struct Picker {
    /// What is chosen.
    pub purpose: PickerPurpose,
    /// What has been typed.
    pub query: String,
    /// Everything there is to choose from.
    pub choices: Vec<Choice>,
    /// Places in `choices` that match, best first.
    pub shown: Vec<usize>,
    /// The selected one, by its place in `shown`.
    pub selected: usize,
    /// What the selected value would do to the plan.
    pub outcome: Option<StepOutcome>,
}

impl Picker {
    /// Opens the list on `current`, where that is in it.
    #[must_use]
    pub fn open(purpose: PickerPurpose, choices: Vec<Choice>, current: Option<&str>) -> Self {
        let selected = choices.iter().position(|choice| Some(choice.name.as_str()) == current).unwrap_or(0);
        let shown = (0..choices.len()).collect();
        Self { purpose, query: String::new(), choices, shown, selected, outcome: None }
    }

    /// The selected one's place in `choices`.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        self.shown.get(self.selected).copied()
    }

    /// What is selected.
    #[must_use]
    pub fn choice(&self) -> Option<&Choice> {
        self.choices.get(self.place()?)
    }

    /// What Enter would take: the selected name, or what was typed where no name matches.
    #[must_use]
    pub fn taken(&self) -> Option<String> {
        match self.choice() {
            Some(choice) => Some(choice.name.clone()),
            None => Some(self.query.trim().to_owned()).filter(|text| self.purpose.takes_any_text() && !text.is_empty()),
        }
    }

    /// Replaces what has been typed.
    pub fn set_query(&mut self, query: String) {
        self.query = query;
        self.shown = ranked(&self.choices, &self.query);
        self.selected = 0;
    }

    /// One more letter.
    pub fn type_letter(&mut self, letter: char) {
        if self.query.len() < LONGEST && !letter.is_control() {
            let mut query = std::mem::take(&mut self.query);
            query.push(letter);
            self.set_query(query);
        }
    }

    /// Moves the selection by so many rows.
    pub fn step(&mut self, rows: isize) {
        let last = self.shown.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(rows).min(last);
    }
}

/// The places of the choices that `typed` may stand for, best first: the one that it is, then those that have a word
/// which begins so, then by how well it fits.
#[must_use]
pub fn ranked(choices: &[Choice], typed: &str) -> Vec<usize> {
    let typed = typed.trim();
    if typed.is_empty() {
        return (0..choices.len()).collect();
    }
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = |part| Pattern::parse(part, CaseMatching::Ignore, Normalization::Smart);
    let parts: Vec<Pattern> = typed.split_whitespace().map(pattern).collect();
    let mut buffer = Vec::new();
    let mut score = |part: &Pattern, text: &str| part.score(Utf32Str::new(text, &mut buffer), &mut matcher);
    let mut scattered =
        |text: &str| parts.iter().map(|part| scattered(text, |word| score(part, word))).sum::<Option<u32>>();
    let begins = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| starts_alike(word, typed));
    let mut found: Vec<(bool, u8, u32, usize)> = choices
        .iter()
        .enumerate()
        .filter_map(|(at, choice)| {
            let exact = choice.name.eq_ignore_ascii_case(typed);
            // A hit in the name counts more than one among its other names or facts.
            let name = scattered(&choice.name).map(|score| score * 2);
            let other = scattered(&format!("{} {}", choice.name, choice.aliases));
            let word =
                if begins(&choice.name) || begins(&choice.aliases) { 2 } else { u8::from(begins(&choice.facts)) };
            // Sentences have most letters somewhere: what is typed stands in them as it is.
            let stands = || {
                let all = format!("{} {} {}", choice.name, choice.aliases, choice.facts).to_lowercase();
                typed.to_lowercase().split_whitespace().all(|part| all.contains(part)).then_some(0)
            };
            Some((exact, word, name.or(other).or_else(stands)?, at))
        })
        .collect();
    found.order_by_key(|(exact, word, score, at)| (!exact, Reverse(*word), Reverse(*score), *at));
    found.into_iter().map(|(_, _, _, at)| at).collect()
}

/// How well what is typed, with letters between its own, is found in a name; of several words in one of them. All of a
/// sentence's words together have most letters somewhere.
fn scattered(text: &str, score: impl FnMut(&str) -> Option<u32>) -> Option<u32> {
    text.split(' ').filter(|word| !word.is_empty()).filter_map(score).max()
}

fn starts_alike(word: &str, typed: &str) -> bool {
    word.get(..typed.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(typed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::editor::field::FIELDS;
    use crate::catalog::Catalog;

    fn first(choices: &[Choice], typed: &str) -> Option<String> {
        ranked(choices, typed).first().map(|at| choices[*at].name.clone())
    }

    #[test]
    fn a_name_typed_in_full_is_itself() {
        let catalog = Catalog::embedded().unwrap();
        for field in FIELDS {
            let choices = field.choices(&catalog);
            for choice in &choices {
                assert_eq!(first(&choices, &choice.name), Some(choice.name.clone()), "{field:?}");
                assert_eq!(first(&choices, &choice.name.to_uppercase()), Some(choice.name.clone()), "{field:?}");
            }
        }
    }

    #[test]
    fn parts_find_what_has_them() {
        let catalog = Catalog::embedded().unwrap();
        assert_eq!(first(&Field::Precision.choices(&catalog), "fp8").as_deref(), Some("fp8-mixed"));
        assert_eq!(first(&Field::Optimizer.choices(&catalog), "momentum").as_deref(), Some("sgd-momentum"));
        assert_eq!(first(&Field::Gpu.choices(&catalog), "h200").as_deref(), Some("NVIDIA H200 SXM 141GB"));
        assert_eq!(first(&Field::Model.choices(&catalog), "l38b").as_deref(), Some("llama-3-8b"));
        assert_eq!(first(&Field::Precision.choices(&catalog), "{every: 2}"), None);
        // Letters that lie scattered in a sentence are no word of it.
        let quit = [Choice::of("quit", "leave; asks where something is unsaved")];
        assert_eq!(first(&quit, "leak"), None);
        let others =
            [Choice::of("next pane", ""), Choice { aliases: "flame reach peak".into(), ..Choice::of("roofs", "") }];
        assert_eq!((first(&others, "nan"), first(&others, "leak")), (None, None));
        assert_eq!(first(&quit, "unsaved leave").as_deref(), Some("quit"));
    }
}
