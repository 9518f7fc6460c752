//! Long texts are given away to be read, one at a time, and taken back.

use crate::app::event::Effect;
use crate::app::state::{Plans, State};
use crate::plan::{Document, Fault};

/// Asks for the next text to be read that waits for it.
pub fn ask(plans: &mut Plans) -> Option<Effect> {
    let number = plans.readings + 1;
    let text = plans.tabs.others_mut().chain([&mut plans.editor]).find_map(|editor| editor.begin_reading(number))?;
    plans.readings = number;
    Some(Effect::Read { number, text })
}

/// A text has been read.
pub fn arrived(state: &mut State, number: u64, read: Result<Document, Vec<Fault>>) {
    let mut editors = state.plans.tabs.others_mut().chain([&mut state.plans.editor]);
    if let Some(editor) = editors.find(|editor| editor.standing().waits_for(number)) {
        editor.take_reading(read, &state.catalog);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{AT_ONCE, Event, KeyPress, ReadingState, update};
    use crate::catalog::Catalog;
    use crate::plan::LoadedPlan;
    use crate::reading::Moment;

    fn long() -> State {
        let text = format!("model: {{preset: gpt2, batch_size: 8}}\n{}", "# a line\n".repeat(AT_ONCE / 9));
        let plan = LoadedPlan::from_text("long", &text).unwrap();
        let mut state = State::new(plan, Catalog::embedded().unwrap(), None, Moment(0));
        update(&mut state, Event::Key(KeyPress::Char('e')));
        update(&mut state, Event::Key(KeyPress::End));
        state
    }

    /// Types a letter; the text that is given away to be read, where one is.
    fn letter(state: &mut State, letter: char) -> Option<(u64, String)> {
        update(state, Event::Key(KeyPress::Char(letter))).into_iter().find_map(|effect| match effect {
            Effect::Read { number, text } => Some((number, text)),
            _ => None,
        })
    }

    #[test]
    fn a_long_text_is_read_beside_the_loop_and_the_last_good_plan_stays() {
        let mut state = long();
        let before = state.plans.editor.prediction().unwrap().clone();
        let (number, text) = letter(&mut state, 'x').unwrap();
        assert_eq!(
            (state.plans.editor.standing(), text.as_str()),
            (ReadingState::Asked(number), state.plans.editor.text())
        );
        assert_eq!(state.plans.editor.prediction(), Some(&before));
        // What is typed meanwhile waits: one text is read at a time.
        assert_eq!(letter(&mut state, 'y'), None);
        let effects = update(&mut state, Event::Read { number, read: Document::parse(&text) });
        let Some(Effect::Read { number, text }) =
            effects.into_iter().find(|effect| matches!(effect, Effect::Read { .. }))
        else {
            panic!("the newer text is not read")
        };
        assert!(text.contains("xy") && state.plans.editor.faults().is_empty());
        let effects = update(&mut state, Event::Read { number, read: Document::parse(&text) });
        assert_eq!(state.plans.editor.standing(), ReadingState::Read);
        assert!(state.plans.editor.faults()[0].at.is_some_and(|at| at.line == 1), "{:?}", state.plans.editor.faults());
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Keep(_))), "kept as soon as it is read");
    }

    #[test]
    fn leaving_keeps_what_is_not_read_yet() {
        let mut state = long();
        letter(&mut state, 'x');
        let effects = update(&mut state, Event::TerminalGone);
        assert!(matches!(effects.first(), Some(Effect::Keep(_))), "{} effects", effects.len());
        assert_eq!(effects.last(), Some(&Effect::Quit));
    }
}
