//! A drawing of lines, areas, dots and words, written as SVG, PNG or PDF from the one list of shapes.
//!
//! Of crates, plotters and kuva draw axes and series well, and charming through a JavaScript engine; none keeps labels
//! from each other's places and from the page's border, and each brings several times the code that is here.

mod font;
mod pdf;
mod png;
mod svg;

pub use font::width;
pub use png::DrawingError;

/// A place in pixels from the left and from the top.
pub type PixelPoint = (f64, f64);

/// A colour: red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(pub u8, pub u8, pub u8);

/// Which end of its words a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// They begin there.
    Start,
    /// Their middle is there.
    Middle,
    /// They end there.
    End,
}

/// One thing to draw.
#[derive(Debug, Clone, PartialEq)]
pub enum DrawnShape {
    /// A straight line.
    Line {
        /// From here.
        from: PixelPoint,
        /// To here.
        to: PixelPoint,
        /// In this colour.
        ink: Ink,
        /// So many pixels wide.
        width: f64,
        /// In dashes.
        dashed: bool,
    },
    /// A line through several points.
    Path {
        /// Through these.
        points: Vec<PixelPoint>,
        /// In this colour.
        ink: Ink,
        /// So many pixels wide.
        width: f64,
        /// In dashes.
        dashed: bool,
    },
    /// What lies between corners.
    Area {
        /// The corners.
        points: Vec<PixelPoint>,
        /// In this colour.
        fill: Ink,
    },
    /// A circle.
    Dot {
        /// Its middle.
        at: PixelPoint,
        /// Its radius in pixels.
        radius: f64,
        /// Its outline's colour.
        ink: Ink,
        /// Its inside's colour.
        fill: Ink,
    },
    /// Words on one line.
    Words {
        /// Their place on the line that letters stand on.
        at: PixelPoint,
        /// Which end of them is there.
        anchor: Anchor,
        /// Height of the letters in pixels.
        size: f64,
        /// In this colour.
        ink: Ink,
        /// What they say.
        words: String,
    },
}

/// Shapes on a white ground, the first below.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// Width and height in pixels.
    pub size: (f64, f64),
    /// What is drawn.
    pub shapes: Vec<DrawnShape>,
}

impl Drawing {
    /// It as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::svg(self)
    }

    /// It as PDF, a page of its size.
    ///
    /// # Errors
    /// Where the font cannot be read, or the page cannot be packed.
    pub fn pdf(&self) -> Result<Vec<u8>, DrawingError> {
        pdf::pdf(self)
    }

    /// It as PNG, two pixels for each of its own.
    ///
    /// # Errors
    /// Where the picture is larger than can be held, or cannot be packed.
    pub fn png(&self) -> Result<Vec<u8>, DrawingError> {
        png::png(self)
    }
}
