//! Keys of the panes that show: VRAM, Roofline, Monitor, Compare.

use super::Action as A;
use super::Binding;
use super::KeyContext::In;
use crate::app::key::KeyPress as K;
use crate::app::pane::Pane;

/// In the VRAM pane.
pub(super) const VRAM: &[Binding] = &[
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
        help: "components, layers, stages, the step, named terms, time",
        actions: &[A::View],
    },
];

/// In the Roofline pane.
pub(super) const ROOFLINE: &[Binding] = &[
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
        keys: &[K::Enter],
        shown: "⏎",
        word: "why",
        help: "what the operator costs, why, and what would help it",
        actions: &[A::OperatorAdvice],
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
        help: "the plan's roof, or the GPU's of every type",
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
];

/// In the Monitor pane.
pub(super) const MONITOR: &[Binding] = &[
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
        help: "compare the plan with the process; again: detach",
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
        keys: &[K::Char('f')],
        shown: "f",
        word: "",
        help: "cluster: next straggler; / job, s groups, m metric",
        actions: &[A::NextStraggler],
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
        context: In(Pane::Monitor),
        keys: &[K::Char('m'), K::Char('+'), K::Char('d')],
        shown: "m + d",
        word: "",
        help: "history: next metric first, one over the others, all GPUs",
        actions: &[A::Metric, A::OverlayMetric, A::EveryDevice],
    },
];

/// In the Compare pane.
pub(super) const COMPARE: &[Binding] = &[
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
        keys: &[K::Char('v')],
        shown: "v",
        word: "view",
        help: "in numbers, or over time: step, memory, loss and the plan",
        actions: &[A::View],
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
        word: "search",
        help: "search for the cause of the difference now",
        actions: &[A::Explain],
    },
    Binding {
        context: In(Pane::Compare),
        keys: &[K::Char('c'), K::Char('C')],
        shown: "c C",
        word: "calibrate",
        help: "keep what this machine shows over plans; C: drop it",
        actions: &[A::Calibrate, A::DropCalibration],
    },
    Binding {
        context: In(Pane::Compare),
        keys: &[K::Char('u')],
        shown: "u",
        word: "undo",
        help: "take back the last edit of the plan",
        actions: &[A::Undo],
    },
];
