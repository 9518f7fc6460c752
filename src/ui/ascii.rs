//! `--ascii`: a drawn screen in characters that every font and serial line has.

use ratatui::buffer::Buffer;

/// Replaces every character outside ASCII by the one that looks most like it.
pub fn reduce(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        let symbol = cell.symbol();
        if !symbol.is_ascii() {
            let plain = symbol.chars().next().map_or(' ', plain);
            cell.set_char(plain);
        }
    }
}

fn plain(c: char) -> char {
    match c {
        '─' | '╌' | '–' | '—' => '-',
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
fn braille(c: char) -> char {
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
    use ratatui::layout::Rect;

    use super::*;

    #[test]
    fn nothing_but_ascii_is_left() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "╭█▒…⣀⠉⡇ 訓 é", ratatui::style::Style::new());
        reduce(&mut buffer);
        assert!(buffer.content.iter().all(|cell| cell.symbol().is_ascii()));
    }
}
