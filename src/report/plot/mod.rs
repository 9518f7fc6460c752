//! Plots: what is to be seen, drawn for a page and in letters for a terminal from the one value.

pub(in crate::report) mod axis;
mod labels;
mod letters;
mod page;

pub use axis::PlotAxis;
pub use page::drawing;

use super::drawing::Ink;

/// A point in the units of the axes.
pub type PlotPoint = (f64, f64);

/// A plot of one pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The axis below.
    pub x: PlotAxis,
    /// The axis on the left.
    pub y: PlotAxis,
    /// What is drawn, the first below.
    pub layers: Vec<PlotLayer>,
    /// Words beside points.
    pub labels: Vec<PlotLabel>,
}

/// What is drawn of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotLayer {
    /// Its line of the legend; none for what a label names.
    pub name: Option<String>,
    /// Its colour.
    pub ink: Ink,
    /// What is drawn.
    pub shape: PlotShape,
}

/// The kinds of what is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum PlotShape {
    /// A line through points.
    Line {
        /// The points.
        points: Vec<PlotPoint>,
        /// In pixels.
        width: f64,
        /// In dashes.
        dashed: bool,
    },
    /// What lies between two lines: each place on the axis below with the lower and the upper value.
    Area(Vec<(f64, f64, f64)>),
    /// Boxes: from and to on the axis below, then on the left one.
    Boxes(Vec<(f64, f64, f64, f64)>),
    /// A dot at each point; one beyond the axes is a triangle at the border.
    Dots {
        /// The points.
        points: Vec<PlotPoint>,
        /// Their inside.
        fill: Ink,
    },
}

/// Words beside a point.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotLabel {
    /// The point.
    pub at: PlotPoint,
    /// What they say.
    pub words: String,
    /// Their colour.
    pub ink: Ink,
}

/// Colours that differ in grey too and for those who see fewer of them (Okabe and Ito, "Color Universal Design", 2008).
pub const INKS: [Ink; 8] = [
    Ink(0x00, 0x72, 0xb2),
    Ink(0xe6, 0x9f, 0x00),
    Ink(0x00, 0x9e, 0x73),
    Ink(0xd5, 0x5e, 0x00),
    Ink(0x56, 0xb4, 0xe9),
    Ink(0xcc, 0x79, 0xa7),
    Ink(0xf0, 0xe4, 0x42),
    Ink(0x80, 0x80, 0x80),
];
/// Of words and axes.
pub const BLACK: Ink = Ink(0x22, 0x22, 0x22);
/// Of the page.
pub const WHITE: Ink = Ink(0xff, 0xff, 0xff);
/// Of what stands behind.
pub const GREY: Ink = Ink(0x80, 0x80, 0x80);
/// Of limits.
pub const LIMIT: Ink = Ink(0xc0, 0x39, 0x2b);

impl PlotLayer {
    /// A line with its name in the legend.
    #[must_use]
    pub fn line(name: impl Into<String>, ink: Ink, points: Vec<PlotPoint>) -> Self {
        Self { name: Some(name.into()), ink, shape: PlotShape::Line { points, width: 2.0, dashed: false } }
    }

    /// A dashed line without a name.
    #[must_use]
    pub const fn dashed(ink: Ink, points: Vec<PlotPoint>) -> Self {
        Self { name: None, ink, shape: PlotShape::Line { points, width: 1.2, dashed: true } }
    }

    /// Dots with their name in the legend.
    #[must_use]
    pub fn dots(name: Option<String>, ink: Ink, fill: Ink, points: Vec<PlotPoint>) -> Self {
        Self { name, ink, shape: PlotShape::Dots { points, fill } }
    }
}

#[cfg(test)]
pub(in crate::report) use tests::hold_words_apart;
#[cfg(test)]
mod tests;
