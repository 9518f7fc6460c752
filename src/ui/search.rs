//! A search for plans: its constraints, how far it is, the plans as a table, memory against speed as a chart.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
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
use crate::compare::{Bands, level};
use crate::predict::Verdict;
use crate::printable::printable;
use crate::units::{grouped, three_figures};

/// Cells of the table.
const TABLE: u16 = 84;

/// Cells of a line's figures.
const FIGURES: usize = 64;

/// Cells of the batch, where it is free.
const BATCH: usize = 7;

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
    let Places { head, table, plot, below } = Places::of(view, inner);
    let [values, knobs] = asked(view, look);
    for (line, row) in [values, knobs, stands(view, look)].into_iter().zip(head.rows()) {
        line.render(row, buffer);
    }
    draw_table(view, look, table, buffer);
    if let Some(plot) = plot {
        draw_chart(view, look, plot, buffer);
    }
    draw_selected(view, base, look, below, buffer);
}

/// The plan whose row lies there: below the heads of the table.
pub fn row_at(view: &SearchView, area: Rect, at: Position) -> Option<usize> {
    let Places { table, .. } = Places::of(view, area.inner(Margin::new(1, 1)));
    let rows = view.rows().len();
    let row = usize::from(at.y.checked_sub(table.y + 1)?);
    let row = scroll(view.selected, rows, usize::from(table.height).saturating_sub(1)) + row;
    (table.contains(at) && row < rows).then_some(row)
}

/// Where its parts lie inside the frame.
struct Places {
    head: Rect,
    table: Rect,
    plot: Option<Rect>,
    below: Rect,
}

impl Places {
    fn of(view: &SearchView, inner: Rect) -> Self {
        let [head, body, below] =
            Layout::vertical([Constraint::Length(3), Constraint::Fill(1), Constraint::Length(3)]).areas(inner);
        let chart = view.front().len() > 1;
        let parts: Option<[Rect; 2]> = if chart && body.width >= TABLE + 30 {
            Some(Layout::horizontal([Constraint::Length(TABLE), Constraint::Fill(1)]).areas(body))
        } else if chart && body.height >= 14 {
            Some(Layout::vertical([Constraint::Fill(3), Constraint::Fill(2)]).areas(body))
        } else {
            None
        };
        Self { head, table: parts.map_or(body, |[table, _]| table), plot: parts.map(|[_, plot]| plot), below }
    }
}

/// What the search may not change, and the keys for it.
fn asked<'a>(view: &SearchView, look: &Look) -> [Line<'a>; 2] {
    let theme = &look.theme;
    let last = |key: &&str| key.rsplit('.').next().unwrap_or(key).to_owned();
    // Unless it is freed no search changes the batch: another one trains another way.
    let batch = (!view.free_batch).then(|| "batch".to_owned());
    let kept: Vec<String> = batch.into_iter().chain(view.keep.iter().map(last)).collect();
    let kept = if kept.is_empty() { "nothing".to_owned() } else { kept.join(", ") };
    let said = |field| printable(&view.around.shown(field));
    let gpu = view.around.job().map_or_else(|| said(Field::Gpu), |job| printable(&job.hardware.gpu.short));
    let batch = if view.free_batch { "free".to_owned() } else { said(Field::Batch) };
    let line = |parts: Vec<(&'static str, &'static str, String)>| {
        Line::from_iter(parts.into_iter().flat_map(|(key, name, value)| {
            [Span::styled(key, theme.text()), Span::styled(name, theme.dim()), Span::styled(value, theme.predicted())]
        }))
    };
    let values = vec![
        (" g ", "GPUs ", said(Field::NumGpus)),
        ("  u ", "GPU ", gpu),
        ("  b ", "batch ", batch),
        ("  s ", "sequence ", said(Field::Sequence)),
    ];
    let knobs = vec![
        (" m ", "model ", said(Field::Model)),
        ("  f ", "framework ", said(Field::Framework)),
        ("  k ", "stays: ", kept),
    ];
    [line(values), line(knobs)]
}

/// How far it is, or what came of it.
fn stands<'a>(view: &SearchView, look: &Look) -> Line<'a> {
    let theme = &look.theme;
    if let Some(seen) = view.under_way {
        return Line::styled(format!(" {}", far(&seen)), theme.warning());
    }
    match &view.answer {
        None => Line::default(),
        Some(Err(why)) => Line::styled(format!(" {}", printable(&why.to_string())), theme.danger()),
        Some(Ok(SearchAnswer::Plans(found))) => {
            let style = if found.ranked.is_empty() { theme.danger() } else { theme.good() };
            let mut line = Line::styled(format!(" {}", plans(found)), style);
            line.push_span(Span::styled(trust(view), theme.dim()));
            if let Some((_, missing)) = view.around.lacking() {
                line.push_span(Span::styled(format!("; ! {}", printable(&missing)), theme.warning()));
            }
            line
        }
        Some(Ok(SearchAnswer::Change(None))) => {
            Line::styled(" no change of up to four keys makes it fit", theme.danger())
        }
        Some(Ok(SearchAnswer::Change(Some(found)))) if found.keys == 0 => {
            Line::styled(" the plan fits as it is", theme.good())
        }
        Some(Ok(SearchAnswer::Change(Some(found)))) => {
            let keys = if found.keys == 1 { "one key makes".to_owned() } else { format!("{} keys make", found.keys) };
            Line::styled(format!(" changing {keys} it fit, and nothing less does"), theme.good())
        }
        Some(Ok(SearchAnswer::Gpus(found))) => match (&found.any, found.apart().as_slice()) {
            (None, _) => Line::styled(" it fits on no number of these GPUs", theme.danger()),
            (Some((gpus, _)), [_]) if found.kept.is_some() => {
                Line::styled(format!(" fits on {gpus} GPUs and not on fewer"), theme.good())
            }
            (Some((gpus, _)), _) => {
                let more = found.kept.as_ref().map_or("none".to_owned(), |(more, _)| more.to_string());
                Line::styled(
                    format!(" fits on {gpus} GPUs and not on fewer; on {more} without offloading more"),
                    theme.good(),
                )
            }
        },
        Some(Ok(SearchAnswer::Model(found))) if found.any.plans().next().is_none() => {
            Line::styled(" no model fits", theme.danger())
        }
        Some(Ok(SearchAnswer::Model(found))) => {
            let twice = if found.apart().len() > 1 { "; then both without offloading more" } else { "" };
            let what = " the largest model of the catalogue that fits, and the largest of any size: a plain decoder";
            Line::styled(format!("{what}{twice}"), theme.good())
        }
    }
}

/// How far step times stray from their predictions, and up to which plan they are level.
fn trust(view: &SearchView) -> String {
    let Some(bands) = bands(view) else { return String::new() };
    let level = level_rows(view, &bands);
    let band = bands.time.within(2.0);
    let few = if bands.few { ", from a wider kind" } else { "" };
    let level = if level > 1 { format!("; ≈ 1 to {level} are level") } else { String::new() };
    format!("{level}; band -{:.0} to +{:.0} %{few}", 100.0 * band.below, 100.0 * band.above)
}

/// How many rows are level with the first: measured runs do not tell their order from another.
fn level_rows(view: &SearchView, bands: &Bands) -> usize {
    match &view.answer {
        Some(Ok(SearchAnswer::Plans(_))) if !view.front => level(view.rows().into_iter().map(|row| row.plan), bands),
        _ => 0,
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
    let batch = if view.free_batch { right("batch", BATCH) } else { String::new() };
    let head = format!(
        "  {}{}{}{}{}{}{}{}{}{batch}{}  {}",
        left(list, LABEL - 3),
        right("tok/s", 8),
        right("MFU", 5),
        right("GiB", 7),
        left("", 6),
        right("dp", 5),
        right("tp", 6),
        right("pp", 4),
        right("cp", 4),
        right("micro", 6),
        "with"
    );
    let mut lines = vec![Line::styled(head, theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let with = (area.width as usize).saturating_sub(FIGURES + batch.len());
    let level = view.around.job().map_or(0, |job| level_rows(view, &Bands::of(job)));
    for (index, row) in rows.iter().enumerate().skip(scroll(view.selected, rows.len(), room)).take(room) {
        let chosen = index == view.selected;
        let style = if chosen { theme.selected() } else { theme.text() };
        let capacity = row.plan.outline.capacity;
        let knobs = &row.plan.knobs;
        let mfu = row.plan.outline.time.mfu.map_or_else(|| "–".to_owned(), |mfu| format!("{:.0}%", mfu * 100.0));
        lines.push(Line::from(vec![
            Span::styled(if chosen { "▸ " } else { "  " }, theme.accent()),
            Span::styled(
                left(
                    &format!("{}{}", printable(&row.label), if level > 1 && index < level { " ≈" } else { "" }),
                    LABEL - 3,
                ),
                style,
            ),
            Span::styled(right(&tokens(throughput(&row.plan.outline)), 8), theme.predicted()),
            Span::styled(right(&mfu, 5), theme.dim()),
            Span::styled(right(&capacity.needed.in_gib(), 7), theme.verdict(capacity.verdict())),
            Span::styled(left(word(capacity.verdict()), 6), theme.verdict(capacity.verdict())),
            Span::styled(degrees(knobs, view.free_batch), theme.text()),
            Span::styled(
                format!("  {}", fit(&format!("{}{}", saving(knobs), told_with(&row.alike)), with)),
                theme.dim(),
            ),
        ]));
    }
    for (line, row) in lines.into_iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

/// What is to be said of how a plan stands against the GPU; that it fits its figure says.
const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fits => "",
        Verdict::Tight => " TIGHT",
        Verdict::DoesNotFit => " over",
    }
}

/// How many variants a row stands for besides its own.
fn told_with(alike: &[String]) -> String {
    if alike.is_empty() { String::new() } else { format!(" +{} alike", alike.len()) }
}

fn degrees(knobs: &Knobs, batch: bool) -> String {
    let batch = if batch { right(&knobs.batch().to_string(), BATCH) } else { String::new() };
    let split = if knobs.sequence { "+sp" } else { "" };
    let tensor = format!("{}{split}", knobs.tensor);
    format!("{:>5}{tensor:>6}{:>4}{:>4}{batch}{:>6}", knobs.data, knobs.pipeline, knobs.context, knobs.micro)
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
    let on_cpu = view.around.prediction().is_some_and(|prediction| prediction.on_cpu);
    let (device, unit) = if on_cpu { ("CPU", "GiB") } else { ("GPU", "GiB a GPU") };
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
        title: format!(" Pareto front: tok/s over {unit}"),
        x: (low, cap * 1.02),
        y,
        label: tokens,
        ticks: ticks.map(|memory| (memory, three_figures(memory))).collect(),
        line: front.windows(2).map(|pair| [pair[0], pair[1]]).collect(),
        stems: false,
        marks: marks.chain(chosen.map(|at| mark(at, "◆", theme.accent()))).collect(),
        walls: vec![ChartWall { at: cap, name: device.to_owned() }],
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
    let alike = if row.alike.is_empty() { String::new() } else { format!("; as fast: {}", row.alike.join(", ")) };
    let text = text + &alike + &to_base.unwrap_or_default();
    for (line, row) in wrapped(&printable(&text), area.width as usize, 3).into_iter().zip(area.rows()) {
        Line::styled(line, theme.text()).render(row, buffer);
    }
}
