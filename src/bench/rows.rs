//! What the program of `memwall bench` writes: one JSON object a line.

use serde::Deserialize;
use thiserror::Error;

/// A file of rows that cannot be used.
#[derive(Debug, Error)]
pub enum RowsError {
    /// A line that is no row.
    #[error("line {line}: {error}")]
    Malformed {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// A time or size that no measurement has.
    #[error("line {line}: {kernel}: every figure must be above 0 and finite")]
    Impossible {
        /// Which, from 1.
        line: usize,
        /// The kernel.
        kernel: &'static str,
    },
    /// No line says which machine was measured.
    #[error("no row says which machine it is of: the measurement has not begun")]
    NoMachine,
}

/// The machine that was measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MeasuredMachine {
    /// `gpu` or `cpu`.
    pub device: String,
    /// As its driver or kernel names it.
    pub name: String,
    /// The day.
    pub date: String,
    /// PyTorch's version.
    pub torch: String,
    /// Multiprocessors of a GPU, threads of a CPU.
    pub multiprocessors: f64,
    /// Its memory.
    pub memory_bytes: f64,
    /// `nvidia` or `amd`.
    pub vendor: Option<String>,
    /// CUDA or HIP with its version.
    pub toolkit: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// The board's power limit, W.
    pub power_limit_w: Option<f64>,
}

impl MeasuredMachine {
    /// Whether it is the host's processors.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        self.device == "cpu"
    }

    /// How many of a CPU's computed.
    #[must_use]
    pub fn threads(&self) -> Option<u32> {
        self.is_cpu().then_some(self.multiprocessors as u32)
    }

    /// PyTorch, toolkit and driver in a line.
    #[must_use]
    pub fn versions(&self) -> String {
        let driver = self.driver.as_ref().map(|driver| format!("driver {driver}"));
        let threads = self.threads().map(|threads| format!("threads: {threads}"));
        let limit = self.power_limit_w.map(|watts| format!("{watts:.0} W"));
        let parts = [Some(format!("torch {}", self.torch)), self.toolkit.clone(), driver, threads, limit];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// A matmul, alone or as a batch.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct MatmulRow {
    pub element: String,
    pub batch: u64,
    pub rows: u64,
    pub inner: u64,
    pub columns: u64,
    pub seconds: f64,
}

/// A matmul of a linear layer's backward pass: `of_input` or `of_weight`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct GradientRow {
    pub of: String,
    #[serde(flatten)]
    pub matmul: MatmulRow,
}

/// A matmul among other kernels, and alone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct BetweenRow {
    pub alone: f64,
    pub seconds: f64,
}

/// A kernel that moves bytes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct MovedRow {
    pub bytes: f64,
    pub seconds: f64,
}

/// Fused attention.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct AttentionRow {
    pub element: String,
    pub heads: u64,
    pub queries: u64,
    pub dim: u64,
    pub causal: bool,
    pub forward: f64,
    pub backward: f64,
}

/// A convolution and its gradients.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ConvolutionRow {
    pub element: String,
    pub positions: u64,
    pub from: u64,
    pub to: u64,
    pub window: u64,
    pub strided: bool,
    pub forward: f64,
    pub of_input: f64,
    pub of_weight: f64,
}

/// An AdamW step.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct OptimizerRow {
    pub tensors: f64,
    pub elements: f64,
    pub seconds: f64,
}

/// A collective over a tensor of so many bytes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct CollectiveRow {
    pub scope: String,
    pub kind: String,
    pub ranks: f64,
    pub bytes: f64,
    pub seconds: f64,
}

#[derive(Deserialize)]
#[serde(tag = "kernel", rename_all = "lowercase")]
enum Row {
    Machine(MeasuredMachine),
    Matmul(MatmulRow),
    Grouped(MatmulRow),
    Gradient(GradientRow),
    Between(BetweenRow),
    Elements(MovedRow),
    Rows(MovedRow),
    Attention(AttentionRow),
    Convolution(ConvolutionRow),
    Launch { device_us: f64 },
    Host { host_us: f64 },
    Optimizer(OptimizerRow),
    Fresh(MovedRow),
    Collective(CollectiveRow),
    Process { name: String, bytes: f64 },
    Done { spread: Option<f64>, clock_mhz: Option<f64> },
}

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The machine.
    pub machine: MeasuredMachine,
    pub(super) matmuls: Vec<MatmulRow>,
    pub(super) grouped: Vec<MatmulRow>,
    pub(super) gradients: Vec<GradientRow>,
    pub(super) between: Vec<BetweenRow>,
    pub(super) elements: Vec<MovedRow>,
    pub(super) rows: Vec<MovedRow>,
    pub(super) attention: Vec<AttentionRow>,
    pub(super) convolutions: Vec<ConvolutionRow>,
    pub(super) launch_us: Option<f64>,
    pub(super) host_us: Option<f64>,
    pub(super) optimizer: Vec<OptimizerRow>,
    /// What using a tensor's memory for the first time takes beside filling it.
    pub(super) fresh: Vec<MovedRow>,
    pub(super) collectives: Vec<CollectiveRow>,
    /// What a process holds before it has a model: by the library that it imports.
    pub(super) processes: Vec<(String, f64)>,
    pub(super) spread: Option<f64>,
    pub(super) clock_mhz: Option<f64>,
}

impl Rows {
    /// Reads the program's output.
    ///
    /// # Errors
    /// Where a line is no row, a figure is impossible, or no machine is named.
    pub fn read(text: &str) -> Result<Self, RowsError> {
        let mut read = None;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let row: Row = serde_json::from_str(line).map_err(|error| RowsError::Malformed { line: at + 1, error })?;
            if let Some(kernel) = row.impossible() {
                return Err(RowsError::Impossible { line: at + 1, kernel });
            }
            match (row, &mut read) {
                (Row::Machine(machine), _) => read = Some(Self::of(machine)),
                (row, Some(rows)) => rows.add(row),
                (_, None) => return Err(RowsError::NoMachine),
            }
        }
        read.ok_or(RowsError::NoMachine)
    }

    const fn of(machine: MeasuredMachine) -> Self {
        Self {
            machine,
            matmuls: Vec::new(),
            grouped: Vec::new(),
            gradients: Vec::new(),
            between: Vec::new(),
            elements: Vec::new(),
            rows: Vec::new(),
            attention: Vec::new(),
            convolutions: Vec::new(),
            launch_us: None,
            host_us: None,
            optimizer: Vec::new(),
            fresh: Vec::new(),
            collectives: Vec::new(),
            processes: Vec::new(),
            spread: None,
            clock_mhz: None,
        }
    }

    fn add(&mut self, row: Row) {
        match row {
            Row::Machine(machine) => self.machine = machine,
            Row::Matmul(row) => self.matmuls.push(row),
            Row::Grouped(row) => self.grouped.push(row),
            Row::Gradient(row) => self.gradients.push(row),
            Row::Between(row) => self.between.push(row),
            Row::Elements(row) => self.elements.push(row),
            Row::Rows(row) => self.rows.push(row),
            Row::Attention(row) => self.attention.push(row),
            Row::Convolution(row) => self.convolutions.push(row),
            Row::Launch { device_us } => self.launch_us = Some(device_us),
            Row::Host { host_us } => self.host_us = Some(host_us),
            Row::Optimizer(row) => self.optimizer.push(row),
            Row::Fresh(row) => self.fresh.push(row),
            Row::Collective(row) => self.collectives.push(row),
            Row::Process { name, bytes } => self.processes.push((name, bytes)),
            Row::Done { spread, clock_mhz } => (self.spread, self.clock_mhz) = (spread, clock_mhz),
        }
    }
}

impl Row {
    /// The kernel's name where one of its figures is none.
    fn impossible(&self) -> Option<&'static str> {
        let sizes = |row: &MatmulRow| row.batch.min(row.rows).min(row.inner).min(row.columns) as f64;
        let (kernel, figures): (_, Vec<f64>) = match self {
            Self::Machine(row) => ("machine", vec![row.multiprocessors, row.memory_bytes]),
            Self::Matmul(row) => ("matmul", vec![row.seconds, sizes(row)]),
            Self::Grouped(row) => ("grouped", vec![row.seconds, sizes(row)]),
            Self::Gradient(row) => ("gradient", vec![row.matmul.seconds, sizes(&row.matmul)]),
            Self::Between(row) => ("between", vec![row.alone, row.seconds]),
            Self::Elements(row) => ("elements", vec![row.bytes, row.seconds]),
            Self::Rows(row) => ("rows", vec![row.bytes, row.seconds]),
            Self::Fresh(row) => ("fresh", vec![row.bytes, row.seconds]),
            Self::Attention(row) => {
                ("attention", vec![row.forward, row.backward, row.heads.min(row.queries).min(row.dim) as f64])
            }
            Self::Convolution(row) => {
                let size = row.positions.min(row.from).min(row.to).min(row.window) as f64;
                ("convolution", vec![row.forward, row.of_input, row.of_weight, size])
            }
            Self::Launch { device_us } => ("launch", vec![*device_us]),
            Self::Host { host_us } => ("host", vec![*host_us]),
            Self::Optimizer(row) => ("optimizer", vec![row.tensors, row.elements, row.seconds]),
            Self::Collective(row) => ("collective", vec![row.ranks - 1.0, row.bytes, row.seconds]),
            Self::Process { bytes, .. } => ("process", vec![*bytes]),
            Self::Done { .. } => return None,
        };
        figures.iter().any(|figure| !figure.is_finite() || *figure <= 0.0).then_some(kernel)
    }
}
