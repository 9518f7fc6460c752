//! What runs beside the passes and what waits: transfers to host memory and experts' exchanges, by hand.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Job, Prediction};

fn prediction(text: &str) -> Prediction {
    let plan = Document::parse(text).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap()
}

fn step(text: &str) -> f64 {
    prediction(text).time.step.0
}

/// Megatron sends what a model's first layers save to the host in the forward pass, and takes it back in the backward pass
/// (--cpu-offloading-num-layers): a layer's bytes at a time.
#[test]
fn offloaded_layers_move_their_own_bytes() {
    let with = |card: &str, training: &str| {
        step(&format!(
            "model: {{preset: llama-2-7b, framework: megatron, batch_size: 1, sequence_length: 4096}}\n\
             training: {{precision: bf16-fp32-master{training}}}\nhardware: {{gpu_type: {card}}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    let layers = |count: u64| with("NVIDIA H100", &format!(", cpu_offload: activations, offload_layers: {count}"));
    // Over PCIe 30 layers take longer than either pass: each further one adds the same.
    let [half, more, all] = [30, 31, 32].map(layers);
    assert!(all > more && more > half, "{half} {more} {all}");
    assert!(((all - more) / (more - half) - 1.0).abs() < 1e-6, "{half} {more} {all}");
    assert!((layers(0) / with("NVIDIA H100", "") - 1.0).abs() < 1e-9);
    // The number of layers alone switches it on, and names of modules do, of which each sends its own bytes.
    assert_eq!(with("NVIDIA H100", ", offload_layers: 30").to_bits(), half.to_bits());
    let cores = with("NVIDIA H100", ", offload_modules: [core_attn]");
    assert!(cores < half && cores >= with("NVIDIA H100", ""), "{cores} {half}");
    // NVLink-C2C is seven times as quick: all of it runs behind the passes.
    let superchip = with("NVIDIA GH200 480GB", ", cpu_offload: activations");
    assert!((superchip / with("NVIDIA GH200 480GB", "") - 1.0).abs() < 1e-9, "{superchip}");
}

/// L40S has one set of lanes: what goes to the host and what goes to other GPUs wait for each other, so that a GPU whose power is
/// cut is never the quicker one.
#[test]
fn transfers_and_collectives_share_the_boards_lanes() {
    let with = |watts: u64| {
        step(&format!(
            "model: {{preset: llama-2-7b, framework: megatron, batch_size: 8, sequence_length: 4096}}\n\
             training: {{micro_batch_size: 1, cpu_offload: activations}}\n\
             hardware: {{gpu_type: NVIDIA L40S, power_limit_w: {watts}}}\ncluster: {{num_gpus: 8}}\n\
             distribution: {{tensor_parallel: 8}}\n"
        ))
    };
    let times = [350, 250, 150, 75].map(with);
    assert!(times.is_sorted_by(|more, less| *less >= more * (1.0 - 1e-9)), "{times:?}");
}

fn experts(micro_batches: u64, training: &str, distribution: &str) -> String {
    format!(
        "model: {{preset: mixtral-8x7b, framework: megatron, batch_size: {}, sequence_length: 4096}}\n\
         training: {{precision: bf16-fp32-master, micro_batch_size: 1{training}}}\n\
         hardware: {{gpu_type: NVIDIA H100}}\ncluster: {{num_gpus: 8}}\n\
         distribution: {{data_parallel: 8, expert_parallel: 8{distribution}}}\n",
        8 * micro_batches
    )
}

/// The first pass forward and the last one backward have no partner (megatron-core, pipeline_parallel/combined_1f1b.py):
/// of n micro-batches n - 1 hide their experts' exchanges.
#[test]
fn experts_exchange_beside_another_micro_batch() {
    let saves = |count: u64| {
        let alone = step(&experts(count, "", ", overlap_expert_parallel: false"));
        alone - step(&experts(count, "", ", overlap_expert_parallel: true"))
    };
    let [one, two, four] = [1, 2, 4].map(saves);
    assert!(one.abs() < 1e-9 && two > 0.0, "{one} {two}");
    assert!((four / two - 3.0).abs() < 1e-6, "{two} {four}");
}

/// Megatron Bridge's recipes that capture whole iterations exchange beside another micro-batch.
#[test]
fn captured_iterations_overlap_experts_by_default() {
    let captured = prediction(&experts(4, ", cuda_graph: full_iteration", ""));
    assert!(captured.assumptions.iter().any(|one| one.starts_with("distribution.overlap_expert_parallel")));
    let told = step(&experts(4, ", cuda_graph: full_iteration", ", overlap_expert_parallel: true"));
    assert!((captured.time.step.0 / told - 1.0).abs() < 1e-12);
}

/// Collectives that run in pieces beside the products are never slower than those that do not.
#[test]
fn pieces_never_slow_tensor_parallel_down() {
    let with = |pieces: bool| {
        step(&format!(
            "model: {{preset: llama-2-7b, framework: megatron, batch_size: 4, sequence_length: 4096}}\n\
             training: {{precision: bf16-fp32-master, micro_batch_size: 4}}\nhardware: {{gpu_type: NVIDIA H100}}\n\
             cluster: {{num_gpus: 8}}\n\
             distribution: {{tensor_parallel: 8, sequence_parallel: true, overlap_tensor_parallel: {pieces}}}\n"
        ))
    };
    assert!(with(true) < with(false));
}

/// Userbuffers hide gathers and scatters along the sequence alone: without sequence parallelism Megatron-LM refuses
/// --tp-comm-overlap (training/arguments.py, validate_args). It saves neither time nor counts buffers.
#[test]
fn pieces_need_sequence_parallelism() {
    let with = |more: &str| {
        prediction(&format!(
            "model: {{preset: llama-2-7b, framework: megatron, batch_size: 4, sequence_length: 4096}}\n\
             training: {{precision: bf16-fp32-master, micro_batch_size: 4}}\nhardware: {{gpu_type: NVIDIA H100}}\n\
             cluster: {{num_gpus: 8}}\ndistribution: {{tensor_parallel: 8{more}}}\n"
        ))
    };
    let [plain, told] = ["", ", overlap_tensor_parallel: true"].map(with);
    assert!((told.time.step.0 - plain.time.step.0).abs() < 1e-12);
    assert_eq!(told.largest().peak_allocated, plain.largest().peak_allocated);
    let said = |of: &Prediction| of.assumptions.iter().any(|one| one.contains("overlap_tensor_parallel: no effect"));
    assert!(said(&told) && !said(&plain));
    assert!(!said(&with(", sequence_parallel: true, overlap_tensor_parallel: true")));
}

/// Megatron reduces gradients in buckets of 40 million parameters where they overlap, and in one bucket where nothing does
/// (core/distributed/distributed_data_parallel.py, `bucket_size`). A layer has 4 x 1024^2 + 3 x 1024 x 4096 + 2 x 1024
/// parameters, embedding and head 2 x 1024^2 + 1024: 35.7, 52.4 and 136.3 million make 1, 2 and 4 buckets, and each
/// further one waits for the latency of a ring once more.
#[test]
fn megatron_reduces_one_bucket_where_nothing_overlaps() {
    let comm = |layers: u64, overlaps: bool| {
        let prediction = prediction(&format!(
            "{{model: {{framework: megatron, batch_size: 2, sequence_length: 1024, hf_config: {{model_type: llama,
             hidden_size: 1024, num_hidden_layers: {layers}, num_attention_heads: 16, num_key_value_heads: 16,
             intermediate_size: 4096, vocab_size: 1024, max_position_embeddings: 1024, tie_word_embeddings: false}}}},
             training: {{precision: bf16-fp32-master, micro_batch_size: 1}}, hardware: {{gpu_type: NVIDIA H100}},
             cluster: {{num_gpus: 2}}, distribution: {{data_parallel: 2, overlap_grad_reduce: {overlaps}}}}}"
        ));
        let term = prediction.time_terms.iter().find(|term| term.name == "gradients reduced").unwrap();
        (term.seconds + term.hidden).0
    };
    let more = |layers: u64| comm(layers, true) - comm(layers, false);
    let [one, two, four] = [2, 3, 8].map(more);
    assert!(one.abs() < 1e-12 && two > 0.0, "{one} {two}");
    assert!((four / two - 3.0).abs() < 1e-6, "{two} {four}");
}

/// DPO's reference is the model once more, without gradients and states, and reads each sample forward alone
/// (TRL, `trainer/dpo_trainer.py`: `ref_model` under `torch.no_grad`).
#[test]
fn a_reference_model_is_a_copy_and_a_forward_pass() {
    let of = |training: &str| {
        prediction(&format!(
            "model: {{preset: llama-2-7b, batch_size: 1, sequence_length: 4096}}\n\
             training: {{precision: bf16{training}}}\nhardware: {{gpu_type: NVIDIA H200}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    let copy = |prediction: &Prediction| {
        let term = prediction.largest().terms.iter().find(|term| term.name == "reference model");
        term.map_or(0, |term| term.bytes.0)
    };
    let (plain, with) = (of(""), of(", reference_model: true"));
    // 6 738 415 616 parameters of 2 B; each tensor is a multiple of 512 B.
    assert_eq!([copy(&plain), copy(&with)], [0, 13_476_831_232]);
    assert_eq!(with.largest().peak_allocated.0 - plain.largest().peak_allocated.0, 13_476_831_232);
    assert!((with.flops.forward.0 / plain.flops.forward.0 - 2.0).abs() < 1e-9);
    assert_eq!(with.flops.backward.0, plain.flops.backward.0);
    // Of three equal passes there are four then; norms and the optimizer's step take a part of their own.
    let longer = with.time.step.0 / plain.time.step.0;
    assert!((1.25..1.40).contains(&longer), "{longer}");
    let parts = [with.time.compute, with.time.memory_bound, with.time.communication, with.time.launch];
    let sum: f64 = parts.iter().map(|part| part.0).sum();
    assert!((sum / with.time.step.0 - 1.0).abs() < 1e-6, "{sum}");
    // With adapters the base is its own reference.
    assert_eq!(copy(&of(", reference_model: true, lora: {rank: 8}")), 0);
}

/// A frozen model beside is its weights; a critic is weights and states once more; an engine that keeps its part of the
/// GPU adds that, and one that sleeps only what the step itself does not reach.
#[test]
fn other_models_and_engines_have_their_own_terms() {
    let of = |training: &str| {
        prediction(&format!(
            "model: {{preset: llama-2-7b, batch_size: 1, sequence_length: 4096}}\n\
             training: {{precision: bf16{training}}}\nhardware: {{gpu_type: NVIDIA H200}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    let term = |prediction: &Prediction, name: &str| {
        let term = prediction.largest().terms.iter().find(|term| term.name == name);
        term.map_or(0, |term| term.bytes.0)
    };
    let plain = of("");
    // CLIP's tower of 304 million parameters of 2 B.
    let tower = of(", frozen_models_billions: 0.304");
    assert_eq!(term(&tower, "other frozen models"), 608_000_000);
    assert_eq!(tower.largest().peak_allocated.0 - plain.largest().peak_allocated.0, 608_000_000);
    // 6 738 415 616 parameters: 2 B of weights and two states of 2 B.
    let critic = of(", critic_model: true");
    assert_eq!(term(&critic, "critic"), 6_738_415_616 * 6);
    assert_eq!(critic.largest().peak_allocated.0 - plain.largest().peak_allocated.0, 6_738_415_616 * 6);
    let part = |per_mille: u64| plain.capacity.bytes.0 / 1000 * per_mille;
    let standing = of(", generation_memory: 0.3");
    assert_eq!(standing.largest().device_used.0 - plain.largest().device_used.0, part(300));
    // Asleep while the model trains, and smaller than what the step takes: nothing more.
    let asleep = of(", generation_memory: 0.3, generation_beside: nothing");
    assert_eq!(asleep.largest().device_used, plain.largest().device_used);
    // Larger than the step: the peak is the generation's, alone or beside weights and states.
    let reserved = plain.largest().peak_reserved.0;
    let alone = of(", generation_memory: 0.9, generation_beside: nothing");
    assert_eq!(alone.largest().device_used.0 - plain.largest().device_used.0, part(900) - reserved);
    let beside = of(", generation_memory: 0.9, generation_beside: states");
    let states = 6_738_415_616 * 6;
    let more = beside.largest().device_used.0 - alone.largest().device_used.0;
    // Library workspaces are no part of the states.
    assert_eq!(more, states);
}

/// A reward model has one output in place of the vocabulary's: 32 000 x 4096 weights less, 4096 more
/// (transformers, modeling_layers.py, `GenericForSequenceClassification.score`, without a bias).
#[test]
fn a_head_of_classes_stands_in_place_of_the_vocabularys() {
    let of = |model: &str| {
        prediction(&format!(
            "model: {{preset: llama-2-7b, batch_size: 1, sequence_length: 4096{model}}}\n\
             training: {{precision: bf16}}\nhardware: {{gpu_type: NVIDIA H200}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    let (plain, rewards) = (of(""), of(", classes: 1"));
    assert_eq!(plain.params.total, 6_738_415_616);
    assert_eq!(rewards.params.total, 6_738_415_616 - 32_000 * 4096 + 4096);
    assert!(rewards.largest().peak_allocated < plain.largest().peak_allocated);
}

/// `BertModel` of bert-base-uncased has 109 482 240 parameters, 590 592 of them its pooler's (768 x 768 + 768). Classes
/// stand behind the pooler, those of tokens and answers without it (models/bert/modeling_bert.py).
#[test]
fn an_encoder_has_the_head_that_the_plan_asks_for() {
    let of = |model: &str| {
        let plan = format!(
            "model: {{preset: bert-base, batch_size: 32, sequence_length: 128{model}}}\n\
             hardware: {{gpu_type: NVIDIA A10}}\ncluster: {{num_gpus: 1}}\n"
        );
        prediction(&plan)
    };
    let bare = 109_482_240;
    assert_eq!(of(", classes: 3").params.total, bare + 768 * 3 + 3);
    assert_eq!(of(", head: sequence-classification").params.total, bare + 768 * 2 + 2);
    assert_eq!(of(", head: token-classification, classes: 9").params.total, bare - 590_592 + 768 * 9 + 9);
    assert_eq!(of(", head: question-answering").params.total, bare - 590_592 + 768 * 2 + 2);
    assert_eq!(of(", head: multiple-choice").params.total, bare + 768 + 1);
    // No logits of 30 522 words for each of 4096 tokens.
    let logits = 4096 * 30_522 * 4;
    let [whole, few] = ["", ", classes: 3"].map(|model| of(model).largest().peak_allocated.0);
    assert!(whole > few + logits, "{whole} and {few}");
}

/// transformers has no ResNet that labels tokens, and fields alone name none of its classes.
#[test]
fn a_head_that_no_class_has_is_refused() {
    let refused = |model: &str| {
        let text =
            format!("model: {{{model}, batch_size: 1, sequence_length: 128}}\nhardware: {{gpu_type: NVIDIA A10}}\n");
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        format!("{:?}", predict::of(&plan, catalog()).unwrap_err())
    };
    assert!(refused("preset: resnet-50, head: token-classification").contains("no ForTokenClassification"));
    assert!(refused("size_billions: 1, head: question-answering").contains("models of transformers"));
}

/// A configuration that names its classes has as many (transformers, `PretrainedConfig.num_labels`).
#[test]
fn a_head_has_the_classes_that_its_configuration_names() {
    let of = |kind: &str| {
        let text = format!(
            "model: {{hf_config: {{{kind}, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 100, \
             id2label: {{'0': a, '1': b, '2': c}}}}, head: sequence-classification, batch_size: 1, sequence_length: 16}}\n\
             hardware: {{gpu_type: NVIDIA A10}}\n"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        Job::resolve(&plan, catalog()).unwrap().architecture.name.clone()
    };
    for kind in ["model_type: bert", "model_type: llama, intermediate_size: 128"] {
        let name = of(kind);
        assert!(name.ends_with("with a head of 3"), "{name}");
    }
}

/// ELECTRA's small discriminator and `DeBERTa` v3's base, by hand. The first: embeddings of 128 channels for 30 522 words, 512
/// positions and 2 segments with a norm, a matrix to 256 channels, 12 layers of 12 x 256^2 + 13 x 256, a dense head and two
/// classes. The second: 128 100 words of 768 channels and no positions, a table of 2 x 256 distances with a norm, 12 layers of
/// 12 x 768^2 + 13 x 768 whose matrices project the distances too, a dense head and two classes.
#[test]
fn electra_and_deberta_have_parts_of_their_own() {
    let of = |config: &str| {
        prediction(&format!(
            "{{model: {{hf_config: {{{config}}}, batch_size: 8, sequence_length: 128, head: sequence-classification}},
             training: {{precision: bf16-mixed}}, hardware: {{gpu_type: NVIDIA A10}}, cluster: {{num_gpus: 1}}}}"
        ))
    };
    let electra = of("model_type: electra, hidden_size: 256, num_attention_heads: 4, intermediate_size: 1024");
    let layer = |hidden: u64| 12 * hidden * hidden + 13 * hidden;
    let head = |hidden: u64| hidden * hidden + hidden + 2 * hidden + 2;
    let words = (30_522 + 512 + 2) * 128 + 2 * 128 + 128 * 256 + 256;
    assert_eq!(electra.params.total, words + 12 * layer(256) + head(256));
    let deberta = of("model_type: deberta-v2, vocab_size: 128100, hidden_size: 768, num_hidden_layers: 12,
        num_attention_heads: 12, intermediate_size: 3072, type_vocab_size: 0, relative_attention: true,
        position_buckets: 256, norm_rel_ebd: layer_norm, share_att_key: true, pos_att_type: p2c|c2p,
        max_relative_positions: -1, position_biased_input: false");
    let tables = 128_100 * 768 + 2 * 768 + 512 * 768 + 2 * 768;
    assert_eq!(deberta.params.total, tables + 12 * layer(768) + head(768));
}

/// Both classes write their scores out, whatever attention is asked for (`ELECTRA_SELF_ATTENTION_CLASSES` has eager alone;
/// `DebertaV2PreTrainedModel` supports no SDPA).
#[test]
fn scores_lie_in_memory_where_a_class_has_no_kernel() {
    let peak = |kind: &str, attention: &str| {
        let plan = format!(
            "{{model: {{hf_config: {{model_type: {kind}, num_hidden_layers: 2}}, batch_size: 4, sequence_length: 512}},
             training: {{precision: bf16, attention: {attention}}}, hardware: {{gpu_type: NVIDIA H100}},
             cluster: {{num_gpus: 1}}}}"
        );
        prediction(&plan).largest().peak_allocated
    };
    for kind in ["electra", "deberta-v2"] {
        assert_eq!(peak(kind, "sdpa"), peak(kind, "eager"), "{kind}");
    }
    assert!(peak("bert", "sdpa") < peak("bert", "eager"));
}

/// `ModernBERT`'s base by hand: 50 368 words of 768 channels with a norm, 22 layers of a matrix for queries, keys and values, one
/// for the result, 2 x 1152 channels with a gate and back, and two norms without a bias, of which the first layer has one; a norm
/// behind them, a dense head with a norm, and the vocabulary's bias.
#[test]
fn modernbert_has_one_norm_fewer_in_its_first_layer() {
    let plan = |more: &str, training: &str| {
        format!(
            "{{model: {{hf_config: {{model_type: modernbert{more}}}, batch_size: 2, sequence_length: 256}},
             training: {{precision: bf16{training}}}, hardware: {{gpu_type: NVIDIA H100}}, cluster: {{num_gpus: 1}}}}"
        )
    };
    let layer = 4 * 768 * 768 + 3 * 1152 * 768 + 2 * 768;
    let head = 768 * 768 + 768 + 50_368;
    let total = 50_368 * 768 + 768 + 22 * layer - 768 + 768 + head;
    let base = prediction(&plan("", ""));
    assert_eq!(base.params.total, total);
    assert!(base.assumptions.iter().any(|one| one.contains("reference_compile")));
    assert!(
        !prediction(&plan(", reference_compile: false", "")).assumptions.iter().any(|one| one.contains("_compile"))
    );
    let refused = |text: &str, key: &str| {
        let plan = Document::parse(text).unwrap().plan().unwrap();
        assert!(format!("{:?}", predict::of(&plan, catalog()).unwrap_err()).contains(key), "{text}");
    };
    refused(&plan(", reference_compile: true", ""), "reference_compile");
    refused(&plan(", sparse_prediction: true", ""), "sparse_prediction");
    refused(&plan(", transformers_version: 5.24.0", ""), "transformers_version");
    refused(&plan("", ", attention: flash"), "training.attention");
}

/// Distances that are in the table and in no score are refused.
#[test]
fn distances_without_scores_are_refused() {
    let text = "model: {hf_config: {model_type: deberta-v2, relative_attention: true}, batch_size: 1, sequence_length: 128}\n\
                hardware: {gpu_type: NVIDIA A10}\n";
    let plan = Document::parse(text).unwrap().plan().unwrap();
    assert!(format!("{:?}", predict::of(&plan, catalog()).unwrap_err()).contains("pos_att_type"));
}

/// ALBERT's layers are one: twelve have as many parameters as one has, and 12 times the operations. By hand: words, positions and
/// segments of 128 channels with a norm, a matrix to 768, one layer, a pooler and two classes (`albert-base-v2`).
#[test]
fn layers_that_share_their_weights_are_counted_once() {
    let of = |layers: u64| {
        prediction(&format!(
            "{{model: {{hf_config: {{model_type: albert, hidden_size: 768, num_hidden_layers: {layers},
             num_attention_heads: 12, intermediate_size: 3072}}, batch_size: 4, sequence_length: 128,
             head: sequence-classification}}, training: {{precision: fp32}}, hardware: {{gpu_type: NVIDIA A10}},
             cluster: {{num_gpus: 1}}}}"
        ))
    };
    let (one, all) = (of(1), of(12));
    let words = (30_000 + 512 + 2) * 128 + 2 * 128 + 128 * 768 + 768;
    assert_eq!(all.params.total, words + 12 * 768 * 768 + 13 * 768 + 768 * 768 + 768 + 2 * 768 + 2);
    assert_eq!(one.params, all.params);
    // A layer's matrices and both matmuls of its scores.
    let layer = 2.0 * 512.0 * 12.0 * 768.0 * 768.0 + 4.0 * 4.0 * 128.0 * 128.0 * 768.0;
    assert!((all.flops.forward.0 - one.flops.forward.0 - 11.0 * layer).abs() < 1.0);
}

/// Composer wraps modules in PyTorch's `save_on_cpu`, which copies in the stream of the passes and waits for it: what leaves
/// and comes back is waited for, each way once.
#[test]
fn what_composer_sends_to_the_host_is_waited_for() {
    let with = |framework: &str, offload: &str| {
        prediction(&format!(
            "model: {{preset: llama-3-8b, framework: {framework}, batch_size: 8, sequence_length: 4096}}\n\
             training: {{micro_batch_size: 1, cpu_offload: {offload}}}\nhardware: {{gpu_type: NVIDIA B200}}\n\
             distribution: {{sharding: zero3}}\ncluster: {{num_gpus: 8}}\n"
        ))
    };
    let added = |framework: &str| {
        let (with, without) = (with(framework, "activations"), with(framework, "none"));
        with.time.communication.0 - without.time.communication.0
    };
    let [composer, trl] = ["llm-foundry", "pytorch"].map(added);
    let plan = "model: {preset: llama-3-8b, framework: llm-foundry, batch_size: 8, sequence_length: 4096}\n\
                training: {micro_batch_size: 1, cpu_offload: activations}\nhardware: {gpu_type: NVIDIA B200}\n\
                distribution: {sharding: zero3}\ncluster: {num_gpus: 8}\n";
    let job = Job::resolve(&Document::parse(plan).unwrap().plan().unwrap(), catalog()).unwrap();
    let host = predict::host_memory(&job);
    // Pinned copies reach 12.36 of 16 GB/s (NVIDIA/nvbandwidth, README.md).
    let both_ways = 2.0 * host.0 as f64 / (job.hardware.gpu.host_link.0 * 12.36 / 16.0);
    assert!((composer / both_ways - 1.0).abs() < 1e-3, "{composer} {both_ways}");
    assert!(trl < 0.9 * composer, "{trl} {composer}");
}

/// The base without its adapters is the reference of DPO: a forward pass more, no byte more.
#[test]
fn a_reference_of_adapters_is_a_pass_and_no_copy() {
    let with = |reference: &str| {
        prediction(&format!(
            "model: {{preset: llama-3-8b, batch_size: 8, sequence_length: 4096}}\nhardware: {{gpu_type: NVIDIA H100}}\n\
             training: {{precision: bf16, micro_batch_size: 8, activation_checkpointing: full, lora: {{rank: 16}}{reference}}}\n\
             cluster: {{num_gpus: 1}}\n"
        ))
    };
    let (dpo, sft) = (with(", reference_model: true"), with(""));
    assert_eq!(dpo.largest().static_bytes, sft.largest().static_bytes);
    // Forward, forward again and the gradients of inputs, each about 2 N: three, and a fourth for the reference.
    let ratio = dpo.time.step.0 / sft.time.step.0;
    assert!((1.25..1.45).contains(&ratio), "{ratio}");
}

/// What the host is late with is time in which transfers go on: a quicker GPU is never slower for it.
#[test]
fn transfers_go_on_while_the_host_launches() {
    let step = |card: &str| {
        step(&format!(
            "model: {{preset: t5-large, batch_size: 1, sequence_length: 512}}\ntraining: {{cpu_offload: activations}}\n\
             hardware: {{gpu_type: {card}}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    // 3.35, 4.8 and 8 TB/s, with no fewer FLOP/s.
    let [slow, middle, quick] = ["NVIDIA H100", "NVIDIA H200", "NVIDIA B200"].map(step);
    assert!(quick <= middle * 1.0001 && middle <= slow * 1.0001, "{slow} {middle} {quick}");
}
