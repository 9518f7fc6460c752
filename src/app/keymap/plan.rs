//! Keys of the Plan pane: its form and its text.

use super::Action as A;
use super::Binding;
use super::KeyContext::{In, Text};
use crate::app::key::KeyPress as K;
use crate::app::pane::Pane;

/// While the plan is a form.
pub(super) const FORM: &[Binding] = &[
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
        word: "set",
        help: "choose from the list, or type it (80GiB, 32k too)",
        actions: &[A::Type],
    },
    Binding {
        context: In(Pane::Plan),
        keys: &[K::Char('m')],
        shown: "m",
        word: "max batch",
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
        keys: &[K::Char('f')],
        shown: "f",
        word: "search",
        help: "find the best plans over every degree and memory knob",
        actions: &[A::Search],
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
        keys: &[K::Char('E')],
        shown: "E",
        word: "",
        help: "export it: Megatron, torchrun, DeepSpeed, torchtitan",
        actions: &[A::Export],
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
];

/// While the plan is edited as text.
pub(super) const TEXT: &[Binding] = &[
    Binding {
        context: Text,
        keys: &[K::Esc],
        shown: "esc",
        word: "form",
        help: "back to the form",
        actions: &[A::Text],
    },
    Binding {
        context: Text,
        keys: &[K::Tab, K::BackTab],
        shown: "tab",
        word: "complete",
        help: "keys or values that may stand here; tab takes one",
        actions: &[A::Complete],
    },
    Binding {
        context: Text,
        keys: &[K::Ctrl('z'), K::Ctrl('y')],
        shown: "^Z ^Y",
        word: "undo, redo",
        help: "take back the last edit, make it again",
        actions: &[A::Undo, A::Redo],
    },
    Binding {
        context: Text,
        keys: &[K::Ctrl('s')],
        shown: "^S",
        word: "save",
        help: "show what is to be saved; again writes it",
        actions: &[A::Save],
    },
];
