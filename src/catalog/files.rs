//! Reading the catalogue's YAML files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::{
    Catalog, Citation, Curves, Generation, Gpu, Link, LinkCurve, ModelPreset, Peaks, ProcessMemory, Scope, Stack,
    Vendor,
};
use crate::files;
use crate::units::{Bytes, BytesPerSec, FlopsPerSec, Megahertz, Seconds, Watts};

/// A catalogue file that cannot be used.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// Not YAML, an unknown or missing key, or a value of the wrong type.
    #[error("{file}: {error}")]
    Malformed {
        /// The file as its reader knows it.
        file: String,
        /// What is wrong, with line and column.
        error: serde_yaml::Error,
    },
    /// One inside the binary that holds something else than a catalogue does.
    #[error("{file}: {error}")]
    Embedded {
        /// The file that it was made of.
        file: String,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// Its values stand in each other deeper than those of any catalogue.
    #[error("{file}: nested too deep")]
    TooDeep {
        /// The file.
        file: String,
    },
    /// A number whose source key stands nowhere in the file.
    #[error("{file}: {entry}: source `{key}` is not listed under `sources`")]
    UnknownSource {
        /// The file.
        file: String,
        /// The entry's name.
        entry: String,
        /// The key that is missing.
        key: String,
    },
}

/// A number and where it comes from: a key of the file's `sources`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CitedValue<T> {
    pub(super) value: T,
    source: String,
}

/// One file: any of the three lists, with the sources that its numbers name.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) sources: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) gpus: Vec<GpuEntry>,
    #[serde(default)]
    pub(super) interconnects: Vec<LinkEntry>,
    #[serde(default)]
    pub(super) models: Vec<ModelEntry>,
    #[serde(default)]
    pub(super) curves: Vec<Curves>,
    #[serde(default)]
    pub(super) stacks: Vec<Stack>,
    #[serde(default)]
    pub(super) link_curves: Vec<LinkCurve>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuEntry {
    name: String,
    short: String,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    driver_name: Option<String>,
    vendor: String,
    architecture: String,
    #[serde(default)]
    compute_capability: Option<String>,
    #[serde(default)]
    form: Option<String>,
    sm_count: Option<CitedValue<u64>>,
    memory_gib: CitedValue<f64>,
    #[serde(default)]
    unified: bool,
    inline_ecc: Option<CitedValue<bool>>,
    bandwidth_gb_s: CitedValue<f64>,
    l2_mib: Option<CitedValue<f64>>,
    l2_bytes_per_clock: Option<CitedValue<f64>>,
    tdp_w: Option<CitedValue<f64>>,
    max_sm_clock_mhz: Option<CitedValue<f64>>,
    boost_clock_mhz: Option<CitedValue<f64>>,
    peak_tflops: PeakEntry,
    link: String,
    #[serde(default)]
    bridge: Option<String>,
    host_gb_s_each_way: Option<CitedValue<f64>>,
    process_mib: Option<ProcessEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessEntry {
    source: String,
    torch: f64,
    transformers: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeakEntry {
    source: String,
    fp32: Option<f64>,
    tf32: Option<f64>,
    fp16: Option<f64>,
    bf16: Option<f64>,
    fp8: Option<f64>,
    int8: Option<f64>,
    fp4: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkEntry {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    scope: ScopeEntry,
    #[serde(default)]
    board: bool,
    joins: Option<u64>,
    gb_s_each_way: CitedValue<f64>,
    latency_us: Option<CitedValue<f64>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScopeEntry {
    Node,
    Network,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelEntry {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    source: String,
    params: CitedValue<u64>,
    hf_config: Map<String, Value>,
}

/// What JSON holds that was made of one of the house's own files.
pub(super) fn embedded<T: Deserialize<'static>>(file: &str, json: &'static str) -> Result<T, CatalogError> {
    serde_json::from_str(json).map_err(|error| CatalogError::Embedded { file: file.to_owned(), error })
}

impl Catalog {
    /// Adds what a catalogue file holds. An entry that is already known by that name is
    /// hidden by the new one.
    ///
    /// # Errors
    /// Where the text is malformed or a number has no source; nothing is added then.
    pub fn extend(&mut self, file: &str, text: &str) -> Result<(), CatalogError> {
        if files::is_deep(text) {
            return Err(CatalogError::TooDeep { file: file.to_owned() });
        }
        let read = serde_yaml::from_str(text);
        self.add(file, read.map_err(|error| CatalogError::Malformed { file: file.to_owned(), error })?)
    }

    /// The same from the JSON that was made of one of the house's own files.
    pub(super) fn extend_embedded(&mut self, file: &str, json: &'static str) -> Result<(), CatalogError> {
        self.add(file, embedded(file, json)?)
    }

    pub(super) fn add(&mut self, file: &str, read: File) -> Result<(), CatalogError> {
        let mut citations = Vec::new();
        let cited = read.gpus.iter().flat_map(|gpu| gpu.sources().map(|(figure, key)| (&gpu.name, figure, key)));
        let links = read.interconnects.iter();
        let cited = cited.chain(links.flat_map(|link| link.sources().map(|(figure, key)| (&link.name, figure, key))));
        let cited = cited.chain(read.efficiencies());
        for (entry, figure, key) in cited {
            let Some(source) = read.sources.get(key) else {
                let (file, entry, key) = (file.to_owned(), entry.clone(), key.to_owned());
                return Err(CatalogError::UnknownSource { file, entry, key });
            };
            citations.push(Citation { entry: entry.clone(), figure, source: source.clone() });
        }
        // Entries that the new ones hide no longer speak for that name. Curves of one GPU leave its figures as they are.
        let hides = |name: &String| {
            read.gpus.iter().any(|gpu| gpu.name == *name) || read.interconnects.iter().any(|link| link.name == *name)
        };
        let known = Arc::make_mut(&mut self.citations);
        known.retain(|old| {
            let same = |new: &Citation| new.entry == old.entry && new.figure == old.figure;
            !hides(&old.entry) && !citations.iter().any(same)
        });
        known.append(&mut citations);
        Arc::make_mut(&mut self.gpus).extend(read.gpus.into_iter().map(GpuEntry::into_gpu));
        Arc::make_mut(&mut self.links).extend(read.interconnects.into_iter().map(LinkEntry::into_link));
        Arc::make_mut(&mut self.models).extend(read.models.into_iter().map(ModelEntry::into_preset));
        self.curves.extend(read.curves.into_iter().map(Arc::new));
        self.stacks.extend(read.stacks.into_iter().map(Arc::new));
        self.link_curves.extend(read.link_curves.into_iter().map(Arc::new));
        Ok(())
    }
}

impl File {
    /// Each curve's entry and name with the key of its source.
    fn efficiencies(&self) -> impl Iterator<Item = (&String, &'static str, &str)> {
        let curves = self.curves.iter().flat_map(|curves| {
            let others = curves.vendor.iter().chain(&curves.triton);
            let others = others.map(|curve| ("other fused attention", curve.source.as_str()));
            let own = [
                ("matrix multiplications", curves.matrix.source.as_str()),
                ("memory-bound kernels", curves.memory.source.as_str()),
                ("flash attention", curves.flash.source.as_str()),
            ];
            let convolutions = curves.convolution.iter().map(|curve| ("convolutions", curve.source.as_str()));
            let entry = curves.gpu.as_ref().unwrap_or(&curves.architecture);
            own.into_iter().chain(others).chain(convolutions).map(move |(name, key)| (entry, name, key))
        });
        let stacks = self.stacks.iter().map(|stack| (&stack.framework, "host and overlap", stack.source.as_str()));
        let links = self.link_curves.iter().map(|link| (&link.scope, "collectives", link.source.as_str()));
        curves.chain(stacks).chain(links)
    }
}

impl GpuEntry {
    /// Each figure's name with the key of its source.
    fn sources(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let figures = [
            ("memory", Some(&self.memory_gib)),
            ("bandwidth", Some(&self.bandwidth_gb_s)),
            ("L2", self.l2_mib.as_ref()),
            ("L2 bandwidth", self.l2_bytes_per_clock.as_ref()),
            ("power", self.tdp_w.as_ref()),
            ("highest SM clock", self.max_sm_clock_mhz.as_ref()),
            ("boost clock", self.boost_clock_mhz.as_ref()),
            ("link to the host", self.host_gb_s_each_way.as_ref()),
        ];
        std::iter::once(("peaks", self.peak_tflops.source.as_str()))
            .chain(figures.into_iter().filter_map(|(name, figure)| Some((name, figure?.source.as_str()))))
            .chain(self.inline_ecc.iter().map(|said| ("ECC", said.source.as_str())))
            .chain(self.sm_count.iter().map(|figure| ("SMs", figure.source.as_str())))
            .chain(self.process_mib.iter().map(|process| ("process", process.source.as_str())))
    }

    fn into_gpu(self) -> Gpu {
        let tera = |peak: Option<f64>| peak.map(FlopsPerSec::from_tera);
        let peaks = &self.peak_tflops;
        let clock = self.boost_clock_mhz.as_ref().map(|figure| figure.value * 1e6);
        let l2_rate = self.l2_bytes_per_clock.as_ref().zip(clock).map(|(each, clock)| BytesPerSec(each.value * clock));
        let generation = generation(&self.architecture);
        let host = self.host_gb_s_each_way.map(|figure| BytesPerSec::from_giga(figure.value));
        Gpu {
            vendor: match self.vendor.as_str() {
                "amd" => Vendor::Amd,
                "cpu" => Vendor::Cpu,
                _ => Vendor::Nvidia,
            },
            generation,
            compute_capability: self.compute_capability,
            host_link: host.unwrap_or_else(|| generation.host_link()),
            // Four decimals of a GiB stand for whole MiB, as drivers print them.
            memory: nearest_mib(self.memory_gib.value),
            unified: self.unified,
            inline_ecc: self.inline_ecc.is_some_and(|said| said.value),
            bandwidth: BytesPerSec::from_giga(self.bandwidth_gb_s.value),
            l2_bandwidth: l2_rate,
            l2: self.l2_mib.map(|figure| Bytes::from_gib(figure.value / 1024.0)),
            sm_count: self.sm_count.map(|figure| figure.value),
            tdp: self.tdp_w.map(|figure| Watts(figure.value)),
            exceeds_boost: matches!(self.form.as_deref(), Some("consumer" | "workstation")),
            max_sm_clock: self.max_sm_clock_mhz.map(|figure| Megahertz(figure.value)),
            boost_clock: self.boost_clock_mhz.map(|figure| Megahertz(figure.value)),
            peaks: Peaks {
                fp32: tera(peaks.fp32),
                tf32: tera(peaks.tf32),
                fp16: tera(peaks.fp16),
                bf16: tera(peaks.bf16),
                fp8: tera(peaks.fp8),
                int8: tera(peaks.int8),
                fp4: tera(peaks.fp4),
            },
            name: self.name,
            short: self.short,
            aliases: self.aliases,
            driver_name: self.driver_name,
            link: self.link,
            bridge: self.bridge,
            process: self.process_mib.map(|process| ProcessMemory {
                torch: nearest_mib(process.torch / 1024.0),
                transformers: process.transformers.map(|mib| nearest_mib(mib / 1024.0)),
            }),
        }
    }
}

fn generation(architecture: &str) -> Generation {
    match architecture {
        "pascal" => Generation::Pascal,
        "volta" => Generation::Volta,
        "turing" => Generation::Turing,
        "ampere" => Generation::Ampere,
        "ada" => Generation::Ada,
        "hopper" => Generation::Hopper,
        "blackwell" => Generation::Blackwell,
        "cdna1" | "cdna2" => Generation::Cdna2,
        "cdna3" => Generation::Cdna3,
        "cdna4" => Generation::Cdna4,
        "rdna3" | "rdna4" => Generation::Rdna,
        "cpu" => Generation::Cpu,
        _ => Generation::Unknown,
    }
}

impl LinkEntry {
    /// Each figure's name with the key of its source.
    fn sources(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let latency = self.latency_us.iter().map(|figure| ("latency", figure.source.as_str()));
        std::iter::once(("bandwidth", self.gb_s_each_way.source.as_str())).chain(latency)
    }

    fn into_link(self) -> Link {
        Link {
            name: self.name,
            aliases: self.aliases,
            scope: match self.scope {
                ScopeEntry::Node => Scope::Node,
                ScopeEntry::Network => Scope::Network,
            },
            on_board: self.board,
            joins: self.joins,
            each_way: BytesPerSec::from_giga(self.gb_s_each_way.value),
            latency: self.latency_us.map(|figure| Seconds(figure.value * 1e-6)),
        }
    }
}

impl ModelEntry {
    fn into_preset(self) -> ModelPreset {
        ModelPreset {
            name: self.name,
            aliases: self.aliases,
            source: self.source,
            params: self.params.value,
            hf_config: self.hf_config.into(),
            trace: None,
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn nearest_mib(gib: f64) -> Bytes {
    Bytes::from_mib((gib * 1024.0).round() as u64)
}
