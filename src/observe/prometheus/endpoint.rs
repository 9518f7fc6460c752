//! What is asked: a server's query API, or exporters' pages.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::address::Address;
use super::answer::each_value;
use super::client::{Client, FetchError};
use super::device::Values;
use super::labels::{GpuPlace, Labels, PLACE, identity, location};
use super::page::metrics;
use super::table;
use crate::reading::{DeviceLocation, Moment};

/// What one round of answers says.
#[derive(Debug, Default)]
pub struct Answers {
    /// The GPUs in them.
    pub gpus: BTreeMap<GpuPlace, GpuAnswer>,
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
    /// Its product name, its own name and its place, where the labels were there.
    pub described: Option<(Option<String>, Option<String>, DeviceLocation)>,
}

impl Answers {
    fn take(&mut self, endpoint: usize, host: &str, labels: &impl Labels, name: &str, value: f64, described: bool) {
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

    fn take_page(&mut self, endpoint: usize, host: &str, page: &str) {
        for line in metrics(page) {
            self.take(endpoint, host, &line, line.name, line.value, true);
        }
    }
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

impl Api {
    /// The API under an address.
    #[must_use]
    pub fn at(address: Address) -> Self {
        // One query for all: the labels that say which GPU it is are a third of all labels.
        let values = format!("max by ({}) ({{__name__=~\"{}\"}})", PLACE.join(","), table::names());
        let descriptions = format!("{{__name__=~\"{DESCRIBED_BY}\"}}");
        Self { address, values, is_raw: false, descriptions, until_described: 0 }
    }

    fn query(
        &self,
        client: &Client,
        query: &str,
        mut take: impl FnMut(&super::answer::LabelSet<'_>, f64),
    ) -> Result<(), FetchError> {
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
    pub fn answers(&mut self, client: &Client, known: &impl Fn(&GpuPlace) -> bool) -> Result<Answers, FetchError> {
        let mut answers = self.values(client, &self.values)?;
        if answers.gpus.is_empty() && !self.is_raw {
            // A server that takes the names away from what it joins is asked for every label.
            let raw = format!("{{__name__=~\"{}\"}}", table::names());
            answers = self.values(client, &raw)?;
            if !answers.gpus.is_empty() {
                (self.values, self.is_raw) = (raw, true);
            }
        }
        let is_new = answers.gpus.keys().any(|place| !known(place));
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
        let mut past: BTreeMap<u64, Values> = BTreeMap::new();
        let end = now.0 / 1000;
        let (start, end, step) = ((end - end.min(PAST)).to_string(), end.to_string(), PAST_STEP.to_string());
        // By its own name, else by that of its host; what is of another GPU all the same is left out below.
        let (label, value) = uuid.map_or(("Hostname", place.host.as_str()), |uuid| ("UUID", uuid));
        let query = format!("{{__name__=~\"{}\",{label}=\"{}\"}}", table::names(), quoted(value));
        let parameters = [("query", query.as_str()), ("start", &start), ("end", &end), ("step", &step)];
        let Ok(body) = client.get(&self.address.endpoint("query_range"), &parameters) else { return past };
        let taken = each_value(&body, |labels, seconds, value| {
            let metric = labels.label("__name__").and_then(|name| table::metric(&name, labels));
            let is_it = GpuPlace::of(labels, self.address.host()).as_ref() == Some(place);
            if let Some(metric) = metric.filter(|_| is_it) {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                past.entry((seconds * 1000.0) as u64).or_default().put(metric, value);
            }
        });
        if taken.is_err() {
            past.clear();
        }
        past
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
        let selector = format!("{{__name__=~\"{}\"}}", table::names());
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

    /// What a GPU did until `now`, where a server keeps it.
    pub fn past(&self, client: &Client, place: &GpuPlace, uuid: Option<&str>, now: Moment) -> BTreeMap<u64, Values> {
        match self {
            Self::Api(api) => api.past(client, place, uuid, now),
            Self::Pages(_) => BTreeMap::new(),
        }
    }

    /// Asks all of them. `known` tells the GPUs that were described before.
    pub fn answers(&mut self, client: &Client, known: impl Fn(&GpuPlace) -> bool) -> Answers {
        match self {
            Self::Api(api) => api
                .answers(client, &known)
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
