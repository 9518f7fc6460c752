//! Every plan of a few GPUs, predicted one by one: what a search has to find.

use crate::search::plan;
use crate::support::catalog;
use memwall::advise::{RankedPlan, SearchOutcome};
use memwall::plan::Document;
use memwall::predict::{self, Job, Prediction};

/// A plan of brute force: its settings as text, and what is predicted for them.
pub struct Brute {
    pub settings: String,
    pub prediction: Prediction,
}

impl Brute {
    fn fits(&self) -> bool {
        self.prediction.capacity.needed <= self.prediction.capacity.bytes
    }
}

/// The space as the rules of parallel training have it, written down once more: nothing of the search is used.
pub fn brute(
    base: &str,
    (gpus, batch, sequence, layers): (u64, u64, u64, u64),
    megatron: bool,
    experts: u64,
) -> Vec<Brute> {
    let catalog = catalog();
    let mut all = Vec::new();
    let to = |most: u64| 1..=most;
    for (tp, pp, cp) in to(gpus).flat_map(|t| to(gpus).flat_map(move |p| to(gpus).map(move |c| (t, p, c)))) {
        let model = tp * pp * cp;
        if !gpus.is_multiple_of(model) || (cp > 1 && !sequence.is_multiple_of(2 * cp)) {
            continue;
        }
        // A Trainer has no stages: DeepSpeed's (runtime/pipe/module.py) and PyTorch's are written by hand.
        if !megatron && pp > 1 {
            continue;
        }
        let dp = gpus / model;
        if !batch.is_multiple_of(dp) {
            continue;
        }
        let mut settings = Vec::new();
        // Megatron trains experts under tensor parallelism with sequence parallelism alone (moe_layer.py); transformers has
        // no switch for that (models/llama/configuration_llama.py, `base_model_tp_plan`).
        let legal = |sp: &bool| if tp == 1 || !megatron { !sp } else { *sp || experts < 2 };
        for sp in [false, true].into_iter().filter(legal) {
            for micro in to(batch / dp).filter(|micro| (batch / dp).is_multiple_of(*micro)) {
                let steps = batch / dp / micro;
                let mut schedules = vec!["1f1b, virtual_pipeline: 1".to_owned()];
                if pp > 1 {
                    schedules.push("gpipe, virtual_pipeline: 1".to_owned());
                    let chunks =
                        to(layers).filter(|v| *v > 1 && layers.is_multiple_of(pp * v) && steps.is_multiple_of(pp));
                    schedules.extend(chunks.map(|v| format!("interleaved, virtual_pipeline: {v}")));
                }
                let shardings: &[&str] = match (dp * cp > 1, megatron) {
                    (false, _) => &["none"],
                    (true, true) => &["none", "zero1"],
                    (true, false) => &["none", "zero1", "zero2", "zero3"],
                };
                let mut expert = vec![(1, tp)];
                if experts > 1 {
                    expert = to(experts)
                        .filter(|ep| experts.is_multiple_of(*ep))
                        .flat_map(|ep| [(ep, 1), (ep, tp)])
                        .collect();
                    expert.dedup();
                    expert.retain(|(ep, etp)| (dp * cp * tp).is_multiple_of(ep * etp));
                }
                for ((schedule, sharding), (ep, etp)) in schedules
                    .iter()
                    .flat_map(|schedule| shardings.iter().map(move |sharding| (schedule, sharding)))
                    .flat_map(|pair| expert.iter().map(move |expert| (pair, *expert)))
                {
                    for recompute in ["none", "selective", "full"] {
                        // Megatron refuses --cpu-offloading-num-layers with a pipeline or with recomputation, and has
                        // no argument for weights. FSDP, which has the sharding of 16-bit gradients and weights, moves
                        // weights with the states (torch/distributed/fsdp/api.py, `CPUOffload`).
                        let fsdp = matches!(*sharding, "zero2" | "zero3");
                        let offloads: &[&str] = match (megatron, pp == 1 && recompute == "none") {
                            (true, false) => &["none", "optimizer"],
                            (true, true) => &["none", "optimizer", "activations"],
                            (false, _) if fsdp => &["none", "parameters", "activations"],
                            (false, _) => &["none", "optimizer", "parameters", "activations"],
                        };
                        for offload in offloads {
                            settings.push(format!(
                                "training: {{precision: bf16, activation_checkpointing: {recompute}, cpu_offload: {offload}, \
                                 micro_batch_size: {micro}, gradient_accumulation_steps: {steps}}}\n\
                                 distribution: {{data_parallel: {dp}, tensor_parallel: {tp}, pipeline_parallel: {pp}, \
                                 context_parallel: {cp}, expert_parallel: {ep}, expert_tensor_parallel: {etp}, \
                                 sequence_parallel: {sp}, sharding: {sharding}, pipeline_schedule: {schedule}}}\n"
                            ));
                        }
                    }
                }
            }
        }
        for settings in settings {
            if let Ok(prediction) = predict::of(&plan(&format!("{base}{settings}")), catalog) {
                all.push(Brute { settings, prediction });
            }
        }
    }
    all
}

/// What both must agree in: how many there are, how many fit, the best and the front.
pub fn agrees(text: &str, found: &SearchOutcome, all: &[Brute]) {
    assert_eq!(found.evaluated + found.pruned, all.len() as u64, "the same space");
    let mut fitting: Vec<&Brute> = all.iter().filter(|one| one.fits()).collect();
    assert!(
        !fitting.is_empty() && fitting.len() < all.len(),
        "{} of {} fit: a test of little",
        fitting.len(),
        all.len()
    );
    fitting.sort_by(|a, b| a.prediction.time.step.0.total_cmp(&b.prediction.time.step.0));
    for (brute, ranked) in fitting.iter().zip(&found.ranked) {
        let (by_force, by_search) = (brute.prediction.time.step, ranked.outline.time.step);
        assert!(
            (by_force.0 / by_search.0 - 1.0).abs() < 1e-12,
            "{by_force} of {}, {by_search} of {ranked:?}",
            brute.settings
        );
    }
    // The front by its definition: nothing that fits is as fast and as small, and better in one of both.
    let most = 1.5 * fitting[0].prediction.time.step.0;
    let mut front: Vec<(f64, u64)> = Vec::new();
    for one in fitting.iter().filter(|one| one.prediction.time.step.0 <= most) {
        let (step, needed) = (one.prediction.time.step.0, one.prediction.capacity.needed.0);
        match front.last_mut() {
            Some(last) if last.0 == step => last.1 = last.1.min(needed),
            Some(last) if last.1 <= needed => {}
            _ => front.push((step, needed)),
        }
    }
    front.dedup_by(|next, one| next.1 >= one.1);
    let found_front: Vec<(f64, u64)> =
        found.front.iter().map(|one| (one.outline.time.step.0, one.outline.capacity.needed.0)).collect();
    assert_eq!(found_front, front, "the front");
    for one in found.ranked.iter().chain(&found.front) {
        realised(text, one);
    }
}

/// The change of a plan's text comes to the plan whose figures are told.
pub fn realised(text: &str, one: &RankedPlan) {
    let edited = Document::parse(text).unwrap().changed(&one.change).unwrap();
    let catalog = catalog();
    let job =
        Job::resolve(&edited.plan().unwrap(), catalog).unwrap_or_else(|faults| panic!("{faults:?}: {}", edited.text()));
    assert_eq!(memwall::advise::Knobs::of(&job), one.knobs, "{}", edited.text());
    let prediction = predict::predict(&job);
    assert_eq!(prediction.capacity, one.outline.capacity, "{}", edited.text());
    assert_eq!(prediction.time, one.outline.time, "{}", edited.text());
}
