//! How many GPUs there are, and how many of them a node has, by the keys that say either.

use super::ClusterPart;

/// GPUs of a node where nothing tells them: DGX and HGX boards have eight.
pub const USUAL_PER_NODE: u64 = 8;

impl ClusterPart {
    /// GPUs in all, as `num_gpus` or as so many nodes have them; none where the section does not tell.
    #[must_use]
    pub fn gpus(&self) -> Option<u64> {
        let of_nodes = || self.nodes.map(|nodes| nodes.saturating_mul(self.gpus_per_node.unwrap_or(USUAL_PER_NODE)));
        self.num_gpus.or_else(of_nodes)
    }

    /// GPUs of one node, as `gpus_per_node` or as all of them spread over the nodes.
    #[must_use]
    pub fn per_node(&self) -> Option<u64> {
        let spread = || self.num_gpus.zip(self.nodes).map(|(gpus, nodes)| gpus.div_ceil(nodes.max(1)).max(1));
        self.gpus_per_node.or_else(spread)
    }
}
