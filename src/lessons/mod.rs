//! What the words on the screen mean, with a plan's own numbers: `memwall explain TERM`, and a key over what is selected.
//!
//! The texts are Markdown in `configs/lessons/terms.md`, embedded.
//!
//! ```
//! use memwall::lessons;
//!
//! let lesson = lessons::lesson("zero 3").unwrap();
//! assert_eq!(lesson.name, "ZeRO-3");
//! assert!(lesson.markdown(None).contains("## Where to see it"));
//! ```

mod numbers;
mod tutorial;

pub use tutorial::{Goal, TutorialQuestion, TutorialStep, tutorial};

use std::sync::OnceLock;

use crate::predict::{Job, Prediction};

/// The texts: a heading for each term, then lines `also:`, `seen:` and `formula:`, then paragraphs.
const TERMS: &str = include_str!("../../configs/lessons/terms.md");

/// What one term means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// The term.
    pub name: &'static str,
    /// Other words for it.
    pub aliases: Vec<&'static str>,
    /// Where its value is shown.
    pub seen: &'static str,
    /// How it is computed, in words; none for what is not computed.
    pub formula: Option<&'static str>,
    /// What it is, and what follows from it.
    pub text: &'static str,
}

/// Every term, in the order of the file.
pub fn lessons() -> &'static [Lesson] {
    static LESSONS: OnceLock<Vec<Lesson>> = OnceLock::new();
    LESSONS.get_or_init(|| TERMS.split("\n# ").map(|part| read(part.trim_start_matches("# "))).collect())
}

/// The lesson of that name or alias; case, spaces, hyphens and `_` are forgiven.
pub fn lesson(name: &str) -> Option<&'static Lesson> {
    let wanted = plain(name);
    let is_named = |lesson: &&Lesson| plain(lesson.name) == wanted;
    let is_called = |lesson: &&Lesson| lesson.aliases.iter().any(|alias| plain(alias) == wanted);
    lessons().iter().find(is_named).or_else(|| lessons().iter().find(is_called))
}

/// The name that is most like a word which none has.
pub fn nearest(word: &str) -> Option<&'static str> {
    let wanted = plain(word);
    let names = lessons().iter().flat_map(|lesson| lesson.aliases.iter().copied().chain([lesson.name]));
    let near = names.map(|name| (strsim::jaro_winkler(&plain(name), &wanted), name));
    near.filter(|(likeness, _)| *likeness > NEAR).max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// Words that are less alike than this mean something else.
const NEAR: f64 = 0.85;

fn plain(word: &str) -> String {
    word.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn read(part: &'static str) -> Lesson {
    let (name, mut rest) = part.split_once('\n').unwrap_or((part, ""));
    let mut lesson = Lesson { name: name.trim(), aliases: Vec::new(), seen: "", formula: None, text: "" };
    while let Some((line, after)) = rest.split_once('\n') {
        match line.split_once(": ") {
            Some(("also", words)) => lesson.aliases = words.split(", ").collect(),
            Some(("seen", places)) => lesson.seen = places,
            Some(("formula", words)) => lesson.formula = Some(words),
            _ => break,
        }
        rest = after;
    }
    lesson.text = rest.trim();
    lesson
}

impl Lesson {
    /// The numbers of a plan that belong to the term, a line each; empty where the plan has none of it.
    #[must_use]
    pub fn numbers(&self, job: &Job, prediction: &Prediction) -> Vec<String> {
        numbers::of(self.name, job, prediction)
    }

    /// All of it as Markdown, with the numbers of a plan: its name, what was decided about it, and its prediction.
    #[must_use]
    pub fn markdown(&self, plan: Option<(&str, &Job, &Prediction)>) -> String {
        let mut text = format!("# {}\n", self.name);
        if let Some(formula) = self.formula {
            text += &format!("\n{formula}\n");
        }
        if let Some((name, job, prediction)) = plan {
            let numbers = self.numbers(job, prediction);
            text += &format!("\n## In {name}\n\n");
            match numbers.is_empty() {
                true => text += "This plan has no number of its own for it.\n",
                false => numbers.iter().for_each(|line| text += &format!("- {line}\n")),
            }
        }
        text + &format!("\n## What it is\n\n{}\n\n## Where to see it\n\n{}\n", self.text, self.seen)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::{EXAMPLES, LoadedPlan};
    use crate::predict::predict;

    #[test]
    fn every_lesson_is_whole_and_every_word_leads_to_one() {
        let mut words = BTreeSet::new();
        for lesson in lessons() {
            assert!(!lesson.seen.is_empty(), "{}: nobody is told where to see it", lesson.name);
            assert!(lesson.text.split("\n\n").count() >= 2, "{}: two paragraphs", lesson.name);
            for word in lesson.aliases.iter().copied().chain([lesson.name]) {
                assert!(words.insert(plain(word)), "{word} stands for two");
                assert_eq!(super::lesson(word).unwrap().name, lesson.name);
            }
        }
        assert!(lessons().len() >= 40);
        assert_eq!(nearest("arithmetic intensty"), Some("Arithmetic intensity"));
        assert_eq!(nearest("xyzzy"), None);
    }

    #[test]
    fn the_numbers_are_those_of_the_prediction() {
        let catalog = Catalog::embedded().unwrap();
        let text = "model: {preset: llama-2-7b, batch_size: 1, sequence_length: 2048}\n\
                    training: {precision: bf16-fp32-master}\nhardware: {gpu_type: NVIDIA A100 80GB}\n";
        let plan = LoadedPlan::from_text("a", text).unwrap();
        let job = Job::resolve(&plan.plan, &catalog).unwrap();
        let prediction = predict(&job);
        let said = |name: &str| lesson(name).unwrap().numbers(&job, &prediction).join("\n");
        // 312 TFLOP/s over 2 039 GB/s, NVIDIA's data sheet of the A100 80GB.
        assert!(said("ridge").contains("312 TFLOP/s / 2.04 TB/s = 153 FLOP/B"), "{}", said("ridge"));
        // 6 738 415 616 parameters in bf16: 13 476 831 232 bytes, 12.55 GiB.
        assert!(said("parameters").contains("12.6 GiB"), "{}", said("parameters"));
        // A master copy and two moments, 12 bytes each: 75.3 GiB.
        assert!(said("optimizer states").contains("75.3 GiB"), "{}", said("optimizer states"));
    }

    #[test]
    fn every_example_has_numbers_that_are_finite() {
        let catalog = Catalog::embedded().unwrap();
        for (name, text) in EXAMPLES {
            let plan = LoadedPlan::from_text(name, text).unwrap();
            let job = Job::resolve(&plan.plan, &catalog).unwrap();
            let prediction = predict(&job);
            for lesson in lessons() {
                let said = lesson.numbers(&job, &prediction).join("\n");
                assert!(!said.contains("NaN") && !said.contains("inf"), "{name}, {}: {said}", lesson.name);
            }
        }
    }
}
