//! What happens to the dashboard, and what it wants done.

use std::path::PathBuf;

use super::ending::Meant;
use super::inferred::Proposal;
use super::key::Key;
use super::mouse::Target;
use crate::compare::Explanation;
use crate::plan::HfConfig;
use crate::reading::playback::{Playback, Steer};
use crate::reading::{Moment, RunNews, Sample, SourceInfo};

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
    /// The log or the hooks of runs tell this.
    Run(Box<RunNews>),
    /// The recording that is played stands there now; its samples follow.
    Played(Playback),
    /// What is observed goes to that file from now on.
    Recording(PathBuf),
    /// The recording has ended as it should: what was written.
    Recorded(String),
    /// The recording could not be begun, or broke off.
    RecordFailed(String),
    /// The signal to end a process was sent.
    EndSent {
        /// Which.
        meant: Meant,
        /// SIGKILL, not SIGTERM.
        forced: bool,
    },
    /// It could not be sent.
    EndFailed(String),
    /// The plan is on disk.
    Saved {
        /// Where.
        path: PathBuf,
        /// What was written.
        text: String,
    },
    /// The plan could not be written.
    SaveFailed(String),
    /// The plan was not written, because it would be over somebody else's file or changes.
    SaveRefused {
        /// In one line.
        why: String,
        /// What is there now, where it is a text and a newer one of the same file.
        theirs: Option<String>,
    },
    /// A plan's file was read.
    Opened {
        /// What the plan is called.
        name: String,
        /// Where it is.
        path: PathBuf,
        /// What it holds; it need not be a plan.
        text: String,
        /// What was kept of it when the dashboard last ended without a save.
        recovered: Option<String>,
    },
    /// A file could not be read.
    OpenFailed(String),
    /// Plans that there are to open.
    PlansListed(Vec<PathBuf>),
    /// A configuration that the plan names was read, or why it could not be.
    ConfigRead {
        /// As the plan names it.
        named: String,
        /// What it holds.
        config: Result<HfConfig, String>,
    },
    /// The plan of a process was read; or why it was not.
    Inferred {
        /// The process.
        pid: u32,
        /// What was read.
        outcome: Result<Box<Proposal>, String>,
    },
    /// A search for explanations has come back.
    Explained {
        /// Which.
        number: u64,
        /// The best, most likely first; none where the plan itself does.
        found: Vec<Explanation>,
    },
    /// The mouse chose something.
    Click(Target),
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
        /// What may be written over.
        expected: Expected,
    },
    /// Read the plan of a process, and tell what it seems to be.
    Infer(u32),
    /// Search for explanations of what is seen ([`super::Question`]), and tell which were found.
    Explain(u64),
    /// Read a plan's file, and tell what it holds.
    Open(PathBuf),
    /// Look for plans in the working directory, and tell which there are.
    ListPlans,
    /// Read the configuration that a plan names, and tell.
    ReadConfig {
        /// The plan's own file, which a relative path starts beside.
        plan: Option<PathBuf>,
        /// As the plan names it.
        named: String,
    },
    /// Keep an unsaved text, so that it can be had back after a crash.
    Keep(Unsaved),
    /// What was kept of a plan is not needed any more.
    Forget {
        /// The plan's file.
        path: Option<PathBuf>,
        /// The plan's name.
        name: String,
    },
    /// Take the mouse's clicks from the terminal, or leave them to it.
    Mouse(bool),
    /// Write what is observed to a new file, and tell how it went.
    Record,
    /// End that, and tell what was written.
    StopRecording,
    /// Steer the recording that is played.
    Steer(Steer),
    /// Ask a process to end, and tell how that went.
    End {
        /// Which.
        meant: Meant,
        /// Do not ask: SIGKILL, not SIGTERM.
        forced: bool,
    },
    /// Leave.
    Quit,
}

/// What a file may hold that is written over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// There may be no file.
    Nothing,
    /// This text: what it held when it was read.
    Text(String),
    /// Whatever it is.
    Anything,
}

/// A text that is in no file yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsaved {
    /// The plan's file.
    pub path: Option<PathBuf>,
    /// The plan's name.
    pub name: String,
    /// What it holds.
    pub text: String,
}
