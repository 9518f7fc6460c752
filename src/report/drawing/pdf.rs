//! A drawing as PDF: one page of paths. Letters are drawn as outlines, so that no reader needs the font.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use ttf_parser::{Face, OutlineBuilder};

use super::font::{face, glyphs, scale};
use super::{Anchor, Drawing, DrawingError, DrawnShape, Ink, PixelPoint};
use crate::printable::printable;

/// The page in points, one for each of the drawing's pixels (ISO 32000-1, 7.7.3.3).
pub(super) fn pdf(drawing: &Drawing) -> Result<Vec<u8>, DrawingError> {
    let face = face()?;
    let (width, height) = drawing.size;
    // The page's own ordinates go up.
    let mut content = format!("1 0 0 -1 0 {height:.2} cm\n");
    for shape in &drawing.shapes {
        add(&mut content, shape, &face);
    }
    let packed = packed(content.as_bytes()).map_err(|error| DrawingError::Packing(error.to_string()))?;
    let mut file = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let stream = [
        format!("<< /Length {} /Filter /FlateDecode >>\nstream\n", packed.len()).into_bytes(),
        packed,
        b"\nendstream".to_vec(),
    ]
    .concat();
    let objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:.2} {height:.2}] /Resources << >> /Contents 4 0 R >>"
        )
        .into_bytes(),
        stream,
        b"<< /Producer (memwall) >>".to_vec(),
    ];
    let mut places = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        places.push(file.len());
        file.extend(format!("{} 0 obj\n", at + 1).into_bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let table = file.len();
    let mut end = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for place in &places {
        let _ = writeln!(end, "{place:010} 00000 n ");
    }
    let _ = write!(end, "trailer\n<< /Size {} /Root 1 0 R /Info 5 0 R >>\n", objects.len() + 1);
    let _ = write!(end, "startxref\n{table}\n%%EOF\n");
    file.extend(end.into_bytes());
    Ok(file)
}

fn packed(content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    packer.write_all(content)?;
    packer.finish()
}

fn add(content: &mut String, shape: &DrawnShape, face: &Face<'_>) {
    match shape {
        DrawnShape::Line { from, to, ink, width, dashed } => stroke(content, &[*from, *to], *ink, *width, *dashed),
        DrawnShape::Path { points, ink, width, dashed } => stroke(content, points, *ink, *width, *dashed),
        DrawnShape::Area { points, fill } => {
            let _ = writeln!(content, "{} rg", colour(*fill));
            corners(content, points);
            content.push_str("f\n");
        }
        DrawnShape::Dot { at, radius, ink, fill } => {
            let _ = writeln!(content, "{} rg {} RG 1 w [] 0 d", colour(*fill), colour(*ink));
            circle(content, *at, *radius);
            content.push_str("b\n");
        }
        DrawnShape::Words { at, anchor, size, ink, words } => {
            let _ = writeln!(content, "{} rg", colour(*ink));
            letters(content, face, &printable(words), (*at, *anchor), *size);
            content.push_str("f\n");
        }
    }
}

fn stroke(content: &mut String, points: &[PixelPoint], ink: Ink, width: f64, dashed: bool) {
    let dash = if dashed { "[3 4]" } else { "[]" };
    let _ = writeln!(content, "{} RG {width:.2} w 1 j {dash} 0 d", colour(ink));
    corners(content, points);
    content.push_str("S\n");
}

fn corners(content: &mut String, points: &[PixelPoint]) {
    for (at, (x, y)) in points.iter().enumerate() {
        let _ = writeln!(content, "{x:.2} {y:.2} {}", if at == 0 { "m" } else { "l" });
    }
}

/// Four Bézier curves (with the usual 4/3 (sqrt 2 - 1) of the radius).
fn circle(content: &mut String, (x, y): PixelPoint, radius: f64) {
    let bow = radius * 0.552_284_75;
    let _ = writeln!(content, "{:.2} {y:.2} m", x + radius);
    for [ax, ay, bx, by, cx, cy] in [
        [radius, bow, bow, radius, 0.0, radius],
        [-bow, radius, -radius, bow, -radius, 0.0],
        [-radius, -bow, -bow, -radius, 0.0, -radius],
        [bow, -radius, radius, -bow, radius, 0.0],
    ] {
        let _ =
            writeln!(content, "{:.2} {:.2} {:.2} {:.2} {:.2} {:.2} c", x + ax, y + ay, x + bx, y + by, x + cx, y + cy);
    }
}

fn letters(content: &mut String, face: &Face<'_>, words: &str, ((x, y), anchor): (PixelPoint, Anchor), size: f64) {
    let scale = scale(face, size);
    let whole: f64 = glyphs(face, words).map(|(_, advance)| advance * scale).sum();
    let before = match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => whole / 2.0,
        Anchor::End => whole,
    };
    let mut outline = Outline { content, origin: (x - before, y), scale, last: (0.0, 0.0) };
    for (glyph, advance) in glyphs(face, words) {
        face.outline_glyph(glyph, &mut outline);
        outline.origin.0 += advance * scale;
    }
}

/// A path out of outlines in the font's units, whose ordinates go up.
struct Outline<'a> {
    content: &'a mut String,
    origin: PixelPoint,
    scale: f64,
    last: PixelPoint,
}

impl Outline<'_> {
    fn place(&self, x: f32, y: f32) -> PixelPoint {
        (f64::from(x).mul_add(self.scale, self.origin.0), self.origin.1 - f64::from(y) * self.scale)
    }

    fn curve(&mut self, first: PixelPoint, second: PixelPoint, to: PixelPoint) {
        let [(ax, ay), (bx, by), (x, y)] = [first, second, to];
        let _ = writeln!(self.content, "{ax:.2} {ay:.2} {bx:.2} {by:.2} {x:.2} {y:.2} c");
        self.last = to;
    }
}

impl OutlineBuilder for Outline<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        self.last = self.place(x, y);
        let _ = writeln!(self.content, "{:.2} {:.2} m", self.last.0, self.last.1);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.last = self.place(x, y);
        let _ = writeln!(self.content, "{:.2} {:.2} l", self.last.0, self.last.1);
    }

    /// A curve with one control point is one with two, each two thirds of the way to it.
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (control, to, from) = (self.place(x1, y1), self.place(x, y), self.last);
        let towards =
            |from: PixelPoint| (from.0 + 2.0 / 3.0 * (control.0 - from.0), from.1 + 2.0 / 3.0 * (control.1 - from.1));
        self.curve(towards(from), towards(to), to);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (first, second, to) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.curve(first, second, to);
    }

    fn close(&mut self) {
        self.content.push_str("h\n");
    }
}

fn colour(Ink(red, green, blue): Ink) -> String {
    let share = |value: u8| f64::from(value) / 255.0;
    format!("{:.3} {:.3} {:.3}", share(red), share(green), share(blue))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// The file's own table says where its objects are, and the page's stream unpacks to its operators.
    #[test]
    fn a_reader_finds_every_object_and_the_page() {
        let ink = Ink(255, 0, 0);
        let shapes = vec![
            DrawnShape::Line { from: (1.0, 2.0), to: (3.0, 4.0), ink, width: 2.0, dashed: true },
            DrawnShape::Words { at: (9.0, 9.0), anchor: Anchor::End, size: 12.0, ink, words: "GiB".to_owned() },
        ];
        let file = pdf(&Drawing { size: (100.0, 40.0), shapes }).unwrap();
        let text = String::from_utf8_lossy(&file);
        assert!(text.starts_with("%PDF-1.4") && text.ends_with("%%EOF\n"));
        assert!(text.contains("/MediaBox [0 0 100.00 40.00]"));
        let find =
            |from: usize, what: &[u8]| from + file[from..].windows(what.len()).position(|at| at == what).unwrap();
        let table = find(0, b"xref\n");
        let rows: Vec<&[u8]> = file[table..].split(|byte| *byte == b'\n').skip(3).take(5).collect();
        for (at, row) in rows.iter().enumerate() {
            let place: usize = std::str::from_utf8(&row[..10]).unwrap().parse().unwrap();
            assert!(file[place..].starts_with(format!("{} 0 obj", at + 1).as_bytes()), "{at}");
        }
        let start = find(0, b"stream\n") + 7;
        let mut content = String::new();
        flate2::read::ZlibDecoder::new(&file[start..]).read_to_string(&mut content).unwrap();
        assert!(
            content.contains("1.000 0.000 0.000 RG 2.00 w 1 j [3 4] 0 d\n1.00 2.00 m\n3.00 4.00 l\nS\n"),
            "{content}"
        );
    }
}
