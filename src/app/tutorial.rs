//! The tutorial over the panes: its steps, each with a plan of its own, and whether a step's goal is reached.

use crate::app::editor::Editor;
use crate::app::key::KeyPress;
use crate::app::notice::info;
use crate::app::plans;
use crate::app::state::{Overlay, State};
use crate::app::topics::{sheet_height, topic_width};
use crate::catalog::Catalog;
use crate::lessons::{Goal, TutorialStep, tutorial};
use crate::manual::{TopicLine, layout};

/// How far somebody is in the tutorial.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TutorialProgress {
    /// The step, from 0.
    pub step: usize,
    /// Its goal is reached.
    pub reached: bool,
    /// What was answered to each question so far.
    pub answers: Vec<usize>,
}

impl TutorialProgress {
    /// The step that it is at.
    #[must_use]
    pub fn current(&self) -> Option<&'static TutorialStep> {
        tutorial().get(self.step)
    }
}

/// Shows the step that was shown last; the first one where there is none yet.
pub fn open(state: &mut State) {
    if state.dialogs.tutorial.is_none() {
        go_to(state, 0);
    }
    state.dialogs.overlay = Some(Overlay::Tutorial(0));
}

/// Opens a step with its plan.
fn go_to(state: &mut State, step: usize) {
    state.dialogs.tutorial = Some(TutorialProgress { step, ..TutorialProgress::default() });
    state.dialogs.overlay = Some(Overlay::Tutorial(0));
    let Some(plan) = tutorial().get(step).and_then(|step| step.plan) else { return };
    plans::open_lesson(state, plan_name(step), plan);
    look(state);
}

/// The plan that the tutorial begins with, to be the only one.
#[must_use]
pub fn first_lesson(catalog: &Catalog) -> Editor {
    Editor::lesson(plan_name(0), tutorial().first().and_then(|step| step.plan).unwrap_or_default(), catalog)
}

fn plan_name(step: usize) -> String {
    format!("lesson-{}", step + 1)
}

/// Notes whether the goal of the step is reached by now, and says so once.
pub fn look(state: &mut State) {
    let Some(progress) = state.dialogs.tutorial.as_ref().filter(|progress| !progress.reached) else { return };
    let Some(step) = progress.current() else { return };
    let own = step.plan.is_none() || state.plans.editor.name() == plan_name(progress.step);
    let valid = state.plans.editor.faults().is_empty();
    let plan = state.plans.editor.job().zip(state.plans.editor.prediction());
    let by_plan = own && valid && plan.is_some_and(|(job, prediction)| step.goal.is_reached(job, prediction));
    let reached = if step.goal == Goal::Answers { progress.answers.len() == step.questions.len() } else { by_plan };
    if !reached {
        return;
    }
    let number = progress.step + 1;
    if let Some(progress) = &mut state.dialogs.tutorial {
        progress.reached = true;
    }
    if !matches!(state.dialogs.overlay, Some(Overlay::Tutorial(_))) {
        state.notice = Some(info(format!("lesson {number} is done: H, then n goes on")));
    }
}

/// A key while a step is shown.
pub fn on_key(state: &mut State, key: KeyPress) {
    let Some(progress) = state.dialogs.tutorial.clone() else {
        state.dialogs.overlay = None;
        return;
    };
    match key {
        KeyPress::Char('n') | KeyPress::Right if progress.step + 1 < tutorial().len() => {
            go_to(state, progress.step + 1);
        }
        KeyPress::Char('p') | KeyPress::Left if progress.step > 0 => go_to(state, progress.step - 1),
        KeyPress::Char(letter @ 'a'..='c') => answer(state, letter as usize - 'a' as usize),
        KeyPress::Enter | KeyPress::Esc | KeyPress::Char('q') => {
            state.dialogs.overlay = None;
            if let Some(step) = progress.current().filter(|_| !progress.reached) {
                let said = format!("lesson {}: {}; H shows it again", progress.step + 1, step.task);
                state.notice = Some(info(said));
            }
        }
        _ => {}
    }
}

/// Answers the first question that is open.
fn answer(state: &mut State, answer: usize) {
    let Some(progress) = &mut state.dialogs.tutorial else { return };
    let questions = progress.current().map_or(0, |step| step.questions.len());
    if progress.answers.len() < questions {
        progress.answers.push(answer);
    }
    look(state);
    state.dialogs.overlay = Some(Overlay::Tutorial(line_of_answered(state)));
}

/// The line from which the question that was answered last is shown; a later one where the next question would not be
/// on the screen with it.
fn line_of_answered(state: &State) -> usize {
    let answered = state.dialogs.tutorial.as_ref().map_or(0, |progress| progress.answers.len());
    let rows = tutorial_rows(state);
    // The first heading is the step's, then each question has one, and the task at the end.
    let headings: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].is_heading).collect();
    let line = |heading: usize| headings.get(heading).copied().unwrap_or(rows.len());
    let height = sheet_height(state.views.size);
    line(answered).max(line(answered + 2).saturating_sub(height)).min(rows.len().saturating_sub(height))
}

/// The lines of the step that is shown.
#[must_use]
pub fn tutorial_rows(state: &State) -> Vec<TopicLine> {
    let Some(progress) = &state.dialogs.tutorial else { return Vec::new() };
    let Some(step) = progress.current() else { return Vec::new() };
    let mut text = format!("# {} of {}: {}\n\n{}\n", progress.step + 1, tutorial().len(), step.title, step.text);
    for (number, question) in step.questions.iter().enumerate().take(progress.answers.len() + 1) {
        text += &format!("\n## {}\n\n", question.text);
        for (letter, answer) in ["a", "b", "c"].into_iter().zip(&question.answers) {
            text += &format!("- {letter}: {answer}\n");
        }
        if let Some(answered) = progress.answers.get(number) {
            let right = ["a", "b", "c"].get(question.right).copied().unwrap_or_default();
            let verdict = if *answered == question.right { "Right" } else { "No" };
            text += &format!("\n**{verdict}: {right}.** {}\n", question.reason);
        }
    }
    let right = step.questions.iter().zip(&progress.answers).filter(|(question, answer)| question.right == **answer);
    text += &match (progress.reached, step.goal) {
        (true, Goal::Answers) => format!("\n## Done\n\n{} of {} right.\n", right.count(), step.questions.len()),
        (true, Goal::Read) => format!("\n## Task\n\n{}\n", sentence(step.task)),
        (true, _) => "\n## Done\n\nThe task is done. `n` goes on.\n".to_owned(),
        (false, _) => format!("\n## Task\n\n{}\n", sentence(step.task)),
    };
    layout(&text, topic_width(state.views.size))
}

/// With a capital and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}
