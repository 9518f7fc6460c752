//! Where a command reads and writes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::args::ReportFormat;
use super::{Exit, Failure};
use crate::files;
use crate::plan::{self, reason};
use crate::printable::printable;
use crate::report::page::{Page, USUAL, comments_within, prose};

/// The standard streams, passed in so that a command can be run without a process.
pub struct Streams<'a> {
    /// Standard input.
    pub input: &'a mut (dyn Read + Send),
    /// Standard output.
    pub out: &'a mut (dyn Write + Send),
    /// Standard error.
    pub err: &'a mut (dyn Write + Send),
}

impl Streams<'_> {
    /// Writes `content`. A reader that has closed its end has seen enough: no fault.
    pub fn print(&mut self, content: impl AsRef<[u8]>) -> Exit {
        let written = self.out.write_all(content.as_ref()).and_then(|()| self.out.flush());
        match written {
            Ok(()) => Exit::Done,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Done,
            Err(error) => self.fail(Exit::Failed, &format!("standard output: {error}")),
        }
    }

    /// One line for a fault, and the exit code that goes with it.
    pub fn fail(&mut self, exit: Exit, message: &str) -> Exit {
        self.note(message);
        exit
    }

    /// How a command ended, with what is still to be said of a failure.
    pub fn end(&mut self, outcome: Result<Exit, Failure>) -> Exit {
        outcome.unwrap_or_else(|failure| {
            failure.lines.iter().for_each(|line| self.note(line));
            failure.exit
        })
    }

    /// One line that is no fault, beside the output.
    pub fn note(&mut self, message: &str) {
        let line = format!("memwall: {}", printable(message.trim_end()));
        // Scripts read a message a line; on a terminal no word is broken.
        // A terminal that nobody looks at, under `script` in a job say, is 0 columns wide.
        let width = io::stderr().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
        let width = width.filter(|(width, _)| *width > 0);
        let line = width.map_or_else(|| format!("{line}\n"), |(width, _)| prose(&line, usize::from(width)));
        // Nobody is left to be told when standard error is closed too.
        let _ = self.err.write_all(line.as_bytes());
    }

    /// Begins a line where what was written before, by others too, may have ended within one: a progress bar.
    pub fn begin_line(&mut self) {
        let stderr = io::stderr();
        let start = if stderr.is_terminal() {
            // Where the cursor is only the terminal knows. As many spaces as it is wide end a line that was begun, and fill
            // one that was not; the carriage return goes to the begin of either (zsh does so before its prompt).
            crossterm::terminal::size()
                .map_or_else(|_| "\n".to_owned(), |(width, _)| format!("{}\r", " ".repeat(width.into())))
        } else if is_at_line_start() {
            String::new()
        } else {
            "\n".to_owned()
        };
        let _ = self.err.write_all(start.as_bytes());
    }

    /// Writes `content` to `file`, which keeps what it had where that fails, or to standard output where none is given.
    pub fn deliver(&mut self, file: Option<&Path>, content: impl AsRef<[u8]>) -> Exit {
        let Some(file) = file else { return self.print(content) };
        // A pipe or a device has no content to keep.
        let written = if fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
            fs::write(file, content).map_err(|error| error.to_string())
        } else {
            plan::save(file, content).map_err(|fault| fault.message)
        };
        match written {
            Ok(()) => Exit::Done,
            Err(why) => self.fail(Exit::Failed, &format!("{}: {why}", file.display())),
        }
    }

    /// The text of a file, or of standard input for `-`.
    ///
    /// # Errors
    /// A file that is not there is bad usage, one that cannot be read a failure.
    pub fn read(&mut self, file: &Path) -> Result<String, Failure> {
        let read = if file == Path::new("-") {
            text_from(&mut *self.input)
        } else {
            files::open_argument(file).and_then(text_from)
        };
        read.map_err(|error| Failure::new(exit_for(&error), format!("{}: {}", file.display(), reason(&error))))
    }
}

/// Whether standard error is a file that is empty or ends with a line. Of a pipe nobody knows what went into it.
fn is_at_line_start() -> bool {
    let end = File::open("/proc/self/fd/2").and_then(|mut file| {
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Ok(meta.file_type().is_char_device());
        }
        if meta.len() == 0 {
            return Ok(true);
        }
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok(last == *b"\n")
    });
    end.unwrap_or(false)
}

/// More than any stream of plans or file of cases; what goes on longer is not one.
const MOST: u64 = 16_000_000;

fn text_from(input: impl Read) -> io::Result<String> {
    files::text_of(files::up_to(input, MOST)?)
}

/// What a file that cannot be read means: a wrong name is bad usage, the rest a failure.
fn exit_for(error: &io::Error) -> Exit {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::InvalidData | ErrorKind::FileTooLarge => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// Whether who reads is to be sent UTF-8, by the first of the variables of the locale that says anything (POSIX Base
/// Definitions, 8.2). Where none does, as in many containers, terminals show it all the same.
pub fn is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let said =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| variable(name).filter(|said| !said.is_empty()));
    let Some(locale) = said else { return true };
    let locale = locale.to_string_lossy().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Where a report goes: to a file, a pipe, or a terminal with its width and colours.
pub fn page(file: Option<&Path>) -> Page {
    // A file is read where it is taken to.
    let ascii = file.is_none() && !is_utf8(|name| std::env::var_os(name));
    if file.is_some() || !io::stdout().is_terminal() {
        return Page { width: columns().unwrap_or(USUAL), colours: false, ascii };
    }
    let width = crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    // https://no-color.org: set and not empty.
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Page { width: width.filter(|width| *width > 0).unwrap_or(USUAL).max(NARROWEST), colours, ascii }
}

/// The width of a list's rows: on a pipe an entry is one line, however long, for `grep` and its like.
pub fn row_width(page: &Page) -> usize {
    const ANY: usize = 1 << 16;
    if io::stdout().is_terminal() || columns().is_some() { page.width } else { ANY }
}

/// A file of YAML as it is read on a terminal, whose width its comments keep; a pipe has it as it is written to files.
pub fn yaml_on_page(yaml: &str) -> String {
    if io::stdout().is_terminal() || columns().is_some() {
        return comments_within(yaml, page(None).width);
    }
    yaml.to_owned()
}

/// Narrower pages would hold less than a word of most reports.
const NARROWEST: usize = 40;

/// `COLUMNS`, for whoever reads a pipe's end at another width.
fn columns() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?.parse::<usize>().ok()?;
    (columns > 0).then_some(columns.max(NARROWEST))
}

/// The format that is asked for, or the one that the output file's extension names.
///
/// # Errors
/// Where the extension names none.
pub fn format(asked: Option<ReportFormat>, output: Option<&Path>) -> Result<ReportFormat, Failure> {
    let extension = output.map(|file| file.extension().unwrap_or_default().to_string_lossy().to_lowercase());
    match (asked, extension.as_deref()) {
        (Some(format), _) => Ok(format),
        (None, None | Some("txt")) => Ok(ReportFormat::Text),
        (None, Some("json" | "jsonl")) => Ok(ReportFormat::Json),
        (None, Some("csv")) => Ok(ReportFormat::Csv),
        (None, Some(other)) => Err(Failure::usage(format!(
            "--output: no format is known by the extension `{other}`: use .txt, .json or .csv; .svg, .png or .pdf for a plot; or --format"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ClosedOutput(ErrorKind);

    impl Write for ClosedOutput {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_fault_and_a_full_disk_is() {
        for (kind, exit, told) in
            [(ErrorKind::BrokenPipe, Exit::Done, ""), (ErrorKind::StorageFull, Exit::Failed, "memwall: ")]
        {
            let mut err = Vec::new();
            let mut streams = Streams { input: &mut io::empty(), out: &mut ClosedOutput(kind), err: &mut err };
            assert_eq!(streams.print("text"), exit);
            assert!(String::from_utf8(err).unwrap().starts_with(told));
        }
    }

    #[test]
    fn the_locale_says_whether_the_terminal_is_sent_unicode() {
        let of = |said: &[(&str, &str)]| {
            is_utf8(|name| said.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)))
        };
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!of(&[("LANG", "POSIX")]));
        assert!(of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(of(&[("LANG", "de_DE.UTF-8")]) && of(&[]));
    }

    #[test]
    fn the_extension_chooses_the_format() {
        assert_eq!(format(None, None), Ok(ReportFormat::Text));
        assert_eq!(format(None, Some(Path::new("a/b.CSV"))), Ok(ReportFormat::Csv));
        assert_eq!(format(Some(ReportFormat::Json), Some(Path::new("b.csv"))), Ok(ReportFormat::Json));
        assert!(format(None, Some(Path::new("b.pdf"))).is_err());
        assert!(format(None, Some(Path::new("b"))).is_err());
    }
}
