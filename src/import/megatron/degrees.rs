//! Who holds and computes what, as Megatron's arguments say it: degrees, pipelines, sharding, experts.

use super::{Job, VERSION, engine_experts};
use crate::deepspeed;
use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::plan::layout_counts;
use crate::unread::account_for;

/// Sets `distribution` beyond the plain degrees.
pub fn set(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    let tensor = job.value("tensor_model_parallel_size");
    let stages = job.value("pipeline_model_parallel_size");
    if let Some(found) = settings.on("sequence_parallel") {
        // The code turns it off without tensor ranks.
        imported.set(keys::distribution::sequence_parallel, Some(found.map(|_| tensor > 1)));
    }
    let layers = settings.whole("num_layers_per_virtual_pipeline_stage").and_then(|found| {
        let per_stage = settings.whole("num_layers")?.value / stages;
        let origin = Origin::Derived(format!("{}: {per_stage} layers a stage / {}", found.origin, found.value));
        per_stage.checked_div(found.value).map(|pieces| Setting::new(pieces, origin))
    });
    // A layout tells them by its parts (`megatron/training/arguments.py`, `validate_args`).
    let layout = settings.text("pipeline_model_parallel_layout");
    let by_layout = layout.as_ref().and_then(|found| {
        let parts = layout_counts(&found.value)?.len() as u64;
        let origin = Origin::Derived(format!("{}: {parts} parts / {stages} stages", found.origin));
        parts.is_multiple_of(stages).then(|| Setting::new(parts / stages, origin))
    });
    let pieces = layers
        .or_else(|| settings.whole("num_virtual_stages_per_pipeline_rank"))
        .or(by_layout)
        .filter(|found| found.value > 1);
    if stages > 1 {
        let schedule = match &pieces {
            Some(found) => Setting::new("interleaved", found.origin.clone()),
            None => Setting::new("1f1b", Job::default("1F1B")),
        };
        imported.set(keys::distribution::pipeline_schedule, Some(schedule));
        imported.set(keys::distribution::virtual_pipeline, pieces);
    }
    imported.set(keys::distribution::pipeline_layout, layout);
    let both = ["account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"];
    if both.iter().all(|name| settings.is(name)) {
        let origin = Origin::Argument("--account-for-embedding-in-pipeline-split".into());
        imported.say(keys::distribution::pipeline_counts_embedding_and_loss, true, origin);
    } else if both.iter().any(|name| settings.is(name)) {
        imported.note("only one of embedding and loss counts in the pipeline's split: a plan has both or none");
    }
    sharding(imported, job);
    if engine_experts::are_meant(job) {
        engine_experts::train(imported, job);
    } else {
        experts(imported, job);
    }
    // Megatron-DeepSpeed's Ulysses: heads change places with parts of the sequence (`deepspeed/sequence/layer.py`,
    // `DistributedAttention`).
    if let Some(found) = settings.whole("ds_sequence_parallel_size").filter(|found| found.value > 1) {
        imported.set(keys::distribution::context_parallel, Some(found));
        imported.say(keys::distribution::cp_comm, "a2a", Job::default("DistributedAttention"));
    }
    if job.value("context_parallel_size") > 1 {
        let kind = settings
            .text("cp_comm_type")
            .filter(|found| ["p2p", "all_gather", "a2a", "a2a+p2p"].contains(&found.value.as_str()));
        imported.set(
            keys::distribution::cp_comm,
            kind.or_else(|| Some(Setting::new("p2p".to_owned(), Job::default("--cp-comm-type p2p")))),
        );
    } else {
        settings.accept("cp_comm_type");
    }
}

fn sharding(imported: &mut ImportedPlan, job: &Job) {
    const KEY: &str = "distribution.sharding";
    let settings = job.settings;
    let word = |name: String| match name.as_str() {
        "optim" => "zero1",
        "optim_grads" => "zero2",
        "optim_grads_params" => "zero3",
        _ => "none",
    };
    imported.say(keys::distribution::engine, "megatron", Job::default("DistributedDataParallel of Megatron"));
    if let Some(found) = settings.on("use_torch_fsdp2") {
        imported.set(keys::distribution::engine, Some(found.clone().map(|_| "fsdp2")));
        imported.set(KEY, Some(found.map(|_| "zero3")));
    } else if settings.is("use_megatron_fsdp") || settings.is("use_custom_fsdp") {
        let origin = Origin::Argument("--use-megatron-fsdp".into());
        imported.say(keys::distribution::engine, "megatron-fsdp", origin);
        let given = settings.text("data_parallel_sharding_strategy");
        imported.set(
            KEY,
            Some(given.map_or_else(
                || Setting::new("none", Job::default("--data-parallel-sharding-strategy no_shard")),
                |found| found.map(word),
            )),
        );
    }
    // Megatron-DeepSpeed's: no pipeline module around a model of one stage.
    settings.accept("no_pipeline_parallel");
    if settings.is_set("deepspeed") || settings.is_set("deepspeed_config") {
        settings.accept("deepspeed");
        let file = settings.text("deepspeed_config").and_then(|path| job.context.settings(&path.value, imported));
        match file {
            Some(file) => {
                deepspeed::set(imported, &file);
                account_for(imported, &file);
            }
            // Its own arguments say the precision as well (`megatron/arguments.py`).
            None => imported.say(keys::distribution::engine, "deepspeed", Origin::Argument("--deepspeed".into())),
        }
        imported.say(keys::model::framework, "megatron-deepspeed", Origin::Argument("--deepspeed".into()));
        imported.drop(keys::model::transformer_impl);
        let stage = settings.whole("zero_stage");
        // In bf16 DeepSpeed's `BF16_Optimizer` shards main weights and states at stage 0 (`runtime/bf16_optimizer.py`).
        let own = stage.as_ref().filter(|found| found.value == 0 && job.is("bf16")).map(|found| {
            Setting::new("zero1", Origin::Derived(format!("{} in bf16: BF16_Optimizer shards", found.origin)))
        });
        imported.set(KEY, own.or_else(|| stage.map(|found| found.map(deepspeed::stage))));
    }
}

fn experts(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    if imported.get(keys::moe::num_experts).is_none() {
        // A degree for experts parts nothing of a model that is spelled out without any.
        if imported.get(keys::architecture::hidden_size).is_some() {
            imported.drop(keys::distribution::expert_parallel);
        }
        return;
    }
    // Without the switch a layer's experts run one after the other (`core/transformer/moe/experts.py`, `SequentialMLP`).
    if imported.tool == "Megatron-LM" && imported.get(keys::training::moe_grouped_gemm).is_none() {
        let option = "no --moe-grouped-gemm".to_owned();
        imported.say(keys::training::moe_grouped_gemm, false, Origin::Default { framework: VERSION, option });
    }
    let given = settings.text("moe_token_dispatcher_type");
    let hybrid = settings.text("moe_flex_dispatcher_backend").is_some_and(|backend| backend.value == "hybridep");
    let word = |name: String| match name.as_str() {
        "flex" if hybrid => "hybridep",
        "allgather" => "allgather",
        _ => "alltoall",
    };
    let default = Origin::Default { framework: VERSION, option: "--moe-token-dispatcher-type allgather".to_owned() };
    imported.set(
        keys::distribution::moe_dispatcher,
        Some(given.map_or(Setting::new("allgather", default), |found| found.map(word))),
    );
}
