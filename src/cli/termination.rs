//! The signals that end a program, unless it listens to them.

use std::future::pending;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use super::Failure;
use super::signals::{is_ignored, unheard};

/// A file has reached the size that its user may write (SIGXFSZ on Linux). Listened to, the
/// write fails with its reason instead of ending the program.
const FILE_TOO_LARGE: i32 = 25;

/// The numbers of those that end a program that does not listen to them. What tells of a fault of the program (SEGV,
/// BUS, ILL, FPE, SYS, TRAP) is not among them: after those nothing may go on.
pub const ENDING: [i32; 13] = [
    Signal::HUP.as_raw(),
    Signal::INT.as_raw(),
    Signal::QUIT.as_raw(),
    Signal::ABORT.as_raw(),
    Signal::USR1.as_raw(),
    Signal::USR2.as_raw(),
    Signal::ALARM.as_raw(),
    Signal::TERM.as_raw(),
    Signal::XCPU.as_raw(),
    Signal::VTALARM.as_raw(),
    Signal::PROF.as_raw(),
    Signal::IO.as_raw(),
    Signal::POWER.as_raw(),
];

/// Waits for them, from the moment that it exists: none ends the program by itself any more. One that was ignored when
/// the program started stays so: `nohup` is asked for by whoever wants no hangup to end it.
pub struct TerminationSignals {
    signals: Vec<unix::Signal>,
    /// Kept, never waited for.
    _file_too_large: unix::Signal,
}

impl TerminationSignals {
    /// Must be called inside a runtime.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| unheard(&error));
        let kinds = ENDING.into_iter().filter(|number| !is_ignored(*number)).map(SignalKind::from_raw);
        let signals = kinds.map(listen);
        Ok(Self {
            signals: signals.collect::<Result<_, _>>()?,
            _file_too_large: listen(SignalKind::from_raw(FILE_TOO_LARGE))?,
        })
    }

    /// Returns when one has come.
    pub async fn asked(&mut self) {
        if self.signals.is_empty() {
            return pending().await;
        }
        futures::future::select_all(self.signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }
}
