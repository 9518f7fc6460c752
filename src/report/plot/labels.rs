//! Places for labels: none lies on another, and none leaves its frame.

use crate::report::drawing::PixelPoint;

/// A rectangle in pixels: left, top, right, bottom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PixelBox {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// What letters rise above the line that they stand on and fall below it, of their height.
const RISE: f64 = 0.8;
const FALL: f64 = 0.25;

/// Between two labels, and between a dot and its label.
const GAP: f64 = 3.0;
const BESIDE: f64 = 8.0;

impl PixelBox {
    /// Of words of that length that begin at a place.
    pub fn of_words(at: PixelPoint, long: f64, size: f64) -> Self {
        Self { left: at.0, top: at.1 - RISE * size, right: at.0 + long, bottom: at.1 + FALL * size }
    }

    pub fn meets(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    /// Whether a line from one point to another has a part within (Liang and Barsky, "A New Concept and Method for Line
    /// Clipping", 1984).
    pub fn is_crossed(&self, from: PixelPoint, to: PixelPoint) -> bool {
        let (across, down) = (to.0 - from.0, to.1 - from.1);
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        let sides = [
            (-across, from.0 - self.left),
            (across, self.right - from.0),
            (-down, from.1 - self.top),
            (down, self.bottom - from.1),
        ];
        for (step, room) in sides {
            if step == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if step < 0.0 {
                enters = enters.max(room / step);
            } else {
                leaves = leaves.min(room / step);
            }
        }
        enters <= leaves
    }

    fn grown(self, by: f64) -> Self {
        Self { left: self.left - by, top: self.top - by, right: self.right + by, bottom: self.bottom + by }
    }

    fn within(&self, frame: &Self) -> bool {
        self.left >= frame.left && self.right <= frame.right && self.top >= frame.top && self.bottom <= frame.bottom
    }
}

/// Labels of one frame.
pub(super) struct Labels {
    pub frame: PixelBox,
    pub taken: Vec<PixelBox>,
    /// Dots, which no label covers.
    pub dots: Vec<PixelPoint>,
    /// Lines, which labels leave free as far as there is room.
    pub lines: Vec<(PixelPoint, PixelPoint)>,
}

impl Labels {
    /// Where words of that length begin that belong to a point: beside it, else nearby; none where the frame is full.
    pub fn place(&mut self, at: PixelPoint, long: f64, size: f64) -> Option<PixelPoint> {
        let low = at.1 + (RISE - FALL) / 2.0 * size;
        let mut beside = vec![
            (at.0 + BESIDE, low),
            (at.0 - BESIDE - long, low),
            (at.0 + BESIDE / 2.0, at.1 - BESIDE),
            (at.0 - long, at.1 - BESIDE),
            (at.0 + BESIDE / 2.0, at.1 + BESIDE + RISE * size),
            (at.0 - long, at.1 + BESIDE + RISE * size),
        ];
        let line = size * 1.2;
        for ring in 1..60 {
            let away = line * f64::from(ring);
            let wide = 3.0 * away;
            let around = [(0.0, away), (0.0, -away), (away, away), (away, -away), (-away, away), (-away, -away)];
            for (x, y) in around.into_iter().chain([(wide, away), (wide, -away), (-wide, away), (-wide, -away)]) {
                beside.push((at.0 + BESIDE + x, low + y));
                beside.push((at.0 - BESIDE - long + x, low + y));
            }
        }
        let free = |place: &PixelPoint| {
            let own = PixelBox::of_words(*place, long, size);
            let covers = |dot: &PixelPoint| {
                let dot = PixelBox { left: dot.0, top: dot.1, right: dot.0, bottom: dot.1 }.grown(4.0);
                own.meets(&dot)
            };
            own.within(&self.frame)
                && !self.taken.iter().any(|other| own.grown(GAP).meets(other))
                && !self.dots.iter().any(covers)
        };
        let clear = |place: &PixelPoint| {
            let own = PixelBox::of_words(*place, long, size);
            !self.lines.iter().any(|(from, to)| own.is_crossed(*from, *to))
        };
        let found = beside.iter().find(|place| free(place) && clear(place));
        let found = found.or_else(|| beside.iter().find(|place| free(place))).copied()?;
        self.taken.push(PixelBox::of_words(found, long, size));
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_crosses_a_box_where_a_part_of_it_is_within() {
        let own = PixelBox { left: 10.0, top: 10.0, right: 20.0, bottom: 20.0 };
        for (from, to, crosses) in [
            ((0.0, 15.0), (30.0, 15.0), true),
            ((0.0, 0.0), (30.0, 30.0), true),
            ((0.0, 25.0), (30.0, 25.0), false),
            ((0.0, 15.0), (5.0, 15.0), false),
            ((0.0, 12.0), (12.0, 0.0), false),
        ] {
            assert_eq!(own.is_crossed(from, to), crosses, "{from:?} {to:?}");
        }
    }
}
