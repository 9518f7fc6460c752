//! What a terminal has been told so far and what it shows of it, shared between the threads that
//! read and the test that waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use portable_pty::ExitStatus;

use super::standin::DEADLINE;

/// Every frame that was shown, as text.
#[derive(Default)]
pub struct Frames {
    /// A frame has begun and not ended.
    pub drawing: bool,
    /// The whole ones.
    pub shown: Vec<String>,
}

impl vt100::Callbacks for Frames {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        end: char,
    ) {
        // Synchronized output: the terminal shows nothing between these two.
        if first == Some(b'?') && params == [&[2026]] {
            self.drawing = end == 'h';
            if end == 'l' {
                self.shown.push(screen.contents());
            }
        }
    }
}

/// What came from the program.
pub struct Seen {
    pub parser: vt100::Parser<Frames>,
    pub raw: Vec<u8>,
    /// Nothing more comes.
    pub closed: bool,
    /// Nobody looks any more.
    pub hung_up: bool,
    /// Nobody looks for now.
    pub unread: bool,
    /// How it ended.
    pub status: Option<ExitStatus>,
}

impl Seen {
    pub fn text(&self) -> String {
        self.parser.screen().contents()
    }

    pub fn frames(&self) -> &Frames {
        self.parser.callbacks()
    }

    fn ended(&self) -> bool {
        self.closed && self.status.is_some()
    }
}

/// [`Seen`], and who waits for it to change.
pub struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Shared {
    pub fn new(parser: vt100::Parser<Frames>) -> Self {
        let seen = Seen { parser, raw: Vec::new(), closed: false, hung_up: false, unread: false, status: None };
        Self { seen: Mutex::new(seen), changed: Condvar::new() }
    }

    pub fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Bytes reach the terminal; whether a question was among them that it answers (DSR 5).
    pub fn show(&self, bytes: &[u8]) -> bool {
        let mut seen = self.lock();
        let before = seen.raw.len().saturating_sub(3);
        seen.raw.extend_from_slice(bytes);
        seen.parser.process(bytes);
        let asked = seen.raw[before..].windows(4).any(|window| window == b"\x1b[5n");
        drop(seen);
        self.changed.notify_all();
        asked
    }

    /// Waits until somebody looks.
    pub fn hold(&self) {
        let mut seen = self.lock();
        while seen.unread {
            seen = self.changed.wait(seen).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What `found` finds, as soon as it finds something. Fails when it has not in time, or when
    /// nothing can come any more.
    pub fn wait<T>(&self, what: &str, mut found: impl FnMut(&Seen) -> Option<T>) -> T {
        let start = Instant::now();
        let mut seen = self.lock();
        loop {
            if let Some(found) = found(&seen) {
                return found;
            }
            let left = DEADLINE.checked_sub(start.elapsed());
            match left {
                Some(left) if !seen.ended() => {
                    seen = self.changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                _ => {
                    let (text, status, frames) = (seen.text(), seen.status.clone(), seen.frames().shown.len());
                    drop(seen);
                    let state = status.map_or("it runs".to_owned(), |status| format!("it ended: {status}"));
                    panic!("waited for {what}; {state}; {frames} frames; the screen is\n{text}\n");
                }
            }
        }
    }
}
