//! What only a hand changes: drawn once, and kept for the frames in which nothing but figures come in.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The plan pane as it was drawn last.
#[derive(Debug, Default)]
pub struct PaneCache {
    plan: Option<Buffer>,
}

impl PaneCache {
    /// More has happened than that something was observed: all is drawn anew.
    pub fn forget(&mut self) {
        self.plan = None;
    }

    /// Draws the plan pane at `area`, or what was drawn there before.
    pub fn plan(&mut self, area: Rect, buffer: &mut Buffer, draw: impl Fn(&mut Buffer)) {
        let drawn = || {
            let mut fresh = Buffer::empty(area);
            draw(&mut fresh);
            fresh
        };
        let kept = self.plan.take().filter(|kept| kept.area == area);
        debug_assert!(kept.as_ref().is_none_or(|kept| *kept == drawn()), "what is observed changes the plan pane");
        let kept = kept.unwrap_or_else(drawn);
        for (row, place) in kept.content.chunks(usize::from(area.width.max(1))).zip(area.rows()) {
            let start = buffer.index_of(place.x, place.y);
            buffer.content[start..start + row.len()].clone_from_slice(row);
        }
        self.plan = Some(kept);
    }
}
