//! The look in the theme that is chosen, while one is.

use crate::app::{State, shown_theme};
use crate::ui::{Look, Theme};

/// How the screen looks now, and the themes that it may have.
#[derive(Debug)]
pub struct ThemedLook {
    look: Look,
    /// The theme that it has.
    name: String,
    themes: Vec<(String, Theme)>,
}

impl ThemedLook {
    /// As it looks at the start.
    pub fn new(look: &Look, themes: Vec<(String, Theme)>, state: &State) -> Self {
        Self { look: look.clone(), name: shown_theme(state).to_owned(), themes }
    }

    /// The look in the theme that is shown.
    pub fn of(&mut self, state: &State) -> &Look {
        let name = shown_theme(state);
        if name != self.name {
            if let Some((_, theme)) = self.themes.iter().find(|(known, _)| known == name) {
                self.look.theme = theme.clone();
            }
            name.clone_into(&mut self.name);
        }
        &self.look
    }
}
