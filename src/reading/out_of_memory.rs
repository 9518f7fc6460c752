//! What an out-of-memory message says: `PyTorch`'s, a library's, another framework's, or the system's.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// A failure that may have been for memory, of which a text does not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnexplainedFailure {
    /// A process was killed by signal 9, nobody knows by whom.
    Killed,
    /// A process that loads data lost the memory that it shares with the training.
    SharedMemory,
    /// The same where the text says that too many files are open.
    OpenFiles,
    /// Intel's driver ran out of something and does not say of what.
    IntelResources,
    /// A call of CUDA's failed within NCCL, nobody knows which.
    Nccl,
    /// cuBLAS, cuDNN or cuSOLVER could not make a handle.
    Handle,
    /// bitsandbytes has no kernel for the GPU or its driver.
    BitsandbytesKernel,
    /// bitsandbytes found no CUDA library.
    BitsandbytesSetup,
    /// The GPU has no 8-bit matrix multiplication for bitsandbytes.
    BitsandbytesInt8,
}

/// Whose memory ran out, by who says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutOfMemoryKind {
    /// A framework's allocator on a device: the message with figures.
    #[default]
    Allocator,
    /// The driver itself refused, outside of an allocator.
    Driver,
    /// A library beside the allocator: cuBLAS, cuDNN, NCCL, bitsandbytes.
    Library,
    /// vLLM has no room for its cache of keys and values.
    KvCache,
    /// The memory on the chip that one kernel works in: no tensor's.
    OnChip,
    /// The host's memory, asked for by the process.
    Host,
    /// The host's memory: the system ended the process.
    Killed,
}

impl OutOfMemoryKind {
    /// Whether it is the memory of a device that tensors lie in.
    #[must_use]
    pub const fn is_device(self) -> bool {
        !matches!(self, Self::Host | Self::Killed | Self::OnChip)
    }

    /// A word for scripts.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::Driver => "driver",
            Self::Library => "library",
            Self::KvCache => "kv_cache",
            Self::OnChip => "on_chip",
            Self::Host => "host",
            Self::Killed => "killed",
        }
    }
}

/// A cache of keys and values that is shorter than one request may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTokens {
    /// Tokens that one request may take.
    pub wanted: u64,
    /// Tokens that there is room for.
    pub there: u64,
}

/// The memory of a program as its compiler laid it out (XLA's `BufferAssignment`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramBuffers {
    /// What is handed to it: weights, optimizer states, data.
    pub parameters: Option<Bytes>,
    /// What it gives back.
    pub outputs: Option<Bytes>,
    /// What it needs while it runs: activations, gradients.
    pub temporaries: Option<Bytes>,
    /// All of it.
    pub total: Option<Bytes>,
    /// Of that, gaps between buffers.
    pub fragmentation: Option<Bytes>,
}

/// The figures of one message. Releases differ in what they tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutOfMemory {
    /// `CUDA`, `HIP`, `XPU`, `NPU`, `MUSA`, `MPS`, `JAX`, `NCCL`, `Slurm` …: who says it.
    pub backend: String,
    /// Whose memory it is.
    pub kind: OutOfMemoryKind,
    /// The device's index.
    pub device: Option<u32>,
    /// What was asked for.
    pub asked: Option<Bytes>,
    /// The device's memory.
    pub capacity: Option<Bytes>,
    /// What the driver had left.
    pub free: Option<Bytes>,
    /// A limit below the capacity that the process was given (`set_per_process_memory_fraction`).
    pub allowed: Option<Bytes>,
    /// Allocated in tensors.
    pub allocated: Option<Bytes>,
    /// Of which in private pools, CUDA graphs' own.
    pub private_pools: Option<Bytes>,
    /// Held by PyTorch's allocator and in no tensor.
    pub unallocated: Option<Bytes>,
    /// Everything that the driver, or the system of a killed process, charges to this process.
    pub in_process: Option<Bytes>,
    /// Other processes on the device, by pid.
    pub others: Vec<(u32, Bytes)>,
    /// The pid that the driver knows this process by, where the message lists it among the others: a
    /// container has pids of its own. Of a killed process its pid.
    pub own_pid: Option<u32>,
    /// The name of a killed process.
    pub process: Option<String>,
    /// The tokens that one request may take, and those that the cache of keys and values has room for.
    pub cache: Option<CacheTokens>,
    /// The memory of the compiled program that asked.
    pub program: Option<ProgramBuffers>,
    /// The rank of the process, where a launcher writes it before each line.
    pub rank: Option<u32>,
    /// Other processes of the run that ran out as well and were less short.
    pub also: Vec<String>,
    /// The release that wrote it has expandable segments.
    pub has_expandable_segments: bool,
    /// It names `PYTORCH_ALLOC_CONF`, which later releases read in place of a variable for each kind of device.
    pub names_alloc_conf: bool,
}

impl OutOfMemory {
    /// Reserved by PyTorch's allocator: in tensors and not.
    #[must_use]
    pub fn reserved(&self) -> Option<Bytes> {
        Some(self.allocated? + self.unallocated?)
    }

    /// What this process holds outside of PyTorch's allocator: CUDA context, NCCL, libraries.
    #[must_use]
    pub fn outside_torch(&self) -> Option<Bytes> {
        Some(self.in_process?.saturating_sub(self.reserved()?))
    }

    /// What other processes hold: as told, else what is left of the device beside this process.
    /// Older messages tell neither: then it includes this process's own CUDA context. None where one of
    /// the listed processes may be this one.
    #[must_use]
    pub fn elsewhere(&self) -> Option<Bytes> {
        if self.may_list_itself() {
            return None;
        }
        if !self.others.is_empty() {
            return Some(self.others.iter().map(|(_, held)| *held).sum());
        }
        let own = self.in_process.or_else(|| self.reserved())?;
        Some(self.capacity?.saturating_sub(self.free?).saturating_sub(own))
    }

    /// Whether one of the listed processes may be this one: the message lists processes and says of none that it
    /// is this one, as in a container, where the driver's pids are the host's.
    #[must_use]
    pub fn may_list_itself(&self) -> bool {
        self.in_process.is_none() && !self.others.is_empty()
    }

    /// What PyTorch's allocator takes from the driver for the request: small tensors share segments
    /// (c10/cuda/CUDACachingAllocator.cpp, `get_allocation_size`). As asked where another allocator says it.
    #[must_use]
    pub fn segment(&self) -> Option<Bytes> {
        const MIB: u64 = 1 << 20;
        let asked = self.asked?;
        if self.kind != OutOfMemoryKind::Allocator
            || !["CUDA", "HIP", "XPU", "NPU", "MUSA"].contains(&self.backend.as_str())
        {
            return Some(asked);
        }
        Some(match asked.0 {
            small if small <= MIB => Bytes(2 * MIB),
            middle if middle < 10 * MIB => Bytes(20 * MIB),
            large => Bytes(large.div_ceil(2 * MIB).saturating_mul(2 * MIB)),
        })
    }

    /// Whether it would have gone through with all that PyTorch held unused.
    #[must_use]
    pub fn would_fit_unfragmented(&self) -> Option<bool> {
        Some(self.free? + self.unallocated? >= self.asked?)
    }

    /// Whether it tells any amount.
    #[must_use]
    pub fn has_figures(&self) -> bool {
        let amounts = [self.asked, self.free, self.capacity, self.allocated, self.in_process];
        amounts.iter().any(Option::is_some) || self.cache.is_some()
    }

    /// Whether what writes it is at its end with it: who chooses among kernels goes on to the next one.
    #[must_use]
    pub fn ends_runs(&self) -> bool {
        self.kind != OutOfMemoryKind::OnChip && self.backend != "TensorRT"
    }

    /// TensorFlow tells on several lines what was asked and what is held: what this one leaves out, `earlier` may say.
    #[must_use]
    pub fn with_lines_before(mut self, earlier: &Self) -> Self {
        // JAX's allocator is TensorFlow's, and writes its statistics in the same words.
        let shared = |backend: &str| matches!(backend, "TensorFlow" | "JAX");
        let same = shared(&self.backend) && (earlier.backend == "TensorFlow" || earlier.backend == self.backend);
        if same && self.kind == earlier.kind {
            self.asked = self.asked.or(earlier.asked);
            self.allocated = self.allocated.or(earlier.allocated);
            self.allowed = self.allowed.or(earlier.allowed);
            self.device = self.device.or(earlier.device);
        }
        self
    }

    /// Of several processes of a run that ran out the one that was shortest of memory, with the others' names: this one or
    /// `earlier`, which came right before it.
    #[must_use]
    pub fn beside(mut self, earlier: &Self) -> Self {
        let names = self.process_name().zip(earlier.process_name());
        let alike = self.kind == earlier.kind && self.has_figures() && earlier.has_figures();
        let Some((own, other)) = names.filter(|_| alike) else { return self };
        if own == other {
            // Told twice, or another attempt.
            let again = Self { also: earlier.also.clone(), ..self.clone() } == *earlier;
            return if again { earlier.clone() } else { self };
        }
        if earlier.also.contains(&own) {
            return earlier.clone();
        }
        let mut also = earlier.also.clone();
        if (self.short(), earlier.free) < (earlier.short(), self.free) {
            also.push(own);
            return Self { also, ..earlier.clone() };
        }
        also.push(other);
        self.also = also;
        self
    }

    /// What was missing, as far as the message tells.
    fn short(&self) -> Option<Bytes> {
        Some(self.asked?.saturating_sub(self.free?))
    }

    /// Which process of the run it was.
    fn process_name(&self) -> Option<String> {
        let device = self.device.filter(|_| self.kind.is_device());
        match (self.rank, device) {
            (Some(rank), Some(device)) => Some(format!("rank {rank} (GPU {device})")),
            (Some(rank), None) => Some(format!("rank {rank}")),
            (None, device) => device.map(|device| format!("GPU {device}")),
        }
    }

    /// Whether vLLM did not find the share of the device that it was told to take: what was asked is all of that.
    #[must_use]
    pub fn is_share(&self) -> bool {
        self.kind == OutOfMemoryKind::KvCache && self.asked.is_some() && self.capacity.is_some()
    }

    /// What PyTorch's allocator holds beyond all that the device has: the driver pages it to the host, as it does under
    /// Windows and WSL.
    #[must_use]
    pub fn paged(&self) -> Option<Bytes> {
        let beyond = self.reserved()?.saturating_sub(self.capacity?);
        (beyond > Bytes::ZERO).then_some(beyond)
    }

    /// More than any device has: a size gone wrong (negative, or of freed memory).
    #[must_use]
    pub fn is_absurd(&self) -> bool {
        self.asked.is_some_and(|asked| asked.0 >= 1 << 60)
    }

    /// Finds this process among those that the message lists. Together with what PyTorch holds they would
    /// be more than the device has: one of them is this process, the smallest that can hold that much.
    #[must_use]
    pub fn with_own_process(mut self) -> Self {
        /// The message rounds to hundredths of a GiB.
        const SLACK: u64 = 64 << 20;
        let Some(reserved) = self.reserved().filter(|_| self.may_list_itself()) else { return self };
        let Some(used) = self.capacity.zip(self.free).map(|(all, free)| all.saturating_sub(free)) else { return self };
        let listed: Bytes = self.others.iter().map(|(_, held)| *held).sum();
        if listed + reserved <= used + Bytes(SLACK) {
            return self;
        }
        let holds = |held: &Bytes| *held + Bytes(SLACK) >= reserved;
        let own = self.others.iter().enumerate().filter(|(_, (_, held))| holds(held));
        if let Some((at, _)) = own.min_by_key(|(_, (_, held))| *held) {
            let (pid, held) = self.others.remove(at);
            (self.own_pid, self.in_process) = (Some(pid), Some(held));
        }
        self
    }
}
