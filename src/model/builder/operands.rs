//! FP8 operands as Transformer Engine keeps them.

/// How an FP8 tensor lies in memory (Transformer Engine, `pytorch/tensor/float8_tensor.py`, `float8_blockwise_tensor.py`,
/// `mxfp8_tensor.py`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operands {
    /// Scales for blocks of values: a byte for 32 of them (MXFP8), or four for 128 (blockwise); else one a tensor.
    pub block_scales: bool,
    /// A matrix is kept once by rows and once by columns. Products of Blackwell GPUs read tensors with one scale
    /// either way (`pytorch/utils.py`, `is_non_tn_fp8_gemm_supported`).
    pub both_ways: bool,
}

impl Operands {
    /// Bytes of `numel` values, one way.
    #[must_use]
    pub const fn bytes(self, numel: u64) -> u64 {
        if self.block_scales { numel.saturating_add(numel / 32) } else { numel }
    }

    /// Bytes of what takes `bytes` one way, as both matmuls of a backward pass need it.
    #[must_use]
    pub const fn both(self, bytes: u64) -> u64 {
        if self.both_ways { bytes.saturating_mul(2) } else { bytes }
    }
}
