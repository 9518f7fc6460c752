//! The selected point of a sweep, and the walls through it, in words.

use ratatui::text::{Line, Span};

use super::{fits, heads};
use crate::advise::{AxisWalls, BandwidthWall, CapacityWall, throughput};
use crate::app::{Baseline, StepOutcome, SweepView};
use crate::order::StableOrder;
use crate::predict::{Outline, StepTime};
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::header::tokens;
use crate::ui::picker::in_words;
use crate::ui::text::{left, signed_percent, wrapped};
use crate::units::Seconds;

/// Cells of what a line of the account is about.
const LABEL: usize = 10;

/// The walls through the selected point.
pub fn walls<'a>(view: &SweepView, look: &Look, width: usize) -> Vec<Line<'a>> {
    let found: Vec<String> = view.walls_here().map(|wall| wall_in_words(view, wall)).collect();
    let found = if found.is_empty() { "names have no order, and no walls".to_owned() } else { found.join(" │ ") };
    let lines = wrapped(&printable(&found), width.saturating_sub(1), 2);
    lines.into_iter().map(|line| Line::styled(format!(" {line}"), look.theme.warning())).collect()
}

fn wall_in_words(view: &SweepView, wall: &AxisWalls) -> String {
    let value = |index: usize| view.sweep.points.get(index).map_or("", |point| view.sweep.value(point, wall.axis));
    let label = view.fields.get(wall.axis).map_or("", |field| field.label());
    let memory = match wall.capacity {
        CapacityWall::Between { fits, too_large } => format!("{} fits, {} does not", value(fits), value(too_large)),
        CapacityWall::AllFit => "all fit".to_owned(),
        CapacityWall::NoneFits => "none fits".to_owned(),
    };
    let speed = match wall.throughput {
        BandwidthWall::Flat { from, gain, end } if wall.throughput.falls() && gain <= 0.0 => {
            format!("throughput is highest at {} and falls beyond, by {}", value(from), lost(end))
        }
        BandwidthWall::Flat { from, gain, end } if wall.throughput.falls() => {
            let gain = signed_percent(gain);
            format!("throughput hardly grows from {} ({gain} at most), then falls by {}", value(from), lost(end))
        }
        BandwidthWall::Flat { from, gain, .. } => {
            format!("throughput is flat from {}: more brings {} at most", value(from), signed_percent(gain.max(0.0)))
        }
        BandwidthWall::Grows => "throughput grows to the end".to_owned(),
    };
    format!("{label}: {memory}; {speed}")
}

fn lost(end: f64) -> String {
    signed_percent(-end).trim_start_matches('+').to_owned()
}

/// What the selected point is: the values of its keys.
fn name(view: &SweepView) -> String {
    let Some(point) = view.sweep.points.get(view.selected) else { return String::new() };
    let values = view.fields.iter().enumerate();
    let values = values.map(|(axis, field)| format!("{} {}", field.label(), view.sweep.value(point, axis)));
    let link = point.link.iter().map(|link| format!("also interconnect {link}"));
    values.chain(link).collect::<Vec<_>>().join(", ")
}

/// The selected point in a sentence.
pub fn line<'a>(view: &SweepView, base: Option<&Baseline>, look: &Look, width: usize) -> Vec<Line<'a>> {
    let Some(point) = view.sweep.points.get(view.selected) else { return Vec::new() };
    let (said, style) = match &point.outcome {
        Ok(outline) => {
            let fit = if fits(outline) { "fits" } else { "does not fit" };
            let mfu = outline.time.mfu.map_or_else(String::new, |mfu| format!(", MFU {:.0} %", mfu * 100.0));
            let (needed, of) = (outline.capacity.needed, outline.capacity.bytes.in_gib());
            let (rate, unit) = (tokens(throughput(outline)), heads(view).0);
            let to_base =
                base.map(|base| format!("; to base {}", in_words(&base.outcome_of(outline)))).unwrap_or_default();
            (format!("{needed} of {of}, {fit}, {rate} {unit}{mfu}{to_base}"), look.theme.text())
        }
        Err(why) => (why.to_string(), look.theme.warning()),
    };
    let text = format!("◆ {}: {said}", name(view));
    wrapped(&printable(&text), width, 2).into_iter().map(|line| Line::styled(line, style)).collect()
}

/// The selected point with what it needs and what its time goes to, a line each.
pub fn account<'a>(view: &SweepView, base: Option<&Baseline>, look: &Look, width: usize) -> Vec<Line<'a>> {
    let theme = &look.theme;
    let Some(point) = view.sweep.points.get(view.selected) else { return Vec::new() };
    let mut lines = vec![Line::styled(format!(" ◆ {}", printable(&name(view))), theme.accent())];
    let mut add = |label: &str, said: &str, style| {
        for (at, words) in wrapped(said, width.saturating_sub(LABEL + 4), 3).into_iter().enumerate() {
            lines.push(Line::from(vec![
                Span::styled(format!("   {}", left(if at == 0 { label } else { "" }, LABEL)), theme.dim()),
                Span::styled(words, style),
            ]));
        }
    };
    let outline = match &point.outcome {
        Ok(outline) => outline,
        Err(why) => {
            add("no plan", &printable(&why.to_string()), theme.warning());
            return lines;
        }
    };
    add("memory", &memory(outline), if fits(outline) { theme.text() } else { theme.danger() });
    let (unit, step) = heads(view);
    let mfu = outline.time.mfu.map_or_else(String::new, |mfu| format!(", MFU {:.0} %", mfu * 100.0));
    add("speed", &format!("{} {unit}{mfu}", tokens(throughput(outline))), theme.text());
    add(step, &format!("{}: {}", outline.time.step, parts(&outline.time)), theme.text());
    let (rate, share) = (outline.time.bandwidth, outline.time.mbu * 100.0);
    add("DRAM", &format!("{rate}, {share:.0} % of the {}'s", view.device()), theme.text());
    if let Some(hours) = outline.time.total_hours {
        let cost = outline.time.total_cost.map_or_else(String::new, |cost| format!(", cost {cost:.0}"));
        add("in all", &format!("{}{cost}", Seconds(hours * 3600.0).roughly()), theme.text());
    }
    if let Some(now) = view.now.filter(|now| *now != view.selected).and_then(|now| super::outline(view, now)) {
        add("to now", &in_words(&StepOutcome::since(now, outline)), theme.text());
    }
    if let Some(base) = base {
        add("to base", &in_words(&base.outcome_of(outline)), theme.warning());
    }
    lines
}

fn memory(outline: &Outline) -> String {
    let capacity = outline.capacity;
    let rest = if fits(outline) {
        format!("{} left", capacity.bytes.saturating_sub(capacity.needed))
    } else {
        format!("{} too much", capacity.needed.saturating_sub(capacity.bytes))
    };
    let (needed, of) = (capacity.needed.in_gib(), capacity.bytes);
    format!(
        "{needed} of {of}, {rest}; {} allocated at the peak, {} between steps",
        outline.peak_allocated, outline.static_bytes
    )
}

/// What the time goes to, the largest part first; what is under one percent is left out.
fn parts(time: &StepTime) -> String {
    let mut parts = [
        ("compute", time.compute),
        ("memory-bound", time.memory_bound),
        ("communication", time.communication),
        ("bubble", time.bubble),
        ("host", time.launch),
    ]
    .map(|(name, part)| (name, part.ratio_to(time.step).unwrap_or_default()));
    parts.order_by(|one, other| other.1.total_cmp(&one.1));
    let told = parts.iter().filter(|(_, share)| *share >= 0.01);
    told.map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect::<Vec<_>>().join(", ")
}
