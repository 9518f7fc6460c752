//! The text of a plan, and the tree that it spells.

use std::borrow::Cow;
use std::ops::Range;

use saphyr_parser::{Event, Parser};

use super::build::{DocumentBuilder, MAX_NODES, Offsets, too_many};
use super::fault::{Fault, TextPosition};
use super::node::{Node, NodeShape, Style};
use super::slip::slip;

/// The largest text that is read, in bytes.
pub const MAX_BYTES: usize = 10_000_000;

const BOM: &str = "\u{feff}";

/// A plan's text, YAML or JSON, with the place of every key and value.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    text: String,
    root: Node,
    /// Lines before this one in a stream of several.
    lines_before: usize,
}

impl Document {
    /// Reads one document.
    ///
    /// # Errors
    /// Where the text is no YAML or JSON, gives a key twice, is too large or nested too
    /// deep, or holds several documents.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        Self::parse_at(text, 0)
    }

    /// Reads documents that are separated by `---`. Empty ones are passed over, unless
    /// there is no other. Lines are counted through the whole stream.
    ///
    /// # Errors
    /// As [`Document::parse`], for any of them.
    pub fn parse_stream(text: &str) -> Result<Vec<Self>, Vec<Fault>> {
        let parts = split(text)?;
        let mut documents = Vec::new();
        let mut faults = Vec::new();
        for part in &parts {
            let lines_before = text[..part.start].matches('\n').count();
            match Self::parse_at(&text[part.clone()], lines_before) {
                Ok(document) => documents.push(document),
                Err(found) => faults.extend(found),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let empty = |document: &Self| document.root.is_null();
        if documents.iter().all(empty) {
            documents.truncate(1);
        } else {
            documents.retain(|document| !empty(document));
        }
        Ok(documents)
    }

    /// Reads one document of a stream that is read piece by piece, with so many lines of the stream before it.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn parse_part(text: &str, lines_before: usize) -> Result<Self, Vec<Fault>> {
        Self::parse_at(text, lines_before)
    }

    /// The whole text, byte for byte.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the value of a dotted key stands, or the deepest part of its path that exists:
    /// for a key that is missing, its section.
    #[must_use]
    pub fn locate(&self, key: &str) -> Option<TextPosition> {
        let mut node = &self.root;
        let mut found = None;
        for part in key.split('.') {
            let Some(entry) = node.entry(part) else { break };
            node = &entry.value;
            found = Some(if node.is_block() || node.is_null() { entry.at } else { node.at });
        }
        found
    }

    /// Where a key of a section stands, and where its value does; names are as they are written, dots and all.
    #[must_use]
    pub fn places(&self, section: &str, name: &str) -> Option<(TextPosition, TextPosition)> {
        let entry = self.root.entry(section)?.value.entry(name)?;
        Some((entry.at, entry.value.at))
    }

    /// Where a key of the top stands.
    #[must_use]
    pub fn place_of(&self, name: &str) -> Option<TextPosition> {
        self.root.entry(name).map(|entry| entry.at)
    }

    /// A fault that was found where nothing is known of the text, at its place in this one.
    #[must_use]
    pub fn placed(&self, fault: Fault) -> Fault {
        let at = self.locate(&fault.key);
        fault.placed(at)
    }

    /// The value of a dotted key as it is written, quotes included; none where the key is
    /// absent or its value is null.
    #[must_use]
    pub fn written(&self, key: &str) -> Option<&str> {
        let node = self.node(key)?;
        (!node.is_null()).then(|| self.text.get(node.span.clone()))?
    }

    /// The value of a dotted key as a JSON value; none where the key is absent.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<serde_json::Value> {
        self.node(key).map(Node::to_json)
    }

    /// The keys of the top, in the order of the text.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        self.root.entries().iter().map(|entry| entry.key.clone())
    }

    /// Whether this is JSON: braces outside and every key in double quotes.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.root.is_flow() && self.root.entries().iter().all(|entry| entry.style == Style::Double)
    }

    /// All of it.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.root
    }

    pub(super) fn node(&self, key: &str) -> Option<&Node> {
        key.split('.').try_fold(&self.root, |node, part| node.entry(part).map(|entry| &entry.value))
    }

    /// The same document with other text.
    pub(super) fn reparse(&self, text: &str) -> Result<Self, Vec<Fault>> {
        Self::parse_at(text, self.lines_before)
    }

    fn parse_at(text: &str, lines_before: usize) -> Result<Self, Vec<Fault>> {
        refuse_size(text)?;
        let (base, body) = without_bom(text);
        let readable = readable(body);
        let mut builder = DocumentBuilder::new(text, Offsets::of(body, base), lines_before);
        let mut documents = 0;
        for event in Parser::new_from_str(&readable) {
            match event {
                Ok((Event::DocumentStart(_), span)) => {
                    documents += 1;
                    if documents > 1 {
                        let at = builder.mark(span.start);
                        let message =
                            "a second plan starts here; a file holds one (a stream on standard input may hold several)";
                        builder.faults.push(Fault::of("", message).placed(Some(at)));
                        break;
                    }
                }
                Ok((event, span)) => {
                    if builder.take(event, span).is_err() {
                        break;
                    }
                }
                Err(error) => {
                    let fault = slip(&error, body, builder.mark(*error.marker()));
                    builder.faults.push(fault);
                    break;
                }
            }
        }
        if !builder.faults.is_empty() {
            return Err(builder.faults);
        }
        let nothing = Node {
            span: text.len()..text.len(),
            at: TextPosition { line: lines_before + 1, column: 1 },
            shape: NodeShape::Scalar { text: String::new(), style: Style::Plain },
        };
        let root = builder.into_root().unwrap_or(nothing);
        Ok(Self { text: text.to_owned(), root, lines_before })
    }
}

fn refuse_size(text: &str) -> Result<(), Vec<Fault>> {
    if text.len() > MAX_BYTES {
        return Err(vec![too_large(text.as_bytes(), text.len() as u64)]);
    }
    // The parser holds a whole list in brackets before it says the first word of it, at two hundred bytes a value.
    let separators = text.bytes().enumerate().filter(|(_, byte)| matches!(byte, b',' | b'[' | b'{'));
    match separators.map(|(at, _)| at).nth(MAX_NODES) {
        Some(at) => Err(vec![Fault::of("", too_many()).placed(Some(place_of(text.as_bytes(), at)))]),
        None => Ok(()),
    }
}

/// The fault of a text of `bytes` bytes, where the first byte too many stands in it. `text` is at least
/// what could still be read.
pub fn too_large(text: &[u8], bytes: u64) -> Fault {
    let most = MAX_BYTES / 1_000_000;
    let message = format!("{bytes} bytes are too large for a plan; at most {most} MB are read, which end here");
    Fault::of("", message).placed(Some(place_of(text, MAX_BYTES)))
}

/// Line and column of a byte; what is no UTF-8 before it counts a column a byte.
pub fn place_of(text: &[u8], byte: usize) -> TextPosition {
    let before = &text[..byte.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let begun = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let letters = String::from_utf8_lossy(begun).trim_start_matches(BOM).chars().count();
    TextPosition { line, column: letters + 1 }
}

fn without_bom(text: &str) -> (usize, &str) {
    text.strip_prefix(BOM).map_or((0, text), |body| (BOM.len(), body))
}

/// JSON may be indented by tabs, which YAML's reader refuses: outside of strings they are
/// blanks to it, so that all places stay as they are.
fn readable(body: &str) -> Cow<'_, str> {
    if !body.contains('\t') || !body.trim_start().starts_with(['{', '[']) {
        return Cow::Borrowed(body);
    }
    let mut quoted = false;
    let mut escaped = false;
    let blank = |letter: char| {
        match letter {
            '"' if !escaped => quoted = !quoted,
            '\t' if !quoted => return ' ',
            _ => {}
        }
        escaped = quoted && letter == '\\' && !escaped;
        letter
    };
    Cow::Owned(body.chars().map(blank).collect())
}

/// The bytes of each document in a stream.
fn split(text: &str) -> Result<Vec<Range<usize>>, Vec<Fault>> {
    refuse_size(text)?;
    let (base, body) = without_bom(text);
    let readable = readable(body);
    let offsets = Offsets::of(body, base);
    let mut starts = Vec::new();
    for event in Parser::new_from_str(&readable) {
        match event {
            Ok((Event::DocumentStart(_), span)) => starts.push(offsets.byte(span.start)),
            Ok(_) => {}
            Err(error) => {
                let marker = *error.marker();
                let at = TextPosition { line: marker.line(), column: marker.col() + 1 };
                return Err(vec![slip(&error, body, at)]);
            }
        }
    }
    // What stands before the first separator belongs to the first document.
    if let Some(first) = starts.first_mut() {
        *first = 0;
    } else {
        starts.push(0);
    }
    let ends = starts.iter().skip(1).copied().chain(std::iter::once(text.len()));
    Ok(starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect())
}
