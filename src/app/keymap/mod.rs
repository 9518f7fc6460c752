//! Keys and what they do, as one table: the loop looks keys up in it, the footer and
//! the help screen are drawn from it.

mod anywhere;
pub(super) mod key_names;
pub(super) mod listing;
mod panes;
mod plan;
pub(super) mod synonyms;
pub(super) mod user;

use serde::Serialize;

use crate::app::key::KeyPress;
use crate::app::pane::Pane;
use crate::reading::playback::PlaybackCommand;

/// What a key makes the dashboard do. Its name, for a key map and the palette, is that of the
/// variant with hyphens: `next-pane`, `focus-vram`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Leave; asks first when the plan has unsaved changes.
    Quit,
    /// Draw the whole screen anew.
    Repaint,
    /// Leave the terminal to the shell until `fg`.
    Suspend,
    /// Focus the next pane.
    NextPane,
    /// Focus the previous pane.
    PreviousPane,
    /// Focus that pane.
    Focus(Pane),
    /// Give the focused pane the whole screen, or the others their places back.
    Zoom,
    /// Show all keys.
    Help,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// Ten rows up.
    PageUp,
    /// Ten rows down.
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// The selected field's next smaller value.
    Less,
    /// The selected field's next larger value.
    More,
    /// Type the selected field's value.
    Type,
    /// Take back the last edit of the plan.
    Undo,
    /// Make the edit again that was taken back.
    Redo,
    /// Write the plan to its file.
    Save,
    /// Turn to the next view of the pane.
    View,
    /// Attach to the selected process, or let go of it.
    Attach,
    /// Keep the factor between what is observed and predicted, for this machine and framework.
    Calibrate,
    /// Drop that factor.
    DropCalibration,
    /// Take alerts off the top of the screen: somebody has seen them.
    Acknowledge,
    /// Explain what ran out of memory.
    RanOut,
    /// Read the plan of the attached or selected process.
    Infer,
    /// Look for what explains that the run differs from its plan.
    Explain,
    /// Make the plan say what the selected explanation says that the run does.
    TakeExplanation,
    /// Order processes by the next figure.
    Sort,
    /// Select the next GPU of a cluster that is off its equals.
    NextStraggler,
    /// Type which processes to show.
    Find,
    /// Ask whether to end the selected process.
    EndProcess,
    /// Show the past instead of the tables, and back.
    History,
    /// The past with another metric in front.
    Metric,
    /// The past with another metric over each.
    OverlayMetric,
    /// The past of all devices in each chart, or of the selected one.
    EveryDevice,
    /// A shorter stretch of the past.
    ShorterSpan,
    /// A longer stretch of the past.
    LongerSpan,
    /// Begin to write what is observed to a file, or end it.
    Record,
    /// Steer the recording that is played.
    Steer(PlaybackCommand),
    /// Edit the plan as text, or as a form again.
    Text,
    /// Offer what may be written at the cursor, or write it.
    Complete,
    /// Find an action by its name.
    Palette,
    /// Pin the plan as it is, to be compared with; pinned unchanged, let go of it.
    Baseline,
    /// Compare the run with the plan in front from now on.
    ApplyToRun,
    /// Follow the run that is offered.
    FollowRun,
    /// One step back: an offer, what is sought, another view, the whole screen.
    Back,
    /// Show what would help the plan.
    Fixes,
    /// Show what the selected operator costs, why, and what would help.
    OperatorAdvice,
    /// The largest value of the selected field that fits.
    Largest,
    /// Show what happens over the values of the selected field.
    Sweep,
    /// Search for the best plans over every knob.
    Search,
    /// Add a key to the plan.
    AddKey,
    /// Take the selected key out of the plan.
    RemoveKey,
    /// Open another plan beside this one.
    Open,
    /// Open a copy of this plan beside it.
    Duplicate,
    /// Close the plan in front.
    ClosePlan,
    /// Bring the next plan to the front.
    NextPlan,
    /// Bring the previous plan to the front.
    PreviousPlan,
    /// Compare the open plans in a table.
    Plans,
    /// Write the plan to another file.
    SaveAs,
    /// Write the plan as another tool has it.
    Export,
    /// Show the next kind of operators alone, or all.
    Kind,
    /// The next choice of roofs.
    Roofs,
    /// A narrower stretch of the chart.
    ZoomIn,
    /// A wider stretch of the chart.
    ZoomOut,
    /// Let the mouse choose, or leave it to the terminal.
    Mouse,
    /// Begin a new plan.
    NewPlan,
    /// Choose a theme.
    Themes,
    /// The next layout of the panes.
    NextLayout,
    /// The focused pane wider.
    Wider,
    /// The focused pane narrower.
    Narrower,
    /// The focused pane taller.
    Taller,
    /// The focused pane shorter.
    Shorter,
    /// Every pane as the layout has it.
    ResetSizes,
}

impl Action {
    /// Its name in a key map and in the palette.
    #[must_use]
    pub fn name(self) -> String {
        fn plain(value: &serde_json::Value) -> String {
            match value {
                serde_json::Value::String(name) => name.clone(),
                serde_json::Value::Object(parts) => {
                    parts.iter().map(|(key, value)| format!("{key}-{}", plain(value))).collect()
                }
                value => value.to_string(),
            }
        }
        serde_json::to_value(self).map_or_else(|_| String::new(), |value| plain(&value))
    }

    /// Moves within a pane: of no use without a key.
    pub(super) const fn is_movement(self) -> bool {
        matches!(self, Self::Up | Self::Down | Self::PageUp | Self::PageDown | Self::First | Self::Last)
    }
}

/// Where a binding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyContext {
    /// In every pane.
    Anywhere,
    /// In that pane alone; wins over `Anywhere`.
    In(Pane),
    /// In every pane while a recording is played; wins over `Anywhere`.
    Replay,
    /// While the plan is edited as text; what is bound nowhere there is typed.
    Text,
}

impl KeyContext {
    /// Its name in the help and in a key map.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anywhere => "anywhere",
            Self::In(pane) => pane.name(),
            Self::Replay => "replay",
            Self::Text => "text",
        }
    }
}

/// One row of the table: keys that do the same.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Where it holds.
    pub context: KeyContext,
    /// The keys.
    pub keys: &'static [KeyPress],
    /// The keys as people read them.
    pub shown: &'static str,
    /// One word for the footer; empty keeps it out of the footer.
    pub word: &'static str,
    /// A line for the help screen.
    pub help: &'static str,
    /// What each of `keys` does, in their order; one action for all where there is only one.
    pub actions: &'static [Action],
}

impl Binding {
    /// Whether one of its keys does that.
    #[must_use]
    pub fn does(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }
}

/// Every key of the dashboard outside text input, in the order of the help.
pub fn bindings() -> impl Iterator<Item = &'static Binding> {
    const TABLES: [&[Binding]; 8] = [
        plan::FORM,
        plan::TEXT,
        panes::VRAM,
        panes::ROOFLINE,
        panes::MONITOR,
        panes::COMPARE,
        anywhere::REPLAY,
        anywhere::ANYWHERE,
    ];
    TABLES.into_iter().flatten()
}

/// What `key` does in a context by the table alone, other contexts left out.
pub(super) fn bound(key: KeyPress, context: KeyContext) -> Option<Action> {
    bindings().filter(|binding| binding.context == context).find_map(|binding| {
        let at = binding.keys.iter().position(|candidate| *candidate == key)?;
        binding.actions.get(at).or_else(|| binding.actions.first()).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_stands_twice_in_one_context() {
        for (index, binding) in bindings().enumerate() {
            for key in binding.keys {
                let twice = bindings()
                    .skip(index + 1)
                    .any(|other| other.context == binding.context && other.keys.contains(key));
                assert!(!twice, "{key:?} stands twice in {:?}", binding.context);
            }
            assert!(binding.actions.len() == 1 || binding.actions.len() == binding.keys.len());
        }
    }

    #[test]
    fn actions_have_the_names_of_their_variants() {
        assert_eq!(Action::NextPane.name(), "next-pane");
        assert_eq!(Action::Focus(Pane::Vram).name(), "focus-vram");
    }
}
