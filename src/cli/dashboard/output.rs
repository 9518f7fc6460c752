//! What is written to the terminal, on a thread of its own: a terminal that nobody reads keeps nobody waiting. Frames are
//! not queued: the next one is drawn when the terminal has shown the one before.

use std::fs::File;
use std::future::pending;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::stdout;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::input::ASK;

/// After so many bytes the terminal is asked whether it has shown them: what lies on a slow link is a fraction of a
/// second.
const ASK_AFTER: usize = 2048;

/// A terminal that has answered before has lost a question when it does not answer within this time.
const LOST: Duration = Duration::from_secs(5);

/// Whether a terminal answers at all is not known before its first answer. For so long it is taken for one at the end
/// of a slow line, and gets frames that far apart: more would only lie on the line.
const GUESSED: Duration = Duration::from_secs(2);
const APART: Duration = Duration::from_millis(300);

/// How long leaving waits for the terminal, twice at most.
const PATIENCE: Duration = Duration::from_millis(350);

/// What waits beside the frames, such as the bells of alerts, is no more than this.
const MOST_WAITING: usize = 1 << 14;

/// The terminal's end for what is written.
pub struct Output {
    chunks: std_mpsc::Sender<Chunk>,
    /// The thread leaves what it is at, and all before the last bytes.
    cut: Arc<AtomicBool>,
    written: mpsc::Receiver<io::Result<()>>,
    answers: mpsc::Receiver<()>,
    /// Waits for the next frame, or until the terminal is ready.
    waiting: Vec<u8>,
    pace: Pace,
}

/// Whether the terminal is ready for more.
#[derive(Debug, Default)]
struct Pace {
    /// What the thread has been given and has not written yet.
    writing: usize,
    /// When it was asked what it has not answered.
    asked: Option<Instant>,
    /// It has ever answered: it is worth waiting for.
    answers: bool,
    unasked: usize,
    /// Until then nothing more is written to a terminal that has not answered yet.
    paused: Option<Instant>,
}

impl Pace {
    const fn is_ready(&self) -> bool {
        self.writing == 0 && !(self.answers && self.asked.is_some()) && self.paused.is_none()
    }

    /// Whether to ask along with that many bytes.
    fn write(&mut self, bytes: usize, now: Instant) -> bool {
        self.writing += 1;
        self.unasked += bytes;
        let asks = self.asked.is_none() && self.unasked >= ASK_AFTER;
        if asks {
            (self.asked, self.unasked) = (Some(now), 0);
        }
        let guesses = !self.answers && self.asked.is_some_and(|asked| now < asked + GUESSED);
        self.paused = guesses.then(|| now + APART);
        asks
    }

    fn on_answer(&mut self) {
        (self.asked, self.answers, self.paused) = (None, true, None);
    }

    /// When a question is given up, or a pause is over.
    fn due(&self) -> Option<Instant> {
        self.paused.or(self.asked.filter(|_| self.answers).map(|asked| asked + LOST))
    }

    /// That time has come.
    fn go_on(&mut self) {
        if self.paused.take().is_none() {
            self.asked = None;
        }
    }
}

impl Output {
    /// Starts the thread. The terminal's answers to [`ASK`] come in `answers`.
    ///
    /// # Errors
    /// Where the system gives no thread or no descriptor.
    pub fn start(answers: mpsc::Receiver<()>) -> io::Result<Self> {
        // A descriptor of its own: standard output is not the terminal's while libraries may write to it.
        let mut terminal = File::from(fcntl_dupfd_cloexec(stdout(), 3)?);
        let (chunks, coming) = std_mpsc::channel::<Chunk>();
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = Arc::clone(&cut);
        let (done, written) = mpsc::channel(1);
        thread::Builder::new().name("screen".to_owned()).spawn(move || {
            while let Ok(Chunk { bytes, is_last }) = coming.recv() {
                if is_last {
                    is_cut.store(false, Ordering::Relaxed);
                }
                if done.blocking_send(write_all(&mut terminal, &bytes, &is_cut)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { chunks, cut, written, answers, waiting: Vec::new(), pace: Pace::default() })
    }

    /// Whether a frame that is drawn now is shown soon.
    pub const fn is_ready(&self) -> bool {
        self.pace.is_ready()
    }

    /// Whether [`Self::turn`] has anything to wait for.
    pub const fn is_under_way(&self) -> bool {
        self.pace.writing > 0 || self.pace.asked.is_some() || self.pace.paused.is_some()
    }

    /// Sends what does not belong to a frame, now or with the next.
    pub fn send(&mut self, bytes: &[u8]) {
        if self.waiting.len() + bytes.len() <= MOST_WAITING {
            self.waiting.extend_from_slice(bytes);
        }
        self.send_waiting();
    }

    fn send_waiting(&mut self) {
        if self.is_ready() && !self.waiting.is_empty() {
            self.write(&[]);
        }
    }

    /// Writes a frame, after what waits.
    pub fn write(&mut self, frame: &[u8]) {
        self.pass_on(frame, false);
    }

    fn pass_on(&mut self, frame: &[u8], is_last: bool) {
        let mut bytes = std::mem::take(&mut self.waiting);
        bytes.extend_from_slice(frame);
        if self.pace.write(bytes.len(), Instant::now()) {
            bytes.extend_from_slice(ASK.as_bytes());
        }
        // The thread ends with this value, or after a fault that `turn` tells.
        drop(self.chunks.send(Chunk { bytes, is_last }));
    }

    /// Returns when the terminal has got further. Cancelled, nothing is lost.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn turn(&mut self) -> io::Result<()> {
        let due = self.pace.due();
        let due = async {
            match due {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            written = self.written.recv(), if self.pace.writing > 0 => {
                self.pace.writing = self.pace.writing.saturating_sub(1);
                written.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))?;
            }
            Some(()) = self.answers.recv() => self.pace.on_answer(),
            () = due => self.pace.go_on(),
        }
        self.send_waiting();
        Ok(())
    }

    /// Waits until the terminal has shown what was on its way and has answered, but not for one that nobody reads.
    pub async fn settle(&mut self) {
        drop(timeout(PATIENCE, self.idle()).await);
    }

    /// Writes the last bytes. False: a write is stuck that only the end of this process ends.
    pub async fn end(&mut self, last: &[u8]) -> bool {
        if self.pace.writing > 0 {
            // Whoever is stuck in a write comes out of it and writes no more of that; what cuts a sequence off ends it.
            self.cut.store(true, Ordering::Relaxed);
            let _ = tcflush(stdout(), QueueSelector::OFlush);
            self.waiting = b"\x18".to_vec();
        }
        self.pass_on(last, true);
        let is_written = timeout(PATIENCE, self.written_all()).await.is_ok();
        self.pace = Pace { answers: self.pace.answers, ..Pace::default() };
        is_written
    }

    /// Waits until everything is written, but not for a terminal that nobody reads. Nothing is written after that.
    pub fn rest(&mut self) {
        (self.chunks, _) = std_mpsc::channel();
        let start = std::time::Instant::now();
        let gone = Err(mpsc::error::TryRecvError::Disconnected);
        while start.elapsed() < PATIENCE && self.written.try_recv().map(drop) != gone {
            thread::sleep(Duration::from_millis(1));
        }
    }

    async fn written_all(&mut self) {
        while self.pace.writing > 0 && self.written.recv().await.is_some() {
            self.pace.writing -= 1;
        }
    }

    async fn idle(&mut self) -> io::Result<()> {
        while !self.is_ready() {
            self.turn().await?;
        }
        Ok(())
    }
}

/// What the thread writes.
struct Chunk {
    bytes: Vec<u8>,
    /// It is written whatever was cut off before it.
    is_last: bool,
}

/// Bytes of one write: no more are left to one that is stuck when the rest is given up.
const PIECE: usize = 4096;

/// Writes until all is written or the rest is given up. Another program that has the same terminal may want that no write waits.
fn write_all(terminal: &mut File, mut bytes: &[u8], is_cut: &AtomicBool) -> io::Result<()> {
    while !bytes.is_empty() && !is_cut.load(Ordering::Relaxed) {
        match terminal.write(&bytes[..bytes.len().min(PIECE)]) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_waited_for_and_who_never_does_is_not() {
        let now = Instant::now();
        let mut pace = Pace::default();
        assert!(pace.write(ASK_AFTER, now), "a whole screen asks");
        assert!(!pace.is_ready(), "not written yet");
        pace.writing = 0;
        assert!(!pace.is_ready(), "nobody knows yet whether it answers: a pause");
        assert_eq!(pace.due(), Some(now + APART));
        pace.go_on();
        assert!(pace.is_ready(), "the pause is over");
        assert!(!pace.write(ASK_AFTER, now + GUESSED), "one question at a time");
        pace.writing = 0;
        assert!(pace.is_ready(), "it does not answer: no more pauses");
        pace.on_answer();
        assert!(pace.is_ready());
        assert!(pace.write(1, now), "what was not asked for counts");
        pace.writing = 0;
        assert!(!pace.is_ready(), "it answers: it has not shown that yet");
        assert_eq!(pace.due(), Some(now + LOST));
        pace.on_answer();
        assert!(!pace.write(200, now), "a small frame asks nothing");
        pace.writing = 0;
        assert!(pace.is_ready());
    }
}
