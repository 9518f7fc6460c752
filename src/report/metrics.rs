//! Metrics as text: OpenMetrics 1.0, and the format that Prometheus had before it.
//!
//! A page is made of families, each with its name, help and unit, and of samples with labels. What is not known has no
//! sample: a page says nothing of it, never 0.

use std::collections::HashSet;
use std::fmt::Write;

/// What the samples of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// A value that goes up and down.
    Gauge,
    /// A count that only grows, until whoever counts starts anew.
    Counter,
    /// Words in labels, with the value 1.
    Info,
}

/// A name with what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricFamily {
    /// As its samples have it, `_total` and `_info` included.
    pub name: &'static str,
    /// What its samples are.
    pub kind: MetricType,
    /// The unit, which the name ends in.
    pub unit: Option<&'static str>,
    /// What it means, in a sentence.
    pub help: &'static str,
}

impl MetricFamily {
    /// The name without what its type puts behind it: OpenMetrics declares that one.
    #[must_use]
    pub fn base_name(&self) -> &'static str {
        let ending = match self.kind {
            MetricType::Gauge => "",
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
        };
        self.name.strip_suffix(ending).unwrap_or(self.name)
    }
}

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Text,
}

impl MetricsFormat {
    /// The format that a client asks for in its `Accept` header: OpenMetrics where it wants that at least as much as
    /// plain text.
    ///
    /// ```
    /// use memwall::report::metrics::MetricsFormat;
    ///
    /// let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    /// assert_eq!(MetricsFormat::of_accept(accept), MetricsFormat::OpenMetrics);
    /// assert_eq!(MetricsFormat::of_accept("*/*"), MetricsFormat::Text);
    /// ```
    #[must_use]
    pub fn of_accept(accept: &str) -> Self {
        let wish = |kind: &str| {
            let ranges = accept.split(',').filter(|range| range.trim().starts_with(kind));
            let quality = |range: &str| {
                let told = range.split(';').find_map(|part| part.trim().strip_prefix("q="));
                told.map_or(1.0, |told| told.trim().parse::<f64>().unwrap_or(0.0))
            };
            ranges.map(quality).fold(0.0, f64::max)
        };
        let open = wish("application/openmetrics-text");
        if open > 0.0 && open >= wish("text/plain") { Self::OpenMetrics } else { Self::Text }
    }

    /// The `Content-Type` of a page.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A page of metrics.
#[derive(Debug, Clone, Default)]
pub struct MetricsPage {
    families: Vec<(MetricFamily, String)>,
    series: HashSet<String>,
}

impl MetricsPage {
    /// Adds a sample. Labels without a value are left out; a series that is there already stays as it is.
    pub fn put(&mut self, family: &MetricFamily, labels: &[(&str, &str)], value: f64) {
        let mut series = family.name.to_owned();
        let mut before = '{';
        for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            series.push(before);
            series.push_str(name);
            series.push_str("=\"");
            escape(&mut series, value);
            series.push('"');
            before = ',';
        }
        if before == ',' {
            series.push('}');
        }
        if !self.series.insert(series.clone()) {
            return;
        }
        let at = self.families.iter().position(|(known, _)| known.name == family.name);
        let at = at.unwrap_or_else(|| {
            self.families.push((*family, String::new()));
            self.families.len() - 1
        });
        let lines = &mut self.families[at].1;
        lines.push_str(&series);
        lines.push(' ');
        lines.push_str(&number(value));
        lines.push('\n');
    }

    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.series.len()
    }

    /// The page.
    #[must_use]
    pub fn text(&self, format: MetricsFormat) -> String {
        let mut page = String::new();
        for (family, samples) in &self.families {
            let name = match format {
                MetricsFormat::OpenMetrics => family.base_name(),
                MetricsFormat::Text => family.name,
            };
            let kind = match (family.kind, format) {
                (MetricType::Counter, _) => "counter",
                (MetricType::Info, MetricsFormat::OpenMetrics) => "info",
                (MetricType::Gauge | MetricType::Info, _) => "gauge",
            };
            let mut help = String::new();
            escape(&mut help, family.help);
            // Writing to a string cannot fail.
            let _ = writeln!(page, "# HELP {name} {help}");
            let _ = writeln!(page, "# TYPE {name} {kind}");
            if let Some(unit) = family.unit.filter(|_| format == MetricsFormat::OpenMetrics) {
                let _ = writeln!(page, "# UNIT {name} {unit}");
            }
            page.push_str(samples);
        }
        if format == MetricsFormat::OpenMetrics {
            page.push_str("# EOF\n");
        }
        page
    }
}

/// As both formats want it within quotes, and OpenMetrics in a help text.
fn escape(to: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\\' => to.push_str("\\\\"),
            '"' => to.push_str("\\\""),
            '\n' => to.push_str("\\n"),
            letter => to.push(letter),
        }
    }
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: MetricFamily =
        MetricFamily { name: "a_used_bytes", kind: MetricType::Gauge, unit: Some("bytes"), help: "Held." };
    const ERRORS: MetricFamily =
        MetricFamily { name: "a_errors_total", kind: MetricType::Counter, unit: None, help: "Errors \"seen\"." };
    const ABOUT: MetricFamily =
        MetricFamily { name: "a_build_info", kind: MetricType::Info, unit: None, help: "What it is." };

    fn page() -> MetricsPage {
        let mut page = MetricsPage::default();
        page.put(&USED, &[("gpu", "0"), ("uuid", "")], 85_899_345_920.0);
        page.put(&ERRORS, &[], 3.0);
        // A family's samples stand together, however they come.
        page.put(&USED, &[("gpu", "1")], f64::NAN);
        page.put(&USED, &[("gpu", "1")], 7.0);
        page.put(&ABOUT, &[("words", "a \"b\"\\\n")], 1.0);
        page
    }

    #[test]
    fn openmetrics_declares_names_without_their_endings_and_ends_with_eof() {
        // https://github.com/OpenObservability/OpenMetrics/blob/main/specification/OpenMetrics.md
        assert_eq!(
            page().text(MetricsFormat::OpenMetrics),
            "# HELP a_used_bytes Held.\n# TYPE a_used_bytes gauge\n# UNIT a_used_bytes bytes\n\
             a_used_bytes{gpu=\"0\"} 85899345920\na_used_bytes{gpu=\"1\"} NaN\n\
             # HELP a_errors Errors \\\"seen\\\".\n# TYPE a_errors counter\na_errors_total 3\n\
             # HELP a_build What it is.\n# TYPE a_build info\na_build_info{words=\"a \\\"b\\\"\\\\\\n\"} 1\n# EOF\n"
        );
    }

    #[test]
    fn the_older_format_declares_whole_names() {
        let text = page().text(MetricsFormat::Text);
        assert!(text.contains("# TYPE a_errors_total counter\na_errors_total 3\n"), "{text}");
        assert!(text.contains("# TYPE a_build_info gauge\n"), "{text}");
        assert!(!text.contains("UNIT") && !text.contains("EOF"), "{text}");
    }

    #[test]
    fn the_format_is_the_one_that_is_wanted_most() {
        // What Prometheus 2.42 and 3.5 send, and curl.
        for (accept, format) in [
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                MetricsFormat::OpenMetrics,
            ),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", MetricsFormat::Text),
            ("application/openmetrics-text;q=0.2,text/plain;q=0.9", MetricsFormat::Text),
            ("application/openmetrics-text;q=0", MetricsFormat::Text),
            ("*/*", MetricsFormat::Text),
            ("", MetricsFormat::Text),
        ] {
            assert_eq!(MetricsFormat::of_accept(accept), format, "{accept}");
        }
    }

    #[test]
    fn numbers_are_those_of_both_formats() {
        for (value, text) in [(f64::INFINITY, "+Inf"), (f64::NEG_INFINITY, "-Inf"), (0.25, "0.25"), (-0.5, "-0.5")] {
            assert_eq!(number(value), text);
        }
    }
}
