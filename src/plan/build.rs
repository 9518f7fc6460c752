//! From the parser's events to a tree. Nothing here recurses over the text's own
//! nesting, and every way in which a small text could grow large is bounded.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, ScalarStyle, Span};

use super::fault::{Fault, TextPosition};
use super::node::{Entry, Node, NodeShape, Style};

/// Parts of a key beyond which it is cut where it is told.
const DEEPEST: usize = 8;

/// How deep lists and mappings may stand in each other.
pub const MAX_DEPTH: usize = 64;

/// How many values a text may hold, aliases written out.
pub const MAX_NODES: usize = 200_000;

/// After so many faults the rest of a text is not looked at.
pub const MAX_FAULTS: usize = 100;

/// What is wrong with a text of more than [`MAX_NODES`].
pub fn too_many() -> String {
    format!("more than {MAX_NODES} values")
}

/// From the parser's character counts to bytes.
pub struct Offsets {
    /// Byte of each character; none for ASCII, where they are the same.
    bytes: Option<Vec<usize>>,
    end: usize,
    /// What stands before the part that the parser saw.
    base: usize,
}

impl Offsets {
    pub fn of(text: &str, base: usize) -> Self {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self { bytes, end: text.len(), base }
    }

    pub fn byte(&self, marker: Marker) -> usize {
        let at = match &self.bytes {
            Some(bytes) => bytes.get(marker.index()).copied().unwrap_or(self.end),
            None => marker.index().min(self.end),
        };
        self.base + at
    }
}

/// The document so far.
pub struct DocumentBuilder<'a> {
    text: &'a str,
    offsets: Offsets,
    /// Lines before this document in its stream.
    lines_before: usize,
    stack: Vec<Frame>,
    /// Anchored values by number; none while the value is still open.
    anchors: HashMap<usize, Option<Rc<Node>>>,
    nodes: usize,
    root: Option<Node>,
    /// What is wrong so far.
    pub faults: Vec<Fault>,
}

/// A list or mapping that is still open.
struct Frame {
    start: usize,
    at: TextPosition,
    flow: bool,
    anchor: usize,
    inside: Container,
}

enum Container {
    List(Vec<Node>),
    Keys { entries: Vec<Entry>, seen: HashMap<String, TextPosition>, pending: Option<Key> },
}

struct Key {
    text: String,
    span: Range<usize>,
    at: TextPosition,
    style: Style,
    /// A key that may not stand: its value is read and dropped.
    dropped: bool,
}

/// The text cannot be followed any further; why is among the faults.
pub struct Stop;

impl<'a> DocumentBuilder<'a> {
    pub fn new(text: &'a str, offsets: Offsets, lines_before: usize) -> Self {
        Self {
            text,
            offsets,
            lines_before,
            stack: Vec::new(),
            anchors: HashMap::new(),
            nodes: 0,
            root: None,
            faults: Vec::new(),
        }
    }

    pub fn into_root(self) -> Option<Node> {
        self.root
    }

    pub fn mark(&self, marker: Marker) -> TextPosition {
        TextPosition { line: marker.line() + self.lines_before, column: marker.col() + 1 }
    }

    /// Takes one event in.
    pub fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        if self.faults.len() >= MAX_FAULTS {
            return Err(Stop);
        }
        let at = self.mark(span.start);
        let bytes = self.offsets.byte(span.start)..self.offsets.byte(span.end);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), at);
                let style = Style::from(style);
                let span = self.trimmed(bytes, style);
                let node = Node { span, at, shape: NodeShape::Scalar { text: text.into_owned(), style } };
                self.keep(anchor, &node)?;
                self.add(node)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), at);
                self.open(bytes.start, at, anchor, Container::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), at);
                let inside = Container::Keys { entries: Vec::new(), seen: HashMap::new(), pending: None };
                self.open(bytes.start, at, anchor, inside)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(bytes.start),
            Event::Alias(anchor) => self.alias(anchor, bytes, at),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    /// Where the parser is, as a dotted path.
    fn path(&self, last: Option<&str>) -> String {
        let open = self.stack.iter().filter_map(|frame| match &frame.inside {
            Container::Keys { pending: Some(key), .. } => Some(key.text.as_str()),
            _ => None,
        });
        let parts: Vec<&str> = open.chain(last).collect();
        // No plan's key is that deep: its beginning says where it is, and leaves room for what is wrong.
        if parts.len() > DEEPEST { format!("{}.…", parts[..3].join(".")) } else { parts.join(".") }
    }

    fn fault(&mut self, last: Option<&str>, at: TextPosition, message: impl Into<String>) {
        let key = self.path(last);
        self.faults.push(Fault::of(key, message).placed(Some(at)));
    }

    fn stop(&mut self, at: TextPosition, message: impl Into<String>) -> Result<(), Stop> {
        self.fault(None, at, message);
        Err(Stop)
    }

    fn refuse_tag(&mut self, tagged: bool, at: TextPosition) {
        if tagged {
            self.fault(None, at, "a tag (`!…`) has no meaning here; leave it out");
        }
    }

    /// Without what the parser counts to a scalar that follows it on its line: blanks, and
    /// after quotes comments too.
    fn trimmed(&self, bytes: Range<usize>, style: Style) -> Range<usize> {
        let written = self.text.get(bytes.clone()).unwrap_or_default();
        let length = match style {
            Style::Plain => written.trim_end().len(),
            Style::Single | Style::Double => quoted_length(written),
            Style::Block => written.len(),
        };
        bytes.start..bytes.start + length
    }

    fn open(&mut self, start: usize, at: TextPosition, anchor: usize, inside: Container) -> Result<(), Stop> {
        if self.stack.len() >= MAX_DEPTH {
            return self.stop(at, format!("nested deeper than {MAX_DEPTH} levels"));
        }
        let flow = self.text[start..].starts_with(['[', '{']);
        if anchor > 0 {
            self.anchors.insert(anchor, None);
        }
        self.stack.push(Frame { start, at, flow, anchor, inside });
        Ok(())
    }

    fn close(&mut self, bracket: usize) -> Result<(), Stop> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let Frame { start, at, flow, anchor, inside } = frame;
        // The parser ends an indented mapping at whatever comes next, comments included.
        let last = match &inside {
            Container::List(items) => items.last().map(|item| item.span.end),
            Container::Keys { entries, .. } => entries.last().map(|entry| entry.value.span.end.max(entry.span.end)),
        };
        let end = if flow { bracket + 1 } else { last.unwrap_or(start) };
        let shape = match inside {
            Container::List(items) => NodeShape::Sequence { items, flow },
            Container::Keys { entries, .. } => NodeShape::Mapping { entries, flow },
        };
        let node = Node { span: start..end, at, shape };
        self.keep(anchor, &node)?;
        self.add(node)
    }

    /// Remembers an anchored value.
    fn keep(&mut self, anchor: usize, node: &Node) -> Result<(), Stop> {
        if anchor > 0 {
            self.count(node, node.at)?;
            self.anchors.insert(anchor, Some(Rc::new(node.clone())));
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: Range<usize>, at: TextPosition) -> Result<(), Stop> {
        let Some(Some(node)) = self.anchors.get(&anchor).cloned() else {
            return self.stop(at, "this alias is inside what it refers to");
        };
        if depth(&node) + self.stack.len() > MAX_DEPTH {
            return self.stop(at, format!("nested deeper than {MAX_DEPTH} levels, aliases written out"));
        }
        self.count(&node, at)?;
        self.add(Node { span, at, shape: node.shape.clone() })
    }

    /// Counts a copy of `node` before it is made, for what stands at `at`.
    fn count(&mut self, node: &Node, at: TextPosition) -> Result<(), Stop> {
        self.nodes += size(node);
        if self.nodes > MAX_NODES {
            return self.stop(at, format!("more than {MAX_NODES} values, aliases written out"));
        }
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn add(&mut self, node: Node) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return self.stop(node.at, too_many());
        }
        match self.stack.last_mut().map(|frame| &mut frame.inside) {
            None => self.root = Some(node),
            Some(Container::List(items)) => items.push(node),
            Some(Container::Keys { entries, pending, .. }) if pending.is_some() => {
                if let Some(Key { text, span, at, style, dropped: false }) = pending.take() {
                    let mut value = node;
                    if value.span.is_empty() {
                        let end = after_colon(self.text, span.end);
                        value.span = end..end;
                    }
                    entries.push(Entry { key: text, span, at, style, value });
                }
            }
            Some(Container::Keys { .. }) => self.begin_key(node)?,
        }
        Ok(())
    }

    fn begin_key(&mut self, node: Node) -> Result<(), Stop> {
        let Node { span, at, shape: NodeShape::Scalar { text, style } } = node else {
            return self.stop(node.at, "a list or mapping cannot be a key");
        };
        let mut dropped = false;
        if text == "<<" && style == Style::Plain {
            self.fault(Some(&text), at, "merge keys are not supported; write the keys out");
            dropped = true;
        }
        let first = match self.stack.last_mut().map(|frame| &mut frame.inside) {
            Some(Container::Keys { seen, .. }) => seen.get(&text).copied().or_else(|| {
                seen.insert(text.clone(), at);
                None
            }),
            _ => None,
        };
        if let Some(first) = first {
            self.fault(Some(&text), at, format!("given twice; first on line {}", first.line));
            dropped = true;
        }
        if let Some(Container::Keys { pending, .. }) = self.stack.last_mut().map(|frame| &mut frame.inside) {
            *pending = Some(Key { text, span, at, style, dropped });
        }
        Ok(())
    }
}

impl From<ScalarStyle> for Style {
    fn from(style: ScalarStyle) -> Self {
        match style {
            ScalarStyle::Plain => Self::Plain,
            ScalarStyle::SingleQuoted => Self::Single,
            ScalarStyle::DoubleQuoted => Self::Double,
            ScalarStyle::Literal | ScalarStyle::Folded => Self::Block,
        }
    }
}

/// Where a value may start: behind the colon that follows a key which ends at `end`. The
/// parser puts an absent value wherever it noticed that there is none.
fn after_colon(text: &str, end: usize) -> usize {
    let rest = &text[end..];
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    if rest[blanks..].starts_with(':') { end + blanks + 1 } else { end }
}

/// Bytes of the quoted scalar that `text` begins with.
fn quoted_length(text: &str) -> usize {
    let mut letters = text.char_indices().peekable();
    let Some((_, quote)) = letters.next() else { return 0 };
    while let Some((at, letter)) = letters.next() {
        let doubled = quote == '\'' && letters.peek().is_some_and(|(_, next)| *next == quote);
        if letter == quote && !doubled {
            return at + 1;
        }
        // Whatever follows is part of an escape.
        if letter == quote || (letter == '\\' && quote == '"') {
            letters.next();
        }
    }
    text.len()
}

/// Values in `node`, itself included. Its depth is bounded, so this may recurse.
fn size(node: &Node) -> usize {
    1 + match &node.shape {
        NodeShape::Scalar { .. } => 0,
        NodeShape::Sequence { items, .. } => items.iter().map(size).sum(),
        NodeShape::Mapping { entries, .. } => entries.iter().map(|entry| size(&entry.value)).sum(),
    }
}

/// Lists and mappings in each other.
fn depth(node: &Node) -> usize {
    match &node.shape {
        NodeShape::Scalar { .. } => 0,
        NodeShape::Sequence { items, .. } => 1 + items.iter().map(depth).max().unwrap_or(0),
        NodeShape::Mapping { entries, .. } => 1 + entries.iter().map(|entry| depth(&entry.value)).max().unwrap_or(0),
    }
}
