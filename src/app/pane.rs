//! The five panes.

use serde::Serialize;

/// A pane of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pane {
    /// The plan as a form.
    Plan,
    /// The memory breakdown.
    Vram,
    /// The roofline chart.
    Roofline,
    /// GPUs and processes.
    Monitor,
    /// Predicted against observed.
    Compare,
}

impl Pane {
    /// All of them, in the order of their digits.
    pub const ALL: [Self; 5] = [Self::Plan, Self::Vram, Self::Roofline, Self::Monitor, Self::Compare];

    /// The name in the frame.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "Plan",
            Self::Vram => "VRAM",
            Self::Roofline => "Roofline",
            Self::Monitor => "Monitor",
            Self::Compare => "Compare",
        }
    }

    /// The digit that focuses it.
    #[must_use]
    pub fn digit(self) -> usize {
        self.position() + 1
    }

    fn position(self) -> usize {
        Self::ALL.iter().position(|pane| *pane == self).unwrap_or(0)
    }

    /// The pane after this one; the first after the last.
    #[must_use]
    pub fn next(self) -> Self {
        Self::ALL[(self.position() + 1) % Self::ALL.len()]
    }

    /// The pane before this one; the last before the first.
    #[must_use]
    pub fn previous(self) -> Self {
        Self::ALL[(self.position() + Self::ALL.len() - 1) % Self::ALL.len()]
    }
}
