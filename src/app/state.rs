//! Everything that the screen is drawn from.

use std::path::PathBuf;

use crate::app::alerts::Alerts;
use crate::app::editor::Editor;
use crate::app::editor::form::Form;
use crate::app::editor::text::TextView;
use crate::app::keymap::Context;
use crate::app::keymap::user::Keymap;
use crate::app::monitor::milestones::Played;
use crate::app::monitor::recording::Recording;
use crate::app::monitor::{Monitor, Source};
use crate::app::notice::Notice;
use crate::app::pane::Pane;
use crate::app::picker::Picker;
use crate::app::plans::account::Account;
use crate::app::plans::baseline::Baseline;
use crate::app::plans::exporting::Export;
use crate::app::plans::saving::Conflict;
use crate::app::plans::tabs::Tabs;
use crate::app::run::Run;
use crate::app::run::calibrating::{self, Calibrations, Kept};
use crate::app::run::explaining::Explaining;
use crate::app::run::inferred::Proposal;
use crate::app::run::outlook::Outlook;
use crate::app::run::ran_out::RanOut;
use crate::app::views::{MemoryPane, RooflinePane};
use crate::app::what_if::largest::Largest;
use crate::app::what_if::search::SearchView;
use crate::app::what_if::sweep::SweepView;
use crate::catalog::Catalog;
use crate::compare::{Calibration, Comparison};
use crate::plan::Loaded;
use crate::reading::playback::Playback;
use crate::reading::{Moment, SourceKind};

/// Something on top of the panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// All keys, from that line on.
    Help(usize),
    /// A topic of the manual.
    Topic {
        /// Its place in [`crate::manual::TOPICS`].
        topic: usize,
        /// The line that it is shown from.
        line: usize,
    },
    /// The question what to do with unsaved changes.
    ConfirmQuit,
    /// What is to be saved, from that line on.
    Diff(usize),
    /// What is in the way of a file that was to be written, from that line on, and what to do about it.
    Conflict(usize),
    /// What the plan is exported as, from that line on.
    Export(usize),
    /// What another tool's file was read as, from that line on.
    Imported(usize),
    /// What was kept of an unsaved plan, from that line on.
    Recovered(usize),
    /// The open plans in a table; the selected one.
    Plans(usize),
    /// The largest batch or sequence that fits.
    Largest,
    /// What happens over the values of one key or two.
    Sweep,
    /// The best plans, as they are found.
    Search,
    /// The plan of a process, from that line on.
    Proposal(usize),
    /// What ran out of memory and what would help, from that line on.
    RanOut(usize),
}

/// What is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Saving {
    /// Nothing.
    #[default]
    Idle,
    /// The plan.
    Plan,
    /// What it is exported as.
    Export,
}

/// The whole dashboard.
#[derive(Debug, Clone)]
pub struct State {
    /// Hardware and models by name.
    pub catalog: Catalog,
    /// The plan in front.
    pub editor: Editor,
    /// The plan that was opened first: a made-up run is a run of that one.
    pub first: String,
    /// The other open plans.
    pub tabs: Tabs,
    /// The plan pane as a form.
    pub form: Form,
    /// The plan pane as text, while it is that.
    pub text: Option<TextView>,
    /// The plan to compare with.
    pub baseline: Option<Baseline>,
    /// Long texts that were given away to be read.
    pub readings: u64,
    /// What keys do.
    pub keys: Keymap,
    /// A list to choose from, on top of everything.
    pub picker: Option<Picker>,
    /// The file that the plan shall be saved to instead of its own.
    pub save_as: Option<PathBuf>,
    /// What is in the way of the file that was to be written.
    pub conflict: Option<Conflict>,
    /// What the plan is exported as.
    pub export: Option<Export>,
    /// What another tool's file said, and what it did not.
    pub imported: Option<Account>,
    /// What was kept of the plan when the dashboard last ended without a save.
    pub recovered: Option<String>,
    /// The unsaved text that was kept last.
    pub kept: Option<String>,
    /// The mouse's clicks are taken from the terminal.
    pub mouse: bool,
    /// The largest batch or sequence that fits, while that is shown.
    pub largest: Option<Largest>,
    /// The sweep that was made last.
    pub sweep: Option<SweepView>,
    /// The search that was made last.
    pub search: Option<SearchView>,
    /// The VRAM pane.
    pub memory: MemoryPane,
    /// The roofline pane.
    pub roofline: RooflinePane,
    /// The selected row of the compare pane: explanations, then what the prediction assumes.
    pub compared: usize,
    /// The monitor pane.
    pub monitor: Monitor,
    /// The attached run's log and hooks.
    pub run: Run,
    /// Predicted against observed; none before the first sample or prediction.
    pub comparison: Option<Comparison>,
    /// Why they differ.
    pub explaining: Explaining,
    /// Where its memory is going.
    pub outlook: Outlook,
    /// Memory that ran out.
    pub ran_out: Option<RanOut>,
    /// What wants a hand.
    pub alerts: Alerts,
    /// What runs on this machine showed over their predictions, for the plan's framework.
    pub calibration: Calibration,
    /// All that is known of that.
    pub calibrations: Calibrations,
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
    /// What is being written.
    pub saving: Saving,
    /// How recording stands.
    pub recording: Recording,
    /// Where the recording that is played stands; none: what is seen is live.
    pub playback: Option<Playback>,
    /// What it showed on the way.
    pub played: Played,
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

    /// What is seen is the demo's.
    #[must_use]
    pub fn is_made_up(&self) -> bool {
        matches!(&self.monitor.source, Source::Running(info) if info.kind == SourceKind::Demo)
    }

    /// The plan that a made-up run is of, where that is another one than the plan in front: it says nothing
    /// about this one.
    #[must_use]
    pub fn made_up_for(&self) -> Option<&str> {
        (self.is_made_up() && self.editor.name() != self.first).then_some(&self.first)
    }

    /// The calibration that predictions are held with; none where none is known here.
    #[must_use]
    pub fn calibrations_in_use(&self) -> Option<Kept> {
        calibrating::holds(self)
    }

    /// What keys go to now.
    #[must_use]
    pub const fn context(&self) -> Context {
        match self.focus {
            Pane::Plan if self.text.is_some() => Context::Text,
            pane => Context::In(pane),
        }
    }

    /// A dashboard on `plan`, before anything was observed.
    #[must_use]
    pub fn new(plan: Loaded, catalog: Catalog, attach: Option<u32>, now: Moment) -> Self {
        Self::on(Editor::open(plan, &catalog), catalog, attach, now)
    }

    /// The same on a text that need not be a plan yet: it is mended as text.
    #[must_use]
    pub fn on(editor: Editor, catalog: Catalog, attach: Option<u32>, now: Moment) -> Self {
        let text = TextView::to_mend(&editor);
        let mut form = Form::default();
        form.look_around(false, &editor, &catalog);
        Self {
            catalog,
            first: editor.name().to_owned(),
            editor,
            tabs: Tabs::default(),
            form,
            text,
            baseline: None,
            readings: 0,
            keys: Keymap::default(),
            picker: None,
            save_as: None,
            conflict: None,
            export: None,
            imported: None,
            recovered: None,
            kept: None,
            mouse: false,
            largest: None,
            sweep: None,
            search: None,
            memory: MemoryPane::default(),
            roofline: RooflinePane::default(),
            compared: 0,
            monitor: Monitor::new(attach),
            run: Run::default(),
            comparison: None,
            explaining: Explaining::default(),
            outlook: Outlook::default(),
            ran_out: None,
            alerts: Alerts::default(),
            calibration: Calibration::default(),
            calibrations: Calibrations::default(),
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
            played: Played::default(),
        }
    }
}
