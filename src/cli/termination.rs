//! The signals that ask a program to end.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::signals::is_ignored;

/// A file has reached the size that its user may write (SIGXFSZ on Linux). Listened to, the
/// write fails with its reason instead of ending the program.
const FILE_TOO_LARGE: i32 = 25;

/// Waits for them, from the moment that it exists: none ends the program by itself any more. One that was ignored when
/// the program started stays so: `nohup` is asked for by whoever wants no hangup to end it.
pub struct TerminationSignals {
    signals: Vec<Signal>,
    /// Kept, never waited for.
    _file_too_large: Signal,
}

impl TerminationSignals {
    /// Must be called inside a runtime.
    pub fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("signals cannot be received: {error}"));
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let signals = kinds.into_iter().filter(|kind| !is_ignored(kind.as_raw_value())).map(listen);
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
