//! How far a command is, on a terminal's standard error, once it takes over a second.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Failure, Streams};
use crate::advise::ProgressCounter;

/// What is done within that needs no word.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two lines.
const BETWEEN: Duration = Duration::from_millis(100);

/// A line that counts.
pub struct ProgressLine {
    what: &'static str,
    of: usize,
    done: usize,
    start: Instant,
    last: Option<Instant>,
    shown: bool,
}

impl ProgressLine {
    /// Nothing is done of so many.
    pub fn new(what: &'static str, of: usize) -> Self {
        let shown = io::stderr().is_terminal();
        Self { what, of, done: 0, start: Instant::now(), last: None, shown }
    }

    /// One more begins.
    pub fn tick(&mut self, streams: &mut Streams) {
        self.done += 1;
        self.show(streams);
    }

    fn show(&mut self, streams: &mut Streams) {
        let late = self.start.elapsed() > PATIENCE && self.last.is_none_or(|last| last.elapsed() > BETWEEN);
        if self.shown && late {
            self.last = Some(Instant::now());
            // The line is for the eye; a terminal that takes no more has none.
            let _ = write!(streams.err, "\r\x1b[K{} {} of {}", self.what, self.done, self.of);
            let _ = streams.err.flush();
        }
    }

    /// Takes the line away.
    pub fn clear(&self, streams: &mut Streams) {
        if self.last.is_some() {
            let _ = write!(streams.err, "\r\x1b[K");
        }
    }
}

/// Runs `work` on a thread of its own and shows meanwhile how far it is.
///
/// # Errors
/// If no thread can be started, or the work panics.
pub fn watched<T: Send>(
    what: &'static str,
    work: impl FnOnce(&ProgressCounter) -> T + Send,
    streams: &mut Streams,
) -> Result<T, Failure> {
    let counter = ProgressCounter::default();
    let mut line = ProgressLine::new(what, 0);
    let done = thread::scope(|scope| {
        let (sender, receiver) = channel();
        let counter = &counter;
        let worker = thread::Builder::new()
            .spawn_scoped(scope, move || drop(sender.send(work(counter))))
            .map_err(|error| Failure::failed(format!("no thread for the predictions: {error}")))?;
        loop {
            match receiver.recv_timeout(BETWEEN) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => {
                    (line.done, line.of) = counter.seen();
                    line.show(streams);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    // A panic is told where it happened.
                    drop(worker.join());
                    return Err(Failure::failed("the predictions failed"));
                }
            }
        }
    });
    line.clear(streams);
    done
}
