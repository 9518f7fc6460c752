//! A drawing as PNG.

use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};
use ttf_parser::{Face, OutlineBuilder};

use super::font::{face, glyphs, scale};
use super::{Anchor, Drawing, DrawnShape, Ink, PixelPoint};
use crate::printable::printable;

/// Pixels of the picture for each of the drawing's.
const DENSITY: f64 = 2.0;

/// Why a picture could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DrawingError {
    /// The font cannot be read.
    #[error("the chart's font cannot be read: {0}")]
    Font(#[from] ttf_parser::FaceParsingError),
    /// No picture has that many pixels.
    #[error("no picture is {0:.0} by {1:.0} pixels")]
    Size(f64, f64),
    /// It cannot be packed.
    #[error("the picture cannot be packed: {0}")]
    Packing(String),
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn png(drawing: &Drawing) -> Result<Vec<u8>, DrawingError> {
    let (width, height) = drawing.size;
    let face = face()?;
    let blank = Pixmap::new((width * DENSITY) as u32, (height * DENSITY) as u32);
    let mut canvas = Canvas { picture: blank.ok_or(DrawingError::Size(width, height))?, face };
    canvas.picture.fill(Color::WHITE);
    for shape in &drawing.shapes {
        canvas.add(shape);
    }
    canvas.picture.encode_png().map_err(|error| DrawingError::Packing(error.to_string()))
}

struct Canvas {
    picture: Pixmap,
    face: Face<'static>,
}

impl Canvas {
    fn add(&mut self, shape: &DrawnShape) {
        match shape {
            DrawnShape::Line { from, to, ink, width, dashed } => {
                self.stroke(corners(&[*from, *to]).finish(), *ink, *width, *dashed);
            }
            DrawnShape::Path { points, ink, width, dashed } => {
                self.stroke(corners(points).finish(), *ink, *width, *dashed);
            }
            DrawnShape::Area { points, fill } => {
                let mut path = corners(points);
                path.close();
                self.fill(path.finish(), *fill);
            }
            DrawnShape::Dot { at, radius, ink, fill } => {
                let circle = PathBuilder::from_circle(single(at.0), single(at.1), single(*radius));
                self.fill(circle.clone(), *fill);
                self.stroke(circle, *ink, 1.0, false);
            }
            DrawnShape::Words { at, anchor, size, ink, words } => {
                let outline = self.words(&printable(words), *at, *anchor, *size);
                self.fill(outline, *ink);
            }
        }
    }

    /// The outline of words.
    fn words(&self, words: &str, (x, y): PixelPoint, anchor: Anchor, size: f64) -> Option<Path> {
        let scale = scale(&self.face, size);
        let whole: f64 = glyphs(&self.face, words).map(|(_, advance)| advance * scale).sum();
        let before = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => whole / 2.0,
            Anchor::End => whole,
        };
        let mut outline = Outline::at((x - before, y), scale);
        for (glyph, advance) in glyphs(&self.face, words) {
            self.face.outline_glyph(glyph, &mut outline);
            outline.origin.0 += advance * scale;
        }
        outline.path.finish()
    }

    fn fill(&mut self, path: Option<Path>, ink: Ink) {
        if let Some(path) = path {
            self.picture.fill_path(&path, &paint(ink), FillRule::Winding, density(), None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, ink: Ink, width: f64, dashed: bool) {
        let dash = if dashed { StrokeDash::new(vec![3.0, 4.0], 0.0) } else { None };
        let stroke = Stroke { width: single(width), dash, ..Stroke::default() };
        if let Some(path) = path {
            self.picture.stroke_path(&path, &paint(ink), &stroke, density(), None);
        }
    }
}

/// A path through points.
fn corners(points: &[PixelPoint]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (at, (x, y)) in points.iter().enumerate() {
        if at == 0 {
            path.move_to(single(*x), single(*y));
        } else {
            path.line_to(single(*x), single(*y));
        }
    }
    path
}

fn paint(Ink(red, green, blue): Ink) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, u8::MAX);
    paint
}

fn density() -> Transform {
    Transform::from_scale(single(DENSITY), single(DENSITY))
}

/// Pixels as the rasteriser counts them.
#[allow(clippy::cast_possible_truncation)]
const fn single(pixels: f64) -> f32 {
    pixels as f32
}

/// A path in pixels, out of outlines in the font's units, whose ordinates go up.
struct Outline {
    path: PathBuilder,
    origin: PixelPoint,
    scale: f64,
}

impl Outline {
    fn at(origin: PixelPoint, scale: f64) -> Self {
        Self { path: PathBuilder::new(), origin, scale }
    }

    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        let (left, foot) = self.origin;
        (single(f64::from(x).mul_add(self.scale, left)), single(foot - f64::from(y) * self.scale))
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: Ink = Ink(0, 0, 0);
    const RED: Ink = Ink(255, 0, 0);

    fn picture(shapes: Vec<DrawnShape>) -> Pixmap {
        Pixmap::decode_png(&Drawing { size: (100.0, 40.0), shapes }.png().unwrap()).unwrap()
    }

    /// Columns of the drawing in which anything is drawn.
    fn inked(picture: &Pixmap) -> Vec<u32> {
        let dark = |x| (0..picture.height()).any(|y| picture.pixel(x, y).unwrap().green() < 128);
        (0..picture.width()).filter(|x| dark(*x)).map(|x| x / 2).collect()
    }

    #[test]
    fn shapes_lie_where_they_are_said_to_in_their_colour() {
        let line = DrawnShape::Line { from: (10.0, 20.0), to: (60.0, 20.0), ink: RED, width: 2.0, dashed: false };
        let drawn = picture(vec![line]);
        assert_eq!((drawn.width(), drawn.height()), (200, 80));
        let pixel = drawn.pixel(80, 40).unwrap();
        assert_eq!((pixel.red(), pixel.green(), pixel.blue()), (255, 0, 0));
        let columns = inked(&drawn);
        assert_eq!((columns.first(), columns.last()), (Some(&10), Some(&59)));
    }

    #[test]
    fn words_are_drawn_without_fonts_of_the_system_and_end_where_they_shall() {
        let words =
            |anchor| DrawnShape::Words { at: (50.0, 30.0), anchor, size: 12.0, ink: BLACK, words: "TFLOP/s".into() };
        let long = super::super::width("TFLOP/s", 12.0);
        // Seven letters of about half their height.
        assert!(long > 35.0 && long < 60.0, "{long}");
        for (anchor, left) in [(Anchor::Start, 50.0), (Anchor::Middle, 50.0 - long / 2.0), (Anchor::End, 50.0 - long)] {
            let columns = inked(&picture(vec![words(anchor)]));
            let (first, last) = (f64::from(columns[0]), f64::from(columns[columns.len() - 1]));
            assert!((first - left).abs() < 3.0 && (last - left - long).abs() < 3.0, "{anchor:?}: {first} to {last}");
        }
    }
}
