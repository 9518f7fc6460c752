//! What is in the way of a file that was to be written.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Look, diff};
use crate::app::{Plans, SaveObstacle, State, to_be_written};

/// Draws what writing would change, from that line on.
pub fn draw(state: &State, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let Some(conflict) = &state.plans.conflict else { return };
    let path = conflict.path.display();
    let (saved, ours) = (state.plans.editor.saved_text(), to_be_written(state));
    let (title, texts) = match &conflict.found {
        SaveObstacle::Newer(Some(theirs)) => (format!("{path}: what somebody else changed"), (saved, theirs.as_str())),
        SaveObstacle::Other(Some(there)) => {
            (format!("{path} exists: what writing over it would change"), (there.as_str(), ours))
        }
        SaveObstacle::Newer(None) | SaveObstacle::Other(None) => {
            (format!("{path} holds something that is no text; this would take its place"), ("", ours))
        }
        SaveObstacle::Nothing => {
            (format!("{path} was removed or renamed since it was opened; this would be in it"), ("", ours))
        }
    };
    diff::draw(&title, texts, first, look, area, buffer);
}

/// What may be done about it.
pub fn question(plans: &Plans) -> &'static str {
    match plans.conflict.as_ref().map(|conflict| &conflict.found) {
        Some(SaveObstacle::Newer(Some(_))) => {
            "Changed by someone else:  m merge   o write over it   S elsewhere   esc leaves"
        }
        Some(SaveObstacle::Newer(None)) => "Changed by someone else:  o write over it   S elsewhere   esc leaves it",
        Some(SaveObstacle::Nothing) => "The file is gone:  w write it again   S elsewhere   esc leaves it",
        Some(SaveObstacle::Other(_)) | None => "It exists already:  o write over it   S elsewhere   esc leaves it",
    }
}
