//! What is stored in which type.

use super::speed::exchanges_as_recipes;
use super::{Degrees, Hardware, Job, Notes};
use crate::catalog::Generation;
use crate::framework::{Profile, ReduceType};
use crate::model::{Element, Operands};
use crate::plan::Plan;
use crate::plan::keys;
use crate::plan::keywords::{CpuOffload, Dtype, Engine, Fp8Recipe, MasterDtype, Mode, Optimizer, Precision, Sharding};

/// Types of what a rank holds, and in which it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// The plan's word for it.
    pub precision: Precision,
    /// Weights as they lie between steps.
    pub weight: Element,
    /// Weights as the modules read them.
    pub seen: Element,
    /// Gradients.
    pub gradient: Element,
    /// What FSDP reduces gradients in.
    pub reduce: Element,
    /// What data-parallel ranks exchange gradients in elsewhere.
    pub exchanged: Element,
    /// Master copies beside the weights.
    pub master: Option<Element>,
    /// The masters are the optimizer's own (Megatron's precision-aware optimizer), in this type.
    pub precision_aware: Option<MasterDtype>,
    /// Optimizer states.
    pub state: Element,
    /// Operands of matrix multiplications.
    pub compute: Element,
    /// torch.autocast casts them.
    pub autocast: bool,
    /// FP32 matmuls run on TF32 units.
    pub tf32: bool,
    /// Linear layers multiply in FP8; an inference server holds their weights so.
    pub fp8: bool,
    /// Weights of those layers are stored and gathered in FP8 alone (`fp8_param_gather`).
    pub fp8_weights: bool,
    /// How FP8 operands lie in memory, where Transformer Engine keeps them.
    pub operands: Option<Operands>,
    /// Cached keys and values, where not in the type of the computation.
    pub kv_cache: Option<Element>,
}

impl Storage {
    /// States that Transformer Engine's `FusedAdam` steps on fp32 copies of: all that are neither fp32 nor the bits
    /// that a bf16 weight lacks (`pytorch/optimizers/fused_adam.py`, `get_unscaled_state`).
    pub fn states_cast_to_step(&self, moments: u64) -> u64 {
        let Some(masters) = self.precision_aware else { return 0 };
        let moments = if self.state.bytes() < 4 { moments } else { 0 };
        moments + u64::from(matches!(masters, MasterDtype::Bf16 | MasterDtype::Fp16))
    }
}

impl Job {
    /// DeepSpeed's ZeRO optimizer for fp16 steps under a framework whose bf16 plans have an optimizer of their own: it
    /// flattens the gradients of its share, and frees all.
    pub fn is_stepped_by_zero(&self) -> bool {
        let in_fp16 = self.storage.weight == Element::F16 && self.storage.master.is_some();
        self.profile.data_parallel.has_bf16_optimizer.is && in_fp16 && self.degrees.sharding == Sharding::Zero1
    }

    /// DeepSpeed's BF16_Optimizer steps: it has gradients in fp32 beside those in bf16.
    pub fn is_stepped_by_bf16_optimizer(&self) -> bool {
        let in_bf16 = self.storage.weight == Element::Bf16 && self.storage.master.is_some();
        self.profile.data_parallel.has_bf16_optimizer.is && in_bf16
    }

    /// Gradients exist between steps.
    pub fn gradients_stay(&self) -> bool {
        self.profile.data_parallel.gradients_stay.is && !self.is_stepped_by_zero()
    }
}

/// Refuses gradients of 8 bits, which no framework that is predicted keeps, and says of states in 8 bits who has them.
fn eight_bits(plan: &Plan, degrees: &Degrees, notes: &mut Notes) {
    if plan.training.mode == Some(Mode::Inference) {
        return;
    }
    let is_one = |given: Option<Dtype>| matches!(given, Some(Dtype::Fp8 | Dtype::Int8));
    let gradients = [
        (keys::training::gradient_dtype, plan.training.gradient_dtype),
        (keys::distribution::reduce_dtype, plan.distribution.reduce_dtype),
    ];
    for (key, given) in gradients {
        if let Some(given) = given.filter(|given| is_one(Some(*given))) {
            notes.fault(key, format!("{given}: gradients have 16 or 32 bits; must be fp32, bf16 or fp16"));
        }
    }
    let optimizer = plan.training.optimizer;
    let plain = matches!(optimizer, None | Some(Optimizer::Adamw | Optimizer::AdamwFused | Optimizer::AdamwLoop));
    if plain && is_one(plan.training.optimizer_state_dtype) && !has_typed_masters(degrees.engine, optimizer) {
        let words =
            "8 bits without scales, which PyTorch's AdamW cannot keep; adamw-8bit counts what bitsandbytes keeps";
        notes.assume(keys::training::optimizer_state_dtype, words);
    }
}

/// The row of the contract's table, with what the plan says of single types.
pub(super) fn resolve(
    plan: &Plan,
    profile: &Profile,
    (degrees, hardware): (&Degrees, &Hardware),
    notes: &mut Notes,
) -> Storage {
    let precision = precision(plan, profile, notes);
    without_masters(precision, plan, degrees, notes);
    let engine_rules = &profile.data_parallel;
    eight_bits(plan, degrees, notes);
    let row = row(plan, profile, (precision, degrees));
    let mixes = matches!(precision, Precision::Bf16Mixed | Precision::Fp16Mixed | Precision::Fp8Mixed);
    if splits_in_full(plan, profile, degrees) && mixes {
        notes.assume(keys::training::precision, format!("{precision}, {IN_FULL}"));
    }
    let row = with_masters_of_zero(row, (plan, degrees), notes);
    let fp16 = precision == Precision::Fp16Fp32Master && plan.training.gradient_dtype.is_none();
    if fp16 {
        notes.assume(keys::distribution::reduce_dtype, "fp16 (gradients are reduced in it, then copied to fp32)");
    }
    let recipe = plan.training.gradient_dtype.is_none() && exchanges_as_recipes(plan, profile, degrees);
    if recipe && plan.distribution.reduce_dtype.is_none() {
        notes.assume(keys::distribution::reduce_dtype, "bf16 (gradients are reduced in it)");
    }
    let precision_aware = if row.master.is_some() && has_typed_masters(degrees.engine, plan.training.optimizer) {
        precision_aware(plan, (precision, degrees), notes)
    } else {
        None
    };
    // Who gathers weights to generate casts them before.
    let gathers = degrees.sharding == Sharding::Zero3 && degrees.shard_ranks > 1;
    let infers = plan.training.mode == Some(Mode::Inference);
    let casts = infers && !gathers && row.weight != row.compute && !row.fp8;
    let trains_in_fp8 = row.fp8 && plan.training.mode != Some(Mode::Inference);
    let wrapped = plan.training.autocast == Some(true) && !infers && wraps(precision, profile);
    Storage {
        // Megatron-LM reduces gradients in fp32 for bf16 only (megatron/training/arguments.py,
        // --accumulate-allreduce-grads-in-fp32), DeepSpeed in the type of fp16 training (runtime/engine.py,
        // communication_data_type).
        exchanged: match (fp16, recipe) {
            (true, _) => Element::F16,
            (_, true) => Element::Bf16,
            _ => plan.training.gradient_dtype.map_or(row.gradient, element),
        },
        // Gradients of DeepSpeed's ZeRO optimizer lie in the weights' type.
        gradient: match plan.training.gradient_dtype {
            Some(given) => element(given),
            None if fp16 && engine_rules.has_bf16_optimizer.is => row.weight,
            None => row.gradient,
        },
        master: precision_aware.map_or(row.master, |kind| Some(master(kind))),
        precision_aware,
        state: plan.training.optimizer_state_dtype.map_or(row.state, element),
        reduce: plan.distribution.reduce_dtype.map(element).unwrap_or(match engine_rules.reduces_in.is {
            ReduceType::Stored => row.weight,
            ReduceType::Gathered => row.seen,
        }),
        kv_cache: plan.training.kv_cache_dtype.map(element),
        // Whoever keeps weights wider than they are multiplied casts them in each pass.
        autocast: row.autocast || casts || wrapped,
        seen: if casts { row.weight } else { row.seen },
        fp8_weights: trains_in_fp8 && plan.training.fp8_param_gather == Some(true),
        operands: (trains_in_fp8 && profile.modules.transformer_engine.is)
            .then(|| operands(plan, hardware.gpu.generation)),
        ..row
    }
}

/// Whether autocast around the weights of a precision is a thing of its own (accelerate, accelerator.py,
/// `prepare_model`, wraps the forward pass whatever type the weights were loaded in), and the framework has one.
pub(super) const fn wraps(precision: Precision, profile: &Profile) -> bool {
    let has = profile.support.autocast.is && !profile.data_parallel.casts_shards.is;
    has && matches!(precision, Precision::Bf16 | Precision::Fp16)
}

/// What is said of mixed types that nobody casts to.
const IN_FULL: &str = "computed in fp32: torchtitan ends mixed precision beside tensor or pipeline ranks without FSDP; \
                       sharding: zero3 has it";

/// The plan's precision; what answers without a word of it has 16 bits, as on the command line.
fn precision(plan: &Plan, profile: &Profile, notes: &mut Notes) -> Precision {
    let infers = plan.training.mode == Some(Mode::Inference);
    let default = if infers { Precision::Bf16 } else { profile.defaults.precision.is };
    notes.or(keys::training::precision, plan.training.precision, default)
}

/// Whether ranks that split the model compute in the stored type, as nobody gathers shards.
fn splits_in_full(plan: &Plan, profile: &Profile, degrees: &Degrees) -> bool {
    let splits = degrees.tensor > 1 || degrees.pipeline > 1;
    let trains = plan.training.mode != Some(Mode::Inference);
    profile.data_parallel.splits_in_full.is
        && trains
        && splits
        && degrees.context < 2
        && degrees.sharding == Sharding::None
}

/// Says of 16-bit weights without masters when DeepSpeed trains them so: it clones fp32 masters of its own unless its
/// configuration says otherwise (runtime/zero/stage_1_and_2.py, `fp16_master_weights_and_gradients`; fp16/fused_optimizer.py).
fn without_masters(precision: Precision, plan: &Plan, degrees: &Degrees, notes: &mut Notes) {
    let usual = match precision {
        Precision::Bf16 => Precision::Bf16Fp32Master,
        Precision::Fp16 => Precision::Fp16Fp32Master,
        _ => return,
    };
    if degrees.engine == Engine::Deepspeed && plan.training.mode != Some(Mode::Inference) {
        let words = format!("{precision}, without the fp32 masters that DeepSpeed keeps unless told; {usual} has them");
        notes.assume(keys::training::precision, words);
    }
}

/// DeepSpeed's first two stages step on clones of fp32 weights too; the third steps on those that it has, unless its optimizer
/// runs on the host (runtime/zero/stage3.py, `_create_fp32_partitions`).
fn with_masters_of_zero(row: Storage, (plan, degrees): (&Plan, &Degrees), notes: &mut Notes) -> Storage {
    let offloads = matches!(plan.training.cpu_offload, Some(CpuOffload::Optimizer | CpuOffload::Parameters));
    let clones = degrees.sharding != Sharding::Zero3 || offloads;
    let trains = plan.training.mode != Some(Mode::Inference);
    let full = row.weight == Element::F32;
    if row.master.is_some() || !full || !degrees.is_deepspeed() || !clones || !trains {
        return row;
    }
    if plan.training.master_dtype.is_none() {
        notes.assume(keys::training::master_dtype, "fp32 (DeepSpeed's ZeRO keeps masters beside weights in fp32 too)");
    }
    Storage { master: Some(Element::F32), ..row }
}

/// The types of a precision by itself.
fn row(plan: &Plan, profile: &Profile, (precision, degrees): (Precision, &Degrees)) -> Storage {
    let engine_rules = &profile.data_parallel;
    // FSDP casts the shards that it gathers: under autocast nothing is left to cast (accelerate's
    // FullyShardedDataParallelPlugin.set_mixed_precision sets param_dtype and reduce_dtype).
    let shards = degrees.engine.is_fsdp() && degrees.sharding == Sharding::Zero3;
    let gathers = engine_rules.casts_shards.is || shards;
    let in_full = splits_in_full(plan, profile, degrees);
    let half = match precision {
        Precision::Fp16 | Precision::Fp16Mixed | Precision::Fp16Fp32Master => Element::F16,
        _ => Element::Bf16,
    };
    let plain = |element: Element| Storage {
        precision,
        weight: element,
        seen: element,
        gradient: element,
        reduce: element,
        exchanged: element,
        master: None,
        precision_aware: None,
        state: element,
        compute: element,
        autocast: false,
        tf32: precision == Precision::Tf32,
        fp8: false,
        fp8_weights: false,
        operands: None,
        kv_cache: None,
    };
    let mixed = Storage {
        seen: if gathers && !in_full { half } else { Element::F32 },
        compute: if in_full { Element::F32 } else { half },
        autocast: !engine_rules.casts_shards.is,
        ..plain(Element::F32)
    };
    let mastered = Storage { gradient: Element::F32, master: Some(Element::F32), state: Element::F32, ..plain(half) };
    match precision {
        Precision::Fp32 | Precision::Tf32 => plain(Element::F32),
        Precision::Bf16Mixed | Precision::Fp16Mixed => mixed,
        Precision::Bf16 | Precision::Fp16 => plain(half),
        Precision::Bf16Fp32Master | Precision::Fp16Fp32Master => mastered,
        // No masters to keep beside FP8 matrices: the rest is 16 bit.
        Precision::Fp8Mixed if plan.training.mode == Some(Mode::Inference) => Storage { fp8: true, ..plain(half) },
        Precision::Fp8Mixed if profile.defaults.fp8_masters.is => Storage { fp8: true, ..mastered },
        Precision::Fp8Mixed => Storage { fp8: true, ..mixed },
    }
}

/// Whether masters may have a type of their own: Transformer Engine's `FusedAdam` steps, in Megatron's precision-aware
/// optimizer or by itself over the shards of FSDP2 (NeMo-Automodel, `components/optim/optimizer.py`).
pub(super) fn has_typed_masters(engine: Engine, optimizer: Option<Optimizer>) -> bool {
    let is_adam = optimizer.is_none_or(|kind| matches!(kind, Optimizer::Adamw | Optimizer::AdamwFused));
    engine == Engine::Megatron || engine == Engine::Fsdp2 && is_adam
}

/// In which type Megatron's precision-aware optimizer has its masters, where the plan says it. Moments are narrow under no
/// other one; fp32 masters that a plan does not name are Megatron's own.
fn precision_aware(plan: &Plan, (precision, degrees): (Precision, &Degrees), notes: &mut Notes) -> Option<MasterDtype> {
    const KEY: &str = keys::training::master_dtype;
    let training = &plan.training;
    // core/optimizer/optimizer_config.py, OptimizerConfig.__post_init__
    if let Some(masters) = training.master_dtype.filter(|masters| *masters != MasterDtype::Fp32) {
        if degrees.sharding == Sharding::None {
            notes.fault(
                KEY,
                format!(
                    "{masters}: a sharded optimizer's alone; distribution.sharding must be zero1 (zero3 under FSDP2)"
                ),
            );
        }
        if masters == MasterDtype::Int16 && precision == Precision::Fp16Fp32Master {
            notes.fault(KEY, "int16: what bf16 weights lack of fp32; fp16 weights have none");
        }
    }
    let megatron = degrees.engine == Engine::Megatron;
    let narrow = training.optimizer_state_dtype.is_some_and(|kind| kind != Dtype::Fp32);
    if megatron && training.master_dtype.is_none() && narrow {
        notes.assume(
            keys::training::master_dtype,
            "fp32 (the precision-aware optimizer keeps int16 beside bf16 weights)",
        );
    }
    training.master_dtype
}

/// How Transformer Engine lays FP8 operands out. Rows scaled each for themselves are torchao's: counted as one scale a
/// tensor.
fn operands(plan: &Plan, generation: Generation) -> Operands {
    let block_scales = matches!(plan.training.fp8_recipe, Some(Fp8Recipe::Blockwise | Fp8Recipe::Mxfp8));
    Operands { block_scales, both_ways: block_scales || generation != Generation::Blackwell }
}

const fn master(dtype: MasterDtype) -> Element {
    match dtype {
        MasterDtype::Fp32 => Element::F32,
        MasterDtype::Bf16 | MasterDtype::Int16 => Element::Bf16,
        MasterDtype::Fp16 => Element::F16,
    }
}

const fn element(dtype: Dtype) -> Element {
    match dtype {
        Dtype::Fp32 => Element::F32,
        Dtype::Bf16 => Element::Bf16,
        Dtype::Fp16 => Element::F16,
        Dtype::Fp8 | Dtype::Int8 => Element::Fp8,
    }
}
