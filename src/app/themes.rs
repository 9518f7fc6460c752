//! Which theme colours the screen: chosen in a list, each shown while it is selected.

use crate::app::notice::{info, problem};
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::state::{State, Views};

/// The themes that there are, and the one that is in use.
#[derive(Debug, Clone, Default)]
pub struct Themes {
    /// All of them, the user's too, each with where it is from; none where nothing has colours.
    pub choices: Vec<Choice>,
    /// The one at the start, as the command line, the configuration or the terminal's background says.
    pub at_start: String,
    /// The one that was chosen in the list since, or in an earlier session.
    pub chosen: Option<String>,
}

impl Themes {
    /// The one that is in use.
    #[must_use]
    pub fn current(&self) -> &str {
        self.chosen.as_deref().unwrap_or(&self.at_start)
    }
}

/// The theme that colours the screen: while the list is open, the selected one.
#[must_use]
pub fn shown(state: &State) -> &str {
    let picker = state.dialogs.picker.as_ref().filter(|picker| picker.purpose == PickerPurpose::Theme);
    let selected = picker.and_then(Picker::choice).map(|choice| choice.name.as_str());
    selected.unwrap_or_else(|| state.views.themes.current())
}

/// Opens the list on the theme that is in use.
pub fn open(state: &mut State) {
    let themes = &state.views.themes;
    if themes.choices.is_empty() {
        state.notice = Some(problem("no colours: NO_COLOR or --no-color turns themes off"));
        return;
    }
    let picker = Picker::open(PickerPurpose::Theme, themes.choices.clone(), Some(themes.current()));
    state.dialogs.picker = Some(picker);
}

/// A theme was taken.
pub fn chosen(state: &mut State, name: &str) {
    choose(&mut state.views, name);
    state.notice = Some(info(format!("theme {name}; `theme: {name}` in config.yaml makes it every start's")));
}

fn choose(views: &mut Views, name: &str) {
    views.themes.chosen = Some(name.to_owned());
}
