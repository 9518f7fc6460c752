//! The roofline drawn.

use super::{DECADES, RooflineChart, power};
use crate::predict::Bound;
use crate::report::drawing::{Anchor, Drawing, DrawnShape, Ink, PixelPoint, width};
use crate::report::text::shortened;

/// Pixels of the picture, and of the plot's margins: left, top, right, bottom.
const SIZE: (f64, f64) = (1000.0, 620.0);
const MARGINS: (f64, f64, f64, f64) = (80.0, 56.0, 190.0, 60.0);

const BLACK: Ink = Ink(0x22, 0x22, 0x22);
const WHITE: Ink = Ink(0xff, 0xff, 0xff);
const GRID: Ink = Ink(0xe4, 0xe4, 0xe4);
const GREY: Ink = Ink(0x88, 0x88, 0x88);
const ROOF: Ink = Ink(0x1f, 0x4e, 0x79);
const OPERATOR: Ink = Ink(0xc0, 0x39, 0x2b);

/// Of the dots.
const RADIUS: f64 = 4.0;

/// Height of letters, and from one line of them to the next.
const LETTERS: f64 = 12.0;
const LINE: f64 = 14.0;

impl RooflineChart {
    /// The chart as a drawing.
    #[must_use]
    pub fn drawing(&self) -> Drawing {
        let mut drawing = Drawing { size: SIZE, shapes: Vec::new() };
        let out = &mut drawing.shapes;
        let (left, top, ..) = MARGINS;
        out.push(words((left, 24.0), Anchor::Start, 15.0, BLACK, &shortened(&self.title, 100)));
        let mut along = SIZE.0 - 20.0;
        for bound in [Bound::SmallKernel, Bound::Memory, Bound::Compute] {
            let said = bound.phrase();
            along -= width(said, LETTERS);
            out.push(words((along, top - 14.0), Anchor::Start, LETTERS, GREY, said));
            out.push(DrawnShape::Dot {
                at: (along - 10.0, top - 18.0),
                radius: RADIUS,
                ink: OPERATOR,
                fill: fill(bound),
            });
            along -= 30.0;
        }
        self.axes(out);
        let mut labels = Labels { taken: Vec::new() };
        self.draw_roofs(out, &mut labels);
        self.draw_marks(out, &mut labels);
        drawing
    }

    /// A point of the plot in pixels.
    fn pixel(&self, intensity: f64, rate: f64) -> PixelPoint {
        inside(self.place(intensity, rate))
    }

    #[allow(clippy::cast_possible_truncation)]
    fn axes(&self, out: &mut Vec<DrawnShape>) {
        for decade in DECADES.0 as i32..=DECADES.1 as i32 {
            let x = self.place(10_f64.powi(decade), 1.0).0;
            let foot = inside((x, 1.0));
            out.push(line(foot, inside((x, 0.0)), GRID, 1.0, false));
            out.push(words((foot.0, foot.1 + 18.0), Anchor::Middle, LETTERS, BLACK, &power(decade)));
        }
        let (floor, ceiling) = self.rates();
        for decade in floor.ceil() as i32..=ceiling.floor() as i32 {
            let y = self.place(1.0, 10_f64.powi(decade)).1;
            let edge = inside((0.0, y));
            out.push(line(edge, inside((1.0, y)), GRID, 1.0, false));
            out.push(words((edge.0 - 8.0, edge.1 + 4.0), Anchor::End, LETTERS, BLACK, &power(decade - 12)));
        }
        let middle = inside((0.5, 1.0));
        out.push(words((middle.0, middle.1 + 40.0), Anchor::Middle, 13.0, BLACK, "FLOP/B"));
        let corner = inside((0.0, 0.0));
        out.push(words((corner.0 - 8.0, corner.1 - 10.0), Anchor::End, 13.0, BLACK, "TFLOP/s"));
    }

    fn draw_roofs(&self, out: &mut Vec<DrawnShape>, labels: &mut Labels) {
        let is_own = |peak: f64| (peak / self.own.0 - 1.0).abs() < 1e-9;
        // Types of one peak have one roof.
        let mut levels: Vec<(String, f64)> = Vec::new();
        for (name, peak) in &self.roofs {
            match levels.last_mut().filter(|(_, known)| (known / peak.0 - 1.0).abs() < 1e-9) {
                Some((names, _)) => *names = format!("{names}, {name}"),
                None => levels.push(((*name).to_owned(), peak.0)),
            }
        }
        for (names, peak) in &levels {
            let from = self.pixel(peak / self.bandwidth.0, *peak);
            let to = self.pixel(10_f64.powf(DECADES.1), *peak);
            out.push(line(from, to, ROOF, if is_own(*peak) { 2.5 } else { 1.0 }, false));
            let said = format!("{names} {}", crate::units::FlopsPerSec(*peak));
            let at = (to.0 + 8.0, to.1 + 4.0);
            labels.taken.push((at, width(&said, LETTERS)));
            out.push(words(at, Anchor::Start, LETTERS, ROOF, &said));
        }
        let lowest = 10_f64.powf(DECADES.0);
        let highest = self.roofs.first().map_or(self.own.0, |(_, peak)| peak.0);
        let start = self.pixel(lowest, lowest * self.bandwidth.0);
        let end = self.pixel(highest / self.bandwidth.0, highest);
        out.push(line(start, end, ROOF, 2.5, false));
        // Above the middle of its slope, where no operator can be.
        let middle = ((start.0 + end.0) / 2.0 - 8.0, (start.1 + end.1) / 2.0 - 8.0);
        out.push(words(middle, Anchor::End, LETTERS, ROOF, &format!("DRAM {}", self.bandwidth)));
        let foot = inside((self.place(self.ridge.0, 1.0).0, 1.0));
        out.push(line(foot, self.pixel(self.ridge.0, self.own.0), GREY, 1.0, true));
        let ridge = format!("ridge {}", self.ridge);
        let at = (foot.0 + 6.0, foot.1 - 6.0);
        labels.taken.push((at, width(&ridge, LETTERS)));
        out.push(words(at, Anchor::Start, LETTERS, GREY, &ridge));
    }

    fn draw_marks(&self, out: &mut Vec<DrawnShape>, labels: &mut Labels) {
        let mut dots: Vec<DrawnShape> = Vec::new();
        // Operators that lie on each other share a label.
        let mut places: Vec<(PixelPoint, String)> = Vec::new();
        for mark in &self.marks {
            let at = self.pixel(mark.intensity.0, mark.rate.0);
            dots.push(DrawnShape::Dot { at, radius: RADIUS, ink: OPERATOR, fill: fill(mark.bound) });
            let near = |known: &PixelPoint| (known.0 - at.0).abs() < RADIUS && (known.1 - at.1).abs() < RADIUS;
            match places.iter_mut().find(|(known, _)| near(known)) {
                Some((_, names)) => *names = format!("{names}, {}", mark.name),
                None => places.push((at, mark.name.clone())),
            }
        }
        // From the top down: what gives way goes down too, so that no two lines to labels cross.
        places.sort_by(|a, b| a.0.1.total_cmp(&b.0.1).then(b.0.0.total_cmp(&a.0.0)));
        for (at, names) in places {
            let names = shortened(&names, 40);
            let from = labels.place(at, width(&names, LETTERS));
            if (from.1 - at.1).abs() > LINE {
                out.push(line(at, (from.0 - 2.0, from.1 - 4.0), GREY, 0.5, false));
            }
            out.push(words(from, Anchor::Start, LETTERS, BLACK, &names));
        }
        out.append(&mut dots);
    }
}

/// How a dot is filled, by what binds its operator.
const fn fill(bound: Bound) -> Ink {
    match bound {
        Bound::Compute => OPERATOR,
        Bound::Memory => WHITE,
        Bound::SmallKernel => GREY,
    }
}

/// Where labels lie: the left end of each on its line, and how long it is.
struct Labels {
    taken: Vec<(PixelPoint, f64)>,
}

impl Labels {
    /// A free place for words of a length to the right of a dot: on its line, or the nearest below; else above.
    fn place(&mut self, (x, y): PixelPoint, long: f64) -> PixelPoint {
        let left = (x + 9.0).min(SIZE.0 - 6.0 - long);
        let (top, bottom) = (MARGINS.1, SIZE.1 - MARGINS.3);
        let free = |line: &f64| {
            self.taken.iter().all(|((start, other), length)| {
                (other - line).abs() >= LINE - 0.5 || left >= start + length + 4.0 || *start >= left + long + 4.0
            })
        };
        let home = (y + 4.0).min(bottom - 4.0);
        let below = (0..60).map(|step| home + LINE / 2.0 * f64::from(step)).take_while(|line| *line < bottom);
        let above = (1..60).map(|step| home - LINE / 2.0 * f64::from(step)).take_while(|line| *line > top);
        let found = below.chain(above).find(free).unwrap_or(home);
        self.taken.push(((left, found), long));
        (left, found)
    }
}

/// A point of the plot, as shares of its sides, in pixels.
fn inside((x, y): (f64, f64)) -> PixelPoint {
    let (left, top, right, bottom) = MARGINS;
    (left + x * (SIZE.0 - left - right), top + y * (SIZE.1 - top - bottom))
}

const fn line(from: PixelPoint, to: PixelPoint, ink: Ink, width: f64, dashed: bool) -> DrawnShape {
    DrawnShape::Line { from, to, ink, width, dashed }
}

fn words(at: PixelPoint, anchor: Anchor, size: f64, ink: Ink, words: &str) -> DrawnShape {
    DrawnShape::Words { at, anchor, size, ink, words: words.to_owned() }
}
