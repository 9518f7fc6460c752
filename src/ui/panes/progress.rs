//! How far the attached run is, in a line below the processes.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::app::State;
use crate::printable::printable;
use crate::reading::{LogFormat, Progress, ProgressSource, Reading};
use crate::ui::Look;
use crate::ui::header::tokens;
use crate::ui::memory_unit::MemoryUnit;
use crate::ui::text::{fit, width_of};
use crate::units::{Bytes, Seconds, TokensPerSec, grouped, three_figures};

/// Fewer lines are the processes' own.
const LEAST: u16 = 3;

/// Draws the line at the bottom of `area`, where anything is known; what is left above it.
pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) -> Rect {
    let Some(line) = line(state, look, area.width as usize).filter(|_| area.height >= LEAST) else { return area };
    let [above, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    line.render(below, buffer);
    above
}

fn line<'a>(state: &State, look: &Look, width: usize) -> Option<Line<'a>> {
    let theme = &look.theme;
    if let Some(known) = &state.run.ran_out {
        return Some(Line::styled(fit(&format!(" O: {}", known.explained.headline), width), theme.danger()));
    }
    let Some((pid, progress)) = state.run.telemetry.progress(&state.monitor, state.now) else {
        return why_none(state, width).map(|text| Line::styled(text, theme.dim()));
    };
    let progress = state.run.telemetry.to_its_end(progress, &state.monitor, state.now);
    let is_over = state.run.telemetry.ended(&state.monitor, state.now).is_some();
    let (over, style) = if is_over { (" ended", theme.danger()) } else { ("", theme.observed()) };
    let pid = pid.map_or_else(String::new, |pid| format!(" {pid}"));
    let mut spans = vec![Span::styled(format!(" ▶{pid}{over}"), style)];
    let per_gpu = if state.run.telemetry.uses_no_gpu(&state.monitor, state.now) { "tok/s" } else { "tok/s/GPU" };
    let left = state.run.telemetry.remaining(&progress, &state.monitor, state.now);
    // The least important last: it is left out first.
    let usual = progress.step_time.value().and_then(|told| state.run.telemetry.phases().apart_from(*told));
    let now = usual.map_or("", |_| " now");
    for (text, style) in parts(&progress, (&left, per_gpu, now), theme.text(), theme.danger()) {
        if width_of(&spans) + text.chars().count() + 3 <= width {
            spans.push(Span::styled(format!("  {text}"), style));
        }
    }
    let by = told_by(&progress);
    if width_of(&spans) + by.chars().count() + 3 <= width {
        spans.push(Span::styled(format!("  {by}"), theme.dim()));
    }
    Some(Line::from(spans))
}

/// Why an attached process, or a log alone, has no progress.
fn why_none(state: &State, width: usize) -> Option<String> {
    let pid = state.monitor.attached.as_ref().map_or_else(String::new, |attached| format!(" {}", attached.pid));
    let why = state.run.telemetry.news.no_log.as_ref()?;
    Some(fit(&format!(" ▶{pid}  no progress: {}", printable(&why.to_string())), width))
}

/// What is known of the run, the most important first; `left` is the time to its end, `per_gpu` the unit of what one device
/// does, `now` what stands behind a step that is none of the usual ones.
fn parts(
    progress: &Progress,
    (left, per_gpu, now): (&Reading<Seconds>, &str, &str),
    style: Style,
    alarm: Style,
) -> Vec<(String, Style)> {
    let mut parts = Vec::new();
    let mut add = |text: Option<String>| parts.extend(text.map(|text| (text, style)));
    let total = progress.total_steps.value().map(|total| format!(" of {}", grouped(*total))).unwrap_or_default();
    add(shown(&progress.step, |step| format!("{}{total}", grouped(*step))).map(|text| format!("step {text}")));
    add(shown(left, |left| left.roughly()).map(|left| format!("ETA {}", left.trim_start_matches('~'))));
    add(shown(&progress.step_time, ToString::to_string).map(|text| match progress.told_by {
        ProgressSource::Rhythm => format!("step time {text}"),
        _ => format!("{text}{now}"),
    }));
    let told = |reading: &Reading<TokensPerSec>| shown(reading, |rate| tokens(rate.0));
    add(told(&progress.tokens_per_s)
        .map(|rate| format!("{rate} tok/s"))
        .or_else(|| told(&progress.tokens_per_s_per_gpu).map(|rate| format!("{rate} {per_gpu}")))
        .or_else(|| shown(&progress.samples_per_s, |rate| tokens(*rate)).map(|rate| format!("{rate} samples/s"))));
    let mut add_number = |name: &str, reading: &Reading<f64>| {
        let is_number = reading.value().is_none_or(|value| value.is_finite());
        let text = shown(reading, |value| if is_number { three_figures(*value) } else { value.to_string() });
        parts.extend(text.map(|text| (format!("{name} {text}"), if is_number { style } else { alarm })));
    };
    add_number("loss", &progress.loss);
    add_number("grad norm", &progress.grad_norm);
    let mut add = |text: Option<String>| parts.extend(text.map(|text| (text, style)));
    add(shown(&progress.mfu, |mfu| format!("MFU {:.0} %", mfu.percent())));
    add(shown(&progress.epoch, |epoch| format!("epoch {epoch:.2}")));
    parts
}

/// A reading with its mark; none where there is none.
fn shown<T>(reading: &Reading<T>, show: impl FnOnce(&T) -> String) -> Option<String> {
    match reading {
        Reading::Known { value, kind, .. } => Some(format!("{}{}", kind.mark(), show(value))),
        Reading::Absent(_) => None,
    }
}

const fn told_by(progress: &Progress) -> &'static str {
    match progress.told_by {
        ProgressSource::Nobody => "",
        ProgressSource::Log(LogFormat::Bar) => "by its bar",
        ProgressSource::Log(LogFormat::TensorBoard) => "by TensorBoard's file",
        ProgressSource::Log(LogFormat::Wandb) => "by W&B's file",
        ProgressSource::Log(_) => "by its log",
        ProgressSource::Hook => "by its hook",
        ProgressSource::Rhythm => "by the rhythm of its GPU",
    }
}

/// The most allocated and reserved that the attached process told of, and the most that was seen on its device, as
/// ` →50.1` behind the plan's figure of that name.
pub fn observed<'a>(state: &State, figure: &str, unit: MemoryUnit, look: &Look) -> Option<Span<'a>> {
    let held = || match state.run.comparison.as_ref()?.memory.observed.value() {
        _ if state.plans.stands_alone() => None,
        Some(peak) if matches!(figure, "device-used" | "resident") => Some(unit.show(*peak)),
        _ => None,
    };
    told(state, figure, unit)
        .or_else(held)
        .map(|text| Span::styled(format!("{}{text}", look.arrow()), look.theme.observed()))
}

/// The same as text.
pub fn told(state: &State, figure: &str, unit: MemoryUnit) -> Option<String> {
    let (_, progress) = state.run.telemetry.progress(&state.monitor, state.now)?;
    let reading = match figure {
        _ if state.plans.stands_alone() => return None,
        "allocated" => progress.peak_allocated,
        "reserved" => progress.peak_reserved,
        _ => return None,
    };
    shown(&reading, |bytes: &Bytes| unit.show(*bytes))
}
