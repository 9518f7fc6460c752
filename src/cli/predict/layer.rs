//! `memwall predict --layer linear:16384x16384 --input 32x4096x16384`.

use rayon::prelude::*;
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::cli::Failure;
use crate::cli::args::PredictArgs;
use crate::model::LayerList;
use crate::order::StableOrder;
use crate::plan::Plan;
use crate::predict::{Job, backward_tensors, predict};
use crate::report::layer::{LayerReport, TriedGpu};

/// The layers as the plan that says the same.
///
/// # Errors
/// Where the input's shape is none, or not what the first layer reads; the plan's own reader checks the rest.
pub fn plan(args: &PredictArgs) -> Result<Value, Failure> {
    if let Some(option) = args.shape.first_of_model() {
        return Err(Failure::usage(format!("{option} goes with the name of a model, not with --layer")));
    }
    let shape = args.input.as_deref().unwrap_or_default();
    let sizes = sizes(shape).ok_or_else(|| {
        Failure::usage(format!("--input {shape}: must be SAMPLESxROWSxCOLUMNS or ROWSxCOLUMNS, such as 32x4096x16384"))
    })?;
    if let Ok(list) = LayerList::read(&args.layer)
        && list.input != sizes.2
    {
        let (given, read) = (sizes.2, list.input);
        return Err(Failure::usage(format!("--input {shape}: has {given} columns, the first layer reads {read}")));
    }
    let mut plan = json!({
        "model": {
            "type": "mlp",
            "layers": args.layer,
            "input_gradient": true,
            "batch_size": sizes.0,
            "sequence_length": sizes.1,
        },
        "training": {"precision": "fp32", "optimizer": "sgd"},
    });
    args.shape.fill(&mut plan);
    Ok(plan)
}

/// Samples, rows of each and columns.
fn sizes(shape: &str) -> Option<(u64, u64, u64)> {
    let sizes: Vec<u64> = shape.split('x').map(|size| size.trim().parse().ok()).collect::<Option<_>>()?;
    match sizes[..] {
        [samples, rows, columns] => Some((samples, rows, columns)),
        [rows, columns] => Some((rows, 1, columns)),
        _ => None,
    }
}

/// What the layer holds, and every GPU of the catalogue with what the layer needs there.
pub fn report(plan: &Plan, job: &Job, catalog: &Catalog) -> LayerReport {
    let needs = |name: &str| {
        let mut plan = plan.clone();
        plan.hardware.gpu_type = Some(name.to_owned());
        Job::resolve(&plan, catalog).ok().map(|job| predict(&job).capacity)
    };
    let mut gpus: Vec<TriedGpu> = catalog
        .gpus
        .par_iter()
        .filter_map(|gpu| {
            let capacity = needs(&gpu.name)?;
            Some(TriedGpu { name: gpu.short.clone(), memory: capacity.bytes, needed: capacity.needed })
        })
        .collect();
    gpus.order_by_key(|gpu| gpu.memory);
    LayerReport { tensors: backward_tensors(job).unwrap_or_default(), gpus }
}
