//! Ranks of a job over nodes and GPUs, in the order of its launcher.
//!
//! torchrun and Slurm number the nodes in the order of their names and the GPUs of a node by their index
//! (torch/distributed/elastic/agent/server/api.py, `_assign_worker_ranks`; Slurm's block distribution). The pipeline
//! stage is the outermost degree: Megatron-LM's order `tp-cp-ep-dp-pp` (megatron/core/parallel_state.py,
//! `initialize_model_parallel`), DeepSpeed's `PipeModelDataParallelTopology`, torchtitan's mesh.

use std::cmp::Ordering;
use std::sync::Arc;

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
    /// Places of its GPUs in the samples, by their index.
    pub devices: Vec<usize>,
}

/// The job's GPUs in the order of its ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankLayout {
    /// By rank: the GPU's place in the samples.
    pub ranks: Vec<usize>,
    /// Its nodes in that order.
    pub nodes: Vec<ClusterNode>,
    /// By place in the samples: the rank.
    rank_at: Vec<Option<usize>>,
}

impl RankLayout {
    /// Lays ranks over the GPUs that `is_of_job` takes: nodes in the order of `hosts`, then by their names.
    #[must_use]
    pub fn of(devices: &[DeviceSample], hosts: &[String], is_of_job: impl Fn(&DeviceLocation) -> bool) -> Self {
        let located = devices.iter().enumerate().filter_map(|(place, device)| Some((place, device.location.as_ref()?)));
        let mut found: Vec<(usize, &Arc<DeviceLocation>)> = located.filter(|(_, at)| is_of_job(at)).collect();
        let listed = |node: &str| hosts.iter().position(|host| is_host(host, node)).unwrap_or(usize::MAX);
        let mut names: Vec<&str> = found.iter().map(|(_, at)| at.node.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.sort_by(|one, other| listed(one).cmp(&listed(other)).then_with(|| natural(one, other)));
        let order: std::collections::HashMap<&str, usize> =
            names.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        found.sort_by_key(|(place, at)| (order.get(at.node.as_str()).copied(), at.gpu, *place));
        let mut nodes: Vec<ClusterNode> = Vec::new();
        for (place, at) in &found {
            match nodes.last_mut().filter(|node| node.name == at.node) {
                Some(node) => node.devices.push(*place),
                None => nodes.push(ClusterNode { name: at.node.clone(), devices: vec![*place] }),
            }
        }
        let ranks: Vec<usize> = found.into_iter().map(|(place, _)| place).collect();
        let mut rank_at = vec![None; devices.len()];
        for (rank, place) in ranks.iter().enumerate() {
            rank_at[*place] = Some(rank);
        }
        Self { ranks, nodes, rank_at }
    }

    /// The rank on the GPU at a place in the samples.
    #[must_use]
    pub fn rank_at(&self, place: usize) -> Option<usize> {
        self.rank_at.get(place).copied().flatten()
    }
}

/// Whether a name of a list is that of a node, which may have its domain behind it.
pub(super) fn is_host(host: &str, node: &str) -> bool {
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

/// The hosts of a file: the first word of each line, as hostfiles of MPI and DeepSpeed and `scontrol show hostnames` have
/// them; what stands behind `#` is a comment.
#[must_use]
pub fn hosts(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let word = line.split('#').next()?.split_whitespace().next()?;
        Some(word.split(':').next().unwrap_or(word).to_owned())
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Absence;

    fn device(node: &str, gpu: u32) -> DeviceSample {
        let location = DeviceLocation { node: node.to_owned(), gpu, ..DeviceLocation::default() };
        DeviceSample { location: Some(Arc::new(location)), ..DeviceSample::absent(0, &Absence::NotRead) }
    }

    #[test]
    fn nodes_are_in_the_order_of_their_numbers_and_gpus_by_their_index() {
        let devices = [device("node10", 0), device("node2", 1), device("node2", 0), device("node10", 1)];
        let layout = RankLayout::of(&devices, &[], |_| true);
        assert_eq!(layout.ranks, [2, 1, 0, 3]);
        assert_eq!(layout.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["node2", "node10"]);
        assert_eq!(layout.rank_at(3), Some(3));
        let hosts = hosts("node10 slots=8\n# spare\nnode2:8\n");
        assert_eq!(RankLayout::of(&devices, &hosts, |_| true).ranks, [0, 3, 2, 1]);
        assert_eq!(natural("a01b2", "a1b10"), Ordering::Less);
        assert_eq!(natural("a", "a1"), Ordering::Less);
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
