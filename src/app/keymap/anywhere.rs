//! Keys that hold in every pane, and those that steer a recording.

use super::Action as A;
use super::Binding;
use super::Context::{Anywhere, Replay};
use crate::app::key::Key as K;
use crate::app::pane::Pane;
use crate::reading::playback::Steer;

/// While a recording is played.
pub(super) const REPLAY: &[Binding] = &[
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
        keys: &[K::Char('<'), K::Char('>'), K::Left, K::Right],
        shown: "< >",
        word: "minute",
        help: "a minute back, on; ←→ too, but in Plan and the history",
        actions: &[
            A::Steer(Steer::Seek(-60)),
            A::Steer(Steer::Seek(60)),
            A::Steer(Steer::Seek(-60)),
            A::Steer(Steer::Seek(60)),
        ],
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
];

/// In every pane.
pub(super) const ANYWHERE: &[Binding] = &[
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
        word: "pane",
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
        help: "the whole screen for the pane; the form: every step there",
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
        help: "open another plan, or another tool's file as one",
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
        keys: &[K::Char('A')],
        shown: "A",
        word: "",
        help: "dismiss alerts until they fire again",
        actions: &[A::Acknowledge],
    },
    Binding {
        context: Anywhere,
        keys: &[K::Char('O')],
        shown: "O",
        word: "",
        help: "what ran out of memory, and what would help by how much",
        actions: &[A::RanOut],
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
        help: "all keys, and the topics of the manual",
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
