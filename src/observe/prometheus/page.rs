//! Prometheus' text format, as far as a page of gauges and counters uses it
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>).
//!
//! The crates that read it bring a regular-expression engine and a calendar along for what is a
//! name, labels in quotes and a number.

use std::borrow::Cow;

use super::labels::Labels;

/// One line: `name{label="value",…} number [timestamp]`.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricLine<'a> {
    /// Its name.
    pub name: &'a str,
    /// What is between the braces.
    labels: &'a str,
    /// Its value; `NaN` and the infinities are possible.
    pub value: f64,
}

impl Labels for MetricLine<'_> {
    fn label(&self, wanted: &str) -> Option<Cow<'_, str>> {
        let mut rest = self.labels;
        while let Some((name, after)) = rest.split_once('=') {
            let quoted = after.trim_start().strip_prefix('"')?;
            let end = closing(quoted)?;
            if name.trim().trim_start_matches(',').trim() == wanted {
                let text = &quoted[..end];
                return Some(if text.contains('\\') { Cow::Owned(unescaped(text)) } else { Cow::Borrowed(text) });
            }
            rest = &quoted[end + 1..];
        }
        None
    }
}

/// The metrics of a page; lines that are none are left out.
pub fn metrics(page: &str) -> impl Iterator<Item = MetricLine<'_>> {
    page.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).filter_map(metric)
}

fn metric(line: &str) -> Option<MetricLine<'_>> {
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => inside.split_at(end_of_labels(inside)?),
        None => ("", rest),
    };
    let value = rest.trim_start_matches('}').split_whitespace().next()?;
    // Rust reads `NaN`, `+Inf` and `-Inf` as Prometheus writes them.
    Some(MetricLine { name, labels, value: value.parse().ok()? })
}

/// Where the braces close, outside of quotes.
fn end_of_labels(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let next = at + text[at..].find(['"', '}'])?;
        if text[next..].starts_with('}') {
            return Some(next);
        }
        at = next + 1;
        at += closing(&text[at..])? + 1;
    }
}

/// Where a quoted text ends.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, c == '\\') {
            (_, true) => match characters.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => {}
            },
            (c, false) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_name_labels_and_value() {
        let line = r#"DCGM_FI_DEV_GPU_UTIL{gpu="3", modelName="a \"b\", }\\ c\nd",} 97 1700000000000"#;
        let metric = metric(line).unwrap();
        assert_eq!((metric.name, metric.value), ("DCGM_FI_DEV_GPU_UTIL", 97.0));
        assert_eq!(metric.label("gpu").as_deref(), Some("3"));
        assert_eq!(metric.label("modelName").as_deref(), Some("a \"b\", }\\ c\nd"));
        assert_eq!(metric.label("UUID"), None);
    }

    #[test]
    fn comments_and_broken_lines_are_left_out() {
        let page = "# HELP a b\n# TYPE a gauge\na 1\n\nb{x=\"y} 2\nc{} +Inf\nd\ne{x=\"y\"} z\nf{x=\"y\"}5e-1";
        let read: Vec<(&str, f64)> = metrics(page).map(|metric| (metric.name, metric.value)).collect();
        assert_eq!(read, [("a", 1.0), ("c", f64::INFINITY), ("f", 0.5)]);
    }

    proptest! {
        #[test]
        fn nothing_on_a_page_stops_it(page in ".*", label in "[a-z]*") {
            for metric in metrics(&page) {
                metric.label(&label);
            }
        }

        #[test]
        fn any_label_comes_back(value in ".*") {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let line = format!("m{{a=\"1\",b=\"{escaped}\"}} 5");
            // A carriage return ends a line for nobody here: the page was split before.
            let metric = metric(&line).unwrap();
            let read = metric.label("b");
            prop_assert_eq!(read.as_deref(), Some(value.as_str()));
        }
    }
}
