//! `memwall help`: topics of the manual, and what commands take.

use std::borrow::Cow;
use std::io::{IsTerminal, Write, stdout};
use std::process::{Command, Stdio};

use unicode_width::UnicodeWidthStr;

use super::args::{Cli, HelpArgs};
use super::output::is_utf8;
use super::tools::slug;
use super::{Exit, Failure, Streams, output};
use crate::ascii::reduced;
use crate::lessons::lesson;
use crate::manual::{TOPICS, Tone, TopicLine, layout, topic};
use crate::report::table::{Align, Table};

/// The longest lines: longer ones are hard to read.
const WIDEST: usize = 100;

/// Names that are further from each other are not meant.
const NEAR: usize = 3;

/// `memwall help [TOPIC]`.
pub fn run(args: &HelpArgs, streams: &mut Streams<'_>) -> Result<Exit, Failure> {
    let paper = Paper::of_standard_output();
    let name = args.topic.join("-");
    let topic = topic(&name);
    let options = usage(&name, &paper);
    let text = match (name.is_empty(), topic, options) {
        (true, ..) => format!("{}\n{}", contents(paper.width), usage("", &paper).unwrap_or_default()),
        // A topic about a command ends with what the command takes.
        (_, Some(topic), Some(options)) if topic.name == name => format!("{}\n{options}", paper.write(topic.text)),
        (_, _, Some(options)) => options,
        (_, Some(topic), None) => paper.write(topic.text),
        (_, None, None) => return Err(Failure::usage(unknown(&args.topic.join(" ")))),
    };
    Ok(paper.show(&text, streams))
}

/// A Markdown text on standard output, in the pager where it is longer than the terminal.
pub fn show(markdown: &str, streams: &mut Streams<'_>) -> Exit {
    let paper = Paper::of_standard_output();
    paper.show(&paper.write(markdown), streams)
}

/// The topics, each with what it is about.
fn contents(width: usize) -> String {
    let mut table = Table::new([("", Align::Left), ("", Align::Left)]);
    TOPICS.iter().for_each(|topic| table.row([topic.name.to_owned(), topic.summary().to_owned()]));
    let lines = table.render("  ", width);
    format!("The manual: memwall help TOPIC, or memwall help COMMAND\n\nTopics:\n{}", lines.trim_start_matches('\n'))
}

/// What a command takes; of the empty name, the program.
fn usage(name: &str, paper: &Paper) -> Option<String> {
    let mut program = Cli::program().term_width(paper.width);
    program.build();
    let text = match name {
        "" => program.render_help(),
        name => program.find_subcommand_mut(name)?.render_long_help(),
    };
    Some(if paper.colours { text.ansi().to_string() } else { text.to_string() })
}

fn unknown(name: &str) -> String {
    let program = Cli::program();
    let commands = program.get_subcommands().map(clap::Command::get_name);
    let topics = TOPICS.iter().flat_map(|topic| std::iter::once(&topic.name).chain(topic.aliases)).copied();
    let known: Vec<&str> = topics.chain(commands).collect();
    // A word that somebody broke off says more than one that looks like it.
    let begun = known.iter().find(|known| name.len() >= FEWEST && known.starts_with(name));
    let distance = |known: &&&str| strsim::levenshtein(known, name);
    let is_near = |known: &&&str| distance(known) < NEAR && distance(known) * 2 < name.len();
    let near = || known.iter().filter(is_near).min_by_key(distance);
    let hint = match (begun, lesson(name)) {
        (None, Some(term)) => format!("; `memwall explain {}` explains the term", slug(term.name)),
        (begun, _) => begun.or_else(near).map_or_else(String::new, |near| format!("; did you mean `{near}`?")),
    };
    format!("help: no topic or command `{name}`{hint}; `memwall help` lists them")
}

/// Fewer letters begin too many words.
const FEWEST: usize = 2;

/// What a topic is written on.
struct Paper {
    width: usize,
    /// Lines of the terminal; none where there is none.
    height: Option<usize>,
    colours: bool,
}

impl Paper {
    fn of_standard_output() -> Self {
        if !stdout().is_terminal() {
            return Self { width: output::page(None).width.min(WIDEST), height: None, colours: false };
        }
        let (width, height) = crossterm::terminal::size().unwrap_or((80, 24));
        // https://no-color.org: set and not empty.
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { width: usize::from(width).clamp(20, WIDEST), height: Some(usize::from(height)), colours }
    }

    /// Shows a text that was laid out for it, in the letters of the reader's locale.
    fn show(&self, text: &str, streams: &mut Streams<'_>) -> Exit {
        let text = if is_utf8(|name| std::env::var_os(name)) { Cow::Borrowed(text) } else { reduced(text) };
        if self.is_short_of(&text) && paged(&text) { Exit::Done } else { streams.print(text.as_bytes()) }
    }

    fn write(&self, markdown: &str) -> String {
        layout(markdown, self.width).iter().map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &TopicLine) -> String {
        let plain: String = row.spans.iter().map(|span| span.text.as_str()).collect();
        if plain.trim_end().width() > self.width {
            let tone = row.spans.last().map_or(Tone::Text, |span| span.tone);
            return self.broken(plain.trim_end(), tone);
        }
        let mut line = String::new();
        for span in &row.spans {
            match escape(span.tone).filter(|_| self.colours) {
                Some(escape) => line.push_str(&format!("\x1b[{escape}m{}\x1b[0m", span.text)),
                None => line.push_str(&span.text),
            }
        }
        format!("{}\n", line.trim_end())
    }

    /// A line of code that is too wide: its comment above it, and what is still too wide broken at its blanks.
    fn broken(&self, line: &str, tone: Tone) -> String {
        let code = line.trim_start();
        let indent = " ".repeat(line.len() - code.len());
        let comment = code.find("   # ").or_else(|| code.find("  # "));
        let (code, comment) = comment.map_or((code, ""), |at| (code[..at].trim_end(), code[at..].trim()));
        let whole = textwrap::Options::new(self.width).break_words(false);
        let whole = whole.word_splitter(textwrap::WordSplitter::NoHyphenation);
        let mut lines = Vec::new();
        let remark = format!("{indent}# ");
        let above = whole.clone().initial_indent(&indent).subsequent_indent(&remark);
        lines.extend(textwrap::wrap(comment, above).into_iter().filter(|_| !comment.is_empty()));
        let deeper = format!("{indent}    ");
        lines.extend(textwrap::wrap(code, whole.initial_indent(&indent).subsequent_indent(&deeper)));
        let each = lines.into_iter().map(|line| match escape(tone).filter(|_| self.colours) {
            Some(escape) => format!("\x1b[{escape}m{line}\x1b[0m\n"),
            None => format!("{line}\n"),
        });
        each.collect()
    }

    /// Whether a terminal does not show all of it at once.
    fn is_short_of(&self, text: &str) -> bool {
        self.height.is_some_and(|height| text.lines().count() >= height)
    }
}

/// How a terminal sets a tone (ECMA-48, select graphic rendition).
const fn escape(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Text => None,
        Tone::Heading => Some("1;4"),
        Tone::Code => Some("36"),
        Tone::Strong => Some("1"),
        Tone::Faint => Some("2"),
    }
}

/// Shows the text in the user's pager, else in `less`; false where there is none.
fn paged(text: &str) -> bool {
    let asked = std::env::var("PAGER").unwrap_or_default();
    let mut words = asked.split_whitespace();
    let mut pager = Command::new(words.next().unwrap_or("less"));
    pager.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Colours, and no pager where the text fits: what git asks of it too.
        pager.env("LESS", "FRX");
    }
    let Ok(mut child) = pager.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A pager that was left before the end has shown enough.
        drop(input.write_all(text.as_bytes()));
    }
    child.wait().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_coloured_only_where_that_is_wanted() {
        let topic = topic("keys").unwrap();
        let paper = |colours| Paper { width: 80, height: None, colours };
        assert!(!paper(false).write(topic.text).contains('\x1b'));
        assert!(paper(true).write(topic.text).contains("\x1b[1;4mKeys\x1b[0m"));
    }

    #[test]
    fn the_contents_name_every_topic_and_what_is_unknown_gets_a_hint() {
        let contents = contents(200);
        assert!(TOPICS.iter().all(|topic| contents.contains(topic.summary())));
        assert_eq!(
            unknown("alrets"),
            "help: no topic or command `alrets`; did you mean `alerts`?; `memwall help` lists them"
        );
        assert!(unknown("roof").contains("did you mean `roofline`?"), "{}", unknown("roof"));
        assert!(unknown("ridge").contains("`memwall explain ridge` explains the term"), "{}", unknown("ridge"));
        assert!(unknown("xyzzyxyzzy").starts_with("help: no topic or command `xyzzyxyzzy`; `memwall"));
    }

    #[test]
    fn only_a_text_longer_than_the_terminal_is_paged() {
        let paper = |height| Paper { width: 80, height, colours: false };
        assert!(paper(Some(3)).is_short_of("a\nb\nc\n"));
        assert!(!paper(Some(4)).is_short_of("a\nb\nc\n"));
        assert!(!paper(None).is_short_of("a\nb\nc\n"));
    }
}
