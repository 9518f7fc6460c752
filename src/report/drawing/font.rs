//! The letters of drawings: a font of the program's own, since a server often has none.

use ttf_parser::{Face, FaceParsingError, GlyphId};

/// DejaVu Sans, its Latin, Greek and Cyrillic letters.
const FONT: &[u8] = include_bytes!("../../../configs/fonts/DejaVuSans-subset.ttf");

/// The font, read.
///
/// # Errors
/// Where it is none.
pub fn face() -> Result<Face<'static>, FaceParsingError> {
    Face::parse(FONT, 0)
}

/// Pixels of the font's unit at a height of letters.
pub fn scale(face: &Face<'_>, size: f64) -> f64 {
    size / f64::from(face.units_per_em())
}

/// The signs of `words` with how far each moves the next one on, in the font's units. A letter that the font has not is
/// its empty box.
pub fn glyphs<'a>(face: &'a Face<'_>, words: &'a str) -> impl Iterator<Item = (GlyphId, f64)> + 'a {
    words.chars().map(|letter| {
        let glyph = face.glyph_index(letter).unwrap_or(GlyphId(0));
        (glyph, f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)))
    })
}

/// Pixels that `words` take at a height of letters: none if there is no font to measure with.
#[must_use]
pub fn width(words: &str, size: f64) -> f64 {
    face().map_or(0.0, |face| glyphs(&face, words).map(|(_, advance)| advance).sum::<f64>() * scale(&face, size))
}
