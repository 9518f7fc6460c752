//! What libraries write to standard output and standard error, mostly the GPU's driver: caught and shown as a line,
//! rather than over the screen.

use std::fs::File;
use std::io::{IsTerminal, Read, stderr};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use tokio::sync::mpsc::Sender;

use crate::app::Event;
use crate::printable::printable;

/// No more of a line is shown.
const LONGEST: usize = 500;

/// Standard output and standard error while they are caught; put back when dropped.
pub struct StrayOutput {
    out: OwnedFd,
    /// None where the user has sent it elsewhere: it is not the screen's.
    err: Option<OwnedFd>,
}

impl StrayOutput {
    /// Sends each line as an event from now on; none where the system does not let it.
    pub fn catch(events: Sender<Event>) -> Option<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let kept = |stream: &dyn AsFd| fcntl_dupfd_cloexec(stream.as_fd(), 3).ok();
        let out = kept(&std::io::stdout())?;
        let err = if stderr().is_terminal() { kept(&stderr()) } else { None };
        let told =
            thread::Builder::new().name("stray output".to_owned()).spawn(move || pass_on(reader.into(), &events));
        told.ok()?;
        dup2_stdout(&writer).ok()?;
        if err.is_some() {
            dup2_stderr(&writer).ok()?;
        }
        Some(Self { out, err })
    }
}

impl Drop for StrayOutput {
    fn drop(&mut self) {
        // Where that fails, nobody is left to be told.
        let _ = dup2_stdout(&self.out);
        if let Some(err) = &self.err {
            let _ = dup2_stderr(err);
        }
    }
}

/// Reads to the end, so that nobody who writes is held up.
fn pass_on(mut reader: File, events: &Sender<Event>) {
    let (mut line, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = reader.read(&mut buffer) {
        for byte in &buffer[..length] {
            match byte {
                b'\n' => tell(&std::mem::take(&mut line), events),
                _ if line.len() < LONGEST => line.push(*byte),
                _ => {}
            }
        }
    }
    tell(&line, events);
}

fn tell(line: &[u8], events: &Sender<Event>) {
    let line = printable(&String::from_utf8_lossy(line)).trim().to_owned();
    if !line.is_empty() {
        // Where more comes than is shown, one line is as good as another.
        drop(events.try_send(Event::StrayLine(line)));
    }
}
