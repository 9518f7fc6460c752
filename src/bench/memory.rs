//! Kernels that memory bounds, launches and the optimizer's step.

use super::rows::{MovedRow, OptimizerRow, Rows};
use super::search::median;

/// What memory-bound kernels reach.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MemoryFit {
    /// Bytes a second of kernels over elements.
    pub elements: f64,
    /// The same of kernels that normalise rows.
    pub rows: f64,
    /// Microseconds of a kernel beside its bytes.
    pub kernel_us: f64,
    /// Bytes a second of an optimizer's step, and microseconds for each of its tensors.
    pub optimizer: Option<(f64, f64)>,
    /// Bytes a second of memory that a process uses for the first time.
    pub fresh: Option<f64>,
}

/// Bytes that AdamW moves at least for each fp32 element: both states and the weight read and written, the gradient read.
pub(super) const MOVED_BY_ADAMW: f64 = 28.0;
/// The same where all elements' square roots are made at once, and read again (`_foreach_sqrt`).
pub(super) const MOVED_BY_FOREACH: f64 = 36.0;

/// The rate at which `rows` move their bytes, once each kernel has started.
fn rate(rows: &[MovedRow], kernel: f64) -> Option<f64> {
    let each = |row: &MovedRow| row.bytes / (row.seconds - kernel).max(0.05 * row.seconds);
    let logarithms: Vec<f64> = rows.iter().map(|row| each(row).ln()).collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

impl MemoryFit {
    /// Rates over the kernels that were measured.
    pub(super) fn of(measured: &Rows) -> Option<Self> {
        let kernel_us = measured.launch_us?;
        let elements = rate(&measured.elements, kernel_us * 1e-6)?;
        let rows = rate(&measured.rows, kernel_us * 1e-6).unwrap_or(elements);
        let moved = if measured.machine.is_cpu() { MOVED_BY_ADAMW } else { MOVED_BY_FOREACH };
        Some(Self {
            elements,
            rows,
            kernel_us,
            optimizer: optimizer(&measured.optimizer, moved),
            fresh: rate(&measured.fresh, 0.0),
        })
    }
}

/// A step's rate and its time for each tensor, from steps over few large and over many small ones: two equations.
fn optimizer(rows: &[OptimizerRow], moved: f64) -> Option<(f64, f64)> {
    let few = rows.iter().min_by(|one, other| one.tensors.total_cmp(&other.tensors))?;
    let many = rows.iter().max_by(|one, other| one.tensors.total_cmp(&other.tensors))?;
    let determinant = few.elements * many.tensors - many.elements * few.tensors;
    if determinant <= 0.0 {
        return None;
    }
    let each_element = (few.seconds * many.tensors - many.seconds * few.tensors) / determinant;
    let each_tensor = (few.elements * many.seconds - many.elements * few.seconds) / determinant;
    (each_element > 0.0).then(|| (moved / each_element, 1e6 * each_tensor.max(0.0)))
}

/// The largest rate of all, for a device whose peak nobody states.
pub(super) fn highest(rows: &[MovedRow]) -> Option<f64> {
    median(rows.iter().map(|row| row.bytes / row.seconds).collect())
        .map(|_| rows.iter().map(|row| row.bytes / row.seconds).fold(0.0, f64::max))
}
