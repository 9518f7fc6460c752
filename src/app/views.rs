//! What the panes with several views show.

use crate::app::monitor::trail::Trail;
use crate::predict::{Bound, Roofline, RooflineOp};

/// What the VRAM pane lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryView {
    /// Sums by component, with the course over one step.
    #[default]
    Components,
    /// Layer by layer.
    Layers,
    /// Every pipeline stage.
    Stages,
    /// The course over one step.
    Timeline,
    /// Every named term.
    Terms,
    /// Every named part of the step's time.
    Times,
}

impl MemoryView {
    /// The word in the frame.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Components => "components",
            Self::Layers => "layers",
            Self::Stages => "stages",
            Self::Timeline => "over the step",
            Self::Terms => "named terms",
            Self::Times => "time of a step",
        }
    }

    /// The view after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Components => Self::Layers,
            Self::Layers => Self::Stages,
            Self::Stages => Self::Timeline,
            Self::Timeline => Self::Terms,
            Self::Terms => Self::Times,
            Self::Times => Self::Components,
        }
    }
}

/// State of the VRAM pane.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryPane {
    /// What it lists.
    pub view: MemoryView,
    /// The selected row.
    pub selected: usize,
}

/// Which operators the roofline shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OpKind {
    /// All of them.
    #[default]
    All,
    /// Those that one roof binds, or none.
    Bound(Bound),
    /// Those of one module, by the first part of their name.
    Module(String),
}

impl OpKind {
    /// Whether an operator is of this kind.
    #[must_use]
    pub fn has(&self, op: &RooflineOp) -> bool {
        match self {
            Self::All => true,
            Self::Bound(bound) => op.bound == *bound,
            Self::Module(module) => module_of(op) == module,
        }
    }

    /// The word in the frame.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::All => "all operators".to_owned(),
            Self::Bound(bound) => bound.phrase().to_owned(),
            Self::Module(module) => module.clone(),
        }
    }

    /// The kind after this one, of those that the roofline has.
    #[must_use]
    pub fn next(&self, roofline: &Roofline) -> Self {
        let mut kinds = vec![Self::All];
        let bounds = [Bound::Compute, Bound::Memory, Bound::SmallKernel].map(Self::Bound);
        kinds.extend(bounds.into_iter().filter(|kind| roofline.ops.iter().any(|op| kind.has(op))));
        for op in &roofline.ops {
            let kind = Self::Module(module_of(op).to_owned());
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let at = kinds.iter().position(|kind| kind == self).map_or(0, |at| at + 1);
        kinds.into_iter().nth(at).unwrap_or_default()
    }
}

fn module_of(op: &RooflineOp) -> &str {
    op.name.split(['.', ' ']).next().unwrap_or(&op.name)
}

/// State of the roofline pane.
#[derive(Debug, Clone, Default)]
pub struct RooflinePane {
    /// The table instead of the chart, where there is no room for both.
    pub table: bool,
    /// The selected operator, in order of time among those that are shown.
    pub selected: usize,
    /// Which operators are shown.
    pub kind: OpKind,
    /// The GPU's roofs of every type, not the plan's alone.
    pub every_roof: bool,
    /// How often the chart was narrowed by half.
    pub zoom: u8,
    /// Where the run has been.
    pub trail: Trail,
}

/// The chart is not narrowed further: less than a third of a decade says nothing.
pub const MOST_ZOOM: u8 = 4;

impl RooflinePane {
    /// The operators that are shown, most time first.
    pub fn ops<'a>(&'a self, roofline: &'a Roofline) -> impl Iterator<Item = &'a RooflineOp> {
        roofline.ops.iter().filter(|op| self.kind.has(op))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::Document;
    use crate::predict;

    #[test]
    fn kinds_go_round_and_each_has_operators() {
        let plan = Document::parse("model: {preset: gpt2}\n").unwrap().plan().unwrap();
        let roofline = predict::of(&plan, &Catalog::embedded().unwrap()).unwrap().roofline;
        let mut kind = OpKind::All;
        let mut seen = Vec::new();
        loop {
            kind = kind.next(&roofline);
            if kind == OpKind::All {
                break;
            }
            assert!(roofline.ops.iter().any(|op| kind.has(op)), "{kind:?}");
            seen.push(kind.word());
        }
        assert!(seen.contains(&"memory-bound".to_owned()) && seen.contains(&"attention".to_owned()), "{seen:?}");
    }
}
