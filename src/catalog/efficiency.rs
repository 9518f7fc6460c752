//! How much of a GPU's and a link's peaks programs reach: the curves of `efficiency.yaml`.
//!
//! Each block names its source: a published measurement, or the rows of `tests/truth` that it was fitted on.

use serde::{Deserialize, Serialize};

/// What kernels reach on the GPUs of one generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    /// The generation, as `gpus.yaml` names it; `other` for those without an entry.
    pub architecture: String,
    /// Only of GPUs of this compute capability; absent: of all others of the generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Only of the GPU of this name, before all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// When and with what `memwall bench` measured them on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredOn>,
    /// What the curves were estimated from, where no kernel of these GPUs was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_from: Option<String>,
    /// Matrix multiplications.
    pub matrix: MatrixCurve,
    /// Kernels that DRAM bandwidth bounds.
    pub memory: MemoryCurve,
    /// FlashAttention-2, which is also what PyTorch's dispatcher runs.
    pub flash: AttentionCurve,
    /// The vendor's fused attention (cuDNN), where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<AttentionCurve>,
    /// The Triton kernel of the first FlashAttention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triton: Option<AttentionCurve>,
    /// Convolutions, where they were measured; else the constants of all GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convolution: Option<ConvolutionCurve>,
}

/// A measurement of `memwall bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredOn {
    /// The day, as `2026-11-23`.
    pub date: String,
    /// The device, as its driver or kernel names it.
    pub device: String,
    /// PyTorch, toolkit and driver.
    pub versions: String,
    /// Threads of a CPU that computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The SM clock under load, where the driver told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<f64>,
    /// From the tenth to the ninetieth hundredth of a kernel's times, as a share of their median: the median kernel's.
    pub spread: f64,
    /// Mean error of the fitted matmuls.
    pub matmul_error: f64,
}

impl MeasuredOn {
    /// A spread from which something else ran meanwhile, and an error from which the fit says little.
    const RESTLESS: f64 = 0.2;
    const UNFITTED: f64 = 0.5;

    /// Why times that come from it may be far off.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let (spread, error) = (100.0 * self.spread, 100.0 * self.matmul_error);
        if self.spread > Self::RESTLESS {
            return Some(format!("times spread by {spread:.0} %: other programs ran; measure again when it is quiet"));
        }
        (self.matmul_error > Self::UNFITTED).then(|| format!("matmuls fitted within {error:.0} % alone"))
    }
}

/// Convolutions: what is left of the matmul's rate forward, for the input's gradient and for the weight's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvolutionCurve {
    /// A key of the file's `sources`.
    pub source: String,
    /// Windows of one element.
    pub pointwise: (f64, f64, f64),
    /// Larger windows.
    pub window: (f64, f64, f64),
}

/// Matrix multiplications: share of the dense peak, and what depends on the shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixCurve {
    /// A key of the file's `sources`.
    pub source: String,
    /// Share of the peak that a large 16-bit matmul sustains at `watts_per_tflop`.
    pub half: f64,
    /// The same of FP8.
    pub fp8: f64,
    /// The same of TF32.
    pub tf32: f64,
    /// The same of FP32 on the vector units.
    pub fp32: f64,
    /// What is left of those where matmuls of many experts run as one group.
    pub grouped: f64,
    /// What is left of those where the weight's gradient is added to an FP32 one.
    pub gradient: f64,
    /// Inner size that takes as long as a tile's first loads and its write-out, in 16 bit.
    pub fill: f64,
    /// Microseconds before the first tile multiplies, once a kernel.
    pub start_us: f64,
    /// What is left of the shares in training, where other kernels run between: power, caches and clocks are not those of
    /// one kernel again and again.
    pub in_training: f64,
    /// The largest share that the highest clock allows, where the boards differ in power.
    pub most: f64,
    /// Watts of board power for a TFLOP/s of 16-bit peak that the shares hold at; absent: what the GPU itself has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts_per_tflop: Option<f64>,
    /// Power of (limit - idle) / (those watts - idle) by which the matrix clock differs.
    pub clock_power: f64,
    /// The same in TF32, which loses more of its clock to a limit; absent: as much as 16 bit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf32_clock_power: Option<f64>,
    /// Power of the vector units; absent: only a limit that the plan sets holds them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<VectorPower>,
    /// Share of the board power that an idle GPU draws.
    pub idle_power: f64,
    /// Share of the rest of it that a GPU draws while DRAM bandwidth bounds its kernels.
    pub dram_power: f64,
    /// The same while it waits for others.
    pub waiting_power: f64,
    /// What is left of the FP8 rate where scales are applied within the matmul; absent: all of it.
    #[serde(default)]
    pub fp8_scales: Fp8Scales,
    /// (type, share of its rate in the input's gradient, in the weight's); a type that is absent keeps all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backward: Vec<(String, f64, f64)>,
}

/// What FP32 on the vector units takes, where boards of a generation differ in power.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorPower {
    /// Watts of board power for a TFLOP/s of FP32 peak that the share holds at.
    pub watts_per_tflop: f64,
    /// Power of (limit - idle) / (those watts - idle) by which the clock differs.
    pub clock_power: f64,
    /// The largest share that the highest clock allows.
    pub most: f64,
}

/// What is left of the FP8 rate by how operands are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fp8Scales {
    /// One scale for each row and column, which slows a matmul's end.
    #[serde(default = "whole")]
    pub rowwise: f64,
    /// One for each block, which slows its loop.
    #[serde(default = "whole")]
    pub blockwise: f64,
}

impl Default for Fp8Scales {
    fn default() -> Self {
        Self { rowwise: whole(), blockwise: whole() }
    }
}

/// Kernels that DRAM bandwidth bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryCurve {
    /// A key of the file's `sources`.
    pub source: String,
    /// Share of the peak bandwidth that a long kernel reaches.
    pub share: f64,
    /// The same of kernels that normalise rows, of a tensor read and written once: layer norm, softmax.
    pub rows: f64,
    /// What is left of both where checksums lie in the same memory.
    #[serde(default = "whole")]
    pub inline_ecc: f64,
    /// Microseconds that each kernel takes beside its bytes and operations: its start and its tail.
    pub kernel_us: f64,
    /// The same share of an optimizer's step, which reads and writes weights, gradients and states; absent: `share`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<f64>,
    /// Microseconds that an optimizer's step takes for each parameter tensor beside that; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer_tensor_us: Option<f64>,
    /// The same share at which the kernel hands out and clears pages of memory that a CPU's process uses for the first
    /// time; absent: they are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<f64>,
}

/// Fused attention: share of the 16-bit peak by head size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionCurve {
    /// A key of the file's `sources`.
    pub source: String,
    /// (head size, share forward, share backward), by head size.
    pub heads: Vec<(f64, f64, f64)>,
    /// Blocks of 128 queries for each multiprocessor at which a half of that is reached, forward and backward.
    pub fill: (f64, f64),
    /// Query positions at which a half of that is reached: the start of each row of blocks.
    pub ramp: f64,
    /// What is left of the shares in other types than the one that was measured for `heads`, forward and backward.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<(String, f64, f64)>,
}

impl Curves {
    /// Fused attention as `library` runs it: FlashAttention-2 where nobody measured that library on these GPUs.
    #[must_use]
    pub fn attention(&self, library: AttentionLibrary) -> &AttentionCurve {
        let own = match library {
            AttentionLibrary::Flash => None,
            AttentionLibrary::Vendor => self.vendor.as_ref(),
            AttentionLibrary::Triton => self.triton.as_ref(),
        };
        own.unwrap_or(&self.flash)
    }
}

impl AttentionCurve {
    /// What a type keeps of the shares, forward and backward.
    #[must_use]
    pub fn keeps(&self, element: &str) -> (f64, f64) {
        let own = self.elements.iter().find(|(name, ..)| name == element);
        own.map_or((1.0, 1.0), |(_, forward, backward)| (*forward, *backward))
    }

    /// Shares forward and backward at a head size, straight between the measured ones.
    #[must_use]
    pub fn shares(&self, dim: f64) -> (f64, f64) {
        let after = self.heads.iter().position(|(size, ..)| *size >= dim);
        match after {
            Some(0) => self.heads.first().map_or((1.0, 1.0), |(_, forward, backward)| (*forward, *backward)),
            Some(at) => {
                let ((low, f0, b0), (high, f1, b1)) = (self.heads[at - 1], self.heads[at]);
                let along = (dim - low) / (high - low);
                (f0 + (f1 - f0) * along, b0 + (b1 - b0) * along)
            }
            None => self.heads.last().map_or((1.0, 1.0), |(_, forward, backward)| (*forward, *backward)),
        }
    }
}

/// Which fused attention a framework runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttentionLibrary {
    /// FlashAttention-2.
    Flash,
    /// The vendor's (cuDNN).
    Vendor,
    /// The first FlashAttention's, in Triton.
    Triton,
}

/// How a framework drives the GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Its name in plans.
    pub framework: String,
    /// Only of the host of the GPU of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// A key of the file's `sources`.
    pub source: String,
    /// Its fused attention.
    pub attention: AttentionLibrary,
    /// Microseconds of the host for each kernel of the forward pass; the backward pass, which no Python runs, takes
    /// a half.
    pub host_us: f64,
    /// Microseconds that the GPU idles in each layer of experts, forward and backward together: the host reads how
    /// many tokens go to which expert before it can launch what computes them.
    pub expert_us: f64,
    /// Share of its tensor-parallel collectives in the backward pass that run behind matrix multiplications.
    pub tensor_overlap: f64,
    /// Share of the time of a hidden collective by which it delays the kernels that run beside it.
    pub contention: f64,
    /// Share of the rate of fused attention that is left where context parallel passes keys and values round.
    #[serde(default = "whole")]
    pub ring: f64,
    /// Share of tensor-parallel collectives that is waited for where they run in pieces beside the matmuls that they feed;
    /// absent: the first piece, one of as many as there are ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<f64>,
}

/// A share that nothing is known to reduce.
const fn whole() -> f64 {
    1.0
}

/// What collectives reach of a kind of link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkCurve {
    /// `node` or `network`.
    pub scope: String,
    /// The one kind of link that it is of; absent: all others of its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// A key of the file's `sources`.
    pub source: String,
    /// Share of the link's rate that ring collectives reach with long messages.
    pub ring: f64,
    /// The same of all-to-all.
    pub all_to_all: f64,
    /// The same of point to point.
    pub point_to_point: f64,
    /// Microseconds that a collective takes to start.
    pub start_us: f64,
    /// Microseconds of one step from rank to rank.
    pub hop_us: f64,
    /// Where the step was measured among the ranks of one node alone: how many steps that is, and what each further one of a
    /// larger group takes, as over the other links of its scope. A group of thousands is no thousand times a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further: Option<FurtherSteps>,
    /// How shorter messages go within a node, where what was measured is of long ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<ShortMessages>,
}

/// Steps and rate of messages that are too short for what long ones reach: those of the links before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShortMessages {
    /// Microseconds that a collective takes to start.
    pub start_us: f64,
    /// Microseconds of one step from rank to rank.
    pub hop_us: f64,
    /// Share of what long messages reach of the link's rate.
    pub share: f64,
}

/// Steps beyond those that were measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FurtherSteps {
    /// Steps that were measured.
    pub beyond: f64,
    /// Microseconds of each further one.
    pub hop_us: f64,
}

impl LinkCurve {
    /// Microseconds of so many steps, one after another.
    #[must_use]
    pub fn steps_us(&self, steps: f64) -> f64 {
        let Some(further) = self.further else { return steps * self.hop_us };
        further.hop_us.mul_add((steps - further.beyond).max(0.0), steps.min(further.beyond) * self.hop_us)
    }
}
