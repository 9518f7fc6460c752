//! GPUs of a machine elsewhere, from the page of metrics that NVIDIA's DCGM exporter serves.
//!
//! What DCGM counts is told in its own words:
//! <https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html>; which of it
//! is on the page is the exporter's configuration
//! (<https://github.com/NVIDIA/dcgm-exporter/blob/main/etc/dcp-metrics-included.csv>).

mod page;

use std::collections::BTreeMap;
use std::io::{self, Read};

use page::{MetricLine, metrics};
use thiserror::Error;

use super::Source;
use crate::catalog::Catalog;
use crate::reading::{
    Absence, DeviceMemory, DeviceSample, Moment, Reading, Sample, SourceInfo, SourceKind, dram_bandwidth,
};
use crate::units::{Bytes, Celsius, Fraction, Joules, MIB, Megahertz, Seconds, Watts};

/// Seconds that a page may take. The thread waits; nobody else does.
const PATIENCE: u64 = 5;
/// No page is larger: eight GPUs make some 100 kB.
const LARGEST: u64 = 32 << 20;

/// The GPUs of one page.
pub struct Prometheus {
    url: String,
    catalog: Catalog,
    /// Every GPU that was ever on the page: one that is missing keeps its place.
    known: BTreeMap<GpuPlace, Identity>,
}

/// Where a GPU is: host, number there, and which part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GpuPlace {
    host: String,
    gpu: u32,
    part: String,
}

/// What stays of a GPU when it is gone.
#[derive(Debug, Clone)]
struct Identity {
    name: Reading<String>,
    uuid: Reading<String>,
    /// When it was first not on the page any more.
    gone_since: Option<Moment>,
}

/// A GPU that is gone for so long has gone for good: its host was taken down or is called something else.
const FORGOTTEN: Seconds = Seconds(600.0);

/// What DCGM puts in place of a value (`dcgm_structs.h`): DCGM_INT32_BLANK, DCGM_INT64_BLANK and DCGM_FP64_BLANK, and
/// one, two, three more for "not found", "not supported" and "no permission".
fn blank(value: f64) -> Option<Absence> {
    const INT32: f64 = 2_147_483_632.0;
    const FP64: f64 = 140_737_488_355_328.0;
    /// Those of 64 bits are one number as the exporter's decimals are read.
    const INT64: f64 = 9.223_372_036_854_775e18;
    if !value.is_finite() || value >= INT64 {
        return Some(Absence::NotSupported);
    }
    let number =
        [INT32, FP64].into_iter().find(|blank| (*blank..blank + 4.0).contains(&value)).map(|blank| value - blank);
    number.map(|number| if number >= 3.0 { Absence::NoPermission } else { Absence::NotSupported })
}

/// Why an exporter's page cannot be watched.
#[derive(Debug, Error)]
pub enum PrometheusError {
    /// Nothing that could be asked.
    #[error("`{0}` is no address; write it like http://HOST:9400/metrics")]
    NoAddress(String),
    /// An address that only TLS reaches.
    #[error("{0}: only plain http is spoken here: name the exporter itself")]
    Encrypted(String),
    /// The page cannot be had.
    #[error("{url}: {why}")]
    Unreachable {
        /// Its address.
        url: String,
        /// What failed.
        why: FetchError,
    },
    /// A page of something else.
    #[error("{0}: no metrics of a GPU there (looked for DCGM_FI_*)")]
    NoGpu(String),
}

/// Why a page cannot be had.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The connection or the protocol.
    #[error(transparent)]
    Http(#[from] minreq::Error),
    /// The page breaks off.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server's refusal, with its words.
    #[error("{}", format!("HTTP {} {}", .0, .1).trim_end())]
    Status(u16, String),
    /// More than any exporter says.
    #[error("the page does not end")]
    Endless,
}

impl Prometheus {
    /// The page at `url`; `HOST:PORT` alone stands for `http://HOST:PORT/metrics`.
    ///
    /// # Errors
    /// One line: where the page cannot be had, or has nothing of a GPU.
    pub fn open(url: &str, catalog: Catalog) -> Result<Self, PrometheusError> {
        let mut source = Self { url: full(url)?, catalog, known: BTreeMap::new() };
        let page = fetch(&source.url).map_err(|why| PrometheusError::Unreachable { url: source.url.clone(), why })?;
        source.devices(&page, Moment::default());
        if source.known.is_empty() {
            return Err(PrometheusError::NoGpu(source.url));
        }
        Ok(source)
    }

    /// The devices of a page, and those that are no longer on it.
    fn devices(&mut self, page: &str, now: Moment) -> Vec<DeviceSample> {
        let mut figures: BTreeMap<GpuPlace, BTreeMap<&str, MetricLine<'_>>> = BTreeMap::new();
        for metric in metrics(page).filter(|metric| metric.name.starts_with("DCGM_FI_")) {
            if let Some(place) = place(&metric) {
                figures.entry(place).or_default().insert(metric.name, metric);
            }
        }
        for (place, metrics) in &figures {
            let label = |name| metrics.values().find_map(|metric| metric.label(name));
            let text = |label: Option<String>| {
                label.map_or(Reading::Absent(Absence::NotExported), |text| Reading::measured(text, now))
            };
            let identity = Identity { name: text(label("modelName")), uuid: text(label("UUID")), gone_since: None };
            self.known.insert(place.clone(), identity);
        }
        self.forget(&figures, now);
        let hosts = self.known.keys().fold((0, ""), |(count, last), place| {
            if count > 0 && last == place.host { (count, last) } else { (count + 1, place.host.as_str()) }
        });
        let numbered = self.known.iter().enumerate().map(|(position, (place, identity))| {
            // Numbers of one host are those that its own tools show.
            let index = if hosts.0 == 1 { place.gpu } else { u32::try_from(position).unwrap_or(u32::MAX) };
            match figures.get(place) {
                Some(metrics) => device(index, identity, metrics, &self.catalog, now),
                None => absent(index, identity, &Absence::Gone),
            }
        });
        numbered.collect()
    }

    /// Forgets what is on the page at another place now, and what is gone for good.
    fn forget(&mut self, figures: &BTreeMap<GpuPlace, BTreeMap<&str, MetricLine<'_>>>, now: Moment) {
        let there: Vec<String> =
            figures.keys().filter_map(|place| self.known.get(place)?.uuid.value().cloned()).collect();
        self.known.retain(|place, identity| {
            if figures.contains_key(place) {
                return true;
            }
            let gone_since = *identity.gone_since.get_or_insert(now);
            let elsewhere = identity.uuid.value().is_some_and(|uuid| there.contains(uuid));
            !elsewhere && now.since(gone_since).0 < FORGOTTEN.0
        });
    }
}

impl Source for Prometheus {
    fn info(&self) -> SourceInfo {
        SourceInfo { kind: SourceKind::Prometheus, detail: self.url.clone() }
    }

    fn sample(&mut self, now: Moment) -> Sample {
        let devices = match fetch(&self.url) {
            Ok(page) => self.devices(&page, now),
            Err(why) => {
                let why = Absence::Failed(why.to_string().into());
                let each = (0..).zip(self.known.iter());
                each.map(|(index, (_, identity))| absent(index, identity, &why)).collect()
            }
        };
        Sample { at: now, devices, ..Sample::default() }
    }
}

/// An address with everything that it needs.
fn full(url: &str) -> Result<String, PrometheusError> {
    let url = url.trim();
    if url.starts_with("https://") {
        return Err(PrometheusError::Encrypted(url.to_owned()));
    }
    let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    if address.is_empty() || address.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(PrometheusError::NoAddress(url.to_owned()));
    }
    Ok(if address.contains('/') { format!("http://{address}") } else { format!("http://{address}/metrics") })
}

fn fetch(url: &str) -> Result<String, FetchError> {
    let answer = minreq::get(url).with_timeout(PATIENCE).send_lazy()?;
    if answer.status_code != 200 {
        return Err(FetchError::Status(answer.status_code, answer.reason_phrase));
    }
    let mut page = Vec::new();
    answer.take(LARGEST).read_to_end(&mut page)?;
    if page.len() as u64 == LARGEST {
        return Err(FetchError::Endless);
    }
    // Names of processes and pods come from anybody: what is no text in them is no reason to lose the rest.
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Of which GPU a metric is; none for what is of no GPU (CPUs, switches, links).
fn place(metric: &MetricLine<'_>) -> Option<GpuPlace> {
    let gpu = metric.label("gpu")?.parse().ok()?;
    let host = metric.label("Hostname").unwrap_or_default();
    Some(GpuPlace { host, gpu, part: metric.label("GPU_I_ID").unwrap_or_default() })
}

fn device(
    index: u32,
    identity: &Identity,
    metrics: &BTreeMap<&str, MetricLine<'_>>,
    catalog: &Catalog,
    now: Moment,
) -> DeviceSample {
    let number = |name: &str| match metrics.get(name).map(|metric| metric.value) {
        Some(value) => blank(value).map_or_else(|| Reading::measured(value, now), Reading::Absent),
        None => Reading::Absent(Absence::NotExported),
    };
    let percent = |name| number(name).map(|value| Fraction::from_percent(*value));
    let share = |name| number(name).map(|value| Fraction(*value));
    let card = identity.name.value().and_then(|name| catalog.gpu(name));
    let dram_peak = card.map_or(Reading::Absent(Absence::NotSupported), |card| Reading::estimated(card.bandwidth, now));
    let memory_busy = percent("DCGM_FI_DEV_MEM_COPY_UTIL");
    let dram_bandwidth = dram_bandwidth(&share("DCGM_FI_PROF_DRAM_ACTIVE"), &memory_busy, &dram_peak);
    let celsius = |name| number(name).map(|value| Celsius(*value));
    let megahertz = |name| number(name).map(|value| Megahertz(*value));
    let mut sample = DeviceSample {
        memory: memory(number),
        memory_reserved: number("DCGM_FI_DEV_FB_RESERVED").map(mib),
        busy: percent("DCGM_FI_DEV_GPU_UTIL"),
        memory_busy,
        sm_activity: share("DCGM_FI_PROF_SM_ACTIVE"),
        tensor_activity: share("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
        dram_bandwidth,
        dram_peak,
        power: number("DCGM_FI_DEV_POWER_USAGE").map(|value| Watts(*value)),
        power_limit: number("DCGM_FI_DEV_ENFORCED_POWER_LIMIT").map(|value| Watts(*value)),
        temperature: celsius("DCGM_FI_DEV_GPU_TEMP"),
        sm_clock: megahertz("DCGM_FI_DEV_SM_CLOCK"),
        sm_clock_max: megahertz("DCGM_FI_DEV_MAX_SM_CLOCK"),
        memory_clock: megahertz("DCGM_FI_DEV_MEM_CLOCK"),
        ..absent(index, identity, &Absence::NotExported)
    };
    put_details(&mut sample, number);
    sample
}

/// What is not among the main figures.
fn put_details(sample: &mut DeviceSample, number: impl Fn(&str) -> Reading<f64>) {
    let share = |name| number(name).map(|value| Fraction(*value));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let count = |name| number(name).map(|value| *value as u64);
    sample.counters.occupancy = share("DCGM_FI_PROF_SM_OCCUPANCY");
    sample.counters.tensor_half = share("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE");
    sample.counters.tensor_integer = share("DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE");
    sample.counters.tensor_double = share("DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE");
    sample.counters.fp64 = share("DCGM_FI_PROF_PIPE_FP64_ACTIVE");
    sample.counters.fp32 = share("DCGM_FI_PROF_PIPE_FP32_ACTIVE");
    sample.counters.fp16 = share("DCGM_FI_PROF_PIPE_FP16_ACTIVE");
    sample.board.memory_temperature = number("DCGM_FI_DEV_MEMORY_TEMP").map(|degrees| Celsius(*degrees));
    // Told in thousandths of a joule.
    sample.board.energy = number("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").map(|energy| Joules(*energy / 1000.0));
    sample.links.pcie_replays = count("DCGM_FI_DEV_PCIE_REPLAY_COUNTER");
    sample.health.corrected = count("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL");
    sample.health.uncorrected = count("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL");
}

/// The unit in which the exporter tells memory.
fn mib(value: &f64) -> Bytes {
    Bytes::from_f64(*value * MIB as f64)
}

/// The framebuffer, which the exporter tells in MiB. Where it leaves the whole out, used, free and
/// reserved are that.
fn memory(number: impl Fn(&str) -> Reading<f64>) -> Reading<DeviceMemory> {
    let mib = |name: &str| number(name).map(mib);
    let free = mib("DCGM_FI_DEV_FB_FREE");
    let reserved = mib("DCGM_FI_DEV_FB_RESERVED").value().copied().unwrap_or_default();
    let total = mib("DCGM_FI_DEV_FB_TOTAL").value().copied();
    match (mib("DCGM_FI_DEV_FB_USED"), free) {
        (Reading::Known { value: used, at, kind }, Reading::Known { value: free, .. }) => {
            let value = DeviceMemory { total: total.unwrap_or(used + free + reserved), used, free };
            Reading::Known { value, at, kind }
        }
        (Reading::Absent(why), _) | (_, Reading::Absent(why)) => Reading::Absent(why),
    }
}

/// A GPU that says nothing, and why.
fn absent(index: u32, identity: &Identity, why: &Absence) -> DeviceSample {
    let Identity { name, uuid, .. } = identity.clone();
    DeviceSample { name, uuid, ..DeviceSample::absent(index, why) }
}

#[cfg(test)]
mod tests;
