//! GPUs of machines elsewhere: from a server with Prometheus's query API (Prometheus, VictoriaMetrics, Thanos, Mimir),
//! or from the pages of exporters (NVIDIA's DCGM exporter, AMD's device metrics exporter).

pub mod access;
mod address;
mod answer;
mod client;
mod device;
mod endpoint;
mod labels;
mod memwall;
mod page;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use thiserror::Error;

use self::access::{Access, AccessError};
use self::address::Address;
use self::client::Client;
use self::device::{Accumulated, Identity, Values, absent, device};
use self::endpoint::{Answers, Api, Endpoints, ExporterPage, KnownGpus};
use self::labels::GpuPlace;
use self::memwall::{MemwallAnswer, MemwallPlace};
use super::{SharedRequirements, Source};
use crate::catalog::Catalog;
use crate::reading::{
    Absence, DetailTarget, DeviceLocation, DevicePast, DeviceSample, Moment, Reading, Sample, SourceInfo, SourceKind,
};
use crate::units::Seconds;

pub use self::client::FetchError;

/// The GPUs of a server, or of pages.
pub struct Prometheus {
    client: Client,
    endpoints: Endpoints,
    catalog: Catalog,
    known: KnownByPlace,
    requirements: SharedRequirements,
    /// The GPU that was looked at closely last: its past has been told.
    looked_at: Option<GpuPlace>,
    /// What a server answered when it was opened: nobody waits for the same twice.
    first: Option<Answers>,
}

/// Every GPU that ever answered.
#[derive(Default)]
struct KnownByPlace {
    /// By place, each with the endpoint that tells of it: one that is missing keeps its place.
    gpus: BTreeMap<GpuPlace, (usize, Identity)>,
    /// The place of the GPU that each memwall exporter tells of.
    joined: BTreeMap<MemwallPlace, GpuPlace>,
}

impl KnownByPlace {
    /// Gives what memwall exporters say to the GPUs of the same name (UUID), else to the places that they know.
    fn join(&mut self, answers: &mut Answers) {
        let is_new = |(at, told): (&MemwallPlace, &MemwallAnswer)| told.described.is_some() || !self.has_joined(at);
        if answers.memwall.iter().any(is_new) {
            let named = self.named(answers);
            let target = |at: &MemwallPlace| (at.clone(), named.get(&at.uuid).unwrap_or(&at.place).clone());
            self.joined = answers.memwall.keys().map(target).collect();
        }
        answers.join(&self.joined);
    }

    /// The places of GPUs by their own names. Places of other exporters come first: both may tell of the same GPU.
    fn named(&self, answers: &Answers) -> HashMap<String, GpuPlace> {
        let known = self.gpus.iter().filter_map(|(place, (_, identity))| Some((identity.uuid.value()?, place)));
        let described =
            answers.gpus.iter().filter_map(|(place, gpu)| Some((gpu.described.as_ref()?.1.as_ref()?, place)));
        let mut named: HashMap<String, GpuPlace> = HashMap::new();
        for (uuid, place) in known.chain(described) {
            if answers.gpus.contains_key(place) || !named.contains_key(uuid) {
                named.insert(uuid.clone(), place.clone());
            }
        }
        named
    }
}

impl KnownGpus for KnownByPlace {
    fn has(&self, place: &GpuPlace) -> bool {
        self.gpus.contains_key(place)
    }

    fn has_joined(&self, at: &MemwallPlace) -> bool {
        self.joined.contains_key(at)
    }
}

/// A GPU that is gone for so long has gone for good: its host was taken down or is called something else.
const FORGOTTEN: Seconds = Seconds(600.0);

/// Why a server or a page cannot be watched.
#[derive(Debug, Error)]
pub enum PrometheusError {
    /// Nothing that could be asked.
    #[error("`{0}` is no address; write it like http://HOST:9090, or http://HOST:9400/metrics for an exporter's page")]
    NoAddress(String),
    /// A name or a password, which everybody sees in a list of processes.
    #[error("an address with a name or password in it: `access` in config.yaml takes them; see `memwall help sources`")]
    PasswordInAddress,
    /// What is configured cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Nothing answers.
    #[error("{address}: {why}")]
    Unreachable {
        /// Its address.
        address: String,
        /// What failed.
        why: FetchError,
    },
    /// Something answers, and is neither.
    #[error("{address}: no query API ({api}), no page of metrics ({page}) and no federation ({federation})")]
    Neither {
        /// Its address.
        address: String,
        /// Why it is no API.
        api: String,
        /// Why it is not federated.
        federation: String,
        /// Why it is no page.
        page: String,
    },
    /// Metrics of something else.
    #[error("{0}: no metrics of a GPU there (looked for DCGM_FI_*, gpu_* and memwall_gpu_*)")]
    NoGpu(String),
    /// There were some, and their exporters no longer answer.
    #[error("{address}: no metrics of a GPU now; in the last day there were some of {hosts}")]
    NoLonger {
        /// Its address.
        address: String,
        /// Of which hosts.
        hosts: String,
    },
}

impl Prometheus {
    /// The server or page at `url`, told apart by asking. `HOST:PORT` alone stands for `http://HOST:PORT`.
    ///
    /// # Errors
    /// One line: where neither can be had, or nothing of a GPU is there.
    pub fn open(url: &str, access: Access, catalog: Catalog) -> Result<Self, PrometheusError> {
        let address = Address::read(url)?;
        let client = Client::new(access)?;
        if address.is_page() {
            return Self::start(client, Endpoints::Pages(vec![ExporterPage::at(&address)]), catalog);
        }
        let mut api = Api::at(address.clone());
        match api.answers(&client, &KnownByPlace::default()) {
            Ok(first) => Self::begin(client, Endpoints::Api(api), catalog, first, true),
            // A gateway may forbid queries and leave federation open.
            Err(why @ FetchError::Status(403, _)) => Self::open_other(client, &address, &why, catalog)
                .map_err(|_| PrometheusError::Unreachable { address: address.to_string(), why }),
            Err(why @ (FetchError::Access(_) | FetchError::Slow | FetchError::Status(401, _))) => {
                Err(PrometheusError::Unreachable { address: address.to_string(), why })
            }
            Err(api) => Self::open_other(client, &address, &api, catalog),
        }
    }

    /// The page at an address that answers no queries: an exporter's, else what a server has to be federated.
    fn open_other(
        client: Client,
        address: &Address,
        api: &FetchError,
        catalog: Catalog,
    ) -> Result<Self, PrometheusError> {
        // A server has a page about itself too, so that a page without a GPU is no answer yet.
        let page = match Self::start(client.clone(), Endpoints::Pages(vec![ExporterPage::at(address)]), catalog.clone())
        {
            Ok(opened) => return Ok(opened),
            Err(why) => why,
        };
        let federated = Endpoints::Pages(vec![ExporterPage::federated(address)]);
        match (Self::start(client, federated, catalog), page) {
            (Ok(opened), _) => Ok(opened),
            (Err(PrometheusError::Unreachable { why: federation, .. }), PrometheusError::Unreachable { why, .. })
                if matches!(api, FetchError::Status(..)) || why.to_string() != api.to_string() =>
            {
                let [api, page, federation] = [api, &why, &federation].map(ToString::to_string);
                Err(PrometheusError::Neither { address: address.to_string(), api, federation, page })
            }
            (_, page) => Err(page),
        }
    }

    /// The pages of exporters at `urls`.
    ///
    /// # Errors
    /// One line: where no page can be had, or nothing of a GPU is on any.
    pub fn open_pages(urls: &[String], access: Access, catalog: Catalog) -> Result<Self, PrometheusError> {
        let addresses: Result<Vec<Address>, _> = urls.iter().map(|url| Address::read(url)).collect();
        let pages = addresses?.iter().map(ExporterPage::at).collect();
        Self::start(Client::new(access)?, Endpoints::Pages(pages), catalog)
    }

    fn start(client: Client, mut endpoints: Endpoints, catalog: Catalog) -> Result<Self, PrometheusError> {
        let first = endpoints.answers(&client, &KnownByPlace::default());
        Self::begin(client, endpoints, catalog, first, false)
    }

    /// Begins with the first answers, which are the first sample too where they `count`.
    fn begin(
        client: Client,
        endpoints: Endpoints,
        catalog: Catalog,
        first: Answers,
        count: bool,
    ) -> Result<Self, PrometheusError> {
        let (failed, is_empty) = (first.failed.values().next().cloned(), first.is_empty());
        let address = endpoints.detail();
        let requirements = SharedRequirements::nothing();
        let known = KnownByPlace::default();
        let mut source = Self { client, endpoints, catalog, known, requirements, looked_at: None, first: None };
        if count {
            source.first = Some(first);
        } else {
            source.devices(first, Moment::default());
        }
        match (is_empty, failed) {
            (true, Some(why)) => Err(PrometheusError::Unreachable { address, why: FetchError::Http(why) }),
            (true, None) => Err(source.without_gpu(address)),
            (false, _) => Ok(source),
        }
    }

    /// Why there is no GPU: none now, or none at all.
    fn without_gpu(&self, address: String) -> PrometheusError {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let hosts = self.endpoints.lately(&self.client, now);
        match hosts.as_slice() {
            [] => PrometheusError::NoGpu(address),
            [first, others @ ..] => PrometheusError::NoLonger {
                address,
                hosts: match others.len() {
                    0 => first.clone(),
                    1 => format!("{first} and 1 other host"),
                    others => format!("{first} and {others} other hosts"),
                },
            },
        }
    }

    /// The same, which also tells the past of the GPU that is looked at closely.
    #[must_use]
    pub fn with_requirements(self, requirements: SharedRequirements) -> Self {
        Self { requirements, ..self }
    }

    fn answers(&mut self) -> Answers {
        let Self { client, endpoints, known, .. } = self;
        endpoints.answers(client, known)
    }

    /// The devices of the answers, and those that are no longer in them.
    fn devices(&mut self, mut answers: Answers, now: Moment) -> Vec<DeviceSample> {
        self.known.join(&mut answers);
        let Answers { gpus, failed, .. } = answers;
        for (place, gpu) in &gpus {
            let at = || DeviceLocation { node: place.host.clone(), gpu: place.gpu, ..DeviceLocation::default() };
            let (endpoint, identity) =
                self.known.gpus.entry(place.clone()).or_insert_with(|| (gpu.endpoint, Identity::at(at())));
            *endpoint = gpu.endpoint;
            identity.gone_since = None;
            if let Some((name, uuid, location)) = &gpu.described {
                // The run of a rank is a job, where no batch system's label says one.
                let run = gpu.more.rank.as_ref().map(|rank| rank.run.clone()).filter(|run| !run.is_empty());
                let location = DeviceLocation { job: location.job.clone().or(run), ..location.clone() };
                identity.describe(name.as_deref(), uuid.as_deref(), location, now);
            }
        }
        self.forget(&failed, |place| gpus.contains_key(place), now);
        let hosts = self.known.gpus.keys().fold((0, ""), |(count, last), place| {
            if count > 0 && last == place.host { (count, last) } else { (count + 1, place.host.as_str()) }
        });
        let alone = hosts.0 == 1;
        let numbered = self.known.gpus.iter_mut().enumerate().map(|(position, (place, (endpoint, identity)))| {
            // Numbers of one host are those that its own tools show.
            let index = if alone { place.gpu } else { u32::try_from(position).unwrap_or(u32::MAX) };
            match (gpus.get(place), failed.get(endpoint)) {
                (Some(gpu), _) => {
                    let mut sample = device(index, identity, &gpu.values, &self.catalog, now);
                    gpu.more.complete(&mut sample, now);
                    sample
                }
                (None, Some(why)) => absent(index, identity, &Absence::Failed(why.clone().into())),
                (None, None) => absent(index, identity, &Absence::Gone),
            }
        });
        numbered.collect()
    }

    /// The past of the GPU that somebody has begun to look at closely.
    fn past(&mut self, devices: &[DeviceSample], now: Moment) -> Option<DevicePast> {
        let DetailTarget::Device(index) = self.requirements.get().closely else {
            self.looked_at = None;
            return None;
        };
        let position = devices.iter().position(|device| device.index == index)?;
        let (place, (_, identity)) = self.known.gpus.iter().nth(position)?;
        if self.looked_at.as_ref() == Some(place) {
            return None;
        }
        let past = self.endpoints.past(&self.client, place, identity.uuid.value().map(String::as_str), now);
        self.looked_at = Some(place.clone());
        // Its counters begin anew: those of now go on from the newest.
        let mut identity = identity.clone();
        identity.power_violation = Accumulated::default();
        identity.thermal_violation = Accumulated::default();
        let sample = |(at, values): (u64, Values)| {
            let at = Moment(at);
            (at, device(index, &mut identity, &values, &self.catalog, at))
        };
        let samples: Vec<_> = past.into_iter().filter(|(at, _)| *at < now.0).map(sample).collect();
        (!samples.is_empty()).then_some(DevicePast { position, samples })
    }

    /// Forgets what answers at another place now, and what is gone for good.
    fn forget(&mut self, failed: &BTreeMap<usize, String>, is_there: impl Fn(&GpuPlace) -> bool, now: Moment) {
        let uuid = |identity: &Identity| identity.uuid.value().cloned();
        let there: std::collections::BTreeSet<String> = self
            .known
            .gpus
            .iter()
            .filter(|(place, _)| is_there(place))
            .filter_map(|(_, (_, known))| uuid(known))
            .collect();
        self.known.gpus.retain(|place, (endpoint, identity)| {
            if is_there(place) || failed.contains_key(endpoint) {
                return true;
            }
            let gone_since = *identity.gone_since.get_or_insert(now);
            let elsewhere = uuid(identity).is_some_and(|uuid| there.contains(&uuid));
            !elsewhere && now.since(gone_since).0 < FORGOTTEN.0
        });
    }
}

impl Source for Prometheus {
    fn info(&self) -> SourceInfo {
        SourceInfo { kind: SourceKind::Prometheus, detail: self.endpoints.detail() }
    }

    fn sample(&mut self, now: Moment) -> Sample {
        let answers = self.first.take().unwrap_or_else(|| self.answers());
        let devices = self.devices(answers, now);
        let past = self.past(&devices, now).map(Box::new);
        Sample { at: now, devices, past, ..Sample::default() }
    }
}

impl Identity {
    /// Takes in what labels say.
    fn describe(&mut self, name: Option<&str>, uuid: Option<&str>, location: DeviceLocation, now: Moment) {
        let text = |known: &mut Reading<String>, told: Option<&str>| {
            if let Some(told) = told.filter(|told| known.value().map(String::as_str) != Some(*told)) {
                *known = Reading::measured(told.to_owned(), now);
            }
        };
        text(&mut self.name, name);
        text(&mut self.uuid, uuid);
        if *self.location != location {
            self.location = std::sync::Arc::new(location);
        }
    }
}

#[cfg(test)]
mod tests;
