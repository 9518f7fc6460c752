//! Plots in letters for a terminal: lines in braille, everything else by the letter that the legend gives it.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::{Plot, PlotLayer, PlotPoint, PlotShape};
use crate::report::page::paragraph;
use crate::report::text::shortened;

/// Rows of the plot.
const ROWS: usize = 18;

/// The most columns of the plot.
const COLUMNS: usize = 100;

/// Dots of a braille cell: across and down.
const CELL: (usize, usize) = (2, 4);

/// The bit of each dot of a braille cell (Unicode, Braille Patterns): by column, then by row.
const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

impl Plot {
    /// The plot in lines of at most `width`; with ASCII letters alone where `ascii` says so.
    #[must_use]
    pub fn text(&self, width: usize, ascii: bool) -> String {
        let mut text = String::new();
        paragraph(&mut text, "", &self.title, width);
        let ticks = self.y.ticks.iter().map(|(_, words)| words.width()).max().unwrap_or(0);
        let columns = width.saturating_sub(ticks + 4).clamp(16, COLUMNS);
        let mut canvas = Canvas::new(columns, ascii);
        let letters = self.letters();
        for (layer, letter) in self.layers.iter().zip(&letters) {
            canvas.layer(self, layer, *letter);
        }
        for (at, label) in self.labels.iter().enumerate() {
            canvas.letter(self.cell(&canvas, label.at), mark(self.named() + at));
        }
        let _ = writeln!(text, "{}", self.y.label);
        for (row, line) in canvas.lines().into_iter().enumerate() {
            let tick =
                self.y.ticks.iter().find(|(value, _)| self.y.holds(*value) && canvas.row(self.y.share(*value)) == row);
            let border = match (tick.is_some(), ascii) {
                (true, false) => '┤',
                (false, false) => '│',
                (_, true) => '|',
            };
            let tick = tick.map_or("", |(_, words)| words.as_str());
            let _ = writeln!(text, "{}{tick} {border}{}", " ".repeat(ticks - tick.width()), line.trim_end());
        }
        self.below(&mut text, ticks + 2, &canvas);
        self.legend(&mut text, &letters, width);
        text
    }

    /// Ticks and name of the axis below.
    fn below(&self, text: &mut String, indent: usize, canvas: &Canvas) {
        let mut line = String::new();
        for (value, words) in self.x.ticks.iter().filter(|(value, _)| self.x.holds(*value)) {
            let middle = indent + canvas.column(self.x.share(*value));
            let start = middle.saturating_sub(words.width() / 2);
            if (line.is_empty() || start > line.width()) && start + words.width() <= indent + canvas.columns + 1 {
                line.push_str(&" ".repeat(start.saturating_sub(line.width())));
                line.push_str(words);
            }
        }
        let _ = writeln!(text, "{line}");
        let _ = writeln!(text, "{}{}", " ".repeat(indent), self.x.label);
    }

    fn legend(&self, text: &mut String, letters: &[char], width: usize) {
        let layers = self.layers.iter().zip(letters).filter_map(|(layer, letter)| Some((*letter, layer.name.clone()?)));
        let labels = self.labels.iter().enumerate().map(|(at, label)| (mark(self.named() + at), label.words.clone()));
        let all: Vec<String> = layers
            .chain(labels)
            .map(|(letter, name)| format!("{letter} {}", shortened(&name, 60)).replace(' ', "\u{a0}"))
            .collect();
        if !all.is_empty() {
            paragraph(text, "  ", &all.join("   "), width);
            // Names stay whole while lines are broken between them.
            *text = text.replace('\u{a0}', " ");
        }
    }

    /// A letter for each layer; the same for those without a name.
    fn letters(&self) -> Vec<char> {
        let mut next = 0;
        let letter = |layer: &PlotLayer| {
            let own = mark(next);
            next += usize::from(layer.name.is_some());
            if layer.name.is_some() { own } else { '·' }
        };
        self.layers.iter().map(letter).collect()
    }

    fn named(&self) -> usize {
        self.layers.iter().filter(|layer| layer.name.is_some()).count()
    }

    fn cell(&self, canvas: &Canvas, (x, y): PlotPoint) -> (usize, usize) {
        (canvas.row(self.y.share(y)), canvas.column(self.x.share(x)))
    }
}

/// `a` to `z`, `A` to `Z`, then from the start.
fn mark(at: usize) -> char {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char::from(LETTERS[at % LETTERS.len()])
}

struct Canvas {
    columns: usize,
    ascii: bool,
    letters: Vec<Vec<Option<char>>>,
    dots: Vec<Vec<u8>>,
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl Canvas {
    fn new(columns: usize, ascii: bool) -> Self {
        Self { columns, ascii, letters: vec![vec![None; columns]; ROWS], dots: vec![vec![0; columns]; ROWS] }
    }

    fn row(&self, share: f64) -> usize {
        ((1.0 - share) * (ROWS - 1) as f64).round() as usize
    }

    fn column(&self, share: f64) -> usize {
        (share * (self.columns - 1) as f64).round() as usize
    }

    /// Puts a letter, beside others that lie there.
    fn letter(&mut self, (row, column): (usize, usize), letter: char) {
        let free = (column..self.columns).find(|at| self.letters[row][*at].is_none_or(|own| !own.is_alphanumeric()));
        self.letters[row][free.unwrap_or(column)] = Some(letter);
    }

    fn layer(&mut self, plot: &Plot, layer: &PlotLayer, letter: char) {
        match &layer.shape {
            PlotShape::Line { points, .. } => {
                for two in points.windows(2) {
                    self.stroke(plot, two[0], two[1]);
                }
                if let Some(end) = points.last().filter(|_| layer.name.is_some()) {
                    let cell = plot.cell(self, *end);
                    self.letter(cell, letter);
                }
            }
            PlotShape::Area(points) => {
                for two in points.windows(2) {
                    let (from, to) = (plot.x.share(two[0].0), plot.x.share(two[1].0));
                    for column in self.column(from)..=self.column(to) {
                        let along = (column as f64 / (self.columns - 1) as f64 - from) / (to - from).max(1e-12);
                        let at = |low: f64, high: f64| low + (high - low) * along.clamp(0.0, 1.0);
                        self.fill(column, plot, (at(two[0].1, two[1].1), at(two[0].2, two[1].2)), letter);
                    }
                }
            }
            PlotShape::Boxes(boxes) => {
                for (from, to, low, high) in boxes {
                    for column in self.column(plot.x.share(*from))..self.column(plot.x.share(*to)) {
                        self.fill(column, plot, (*low, *high), letter);
                    }
                }
            }
            PlotShape::Dots { points, .. } => {
                for point in points.iter().filter(|_| layer.name.is_some() || plot.labels.is_empty()) {
                    let cell = plot.cell(self, *point);
                    self.letter(cell, if layer.name.is_some() { letter } else { 'o' });
                }
            }
        }
    }

    fn fill(&mut self, column: usize, plot: &Plot, (low, high): (f64, f64), letter: char) {
        let (bottom, top) = (plot.y.share(low) * ROWS as f64, plot.y.share(high) * ROWS as f64);
        for row in bottom.round() as usize..top.round() as usize {
            self.letters[ROWS - 1 - row.min(ROWS - 1)][column.min(self.columns - 1)] = Some(letter);
        }
    }

    fn stroke(&mut self, plot: &Plot, from: PlotPoint, to: PlotPoint) {
        let (across, down) = ((self.columns * CELL.0 - 1) as f64, (ROWS * CELL.1 - 1) as f64);
        let pixel = |(x, y): PlotPoint| (plot.x.share(x) * across, (1.0 - plot.y.share(y)) * down);
        let ((x, y), (end, foot)) = (pixel(from), pixel(to));
        let steps = (end - x).abs().max((foot - y).abs()).ceil().max(1.0);
        for step in 0..=steps as usize {
            let share = step as f64 / steps;
            let (x, y) = ((x + (end - x) * share).round() as usize, (y + (foot - y) * share).round() as usize);
            self.dots[y / CELL.1][x / CELL.0] |= BITS[x % CELL.0][y % CELL.1];
        }
    }

    fn lines(&self) -> Vec<String> {
        let cell = |letter: &Option<char>, dots: &u8| match (letter, dots) {
            (Some(letter), _) => *letter,
            (None, 0) => ' ',
            (None, _) if self.ascii => '.',
            (None, dots) => char::from_u32(0x2800 + u32::from(*dots)).unwrap_or(' '),
        };
        self.letters
            .iter()
            .zip(&self.dots)
            .map(|(letters, dots)| letters.iter().zip(dots).map(|(letter, dots)| cell(letter, dots)).collect())
            .collect()
    }
}
