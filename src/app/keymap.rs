//! Keys and what they do, as one table: the loop looks keys up in it, the footer and
//! the help screen are drawn from it.

use super::pane::Pane;
use crate::reading::playback::Steer;

/// A key press, free of any terminal library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// A printable character.
    Char(char),
    /// A character with Control held.
    Ctrl(char),
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// Tabulator.
    Tab,
    /// Shift and tabulator.
    BackTab,
    /// Deletes to the left.
    Backspace,
    /// First.
    Home,
    /// Last.
    End,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
}

/// What a key makes the dashboard do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
}

/// Where a binding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// In every pane.
    Anywhere,
    /// In that pane alone; wins over the others.
    In(Pane),
    /// In every pane while a recording is played; wins over `Anywhere`.
    Replay,
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
        help: "type the value; Enter takes it, Esc leaves it",
        actions: &[A::Type],
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
        help: "write the plan to its file, comments and order kept",
        actions: &[A::Save],
    },
    Binding {
        context: In(Pane::Vram),
        keys: &[K::Up, K::Down, K::Char('k'), K::Char('j')],
        shown: "↑↓",
        word: "row",
        help: "go over the named terms, or the stages",
        actions: &[A::Up, A::Down, A::Up, A::Down],
    },
    Binding {
        context: In(Pane::Vram),
        keys: &[K::Char('v')],
        shown: "v",
        word: "view",
        help: "components, named terms, pipeline stages",
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
        help: "chart, or table of operators",
        actions: &[A::View],
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
        help: "compare the plan with the selected process; again lets go of it",
        actions: &[A::Attach],
    },
    Binding {
        context: In(Pane::Monitor),
        keys: &[K::Char('i')],
        shown: "i",
        word: "infer",
        help: "read the plan that the attached or selected process seems to run",
        actions: &[A::Infer],
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
        help: "history: a shorter, longer stretch, from a minute to a day",
        actions: &[A::ShorterSpan, A::LongerSpan],
    },
    Binding {
        context: In(Pane::Compare),
        keys: &[K::Up, K::Down, K::Char('k'), K::Char('j')],
        shown: "↑↓",
        word: "scroll",
        help: "go over what the prediction assumes",
        actions: &[A::Up, A::Down, A::Up, A::Down],
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
        help: "write the plan to its file",
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

/// Where keys are looked up while `pane` is focused, the first that has one wins.
fn contexts(pane: Pane, replay: bool) -> impl Iterator<Item = Context> {
    [Some(In(pane)), replay.then_some(Replay), Some(Anywhere)].into_iter().flatten()
}

/// What `key` does while `pane` is focused, and perhaps a recording is played.
#[must_use]
pub fn lookup(key: Key, pane: Pane, replay: bool) -> Option<Action> {
    contexts(pane, replay).find_map(|context| {
        BINDINGS.iter().filter(|binding| binding.context == context).find_map(|binding| {
            let at = binding.keys.iter().position(|candidate| *candidate == key)?;
            binding.actions.get(at).or_else(|| binding.actions.first()).copied()
        })
    })
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

/// The shape of the help on a screen of that size: two columns where one would not fit and
/// there is width for two.
#[must_use]
pub fn help_shape((width, height): (u16, u16)) -> HelpShape {
    let bindings = by_context(Pane::Plan).map(|(_, bindings)| bindings.len() + 1).sum::<usize>();
    let lines = bindings + 1 + HELP_NOTES.len();
    // Two lines of header, one of footer, two of frame.
    let visible = usize::from(height.saturating_sub(5));
    let columns = if lines > visible && width >= 120 { 2 } else { 1 };
    HelpShape { columns, hidden: lines.div_ceil(columns).saturating_sub(visible) }
}

/// Every binding by context, `pane`'s first: what the help lists.
pub fn by_context(pane: Pane) -> impl Iterator<Item = (Context, Vec<&'static Binding>)> {
    let others = Pane::ALL.into_iter().filter(move |other| *other != pane).map(In);
    [In(pane), Anywhere, Replay].into_iter().chain(others).filter_map(|context| {
        let bindings: Vec<_> = BINDINGS.iter().filter(|binding| binding.context == context).collect();
        (!bindings.is_empty()).then_some((context, bindings))
    })
}

/// The bindings that the footer shows while `pane` is focused, and perhaps a recording is
/// played: what steers that comes first, then the pane's own.
pub fn footer(pane: Pane, replay: bool) -> impl Iterator<Item = &'static Binding> {
    let mut order: Vec<Context> = contexts(pane, replay).collect();
    order.sort_by_key(|context| *context != Replay);
    order.into_iter().flat_map(|context| {
        BINDINGS.iter().filter(move |binding| binding.context == context && !binding.word.is_empty())
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
    fn a_pane_wins_over_anywhere() {
        assert_eq!(lookup(K::Enter, Pane::Plan, false), Some(A::Type));
        assert_eq!(lookup(K::Enter, Pane::Monitor, false), Some(A::Attach));
        assert_eq!(lookup(K::Enter, Pane::Compare, false), None);
        assert_eq!(lookup(K::Char('q'), Pane::Vram, true), Some(A::Quit));
    }
}
