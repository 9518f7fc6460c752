//! Optimizers as a table: what they keep for each parameter, and what they need while they step.

use super::{Degrees, Job, NOT_MODELLED, Notes, Training};
use crate::framework::{EightBit, OptimizerRules};
use crate::model::{Element, GRANULE, Part, Weight};
use crate::plan::keys;
use crate::plan::keywords::{CpuOffload, Engine, Mode, Optimizer, Sharding};

/// What an optimizer holds beside weights and gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptimizerMemory {
    /// Full-size states in the plan's state type.
    pub moments: u64,
    /// Two moments of one byte an element, a 4-byte scale for each block of 256.
    pub eight_bit: bool,
    /// Embeddings keep two moments of fp32 all the same (transformers 4.57, trainer.py, `create_optimizer`:
    /// `register_module_override`).
    pub wide_embeddings: bool,
    /// A row and a column of fp32 in place of the second moment of a matrix.
    pub factored: bool,
    /// It is given flat shares, which have no rows and columns to keep means of.
    pub flat: bool,
    /// A step counter in device memory for each tensor.
    pub device_step: bool,
    /// What it needs while it steps.
    pub temporary: Temporary,
    /// Where that is written.
    pub source: &'static str,
}

/// Says where the host steps and how fast it is was measured of another optimizer, and where an engine has no such offload
/// (torch/distributed/fsdp/api.py, `CPUOffload`: parameters, and gradients with them).
pub(super) fn note_on_host(training: &Training, degrees: &Degrees, notes: &mut Notes) {
    let on_host = matches!(training.cpu_offload, CpuOffload::Optimizer | CpuOffload::Parameters);
    if !on_host || training.mode != Mode::Train {
        return;
    }
    let sharded = degrees.engine == Engine::Fsdp1 && degrees.sharding != Sharding::None;
    if sharded && training.cpu_offload == CpuOffload::Optimizer {
        let said = "optimizer: FSDP1 moves parameters and gradients with the states (`parameters`); counted as if states \
                    alone could be";
        notes.assume(keys::training::cpu_offload, said);
    }
    let said = match training.optimizer {
        Optimizer::Adamw | Optimizer::AdamwFused | Optimizer::AdamwLoop => return,
        Optimizer::Muon => {
            "not modelled: Muon's matrix multiplications on the host, which take far longer there; its update is timed as \
             DeepSpeed's Adam"
        }
        _ => "the host's update is timed as DeepSpeed's Adam, 0.24 s a billion parameters",
    };
    notes.assume(keys::training::cpu_offload, said);
}

/// Says what Muon wants of matrices that are shared out: its iterations multiply whole ones.
pub(super) fn note_shared_muon(training: &Training, degrees: &Degrees, notes: &mut Notes) {
    let trains = training.mode == Mode::Train && training.optimizer == Optimizer::Muon;
    if !trains || degrees.sharding == Sharding::None {
        return;
    }
    let what = match degrees.engine {
        Engine::Fsdp1 => "Muon on FSDP1's flat shares, which it refuses (torch/optim/_muon.py)",
        Engine::Fsdp2 | Engine::Deepspeed => "what Muon exchanges between ranks that share a matrix",
        _ => return,
    };
    notes.assume(what, NOT_MODELLED);
}

/// Memory of the optimizer step itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temporary {
    /// Nothing.
    Nothing,
    /// One tensor of each parameter's size at a time for all parameters together.
    AllStates,
    /// As many tensors of the largest parameter's size in the states' type.
    Largest(u64),
    /// As many fp32 tensors of a parameter's size, two more where weights are 16-bit, and the update of the parameter
    /// before it: the loop still has a name for that.
    LargestUpcast(u64),
    /// As many fp32 tensors of the largest parameter's size, whatever the states' type.
    LargestWide(u64),
    /// Of the matrix that needs most: its update in the states' type, two 16-bit iterates and the square of its shorter
    /// side twice. What is no matrix is stepped together by AdamW.
    NewtonSchulz,
    /// A copy of all gradients, where weight decay is added to them.
    DecayedGradients,
    /// One tensor of each parameter's size for all parameters together, and such a copy of all gradients.
    StatesAndDecayedGradients,
}

impl Job {
    /// In which type the optimizer keeps its states, if any: `with states in fp32`.
    #[must_use]
    pub fn states_kept(&self) -> String {
        let kept = rule_of(self);
        match (kept.eight_bit, kept.moments > 0 || kept.factored) {
            (true, _) => "with states in 8 bits".to_owned(),
            (false, true) => format!("with states in {}", self.trained_types().1.name()),
            (false, false) => "without states".to_owned(),
        }
    }
}

/// The row of a job's optimizer. FSDP1 and DeepSpeed share out flat tensors (torch/distributed/fsdp/_flat_param.py,
/// `FlatParamHandle`; deepspeed, runtime/zero/stage_1_and_2.py and stage3.py), which Adafactor keeps a whole second moment of
/// (transformers, optimization.py, `_get_options`: two dimensions or more are factored).
#[must_use]
pub fn rule_of(job: &Job) -> OptimizerMemory {
    let degrees = &job.degrees;
    let flat = degrees.shard_ranks > 1
        && degrees.sharding != Sharding::None
        && matches!(degrees.engine, Engine::Fsdp1 | Engine::Deepspeed);
    let wide_embeddings = job.training.wide_embedding_states;
    OptimizerMemory { flat, wide_embeddings, ..rule(job.training.optimizer, &job.profile.optimizer) }
}

/// The row of `optimizer` as a framework with these rules runs it.
#[must_use]
const fn rule(optimizer: Optimizer, rules: &OptimizerRules) -> OptimizerMemory {
    match optimizer {
        Optimizer::AdamwFused if rules.counts_on_host.is => {
            OptimizerMemory { device_step: false, source: rules.counts_on_host.source, ..row(optimizer) }
        }
        // Compiled for each parameter: Inductor writes both moments' normalised values, which the search for their
        // codes reads many times, to memory before it.
        Optimizer::Adamw8bit if matches!(rules.eight_bit.is, EightBit::Torchao) => {
            OptimizerMemory { temporary: Temporary::LargestWide(2), source: rules.eight_bit.source, ..row(optimizer) }
        }
        _ => row(optimizer),
    }
}

const fn row(optimizer: Optimizer) -> OptimizerMemory {
    let adam = OptimizerMemory {
        moments: 2,
        eight_bit: false,
        wide_embeddings: false,
        factored: false,
        flat: false,
        device_step: false,
        temporary: Temporary::AllStates,
        source: "PyTorch 2.9, torch/optim/adam.py, _multi_tensor_adam (_foreach_sqrt)",
    };
    match optimizer {
        Optimizer::Adamw => adam,
        Optimizer::AdamwFused => OptimizerMemory {
            device_step: true,
            temporary: Temporary::Nothing,
            source: "PyTorch 2.9, torch/optim/adam.py, _fused_adam",
            ..adam
        },
        Optimizer::AdamwLoop => OptimizerMemory {
            temporary: Temporary::Largest(2),
            source: "PyTorch 2.9, torch/optim/adam.py, _single_tensor_adam",
            ..adam
        },
        Optimizer::Adamw8bit => OptimizerMemory {
            moments: 0,
            eight_bit: true,
            temporary: Temporary::Nothing,
            source: "bitsandbytes, optim/optimizer.py, Optimizer2State (block-wise)",
            ..adam
        },
        Optimizer::Adafactor => OptimizerMemory {
            moments: 0,
            factored: true,
            temporary: Temporary::LargestUpcast(2),
            source: "transformers 4.57.6, optimization.py, Adafactor.step",
            ..adam
        },
        Optimizer::Lion => OptimizerMemory {
            moments: 1,
            temporary: Temporary::Largest(2),
            source: "lion-pytorch 0.2, lion_pytorch/lion_pytorch.py, update_fn (exp_avg.clone().mul_().add())",
            ..adam
        },
        Optimizer::Muon => OptimizerMemory {
            moments: 1,
            temporary: Temporary::NewtonSchulz,
            source: "PyTorch 2.9, torch/optim/_muon.py, _zeropower_via_newtonschulz",
            ..adam
        },
        Optimizer::Sgd => OptimizerMemory {
            moments: 0,
            temporary: Temporary::DecayedGradients,
            source: "PyTorch 2.9, torch/optim/sgd.py, _multi_tensor_sgd",
            ..adam
        },
        Optimizer::SgdMomentum => OptimizerMemory {
            moments: 1,
            temporary: Temporary::DecayedGradients,
            source: "PyTorch 2.9, torch/optim/sgd.py, _multi_tensor_sgd",
            ..adam
        },
        Optimizer::Rmsprop => OptimizerMemory {
            moments: 1,
            temporary: Temporary::StatesAndDecayedGradients,
            source: "PyTorch 2.9, torch/optim/rmsprop.py, _multi_tensor_rmsprop (_foreach_sqrt, without momentum)",
            ..adam
        },
    }
}

impl OptimizerMemory {
    /// fp32 tensors of a parameter's size while it is its turn.
    #[must_use]
    pub const fn turn(&self, state: Element) -> u64 {
        match self.temporary {
            Temporary::LargestUpcast(tensors) => tensors + if state.bytes() < 4 { 2 } else { 0 },
            _ => 0,
        }
    }

    /// Elements of the roots of a second moment's two means, which stand beside the square of the gradient and what
    /// they make: of a convolution more than the parameter before it, whose update they follow (transformers,
    /// optimization.py, `_approx_sq_grad`).
    #[must_use]
    pub fn roots(&self, weight: &Weight, part: u64) -> u64 {
        let means = factors(weight).filter(|_| self.factored && part == weight.numel);
        means.map_or(0, |(rows, columns)| rows.saturating_add(columns))
    }

    /// Bytes an element of the parameter that it steps alone, beside gradient and states.
    #[must_use]
    pub const fn alone(&self, state: Element, gradient: Element, decays: bool) -> u64 {
        match self.temporary {
            Temporary::StatesAndDecayedGradients if decays => state.bytes() + gradient.bytes(),
            Temporary::AllStates | Temporary::StatesAndDecayedGradients => state.bytes(),
            Temporary::Largest(tensors) => state.bytes() * tensors,
            Temporary::LargestUpcast(_) => 4 * self.turn(state),
            Temporary::LargestWide(tensors) => 4 * tensors,
            Temporary::NewtonSchulz => state.bytes() + 4,
            Temporary::DecayedGradients if decays => gradient.bytes(),
            Temporary::Nothing | Temporary::DecayedGradients => 0,
        }
    }
}

/// Bytes as the allocator rounds them.
#[must_use]
pub const fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(GRANULE).saturating_mul(GRANULE)
}

/// State bytes of one tensor of `weight`, of which a rank holds `numel` elements.
#[must_use]
pub const fn state_bytes(rule: &OptimizerMemory, weight: &Weight, numel: u64, state: Element) -> u64 {
    let step = if rule.device_step { GRANULE } else { 0 };
    if rule.eight_bit {
        // bitsandbytes keeps tensors below 4096 elements in fp32 (min_8bit_size).
        if numel < 4096 || rule.wide_embeddings && matches!(weight.part, Part::Embedding) {
            return 2 * rounded(numel.saturating_mul(4));
        }
        return 2 * (rounded(numel) + rounded(numel.div_ceil(256).saturating_mul(4)));
    }
    if rule.factored {
        return match factors(weight) {
            Some((rows, columns)) if !rule.flat => rounded(rows.saturating_mul(4)) + rounded(columns.saturating_mul(4)),
            _ => rounded(numel.saturating_mul(4)),
        };
    }
    rule.moments * rounded(numel.saturating_mul(state.bytes())) + step
}

/// Elements of the two means that stand for a second moment: over the last dimension and over the last but one, of
/// whatever stands before them. None of a vector.
#[must_use]
pub const fn factors(weight: &Weight) -> Option<(u64, u64)> {
    if let Some((rows, columns)) = weight.window {
        return Some((weight.numel / columns, weight.numel / rows));
    }
    let columns = weight.numel / if weight.rows == 0 { 1 } else { weight.rows };
    if columns > 1 && weight.rows > 1 { Some((weight.rows, columns)) } else { None }
}

/// Whether the optimizer treats it as a matrix.
#[must_use]
pub const fn is_matrix(weight: &Weight) -> bool {
    !matches!(weight.part, Part::Norm | Part::Embedding | Part::Head) && weight.rows > 1 && weight.numel > weight.rows
}

/// Bytes of the iteration that makes a matrix orthogonal, beside gradient and momentum (torch/optim/_muon.py,
/// `_zeropower_via_newtonschulz`: the update that it is given, `ortho_grad` and its successor, `gram_matrix` and
/// `gram_update`).
#[must_use]
pub const fn newton_schulz(weight: &Weight, numel: u64, state: Element) -> u64 {
    let iterates = rounded(numel.saturating_mul(2)).saturating_add(gram(weight)).saturating_mul(2);
    rounded(numel.saturating_mul(state.bytes())).saturating_add(iterates)
}

/// Bytes of `gram_matrix`, and of `gram_update`: the square of a matrix's shorter side in 16 bit.
#[must_use]
pub const fn gram(weight: &Weight) -> u64 {
    let columns = weight.numel / if weight.rows == 0 { 1 } else { weight.rows };
    let shorter = if weight.rows < columns { weight.rows } else { columns };
    rounded(shorter.saturating_mul(shorter).saturating_mul(2))
}

/// Operations of making a matrix orthogonal: five iterations of its Gram matrix, that one's square, and their product with
/// the matrix (torch/optim/_muon.py, `_zeropower_via_newtonschulz`, `DEFAULT_NS_STEPS`).
#[must_use]
pub const fn newton_schulz_flops(weight: &Weight) -> u64 {
    let columns = weight.numel / if weight.rows == 0 { 1 } else { weight.rows };
    let (shorter, longer) = if weight.rows < columns { (weight.rows, columns) } else { (columns, weight.rows) };
    let square = shorter.saturating_mul(shorter);
    let iteration = square.saturating_mul(longer).saturating_mul(4).saturating_add(square.saturating_mul(2 * shorter));
    iteration.saturating_mul(5)
}

#[cfg(test)]
mod tests {
    use super::{OptimizerMemory, row, state_bytes};
    use crate::model::{Element, Part, Weight};
    use crate::plan::keywords::Optimizer;

    /// 512 x 512 windows of 3 x 3 are 2 359 296 elements: each mean is over one side of the windows, so that both are two
    /// thirds of that. A matrix of 512 x 512 has a row and a column, a vector no means.
    #[test]
    fn means_of_a_convolution_are_two_thirds_of_it() {
        let rule = row(Optimizer::Adafactor);
        let matrix = Weight::matrix(Part::Mlp, true, 512, 512);
        let convolution = Weight { numel: 2_359_296, window: Some((3, 3)), ..matrix };
        assert_eq!(rule.roots(&convolution, convolution.numel), 1_572_864);
        assert_eq!(state_bytes(&rule, &convolution, convolution.numel, Element::F32), 4 * 1_572_864);
        assert_eq!(rule.roots(&matrix, matrix.numel), 1024);
        assert_eq!(rule.roots(&Weight::matrix(Part::Norm, true, 512, 1), 512), 0);
        assert_eq!(row(Optimizer::Adamw).roots(&matrix, matrix.numel), 0);
    }

    /// 512 x 512 elements: two bytes each and a scale of 4 for each 256 of both moments; two moments of fp32 where an embedding
    /// has those.
    #[test]
    fn embeddings_may_keep_states_of_fp32() {
        let wide = OptimizerMemory { wide_embeddings: true, ..row(Optimizer::Adamw8bit) };
        let (table, matrix) =
            (Weight::matrix(Part::Embedding, true, 512, 512), Weight::matrix(Part::Mlp, true, 512, 512));
        let of = |rule: &OptimizerMemory, weight: &Weight| state_bytes(rule, weight, weight.numel, Element::F32);
        assert_eq!(of(&wide, &table), 2 * 4 * 262_144);
        assert_eq!(of(&wide, &matrix), 2 * (262_144 + 4 * 1024));
        assert_eq!(of(&row(Optimizer::Adamw8bit), &table), of(&wide, &matrix));
    }
}
