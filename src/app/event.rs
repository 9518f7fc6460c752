//! What happens to the dashboard, and what it wants done.

use std::path::PathBuf;

use crate::advise::SearchStatus;
use crate::app::alerts::AlertMessage;
use crate::app::editor::look_around::Neighbours;
use crate::app::key::KeyPress;
use crate::app::monitor::end_request::TargetProcess;
use crate::app::plans::account::Import;
use crate::app::plans::drafts::Draft;
use crate::app::plans::saving::Conflict;
use crate::app::pointing::MouseTarget;
use crate::app::run::calibrations::{CalibrationError, Calibrations, SavedCalibration};
use crate::app::run::commanded::CommandPlan;
use crate::app::run::inferred::{NotInferred, Proposal};
use crate::app::what_if::WhatIfError;
use crate::app::what_if::search::Answer;
use crate::compare::Explanation;
use crate::plan::{ConfigFileError, Document, Fault, HfConfig};
use crate::reading::playback::{Playback, PlaybackCommand};
use crate::reading::{Moment, RunNews, Sample, SourceInfo};

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A key was pressed.
    Key(KeyPress),
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
    /// The disk of the recording is full, or has room again.
    RecordingRoom {
        /// There is room.
        has_room: bool,
        /// The same in words.
        said: String,
    },
    /// The recording could not be begun, or broke off.
    RecordFailed(String),
    /// The signal to end a process was sent.
    EndSent {
        /// Which.
        meant: TargetProcess,
        /// SIGKILL, not SIGTERM.
        forced: bool,
    },
    /// It could not be sent.
    EndFailed(String),
    /// A file is on disk.
    Saved {
        /// Where.
        path: PathBuf,
        /// What was written.
        text: String,
    },
    /// The file holds that already: nothing was written.
    Unchanged,
    /// A plan's file was looked at.
    LookedAtFile {
        /// Which.
        path: PathBuf,
        /// What was known of it.
        known: String,
        /// What it holds, where that is something else.
        text: Option<String>,
        /// There is no such file any more.
        is_gone: bool,
    },
    /// It could not be written.
    SaveFailed(String),
    /// It was not written, because of what was found in its place.
    SaveRefused(Conflict),
    /// A plan's file was read.
    Opened {
        /// What the plan is called.
        name: String,
        /// Where it is.
        path: PathBuf,
        /// What it holds; it need not be a plan.
        text: String,
        /// What other dashboards left of it.
        drafts: Vec<Draft>,
    },
    /// An unsaved text could not be kept.
    DraftNotKept(String),
    /// A plan is open in another dashboard too.
    OpenElsewhere {
        /// Its file.
        path: PathBuf,
        /// The other dashboard's process, where it is known.
        holder: Option<u32>,
    },
    /// A long text was read.
    Read {
        /// Which.
        number: u64,
        /// As what.
        read: Result<Document, Vec<Fault>>,
    },
    /// Another tool's file was read as a plan.
    Imported(Box<Import>),
    /// A file could not be read.
    OpenFailed(String),
    /// There is no plan of that path, and its folder has room for one.
    PlanMissing(PathBuf),
    /// Files that there are to open, each with what it is.
    PlansListed(Vec<(PathBuf, String)>),
    /// The paths that what was typed may begin.
    PathsFound {
        /// What was typed.
        typed: String,
        /// The paths.
        paths: Vec<String>,
    },
    /// A configuration that the plan names was read, or why it could not be.
    ConfigRead {
        /// As the plan names it.
        named: String,
        /// What it holds.
        config: Result<HfConfig, ConfigFileError>,
    },
    /// The plan of a process was read; or why it was not.
    Inferred {
        /// The process.
        pid: u32,
        /// What was read.
        outcome: Result<Box<Proposal>, NotInferred>,
    },
    /// What the command of the attached process says was read.
    CommandRead(Box<CommandPlan>),
    /// A search for explanations has come back.
    Explained {
        /// Which.
        number: u64,
        /// The best, most likely first; none where the plan itself does.
        found: Vec<Explanation>,
    },
    /// The file of calibrations was written and holds these; or why it was not.
    Calibrated(Result<Calibrations, CalibrationError>),
    /// The command of an alert could not be run, or failed.
    AlertFailed(String),
    /// A library, mostly a GPU's driver, wrote this line to standard output or standard error.
    StrayLine(String),
    /// What lies around the plan was found out.
    LookedAround {
        /// Which question that answers.
        number: u64,
        /// What was found.
        found: Box<Neighbours>,
    },
    /// A search for plans goes on.
    Searching {
        /// Which.
        number: u64,
        /// How far it is.
        seen: SearchStatus,
        /// What it has found so far, where that is told.
        found: Option<Box<Answer>>,
    },
    /// A search for plans has ended.
    Searched {
        /// Which.
        number: u64,
        /// What it has found, or why nothing could be searched.
        answer: Result<Box<Answer>, WhatIfError>,
    },
    /// The mouse chose something.
    Click(MouseTarget),
}

/// Something to be done outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write the plan, or what it is exported as, and tell how it went.
    Save {
        /// To this file; none: to a new file in the working directory, of that name.
        path: Option<PathBuf>,
        /// The plan's name, for a new file.
        name: String,
        /// What to write.
        text: String,
        /// What may be written over.
        expected: ExpectedFile,
    },
    /// Read the plan of a process, and tell what it seems to be.
    Infer(u32),
    /// Watch this machine with that process on it, in place of a simulated run.
    WatchProcess(u32),
    /// Read what the command of a process, its files and its environment say.
    ReadCommand(u32),
    /// Search for explanations of what is seen ([`crate::app::Question`]), and tell which were found.
    Explain(u64),
    /// Find out what the values beside the plan's fields would do ([`crate::app::LookAround`]) instead of what is being
    /// found out now, and tell.
    LookAround(u64),
    /// Search for plans ([`crate::app::SearchRequest`]) instead of what is searched for now, and tell what is found.
    Search(u64),
    /// End the search that is under way; what it has found by then is its answer.
    CancelSearch,
    /// Look whether a plan's file holds something else than is known of it, and tell.
    LookAtFile {
        /// Which.
        path: PathBuf,
        /// What it held.
        known: String,
    },
    /// Read a plan's file, or another tool's, and tell what it holds.
    Open(PathBuf),
    /// Read a long text beside the loop, and tell what it is.
    Read {
        /// Which.
        number: u64,
        /// The text.
        text: String,
    },
    /// Look for plans in a folder, and tell which there are: those of `recent` that are still there first.
    ListPlans {
        /// The folder; empty for the working directory.
        folder: PathBuf,
        /// Plans that were open before.
        recent: Vec<PathBuf>,
    },
    /// Look which paths begin so, and tell.
    CompletePath(String),
    /// Read the configuration that a plan names, and tell.
    ReadConfig {
        /// Where a relative path starts.
        folder: PathBuf,
        /// As the plan names it.
        named: String,
    },
    /// Keep an unsaved text, so that it can be had back after a crash.
    Keep(UnsavedText),
    /// What this dashboard kept of a plan is not needed any more.
    Forget {
        /// The plan's file.
        path: Option<PathBuf>,
        /// The plan's name.
        name: String,
    },
    /// Delete a draft.
    DeleteDraft(String),
    /// A draft of that name in the store has become this plan's text: it is this dashboard's now.
    TakeDraft {
        /// Its name in the store.
        id: String,
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
    Steer(PlaybackCommand),
    /// Ask a process to end, and tell how that went.
    End {
        /// Which.
        meant: TargetProcess,
        /// Do not ask: SIGKILL, not SIGTERM.
        forced: bool,
    },
    /// Keep a calibration in the user's file, or take it out of it, and tell what the file holds then.
    Calibrate(Box<SavedCalibration>, bool),
    /// Tell the world outside of an alert.
    Alert(Box<AlertMessage>),
    /// Draw everything anew, over whatever another program has written.
    Repaint,
    /// Give the terminal back and stop, until the shell continues the program.
    Suspend,
    /// Leave.
    Quit,
}

/// What a file may hold that is written over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedFile {
    /// There may be no file.
    Nothing,
    /// This text: what it held when it was read.
    Text(String),
    /// Whatever it is.
    Anything,
}

/// A text that is in no file yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsavedText {
    /// The plan's file.
    pub path: Option<PathBuf>,
    /// The plan's name.
    pub name: String,
    /// What the file holds.
    pub base: String,
    /// The text.
    pub text: String,
}
