//! Where a device is in a cluster, and whose work is on it.

use serde::{Deserialize, Serialize};

/// Where a device is in a cluster, and whose work is on it, as the labels of its metrics say.
///
/// What no label says is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceLocation {
    /// The host's name; empty where no label has one.
    pub node: String,
    /// The GPU's number on its node.
    pub gpu: u32,
    /// PCI address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// The Kubernetes pod that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The namespace of that pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The container in that pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The rack that its node stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// The job of the batch system (Slurm).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

impl DeviceLocation {
    /// `node17/3`, for people.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}/{}", self.node, self.gpu)
    }
}
