//! The GPU and the links.

use super::Notes;
use super::degrees::gpus_of_degrees;
use crate::catalog::{Catalog, Generation, Gpu, Link, Peaks, Scope, Vendor};
use crate::plan::keys;
use crate::plan::{CustomGpu, Plan, USUAL_PER_NODE};
use crate::units::{Bytes, BytesPerSec, FlopsPerSec};

/// Between nodes, where a plan does not say it.
const NETWORK: &str = "infiniband_ndr";

/// The GPU and the links.
#[derive(Debug, Clone, PartialEq)]
pub struct Hardware {
    /// The GPU, with the plan's own figures in place of the catalogue's.
    pub gpu: Gpu,
    /// What the job may use of its memory.
    pub capacity: Bytes,
    /// cuBLAS and cuDNN workspaces count as allocated.
    pub library_workspaces: bool,
    /// `power_limit_w`.
    pub power_limit_w: Option<f64>,
    /// Within a node.
    pub interconnect: Link,
    /// Between nodes.
    pub network: Link,
    /// GPUs in a node.
    pub gpus_per_node: u64,
    /// GPUs that the first link joins: a node, or an NVLink domain over several.
    pub node_gpus: u64,
}

/// Finds the GPU and its links.
pub(super) fn resolve(plan: &Plan, catalog: &Catalog, notes: &mut Notes) -> Option<Hardware> {
    let gpu = gpu(plan, catalog, notes)?;
    let limit = plan.hardware.memory_limit_gb.map(|gb| Bytes::from_f64(gb * 1e9));
    if let Some(limit) = limit.filter(|limit| *limit > gpu.memory) {
        let said = format!("{limit} is more than {} has: {}", gpu.name, gpu.memory);
        notes.assume(keys::hardware::memory_limit_gb, said);
    }
    // The largest part of MIG but the whole has half of the memory, and four of seven parts of the multiprocessors.
    if limit.is_some_and(|limit| limit.0.saturating_mul(8) <= gpu.memory.0.saturating_mul(5)) {
        let said =
            format!("of memory alone: {}'s whole speed is predicted, of which a MIG part has its share", gpu.name);
        notes.assume(keys::hardware::memory_limit_gb, said);
    }
    let capacity = limit.map_or(gpu.memory, |limit| limit.min(gpu.memory));
    let per_node = plan.per_node().unwrap_or(USUAL_PER_NODE);
    let own = own_link(plan, catalog, (&gpu, per_node), notes);
    let interconnect =
        link(catalog, plan.cluster.interconnect.as_deref(), own, "cluster.interconnect", Scope::Node, notes);
    if let Some(interconnect) = &interconnect {
        check_link(plan, catalog, &gpu, interconnect, notes);
    }
    let network = plan.cluster.network.as_deref();
    let network = link(catalog, network, NETWORK, "cluster.network", Scope::Network, notes);
    let (interconnect, mut network) = (interconnect?, network?);
    if let Some(rate) = plan.cluster.network_gb_s_per_gpu {
        network.each_way = BytesPerSec::from_giga(rate);
    }
    note_nodes(plan, (&gpu, per_node), notes);
    let alone = plan.gpus().unwrap_or_else(|| gpus_of_degrees(plan)) < 2;
    if plan.hardware.gpu_type.is_none()
        && plan.hardware.custom.is_some()
        && !alone
        && plan.cluster.interconnect.is_none()
    {
        notes.assume(keys::cluster::interconnect, format!("{} (a card of the plan's own)", gpu.link));
    }
    Some(Hardware {
        gpu,
        capacity,
        library_workspaces: plan.hardware.library_workspaces.unwrap_or(true),
        power_limit_w: plan.hardware.power_limit_w,
        interconnect,
        network,
        gpus_per_node: per_node,
        node_gpus: plan.cluster.nvlink_domain.unwrap_or(per_node).max(1),
    })
}

/// Says how many GPUs a node is taken to have where they are more, and that racks of superchips are one domain of NVLink.
fn note_nodes(plan: &Plan, (gpu, per_node): (&Gpu, u64), notes: &mut Notes) {
    if plan.gpus().is_none_or(|gpus| gpus <= per_node) {
        return;
    }
    if plan.per_node().is_none() {
        notes.assume(keys::cluster::gpus_per_node, per_node);
    }
    if plan.cluster.network.is_none() && plan.cluster.network_gb_s_per_gpu.is_none() {
        notes.assume(keys::cluster::network, NETWORK);
    }
    // Of the boards with that link those whose host is joined by NVLink-C2C.
    let rack = gpu.link == "nvlink_5" && gpu.host_link > BytesPerSec::from_giga(100.0);
    if rack && plan.cluster.nvlink_domain.is_none() {
        let said = format!("{per_node}, the GPUs of a node; those of an NVL72 rack are one domain of 72");
        notes.assume(keys::cluster::nvlink_domain, said);
    }
}

/// The link that joins all GPUs of a node: a bridge joins its own cards alone, and past them all talk over the board.
fn own_link<'a>(plan: &Plan, catalog: &'a Catalog, (gpu, per_node): (&'a Gpu, u64), notes: &mut Notes) -> &'a str {
    let together = plan.gpus().unwrap_or_else(|| gpus_of_degrees(plan)).min(per_node);
    let named = plan.cluster.interconnect.as_deref();
    let bridge = catalog.link(named.unwrap_or(&gpu.link));
    let Some((bridge, joins)) = bridge.and_then(|link| Some((link, link.joins.filter(|joins| *joins < together)?)))
    else {
        return &gpu.link;
    };
    // What tensor-parallel ranks send each other in every layer is most of it where there are any.
    let tensor = plan.distribution.tensor_parallel.unwrap_or(1);
    if named.is_none() && tensor > 1 && tensor <= joins {
        let said = format!("{}, as if it joined all: it joins {joins} cards, tensor-parallel ranks", bridge.name);
        notes.assume(keys::cluster::interconnect, said);
        return &gpu.link;
    }
    let board = catalog.board_link(gpu).map_or(gpu.link.as_str(), |link| link.name.as_str());
    let joined = format!("{} joins {joins} cards of the {together} in a node", bridge.name);
    notes.assume(
        keys::cluster::interconnect,
        match named {
            Some(_) => format!("as if it joined all: {joined}, and the others talk over {board}"),
            None => format!("{board} ({joined})"),
        },
    );
    board
}

fn gpu(plan: &Plan, catalog: &Catalog, notes: &mut Notes) -> Option<Gpu> {
    const DEFAULT: &str = "NVIDIA H100";
    let custom = plan.hardware.custom.as_ref();
    let named = plan.hardware.gpu_type.as_deref();
    if named.is_none()
        && let Some(custom) = custom
    {
        return own_card(custom, notes);
    }
    let name = named.unwrap_or_else(|| {
        notes.assume(keys::hardware::gpu_type, DEFAULT);
        DEFAULT
    });
    let Some(gpu) = catalog.gpu(name) else {
        notes.fault(keys::hardware::gpu_type, catalog.no_gpu(name));
        return None;
    };
    let mut gpu = gpu.clone();
    if let Some(custom) = custom {
        if let Some(label) = custom.name.as_ref().filter(|label| **label != gpu.name) {
            let said = format!(
                "{label} is a name alone: what hardware.custom leaves out, and its kernels, are {}'s",
                gpu.name
            );
            notes.assume("hardware.custom.name", said);
        }
        overridden(&mut gpu, custom);
    }
    Some(gpu)
}

/// The plan's own figures in place of the catalogue's.
fn overridden(gpu: &mut Gpu, custom: &CustomGpu) {
    let tera = |value: Option<f64>, known: Option<FlopsPerSec>| value.map(FlopsPerSec::from_tera).or(known);
    if let Some(name) = &custom.name {
        gpu.name.clone_from(name);
        gpu.short = name.chars().take(10).collect();
    }
    if let Some(gb) = custom.memory_gb {
        gpu.memory = Bytes::from_f64(gb * 1e9);
    }
    if let Some(rate) = custom.bandwidth_gb_s {
        gpu.bandwidth = BytesPerSec::from_giga(rate);
    }
    let known = gpu.peaks;
    gpu.peaks = Peaks {
        fp32: tera(custom.fp32, known.fp32),
        tf32: tera(custom.tf32, known.tf32),
        fp16: tera(custom.fp16.or(custom.bf16), known.fp16),
        bf16: tera(custom.bf16.or(custom.fp16), known.bf16),
        fp8: tera(custom.fp8, known.fp8),
        ..known
    };
}

/// A GPU that only the plan knows.
fn own_card(custom: &CustomGpu, notes: &mut Notes) -> Option<Gpu> {
    let peaks = [custom.fp32, custom.tf32, custom.fp16, custom.bf16, custom.fp8];
    let mut missing = |there: bool, key: &str| {
        if !there {
            notes.fault(&format!("hardware.custom.{key}"), "is needed for a GPU without hardware.gpu_type");
        }
        there
    };
    let memory = missing(custom.memory_gb.is_some(), "memory_gb");
    let bandwidth = missing(custom.bandwidth_gb_s.is_some(), "bandwidth_gb_s");
    let peak = missing(peaks.iter().any(Option::is_some), "peak_tflops");
    if !(memory && bandwidth && peak) {
        return None;
    }
    let vector = custom.fp32.or_else(|| assumed_vector(custom, notes));
    let mut gpu = Gpu {
        name: "custom".to_owned(),
        short: "custom".to_owned(),
        aliases: Vec::new(),
        driver_name: None,
        vendor: Vendor::Nvidia,
        generation: Generation::Unknown,
        compute_capability: None,
        memory: Bytes::ZERO,
        unified: false,
        inline_ecc: false,
        bandwidth: BytesPerSec(0.0),
        l2: None,
        l2_bandwidth: None,
        sm_count: None,
        tdp: None,
        max_sm_clock: None,
        exceeds_boost: true,
        boost_clock: None,
        peaks: Peaks::default(),
        link: "pcie_4".to_owned(),
        bridge: None,
        host_link: Generation::Unknown.host_link(),
        process: None,
    };
    overridden(&mut gpu, custom);
    gpu.peaks.fp32 = vector.map(FlopsPerSec::from_tera);
    if let (None, Some(half)) = (custom.bf16, custom.fp16) {
        notes.assume("hardware.custom.peak_tflops.bf16", format!("{half}, that of fp16"));
    }
    Some(gpu)
}

/// The FP32 peak of a card of which only that of its matrix units is told: the share that A100's is of its own (NVIDIA A100
/// Tensor Core GPU Architecture, table 3: 19.5 beside 156 in TF32 and 312 in 16 bits; H100's FP8 is twice its 16 bits).
fn assumed_vector(custom: &CustomGpu, notes: &mut Notes) -> Option<f64> {
    let of = |peak: Option<f64>, share: f64, name: &str| peak.map(|peak| (peak / share, name.to_owned()));
    let half = custom.bf16.or(custom.fp16);
    let known =
        of(half, 16.0, "16-bit").or_else(|| of(custom.tf32, 8.0, "TF32")).or_else(|| of(custom.fp8, 32.0, "FP8"));
    let (peak, name) = known?;
    notes.assume("hardware.custom.peak_tflops.fp32", format!("{peak:.1} (as much of its {name} peak as A100's)"));
    Some(peak)
}

/// Says where the plan's link is none that its GPU has. Of a card that only the plan knows it is the plan's to say.
fn check_link(plan: &Plan, catalog: &Catalog, gpu: &Gpu, link: &Link, notes: &mut Notes) {
    let own = plan.hardware.custom.as_ref().is_some_and(|custom| custom.name.is_some());
    let known = plan.hardware.gpu_type.is_some() || plan.hardware.custom.is_none();
    if known && !own && plan.cluster.interconnect.is_some() && !catalog.has_link(gpu, link) {
        notes
            .assume("cluster.interconnect", format!("{} has no {}: its own link is {}", gpu.name, link.name, gpu.link));
    }
}

fn link(
    catalog: &Catalog,
    given: Option<&str>,
    default: &str,
    key: &str,
    scope: Scope,
    notes: &mut Notes,
) -> Option<Link> {
    let name = given.unwrap_or(default);
    let Some(link) = catalog.link(name) else {
        notes.fault(key, catalog.no_link(name));
        return None;
    };
    if given.is_some() && link.scope != scope {
        let right = if scope == Scope::Node { "within a node" } else { "between nodes" };
        notes.fault(key, format!("{name} does not run {right}"));
        return None;
    }
    Some(link.clone())
}
