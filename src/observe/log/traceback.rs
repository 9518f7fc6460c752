//! The exception that a log's traceback ends with.

/// Bytes of an exception's line that are kept.
const MOST: usize = 200;

/// Reads Python's tracebacks (CPython's traceback.py): a line that opens one, indented lines of where it came through,
/// and the exception. Ranks may stand before each (`[rank0]: `, torch/distributed/elastic).
#[derive(Default)]
pub struct TracebackReader {
    open: bool,
    /// The line before named a file and a line of it, as a traceback does: the next one is the source there.
    shows_source: bool,
    exception: Option<String>,
}

impl TracebackReader {
    /// Whether the next line is the source of one that a traceback names.
    pub const fn shows_source(&self) -> bool {
        self.shows_source
    }

    /// Takes a line; whether it ended a traceback.
    pub fn read(&mut self, line: &str) -> bool {
        self.shows_source = names_source(line);
        let line = without_rank(line);
        if line.contains("Traceback (most recent call last):") {
            self.open = true;
            return false;
        }
        if !self.open || line.trim().is_empty() || line.starts_with([' ', '\t']) {
            return false;
        }
        self.open = false;
        let said = exception(line.trim_end());
        let is_one = said.is_some();
        if is_one {
            self.exception = said;
        }
        is_one
    }

    /// The run went on.
    pub fn forget(&mut self) {
        self.exception = None;
    }

    /// The newest exception that the run did not go on after.
    pub fn exception(&self) -> Option<&str> {
        self.exception.as_deref()
    }
}

/// Whether a line is a traceback's `File "train.py", line 7, in main`, behind which the source stands (CPython's
/// traceback.py, `StackSummary.format_frame_summary`).
fn names_source(line: &str) -> bool {
    line.split_once("File \"")
        .and_then(|(_, rest)| rest.split_once("\", line "))
        .is_some_and(|(_, number)| number.starts_with(|first: char| first.is_ascii_digit()))
}

fn without_rank(line: &str) -> &str {
    line.strip_prefix("[rank").and_then(|rest| rest.split_once("]: ")).map_or(line, |(_, rest)| rest)
}

/// `ValueError: no such data`, `torch.cuda.OutOfMemoryError: …`, `KeyboardInterrupt`.
fn exception(line: &str) -> Option<String> {
    let name = line.split_once(':').map_or(line, |(name, _)| name);
    let is_name = |name: &str| {
        let first = name.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_');
        first && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    if !name.split('.').all(is_name) {
        return None;
    }
    let end = (0..=MOST.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    Some(line[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::TracebackReader;

    /// As CPython 3.11 and torchrun 2.9 write them.
    #[test]
    fn the_last_exception_is_the_run_s() {
        let mut reader = TracebackReader::default();
        let lines = [
            "step 14 loss 2.1",
            "[rank0]: Traceback (most recent call last):",
            "[rank0]:   File \"train.py\", line 7, in <module>",
            "[rank0]:     main()",
            "[rank0]: KeyError: 'labels'",
            "During handling of the above exception, another exception occurred:",
            "",
            "Traceback (most recent call last):",
            "  File \"train.py\", line 9, in <module>",
            "    raise RuntimeError(\"no data\")",
            "RuntimeError: no data: shard 7",
        ];
        let ended: Vec<usize> = (0..lines.len()).filter(|at| reader.read(lines[*at])).collect();
        assert_eq!(ended, [4, 10]);
        assert_eq!(reader.exception(), Some("RuntimeError: no data: shard 7"));
        reader.forget();
        assert_eq!(reader.exception(), None);
    }

    #[test]
    fn what_is_no_exception_is_none() {
        let mut reader = TracebackReader::default();
        for line in
            ["ValueError: no traceback before it", "Traceback (most recent call last):", "step 15: loss 2.0, fine"]
        {
            assert!(!reader.read(line), "{line}");
        }
        assert_eq!(reader.exception(), None);
    }
}
