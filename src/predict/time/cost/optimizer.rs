//! Time of the optimizer's kernels, by how they are written: a fused one passes over weights, gradients and states once,
//! PyTorch's foreach kernels and loops once for each line of their source.

use super::kernel::Kernels;
use super::operator_row::{OperatorRow, Run};
use crate::model::{Element, Unit};
use crate::plan::keywords::{CpuOffload, Optimizer, Sharding};
use crate::predict::job::Job;
use crate::predict::job::optimizer::rule_of;
use crate::predict::memory::resident::Resident;
use crate::predict::prediction::Traffic;
use crate::units::{Bytes, Seconds};

/// How often a step reads or writes each of what it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Accesses {
    weight: u64,
    gradient: u64,
    /// Of all states together; each has this many over how many there are.
    states: u64,
    /// Of temporaries of a state's size.
    temporary: u64,
    /// Kernels for each tensor, where each has its own.
    of_tensor: u64,
}

/// What a kernel that does it all at once reads and writes: weights and states both ways.
const fn fused(moments: u64) -> Accesses {
    Accesses { weight: 2, gradient: 1, states: 2 * moments, temporary: 0, of_tensor: 0 }
}

/// Accesses line by line of the source. Weights that `decay` are read and written once more by AdamW, and added to the
/// gradients by SGD.
const fn accesses(optimizer: Optimizer, moments: u64, decay: bool) -> Accesses {
    let decayed = if decay { 1 } else { 0 };
    match optimizer {
        Optimizer::AdamwFused | Optimizer::Adamw8bit => fused(moments),
        // torch/optim/_muon.py, `_single_tensor_muon`: lerp_ of the momentum, lerp of the gradient, mul_ and add_ of weights.
        Optimizer::Muon => {
            Accesses { weight: 2 * decayed + 2, gradient: 2, states: 3, temporary: 3, of_tensor: 3 + decayed }
        }
        // torch/optim/adam.py, `_multi_tensor_adam`: mul_ of weights; lerp_ of the first moment; mul_ and addcmul_ of the
        // second, its sqrt, div_, add_, and addcdiv_ of weights. `_single_tensor_adam` does the same a tensor at a time.
        Optimizer::Adamw | Optimizer::AdamwLoop => Accesses {
            weight: 2 * decayed + 2,
            gradient: 2,
            states: 3 + 5,
            temporary: 6,
            of_tensor: if matches!(optimizer, Optimizer::AdamwLoop) { 7 + decayed } else { 0 },
        },
        // transformers, optimization.py, `Adafactor.step`: RMS of weights; square and eps; two means; the outer product;
        // its product with the gradient; RMS, clip, learning rate; the negative, added.
        Optimizer::Adafactor => {
            Accesses { weight: 3 + 2 * decayed, gradient: 2, states: 2, temporary: 16, of_tensor: 16 + decayed }
        }
        // lion-pytorch, `update_fn`: mul_ of weights; clone, mul_, add and sign_ of the first moment; add_ of weights; mul_
        // and add_ of the moment.
        Optimizer::Lion => {
            Accesses { weight: 2 * decayed + 2, gradient: 2, states: 5, temporary: 8, of_tensor: 7 + decayed }
        }
        // torch/optim/sgd.py, `_multi_tensor_sgd`: add of decayed weights; mul_ and add_ of momentum; add_ of weights.
        Optimizer::Sgd => {
            Accesses { weight: 2 + decayed, gradient: 1, states: 0, temporary: 2 * decayed, of_tensor: 0 }
        }
        Optimizer::SgdMomentum => {
            Accesses { weight: 2 + decayed, gradient: 1, states: 5, temporary: 2 * decayed, of_tensor: 0 }
        }
        // torch/optim/rmsprop.py, `_multi_tensor_rmsprop`: add of decayed weights; mul_ and addcmul_ of the mean, its sqrt,
        // add_, and addcdiv_ of weights.
        Optimizer::Rmsprop => {
            Accesses { weight: 2 + decayed, gradient: 2 - decayed, states: 5, temporary: 4 + 3 * decayed, of_tensor: 0 }
        }
    }
}

/// What a step moves, in bytes.
struct Moved {
    weights: u64,
    gradients: u64,
    /// States, masters and temporaries.
    states: u64,
}

impl Moved {
    fn of(job: &Job, resident: &Resident, updated: u64, each: Accesses) -> Self {
        let storage = &job.storage;
        let row = rule_of(job);
        let moments = row.moments.max(1);
        // Clipping reads all for their norm, then scales them (torch/nn/utils/clip_grad.py). Before it, and before
        // optimizers whose kernels do not, the scaler of fp16's losses divides them by its scale in place
        // (torch/amp/grad_scaler.py, `_unscale_grads_` and `_maybe_opt_step`).
        let scaled = storage.weight == Element::F32 && storage.compute == Element::F16;
        let inside = each.temporary == 0 && !job.training.gradient_clipping;
        let unscaled = if scaled && !inside { 2 } else { 0 };
        let gradient = each.gradient + unscaled + if job.training.gradient_clipping { 3 } else { 0 };
        let gradients = updated.saturating_mul(storage.gradient.bytes());
        let weights = updated.saturating_mul(storage.weight.bytes());
        // Where weights have masters the optimizer works on those; the weights are renewed from them.
        let (of_weights, of_masters) = if resident.masters.0 > 0 { (2, each.weight) } else { (each.weight, 0) };
        let of_states = resident.states.0 / moments;
        let temporary = match job.training.optimizer {
            Optimizer::Adafactor => updated.saturating_mul(4),
            Optimizer::Sgd | Optimizer::SgdMomentum => gradients,
            _ => of_states,
        };
        // Muon's iterates, what compiled 8-bit states are searched in, fp32 copies of narrow states, and copies of
        // gradients.
        let other = matches!(job.training.optimizer, Optimizer::Muon | Optimizer::Adamw8bit)
            || (job.profile.optimizer.copies_gradients.is && storage.states_cast_to_step(moments) > 0);
        let held = resident.optimizer_temporary;
        let copies = if other { held } else { resident.gradient_copies.min(held) };
        let stepped = (copies * 2).0;
        Self {
            weights: weights.saturating_mul(of_weights),
            gradients: gradients.saturating_mul(gradient),
            states: of_states
                .saturating_mul(each.states)
                .saturating_add(resident.masters.0.saturating_mul(of_masters))
                .saturating_add(temporary.saturating_mul(each.temporary))
                .saturating_add(stepped),
        }
    }

    const fn all(&self) -> u64 {
        self.weights.saturating_add(self.gradients).saturating_add(self.states)
    }
}

/// Accesses of one fused pass, with temporaries written and read once: what a bench's rate of a whole step is of.
fn least(job: &Job, resident: &Resident, updated: u64) -> Moved {
    let storage = &job.storage;
    let gradient = if job.training.gradient_clipping { 4 } else { 1 };
    Moved {
        weights: updated.saturating_mul(storage.weight.bytes()).saturating_mul(2),
        gradients: updated.saturating_mul(storage.gradient.bytes()).saturating_mul(gradient),
        states: ((resident.states + resident.masters + resident.optimizer_temporary) * 2).0,
    }
}

/// The optimizer's kernels of a step.
pub(super) fn optimizer(job: &Job, resident: &Resident, traffic: &mut Traffic) -> OperatorRow {
    let degrees = &job.degrees;
    // A rank updates its share of what is sharded, whether or not it holds the rest.
    let ranks = if degrees.sharding == Sharding::None { 1 } else { degrees.shard_ranks.max(1) };
    let updated = resident.trained / ranks;
    let moments = rule_of(job).moments.max(1);
    let each = accesses(job.training.optimizer, moments, job.training.weight_decay > 0.0);
    let curve = &job.speed.curves.memory;
    // What lies in host memory is stepped there.
    let offloaded = matches!(job.training.cpu_offload, CpuOffload::Optimizer | CpuOffload::Parameters);
    let moved = match (offloaded, curve.optimizer.is_some()) {
        (true, _) => Moved { weights: 0, gradients: 0, states: 0 },
        (false, true) => least(job, resident, updated),
        (false, false) => Moved::of(job, resident, updated, each),
    };
    traffic.optimizer_states += Bytes(moved.states);
    traffic.parameters += Bytes(moved.weights);
    traffic.gradients += Bytes(moved.gradients);
    // A handful of operations an element (Adam: about ten for two moments).
    let kernels = Kernels::of(job);
    let simple = if offloaded { 0.0 } else { 5.0 * moments as f64 * updated as f64 };
    let orthogonal = resident.orthogonalised as f64;
    let compute = Seconds(simple / kernels.sustained(Unit::Vector, false))
        + Seconds(orthogonal / kernels.sustained(Unit::Matrix(Element::Bf16), false));
    let bytes = moved.all();
    let mut row = OperatorRow::of(
        job,
        &kernels,
        ("optimizer", Unit::Vector, false),
        Run {
            flops: simple + orthogonal,
            bytes,
            compute,
            long: compute,
            kernels: resident.tensors.saturating_mul(each.of_tensor).max(1),
            rows: false,
        },
    );
    if let Some(share) = curve.optimizer {
        // Measured as a whole: what it moves at least, and what each tensor costs beside that.
        let each = Seconds(curve.optimizer_tensor_us.unwrap_or(0.0) * 1e-6);
        let moved = Seconds(bytes as f64 / (job.hardware.gpu.bandwidth.0 * share));
        (row.compute, row.memory) = (Seconds::ZERO, moved + each * resident.tensors as f64);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses of one element with AdamW's two states, counted in the source.
    fn all(optimizer: Optimizer) -> u64 {
        let each = accesses(optimizer, 2, true);
        each.weight + each.gradient + each.states + each.temporary
    }

    /// PyTorch's foreach AdamW, list by list: mul_(p) 2; lerp_(m, g) 3; mul_(v) 2; addcmul_(v, g, g) 3; sqrt(v) 2;
    /// div_ 2; add_ 2; addcdiv_(p, m, denominator) 4: 20, 80 bytes a parameter in fp32, where the fused kernel has 7.
    #[test]
    fn foreach_adamw_passes_over_everything_again_and_again() {
        assert_eq!(all(Optimizer::Adamw), 2 + 3 + 2 + 3 + 2 + 2 + 2 + 4);
        assert_eq!(all(Optimizer::AdamwLoop), all(Optimizer::Adamw));
        assert_eq!(all(Optimizer::AdamwFused), 2 + 1 + 4);
        assert_eq!(accesses(Optimizer::AdamwLoop, 2, true).of_tensor, 8);
    }

    /// SGD with momentum, list by list: mul_(m) 2, add_(m, g) 3, add_(p, m) 3; decayed weights first make another
    /// gradient of both: add(g, p) 3.
    #[test]
    fn decayed_weights_make_a_gradient_of_their_own() {
        let sum = |each: Accesses| each.weight + each.gradient + each.states + each.temporary;
        assert_eq!(sum(accesses(Optimizer::SgdMomentum, 1, false)), 2 + 3 + 3);
        assert_eq!(sum(accesses(Optimizer::SgdMomentum, 1, true)), 2 + 3 + 3 + 3);
        // RMSprop: mul_(v) 2, addcmul_(v, g, g) 3, sqrt(v) 2, add_ 2, addcdiv_(p, g, root) 4; decayed, add(g, p) 3.
        assert_eq!(sum(accesses(Optimizer::Rmsprop, 1, false)), 2 + 3 + 2 + 2 + 4);
        assert_eq!(sum(accesses(Optimizer::Rmsprop, 1, true)), 3 + 2 + 3 + 2 + 2 + 4);
    }
}
