//! Keys and the mouse, as terminals name them.

use super::TerminalInput;
use crate::app::KeyPress;
use crate::ui::Pointer;

/// The key of a control byte.
pub fn plain_key(byte: u8) -> Option<KeyPress> {
    Some(match byte {
        b'\r' => KeyPress::Enter,
        b'\t' => KeyPress::Tab,
        0x08 | 0x7f => KeyPress::Backspace,
        0 => KeyPress::Ctrl(' '),
        1..=0x1a => KeyPress::Ctrl(char::from(byte - 1 + b'a')),
        0x1c..=0x1f => KeyPress::Ctrl(char::from(byte - 0x1c + b'4')),
        _ => return None,
    })
}

/// The key after `ESC O`.
pub fn key_of_ss3(byte: u8) -> Option<KeyPress> {
    match byte {
        b'M' => Some(KeyPress::Enter),
        b'P'..=b'S' => Some(KeyPress::Function(byte - b'P' + 1)),
        _ => cursor_key(byte, false),
    }
}

fn cursor_key(byte: u8, control: bool) -> Option<KeyPress> {
    Some(match byte {
        b'A' if control => KeyPress::CtrlUp,
        b'B' if control => KeyPress::CtrlDown,
        b'C' if control => KeyPress::WordRight,
        b'D' if control => KeyPress::WordLeft,
        b'A' => KeyPress::Up,
        b'B' => KeyPress::Down,
        b'C' => KeyPress::Right,
        b'D' => KeyPress::Left,
        b'F' => KeyPress::End,
        b'H' => KeyPress::Home,
        _ => return None,
    })
}

/// The key of a control sequence; none where it is an answer, or a key without a use.
pub fn key_of_csi(parameters: &str, end: u8) -> Option<KeyPress> {
    let mut numbers = parameters.split(';');
    let first = numbers.next().unwrap_or_default().split(':').next().unwrap_or_default();
    let (modifiers, kind) = numbers.next().map_or(("", ""), |held| held.split_once(':').unwrap_or((held, "")));
    let held = modifiers.parse::<u8>().unwrap_or(1).saturating_sub(1);
    let (alt, control) = (held & 2 != 0, held & 4 != 0);
    // The release of a key, in kitty's protocol.
    if kind == "3" || !first.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match (end, first) {
        (b'Z', _) => Some(KeyPress::BackTab),
        (b'A'..=b'H', _) => cursor_key(end, control),
        (b'~', "1" | "7") => Some(KeyPress::Home),
        (b'~', "4" | "8") => Some(KeyPress::End),
        // F1 to F4 with something held: `CSI 1;2P`. `CSI 1;2R` is the answer where the cursor stands.
        (b'P' | b'Q' | b'S', _) => Some(KeyPress::Function(end - b'P' + 1)),
        (b'~', number) if function(number).is_some() => function(number),
        (b'~', "3") => Some(KeyPress::Delete),
        (b'~', "5") => Some(KeyPress::PageUp),
        (b'~', "6") => Some(KeyPress::PageDown),
        (b'u', code) if !alt => coded(code, control),
        _ => None,
    }
}

/// A function key by its number in a control sequence.
fn function(number: &str) -> Option<KeyPress> {
    const NUMBERS: [&str; 12] = ["11", "12", "13", "14", "15", "17", "18", "19", "20", "21", "23", "24"];
    let at = NUMBERS.iter().position(|known| *known == number)?;
    u8::try_from(at + 1).ok().map(KeyPress::Function)
}

/// A key by its character's number.
fn coded(code: &str, control: bool) -> Option<KeyPress> {
    let code: u32 = code.parse().ok()?;
    match u8::try_from(code) {
        Ok(27) => Some(KeyPress::Esc),
        Ok(byte) if byte < 0x20 || byte == 0x7f => plain_key(byte),
        _ => {
            let character = char::from_u32(code)?;
            let character =
                if control { KeyPress::Ctrl(character.to_ascii_lowercase()) } else { KeyPress::Char(character) };
            Some(character)
        }
    }
}

/// Where the mouse was used, and rows down for the wheel: button with what was held, column and row from 1.
pub fn pointer([button, column, row]: [u16; 3], pressed: bool) -> Option<TerminalInput> {
    const HELD: u16 = 4 | 8 | 16;
    let rows = match button & !HELD {
        0 if pressed => None,
        64 => Some(-1),
        65 => Some(1),
        _ => return None,
    };
    Some(TerminalInput::Pointer(Pointer { column: column.saturating_sub(1), row: row.saturating_sub(1), rows }))
}
