//! How many GPUs there are, and how many of them a node has, by the keys that say either.

use super::Plan;

/// GPUs of a node where nothing tells them: DGX and HGX boards have eight.
pub const USUAL_PER_NODE: u64 = 8;

impl Plan {
    /// GPUs in all: as `num_gpus` or so many nodes of so many say, else as so many nodes usually have, where it is left open
    /// how many replicas there are. None where only the degrees tell.
    #[must_use]
    pub fn gpus(&self) -> Option<u64> {
        let cluster = &self.cluster;
        let each = cluster.gpus_per_node.or_else(|| self.leaves_nodes_open().then_some(USUAL_PER_NODE));
        cluster.num_gpus.or_else(|| Some(cluster.nodes?.saturating_mul(each?)))
    }

    /// Whether nothing tells how many GPUs the nodes have.
    #[must_use]
    pub const fn leaves_nodes_open(&self) -> bool {
        let cluster = &self.cluster;
        let said = cluster.num_gpus.is_some() || cluster.gpus_per_node.is_some();
        cluster.nodes.is_some() && !said && self.distribution.data_parallel.is_none()
    }

    /// GPUs of one node, as `gpus_per_node` or as all of them spread over the nodes.
    #[must_use]
    pub fn per_node(&self) -> Option<u64> {
        let part = &self.distribution;
        let degrees = [part.data_parallel, part.tensor_parallel, part.pipeline_parallel, part.context_parallel];
        let product = || degrees.iter().fold(1, |all: u64, degree| all.saturating_mul(degree.unwrap_or(1)));
        let spread = || Some(self.gpus().unwrap_or_else(product).div_ceil(self.cluster.nodes?.max(1)).max(1));
        self.cluster.gpus_per_node.or_else(spread)
    }
}
