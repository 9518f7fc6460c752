//! Stopping for the shell (Ctrl-Z, SIGTSTP) and going on (`fg`, SIGCONT).

use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{self, SignalKind, signal};

use super::terminal::TerminalScreen;
use crate::cli::Failure;
use crate::cli::signals::unheard;

/// The signals of a shell's job control, listened to.
pub struct JobControl {
    stop: unix::Signal,
    go_on: unix::Signal,
}

/// What the shell wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRequest {
    /// The terminal.
    Stop,
    /// The program in front again. The terminal may be as anybody left it.
    GoOn,
}

impl JobControl {
    /// Must be called inside a runtime.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |number: Signal| signal(SignalKind::from_raw(number.as_raw())).map_err(|error| unheard(&error));
        Ok(Self { stop: listen(Signal::TSTP)?, go_on: listen(Signal::CONT)? })
    }

    /// Returns when the shell wants something.
    pub async fn wanted(&mut self) -> JobRequest {
        tokio::select! {
            _ = self.stop.recv() => JobRequest::Stop,
            _ = self.go_on.recv() => JobRequest::GoOn,
        }
    }

    /// Gives the terminal back and stops the whole job, until it is continued. Does nothing where no shell could.
    pub async fn stop(&mut self, screen: &mut TerminalScreen) {
        if !can_be_continued() {
            return;
        }
        screen.give_back().await;
        // The supervisor is in the same group. What stops it all stops this too, a little later on some thread.
        if kill_current_process_group(Signal::STOP).is_ok() {
            self.go_on.recv().await;
        }
    }
}

/// Whether the job has a parent in its session that is no part of it, as a shell is: without one, nobody continues it.
fn can_be_continued() -> bool {
    let stat = |pid| procfs::process::Process::new(pid).and_then(|process| process.stat()).ok();
    let Some(own) = procfs::process::Process::myself().and_then(|me| me.stat()).ok() else { return false };
    let mut parent = stat(own.ppid);
    while let Some(process) = parent.as_ref().filter(|process| process.pgrp == own.pgrp) {
        parent = stat(process.ppid);
    }
    parent.is_some_and(|process| process.session == own.session)
}
