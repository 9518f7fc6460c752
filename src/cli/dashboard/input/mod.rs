//! What comes from the terminal, read on a thread of its own: a terminal that is never read from keeps nobody waiting.

mod decoder;
mod keys;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::stdio::stdin;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::sleep;

use super::terminal::size;
use crate::app::{Event, KeyPress};
use crate::ui::Pointer;
use decoder::InputDecoder;

/// Chunks of bytes that may wait: beyond that the terminal's driver keeps them.
const CHUNKS: usize = 16;

/// Between two looks whether the gate is open again.
const CLOSED: Duration = Duration::from_millis(20);

/// What a terminal sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalInput {
    /// A key.
    Key(KeyPress),
    /// Text, all at once.
    Paste(String),
    /// The mouse.
    Pointer(Pointer),
    /// The answer to [`ASK`]: everything that was written before has arrived.
    Answer,
}

/// Asks the terminal how it is (DSR): it answers when it has read everything before.
pub const ASK: &str = "\x1b[5n";

/// Whether the terminal is read. What is typed while it is not is the shell's.
#[derive(Debug, Clone, Default)]
pub struct InputGate(Arc<AtomicBool>);

impl InputGate {
    /// Reads no more.
    pub fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Reads again.
    pub fn open(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Passes on what the terminal sends, until it or the dashboard is gone.
pub async fn pass_on(gate: InputGate, events: Sender<Event>, pointers: Sender<Pointer>, answers: Sender<()>) {
    if pass_all(gate, &events, &pointers, &answers).await.is_some() {
        // A dashboard that has gone meanwhile needs no telling.
        drop(events.send(Event::TerminalGone).await);
    }
}

/// None where the dashboard is gone.
async fn pass_all(
    gate: InputGate,
    events: &Sender<Event>,
    pointers: &Sender<Pointer>,
    answers: &Sender<()>,
) -> Option<()> {
    let (chunks, mut typed) = mpsc::channel(CHUNKS);
    let Ok(mut sizes) = signal(SignalKind::window_change()) else { return Some(()) };
    // From here on a change of size is told; what it was before then nobody told.
    let resized = || {
        let (width, height) = size();
        Event::Resized(width, height)
    };
    events.send(resized()).await.ok()?;
    if thread::Builder::new().name("terminal".to_owned()).spawn(move || read_all(&gate, &chunks)).is_err() {
        return Some(());
    }
    let mut decoder = InputDecoder::default();
    loop {
        let inputs = tokio::select! {
            bytes = typed.recv() => match bytes {
                Some(bytes) => decoder.take(&bytes),
                None => return Some(()),
            },
            _ = sizes.recv() => {
                events.send(resized()).await.ok()?;
                continue;
            }
            () = silence(&decoder) => decoder.give_up(),
        };
        for input in inputs {
            match input {
                TerminalInput::Key(key) => events.send(Event::Key(key)).await.ok()?,
                TerminalInput::Paste(text) => events.send(Event::Paste(text)).await.ok()?,
                // A wheel turns faster than anyone reads, and an answer that waits tells as much as two.
                TerminalInput::Pointer(pointer) => drop(pointers.try_send(pointer)),
                TerminalInput::Answer => drop(answers.try_send(())),
            }
        }
    }
}

/// Returns when what was begun is not going to be continued.
async fn silence(decoder: &InputDecoder) {
    match decoder.patience() {
        Some(patience) => sleep(patience).await,
        None => std::future::pending().await,
    }
}

/// Reads until the terminal or the dashboard is gone.
fn read_all(gate: &InputGate, chunks: &Sender<Vec<u8>>) {
    let mut buffer = [0; 4096];
    loop {
        // Waited for first: nothing is taken that came after the gate was closed.
        match poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        if gate.is_closed() {
            thread::sleep(CLOSED);
            continue;
        }
        match read(stdin(), &mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                if chunks.blocking_send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
            // Another program that has the same terminal may want no read to wait.
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}
