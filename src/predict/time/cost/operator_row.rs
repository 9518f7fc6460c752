//! Lines of the table of operators, and the runs that they are sums of.

use super::kernel::{Kernels, peak};
use crate::framework::Experts;
use crate::model::Unit;
use crate::predict::job::Job;
use crate::units::{FlopsPerSec, Seconds};

/// One line of the table of operators.
#[derive(Debug, Clone)]
pub(in crate::predict) struct OperatorRow {
    pub name: &'static str,
    pub count: u64,
    /// Matrix multiplications as far as they are executed, and the arithmetic of elementwise operators.
    pub flops: f64,
    pub bytes: u64,
    pub peak: FlopsPerSec,
    /// Time of runs that the compute roof binds, and of those that DRAM bandwidth does.
    pub compute: Seconds,
    pub memory: Seconds,
    /// Time that long kernels of its kind would take over the same work.
    pub long: Seconds,
    /// What computes it.
    pub unit: Unit,
    /// A linear layer within a block.
    pub layer: bool,
    /// Rows are normalised.
    pub rows: bool,
}

/// What one kernel, or several alike, cost.
#[derive(Clone, Copy)]
pub(in crate::predict) struct Run {
    pub flops: f64,
    pub bytes: u64,
    /// Time on the compute roof.
    pub compute: Seconds,
    /// The same were it long: neither filling, waves nor tiles cost it anything.
    pub long: Seconds,
    pub kernels: u64,
    /// Rows are normalised, which reads slower than elements.
    pub rows: bool,
}

impl OperatorRow {
    /// The line of one run.
    pub fn of(job: &Job, kernels: &Kernels<'_>, (name, unit, layer): (&'static str, Unit, bool), run: Run) -> Self {
        // Grouped matmuls are one launch of the host for many.
        let grouped = run.kernels > 1 && layer && job.modules.experts.is != Experts::Loop;
        let started = if grouped { 1 } else { run.kernels };
        let memory = kernels.memory(run.bytes, run.rows);
        let long = run.long.max(memory);
        // Operands are loaded while others are multiplied, but not from the first to the last of them.
        let both = if unit.multiplies() {
            // Neither is near the least or the largest number: `f64::hypot`, which minds those, takes ten times as long.
            Seconds((run.compute.0 * run.compute.0 + memory.0 * memory.0).sqrt())
        } else {
            run.compute.max(memory)
        };
        let seconds = both + kernels.start * started as f64;
        let (compute, memory) = if run.compute > memory { (seconds, Seconds::ZERO) } else { (Seconds::ZERO, seconds) };
        let (peak, _) = peak(job, unit, layer);
        Self {
            name,
            count: run.kernels,
            flops: run.flops,
            bytes: run.bytes,
            peak,
            compute,
            memory,
            long,
            unit,
            layer,
            rows: run.rows,
        }
    }

    pub fn seconds(&self) -> Seconds {
        self.compute + self.memory
    }

    /// As many runs.
    pub fn times(&self, times: u64) -> Self {
        let count = times as f64;
        Self {
            count: self.count.saturating_mul(times),
            flops: self.flops * count,
            bytes: self.bytes.saturating_mul(times),
            compute: self.compute * count,
            memory: self.memory * count,
            long: self.long * count,
            ..self.clone()
        }
    }

    fn add(&mut self, more: &Self) {
        self.count = self.count.saturating_add(more.count);
        self.flops += more.flops;
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.peak = FlopsPerSec(self.peak.0.max(more.peak.0));
        self.compute += more.compute;
        self.memory += more.memory;
        self.long += more.long;
    }

    /// The same literal: cheaper than comparing texts, and just as good within one prediction.
    fn is(&self, name: &'static str) -> bool {
        self.name.as_ptr() == name.as_ptr() && self.name.len() == name.len()
    }
}

/// Adds a line to the one of its name and unit: an operator's matmul and the cast of its weight are two.
pub(in crate::predict) fn gather(rows: &mut Vec<OperatorRow>, more: OperatorRow) {
    let alike = |row: &OperatorRow| (row.unit, row.layer, row.rows) == (more.unit, more.layer, more.rows);
    match rows.iter_mut().find(|row| row.is(more.name) && alike(row)) {
        Some(row) => row.add(&more),
        None => rows.push(more),
    }
}

/// Adds a line to the one of its name, whatever computes either.
pub(in crate::predict) fn gather_by_name(rows: &mut Vec<OperatorRow>, more: OperatorRow) {
    match rows.iter_mut().find(|row| row.is(more.name)) {
        Some(row) => row.add(&more),
        None => rows.push(more),
    }
}
