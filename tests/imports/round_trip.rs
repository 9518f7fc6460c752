//! A plan written for another tool reads back as the same plan, as far as both can say it.

use std::collections::BTreeMap;

use memwall::import::{self, ImportedPlan, ProcessView};
use memwall::plan::export::{Target, export};
use memwall::plan::schema::{self, PlanKey, ValueKind};
use memwall::plan::{Document, Plan};

use crate::CaseFiles;
use crate::support::{catalog, truth};

fn plan(text: &str) -> Plan {
    Document::parse(text).unwrap().plan().unwrap()
}

fn back(text: &str, name: &str, gpus: u64) -> ImportedPlan {
    let files = CaseFiles(BTreeMap::new());
    let mut run = ProcessView::of(Vec::new(), &files);
    run.world = (gpus > 0).then_some(gpus);
    import::file(name, text, &run, catalog()).unwrap()
}

/// Every value of the plan that `text` spells is in `found`.
fn holds(found: &ImportedPlan, text: &str) {
    let document = Document::parse(text).unwrap();
    // Of `{every: 3}` the whole is compared, not its part.
    let whole = |key: &&PlanKey| {
        key.kind != ValueKind::Section
            && schema::key(key.section()).is_some_and(|above| above.kind == ValueKind::Section)
    };
    for key in schema::keys().iter().filter(whole) {
        let Some(value) = document.value(key.path) else { continue };
        let read = found.get(key.path).unwrap_or_else(|| panic!("{} is lost: {:?}", key.path, found.notes));
        assert!(crate::same(&read.value, &value), "{}: {} became {}", key.path, value, read.value);
    }
}

const MEGATRON: &str = "\
model:
  framework: megatron
  architecture:
    hidden_size: 2048
    num_layers: 27
    num_attention_heads: 16
    intermediate_size: 10944
    vocab_size: 102400
    max_position_embeddings: 4096
    tie_embeddings: false
    position: rope
    activation: swiglu
    norm: rmsnorm
    linear_bias: false
    qk_norm: true
    moe: {num_experts: 64, experts_per_token: 6, intermediate_size: 1408, shared_intermediate_size: 2816, first_dense_layers: 1}
    mla: {kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128}
  batch_size: 512
  sequence_length: 4096
training:
  precision: fp8-mixed
  fp8_recipe: blockwise
  gradient_dtype: bf16
  optimizer: adamw-fused
  attention: flash
  activation_checkpointing: {modules: [mla_up_proj, moe_act]}
  loss: te_fused
  micro_batch_size: 1
  dropout: 0.0
  weight_decay: 0.1
  moe_grouped_gemm: true
cluster: {num_gpus: 64, nodes: 8, gpus_per_node: 8}
distribution:
  data_parallel: 16
  tensor_parallel: 2
  pipeline_parallel: 2
  virtual_pipeline: 2
  pipeline_schedule: interleaved
  expert_parallel: 8
  expert_tensor_parallel: 1
  sequence_parallel: true
  sharding: zero3
  moe_dispatcher: alltoall
  overlap_grad_reduce: true
  overlap_param_gather: true
";

/// What a plan cannot say and changes no figure of it (megatron/training/arguments.py, --rotary-base).
const ROTARY_BASE: &str = "--rotary-base: set it to the model's rope_theta, which the plan does not hold; else 10000";

#[test]
fn megatron_by_its_command() {
    let exported = export(&plan(MEGATRON), catalog(), Target::Torchrun);
    assert_eq!(exported.notes, [ROTARY_BASE]);
    holds(&back(&exported.text, "a.sh", 0), MEGATRON);
}

#[test]
fn megatron_by_its_arguments_alone() {
    let exported = export(&plan(MEGATRON), catalog(), Target::Megatron);
    let command =
        format!("torchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py {}", exported.text.replace('\n', " "));
    holds(&back(&command, "a.sh", 0), MEGATRON);
}

const TORCHTITAN: &str = "\
model: {preset: llama-3.1-8b, framework: torchtitan, batch_size: 128, sequence_length: 8192}
training:
  precision: bf16-mixed
  optimizer: adamw
  activation_checkpointing: {every: 3}
  micro_batch_size: 2
  gradient_accumulation_steps: 4
  compile: true
  weight_decay: 0.1
distribution:
  data_parallel: 16
  tensor_parallel: 4
  pipeline_parallel: 2
  pipeline_schedule: gpipe
  context_parallel: 1
  sharding: zero3
  shard_group: 8
";

#[test]
fn torchtitan_by_its_file() {
    let exported = export(&plan(TORCHTITAN), catalog(), Target::Torchtitan);
    assert_eq!(exported.notes, Vec::<String>::new());
    holds(&back(&exported.text, "a.toml", 128), TORCHTITAN);
}

/// Its degree of shards leaves out the ranks of a sequence, over which it shards too (distributed/parallel_dims.py,
/// dp_shard_cp): 128 = 4 replicas x 2 shards x 2 of a sequence x 4 x 2, sharded over 4.
#[test]
fn torchtitan_shards_over_the_ranks_of_a_sequence() {
    let text = TORCHTITAN
        .replace("batch_size: 128", "batch_size: 64")
        .replace("data_parallel: 16", "data_parallel: 8")
        .replace("context_parallel: 1", "context_parallel: 2")
        .replace("shard_group: 8", "shard_group: 4");
    let exported = export(&plan(&text), catalog(), Target::Torchtitan);
    assert_eq!(exported.notes, Vec::<String>::new());
    assert!(exported.text.contains("data_parallel_shard_degree = 2"), "{}", exported.text);
    holds(&back(&exported.text, "a.toml", 128), &text);
}

/// Parameters that stay whole behind the forward pass, and those of a pipeline's stages that do not
/// (torchtitan/distributed/fsdp.py, get_fsdp_reshard_after_forward_policy).
#[test]
fn torchtitan_is_told_when_parameters_are_sharded_again() {
    let whole = TORCHTITAN.replace("sharding: zero3", "sharding: zero2");
    for (text, policy) in [(whole.as_str(), "never"), (TORCHTITAN, "always")] {
        let exported = export(&plan(text), catalog(), Target::Torchtitan);
        assert_eq!(exported.notes, Vec::<String>::new());
        assert!(exported.text.contains(&format!("fsdp_reshard_after_forward = \"{policy}\"")), "{}", exported.text);
        holds(&back(&exported.text, "a.toml", 128), text);
    }
}

const DEEPSPEED: &str = "\
model: {batch_size: 256}
training:
  precision: bf16-fp32-master
  gradient_dtype: bf16
  optimizer: adamw
  micro_batch_size: 4
  gradient_accumulation_steps: 8
  weight_decay: 0.1
  gradient_clipping: true
  cpu_offload: optimizer
distribution: {data_parallel: 8, sharding: zero2, overlap_grad_reduce: true}
";

#[test]
fn deepspeed_by_its_file() {
    let exported = export(&plan(DEEPSPEED), catalog(), Target::Deepspeed);
    holds(&back(&exported.text, "ds.json", 8), DEEPSPEED);
}

#[test]
fn what_a_target_has_no_word_for_is_listed() {
    let text = "\
model: {preset: gpt2, batch_size: 8, sequence_length: 1024}
training: {precision: bf16-mixed, optimizer: adamw-8bit, activation_checkpointing: selective, lora: {rank: 8}, cpu_offload: activations}
distribution: {pipeline_parallel: 2, sharding: zero2}
cluster: {num_gpus: 4}
";
    for (target, keys) in [
        (Target::Megatron, &["training.precision", "training.optimizer", "training.lora", "training.cpu_offload"][..]),
        (Target::Torchtitan, &["model", "training.optimizer", "training.activation_checkpointing", "training.lora"]),
        (
            Target::Deepspeed,
            &[
                "training.precision",
                "training.optimizer",
                "training.activation_checkpointing",
                "training.lora",
                "distribution.pipeline_parallel",
            ],
        ),
    ] {
        let notes = export(&plan(text), catalog(), target).notes;
        for key in keys {
            assert!(notes.iter().any(|note| note.starts_with(key)), "{target:?} {key}: {notes:?}");
        }
    }
}

/// The vocabulary's own multiple is a tensor rank's, as megatron/training/tokenizer.py pads: 64 x 2 ranks; the
/// moments' type is that of the precision-aware optimizer, which only the distributed one has and which keeps the 16 bits
/// that bf16 weights lack in place of fp32 masters (megatron/core/optimizer/optimizer_config.py,
/// `store_param_remainders`).
#[test]
fn megatron_is_told_of_its_padding_and_of_the_types_of_its_states() {
    let text = MEGATRON
        .replace("    tie_embeddings: false\n", "    tie_embeddings: false\n    vocab_padding_multiple: 128\n")
        .replace("  sharding: zero3\n", "")
        .replace("  dropout: 0.0\n", "  dropout: 0.0\n  distributed_optimizer: true\n  optimizer_state_dtype: bf16\n");
    let exported = export(&plan(&text), catalog(), Target::Torchrun);
    assert_eq!(exported.notes, [ROTARY_BASE]);
    for argument in ["--make-vocab-size-divisible-by 64", "--use-precision-aware-optimizer", "--exp-avg-sq-dtype bf16"]
    {
        assert!(exported.text.contains(argument), "{argument}: {}", exported.text);
    }
    holds(&back(&exported.text, "a.sh", 0), &text);
    let remainders = text.replace(
        "precision: fp8-mixed\n  fp8_recipe: blockwise\n",
        "precision: bf16-fp32-master\n  master_dtype: int16\n",
    );
    let exported = export(&plan(&remainders), catalog(), Target::Torchrun);
    assert_eq!(exported.notes, [ROTARY_BASE]);
    holds(&back(&exported.text, "a.sh", 0), &remainders);
    let replicated = text.replace("  distributed_optimizer: true\n", "");
    let notes = export(&plan(&replicated), catalog(), Target::Torchrun).notes;
    assert!(notes.iter().any(|note| note.starts_with("training.optimizer_state_dtype: bf16")), "{notes:?}");
}

/// What a run needs does not change on its way through a command: Megatron's own defaults (a tenth of dropout) are
/// written over.
#[test]
fn a_megatron_run_needs_as_much_after_a_round_trip() {
    for example in ["13b_long_sequence", "70b_hybrid_training", "hybrid_example"] {
        let text = std::fs::read_to_string(format!("configs/plans/{example}.yaml")).unwrap();
        let own = plan(&text);
        let command = export(&own, catalog(), Target::Torchrun).text;
        let mut again = back(&command, "a.sh", 0).plan().unwrap();
        again.hardware = own.hardware.clone();
        again.cluster = own.cluster.clone();
        let peak = |plan| memwall::predict::of(plan, catalog()).unwrap().largest().peak_allocated;
        assert_eq!(peak(&again), peak(&own), "{example}: {command}");
    }
}

/// The plans of the examples and of the measured runs that were published.
fn known_plans() -> Vec<(String, Plan)> {
    let examples = memwall::plan::EXAMPLES.iter().map(|(name, text)| ((*name).to_owned(), plan(text)));
    let published = truth::cases("published.json");
    let published =
        published.iter().map(|case| (case["id"].as_str().unwrap().to_owned(), plan(&case["plan"].to_string())));
    examples.chain(published).collect()
}

/// Every example in every format: what comes back predicts the same, or the export lists what it does not say; and it
/// names the versions that it is written for.
#[test]
fn every_export_comes_back_the_same_or_lists_what_differs() {
    let mut wrong = Vec::new();
    for (name, text) in memwall::plan::EXAMPLES {
        let own = plan(text);
        let job = memwall::predict::Job::resolve(&own, catalog()).unwrap();
        for target in Target::ALL {
            let exported = export(&own, catalog(), target).with_notes(target);
            if target.takes_comments() {
                assert!(exported.text.starts_with("# written for "), "{name} {target:?}");
            }
            let file = format!("a.{}", target.ending());
            let files = CaseFiles(BTreeMap::new());
            let mut run = ProcessView::of(Vec::new(), &files);
            run.world = Some(job.degrees.num_gpus);
            let listed = exported.notes.join("; ");
            let imported = match import::file(&file, &exported.text, &run, catalog()) {
                Ok(imported) => imported,
                Err(why) if listed.is_empty() => {
                    wrong.push(format!("{name} {target:?}: {why}"));
                    continue;
                }
                Err(_) => continue,
            };
            let mut again = imported.plan().unwrap();
            again.hardware = own.hardware.clone();
            again.cluster = own.cluster.clone();
            let figures = |plan: &Plan| {
                memwall::predict::of(plan, catalog())
                    .map(|of| (of.largest().peak_allocated, of.capacity.needed, of.time.step))
            };
            let same = figures(&again).ok() == figures(&own).ok();
            if !same && listed.is_empty() {
                wrong.push(format!(
                    "{name} {target:?}: {:?} became {:?}: {}",
                    figures(&own),
                    figures(&again),
                    exported.text
                ));
            }
            println!("{name} {target:?}: {} ({listed})", if same { "same" } else { "differs" });
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where nothing is said to be lost, the plan that comes back predicts the same memory and the same step.
#[test]
fn what_is_exported_without_a_loss_predicts_the_same_when_it_comes_back() {
    let (mut without_loss, mut other) = (0, Vec::new());
    for (name, own) in known_plans() {
        let job = memwall::predict::Job::resolve(&own, catalog()).unwrap();
        let (target, file) = match job.profile.name() {
            "megatron" => (Target::Torchrun, "a.sh"),
            "torchtitan" => (Target::Torchtitan, "a.toml"),
            _ => continue,
        };
        let exported = export(&own, catalog(), target);
        if !exported.notes.is_empty() || exported.refused.is_some() {
            continue;
        }
        without_loss += 1;
        let mut again = back(&exported.text, file, job.degrees.num_gpus).plan().unwrap();
        again.hardware = own.hardware.clone();
        again.cluster = own.cluster.clone();
        match memwall::predict::of(&again, catalog()) {
            Ok(again) => {
                let own = memwall::predict::predict(&job);
                let figures =
                    |of: &memwall::predict::Prediction| (of.largest().peak_allocated, of.capacity.needed, of.time.step);
                if figures(&again) != figures(&own) {
                    other.push(format!("{name}: {:?} became {:?}: {}", figures(&own), figures(&again), exported.text));
                }
            }
            Err(faults) => other.push(format!("{name}: {faults:?}: {}", exported.text)),
        }
    }
    assert_eq!(other, Vec::<String>::new(), "{} of {without_loss}", other.len());
    assert!(without_loss > 100, "{without_loss}");
}

#[test]
fn a_sequence_beyond_the_published_positions_has_positions_of_its_own() {
    // Llama 2 has 4096 (its config.json); Megatron's validate_args wants as many as the sequence has, 16384 here.
    let text = include_str!("../../configs/plans/13b_long_sequence.yaml");
    let exported = export(&plan(text), catalog(), Target::Megatron);
    assert!(exported.text.contains("--max-position-embeddings 16384\n"), "{}", exported.text);
    assert_eq!(exported.text.matches("--max-position-embeddings").count(), 1);
    let said = memwall::predict::of(&plan(text), catalog()).unwrap().assumptions;
    assert!(
        said.iter().any(|line| line.starts_with("model.sequence_length: 16384") && line.contains("4096")),
        "{said:?}"
    );
}
