//! Inference: weights, keys and values, what a prompt's tokens pass through, and tokens a
//! second, each against sums written out from published dimensions or against an account of
//! the framework's own run.

use crate::support::catalog;
use std::io::Write as _;
use std::process::{Command, Stdio};

use memwall::plan::Document;
use memwall::predict::{self, Component, Prediction, StageMemory};
use memwall::units::Bytes;
use serde_json::{Value, json};

/// A plan for `model` with further keys: pairs of a dotted path and a value.
fn plan(model: Value, keys: &[(&str, Value)]) -> Value {
    let mut plan = json!({"model": model, "training": {"mode": "inference", "precision": "bf16"}});
    for (path, value) in keys {
        let (section, key) = path.split_once('.').unwrap();
        plan[section][key] = value.clone();
    }
    plan
}

fn predicted(plan: &Value) -> Prediction {
    let plan = Document::parse(&plan.to_string()).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap()
}

fn preset(name: &str, keys: &[(&str, Value)]) -> Prediction {
    predicted(&plan(json!({"preset": name}), keys))
}

fn of(stage: &StageMemory, component: Component) -> u64 {
    stage.component(component).0
}

fn cache(prediction: &Prediction) -> u64 {
    of(prediction.largest(), Component::KvCache)
}

fn tokens(batch: u64, sequence: u64) -> [(&'static str, Value); 2] {
    [("model.batch_size", json!(batch)), ("model.sequence_length", json!(sequence))]
}

#[test]
fn the_example_plan_can_be_checked_by_hand() {
    let text = include_str!("../../configs/plans/7b_inference.yaml");
    let plan = Document::parse(text).unwrap().plan().unwrap();
    let prediction = predict::of(&plan, catalog()).unwrap();
    let stage = prediction.largest();
    // Llama 2 7B: 6 738 415 616 parameters of 2 bytes.
    assert_eq!(of(stage, Component::Parameters), 6_738_415_616 * 2);
    // A key and a value, 32 layers, 32 heads of 128, 2 bytes: 512 KiB a token, for 16 requests of 4096.
    assert_eq!(cache(&prediction), 2 * 32 * 32 * 128 * 2 * 16 * 4096);
    for absent in [Component::Gradients, Component::OptimizerStates, Component::CommunicationBuffers] {
        assert_eq!(of(stage, absent), 0, "{absent:?}");
    }
    // A cuBLAS workspace on Ampere is 8 519 680 bytes (PyTorch, CublasHandlePool.cpp).
    assert_eq!(stage.static_bytes.0, 6_738_415_616 * 2 + (16 << 31) + 8_519_680);
    let parts: u64 = stage.terms.iter().map(|term| term.bytes.0).sum();
    assert_eq!(parts, stage.device_used.0);
}

#[test]
fn grouped_and_single_kv_heads_shrink_the_cache() {
    // Llama 3 8B: 32 layers, 8 KV heads of 128: 128 KiB a token.
    assert_eq!(cache(&preset("llama-3-8b", &tokens(1, 8192))), 128 * 1024 * 8192);
    // Falcon 7B: 32 layers, one KV head of 64: 8 KiB a token.
    let falcon = json!({"hf_config": {
        "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
        "multi_query": true, "parallel_attn": true, "bias": false, "new_decoder_architecture": false,
        "vocab_size": 65024,
    }});
    assert_eq!(cache(&predicted(&plan(falcon, &tokens(3, 2048)))), 8 * 1024 * 3 * 2048);
}

#[test]
fn latent_attention_caches_what_each_head_reads_or_the_latent_and_the_rotated_key() {
    // DeepSeek-V2-Lite: 27 layers, latent of 512, rotated key of 64, 2 bytes.
    let config = json!({
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
        "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512,
        "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400,
    });
    let lite = |keys: &[(&str, Value)]| predicted(&plan(json!({"hf_config": config.clone()}), keys));
    let prediction = lite(&tokens(2, 4096));
    assert_eq!(prediction.params.total, 15_706_484_224, "published as 15.7B");
    // transformers 4.57.6 on a step of its own: keys [1, 16, n, 192] and values [1, 16, n, 128].
    assert_eq!(cache(&prediction), 16 * (192 + 128) * 2 * 27 * 2 * 4096);
    let split = [("distribution.tensor_parallel", json!(4))];
    assert_eq!(cache(&lite(&[&tokens(2, 4096)[..], &split].concat())), cache(&prediction) / 4);
    let kept = [("training.cache_latents", json!(true))];
    let latents = lite(&[&tokens(2, 4096)[..], &kept].concat());
    assert_eq!(cache(&latents), (512 + 64) * 2 * 27 * 2 * 4096);
    // There is one latent for all heads: tensor parallel does not split it.
    assert_eq!(cache(&lite(&[&tokens(2, 4096)[..], &kept, &split].concat())), cache(&latents));
    assert!(prediction.assumptions.iter().any(|line| line.contains("latent")), "{:?}", prediction.assumptions);
}

#[test]
fn windowed_layers_cache_no_more_than_their_window() {
    // Mistral 7B: 32 layers, 8 KV heads of 128, all within 4096 tokens.
    assert_eq!(cache(&preset("mistral-7b", &tokens(1, 32_768))), 128 * 1024 * 4096);
    assert_eq!(cache(&preset("mistral-7b", &tokens(1, 1000))), 128 * 1024 * 1000);
    // Gemma 2 2B: 26 layers, 4 KV heads of 256: 4 KiB a token and layer; every second layer within 4096 tokens.
    assert_eq!(cache(&preset("gemma-2-2b", &tokens(1, 8192))), 13 * 4096 * 4096 + 13 * 8192 * 4096);
}

#[test]
fn the_cache_has_a_type_of_its_own_and_may_be_absent() {
    let whole = 512 * 1024 * 1024;
    let with =
        |key: &'static str, value: Value| preset("llama-2-7b", &[&tokens(1, 1024)[..], &[(key, value)]].concat());
    for (dtype, share) in [("bf16", 1.0), ("fp8", 0.5), ("int8", 0.5), ("fp32", 2.0)] {
        let prediction = with("training.kv_cache_dtype", json!(dtype));
        assert_eq!(cache(&prediction) as f64, whole as f64 * share, "{dtype}");
    }
    assert_eq!(cache(&with("training.precision", json!("fp32"))), 2 * whole);
    let without = with("training.use_cache", json!(false));
    assert_eq!(cache(&without), 0);
    assert!(without.decode.is_none());
}

#[test]
fn ranks_share_heads_layers_tokens_and_requests() {
    let model = || plan(json!({"preset": "llama-3-8b"}), &tokens(4, 8192));
    let one = 128 * 1024 * 4 * 8192;
    let with = |keys: &[(&str, u64)]| {
        let mut plan = model();
        for (key, degree) in keys {
            plan["distribution"][*key] = json!(degree);
        }
        predicted(&plan)
    };
    assert_eq!(cache(&with(&[("tensor_parallel", 8)])), one / 8);
    // 8 KV heads on 16 ranks: one head each.
    assert_eq!(cache(&with(&[("tensor_parallel", 16)])), one / 8);
    assert_eq!(cache(&with(&[("context_parallel", 4)])), one / 4);
    assert_eq!(cache(&with(&[("data_parallel", 2)])), one / 2);
    let stages = with(&[("pipeline_parallel", 4)]).stages;
    assert!(stages.iter().all(|stage| of(stage, Component::KvCache) == one / 4), "8 of 32 layers each");
}

#[test]
fn prompts_read_in_parts_need_less_while_all_requests_keep_their_cache() {
    let all = preset("llama-3-8b", &tokens(16, 4096));
    let parts = preset("llama-3-8b", &[&tokens(16, 4096)[..], &[("training.micro_batch_size", json!(4))]].concat());
    assert_eq!(cache(&all), cache(&parts));
    assert_eq!(all.largest().static_bytes, parts.largest().static_bytes);
    let passing = |prediction: &Prediction| of(prediction.largest(), Component::Activations);
    let ratio = passing(&all) as f64 / passing(&parts) as f64;
    assert!((3.9..4.1).contains(&ratio), "{ratio}");
}

/// transformers 5.23 followed storage by storage over one forward pass under `torch.no_grad` with its
/// `DynamicCache`, `logits_to_keep=1` and flash attention, on fake CUDA tensors: peak bytes, each storage rounded
/// up to 512.
#[test]
fn a_prompt_passes_through_what_transformers_holds_then() {
    let llama = |intermediate: u64, kv_heads: u64, vocab: u64| {
        json!({"hf_config": {
            "model_type": "llama", "hidden_size": 4096, "intermediate_size": intermediate, "num_hidden_layers": 4,
            "num_attention_heads": 32, "num_key_value_heads": kv_heads, "vocab_size": vocab,
        }})
    };
    let neox = json!({"hf_config": {
        "model_type": "gpt_neox", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 4,
        "num_attention_heads": 16, "vocab_size": 50432,
    }});
    let cases = [
        (llama(11_008, 32, 32_000), tokens(2, 4096), 3_491_931_136_u64),
        (llama(14_336, 8, 128_256), tokens(2, 4096), 4_955_743_232),
        (neox, tokens(2, 2048), 1_151_869_952),
    ];
    for (model, tokens, peak) in cases {
        let name = model.to_string();
        let mut plan = plan(model, &tokens);
        plan["hardware"]["library_workspaces"] = json!(false);
        let found = predicted(&plan).largest().peak_allocated.0;
        // The tokenizer's mask (64 KiB at most here) was not passed there.
        assert!(found.abs_diff(peak) <= 64 << 10, "{found} for {peak}: {name}");
    }
}

#[test]
fn a_token_takes_as_long_as_reading_weights_and_cache() {
    let prediction = preset("llama-2-7b", &tokens(16, 4096));
    let decode = prediction.decode.unwrap();
    // Every weight but the embedding's 32000 rows of 4096, and the cache three times: it is read, written with the new token
    // behind it (cache_utils.py, DynamicLayer.update: torch.cat), and read by the attention.
    let read = (6_738_415_616_u64 - 32_000 * 4096) * 2 + 3 * 512 * 1024 * 16 * 4096;
    let moved = decode.bandwidth.0 * decode.step.0;
    assert!((moved / read as f64 - 1.0).abs() < 0.01, "{moved} for {read}");
    // An H100 reads 3.35e12 bytes a second; not all of that is reached, and each of the forty or so small kernels of
    // a layer of transformers' modules takes a few microseconds to start: 32 x 40 x 3 us are 4 ms.
    let fastest = read as f64 / 3.35e12;
    assert!((fastest..fastest / 0.85 + 4e-3).contains(&decode.step.0), "{} for {fastest}", decode.step.0);
    assert!((decode.tokens_per_s.unwrap() * decode.step.0 - 16.0).abs() < 1e-6);
    // A server's cache of one byte an element is read once.
    let keys = [&tokens(16, 4096)[..], &[("training.kv_cache_dtype", json!("fp8"))]].concat();
    let quantised = preset("llama-2-7b", &keys).decode.unwrap();
    let saved = moved - quantised.bandwidth.0 * quantised.step.0;
    assert!((saved / ((3.0 * 512.0 - 256.0) * 1024.0 * 16.0 * 4096.0) - 1.0).abs() < 0.01, "{saved}");
    // Unfused attention of grouped heads reads it once more and writes and reads a copy for each of 4 heads: 1 + 4 + 4 in
    // place of the last (transformers, `repeat_kv`).
    let moved = |attention: &str| {
        let keys = [&tokens(16, 4096)[..], &[("training.attention", json!(attention))]].concat();
        let decode = preset("llama-3-8b", &keys).decode.unwrap();
        decode.bandwidth.0 * decode.step.0
    };
    let cache = 2.0 * 2.0 * 32.0 * 1024.0 * 16.0 * 4096.0;
    let more = (moved("eager") - moved("sdpa")) / cache;
    assert!((7.9..8.3).contains(&more), "{more}");
}

#[test]
fn weights_are_held_in_the_type_that_the_plan_says() {
    let params = 6_738_415_616_u64;
    let weights = |keys: &[(&str, Value)]| of(preset("llama-2-7b", keys).largest(), Component::Parameters);
    assert_eq!(weights(&[("training.precision", json!("fp32"))]), params * 4);
    assert_eq!(weights(&[("training.precision", json!("fp16"))]), params * 2);
    // FP8: the blocks' matrices 1 byte; embedding and head (32000 x 4096 each) and 65 norms of 4096 stay at 2.
    let rest = 2 * 32_000 * 4096 + 65 * 4096;
    assert_eq!(weights(&[("training.precision", json!("fp8-mixed"))]), (params - rest) + rest * 2);
    // AWQ: 4 bits, and a scale of 2 bytes and a zero point of half a byte for 128 of them.
    let by_hand = (params - rest) as f64 * (0.5 + 2.5 / 128.0) + rest as f64 * 2.0;
    let found = weights(&[("training.weight_bits", json!(4))]) as f64;
    assert!((found / by_hand - 1.0).abs() < 0.001, "{found} for {by_hand}");
    // NF4: 4 bits and a 4-byte scale for 64 of them, beside adapters of rank 8 on q and v: 32 x 2 x 2 x 8 x 4096, fp32.
    let lora = json!({"rank": 8, "targets": ["q_proj", "v_proj"], "base_bits": 4});
    let by_hand = (params - rest) as f64 * 0.5625 + rest as f64 * 2.0 + (32 * 2 * 2 * 8 * 4096 * 4) as f64;
    let found = weights(&[("training.lora", lora)]) as f64;
    assert!((found / by_hand - 1.0).abs() < 0.001, "{found} for {by_hand}");
}

/// `memwall predict -` with `plan` on its standard input, and its exit code.
fn memwall(arguments: &[&str], plan: &Value) -> (String, i32) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_memwall"))
        .args(["predict", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(plan.to_string().as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    (String::from_utf8(done.stdout).unwrap(), done.status.code().unwrap())
}

#[test]
fn the_largest_batch_and_the_longest_context_fit_and_one_more_does_not() {
    let example = |batch: u64, sequence: u64| {
        let mut plan = plan(json!({"preset": "llama-2-7b"}), &tokens(batch, sequence));
        plan["hardware"]["gpu_type"] = json!("NVIDIA A100 80GB");
        plan
    };
    let (text, _) = memwall(&["--max-batch-size"], &example(16, 4096));
    let (report, _) = memwall(&["--max-batch-size", "--format", "json"], &example(16, 4096));
    let report: Value = serde_json::from_str(&report).unwrap();
    let batch = report["max_batch_size"]["batch_size"].as_u64().unwrap();
    let sequence = report["max_sequence_length"]["sequence_length"].as_u64().unwrap();
    assert!(text.contains(&format!("longest context that fits: {sequence} tokens")), "{text}");
    assert!(report["decode"]["tokens_per_s"].as_f64().unwrap() > 0.0);
    // Weights of 12.6 GiB and 2 GiB of cache a request leave room for fewer than 33 on 80 GiB.
    assert!((20..33).contains(&batch), "{batch}");
    for (plan, code) in [
        (example(batch, 4096), 0),
        (example(batch + 1, 4096), 3),
        (example(16, sequence), 0),
        (example(16, sequence + 1), 3),
    ] {
        assert_eq!(memwall(&[], &plan).1, code, "{plan}");
    }
}

#[test]
fn a_training_plan_says_nothing_of_decoding() {
    let mut plan = plan(json!({"preset": "gpt2", "batch_size": 1, "sequence_length": 128}), &[]);
    plan["training"]["mode"] = json!("train");
    let prediction = predicted(&plan);
    assert!(prediction.decode.is_none());
    assert_eq!(prediction.largest().component(Component::KvCache), Bytes::ZERO);
}

/// Mixtral 8x7B, hidden 4096, 32 layers, experts of 3 x 4096 x 14336: one request visits 2 of 8 experts, 16 requests all but
/// 8 x (1 - 2/8)^16 = 0.08 of them. Attention has 2 x 4096 x (4096 + 1024) elements, the head 4096 x 32000.
#[test]
fn a_token_reads_the_experts_that_it_visits() {
    let moved = |batch: u64| {
        let decode = preset("mixtral-8x7b", &tokens(batch, 1024)).decode.unwrap();
        decode.bandwidth.0 * decode.step.0
    };
    let expert = 3 * 4096 * 14336 * 2;
    let others = (32 * 2 * 4096 * (4096 + 1024) + 4096 * 32_000) * 2;
    // The cache, 32 layers of 2 x 1024 values a token, moves three times.
    let cache = |batch: u64| 3 * 32 * 2 * 1024 * 2 * 1024 * batch;
    let read = |experts: u64, batch: u64| (32 * experts * expert + others + cache(batch)) as f64;
    let (one, many) = (moved(1), moved(16));
    assert!((read(2, 1)..read(2, 1) * 1.02).contains(&one), "{one} of {}", read(2, 1));
    assert!((read(8, 16)..read(8, 16) * 1.05).contains(&many), "{many} of {}", read(8, 16));
}

/// Small all-reduces of B200 take no longer than H100's: each of 161 in a token of Llama 3 70B is of 16 KiB.
#[test]
fn short_messages_take_no_steps_of_long_ones() {
    let token = |gpu: &str| {
        let keys = [
            ("hardware.gpu_type", json!(gpu)),
            ("cluster.num_gpus", json!(8)),
            ("training.cuda_graph", json!("full_iteration")),
        ];
        let split = [("distribution.tensor_parallel", json!(8))];
        preset("llama-3-70b", &[&tokens(1, 4096)[..], &keys, &split].concat()).decode.unwrap()
    };
    let (hopper, blackwell) = (token("NVIDIA H100"), token("NVIDIA B200"));
    assert!(blackwell.communication.0 <= hopper.communication.0 * 1.01);
    assert!(blackwell.step.0 < hopper.step.0);
}

/// Nobody gives labels to a model that answers: the logits of 64 x 512 tokens and 50 368 words in bf16 are 3.3 GB, and no
/// fp32 copy and no log-softmax of them (3 x 6.6 GB) are beside.
#[test]
fn an_encoder_that_answers_has_no_loss() {
    let mut plan = plan(json!({"preset": "modernbert-base", "batch_size": 64, "sequence_length": 512}), &[]);
    plan["training"]["precision"] = json!("bf16");
    let prediction = predicted(&plan);
    let logits = 64 * 512 * 50_368 * 2;
    let found = prediction.largest().peak_allocated.0;
    assert!((logits..2 * logits).contains(&found), "{found} for {logits}");
    assert!(prediction.roofline.ops.iter().all(|op| !op.name.starts_with("loss")));
}

/// Outside of training every expert of gpt-oss takes every token (`GptOssExperts.forward`). Where the activated halves are
/// multiplied its names hold the repeated input, both projections and four tensors more beside the product: 8 of
/// 8192 tokens x 32 experts x 2880 in bf16, 12.08 GB, as measured.
#[test]
fn every_expert_of_gpt_oss_takes_every_token() {
    let prediction = preset("gpt-oss-20b", &tokens(4, 2048));
    let stage = prediction.largest();
    let found = (stage.peak_allocated.0 - stage.static_bytes.0) as f64;
    let held = 8.0 * 8192.0 * 32.0 * 2880.0 * 2.0;
    assert!((held..held * 1.03).contains(&found), "{found} for {held}");
}

/// A rank of transformers' tensor parallelism holds whole experts of gpt-oss (`base_model_tp_plan`: `grouped_gemm`): of 4 ranks a
/// quarter each. An expert has 2880 x 5760 + 5760 + 2880 x 2880 + 2880 = 24 891 840 parameters, 32 in each of 24 layers
/// 19 116 933 120 of the model's 20 914 757 184: what is left is replicated by expert parallelism.
#[test]
fn experts_of_gpt_oss_are_divided() {
    let (all, experts) = (20_914_757_184_u64, 19_116_933_120_u64);
    for (degree, held) in [("expert_parallel", all - experts + experts / 4), ("tensor_parallel", all / 4)] {
        let mut plan = plan(json!({"preset": "gpt-oss-20b"}), &tokens(4, 512));
        plan["cluster"] = json!({"num_gpus": 4});
        plan["distribution"] = json!({degree: 4});
        let found = of(predicted(&plan).largest(), Component::Parameters) as f64 / (2 * held) as f64;
        // Norms are on every rank, and each tensor is rounded up to 512 bytes.
        assert!((1.0..1.001).contains(&found), "{degree}: {found}");
    }
}

/// Llama-2 13B in fp32 is 13.0159 billion parameters of 4 bytes: what generates reads them all for each token, and an H100 no
/// faster than 3.35 TB/s.
#[test]
fn a_token_is_no_faster_than_its_weights_are_read() {
    for framework in ["pytorch", "llm-foundry", "torchtitan"] {
        let model = json!({"preset": "llama-2-13b", "framework": framework, "sequence_length": 2048, "batch_size": 1});
        let keys = [("training.precision", json!("bf16-mixed"))];
        let prediction = predicted(&plan(model, &keys));
        let token = prediction.decode.as_ref().unwrap().step.0;
        assert!(token >= 13.0159e9 * 4.0 / 3.352e12, "{framework}: {token}");
    }
}

/// FSDP's ranks gather weights that are cast before: in bf16 8.03 billion parameters are 16.1 GB a pass, not 32.1, and each of
/// eight ranks holds an eighth of 32.1 GB.
#[test]
fn shards_are_cast_before_they_are_gathered() {
    let model = json!({"preset": "llama-3-8b", "framework": "torchtitan", "sequence_length": 2048, "batch_size": 8});
    let keys = [
        ("training.precision", json!("bf16-mixed")),
        ("cluster.num_gpus", json!(8)),
        ("distribution.sharding", json!("zero3")),
    ];
    let prediction = predicted(&plan(model, &keys));
    assert!(prediction.largest().device_used.as_f64() < 16.1e9, "{}", prediction.largest().device_used);
}
