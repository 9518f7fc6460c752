//! Keys and what they do, as one table: the loop looks keys up in it, the footer and
//! the help screen are drawn from it.

use serde::Serialize;

use super::key::Key;
use super::pane::Pane;
use crate::reading::playback::Steer;

/// What a key makes the dashboard do. Its name, for a key map and the palette, is that of the
/// variant with hyphens: `next-pane`, `focus-vram`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Leave; asks first when the plan has unsaved changes.
    Quit,
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
    /// Read the plan of the attached or selected process.
    Infer,
    /// Look for what explains that the run differs from its plan.
    Explain,
    /// Make the plan say what the selected explanation says that the run does.
    TakeExplanation,
    /// Order processes by the next figure.
    Sort,
    /// Type which processes to show.
    Find,
    /// Ask whether to end the selected process.
    EndProcess,
    /// Show the past instead of the tables, and back.
    History,
    /// A shorter stretch of the past.
    ShorterSpan,
    /// A longer stretch of the past.
    LongerSpan,
    /// Begin to write what is observed to a file, or end it.
    Record,
    /// Steer the recording that is played.
    Steer(Steer),
    /// Edit the plan as text, or as a form again.
    Text,
    /// Offer what may be written at the cursor, or write it.
    Complete,
    /// Find an action by its name.
    Palette,
    /// Pin the plan as it is, to be compared with; pinned unchanged, let go of it.
    Baseline,
    /// The largest value of the selected field that fits.
    Largest,
    /// Show what happens over the values of the selected field.
    Sweep,
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
pub enum Context {
    /// In every pane.
    Anywhere,
    /// In that pane alone; wins over `Anywhere`.
    In(Pane),
    /// In every pane while a recording is played; wins over `Anywhere`.
    Replay,
    /// While the plan is edited as text; what is bound nowhere there is typed.
    Text,
}

impl Context {
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
    pub context: Context,
    /// The keys.
    pub keys: &'static [Key],
    /// The keys as people read them.
    pub shown: &'static str,
    /// One word for the footer; empty keeps it out of the footer.
    pub word: &'static str,
    /// A line for the help screen.
    pub help: &'static str,
    /// What each of `keys` does, in their order; one action for all where there is only one.
    pub actions: &'static [Action],
}

use Action as A;
use Context::{Anywhere, In, Replay};
use Key as K;

/// Every key of the dashboard outside text input.
pub const BINDINGS: &[Binding] = &[
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Up, K::Down, K::Char('k'), K::Char('j')],
        shown: "↑↓",
        word: "field",
        help: "go to the field above, below",
        actions: &[A::Up, A::Down, A::Up, A::Down],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Left, K::Right, K::Char('h'), K::Char('l'), K::Char('-'), K::Char('+')],
        shown: "←→",
        word: "value",
        help: "the next smaller, larger value that makes a valid plan",
        actions: &[A::Less, A::More, A::Less, A::More, A::Less, A::More],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Enter],
        shown: "⏎",
        word: "type",
        help: "choose from the list, or type it (80GiB, 32k too)",
        actions: &[A::Type],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('m')],
        shown: "m",
        word: "most",
        help: "the largest batch, micro batch or sequence that fits",
        actions: &[A::Largest],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('w')],
        shown: "w",
        word: "sweep",
        help: "sweep the field, or two: throughput, memory, both walls",
        actions: &[A::Sweep],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('e')],
        shown: "e",
        word: "text",
        help: "edit the plan as text; Esc goes back to the form",
        actions: &[A::Text],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('u')],
        shown: "u",
        word: "undo",
        help: "take back the last edit",
        actions: &[A::Undo],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Ctrl('r'), K::Char('U')],
        shown: "U",
        word: "",
        help: "make an edit again that was taken back",
        actions: &[A::Redo],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('s')],
        shown: "s",
        word: "save",
        help: "show what is to be saved; again writes it",
        actions: &[A::Save],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('S')],
        shown: "S",
        word: "",
        help: "write the plan to another file",
        actions: &[A::SaveAs],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('a')],
        shown: "a",
        word: "",
        help: "add a key: every key of the plan file, each explained",
        actions: &[A::AddKey],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('x'), K::Delete],
        shown: "x",
        word: "",
        help: "take the selected key out: its default holds",
        actions: &[A::RemoveKey],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('d')],
        shown: "d",
        word: "",
        help: "a copy of the plan beside it, to try something out",
        actions: &[A::Duplicate],
    },
    Binding {
        context: Context::Text,
        keys: &[K::Esc],
        shown: "esc",
        word: "form",
        help: "back to the form",
        actions: &[A::Text],
    },
    Binding {
        context: Context::Text,
        keys: &[K::Tab, K::BackTab],
        shown: "tab",
        word: "complete",
        help: "keys or values that may stand here; tab takes one",
        actions: &[A::Complete],
    },
    Binding {
        context: Context::Text,
        keys: &[K::Ctrl('z'), K::Ctrl('y')],
        shown: "^Z ^Y",
        word: "undo, redo",
        help: "take back the last edit, make it again",
        actions: &[A::Undo, A::Redo],
    },
    Binding {
        context: Context::Text,
        keys: &[K::Ctrl('s')],
        shown: "^S",
        word: "save",
        help: "show what is to be saved; again writes it",
        actions: &[A::Save],
    },
    Binding {
        context: In(Pane::Vram),
        keys: &[K::Up, K::Down, K::Char('k'), K::Char('j')],
        shown: "↑↓",
        word: "row",
        help: "go over terms, layers, stages, or along the step",
        actions: &[A::Up, A::Down, A::Up, A::Down],
    },
    Binding {
        context: In(Pane::Vram),
        keys: &[K::Char('v')],
        shown: "v",
        word: "view",
        help: "components, layers, stages, over the step, named terms",
        actions: &[A::View],
    },
    Binding {
        context: In(Pane::Roofline),
        keys: &[K::Up, K::Down, K::Char('k'), K::Char('j')],
        shown: "↑↓",
        word: "operator",
        help: "select the operator above, below in order of time",
        actions: &[A::Up, A::Down, A::Up, A::Down],
    },
    Binding {
        context: In(Pane::Roofline),
        keys: &[K::Char('v'), K::Char('t')],
        shown: "v",
        word: "view",
        help: "chart, or table of operators by time",
        actions: &[A::View],
    },
    Binding {
        context: In(Pane::Roofline),
        keys: &[K::Char('/')],
        shown: "/",
        word: "kind",
        help: "one kind of operators: by roof, by module; all again",
        actions: &[A::Kind],
    },
    Binding {
        context: In(Pane::Roofline),
        keys: &[K::Char('p')],
        shown: "p",
        word: "roofs",
        help: "the plan's roof, or the card's of every type",
        actions: &[A::Roofs],
    },
    Binding {
        context: In(Pane::Roofline),
        keys: &[K::Char('+'), K::Char('-')],
        shown: "+-",
        word: "",
        help: "narrow the chart to the selected operator, widen it",
        actions: &[A::ZoomIn, A::ZoomOut],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Up, K::Down, K::Char('k'), K::Char('j')],
        shown: "↑↓",
        word: "row",
        help: "go over GPUs and processes",
        actions: &[A::Up, A::Down, A::Up, A::Down],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Enter, K::Char('a')],
        shown: "⏎",
        word: "attach",
        help: "compare the plan with the process; again lets go of it",
        actions: &[A::Attach],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Char('i')],
        shown: "i",
        word: "infer",
        help: "propose the plan that the process seems to run",
        actions: &[A::Infer],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Char('v')],
        shown: "v",
        word: "view",
        help: "all GPUs, all of the selected GPU, all of the processes",
        actions: &[A::View],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Char('s')],
        shown: "s",
        word: "sort",
        help: "order by GPU, memory, sm, cpu, host memory or time",
        actions: &[A::Sort],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Char('/')],
        shown: "/",
        word: "find",
        help: "find processes by letters of pid, user, command; Esc: all",
        actions: &[A::Find],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Char('x')],
        shown: "x",
        word: "",
        help: "end the process: type its pid; SIGTERM before SIGKILL",
        actions: &[A::EndProcess],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Char('h')],
        shown: "h",
        word: "history",
        help: "the past of the selected GPU, and back",
        actions: &[A::History],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Left, K::Right],
        shown: "←→",
        word: "span",
        help: "history: a shorter, longer stretch (a minute to a day)",
        actions: &[A::ShorterSpan, A::LongerSpan],
    },
    Binding {
        context: In(Pane::Compare),
        keys: &[K::Up, K::Down, K::Char('k'), K::Char('j')],
        shown: "↑↓",
        word: "row",
        help: "go over explanations, and what the prediction assumes",
        actions: &[A::Up, A::Down, A::Up, A::Down],
    },
    Binding {
        context: In(Pane::Compare),
        keys: &[K::Enter],
        shown: "⏎",
        word: "take",
        help: "make the plan say what the explanation says that runs",
        actions: &[A::TakeExplanation],
    },
    Binding {
        context: In(Pane::Compare),
        keys: &[K::Char('e')],
        shown: "e",
        word: "explain",
        help: "look for what explains the difference now",
        actions: &[A::Explain],
    },
    Binding {
        context: In(Pane::Compare),
        keys: &[K::Char('u')],
        shown: "u",
        word: "undo",
        help: "take back the last edit of the plan",
        actions: &[A::Undo],
    },
    Binding {
        context: Replay,
        keys: &[K::Char(' ')],
        shown: "space",
        word: "pause",
        help: "stand still, go on; at the end: begin again",
        actions: &[A::Steer(Steer::Pause)],
    },
    Binding {
        context: Replay,
        keys: &[K::Char(','), K::Char('.')],
        shown: ", .",
        word: "step",
        help: "one sample back, on",
        actions: &[A::Steer(Steer::Step(-1)), A::Steer(Steer::Step(1))],
    },
    Binding {
        context: Replay,
        keys: &[K::Char('<'), K::Char('>')],
        shown: "< >",
        word: "minute",
        help: "a minute back, on",
        actions: &[A::Steer(Steer::Seek(-60)), A::Steer(Steer::Seek(60))],
    },
    Binding {
        context: Replay,
        keys: &[K::Char('{'), K::Char('}')],
        shown: "{ }",
        word: "5 %",
        help: "a twentieth of the recording back, on",
        actions: &[A::Steer(Steer::SeekPercent(-5)), A::Steer(Steer::SeekPercent(5))],
    },
    Binding {
        context: Replay,
        keys: &[K::Char('['), K::Char(']')],
        shown: "[ ]",
        word: "speed",
        help: "half, twice as fast",
        actions: &[A::Steer(Steer::Slower), A::Steer(Steer::Faster)],
    },
    Binding {
        context: Anywhere,
        keys: &[K::PageUp, K::PageDown, K::Home, K::End, K::Char('g'), K::Char('G')],
        shown: "PgUp PgDn Home End",
        word: "",
        help: "ten rows up, down; first, last row",
        actions: &[A::PageUp, A::PageDown, A::First, A::Last, A::First, A::Last],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Tab, K::BackTab],
        shown: "tab",
        word: "focus",
        help: "focus the next pane; with Shift the one before",
        actions: &[A::NextPane, A::PreviousPane],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('1'), K::Char('2'), K::Char('3'), K::Char('4'), K::Char('5')],
        shown: "1-5",
        word: "",
        help: "focus Plan, VRAM, Roofline, Monitor, Compare",
        actions: &[
            A::Focus(Pane::Plan),
            A::Focus(Pane::Vram),
            A::Focus(Pane::Roofline),
            A::Focus(Pane::Monitor),
            A::Focus(Pane::Compare),
        ],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('z')],
        shown: "z",
        word: "zoom",
        help: "give the focused pane the whole screen, and back",
        actions: &[A::Zoom],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('b')],
        shown: "b",
        word: "baseline",
        help: "pin the plan: every pane shows the difference; again: off",
        actions: &[A::Baseline],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('o')],
        shown: "o",
        word: "",
        help: "open another plan beside this one",
        actions: &[A::Open],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char(']'), K::Char('[')],
        shown: "] [",
        word: "",
        help: "bring the next, the previous open plan to the front",
        actions: &[A::NextPlan, A::PreviousPlan],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('=')],
        shown: "=",
        word: "",
        help: "compare the open plans in a table",
        actions: &[A::Plans],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Ctrl('w')],
        shown: "^W",
        word: "",
        help: "close the plan in front",
        actions: &[A::ClosePlan],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('M')],
        shown: "M",
        word: "",
        help: "the mouse chooses panes and fields; again: the terminal's",
        actions: &[A::Mouse],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char(':')],
        shown: ":",
        word: "actions",
        help: "find any action by its name",
        actions: &[A::Palette],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('r')],
        shown: "r",
        word: "record",
        help: "write what is observed to a file; again: end it",
        actions: &[A::Record],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Ctrl('s')],
        shown: "^S",
        word: "",
        help: "show what is to be saved; again writes it",
        actions: &[A::Save],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('?')],
        shown: "?",
        word: "help",
        help: "all keys",
        actions: &[A::Help],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('q'), K::Ctrl('c')],
        shown: "q",
        word: "quit",
        help: "leave; asks first when the plan has unsaved changes",
        actions: &[A::Quit],
    },
];

/// What `key` does in a context by the table alone, other contexts left out.
pub(super) fn bound(key: Key, context: Context) -> Option<Action> {
    BINDINGS.iter().filter(|binding| binding.context == context).find_map(|binding| {
        let at = binding.keys.iter().position(|candidate| *candidate == key)?;
        binding.actions.get(at).or_else(|| binding.actions.first()).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_stands_twice_in_one_context() {
        for (index, binding) in BINDINGS.iter().enumerate() {
            for key in binding.keys {
                let twice = BINDINGS[index + 1..]
                    .iter()
                    .any(|other| other.context == binding.context && other.keys.contains(key));
                assert!(!twice, "{key:?} stands twice in {:?}", binding.context);
            }
            assert!(binding.actions.len() == 1 || binding.actions.len() == binding.keys.len());
        }
    }

    #[test]
    fn actions_have_the_names_of_their_variants() {
        assert_eq!(A::NextPane.name(), "next-pane");
        assert_eq!(A::Focus(Pane::Vram).name(), "focus-vram");
    }
}
