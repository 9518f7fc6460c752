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
        let found = beside.into_iter().find(free)?;
        self.taken.push(PixelBox::of_words(found, long, size));
        Some(found)
    }
}
