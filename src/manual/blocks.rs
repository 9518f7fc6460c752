//! Markdown as a list of blocks.

use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};

use super::{Tone, ToneSpan};

/// A piece of a topic that stands below the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A heading.
    Heading(Vec<ToneSpan>),
    /// Running text; in a list with what stands before its first line and how far it is moved in.
    Text { mark: String, indent: usize, spans: Vec<ToneSpan> },
    /// Lines that are left as they are, moved in as far as the list around them.
    Code { indent: usize, lines: Vec<ToneSpan> },
    /// A table: where its columns are aligned to the right, and its rows, the head first.
    Table { right: Vec<bool>, rows: Vec<Vec<Vec<ToneSpan>>> },
}

impl Block {
    /// Every stretch of text in it.
    pub fn spans(&self) -> Box<dyn Iterator<Item = &ToneSpan> + '_> {
        match self {
            Self::Heading(spans) | Self::Text { spans, .. } | Self::Code { lines: spans, .. } => Box::new(spans.iter()),
            Self::Table { rows, .. } => Box::new(rows.iter().flatten().flatten()),
        }
    }
}

/// The blocks of a Markdown text. Comments and other HTML are left out.
pub fn read(markdown: &str) -> Vec<Block> {
    let mut reader = Reader::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        reader.on_event(event);
    }
    reader.flush();
    reader.blocks
}

/// A list that is open.
struct List {
    /// The number of its next item; none where it has bullets.
    next: Option<u64>,
    /// Cells of the marks of its items.
    inside: usize,
}

#[derive(Default)]
struct Reader {
    blocks: Vec<Block>,
    spans: Vec<ToneSpan>,
    stressed: bool,
    code: bool,
    link: Option<String>,
    lists: Vec<List>,
    /// The mark of the item whose first text is still to come.
    mark: String,
    right: Vec<bool>,
    rows: Vec<Vec<Vec<ToneSpan>>>,
}

impl Reader {
    fn on_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.on_start(tag),
            Event::End(end) => self.on_end(end),
            Event::Text(text) if self.code => {
                self.spans.extend(text.lines().map(|line| ToneSpan { tone: Tone::Code, text: line.to_owned() }));
            }
            Event::Text(text) => self.push(&text, if self.stressed { Tone::Strong } else { Tone::Text }),
            Event::Code(text) => self.push(&text, Tone::Code),
            Event::SoftBreak | Event::HardBreak => self.push(" ", Tone::Text),
            _ => {}
        }
    }

    fn push(&mut self, text: &str, tone: Tone) {
        self.spans.push(ToneSpan { tone, text: text.to_owned() });
    }

    fn on_start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::List(first) => {
                self.flush();
                self.lists.push(List { next: first, inside: 2 });
            }
            Tag::Item => {
                if let Some(list) = self.lists.last_mut() {
                    self.mark = match &mut list.next {
                        Some(number) => {
                            let mark = format!("{number}. ");
                            *number += 1;
                            mark
                        }
                        None => "• ".to_owned(),
                    };
                    list.inside = self.mark.chars().count();
                }
            }
            Tag::Strong | Tag::Emphasis => self.stressed = true,
            Tag::CodeBlock(_) => {
                self.flush();
                self.code = true;
            }
            Tag::Link { dest_url, .. } => self.link = Some(dest_url.to_string()),
            Tag::Table(columns) => {
                self.right = columns.iter().map(|column| *column == Alignment::Right).collect();
            }
            Tag::TableHead | Tag::TableRow => self.rows.push(Vec::new()),
            Tag::Heading { .. } => self.flush(),
            _ => {}
        }
    }

    fn on_end(&mut self, end: TagEnd) {
        match end {
            TagEnd::Heading(_) => {
                let spans = self.take().into_iter().map(|span| ToneSpan { tone: Tone::Heading, ..span }).collect();
                self.blocks.push(Block::Heading(spans));
            }
            TagEnd::Paragraph | TagEnd::Item => self.flush(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::Strong | TagEnd::Emphasis => self.stressed = false,
            TagEnd::CodeBlock => {
                self.code = false;
                let (indent, lines) = (self.indent(), self.take());
                self.blocks.push(Block::Code { indent, lines });
            }
            TagEnd::Link => {
                if let Some(address) = self.link.take().filter(|address| address.contains("://")) {
                    self.push(&format!(" <{address}>"), Tone::Faint);
                }
            }
            TagEnd::TableCell => {
                let cell = self.take();
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let (right, rows) = (std::mem::take(&mut self.right), std::mem::take(&mut self.rows));
                self.blocks.push(Block::Table { right, rows });
            }
            _ => {}
        }
    }

    fn take(&mut self) -> Vec<ToneSpan> {
        std::mem::take(&mut self.spans)
    }

    /// Cells that text in the open lists is moved in.
    fn indent(&self) -> usize {
        self.lists.iter().map(|list| list.inside).sum()
    }

    /// Ends the text that was collected.
    fn flush(&mut self) {
        let spans = self.take();
        if !spans.is_empty() {
            let mark = std::mem::take(&mut self.mark);
            self.blocks.push(Block::Text { mark, indent: self.indent(), spans });
        }
    }
}
