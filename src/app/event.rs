//! What happens to the dashboard, and what it wants done.

use std::path::PathBuf;

use super::inferred::Proposal;
use super::keymap::Key;
use crate::reading::playback::{Playback, Steer};
use crate::reading::{Moment, Sample, SourceInfo};

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A key was pressed.
    Key(Key),
    /// Text was pasted.
    Paste(String),
    /// The terminal has this size now: columns and lines.
    Resized(u16, u16),
    /// Nobody is at the terminal any more.
    TerminalGone,
    /// Time went on.
    Tick(Moment),
    /// A source is open.
    SourceStarted(SourceInfo),
    /// A source could not be opened, or gave up.
    SourceFailed(String),
    /// A source saw this.
    Sample(Box<Sample>),
    /// The recording that is played stands there now; its samples follow.
    Played(Playback),
    /// What is observed goes to that file from now on.
    Recording(PathBuf),
    /// The recording has ended as it should: what was written.
    Recorded(String),
    /// The recording could not be begun, or broke off.
    RecordFailed(String),
    /// The plan is on disk.
    Saved {
        /// Where.
        path: PathBuf,
        /// What was written.
        text: String,
    },
    /// The plan could not be written.
    SaveFailed(String),
    /// The plan of a process was read; or why it was not.
    Inferred {
        /// The process.
        pid: u32,
        /// What was read.
        outcome: Result<Box<Proposal>, String>,
    },
    /// The plan was not written, because it would be over somebody else's file or changes.
    SaveRefused(String),
}

/// Something to be done outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write the plan, and tell how it went.
    Save {
        /// To this file; none: to a new file in the working directory, of that name.
        path: Option<PathBuf>,
        /// The plan's name, for a new file.
        name: String,
        /// What to write.
        text: String,
        /// Over whatever is there.
        over: bool,
    },
    /// Read the plan of a process, and tell what it seems to be.
    Infer(u32),
    /// Write what is observed to a new file, and tell how it went.
    Record,
    /// End that, and tell what was written.
    StopRecording,
    /// Steer the recording that is played.
    Steer(Steer),
    /// Leave.
    Quit,
}
