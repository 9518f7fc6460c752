//! The dashboard's recording, on a thread of its own: a disk that hangs costs nobody a key press.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use crate::app::{Event, State};
use crate::cli::record::{broken_off, not_begun, room};
use crate::observe::{Compression, Header, Recorder, Rotation};
use crate::reading::Sample;

/// Samples that may wait for the disk.
const WAITING: usize = 64;

/// How long leaving waits for the last samples to be written.
const PATIENCE: Duration = Duration::from_secs(2);

/// A recording that is under way.
pub struct ActiveRecording {
    samples: SyncSender<Sample>,
    /// Closed when the last byte has been written.
    done: Receiver<Infallible>,
    /// Samples that found no room since one did.
    lost: u64,
}

impl ActiveRecording {
    /// Begins to record to a new file in the working directory; how it goes is told as events.
    pub fn start(header: Header, events: Sender<Event>) -> Self {
        let (samples, taken) = mpsc::sync_channel(WAITING);
        let (finished, done) = mpsc::channel();
        thread::spawn(move || {
            let event = run(header, &taken, &events);
            // Who waits for the last byte does not wait for room to be told of it.
            drop(finished);
            tell(&events, event);
        });
        Self { samples, done, lost: 0 }
    }

    /// Adds a sample, with what the run's log and hook tell. Where the disk is behind, it is left out and
    /// counted among the dropped ones.
    pub fn put(&mut self, sample: &Sample, state: &State) {
        let told = state.run.telemetry.told_in(sample, &state.monitor, state.now);
        let dropped = told.dropped + self.lost;
        if let Err(TrySendError::Full(_)) = self.samples.try_send(Sample { dropped, ..told }) {
            self.lost += 1;
        }
    }

    /// Ends the recording and waits for its last bytes, but not for a disk that hangs.
    pub fn finish(self) {
        let Self { samples, done, .. } = self;
        drop(samples);
        // Nothing is ever sent: it is closed, or time is up.
        let _ = done.recv_timeout(PATIENCE);
    }
}

/// A dashboard that has gone meanwhile needs no telling.
fn tell(events: &Sender<Event>, event: Event) {
    drop(events.blocking_send(event));
}

/// Writes samples until no more come; what is to be told of it.
fn run(header: Header, samples: &Receiver<Sample>, events: &Sender<Event>) -> Event {
    let path = new_name(&header);
    let mut recorder = match Recorder::create(&path, header, Compression::Gzip, Rotation::default()) {
        Ok(recorder) => recorder,
        Err(error) => return Event::RecordFailed(not_begun(&path, &error)),
    };
    tell(events, Event::Recording(path));
    let mut has_room = true;
    while let Ok(sample) = samples.recv() {
        match recorder.write(&sample) {
            Ok(written) if written != has_room => {
                has_room = written;
                tell(events, Event::RecordingRoom { has_room, said: room(recorder.written(), has_room) });
            }
            Ok(_) => {}
            Err(error) => return Event::RecordFailed(broken_off(recorder.written(), &error)),
        }
    }
    let written = recorder.written().clone();
    match recorder.finish() {
        Ok(written) => Event::Recorded(written.summary()),
        Err(error) => Event::RecordFailed(broken_off(&written, &error)),
    }
}

/// `memwall-20260921T134640Z.ndjson.gz`
pub fn new_name(header: &Header) -> PathBuf {
    let time: String = header.started.to_string().chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    Path::new(&format!("memwall-{time}.ndjson.gz")).to_owned()
}
