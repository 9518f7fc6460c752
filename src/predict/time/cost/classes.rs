//! Kernels of a step by class: those that one efficiency is reckoned with.

use super::attention::attention_kernels;
use super::cpu::PAGES;
use super::kernel::{Kernels, peak};
use super::operator_row::OperatorRow;
use super::{Cost, Passes};
use crate::model::Unit;
use crate::predict::job::Job;
use crate::predict::step::StepTapes;
use crate::units::{FlopsPerSec, Seconds};

/// Kernels of one class over a step of one GPU.
#[derive(Debug, Clone)]
pub(in crate::predict) struct KernelClass {
    pub name: String,
    pub count: u64,
    pub flops: f64,
    pub bytes: u64,
    pub seconds: Seconds,
    /// The peak of the unit that computes them.
    pub peak: FlopsPerSec,
    /// Operations bind long kernels of it, not DRAM.
    pub is_arithmetic: bool,
    /// Share of the peak that long ones sustain.
    pub sustained: f64,
    /// Where that share is from: a key of the catalogue's sources.
    pub source: String,
}

/// The classes of a stage's kernels, the optimizer's among them, the longest first.
pub(in crate::predict) fn classes(
    job: &Job,
    step: &StepTapes,
    passes: &Passes,
    (layers, ends): (&[u64], (bool, bool)),
    cost: &Cost,
) -> Vec<KernelClass> {
    let kernels = Kernels::of(job);
    let mut all: Vec<KernelClass> = Vec::with_capacity(8);
    for (passed, times) in passes.of_stage(job, step, layers, ends) {
        for row in passed.with_reference().flat_map(|passed| &passed.rows) {
            add(&mut all, job, &kernels, &row.times(times));
        }
    }
    for row in &cost.once {
        add(&mut all, job, &kernels, row);
    }
    all.sort_by(|a, b| b.seconds.0.total_cmp(&a.seconds.0));
    all
}

fn add(all: &mut Vec<KernelClass>, job: &Job, kernels: &Kernels<'_>, row: &OperatorRow) {
    let curves = &job.speed.curves;
    let (peak, element) = peak(job, row.unit, row.layer);
    let (name, is_arithmetic, sustained, source) = match row.unit {
        Unit::Matrix(_) => {
            let share = kernels.sustained(row.unit, row.layer) / peak.0;
            (format!("matrix multiplications in {element}"), true, share, &curves.matrix.source)
        }
        Unit::Convolution(_) => {
            let share = kernels.sustained(row.unit, row.layer) / peak.0;
            (format!("convolutions in {element}"), true, share, &curves.matrix.source)
        }
        Unit::Attention(_) => {
            let curve = curves.attention(attention_kernels(job));
            let share = curve.heads.iter().map(|(_, forward, _)| *forward).fold(0.0, f64::max);
            ("fused attention".to_owned(), true, share, &curve.source)
        }
        Unit::Vector if row.name == "optimizer" => {
            ("optimizer".to_owned(), false, curves.memory.share, &curves.memory.source)
        }
        Unit::Vector if row.name == PAGES => {
            let share = curves.memory.fresh.unwrap_or(0.0);
            ("memory used for the first time".to_owned(), false, share, &curves.memory.source)
        }
        Unit::Vector if row.rows => ("norms and softmax".to_owned(), false, curves.memory.rows, &curves.memory.source),
        Unit::Vector => ("elementwise and copies".to_owned(), false, curves.memory.share, &curves.memory.source),
    };
    match all.iter_mut().find(|class| class.name == name) {
        Some(class) => {
            class.count = class.count.saturating_add(row.count);
            class.flops += row.flops;
            class.bytes = class.bytes.saturating_add(row.bytes);
            class.seconds += row.seconds();
        }
        None => all.push(KernelClass {
            name,
            count: row.count,
            flops: row.flops,
            bytes: row.bytes,
            seconds: row.seconds(),
            peak,
            is_arithmetic,
            sustained,
            source: source.clone(),
        }),
    }
}
