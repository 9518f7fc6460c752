//! Takes apart what a terminal sends: keys, pastes, the mouse, and answers to questions, which are no keys however late
//! and in however many pieces they come. Sequences by xterm's `ctlseqs`.

use std::time::Duration;

use super::TerminalInput;
use super::keys::{key_of_csi, key_of_ss3, plain_key, pointer};
use crate::app::KeyPress;
use crate::plan::MAX_BYTES;

const ESC: u8 = 0x1b;

/// Escape alone is the key when nothing follows for so long.
const ALONE: Duration = Duration::from_millis(60);

/// A sequence, an answer or a paste has broken off when nothing follows for so long.
const BROKEN_OFF: Duration = Duration::from_secs(5);

/// Longer than any sequence that is no string.
const LONGEST: usize = 128;

/// The sequence that ends a paste.
const PASTED: &[u8] = b"\x1b[201~";

/// Bytes in, keys out.
#[derive(Debug, Default)]
pub struct InputDecoder {
    /// Begun and not whole.
    pending: Vec<u8>,
    inside: DecoderState,
    /// What came last was taken for the key Escape: it may have been the first byte of a sequence.
    escaped: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum DecoderState {
    #[default]
    Nothing,
    /// An answer in words (OSC, DCS, APC): until its end.
    Answer,
    /// A paste: what has come of it.
    Paste(Vec<u8>),
}

/// What stands at the beginning of bytes.
enum Part {
    /// So many bytes; what they are for the dashboard, if anything.
    Whole(usize, Option<TerminalInput>),
    /// So many bytes begin an answer in words.
    AnswerBegins(usize),
    /// So many bytes begin a paste.
    PasteBegins(usize),
    /// More has to come.
    Begun,
}

impl InputDecoder {
    /// What these bytes are, with those before them.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<TerminalInput> {
        if std::mem::take(&mut self.escaped) && continues_a_sequence(bytes) {
            self.pending.push(ESC);
        }
        self.pending.extend_from_slice(bytes);
        let mut inputs = Vec::new();
        while !self.pending.is_empty() {
            let used = match &mut self.inside {
                DecoderState::Nothing => self.take_plain(&mut inputs),
                DecoderState::Answer => self.take_answer(),
                DecoderState::Paste(_) => self.take_paste(&mut inputs),
            };
            match used {
                Some(used) => drop(self.pending.drain(..used)),
                None => break,
            }
        }
        inputs
    }

    /// How long to wait for what follows; none where nothing has begun.
    pub fn patience(&self) -> Option<Duration> {
        match (&self.inside, self.pending.as_slice()) {
            (DecoderState::Nothing, []) => None,
            (DecoderState::Nothing, [ESC]) => Some(ALONE),
            _ => Some(BROKEN_OFF),
        }
    }

    /// Nothing has followed.
    pub fn give_up(&mut self) -> Vec<TerminalInput> {
        let alone = self.inside == DecoderState::Nothing && self.pending == [ESC];
        self.pending.clear();
        self.escaped = alone;
        match std::mem::take(&mut self.inside) {
            DecoderState::Paste(text) => vec![TerminalInput::Paste(lossy(text))],
            _ if alone => vec![TerminalInput::Key(KeyPress::Esc)],
            _ => Vec::new(),
        }
    }

    fn take_plain(&mut self, inputs: &mut Vec<TerminalInput>) -> Option<usize> {
        match part(&self.pending) {
            Part::Whole(used, input) => {
                inputs.extend(input);
                Some(used)
            }
            Part::AnswerBegins(used) => {
                self.inside = DecoderState::Answer;
                Some(used)
            }
            Part::PasteBegins(used) => {
                self.inside = DecoderState::Paste(Vec::new());
                Some(used)
            }
            Part::Begun => None,
        }
    }

    /// Up to BEL, ST, or what breaks a string off.
    fn take_answer(&mut self) -> Option<usize> {
        let end = self.pending.iter().position(|byte| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b));
        let Some(end) = end else { return Some(self.pending.len()) };
        let used = match (self.pending[end], self.pending.get(end + 1)) {
            (ESC, None) if end == 0 => return None,
            // Kept until it is known what it is.
            (ESC, None) => return Some(end),
            (ESC, Some(b'\\')) => end + 2,
            // Another sequence: this one was broken off.
            (ESC, Some(_)) => end,
            _ => end + 1,
        };
        self.inside = DecoderState::Nothing;
        Some(used)
    }

    fn take_paste(&mut self, inputs: &mut Vec<TerminalInput>) -> Option<usize> {
        let DecoderState::Paste(text) = &mut self.inside else { return None };
        let end = self.pending.windows(PASTED.len()).position(|window| window == PASTED);
        let begun = || {
            let shorter = (1..PASTED.len()).rev();
            shorter.into_iter().find(|length| self.pending.ends_with(&PASTED[..*length])).unwrap_or(0)
        };
        let here = end.unwrap_or_else(|| self.pending.len() - begun());
        let room = MAX_BYTES.saturating_sub(text.len());
        text.extend_from_slice(&self.pending[..here.min(room)]);
        if end.is_none() {
            return (here > 0).then_some(here);
        }
        inputs.push(TerminalInput::Paste(lossy(std::mem::take(text))));
        self.inside = DecoderState::Nothing;
        Some(here + PASTED.len())
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Whether bytes that came after Escape on its own are a sequence without its first byte, and not typed by hand: those
/// come one at a time.
fn continues_a_sequence(bytes: &[u8]) -> bool {
    match bytes {
        [b'[', next, ..] => matches!(next, b'?' | b'>' | b'<' | b'=' | b'0'..=b'9' | b'A'..=b'Z'),
        [b']', next, _, ..] => next.is_ascii_digit(),
        [b'P', next, _, ..] => begins_dcs(*next),
        [b'O', b'A'..=b'S'] | [b'\\', b'\x1b', ..] | [b'_', b'G', ..] => true,
        _ => false,
    }
}

fn begins_dcs(byte: u8) -> bool {
    matches!(byte, b'>' | b'!' | b'$' | b'+' | b'0'..=b'9')
}

fn part(bytes: &[u8]) -> Part {
    match bytes {
        [ESC] | [ESC, b'[' | b'O' | b']' | b'P' | b'_'] => Part::Begun,
        [ESC, b'[', ..] => csi(bytes),
        [ESC, b'O', key, ..] => Part::Whole(3, key_of_ss3(*key).map(TerminalInput::Key)),
        [ESC, b']', next, ..] if next.is_ascii_digit() => Part::AnswerBegins(3),
        [ESC, b'P', next, ..] if begins_dcs(*next) => Part::AnswerBegins(3),
        [ESC, b'_', b'G', ..] => Part::AnswerBegins(3),
        // Escape, and then a key that no Alt goes with.
        [ESC, 0..=0x1f | 0x7f, ..] => Part::Whole(1, Some(TerminalInput::Key(KeyPress::Esc))),
        // Alt and a character.
        [ESC, rest @ ..] => match character(rest) {
            // What begins a sequence is none of a person's.
            Some((length, Some('[' | ']' | 'O' | 'P' | 'X' | '^' | '_'))) => Part::Whole(1 + length, None),
            Some((length, letter)) => {
                Part::Whole(1 + length, letter.map(|letter| TerminalInput::Key(KeyPress::Alt(letter))))
            }
            None => Part::Begun,
        },
        [0..=0x1f | 0x7f, ..] => Part::Whole(1, plain_key(bytes[0]).map(TerminalInput::Key)),
        _ => match character(bytes) {
            Some((length, character)) => Part::Whole(length, character.map(|c| TerminalInput::Key(KeyPress::Char(c)))),
            None => Part::Begun,
        },
    }
}

/// The character at the beginning and its length; no character where these bytes are none; none where more has to come.
fn character(bytes: &[u8]) -> Option<(usize, Option<char>)> {
    let length = match bytes.first()? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let there = &bytes[..length.min(bytes.len())];
    match std::str::from_utf8(there) {
        Ok(text) => Some((length, text.chars().next())),
        Err(error) if error.error_len().is_none() && there.len() < length => None,
        Err(_) => Some((1, None)),
    }
}

/// A control sequence: parameters, then a letter or one of its like.
fn csi(bytes: &[u8]) -> Part {
    // A function key of Linux's console, and an old terminal's mouse.
    if let [_, _, b'[', rest @ ..] = bytes {
        return match rest {
            [] => Part::Begun,
            [key @ b'A'..=b'E', ..] => Part::Whole(4, Some(TerminalInput::Key(KeyPress::Function(key - b'A' + 1)))),
            _ => Part::Whole(4, None),
        };
    }
    if let [_, _, b'M', rest @ ..] = bytes {
        return match rest {
            [button, column, row, ..] => {
                Part::Whole(6, pointer([*button, *column, *row].map(|byte| u16::from(byte.saturating_sub(32))), true))
            }
            _ => Part::Begun,
        };
    }
    let Some(length) = bytes[2..].iter().position(|byte| !(0x20..=0x3f).contains(byte)) else {
        return if bytes.len() > LONGEST { Part::Whole(bytes.len(), None) } else { Part::Begun };
    };
    let (parameters, end) = (&bytes[2..2 + length], bytes[2 + length]);
    if !(0x40..=0x7e).contains(&end) {
        // Broken off by what is no part of it.
        return Part::Whole(2 + length, None);
    }
    let used = 3 + length;
    let parameters = std::str::from_utf8(parameters).unwrap_or_default();
    match (parameters, end) {
        ("200", b'~') => Part::PasteBegins(used),
        ("0" | "3", b'n') => Part::Whole(used, Some(TerminalInput::Answer)),
        (_, b'm' | b'M') => {
            let (numbers, sgr) = (parameters.trim_start_matches('<'), parameters.starts_with('<'));
            let mut numbers = numbers.split(';').map(|number| number.parse().unwrap_or(0_u16));
            let mut next = || numbers.next().unwrap_or(0);
            let [button, column, row] = [next(), next(), next()];
            let button = if sgr { button } else { button.saturating_sub(32) };
            Part::Whole(used, pointer([button, column, row], end == b'M'))
        }
        _ => Part::Whole(used, key_of_csi(parameters, end).map(TerminalInput::Key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Pointer;

    fn keys(keys: &str) -> Vec<TerminalInput> {
        keys.chars().map(|key| TerminalInput::Key(KeyPress::Char(key))).collect()
    }

    /// Answers as terminals give them: xterm's ctlseqs, "Device Status Report", "Operating System Commands",
    /// "XTVERSION", "DECRQM", "FocusIn/FocusOut"; kitty's graphics and keyboard protocols.
    const ANSWERS: [&str; 12] = [
        "\x1b]10;rgb:0000/0000/0000\x1b\\",
        "\x1b]11;rgb:1e1e/1e1e/2e2e\x07",
        "\x1b]52;c;cXVpdCBxcXFxcXFx\x1b\\",
        "\x1bP>|XTerm(390)\x1b\\",
        "\x1bP1$r0m\x1b\\",
        "\x1b[>41;390;0c",
        "\x1b[?62;22;52c",
        "\x1b[?2026;2$y",
        "\x1b[I",
        "\x1b[O",
        "\x1b[24;80R",
        "\x1b_Gi=31;OK\x1b\\",
    ];

    #[test]
    fn answers_are_no_keys_in_whatever_pieces_they_come() {
        for answer in ANSWERS {
            for cut in 0..=answer.len() {
                let mut decoder = InputDecoder::default();
                let (first, second) = answer.as_bytes().split_at(cut);
                let mut got = decoder.take(first);
                got.extend(decoder.take(second));
                got.extend(decoder.take(b"x"));
                assert_eq!(got, keys("x"), "{answer:?} cut at {cut}");
            }
            let mut decoder = InputDecoder::default();
            let got: Vec<TerminalInput> = answer.bytes().flat_map(|byte| decoder.take(&[byte])).collect();
            assert_eq!((got, decoder.patience()), (Vec::new(), None), "{answer:?}");
        }
    }

    #[test]
    fn an_answer_whose_first_byte_was_taken_for_escape_is_no_key_either() {
        for answer in ANSWERS {
            let mut decoder = InputDecoder::default();
            assert_eq!(decoder.take(b"\x1b"), []);
            assert_eq!(decoder.give_up(), [TerminalInput::Key(KeyPress::Esc)]);
            let rest = &answer.as_bytes()[1..];
            assert_eq!(decoder.take(rest), [], "{answer:?}");
            assert_eq!(decoder.take(b"q"), keys("q"), "{answer:?}");
        }
    }

    #[test]
    fn keys_are_keys() {
        use KeyPress::{
            BackTab, Backspace, Char, Ctrl, Delete, Down, End, Enter, Esc, Home, PageUp, Tab, Up, WordLeft,
        };
        let cases: [(&str, &[KeyPress]); 18] = [
            ("q\u{e9}\u{1f600}", &[Char('q'), Char('é'), Char('😀')]),
            ("\x03\x13", &[Ctrl('c'), Ctrl('s')]),
            ("\r\t\x7f", &[Enter, Tab, Backspace]),
            ("\x1b[A\x1bOB", &[Up, Down]),
            ("\x1b[H\x1b[1~\x1b[7~", &[Home, Home, Home]),
            ("\x1b[4~\x1b[8~\x1bOF", &[End, End, End]),
            ("\x1b[3~\x1b[5~\x1b[Z", &[Delete, PageUp, BackTab]),
            ("\x1b[1;5D", &[WordLeft]),
            // Shift leaves a cursor key as it is.
            ("\x1b[1;2A", &[Up]),
            ("\x1bx", &[KeyPress::Alt('x')]),
            ("\x1b]x", &[Char('x')]),
            ("\x1b\x1b[A", &[Esc, Up]),
            ("\x1b\r", &[Esc, Enter]),
            // F1 to F12 and a console's F1.
            ("\x1bOP\x1b[15~\x1b[24~\x1b[[A", &[1, 5, 12, 1].map(KeyPress::Function)),
            ("\x1b[1;5A\x1b[1;5B", &[KeyPress::CtrlUp, KeyPress::CtrlDown]),
            // CSI u (fixterms): control and s; a; the release of a key in kitty's protocol.
            ("\x1b[115;5u\x1b[97u\x1b[97;1:3u", &[Ctrl('s'), Char('a')]),
            ("\u{fffd}", &[Char('\u{fffd}')]),
            ("\x1b[\x03", &[Ctrl('c')]),
        ];
        for (sent, pressed) in cases {
            let expected: Vec<TerminalInput> = pressed.iter().copied().map(TerminalInput::Key).collect();
            assert_eq!(InputDecoder::default().take(sent.as_bytes()), expected, "{sent:?}");
            let mut decoder = InputDecoder::default();
            let single: Vec<TerminalInput> = sent.bytes().flat_map(|byte| decoder.take(&[byte])).collect();
            assert_eq!(single, expected, "{sent:?} byte by byte");
        }
    }

    #[test]
    fn pastes_and_the_mouse() {
        let mut decoder = InputDecoder::default();
        let sent = "a\x1b[200~q: \x1b[A\n\x1b]11;é\x1b[201~b";
        let expected = [keys("a"), vec![TerminalInput::Paste("q: \x1b[A\n\x1b]11;é".to_owned())], keys("b")].concat();
        assert_eq!(decoder.take(sent.as_bytes()), expected);
        let single: Vec<TerminalInput> = sent.bytes().flat_map(|byte| decoder.take(&[byte])).collect();
        assert_eq!(single, expected);
        let at = |rows| vec![TerminalInput::Pointer(Pointer { column: 4, row: 9, rows })];
        // SGR, urxvt's and X10's words for column 5, row 10.
        assert_eq!(decoder.take(b"\x1b[<0;5;10M\x1b[<0;5;10m"), at(None));
        assert_eq!(decoder.take(b"\x1b[<64;5;10M"), at(Some(-1)));
        assert_eq!(decoder.take(b"\x1b[97;5;10M"), at(Some(1)));
        assert_eq!(decoder.take(b"\x1b[M\x20\x25\x2a"), at(None));
    }

    #[test]
    fn what_breaks_off_costs_no_later_key() {
        for begun in ["\x1b[12", "\x1b]11;rgb", "\x1bP>|X", "\u{1f600}"] {
            let mut decoder = InputDecoder::default();
            assert_eq!(decoder.take(&begun.as_bytes()[..3]), []);
            assert_eq!(decoder.patience(), Some(BROKEN_OFF), "{begun:?}");
            assert_eq!(decoder.give_up(), []);
            assert_eq!(decoder.take(b"q"), keys("q"));
        }
        let mut decoder = InputDecoder::default();
        assert_eq!(decoder.take(b"\x1b[200~abc"), []);
        assert_eq!(decoder.give_up(), [TerminalInput::Paste("abc".to_owned())]);
        assert_eq!(decoder.take(&[b"\x1b[".as_slice(), &[b'1'; 10_000]].concat()), []);
        assert_eq!(decoder.take(b"q"), keys("q"));
    }
}
