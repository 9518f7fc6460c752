//! The roofline as a plot.

use super::{DECADES, Mark, RooflineChart};
use crate::predict::Bound;
use crate::report::drawing::{Drawing, Ink};
use crate::report::plot::{BLACK, GREY, Plot, PlotAxis, PlotLabel, PlotLayer, PlotPoint, PlotShape, WHITE, drawing};
use crate::units::{BytesPerSec, FlopsPerSec};

const ROOF: Ink = Ink(0x1f, 0x4e, 0x79);
const OPERATOR: Ink = Ink(0xc0, 0x39, 0x2b);
const CACHE: Ink = Ink(0x00, 0x9e, 0x73);

impl RooflineChart {
    /// The chart as a drawing.
    #[must_use]
    pub fn drawing(&self) -> Drawing {
        drawing(&[self.plot()])
    }

    /// The chart as a plot.
    #[must_use]
    pub fn plot(&self) -> Plot {
        let (mut layers, mut labels) = (Vec::new(), Vec::new());
        self.roofs(&mut layers, &mut labels);
        self.operators(&mut layers, &mut labels);
        Plot {
            title: self.caption.clone(),
            x: PlotAxis::decades("arithmetic intensity, FLOP/B", DECADES, 0),
            y: PlotAxis::decades("rate on one GPU, TFLOP/s", self.rates(), 12),
            layers,
            labels,
        }
    }

    fn roofs(&self, layers: &mut Vec<PlotLayer>, labels: &mut Vec<PlotLabel>) {
        let end = 10_f64.powf(DECADES.1);
        let mut add = |points: Vec<PlotPoint>, (ink, width, dashed): (Ink, f64, bool)| {
            layers.push(PlotLayer { name: None, ink, shape: PlotShape::Line { points, width, dashed } });
        };
        for (names, peak) in self.levels() {
            let is_own = (peak / self.own.0 - 1.0).abs() < 1e-9;
            add(vec![(peak / self.bandwidth.0, peak), (end, peak)], (ROOF, if is_own { 2.5 } else { 1.0 }, false));
            labels.push(PlotLabel { at: (end, peak), words: format!("{names} {}", FlopsPerSec(peak)), ink: ROOF });
        }
        let highest = self.roofs.first().map_or(self.own.0, |(_, peak)| peak.0);
        let slope = |rate: BytesPerSec| {
            let from = self.floor() / rate.0;
            let low = from.max(10_f64.powf(DECADES.0));
            vec![(low, low * rate.0), (highest / rate.0, highest)]
        };
        add(slope(self.bandwidth), (ROOF, 2.5, false));
        let middle = |rate: BytesPerSec| {
            let low = 10_f64.powf(DECADES.0);
            let at = (low * highest / rate.0).sqrt();
            (at, at * rate.0)
        };
        let words = format!("DRAM {}", self.bandwidth);
        labels.push(PlotLabel { at: middle(self.bandwidth), words, ink: ROOF });
        if let Some(rate) = self.l2 {
            add(slope(rate), (CACHE, 1.2, true));
            labels.push(PlotLabel { at: middle(rate), words: format!("L2 {rate}"), ink: CACHE });
        }
        add(vec![(self.ridge.0, self.floor()), (self.ridge.0, self.own.0)], (GREY, 1.0, true));
        let foot = (self.ridge.0, self.floor() * 1.2);
        labels.push(PlotLabel { at: foot, words: format!("ridge {}", self.ridge), ink: GREY });
    }

    /// Peaks with the types that share them, the highest first.
    fn levels(&self) -> Vec<(String, f64)> {
        let mut levels: Vec<(String, f64)> = Vec::new();
        for (name, peak) in &self.roofs {
            match levels.last_mut().filter(|(_, known)| (known / peak.0 - 1.0).abs() < 1e-9) {
                Some((names, _)) => *names = format!("{names}, {name}"),
                None => levels.push(((*name).to_owned(), peak.0)),
            }
        }
        levels
    }

    fn floor(&self) -> f64 {
        10_f64.powf(self.rates().0)
    }

    fn operators(&self, layers: &mut Vec<PlotLayer>, labels: &mut Vec<PlotLabel>) {
        for (bound, fill) in [(Bound::SmallKernel, GREY), (Bound::Memory, WHITE), (Bound::Compute, OPERATOR)] {
            let of_bound = self.marks.iter().filter(|mark| mark.bound == bound).map(Mark::point);
            let points: Vec<PlotPoint> = of_bound.collect();
            if !points.is_empty() {
                layers.push(PlotLayer::dots(Some(bound.phrase().to_owned()), OPERATOR, fill, points));
            }
        }
        // Operators that lie on each other share a label.
        let mut places: Vec<(PlotPoint, String)> = Vec::new();
        for mark in &self.marks {
            let at = mark.point();
            let near = |known: &PlotPoint| (known.0 / at.0).ln().abs() < 0.04 && (known.1 / at.1).ln().abs() < 0.06;
            // What lies below the border says how far.
            let low = if at.1 < self.floor() { format!(" ({})", mark.rate) } else { String::new() };
            match places.iter_mut().find(|(known, _)| near(known)) {
                Some((_, names)) => *names = format!("{names}, {}{low}", mark.name),
                None => places.push((at, format!("{}{low}", mark.name))),
            }
        }
        labels.extend(places.into_iter().map(|(at, words)| PlotLabel { at, words, ink: BLACK }));
    }
}

impl Mark {
    const fn point(&self) -> PlotPoint {
        (self.intensity.0, self.rate.0)
    }
}
