//! A search for plans: its constraints, how far it is, the plans as a table, memory against speed as a chart.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::chart::{Chart, ChartMark, ChartWall};
use super::header::tokens;
use super::panes::scroll;
use super::picker::in_words;
use super::text::{fit, left, right, wrapped};
use crate::advise::{Knobs, RankedPlan, SearchOutcome, SearchStatus, throughput, why_slower};
use crate::app::{Baseline, Field, SearchAnswer, SearchView};
use crate::compare::{Bands, leanest_of_level};
use crate::printable::printable;
use crate::units::{grouped, three_figures};

/// Cells of the table.
const TABLE: u16 = 78;

/// Cells of a line's figures.
const FIGURES: usize = 58;

/// Cells of what a line of the table is for.
const LABEL: usize = 12;

/// Draws the search over the panes, the selected plan against the baseline where there is one.
pub fn draw(view: &SearchView, base: Option<&Baseline>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    Clear.render(area, buffer);
    let title = format!(" search · {} · {} ", view.aim.word(), printable(view.around.name()));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(title, theme.accent()));
    let inner = block.inner(area);
    block.render(area, buffer);
    let [head, body, below] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(3)]).areas(inner);
    for (line, row) in [asked(view, look), stands(view, look)].into_iter().zip(head.rows()) {
        line.render(row, buffer);
    }
    let chart = view.front().len() > 1;
    if chart && body.width >= TABLE + 30 {
        let [table, plot] = Layout::horizontal([Constraint::Length(TABLE), Constraint::Fill(1)]).areas(body);
        draw_table(view, look, table, buffer);
        draw_chart(view, look, plot, buffer);
    } else if chart && body.height >= 14 {
        let [table, plot] = Layout::vertical([Constraint::Fill(3), Constraint::Fill(2)]).areas(body);
        draw_table(view, look, table, buffer);
        draw_chart(view, look, plot, buffer);
    } else {
        draw_table(view, look, body, buffer);
    }
    draw_selected(view, base, look, below, buffer);
}

/// What the search may not change, and the keys for it.
fn asked<'a>(view: &SearchView, look: &Look) -> Line<'a> {
    let theme = &look.theme;
    let last = |key: &&str| key.rsplit('.').next().unwrap_or(key).to_owned();
    // No search changes the batch: another one trains another way.
    let kept: Vec<String> = std::iter::once("batch".to_owned()).chain(view.keep.iter().map(last)).collect();
    let kept = kept.join(", ");
    let said = |field| printable(&view.around.shown(field));
    let parts = [
        (" g ", "GPUs ", said(Field::NumGpus)),
        ("  m ", "model ", said(Field::Model)),
        ("  f ", "framework ", said(Field::Framework)),
        ("  k ", "stays: ", kept),
    ];
    Line::from_iter(parts.into_iter().flat_map(|(key, name, value)| {
        [Span::styled(key, theme.text()), Span::styled(name, theme.dim()), Span::styled(value, theme.predicted())]
    }))
}

/// How far it is, or what came of it.
fn stands<'a>(view: &SearchView, look: &Look) -> Line<'a> {
    let theme = &look.theme;
    if let Some(seen) = view.under_way {
        return Line::styled(format!(" {}", far(&seen)), theme.warning());
    }
    if let Some((_, missing)) = view.around.lacking() {
        return Line::styled(format!(" ! {}", printable(&missing)), theme.warning());
    }
    match &view.answer {
        None => Line::default(),
        Some(Err(why)) => Line::styled(format!(" {}", printable(why)), theme.danger()),
        Some(Ok(SearchAnswer::Plans(found))) => {
            let style = if found.ranked.is_empty() { theme.danger() } else { theme.good() };
            let level = bands(view).map_or_else(String::new, |bands| level(found, &bands));
            Line::styled(format!(" {}{level}", plans(found)), style)
        }
        Some(Ok(SearchAnswer::Gpus(None))) => Line::styled(" it fits on no number of these GPUs", theme.danger()),
        Some(Ok(SearchAnswer::Gpus(Some((gpus, _))))) => {
            Line::styled(format!(" fits on {gpus} GPUs and not on fewer"), theme.good())
        }
        Some(Ok(SearchAnswer::Model(found))) if found.billions.is_none() && found.preset.is_none() => {
            Line::styled(" no model fits", theme.danger())
        }
        Some(Ok(SearchAnswer::Model(_))) => Line::styled(
            " the largest model of the catalogue that fits, and the largest of any size: a plain decoder",
            theme.good(),
        ),
    }
}

fn far(seen: &SearchStatus) -> String {
    let best = seen.best.map_or_else(|| "none fits yet".to_owned(), |best| format!("best {} tok/s", tokens(best)));
    let (evaluated, pruned) = (grouped(seen.evaluated), grouped(seen.pruned));
    format!("searching {:>3.0} %   {evaluated} evaluated, {pruned} pruned   {best}", 100.0 * seen.share)
}

fn plans(found: &SearchOutcome) -> String {
    let all = grouped(found.evaluated + found.pruned);
    let stopped = if found.cancelled { "; stopped: better ones may be left" } else { "" };
    match &found.nearest {
        Some(_) if found.ranked.is_empty() => format!("none of {all} plans fits{stopped}; the closest:"),
        _ => format!("the best of {all} plans{stopped}"),
    }
}

/// How far measured runs like the plan's lie from their predictions.
fn bands(view: &SearchView) -> Option<Bands> {
    view.around.job().map(Bands::of)
}

/// Which of the ranked plans measured runs do not tell apart, and which of those leaves the most memory.
fn level(found: &SearchOutcome, bands: &Bands) -> String {
    let Some((level, leanest)) = leanest_of_level(&found.ranked, bands) else { return String::new() };
    format!("; #1 to #{level} are level, #{leanest} leaves the most memory")
}

/// The rates between which 95 of 100 runs with such a prediction lie.
fn band(plan: &RankedPlan, bands: &Bands) -> String {
    let rate = throughput(&plan.outline);
    let band = bands.time.within(2.0);
    let [low, high] = [rate / (1.0 + band.above), rate / (1.0 - band.below)].map(tokens);
    let few = if bands.few { " (few measured runs like this)" } else { "" };
    format!(". Such runs reach {low} to {high} tok/s{few}")
}

fn draw_table(view: &SearchView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let rows = view.rows();
    let list = if view.front { "memory ↓" } else { "#" };
    let head = format!(
        "  {}{}{}{}{}{}{}{}{}  {}",
        left(list, LABEL - 3),
        right("tok/s", 8),
        right("MFU", 5),
        right("GiB", 7),
        right("dp", 5),
        right("tp", 6),
        right("pp", 4),
        right("cp", 4),
        right("micro", 6),
        "with"
    );
    let mut lines = vec![Line::styled(head, theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let with = (area.width as usize).saturating_sub(FIGURES);
    for (index, row) in rows.iter().enumerate().skip(scroll(view.selected, rows.len(), room)).take(room) {
        let chosen = index == view.selected;
        let style = if chosen { theme.selected() } else { theme.text() };
        let capacity = row.plan.outline.capacity;
        let knobs = &row.plan.knobs;
        let mfu = row.plan.outline.time.mfu.map_or_else(|| "–".to_owned(), |mfu| format!("{:.0}%", mfu * 100.0));
        lines.push(Line::from(vec![
            Span::styled(if chosen { "▸ " } else { "  " }, theme.accent()),
            Span::styled(left(&printable(&row.label), LABEL - 3), style),
            Span::styled(right(&tokens(throughput(&row.plan.outline)), 8), theme.predicted()),
            Span::styled(right(&mfu, 5), theme.dim()),
            Span::styled(right(&capacity.needed.in_gib(), 7), theme.verdict(capacity.verdict())),
            Span::styled(degrees(knobs), theme.text()),
            Span::styled(format!("  {}", fit(&saving(knobs), with)), theme.dim()),
        ]));
    }
    for (line, row) in lines.into_iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

fn degrees(knobs: &Knobs) -> String {
    let split = if knobs.sequence { "+sp" } else { "" };
    let tensor = format!("{}{split}", knobs.tensor);
    format!("{:>5}{tensor:>6}{:>4}{:>4}{:>6}", knobs.data, knobs.pipeline, knobs.context, knobs.micro)
}

/// What is done to need less memory, and experts' degrees.
fn saving(knobs: &Knobs) -> String {
    let word = |prefix: &str, value: String| (value != "none").then(|| format!("{prefix}{value}"));
    let experts = (knobs.expert > 1).then(|| format!("ep{}", knobs.expert));
    let chunks = (knobs.chunks > 1).then(|| format!("vpp{}", knobs.chunks));
    let parts = [
        experts,
        chunks,
        word("", knobs.sharding.to_string()),
        word("", knobs.checkpointing.to_string()),
        word("offload ", short(&knobs.offload.to_string())),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "–".to_owned() } else { parts.join(" ") }
}

/// What is offloaded, for a narrow column; the selected plan's words say it in full.
fn short(offloaded: &str) -> String {
    if offloaded.len() > 4 { format!("{}.", &offloaded[..3]) } else { offloaded.to_owned() }
}

/// Memory to the right, speed up: the front as a line, the selected plan on it or below it.
fn draw_chart(view: &SearchView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let point = |plan: &RankedPlan| (plan.outline.capacity.needed.gib(), throughput(&plan.outline));
    let front: Vec<(f64, f64)> = view.front().iter().map(point).collect();
    let rows = view.rows();
    let chosen = rows.get(view.selected).map(|row| point(row.plan));
    let all = || front.iter().copied().chain(rows.iter().map(|row| point(row.plan)));
    let cap = view.best().map_or(0.0, |best| best.outline.capacity.bytes.gib());
    let rates = || all().map(|(_, rate)| rate);
    let y = (rates().fold(f64::INFINITY, f64::min) * 0.95, rates().fold(0.0, f64::max) * 1.05);
    let low = all().map(|(memory, _)| memory).fold(f64::INFINITY, f64::min).min(cap) * 0.9;
    let mark = |at, symbol, style| ChartMark { at, symbol, style };
    let marks = front.iter().map(|at| mark(*at, "•", theme.predicted()));
    let ticks = chosen.iter().map(|(memory, _)| *memory).chain([cap, low, (low + cap) / 2.0]);
    let chart = Chart {
        title: " Pareto front: tok/s over GiB a GPU".to_owned(),
        x: (low, cap * 1.02),
        y,
        label: tokens,
        ticks: ticks.map(|memory| (memory, three_figures(memory))).collect(),
        line: front.windows(2).map(|pair| [pair[0], pair[1]]).collect(),
        stems: false,
        marks: marks.chain(chosen.map(|at| mark(at, "◆", theme.accent()))).collect(),
        walls: vec![ChartWall { at: cap, name: "GPU".to_owned() }],
        level: None,
    };
    chart.draw(look, area, buffer);
}

/// The selected plan in words: what it changes, and why it is slower than the best.
fn draw_selected(view: &SearchView, base: Option<&Baseline>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let rows = view.rows();
    let Some(row) = rows.get(view.selected) else { return };
    let words = row.plan.change.words();
    let change = if words.is_empty() { "the plan as it is".to_owned() } else { words };
    let text = match view.best().filter(|best| *best != row.plan) {
        Some(best) => format!("◆ {change}. Against #1 {}", why_slower(best, row.plan)),
        None => format!("◆ {change}"),
    };
    let text = text + &bands(view).map_or_else(String::new, |bands| band(row.plan, &bands));
    let to_base = base.map(|base| format!("; to base {}", in_words(&base.outcome_of(&row.plan.outline))));
    let text = text + &to_base.unwrap_or_default();
    for (line, row) in wrapped(&printable(&text), area.width as usize, 3).into_iter().zip(area.rows()) {
        Line::styled(line, theme.text()).render(row, buffer);
    }
}
