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
    let by_power = by_power(job, matrix_power(job), curve.clock_power);
    by_power.min((highest(gpu, curve, by_power * curve.half) / curve.half).max(1.0))
}

/// The same in TF32.
pub(super) fn tf32_clock(job: &Job) -> f64 {
    let (gpu, curve) = (&job.hardware.gpu, &job.speed.curves.matrix);
    let Some(power) = curve.tf32_clock_power else { return matrix_clock(job) };
    let by_power = by_power(job, matrix_power(job), power);
    by_power.min((highest(gpu, curve, by_power * curve.tf32) / curve.tf32).max(1.0))
}

/// Watts at which the curve's shares of matrix units were taken, of a GPU with as many of them.
fn matrix_power(job: &Job) -> Option<f64> {
    let (gpu, curve) = (&job.hardware.gpu, &job.speed.curves.matrix);
    let peak = gpu.peaks.bf16.or(gpu.peaks.fp16);
    curve.watts_per_tflop.zip(peak).map(|(watts, peak)| watts * peak.0 * 1e-12)
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
    let idle_share = job.speed.curves.matrix.idle_power;
    // Units beyond those that the power feeds best stay dark: with more of them nothing gets slower. t ((limit - i t) / t) ^ p is
    // largest at t = (1 - p) limit / i.
    let fed = taken.min((1.0 - power).max(0.01) * limit / idle_share);
    let idle = fed * idle_share;
    ((limit - idle) / (fed - idle)).max(0.05).powf(power) * fed / taken
}

/// The largest share of the 16-bit peak that the highest clock allows, of which the power `carried` so much. Peaks of servers'
/// boards are stated at that clock; others go beyond, as far as is known or was measured. `most` is what full matrix units
/// reach: those that were cut until the power carries all of it are held back by their clock alone (H20: 142 of 148 TFLOP/s,
/// zzc0721/torch-performance-test-data, database.md).
fn highest(gpu: &Gpu, curve: &MatrixCurve, carried: f64) -> f64 {
    let known = gpu.max_sm_clock.zip(gpu.boost_clock).map(|(highest, stated)| highest.0 / stated.0);
    match known.or((!gpu.exceeds_boost).then_some(1.0)) {
        Some(above) => (if carried >= 1.0 { f64::INFINITY } else { curve.most }).min(UNHELD * above.max(1.0)),
        None => curve.most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::Document;

    /// Square matmuls of 1024 to 10240 on boards that no curve was made from but those marked, the best of each: TFLOP/s in
    /// FP32 and in 16 bit (the larger of FP16 and BF16), the median where several were measured
    /// (zzc0721/torch-performance-test-data, database.md, 2026). A100's, H100's, H200's and B200's shares are of the shapes of
    /// layers, A40's as well, whose best ones are a tenth above them.
    const BOARDS: [(&str, f64, f64); 22] = [
        ("RTX 3090", 24.8, 76.6), // most
        ("RTX 3080 Ti", 24.6, 77.4),
        ("RTX 3070", 13.7, 43.0),
        ("RTX 3060", 8.2, 25.5),
        ("RTX A6000", 23.9, 123.3),
        ("RTX A4000", 11.9, 65.4),
        ("RTX 4090", 54.7, 167.4),
        ("RTX 4070 Ti SUPER", 30.8, 91.3),
        ("RTX 4070 SUPER", 24.8, 75.5),
        ("RTX 4060", 8.3, 32.6),
        ("L40S", 46.9, 269.2),
        ("L20", 37.3, 114.1),
        ("L4", 15.4, 70.9),
        ("RTX 5090", 68.4, 238.1), // most
        ("RTX 5080", 33.6, 102.9),
        ("RTX 5070", 24.1, 67.4),
        ("RTX PRO 6000", 75.6, 404.5), // half
        ("RTX 2080 Ti", 13.0, 58.6),   // power
        ("H20", 32.0, 142.3),
        ("H100 PCIe", 37.4, 499.9),
        ("A100 PCIe 40GB", 17.6, 241.5),
        ("V100 PCIe", 13.6, 88.9),
    ];

    /// Of the same table, what boards do in TF32 and in 16 bit (the larger of FP16 and BF16); marked those that
    /// `tf32_clock_power` was taken from.
    const IN_TF32: [(&str, f64, f64); 14] = [
        ("RTX 3080 Ti", 38.2, 78.3),
        ("RTX A4000", 34.3, 65.4),
        ("A100 PCIe 40GB", 108.3, 241.5), // power
        ("RTX 4090", 85.7, 168.4),        // power
        ("RTX 4070 Ti SUPER", 46.2, 92.7),
        ("RTX 4070 SUPER", 37.2, 76.1),
        ("RTX 4060", 15.6, 32.6),
        ("L20", 58.2, 114.1),
        ("L4", 31.9, 70.9), // power
        ("H20", 71.8, 142.3),
        ("H100 SXM", 402.2, 797.5),
        ("H100 PCIe", 240.4, 495.9), // power
        ("RTX 5090", 122.2, 240.1),
        ("RTX PRO 6000", 205.2, 417.3),
    ];

    #[test]
    fn tf32_loses_more_of_its_clock_to_a_boards_power() {
        let catalog = Catalog::embedded().unwrap();
        for (name, single, half) in IN_TF32 {
            let job = job(&catalog, name);
            let (peaks, curve) = (&job.hardware.gpu.peaks, &job.speed.curves.matrix);
            let ours = peaks.tf32.unwrap().0 * curve.tf32 * tf32_clock(&job);
            let ours = ours / (peaks.bf16.unwrap().0 * curve.half * matrix_clock(&job));
            assert!((ours / (single / half) - 1.0).abs() < 0.07, "{name}: {ours} of {}", single / half);
        }
    }

    fn job(catalog: &Catalog, gpu: &str) -> Job {
        let text = format!("model: {{preset: Llama-3.1-8B}}\nhardware: {{gpu_type: {gpu}}}");
        Job::resolve(&Document::parse(&text).unwrap().plan().unwrap(), catalog).unwrap()
    }

    #[test]
    fn boards_reach_what_was_measured_on_them() {
        let catalog = Catalog::embedded().unwrap();
        let mut errors = Vec::new();
        for (name, vector, matrix) in BOARDS {
            let job = job(&catalog, name);
            let (gpu, curve) = (&job.hardware.gpu, &job.speed.curves.matrix);
            let ours_vector = gpu.peaks.fp32.unwrap().0 * curve.fp32 * vector_clock(&job) / 1e12;
            let ours_matrix = gpu.peaks.bf16.or(gpu.peaks.fp16).unwrap().0 * curve.half * matrix_clock(&job) / 1e12;
            errors.push((name, ours_vector / vector - 1.0, ours_matrix / matrix - 1.0));
        }
        let mean =
            |of: fn(&(&str, f64, f64)) -> f64| errors.iter().map(of).map(f64::abs).sum::<f64>() / BOARDS.len() as f64;
        let (vectors, matrices) = (mean(|row| row.1), mean(|row| row.2));
        assert!(vectors < 0.08 && matrices < 0.06, "{vectors} {matrices}");
        for (name, vector, matrix) in &errors {
            assert!(vector.abs() < 0.3, "{name}: FP32 {vector:+.2}");
            assert!(matrix.abs() < 0.25, "{name}: 16 bit {matrix:+.2}");
        }
    }
}
