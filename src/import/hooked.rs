//! What the hook inside of a process says of its run goes over what its command suggests: it has looked at the tensors.

use super::common;
use super::imported::ImportedPlan;
use super::origin::Origin;
use crate::plan::keys;
use crate::reading::{HookAbout, HookModules, HookedRun, InputShape, ModuleKind};
use crate::units::grouped;

/// Sets what the hook tells otherwise than the command, and fills in what the command leaves open. Lines that matter most
/// come first among the notes.
pub fn tell(imported: &mut ImportedPlan, run: &HookedRun) {
    let Some(about) = &run.about else { return };
    if imported.names_no_model().is_some() && about.params_are_all {
        let class = about.model.as_deref().unwrap_or("of an unknown class");
        let layers = run.modules.as_ref().and_then(HookModules::classes);
        let layers = layers.map_or_else(String::new, |layers| format!(": {layers}"));
        imported.note(format!("the hook: the run's model is {class}, {} parameters{layers}", grouped(about.params)));
        if let Some(held) = about.static_words() {
            imported.note(format!("the hook: {held}"));
        }
    }
    precision(imported, about, run.modules.as_ref());
    tell_vocabulary(imported, run);
    optimizer(imported, about);
    let told = about.checkpointed.map(|on| if on { "full" } else { "none" });
    let planned = imported.get(keys::training::activation_checkpointing).and_then(|found| found.value.as_str());
    let differs = match (told, planned) {
        (Some("none"), Some(word)) => word != "none",
        (Some(_), Some("none") | None) => true,
        _ => false,
    };
    if let Some(word) = told.filter(|_| differs) {
        imported.say(keys::training::activation_checkpointing, word, origin("what its modules recompute"));
    }
    if let Some(world) = about.world {
        ranks(imported, u64::from(world));
    }
    if about.device == "cpu" {
        imported.note("the hook: its parameters are on the CPU; no GPU is used");
        common::on_cpu(imported, origin("its parameters are on the CPU"));
    }
    let tokens = run.step.as_ref().and_then(|step| step.tokens);
    if let Some(modules) = &run.modules {
        first_batch(imported, modules, tokens);
    }
    if let Some(tokens) = tokens {
        samples(imported, tokens);
    }
    common::derive(imported);
}

/// What follows from the number of ranks.
const FOLLOWING: [&str; 5] = [
    keys::cluster::num_gpus,
    keys::cluster::nodes,
    keys::cluster::gpus_per_node,
    keys::distribution::data_parallel,
    keys::model::batch_size,
];

/// The number of ranks, where the command does not say it: that nothing is seen to start several processes is no word of
/// its own.
fn ranks(imported: &mut ImportedPlan, world: u64) {
    let planned = imported.whole(keys::cluster::num_gpus);
    if planned.is_some() && (planned == Some(world) || !is_derived(imported, keys::cluster::num_gpus)) {
        return;
    }
    forget_ranks(imported);
    imported.say(keys::cluster::num_gpus, world, origin("its ranks"));
}

/// Several processes below the one that is asked about train, and none of them tells how many ranks there are: that nothing
/// is seen to start them does not make it one.
pub fn several(imported: &mut ImportedPlan, training: usize) {
    let single = imported.whole(keys::cluster::num_gpus) == Some(1);
    if !single || !is_derived(imported, keys::cluster::num_gpus) {
        return;
    }
    forget_ranks(imported);
    let why = format!("the hook: {training} processes train, and none tells how many ranks there are");
    imported.miss(keys::cluster::num_gpus, why);
    for key in [keys::distribution::data_parallel, keys::model::batch_size] {
        imported.miss(key, "needs the number of GPUs");
    }
}

fn forget_ranks(imported: &mut ImportedPlan) {
    for key in FOLLOWING {
        if is_derived(imported, key) {
            imported.drop(key);
        }
    }
}

fn is_derived(imported: &ImportedPlan, key: &str) -> bool {
    imported.get(key).is_some_and(|found| matches!(found.origin, Origin::Derived(_)))
}

/// Samples of a pass and passes of a step, where the command leaves them open. A batch that is cut short at the end of an
/// epoch, or packed into one row, says less than the command.
fn first_batch(imported: &mut ImportedPlan, modules: &HookModules, tokens: Option<u64>) {
    let Some(batch) = InputShape::of_tokens(modules, tokens).or_else(|| InputShape::of_images(modules)) else { return };
    let fill = |imported: &mut ImportedPlan, key, value, what: &str| {
        if imported.get(key).is_none() {
            imported.say(key, value, origin(what));
        }
    };
    fill(imported, keys::training::micro_batch_size, batch.samples, "samples of a pass");
    match tokens.and_then(|tokens| batch.passes(tokens)).filter(|passes| *passes > 0) {
        Some(passes) => fill(imported, keys::training::gradient_accumulation_steps, passes, "passes of a step"),
        // Pictures are not counted by the step: the batch stays open.
        None => {
            imported.miss(keys::training::gradient_accumulation_steps, "the hook does not tell the passes of a step")
        }
    }
}

/// The number of parameters that the run has, where the plan's model has another: by more than what padding of the
/// vocabulary and a head of another kind make.
#[must_use]
pub fn other_model(about: &HookAbout, planned: u64) -> Option<String> {
    const TOLERANCE: f64 = 0.03;
    if !about.params_are_all || about.params == 0 || planned == 0 {
        return None;
    }
    #[allow(clippy::cast_precision_loss)]
    let off = (about.params as f64 / planned as f64 - 1.0).abs();
    let class = about.model.as_deref().map_or(String::new(), |model| format!(" ({model})"));
    (off > TOLERANCE).then(|| {
        let (runs, planned) = (grouped(about.params), grouped(planned));
        format!("the hook: the run has {runs} parameters{class}, the plan's model {planned}: another model")
    })
}

fn origin(what: &str) -> Origin {
    Origin::Program(format!("the hook: {what}"))
}

/// The type of most elements, and bytes of the states of each trained one, say what is stored.
fn precision(imported: &mut ImportedPlan, about: &HookAbout, modules: Option<&HookModules>) {
    const KEY: &str = "training.precision";
    let Some((dtype, _)) = about.dtypes.first() else { return };
    let planned = imported.get(KEY).and_then(|found| found.value.as_str()).unwrap_or("").to_owned();
    let adapters = imported.get(keys::lora::rank).is_some();
    // Two moments in fp32 are 8 bytes an element, masters beside them 12; in 16 bits 4.
    let each = about.optimizer_state_bytes.0.checked_div(about.trainable);
    let wide = each.is_some_and(|bytes| bytes >= 6);
    let half = match dtype.trim_start_matches("torch.") {
        "bfloat16" => "bf16",
        "float16" => "fp16",
        "float32" => {
            if let Some(computed) = modules.and_then(|modules| modules.linear()?.dtype.as_deref()) {
                return multiplied(imported, &planned, computed);
            }
            let stored_half = planned.is_empty() || !(planned.ends_with("-mixed") || planned.ends_with("32"));
            if stored_half && !adapters && !planned.is_empty() {
                imported.say(
                    KEY,
                    if planned.starts_with("fp16") { "fp16-mixed" } else { "bf16-mixed" },
                    origin("weights in fp32"),
                );
            }
            return;
        }
        _ => return,
    };
    let stored = [half.to_owned(), format!("{half}-fp32-master")];
    // A rank's share of the states tells nothing of their types.
    if !wide && shares_states(imported, about) {
        if !adapters && !stored.contains(&planned) {
            imported.drop(KEY);
            imported.miss(KEY, format!("the hook: weights in {dtype}, and ranks may share the optimizer's states"));
        }
        return;
    }
    if adapters || (stored.contains(&planned) && (each.is_none() || wide == planned.ends_with("master"))) {
        return;
    }
    let word = if wide { format!("{half}-fp32-master") } else { half.to_owned() };
    imported.say(KEY, word, origin(&format!("weights in {dtype}")));
}

/// Weights in fp32 whose matrices are multiplied in that type: as they are stored, or cast for it.
fn multiplied(imported: &mut ImportedPlan, planned: &str, computed: &str) {
    let (word, alike) = match computed {
        "float32" => ("fp32", ["fp32", "tf32"]),
        "bfloat16" => ("bf16-mixed", ["bf16-mixed", "fp8-mixed"]),
        "float16" => ("fp16-mixed", ["fp16-mixed", "fp8-mixed"]),
        _ => return,
    };
    if !alike.contains(&planned) {
        let what = format!("weights in fp32, matrices in {}", computed.replace("float", "fp").replace("bfp", "bf"));
        imported.say(keys::training::precision, word, origin(&what));
    }
}

/// Whether a rank may hold a part of the states of all weights, as under `ZeRO`; FSDP shares out the weights as well.
fn shares_states(imported: &ImportedPlan, about: &HookAbout) -> bool {
    let is = |key: &str, start: &str| {
        imported.get(key).and_then(|found| found.value.as_str()).is_some_and(|word| word.starts_with(start))
    };
    let alone = is(keys::distribution::sharding, "none") || is(keys::distribution::engine, "fsdp");
    about.world.is_some_and(|world| world > 1) && !alone
}

/// Rows of the embedding that takes the ids, where the command leaves the vocabulary to a default or to data that is not
/// read. The plan's parameters are counted with it.
pub fn tell_vocabulary(imported: &mut ImportedPlan, run: &HookedRun) {
    const KEY: &str = "model.architecture.vocab_size";
    let (Some(found), Some(modules)) = (imported.get(KEY), &run.modules) else { return };
    let open = matches!(found.origin, Origin::Default { .. } | Origin::Derived(_));
    let (planned, width) = (found.value.as_u64(), imported.whole("model.architecture.hidden_size"));
    let takes_ids = |kind: &&ModuleKind| {
        kind.leaf && kind.count == 1 && kind.class.contains("Embedding") && kind.shape.len() == 2 && kind.params > 0
    };
    let mut tables = modules.kinds.iter().filter(takes_ids);
    // Of two, nobody says which is whose.
    let (Some(table), None, Some(width)) = (tables.next(), tables.next(), width) else { return };
    if open && width > 0 && table.params.is_multiple_of(width) && planned != Some(table.params / width) {
        imported.say(KEY, table.params / width, origin("rows of its embedding"));
    }
}

/// The class of the optimizer, where it is of another family than the command's.
fn optimizer(imported: &mut ImportedPlan, about: &HookAbout) {
    const KEY: &str = "training.optimizer";
    if about.optimizer.is_empty() {
        return;
    }
    let family = |word: &str| word.split('-').next().unwrap_or(word).to_owned();
    let planned = imported.get(KEY).and_then(|found| found.value.as_str()).map(str::to_owned);
    // Of SGD only its states tell whether it has momentum.
    let moves = about.trainable > 0 && about.optimizer_state_bytes.0 >= about.trainable;
    match common::optimizer(&about.optimizer).map(|word| if word == "sgd" && moves { "sgd-momentum" } else { word }) {
        Some(word @ "sgd-momentum") if planned.as_deref() == Some("sgd") => {
            imported.say(KEY, word, origin("optimizer SGD, with states"));
        }
        Some(word) if planned.as_deref().is_some_and(|planned| family(planned) == family(word)) => {}
        Some(word) => imported.say(KEY, word, origin(&format!("optimizer {}", about.optimizer))),
        None => {
            // A wrapper's name says nothing of what it wraps.
            let wrapper = ["Accelerated", "ZeroOptimizer", "Bf16", "FP16", "DistributedOptimizer", "Wrapper"];
            if !wrapper.iter().any(|part| about.optimizer.contains(part)) {
                imported.drop(KEY);
                imported.note(format!("not modelled: the hook: optimizer `{}`", about.optimizer));
                imported.miss(KEY, format!("the hook: `{}` has no word in a plan", about.optimizer));
            }
        }
    }
}

/// Tokens of a step of this process against micro batch x steps of accumulation x length.
fn samples(imported: &mut ImportedPlan, tokens: u64) {
    let whole = |key: &str| imported.whole(key);
    let length = whole("model.sequence_length");
    let local = whole("training.micro_batch_size")
        .and_then(|micro| micro.checked_mul(whole("training.gradient_accumulation_steps").unwrap_or(1)));
    match (local, length) {
        (Some(local), None) if local > 0 && tokens.is_multiple_of(local) => {
            imported.say(keys::model::sequence_length, tokens / local, origin("tokens of a step"));
        }
        (Some(local), Some(length)) if local.checked_mul(length) != Some(tokens) => imported.note(format!(
            "the hook: {tokens} tokens a step of this process, the plan {local} samples of {length}: shorter ones are counted in full"
        )),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
