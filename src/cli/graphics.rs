//! Pictures on terminals that show them: by kitty's protocol, where the terminal says by its variables that it speaks it.

use std::io::IsTerminal;

use crate::report::drawing::Drawing;

/// Most characters of one chunk (kitty, "The terminal graphics protocol", "Remote client").
const CHUNK: usize = 4096;

/// The escapes that show a drawing here; none where the terminal does not say that it can, or tmux or screen lies between.
pub fn shown(drawing: &Drawing) -> Option<Vec<u8>> {
    let speaks = speaks_kitty(|name| std::env::var(name).ok());
    (speaks && std::io::stdout().is_terminal()).then(|| drawing.png().ok()).flatten().map(|png| kitty(&png))
}

/// kitty sets `KITTY_WINDOW_ID`, Ghostty and WezTerm `TERM_PROGRAM`.
fn speaks_kitty(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name: &str, words: &[&str]| variable(name).is_some_and(|value| words.contains(&value.as_str()));
    let between = variable("TMUX").is_some() || variable("STY").is_some();
    let said = variable("KITTY_WINDOW_ID").is_some()
        || is("TERM", &["xterm-kitty", "xterm-ghostty"])
        || is("TERM_PROGRAM", &["ghostty", "WezTerm"]);
    said && !between
}

/// A PNG in base64, in chunks, shown at the cursor.
fn kitty(png: &[u8]) -> Vec<u8> {
    let encoded = base64(png);
    let mut out = Vec::with_capacity(encoded.len() + encoded.len() / 64);
    let mut chunks = encoded.as_bytes().chunks(CHUNK).peekable();
    let mut first = true;
    while let Some(chunk) = chunks.next() {
        let more = u8::from(chunks.peek().is_some());
        let control = if first { format!("a=T,f=100,m={more}") } else { format!("m={more}") };
        out.extend(format!("\x1b_G{control};").into_bytes());
        out.extend(chunk);
        out.extend(b"\x1b\\");
        first = false;
    }
    out.push(b'\n');
    out
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_rfc() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn only_terminals_that_say_so_get_pictures() {
        let of = |pairs: &'static [(&'static str, &'static str)]| {
            speaks_kitty(move |name| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(of(&[("KITTY_WINDOW_ID", "1")]) && of(&[("TERM_PROGRAM", "ghostty")]));
        assert!(!of(&[("TERM", "xterm-256color")]) && !of(&[("KITTY_WINDOW_ID", "1"), ("TMUX", "x")]));
    }

    #[test]
    fn a_picture_is_sent_in_chunks_of_which_the_last_says_so() {
        let sent = String::from_utf8(kitty(&vec![0; 5000])).unwrap();
        assert!(sent.starts_with("\x1b_Ga=T,f=100,m=1;AAAA"), "{}", &sent[..30]);
        assert_eq!(sent.matches("\x1b_Gm=0;").count(), 1);
        assert!(sent.ends_with("\x1b\\\n"));
    }
}
