//! A job over many nodes: its GPUs, their ranks, and the ranks that are off their equals.

pub(super) mod actions;
pub(super) mod metric;
pub(super) mod off;
pub(super) mod rack;
pub(super) mod rank_file;
pub(super) mod ranks;
pub(super) mod selector;

use std::collections::HashMap;
use std::sync::Arc;

use crate::app::monitor::{Monitor, MonitorView};
use crate::app::state::State;
use crate::compare::{Straggler, StragglerWatch};
use crate::order::StableOrder;
use crate::predict::{Job, Prediction};
use crate::reading::{DeviceLocation, DeviceSample};
use crate::units::Bytes;
use metric::ClusterMetric;
use rack::RackPattern;
use rank_file::RankFile;
use ranks::{RankDegrees, RankLayout, RankPlace};
use selector::{JobSelector, running};

/// How GPUs are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// By node.
    #[default]
    Node,
    /// By pipeline stage.
    Stage,
    /// By data-parallel replica.
    Replica,
    /// By rack.
    Rack,
}

impl Grouping {
    /// All of them, in the order of the key.
    pub const ALL: [Self; 4] = [Self::Node, Self::Stage, Self::Replica, Self::Rack];

    /// What it is called.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Stage => "stage",
            Self::Replica => "replica",
            Self::Rack => "rack",
        }
    }
}

/// GPUs that are shown together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterGroup {
    /// Its name.
    pub label: String,
    /// Places of its GPUs in the samples, in the order of their ranks.
    pub devices: Vec<usize>,
}

/// A job over many nodes.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// What selects the job; all GPUs where nothing does.
    pub selector: Option<JobSelector>,
    /// The hosts and GPUs that are the job's, in the order of its ranks; by their names where no file says it.
    pub rank_file: Option<RankFile>,
    /// How the name of a node says its rack; by labels where nothing says it.
    pub rack_pattern: Option<RackPattern>,
    /// What is shown of each GPU.
    pub metric: ClusterMetric,
    /// How GPUs are put together.
    pub grouping: Grouping,
    layout: RankLayout,
    degrees: Option<RankDegrees>,
    watch: StragglerWatch,
    /// Where the GPUs of the newest sample are.
    seen: Vec<Option<Arc<DeviceLocation>>>,
    nodes: usize,
    /// What the names of all nodes end with: their domain.
    domain: String,
    is_stale: bool,
    was_chosen: bool,
    /// Nobody chose the job: it was the one with as many GPUs as the plan, which were so many.
    picked_for: Option<u64>,
}

impl Cluster {
    /// Whether the source tells of more than one node.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.nodes > 1
    }

    /// Whether only some of what the source tells of is the job's: one was chosen, or a file lists its GPUs.
    #[must_use]
    pub fn is_narrowed(&self) -> bool {
        (self.selector.is_some() || self.rank_file.is_some()) && self.seen.iter().any(Option::is_some)
    }

    /// The job's GPUs in the order of its ranks.
    #[must_use]
    pub const fn layout(&self) -> &RankLayout {
        &self.layout
    }

    /// The degrees of the plan, where the job has as many GPUs as it.
    #[must_use]
    pub const fn degrees(&self) -> Option<RankDegrees> {
        self.degrees
    }

    /// The ranks that are off their equals, the farthest first.
    #[must_use]
    pub fn stragglers(&self) -> &[Straggler] {
        self.watch.named()
    }

    /// Another job, or all GPUs.
    pub fn choose(&mut self, selector: Option<JobSelector>) {
        self.selector = selector;
        self.was_chosen = true;
        self.picked_for = None;
        self.is_stale = true;
    }

    /// A rank's stage and replica; none where the plan has another number of GPUs.
    #[must_use]
    pub fn place_of(&self, rank: usize) -> Option<RankPlace> {
        self.degrees.map(|degrees| degrees.place(rank))
    }

    /// The name of a node without the domain that all of them are in.
    #[must_use]
    pub fn host_of<'a>(&self, node: &'a str) -> &'a str {
        node.strip_suffix(&self.domain).unwrap_or(node)
    }

    /// The pipeline stage of the rank on the GPU at a place in the samples; none where the ranks are not known.
    #[must_use]
    pub fn stage_at(&self, device: usize) -> Option<usize> {
        Some(self.place_of(self.layout.rank_at(device)?)?.stage)
    }

    /// The memory that the plan predicts for the rank on the GPU at a place in the samples.
    #[must_use]
    pub fn expected_memory(&self, device: usize, prediction: &Prediction) -> Option<Bytes> {
        prediction.stages.get(self.stage_at(device)?).map(|stage| stage.device_used)
    }

    /// The GPUs as they are put together; by node where there are no ranks to put them together by.
    #[must_use]
    pub fn groups(&self) -> Vec<ClusterGroup> {
        let by = |of: fn(RankPlace) -> usize, word: &str| {
            let mut groups: Vec<ClusterGroup> = Vec::new();
            for (rank, device) in self.layout.ranks.iter().enumerate() {
                let number = self.place_of(rank).map(of).unwrap_or_default();
                while groups.len() <= number {
                    let label = format!("{word} {}", groups.len());
                    groups.push(ClusterGroup { label, devices: Vec::new() });
                }
                groups[number].devices.push(*device);
            }
            groups
        };
        match (self.grouping, self.degrees) {
            (Grouping::Stage, Some(_)) => by(|place| place.stage, "stage"),
            (Grouping::Replica, Some(_)) => by(|place| place.replica, "replica"),
            (Grouping::Rack, _) => self.racks(),
            _ => {
                let node = |node: &ranks::ClusterNode| ClusterGroup {
                    label: self.host_of(&node.name).to_owned(),
                    devices: node.devices.clone(),
                };
                self.layout.nodes.iter().map(node).collect()
            }
        }
    }

    /// Whether the rack of any of the job's nodes is known.
    #[must_use]
    pub fn has_racks(&self) -> bool {
        self.layout.ranks.iter().any(|device| self.rack_of(*device).is_some())
    }

    fn rack_of(&self, device: usize) -> Option<&str> {
        let location = self.seen.get(device)?.as_ref()?;
        match &self.rack_pattern {
            Some(pattern) => pattern.rack_of(&location.node),
            None => location.rack.as_deref(),
        }
    }

    /// The GPUs by rack, in the order of their names; those without one last.
    fn racks(&self) -> Vec<ClusterGroup> {
        let mut racks: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
        for device in &self.layout.ranks {
            racks.entry(self.rack_of(*device)).or_default().push(*device);
        }
        let mut racks: Vec<(Option<&str>, Vec<usize>)> = racks.into_iter().collect();
        racks.order_by(|(one, _), (other, _)| match (one, other) {
            (Some(one), Some(other)) => ranks::natural(one, other),
            _ => other.is_some().cmp(&one.is_some()),
        });
        let label = |rack: Option<&str>| rack.map_or_else(|| "no rack known".to_owned(), |rack| format!("rack {rack}"));
        racks.into_iter().map(|(rack, devices)| ClusterGroup { label: label(rack), devices }).collect()
    }

    /// Whether processes tell of their ranks: step times, what their threads do.
    #[must_use]
    pub fn has_reports(&self, devices: &[DeviceSample]) -> bool {
        self.layout.ranks.iter().any(|place| devices.get(*place).is_some_and(|device| device.rank.is_some()))
    }

    /// Takes in the devices of a sample, against the plan that they are compared with.
    pub(super) fn take(&mut self, devices: &[DeviceSample], job: Option<&Job>, at: crate::reading::Moment) {
        let same = |(known, device): (&Option<Arc<DeviceLocation>>, &DeviceSample)| match (known, &device.location) {
            (Some(known), Some(now)) => Arc::ptr_eq(known, now) || known == now,
            (None, None) => true,
            _ => false,
        };
        let is_known = self.seen.len() == devices.len() && self.seen.iter().zip(devices).all(same);
        let is_of_another = self.picked_for.zip(job).is_some_and(|(gpus, job)| job.degrees.num_gpus != gpus);
        if !is_known || self.is_stale || is_of_another || !self.layout.is_as_told(devices) {
            self.lay_out(devices, job);
        }
        if !self.is_there() {
            return;
        }
        let is_whole = |gpus: u64| self.layout.missing == 0 && gpus == self.layout.ranks.len() as u64;
        let degrees = job.map(|job| job.degrees).filter(|degrees| is_whole(degrees.num_gpus));
        let whole = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let degrees = degrees.map(|degrees| RankDegrees {
            gpus: whole(degrees.num_gpus),
            stages: whole(degrees.pipeline),
            within: whole(degrees.tensor * degrees.context),
        });
        if degrees != self.degrees {
            self.degrees = degrees;
            self.watch.restart();
        }
        let group = |rank: usize| self.place_of(rank).map_or(0, |place| place.stage);
        let ranks: Vec<(&DeviceSample, usize)> =
            self.layout.ranks.iter().enumerate().map(|(rank, device)| (&devices[*device], group(rank))).collect();
        self.watch.push(&ranks, at);
    }

    /// Takes the one job that has as many GPUs as the plan, where nobody has chosen one; and another where it has ended, or the
    /// plan has another number of GPUs.
    fn pick(&mut self, devices: &[DeviceSample], planned: Option<u64>) {
        let is_left = |selector: &JobSelector| self.seen.iter().flatten().any(|at| selector.selects(at));
        let is_there = self.selector.as_ref().is_some_and(is_left);
        // A plan that is none for a moment has no other number.
        let is_of_another = planned.is_some() && self.picked_for != planned;
        if self.picked_for.is_some() && (!is_there || is_of_another) {
            self.selector = None;
            self.picked_for = None;
            self.was_chosen = false;
        }
        let Some(gpus) = planned.filter(|_| !self.was_chosen && self.selector.is_none()) else { return };
        let mut like_plan = running(devices).into_iter().filter(|job| job.gpus as u64 == gpus);
        if let (Some(only), None) = (like_plan.next(), like_plan.next()) {
            self.selector = only.selector.parse().ok();
            self.picked_for = Some(gpus);
            self.was_chosen = true;
        }
    }

    fn lay_out(&mut self, devices: &[DeviceSample], job: Option<&Job>) {
        self.seen = devices.iter().map(|device| device.location.clone()).collect();
        let mut nodes: Vec<&str> = self.seen.iter().flatten().map(|location| location.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.nodes = nodes.len();
        self.domain = domain_of(&nodes).to_owned();
        self.pick(devices, job.map(|job| job.degrees.num_gpus));
        let is_of_job = |at: &DeviceLocation| self.selector.as_ref().is_none_or(|selector| selector.selects(at));
        self.layout = RankLayout::of(devices, self.rank_file.as_ref(), is_of_job);
        self.is_stale = false;
        self.watch.restart();
    }
}

/// The domain that all of several names are in, with its dot; nothing where there is none. An address has none.
fn domain_of<'a>(nodes: &[&'a str]) -> &'a str {
    let [first, others @ ..] = nodes else { return "" };
    let shared = |domain: &&str| {
        let is_host = |name: &&str| name.len() > domain.len() && name.ends_with(domain);
        !others.is_empty() && others.iter().all(is_host)
    };
    let is_name = |domain: &&str| {
        domain.rsplit('.').next().is_some_and(|last| last.starts_with(|letter: char| letter.is_ascii_alphabetic()))
    };
    // The longest comes first; a name keeps its first part.
    let domains = first.match_indices('.').filter(|(at, _)| *at > 0).map(|(at, _)| &first[at..]);
    domains.filter(is_name).find(shared).unwrap_or("")
}

/// Takes in the newest sample.
pub fn on_sample(state: &mut State) {
    let job = state.plans.compared().job();
    let Monitor { sample: Some(sample), cluster, view, .. } = &mut state.monitor else { return };
    let was_there = cluster.is_there();
    cluster.take(&sample.devices, job, sample.at);
    if cluster.is_there() && !was_there && *view == MonitorView::Now {
        *view = MonitorView::Cluster;
    } else if !cluster.is_there() && *view == MonitorView::Cluster {
        *view = MonitorView::Now;
    }
}

#[cfg(test)]
mod tests {
    use super::domain_of;

    #[test]
    fn the_domain_of_hosts_is_what_all_names_end_with() {
        let cases: [(&[&str], &str); 6] = [
            (&["a1.rack.example.com", "a2.rack.example.com"], ".rack.example.com"),
            (&["a1.r1.example.com", "a1.r2.example.com"], ".example.com"),
            (&["node1", "node2"], ""),
            (&["10.0.0.1", "10.1.0.1"], ""),
            (&["a1.example.com"], ""),
            (&["example.com", "a.example.com"], ".com"),
        ];
        for (nodes, domain) in cases {
            assert_eq!(domain_of(nodes), domain, "{nodes:?}");
        }
    }
}
