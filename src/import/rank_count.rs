//! How many GPUs a run has, where only its batches or its degrees tell.

use super::imported::ImportedPlan;
use super::origin::Origin;
use crate::plan::keys;

/// The degrees that share out a replica's work.
const MODEL_DEGREES: [&str; 3] =
    ["distribution.tensor_parallel", "distribution.pipeline_parallel", "distribution.context_parallel"];

/// Where nobody tells the number of GPUs, three batch sizes do, or the degrees, where the data-parallel one is stated.
pub fn told(imported: &mut ImportedPlan) {
    ranks_of_batch(imported);
    let data = imported.whole(keys::distribution::data_parallel).filter(|data| *data > 0);
    if let Some(data) = data.filter(|_| imported.get(keys::cluster::num_gpus).is_none())
        && let Some(gpus) = MODEL_DEGREES
            .iter()
            .try_fold(data, |product, key| product.checked_mul(imported.whole(key).unwrap_or(1).max(1)))
    {
        imported.say(keys::cluster::num_gpus, gpus, Origin::Derived("data x tensor x pipeline x context".to_owned()));
    }
}

/// Each replica takes its part of the global batch (DeepSpeed refuses to start with any other number).
fn ranks_of_batch(imported: &mut ImportedPlan) {
    let whole = |key| imported.whole(key).filter(|number| *number > 0);
    let (Some(global), Some(micro), Some(steps)) =
        (whole("model.batch_size"), whole("training.micro_batch_size"), whole("training.gradient_accumulation_steps"))
    else {
        return;
    };
    // Of Megatron-DeepSpeed the loader's micro batch is Megatron's argument, which nothing compares with the batch of the
    // engine's configuration.
    let framework = imported.get(keys::model::framework).is_some_and(|found| found.value == "megatron-deepspeed");
    let of_loader = imported.get(keys::training::micro_batch_size).map(|found| &found.origin);
    if framework && matches!(of_loader, Some(Origin::Argument(_))) {
        return;
    }
    let local = micro.checked_mul(steps).filter(|local| global.is_multiple_of(*local));
    let share = MODEL_DEGREES.iter().try_fold(1_u64, |product, key| product.checked_mul(whole(key).unwrap_or(1)));
    let Some((data, gpus)) = local.zip(share).and_then(|(local, share)| {
        let data = global / local;
        Some((data, data.checked_mul(share)?))
    }) else {
        return;
    };
    let origin = Origin::Derived(format!("batch {global} / micro batch {micro} / {steps} steps"));
    imported.say(keys::distribution::data_parallel, data, origin.clone());
    imported.say(keys::cluster::num_gpus, gpus, origin);
}

/// Data parallelism: what the other degrees leave of the GPUs.
pub fn degrees(imported: &mut ImportedPlan) {
    let others: Vec<u64> = MODEL_DEGREES.iter().map(|key| imported.whole(key).unwrap_or(1).max(1)).collect();
    let share = others.iter().try_fold(1_u64, |product, degree| product.checked_mul(*degree));
    let (Some(gpus), Some(share)) = (imported.whole(keys::cluster::num_gpus), share) else { return };
    if imported.get(keys::distribution::data_parallel).is_some() {
        return;
    }
    if imported.missing.iter().any(|missing| MODEL_DEGREES.contains(&missing.key)) {
        return imported.miss(keys::distribution::data_parallel, "needs the other degrees");
    }
    if !gpus.is_multiple_of(share) {
        imported.note(format!("{gpus} GPUs are no multiple of tensor x pipeline x context = {share}"));
        for key in ["cluster.num_gpus", "cluster.nodes", "cluster.gpus_per_node"] {
            imported.drop(key);
        }
        imported.miss(keys::cluster::num_gpus, format!("the launcher's {gpus} do not go with the degrees"));
        imported.miss(keys::distribution::data_parallel, "needs the number of GPUs");
        return;
    }
    let words: Vec<String> = others.iter().map(u64::to_string).collect();
    let origin = if share == 1 {
        Origin::Derived(if gpus == 1 { "the only GPU".to_owned() } else { format!("all {gpus} GPUs") })
    } else {
        Origin::Derived(format!("{gpus} GPUs / tensor x pipeline x context ({})", words.join(" x ")))
    };
    imported.say(keys::distribution::data_parallel, gpus / share, origin);
}
