//! The bottom line: a message where there is one, else the keys that work here now.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::text::{RenderLine, fit, width_of};
use super::{Look, conflict};
use crate::app::{
    Action, Binding, Dialogs, KeyContext, MonitorView, NoticeSeverity, Overlay, Pane, PickerPurpose, Plans, State,
    bindings, footer,
};
use crate::printable::printable;

/// Fewer letters of a name say nothing.
const SHORTEST_NAME: usize = 8;

/// The question before changes of the plan in front are lost, in so many cells: which plan, and which are asked about
/// behind it.
pub fn unsaved(plans: &Plans, width: usize) -> String {
    let names = plans.tabs.all(&plans.editor).filter(|plan| plan.modified() && !std::ptr::eq(*plan, &plans.editor));
    let others: Vec<String> = names.map(|plan| printable(plan.name())).collect();
    let (names, saves) = match others.as_slice() {
        [] => (printable(plans.editor.name()), "s save and quit"),
        others => (format!("{}, then {}", printable(plans.editor.name()), others.join(", ")), "s save"),
    };
    // What may be done is always seen: names are cut before.
    let (asked, choices) = ("Unsaved changes in ", format!(":  {saves}   q discard   esc stays"));
    let room = width.saturating_sub(asked.len() + choices.len()).max(SHORTEST_NAME);
    format!("{asked}{}{choices}", fit(&names, room))
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    // Why what was asked for is not to be had comes before what else may be done there.
    let what_if = matches!(state.dialogs.overlay, Some(Overlay::Sweep | Overlay::Search | Overlay::Largest));
    let refused = state.notice.as_ref().is_some_and(|notice| match notice.severity {
        NoticeSeverity::Info => false,
        NoticeSeverity::Problem => what_if,
        NoticeSeverity::DeadKey => true,
    });
    if let Some(question) = question(state).filter(|_| state.dialogs.picker.is_none() && !refused) {
        let text = fit(&look.keys(&format!(" {question}")), area.width as usize);
        return Line::styled(text, theme.warning()).render(area, buffer);
    }
    if let Some(picker) = &state.dialogs.picker {
        let take = if picker.purpose == PickerPurpose::Action { "do it" } else { "take" };
        let shown: &[(&str, &str)] = match picker.purpose {
            PickerPurpose::SaveAs | PickerPurpose::ExportTo => {
                &[("type", "a path"), ("tab", "completes it"), ("⏎", "write"), ("esc", "leave")]
            }
            PickerPurpose::Open | PickerPurpose::NewPlan => {
                &[("type", "finds"), ("↑↓", "choose"), ("⏎", "open"), ("tab", "completes a path"), ("esc", "leave")]
            }
            PickerPurpose::Topic => &[("type", "finds"), ("↑↓", "choose"), ("⏎", "read"), ("esc", "leave")],
            _ => &[("type", "finds"), ("↑↓", "choose"), ("⏎", take), ("esc", "leave")],
        };
        return keys(shown, look, area, buffer);
    }
    if let (Some(notice), true) = (&state.notice, is_dead_in_dialog(state)) {
        let text = dead_key(state, &notice.text, area.width as usize);
        return Line::styled(look.keys(&text), theme.warning()).render(area, buffer);
    }
    if let Some(notice) = &state.notice {
        let style = match notice.severity {
            NoticeSeverity::Info => theme.good(),
            NoticeSeverity::Problem => theme.danger(),
            NoticeSeverity::DeadKey => theme.warning(),
        };
        return Line::styled(fit(&look.keys(&format!(" {}", printable(&notice.text))), area.width as usize), style)
            .render(area, buffer);
    }
    if let Some(ending) = &state.monitor.ending {
        let how = if ending.forced { "kill it (SIGKILL)" } else { "ask it to end (SIGTERM)" };
        let name = fit(&printable(&ending.name), (area.width as usize).saturating_sub(60).max(10));
        let question = format!(" {name}: type {} and ⏎ to {how}, esc leaves:", ending.word());
        // What is typed is always seen; the question is cut before.
        let typed = format!(" {}▏", ending.typed);
        let room = (area.width as usize).saturating_sub(typed.chars().count());
        return Line::styled(fit(&question, room) + &typed, theme.warning()).render(area, buffer);
    }
    if state.monitor.list.typing && state.views.focus == Pane::Monitor {
        return keys(&[("⏎", "keep"), ("esc", "show all")], look, area, buffer);
    }
    if state.plans.form.typing.is_some() && state.views.focus == Pane::Plan {
        return keys(&[("⏎", "take"), ("esc", "leave")], look, area, buffer);
    }
    draw_bindings(state, look, area, buffer);
}

/// Whether a key was pressed that does nothing in what lies on top.
fn is_dead_in_dialog(state: &State) -> bool {
    let is_dead = state.notice.as_ref().is_some_and(|notice| notice.severity.is_dead_key());
    is_dead && state.dialogs.overlay.is_some() && state.dialogs.picker.is_none()
}

/// That a key does nothing, and what may be chosen all the same: before that where there is no room for both.
fn dead_key(state: &State, said: &str, width: usize) -> String {
    let question = question(state).unwrap_or(Cow::Borrowed("esc goes back"));
    let choices = question.split_once(":  ").map_or(&*question, |(_, choices)| choices);
    let whole = format!(" {said}:  {choices}");
    if whole.chars().count() <= width { whole } else { fit(&format!(" {choices}   {said}"), width) }
}

/// Whether the line lists keys, and not a message or what is typed.
pub fn lists_keys(state: &State) -> bool {
    let question =
        question(state).is_some() && state.notice.as_ref().is_none_or(|notice| !notice.severity.is_dead_key());
    let typed = state.monitor.ending.is_some() && state.dialogs.overlay.is_none();
    (state.dialogs.picker.is_some() || question || state.notice.is_none()) && !typed
}

/// Whether nothing that is observed changes the line: it lists the keys of a pane other than the Monitor.
pub fn is_still(state: &State) -> bool {
    let asked = question(state).is_some()
        || state.run.ran_out.is_some()
        || state.run.telemetry.newly_offered(&state.monitor, state.now).is_some();
    state.notice.is_none() && !asked && lists_keys(state) && state.context() != MONITOR
}

/// The keys of the focused pane from the left; to the right what moves between panes, gets help and leaves, and before
/// them what saves while something is unsaved: nothing changes its place when that begins.
fn draw_bindings(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    // A word without a key that the user has left it tells nobody anything.
    let of = |binding: &Binding, word: &str| {
        let keys = state.keys.shown(binding);
        if keys.is_empty() { Vec::new() } else { part(&keys, word, look) }
    };
    let listed = || footer(state.context(), state.recordings.playback.is_some());
    let mut left = Vec::new();
    if state.run.ran_out.is_some() && state.plans.text.is_none() {
        let explains = bindings().find(|binding| binding.does(Action::RanOut));
        left.extend(explains.map(|binding| of(binding, "explain")));
    }
    // Before the keys, which stay.
    let news = state.run.telemetry.offer_words(&state.monitor, state.now).filter(|_| !is_typing(state));
    if let Some(offered) = news {
        let follows = bindings().find(|binding| binding.does(Action::FollowRun));
        let keys = follows.map(|binding| state.keys.shown(binding)).filter(|keys| !keys.is_empty());
        left.extend(keys.map(|keys| {
            let word = format!(" {offered} ");
            let keys = Span::styled(format!(" {}", look.keys(&keys)), look.theme.text());
            vec![keys, Span::styled(word, look.theme.warning())]
        }));
    }
    if state.plans.editor.is_example() && state.plans.text.is_none() && state.recordings.playback.is_none() {
        left.push(part("o", "open", look));
    }
    let pane = listed()
        .filter(|binding| !binding.does(Action::Save) && !is_everywhere(binding))
        .filter(|binding| !binding.does(Action::TakeExplanation) || has_change(state));
    if shows_cluster(state) {
        left.extend(of_cluster(state).map(|(keys, word)| part(&keys, word, look)));
    } else {
        // Everybody tries the arrows without being told.
        let (moving, others): (Vec<_>, Vec<_>) = pane.partition(|binding| binding.does(Action::Up));
        left.extend(others.into_iter().chain(moving).map(|binding| of(binding, word(binding, state))));
    }
    let right: Vec<Span<'_>> =
        listed().filter(|binding| is_everywhere(binding)).flat_map(|binding| of(binding, binding.word)).collect();
    let save = saving(state).map_or_else(Vec::new, |binding| of(binding, "save"));
    let all = left.iter().map(|part| width_of(part)).sum::<usize>() + width_of(&right) + width_of(&save);
    let last = if state.plans.editor.modified() || all <= area.width as usize { [save, right].concat() } else { right };
    render(left, last, area, buffer);
}

/// Whether the selected explanation says what the plan should.
fn has_change(state: &State) -> bool {
    let found = state.run.explaining.found.get(state.views.compared);
    found.is_some_and(|explanation| explanation.change().is_some())
}

/// What a key does now.
fn word(binding: &Binding, state: &State) -> &'static str {
    let attached = state.monitor.attached.as_ref().map(|attached| attached.pid);
    let again = binding.does(Action::Attach) && attached.is_some() && state.monitor.selected_pid() == attached;
    if again { "detach" } else { binding.word }
}

fn shows_cluster(state: &State) -> bool {
    state.context() == MONITOR && state.monitor.view == MonitorView::Cluster
}

const MONITOR: KeyContext = KeyContext::In(Pane::Monitor);

/// The Monitor pane's keys do other things in the view of a cluster.
fn of_cluster(state: &State) -> impl Iterator<Item = (String, &'static str)> {
    const WORDS: [(Action, &str); 6] = [
        (Action::NextStraggler, "next off"),
        (Action::Attach, "the GPU"),
        (Action::Sort, "group by"),
        (Action::Metric, "metric"),
        (Action::Find, "job"),
        (Action::View, "view"),
    ];
    WORDS.into_iter().filter_map(|(action, word)| {
        let binding = bindings().find(|binding| binding.context == MONITOR && binding.does(action))?;
        Some((state.keys.key_of(binding, action), word)).filter(|(keys, _)| !keys.is_empty())
    })
}

/// What is shown whichever pane has the focus.
fn is_everywhere(binding: &Binding) -> bool {
    [Action::NextPane, Action::Zoom, Action::Help, Action::Quit].into_iter().any(|action| binding.does(action))
}

/// The keys that save: the pane's own, else those that hold in every pane, where anything is unsaved.
fn saving(state: &State) -> Option<&'static Binding> {
    let saves = |context| bindings().find(|binding| binding.context == context && binding.does(Action::Save));
    saves(state.context()).or_else(|| saves(KeyContext::Anywhere).filter(|_| state.plans.editor.modified()))
}

/// What is asked while something lies on top that wants an answer.
fn question(state: &State) -> Option<Cow<'static, str>> {
    match (state.dialogs.overlay, state.plans.drafts.len()) {
        (Some(Overlay::Search), _) => return Some(searching(&state.dialogs)),
        (Some(Overlay::ConfirmQuit), _) => {
            let width = usize::from(state.views.size.0).saturating_sub(1);
            return Some(Cow::Owned(unsaved(&state.plans, width)));
        }
        (Some(Overlay::Recovered(_)), 2..) => {
            let count = state.plans.drafts.len();
            return Some(Cow::Owned(format!(
                "{count} drafts were kept:  r take it back   d delete it   n next   q leaves them"
            )));
        }
        _ => {}
    }
    asked(state).map(Cow::Borrowed)
}

/// Whether letters go into a value or a text: its own keys stand here then.
const fn is_typing(state: &State) -> bool {
    state.plans.text.is_some() || state.plans.form.typing.is_some()
}

fn asked(state: &State) -> Option<&'static str> {
    match state.dialogs.overlay? {
        Overlay::Diff(_) => Some("s or ⏎ saves this   ↑↓ scroll   esc goes back"),
        Overlay::Conflict(_) => Some(conflict::question(&state.plans)),
        Overlay::Export(_) => Some("s writes it   S to another file   ↑↓ scroll   esc goes back"),
        Overlay::Imported(_) => Some("opened, in no file yet   ↑↓ scroll   esc shows the plan"),
        Overlay::Recovered(_) => Some("Unsaved changes were kept:  r take them back   d delete them   q leaves them"),
        Overlay::Plans(_) => Some("↑↓ choose   ⏎ brings it to the front   esc goes back"),
        Overlay::Sweep if state.dialogs.sweep.as_ref().is_some_and(|view| view.fields.len() > 1) => {
            Some("↑↓←→ choose   ⏎ takes it   v memory, tok/s   esc goes back")
        }
        Overlay::Sweep => Some("↑↓ choose   ⏎ takes it   a adds a second key   esc goes back"),
        Overlay::Proposal(_) => Some("⏎ takes it as a plan beside this one   ↑↓ scroll   esc dismisses it"),
        Overlay::Fixes => Some("↑↓ choose   ⏎ takes it as one edit   esc leaves the plan as it is"),
        Overlay::Largest => Some("⏎ takes it into the plan   esc leaves the plan as it is"),
        Overlay::RanOut(_) => Some("↑↓ scroll   esc goes back, O shows it again"),
        Overlay::Tutorial(_) => Some("⏎ to the plan   n next   p back   ↑↓ scroll   a b c answer"),
        Overlay::Lesson(_) => Some("↑↓ scroll   / another term   esc goes back"),
        Overlay::ConfirmQuit | Overlay::Search | Overlay::Help(_) | Overlay::Topic { .. } => None,
    }
}

/// What works while a search is shown; its constraints have their keys beside them.
fn searching(dialogs: &Dialogs) -> Cow<'static, str> {
    let Some(view) = &dialogs.search else { return Cow::Borrowed("esc leaves") };
    let next = view.aim.next().word();
    let first = if view.under_way.is_some() { "c stops it" } else { "tab by memory" };
    Cow::Owned(format!("↑↓ choose   ⏎ takes it   {first}   a next: {next}   esc leaves"))
}

fn part(keys: &str, word: &str, look: &Look) -> Vec<Span<'static>> {
    let keys = look.keys(keys);
    vec![Span::styled(format!(" {keys}"), look.theme.text()), Span::styled(format!(" {word} "), look.theme.dim())]
}

fn keys(keys: &[(&str, &str)], look: &Look, area: Rect, buffer: &mut Buffer) {
    render(keys.iter().map(|(key, word)| part(key, word, look)).collect(), Vec::new(), area, buffer);
}

/// Parts from the left as far as they fit beside what is on the right.
fn render(left: Vec<Vec<Span<'_>>>, right: Vec<Span<'_>>, area: Rect, buffer: &mut Buffer) {
    let room = (area.width as usize).saturating_sub(width_of(&right));
    let mut spans: Vec<Span<'_>> = Vec::new();
    for part in left {
        if width_of(&spans) + width_of(&part) > room {
            break;
        }
        spans.extend(part);
    }
    Line::from(spans).render(area, buffer);
    Line::from(right).right_aligned().render(area, buffer);
}
