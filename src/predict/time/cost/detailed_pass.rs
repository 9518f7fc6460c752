//! What one micro-batch through a tape comes to.

use super::operator_row::{OperatorRow, gather};
use crate::predict::prediction::Traffic;
use crate::predict::time::pass_costs::PassCosts;
use crate::units::{Flops, Seconds};

/// One micro-batch through a tape.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::predict) struct Pass {
    /// Of the GPU.
    pub card: PassCosts,
    /// Of that, in fused attention.
    pub attention: PassCosts,
    /// Of that, in the matrices of routed experts and what stands between them.
    pub experts: PassCosts,
    /// Of the host, to launch all that.
    pub host: PassCosts,
    /// Of the GPU, waiting for a host that may not be far ahead.
    pub held: PassCosts,
}

/// The same with each operator's part.
pub(in crate::predict) struct DetailedPass {
    pub pass: Pass,
    /// Operators by name.
    pub(in crate::predict) rows: Vec<OperatorRow>,
    pub(in crate::predict) flops: PassFlops,
    pub(in crate::predict) traffic: Traffic,
    /// Time in kernels that the compute roof binds.
    pub(in crate::predict) compute: Seconds,
    /// Time in those that DRAM bandwidth binds.
    pub(in crate::predict) memory: Seconds,
    /// The same tape forward alone, where a reference model reads each sample too.
    pub(in crate::predict) reference: Option<Box<Self>>,
}

/// Operations of one micro-batch through a tape.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::predict) struct PassFlops {
    pub forward: Flops,
    /// Without what is recomputed.
    pub backward: Flops,
    pub recompute: Flops,
}

/// Kernels that the host launches for one micro-batch through a tape.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Launches {
    pub forward: f64,
    pub backward: f64,
}

impl DetailedPass {
    /// Of no operators.
    pub(super) fn empty() -> Self {
        Self {
            pass: Pass::default(),
            rows: Vec::with_capacity(32),
            flops: PassFlops::default(),
            traffic: Traffic::default(),
            compute: Seconds::ZERO,
            memory: Seconds::ZERO,
            reference: None,
        }
    }

    /// This pass, and the one of the reference model beside it.
    pub(super) fn with_reference(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.reference.as_deref())
    }

    /// With `more`, so many times over.
    pub(super) fn add(&mut self, more: &Self, times: u64) {
        let count = times as f64;
        let (sums, one) = (&mut self.pass, &more.pass);
        sums.card += one.card * count;
        sums.attention += one.attention * count;
        sums.experts += one.experts * count;
        sums.host += one.host * count;
        sums.held += one.held * count;
        for row in &more.rows {
            gather(&mut self.rows, row.times(times));
        }
        self.flops.forward += more.flops.forward * count;
        self.flops.backward += more.flops.backward * count;
        self.flops.recompute += more.flops.recompute * count;
        self.traffic.add(more.traffic, times);
        self.compute += more.compute * count;
        self.memory += more.memory * count;
    }
}

impl Launches {
    /// With `more`, so many times over.
    pub(super) fn add(&mut self, more: Self, times: u64) {
        self.forward += more.forward * times as f64;
        self.backward += more.backward * times as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::DetailedPass;
    use crate::catalog::Catalog;
    use crate::plan::Document;
    use crate::predict::Job;
    use crate::predict::step::StepTapes;
    use crate::predict::time::cost::Kernels;

    /// transformers runs one expert after the other.
    const MIXTURE: &str = "model: {preset: mixtral-8x7b, sequence_length: 1024, batch_size: 8}\n\
                           training: {precision: bf16, micro_batch_size: 1}\nhardware: {gpu_type: h100}\n\
                           cluster: {num_gpus: 8}\ndistribution: {sharding: fsdp}\n";

    fn near(one: f64, other: f64) {
        assert!((one / other - 1.0).abs() < 1e-9, "{one} and {other}");
    }

    /// What one of the experts in between takes, six times over, is what all of them take one by one, whatever runs again.
    #[test]
    fn experts_that_do_the_same_are_timed_once() {
        for checkpointing in ["none", "full", "selective_op"] {
            let plan =
                MIXTURE.replace("{precision", &format!("{{activation_checkpointing: {checkpointing}, precision"));
            let job = Job::resolve(&Document::parse(&plan).unwrap().plan().unwrap(), &Catalog::embedded().unwrap());
            let job = job.unwrap();
            let (kernels, step) = (Kernels::of(&job), StepTapes::of(&job));
            let tape = &step.walk.kinds[0].1;
            assert_eq!(tape.repeat.map(|repeat| repeat.times), Some(6));
            let folded = DetailedPass::of(&job, &kernels, tape, step.recompute);
            let mut tape = tape.clone();
            tape.repeat = None;
            let whole = DetailedPass::of(&job, &kernels, &tape, step.recompute);
            for (one, other) in [(folded.pass.card, whole.pass.card), (folded.pass.experts, whole.pass.experts)] {
                near(one.forward.0, other.forward.0);
                near(one.backward.0, other.backward.0);
            }
            near(folded.pass.host.all().0, whole.pass.host.all().0);
            near(folded.flops.backward.0 + folded.flops.recompute.0, whole.flops.backward.0 + whole.flops.recompute.0);
            assert_eq!(folded.traffic, whole.traffic);
            let counts = |pass: &DetailedPass| pass.rows.iter().map(|row| (row.name, row.count)).collect::<Vec<_>>();
            assert_eq!(counts(&folded), counts(&whole));
        }
    }
}
