//! What the house knows about hardware and models: GPUs, interconnects and model
//! presets, from the YAML files under `configs/`, which are part of the binary and
//! may be extended by files of the user's own. Every number there has its source
//! beside it.

mod efficiency;
mod files;
mod names;
mod own;
mod preset;
mod unknown;

pub use efficiency::{
    AttentionCurve, AttentionLibrary, ConvolutionCurve, Curves, Fp8Scales, FurtherSteps, LinkCurve, MatrixCurve,
    MeasuredOn, MemoryCurve, Stack, VectorPower,
};
pub use files::CatalogError;
pub use preset::{ModelPreset, PresetConfig};

use std::sync::Arc;

use files::embedded;
use own::BrokenEntry;
use preset::EmbeddedPresets;

use crate::order::StableOrder;
use crate::units::{Bytes, BytesPerSec, FlopsPerSec, Megahertz, Seconds, Watts};

/// What a plan's `model.preset` says where nobody has said which model it is: no entry is called so.
pub const UNKNOWN_MODEL: &str = "unknown";

/// Everything that is known by name. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// GPUs, in the order of the files.
    pub gpus: Arc<Vec<Gpu>>,
    /// Links within and between nodes.
    pub links: Arc<Vec<Link>>,
    /// Model presets.
    pub models: Arc<Vec<ModelPreset>>,
    /// What kernels reach, by generation.
    pub curves: Vec<Arc<Curves>>,
    /// How frameworks drive a GPU.
    pub stacks: Vec<Arc<Stack>>,
    /// What collectives reach, by kind of link.
    pub link_curves: Vec<Arc<LinkCurve>>,
    /// Where the figures of GPUs and links come from.
    pub citations: Arc<Vec<Citation>>,
    /// Entries of the user's files that cannot be used.
    broken: Arc<Vec<BrokenEntry>>,
}

/// Where one figure of the catalogue comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The name of the GPU or link.
    pub entry: String,
    /// Which of its figures.
    pub figure: &'static str,
    /// The document, dataset or measurement.
    pub source: String,
}

/// Who makes a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// A CPU, whoever makes it.
    Cpu,
}

/// Generation of a GPU: what decides workspaces, CUDA context size and GPM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// P100, P40, GTX 10.
    Pascal,
    /// V100.
    Volta,
    /// T4, RTX 20.
    Turing,
    /// A100, A10, RTX 30.
    Ampere,
    /// L4, L40S, RTX 40.
    Ada,
    /// H100, H200.
    Hopper,
    /// B200, GB200, RTX 50.
    Blackwell,
    /// MI100, MI210, MI250X.
    Cdna2,
    /// MI300X, MI325X.
    Cdna3,
    /// MI350X, MI355X.
    Cdna4,
    /// Radeon RX 7000 and 9000.
    Rdna,
    /// A host's processors: PyTorch without a GPU.
    Cpu,
    /// A GPU that only the user knows.
    Unknown,
}

impl Generation {
    /// Its name in the catalogue's files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pascal => "pascal",
            Self::Volta => "volta",
            Self::Turing => "turing",
            Self::Ampere => "ampere",
            Self::Ada => "ada",
            Self::Hopper => "hopper",
            Self::Blackwell => "blackwell",
            Self::Cdna2 => "cdna2",
            Self::Cdna3 => "cdna3",
            Self::Cdna4 => "cdna4",
            Self::Rdna => "rdna",
            Self::Cpu => "cpu",
            Self::Unknown => "other",
        }
    }

    /// NVIDIA's with a compute capability below 8.0: without flash kernels, bf16 units and asynchronous copies.
    #[must_use]
    pub const fn is_before_ampere(self) -> bool {
        matches!(self, Self::Pascal | Self::Volta | Self::Turing)
    }

    /// What moves each way over sixteen lanes of the PCIe generation of its time (configs/interconnects.yaml).
    #[must_use]
    pub const fn host_link(self) -> BytesPerSec {
        match self {
            Self::Hopper | Self::Blackwell | Self::Cdna3 | Self::Cdna4 => BytesPerSec(64e9),
            Self::Pascal | Self::Volta | Self::Turing => BytesPerSec(16e9),
            Self::Ampere | Self::Ada | Self::Cdna2 | Self::Rdna | Self::Cpu | Self::Unknown => BytesPerSec(32e9),
        }
    }
}

/// Dense peaks by type. A type that a GPU has no units for is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Peaks {
    /// Vector FP32.
    pub fp32: Option<FlopsPerSec>,
    /// TF32 matrix units.
    pub tf32: Option<FlopsPerSec>,
    /// FP16 matrix units, FP32 accumulation.
    pub fp16: Option<FlopsPerSec>,
    /// BF16 matrix units, FP32 accumulation.
    pub bf16: Option<FlopsPerSec>,
    /// FP8 matrix units.
    pub fp8: Option<FlopsPerSec>,
    /// INT8 matrix units (operations).
    pub int8: Option<FlopsPerSec>,
    /// FP4 matrix units.
    pub fp4: Option<FlopsPerSec>,
}

impl Peaks {
    /// Each type of floating point that the GPU has units for, with its peak, lowest first.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, FlopsPerSec)> {
        let all = [
            ("fp32", self.fp32),
            ("tf32", self.tf32),
            ("fp16", self.fp16),
            ("bf16", self.bf16),
            ("fp8", self.fp8),
            ("fp4", self.fp4),
        ];
        let mut named: Vec<_> = all.into_iter().filter_map(|(name, peak)| Some((name, peak?))).collect();
        named.order_by(|a, b| a.1.0.total_cmp(&b.1.0));
        named
    }
}

/// A GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// The name that users see.
    pub name: String,
    /// At most ten characters, for headers.
    pub short: String,
    /// Other names, among them what NVML reports.
    pub aliases: Vec<String>,
    /// What NVML reports, where that is the name of an edition with another memory.
    pub driver_name: Option<String>,
    /// Who makes it.
    pub vendor: Vendor,
    /// Its generation.
    pub generation: Generation,
    /// NVIDIA's compute capability ("8.6").
    pub compute_capability: Option<String>,
    /// What NVML reports as total.
    pub memory: Bytes,
    /// It is the host's memory: NVML reports none.
    pub unified: bool,
    /// Checksums lie in the DRAM itself, as the card ships, and take part of its bandwidth.
    pub inline_ecc: bool,
    /// Peak DRAM bandwidth.
    pub bandwidth: BytesPerSec,
    /// L2 (or last-level) cache.
    pub l2: Option<Bytes>,
    /// What all multiprocessors together read from it.
    pub l2_bandwidth: Option<BytesPerSec>,
    /// Streaming multiprocessors (compute units).
    pub sm_count: Option<u64>,
    /// Board power.
    pub tdp: Option<Watts>,
    /// Highest SM clock.
    pub max_sm_clock: Option<Megahertz>,
    /// Its clock may pass the one at which the peaks are stated, as consumers' and workstations' boards do.
    pub exceeds_boost: bool,
    /// The clock at which the peaks are stated.
    pub boost_clock: Option<Megahertz>,
    /// Dense peaks.
    pub peaks: Peaks,
    /// The link between GPUs that it has by itself: a name in [`Catalog::links`].
    pub link: String,
    /// The link that two of them may carry on top.
    pub bridge: Option<String>,
    /// What moves between it and its host's memory, each way.
    pub host_link: BytesPerSec,
    /// Of a CPU: what a process holds before it has a model.
    pub process: Option<ProcessMemory>,
}

/// What a training process on a CPU holds at most without a model: interpreter, libraries, threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// With PyTorch.
    pub torch: Bytes,
    /// With transformers as well, where it is installed.
    pub transformers: Option<Bytes>,
}

/// Where a link runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Within a node.
    Node,
    /// Between nodes.
    Network,
}

/// An interconnect.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name in plans.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Where it runs.
    pub scope: Scope,
    /// Lanes of the board, which every GPU may use up to its own generation.
    pub on_board: bool,
    /// The most GPUs that it joins: a bridge's cards. None: all of a node.
    pub joins: Option<u64>,
    /// Bandwidth of one GPU, each way.
    pub each_way: BytesPerSec,
    /// Time before the first byte.
    pub latency: Option<Seconds>,
}

/// The files inside the binary, as `configs/build.rs` made them of YAML.
const FILES: [(&str, &str); 3] = [
    ("configs/gpus.yaml", include_str!(concat!(env!("OUT_DIR"), "/gpus.json"))),
    ("configs/interconnects.yaml", include_str!(concat!(env!("OUT_DIR"), "/interconnects.json"))),
    ("configs/efficiency.yaml", include_str!(concat!(env!("OUT_DIR"), "/efficiency.json"))),
];
/// The presets, as above.
const PRESETS: (&str, &str) = ("configs/models.yaml", include_str!(concat!(env!("OUT_DIR"), "/models.json")));

impl Catalog {
    /// The catalogue inside the binary.
    ///
    /// # Errors
    /// Where a file under `configs/` is malformed; a test holds that none is.
    pub fn embedded() -> Result<Self, CatalogError> {
        let mut catalog = Self::default();
        for (file, json) in FILES {
            catalog.extend_embedded(file, json)?;
        }
        let (file, json) = PRESETS;
        let presets: EmbeddedPresets = embedded(file, json)?;
        catalog.models = Arc::new(presets.into_presets().collect());
        Ok(catalog)
    }

    /// The GPU of that name or alias.
    #[must_use]
    pub fn gpu(&self, name: &str) -> Option<&Gpu> {
        self.whole(name, names::find(&self.gpus, name, |gpu| (&gpu.name, &gpu.aliases)))
    }

    /// The GPU that a driver calls `name`: of editions that share it, the one with about that much `memory`.
    #[must_use]
    pub fn seen(&self, name: &str, memory: Option<Bytes>) -> Option<&Gpu> {
        let named = self.gpu(name)?;
        let Some(memory) = memory else { return Some(named) };
        // The monitor asks for each GPU at each sample: only names that may be the same are looked up.
        let shares = |driver: &str| {
            names::has((&named.name, &named.aliases), &names::plain(driver)) && self.gpu(driver) == Some(named)
        };
        let editions = self.gpus.iter().filter(|gpu| gpu.driver_name.as_deref().is_some_and(shares));
        std::iter::once(named).chain(editions).min_by_key(|gpu| gpu.memory.0.abs_diff(memory.0))
    }

    /// The link of that name or alias.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.whole(name, names::find(&self.links, name, |link| (&link.name, &link.aliases)))
    }

    /// Whether `gpu` can be joined to others by `link`: its own, its bridge, or lanes of its board up to its own
    /// generation. A link that no GPU of the catalogue names is the user's to know.
    #[must_use]
    pub fn has_link(&self, gpu: &Gpu, link: &Link) -> bool {
        let names = |gpu: &Gpu| {
            let own = std::iter::once(&gpu.link).chain(&gpu.bridge);
            own.filter_map(|name| self.link(name)).any(|own| own.name == link.name)
        };
        names(gpu) || if link.on_board { link.each_way <= gpu.host_link } else { !self.gpus.iter().any(names) }
    }

    /// The board's lanes of its own generation.
    #[must_use]
    pub fn board_link(&self, gpu: &Gpu) -> Option<&Link> {
        let lanes = self.links.iter().filter(|link| link.on_board && link.each_way <= gpu.host_link);
        lanes.max_by(|one, other| one.each_way.0.total_cmp(&other.each_way.0))
    }

    /// What kernels reach on `gpu`: its own curves, else those of its compute capability, else of its generation, else
    /// those of `other`.
    #[must_use]
    pub fn curves(&self, gpu: &Gpu) -> Option<&Arc<Curves>> {
        let measured = self.curves.iter().rev().find(|curves| curves.gpu.as_ref() == Some(&gpu.name));
        measured.or_else(|| self.shared_curves(gpu))
    }

    /// The same without its own: those of its kind.
    #[must_use]
    pub fn shared_curves(&self, gpu: &Gpu) -> Option<&Arc<Curves>> {
        let find = |name: &str, capability: Option<&str>| {
            let mut curves = self.curves.iter().rev().filter(|curves| curves.gpu.is_none());
            curves.find(|curves| curves.architecture == name && curves.compute_capability.as_deref() == capability)
        };
        let name = gpu.generation.name();
        let own = gpu.compute_capability.as_deref().and_then(|capability| find(name, Some(capability)));
        own.or_else(|| find(name, None)).or_else(|| find("other", None))
    }

    /// How the framework of that name drives `gpu`: as its own host was measured, else as hosts do.
    #[must_use]
    pub fn stack(&self, framework: &str, gpu: &Gpu) -> Option<&Arc<Stack>> {
        let find = |of: Option<&String>| {
            self.stacks.iter().rev().find(|stack| stack.framework == framework && stack.gpu.as_ref() == of)
        };
        find(Some(&gpu.name)).or_else(|| find(None))
    }

    /// What collectives reach over a link of that name within `scope`.
    #[must_use]
    pub fn link_curve(&self, scope: Scope, link: &str) -> Option<&Arc<LinkCurve>> {
        let name = if scope == Scope::Node { "node" } else { "network" };
        let of = |wanted: Option<&str>| {
            self.link_curves.iter().rev().find(|curve| curve.scope == name && curve.link.as_deref() == wanted)
        };
        of(Some(link)).or_else(|| of(None))
    }

    /// The preset of that name or alias.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&ModelPreset> {
        self.whole(name, names::find(&self.models, name, |model| (&model.name, &model.aliases)))
    }
}
