//! Long texts are given away to be read, one at a time, and taken back.

use super::event::Effect;
use super::state::State;
use crate::plan::{Document, Fault};

/// Asks for the next text to be read that waits for it.
pub fn ask(state: &mut State) -> Option<Effect> {
    let number = state.readings + 1;
    let text = state.tabs.others_mut().chain([&mut state.editor]).find_map(|editor| editor.begin_reading(number))?;
    state.readings = number;
    Some(Effect::Read { number, text })
}

/// A text has been read.
pub fn arrived(state: &mut State, number: u64, read: Result<Document, Vec<Fault>>) {
    let mut editors = state.tabs.others_mut().chain([&mut state.editor]);
    if let Some(editor) = editors.find(|editor| editor.standing().waits_for(number)) {
        editor.take_reading(read, &state.catalog);
    }
}
