//! The memory wall in eight steps: each a plan, a text and a task. From `configs/lessons/tutorial.md`, embedded.

use std::sync::OnceLock;

use crate::plan::Checkpointing;
use crate::plan::keywords::Attention;
use crate::predict::{Job, Prediction, Verdict};

const TEXT: &str = include_str!("../../configs/lessons/tutorial.md");

/// What a step is done by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Reading it.
    Read,
    /// A plan that fits.
    Fits,
    /// A GPU whose ridge is at least so many operations a byte.
    Ridge(f64),
    /// Full activation checkpointing.
    FullCheckpointing,
    /// Attention without a score matrix.
    FlashAttention,
    /// An answer to each question.
    Answers,
}

impl Goal {
    fn read(words: &str) -> Self {
        match words.split_once(' ').unwrap_or((words, "")) {
            ("fits", _) => Self::Fits,
            ("ridge", least) => Self::Ridge(least.parse().unwrap_or(f64::INFINITY)),
            ("checkpointing", _) => Self::FullCheckpointing,
            ("attention", _) => Self::FlashAttention,
            ("answers", _) => Self::Answers,
            _ => Self::Read,
        }
    }

    /// Whether a plan reaches it.
    #[must_use]
    pub fn is_reached(self, job: &Job, prediction: &Prediction) -> bool {
        match self {
            Self::Read => true,
            Self::Fits => prediction.capacity.verdict() != Verdict::DoesNotFit,
            Self::Ridge(least) => prediction.roofline.ridge.0 >= least,
            Self::FullCheckpointing => job.training.checkpointing == Checkpointing::Full,
            Self::FlashAttention => job.training.attention != Attention::Eager,
            Self::Answers => false,
        }
    }
}

/// A question with its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TutorialQuestion {
    /// The question.
    pub text: &'static str,
    /// What may be answered.
    pub answers: Vec<&'static str>,
    /// The right one.
    pub right: usize,
    /// Why.
    pub reason: &'static str,
}

/// A step of the tutorial.
#[derive(Debug, Clone, PartialEq)]
pub struct TutorialStep {
    /// Its heading.
    pub title: &'static str,
    /// What is to be done.
    pub task: &'static str,
    /// What it is done by.
    pub goal: Goal,
    /// The plan that it begins with; none: the one in front stays.
    pub plan: Option<&'static str>,
    /// What it says, as Markdown.
    pub text: &'static str,
    /// What it asks.
    pub questions: Vec<TutorialQuestion>,
}

/// All steps in order.
pub fn tutorial() -> &'static [TutorialStep] {
    static STEPS: OnceLock<Vec<TutorialStep>> = OnceLock::new();
    STEPS.get_or_init(|| TEXT.split("\n# ").map(|part| read(part.trim_start_matches("# "))).collect())
}

fn read(part: &'static str) -> TutorialStep {
    let line = |key: &str| part.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let (title, rest) = part.split_once('\n').unwrap_or((part, ""));
    let goal = Goal::read(line("goal: "));
    let (plan, text) = match rest.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```\n")) {
        Some((plan, text)) => (Some(plan), text.trim()),
        None => (None, rest.split_once("\n\n").map_or("", |(_, text)| text).trim()),
    };
    let questions = if goal == Goal::Answers { text.split("\n\n").map(question).collect() } else { Vec::new() };
    let text = if questions.is_empty() { text } else { "" };
    TutorialStep { title, task: line("task: "), goal, plan, text, questions }
}

fn question(part: &'static str) -> TutorialQuestion {
    let mut lines = part.lines();
    let text = lines.next().unwrap_or_default();
    let mut question = TutorialQuestion { text, answers: Vec::new(), right: 0, reason: "" };
    for line in lines {
        match line.split_at_checked(2) {
            Some(("- ", answer)) => question.answers.push(answer),
            Some(("+ ", answer)) => {
                question.right = question.answers.len();
                question.answers.push(answer);
            }
            Some(("= ", reason)) => question.reason = reason,
            _ => {}
        }
    }
    question
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::LoadedPlan;
    use crate::predict::{Component, predict};

    fn predicted(text: &str) -> (Job, Prediction) {
        let plan = LoadedPlan::from_text("a", text).unwrap();
        let job = Job::resolve(&plan.plan, &Catalog::embedded().unwrap()).unwrap();
        let prediction = predict(&job);
        (job, prediction)
    }

    #[test]
    fn eight_steps_begin_before_their_goals() {
        assert_eq!(tutorial().len(), 8);
        for step in tutorial() {
            assert!(!step.title.is_empty() && !step.task.is_empty(), "{}", step.title);
            let Some(plan) = step.plan else { continue };
            let (job, prediction) = predicted(plan);
            assert_eq!(step.goal.is_reached(&job, &prediction), step.goal == Goal::Read, "{}", step.title);
            assert!(step.text.split("\n\n").count() >= 2, "{}", step.title);
        }
        let last = &tutorial()[7].questions;
        assert_eq!(last.len(), 4);
        assert!(last.iter().all(|question| question.answers.len() == 3 && !question.reason.is_empty()), "{last:?}");
    }

    #[test]
    fn the_numbers_of_the_texts_are_those_of_the_plans() {
        // 6 738 415 616 parameters: 2 bytes of weights, 4 of masters and 8 of moments each, and 2 of gradients, which
        // do not live between steps: 16 in all, 107.8 GB.
        let (_, first) = predicted(tutorial()[0].plan.unwrap());
        assert_eq!(first.params.total, 6_738_415_616);
        let stage = first.largest();
        let held = stage.component(Component::Parameters) + stage.component(Component::OptimizerStates);
        let each = held.as_f64() / 6_738_415_616.0;
        assert!((each - 14.0).abs() < 0.01, "{each}");
        // 312 TFLOP/s over 2 039 GB/s.
        let (_, second) = predicted(tutorial()[1].plan.unwrap());
        assert!((second.roofline.ridge.0 - 153.0).abs() < 0.5, "{}", second.roofline.ridge);
        // Input, gradients of output and input of 32 x 4096 x 16384, weight and its gradient of 16384 x 16384, in fp32.
        let (large, small) = (32_u64 * 4096 * 16_384, 16_384_u64 * 16_384);
        assert_eq!((3 * large + 2 * small) * 4, 26 << 30);
        for number in [large, small] {
            let digits = number.to_string();
            let grouped: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().map(|part| str::from_utf8(part).unwrap()).collect();
            assert!(tutorial()[2].text.contains(&grouped.join(" ")), "{number}");
        }
        // 32 heads x 8 192 x 8 192 scores of 2 bytes.
        assert_eq!(32_u64 * 8192 * 8192 * 2, 4 << 30);
        let (job, _) = predicted(tutorial()[4].plan.unwrap());
        assert_eq!(job.decoder().unwrap().heads, 32);
    }
}
