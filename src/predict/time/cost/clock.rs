//! Clocks of a GPU: what its power leaves of them, and what they allow.

use crate::catalog::{Gpu, MatrixCurve};
use crate::predict::job::Job;

/// Clock of GPUs of which the catalogue has none, Hz: between A100's and H100's.
const BOOST: f64 = 1.6e9;

/// FP32 operations of a multiprocessor a clock: 128 lanes that multiply and add, of GPUs with a compute capability from 8.6
/// on but 8.7 (CUDA C++ Programming Guide, "Arithmetic Instructions") and of AMD's compute units (CDNA 3: 256).
const OF_MULTIPROCESSOR: f64 = 256.0;

/// Share of its clock's peak that a board reaches whose matrix units power does not hold back: L20, whose units do half of
/// what Ada's can, 115 of 119.5 TFLOP/s at 275 W (DefTruth/CUDA-Learn-Notes, hgemm).
const UNHELD: f64 = 0.96;

pub(super) fn clock_rate(gpu: &Gpu) -> f64 {
    gpu.boost_clock.map_or(BOOST, |clock| clock.0 * 1e6)
}

/// Multiprocessors of a GPU, threads of a CPU. Of a card that nobody counted them on, as many as its FP32 peak takes at its
/// clock; one where that is unknown as well, so that no waves are told apart.
pub(super) fn multiprocessors(gpu: &Gpu) -> f64 {
    let by_peak = || gpu.peaks.fp32.map(|peak| (peak.0 / (OF_MULTIPROCESSOR * clock_rate(gpu))).round().max(1.0));
    gpu.sm_count.map(|count| count as f64).or_else(by_peak).unwrap_or(1.0)
}

/// Matrix clock over that at which the curve's shares were taken: what the board's own power limit or the plan's leaves
/// of it, or adds, up to the highest clock.
pub(super) fn matrix_clock(job: &Job) -> f64 {
    let (gpu, curve) = (&job.hardware.gpu, &job.speed.curves.matrix);
    let peak = gpu.peaks.bf16.or(gpu.peaks.fp16);
    let taken = curve.watts_per_tflop.zip(peak).map(|(watts, peak)| watts * peak.0 * 1e-12);
    by_power(job, taken, curve.clock_power).min((highest(gpu, curve) / curve.half).max(1.0))
}

/// The same of vector units, which take power of their own: of boards of one silicon some have half of the matrix units'
/// rate, and all have the whole of these.
pub(super) fn vector_clock(job: &Job) -> f64 {
    let (gpu, curve) = (&job.hardware.gpu, &job.speed.curves.matrix);
    match (&curve.vector, gpu.peaks.fp32) {
        (Some(vector), Some(peak)) => {
            let taken = vector.watts_per_tflop * peak.0 * 1e-12;
            by_power(job, Some(taken), vector.clock_power).min((vector.most / curve.fp32).max(1.0))
        }
        // Of the others none was seen to be held back but by a limit that the plan sets.
        _ => by_power(job, None, curve.clock_power),
    }
}

/// The clock by the power that there is over the power that was `taken` where the shares were measured; without it, the
/// board's own.
fn by_power(job: &Job, taken: Option<f64>, power: f64) -> f64 {
    let Some(board) = job.hardware.gpu.tdp else { return 1.0 };
    let limit = job.hardware.power_limit_w.map_or(board.0, |limit| limit.min(board.0));
    let taken = taken.unwrap_or(board.0);
    let idle = taken * job.speed.curves.matrix.idle_power;
    ((limit - idle) / (taken - idle)).max(0.05).powf(power)
}

/// The largest share of the 16-bit peak that the highest clock allows. Peaks of servers' boards are stated at that clock;
/// others go beyond, as far as is known or was measured.
fn highest(gpu: &Gpu, curve: &MatrixCurve) -> f64 {
    let known = gpu.max_sm_clock.zip(gpu.boost_clock).map(|(highest, stated)| highest.0 / stated.0);
    match known.or((!gpu.exceeds_boost).then_some(1.0)) {
        Some(above) => curve.most.min(UNHELD * above.max(1.0)),
        None => curve.most,
    }
}
