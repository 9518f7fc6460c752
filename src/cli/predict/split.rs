//! A stream of plans, cut into its documents as their bytes arrive: at `---` and `...` as YAML has them, and behind a
//! JSON object that ends with its line.

use crate::plan::MAX_BYTES;

/// A document of the stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    /// Which one it is, from 1.
    pub number: usize,
    /// Its bytes, not more than a plan may have and what was read with them.
    pub bytes: Vec<u8>,
    /// Lines of the stream before it.
    pub lines_before: usize,
    /// There is no other.
    pub is_only: bool,
}

/// Enough of a line to tell a separator.
const SEPARATOR: usize = 5;

/// Cuts a stream.
#[derive(Default)]
pub struct Splitter {
    /// The document under way, with the line under way at its end.
    pending: Vec<u8>,
    /// Where that line begins.
    line: usize,
    lines_before: usize,
    /// Ended lines in `pending`.
    lines: usize,
    cut: usize,
    /// More than blank lines, comments and directives has come.
    has_content: bool,
    /// A `---` has come.
    is_begun: bool,
    /// Brackets of a document that begins with one.
    brackets: Option<Brackets>,
    /// The document is longer than a plan: the rest of it is passed over.
    is_skipped: bool,
}

impl Splitter {
    /// Takes in the next bytes, and gives each document that they end to `each`.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Part)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let kept = if self.is_skipped {
                let room = (self.line + SEPARATOR).saturating_sub(self.pending.len());
                &piece[..piece.len().min(room)]
            } else {
                piece
            };
            self.pending.extend_from_slice(kept);
            if piece.ends_with(b"\n") {
                self.end_line(&mut each);
            } else if !self.is_skipped && self.pending.len() > MAX_BYTES {
                self.skip(&mut each);
            }
        }
    }

    /// What is left where the stream ends: a stream without documents is one empty plan.
    pub fn finish(mut self) -> Option<Part> {
        // A last line without an end may be a separator.
        let mut last = None;
        if self.pending.len() > self.line {
            self.end_line(&mut |part| last = Some(part));
        }
        if self.has_content || (self.cut == 0 && last.is_none()) {
            let part = self.part(self.pending.len());
            return Some(Part { is_only: part.number == 1, ..part });
        }
        last.map(|part| Part { is_only: part.number == 1, ..part })
    }

    fn end_line(&mut self, each: &mut impl FnMut(Part)) {
        let line = self.pending[self.line..].trim_ascii_end();
        let separates = |marker: &[u8]| {
            line.strip_prefix(marker).filter(|rest| rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\t')))
        };
        let ends = separates(b"...").is_some();
        if let Some(rest) = separates(b"---") {
            let has_content = is_content(rest);
            if self.has_content || self.is_begun || self.is_skipped {
                self.leave(self.line, each);
            }
            (self.is_begun, self.has_content) = (true, has_content);
        } else if ends || (!self.is_skipped && self.takes(self.line)) {
            self.next_line();
            self.leave(self.pending.len(), each);
            return;
        }
        self.next_line();
        if self.is_skipped {
            self.pending.clear();
            self.line = 0;
        } else if self.pending.len() > MAX_BYTES {
            self.skip(each);
        }
    }

    fn next_line(&mut self) {
        self.lines += 1;
        self.line = self.pending.len();
    }

    /// Looks at a line that separates nothing; true where it ends a JSON object.
    fn takes(&mut self, from: usize) -> bool {
        let line = &self.pending[from..];
        let directive = line.starts_with(b"%") && !self.is_begun;
        if !self.has_content && is_content(line) && !directive {
            self.has_content = true;
            let opens = line.trim_ascii_start().strip_prefix(b"\xef\xbb\xbf").unwrap_or(line.trim_ascii_start());
            self.brackets = opens.starts_with(b"{").then(Brackets::default);
        }
        match self.brackets.as_mut().map(|brackets| brackets.read(line)) {
            Some(Closed::Not) | None => false,
            Some(Closed::AtEnd) => true,
            Some(Closed::Before) => {
                // More stands behind it: no JSON, and YAML's reader says so.
                self.brackets = None;
                false
            }
        }
    }

    /// Ends the document before byte `end`.
    fn leave(&mut self, end: usize, each: &mut impl FnMut(Part)) {
        let rest = self.pending.split_off(end);
        if self.has_content {
            each(self.part(end));
        }
        let line = self.line.saturating_sub(end);
        let lines_before = self.lines_before + self.lines;
        *self = Self { pending: rest, line, lines_before, cut: self.cut, ..Self::default() };
    }

    /// Ends a document that is too long, and passes over what is left of it.
    fn skip(&mut self, each: &mut impl FnMut(Part)) {
        self.has_content = true;
        let end = self.pending.len();
        self.leave(end, each);
        self.is_skipped = true;
    }

    fn part(&mut self, end: usize) -> Part {
        self.cut += 1;
        let mut bytes = std::mem::take(&mut self.pending);
        bytes.truncate(end);
        Part { number: self.cut, bytes, lines_before: self.lines_before, is_only: false }
    }
}

/// Whether a line says something.
fn is_content(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_some_and(|byte| *byte != b'#')
}

/// Where brackets stand after a line.
enum Closed {
    Not,
    AtEnd,
    Before,
}

/// Open brackets outside of texts in quotes.
#[derive(Default)]
struct Brackets {
    depth: usize,
    quote: Option<u8>,
    escaped: bool,
}

impl Brackets {
    fn read(&mut self, line: &[u8]) -> Closed {
        let mut before = b' ';
        for (at, byte) in line.iter().copied().enumerate() {
            match (self.quote, byte) {
                (Some(b'"'), _) if self.escaped => self.escaped = false,
                (Some(b'"'), b'\\') => self.escaped = true,
                (Some(quote), _) if quote == byte => self.quote = None,
                (Some(_), _) => {}
                // A comment of YAML.
                (None, b'#') if before.is_ascii_whitespace() => break,
                (None, b'"') => self.quote = Some(byte),
                // An apostrophe within a word is none.
                (None, b'\'') if before.is_ascii_whitespace() || matches!(before, b'{' | b'[' | b',' | b':') => {
                    self.quote = Some(byte);
                }
                (None, b'{' | b'[') => self.depth += 1,
                (None, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        let rest = line[at + 1..].trim_ascii_start();
                        return if rest.first().is_none_or(|byte| *byte == b'#') {
                            Closed::AtEnd
                        } else {
                            Closed::Before
                        };
                    }
                }
                (None, _) => {}
            }
            before = byte;
        }
        Closed::Not
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a text that comes in pieces of `size` bytes.
    fn parts(text: &[u8], size: usize) -> Vec<Part> {
        let (mut splitter, mut found) = (Splitter::default(), Vec::new());
        for piece in text.chunks(size) {
            splitter.feed(piece, |part| found.push(part));
        }
        found.extend(splitter.finish());
        found
    }

    fn texts(text: &str) -> Vec<String> {
        let whole = parts(text.as_bytes(), text.len().max(1));
        for size in [1, 2, 3, 7] {
            let by_piece = parts(text.as_bytes(), size);
            assert_eq!(by_piece.len(), whole.len(), "{text:?} in pieces of {size}");
            for (one, other) in by_piece.iter().zip(&whole) {
                assert_eq!((&one.bytes, one.lines_before), (&other.bytes, other.lines_before), "{text:?}");
            }
        }
        whole.into_iter().map(|part| String::from_utf8(part.bytes).unwrap()).collect()
    }

    #[test]
    fn documents_end_at_separators() {
        assert_eq!(texts("a: 1\n---\nb: 2\n"), ["a: 1\n", "---\nb: 2\n"]);
        assert_eq!(texts("---\na: 1\n...\n---\nb: 2"), ["---\na: 1\n...\n", "---\nb: 2"]);
        assert_eq!(texts("a: 1\r\n---\r\nb: 2\r\n"), ["a: 1\r\n", "---\r\nb: 2\r\n"]);
        assert_eq!(texts("--- {a: 1}\n--- {b: 2}\n"), ["--- {a: 1}\n", "--- {b: 2}\n"]);
        assert_eq!(texts("a: 1\n---"), ["a: 1\n"]);
        assert_eq!(texts("a: x---\n----\n--- \nb: 1"), ["a: x---\n----\n", "--- \nb: 1"]);
    }

    #[test]
    fn comments_and_directives_belong_to_what_follows_and_empty_documents_to_nobody() {
        assert_eq!(texts("%YAML 1.2\n# one\n---\na: 1\n"), ["%YAML 1.2\n# one\n---\na: 1\n"]);
        assert_eq!(texts("---\n---\na: 1\n---\n# nothing\n---\n"), ["---\na: 1\n"]);
        assert_eq!(texts(""), [""], "an empty stream is one empty plan");
        assert_eq!(texts("---\n"), ["---\n"]);
        assert_eq!(texts("# nothing\n"), ["# nothing\n"]);
    }

    #[test]
    fn a_json_object_ends_with_its_line() {
        assert_eq!(texts("{\"a\": \"}\\\"{\"}\n{\"b\": [1]}\n"), ["{\"a\": \"}\\\"{\"}\n", "{\"b\": [1]}\n"]);
        assert_eq!(texts("{\n  \"a\": {}\n}\n\n{}"), ["{\n  \"a\": {}\n}\n", "\n{}"]);
        assert_eq!(texts("{a: it's} # done }\n{b: '}'}\n"), ["{a: it's} # done }\n", "{b: '}'}\n"]);
        assert_eq!(texts("{a: 1\n---\n{b: 2}\n"), ["{a: 1\n", "---\n{b: 2}\n"], "one that is not closed");
        assert_eq!(texts("{a: 1}: 2\nb: 3\n"), ["{a: 1}: 2\nb: 3\n"], "no JSON");
    }

    #[test]
    fn lines_are_counted_through_the_stream() {
        let lines = |text: &str| parts(text.as_bytes(), 4).iter().map(|part| part.lines_before).collect::<Vec<_>>();
        assert_eq!(lines("a: 1\n---\nb: 2\n---\nc: 3\n"), [0, 1, 3]);
        assert_eq!(lines("{}\n{}\n\n{}\n"), [0, 1, 2]);
        assert_eq!(lines("---\n\n---\nc: 3\n...\nd: 1"), [2, 5]);
    }

    #[test]
    fn numbers_and_the_only_one() {
        let found = parts(b"{}\n{}\n", 6);
        assert_eq!(found.iter().map(|part| (part.number, part.is_only)).collect::<Vec<_>>(), [(1, false), (2, false)]);
        assert!(parts(b"a: 1\n", 5)[0].is_only);
    }

    /// A document beyond the limit is cut there, the next one is whole.
    #[test]
    fn what_is_too_long_is_passed_over() {
        let mut text = vec![b'a'; MAX_BYTES + 100_000];
        text.extend_from_slice(b"\nmore: 1\n---\nb: 2\n");
        let found = parts(&text, 65_536);
        assert_eq!(found.len(), 2);
        assert!((MAX_BYTES + 1..MAX_BYTES + 65_537).contains(&found[0].bytes.len()));
        assert_eq!(found[1].bytes, b"---\nb: 2\n");
        assert_eq!(found[1].lines_before, 2);
    }
}
