//! How many GPUs a plan has once one of the keys that tell is changed.

use super::Editor;
use super::field::Field;
use crate::predict::Job;

pub(super) const NODES: Field = Field::Other("cluster.nodes");
pub(super) const PER_NODE: Field = Field::Other("cluster.gpus_per_node");

/// How many GPUs a plan has and how they are shared out.
pub(super) struct Gpus {
    pub all: u64,
    /// Replicas.
    pub data: u64,
    /// In a full node.
    pub per_node: u64,
}

impl Gpus {
    /// Those of the plan once `field` is `number`; none where they cannot be shared out.
    pub fn with(field: Field, number: u64, editor: &Editor, job: &Job) -> Option<Self> {
        let mut degrees = job.degrees;
        let mut per_node = job.hardware.gpus_per_node;
        let nodes = || editor.said(NODES.key())?.parse::<u64>().ok();
        let mut gpus = degrees.num_gpus;
        match field {
            Field::DataParallel => degrees.data = number,
            Field::TensorParallel => degrees.tensor = number,
            Field::PipelineParallel => degrees.pipeline = number,
            Field::ContextParallel => degrees.context = number,
            Field::NumGpus => gpus = number,
            // Where both the GPUs and the nodes are said, those are spread over these.
            NODES if editor.has(PER_NODE.key()) || !editor.has(Field::NumGpus.key()) => {
                gpus = number.checked_mul(per_node)?;
            }
            NODES => per_node = gpus.checked_div(number).filter(|_| gpus.is_multiple_of(number))?,
            PER_NODE => {
                per_node = number;
                gpus = nodes().map_or(Some(gpus), |nodes| nodes.checked_mul(number))?;
            }
            _ => {}
        }
        let within = degrees.tensor.checked_mul(degrees.pipeline)?.checked_mul(degrees.context)?;
        match field {
            // More replicas are more GPUs; other degrees share out the GPUs that there are.
            Field::DataParallel => gpus = degrees.data.checked_mul(within)?,
            Field::TensorParallel
            | Field::PipelineParallel
            | Field::ContextParallel
            | Field::NumGpus
            | NODES
            | PER_NODE => {
                if gpus == 0 || within == 0 || !gpus.is_multiple_of(within) {
                    return None;
                }
                degrees.data = gpus / within;
            }
            _ => {}
        }
        Some(Self { all: gpus, data: degrees.data, per_node: per_node.min(gpus).max(1) })
    }
}
