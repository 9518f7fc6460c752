//! All fits of one machine together: its curves, as a prediction reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::attention::AttentionUnit;
use super::matmuls::{MatmulFit, Surroundings, in_training, product};
use super::memory::{MemoryFit, highest};
use super::rows::{MeasuredMachine, Rows};
use super::search::median;
use super::{attention, links};
use crate::catalog::{Catalog, Curves, Gpu, Link, LinkCurve, MatrixCurve, MeasuredOn, MemoryCurve, Scope, Stack};
use crate::predict::MatrixUnit;

/// Why rows cannot be fitted.
#[derive(Debug, Error)]
pub enum BenchError {
    /// What nothing can be predicted without.
    #[error("too few kernels were measured: {0} are missing")]
    Missing(&'static str),
    /// The bundled curves are not there.
    #[error("the catalogue has no curves to start from")]
    NoBase,
    /// A link that the catalogue does not know.
    #[error("{0}")]
    NoLink(String),
}

/// Over which links the collectives went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MeasuredLinks<'a> {
    /// Within the node; absent: the GPU's own.
    pub node: Option<&'a str>,
    /// Between nodes; absent: as in plans.
    pub network: Option<&'a str>,
}

/// A device that the catalogue does not know: its peaks are the most that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnDevice {
    /// Bytes a second.
    pub bandwidth: f64,
    /// Operations a second by type.
    pub peaks: Vec<(String, f64)>,
}

/// A machine's curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The device's name in plans.
    pub name: String,
    /// The machine.
    pub machine: MeasuredMachine,
    /// The device itself, where the catalogue does not have it.
    pub own: Option<OwnDevice>,
    /// Kernels.
    pub curves: Curves,
    /// The host, for each framework.
    pub stacks: Vec<Stack>,
    /// Collectives.
    pub links: Vec<LinkCurve>,
    /// What a process holds before it has a model, by library.
    pub processes: Vec<(String, f64)>,
    /// The sources that all of these name.
    pub sources: BTreeMap<String, String>,
}

/// The key of the sources for what was not measured.
const BUNDLED: &str = "bundled";

/// The device in figures.
struct Device {
    name: String,
    bandwidth: f64,
    peaks: Vec<(String, f64)>,
    own: bool,
}

impl Device {
    fn of(gpu: Option<&Gpu>, rows: &Rows, matmuls: &MatmulFit) -> Option<Self> {
        if let Some(gpu) = gpu {
            let peaks = gpu.peaks.named().into_iter().map(|(name, peak)| (name.to_owned(), peak.0)).collect();
            return Some(Self { name: gpu.name.clone(), bandwidth: gpu.bandwidth.0, peaks, own: false });
        }
        let name = if rows.machine.is_cpu() { "CPU".to_owned() } else { rows.machine.name.clone() };
        Some(Self { name, bandwidth: highest(&rows.elements)?, peaks: matmuls.rates.clone(), own: true })
    }

    /// The share of its peak that a type's rate is.
    fn share(&self, matmuls: &MatmulFit, element: &str) -> Option<f64> {
        let find = |list: &[(String, f64)]| list.iter().find(|(name, _)| name == element).map(|(_, rate)| *rate);
        Some(find(&matmuls.rates)? / find(&self.peaks)?)
    }
}

/// Fits the curves to what was measured. What was not stays as the catalogue has it.
///
/// # Errors
/// Where matmuls, memory-bound kernels or launches are missing, or a link has no name.
pub fn fit(rows: &Rows, catalog: &Catalog, over: MeasuredLinks<'_>) -> Result<Fitted, BenchError> {
    let machine = &rows.machine;
    let known = if machine.is_cpu() { None } else { catalog.gpu(&machine.name) };
    let base = match known {
        Some(gpu) => catalog.shared_curves(gpu),
        None => catalog.curves.iter().find(|curves| curves.architecture == "other"),
    };
    let base = base.ok_or(BenchError::NoBase)?;
    let memory = MemoryFit::of(rows).ok_or(BenchError::Missing("launches or memory-bound kernels"))?;
    let around = Surroundings {
        multiprocessors: known.and_then(|gpu| gpu.sm_count).map_or(machine.multiprocessors, |count| count as f64),
        bandwidth: memory.elements,
        kernel: memory.kernel_us * 1e-6,
    };
    let matmuls = around.fit(&rows.matmuls, machine.is_cpu()).ok_or(BenchError::Missing("matmuls"))?;
    let device = Device::of(known, rows, &matmuls).ok_or(BenchError::Missing("memory-bound kernels"))?;
    let key = key(&device.name);
    let measured = MeasuredOn {
        date: machine.date.clone(),
        device: machine.name.clone(),
        versions: machine.versions(),
        threads: machine.threads(),
        clock_mhz: rows.clock_mhz,
        spread: rows.spread.unwrap_or(0.0),
        matmul_error: matmuls.error,
    };
    let bundled = if machine.is_cpu() { "estimated" } else { BUNDLED };
    let mut sources = BTreeMap::from([
        (key.clone(), source(&measured)),
        (bundled.to_owned(), format!("not measured by memwall bench: the bundled curves of {}", base.architecture)),
    ]);
    sources.retain(|name, _| *name == key || name == bundled);
    let mut curves = Curves {
        gpu: Some(device.name.clone()),
        measured: Some(measured),
        estimated_from: None,
        matrix: matrix(rows, &device, (&around, &matmuls), base, &key),
        memory: memory_curve(&memory, &device, &key),
        ..Curves::clone(base)
    };
    if machine.is_cpu() {
        curves.architecture = "cpu".to_owned();
    }
    attention_curves(&mut curves, rows, &device, &around, (&key, bundled));
    curves.convolution = around.convolutions(&rows.convolutions, &matmuls, &key);
    let links = fit_links(rows, catalog, (known, over), &key)?;
    Ok(Fitted {
        stacks: stacks(rows, catalog, &device.name, &key),
        name: device.name,
        machine: machine.clone(),
        own: device.own.then_some(OwnDevice { bandwidth: device.bandwidth, peaks: device.peaks }),
        curves,
        links,
        processes: rows.processes.clone(),
        sources,
    })
}

/// The key of a device's measurements under `sources`.
fn key(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    format!("bench-{plain}")
}

fn source(measured: &MeasuredOn) -> String {
    let clock = measured.clock_mhz.map_or_else(String::new, |clock| format!(", SM clock {clock:.0} MHz"));
    format!(
        "memwall bench on this machine, {}: {}, {}{clock}; a kernel's times spread by {:.0} %, matmuls fitted within {:.0} %",
        measured.date,
        measured.device,
        measured.versions,
        100.0 * measured.spread,
        100.0 * measured.matmul_error
    )
}

fn matrix(
    rows: &Rows,
    device: &Device,
    (around, matmuls): (&Surroundings, &MatmulFit),
    base: &Curves,
    key: &str,
) -> MatrixCurve {
    let share = |element: &str| device.share(matmuls, element);
    let bundled = &base.matrix;
    let half = share("bf16").or_else(|| share("fp16"));
    // Without 16-bit units the predictor takes 1 TFLOP/s for their peak.
    let vector = || matmuls.rates.first().map(|(_, rate)| rate / 1e12).filter(|_| device.own);
    let half = half.or_else(vector).unwrap_or(bundled.half);
    MatrixCurve {
        source: key.to_owned(),
        half,
        fp8: share("fp8").unwrap_or(bundled.fp8),
        tf32: share("tf32").unwrap_or(if device.own { half } else { bundled.tf32 }),
        fp32: share("fp32").unwrap_or(bundled.fp32),
        grouped: grouped(rows, around, matmuls).unwrap_or(bundled.grouped),
        fill: matmuls.fill,
        start_us: matmuls.start_us,
        in_training: in_training(&rows.between).unwrap_or(bundled.in_training),
        most: bundled.most.max(half),
        // Measured at the power that this board may draw.
        watts_per_tflop: None,
        vector: None,
        backward: around.gradients(&rows.gradients, matmuls),
        ..bundled.clone()
    }
}

/// What is left of the rate where several matmuls are one launch.
fn grouped(rows: &Rows, around: &Surroundings, matmuls: &MatmulFit) -> Option<f64> {
    let share = |row: &super::rows::MatmulRow| {
        let rate = matmuls.rates.iter().find(|(element, _)| *element == row.element)?.1;
        let unit = MatrixUnit {
            rate,
            fill: matmuls.fill,
            multiprocessors: around.multiprocessors,
            bandwidth: around.bandwidth,
            start: matmuls.start_us * 1e-6,
        };
        Some(unit.seconds(&product(row)) / (row.seconds - around.kernel).max(0.1 * row.seconds))
    };
    median(rows.grouped.iter().filter_map(share).collect()).map(|share| share.clamp(0.05, 1.0))
}

fn memory_curve(memory: &MemoryFit, device: &Device, key: &str) -> MemoryCurve {
    MemoryCurve {
        inline_ecc: 1.0,
        source: key.to_owned(),
        share: memory.elements / device.bandwidth,
        rows: memory.rows / device.bandwidth,
        kernel_us: memory.kernel_us,
        optimizer: memory.optimizer.map(|(rate, _)| rate / device.bandwidth),
        optimizer_tensor_us: memory.optimizer.map(|(_, each)| each),
        fresh: memory.fresh.map(|rate| rate / device.bandwidth),
    }
}

/// Fused attention where it was measured; what was not keeps the bundled shares, and says so.
fn attention_curves(
    curves: &mut Curves,
    rows: &Rows,
    device: &Device,
    around: &Surroundings,
    (key, bundled): (&str, &str),
) {
    for curve in std::iter::once(&mut curves.flash).chain(&mut curves.vendor).chain(&mut curves.triton) {
        bundled.clone_into(&mut curve.source);
    }
    let Some(element) = rows.attention.first().map(|row| row.element.as_str()) else { return };
    // The predictor takes vector units' share of their peak as well.
    let sustained = |(name, peak): &(String, f64)| {
        let share = if name == "fp32" { curves.matrix.fp32 } else { 1.0 };
        (name.clone(), peak * share)
    };
    let peaks: Vec<(String, f64)> = device.peaks.iter().map(sustained).collect();
    let multiprocessors = (!rows.machine.is_cpu()).then_some(around.multiprocessors);
    let unit = AttentionUnit { peaks: &peaks, multiprocessors, kernel: around.kernel };
    if let Some(curve) = attention::fit(&rows.attention, element, &unit, key) {
        curves.flash = curve;
    }
}

/// The host: what it takes to launch, for each framework in the ratio that the bundled figures have to PyTorch's.
fn stacks(rows: &Rows, catalog: &Catalog, name: &str, key: &str) -> Vec<Stack> {
    let shared: Vec<&Arc<Stack>> = catalog.stacks.iter().filter(|stack| stack.gpu.is_none()).collect();
    let plain = shared.iter().find(|stack| stack.framework == "pytorch").map_or(1.0, |stack| stack.host_us);
    // A CPU launches nothing: what calling a kernel takes is part of that kernel's time.
    let host = if rows.machine.is_cpu() { Some(0.0) } else { rows.host_us };
    let Some(host) = host else { return Vec::new() };
    let measured = |stack: &&Arc<Stack>| Stack {
        gpu: Some(name.to_owned()),
        source: key.to_owned(),
        host_us: host * stack.host_us / plain,
        expert_us: if host > 0.0 { stack.expert_us } else { 0.0 },
        ..Stack::clone(stack)
    };
    shared.iter().map(measured).collect()
}

fn fit_links(
    rows: &Rows,
    catalog: &Catalog,
    (known, over): (Option<&Gpu>, MeasuredLinks<'_>),
    key: &str,
) -> Result<Vec<LinkCurve>, BenchError> {
    // A CPU's own collectives are no link of the catalogue's.
    if rows.collectives.is_empty() || rows.machine.is_cpu() {
        return Ok(Vec::new());
    }
    let link = |name: &str| -> Result<&Link, BenchError> {
        catalog.link(name).ok_or_else(|| BenchError::NoLink(catalog.no_link(name)))
    };
    let node = link(over.node.or(known.map(|gpu| gpu.link.as_str())).unwrap_or("pcie_4"))?;
    let network = link(over.network.unwrap_or("infiniband_ndr"))?;
    let fits = [("node", Scope::Node, node), ("network", Scope::Network, network)].into_iter();
    Ok(fits
        .filter_map(|(name, scope, link)| {
            let base = catalog.link_curve(scope, &link.name);
            links::fit(&rows.collectives, (name, &link.name, link.each_way), base.map(Arc::as_ref), key)
        })
        .collect())
}
