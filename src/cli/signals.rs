//! Signals for a command that runs under this program: which there are, which the whole process group has received,
//! and which were ignored at the start.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal as Number;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::{Exit, Failure, Streams};

/// The argument that makes this program report signals of its group: see [`GroupSignals`].
pub const REPORTER: &str = "report-group-signals";

/// Within so long the reporter has told of a signal that its group received: both receive it at the same time.
const REPORT: Duration = Duration::from_millis(250);

/// A report that is older belongs to an earlier signal.
const STALE: Duration = Duration::from_secs(1);

/// The signals that a command is sent on purpose.
const FORWARDED: [(Number, i32); 6] = [
    (Number::INT, Number::INT.as_raw()),
    (Number::TERM, Number::TERM.as_raw()),
    (Number::HUP, Number::HUP.as_raw()),
    (Number::QUIT, Number::QUIT.as_raw()),
    (Number::USR1, Number::USR1.as_raw()),
    (Number::USR2, Number::USR2.as_raw()),
];

/// What is said where the system passes no signals on.
pub fn unheard(error: &io::Error) -> Failure {
    Failure::failed(format!("signals cannot be received: {error}"))
}

/// Whether this process was started with that signal ignored, as `nohup` and a script's `trap '' HUP` do. Such a
/// signal stays ignored: a handler in its place would end it for the command as well.
pub fn is_ignored(number: i32) -> bool {
    // Read once: every signal is asked for at each start, and the system writes the whole page each time.
    static IGNORED: OnceLock<u64> = OnceLock::new();
    let status = || procfs::process::Process::myself().and_then(|me| me.status());
    let ignored = IGNORED.get_or_init(|| status().map_or(0, |status| status.sigign));
    (ignored >> (number - 1)) & 1 == 1
}

/// Waits for the signals of [`FORWARDED`], from the moment that it exists.
pub struct Signals {
    each: Vec<(Number, Signal)>,
}

impl Signals {
    /// Must be called inside a runtime.
    ///
    /// # Errors
    /// Where the system gives none.
    pub fn listen() -> Result<Self, Failure> {
        let wanted = FORWARDED.into_iter().filter(|(_, raw)| !is_ignored(*raw));
        let each: io::Result<Vec<_>> =
            wanted.map(|(number, raw)| Ok((number, signal(SignalKind::from_raw(raw))?))).collect();
        each.map(|each| Self { each }).map_err(|error| unheard(&error))
    }

    /// The next one that comes.
    pub async fn next(&mut self) -> Number {
        if self.each.is_empty() {
            return std::future::pending().await;
        }
        let waiting = self.each.iter_mut().map(|(number, signal)| {
            Box::pin(async {
                signal.recv().await;
                *number
            })
        });
        futures::future::select_all(waiting).await.0
    }
}

/// Tells signals that the whole process group received from those that were sent to this process alone.
///
/// A process cannot see which of both a signal was. So there is a second one in the group, which is sent nothing by
/// itself: what it reports, the group received, the command among it, and passing it on would count it twice.
pub struct GroupSignals {
    reporter: Child,
    reports: UnboundedReceiver<(i32, Instant)>,
    known: Vec<(i32, Instant)>,
}

impl GroupSignals {
    /// Starts the reporter; none where that is not possible.
    pub fn watch() -> Option<Self> {
        // The link leads to this program also where another version has replaced its file.
        let mut command = Command::new("/proc/self/exe");
        command.arg(REPORTER).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut reporter = command.spawn().ok()?;
        let Some(mut output) = reporter.stdout.take() else {
            end(&mut reporter);
            return None;
        };
        let mut ready = [0];
        if output.read_exact(&mut ready).is_err() {
            end(&mut reporter);
            return None;
        }
        let (sender, reports) = unbounded_channel();
        let read = move || {
            let mut byte = [0];
            while output.read_exact(&mut byte).is_ok() && sender.send((i32::from(byte[0]), Instant::now())).is_ok() {}
        };
        if thread::Builder::new().name("group".to_owned()).spawn(read).is_err() {
            end(&mut reporter);
            return None;
        }
        Some(Self { reporter, reports, known: Vec::new() })
    }

    /// Whether the group has received that signal, which this process just did; none where nobody can tell any more.
    pub async fn has_received(&mut self, number: Number) -> Option<bool> {
        let now = Instant::now();
        self.known.retain(|(_, at)| now.duration_since(*at) < STALE);
        let reported = async {
            loop {
                if let Some(at) = self.known.iter().position(|(raw, _)| *raw == number.as_raw()) {
                    self.known.remove(at);
                    return Some(true);
                }
                let report = self.reports.recv().await?;
                if now.saturating_duration_since(report.1) < STALE {
                    self.known.push(report);
                }
            }
        };
        timeout(REPORT, reported).await.unwrap_or(Some(false))
    }
}

impl Drop for GroupSignals {
    fn drop(&mut self) {
        end(&mut self.reporter);
    }
}

/// Ends the reporter, stopped or not, and waits for it.
fn end(reporter: &mut Child) {
    // It has ended already: nothing to do.
    drop(reporter.kill());
    drop(reporter.wait());
}

/// The reporter: a byte when it listens, then the number of each signal that it receives, until nobody holds its
/// input open any more.
pub fn report(streams: &mut Streams<'_>) -> Exit {
    let until_closed = || {
        drop(io::copy(&mut io::stdin(), &mut io::sink()));
        std::process::exit(0);
    };
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return Exit::Failed };
    runtime.block_on(async {
        let Ok(mut signals) = Signals::listen() else { return Exit::Failed };
        if thread::Builder::new().spawn(until_closed).is_err() || tell(streams.out, 0).is_err() {
            return Exit::Failed;
        }
        loop {
            let number = signals.next().await;
            if tell(streams.out, u8::try_from(number.as_raw()).unwrap_or(0)).is_err() {
                return Exit::Failed;
            }
        }
    })
}

fn tell(out: &mut dyn Write, byte: u8) -> io::Result<()> {
    out.write_all(&[byte])?;
    out.flush()
}
