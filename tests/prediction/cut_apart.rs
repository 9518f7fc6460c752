//! What transformers' tensor-parallel plans cut; types that an engine or a framework keeps against what a precision alone
//! would say; cards that only a plan knows.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Component, Prediction};

fn tried(plan: &str) -> Result<Prediction, String> {
    let plan = Document::parse(plan).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).map_err(|faults| faults.iter().map(|fault| format!("{fault}\n")).collect())
}

fn predicted(plan: &str) -> Prediction {
    tried(plan).unwrap_or_else(|faults| panic!("{faults}"))
}

fn says(prediction: &Prediction, line: &str) -> bool {
    prediction.assumptions.iter().any(|one| one.starts_with(line))
}

fn weights(prediction: &Prediction) -> u64 {
    let terms = &prediction.largest().terms;
    terms.iter().filter(|term| term.name == "weights" || term.name == "parameters").map(|term| term.bytes.0).sum()
}

fn llama(framework: &str, training: &str, rest: &str) -> String {
    format!(
        "{{model: {{preset: llama-3-8b, framework: {framework}, batch_size: 1, sequence_length: 4096}},
         training: {{{training}}}, {rest}}}"
    )
}

const TENSOR_8: &str = "cluster: {num_gpus: 8}, distribution: {tensor_parallel: 8, sequence_parallel: false}";
const ENDS: u64 = 128_256 * 4096;
const NORMS: u64 = 65 * 4096;
const MATRICES: u64 = 8_030_261_248 - 2 * ENDS - NORMS;

/// `base_model_tp_plan` of Llama (transformers 4.57.6) has the seven matrices of a layer, `_tp_plan` the head, whose logits
/// are gathered; nothing has the embedding. Megatron cuts that too.
#[test]
fn transformers_ranks_each_hold_the_whole_embedding() {
    let plain = predicted(&llama("pytorch", "precision: bf16", TENSOR_8));
    assert_eq!(weights(&plain), 2 * (MATRICES / 8 + ENDS / 8 + ENDS + NORMS));
    let megatron = predicted(&llama("megatron", "precision: bf16", TENSOR_8));
    // It pads the vocabulary to a multiple of 128 rows a rank (megatron/training/tokenizer, `_vocab_size_with_padding`).
    assert_eq!(weights(&megatron), 2 * (MATRICES / 8 + 2 * 129_024 * 4096 / 8 + NORMS));
    // A layer sums both halves forward; backward queries, keys, values, gate and up each sum their own, and so does the head
    // (torch/distributed/tensor/_api.py, `_FromTorchTensor.backward`).
    let sums = |prediction: &Prediction| {
        let term = prediction.time_terms.iter().find(|term| term.name == "tensor-parallel all-reduce").unwrap();
        term.transfer.as_ref().unwrap().count
    };
    assert_eq!(sums(&plain), 32.0 * (2.0 + 5.0) + 1.0);
    assert_eq!(sums(&megatron), 32.0 * 4.0 + 2.0);
    // All columns of the logits in 16 and, for the loss, 32 bits, which Megatron's ranks share.
    let logits = |prediction: &Prediction| prediction.largest().component(Component::Activations).0;
    assert!(logits(&plain) > logits(&megatron) + 4096 * 128_256 * 6 / 8 * 7);
}

/// What DeepSpeed trains it cuts within layers alone (module_inject/replace_module.py, `set_lm_head`): the head is whole too.
#[test]
fn deepspeed_leaves_both_ends_whole() {
    let rest = TENSOR_8.replace("tensor_parallel: 8", "tensor_parallel: 8, engine: deepspeed");
    assert_eq!(
        weights(&predicted(&llama("pytorch", "precision: bf16-mixed", &rest))),
        4 * (MATRICES / 8 + 2 * ENDS + NORMS)
    );
}

/// OPT's class has no plan (transformers 4.57.6, models/opt), nor GPT-J's, though its layers are read by the rules of others;
/// Qwen2-MoE's leaves the experts whole. DeepSpeed finds the matrices itself (module_inject/auto_tp.py).
#[test]
fn classes_without_a_whole_tensor_parallel_plan_are_said() {
    let left = |model: &str, rest: &str| {
        let prediction = predicted(&format!(
            "{{model: {{preset: {model}, batch_size: 2, sequence_length: 512}}, cluster: {{num_gpus: 2}},
             distribution: {{tensor_parallel: 2{rest}}}}}"
        ));
        prediction.not_modelled().any(|line| line.contains("leaves matrices of its layers whole"))
    };
    for model in ["opt-1.3b", "gpt-j-6b", "qwen1.5-moe-a2.7b"] {
        assert!(left(model, ""), "{model}");
    }
    assert!(!left("opt-1.3b", ", engine: deepspeed") && !left("qwen2.5-1.5b", ""));
}

/// Llama's plan has no entry `sequence_parallel`.
#[test]
fn transformers_has_no_switch_for_sequence_parallelism() {
    let rest = TENSOR_8.replace("sequence_parallel: false", "sequence_parallel: true");
    let split = predicted(&llama("pytorch", "precision: bf16", &rest));
    assert!(says(&split, "distribution.sequence_parallel: true, for which"), "{:?}", split.assumptions);
}

/// torchtitan, distributed/utils.py, `maybe_enable_amp`: no autocast where tensor or pipeline ranks stand without FSDP.
#[test]
fn torchtitan_computes_in_fp32_beside_ranks_without_fsdp() {
    let step = |precision: &str, rest: &str| {
        let prediction = predicted(&llama("torchtitan", &format!("precision: {precision}"), rest));
        (prediction.time.step.0, says(&prediction, "training.precision: bf16-mixed, computed in fp32"))
    };
    let alone = "cluster: {num_gpus: 2}, distribution: {tensor_parallel: 2}";
    let ((mixed, said), (full, _)) = (step("bf16-mixed", alone), step("fp32", alone));
    assert!(said && (mixed / full - 1.0).abs() < 1e-9, "{mixed}, {full}");
    let sharded = "cluster: {num_gpus: 4}, distribution: {tensor_parallel: 2, data_parallel: 2, sharding: zero3}";
    let sharded = sharded.replace("batch_size: 1", "batch_size: 2");
    let plan = llama("torchtitan", "precision: bf16-mixed", &sharded).replace("batch_size: 1", "batch_size: 2");
    let cast = predicted(&plan);
    assert!(cast.time.step.0 < full / 2.0 && !says(&cast, "training.precision"));
}

/// DeepSpeed clones its share from fp32 weights too (runtime/zero/stage_1_and_2.py,
/// `single_partition_of_fp32_groups`; stage3.py, `_create_fp32_partitions`, steps on fp32 weights as they are): 8 030 261 248 x 4 B over 8 ranks beside whole weights and a share of two states.
#[test]
fn zero_keeps_masters_beside_weights_in_fp32() {
    let of = |precision: &str| {
        let rest = "cluster: {num_gpus: 8}, distribution: {sharding: zero1}";
        let plan = llama("pytorch", &format!("precision: {precision}"), rest).replace("batch_size: 1", "batch_size: 8");
        let prediction = predicted(&plan);
        let said =
            if precision == "bf16" { "training.precision: bf16-fp32-master" } else { "training.master_dtype: fp32" };
        assert!(says(&prediction, said), "{precision}");
        prediction.largest().static_bytes.0
    };
    for (precision, stored) in [("fp32", 4), ("bf16-mixed", 4)] {
        let sum = 8_030_261_248 * stored + 8_030_261_248 * (4 + 8) / 8;
        let off = of(precision).abs_diff(sum) as f64 / sum as f64;
        assert!(off < 4e-3, "{precision}: {off}");
    }
    let rest = "cluster: {num_gpus: 8}, distribution: {sharding: zero3, engine: deepspeed}";
    let third = predicted(&llama("pytorch", "precision: fp32", rest).replace("batch_size: 1", "batch_size: 8"));
    assert!(!says(&third, "training.master_dtype"), "{:?}", third.assumptions);
}

/// A card of A100's figures (312 TFLOP/s in 16 bits) without an FP32 peak is A100's, 19.5, said so, and not one
/// multiprocessor: GPT-2's 50 257 columns take no longer than a quarter more.
#[test]
fn a_card_of_the_plans_own_may_leave_its_fp32_peak_out() {
    let step = |peaks: &str| {
        let prediction = predicted(&format!(
            "{{model: {{preset: gpt2, batch_size: 4, sequence_length: 1024}}, training: {{precision: bf16-mixed}},
             hardware: {{custom: {{memory_gb: 80, bandwidth_gb_s: 2039, peak_tflops: {{{peaks}}}}}}}}}"
        ));
        let said = says(&prediction, "hardware.custom.peak_tflops.fp32: 19.5 (");
        (prediction.time.step.0, said)
    };
    let ((silent, said), (told, unsaid)) = (step("bf16: 312"), step("bf16: 312, fp32: 19.5"));
    assert!(said && !unsaid && (silent / told - 1.0).abs() < 1e-9, "{silent}, {told}");
}

/// The command line's own default.
#[test]
fn who_answers_holds_16_bits() {
    let plan = "{model: {preset: llama-3-8b, batch_size: 16, sequence_length: 8192}, training: {mode: inference}}";
    let prediction = predicted(plan);
    assert!(says(&prediction, "training.precision: bf16"));
    assert_eq!(weights(&prediction), 2 * 8_030_261_248);
}

/// What crosses between nodes is the plan's to say, or is said.
#[test]
fn a_network_that_is_taken_is_said() {
    let of = |rest: &str| {
        let plan = format!("cluster: {{num_gpus: 64{rest}}}, distribution: {{sharding: zero3}}");
        predicted(&llama("pytorch", "precision: bf16", &plan).replace("batch_size: 1", "batch_size: 64"))
    };
    assert!(says(&of(""), "cluster.network: infiniband_ndr"));
    assert!(!says(&of(", network: ethernet_100"), "cluster.network"));
}

/// bitsandbytes keeps scales beside the module, where FSDP does not see them (nn/modules.py,
/// `fix_4bit_weight_quant_state_from_module`): of Llama 3 8B's 6 979 321 856 matrix elements each of two ranks holds half
/// a byte a pair and all scales, 4 B for 64; torchao splits both (dtypes/nf4tensor.py, `nf4_split`).
#[test]
fn every_rank_has_all_scales_of_bitsandbytes() {
    let held = |framework: &str, ranks: u64| {
        let plan = llama(
            framework,
            "precision: bf16, lora: {rank: 8, base_bits: 4}",
            &format!("cluster: {{num_gpus: {ranks}}}, distribution: {{sharding: zero3}}"),
        );
        weights(&predicted(&plan.replace("batch_size: 1", &format!("batch_size: {ranks}"))))
    };
    let near = |bytes: u64, sum: u64| assert!(bytes.abs_diff(sum) < sum / 200, "{bytes}, not {sum}");
    // The rest, in 16 bits: the ends, the norms and adapters of rank 8 beside queries and values, 32 x 8 x (8192 + 5120).
    let rest = 2 * (2 * ENDS + NORMS + 32 * 8 * (8192 + 5120));
    let scales = |bits: u64| MATRICES / 64 * bits / 8;
    let halved = |framework: &str| held(framework, 2) as f64 / held(framework, 1) as f64;
    near(held("pytorch", 2), (MATRICES / 2 + rest) / 2 + scales(32));
    assert!((halved("torchtitan") - 0.5).abs() < 0.001, "{}", halved("torchtitan"));
}
