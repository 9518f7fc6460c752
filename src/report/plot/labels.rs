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

/// Where the words of a label stand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LabelPlace {
    /// Where they begin.
    pub begin: PixelPoint,
    /// What leads from the point to words that are not beside it.
    pub leader: Option<Segment>,
}

/// From one point to another.
pub(super) type Segment = (PixelPoint, PixelPoint);

/// Labels of one frame.
pub(super) struct Labels {
    pub frame: PixelBox,
    /// Dots, which no label covers.
    pub dots: Vec<PixelPoint>,
    /// Lines, which labels leave free as far as there is room.
    pub lines: Vec<Segment>,
    taken: Vec<PixelBox>,
    leaders: Vec<Segment>,
}

/// What words may rather be farther away than do, in pixels: lie on a line, be crossed by a leader or have theirs cross
/// others, and have it cross another leader.
const ON_A_LINE: f64 = 400.0;
const ON_WORDS: f64 = 120.0;
const ON_A_LEADER: f64 = 40.0;

impl Labels {
    /// A frame without labels.
    pub const fn new(frame: PixelBox, dots: Vec<PixelPoint>, lines: Vec<Segment>) -> Self {
        Self { frame, dots, lines, taken: Vec::new(), leaders: Vec::new() }
    }

    /// Where words of that length stand that belong to a point: beside it, else nearby; none where the frame is full.
    pub fn place(&mut self, at: PixelPoint, long: f64, size: f64) -> Option<LabelPlace> {
        let places = candidates(at, long, size).into_iter();
        let priced = places.filter_map(|begin| {
            let own = PixelBox::of_words(begin, long, size);
            let place = LabelPlace { begin, leader: leader(at, begin, long, size) };
            self.is_free(&own).then(|| (self.price(&own, &place), place))
        });
        // Of equals the first.
        let best = priced.reduce(|best, other| if other.0 < best.0 { other } else { best });
        let (_, place) = best?;
        self.taken.push(PixelBox::of_words(place.begin, long, size));
        self.leaders.extend(place.leader);
        Some(place)
    }

    fn is_free(&self, own: &PixelBox) -> bool {
        let covers = |dot: &PixelPoint| {
            let dot = PixelBox { left: dot.0, top: dot.1, right: dot.0, bottom: dot.1 }.grown(4.0);
            own.meets(&dot)
        };
        own.within(&self.frame)
            && !self.taken.iter().any(|other| own.grown(GAP).meets(other))
            && !self.dots.iter().any(covers)
    }

    fn price(&self, own: &PixelBox, place: &LabelPlace) -> f64 {
        let crossed = |segments: &[Segment]| segments.iter().filter(|(from, to)| own.is_crossed(*from, *to)).count();
        let price = ON_A_LINE * crossed(&self.lines).min(1) as f64 + ON_WORDS * crossed(&self.leaders) as f64;
        let Some((from, to)) = place.leader else { return price };
        let over = self.taken.iter().filter(|words| words.is_crossed(from, to)).count();
        let leaders = self.leaders.iter().filter(|other| cross((from, to), **other)).count();
        let long = (to.0 - from.0).hypot(to.1 - from.1);
        price + ON_WORDS * over as f64 + ON_A_LEADER * leaders as f64 + long
    }
}

/// Where words may begin that belong to a point: beside it, and around it in rings.
fn candidates(at: PixelPoint, long: f64, size: f64) -> Vec<PixelPoint> {
    let low = at.1 + (RISE - FALL) / 2.0 * size;
    let mut places = vec![
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
        let far = [(wide, 0.0), (-wide, 0.0), (wide, away), (wide, -away), (-wide, away), (-wide, -away)];
        for (x, y) in around.into_iter().chain(far) {
            places.push((at.0 + BESIDE + x, low + y));
            places.push((at.0 - BESIDE - long + x, low + y));
        }
    }
    places
}

/// From a point to the near end of its words, or to them from above or below, where they are not beside it.
fn leader(at: PixelPoint, begin: PixelPoint, long: f64, size: f64) -> Option<Segment> {
    let words = PixelBox::of_words(begin, long, size);
    let middle = begin.1 - 4.0;
    let beside = (middle - at.1).abs() < 1.5 * size && begin.0 - at.0 < 20.0 && at.0 - begin.0 - long < 20.0;
    let end = match () {
        () if at.0 < words.left => (words.left - 2.0, middle),
        () if at.0 > words.right => (words.right + 2.0, middle),
        () if at.1 < words.top => (at.0, words.top - 1.0),
        () => (at.0, words.bottom + 1.0),
    };
    (!beside).then_some((at, end))
}

/// Whether two segments have a point in common that is no end of either.
fn cross((a, b): Segment, (c, d): Segment) -> bool {
    let side =
        |(from, to): Segment, at: PixelPoint| (to.0 - from.0) * (at.1 - from.1) - (to.1 - from.1) * (at.0 - from.0);
    side((a, b), c) * side((a, b), d) < 0.0 && side((c, d), a) * side((c, d), b) < 0.0
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

    #[test]
    fn segments_cross_where_each_has_the_other_on_both_sides() {
        let diagonal = ((0.0, 0.0), (10.0, 10.0));
        assert!(cross(diagonal, ((0.0, 10.0), (10.0, 0.0))));
        assert!(!cross(diagonal, ((0.0, 10.0), (4.0, 6.0))), "it ends before");
        assert!(!cross(diagonal, ((10.0, 10.0), (20.0, 0.0))), "they meet at an end");
        assert!(!cross(diagonal, ((1.0, 0.0), (11.0, 10.0))), "they are parallel");
    }

    #[test]
    fn words_keep_from_under_the_leaders_of_others() {
        let frame = PixelBox { left: 0.0, top: 0.0, right: 600.0, bottom: 400.0 };
        let points: Vec<PixelPoint> = (0..5).map(|at| (200.0 + 12.0 * f64::from(at), 200.0)).collect();
        let mut labels = Labels::new(frame, points.clone(), Vec::new());
        let places: Vec<LabelPlace> = points.iter().map(|at| labels.place(*at, 80.0, 12.0).unwrap()).collect();
        for place in &places {
            let own = PixelBox::of_words(place.begin, 80.0, 12.0);
            let over = places.iter().filter_map(|other| other.leader).filter(|(from, to)| own.is_crossed(*from, *to));
            assert_eq!(over.count(), 0, "{places:?}");
        }
    }
}
