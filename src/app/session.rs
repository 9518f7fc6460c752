//! What is kept from one start of the dashboard to the next.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app::arrangement::Arrangement;
use crate::app::monitor::processes::SortBy;
use crate::app::monitor::spans::HistorySpan;
use crate::app::state::State;

/// Plans that are remembered.
const MOST_RECENT: usize = 20;

/// Layout, span, order, theme and the plans that were open last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedSession {
    /// How the panes share the screen.
    pub arrangement: Arrangement,
    /// How much of the past was shown.
    pub span: HistorySpan,
    /// What processes were ordered by.
    pub sort: SortBy,
    /// The theme that was chosen in the list; none: none was.
    pub theme: Option<String>,
    /// Plans, the newest first.
    pub recent: Vec<PathBuf>,
}

impl SavedSession {
    /// What is to be kept of a dashboard.
    #[must_use]
    pub fn of(state: &State) -> Self {
        Self {
            arrangement: state.views.arrangement.clone(),
            span: state.monitor.span,
            sort: state.monitor.list.sort,
            theme: state.views.themes.chosen.clone(),
            recent: state.plans.recent.clone(),
        }
    }

    /// The dashboard goes on where the last one ended.
    pub fn restore(self, state: &mut State) {
        state.views.arrangement = self.arrangement.leaving_out_as(&state.views.arrangement);
        state.monitor.span = self.span;
        state.monitor.list.sort = self.sort;
        state.views.themes.chosen = self.theme;
        for path in self.recent.into_iter().rev() {
            note_recent(&mut state.plans.recent, &path);
        }
    }

    /// With the plans of another one behind its own: two dashboards may be open.
    #[must_use]
    pub fn with_recent_of(mut self, other: Self) -> Self {
        for path in other.recent {
            if self.recent.len() < MOST_RECENT && !self.recent.contains(&path) {
                self.recent.push(path);
            }
        }
        self
    }
}

/// A plan was opened or saved: it is the newest.
pub fn note_recent(recent: &mut Vec<PathBuf>, path: &Path) {
    recent.retain(|known| known != path);
    recent.insert(0, path.to_owned());
    recent.truncate(MOST_RECENT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plan_is_first_and_stands_once() {
        let mut recent = Vec::new();
        for name in ["a", "b", "a"] {
            note_recent(&mut recent, Path::new(name));
        }
        assert_eq!(recent, [PathBuf::from("a"), PathBuf::from("b")]);
        for number in 0..40 {
            note_recent(&mut recent, Path::new(&number.to_string()));
        }
        assert_eq!((recent.len(), recent[0].to_str()), (MOST_RECENT, Some("39")));
    }

    #[test]
    fn what_a_newer_version_keeps_more_of_is_passed_over() {
        let kept = r#"{"span": "six-hours", "sort": "memory", "tomorrow": 3}"#;
        let session: SavedSession = serde_json::from_str(kept).unwrap();
        assert_eq!((session.span, session.sort), (HistorySpan::SixHours, SortBy::Memory));
        assert_eq!(session.arrangement, Arrangement::default());
    }
}
