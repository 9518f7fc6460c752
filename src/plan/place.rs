//! Where in a text a value goes, so that nothing else moves.

use super::document::Document;
use super::fault::Fault;
use super::lines::{
    Splice, column, is_blank_line, line_end_before, line_end_of, line_start, line_stop, next_line, starts_its_line,
};
use super::node::{Entry, Node, NodeShape, Style};
use super::render::{Manner, RenderRequest, key_text, needs_quotes};
use super::schema;
use super::values::short;

/// Replacements, and the value's text among them.
pub struct Placement {
    pub splices: Vec<Splice>,
    pub written: String,
}

/// Puts a value at a dotted key.
pub fn put(document: &Document, key: &str, wanted: &RenderRequest) -> Result<Placement, Fault> {
    let parts: Vec<&str> = key.split('.').collect();
    let mut above: Option<&Entry> = None;
    let mut node = document.root();
    let mut flow = node.is_flow();
    for (depth, part) in parts.iter().enumerate() {
        let Some(entry) = node.entry(part) else {
            return AbsentKey { document, key, above, node, flow, missing: &parts[depth..] }.put(wanted);
        };
        above = Some(entry);
        node = &entry.value;
        if depth + 1 < parts.len() {
            flow |= node.is_flow();
        }
    }
    above.map_or_else(|| Err(Fault::of(key, "needs a key")), |entry| replace(document, key, entry, flow, wanted))
}

/// Puts a value where there is one.
fn replace(
    document: &Document,
    key: &str,
    entry: &Entry,
    flow: bool,
    wanted: &RenderRequest,
) -> Result<Placement, Fault> {
    let text = document.text();
    let node = &entry.value;
    let style = match &node.shape {
        // Quotes that had to be are no choice of the writer's.
        NodeShape::Scalar { text, style: Style::Single | Style::Double } if needs_quotes(text, flow) => Style::Plain,
        NodeShape::Scalar { style, .. } => *style,
        _ => Style::Plain,
    };
    let written = wanted.written(Manner { json: document.is_json(), flow, style });
    let behind_key = entry.span.end..after_key(text, entry);
    let splices = if node.span.is_empty() {
        vec![(behind_key, format!(": {written}"))]
    } else if node.is_block() && !is_alias(text, node) {
        let lines = line_end_before(text, line_start(text, node.span.start))..line_stop(text, node.span.end);
        refuse_comments(document, key, &text[lines.clone()])?;
        vec![(behind_key, format!(": {written}")), (lines, String::new())]
    } else if style == Style::Block {
        let ends_line = text[node.span.clone()].ends_with('\n');
        vec![(node.span.clone(), format!("{written}{}", if ends_line { line_end_of(text) } else { "" }))]
    } else {
        vec![(node.span.clone(), written.clone())]
    };
    Ok(Placement { splices, written })
}

/// Written as `*name`: the bytes are the alias's, the shape that of what it refers to.
fn is_alias(text: &str, node: &Node) -> bool {
    text[node.span.clone()].starts_with('*')
}

/// Behind the key's colon, or behind the key where it has none.
fn after_key(text: &str, entry: &Entry) -> usize {
    let rest = &text[entry.span.end..];
    rest.find(|letter: char| !letter.is_whitespace())
        .filter(|at| rest[*at..].starts_with(':'))
        .map_or(entry.span.end, |at| entry.span.end + at + 1)
}

/// Lines that would go take no comments with them.
fn refuse_comments(document: &Document, key: &str, lines: &str) -> Result<(), Fault> {
    if lines.contains('#') {
        let message = "its lines hold a comment that would be lost; change it in the text";
        return Err(document.placed(Fault::of(key, message)));
    }
    Ok(())
}

/// A key that is absent, and what is there of its path.
struct AbsentKey<'a> {
    document: &'a Document,
    key: &'a str,
    /// The deepest key of the path that exists.
    above: Option<&'a Entry>,
    /// Its value, or the root.
    node: &'a Node,
    /// Within brackets.
    flow: bool,
    /// The parts of the path that are missing.
    missing: &'a [&'a str],
}

impl AbsentKey<'_> {
    fn put(&self, wanted: &RenderRequest) -> Result<Placement, Fault> {
        let manner = Manner { json: self.document.is_json(), flow: self.flow, style: Style::Plain };
        let written = wanted.written(manner);
        let splices = match &self.node.shape {
            NodeShape::Mapping { flow: true, .. } => self.in_braces(&written),
            NodeShape::Mapping { .. } => self.in_block(&written),
            _ if self.node.is_null() => self.under_nothing(&written),
            _ => {
                let held = self.text().get(self.node.span.clone()).unwrap_or_default();
                let message = format!("its section is `{}`, not a group of keys", short(held));
                return Err(Fault::of(self.key, message).placed(Some(self.node.at)));
            }
        };
        Ok(Placement { splices, written })
    }

    fn text(&self) -> &str {
        self.document.text()
    }

    /// `a: {b: value}`, for keys within brackets.
    fn inline(&self, written: &str) -> String {
        let sibling = self.node.entries().first().map_or(Style::Plain, |entry| entry.style);
        let manner = Manner { json: self.document.is_json(), flow: true, style: sibling };
        let keys: Vec<_> = self.missing.iter().map(|part| key_text(part, manner)).collect();
        format!("{}: {written}{}", keys.join(": {"), "}".repeat(keys.len() - 1))
    }

    /// The lines of the missing keys, each `unit` further in, without the last line's end.
    fn lines(&self, indent: usize, written: &str) -> String {
        let unit = unit(self.document);
        let manner = Manner { json: false, flow: false, style: Style::Plain };
        let lines: Vec<_> = self
            .missing
            .iter()
            .enumerate()
            .map(|(depth, part)| format!("{}{}:", " ".repeat(indent + unit * depth), key_text(part, manner)))
            .collect();
        format!("{} {written}", lines.join(line_end_of(self.text())))
    }

    /// After the line of byte `at`.
    fn after_line(&self, at: usize, lines: &str) -> Splice {
        let end = line_end_of(self.text());
        match next_line(self.text(), at) {
            Some(start) => (start..start, format!("{lines}{end}")),
            None => (self.text().len()..self.text().len(), format!("{end}{lines}")),
        }
    }

    /// As the last line of an indented section; a section of the top in the contract's order.
    fn in_block(&self, written: &str) -> Vec<Splice> {
        let entries = self.node.entries();
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Vec::new() };
        let lines = self.lines(column(self.text(), first.span.start), written);
        if self.above.is_some() {
            return vec![self.after_line(end_of(last), &lines)];
        }
        let rank = |name: &str| schema::children("").position(|key| key.path == name);
        let own = rank(self.missing[0]);
        let gap = if self.has_gaps() { line_end_of(self.text()) } else { "" };
        match entries.iter().rev().find(|entry| rank(&entry.key) < own) {
            Some(before) => vec![self.after_line(end_of(before), &format!("{gap}{lines}"))],
            None => {
                let start = self.head_of(first);
                vec![(start..start, format!("{lines}{}{gap}", line_end_of(self.text())))]
            }
        }
    }

    /// Whether empty lines stand between the sections.
    fn has_gaps(&self) -> bool {
        self.node.entries().windows(2).any(|pair| {
            let between = self.text().get(end_of(&pair[0])..pair[1].span.start).unwrap_or_default();
            between.lines().skip(1).any(|line| line.trim().is_empty())
        })
    }

    /// Where the comment right above the first section starts, or the section itself where
    /// that comment is the head of the file.
    fn head_of(&self, first: &Entry) -> usize {
        let text = self.text();
        let own = line_start(text, first.span.start);
        let mut start = own;
        while start > 0 {
            let above = line_start(text, line_end_before(text, start));
            let line = text[above..start].trim();
            if line.is_empty() {
                return start;
            }
            if !line.starts_with('#') || above == start {
                break;
            }
            start = above;
        }
        own
    }

    /// Into braces: on a line of its own where the last key has one.
    fn in_braces(&self, written: &str) -> Vec<Splice> {
        let text = self.text();
        let inline = self.inline(written);
        let Some(last) = self.node.entries().last() else {
            let start = self.node.span.start + 1;
            return vec![(start..start, inline)];
        };
        let end = end_of(last);
        let comma = comma_after(text, end);
        let behind = comma.map_or(end, |comma| comma + 1);
        let (at, lead) = if starts_its_line(text, last.span.start) {
            let stop = line_stop(text, behind);
            let rest = text[behind..stop].trim_start();
            // The closing brace may stand on the same line.
            let at = if rest.is_empty() || rest.starts_with('#') { stop } else { behind };
            (at, format!("{}{}", line_end_of(text), " ".repeat(column(text, last.span.start))))
        } else {
            (behind, " ".to_owned())
        };
        if comma.is_some() {
            vec![(at..at, format!("{lead}{inline},"))]
        } else if at == end {
            vec![(at..at, format!(",{lead}{inline}"))]
        } else {
            // A comment stands between the comma and the new line.
            vec![(end..end, ",".to_owned()), (at..at, format!("{lead}{inline}"))]
        }
    }

    /// Under a key without a value, or into an empty document.
    fn under_nothing(&self, written: &str) -> Vec<Splice> {
        let text = self.text();
        let Some(above) = self.above else {
            let lines = self.lines(0, written);
            let end = text.len();
            // An empty text has no line that could be ended.
            let bare = text.trim_start_matches('\u{feff}').is_empty();
            return vec![if bare { (end..end, format!("{lines}\n")) } else { self.after_line(end, &lines) }];
        };
        let behind_key = above.span.end..after_key(text, above);
        let emptied = above.span.end..above.value.span.end.max(behind_key.end);
        if self.flow {
            return vec![(emptied, format!(": {{{}}}", self.inline(written)))];
        }
        let indent = column(text, above.span.start) + unit(self.document);
        vec![(emptied.clone(), ":".to_owned()), self.after_line(emptied.end, &self.lines(indent, written))]
    }
}

/// How far sections are indented here.
fn unit(document: &Document) -> usize {
    let text = document.text();
    let inner = |entry: &Entry| {
        let first = entry.value.entries().first().filter(|_| entry.value.is_block())?;
        column(text, first.span.start).checked_sub(column(text, entry.span.start))
    };
    document.root().entries().iter().find_map(inner).filter(|unit| *unit > 0).unwrap_or(2)
}

/// The last byte of a key and its value.
fn end_of(entry: &Entry) -> usize {
    entry.value.span.end.max(entry.span.end)
}

/// A comma right after byte `end`, blanks and line ends between.
fn comma_after(text: &str, end: usize) -> Option<usize> {
    let rest = &text[end..];
    let at = rest.find(|letter: char| !letter.is_whitespace())?;
    rest[at..].starts_with(',').then_some(end + at)
}

/// Takes a key out, and a section that it leaves empty.
pub fn take_out(document: &Document, key: &str) -> (String, Vec<Splice>) {
    let mut path = key;
    while let Some((section, _)) = path.rsplit_once('.') {
        if document.node(section).is_none_or(|node| node.entries().len() > 1) {
            break;
        }
        path = section;
    }
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = if section.is_empty() { Some(document.root()) } else { document.node(section) };
    let splices = parent.and_then(|parent| {
        let at = parent.entries().iter().position(|entry| entry.key == name)?;
        Some(if parent.is_flow() {
            out_of_braces(document.text(), parent, at)
        } else {
            out_of_block(document.text(), &parent.entries()[at])
        })
    });
    (path.to_owned(), splices.unwrap_or_default())
}

fn out_of_block(text: &str, entry: &Entry) -> Vec<Splice> {
    let start = line_start(text, entry.span.start);
    let next = next_line(text, end_of(entry));
    // Of two gaps that would meet, one goes.
    let above = line_start(text, line_end_before(text, start));
    let gap = above < start
        && is_blank_line(text, above)
        && next.is_none_or(|next| next >= text.len() || is_blank_line(text, next));
    let start = if gap { above } else { start };
    // A last line without an end takes that of the line before along.
    let range = next.map_or_else(|| line_end_before(text, start)..text.len(), |next| start..next);
    vec![(range, String::new())]
}

fn out_of_braces(text: &str, parent: &Node, at: usize) -> Vec<Splice> {
    let entries = parent.entries();
    let entry = &entries[at];
    let end = end_of(entry);
    let comma = comma_after(text, end);
    let behind = comma.map_or(end, |comma| comma + 1);
    let rest = text[behind..line_stop(text, behind)].trim_start();
    let own_line = starts_its_line(text, entry.span.start) && (rest.is_empty() || rest.starts_with('#'));
    let own = if own_line {
        line_end_before(text, line_start(text, entry.span.start))..line_stop(text, behind)
    } else if let Some(next) = entries.get(at + 1) {
        entry.span.start..next.span.start
    } else {
        entry.span.start..behind
    };
    let before = at.checked_sub(1).and_then(|before| entries.get(before)).filter(|_| comma.is_none());
    let Some(comma) = before.and_then(|before| comma_after(text, end_of(before))) else {
        return vec![(own, String::new())];
    };
    if own_line {
        vec![(comma..comma + 1, String::new()), (own, String::new())]
    } else {
        vec![(comma..own.end, String::new())]
    }
}
