//! Time of a matmul kernel by its shape: tiles of the result, waves of them over the multiprocessors, split-K where they
//! are too few, and how well its rows are aligned.
//!
//! The constants hold for every generation alike. They were fitted together with each generation's `half`, `fill` and
//! `start_us` (configs/efficiency.yaml) on 44,600 measured kernels: FP16 linear layers of six models on A100 SXM, A40 and
//! H100 SXM (microsoft/vidur, data/profiling/compute), BF16 ones on A100 PCIe and B200 (MooreThreads/SimuMax,
//! configs/system) and FP16 ones on V100 and T4 (baidu-research/DeepBench, results/train). The mean error is 4 to 11 % by
//! GPU, 7 % over all.

use crate::model::MatMul;

/// Rows and columns of a tile of the result, and what it keeps of the largest one's rate: a smaller one reads more for each
/// operation (NVIDIA, "Matrix Multiplication Background User's Guide", section 4.1).
const TILES: [(f64, f64, f64); 6] = [
    (256.0, 128.0, 1.0),
    (128.0, 256.0, 1.0),
    (128.0, 128.0, 0.95),
    (128.0, 64.0, 0.85),
    (64.0, 128.0, 0.85),
    (64.0, 64.0, 0.7),
];
/// Tiles from here on are tried only where the result is small.
const SMALL: usize = 3;
/// Waves of the 128 x 128 tile beyond which no smaller one is quicker.
const MANY_WAVES: f64 = 8.0;
/// Share of the last, partly filled wave of tiles that is lost: its tiles run faster, alone on their multiprocessors.
const LOST_OF_LAST_WAVE: f64 = 0.3;
/// The least inner size that a part of a split sums over.
const LEAST_PART: f64 = 256.0;
/// Seconds of the kernel that sums the parts of a split.
const SUM_OF_PARTS: f64 = 1.5e-6;
/// Rows of one matrix instruction: the least that a tile computes.
const INSTRUCTION: f64 = 16.0;

/// What a GPU's matmuls depend on beside their shape.
#[derive(Debug, Clone, Copy)]
pub struct MatrixUnit {
    /// Operations a second of large matmuls.
    pub rate: f64,
    /// Inner size in which `rate` takes as long as a tile's first loads and its write-out.
    pub fill: f64,
    /// Multiprocessors of a GPU, threads of a CPU.
    pub multiprocessors: f64,
    /// DRAM bandwidth, bytes a second.
    pub bandwidth: f64,
    /// Seconds before the first tile multiplies.
    pub start: f64,
}

impl MatrixUnit {
    /// Seconds of a batch of matmuls of that shape, without its DRAM traffic.
    #[must_use]
    pub fn seconds(&self, product: &MatMul) -> f64 {
        let size = Size::of(product);
        let large =
            whole(size.rows / 128.0) * whole(size.columns / 128.0) * size.batch > MANY_WAVES * self.multiprocessors;
        // What it would take in full waves of the largest tile; one that keeps less of the rate takes that much longer at
        // least, as no tiling has less to compute or to fill.
        let of_rate = 2.0 * size.rows * size.columns * size.batch * (size.inner + self.fill) / self.rate;
        let mut least = f64::INFINITY;
        for tile in if large { &TILES[..SMALL] } else { &TILES[..] } {
            if of_rate <= least * tile.2 {
                least = least.min(self.tiled(*tile, size));
            }
        }
        least + self.start
    }

    fn tiled(&self, (tall, wide, keeps): (f64, f64, f64), size: Size) -> f64 {
        let Size { rows, inner, columns, batch } = size;
        let (tall, wide) = (tall.min(rows.max(INSTRUCTION)), wide.min(columns.max(INSTRUCTION)));
        let tiles = whole(rows / tall) * whole(columns / wide) * batch;
        let of_tile = 2.0 * tall * wide * self.multiprocessors / (self.rate * keeps);
        let time = self.waves(tiles) * of_tile * (inner + self.fill);
        // Too few tiles for all multiprocessors: several sum over a part of the inner size each.
        let parts = (self.multiprocessors / tiles).min(inner / LEAST_PART);
        if parts < 2.0 {
            return time;
        }
        let parts = parts.floor();
        let summed = parts * rows * columns * batch * 8.0 / (2.0 * self.bandwidth) + SUM_OF_PARTS;
        time.min(self.waves(tiles * parts) * of_tile * (inner / parts + self.fill) + summed)
    }

    /// Waves that so many tiles take.
    fn waves(&self, tiles: f64) -> f64 {
        let waves = tiles / self.multiprocessors;
        if waves < 1.0 { 1.0 } else { (whole(waves) - waves) * LOST_OF_LAST_WAVE + waves }
    }
}

/// A batch of matmuls in figures to divide by.
#[derive(Clone, Copy)]
struct Size {
    rows: f64,
    inner: f64,
    columns: f64,
    batch: f64,
}

impl Size {
    const fn of(product: &MatMul) -> Self {
        Self {
            rows: product.rows as f64,
            inner: product.inner as f64,
            columns: product.columns as f64,
            batch: product.batch as f64,
        }
    }
}

/// The least whole number that is not below a positive one: `f64::ceil` is a call into the C library on processors of 2003,
/// for which releases are built, and this is asked for thousands of times in a prediction.
const fn whole(number: f64) -> f64 {
    let cut = number as i64 as f64;
    if cut < number { cut + 1.0 } else { cut }
}

/// Operations for each clock that a multiprocessor of A100 does in 16 bit (NVIDIA A100 whitepaper, table 5), of which its
/// large matmuls sustain four fifths: loads of aligned operands keep up with them.
const OF_A100: f64 = 2048.0 * 0.8;

/// Operations for each clock that loads of operands keep a multiprocessor supplied with, whose rows begin at multiples of
/// `size` elements: as many as A100 does where they are aligned to 64 bytes; in smaller pieces less. GPT-2's head takes about
/// twice as long on A100 with 50,257 columns as with 50,304 (nanoGPT, `train.py` and its README), CUTLASS' kernels for 2-byte
/// alignment about as long (media/docs/profiler.md, align1 and align8); NVIDIA's guide (section 3) asks for 16 bytes, on A100
/// for 128. GPUs with fewer operations for each load lose less, those with more more: Hopper's and Blackwell's own loads
/// take 16 bytes and more only.
pub(super) fn supplied(size: u64, element: u64) -> f64 {
    let keeps = match size.saturating_mul(element).trailing_zeros() {
        6.. => return f64::INFINITY,
        5 => 0.97,
        4 => 0.94,
        3 => 0.8,
        2 => 0.65,
        _ => 0.5,
    };
    // Of wider elements as many bytes are fewer operations.
    keeps * OF_A100 * 2.0 / element.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a100() -> MatrixUnit {
        MatrixUnit { rate: 312e12 * 0.79, fill: 45.0, multiprocessors: 108.0, bandwidth: 2039e9 * 0.88, start: 1.2e-6 }
    }

    fn product(rows: u64, inner: u64, columns: u64) -> MatMul {
        MatMul { batch: 1, rows, inner, columns, layer: true }
    }

    /// FP16 linear layers of Llama-2 7B on an A100 SXM (microsoft/vidur, data/profiling/compute/a100/.../mlp.csv,
    /// medians in ms): tokens, inner, columns, time.
    const MEASURED: [(u64, u64, u64, f64); 8] = [
        (4096, 4096, 12288, 1.899),
        (4096, 4096, 4096, 0.607),
        (4096, 11008, 4096, 1.595),
        (2048, 4096, 22016, 1.694),
        (1024, 4096, 12288, 0.475),
        (512, 4096, 4096, 0.088),
        (1024, 4096, 1536, 0.057),
        (4096, 512, 4096, 0.085),
    ];

    #[test]
    fn kernels_of_llama_on_an_a100_take_what_was_measured() {
        for (rows, inner, columns, ms) in MEASURED {
            let seconds = a100().seconds(&product(rows, inner, columns));
            let bytes = 2.0 * (rows * inner + inner * columns + rows * columns) as f64;
            let all = 2e-6 + seconds.hypot(bytes / a100().bandwidth);
            let error = all * 1e3 / ms - 1.0;
            assert!(error.abs() < 0.2, "{rows} x {inner} x {columns}: {} of {ms} ms", all * 1e3);
        }
    }

    #[test]
    fn few_tiles_are_split_along_the_inner_size() {
        // 128 x 128 x 65536 is one tile on one of 108 multiprocessors: alone it would take 108 times its share.
        let unit = a100();
        let alone = 2.0 * 128.0 * 128.0 * 65536.0 * unit.multiprocessors / unit.rate;
        assert!(unit.seconds(&product(128, 65536, 128)) < alone / 20.0);
    }

    #[test]
    fn odd_rows_halve_what_an_a100_does() {
        assert_eq!(supplied(50304, 2), f64::INFINITY);
        assert_eq!(supplied(50257, 2), 0.5 * 1638.4);
        // 108 channels of 2 bytes are 216 = 27 * 8 bytes.
        assert_eq!(supplied(108, 2), 0.8 * 1638.4);
        // RTX 3090: 71 TFLOP/s of 82 multiprocessors at 1695 MHz are 511 operations a clock, which odd rows supply.
        assert!(supplied(197, 2) > 511.0);
    }
}
