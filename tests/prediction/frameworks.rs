//! Engines, and the two frameworks that came in as data, against arithmetic from their code.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

fn tried(plan: &str) -> Result<Prediction, String> {
    let plan = Document::parse(plan).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).map_err(|faults| faults.iter().map(|fault| format!("{fault}\n")).collect())
}

/// Layers of 4 x 1024^2 + 3 x 1024 x 2816 + 2 x 1024 parameters, twelve of them, 2 x 32 768 x 1024 of the ends and a
/// norm of 1024: 221 406 208.
const PARAMETERS: u64 = 12 * (4 * 1024 * 1024 + 3 * 1024 * 2816 + 2 * 1024) + 2 * 32_768 * 1024 + 1024;

fn plan(framework: &str, training: &str, ranks: u64, distribution: &str) -> String {
    format!(
        "{{model: {{framework: {framework}, type: transformer, sequence_length: 64, architecture: {{hidden_size: 1024,
         num_layers: 12, num_attention_heads: 16, intermediate_size: 2816, vocab_size: 32768,
         vocab_padding_multiple: 128, activation: swiglu, norm: rmsnorm, linear_bias: false,
         tie_embeddings: false}}}},
         training: {{micro_batch_size: 1{training}}}, hardware: {{library_workspaces: false}},
         cluster: {{num_gpus: {ranks}}}, distribution: {{data_parallel: {ranks}{distribution}}}}}"
    )
}

fn near(bytes: u64, expected: u64) {
    let off = bytes.abs_diff(expected) as f64 / expected as f64;
    assert!(off < 0.01, "{bytes}, not {expected}");
}

fn weights(prediction: &Prediction) -> u64 {
    let terms = &prediction.largest().terms;
    terms.iter().filter(|term| term.name == "weights" || term.name == "parameters").map(|term| term.bytes.0).sum()
}

fn engine_line(prediction: &Prediction) -> Option<&String> {
    prediction.assumptions.iter().find(|line| line.starts_with("distribution.engine: "))
}

/// On 64 ranks the second stage of FSDP shares weights out as its third does, whatever they are stored in: at rest each
/// rank holds a 64th of 4 bytes a parameter, and of two fp32 states. DeepSpeed's leaves 4 bytes of each, and has a 64th of fp32
/// masters, which it clones from fp32 weights too (runtime/zero/stage_1_and_2.py, `single_partition_of_fp32_groups`).
#[test]
fn the_engine_is_derived_alike_in_every_precision_and_said() {
    for precision in ["bf16-mixed", "fp32"] {
        let training = format!(", precision: {precision}, optimizer: adamw-fused");
        let fsdp = tried(&plan("pytorch", &training, 64, ", sharding: zero2")).unwrap();
        near(fsdp.largest().static_bytes.0, PARAMETERS * 12 / 64);
        let line = engine_line(&fsdp).unwrap();
        assert!(line.contains("fsdp1 (from framework pytorch, sharding zero2"), "{line}");
        let deepspeed = tried(&plan("pytorch", &training, 64, ", sharding: zero2, engine: deepspeed")).unwrap();
        near(deepspeed.largest().static_bytes.0, PARAMETERS * 4 + PARAMETERS * (4 + 8) / 64);
        assert_eq!(engine_line(&deepspeed), None, "given, not assumed");
    }
}

#[test]
fn an_engine_that_cannot_do_it_is_a_fault() {
    let fault = |framework: &str, distribution: &str| tried(&plan(framework, "", 8, distribution)).err();
    let of = |framework: &str, distribution: &str| fault(framework, distribution).unwrap_or_default();
    let other = of("pytorch", ", engine: megatron");
    assert!(other.contains("pytorch runs under ddp, fsdp1, fsdp2 or deepspeed"), "{other}");
    let stage = of("pytorch", ", engine: ddp, sharding: zero3");
    assert!(stage.contains("ddp shares out none or zero1; distribution.sharding is zero3"), "{stage}");
    // An engine alone means what it does by itself.
    let sharded = tried(&plan("pytorch", ", precision: fp32, optimizer: adamw-fused", 8, ", engine: fsdp2")).unwrap();
    near(sharded.largest().static_bytes.0, PARAMETERS * 12 / 8);
}

/// LitGPT under autocast: fp32 weights and two fp32 states; no gradients between steps, as each is set to None.
#[test]
fn litgpt_is_one_file() {
    let prediction = tried(&plan("litgpt", "", 1, "")).unwrap();
    assert_eq!(prediction.params.total, PARAMETERS);
    near(prediction.largest().static_bytes.0, PARAMETERS * 12);
    // Every chunk's log-probabilities stay (litgpt/utils.py, chunked_cross_entropy).
    let logits = prediction.largest().terms.iter().find(|term| term.name == "logits and loss");
    assert!(logits.is_none_or(|term| term.source.contains("litgpt/utils.py")), "{logits:?}");
    let sharded = tried(&plan("litgpt", "", 8, ", sharding: zero3")).unwrap();
    assert!(engine_line(&sharded).unwrap().contains("fsdp1"), "{:?}", engine_line(&sharded));
}

/// DeepSpeed's bf16 optimizer, with which BLOOM was trained (deepspeed/runtime/bf16_optimizer.py): bf16 weights (2), their
/// bf16 gradients, which are not cleared (2), and an fp32 gradient for each (4) stay on every rank; fp32 masters and
/// two states (12) are shared out.
#[test]
fn megatron_deepspeed_keeps_two_gradients() {
    let run = |ranks: u64| tried(&plan("megatron-deepspeed", "", ranks, ", sharding: zero1")).unwrap();
    near(run(8).largest().static_bytes.0, PARAMETERS * 8 + PARAMETERS * 12 / 8);
    near(run(64).largest().static_bytes.0, PARAMETERS * 8 + PARAMETERS * 12 / 64);
    assert!(engine_line(&run(8)).unwrap().contains("deepspeed"));
    let refused = tried(&plan("megatron-deepspeed", "", 8, ", engine: fsdp2")).unwrap_err();
    assert!(refused.contains("megatron-deepspeed runs under deepspeed"), "{refused}");
}

/// Under fp16 ZeRO's first stage keeps 2-byte gradients until its step, which frees them (deepspeed 0.6.5,
/// runtime/zero/stage_1_and_2.py, `step`): 2 bytes of weights and a share of 12 stay. Beside them the allocator keeps a
/// segment for a flat bucket of gradients (`allreduce_bucket`; this model is smaller than one, so all of it, 2 bytes), as
/// far as activations do not lie in it, and on 8 ranks one for a share in fp64 (`get_grad_norm_direct`): the embedding's
/// 33 554 432 elements are more than an eighth of the model, 27 675 776, and 8 bytes of each more than the 2 of the
/// embedding's gradient and the 4 of the share. On 64 ranks a share in fp64, 28 MB, fits where the embedding's gradient was.
#[test]
fn megatron_deepspeed_flattens_its_share_in_fp16() {
    let run =
        |ranks: u64| tried(&plan("megatron-deepspeed", ", precision: fp16-fp32-master", ranks, ", sharding: zero1"));
    for (ranks, fp64) in [(8, 8 * PARAMETERS / 8), (64, 0)] {
        let prediction = run(ranks).unwrap();
        let largest = prediction.largest();
        near(largest.static_bytes.0, PARAMETERS * 2 + PARAMETERS * 12 / ranks);
        let others = largest.peak_allocated.0 - largest.static_bytes.0 - PARAMETERS * 2;
        let flat = largest.terms.iter().find(|term| term.name == "flat gradients, cached").unwrap();
        near(flat.bytes.0 + others, PARAMETERS * 2 + fp64);
    }
}

/// Ranks of 2 data x 2 tensor x 2 pipeline talk in those three groups, and under DeepSpeed's pipeline in one of all, one of
/// a replica and one of a stage (deepspeed 0.6.5, runtime/pipe/topology.py, `PipelineParallelGrid`): six of 512 MiB. Its
/// PyTorch of 2022 loads every kernel: 1.78 GiB (ml-engineering's A100 with torch 1.10).
#[test]
fn megatron_deepspeed_has_groups_and_a_context_of_its_time() {
    let bytes = |framework: &str, name: &str| {
        let plan = plan(framework, ", precision: bf16-fp32-master", 8, ", tensor_parallel: 2, pipeline_parallel: 2");
        let prediction = tried(&plan.replace("data_parallel: 8", "data_parallel: 2")).unwrap();
        prediction.largest().terms.iter().filter(|term| term.name == name).map(|term| term.bytes.0 >> 20).sum::<u64>()
    };
    assert_eq!(bytes("megatron-deepspeed", "NCCL buffers"), 6 * 512);
    assert_eq!(bytes("megatron", "NCCL buffers"), 3 * 512);
    assert!(bytes("megatron-deepspeed", "CUDA context") > 1800);
}

/// On stages of their own the two uses of a tied matrix have a backward pass each, which adds to `.grad`: the first stage's
/// holds one new gradient beside it, 2 bytes for each of 32 768 x 1024 elements, and none that waits for the other.
#[test]
fn a_tied_matrix_of_two_stages_meets_no_other_gradient() {
    let tied = plan("megatron-deepspeed", ", precision: fp16-fp32-master", 2, ", pipeline_parallel: 2")
        .replace("tie_embeddings: false", "tie_embeddings: true, num_kv_heads: 16")
        .replace("data_parallel: 2", "data_parallel: 1");
    let prediction = tried(&tied).unwrap();
    let waiting = |stage: &memwall::predict::StageMemory| {
        let terms = stage.terms.iter().filter(|term| term.name == "weight gradients in flight");
        terms.map(|term| term.bytes.0).sum::<u64>()
    };
    for stage in &prediction.stages {
        assert!(waiting(stage) <= 2 * 32_768 * 1024 * 101 / 100, "{}", waiting(stage));
    }
}

#[test]
fn weights_of_a_plan_with_an_engine_are_those_of_its_sharding() {
    let whole = tried(&plan("pytorch", ", precision: fp32", 8, ", engine: deepspeed, sharding: zero1")).unwrap();
    near(weights(&whole), PARAMETERS * 4);
}

/// `--position-embedding-type` of Megatron-LM (megatron/training/arguments.py) has no `alibi`; that of BigScience's
/// Megatron-DeepSpeed has, whose default precision is BLOOM's, bf16 with fp32 masters.
#[test]
fn alibi_under_megatron_is_the_forks() {
    let positions = |framework: &str, position: &str| {
        let plan = plan(framework, ", precision: bf16-fp32-master", 8, ", sharding: zero1");
        tried(&plan.replace("linear_bias: false", &format!("linear_bias: false, position: {position}"))).unwrap()
    };
    let [megatron, fork] = ["megatron", "megatron-deepspeed"].map(|framework| positions(framework, "alibi"));
    assert_eq!(megatron.largest().static_bytes, fork.largest().static_bytes);
    assert_eq!(megatron.time.step, fork.time.step);
    let said = |prediction: &Prediction| {
        prediction.assumptions.iter().any(|line| line.starts_with("model.framework: megatron-deepspeed"))
    };
    assert!(said(&megatron) && !said(&fork) && !said(&positions("megatron", "rope")));
}

/// What each framework's scripts have, by their own files: nanoGPT's train.py wraps its model in DDP and knows no other
/// word; litgpt's pretrain.py and finetune/full.py have FSDPStrategy, and generate/tp.py splits a model that serves;
/// llm-foundry has tp_strategy.py and a `moe_world_size`; all of megatron's four degrees are in its parallel_state.py.
#[test]
fn parallelism_that_a_framework_has_not_is_refused_in_a_sentence() {
    let refused = |framework: &str, distribution: &str| {
        let text = format!(
            "{{model: {{preset: gpt2, framework: {framework}, batch_size: 16}}, cluster: {{num_gpus: 4}},
             distribution: {{{distribution}}}}}"
        );
        tried(&text).err()
    };
    for key in ["tensor_parallel", "pipeline_parallel", "context_parallel"] {
        let said = refused("nanogpt", &format!("{key}: 2")).unwrap();
        assert!(
            said.contains(&format!("distribution.{key}: 2: nanogpt has data parallelism alone; must be 1")),
            "{said}"
        );
        assert_eq!(refused("torchtitan", &format!("{key}: 2")), None);
    }
    for key in ["pipeline_parallel", "context_parallel"] {
        assert!(refused("litgpt", &format!("{key}: 2")).unwrap().contains("litgpt has data parallelism alone"));
        let said = refused("llm-foundry", &format!("{key}: 2")).unwrap();
        assert!(said.contains("llm-foundry has data, tensor and expert parallelism; must be 1"), "{said}");
    }
    assert_eq!(refused("llm-foundry", "tensor_parallel: 2"), None);
    assert!(refused("litgpt", "tensor_parallel: 2").is_some(), "its training splits nothing");
    let serving = "{model: {preset: pythia-1b, framework: litgpt, batch_size: 4, sequence_length: 512},
                    training: {mode: inference}, cluster: {num_gpus: 4}, distribution: {tensor_parallel: 4}}";
    assert_eq!(tried(serving).err(), None);
    for stage in ["zero1", "zero2", "zero3"] {
        let said = refused("nanogpt", &format!("sharding: {stage}")).unwrap();
        assert!(said.contains(&format!("distribution.sharding: {stage}: nanogpt has ddp alone")), "{said}");
    }
    // Whoever says which engine is put around the modules knows that it is not the framework's.
    assert_eq!(refused("nanogpt", "sharding: zero3, engine: fsdp2"), None);
}

#[test]
fn models_that_a_framework_has_no_modules_of_are_refused() {
    let of = |preset: &str, framework: &str| {
        tried(&format!(
            "{{model: {{preset: {preset}, framework: {framework}, batch_size: 8}}, cluster: {{num_gpus: 4}}}}"
        ))
    };
    for (preset, framework, said) in [
        (
            "resnet-50",
            "megatron",
            "model.framework: megatron has no convolutional networks: it has decoders, encoders,",
        ),
        ("stable-diffusion-xl", "nanogpt", "nanogpt has no diffusion models: it has decoders;"),
        ("t5-3b", "nanogpt", "nanogpt has no encoder-decoders: it has decoders;"),
        ("vit-large", "litgpt", "litgpt has no vision transformers: it has decoders;"),
        (
            "llama-3-8b",
            "torchvision",
            "torchvision has no decoders: it has convolutional networks, vision transformers",
        ),
        ("bert-large", "torchtitan", "torchtitan has no encoders: it has decoders;"),
    ] {
        let faults = of(preset, framework).unwrap_err();
        assert!(faults.contains(said) && faults.lines().count() == 1, "{preset} {framework}: {faults}");
    }
    for (preset, framework) in
        [("resnet-50", "torchvision"), ("bert-large", "megatron"), ("t5-3b", "llm-foundry"), ("gpt2", "nanogpt")]
    {
        assert_eq!(of(preset, framework).err(), None, "{preset} {framework}");
    }
    // nanoGPT has GPT-2's blocks (model.py, Block): others only stand beside them.
    let said = |preset: &str| {
        let lines = of(preset, "nanogpt").unwrap().assumptions;
        lines.iter().any(|line| line.starts_with("model.framework: nanogpt: not modelled for this model"))
    };
    assert!(said("llama-3.2-1b") && !said("gpt2"));
}

/// The table of `memwall help frameworks` says what is refused.
#[test]
fn the_help_says_what_each_framework_has() {
    use memwall::framework::Profile;
    use memwall::plan::keywords::{Framework, TransformerImpl};
    let help = include_str!("../../configs/help/frameworks.md");
    let table = help.split("## What a framework has").nth(1).unwrap().split("\n## ").next().unwrap();
    for framework in Framework::ALL {
        let name = format!("`{framework}`");
        let row = table.lines().find(|line| line.starts_with("| ") && line.split('|').nth(1).unwrap().contains(&name));
        let cells: Vec<&str> = row.unwrap().split('|').map(str::trim).collect();
        let support = &Profile::of(*framework, TransformerImpl::TransformerEngine).support;
        let words = |own: &[memwall::framework::ModelParallelism]| {
            own.iter().fold("data".to_owned(), |words, one| format!("{words}, {}", one.name()))
        };
        let sharded = if support.shards.is.len() == 1 { ", nothing sharded" } else { "" };
        assert_eq!(cells[3], words(support.splits.is) + sharded, "{framework}");
        let same = support.splits.is == support.serves_in.is && support.splits.is.len() > 1;
        assert!(
            cells[4] == words(support.serves_in.is) || (same && cells[4] == "the same"),
            "{framework}: {}",
            cells[4]
        );
    }
}
