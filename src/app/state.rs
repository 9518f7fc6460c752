//! Everything that the screen is drawn from.

use std::path::PathBuf;

use super::editor::Editor;
use super::form::Form;
use super::inferred::Proposal;
use super::monitor::Monitor;
use super::pane::Pane;
use crate::catalog::Catalog;
use crate::compare::{Calibration, Comparison};
use crate::plan::Loaded;
use crate::reading::Moment;
use crate::reading::playback::Playback;

/// Something on top of the panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// All keys, from that line on.
    Help(usize),
    /// The plan of a process, from that line on.
    Proposal(usize),
    /// The question what to do with unsaved changes.
    ConfirmQuit,
}

/// How a message is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It worked.
    Info,
    /// It did not.
    Problem,
}

/// A message in the bottom line, until the next key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How it is meant.
    pub severity: Severity,
    /// What it says.
    pub text: String,
}

/// What the VRAM pane lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryView {
    /// Sums by component, with the course over one step.
    #[default]
    Components,
    /// Every named term.
    Terms,
    /// Every pipeline stage.
    Stages,
}

impl MemoryView {
    /// The word in the frame.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Components => "components",
            Self::Terms => "named terms",
            Self::Stages => "stages",
        }
    }

    /// The view after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Components => Self::Terms,
            Self::Terms => Self::Stages,
            Self::Stages => Self::Components,
        }
    }
}

/// How saving stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Saving {
    /// Nothing under way.
    #[default]
    Idle,
    /// Asked once to save a plan with faults: asked again, it is saved.
    FaultsTold,
    /// Refused because the file is another one by now: asked again, it is written over.
    ConflictTold,
    /// Being written.
    UnderWay,
}

/// How writing what is observed to a file stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Recording {
    /// Nothing is written.
    #[default]
    Off,
    /// The file is being made.
    Starting,
    /// To this file.
    On(PathBuf),
    /// The last samples are being written.
    Ending,
}

/// State of the VRAM pane.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryPane {
    /// What it lists.
    pub view: MemoryView,
    /// The selected row.
    pub selected: usize,
}

/// State of the roofline pane.
#[derive(Debug, Clone, Copy, Default)]
pub struct RooflinePane {
    /// The table instead of the chart, where there is no room for both.
    pub table: bool,
    /// The selected operator, in order of time.
    pub selected: usize,
}

/// The whole dashboard.
#[derive(Debug, Clone)]
pub struct State {
    /// Hardware and models by name.
    pub catalog: Catalog,
    /// The plan.
    pub editor: Editor,
    /// The plan pane.
    pub form: Form,
    /// The VRAM pane.
    pub memory: MemoryPane,
    /// The roofline pane.
    pub roofline: RooflinePane,
    /// The first assumption that the compare pane shows.
    pub assumption: usize,
    /// The monitor pane.
    pub monitor: Monitor,
    /// Predicted against observed; none before the first sample or prediction.
    pub comparison: Option<Comparison>,
    /// What runs on this machine showed over their predictions, for the plan's framework.
    pub calibration: Calibration,
    /// The pane that keys go to.
    pub focus: Pane,
    /// The focused pane has the whole screen.
    pub zoomed: bool,
    /// What lies on top.
    pub overlay: Option<Overlay>,
    /// The plan that a process seems to run, until it is taken or dismissed.
    pub proposal: Option<Proposal>,
    /// The message in the bottom line.
    pub notice: Option<Notice>,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// The time.
    pub now: Moment,
    /// Leave as soon as the plan is saved.
    pub quit_after_save: bool,
    /// How saving stands.
    pub saving: Saving,
    /// How recording stands.
    pub recording: Recording,
    /// Where the recording that is played stands; none: what is seen is live.
    pub playback: Option<Playback>,
}

impl State {
    /// The name of the card that is watched, where it is another one than the plan's: peaks,
    /// capacity and bandwidth of the plan are not its own then.
    #[must_use]
    pub fn other_card(&self) -> Option<&str> {
        let planned = &self.editor.job()?.hardware.gpu;
        let device = self.monitor.devices().iter().find(|device| device.name.value().is_some())?;
        let name = device.name.value()?;
        // A card that the catalogue does not know may be the plan's own custom one.
        let seen = self.catalog.gpu(name)?;
        (seen.name != planned.name).then_some(name)
    }

    /// A dashboard on `plan`, before anything was observed.
    #[must_use]
    pub fn new(plan: Loaded, catalog: Catalog, attach: Option<u32>, now: Moment) -> Self {
        let editor = Editor::open(plan, &catalog);
        let mut form = Form::default();
        form.look_around(&editor, &catalog);
        Self {
            catalog,
            editor,
            form,
            memory: MemoryPane::default(),
            roofline: RooflinePane::default(),
            assumption: 0,
            monitor: Monitor::new(attach),
            comparison: None,
            calibration: Calibration::default(),
            focus: Pane::Plan,
            zoomed: false,
            overlay: None,
            proposal: None,
            notice: None,
            size: (80, 24),
            now,
            quit_after_save: false,
            saving: Saving::default(),
            recording: Recording::default(),
            playback: None,
        }
    }
}
