//! Encoders: their heads, and the parts that each class has for itself.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Job, Prediction};

fn prediction(text: &str) -> Prediction {
    let plan = Document::parse(text).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap()
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
