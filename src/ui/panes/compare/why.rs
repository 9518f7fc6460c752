//! What explains that the run differs from its plan, the likeliest first.

use ratatui::text::{Line, Span};

use super::Page;
use crate::app::{Pane, Plans, State, mismatch_words, other_machine, unexplained};
use crate::compare::{Comparison, Explanation, Forecast, Residual};
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::text::{left, right};

/// What stands left of an explanation's words: the mark of the selected one, and how sure it is.
const SURE: usize = 10;

/// What is shown of each, and its width; the last, where it does not fit beside the words, falls out there.
const FIGURES: [(&str, usize); 4] = [("memory", 11), ("step", 10), ("DRAM", 12), ("compute", 14)];

/// From this width on they stand beside the words, else below.
const BESIDE: usize = 76;

/// From this width on all of them do.
const ALL_BESIDE: usize = 92;

/// Adds the explanations, each with what it would make of the run's figures.
pub fn add(state: &State, comparison: &Comparison, look: &Look, page: &mut Page<'_>) {
    let found = &state.run.explaining.found;
    let machine = state.plans.compared().job().and_then(|job| other_machine(state, job));
    if let Some(machine) = machine.filter(|_| comparison.is_notable()) {
        // The process says so itself: it stands before what is guessed.
        page.note("why", &format!("the run has {machine}"), 2, look);
        if found.is_empty() {
            return;
        }
    }
    if found.first().is_some_and(|best| !best.fits) {
        page.note("why", "nothing that was tried fits all figures; the nearest:", 1, look);
    }
    if found.is_empty() {
        return page.note("why", &printable(&none(state, comparison)), 4, look);
    }
    let beside = page.width >= BESIDE;
    let left_out = usize::from(beside && page.width < ALL_BESIDE);
    let figures = &FIGURES[..FIGURES.len() - left_out];
    let taken = if beside { figures.iter().map(|(_, width)| width).sum() } else { 0 };
    let room = page.width.saturating_sub(SURE + 1 + taken);
    let head: String = figures.iter().filter(|_| beside).map(|(word, width)| right(word, *width)).collect();
    page.add(Line::styled(
        format!("  {}  {}{head}", right("sure", SURE - 4), left("why, and what would be seen", room)),
        look.theme.dim(),
    ));
    let selected = state.views.compared.min(found.len().saturating_sub(1));
    for (index, explanation) in found.iter().enumerate() {
        page.row = Some(index);
        let chosen = state.views.focus == Pane::Compare && state.views.compared == index;
        if chosen {
            page.selected = Some(page.lines.len());
        }
        let style = if chosen { look.theme.selected() } else { look.theme.text() };
        let mut spans = vec![
            Span::styled(if chosen { " ▸" } else { "  " }, look.theme.accent()),
            Span::styled(right(&sure(explanation), SURE - 4), style),
            Span::styled(format!("  {}", left(&printable(&explanation.words()), room)), style),
        ];
        let shown = Span::styled(shown(explanation, figures), look.theme.predicted());
        if beside {
            spans.push(shown);
            page.add(spans);
        } else {
            page.add(spans);
            page.add(vec![Span::raw(" ".repeat(SURE)), shown]);
        }
        if index == selected {
            for note in notes(&state.plans, explanation) {
                page.note("", &look.keys(&note), 2, look);
            }
        }
    }
    page.row = None;
}

/// How sure an explanation is; nothing of one that does not fit.
fn sure(explanation: &Explanation) -> String {
    if explanation.fits { explanation.share.to_string() } else { "–".to_owned() }
}

/// What the run would show, in columns.
fn shown(explanation: &Explanation, columns: &[(&str, usize)]) -> String {
    let expected = &explanation.expected;
    let figures = [
        expected.device_used.to_string(),
        expected.step.to_string(),
        expected.bandwidth().to_string(),
        expected.rate().to_string(),
    ];
    figures.iter().zip(columns).map(|(figure, (_, width))| right(figure, *width)).collect()
}

/// What to know of the selected one: what else would show the same, and what to do about it.
fn notes(plans: &Plans, explanation: &Explanation) -> Vec<String> {
    let mut notes = Vec::new();
    let alike: Vec<&str> = explanation.alike.iter().map(|cause| cause.words.as_str()).collect();
    if !alike.is_empty() {
        notes.push(format!("the same would show: {}", alike.join(", ")));
    }
    let remedies = explanation.causes.iter().filter_map(|cause| Some(cause.circumstance?.remedy()));
    notes.extend(remedies.map(|remedy| format!("to do: {remedy}")));
    if let Some(change) = explanation.change() {
        let new = |(key, value): &&(&str, String)| plans.compared().said(key).as_ref() != Some(value);
        let set = change.set.iter().filter(new).map(|(key, value)| format!("{key}: {value}"));
        let keys: Vec<String> = set.chain(change.remove.iter().map(|key| format!("no {key}"))).collect();
        notes.push(format!("⏎ makes the plan say {}", keys.join(", ")));
    }
    notes
}

fn is_over(state: &State) -> bool {
    state.run.last_attempt.is_shown() || state.run.telemetry.ended(&state.monitor, state.now).is_some()
}

/// Why there is no explanation.
fn none(state: &State, comparison: &Comparison) -> String {
    if let Some(mismatch) = mismatch_words(state) {
        return format!("nothing to search for: {mismatch}");
    }
    let on_cpu = state.plans.compared().prediction().is_some_and(|prediction| prediction.on_cpu);
    let said = if state.run.explaining.under_way() {
        "being searched for"
    } else if !comparison.evidence.settled && is_over(state) {
        "the run ended before its steps were steady; press e to search all the same"
    } else if !comparison.evidence.settled {
        match state.plans.compared().serves() {
            true => "waiting for steps from a log or hook; press e to search now",
            false => "waiting for complete steps; press e to search now",
        }
    } else if let Some(straggler) = state.monitor.cluster.stragglers().first().filter(|_| !comparison.is_notable()) {
        let gpu = state.monitor.cluster.layout().ranks.get(straggler.rank);
        let name =
            gpu.and_then(|place| state.monitor.devices().get(*place)).map(|device| state.monitor.gpu_name(device));
        return format!("GPU {}: {}; all else is within the bands", name.unwrap_or_default(), straggler.words());
    } else if !comparison.is_notable() {
        "nothing to explain: all within the bands of healthy runs"
    } else if matches!(state.run.outlook.memory, Forecast::Growing(_)) {
        "memory grows with time, which no plan's does: see below"
    } else if on_cpu && comparison.mfu.as_ref().is_some_and(Residual::passes_the_peak) {
        "faster than the fastest matmul that `memwall bench --cpu` measured: other programs ran then; measure again"
    } else {
        let words = unexplained(state).map_or_else(|| "nothing tried explains it".to_owned(), |said| said.concat());
        return format!("{words}; e searches again");
    };
    said.to_owned()
}
