//! What stays on the GPU where the host holds a part, and of a model that answers.

use super::resident::Resident;
use crate::plan::keywords::{CpuOffload, Mode, Sharding};
use crate::predict::job::Job;
use crate::predict::step::StageTapes;
use crate::predict::step::prefill::cached;
use crate::units::Bytes;

impl StageTapes<'_> {
    /// What is left of `sum` with that in host memory.
    pub fn offloading(&self, sum: Resident, offload: CpuOffload) -> Resident {
        if self.job.training.mode == Mode::Inference {
            self.inference(sum, offload)
        } else {
            offloaded(self.job, sum, offload)
        }
    }

    /// Weights, and keys and values of every request.
    fn inference(&self, mut sum: Resident, offload: CpuOffload) -> Resident {
        let job = self.job;
        let one: Bytes = self.layers.iter().map(|layer| Bytes(cached(self.step.tape(*layer)))).sum();
        let kv_cache = one * job.batch.accumulation;
        if job.degrees.sharding == Sharding::Zero3 || offload == CpuOffload::Parameters {
            self.gathered(&mut sum);
        }
        Resident {
            params: sum.params,
            weights: if offload == CpuOffload::Parameters { Bytes::ZERO } else { sum.weights },
            kv_cache,
            kv_cache_waiting: kv_cache.saturating_sub(one),
            root: sum.root,
            unsharded_layer: sum.unsharded_layer,
            gathered_layers: 2,
            ..Resident::default()
        }
    }
}

/// What is left on the GPU of `sum` where the host holds a part.
fn offloaded(job: &Job, sum: Resident, offload: CpuOffload) -> Resident {
    let deepspeed = job.degrees.is_deepspeed();
    // Its first stage hands gradients on behind the last backward pass alone (runtime/zero/stage_1_and_2.py,
    // `process_gradients`: `partition_gradients or overlap_comm`).
    let leave = deepspeed && (job.degrees.sharding != Sharding::Zero1 || job.speed.overlap_gradients);
    match offload {
        CpuOffload::Optimizer => Resident {
            states: Bytes::ZERO,
            masters: Bytes::ZERO,
            optimizer_temporary: Bytes::ZERO,
            critic: sum.critic.saturating_sub(sum.masters + sum.states),
            // DeepSpeed sends reduced gradients to the host as they are made.
            gradients: if leave { Bytes::ZERO } else { sum.gradients },
            gradients_before: sum.gradients_before && !leave,
            ..sum
        },
        CpuOffload::Parameters => Resident {
            params: sum.params,
            trained: sum.trained,
            root: sum.root,
            unsharded_layer: sum.unsharded_layer,
            gathered_layers: sum.gathered_layers,
            unsharded_gradients: sum.unsharded_gradients,
            reduced_layer: sum.reduced_layer,
            accumulated: sum.accumulated,
            head_gradients: sum.head_gradients,
            reduced_root: sum.reduced_root,
            live: sum.live,
            reduce_bucket: sum.reduce_bucket,
            buckets: if deepspeed { sum.buckets } else { Bytes::ZERO },
            gathered: sum.gathered,
            // Unsharded, they leave as they are made: none waits on the GPU for the step.
            gradients_before: job.degrees.sharding == Sharding::None,
            ..Resident::default()
        },
        CpuOffload::None | CpuOffload::Activations => sum,
    }
}
