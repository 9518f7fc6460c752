//! What explains that the run differs from its plan, the likeliest first.

use ratatui::text::{Line, Span};

use super::Page;
use crate::app::{Pane, State};
use crate::compare::{Comparison, Explanation};
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::text::{left, right};

/// Memory, step, bandwidth and how sure: what stands right of an explanation's words.
const FIGURES: [usize; 4] = [11, 9, 11, 7];

/// Adds the explanations, each with what it would make of the run's figures.
pub fn add(state: &State, comparison: &Comparison, look: &Look, page: &mut Page<'_>) {
    let found = &state.explaining.found;
    if found.is_empty() {
        return page.note("why", none(state, comparison), 2, look);
    }
    let [memory, step, traffic, sure] = FIGURES;
    let room = page.width.saturating_sub(4 + FIGURES.iter().sum::<usize>());
    let head = [("memory", memory), ("step", step), ("DRAM", traffic), ("sure", sure)];
    let head: String = head.into_iter().map(|(word, width)| right(word, width)).collect();
    page.add(Line::styled(format!(" {}{head}", left("why: the run would show this with", room + 2)), look.theme.dim()));
    let selected = state.compared.min(found.len().saturating_sub(1));
    let focused = state.focus == Pane::Compare && state.compared < found.len();
    for (index, explanation) in found.iter().enumerate() {
        let chosen = focused && index == selected;
        if chosen {
            page.selected = Some(page.lines.len());
        }
        let style = if chosen { look.theme.selected() } else { look.theme.text() };
        let expected = &explanation.expected;
        page.add(vec![
            Span::styled(if chosen { " ▸ " } else { "   " }, look.theme.accent()),
            Span::styled(left(&printable(&explanation.words()), room), style),
            Span::styled(right(&expected.device_used.to_string(), memory), look.theme.predicted()),
            Span::styled(right(&expected.step.to_string(), step), look.theme.predicted()),
            Span::styled(right(&expected.bandwidth().to_string(), traffic), look.theme.predicted()),
            Span::styled(right(&explanation.share.to_string(), sure), style),
        ]);
        if index == selected {
            for note in notes(explanation) {
                page.note("", &note, 2, look);
            }
        }
    }
}

/// What to know of the selected one: what else would show the same, and what to do about it.
fn notes(explanation: &Explanation) -> Vec<String> {
    let mut notes = Vec::new();
    let alike: Vec<&str> = explanation.alike.iter().map(|cause| cause.words.as_str()).collect();
    if !alike.is_empty() {
        notes.push(format!("the same would show: {}", alike.join(", ")));
    }
    let remedies = explanation.causes.iter().filter_map(|cause| Some(cause.circumstance?.remedy()));
    notes.extend(remedies.map(|remedy| format!("to do: {remedy}")));
    if let Some(change) = explanation.change() {
        let set = change.set.iter().map(|(key, value)| format!("{key}: {value}"));
        let keys: Vec<String> = set.chain(change.remove.iter().map(|key| format!("without {key}"))).collect();
        notes.push(format!("⏎ makes the plan say: {}", keys.join(", ")));
    }
    notes
}

/// Why there is no explanation.
fn none(state: &State, comparison: &Comparison) -> &'static str {
    if state.explaining.under_way() {
        "being searched for"
    } else if !comparison.evidence.settled {
        "looked for once the run has worked for whole steps; e looks now"
    } else if comparison.is_notable() {
        "no other plan explains this better than the plan itself; e looks again"
    } else {
        "nothing to explain: all within what predictions stray by"
    }
}
