//! What is asked: a server's query API, or exporters' pages.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use super::address::Address;
use super::answer::{LabelSet, each_value, listed_series};
use super::client::{Client, FetchError};
use super::device::Values;
use super::labels::{GpuPlace, Labels, PLACE, identity, location};
use super::memwall::{self, MemwallAnswer, MemwallPlace, MemwallReport};
use super::page::metrics;
use super::table;
use crate::reading::{DeviceLocation, Moment};

/// What one round of answers says.
#[derive(Debug, Default)]
pub struct Answers {
    /// The GPUs in them.
    pub gpus: BTreeMap<GpuPlace, GpuAnswer>,
    /// What memwall exporters say of GPUs.
    pub memwall: BTreeMap<MemwallPlace, MemwallAnswer>,
    /// What could not be had, by endpoint, and why.
    pub failed: BTreeMap<usize, String>,
}

/// What the answers say of a GPU.
#[derive(Debug, Default)]
pub struct GpuAnswer {
    /// The endpoint that tells of it.
    pub endpoint: usize,
    /// Its metrics.
    pub values: Values,
    /// What its labels say, where they were there.
    pub described: Option<GpuDescription>,
    /// What only memwall exporters say of it.
    pub more: MemwallReport,
}

/// A GPU's product name, its own name and its place.
pub type GpuDescription = (Option<String>, Option<String>, DeviceLocation);

impl Answers {
    fn take(&mut self, endpoint: usize, host: &str, labels: &impl Labels, name: &str, value: f64, described: bool) {
        if let Some(name) = memwall::own_name(name) {
            let Some(place) = GpuPlace::of(labels, host) else { return };
            let at = MemwallPlace::of(place, labels);
            let answer = self.memwall.entry(at.clone()).or_default();
            answer.endpoint = endpoint;
            return answer.take(&at, labels, name, value);
        }
        let Some(metric) = table::metric(name, labels) else { return };
        let Some(place) = GpuPlace::of(labels, host) else { return };
        let description = |place: &GpuPlace| {
            let [name, uuid] = identity(labels);
            (name, uuid, location(place, labels))
        };
        let gpu = self.gpus.entry(place.clone()).or_default();
        gpu.endpoint = endpoint;
        gpu.values.put(metric, value);
        if described && gpu.described.as_ref().is_none_or(|(name, ..)| name.is_none()) {
            gpu.described = Some(description(&place));
        }
    }

    /// Whether anything is said of any GPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gpus.is_empty() && self.memwall.is_empty()
    }

    /// Gives what memwall exporters say to the places that theirs stand for.
    pub fn join(&mut self, places: &BTreeMap<MemwallPlace, GpuPlace>) {
        for (at, told) in std::mem::take(&mut self.memwall) {
            let gpu = self.gpus.entry(places.get(&at).unwrap_or(&at.place).clone()).or_insert_with(|| GpuAnswer {
                endpoint: told.endpoint,
                described: told.described,
                ..GpuAnswer::default()
            });
            gpu.values.fill(&told.values);
            gpu.more = told.more;
        }
    }

    fn take_page(&mut self, endpoint: usize, host: &str, page: &str) {
        for line in metrics(page) {
            self.take(endpoint, host, &line, line.name, line.value, true);
        }
    }
}

/// The GPUs that were described before.
pub trait KnownGpus {
    /// Whether the GPU at a place is one.
    fn has(&self, place: &GpuPlace) -> bool;

    /// Whether the one that a memwall exporter tells of is one.
    fn has_joined(&self, at: &MemwallPlace) -> bool;
}

/// A server's query API.
#[derive(Debug)]
pub struct Api {
    address: Address,
    values: String,
    /// Its query for values has every label.
    is_raw: bool,
    descriptions: String,
    /// Rounds until labels are asked for again.
    until_described: u32,
}

/// Rounds after which labels are asked for again: pods come and go.
const DESCRIBED_EVERY: u32 = 12;

/// A metric of each exporter that every GPU has, by which it is described.
const DESCRIBED_BY: &str = "DCGM_FI_DEV_GPU_TEMP|DCGM_FI_DEV_FB_USED|(amd_)?gpu_used_vram";

/// The names of all that is read, of every exporter.
fn names() -> String {
    format!("{}|{}", table::names(), memwall::names())
}

impl Api {
    /// The API under an address.
    #[must_use]
    pub fn at(address: Address) -> Self {
        // One query for all: the labels that say which GPU it is are a third of all labels.
        let values = format!("max by ({}) ({{__name__=~\"{}\"}})", PLACE.join(","), names());
        let descriptions = format!("{{__name__=~\"{DESCRIBED_BY}|{}\"}}", memwall::DESCRIBED_BY);
        Self { address, values, is_raw: false, descriptions, until_described: 0 }
    }

    fn query(&self, client: &Client, query: &str, mut take: impl FnMut(&LabelSet<'_>, f64)) -> Result<(), FetchError> {
        let body = client.get(&self.address.endpoint("query"), &[("query", query)])?;
        each_value(&body, |labels, _, value| take(labels, value)).map_err(|why| FetchError::Http(why.to_string()))
    }

    fn values(&self, client: &Client, query: &str) -> Result<Answers, FetchError> {
        let mut answers = Answers::default();
        self.query(client, query, |labels, value| {
            if let Some(name) = labels.label("__name__") {
                answers.take(0, self.address.host(), labels, &name, value, false);
            }
        })?;
        Ok(answers)
    }

    /// Every metric of every GPU.
    ///
    /// # Errors
    /// Why no query API answers.
    pub fn answers(&mut self, client: &Client, known: &impl KnownGpus) -> Result<Answers, FetchError> {
        let mut answers = self.values(client, &self.values)?;
        if answers.is_empty() && !self.is_raw {
            // A server that takes the names away from what it joins is asked for every label.
            let raw = format!("{{__name__=~\"{}\"}}", names());
            answers = self.values(client, &raw)?;
            if !answers.is_empty() {
                (self.values, self.is_raw) = (raw, true);
            }
        }
        let is_new = answers.gpus.keys().any(|place| !known.has(place))
            || answers.memwall.keys().any(|at| !known.has_joined(at));
        if self.until_described == 0 || is_new {
            self.query(client, &self.descriptions, |labels, value| {
                if let Some(name) = labels.label("__name__") {
                    answers.take(0, self.address.host(), labels, &name, value, true);
                }
            })?;
            self.until_described = DESCRIBED_EVERY;
        }
        self.until_described -= 1;
        Ok(answers)
    }
}

impl Api {
    /// What a GPU did until `now`, by the time in milliseconds: none where the server cannot be asked.
    pub fn past(&self, client: &Client, place: &GpuPlace, uuid: Option<&str>, now: Moment) -> BTreeMap<u64, Values> {
        let [mut past, mut own]: [BTreeMap<u64, Values>; 2] = Default::default();
        let end = now.0 / 1000;
        let (start, end, step) = ((end - end.min(PAST)).to_string(), end.to_string(), PAST_STEP.to_string());
        // By its own name, else by that of its host; what is of another GPU all the same is left out below.
        let (label, value) = uuid.map_or(("Hostname", place.host.as_str()), |uuid| ("UUID", uuid));
        let mut query = format!("{{__name__=~\"{}\",{label}=\"{}\"}}", table::names(), quoted(value));
        if let Some(uuid) = uuid {
            query += &format!(" or {{__name__=~\"{}\",uuid=\"{}\"}}", memwall::names(), quoted(uuid));
        }
        let parameters = [("query", query.as_str()), ("start", &start), ("end", &end), ("step", &step)];
        let Ok(body) = client.get(&self.address.endpoint("query_range"), &parameters) else { return past };
        let taken = each_value(&body, |labels, seconds, value| {
            let Some(name) = labels.label("__name__") else { return };
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let at = (seconds * 1000.0) as u64;
            if let Some(name) = memwall::own_name(&name) {
                if let Some((metric, value)) = memwall::gpu_metric(name, labels, value) {
                    own.entry(at).or_default().join(metric, value);
                }
            } else if let Some(metric) = table::metric(&name, labels)
                && GpuPlace::of(labels, self.address.host()).as_ref() == Some(place)
            {
                past.entry(at).or_default().put(metric, value);
            }
        });
        if taken.is_err() {
            return BTreeMap::new();
        }
        for (at, values) in own {
            past.entry(at).or_default().fill(&values);
        }
        past
    }
}

impl Api {
    /// The hosts whose GPUs were told of in the last day until `now`, in seconds since the Unix epoch; none where the
    /// server cannot be asked.
    fn lately(&self, client: &Client, now: u64) -> Vec<String> {
        const DAY: u64 = 86_400;
        /// Hosts enough for a line, with the GPUs of each.
        const LIMIT: &str = "1000";
        let (start, end) = ((now - now.min(DAY)).to_string(), now.to_string());
        let parameters = [("match[]", self.descriptions.as_str()), ("start", &start), ("end", &end), ("limit", LIMIT)];
        let Ok(body) = client.get(&self.address.endpoint("series"), &parameters) else { return Vec::new() };
        let Ok(series) = listed_series(&body) else { return Vec::new() };
        let host = |labels: &LabelSet<'_>| GpuPlace::of(labels, self.address.host()).map(|place| place.host);
        series.iter().filter_map(host).collect::<BTreeSet<String>>().into_iter().collect()
    }
}

/// A text between quotes of a query.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Seconds of the past that are asked for, and from one value to the next.
const PAST: u64 = 3600;
const PAST_STEP: u64 = 30;

/// An exporter's page.
#[derive(Debug)]
pub struct ExporterPage {
    address: Address,
    /// What a server that is federated shall tell.
    selector: Option<String>,
    /// Failures in a row, the last one, and when it is asked again.
    failing: Option<(u32, String, Instant)>,
}

/// The longest time between two tries to get a page.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pages that are asked for at a time.
const TOGETHER: usize = 16;

impl ExporterPage {
    /// The page at an address.
    #[must_use]
    pub fn at(address: &Address) -> Self {
        Self { address: address.page(), selector: None, failing: None }
    }

    /// What the server at an address gives others to be federated: the newest value of each metric of a GPU.
    #[must_use]
    pub fn federated(address: &Address) -> Self {
        let selector = format!("{{__name__=~\"{}|{}\"}}", names(), memwall::DESCRIBED_BY);
        Self { address: address.federation(), selector: Some(selector), failing: None }
    }

    fn fetch(&mut self, client: &Client) -> Result<String, String> {
        if let Some((_, why, next)) = &self.failing
            && Instant::now() < *next
        {
            return Err(why.clone());
        }
        // Names of processes and pods come from anybody: what is no text in them is no reason to lose the rest.
        let matched: Vec<(&str, &str)> = self.selector.iter().map(|selector| ("match[]", selector.as_str())).collect();
        let page =
            client.get(&self.address.request(), &matched).map(|page| String::from_utf8_lossy(&page).into_owned());
        match page {
            Ok(page) => {
                self.failing = None;
                Ok(page)
            }
            Err(why) => {
                let times = self.failing.as_ref().map_or(0, |(times, ..)| *times) + 1;
                // At once the first time: an exporter that is started anew is back in a moment.
                let pause = if times == 1 { Duration::ZERO } else { Duration::from_secs(1 << times.min(6)) };
                let why = why.to_string();
                self.failing = Some((times, why.clone(), Instant::now() + pause.min(LONGEST_PAUSE)));
                Err(why)
            }
        }
    }
}

/// Everything that is asked in a round.
#[derive(Debug)]
pub enum Endpoints {
    /// A server.
    Api(Api),
    /// Exporters.
    Pages(Vec<ExporterPage>),
}

impl Endpoints {
    /// What it is, for the header.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::Api(api) => format!("{} (query API)", api.address),
            Self::Pages(pages) => match pages.as_slice() {
                [page] if page.selector.is_some() => format!("{} (federation)", page.address),
                [page] => page.address.to_string(),
                pages => format!("{} exporters", pages.len()),
            },
        }
    }

    /// The hosts that had GPUs in the last day until `now`, in seconds since the Unix epoch, where a server keeps it.
    pub fn lately(&self, client: &Client, now: u64) -> Vec<String> {
        match self {
            Self::Api(api) => api.lately(client, now),
            Self::Pages(_) => Vec::new(),
        }
    }

    /// What a GPU did until `now`, where a server keeps it.
    pub fn past(&self, client: &Client, place: &GpuPlace, uuid: Option<&str>, now: Moment) -> BTreeMap<u64, Values> {
        match self {
            Self::Api(api) => api.past(client, place, uuid, now),
            Self::Pages(_) => BTreeMap::new(),
        }
    }

    /// Asks all of them. `known`: the GPUs that were described before.
    pub fn answers(&mut self, client: &Client, known: &impl KnownGpus) -> Answers {
        match self {
            Self::Api(api) => api
                .answers(client, known)
                .unwrap_or_else(|why| Answers { failed: BTreeMap::from([(0, why.to_string())]), ..Answers::default() }),
            Self::Pages(pages) => {
                let mut answers = Answers::default();
                let alone = pages.len() == 1;
                let hosts: Vec<String> = pages.iter().map(|page| page.address.host().to_owned()).collect();
                for (endpoint, page) in fetch_all(pages, client).into_iter().enumerate() {
                    // A page alone needs no name for its host.
                    let host = if alone { "" } else { hosts[endpoint].as_str() };
                    match page {
                        Ok(page) => answers.take_page(endpoint, host, &page),
                        Err(why) => drop(answers.failed.insert(endpoint, why)),
                    }
                }
                answers
            }
        }
    }
}

/// Asks for pages, several at a time: one that does not answer keeps nobody waiting but its own.
fn fetch_all(pages: &mut [ExporterPage], client: &Client) -> Vec<Result<String, String>> {
    if let [page] = pages {
        return vec![page.fetch(client)];
    }
    let each = pages.len().div_ceil(TOGETHER).max(1);
    thread::scope(|scope| {
        let fetched = |share: &mut [ExporterPage]| share.iter_mut().map(|page| page.fetch(client)).collect::<Vec<_>>();
        let running: Vec<_> =
            pages.chunks_mut(each).map(|share| (share.len(), scope.spawn(move || fetched(share)))).collect();
        running
            .into_iter()
            .flat_map(|(count, thread)| {
                thread.join().unwrap_or_else(|_| (0..count).map(|_| Err("the request failed".to_owned())).collect())
            })
            .collect()
    })
}
