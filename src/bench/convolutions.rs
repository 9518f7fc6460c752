//! Convolutions: what is left of the matmul's rate.

use super::matmuls::{MatmulFit, Surroundings, bytes_of};
use super::rows::ConvolutionRow;
use super::search::{error, least};
use crate::catalog::ConvolutionCurve;
use crate::model::Convolution;
use crate::predict::{ConvolutionKernel, MatrixUnit, implicit};

impl Surroundings {
    /// Seconds of a convolution's kernel that keeps `share` of the matmul's rate.
    fn convolution(
        &self,
        (rate, fill, start_us): (f64, f64, f64),
        row: &ConvolutionRow,
        direction: ConvolutionKernel,
        share: f64,
    ) -> f64 {
        let conv = Convolution {
            positions: row.positions,
            from: row.from,
            to: row.to,
            window: row.window,
            strided: row.strided,
        };
        let unit = MatrixUnit {
            rate: rate * share,
            fill,
            multiprocessors: self.multiprocessors,
            bandwidth: self.bandwidth,
            start: start_us * 1e-6,
        };
        let stride = if row.strided { 4 } else { 1 };
        let read = row.positions * stride * row.from + row.positions * row.to + row.from * row.to * row.window;
        let bytes = read as f64 * bytes_of(&row.element);
        unit.seconds(&implicit(&conv, direction)).hypot(bytes / self.bandwidth) + self.kernel
    }

    /// Fits each direction of windows of one element and of larger ones.
    pub(super) fn convolutions(
        &self,
        rows: &[ConvolutionRow],
        matmuls: &MatmulFit,
        source: &str,
    ) -> Option<ConvolutionCurve> {
        let lead = matmuls.rates.iter().find(|(element, _)| matches!(element.as_str(), "bf16" | "fp16"));
        let of = |pointwise: bool| -> Option<(f64, f64, f64)> {
            let mine: Vec<&ConvolutionRow> = rows.iter().filter(|row| (row.window == 1) == pointwise).collect();
            let rate =
                matmuls.rates.iter().find(|(element, _)| *element == mine.first().map_or("", |row| &row.element))?.1;
            let slower = lead.map_or(1.0, |lead| (rate / lead.1).min(1.0));
            let constants = (rate, matmuls.fill * slower, matmuls.start_us);
            let share = |direction: ConvolutionKernel, measured: fn(&ConvolutionRow) -> f64| {
                let cost = |at: &[f64]| {
                    error(mine.iter().map(|row| (self.convolution(constants, row, direction, at[0]), measured(row))))
                };
                least(&[0.8], cost)[0]
            };
            Some((
                share(ConvolutionKernel::Forward, |row| row.forward),
                share(ConvolutionKernel::Input, |row| row.of_input),
                share(ConvolutionKernel::Weight, |row| row.of_weight),
            ))
        };
        let window = of(false)?;
        Some(ConvolutionCurve { source: source.to_owned(), pointwise: of(true).unwrap_or(window), window })
    }
}
