//! The manual: topics as Markdown under `configs/help/`, embedded, and laid out for a width.
//!
//! `memwall help TOPIC` and `?` on the screen show the same text.
//!
//! ```
//! use memwall::manual;
//!
//! let topic = manual::topic("Alerts").unwrap();
//! assert_eq!(topic.name, "alerts");
//! let rows = manual::layout(topic.text, 100);
//! assert!(rows.iter().all(|row| row.width() <= 100));
//! ```

mod blocks;
mod layout;
mod table;
mod wrap;

pub use layout::layout;

use unicode_width::UnicodeWidthStr;

/// A topic of the manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// The name behind `memwall help`.
    pub name: &'static str,
    /// Other names under which it is found.
    pub aliases: &'static [&'static str],
    /// Its Markdown: a heading, one line that says what it is about, then the rest.
    pub text: &'static str,
}

/// A part of a topic, from one heading to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Everything in it that is set as code (keys, options, calls): the words under which it is found.
    pub terms: String,
}

/// How a stretch of text is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Plain.
    Text,
    /// A heading.
    Heading,
    /// A key, an option, a command.
    Code,
    /// Stressed, and the heads of tables.
    Strong,
    /// Lines of tables, addresses of links.
    Faint,
}

/// A stretch of text in one tone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToneSpan {
    /// How it is set.
    pub tone: Tone,
    /// The text.
    pub text: String,
}

/// A line of a topic that was laid out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicLine {
    /// Its stretches from left to right.
    pub spans: Vec<ToneSpan>,
    /// A section begins here.
    pub is_heading: bool,
}

impl TopicLine {
    /// Cells that it takes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| span.text.width()).sum()
    }
}

macro_rules! topics {
    ($( $name:literal $(, $alias:literal)* ; )*) => {
        /// Every topic, in the order in which they are listed.
        pub const TOPICS: &[Topic] = &[ $( Topic {
            name: $name,
            aliases: &[ $( $alias ),* ],
            text: include_str!(concat!("../../configs/help/", $name, ".md")),
        }, )* ];
    };
}

topics! {
    "screen", "dashboard", "panes", "start", "mouse";
    "keys", "keyboard", "shortcuts", "bindings";
    "plan", "schema", "yaml", "file", "batch", "parallelism", "sharding";
    "edit", "form", "save", "undo", "baseline", "tabs";
    "metrics", "figures", "numbers", "units", "marks", "mfu";
    "accuracy", "errors", "validate";
    "frameworks", "framework", "engine", "megatron", "fsdp", "deepspeed", "torchtitan";
    "cluster", "nodes", "network", "interconnect", "nvlink", "exporter", "slurm", "kubernetes", "grafana";
    "predict", "report", "json", "csv", "exit", "max-batch-size";
    "roofline", "operators";
    "sweep", "walls", "vary";
    "search", "tune", "optimize", "bottlenecks";
    "import", "export", "infer";
    "bench", "measure", "efficiency", "cpu";
    "trace", "tape", "own-model", "traced";
    "monitor", "gpus", "processes", "mig", "cost";
    "attach", "log", "progress", "eta";
    "hook", "pytorch", "run";
    "compare", "why", "explanations", "calibrate", "bands";
    "alerts", "forecast", "notifications", "leak";
    "oom", "explain", "out-of-memory", "snapshot", "fragmentation";
    "record", "replay", "history", "recording";
    "sources", "amdgpu", "amd", "prometheus", "dcgm", "demo";
    "nvml", "driver", "calls", "gpm";
    "config", "options", "themes", "environment", "colour", "color", "catalogue";
    "library", "crate", "rust", "api";
}

/// The topic of that name or alias; case, spaces and `_` are forgiven.
#[must_use]
pub fn topic(name: &str) -> Option<&'static Topic> {
    let name = name.trim().to_lowercase().replace([' ', '_'], "-");
    let named = |topic: &&Topic| topic.name == name;
    let called = |topic: &&Topic| topic.aliases.contains(&name.as_str());
    TOPICS.iter().find(named).or_else(|| TOPICS.iter().find(called))
}

impl Topic {
    /// The heading at its top.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }

    /// The line below the heading: what it is about.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        self.text.lines().skip(1).find(|line| !line.is_empty()).unwrap_or_default()
    }

    /// Its sections in order; the first is the topic itself.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        for block in blocks::read(self.text) {
            if let blocks::Block::Heading(spans) = &block {
                let title = spans.iter().map(|span| span.text.as_str()).collect();
                sections.push(Section { title, terms: String::new() });
            }
            let Some(section) = sections.last_mut() else { continue };
            for span in block.spans().filter(|span| span.tone == Tone::Code) {
                section.terms.push_str(&span.text);
                section.terms.push(' ');
            }
        }
        sections
    }

    /// The line on which the section of that number begins, in a layout of that width.
    #[must_use]
    pub fn line_of(&self, section: usize, width: usize) -> usize {
        let rows = layout(self.text, width);
        let mut headings = rows.iter().enumerate().filter(|(_, row)| row.is_heading);
        headings.nth(section).map_or(0, |(line, _)| line)
    }
}

/// The example of the topic `library`, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../configs/help/library.md")]
struct LibraryExample;

#[cfg(test)]
mod tests;
