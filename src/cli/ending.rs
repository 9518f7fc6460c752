//! The signals that ask a program to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A file has reached the size that its user may write (SIGXFSZ on Linux). Listened to, the
/// write fails with its reason instead of ending the program.
const FILE_TOO_LARGE: i32 = 25;

/// Waits for them, from the moment that it exists: none ends the program by itself any more.
pub struct Ending {
    signals: [Signal; 3],
    /// Kept, never waited for.
    _file_too_large: Signal,
}

impl Ending {
    /// Must be called inside a runtime.
    pub fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("signals cannot be received: {error}"));
        let signals =
            [listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?, listen(SignalKind::hangup())?];
        Ok(Self { signals, _file_too_large: listen(SignalKind::from_raw(FILE_TOO_LARGE))? })
    }

    /// Returns when one has come.
    pub async fn asked(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
