//! How small a cluster may be, and how large a model: searches that end at the first plan that fits.

use super::search::{KNOBS, LAYOUT, RankedPlan, Request, SearchProgress, any_that_fits, divisors, search};
use crate::catalog::Catalog;
use crate::plan::keys;
use crate::plan::keywords::ModelType;
use crate::plan::{Change, Fault, Plan};
use crate::predict::Job;
use crate::units::three_figures;

const OFFLOAD: &str = keys::training::cpu_offload;

/// Numbers of nodes that are tried one by one: above that halves are told apart, taking it that twice as many hold no less.
const ONE_BY_ONE: u64 = 64;

/// Beyond this nobody asks for more GPUs.
const MOST_GPUS: u64 = 1 << 16;

/// Sizes are found to this share.
const EXACT: f64 = 0.02;

/// Billions of parameters that are tried at most.
const MOST_BILLIONS: f64 = 20_000.0;

/// Whether a size is the largest that is tried: larger ones may fit as well.
#[must_use]
pub fn is_largest_tried(billions: f64) -> bool {
    billions * (1.0 + 2.0 * EXACT) > MOST_BILLIONS
}

/// An answer twice: how much the host holds no plan says, and offload brings almost any model onto one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit<T> {
    /// With any setting of the knobs: what a search of such a plan would find.
    pub any: T,
    /// With nothing more in host memory than the plan itself asks for.
    pub kept: T,
}

impl Limit<FewestGpus> {
    /// The answers that differ, the one with every knob free first.
    #[must_use]
    pub fn apart(&self) -> Vec<&(u64, RankedPlan)> {
        let fewer = |(gpus, _): &&(u64, RankedPlan)| self.any.as_ref().is_none_or(|(any, _)| any != gpus);
        self.any.iter().chain(self.kept.iter().filter(fewer)).collect()
    }
}

impl Limit<LargestModel> {
    /// The answers that differ, the one with every knob free first.
    #[must_use]
    pub fn apart(&self) -> Vec<&LargestModel> {
        let is_same = self.any.sizes() == self.kept.sizes();
        [&self.any, &self.kept].into_iter().take(if is_same { 1 } else { 2 }).collect()
    }
}

/// How many GPUs, and a plan for them; none where no number is enough.
pub type FewestGpus = Option<(u64, RankedPlan)>;

/// The fewest GPUs on which the plan fits, and the quickest such plan. Up to a node any number is tried, beyond it whole nodes.
///
/// # Errors
/// Every fault of the plan itself.
pub fn fewest_gpus(
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Result<Limit<FewestGpus>, Vec<Fault>> {
    let node = any_size(request.plan, catalog)?.hardware.gpus_per_node.max(1);
    let least = |request: &Request<'_>, below: u64| {
        let fits = |gpus: u64| StartingPoint::of_gpus(request, gpus, catalog)?.any(catalog, progress);
        let (gpus, any) = least_that_fits(fits, (node, below), progress)?;
        let start = StartingPoint::of_gpus(request, gpus, catalog)?;
        Some((gpus, start.quickest(catalog, progress).unwrap_or_else(|| start.told(any, catalog))))
    };
    let kept = least(&offloading_as_given(request), MOST_GPUS + 1);
    let most = kept.as_ref().map_or(MOST_GPUS + 1, |(gpus, _)| *gpus);
    let fewer = if request.keep.contains(&OFFLOAD) { None } else { least(request, most) };
    Ok(Limit { any: fewer.or_else(|| kept.clone()), kept })
}

/// The first size for which `fits` has something, below `below`: every number of GPUs of a node, then every number of
/// nodes; of more than [`ONE_BY_ONE`] that it may be, halves are told apart first.
fn least_that_fits<T>(
    fits: impl Fn(u64) -> Option<T>,
    (node, below): (u64, u64),
    progress: &SearchProgress,
) -> Option<(u64, T)> {
    let fits = |gpus: u64| if gpus < below && !progress.is_cancelled() { fits(gpus) } else { None };
    if let Some(found) = (1..=node).find_map(|gpus| Some((gpus, fits(gpus)?))) {
        return Some(found);
    }
    let (mut small, mut large) = (1, 2);
    let mut found = loop {
        if progress.is_cancelled() || (small + 1) * node >= below {
            return None;
        }
        // The last step ends where no more are wanted.
        let last = large.min((below - 1) / node);
        match fits(last * node) {
            Some(found) => break (last * node, found),
            None => (small, large) = (large, large * 2),
        }
    };
    large = found.0 / node;
    while large - small > ONE_BY_ONE {
        let middle = small + (large - small) / 2;
        match fits(middle * node) {
            Some(better) => (found, large) = ((middle * node, better), middle),
            None => small = middle,
        }
    }
    (small + 1..large).find_map(|nodes| Some((nodes * node, fits(nodes * node)?))).or(Some(found))
}

/// The same with nothing more in host memory than the plan asks for.
fn offloading_as_given<'a>(request: &Request<'a>) -> Request<'a> {
    let mut kept = request.clone();
    if !kept.keep.contains(&OFFLOAD) {
        kept.keep.push(OFFLOAD);
    }
    kept
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

/// The plan of a request with another cluster or model, to search from.
struct StartingPoint<'a> {
    request: &'a Request<'a>,
    /// What it changes in the plan as it was given.
    other: Change,
    /// With degrees that go with its batch.
    plan: Plan,
    batch: u64,
    keep: Vec<&'static str>,
}

impl<'a> StartingPoint<'a> {
    /// What `other` removes is gone and `set` has been done, which is what `other` sets. Every knob is free that the request
    /// does not keep. None where no degrees go with the batch.
    fn of(request: &'a Request<'a>, other: Change, set: impl Fn(&mut Plan), catalog: &Catalog) -> Option<Self> {
        let mut plan = request.plan.clone();
        for key in &other.remove {
            plan.clear(key);
        }
        set(&mut plan);
        let keep = request.keep.clone();
        // Degrees that only suited another size are the search's to choose.
        for key in KNOBS.iter().filter(|key| !keep.contains(key)) {
            plan.clear(key);
        }
        plan.distribution.strategy = None;
        plan.training.distributed_optimizer = None;
        let batch = any_size(request.plan, catalog).ok()?.batch.global;
        plan.model.batch_size = Some(batch);
        let plan = legal(&plan, batch, &keep, catalog)?;
        Some(Self { request, other, plan, batch, keep })
    }

    fn of_gpus(request: &'a Request<'a>, gpus: u64, catalog: &Catalog) -> Option<Self> {
        let other = Change { remove: vec!["cluster.nodes", "distribution.data_parallel"], ..Change::default() };
        let other = other.and("cluster.num_gpus", gpus.to_string());
        Self::of(request, other, |plan| plan.cluster.num_gpus = Some(gpus), catalog)
    }

    fn freed(&self) -> Request<'_> {
        Request { plan: &self.plan, keep: self.keep.clone(), top: 1, free_batch: false }
    }

    /// A plan that fits.
    fn any(&self, catalog: &Catalog, progress: &SearchProgress) -> Option<RankedPlan> {
        any_that_fits(&self.freed(), catalog, progress).ok()?
    }

    /// The quickest plan that fits with the degrees of `found`.
    fn quickest_like(&self, found: RankedPlan, catalog: &Catalog, progress: &SearchProgress) -> RankedPlan {
        let quickest = || {
            let job = Job::resolve(&self.plan, catalog).ok()?;
            let mut plan = self.plan.clone();
            found.knobs.apply(&mut plan, &job);
            let mut request = Request { plan: &plan, ..self.freed() };
            request.keep.extend(LAYOUT);
            let quickest = search(&request, catalog, progress).ok()?.ranked.into_iter().next()?;
            let change = quickest.knobs.change(&self.plan, &job);
            Some(self.told(RankedPlan { change, ..quickest }, catalog))
        };
        quickest().unwrap_or_else(|| self.told(found, catalog))
    }

    /// The quickest plan that fits.
    fn quickest(&self, catalog: &Catalog, progress: &SearchProgress) -> Option<RankedPlan> {
        let found = search(&self.freed(), catalog, progress).ok()?.ranked.into_iter().next()?;
        Some(self.told(found, catalog))
    }

    /// `found` as a change of the plan that was given.
    fn told(&self, mut found: RankedPlan, catalog: &Catalog) -> RankedPlan {
        if let Ok(start) = Job::resolve(&self.plan, catalog) {
            found.ask_for_host(&self.plan, &start, catalog);
        }
        found.change = since_given(self.request, &self.freed(), self.batch, &self.other, &found.change);
        found
    }
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
/// model's heads and layers allow. A degree that is kept open is 1. None where no degrees do.
pub(super) fn legal(plan: &Plan, batch: u64, keep: &[&str], catalog: &Catalog) -> Option<Plan> {
    let gpus = plan.gpus().or_else(|| Some(Job::resolve(plan, catalog).ok()?.degrees.num_gpus))?;
    let open = |key: &str| if keep.contains(&key) { vec![1] } else { divisors(gpus) };
    let given = |degree: Option<u64>, key: &str| degree.map_or_else(|| open(key), |degree| vec![degree]);
    let tensors = given(plan.distribution.tensor_parallel, keys::distribution::tensor_parallel);
    let pipelines = given(plan.distribution.pipeline_parallel, keys::distribution::pipeline_parallel);
    let contexts = given(plan.distribution.context_parallel, keys::distribution::context_parallel);
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

impl LargestModel {
    /// Without the plans.
    fn sizes(&self) -> (Option<&str>, Option<f64>) {
        (self.preset.as_ref().map(|(name, _)| name.as_str()), self.billions.as_ref().map(|(size, _)| *size))
    }

    /// Its plans, each with what it is for.
    pub fn plans(&self) -> impl Iterator<Item = (String, &RankedPlan)> {
        let preset = self.preset.iter().map(|(name, plan)| (name.clone(), plan));
        preset.chain(self.billions.iter().map(|(size, plan)| (format!("{} B", three_figures(*size)), plan)))
    }
}

/// Finds them.
///
/// # Errors
/// Every fault of the plan itself.
pub fn largest_model(
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Result<Limit<LargestModel>, Vec<Fault>> {
    let kind = Job::resolve(request.plan, catalog)?.architecture.kind();
    let kept = largest(&offloading_as_given(request), kind, catalog, progress);
    let offloads = request.keep.contains(&OFFLOAD);
    let any = if offloads { kept.clone() } else { largest(request, kind, catalog, progress) };
    Ok(Limit { any, kept })
}

fn largest(request: &Request<'_>, kind: ModelType, catalog: &Catalog, progress: &SearchProgress) -> LargestModel {
    let held = |change: Change, set: &dyn Fn(&mut Plan)| {
        let remove = vec!["model.hf_config", "model.preset", "model.architecture", "model.size_billions", "model.type"];
        StartingPoint::of(request, Change { remove, ..change }, set, catalog)
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
        let named = Change::to(keys::model::preset, name);
        let held = held(named, &|plan| plan.model.preset = Some(name.to_owned()))?;
        let any = held.any(catalog, progress)?;
        Some((name.to_owned(), held.quickest_like(any, catalog, progress)))
    });
    let of_size = |billions: f64| {
        let size = Change::to(keys::model::size_billions, billions.to_string()).and("model.type", kind.to_string());
        held(size, &|plan| {
            plan.model.size_billions = Some(billions);
            plan.model.model_type = Some(kind);
        })
    };
    let fits = |billions: f64| of_size(billions)?.any(catalog, progress);
    let billions = largest_size(fits, progress)
        .and_then(|(billions, any)| Some((billions, of_size(billions)?.quickest_like(any, catalog, progress))));
    LargestModel { preset, billions }
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
