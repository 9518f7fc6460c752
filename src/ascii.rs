//! Text in characters that every font, locale and serial line has.

use std::borrow::Cow;

/// `text` with every character outside ASCII replaced by the one that looks most like it: columns stay where they are.
#[must_use]
pub fn reduced(text: &str) -> Cow<'_, str> {
    match text.is_ascii() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().map(|c| if c.is_ascii() { c } else { plain(c) }).collect()),
    }
}

/// The character of ASCII that looks most like one outside it.
#[must_use]
pub const fn plain(c: char) -> char {
    match c {
        '─' | '╌' | '–' | '—' | '━' => '-',
        '│' | '┊' | '▏' | '▕' | '┃' | '┤' => '|',
        '╭' | '╮' | '╰' | '╯' | '┌' | '┐' | '└' | '┘' | '┬' | '┴' => '+',
        '█' => '#',
        '▓' => '%',
        '▒' => '=',
        '░' => ':',
        '▪' => 'o',
        '▫' => 'k',
        '⋮' => ':',
        'Δ' => 'd',
        '∙' => ',',
        '·' => '.',
        '▁' | '▂' => '.',
        '▃' | '▄' => '-',
        '▅' => '=',
        '▆' | '▇' => '#',
        '▶' | '▸' | '›' => '>',
        '‹' | '◂' => '<',
        '▲' | '↑' => '^',
        '▼' | '↓' => 'v',
        '→' => '>',
        '←' => '<',
        '●' | '◉' => '@',
        '○' | '•' => 'o',
        '◆' => '*',
        '…' => '~',
        '≤' => '<',
        '°' => 'o',
        '±' => '~',
        '×' => 'x',
        '⏎' => '>',
        'µ' => 'u',
        '\u{2800}' => ' ',
        '\u{2801}'..='\u{28ff}' => braille(c),
        _ => '?',
    }
}

/// A braille cell by where its dots are: high, low or both.
const fn braille(c: char) -> char {
    let dots = c as u32 - 0x2800;
    let (high, low) = (dots & 0b0001_1011 != 0, dots & 0b1110_0100 != 0);
    match (high, low) {
        (true, true) => ':',
        (true, false) => '\'',
        _ => '.',
    }
}

#[cfg(test)]
mod tests {
    use super::reduced;

    #[test]
    fn a_text_keeps_its_columns() {
        assert_eq!(reduced("2 × 3.2 µs – ≤ 4"), "2 x 3.2 us - < 4");
        assert_eq!(reduced("plain"), "plain");
    }
}
