//! Ranks of a job over nodes and GPUs, in the order of its launcher.
//!
//! torchrun and Slurm number the nodes in the order of their names and the GPUs of a node by their index
//! (torch/distributed/elastic/agent/server/api.py, `_assign_worker_ranks`; Slurm's block distribution). The pipeline
//! stage is the outermost degree: Megatron-LM's order `tp-cp-ep-dp-pp` (megatron/core/parallel_state.py,
//! `initialize_model_parallel`), DeepSpeed's `PipeModelDataParallelTopology`, torchtitan's mesh.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::rank_file::{HostGpus, RankFile};
use crate::reading::{DeviceLocation, DeviceSample};

/// How the ranks of a plan are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankDegrees {
    /// GPUs of the plan.
    pub gpus: usize,
    /// Pipeline stages.
    pub stages: usize,
    /// Ranks that share a copy of the model within a stage: tensor- times context-parallel.
    pub within: usize,
}

/// A rank's coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankPlace {
    /// Its pipeline stage.
    pub stage: usize,
    /// Its data-parallel replica.
    pub replica: usize,
}

impl RankDegrees {
    /// Where a rank is.
    #[must_use]
    pub fn place(&self, rank: usize) -> RankPlace {
        let of_stage = (self.gpus / self.stages.max(1)).max(1);
        RankPlace { stage: rank / of_stage, replica: rank % of_stage / self.within.max(1) }
    }
}

/// A node of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Places of its GPUs in the samples, in the order of their ranks.
    pub devices: Vec<usize>,
}

/// The job's GPUs in the order of its ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankLayout {
    /// By rank: the GPU's place in the samples.
    pub ranks: Vec<usize>,
    /// Its nodes in that order.
    pub nodes: Vec<ClusterNode>,
    /// Lines of the rank file whose host or GPU is not there: the ranks behind them are not known.
    pub missing: usize,
    /// By place in the samples: the rank.
    rank_at: Vec<Option<usize>>,
    order: RankOrder,
}

/// Who says which GPU has which rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RankOrder {
    /// The names of nodes.
    #[default]
    Names,
    /// A hostfile or rank file.
    File,
    /// The processes of the ranks.
    Told,
}

impl RankLayout {
    /// Lays ranks over the GPUs that `is_of_job` takes, as `file` says; else as all processes tell them; else over nodes in
    /// the order of their names and GPUs by their index.
    #[must_use]
    pub fn of(devices: &[DeviceSample], file: Option<&RankFile>, is_of_job: impl Fn(&DeviceLocation) -> bool) -> Self {
        let located = devices.iter().enumerate().filter_map(|(place, device)| Some((place, device.location.as_ref()?)));
        let mut found: Vec<(usize, &Arc<DeviceLocation>)> = located.filter(|(_, at)| is_of_job(at)).collect();
        let mut missing = 0;
        let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
        let mut order = RankOrder::Names;
        match (file, told_ranks(devices, &places)) {
            (Some(file), _) => {
                order = RankOrder::File;
                (found, missing) = in_order_of(file, found);
            }
            (None, Some(told)) => {
                order = RankOrder::Told;
                found.sort_by_key(|(place, _)| told.get(place).copied());
            }
            (None, None) => found.sort_by(|(place, one), (other_place, other)| {
                natural(&one.node, &other.node).then(one.gpu.cmp(&other.gpu)).then(place.cmp(other_place))
            }),
        }
        let mut nodes: Vec<ClusterNode> = Vec::new();
        let mut node_at: HashMap<&str, usize> = HashMap::new();
        for (place, at) in &found {
            let node = *node_at.entry(&at.node).or_insert(nodes.len());
            if node == nodes.len() {
                nodes.push(ClusterNode { name: at.node.clone(), devices: Vec::new() });
            }
            nodes[node].devices.push(*place);
        }
        let ranks: Vec<usize> = found.into_iter().map(|(place, _)| place).collect();
        let mut rank_at = vec![None; devices.len()];
        for (rank, place) in ranks.iter().enumerate() {
            rank_at[*place] = Some(rank);
        }
        Self { ranks, nodes, missing, rank_at, order }
    }

    /// Whether ranks are laid out as the processes tell them now.
    #[must_use]
    pub fn is_as_told(&self, devices: &[DeviceSample]) -> bool {
        let told = |place: &usize| devices.get(*place)?.rank.as_ref().map(|rank| rank.rank as usize);
        match self.order {
            RankOrder::File => true,
            // One that is silent for a moment stays where it was.
            RankOrder::Told => {
                self.ranks.iter().enumerate().all(|(rank, place)| told(place).is_none_or(|told| told == rank))
            }
            RankOrder::Names => told_ranks(devices, &self.ranks).is_none(),
        }
    }

    /// The rank on the GPU at a place in the samples.
    #[must_use]
    pub fn rank_at(&self, place: usize) -> Option<usize> {
        self.rank_at.get(place).copied().flatten()
    }
}

/// The ranks by place, where every process tells its own, all of one run, each another from 0 on.
fn told_ranks(devices: &[DeviceSample], places: &[usize]) -> Option<HashMap<usize, usize>> {
    let run = &devices.get(*places.first()?)?.rank.as_ref()?.run;
    let told = places.iter().map(|place| {
        let rank = devices.get(*place)?.rank.as_ref().filter(|rank| rank.run == *run)?;
        Some((*place, rank.rank as usize))
    });
    let told: HashMap<usize, usize> = told.collect::<Option<_>>()?;
    let mut ranks: Vec<usize> = told.values().copied().collect();
    ranks.sort_unstable();
    ranks.into_iter().eq(0..places.len()).then_some(told)
}

/// GPUs by their places in the samples.
type LocatedGpus<'a> = Vec<(usize, &'a Arc<DeviceLocation>)>;

/// The GPUs that the lines of a file take, in their order, and the lines that found none.
fn in_order_of<'a>(file: &RankFile, found: LocatedGpus<'a>) -> (LocatedGpus<'a>, usize) {
    let mut by_node: HashMap<&str, LocatedGpus<'a>> = HashMap::new();
    for (place, at) in found {
        by_node.entry(at.node.as_str()).or_default().push((place, at));
    }
    for gpus in by_node.values_mut() {
        gpus.sort_by_key(|(place, at)| (at.gpu, *place));
    }
    let names: Vec<&str> = by_node.keys().copied().collect();
    let mut node_of: HashMap<&str, Option<&str>> = HashMap::new();
    let (mut ranks, mut missing) = (Vec::new(), 0);
    for host in &file.hosts {
        let named = || names.iter().copied().find(|node| is_host(&host.name, node));
        let node = *node_of.entry(&host.name).or_insert_with(named);
        let Some(left) = node.and_then(|node| by_node.get_mut(node)) else {
            missing += 1;
            continue;
        };
        let taken = match host.gpus {
            HostGpus::All => 0..left.len(),
            // Slots are often a node's cores: more than its GPUs.
            HostGpus::First(count) => 0..count.min(left.len()),
            HostGpus::Next => 0..left.len().min(1),
            HostGpus::Index(gpu) => match left.iter().position(|(_, at)| at.gpu == gpu) {
                Some(place) => place..place + 1,
                None => 0..0,
            },
        };
        missing += usize::from(taken.is_empty());
        ranks.extend(left.drain(taken));
    }
    (ranks, missing)
}

/// Whether a name of a list is that of a node, which may have its domain behind it.
fn is_host(host: &str, node: &str) -> bool {
    host == node || node.strip_prefix(host).is_some_and(|rest| rest.starts_with('.'))
}

/// The order of names with numbers in them: `node2` before `node10`.
#[must_use]
pub fn natural(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (left, right) = (digits(one), digits(other));
        if left > 0 && right > 0 {
            let number = |text: &str, length: usize| text[..length].trim_start_matches('0').to_owned();
            let (first, second) = (number(one, left), number(other, right));
            let order = first.len().cmp(&second.len()).then_with(|| first.cmp(&second));
            if order != Ordering::Equal {
                return order;
            }
            (one, other) = (&one[left..], &other[right..]);
            continue;
        }
        let (mut left, mut right) = (one.chars(), other.chars());
        match (left.next(), right.next()) {
            (Some(first), Some(second)) if first == second => (one, other) = (left.as_str(), right.as_str()),
            (first, second) => return first.cmp(&second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Absence, RankReport};

    fn device(node: &str, gpu: u32) -> DeviceSample {
        let location = DeviceLocation { node: node.to_owned(), gpu, ..DeviceLocation::default() };
        DeviceSample { location: Some(Arc::new(location)), ..DeviceSample::absent(0, &Absence::NotRead) }
    }

    #[test]
    fn nodes_are_in_the_order_of_their_numbers_and_gpus_by_their_index() {
        let devices = [device("node10", 0), device("node2", 1), device("node2", 0), device("node10", 1)];
        let layout = RankLayout::of(&devices, None, |_| true);
        assert_eq!(layout.ranks, [2, 1, 0, 3]);
        assert_eq!(layout.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["node2", "node10"]);
        assert_eq!(layout.rank_at(3), Some(3));
        assert_eq!(natural("a01b2", "a1b10"), Ordering::Less);
        assert_eq!(natural("a", "a1"), Ordering::Less);
    }

    #[test]
    fn processes_that_tell_their_ranks_order_the_gpus() {
        let ranked = |node: &str, gpu, run: &str, rank| {
            let report = RankReport { run: run.to_owned(), rank, ..RankReport::default() };
            DeviceSample { rank: Some(Box::new(report)), ..device(node, gpu) }
        };
        // srun put the second node first.
        let devices = [ranked("a", 0, "7", 2), ranked("a", 1, "7", 3), ranked("b", 0, "7", 0), ranked("b", 1, "7", 1)];
        let layout = RankLayout::of(&devices, None, |_| true);
        assert_eq!(layout.ranks, [2, 3, 0, 1]);
        assert!(layout.is_as_told(&devices));
        let silent = [devices[0].clone(), device("a", 1), devices[2].clone(), devices[3].clone()];
        assert!(layout.is_as_told(&silent), "one that is silent stays where it was");
        let turned = [ranked("a", 0, "7", 0), ranked("a", 1, "7", 1), ranked("b", 0, "7", 2), ranked("b", 1, "7", 3)];
        assert!(!layout.is_as_told(&turned));
        // Two runs, or a rank that is missing: by names, and not laid out anew at each sample.
        for devices in [
            [ranked("a", 0, "7", 1), ranked("a", 1, "8", 0)],
            [ranked("a", 0, "7", 1), ranked("a", 1, "7", 2)],
            [ranked("a", 0, "7", 1), device("a", 1)],
        ] {
            let layout = RankLayout::of(&devices, None, |_| true);
            assert_eq!(layout.ranks, [0, 1]);
            assert!(layout.is_as_told(&devices));
        }
        let file = RankLayout::of(&devices, Some(&"a\nb\n".parse().unwrap()), |_| true);
        assert_eq!((file.ranks.as_slice(), file.is_as_told(&turned)), (&[0, 1, 2, 3][..], true));
    }

    #[test]
    fn a_rank_file_lays_ranks_over_hosts_and_gpus() {
        // By place: node1/0, node1/1, node2.lan/0, node2.lan/1.
        let devices = [device("node1", 0), device("node1", 1), device("node2.lan", 0), device("node2.lan", 1)];
        let ranks = |text: &str| {
            let layout = RankLayout::of(&devices, Some(&text.parse().unwrap()), |_| true);
            (layout.ranks, layout.missing)
        };
        assert_eq!(ranks("node2 slots=8\nnode1 slots=8\n"), (vec![2, 3, 0, 1], 0));
        assert_eq!(ranks("node2 slots=1\nnode1 slots=2\n"), (vec![2, 0, 1], 0));
        // Rank 0 and 2 on node2, 1 and 3 on node1: each takes its host's next GPU.
        assert_eq!(ranks("rank 0=node2 slot=9\nrank 1=node1\nrank 2=node2\nrank 3=node1\n"), (vec![2, 0, 3, 1], 0));
        assert_eq!(ranks("node2\nnode1\nnode2\nnode1\n"), (vec![2, 0, 3, 1], 0));
        assert_eq!(ranks("node1:1\nnode1:0\nnode2:1\n"), (vec![1, 0, 3], 0));
        // A host that is not there, a GPU that is not there, and more ranks than GPUs.
        assert_eq!(ranks("node3\nnode1\n"), (vec![0, 1], 1));
        assert_eq!(ranks("node1:0\nnode1:7\n"), (vec![0], 1));
        assert_eq!(ranks("node1\nnode1\nnode1\n"), (vec![0, 1], 1));
        let mixed = RankLayout::of(&devices, Some(&"node2:0\nnode1:0\nnode2:1\n".parse().unwrap()), |_| true);
        assert_eq!(mixed.nodes[0], ClusterNode { name: "node2.lan".to_owned(), devices: vec![2, 3] });
    }

    #[test]
    fn the_stage_is_the_outermost_degree() {
        // Megatron's `tp-cp-ep-dp-pp` with tp 2, dp 4, pp 2: ranks 0 to 7 are stage 0, and 0 and 1 its first replica.
        let degrees = RankDegrees { gpus: 16, stages: 2, within: 2 };
        let place = |rank| degrees.place(rank);
        assert_eq!(place(1), RankPlace { stage: 0, replica: 0 });
        assert_eq!(place(2), RankPlace { stage: 0, replica: 1 });
        assert_eq!(place(7), RankPlace { stage: 0, replica: 3 });
        assert_eq!(place(8), RankPlace { stage: 1, replica: 0 });
    }
}
