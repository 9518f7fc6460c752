//! How many GPUs share what.

use super::Notes;
use crate::framework::{Profile, Rule};
use crate::plan::keys;
use crate::plan::keywords::{CpComm, Engine, Mode, MoeDispatcher, Schedule, Sharding, Strategy};
use crate::plan::{DistributionPart, Plan, USUAL_PER_NODE};

/// Degrees of parallelism. `data` x `tensor` x `pipeline` x `context` = `num_gpus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degrees {
    /// GPUs in all.
    pub num_gpus: u64,
    /// Ranks with samples of their own.
    pub data: u64,
    /// Ranks that share each matrix.
    pub tensor: u64,
    /// Pipeline stages.
    pub pipeline: u64,
    /// Ranks that share each sequence.
    pub context: u64,
    /// How they exchange keys and values.
    pub exchange: CpComm,
    /// Ranks that share the experts.
    pub expert: u64,
    /// Each of them gathers the tokens of all, and takes those of its experts (Megatron's `allgather`).
    pub gathers_tokens: bool,
    /// Ranks that share each expert's matrices.
    pub expert_tensor: u64,
    /// Norms and dropouts split along the sequence by `tensor`.
    pub sequence_parallel: bool,
    /// What data-parallel ranks share out.
    pub sharding: Sharding,
    /// What shares it out and reduces gradients.
    pub engine: Engine,
    /// The plan names the engine.
    pub engine_is_given: bool,
    /// Weights that ranks share out stay gathered from a layer's forward to its backward pass.
    pub stays_gathered: bool,
    /// FSDP reduces gradients behind each micro-batch, or behind the last one, where the plan says so.
    pub syncs_each: Option<bool>,
    /// DDP's gradients are views of its buckets.
    pub bucket_views: bool,
    /// Ranks that share one copy of what is sharded.
    pub shard_ranks: u64,
    /// The same for routed experts.
    pub expert_shard_ranks: u64,
    /// Order of micro-batches through the stages.
    pub schedule: Schedule,
    /// Model chunks of each stage.
    pub virtual_pipeline: u64,
}

impl Degrees {
    /// Whether DeepSpeed shards: its ZeRO 1, 2 and 3.
    #[must_use]
    pub fn is_deepspeed(&self) -> bool {
        self.engine == Engine::Deepspeed && self.sharding != Sharding::None
    }

    /// What the plan calls the sharding.
    #[must_use]
    pub const fn asked(&self) -> Sharding {
        if self.stays_gathered { Sharding::Zero2 } else { self.sharding }
    }
}

/// Fills the degrees and checks that they multiply to the number of GPUs.
pub(super) fn resolve(plan: &Plan, profile: &Profile, notes: &mut Notes) -> Option<Degrees> {
    let part = &plan.distribution;
    let num_gpus = gpus(plan, notes)?;
    let [data, tensor, pipeline, context] = factors(plan, num_gpus, notes)?;
    let asked = sharding(plan, profile, notes);
    let engine = engine(plan, profile, (asked, data.saturating_mul(context), context), notes);
    // Its second stage shares weights out as the third does, and leaves them gathered after their forward pass
    // (torch/distributed/fsdp/api.py, `ShardingStrategy.SHARD_GRAD_OP`; _fully_shard/_fully_shard.py,
    // `reshard_after_forward`).
    let stays_gathered = asked == Sharding::Zero2 && engine.is_fsdp();
    let sharding = if stays_gathered { Sharding::Zero3 } else { asked };
    let (expert, expert_tensor) = experts(plan, tensor, data.saturating_mul(context).saturating_mul(tensor), notes)?;
    let ranks = data.saturating_mul(context);
    let (instances, shard_ranks) = shards(plan, ranks, notes)?;
    let of_experts = ranks.saturating_mul(tensor) / expert.saturating_mul(expert_tensor).max(1);
    Some(Degrees {
        num_gpus,
        data,
        tensor,
        pipeline,
        context,
        exchange: part.cp_comm.unwrap_or(CpComm::P2p),
        expert,
        gathers_tokens: part.moe_dispatcher == Some(MoeDispatcher::Allgather),
        expert_tensor,
        sequence_parallel: tensor > 1 && splits_sequence(plan, profile, notes),
        sharding,
        engine,
        engine_is_given: part.engine.is_some(),
        stays_gathered,
        syncs_each: part.sync_each_micro_batch,
        bucket_views: part.gradient_as_bucket_view.unwrap_or(false),
        shard_ranks,
        expert_shard_ranks: (of_experts / if sharding == Sharding::None { 1 } else { instances }).max(1),
        schedule: schedule(plan, pipeline, notes),
        virtual_pipeline: part.virtual_pipeline.unwrap_or(1).max(1),
    })
}

/// The fewest GPUs that hold the degrees that the plan gives.
pub(super) fn gpus_of_degrees(plan: &Plan) -> u64 {
    let part = &plan.distribution;
    let given = [part.tensor_parallel, part.pipeline_parallel, part.context_parallel];
    let data = part.data_parallel.unwrap_or_else(|| least_data(part));
    given.iter().fold(data, |product: u64, degree| product.saturating_mul(degree.unwrap_or(1)))
}

/// The fewest data-parallel ranks that a copy's shards and the experts are shared out over evenly.
fn least_data(part: &DistributionPart) -> u64 {
    let (context, tensor) = (part.context_parallel.unwrap_or(1), part.tensor_parallel.unwrap_or(1));
    let experts = part.expert_parallel.unwrap_or(1).saturating_mul(part.expert_tensor_parallel.unwrap_or(tensor));
    let shards = part.shard_group.unwrap_or(1);
    let of_shards = shards / common_divisor(shards, context).max(1);
    let of_experts = experts / common_divisor(experts, context.saturating_mul(tensor)).max(1);
    (of_shards / common_divisor(of_shards, of_experts).max(1)).saturating_mul(of_experts).max(1)
}

const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// All GPUs, where they lie on the nodes as the plan says.
fn gpus(plan: &Plan, notes: &mut Notes) -> Option<u64> {
    let cluster = &plan.cluster;
    let of_degrees = gpus_of_degrees(plan);
    let num_gpus = plan.gpus().unwrap_or_else(|| {
        notes.assume(keys::cluster::num_gpus, format!("{of_degrees}, not told"));
        of_degrees
    });
    if let Some(nodes) = cluster.nodes {
        if plan.leaves_nodes_open() {
            let said = format!("{num_gpus}, not told: {USUAL_PER_NODE} a node");
            notes.assume(keys::cluster::num_gpus, said);
        }
        if let Some(fault) = misfit(num_gpus, nodes, cluster.gpus_per_node) {
            notes.fault(keys::cluster::num_gpus, fault);
            return None;
        }
    }
    Some(num_gpus)
}

/// Data, tensor, pipeline and context parallel degree, whose product is the number of GPUs.
fn factors(plan: &Plan, num_gpus: u64, notes: &mut Notes) -> Option<[u64; 4]> {
    let part = &plan.distribution;
    let strategy = part.strategy;
    let whole =
        |wanted: Strategy, given: Option<u64>| given.unwrap_or(if strategy == Some(wanted) { num_gpus } else { 1 });
    let tensor = whole(Strategy::TensorParallel, part.tensor_parallel);
    let pipeline = whole(Strategy::PipelineParallel, part.pipeline_parallel);
    let context = part.context_parallel.unwrap_or(1);
    let model_ranks = tensor.saturating_mul(pipeline).saturating_mul(context);
    let product_rule = |data: u64| {
        format!(
            "data_parallel {data} x tensor_parallel {tensor} x pipeline_parallel {pipeline} x context_parallel {context} \
             must be cluster.num_gpus {num_gpus}"
        )
    };
    let data = match part.data_parallel {
        Some(data) => data,
        None if model_ranks > 0 && num_gpus.is_multiple_of(model_ranks) => num_gpus / model_ranks,
        None => {
            let (key, message) = indivisible(num_gpus, [tensor, pipeline, context]);
            notes.fault(key, message);
            return None;
        }
    };
    if data.saturating_mul(model_ranks) != num_gpus || num_gpus == 0 {
        notes.fault("distribution", product_rule(data));
        return None;
    }
    Some([data, tensor, pipeline, context])
}

/// Optimizer instances (Megatron), which each hold all states, and the ranks among which one copy is shared out.
fn shards(plan: &Plan, ranks: u64, notes: &mut Notes) -> Option<(u64, u64)> {
    let part = &plan.distribution;
    let instances = part.optimizer_instances.unwrap_or(1).max(1);
    let shard_ranks = part.shard_group.unwrap_or((ranks / instances).max(1));
    if shard_ranks == 0 || !ranks.is_multiple_of(shard_ranks) {
        notes.fault(
            keys::distribution::shard_group,
            format!("{shard_ranks} must divide data_parallel x context_parallel = {ranks}"),
        );
        return None;
    }
    Some((instances, shard_ranks))
}

/// What is wrong with so many GPUs on so many nodes: none are left over, and no node stands idle. The last one may be
/// used in part, where it is said how many a full one has.
fn misfit(num_gpus: u64, nodes: u64, each: Option<u64>) -> Option<String> {
    let Some(each) = each else {
        let uneven = nodes == 0 || !num_gpus.is_multiple_of(nodes);
        return uneven.then(|| {
            format!("{num_gpus} GPUs are not shared evenly by cluster.nodes {nodes}; cluster.gpus_per_node says how many a full node has")
        });
    };
    let all = nodes.saturating_mul(each);
    if num_gpus > all {
        return Some(format!("{num_gpus} is more than cluster.nodes x cluster.gpus_per_node = {all}"));
    }
    let used = num_gpus.div_ceil(each.max(1));
    (used < nodes).then(|| {
        format!("{num_gpus} GPUs are on {used} of {nodes} nodes: cluster.nodes x cluster.gpus_per_node is {all}")
    })
}

/// The key and what is wrong where tensor, pipeline and context parallelism leave no whole number of replicas: the one
/// of them that is more than 1, or all.
fn indivisible(num_gpus: u64, degrees: [u64; 3]) -> (&'static str, String) {
    const KEYS: [&str; 3] =
        ["distribution.tensor_parallel", "distribution.pipeline_parallel", "distribution.context_parallel"];
    let mut split = KEYS.into_iter().zip(degrees).filter(|(_, degree)| *degree != 1);
    if let (Some((key, degree)), None) = (split.next(), split.next()) {
        return (key, format!("{degree} must divide cluster.num_gpus {num_gpus}"));
    }
    let [tensor, pipeline, context] = degrees;
    let product = tensor.saturating_mul(pipeline).saturating_mul(context);
    let message = format!(
        "tensor_parallel {tensor} x pipeline_parallel {pipeline} x context_parallel {context} = {product} must divide \
         cluster.num_gpus {num_gpus}"
    );
    ("distribution", message)
}

fn sharding(plan: &Plan, profile: &Profile, notes: &mut Notes) -> Sharding {
    let part = &plan.distribution;
    let by_strategy = match part.strategy {
        Some(Strategy::Fsdp | Strategy::Zero3) => Some(Sharding::Zero3),
        Some(Strategy::Zero2) => Some(Sharding::Zero2),
        Some(Strategy::Zero1) => Some(Sharding::Zero1),
        _ => None,
    };
    let distributed = plan.training.distributed_optimizer;
    if let (Some(explicit), Some(strategy)) = (part.sharding, by_strategy)
        && explicit != strategy
    {
        notes.fault(
            keys::distribution::sharding,
            format!("{explicit} contradicts distribution.strategy, which means {strategy}"),
        );
    }
    let reads = profile.support.own_keys.is.contains(&"training.distributed_optimizer");
    if part.sharding == Some(Sharding::None) && distributed == Some(true) {
        notes.fault(keys::training::distributed_optimizer, "true means distribution.sharding zero1, which says none");
    }
    part.sharding.or(by_strategy).unwrap_or_else(|| match (distributed, part.engine) {
        (Some(true), _) if reads => Sharding::Zero1,
        (_, Some(engine)) => engine.by_itself(),
        _ => Sharding::None,
    })
}

/// What shares `asked` out over so many ranks: the plan's engine, else the one that this framework has for it.
fn engine(plan: &Plan, profile: &Profile, (asked, ranks, context): (Sharding, u64, u64), notes: &mut Notes) -> Engine {
    const KEY: &str = "distribution.engine";
    let rules = &profile.data_parallel;
    let precision = plan.training.precision.unwrap_or(profile.defaults.precision.is);
    let Some(given) = plan.distribution.engine else {
        let usual = rules.derived(asked, precision);
        // Who shares a sequence does so under FSDP2 alone.
        let shares = context > 1 && usual.is == Engine::Fsdp1 && rules.engines.is.contains(&Engine::Fsdp2);
        let (derived, shared) = if shares {
            let source = "accelerate 1.15, parallelism_config.py, `_validate_accelerator`";
            (Rule { is: Engine::Fsdp2, source }, format!(", context_parallel {context}"))
        } else {
            (usual, String::new())
        };
        if ranks > 1 && plan.training.mode != Some(Mode::Inference) {
            let why = format!("framework {}, sharding {asked}, precision {precision}{shared}", profile.name());
            notes.assume(KEY, format!("{} (from {why}; {})", derived.is, derived.source));
        }
        return derived.is;
    };
    if !rules.engines.is.contains(&given) {
        notes.fault(KEY, format!("{given}: {} runs under {}", profile.name(), list(rules.engines.is)));
    } else if ranks > 1 && !given.shardings().contains(&asked) {
        let can = list(given.shardings());
        notes.fault(KEY, format!("{given} shares out {can}; distribution.sharding is {asked}"));
    }
    given
}

/// `a`, `a or b`, `a, b or c`.
fn list<T: std::fmt::Display>(words: &[T]) -> String {
    match words {
        [] => String::new(),
        [one] => one.to_string(),
        [before @ .., last] => {
            let before: Vec<String> = before.iter().map(T::to_string).collect();
            format!("{} or {last}", before.join(", "))
        }
    }
}

/// Whether norms and residuals are split along the sequence: as the plan says, or as the framework does.
fn splits_sequence(plan: &Plan, profile: &Profile, notes: &mut Notes) -> bool {
    let default = profile.defaults.sequence_parallel.is && plan.training.mode != Some(Mode::Inference);
    if default && plan.distribution.sequence_parallel.is_none() {
        notes.assume(keys::distribution::sequence_parallel, true);
    }
    let given = plan.distribution.sequence_parallel;
    if given == Some(true) && !profile.splits_sequence() {
        let words =
            format!("true, for which {} has no switch: counted as Megatron splits norms and dropouts", profile.name());
        notes.assume(keys::distribution::sequence_parallel, words);
    }
    given.unwrap_or(default)
}

/// Expert parallel lives inside a stage: expert x expert-tensor divides data x context x tensor.
fn experts(plan: &Plan, tensor: u64, ranks: u64, notes: &mut Notes) -> Option<(u64, u64)> {
    let expert = plan.distribution.expert_parallel.unwrap_or(1);
    let expert_tensor = plan.distribution.expert_tensor_parallel.unwrap_or(tensor);
    let both = expert.saturating_mul(expert_tensor);
    if both == 0 || !ranks.is_multiple_of(both) {
        notes.fault(
            keys::distribution::expert_parallel,
            format!(
                "expert_parallel {expert} x expert_tensor_parallel {expert_tensor} must divide \
                 data_parallel x context_parallel x tensor_parallel = {ranks}"
            ),
        );
        return None;
    }
    Some((expert, expert_tensor))
}

fn schedule(plan: &Plan, pipeline: u64, notes: &mut Notes) -> Schedule {
    let part = &plan.distribution;
    let several = part.virtual_pipeline.is_some_and(|chunks| chunks > 1);
    match part.pipeline_schedule {
        Some(schedule) => {
            if several && schedule != Schedule::Interleaved {
                notes.fault(
                    keys::distribution::virtual_pipeline,
                    format!("needs pipeline_schedule interleaved, which is {schedule}"),
                );
            }
            if schedule == Schedule::Interleaved && !several && pipeline > 1 {
                notes.assume(keys::distribution::virtual_pipeline, "1: one piece a stage, which is 1f1b");
            }
            schedule
        }
        None if several => Schedule::Interleaved,
        None => {
            if pipeline > 1 {
                notes.assume(keys::distribution::pipeline_schedule, Schedule::OneFOneB);
            }
            Schedule::OneFOneB
        }
    }
}
