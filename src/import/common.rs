//! What all frameworks share: the surroundings of a run, and the arithmetic between degrees
//! and batches.

use std::collections::BTreeMap;

use super::ProcessView;
use super::imported::ImportedPlan;
use super::jobs;
use super::kubernetes;
use super::launch::{Launcher, Program, World};
use super::origin::{Origin, Setting};
use super::preset_length::{self, PresetInput};
use super::python::ScriptSurroundings;
use super::rank_count;
use super::rows::not_modelled;
use super::run_length;
use super::settings::Settings;
use super::text;
use super::vision;
use crate::catalog::Catalog;
use crate::files::Unread;
use crate::plan::keys;

/// Everything that is known of a run.
pub struct ImportContext<'a> {
    /// The run.
    pub run: &'a ProcessView<'a>,
    /// Models and GPUs by name.
    pub catalog: &'a Catalog,
    /// What is run.
    pub program: &'a Program,
    /// What started it: the command's own launchers, then those of its ancestors.
    pub launchers: Vec<&'a Launcher>,
    /// The environment with what the command line adds to it.
    pub variables: &'a BTreeMap<String, String>,
    /// How many processes there are.
    pub world: World,
}

impl<'a> ImportContext<'a> {
    /// What lies around a script: files, and variables of its environment.
    pub fn outside(&self) -> ScriptSurroundings<'_> {
        (Some(self.run.files), Some(self.variables))
    }

    /// The same of another view of the run.
    pub fn with_run<'b>(&'b self, run: &'b ProcessView<'b>) -> ImportContext<'b>
    where
        'a: 'b,
    {
        ImportContext { run, launchers: self.launchers.clone(), world: self.world.clone(), ..*self }
    }

    /// A variable of the environment that is not empty.
    pub fn variable(&self, name: &str) -> Option<Setting<String>> {
        let value = self.variables.get(name).filter(|value| !value.trim().is_empty())?;
        Some(Setting::new(value.clone(), Origin::Environment(name.to_owned())))
    }

    /// How many GPUs a process here can see.
    pub fn visible_gpus(&self) -> Option<Setting<u64>> {
        if let Some(list) = self.variable("CUDA_VISIBLE_DEVICES") {
            // The driver stops at the first that is none.
            let count = list.value.split(',').take_while(|gpu| !gpu.trim().is_empty() && gpu.trim() != "-1").count();
            return (count > 0).then(|| Setting::new(count as u64, list.origin));
        }
        let count = self.run.gpus.len() as u64;
        let given = ["SLURM_GPUS_ON_NODE", kubernetes::GPUS, "SKYPILOT_NUM_GPUS_PER_NODE"];
        let given = given.iter().find_map(|name| self.variable(name));
        let per_node = given.and_then(|found| found.and_then(|text| text.trim().parse().ok()));
        per_node.or_else(|| (count > 0).then(|| Setting::new(count, Origin::Gpu(format!("{count} GPUs in sight")))))
    }

    /// The file that says what a framework does. Where it cannot be read, nobody knows which of the framework's
    /// defaults hold: none is taken.
    pub fn configuration(&self, path: &str, imported: &mut ImportedPlan) -> Option<Settings> {
        let settings = self.settings(path, imported);
        if settings.is_none() {
            imported.unread = Some(path.to_owned());
        }
        settings
    }

    /// A file of settings; the kind by its name. A file that cannot be read is noted.
    pub fn settings(&self, path: &str, imported: &mut ImportedPlan) -> Option<Settings> {
        let read = self.run.files.read(path).and_then(|text| {
            let read = match path.rsplit('.').next() {
                Some("toml") => text::toml(path, &text),
                _ => text::yaml(path, &text),
            };
            read.map_err(|why| Unread(format!("{path}:{why}")))
        });
        match read {
            Ok(settings) => {
                settings.remarks().iter().for_each(|line| imported.note(line.clone()));
                Some(settings)
            }
            Err(why) => {
                imported.note(format!("not read: {why}"));
                None
            }
        }
    }
}

/// Says of a run on a TPU that the plan is a GPU's.
fn accelerator(imported: &mut ImportedPlan, context: &ImportContext) {
    let ascend = ["ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "NPU_VISIBLE_DEVICES"];
    // Its collectives and its allocator have variables of their own.
    let own = |name: &&String| ["HCCL_", "TORCH_HCCL_", "PYTORCH_NPU_"].iter().any(|start| name.starts_with(start));
    let found = ascend.iter().find_map(|name| context.variable(name));
    if let Some(found) = found.or_else(|| context.variable(context.variables.keys().find(own)?)) {
        not_modelled(imported, &format!("{}: the run is on Ascend's NPUs, the plan on GPUs", found.origin));
    }
    let told = context.variable("PJRT_DEVICE").filter(|found| !found.value.eq_ignore_ascii_case("cuda"));
    if let Some(found) = told {
        not_modelled(imported, &format!("{}: the run is on {}, the plan on GPUs", found.origin, found.value));
    }
}

/// Fills in what the surroundings say: GPUs, their number, the degrees and batches that follow.
pub fn surroundings(imported: &mut ImportedPlan, context: &ImportContext) {
    accelerator(imported, context);
    let world = &context.world;
    // One process of a command that nothing starts several times; but who may not look cannot tell.
    let launched = !context.launchers.is_empty();
    let alone = !context.program.path.is_empty() && world.total.is_none() && !context.run.withheld && !launched;
    let one = || World::here(1, Origin::Derived("no launcher: one process".to_owned()));
    let world = if alone && !unsettled(imported) { &one() } else { world };
    // ChatLearn's shell names its nodes so; what its own setting would say counts.
    if imported.tool != "ChatLearn" || !unsettled(imported) {
        imported.fill(keys::cluster::num_gpus, world.total.clone());
    }
    imported.fill(keys::cluster::nodes, world.nodes.clone());
    imported.fill(keys::cluster::gpus_per_node, world.per_node.clone());
    if imported.get(keys::cluster::num_gpus).is_none() {
        rank_count::told(imported);
        // So many need not stand in the one node that a launcher takes by itself.
        if imported.is_default(keys::cluster::nodes) && imported.get(keys::cluster::num_gpus).is_some() {
            imported.drop(keys::cluster::nodes);
        }
    }
    if imported.get(keys::cluster::num_gpus).is_none() {
        let why = if launched {
            "the launcher does not tell, and no GPU is in sight"
        } else {
            "no launcher, no WORLD_SIZE and no task of Slurm tells the number of processes"
        };
        imported.miss(keys::cluster::num_gpus, why);
    }
    match context.run.gpus.first() {
        None if imported.get(keys::hardware::gpu_type).is_none() && of_job(imported, context) => {}
        Some(name) => match context.catalog.gpu(name) {
            Some(gpu) => imported
                .fill("hardware.gpu_type", Some(Setting::new(gpu.name.clone(), Origin::Gpu(format!("NVML: {name}"))))),
            None => imported.miss(keys::hardware::gpu_type, format!("the catalogue has no {name}")),
        },
        None => imported.miss(keys::hardware::gpu_type, "no GPU in sight"),
    }
    // As PyTorch reads it (c10/cuda/CUDAMiscFunctions.cpp): a whole number that is not 0.
    let blocking = context.variable("CUDA_LAUNCH_BLOCKING");
    let blocking = blocking.filter(|found| found.value.trim().parse::<i64>().is_ok_and(|number| number != 0));
    imported.fill(keys::training::launch_blocking, blocking.map(|found| found.map(|_| true)));
    super::launch::open::say(imported, context);
    derive(imported);
    length(imported, context);
    pictures(imported, context);
}

/// Says what is taken of the images of a model that is known with its tower by its own name.
fn pictures(imported: &mut ImportedPlan, context: &ImportContext) {
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str());
    let sees = preset.and_then(|name| context.catalog.model(name)).is_some_and(|model| {
        model.hf_config.get("vision_config").is_some() && model.hf_config.get("text_config").is_some()
    });
    if sees && imported.tower.is_none() && imported.get(keys::model::images).is_none() {
        imported.note(vision::ONE_IMAGE);
    }
}

/// Takes the GPUs that a job of a cluster names, if it does. One that goes by the name of several boards (Slurm's `h100`)
/// is the first of the catalogue's, which is said.
fn of_job(imported: &mut ImportedPlan, context: &ImportContext) -> bool {
    let of_slurm = jobs::GPU_KINDS.iter().find_map(|name| {
        let found = context.variable(name)?;
        Some(Setting::new(found.value, Origin::Argument((*name).to_owned())))
    });
    let named = [kubernetes::PRODUCT, jobs::ACCELERATORS].iter().find_map(|name| context.variable(name));
    let Some(found) = named.or_else(|| of_slurm.clone()) else { return false };
    let Some(gpu) = context.catalog.gpu(&found.value) else { return false };
    if of_slurm.is_some() {
        let kind = found.value.to_lowercase();
        let is_one = |name: &str| name.split_whitespace().any(|word| word.to_lowercase() == kind);
        let others = context.catalog.gpus.iter().filter(|other| other.name != gpu.name && is_one(&other.name));
        let others: Vec<&str> = others.map(|other| other.name.as_str()).collect();
        if !others.is_empty() {
            imported.note(format!(
                "assumed: {}; {} {kind} may be {} as well",
                gpu.name,
                found.origin,
                others.join(", ")
            ));
        }
    }
    imported.set(keys::hardware::gpu_type, Some(found.map(|_| gpu.name.clone())));
    true
}

/// The degrees and batches that follow from what is known.
pub fn derive(imported: &mut ImportedPlan) {
    rank_count::degrees(imported);
    batches(imported);
    run_length::set_tokens(imported);
}

/// A run on this machine's processor: one process, unless a launcher says more.
pub fn on_cpu(imported: &mut ImportedPlan, origin: Origin) {
    // That nothing is seen to start several is no word of its own: ranks that are told go over it.
    let one = Origin::Derived(format!("{origin}, one process"));
    imported.say(keys::hardware::gpu_type, "cpu", origin);
    imported.fill(keys::cluster::num_gpus, Some(Setting::new(1, one)));
}

/// A process of a machine that has no driver of any GPU, where nothing says what it is on.
pub fn without_driver(imported: &mut ImportedPlan) {
    if imported.get(keys::hardware::gpu_type).is_none() {
        on_cpu(imported, Origin::Gpu("no GPU driver on this machine".to_owned()));
        derive(imported);
    }
}

/// Whether the number of GPUs was told, or looked for in vain, by the framework's own rules.
fn unsettled(imported: &ImportedPlan) -> bool {
    imported.get(keys::cluster::num_gpus).is_some()
        || imported.missing.iter().any(|missing| missing.key == "cluster.num_gpus")
}

/// Passes that are packed up to a number of tokens, where those of whole samples do not divide the batch: what packs them
/// makes them alike (`verl/utils/seqlen_balancing.py`, `rearrange_micro_batches`).
fn packed_passes(imported: &mut ImportedPlan, (global, pass): (u64, u64), data: u64) {
    let steps = global.div_ceil(pass);
    let origin = Origin::Derived(format!("{global} samples in passes of {pass} at the most"));
    imported.say(keys::training::gradient_accumulation_steps, steps, origin.clone());
    let all = steps.saturating_mul(data);
    if global.is_multiple_of(all) {
        imported.say(keys::training::micro_batch_size, global / all, origin);
        imported.note(format!(
            "{steps} passes of {} whole samples each; shorter ones may fill a pass further",
            global / all
        ));
        return;
    }
    let counted = steps.saturating_mul(pass);
    imported.note(format!("a batch of {global} is counted as {counted}: {steps} passes of {pass} samples"));
    imported.say(keys::model::batch_size, counted, origin);
}

/// Global batch = micro batch x accumulation x data parallel, whichever is not said.
fn batches(imported: &mut ImportedPlan) {
    const GLOBAL: &str = "model.batch_size";
    const MICRO: &str = "training.micro_batch_size";
    const STEPS: &str = "training.gradient_accumulation_steps";
    let data = imported.whole(keys::distribution::data_parallel);
    let (global, micro, steps) = (imported.whole(GLOBAL), imported.whole(MICRO), imported.whole(STEPS));
    match (global, micro, steps, data) {
        (None, Some(_), None, Some(_)) if imported.missing.iter().any(|missing| missing.key == STEPS) => {
            imported.miss(GLOBAL, "needs the steps of accumulation");
        }
        (None, Some(micro), _, Some(data)) => {
            let steps = steps.unwrap_or(1);
            let product = micro.checked_mul(steps).and_then(|local| local.checked_mul(data));
            let Some(product) = product else { return };
            let origin = Origin::Derived(format!("micro batch {micro} x {steps} steps x {data} data-parallel ranks"));
            imported.say(GLOBAL, product, origin);
        }
        (Some(global), Some(micro), None, Some(data)) => {
            let pass = micro.saturating_mul(data);
            if pass > 0 && global.is_multiple_of(pass) {
                let origin =
                    Origin::Derived(format!("batch {global} / micro batch {micro} / {data} data-parallel ranks"));
                imported.say(STEPS, global / pass, origin);
            } else if pass > 0 && imported.packed {
                packed_passes(imported, (global, pass), data);
            } else {
                imported
                    .note(format!("batch {global} is no multiple of micro batch {micro} x {data} data-parallel ranks"));
            }
        }
        (Some(global), None, Some(steps), Some(data)) => {
            let passes = steps.saturating_mul(data);
            if passes > 0 && global.is_multiple_of(passes) {
                let origin = Origin::Derived(format!("batch {global} / {steps} steps / {data} data-parallel ranks"));
                imported.say(MICRO, global / passes, origin);
            }
        }
        (Some(global), Some(micro), Some(steps), Some(data))
            if micro.checked_mul(steps).and_then(|local| local.checked_mul(data)) != Some(global) =>
        {
            imported.note(format!(
                "batch {global} is not micro batch {micro} x {steps} steps x {data} ranks: the batch is left out"
            ));
            imported.drop(GLOBAL);
        }
        (None, _, _, None) => imported.miss(GLOBAL, "needs the number of data-parallel ranks"),
        _ => {}
    }
    if imported.get(MICRO).is_none() && imported.get(GLOBAL).is_none() {
        imported.miss(MICRO, "no argument or file says it");
    }
}

/// The length of a sample, where its model has one that a plan must say.
fn length(imported: &mut ImportedPlan, context: &ImportContext) {
    let key = match preset_length::input(imported, context) {
        Some(PresetInput::Image) => return,
        Some(PresetInput::Sound) => keys::model::decoder_sequence_length,
        Some(PresetInput::Text) | None => keys::model::sequence_length,
    };
    if imported.get(key).is_none() {
        imported.miss(key, "no argument or file says it");
    }
}

/// The plan's word for an optimizer by whatever name a framework has for it, and what that
/// leaves unsaid.
pub fn optimizer(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).flat_map(char::to_lowercase).collect();
    let has = |part: &str| plain.contains(part);
    // Other states than Adam's, though named after it.
    const OTHERS: [&str; 9] =
        ["galore", "apollo", "badam", "lomo", "adammini", "ademamix", "grokadam", "anyprecision", "adagrad"];
    if OTHERS.iter().any(|name| has(name)) {
        return None;
    }
    Some(match plain.as_str() {
        _ if has("adafactor") => "adafactor",
        _ if has("muon") => "muon",
        _ if has("lion") => "lion",
        _ if has("adam") && (has("8bit") || has("bnb8") || has("4bit")) => "adamw-8bit",
        _ if has("fusedadam")
            || has("adamwtorchfused")
            || has("apexfused")
            || has("fusedadamw")
            || has("adamwfused") =>
        {
            "adamw-fused"
        }
        // One kernel of bitsandbytes a tensor, without temporaries.
        _ if has("paged") && has("adam") => "adamw-fused",
        // transformers' own before 5 (`optimization.py`, `AdamW.step`): a loop over the parameters.
        _ if has("adamwhf") => "adamw-loop",
        _ if has("cpuadam") || has("adam") => "adamw",
        "sgdmomentum" => "sgd-momentum",
        _ if has("sgd") => "sgd",
        // PyTorch's; one of bitsandbytes' in 8 bits has other states.
        "rmsprop" => "rmsprop",
        _ => return None,
    })
}

/// Says that AdamW by lists of tensors is counted as the one fused kernel that torchtitan's rules mean by `adamw`.
pub fn say_foreach(imported: &mut ImportedPlan) {
    let found = imported.get(keys::training::optimizer).filter(|found| found.value == "adamw");
    if let Some(origin) = found.map(|found| found.origin.clone()) {
        imported.note(format!("AdamW by lists of tensors is counted as one fused kernel ({origin})"));
    }
}

/// Sets the optimizer by a framework's name for it; one without a word in plans is noted.
pub fn set_optimizer(imported: &mut ImportedPlan, found: Option<Setting<String>>) {
    let Some(found) = found else { return };
    match optimizer(&found.value) {
        Some(word) => {
            if found.value.to_lowercase().contains("4bit") {
                imported.note(format!("{}: states of 4 bits are counted as 8", found.value));
            }
            let paged = found.value.to_lowercase().contains("paged");
            if paged && word == "adamw-fused" {
                // bitsandbytes, `optim/optimizer.py`, `Optimizer2State.init_state`: fp32, whatever the weights are in.
                imported.say(keys::training::optimizer_state_dtype, "fp32", found.origin.clone());
            }
            if paged {
                imported.note(format!("{}: its states may move to the host; they are counted on the GPU", found.value));
            }
            imported.say(keys::training::optimizer, word, found.origin);
        }
        None => {
            imported.note(format!("not modelled: {}: optimizer `{}`", found.origin, found.value));
            imported.miss(keys::training::optimizer, format!("`{}` has no word in a plan", found.value));
        }
    }
}
