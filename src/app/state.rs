//! Everything that the screen is drawn from.

use std::path::PathBuf;
use std::sync::Arc;

use crate::app::alerts::AlertState;
use crate::app::arrangement::Arrangement;
use crate::app::editor::Editor;
use crate::app::editor::form::Form;
use crate::app::editor::text::TextView;
use crate::app::key::KeyPress;
use crate::app::keymap::KeyContext;
use crate::app::keymap::user::Keymap;
use crate::app::monitor::milestones::PlaybackHistory;
use crate::app::monitor::recording::RecordingState;
use crate::app::monitor::{Monitor, SourceState};
use crate::app::notice::Notice;
use crate::app::pane::Pane;
use crate::app::picker::Picker;
use crate::app::plans::account::Account;
use crate::app::plans::baseline::Baseline;
use crate::app::plans::drafts::Draft;
use crate::app::plans::exporting::Export;
use crate::app::plans::saving::Conflict;
use crate::app::plans::tabs::Tabs;
use crate::app::plans::watching::WatchedFile;
use crate::app::run::Telemetry;
use crate::app::run::calibrations::{self, Calibrations, SavedCalibration};
use crate::app::run::exhaustion::MemoryExhaustion;
use crate::app::run::explanation_search::ExplanationSearch;
use crate::app::run::inferred::{HookKnowledge, Proposal};
use crate::app::run::last_attempt::LastAttempt;
use crate::app::run::outlook::Outlook;
use crate::app::run::plan::RunPlan;
use crate::app::run::taken::TakenExplanation;
use crate::app::themes::Themes;
use crate::app::tutorial::TutorialProgress;
use crate::app::views::{MemoryPane, RooflinePane};
use crate::app::what_if::fixes::FixesView;
use crate::app::what_if::largest::LargestSize;
use crate::app::what_if::search::SearchView;
use crate::app::what_if::sweep::SweepView;
use crate::catalog::{Catalog, Gpu};
use crate::compare::{Calibration, Comparison};
use crate::lessons::Lesson;
use crate::plan::LoadedPlan;
use crate::reading::playback::Playback;
use crate::reading::{DeviceSample, Moment, SourceKind};
use crate::units::Bytes;

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
    /// What the selected number means, from that line on.
    Lesson(usize),
    /// A step of the tutorial, from that line on.
    Tutorial(usize),
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
    /// What would help the plan.
    Fixes,
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

/// The open plans: the one in front, what is shown of it and what happens to its file.
#[derive(Debug, Clone)]
pub struct Plans {
    /// The plan in front.
    pub editor: Editor,
    /// The other open plans.
    pub tabs: Tabs,
    /// The plan pane as a form.
    pub form: Form,
    /// The plan pane as text, while it is that.
    pub text: Option<TextView>,
    /// The plan of the run: what is observed is compared with this one.
    pub run: Option<RunPlan>,
    /// Explanations that were taken into the run's plan, the newest last: undoing one brings the plan before it back.
    pub taken: Vec<TakenExplanation>,
    /// The plan to compare with, pinned by key.
    pub baseline: Option<Baseline>,
    /// Long texts that were given away to be read.
    pub readings: u64,
    /// The file that the plan shall be saved to instead of its own.
    pub save_as: Option<PathBuf>,
    /// What is in the way of the file that was to be written.
    pub conflict: Option<Conflict>,
    /// What the plan is exported as.
    pub export: Option<Export>,
    /// What another tool's file said, and what it did not.
    pub imported: Option<Account>,
    /// What other dashboards left of the plan in front; the first is shown.
    pub drafts: Vec<Draft>,
    /// The unsaved text that was kept last.
    pub kept: Option<String>,
    /// Leave as soon as the plan is saved.
    pub quit_after_save: bool,
    /// What is being written.
    pub saving: Saving,
    /// Since when.
    pub saving_since: Option<Moment>,
    /// The file of a new plan that is being chosen.
    pub new_at: Option<PathBuf>,
    /// Plans that were opened or saved, the newest first.
    pub recent: Vec<PathBuf>,
    /// What others write to the plan's file.
    pub watched: WatchedFile,
}

impl Plans {
    /// One plan alone; as text where it has to be mended.
    #[must_use]
    pub fn on(editor: Editor, catalog: &Catalog) -> Self {
        let text = TextView::to_mend(&editor);
        let mut form = Form::default();
        form.look_at_once(&editor, catalog);
        Self {
            editor,
            tabs: Tabs::default(),
            form,
            text,
            run: None,
            taken: Vec::new(),
            baseline: None,
            readings: 0,
            save_as: None,
            conflict: None,
            export: None,
            imported: None,
            drafts: Vec::new(),
            kept: None,
            quit_after_save: false,
            saving: Saving::default(),
            saving_since: None,
            new_at: None,
            recent: Vec::new(),
            watched: WatchedFile::default(),
        }
    }
}

/// The run: what it tells besides its devices, how it compares with its plan, and what follows from that.
#[derive(Debug, Clone, Default)]
pub struct RunState {
    /// The plan that a simulated run is made from.
    pub simulated: Option<RunPlan>,
    /// The attached run's log and hooks.
    pub telemetry: Telemetry,
    /// What was last seen of it, for when its memory ran out.
    pub last_attempt: LastAttempt,
    /// Predicted against observed; none before the first sample or prediction.
    pub comparison: Option<Comparison>,
    /// Why they differ.
    pub explaining: ExplanationSearch,
    /// Where its memory is going.
    pub outlook: Outlook,
    /// Memory that ran out.
    pub ran_out: Option<MemoryExhaustion>,
    /// What wants a hand.
    pub alerts: AlertState,
    /// What runs on this machine showed over their predictions, for the plan's framework.
    pub calibration: Calibration,
    /// All that is known of that.
    pub calibrations: Calibrations,
    /// The plan that a process seems to run, until it is taken or dismissed.
    pub proposal: Option<Proposal>,
    /// The process whose plan was asked for again, and what its hook had told then.
    pub asked_again: Option<(u32, HookKnowledge)>,
}

/// Recordings: the one that is written, and the one that is played.
#[derive(Debug, Clone, Default)]
pub struct Recordings {
    /// How recording stands.
    pub recording: RecordingState,
    /// Where the recording that is played stands; none: what is seen is live.
    pub playback: Option<Playback>,
    /// What it showed on the way.
    pub played: PlaybackHistory,
}

/// What the screen shows of all that, and where keys go.
#[derive(Debug, Clone)]
pub struct Views {
    /// The VRAM pane.
    pub memory: MemoryPane,
    /// The roofline pane.
    pub roofline: RooflinePane,
    /// The selected row of the compare pane: explanations, then what the prediction assumes.
    pub compared: usize,
    /// The compare pane shows the run over time.
    pub curves: bool,
    /// The pane that keys go to.
    pub focus: Pane,
    /// The focused pane has the whole screen.
    pub zoomed: bool,
    /// How the panes share the screen.
    pub arrangement: Arrangement,
    /// Keys of a chord that has begun.
    pub chord: Vec<KeyPress>,
    /// The themes.
    pub themes: Themes,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// Drawn with ASCII characters alone, which has longer words for some keys.
    pub ascii: bool,
    /// The mouse's clicks are taken from the terminal.
    pub mouse: bool,
}

impl Default for Views {
    fn default() -> Self {
        Self {
            memory: MemoryPane::default(),
            roofline: RooflinePane::default(),
            compared: 0,
            curves: false,
            focus: Pane::Plan,
            zoomed: false,
            arrangement: Arrangement::default(),
            chord: Vec::new(),
            themes: Themes::default(),
            size: (80, 24),
            ascii: false,
            mouse: false,
        }
    }
}

/// What lies on top of the panes, and what it shows.
#[derive(Debug, Clone, Default)]
pub struct Dialogs {
    /// What lies on top.
    pub overlay: Option<Overlay>,
    /// A list to choose from, on top of everything.
    pub picker: Option<Picker>,
    /// The term that is explained, or was last.
    pub lesson: Option<&'static Lesson>,
    /// How far somebody is in the tutorial; none: it was not begun.
    pub tutorial: Option<TutorialProgress>,
    /// What is sought among the keys.
    pub help_query: String,
    /// What would help the plan, while that is shown.
    pub fixes: Option<FixesView>,
    /// The largest batch or sequence that fits, while that is shown.
    pub largest: Option<LargestSize>,
    /// The sweep that was made last.
    pub sweep: Option<SweepView>,
    /// The search that was made last.
    pub search: Option<SearchView>,
}

/// The whole dashboard, in parts: a feature takes the part that it is about.
#[derive(Debug, Clone)]
pub struct State {
    /// Hardware and models by name.
    pub catalog: Arc<Catalog>,
    /// What keys do.
    pub keys: Keymap,
    /// The open plans.
    pub plans: Plans,
    /// The run.
    pub run: RunState,
    /// What the source sees.
    pub monitor: Monitor,
    /// What is recorded and played.
    pub recordings: Recordings,
    /// What the panes show.
    pub views: Views,
    /// What lies on top of them.
    pub dialogs: Dialogs,
    /// The message in the bottom line.
    pub notice: Option<Notice>,
    /// The time.
    pub now: Moment,
}

/// A GPU's memory, where its driver tells it.
fn total(device: &DeviceSample) -> Option<Bytes> {
    device.memory.value().map(|memory| memory.total)
}

impl State {
    /// The name of the GPU that is watched, where it is another one than the plan's: peaks,
    /// capacity and bandwidth of the plan are not its own then.
    #[must_use]
    pub fn other_card(&self) -> Option<&str> {
        let planned = &self.plans.compared().job()?.hardware.gpu;
        // One that the catalogue does not know may be the plan's own custom one, but not a known one of the plan.
        let known = self.catalog.gpu(&planned.name).is_some();
        // A part of a GPU (MIG) has a name that no GPU has.
        let whole = self.monitor.run_devices().map(|(_, device)| device).filter(|device| device.mig.is_none());
        // Thousands of GPUs have a name or two.
        let mut looked_up: Vec<(&str, Option<Bytes>)> = Vec::new();
        let other = whole.filter(|device| device.name.value().is_some()).find(|device| {
            let seen = (device.name.value().map_or("", String::as_str), total(device));
            let is_new = !looked_up.contains(&seen);
            if is_new {
                looked_up.push(seen);
            }
            is_new && self.card(device).map_or(known, |card| card.name != planned.name)
        });
        other?.name.value().map(String::as_str)
    }

    /// What the catalogue knows of a GPU that is watched.
    #[must_use]
    pub fn card(&self, device: &DeviceSample) -> Option<&Gpu> {
        self.catalog.seen(device.name.value()?, total(device))
    }

    /// What is seen is the demo's.
    #[must_use]
    pub fn is_made_up(&self) -> bool {
        matches!(&self.monitor.source, SourceState::Running(info) if info.kind == SourceKind::Demo)
    }

    /// The calibration that predictions are held with; none where none is known here.
    #[must_use]
    pub fn calibrations_in_use(&self) -> Option<SavedCalibration> {
        calibrations::holds(self)
    }

    /// What keys go to now.
    #[must_use]
    pub const fn context(&self) -> KeyContext {
        match self.views.focus {
            Pane::Plan if self.plans.text.is_some() => KeyContext::Text,
            pane => KeyContext::In(pane),
        }
    }

    /// A dashboard on `plan`, before anything was observed.
    #[must_use]
    pub fn new(plan: LoadedPlan, catalog: impl Into<Arc<Catalog>>, attach: Option<u32>, now: Moment) -> Self {
        let catalog = catalog.into();
        Self::on(Editor::open(plan, &catalog), catalog, attach, now)
    }

    /// The same on a text that need not be a plan yet: it is mended as text.
    #[must_use]
    pub fn on(editor: Editor, catalog: impl Into<Arc<Catalog>>, attach: Option<u32>, now: Moment) -> Self {
        let catalog = catalog.into();
        Self {
            run: RunState::default(),
            plans: Plans::on(editor, &catalog),
            catalog,
            keys: Keymap::default(),
            monitor: Monitor::new(attach),
            recordings: Recordings::default(),
            views: Views::default(),
            dialogs: Dialogs::default(),
            notice: None,
            now,
        }
    }
}
