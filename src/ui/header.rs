//! The two top lines: what runs and whether it fits; how far observed is from predicted.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::text::{fit, width_of};
use super::{Look, standing};
use crate::app::{Attached, AttachedState, Recording, Source, State};
use crate::compare::{Phase, Residual};
use crate::predict::{Prediction, Verdict};
use crate::printable::printable;
use crate::reading::SourceKind;
use crate::reading::playback::Playback;
use crate::units::{BytesPerSec, Seconds, three_figures};

/// A plan's name is not cut below this.
const SHORTEST_NAME: usize = 8;
/// With less room in the line the other card is not named.
const WITH_THE_CARD: usize = 80;

/// Draws both lines into the top of `area`.
pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let rows = area.rows().collect::<Vec<_>>();
    if let [first, second, ..] = rows.as_slice() {
        what_runs(state, look, *first, buffer);
        standing::draw(state, look, *second, buffer);
    }
}

fn what_runs(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let editor = &state.editor;
    let changed = if editor.modified() { "*" } else { "" };
    let example = if editor.is_example() && state.playback.is_none() { " example" } else { "" };
    let verdict = editor.prediction().map_or_else(Vec::new, |prediction| verdict(prediction, look));
    let room = (area.width as usize).saturating_sub(width_of(&verdict) + 2);
    let source = source(state, look);
    let warning = other_card(state, look, room);
    // Where figures come from, and of which card they are, never falls out: the plan's name is cut before.
    let beside: usize =
        [&source, &warning].into_iter().filter(|part| !part.is_empty()).map(|part| width_of(part) + 3).sum();
    let name = room.saturating_sub(beside + 1 + changed.len() + example.len()).max(SHORTEST_NAME);
    let mut parts = vec![
        vec![
            Span::styled(format!(" {}{changed}", fit(&printable(editor.name()), name)), theme.accent()),
            Span::styled(example, theme.dim()),
        ],
        source,
    ];
    if state.playback.is_some() {
        // What time it is there comes first, and stays on narrow screens.
        parts.swap(0, 1);
        parts[0].insert(0, Span::raw(" "));
    }
    parts.extend(Some(warning).filter(|warning| !warning.is_empty()));
    parts.extend(recording(state, look));
    if let Some(attached) = &state.monitor.attached {
        parts.push(attached_to(state, attached, look));
    }
    if let Some(prediction) = editor.prediction() {
        let gpus = format!("{}× {}", prediction.num_gpus, prediction.gpu_short);
        parts.push(vec![Span::styled(gpus, theme.text())]);
    }
    parts.push(vec![Span::styled(editor.summary(), theme.text())]);
    let shown = joined(parts, room, look);
    Line::from(shown).render(area, buffer);
    Line::from(verdict).right_aligned().render(area, buffer);
}

/// That what is watched is another card than the plan's, and on wide screens which.
fn other_card<'a>(state: &State, look: &Look, room: usize) -> Vec<Span<'a>> {
    let said = state.other_card().map(|seen| {
        let words = "not the plan's GPU";
        if room < WITH_THE_CARD { words.to_owned() } else { format!("on {}, {words}", fit(&printable(seen), 20)) }
    });
    said.map(|said| Span::styled(said, look.theme.warning())).into_iter().collect()
}

/// Joins parts by a bar as far as they fit: the least important, at the end, fall out first.
pub fn joined<'a>(parts: Vec<Vec<Span<'a>>>, room: usize, look: &Look) -> Vec<Span<'a>> {
    let mut spans: Vec<Span<'a>> = Vec::new();
    for part in parts {
        let bar = if spans.is_empty() { 0 } else { 3 };
        if width_of(&spans) + bar + width_of(&part) > room {
            break;
        }
        if bar > 0 {
            spans.push(Span::styled(" │ ", look.theme.frame()));
        }
        spans.extend(part);
    }
    spans
}

fn source<'a>(state: &'a State, look: &Look) -> Vec<Span<'a>> {
    let theme = &look.theme;
    match &state.monitor.source {
        Source::Starting if state.editor.prediction().is_none() => {
            vec![Span::styled("waits for a plan", theme.dim())]
        }
        Source::Starting => vec![Span::styled("source starting", theme.dim())],
        // Why, the monitor pane says.
        Source::Failed(_) => vec![Span::styled("no source", theme.danger())],
        Source::Running(info) => {
            let live = !matches!(info.kind, SourceKind::Demo | SourceKind::Replay);
            let style = if live { theme.good() } else { theme.warning() };
            let mut spans = vec![Span::styled(info.kind.word(), style)];
            match &state.playback {
                Some(playback) => spans.extend(position(playback, look)),
                None => spans.push(age(state, look)),
            }
            spans
        }
    }
}

/// Where in a recording the screen stands: `0:12:03/1:00:00 ×4`; with where it is on the way to, `→ 0:50:00`.
fn position<'a>(playback: &Playback, look: &Look) -> Vec<Span<'a>> {
    let theme = &look.theme;
    let place = format!(" {}/{}", clock(playback.position()), clock(playback.length()));
    let mut spans = vec![Span::styled(place, theme.text())];
    if let Some(going_to) = playback.going_to {
        spans.push(Span::styled(
            format!(" {} {}", look.arrow().trim(), clock(going_to.since(playback.start))),
            theme.warning(),
        ));
    } else if playback.ended() {
        let end = if playback.damage.is_some() { " breaks off" } else { " end" };
        spans.push(Span::styled(end, theme.warning()));
    } else if playback.paused {
        spans.push(Span::styled(" paused", theme.warning()));
    }
    if playback.speed != 1.0 {
        spans.push(Span::styled(format!(" ×{}", playback.speed), theme.dim()));
    }
    spans
}

/// `1:02:03`
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn clock(time: Seconds) -> String {
    let seconds = time.0 as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// That what is observed is written to a file.
fn recording<'a>(state: &State, look: &Look) -> Option<Vec<Span<'a>>> {
    match &state.recording {
        Recording::Off => None,
        Recording::Starting | Recording::Ending => Some(vec![Span::styled("○ rec", look.theme.dim())]),
        Recording::On(_) => Some(vec![Span::styled("● rec", look.theme.danger())]),
    }
}

/// Live while figures are as fresh as they can be (a clock that ticks says nothing), then
/// their age.
fn age<'a>(state: &State, look: &Look) -> Span<'a> {
    match state.monitor.age(state.now) {
        None => Span::styled(" no data yet", look.theme.dim()),
        Some(_) if state.monitor.is_fresh(state.now) => Span::styled(" live", look.theme.dim()),
        Some(age) => Span::styled(format!(" {} old", Seconds(age.0.round())), look.theme.danger()),
    }
}

fn attached_to<'a>(state: &State, attached: &Attached, look: &Look) -> Vec<Span<'a>> {
    let theme = &look.theme;
    let host = state.monitor.host(attached.pid);
    let name = host.and_then(|host| host.name.value()).map(|name| format!("{} ", fit(&printable(name), 12)));
    let name = name.unwrap_or_default();
    let told = state.run.phases();
    let ended = state.run.ended(&state.monitor, state.now);
    if let Some(ended) = ended.filter(|_| attached.state != AttachedState::Replaced) {
        return vec![Span::styled(format!("▶ {} {name}{ended}", attached.pid), theme.danger())];
    }
    let (style, state) = match attached.state {
        AttachedState::Awaited => (theme.warning(), "not on a GPU yet"),
        AttachedState::Missing => (theme.danger(), "no such process"),
        AttachedState::Unmatched => (theme.warning(), "pids not matched: GPU totals"),
        AttachedState::Present => match told.phase(state.now) {
            Phase::WarmingUp => (theme.observed(), "warming up"),
            Phase::Between => (theme.warning(), "between steps"),
            Phase::Steady | Phase::Untold => (theme.observed(), ""),
        },
        AttachedState::Ended => (theme.danger(), "ended"),
        AttachedState::Replaced => (theme.danger(), "pid reused"),
    };
    vec![Span::styled(format!("▶ {} {name}{state}", attached.pid).trim_end().to_owned(), style)]
}

fn verdict<'a>(prediction: &Prediction, look: &Look) -> Vec<Span<'a>> {
    let capacity = prediction.capacity;
    let verdict = capacity.verdict();
    let (word, by) = match verdict {
        Verdict::Fits => ("FITS", ""),
        Verdict::Tight => ("TIGHT", ""),
        Verdict::DoesNotFit => ("DOES NOT FIT", "over by "),
    };
    let spare = match verdict {
        Verdict::DoesNotFit => format!(" {by}{}", capacity.needed.saturating_sub(capacity.bytes)),
        Verdict::Fits | Verdict::Tight => {
            format!(" {} / {}", capacity.needed.in_gib(), capacity.bytes)
        }
    };
    vec![Span::styled(format!(" {word}{spare} "), look.theme.verdict(verdict))]
}

/// Bandwidth in TB/s without its unit.
pub fn terabytes(rate: BytesPerSec) -> String {
    format!("{:.2}", rate.0 / 1e12)
}

/// A rate of tokens: `33.3 k`.
pub fn tokens(rate: f64) -> String {
    if rate >= 999_500.0 {
        format!("{} M", three_figures(rate / 1e6))
    } else if rate >= 999.5 {
        format!("{} k", three_figures(rate / 1e3))
    } else {
        three_figures(rate)
    }
}

/// How a difference is drawn: calm while it is small, says nothing, or needs no hand.
pub fn difference<T: Copy>(residual: &Residual<T>, relative: f64, look: &Look) -> (Style, &'static str) {
    if !residual.notable {
        (look.theme.dim(), "")
    } else if relative > 0.0 {
        (look.theme.warning(), " ▲")
    } else {
        (look.theme.observed(), " ▼")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_tokens_have_three_figures() {
        assert_eq!([812.4, 9_077.2, 33_312.0, 1_520_000.0].map(tokens), ["812", "9.08 k", "33.3 k", "1.52 M"]);
    }
}
