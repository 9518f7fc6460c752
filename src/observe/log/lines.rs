//! From bytes to clean lines: progress bars write over themselves with carriage returns,
//! colours come as escape sequences, and anything at all may lie between.

/// Longer lines are cut: no framework writes such, and memory has a bound.
const LONGEST: usize = 16 * 1024;

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub struct LineSplitter {
    /// What has come of the line that is not ended.
    pending: Vec<u8>,
    /// The beginning of the line is missing: it is passed over.
    headless: bool,
}

impl LineSplitter {
    /// A stream that begins somewhere within a line.
    pub fn headless() -> Self {
        Self { pending: Vec::new(), headless: true }
    }

    /// Takes in `bytes` and gives every line that they end, escape sequences left out.
    pub fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for byte in bytes {
            // A bar that is drawn again begins with a carriage return; NUL bytes are what
            // truncating a file that is open for writing leaves.
            if matches!(byte, b'\n' | b'\r') {
                if !std::mem::take(&mut self.headless) {
                    emit(&self.pending, &mut line);
                }
                self.pending.clear();
            } else if *byte != 0 && self.pending.len() < LONGEST {
                self.pending.push(*byte);
            }
        }
    }

    /// What has come of the last line. A bar's newest state has no end before it is drawn again.
    pub fn unfinished(&self, mut line: impl FnMut(&str)) {
        if !self.headless {
            emit(&self.pending, &mut line);
        }
    }
}

fn emit(bytes: &[u8], line: &mut impl FnMut(&str)) {
    if bytes.is_empty() || is_binary(bytes) {
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\u{1b}') { line(&without_escapes(&text)) } else { line(&text) }
}

/// Text has few control characters: a line of which one in eight bytes is one is none.
fn is_binary(bytes: &[u8]) -> bool {
    let control = bytes.iter().filter(|byte| **byte < 0x20 && !matches!(byte, b'\t' | 0x1b | 0x08)).count();
    control * 8 > bytes.len()
}

/// `text` without the escape sequences of ECMA-48: CSI (`ESC [ … final`), OSC (`ESC ] … BEL`
/// or `ESC \`), and two-character ones.
fn without_escapes(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            clean.push(c);
            continue;
        }
        match chars.next() {
            Some('[') => {
                // Parameters and intermediates are below `@`, the final character is not.
                chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
            Some(']') => {
                let mut before = ' ';
                for c in chars.by_ref() {
                    if c == '\u{7}' || (before == '\u{1b}' && c == '\\') {
                        break;
                    }
                    before = c;
                }
            }
            _ => {}
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<String> {
        let mut seen = Vec::new();
        let mut lines = LineSplitter::default();
        for part in parts {
            lines.push(part, |line| seen.push(line.to_owned()));
        }
        lines.unfinished(|line| seen.push(line.to_owned()));
        seen
    }

    #[test]
    fn a_bar_is_a_line_each_time_it_is_drawn() {
        assert_eq!(
            lines(&[b" 0%|  | 0/9\r 11%|# |", b" 1/9\r 22%|##| 2/9"]),
            [" 0%|  | 0/9", " 11%|# | 1/9", " 22%|##| 2/9"]
        );
    }

    #[test]
    fn colours_and_titles_are_left_out() {
        assert_eq!(
            lines(&[b"\x1b[31mstep:  1\x1b[39m  \x1b[32mloss: 12.27\x1b[0m\x1b]0;title\x07!\n"]),
            ["step:  1  loss: 12.27!"]
        );
    }

    #[test]
    fn what_is_no_text_is_passed_over_and_what_is_not_utf8_is_kept_readable() {
        assert_eq!(lines(&[b"\x01\x02\x03\xff\x04\x05\n", b"caf\xe9 loss: 1\n"]), ["caf\u{fffd} loss: 1"]);
        assert_eq!(lines(&[b"\0\0\0\0iter 1\n"]), ["iter 1"]);
        assert_eq!(lines(&[&[b'x'; 100_000], b"\nnext\n"])[0].len(), LONGEST);
    }

    #[test]
    fn a_line_without_its_beginning_is_passed_over() {
        let mut seen = Vec::new();
        LineSplitter::headless().push(b"1000: loss 3\niter 1001: loss 2\n", |line| seen.push(line.to_owned()));
        assert_eq!(seen, ["iter 1001: loss 2"]);
    }
}
