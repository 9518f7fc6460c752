//! Progress from a run's log: standard output and error where they are files, what TensorBoard and W&B write beside
//! them, or a file or folder that the user names.

mod events;
mod facts;
mod figures;
mod follow;
mod formats;
mod header;
mod lines;
mod micro;
mod outputs;
mod own;
mod stamp;
mod traceback;
mod tracker;

use std::path::{Path, PathBuf};

use events::{EventDecoder, EventRow, EventSource};
use facts::LineFormat;
use figures::NumberStyle;
use follow::{Follower, LogContinuity, LogPiece};
use header::HeaderReader;
use lines::LineSplitter;
use outputs::outputs;
use traceback::TracebackReader;
use tracker::{LineTime, Tracker};

pub use tracker::LossTurn;

pub use formats::{CustomPattern as Pattern, PatternError};

use crate::out_of_memory;
use crate::reading::{Absence, LogFormat, Moment, OutOfMemory, Progress, ProgressSource};

/// Files of events are looked for this often, in milliseconds: a run begins another.
const EVENTS_EVERY: u64 = 10_000;

/// What Python writes to a file at a time (`io.DEFAULT_BUFFER_SIZE`).
const BLOCK: usize = 8192;

/// Reads one or more logs of a run on and on.
pub struct Log {
    files: Vec<(Follower, LineSplitter)>,
    /// The file of events: read where no line tells a step.
    events: Option<(Follower, EventDecoder)>,
    /// Where such files are looked for.
    source: Option<EventSource>,
    /// When they were looked for last.
    sought: Option<Moment>,
    /// Why there are no lines.
    no_lines: Option<Absence>,
    formats: Vec<Box<dyn LineFormat>>,
    /// What the newest line of a framework was, tried first.
    likely: usize,
    tracker: Tracker,
    header: HeaderReader,
    numbers: NumberStyle,
    out_of_memory: Option<OutOfMemory>,
    traceback: TracebackReader,
    trouble: Option<Absence>,
    /// Something stood in a file.
    written: bool,
    /// A framework that is known has written.
    sure: bool,
    /// A line has told a step.
    lines_count: bool,
    /// The run has ended that told the last step, and none has told one since.
    between_runs: bool,
}

impl Log {
    /// The log at a path: of lines, of events, or the newest file of events in a folder.
    #[must_use]
    pub fn at(path: PathBuf, own: Option<Pattern>) -> Self {
        if let Some(decoder) = EventDecoder::of(&path) {
            let events = Some((Follower::new(path), decoder));
            return Self { events, ..Self::of_files(Vec::new(), own) };
        }
        if path.is_dir() {
            let none = "no file of TensorBoard's or W&B's in that folder so far";
            let (source, no_lines) = (Some(EventSource::Folder(path)), Some(Absence::Because(none.into())));
            return Self { source, no_lines, ..Self::of_files(Vec::new(), own) };
        }
        Self::of_files(vec![path], own)
    }

    /// The logs at these paths, all of lines; with the user's own pattern, those that it matches come before all others.
    #[must_use]
    pub fn of_files(paths: Vec<PathBuf>, own: Option<Pattern>) -> Self {
        Self::of_followers(paths.into_iter().map(Follower::new), own)
    }

    fn of_followers(files: impl Iterator<Item = Follower>, own: Option<Pattern>) -> Self {
        let mut formats = formats::all();
        if let Some(own) = own {
            formats.insert(0, Box::new(own));
        }
        let files = files.map(|file| (file, LineSplitter::default())).collect();
        Self {
            files,
            events: None,
            source: None,
            sought: None,
            no_lines: None,
            formats,
            likely: 0,
            tracker: Tracker::default(),
            header: HeaderReader::default(),
            numbers: NumberStyle::default(),
            out_of_memory: None,
            traceback: TracebackReader::default(),
            trouble: None,
            written: false,
            sure: false,
            lines_count: false,
            between_runs: false,
        }
    }

    /// Standard output and error of a process, as far as they are files and it may have written them, and its files of
    /// events.
    ///
    /// # Errors
    /// Why there is no log: no permission, no such process.
    pub fn of_process(pid: u32, own: Option<Pattern>) -> Result<Self, Absence> {
        let proc = Path::new("/proc");
        let (paths, no_lines) = match outputs(proc, pid) {
            Ok(paths) => (paths, None),
            Err(why @ Absence::Because(_)) => (Vec::new(), Some(why)),
            Err(why) => return Err(why),
        };
        let follower = |path: PathBuf| {
            let most = own::own_bytes(proc, pid, &path);
            Follower::of_last(path, most)
        };
        let files = paths.into_iter().map(follower);
        Ok(Self { source: Some(EventSource::Process(pid)), no_lines, ..Self::of_followers(files, own) })
    }

    /// Reads on. Whether anything new was told.
    pub fn read(&mut self, now: Moment) -> bool {
        self.trouble = None;
        self.tracker.look(now);
        let told = self.read_lines(now);
        // Lines tell more, and first; two counts of one run do not join.
        if self.lines_count {
            self.events = None;
            return told;
        }
        self.seek_events(now);
        self.read_events(now) || told
    }

    fn seek_events(&mut self, now: Moment) {
        let due = self.sought.is_none_or(|at| now.0.saturating_sub(at.0) >= EVENTS_EVERY);
        let Some(source) = self.source.as_ref().filter(|_| due) else { return };
        self.sought = Some(now);
        let Some(newest) = source.newest() else { return };
        if self.events.as_ref().is_none_or(|(follower, _)| follower.path() != newest) {
            self.events = EventDecoder::of(&newest).map(|decoder| (Follower::new(newest), decoder));
        }
    }

    fn read_events(&mut self, now: Moment) -> bool {
        let Some((mut follower, mut decoder)) = self.events.take() else {
            self.trouble = self.trouble.take().or_else(|| self.no_lines.clone());
            return false;
        };
        let mut told = false;
        match follower.read() {
            Ok(Some(piece)) => {
                self.begin(&piece);
                let format = decoder.format();
                decoder.push(&piece, |row| told |= self.event(format, &row, &piece, now));
            }
            Ok(None) => {}
            Err(why) => self.trouble = Some(why),
        }
        self.events = Some((follower, decoder));
        told
    }

    fn event(&mut self, format: LogFormat, row: &EventRow, piece: &LogPiece, now: Moment) -> bool {
        let Some(facts) = formats::facts(&row.fields) else { return false };
        let written = row.stamp.map_or(piece.written, Moment);
        self.tracker.take(format, &facts, LineTime { at: written.min(now), stamp: row.stamp, live: !piece.old });
        true
    }

    /// What is told from here on does not join what was told before, but where the piece goes on right behind it.
    fn begin(&mut self, piece: &LogPiece) {
        if piece.from != LogContinuity::Before {
            self.tracker.begin_anew();
        }
        self.written |= !piece.bytes.is_empty();
    }

    fn read_lines(&mut self, now: Moment) -> bool {
        let mut told = false;
        for at in 0..self.files.len() {
            let piece = match self.files[at].0.read() {
                Ok(None) => continue,
                Ok(Some(piece)) => piece,
                Err(why) => {
                    self.trouble = Some(why);
                    continue;
                }
            };
            let mut lines = match piece.from {
                LogContinuity::Before => std::mem::take(&mut self.files[at].1),
                LogContinuity::Start => LineSplitter::default(),
                LogContinuity::Within => LineSplitter::headless(),
            };
            self.begin(&piece);
            told |= self.read_head(at, &piece);
            let when = if piece.old { piece.written.min(now) } else { now };
            let (head, block) = piece.bytes.split_at(piece.bytes.len().saturating_sub(BLOCK));
            lines.push(head, |line| told |= self.line(line, when, !piece.old));
            let before = self.tracker.progress().step.value().copied();
            lines.push(block, |line| told |= self.line(line, when, !piece.old));
            if piece.old && block.last().is_some_and(|last| !matches!(last, b'\n' | b'\r' | b']')) {
                // It ends within a line: whole blocks are written, and the next one comes as late.
                self.tracker.comes_in_blocks(before);
            }
            // A bar's newest state has no end before it is drawn again; other lines are waited for.
            lines.unfinished(|line| told |= is_whole_bar(line) && self.line(line, when, !piece.old));
            self.files[at].1 = lines;
        }
        told
    }

    /// What stands at the beginning of a file of which the end alone is read.
    fn read_head(&mut self, at: usize, piece: &LogPiece) -> bool {
        // Standard output and error both begin as somebody attaches: one run states its settings in either.
        if piece.from == LogContinuity::Start && !piece.old {
            self.header.begin_anew();
        }
        if piece.from != LogContinuity::Within || !piece.old || self.files[at].0.follows_another() {
            return false;
        }
        let (mut lines, mut told) = (LineSplitter::default(), false);
        lines.push(&self.files[at].0.head(), |line| told |= self.header.read(line));
        self.tracker.state(self.header.stated());
        told
    }

    fn line(&mut self, line: &str, at: Moment, live: bool) -> bool {
        let stated = self.header.read(line);
        if stated {
            self.tracker.state(self.header.stated());
        }
        self.step_line(line, at, live) || stated
    }

    fn step_line(&mut self, line: &str, at: Moment, live: bool) -> bool {
        // A traceback shows the source of each line that it came through, what that may say included.
        let is_source = self.traceback.shows_source();
        let ended = self.traceback.read(line);
        if let Some(message) = out_of_memory::find(line).filter(|found| !is_source && found.ends_runs()) {
            // The driver's refusals that follow a message with figures are its consequences.
            let told = self.out_of_memory.as_ref().is_some_and(OutOfMemory::has_figures);
            if !told || message.has_figures() {
                self.out_of_memory = Some(message);
            }
            return true;
        }
        let plain = self.numbers.plain(line);
        let likely = self.likely;
        let others = (0..self.formats.len()).filter(|other| *other != likely);
        let order = std::iter::once(likely).chain(others);
        let sure = self.sure;
        let found = order
            .into_iter()
            .filter(|at| !sure || self.formats[*at].name().is_sure())
            .collect::<Vec<_>>()
            .into_iter()
            .find_map(|at| {
                let format = &mut self.formats[at];
                let text = if format.reads_as_written() { line } else { &plain };
                Some((at, format.read(text)?))
            });
        let Some((format, facts)) = found else { return ended };
        // Where a framework writes, other lines of it are its evaluations and summaries.
        self.sure |= self.formats[format].name().is_sure();
        self.likely = format;
        self.numbers.keep();
        if facts.step.is_some() {
            self.traceback.forget();
        }
        if facts.step.is_some() && (!live || std::mem::take(&mut self.between_runs)) {
            // What is read of the past went on after it: another attempt, or a script that catches it.
            self.out_of_memory = None;
        }
        let name = self.formats[format].name();
        if self.format().is_some_and(LogFormat::is_events) {
            if facts.step.is_none() {
                // Files of events count: a line that does not adds nothing to them.
                return false;
            }
            // By another clock.
            self.tracker.begin_anew();
        }
        self.lines_count |= facts.step.is_some();
        self.tracker.take(name, &facts, LineTime { at, stamp: stamp::stamp(line), live });
        true
    }

    /// What the lines so far tell.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        self.tracker.progress()
    }

    /// A line that came by another way than a file, now.
    pub fn take_line(&mut self, line: &str, now: Moment) {
        self.line(line, now, true);
    }

    /// Where the loss became no number, if it is none since.
    #[must_use]
    pub const fn loss_turned(&self) -> Option<LossTurn> {
        self.tracker.loss_turned()
    }

    /// What was told so far is of a run that has ended: another one may write here from now on. How that one failed stays
    /// known until then.
    pub fn begin_run(&mut self) {
        self.tracker = Tracker::default();
        self.header = HeaderReader::default();
        (self.lines_count, self.sure, self.between_runs) = (false, false, true);
    }

    /// Whether the run has ended that told the last step, and none has told one since.
    #[must_use]
    pub const fn is_between_runs(&self) -> bool {
        self.between_runs
    }

    /// When one of its files was written to last.
    #[must_use]
    pub fn written(&self) -> Option<std::time::SystemTime> {
        self.paths().filter_map(|path| std::fs::metadata(path).ok()?.modified().ok()).max()
    }

    /// What was read so far says nothing of this run's loss: another one wrote it.
    pub const fn forget_losses(&mut self) {
        self.tracker.forget_losses();
    }

    /// Whose lines they are, once known.
    #[must_use]
    pub fn format(&self) -> Option<LogFormat> {
        match self.progress().told_by {
            ProgressSource::Log(format) => Some(format),
            _ => None,
        }
    }

    /// Whether nothing was written to any file so far.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.written
    }

    /// Whether nothing was written but by an earlier run.
    #[must_use]
    pub fn follows_another(&self) -> bool {
        !self.written && self.files.iter().any(|(follower, _)| follower.follows_another())
    }

    /// The newest out-of-memory message: of the past none where the run went on after it.
    #[must_use]
    pub const fn out_of_memory(&self) -> Option<&OutOfMemory> {
        self.out_of_memory.as_ref()
    }

    /// The exception of the newest traceback: none where the run went on after it.
    #[must_use]
    pub fn exception(&self) -> Option<&str> {
        self.traceback.exception()
    }

    /// Why a file could not be read at the last look.
    #[must_use]
    pub const fn trouble(&self) -> Option<&Absence> {
        self.trouble.as_ref()
    }

    /// The files that are followed.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let events = self.events.iter().map(|(follower, _)| follower.path());
        self.files.iter().map(|(follower, _)| follower.path()).chain(events)
    }
}

fn is_whole_bar(line: &str) -> bool {
    line.trim_end().ends_with(']') && ["%|", "it/s", "s/it"].iter().any(|part| line.contains(part))
}
