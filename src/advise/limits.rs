//! How small a cluster may be, and how large a model: searches that end at the first plan that fits.

use super::search::{KNOBS, RankedPlan, Request, SearchProgress, divisors, search};
use crate::catalog::Catalog;
use crate::plan::keys;
use crate::plan::{Change, Fault, Plan};
use crate::predict::Job;

/// Beyond this nobody asks for more GPUs.
const MOST_GPUS: u64 = 1 << 16;

/// Sizes are found to this share.
const EXACT: f64 = 0.02;

/// Billions of parameters that are tried at most.
const MOST_BILLIONS: f64 = 20_000.0;

/// The fewest GPUs on which the plan fits with any setting of its knobs, and the quickest such plan. Up to a node
/// their number doubles; above it is whole nodes.
///
/// # Errors
/// Every fault of the plan itself.
pub fn fewest_gpus(
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Result<Option<(u64, RankedPlan)>, Vec<Fault>> {
    let node = any_size(request.plan, catalog)?.hardware.gpus_per_node.max(1);
    let fits = |gpus: u64| with_gpus(request, gpus, catalog, progress);
    let within = std::iter::successors(Some(1_u64), |gpus| Some(gpus * 2)).take_while(|gpus| *gpus < node);
    for gpus in within {
        if let Some(found) = fits(gpus) {
            return Ok(Some((gpus, found)));
        }
    }
    // Doubling the nodes first, then between the last that is too small and the first that is not.
    let (mut small, mut large) = (0, 1);
    let mut found = loop {
        if progress.is_cancelled() || large * node > MOST_GPUS {
            return Ok(None);
        }
        match fits(large * node) {
            Some(found) => break found,
            None => (small, large) = (large, large * 2),
        }
    };
    while large - small > 1 && !progress.is_cancelled() {
        let middle = small + (large - small) / 2;
        match fits(middle * node) {
            Some(better) => (found, large) = (better, middle),
            None => small = middle,
        }
    }
    Ok(Some((large * node, found)))
}

/// The job of a plan, or where its own degrees do not go with its batch, of one GPU: what of it does not depend on them.
fn any_size(plan: &Plan, catalog: &Catalog) -> Result<Job, Vec<Fault>> {
    Job::resolve(plan, catalog).or_else(|faults| {
        let mut alone = plan.clone();
        for key in KNOBS.iter().filter(|key| key.starts_with("distribution.")) {
            alone.clear(key);
        }
        alone.distribution.strategy = None;
        (alone.cluster.num_gpus, alone.cluster.nodes) = (Some(1), None);
        Job::resolve(&alone, catalog).map_err(|_| faults)
    })
}

fn with_gpus(request: &Request<'_>, gpus: u64, catalog: &Catalog, progress: &SearchProgress) -> Option<RankedPlan> {
    let other = Change { remove: vec!["cluster.nodes", "distribution.data_parallel"], ..Change::default() };
    let other = other.and("cluster.num_gpus", gpus.to_string());
    let set = |plan: &mut Plan| plan.cluster.num_gpus = Some(gpus);
    any(request, &other, set, catalog, progress)
}

/// A plan that fits, with any setting of the knobs but offload, which stays as the plan has it: how much the host holds
/// no plan says. What `other` removes is gone and `set` has been done, which is what `other` sets. The change that is
/// returned is one of the plan as it was given.
fn any(
    request: &Request<'_>,
    other: &Change,
    set: impl Fn(&mut Plan),
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Option<RankedPlan> {
    const OFFLOAD: &str = "training.cpu_offload";
    let mut plan = request.plan.clone();
    for key in &other.remove {
        plan.clear(key);
    }
    set(&mut plan);
    let mut keep = request.keep.clone();
    if !keep.contains(&OFFLOAD) {
        keep.push(OFFLOAD);
    }
    // Degrees that only suited another size are the search's to choose.
    for key in KNOBS.iter().filter(|key| !keep.contains(key)) {
        plan.clear(key);
    }
    plan.distribution.strategy = None;
    plan.training.distributed_optimizer = None;
    let batch = any_size(request.plan, catalog).ok()?.batch.global;
    plan.model.batch_size = Some(batch);
    let plan = legal(&plan, batch, catalog)?;
    let freed = Request { plan: &plan, keep, top: 1, until_fit: true, free_batch: false };
    let mut found = search(&freed, catalog, progress).ok()?.ranked.into_iter().next()?;
    found.change = since_given(request, &freed, batch, other, &found.change);
    Some(found)
}

/// The whole change, of one that is against the plan that the search started from.
fn since_given(request: &Request<'_>, freed: &Request<'_>, batch: u64, other: &Change, last: &Change) -> Change {
    let mut whole = other.clone();
    if request.plan.model.batch_size.is_none() {
        whole = whole.and("model.batch_size", batch.to_string());
    }
    whole.set.extend(last.set.iter().cloned());
    let start = &freed.plan.distribution;
    let degrees = [
        ("distribution.tensor_parallel", start.tensor_parallel),
        ("distribution.pipeline_parallel", start.pipeline_parallel),
        ("distribution.context_parallel", start.context_parallel),
    ];
    for (key, degree) in degrees {
        if let Some(degree) = degree.filter(|degree| *degree != 1)
            && !whole.set.iter().any(|(set, _)| *set == key)
        {
            whole = whole.and(key, degree.to_string());
        }
    }
    let free = KNOBS.into_iter().filter(|key| !freed.keep.contains(key));
    let unsaid = free.chain(["distribution.strategy", "training.distributed_optimizer"]);
    whole.remove.extend(unsaid.chain(last.remove.iter().copied()));
    whole.remove.sort_unstable();
    whole.remove.dedup();
    whole.remove.retain(|key| !whole.set.iter().any(|(set, _)| set == key));
    whole
}

/// The plan with degrees to start a search from: as many replicas as share out the batch, and the other GPUs as the
/// model's heads and layers allow. None where no degrees do.
fn legal(plan: &Plan, batch: u64, catalog: &Catalog) -> Option<Plan> {
    let gpus = plan.cluster.num_gpus.or_else(|| Some(Job::resolve(plan, catalog).ok()?.degrees.num_gpus))?;
    let given = |degree: Option<u64>| degree.map_or_else(|| divisors(gpus), |degree| vec![degree]);
    let tensors = given(plan.distribution.tensor_parallel);
    let pipelines = given(plan.distribution.pipeline_parallel);
    let contexts = given(plan.distribution.context_parallel);
    let all = contexts.iter().flat_map(|context| {
        pipelines.iter().flat_map(|pipeline| tensors.iter().map(|tensor| [*tensor, *pipeline, *context]))
    });
    all.filter_map(|[tensor, pipeline, context]| {
        let others = tensor.checked_mul(pipeline)?.checked_mul(context)?;
        let replicas = gpus / others;
        let shares = gpus.is_multiple_of(others) && batch.is_multiple_of(replicas);
        let mut plan = plan.clone();
        plan.distribution.tensor_parallel = Some(tensor);
        plan.distribution.pipeline_parallel = Some(pipeline);
        plan.distribution.context_parallel = Some(context);
        (shares && Job::resolve(&plan, catalog).is_ok()).then_some(plan)
    })
    .next()
}

/// The largest models that fit the plan's cluster with any setting of its knobs.
#[derive(Debug, Clone, PartialEq)]
pub struct LargestModel {
    /// Of the catalogue: its name, and a plan for it.
    pub preset: Option<(String, RankedPlan)>,
    /// A standard decoder: billions of parameters, to two percent.
    pub billions: Option<(f64, RankedPlan)>,
}

/// Finds them.
///
/// # Errors
/// Every fault of the plan itself.
pub fn largest_model(
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Result<LargestModel, Vec<Fault>> {
    let job = Job::resolve(request.plan, catalog)?;
    let kind = job.architecture.kind();
    let fits = |change: Change, set: &dyn Fn(&mut Plan)| {
        let remove = vec!["model.hf_config", "model.preset", "model.architecture", "model.size_billions", "model.type"];
        any(request, &Change { remove, ..change }, set, catalog, progress)
    };
    let mut presets: Vec<(u64, &str)> = catalog
        .models
        .iter()
        .filter_map(|model| {
            let mut plan = request.plan.clone();
            plan.model.hf_config = None;
            plan.model.preset = Some(model.name.clone());
            plan.model.model_type = Some(kind);
            let job = Job::resolve(&plan, catalog).ok()?;
            Some((job.params.total, model.name.as_str()))
        })
        .collect();
    presets.sort_unstable_by(|a, b| b.cmp(a));
    let preset = presets.into_iter().find_map(|(_, name)| {
        let found = fits(Change::to(keys::model::preset, name), &|plan| plan.model.preset = Some(name.to_owned()))?;
        Some((name.to_owned(), found))
    });
    let of_size = |billions: f64| {
        let size = Change::to(keys::model::size_billions, billions.to_string()).and("model.type", kind.to_string());
        fits(size, &|plan| {
            plan.model.size_billions = Some(billions);
            plan.model.model_type = Some(kind);
        })
    };
    Ok(LargestModel { preset, billions: largest_size(of_size, progress) })
}

fn largest_size(fits: impl Fn(f64) -> Option<RankedPlan>, progress: &SearchProgress) -> Option<(f64, RankedPlan)> {
    let (mut small, mut large) = (0.1, MOST_BILLIONS);
    let mut found = fits(small)?;
    while large / small > 1.0 + EXACT && !progress.is_cancelled() {
        let middle = (small * large).sqrt();
        match fits(middle) {
            Some(plan) => (found, small) = (plan, middle),
            None => large = middle,
        }
    }
    Some((small, found))
}
