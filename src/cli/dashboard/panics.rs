//! A panic anywhere ends the dashboard: the terminal is put back first, then the panic is reported.
//!
//! The released program is built to abort on a panic, so nothing is unwound, and no value is dropped after the hook. The
//! loop leaves in order where another thread panicked; where it is the loop itself, or it does not leave, the hook does
//! what is left to do.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use rustix::termios::{Termios, tcgetattr};
use tokio::sync::Notify;

use super::supervisor;
use crate::cli::Exit;

/// How long the loop may take to leave after another thread's panic.
const PATIENCE: Duration = Duration::from_secs(1);

/// Catches the panics of all threads while it lives.
#[derive(Debug, Clone)]
pub struct Panics {
    first: Arc<Mutex<Option<String>>>,
    happened: Arc<Notify>,
}

impl Panics {
    /// From now on panics are kept rather than printed over the screen. Called by the loop's thread, before it takes the
    /// terminal.
    pub fn catch() -> Self {
        let panics = Self { first: Arc::default(), happened: Arc::default() };
        let (kept, around) = (panics.clone(), Surroundings::now());
        panic::set_hook(Box::new(move |info| {
            kept.keep(info);
            if thread::current().id() != around.owner {
                thread::sleep(PATIENCE);
            }
            kept.end(&around);
        }));
        panics
    }

    fn keep(&self, info: &PanicHookInfo<'_>) {
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown reason".to_owned());
        let place = info.location().map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
        // Later panics are mostly the first one's consequences.
        self.first
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| format!("internal error: {what}{place}"));
        self.happened.notify_one();
    }

    fn taken(&self) -> Option<String> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the process. What happened is said here unless the loop has taken it, which is then about to say it.
    fn end(&self, around: &Surroundings) -> ! {
        match self.taken() {
            Some(what) => around.give_back(&what),
            None => thread::sleep(PATIENCE),
        }
        process::exit(supervisor::code_of(Exit::Failed).into())
    }

    /// Returns when any thread has panicked.
    pub async fn happened(&self) {
        self.happened.notified().await;
    }

    /// What happened, if anything did; panics are printed again from here on.
    pub fn finish(self) -> Option<String> {
        drop(panic::take_hook());
        self.taken()
    }
}

/// What was before the terminal was taken.
struct Surroundings {
    owner: ThreadId,
    mode: Option<Termios>,
    /// Whether messages go to the terminal; else the user has sent them elsewhere.
    tells_terminal: bool,
}

impl Surroundings {
    fn now() -> Self {
        Self {
            owner: thread::current().id(),
            mode: tcgetattr(io::stdin()).ok(),
            tells_terminal: io::stderr().is_terminal(),
        }
    }

    /// Gives the terminal back and says what happened. Standard output and error may be caught (`StrayOutput`), so the
    /// terminal is asked for by its own name. Where anything fails, nobody is left to be told.
    fn give_back(&self, what: &str) {
        let mut terminal = File::options().write(true).open("/dev/tty").ok();
        if let Some((terminal, mode)) = terminal.as_mut().zip(self.mode.as_ref()) {
            supervisor::restore(mode, terminal);
        }
        let line = format!("memwall: {what}\n");
        drop(match terminal.filter(|_| self.tells_terminal) {
            Some(mut terminal) => terminal.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        });
    }
}

/// From now on a panic is printed and ends the program with Rust's own code for it, rather than with a signal and the
/// core file that some systems make of that.
pub fn exit_on_panic() {
    let printed = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        printed(info);
        process::exit(101);
    }));
}
