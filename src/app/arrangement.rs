//! How the panes share the screen: a preset, borders that were moved, and panes that are left out.

use serde::{Deserialize, Serialize};

use crate::app::pane::Pane;

/// Panes.
const PANES: usize = Pane::ALL.len();

/// How far a border can be moved from where the preset has it, in steps.
const FARTHEST: i8 = 12;

/// Which panes are in view together, where there is room, and how they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutPreset {
    /// Plan and VRAM over Roofline and Monitor.
    #[default]
    Grid,
    /// The plan at full height, with what an edit does beside it.
    Edit,
    /// The monitor at full height, with the comparison beside it.
    Watch,
    /// One pane, the others as tabs.
    Single,
}

impl LayoutPreset {
    /// All of them, in the order in which a key goes through them.
    pub const ALL: [Self; 4] = [Self::Grid, Self::Edit, Self::Watch, Self::Single];

    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Edit => "edit",
            Self::Watch => "watch",
            Self::Single => "single",
        }
    }

    /// What it shows, in a few words.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Grid => "Plan and VRAM over Roofline and Monitor",
            Self::Edit => "Plan beside VRAM and Roofline",
            Self::Watch => "Monitor beside Compare and VRAM",
            Self::Single => "one pane, the others as tabs",
        }
    }

    /// The preset of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name().eq_ignore_ascii_case(name))
    }

    /// The preset after this one; the first after the last.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Grid => Self::Edit,
            Self::Edit => Self::Watch,
            Self::Watch => Self::Single,
            Self::Single => Self::Grid,
        }
    }
}

/// A side of a pane that a key moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Its width.
    Width,
    /// Its height.
    Height,
}

/// The preset with what the user has changed of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Arrangement {
    /// The preset.
    pub preset: LayoutPreset,
    /// Steps by which each pane is wider than there, in the order of [`Pane::ALL`].
    wider: [i8; PANES],
    /// Steps by which each pane is taller than there.
    taller: [i8; PANES],
    /// Panes that are never beside others: the configuration says so, not the keys.
    #[serde(skip)]
    left_out: [bool; PANES],
}

impl Arrangement {
    /// A preset with every border where it has it.
    #[must_use]
    pub fn of(preset: LayoutPreset) -> Self {
        Self { preset, ..Self::default() }
    }

    /// Steps by which a pane is larger than in the preset.
    #[must_use]
    pub fn steps(&self, pane: Pane, side: Side) -> i8 {
        let steps = match side {
            Side::Width => &self.wider,
            Side::Height => &self.taller,
        };
        steps.get(pane.digit() - 1).copied().unwrap_or(0)
    }

    /// Moves a border of a pane. False where it is as far as it goes.
    pub fn resize(&mut self, pane: Pane, side: Side, by: i8) -> bool {
        let steps = match side {
            Side::Width => &mut self.wider,
            Side::Height => &mut self.taller,
        };
        let Some(steps) = steps.get_mut(pane.digit() - 1) else { return false };
        let moved = steps.saturating_add(by).clamp(-FARTHEST, FARTHEST);
        std::mem::replace(steps, moved) != moved
    }

    /// Every border where the preset has it.
    pub fn reset(&mut self) {
        (self.wider, self.taller) = ([0; PANES], [0; PANES]);
    }

    /// These panes alone stand beside others.
    pub fn show_only(&mut self, panes: &[Pane]) {
        self.left_out = Pane::ALL.map(|pane| !panes.contains(&pane));
    }

    /// Whether a pane may stand beside others.
    #[must_use]
    pub fn shows(&self, pane: Pane) -> bool {
        !self.left_out.get(pane.digit() - 1).copied().unwrap_or(false)
    }

    /// With the panes that another one leaves out.
    #[must_use]
    pub fn leaving_out_as(self, other: &Self) -> Self {
        Self { left_out: other.left_out, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_go_round_and_have_names() {
        let mut preset = LayoutPreset::Grid;
        for expected in [LayoutPreset::Edit, LayoutPreset::Watch, LayoutPreset::Single, LayoutPreset::Grid] {
            preset = preset.next();
            assert_eq!((preset, LayoutPreset::of_name(&preset.name().to_uppercase())), (expected, Some(expected)));
        }
        assert_eq!(LayoutPreset::of_name("rows"), None);
    }

    #[test]
    fn borders_move_so_far_and_back() {
        let mut arrangement = Arrangement::default();
        let moved = (0..40).filter(|_| arrangement.resize(Pane::Vram, Side::Width, 1)).count();
        assert_eq!((moved, arrangement.steps(Pane::Vram, Side::Width)), (12, 12));
        assert_eq!(arrangement.steps(Pane::Vram, Side::Height), 0);
        arrangement.reset();
        assert_eq!(arrangement, Arrangement::default());
    }
}
