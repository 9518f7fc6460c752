//! Plots drawn for a page.

use super::labels::{Labels, PixelBox};
use super::{BLACK, GREY, Plot, PlotLayer, PlotPoint, PlotShape};
use crate::report::drawing::{Anchor, Drawing, DrawnShape, Ink, PixelPoint, width};

/// Pixels of one plot.
const SIZE: (f64, f64) = (1000.0, 560.0);

/// Between what is drawn and the page's border.
const BORDER: f64 = 16.0;

const GRID: Ink = Ink(0xe4, 0xe4, 0xe4);

/// Height of letters: of the title, of axes' names, of the rest.
const TITLE: f64 = 16.0;
const NAME: f64 = 13.0;
const LETTERS: f64 = 12.0;

/// From one line of the legend to the next.
const LINE: f64 = 20.0;

/// Of the dots.
const RADIUS: f64 = 4.0;

/// Plots below each other on one page.
#[must_use]
pub fn drawing(plots: &[Plot]) -> Drawing {
    let size = (SIZE.0, SIZE.1 * plots.len().max(1) as f64);
    let mut shapes = Vec::new();
    for (at, plot) in plots.iter().enumerate() {
        Sheet::of(plot, SIZE.1 * at as f64).draw(&mut shapes);
    }
    Drawing { size, shapes }
}

/// A plot with its place on the page.
struct Sheet<'a> {
    plot: &'a Plot,
    /// Where the sheet begins.
    above: f64,
    /// Where points lie.
    frame: PixelBox,
    /// Where the legend begins.
    legend: f64,
}

impl<'a> Sheet<'a> {
    fn of(plot: &'a Plot, above: f64) -> Self {
        let widest =
            |words: &mut dyn Iterator<Item = &str>| words.map(|words| width(words, LETTERS)).fold(0.0, f64::max);
        let ticks = widest(&mut plot.y.ticks.iter().map(|(_, words)| words.as_str()));
        let legend = widest(&mut plot.layers.iter().filter_map(|layer| layer.name.as_deref()));
        let beside = if legend > 0.0 { legend.min(SIZE.0 / 3.0) + 44.0 } else { BORDER };
        let frame = PixelBox {
            left: BORDER + ticks + 10.0,
            top: above + 72.0,
            right: SIZE.0 - beside - BORDER,
            bottom: above + SIZE.1 - 62.0,
        };
        Self { plot, above, frame, legend: frame.right + 20.0 }
    }

    fn pixel(&self, (x, y): PlotPoint) -> PixelPoint {
        let frame = &self.frame;
        let across = self.plot.x.share(x) * (frame.right - frame.left);
        (frame.left + across, frame.bottom - self.plot.y.share(y) * (frame.bottom - frame.top))
    }

    fn draw(&self, out: &mut Vec<DrawnShape>) {
        let plot = self.plot;
        let title = fitted(&plot.title, TITLE, SIZE.0 - 2.0 * BORDER);
        out.push(words((BORDER, self.above + 28.0), Anchor::Start, TITLE, BLACK, &title));
        self.axes(out);
        for layer in &plot.layers {
            self.layer(layer, out);
        }
        self.labels(out);
        self.legend(out);
    }

    fn axes(&self, out: &mut Vec<DrawnShape>) {
        let (plot, frame) = (self.plot, &self.frame);
        let mut free = 0.0;
        for (value, said) in &plot.x.ticks {
            let x = self.pixel((*value, 0.0)).0;
            let long = width(said, LETTERS);
            if !plot.x.holds(*value) || x - long / 2.0 < free || x + long / 2.0 > SIZE.0 - BORDER / 2.0 {
                continue;
            }
            free = x + long / 2.0 + 6.0;
            out.push(line((x, frame.bottom), (x, frame.top), GRID, 1.0));
            out.push(words((x, frame.bottom + 18.0), Anchor::Middle, LETTERS, BLACK, said));
        }
        for (value, said) in plot.y.ticks.iter().filter(|(value, _)| plot.y.holds(*value)) {
            let y = frame.bottom - plot.y.share(*value) * (frame.bottom - frame.top);
            out.push(line((frame.left, y), (frame.right, y), GRID, 1.0));
            out.push(words((frame.left - 6.0, y + 4.0), Anchor::End, LETTERS, BLACK, said));
        }
        out.push(line((frame.left, frame.bottom), (frame.right, frame.bottom), BLACK, 1.0));
        out.push(line((frame.left, frame.bottom), (frame.left, frame.top), BLACK, 1.0));
        out.push(words((BORDER, frame.top - 14.0), Anchor::Start, NAME, BLACK, &plot.y.label));
        let below = ((frame.left + frame.right) / 2.0, frame.bottom + 42.0);
        out.push(words(below, Anchor::Middle, NAME, BLACK, &plot.x.label));
    }

    fn layer(&self, layer: &PlotLayer, out: &mut Vec<DrawnShape>) {
        let ink = layer.ink;
        match &layer.shape {
            PlotShape::Line { points, width, dashed } => out.push(DrawnShape::Path {
                points: points.iter().map(|point| self.pixel(*point)).collect(),
                ink,
                width: *width,
                dashed: *dashed,
            }),
            PlotShape::Area(points) => {
                let upper = points.iter().map(|(x, _, upper)| self.pixel((*x, *upper)));
                let lower = points.iter().rev().map(|(x, lower, _)| self.pixel((*x, *lower)));
                out.push(DrawnShape::Area { points: upper.chain(lower).collect(), fill: ink });
            }
            PlotShape::Boxes(boxes) => {
                for (from, to, low, high) in boxes {
                    let corners = [(*from, *low), (*to, *low), (*to, *high), (*from, *high)];
                    let points = corners.into_iter().map(|corner| self.pixel(corner)).collect();
                    out.push(DrawnShape::Area { points, fill: ink });
                }
            }
            PlotShape::Dots { points, fill } => {
                for point in points {
                    out.push(self.dot(*point, ink, *fill));
                }
            }
        }
    }

    /// A dot; a triangle at the border where the point lies beyond it.
    fn dot(&self, point: PlotPoint, ink: Ink, fill: Ink) -> DrawnShape {
        let at = self.pixel(point);
        let (x, y) = (&self.plot.x, &self.plot.y);
        if x.holds(point.0) && y.holds(point.1) {
            return DrawnShape::Dot { at, radius: RADIUS, ink, fill };
        }
        let (right, up) = if y.holds(point.1) {
            (if x.share(point.0) > 0.5 { 1.0 } else { -1.0 }, 0.0)
        } else {
            (0.0, if y.share(point.1) > 0.5 { 1.0 } else { -1.0 })
        };
        let (long, half) = (2.0 * RADIUS, RADIUS * 1.2);
        let tip = (at.0, at.1);
        let foot = (at.0 - right * long, at.1 + up * long);
        let points =
            vec![tip, (foot.0 + up * half, foot.1 + right * half), (foot.0 - up * half, foot.1 - right * half)];
        DrawnShape::Area { points, fill: ink }
    }

    fn labels(&self, out: &mut Vec<DrawnShape>) {
        let dots = self.plot.layers.iter().filter_map(|layer| match &layer.shape {
            PlotShape::Dots { points, .. } => Some(points),
            _ => None,
        });
        let dots = dots.flatten().map(|point| self.pixel(*point)).collect();
        let lines = self.plot.layers.iter().filter_map(|layer| match &layer.shape {
            PlotShape::Line { points, .. } => {
                Some(points.windows(2).map(|two| (self.pixel(two[0]), self.pixel(two[1]))))
            }
            _ => None,
        });
        let mut labels = Labels::new(self.frame, dots, lines.flatten().collect());
        for label in &self.plot.labels {
            let at = self.pixel(label.at);
            let said = fitted(&label.words, LETTERS, (self.frame.right - self.frame.left) / 2.0);
            let long = width(&said, LETTERS);
            // A frame that is full of words leaves some out; the text of the plot has all.
            let Some(place) = labels.place(at, long, LETTERS) else { continue };
            if let Some((from, to)) = place.leader {
                out.push(line(from, to, GREY, 0.6));
            }
            out.push(words(place.begin, Anchor::Start, LETTERS, label.ink, &said));
        }
    }

    fn legend(&self, out: &mut Vec<DrawnShape>) {
        let room = SIZE.0 - BORDER / 2.0 - self.legend - 26.0;
        // As layers lie on each other: the last on top.
        let named: Vec<(&str, &PlotLayer)> =
            self.plot.layers.iter().rev().filter_map(|layer| Some((layer.name.as_deref()?, layer))).collect();
        for (at, (name, layer)) in named.into_iter().enumerate() {
            let y = self.frame.top + 8.0 + LINE * at as f64;
            if y > self.frame.bottom {
                break;
            }
            let (left, middle) = (self.legend, y - 4.0);
            out.push(match &layer.shape {
                PlotShape::Line { width, dashed, .. } => DrawnShape::Path {
                    points: vec![(left, middle), (left + 18.0, middle)],
                    ink: layer.ink,
                    width: *width,
                    dashed: *dashed,
                },
                PlotShape::Dots { fill, .. } => {
                    DrawnShape::Dot { at: (left + 9.0, middle), radius: RADIUS, ink: layer.ink, fill: *fill }
                }
                PlotShape::Area(_) | PlotShape::Boxes(_) => DrawnShape::Area {
                    points: vec![
                        (left, middle - 6.0),
                        (left + 18.0, middle - 6.0),
                        (left + 18.0, middle + 6.0),
                        (left, middle + 6.0),
                    ],
                    fill: layer.ink,
                },
            });
            out.push(words((left + 26.0, y), Anchor::Start, LETTERS, BLACK, &fitted(name, LETTERS, room)));
        }
    }
}

/// As many letters of `words` as there is room for, with the sign of what is left out.
fn fitted(words: &str, size: f64, room: f64) -> String {
    if width(words, size) <= room {
        return words.to_owned();
    }
    let mut short: String = words.to_owned();
    while short.pop().is_some() {
        let cut = format!("{}…", short.trim_end());
        if width(&cut, size) <= room {
            return cut;
        }
    }
    String::new()
}

fn line(from: PixelPoint, to: PixelPoint, ink: Ink, width: f64) -> DrawnShape {
    DrawnShape::Line { from, to, ink, width, dashed: false }
}

fn words(at: PixelPoint, anchor: Anchor, size: f64, ink: Ink, words: &str) -> DrawnShape {
    DrawnShape::Words { at, anchor, size, ink, words: words.to_owned() }
}
