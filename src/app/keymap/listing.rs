//! The table of actions as it is listed: in the help, the footer, the palette.

use super::synonyms::synonyms;
use super::{Action, Binding, KeyContext, bindings};
use crate::app::pane::Pane;
use crate::app::state::State;
use crate::app::topics::sheet_height;
use KeyContext::{Anywhere, In};

/// An action as the palette lists it.
#[derive(Debug, Clone, Copy)]
pub struct PaletteCommand {
    /// Its row in the table.
    pub binding: &'static Binding,
    /// The action.
    pub action: Action,
}

/// Every action that does something by itself, `pane`'s first.
#[must_use]
pub fn commands(pane: Pane) -> Vec<PaletteCommand> {
    let mut commands: Vec<PaletteCommand> = Vec::new();
    for (context, bindings) in by_context(pane) {
        for binding in bindings.into_iter().filter(|_| context != KeyContext::Text) {
            for action in binding.actions.iter().copied().filter(|action| !action.is_movement()) {
                if commands.iter().all(|known| known.action != action || known.binding.context != context) {
                    commands.push(PaletteCommand { binding, action });
                }
            }
        }
    }
    // The same action anywhere and in a pane is one.
    let mut seen: Vec<Action> = Vec::new();
    commands.retain(|command| {
        let shared = matches!(command.action, Action::View | Action::Type);
        let new = shared || !seen.contains(&command.action);
        seen.push(command.action);
        new
    });
    commands
}

/// Lines of the help besides its keys: the marks of figures and the units.
pub const HELP_NOTES: [&str; 2] = [
    "~ estimated   ≤ upper bound   – none (select the row for the reason)",
    "memory in GiB (2^30 bytes), bandwidth in TB/s (1e12 bytes)",
];

/// How the help fits a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelpShape {
    /// Columns side by side.
    pub columns: usize,
    /// Lines of a column that do not fit: how far it can be scrolled.
    pub hidden: usize,
}

/// The rows of the help by context: those that have what is sought in their keys, words or names.
#[must_use]
pub fn help_rows(state: &State) -> Vec<(KeyContext, Vec<&'static Binding>)> {
    let sought = state.dialogs.help_query.to_lowercase();
    let has = |context: KeyContext, binding: &Binding| {
        let names: Vec<String> = binding.actions.iter().map(|action| action.name().replace('-', " ")).collect();
        let other: Vec<&str> = binding.actions.iter().map(|action| synonyms(*action)).collect();
        let keys = state.keys.shown(binding);
        let text = format!("{keys} {} {} {} {}", context.name(), binding.help, names.join(" "), other.join(" "));
        let text = text.to_lowercase();
        sought.split_whitespace().all(|word| text.contains(word))
    };
    let mut rows: Vec<(KeyContext, Vec<&'static Binding>)> = by_context(state.views.focus).collect();
    for (context, bindings) in &mut rows {
        bindings.retain(|binding| has(*context, binding));
    }
    rows.retain(|(_, bindings)| !bindings.is_empty());
    rows
}

/// The shape of the help on the screen: two columns where one would not fit and there is width for two.
#[must_use]
pub fn help_shape(state: &State) -> HelpShape {
    let (width, height) = state.views.size;
    let bindings = help_rows(state).iter().map(|(_, bindings)| bindings.len() + 1).sum::<usize>();
    let lines = bindings + 1 + HELP_NOTES.len();
    let visible = sheet_height((width, height));
    let columns = if lines > visible && width >= 150 { 2 } else { 1 };
    HelpShape { columns, hidden: lines.div_ceil(columns).saturating_sub(visible) }
}

/// Every binding by context, `pane`'s first: what the help lists.
pub fn by_context(pane: Pane) -> impl Iterator<Item = (KeyContext, Vec<&'static Binding>)> {
    let others = Pane::ALL.into_iter().filter(move |other| *other != pane).map(In);
    let text = (pane == Pane::Plan).then_some(KeyContext::Text);
    let late = (pane != Pane::Plan).then_some(KeyContext::Text);
    std::iter::once(In(pane)).chain(text).chain([Anywhere, KeyContext::Replay]).chain(others).chain(late).filter_map(
        |context| {
            let bindings: Vec<_> = bindings().filter(|binding| binding.context == context).collect();
            (!bindings.is_empty()).then_some((context, bindings))
        },
    )
}

/// The bindings that the footer shows in a context: what steers a recording that is played
/// comes first, then the context's own.
pub fn footer(context: KeyContext, replay: bool) -> impl Iterator<Item = &'static Binding> {
    let shown =
        |context: KeyContext| bindings().filter(move |binding| binding.context == context && !binding.word.is_empty());
    let typed = context == KeyContext::Text;
    let steering = shown(KeyContext::Replay).filter(move |_| replay && !typed);
    steering.chain(shown(context)).chain(shown(Anywhere).filter(move |_| !typed))
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn lines_of_help_fit_the_narrowest_usual_screen() {
        // 80 cells without the frame, two blanks and nineteen for the keys.
        for binding in bindings() {
            assert!(binding.help.width() <= 80 - 2 - 2 - 19, "{}", binding.help);
        }
    }

    #[test]
    fn the_palette_lists_every_action_of_the_table() {
        let commands = commands(Pane::Plan);
        for action in bindings().flat_map(|binding| binding.actions).filter(|action| !action.is_movement()) {
            let text = *action == Action::Complete;
            assert!(text || commands.iter().any(|command| command.action == *action), "{action:?}");
        }
    }
}
