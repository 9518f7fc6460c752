//! Where low-rank adapters stand, by the names that frameworks' modules have: counts of trained parameters by hand,
//! rank x (input + output) a matrix, from the matrices in the models' code.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict;

const RANK: u64 = 8;

/// Trained parameters, or the faults.
fn trained(model: &str, lora: &str) -> Result<u64, Vec<String>> {
    let text = format!("model: {{{model}, sequence_length: 512}}\ntraining: {{lora: {{rank: {RANK}{lora}}}}}\n");
    let plan = Document::parse(&text).unwrap().plan().unwrap();
    predict::of(&plan, catalog())
        .map(|prediction| prediction.params.trainable)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn of(preset: &str, lora: &str) -> u64 {
    trained(&format!("preset: {preset}"), lora).unwrap()
}

/// A model by the keys of its configuration.
fn configured(config: &str, lora: &str) -> u64 {
    trained(&format!("hf_config: {{{config}}}"), lora).unwrap()
}

/// peft's `TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING` (utils/constants.py) on the models' matrices.
#[test]
fn without_targets_pefts_defaults_stand() {
    assert_eq!(of("llama-2-7b", ""), 32 * RANK * 2 * (4096 + 4096));
    // One matrix makes queries, keys and values (models/gpt2, `c_attn`).
    assert_eq!(of("gpt2", ""), 12 * RANK * (768 + 3 * 768));
    let bert = "model_type: bert, hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 12";
    assert_eq!(configured(bert, ""), 12 * RANK * 2 * (768 + 768));
    // 71 heads of 64 and one for keys and one for values (models/falcon, `query_key_value`).
    let falcon = "model_type: falcon, hidden_size: 4544, num_hidden_layers: 32, num_attention_heads: 71, \
                  multi_query: true, new_decoder_architecture: false, vocab_size: 65024";
    assert_eq!(configured(falcon, ""), 32 * RANK * (4544 + (71 + 2) * 64));
    let bloom = "model_type: bloom, hidden_size: 1024, n_layer: 24, n_head: 16, vocab_size: 250880";
    assert_eq!(configured(bloom, ""), 24 * RANK * (1024 + 3 * 1024));
    let neox = "model_type: gpt_neox, hidden_size: 2048, num_hidden_layers: 16, num_attention_heads: 8, \
                intermediate_size: 8192, vocab_size: 50304";
    assert_eq!(configured(neox, ""), 16 * RANK * (2048 + 3 * 2048));
    let phi = "model_type: phi, hidden_size: 2560, num_hidden_layers: 32, num_attention_heads: 32, \
               intermediate_size: 10240, vocab_size: 51200";
    assert_eq!(configured(phi, ""), 32 * RANK * (2 * (2560 + 2560) + 2 * (2560 + 10240)));
    // Megatron-Bridge's (peft/lora.py): all four matrices of a layer, two of them fused.
    let attention = (4096 + 3 * 4096) + (4096 + 4096);
    let megatron = trained("preset: llama-2-7b, framework: megatron", "").unwrap();
    assert_eq!(megatron, 32 * RANK * (attention + (4096 + 2 * 11008) + (11008 + 4096)));
}

/// Whatever ranks share out, the model has all its parameters, and its adapters: Megatron-Bridge's on all four matrices.
#[test]
fn ranks_that_share_a_layer_have_the_whole_model() {
    let of = |degrees: &str| {
        let text = format!(
            "model: {{preset: llama-2-7b, framework: megatron, sequence_length: 512}}\ncluster: {{num_gpus: 4}}\n\
             training: {{lora: {{rank: {RANK}}}}}\ndistribution: {{{degrees}}}\n"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        let params = predict::of(&plan, catalog()).unwrap().params;
        (params.total, params.trainable)
    };
    let adapters = 32 * RANK * (4 * 4096 + 2 * 4096 + (4096 + 2 * 11008) + (11008 + 4096));
    // The base has 6 738 415 616; Megatron pads 32 000 rows to a multiple of 128 x 4 = 512: 256 more, in two tables.
    assert_eq!(of("tensor_parallel: 1"), (6_738_415_616 + adapters, adapters));
    assert_eq!(of("tensor_parallel: 4"), (6_738_415_616 + 2 * 256 * 4096 + adapters, adapters));
}

/// Beside adapters Megatron has main gradients, masters and states in fp32 as beside any weight (core/optimizer/optimizer.py,
/// `Float16OptimizerWithFloat16Params`), and Transformer Engine no stand-ins for gradients of frozen weights
/// (pytorch/module/linear.py).
#[test]
fn megatron_steps_adapters_as_any_weight() {
    let text = format!(
        "model: {{preset: llama-2-7b, framework: megatron, sequence_length: 512}}\ntraining: {{lora: {{rank: {RANK}, \
         targets: [linear_qkv]}}, precision: bf16-fp32-master, gradient_accumulation_fusion: true}}\n"
    );
    let plan = Document::parse(&text).unwrap().plan().unwrap();
    let prediction = predict::of(&plan, catalog()).unwrap();
    let of =
        |name: &str| prediction.largest().terms.iter().find(|term| term.name == name).map_or(0, |term| term.bytes.0);
    let adapters = 32 * RANK * (4096 + 3 * 4096);
    assert_eq!([of("master weights"), of("optimizer states")], [adapters * 4, adapters * 2 * 4]);
    assert_eq!([of("gradients"), of("dummy weight gradients")], [adapters * 4, 0]);
}

/// Phi-3's class makes queries, keys and values by one matrix (models/phi3); torchtune's (models/phi3/_component_builders.py)
/// and litgpt's adapters (litgpt/lora.py, `LoRAQKVLinear`) have one each.
#[test]
fn frameworks_split_what_a_class_fuses() {
    let all = ", targets: [q_proj, k_proj, v_proj, gate_proj, up_proj]";
    let by_hand = 32 * RANK * (3 * (3072 + 3072) + 2 * (3072 + 8192));
    for framework in ["litgpt", "torchtune"] {
        assert_eq!(trained(&format!("preset: phi-3-mini, framework: {framework}"), all).unwrap(), by_hand);
    }
    assert!(trained("preset: phi-3-mini", all).is_err());
}

/// Qwen's shared expert (models/qwen2_moe, `Qwen2MoeSparseMoeBlock.shared_expert`): 2048 to 5632 in each of 24 layers.
#[test]
fn a_shared_expert_is_named_apart() {
    let shared = "[shared_expert.up_proj]";
    assert_eq!(of("qwen1.5-moe-a2.7b", &format!(", targets: {shared}")), 24 * RANK * (2048 + 5632));
}

#[test]
fn families_have_names_of_their_own() {
    let vit = "model_type: vit, hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 12, image_size: 224, \
               patch_size: 16";
    let vit = format!("hf_config: {{{vit}}}, image_size: 224");
    assert_eq!(trained_image(&vit, ", targets: [query, value]"), 12 * RANK * 2 * (768 + 768));
    // `c_proj` is attention's and the feed-forward block's; a longer path means one of them.
    let attention = 768 + 768;
    let block = 4 * 768 + 768;
    assert_eq!(of("gpt2", ", targets: [c_proj]"), 12 * RANK * (attention + block));
    assert_eq!(of("gpt2", ", targets: [mlp.c_proj]"), 12 * RANK * block);
    // DeepSeek V2 Lite: 16 heads of 128 + 64, a latent of 512 + 64 (models/deepseek_v2, `DeepseekV2Attention`).
    let deepseek = "model_type: deepseek_v2, hidden_size: 2048, num_hidden_layers: 27, num_attention_heads: 16, \
                    q_lora_rank: null, kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128, \
                    n_routed_experts: 64, num_experts_per_tok: 6, n_shared_experts: 2, moe_intermediate_size: 1408, \
                    intermediate_size: 10944, first_k_dense_replace: 1, vocab_size: 102400";
    let targets = ", targets: [q_proj, kv_a_proj_with_mqa, kv_b_proj]";
    let matrices = (2048 + 16 * 192) + (2048 + 512 + 64) + (512 + 16 * 256);
    assert_eq!(configured(deepseek, targets), 27 * RANK * matrices);
}

/// The same as `trained`, of a model that takes images.
fn trained_image(model: &str, lora: &str) -> u64 {
    let text = format!("model: {{{model}}}\ntraining: {{lora: {{rank: {RANK}{lora}}}}}\n");
    let plan = Document::parse(&text).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap().params.trainable
}

/// Each expert is a module with matrices of its own (transformers 4.57.6, models/mixtral and qwen3_moe), and each gets
/// adapters; so does the router where every linear layer does.
#[test]
fn experts_get_an_adapter_each() {
    let experts = 8 * 3 * (4096 + 14336);
    assert_eq!(of("mixtral-8x7b", ", targets: [w1, w2, w3]"), 32 * RANK * experts);
    let attention = 2 * (4096 + 4096) + 2 * (4096 + 1024);
    let router = 4096 + 8;
    assert_eq!(of("mixtral-8x7b", ", targets: [all-linear]"), 32 * RANK * (attention + router + experts));
    let targets = ", targets: [gate_proj, up_proj, down_proj]";
    assert_eq!(of("qwen3-30b-a3b", targets), 48 * RANK * 128 * 3 * (2048 + 768));
}

/// peft, tuners/lora/layer.py: `Embedding` and `Linear`; `all-linear` leaves the output matrix out (tuners_utils.py,
/// `_maybe_include_all_linear_layers`).
#[test]
fn the_embedding_and_the_output_matrix_take_one_where_they_are_named() {
    let ends = 4096 + 32_000;
    assert_eq!(of("llama-2-7b", ", targets: [lm_head]"), RANK * ends);
    assert_eq!(of("llama-2-7b", ", targets: [embed_tokens, lm_head]"), 2 * RANK * ends);
    let attention = 4 * (4096 + 4096);
    let mlp = 3 * (4096 + 11_008);
    assert_eq!(of("llama-2-7b", ", targets: [all-linear]"), 32 * RANK * (attention + mlp));
    assert_eq!(of("gpt2", ", targets: [wte]"), RANK * (50_257 + 768));
}

#[test]
fn a_loss_without_logits_has_no_place_for_an_adapter_on_the_output_matrix() {
    let plan =
        "model: {preset: llama-2-7b, sequence_length: 512}\ntraining: {loss: fused, lora: {targets: [lm_head]}}\n";
    let faults = predict::of(&Document::parse(plan).unwrap().plan().unwrap(), catalog()).unwrap_err();
    assert!(faults[0].to_string().contains("an adapter on the output matrix needs its logits"), "{faults:?}");
}

#[test]
fn a_name_that_no_module_has_is_refused() {
    for name in ["nonsense", "c_attn", "wte", "proj"] {
        let faults = trained("preset: llama-2-7b", &format!(", targets: [q_proj, {name}]")).unwrap_err();
        assert_eq!(
            faults,
            [format!(
                "training.lora.targets: `{name}` is no linear layer of this model that takes an adapter; known: q_proj, \
                 k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, embed_tokens, lm_head, all-linear"
            )]
        );
    }
    let faults = trained("preset: llama-2-7b", ", targets: []").unwrap_err();
    assert!(faults[0].starts_with("training.lora.targets: names no module; known: q_proj"), "{faults:?}");
}

/// peft raises where its table lacks the `model_type` (tuners/lora/model.py, "Please specify `target_modules`").
#[test]
fn a_model_that_peft_has_no_default_for_needs_targets() {
    let faults = trained("preset: qwen3-30b-a3b", "").unwrap_err();
    assert!(faults[0].starts_with("training.lora.targets: needed: peft has no default"), "{faults:?}");
}

/// bitsandbytes' `MatMul4Bit` (autograd/_functions.py) saves a quantised matrix as it lies and makes it whole while it
/// multiplies; of one that is not quantised autocast's 16-bit copy is saved where its input has a gradient, which that
/// of the first layer's queries, keys and values has not. 4 layers of 4 x 1024^2 + 3 x 1024 x 2048.
/// Its output is in the type of its input (nn/modules.py, `Linear4bit.forward`: `.to(inp_dtype)`), here the norm's fp32, so
/// that the gate before and behind its activation and what it multiplies are saved in fp32: 2 bytes more for each of
/// 3 x 512 x 2048 a layer.
#[test]
fn a_quantised_matrix_leaves_no_copy_behind() {
    let end = |bits: &str| {
        let text = format!(
            "{{model: {{hf_config: {{model_type: llama, hidden_size: 1024, num_hidden_layers: 4, num_attention_heads: 8,
             intermediate_size: 2048, vocab_size: 1024}}, sequence_length: 512}},
             training: {{precision: bf16-mixed, micro_batch_size: 1, lora: {{rank: 8, targets: [q_proj]{bits}}}}},
             cluster: {{num_gpus: 1}}}}"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        let prediction = predict::of(&plan, catalog()).unwrap();
        prediction.largest().activations_end_of_forward.0
    };
    let copies = 4 * (4 * 1024 * 1024 + 3 * 1024 * 2048) - 3 * 1024 * 1024;
    let wider = 4 * 3 * 512 * 2048;
    assert_eq!(end("") - end(", base_bits: 4"), 2 * (copies - wider));
    assert_eq!(end(", base_bits: 8"), end(", base_bits: 4"));
}

/// peft keeps adapters in fp32 (`autocast_adapter_dtype`): a rank of 16 is little to multiply for what is read and
/// written. An A100 40GB moves 1.555 TB/s and computes 19.5 TFLOP/s there: of the second matrix's 277 GB and 2.2 TFLOP
/// 0.178 s and 0.113 s, so that even one after the other they take less than twice the longer.
#[test]
fn a_thin_product_takes_no_longer_than_its_bytes_and_operations_one_after_the_other_and_a_little() {
    let text = std::fs::read_to_string("configs/plans/7b_lora.yaml").unwrap();
    let plan = Document::parse(&text).unwrap().plan().unwrap();
    let prediction = predict::of(&plan, catalog()).unwrap();
    for name in ["lora.a", "lora.b"] {
        let op = prediction.roofline.ops.iter().find(|op| op.name == name).unwrap();
        let bytes = op.bytes.as_f64() / 1.555e12;
        assert!(op.seconds.0 > bytes && op.seconds.0 < 2.0 * bytes, "{name}: {} s, its bytes {bytes} s", op.seconds);
    }
}

/// peft raises adapters to fp32 (`autocast_adapter_dtype`); Megatron Bridge's are in the model's type (peft/utils.py,
/// `ParallelLinearAdapter`: `self.bfloat16()`).
#[test]
fn adapters_lie_in_the_type_of_their_framework() {
    let weights = |framework: &str, dtype: &str| {
        let text = format!(
            "model: {{preset: llama-2-7b, framework: {framework}, sequence_length: 512}}\n\
             training: {{precision: bf16, lora: {{rank: {RANK}{dtype}}}}}\n"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        let prediction = predict::of(&plan, catalog()).unwrap();
        let params = &prediction.params;
        let weights = prediction.largest().terms.iter().find(|term| term.name == "weights").unwrap().bytes.0;
        (weights - 2 * (params.total - params.trainable), params.trainable)
    };
    let (held, adapters) = weights("pytorch", "");
    assert_eq!(held, 4 * adapters);
    let (held, adapters) = weights("megatron", "");
    assert_eq!(held, 2 * adapters);
    // TRL casts those of a quantised base (trainer/sft_trainer.py, `param.data.to(torch.bfloat16)`).
    let (held, adapters) = weights("pytorch", ", dtype: bf16");
    assert_eq!(held, 2 * adapters);
    let faults = trained("preset: llama-2-7b", ", dtype: fp8").unwrap_err();
    assert_eq!(faults, ["training.lora.dtype: adapters are trained in fp32, bf16 or fp16"]);
}

/// peft 0.18 (utils/other.py, `ModulesToSaveWrapper`): a copy of the whole matrix, 32 000 x 4096 in Llama 2, beside the
/// original; those of a tied matrix are two, which are tied no more.
#[test]
fn saved_modules_train_whole() {
    let lora = 32 * RANK * 2 * (4096 + 4096);
    let both = ", targets: [q_proj, v_proj], modules_to_save: [embed_tokens, lm_head]";
    assert_eq!(of("llama-2-7b", both), lora + 2 * 32_000 * 4096);
    assert_eq!(of("llama-2-7b", ", modules_to_save: [lm_head]"), lora + 32_000 * 4096);
    assert_eq!(of("gpt2", ", modules_to_save: [wte, lm_head]"), 12 * RANK * (768 + 3 * 768) + 2 * 50_257 * 768);
    for (named, why) in [
        ("modules_to_save: [norm]", "`norm` is not modelled beside adapters; known: embed_tokens, lm_head"),
        ("targets: [lm_head], modules_to_save: [lm_head]", "`lm_head` has an adapter already"),
    ] {
        let faults = trained("preset: llama-2-7b", &format!(", {named}")).unwrap_err();
        assert!(faults.iter().any(|fault| fault.contains(why)), "{faults:?}");
    }
}

/// Under FSDP1 peft has each matrix of an adapter sharded by itself (`fsdp_auto_wrap_policy`), and the host, which gathers
/// them in Python, may be two of them ahead of the GPU; FSDP2 shards layers, and nothing holds the host.
#[test]
fn adapters_sharded_by_themselves_make_the_gpu_wait_for_the_host() {
    let waits = |engine: &str, lora: &str| {
        let text = format!(
            "model: {{preset: llama-2-7b, sequence_length: 2048, batch_size: 4}}\n\
             training: {{precision: bf16-mixed, micro_batch_size: 2, activation_checkpointing: full{lora}}}\n\
             hardware: {{gpu_type: NVIDIA A100 80GB}}\ncluster: {{num_gpus: 2}}\n\
             distribution: {{sharding: zero3, engine: {engine}}}\n"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        predict::of(&plan, catalog()).unwrap().time.launch.0
    };
    let adapters = ", lora: {rank: 16, targets: [q_proj, k_proj, v_proj, o_proj]}";
    // 32 layers x 8 matrices, forward, again and backward: a part of the 0.5 to 0.7 ms (39 or 51 launches of 13.5 us) that
    // the host takes for each, 0.45 s.
    let held = waits("fsdp1", adapters);
    assert!((0.02..0.45).contains(&held), "{held}");
    assert!(waits("fsdp2", adapters) < 1e-9);
    assert!(waits("fsdp1", "") < 1e-9);
}

/// DeepSpeed's third stage gathers each linear layer in Python, which its second does not: 16 layers x 7 of them, 26 launches of
/// 13.5 us forward and 36 backward, are 94 ms of the host, more than a short sequence takes the GPU.
#[test]
fn layers_gathered_one_by_one_take_the_host_long() {
    let waits = |sharding: &str| {
        let text = format!(
            "model: {{preset: llama-3.2-1b, sequence_length: 512, batch_size: 8}}\ntraining: {{precision: bf16}}\n\
             hardware: {{gpu_type: NVIDIA H100}}\ncluster: {{num_gpus: 8}}\n\
             distribution: {{sharding: {sharding}, engine: deepspeed}}\n"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        predict::of(&plan, catalog()).unwrap().time.launch.0
    };
    let more = waits("zero3") - waits("zero2");
    assert!((0.03..0.094).contains(&more), "{more}");
}

/// axolotl's functions for adapters with their layers (`kernels/lora.py`): `LoRA_MLP` saves its input, `gate` and `up`, whatever
/// it multiplies between them; each of the three functions saves its input after dropout, and PyTorch a byte of mask for each value.
/// Two layers over 2 x 128 tokens in bf16.
#[test]
fn axolotls_kernels_save_inputs_gates_and_what_dropout_makes() {
    let (layers, tokens, hidden) = (2, 2 * 128, 256_u64);
    let saved = |inner: u64, dropout: &str| {
        let text = format!(
            "model: {{type: transformer, batch_size: 2, sequence_length: 128, architecture: {{hidden_size: {hidden}, num_layers: {layers},
             num_attention_heads: 4, intermediate_size: {inner}, vocab_size: 1000, activation: swiglu, norm: rmsnorm,
             linear_bias: false, position: rope, tie_embeddings: false}}}}\n\
             training: {{precision: bf16, attention: flash, loss: fused, lora: {{rank: 8, targets: [all-linear], dtype: bf16,
             kernels: [mlp, qkv, o]{dropout}}}}}\n"
        );
        let plan = Document::parse(&text).and_then(|document| document.plan()).unwrap();
        predict::of(&plan, catalog()).unwrap().largest().activations_end_of_forward.0
    };
    assert_eq!(saved(1024, "") - saved(512, ""), layers * 2 * tokens * 512 * 2);
    // What the frozen embedding gives needs no gradient: the first function's dropout keeps no mask.
    assert_eq!(saved(512, ", dropout: 0.1") - saved(512, ""), (layers * 3 * (2 + 1) - 1) * tokens * hidden);
}

/// A function is named by what it runs; of a model that has none of its layers it is left out, and another name is a fault.
#[test]
fn axolotls_kernels_go_by_their_names() {
    let faults = trained("preset: llama-3.2-1b", ", kernels: [mlp, embed]").unwrap_err();
    assert!(faults[0].contains("`embed` is none; known: mlp, qkv, o"), "{faults:?}");
}

/// Adapters in fp32 on weights of 16 bits under accelerate's autocast, each beside an input that it reads for itself: a copy
/// of 16 bits is saved where a copy of 32 was. 4 layers x 512 tokens x (6 x 512 + 1408) channels x 2 B and rank 8 of seven
/// inner products x 2 B less, and a copy of each adapter's matrices more (7 modules, 2 B; those that read the frozen
/// embedding need no gradient of their input: 3 x 8 x 512 elements fewer). PyTorch 2.9.1 with peft 0.21.2 saves 18 006 016
/// bytes less under `torch.autocast` (`saved_tensors_hooks`).
#[test]
fn autocast_keeps_what_adapters_read_in_16_bits() {
    let kept = |autocast: bool| {
        let text = format!(
            "{{model: {{framework: pytorch, batch_size: 2, sequence_length: 256, hf_config: {{model_type: llama,
               hidden_size: 512, intermediate_size: 1408, num_hidden_layers: 4, num_attention_heads: 8,
               num_key_value_heads: 4, vocab_size: 2048}}}}, hardware: {{gpu_type: H100}},
               training: {{precision: bf16, autocast: {autocast}, attention: sdpa, activation_checkpointing: none,
               lora: {{rank: 8, targets: [all-linear], dropout: 0.0}}}}}}"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        predict::of(&plan, catalog()).unwrap().largest().activations_end_of_forward.0
    };
    let adapters = 8 * ((512 + 512) * 2 + (512 + 256) * 2 + (512 + 1408) * 3);
    let copies = 2 * (4 * adapters - 3 * 8 * 512);
    let less = 4 * 512 * (6 * 512 + 1408) * 2 + 4 * 512 * 7 * 8 * 2 - copies;
    assert_eq!(less, 18_006_016);
    assert_eq!(kept(false) - kept(true), less);
}
