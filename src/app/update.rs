//! What each event does to the state.

use crate::app::alerts;
use crate::app::cluster;
use crate::app::cluster::actions as cluster_actions;
use crate::app::editor::Editor;
use crate::app::editor::editing::{self, set_against};
use crate::app::editor::field::Field;
use crate::app::editor::look_around;
use crate::app::editor::reader;
use crate::app::editor::step::Direction;
use crate::app::event::{Effect, Event};
use crate::app::key::{KeyPress, PAGE};
use crate::app::keymap::key_names::{sequence, word};
use crate::app::keymap::user::KeyMatch;
use crate::app::keymap::{Action, KeyContext};
use crate::app::lesson;
use crate::app::monitor::SourceState;
use crate::app::monitor::end_request;
use crate::app::monitor::milestones;
use crate::app::monitor::recording;
use crate::app::monitor::trail;
use crate::app::notice::{dead_key, info, problem};
use crate::app::overlays;
use crate::app::pane::Pane;
use crate::app::picker::picking;
use crate::app::plans;
use crate::app::plans::account;
use crate::app::plans::baseline;
use crate::app::plans::drafts;
use crate::app::plans::exporting;
use crate::app::plans::new;
use crate::app::plans::saving;
use crate::app::plans::watching;
use crate::app::pointing;
use crate::app::run::calibrations;
use crate::app::run::commanded;
use crate::app::run::exhaustion;
use crate::app::run::explanation_search;
use crate::app::run::inferred;
use crate::app::run::offer;
use crate::app::run::outlook;
use crate::app::run::plan as run_plan;
use crate::app::run::taken;
use crate::app::state::{Overlay, State};
use crate::app::themes;
use crate::app::tutorial;
use crate::app::view_actions::{
    back, focus, is_detail, is_played_now, next_layout, resize, select, turn_history, turn_kind, turn_mouse, turn_view,
    type_value, zoom,
};
use crate::app::views::MOST_ZOOM;
use crate::app::what_if::fixes;
use crate::app::what_if::largest;
use crate::app::what_if::search;
use crate::app::what_if::sweep;
use crate::reading::Sample;
use crate::reading::playback::PlaybackCommand;

/// Lets `event` happen. What is returned is to be done, in that order.
pub fn update(state: &mut State, event: Event) -> Vec<Effect> {
    let observed = matches!(event, Event::Sample(_) | Event::Tick(_) | Event::Run(_));
    let mut effects = happen(state, event);
    tutorial::look(state);
    saving::note_time(state);
    let end = effects.iter().position(|effect| *effect == Effect::Quit);
    let last = end.unwrap_or(effects.len());
    // Before the end, so that what is unsaved is kept when the terminal goes.
    effects.splice(last..last, drafts::keep(state, end.is_some()));
    if let Some(named) = state.plans.editor.unread_config() {
        let (folder, named) = (state.plans.editor.folder().to_owned(), named.to_owned());
        effects.push(Effect::ReadConfig { folder, named });
    }
    effects.extend(reader::ask(&mut state.plans));
    if observed && end.is_none() {
        effects.extend(watching::look(state));
    }
    effects.extend(explanation_search::look(state));
    // What is observed changes no plan.
    if end.is_none() && !observed {
        effects.extend(look_around::ask(state));
    }
    effects
}

fn happen(state: &mut State, event: Event) -> Vec<Effect> {
    match event {
        Event::Key(key) => return on_key(state, key),
        Event::Paste(text) => editing::paste(state, &text),
        Event::Click(target) => return pointing::click(state, target),
        Event::Resized(width, height) => state.views.size = (width, height),
        Event::TerminalGone => return vec![Effect::Quit],
        // While a recording is played, its time is the time.
        Event::Tick(now) if state.recordings.playback.is_none() => state.now = state.now.max(now),
        Event::Tick(_) => {}
        Event::SourceStarted(info) => {
            offer::on_source(state, &info);
            state.monitor.source = SourceState::Running(info);
            run_plan::source_started(state);
        }
        Event::SourceFailed(_) if state.monitor.source == SourceState::Unwatched => {}
        Event::SourceFailed(why) => state.monitor.source = SourceState::Failed(why),
        Event::Sample(sample) => return on_sample(state, *sample),
        Event::Run(news) => {
            if news.pid == state.monitor.attached_by_user() {
                state.monitor.follow_rank(&state.run.telemetry.news.ranks, &news.ranks);
            }
            state.run.telemetry.take(*news);
            state.run.telemetry.follow(&state.monitor, state.now);
            set_against(state);
            exhaustion::look(state);
            return alerts::on_sample(state);
        }
        Event::Played(playback) => return recording::played(state, playback),
        Event::Recording(path) => recording::began(state, path),
        Event::Recorded(what) => recording::ended(state, info(what)),
        Event::RecordingRoom { has_room, said } => {
            let notice = if has_room { info(said) } else { problem(said) };
            state.notice = Some(notice);
        }
        Event::RecordFailed(why) => recording::ended(state, problem(why)),
        Event::EndSent { meant, forced } => end_request::sent(state, meant, forced),
        Event::EndFailed(why) => state.notice = Some(problem(why)),
        Event::Saved { path, text } => return saving::saved(state, path, text),
        Event::LookedAtFile { path, known, text, is_gone } => {
            watching::note_gone(state, &path, is_gone);
            watching::looked(state, &path, &known, text);
        }
        Event::Unchanged => saving::unchanged(state),
        Event::SaveFailed(why) => saving::failed(state, &why),
        Event::DraftNotKept(why) => {
            state.notice = Some(problem(format!("unsaved changes are not kept against a crash: {why}; save often")));
        }
        Event::OpenElsewhere { path, holder } => {
            let who = holder.map(|pid| format!(", process {pid}")).unwrap_or_default();
            let said = format!("{} is open in another dashboard too{who}", path.display());
            state.notice = Some(problem(said));
        }
        Event::SaveRefused(conflict) => saving::refused(state, conflict),
        Event::Imported(import) => account::arrived(state, *import),
        Event::PathsFound { typed, paths } => picking::paths_found(state, &typed, paths),
        Event::Opened { name, path, text, drafts } => {
            let plan = Editor::open_text(name, Some(path), text, &state.catalog);
            plans::open(state, plan, drafts);
        }
        Event::Read { number, read } => {
            reader::arrived(state, number, read);
            editing::follow(state);
        }
        Event::Explained { number, found } => explanation_search::arrived(state, number, found),
        Event::LookedAround { number, found } => look_around::arrived(state, number, *found),
        Event::Inferred { pid, outcome } => inferred::arrived(state, pid, outcome),
        Event::CommandRead(read) => commanded::arrived(state, *read),
        Event::Calibrated(outcome) => calibrations::written(state, outcome),
        Event::AlertFailed(why) => state.notice = Some(problem(why)),
        Event::StrayLine(line) => state.notice = Some(problem(format!("a driver or library wrote: {line}"))),
        Event::Searching { number, seen, found } => {
            search::goes_on(&mut state.dialogs, number, seen, found.map(|found| *found));
        }
        Event::Searched { number, answer } => search::ended(&mut state.dialogs, number, answer.map(|answer| *answer)),
        Event::OpenFailed(why) => state.notice = Some(problem(why)),
        Event::PlanMissing(path) => new::ask(state, Some(path)),
        Event::PlansListed(files) => plans::listed(&mut state.dialogs, &files),
        Event::ConfigRead { named, config } => {
            for editor in state.plans.tabs.others_mut().chain([&mut state.plans.editor]) {
                if editor.unread_config() == Some(&named) {
                    editor.take_config(named.clone(), config.clone(), &state.catalog);
                }
            }
            editing::follow(state);
        }
    }
    Vec::new()
}

/// What follows from a sample.
fn on_sample(state: &mut State, sample: Sample) -> Vec<Effect> {
    state.now = state.now.max(sample.at);
    state.run.telemetry.on_progress(&sample, &mut state.monitor);
    let told = state.run.telemetry.progress(&state.monitor, state.now);
    state.monitor.told = told.map(|(_, progress)| Box::new(progress));
    // Its GPUs are known from here on.
    let is_first = state.monitor.sample.is_none();
    state.monitor.take(sample);
    if state.monitor.attached.is_some() {
        state.run.telemetry.find_rhythm(&state.monitor);
    }
    state.run.telemetry.follow(&state.monitor, state.now);
    cluster::on_sample(state);
    set_against(state);
    exhaustion::look(state);
    outlook::look(state);
    trail::note(state);
    let mut effects = alerts::on_sample(state);
    if is_first && state.monitor.attached.is_some() && inferred::is_wanted(state) {
        effects.extend(inferred::ask(state));
    }
    effects.extend(commanded::ask(state));
    effects.extend(inferred::ask_again(state));
    if state.recordings.playback.is_some() {
        milestones::pass(state);
    }
    effects
}

/// A key was pressed.
pub fn on_key(state: &mut State, key: KeyPress) -> Vec<Effect> {
    // The text has an undo on the same key.
    match state.keys.lookup(key, KeyContext::Anywhere, false) {
        Some(Action::Repaint) => return vec![Effect::Repaint],
        Some(Action::Suspend) if state.context() != KeyContext::Text => return vec![Effect::Suspend],
        _ => state.notice = None,
    }
    if state.dialogs.picker.is_some() {
        let (mut effects, action) = picking::on_key(state, key);
        effects.extend(action.map(|action| act(state, action)).into_iter().flatten());
        return effects;
    }
    if let Some(overlay) = state.dialogs.overlay {
        return overlays::on_key(state, overlay, key);
    }
    if state.monitor.ending.is_some() {
        return end_request::on_key(state, key);
    }
    if state.views.focus == Pane::Monitor && state.monitor.list.typing {
        state.monitor.search(key);
        return Vec::new();
    }
    if state.views.focus == Pane::Plan && state.plans.form.typing.is_some() {
        editing::type_key(state, key);
        return Vec::new();
    }
    on_bound_key(state, key)
}

/// A key that the table, or the user's own, may have an action for; alone or as one of several.
fn on_bound_key(state: &mut State, key: KeyPress) -> Vec<Effect> {
    let mut keys = std::mem::take(&mut state.views.chord);
    keys.push(key);
    let context = state.context();
    match state.keys.find(&keys, context, state.recordings.playback.is_some()) {
        // An offer is closed before the text is left.
        KeyMatch::Action(Action::Text) if state.plans.text.as_ref().is_some_and(|view| view.completion.is_some()) => {
            editing::type_text(state, key);
        }
        KeyMatch::Action(action) => return act(state, action),
        KeyMatch::Begun => {
            state.notice = Some(info(format!("{} … another key completes it", sequence(&keys))));
            state.views.chord = keys;
        }
        KeyMatch::Unbound if keys.len() > 1 => {
            if key != KeyPress::Esc {
                state.notice = Some(dead_key(format!("{} does nothing: ? lists the keys", sequence(&keys))));
            }
        }
        KeyMatch::Unbound if context == KeyContext::Text => editing::type_text(state, key),
        KeyMatch::Unbound => {
            state.notice = Some(dead_key(format!("{} does nothing here: ? lists the keys", word(key))))
        }
    }
    Vec::new()
}

fn act(state: &mut State, action: Action) -> Vec<Effect> {
    if cluster_actions::act(state, action) {
        return Vec::new();
    }
    match action {
        Action::Quit => return saving::quit(state),
        Action::Repaint => return vec![Effect::Repaint],
        Action::Suspend => return vec![Effect::Suspend],
        Action::Save => return saving::ask(state),
        Action::SaveAs => saving::ask_where(&mut state.dialogs),
        Action::Export => exporting::ask(state),
        Action::Open => return plans::ask(state),
        Action::NewPlan => new::ask(state, None),
        Action::Themes => themes::open(state),
        Action::NextLayout => next_layout(state),
        Action::Wider | Action::Narrower | Action::Taller | Action::Shorter | Action::ResetSizes => {
            resize(state, action)
        }
        Action::Back => back(state),
        Action::Duplicate => plans::duplicate(state),
        Action::ClosePlan => plans::close(state),
        Action::NextPlan => plans::next(state),
        Action::PreviousPlan => plans::previous(state),
        Action::Plans => state.dialogs.overlay = Some(Overlay::Plans(state.plans.tabs.place().0)),
        Action::Palette => picking::open_palette(state),
        Action::Baseline => baseline::pin(state),
        Action::ApplyToRun => run_plan::apply(state),
        Action::FollowRun => return offer::take(state),
        Action::Text => editing::turn_text(state),
        Action::Complete => editing::complete(state),
        Action::Fixes => fixes::open(state),
        Action::OperatorAdvice => fixes::open_operator(state),
        Action::Largest => largest::open(state),
        Action::Sweep => sweep::open(state),
        Action::Walls => sweep::show(state, vec![Field::Batch]),
        Action::Search => return search::open(state),
        Action::AddKey => editing::add_key(state),
        Action::RemoveKey => editing::remove_key(state),
        Action::NextPane => focus(state, state.views.focus.next()),
        Action::PreviousPane => focus(state, state.views.focus.previous()),
        Action::Focus(pane) => focus(state, pane),
        Action::Zoom => zoom(state),
        Action::ExplainTerm => lesson::open(state),
        Action::Tutorial => tutorial::open(state),
        Action::Help => state.dialogs.overlay = Some(Overlay::Help(0)),
        Action::Up => select(state, |row, _| row.saturating_sub(1)),
        Action::Down => select(state, |row, last| (row + 1).min(last)),
        Action::PageUp if is_detail(state) => state.monitor.page = state.monitor.page.saturating_sub(1),
        Action::PageDown if is_detail(state) => state.monitor.page += 1,
        Action::PageUp => select(state, |row, _| row.saturating_sub(PAGE)),
        Action::PageDown => select(state, |row, last| (row + PAGE).min(last)),
        Action::First => select(state, |_, _| 0),
        Action::Last => select(state, |_, last| last),
        Action::Less => editing::take_step(state, Direction::Less),
        Action::More => editing::take_step(state, Direction::More),
        Action::Type => type_value(state),
        Action::Undo | Action::Redo => editing::turn_back(state, action),
        Action::View => turn_view(state),
        Action::Kind => turn_kind(state),
        Action::Roofs => state.views.roofline.every_roof = !state.views.roofline.every_roof,
        Action::ZoomIn => state.views.roofline.zoom = (state.views.roofline.zoom + 1).min(MOST_ZOOM),
        Action::ZoomOut => state.views.roofline.zoom = state.views.roofline.zoom.saturating_sub(1),
        Action::Mouse => return turn_mouse(state),
        Action::Explain => return explanation_search::ask_now(state),
        Action::TakeExplanation => taken::take(state),
        Action::Calibrate => return calibrations::keep(state),
        Action::DropCalibration => return calibrations::drop_it(state),
        Action::RanOut => exhaustion::show(state),
        Action::Acknowledge => alerts::acknowledge(state),
        Action::Attach => return attach(state),
        Action::Infer => return inferred::ask(state),
        Action::History => state.monitor.view = state.monitor.view.history(),
        Action::Metric | Action::OverlayMetric | Action::EveryDevice => turn_history(state, action),
        Action::Sort => state.monitor.list.sort = state.monitor.list.sort.next(),
        Action::Find => state.monitor.list.typing = true,
        Action::EndProcess => end_request::ask(state),
        Action::NextStraggler => cluster_actions::next_straggler(state),
        Action::ShorterSpan if is_played_now(state) => return vec![Effect::Steer(PlaybackCommand::Seek(-60))],
        Action::LongerSpan if is_played_now(state) => return vec![Effect::Steer(PlaybackCommand::Seek(60))],
        Action::ShorterSpan => state.monitor.span = state.monitor.span.shorter(),
        Action::LongerSpan => state.monitor.span = state.monitor.span.longer(),
        Action::Record => return recording::toggle(state),
        Action::Steer(steer) => return vec![Effect::Steer(steer)],
    }
    Vec::new()
}

fn attach(state: &mut State) -> Vec<Effect> {
    match state.monitor.selected_pid() {
        Some(pid) => {
            state.monitor.toggle_attach(pid);
            // What was found out about another process says nothing of this one.
            state.run.explaining.restart();
            let plan = run_plan::attached(state);
            state.notice = Some(match &state.monitor.attached {
                Some(_) => info(format!("attached to {pid}{plan}")),
                None => info(format!("detached from {pid}: the fullest GPU is compared with the plan")),
            });
            set_against(state);
            if state.monitor.attached.is_some() && inferred::is_wanted(state) {
                return vec![inferred::of(state, state.monitor.here(pid))];
            }
        }
        None => state.notice = Some(problem("no process on this GPU to attach to")),
    }
    Vec::new()
}
