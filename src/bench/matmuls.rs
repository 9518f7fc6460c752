//! Matmuls: the rate of each type, and what tiles and starts cost.

use super::rows::{BetweenRow, GradientRow, MatmulRow};
use super::search::{error, least, median};
use crate::model::MatMul;
use crate::predict::MatrixUnit;

/// What matmuls of one machine reach.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MatmulFit {
    /// Operations a second that large ones sustain, by type.
    pub rates: Vec<(String, f64)>,
    /// As `fill` and `start_us` of a curve.
    pub fill: f64,
    pub start_us: f64,
    /// Mean error over all of them.
    pub error: f64,
}

/// What the matmuls depend on beside their own constants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings {
    pub multiprocessors: f64,
    /// DRAM bandwidth that long kernels reach, bytes a second.
    pub bandwidth: f64,
    /// Seconds of a kernel beside its bytes and operations.
    pub kernel: f64,
}

/// Bytes of an element.
pub(super) fn bytes_of(element: &str) -> f64 {
    match element {
        "fp8" => 1.0,
        "bf16" | "fp16" => 2.0,
        _ => 4.0,
    }
}

/// Whether `fill` is that of 16 bit, or of slower units: they take no longer over a tile's start.
fn is_slower(element: &str) -> bool {
    matches!(element, "fp32" | "tf32")
}

pub(super) fn product(row: &MatmulRow) -> MatMul {
    MatMul { batch: row.batch, rows: row.rows, inner: row.inner, columns: row.columns, layer: true }
}

impl Surroundings {
    /// Seconds of a matmul, as a prediction has them.
    pub(super) fn seconds(&self, (rate, fill, start_us): (f64, f64, f64), row: &MatmulRow) -> f64 {
        let product = product(row);
        let unit = MatrixUnit {
            rate,
            fill,
            multiprocessors: self.multiprocessors,
            bandwidth: self.bandwidth,
            start: start_us * 1e-6,
        };
        let [rows, inner, columns, batch] = [row.rows, row.inner, row.columns, row.batch].map(|size| size as f64);
        let element = bytes_of(&row.element);
        let written = if row.element == "fp8" { 2.0 } else { element };
        let bytes = batch * (element * (rows * inner + inner * columns) + written * rows * columns);
        unit.seconds(&product).hypot(bytes / self.bandwidth) + self.kernel
    }

    /// Fits the types together: they share what a tile's start takes.
    pub(super) fn fit(&self, rows: &[MatmulRow], cpu: bool) -> Option<MatmulFit> {
        let mut elements: Vec<&str> = rows.iter().map(|row| row.element.as_str()).collect();
        elements.sort_unstable();
        elements.dedup();
        // What a GPU's 16 bit and a CPU's 32 bit take to start, the others take.
        let order = if cpu { ["fp32", "bf16", "fp16"] } else { ["bf16", "fp16", "fp32"] };
        let lead = *order.iter().find(|element| elements.contains(element))?;
        let own: Vec<MatmulRow> = rows.iter().filter(|row| row.element == lead).cloned().collect();
        let (rate, fill, start_us) = self.fit_one(&own)?;
        let rate_of = |element: &str, (fill, half): (f64, f64)| {
            let mine: Vec<&MatmulRow> = rows.iter().filter(|row| row.element == element).collect();
            let largest = largest_rate(mine.iter().copied());
            let cost = |at: &[f64]| {
                let fill = self.fill_of(element, (fill, half), at[0]);
                beyond(at[0], largest)
                    + error(mine.iter().map(|row| (self.seconds((at[0], fill, start_us), row), row.seconds)))
            };
            least(&[largest], cost)[0]
        };
        // A curve's fill is that of 16 bit.
        let half = if cpu && elements.contains(&"bf16") { rate_of("bf16", (fill, rate)) } else { rate };
        let fill = if is_slower(lead) { fill / (rate / half).min(1.0) } else { fill };
        let rates: Vec<(String, f64)> = elements
            .iter()
            .map(|element| {
                ((*element).to_owned(), if *element == lead { rate } else { rate_of(element, (fill, half)) })
            })
            .collect();
        let pairs = rows.iter().filter_map(|row| {
            let of = rates.iter().find(|(element, _)| *element == row.element)?.1;
            let fill = self.fill_of(&row.element, (fill, half), of);
            Some((self.seconds((of, fill, start_us), row), row.seconds))
        });
        let error = error(pairs);
        Some(MatmulFit { rates, fill, start_us, error })
    }

    /// The inner size that a tile's start takes in that type: see `Kernels::fill` of the predictor.
    fn fill_of(&self, element: &str, (fill, half): (f64, f64), rate: f64) -> f64 {
        if is_slower(element) { fill * (rate / half).min(1.0) } else { fill }
    }

    /// Rate, fill and start of one type.
    fn fit_one(&self, rows: &[MatmulRow]) -> Option<(f64, f64, f64)> {
        if rows.len() < 3 {
            return None;
        }
        let rate = largest_rate(rows.iter());
        let cost = |at: &[f64]| {
            // What no measurement decides stays small.
            let held = 1e-4 * ((at[1] / 1e4).max(1.0) + (at[2] / 1e3).max(1.0));
            held + beyond(at[0], rate)
                + error(rows.iter().map(|row| (self.seconds((at[0], at[1], at[2]), row), row.seconds)))
        };
        let starts = [[rate, 50.0, 1.0], [rate * 1.1, 10.0, 4.0], [rate * 1.2, 150.0, 0.5]];
        let found = starts.iter().map(|start| least(start, cost));
        let best = found.min_by(|one, other| cost(one).total_cmp(&cost(other)))?;
        Some((best[0], best[1], best[2]))
    }
}

/// How far a rate lies beyond twice the fastest matmul that was measured. Where other programs hold everything up, all
/// matmuls take the same time at any rate.
fn beyond(rate: f64, largest: f64) -> f64 {
    (rate / (2.0 * largest) - 1.0).max(0.0)
}

/// The most operations a second of any of them.
fn largest_rate<'a>(rows: impl Iterator<Item = &'a MatmulRow>) -> f64 {
    let rate = |row: &MatmulRow| {
        2.0 * row.batch as f64 * row.rows as f64 * row.inner as f64 * row.columns as f64 / row.seconds
    };
    rows.map(rate).fold(1.0, f64::max)
}

impl Surroundings {
    /// What is left of each type's rate in the matmuls of the backward pass: of the input's gradient and of the weight's.
    pub(super) fn gradients(&self, rows: &[GradientRow], fitted: &MatmulFit) -> Vec<(String, f64, f64)> {
        let find = |name: &str| fitted.rates.iter().find(|(element, _)| element == name).map(|(_, rate)| *rate);
        let half = find("bf16").or_else(|| find("fp16"));
        let of = |element: &str, rate: f64, which: &str| {
            let mine: Vec<&MatmulRow> = rows
                .iter()
                .filter(|row| row.of == which && row.matmul.element == element)
                .map(|row| &row.matmul)
                .collect();
            let cost = |at: &[f64]| {
                let kept = rate * at[0];
                let fill = self.fill_of(element, (fitted.fill, half.unwrap_or(rate)), kept);
                error(mine.iter().map(|row| (self.seconds((kept, fill, fitted.start_us), row), row.seconds)))
            };
            (!mine.is_empty()).then(|| least(&[0.8], cost)[0])
        };
        let both = |(element, rate): &(String, f64)| {
            Some((element.clone(), of(element, *rate, "of_input")?, of(element, *rate, "of_weight")?))
        };
        fitted.rates.iter().filter_map(both).collect()
    }
}

/// What is left of the rate where other kernels run between.
pub(super) fn in_training(rows: &[BetweenRow]) -> Option<f64> {
    median(rows.iter().map(|row| (row.alone / row.seconds).clamp(0.5, 1.0)).collect())
}
