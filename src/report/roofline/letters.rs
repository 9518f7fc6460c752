//! The roofline in letters.

use std::fmt::Write as _;

use super::{DECADES, RooflineChart};
use crate::report::plot::axis::power;

/// Rows of the plot.
const ROWS: usize = 22;

impl RooflineChart {
    /// The roofs with a letter for each operator, in so many columns.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn in_letters(&self, text: &mut String, columns: usize) {
        let mut cells = vec![vec![' '; columns]; ROWS];
        let cell = |(x, y): (f64, f64)| {
            let column = (x * (columns - 1) as f64).round() as usize;
            ((y * (ROWS - 1) as f64).round() as usize, column)
        };
        let intensity_at =
            |column: usize| 10_f64.powf(DECADES.0 + (DECADES.1 - DECADES.0) * column as f64 / (columns - 1) as f64);
        let (_, ridge) = cell(self.place(self.ridge.0, self.own.0));
        for row in &mut cells {
            row[ridge] = '┊';
        }
        for (_, peak) in &self.roofs {
            for column in 0..columns {
                let slope = intensity_at(column) * self.bandwidth.0;
                let (row, column) = cell(self.place(intensity_at(column), slope.min(peak.0)));
                let own = (peak.0 / self.own.0 - 1.0).abs() < 1e-9;
                cells[row][column] = if slope < peak.0 {
                    '⋅'
                } else if own {
                    '━'
                } else {
                    '─'
                };
            }
        }
        for mark in &self.marks {
            let (row, column) = cell(self.place(mark.intensity.0, mark.rate.0));
            // Marks that lie in one cell stand side by side.
            let free = (column..columns).find(|column| !cells[row][*column].is_ascii_alphanumeric()).unwrap_or(column);
            for (offset, letter) in mark.label.chars().enumerate().filter(|(offset, _)| free + offset < columns) {
                cells[row][free + offset] = letter;
            }
        }
        let (floor, ceiling) = self.rates();
        let decades: Vec<(usize, i32)> = (floor.ceil() as i32..=ceiling.floor() as i32)
            .map(|decade| (cell(self.place(1.0, 10_f64.powi(decade))).0, decade))
            .collect();
        for (row, line) in cells.iter().enumerate() {
            let tick = decades.iter().find(|(at, _)| *at == row).map(|(_, decade)| format!("{} ┤", power(decade - 12)));
            let _ = writeln!(
                text,
                "{:>8}{}",
                tick.unwrap_or_else(|| "│".to_owned()),
                line.iter().collect::<String>().trim_end()
            );
        }
        let mut axis = " ".repeat(columns + 16);
        for decade in DECADES.0 as i32..=DECADES.1 as i32 {
            let (_, column) = cell(self.place(10_f64.powi(decade), 1.0));
            axis.replace_range(column + 8..column + 8 + power(decade).len(), &power(decade));
        }
        let _ = writeln!(text, "{}\n        FLOP/B, ridge ┊ {}", axis.trim_end(), self.ridge);
    }
}
