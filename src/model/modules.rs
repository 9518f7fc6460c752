//! What frameworks call their linear layers: adapters are placed by these names.

use super::architecture::Family;
use super::builder::{EMBEDDING, HEAD};
use crate::framework::{Module, Profile};

/// Where transformers 4.57.6 has them in most families (models/llama, deepseek_v2 and qwen2_moe). The routers of
/// `DeepSeek` and gpt-oss, and gpt-oss's experts, are bare parameters: no adapter of a module finds them.
const USUAL: [Module; 17] = [
    ("attention.q_proj", "self_attn.q_proj"),
    ("attention.k_proj", "self_attn.k_proj"),
    ("attention.v_proj", "self_attn.v_proj"),
    ("attention.qkv_proj", "self_attn.qkv_proj"),
    ("attention.o_proj", "self_attn.o_proj"),
    ("attention.q_a_proj", "self_attn.q_a_proj"),
    ("attention.q_b_proj", "self_attn.q_b_proj"),
    ("attention.kv_a_proj", "self_attn.kv_a_proj_with_mqa"),
    ("attention.kv_b_proj", "self_attn.kv_b_proj"),
    ("mlp.gate_proj", "mlp.gate_proj"),
    ("mlp.up_proj", "mlp.up_proj"),
    ("mlp.gate_up_proj", "mlp.gate_up_proj"),
    ("mlp.down_proj", "mlp.down_proj"),
    ("moe.gate_proj", "experts.gate_proj"),
    ("moe.up_proj", "experts.up_proj"),
    ("moe.down_proj", "experts.down_proj"),
    ("moe.shared_gate", "mlp.shared_expert_gate"),
];

const GPT2: &[Module] = &[
    ("attention.qkv_proj", "attn.c_attn"),
    ("attention.o_proj", "attn.c_proj"),
    ("mlp.up_proj", "mlp.c_fc"),
    ("mlp.down_proj", "mlp.c_proj"),
];

const OPT: &[Module] = &[("attention.o_proj", "self_attn.out_proj"), ("mlp.up_proj", "fc1"), ("mlp.down_proj", "fc2")];

const NEOX: &[Module] = &[
    ("attention.qkv_proj", "attention.query_key_value"),
    ("attention.o_proj", "attention.dense"),
    ("mlp.up_proj", "mlp.dense_h_to_4h"),
    ("mlp.down_proj", "mlp.dense_4h_to_h"),
];

const BLOOM: &[Module] = &[
    ("attention.qkv_proj", "self_attention.query_key_value"),
    ("attention.o_proj", "self_attention.dense"),
    ("mlp.up_proj", "mlp.dense_h_to_4h"),
    ("mlp.down_proj", "mlp.dense_4h_to_h"),
];

const PHI: &[Module] =
    &[("attention.o_proj", "self_attn.dense"), ("mlp.up_proj", "mlp.fc1"), ("mlp.down_proj", "mlp.fc2")];

const MIXTRAL: &[Module] = &[
    ("moe.gate_proj", "experts.w1"),
    ("moe.up_proj", "experts.w3"),
    ("moe.down_proj", "experts.w2"),
    ("moe.router", "block_sparse_moe.gate"),
];

const LFM2: &[Module] = &[
    ("attention.o_proj", "self_attn.out_proj"),
    ("conv.in_proj", "conv.in_proj"),
    ("conv.out_proj", "conv.out_proj"),
    ("mlp.gate_proj", "feed_forward.w1"),
    ("mlp.up_proj", "feed_forward.w3"),
    ("mlp.down_proj", "feed_forward.w2"),
];

/// The output matrix of a state-space layer is read by its function, past any adapter (peft refuses one there).
const BAMBA: &[Module] = &[
    ("mamba.in_proj", "mamba.in_proj"),
    ("mlp.gate_proj", "feed_forward.gate_proj"),
    ("mlp.up_proj", "feed_forward.up_proj"),
    ("mlp.down_proj", "feed_forward.down_proj"),
];

const GRANITE_HYBRID: &[Module] = &[
    ("mamba.in_proj", "mamba.in_proj"),
    ("mlp.gate_up_proj", "shared_mlp.input_linear"),
    ("mlp.down_proj", "shared_mlp.output_linear"),
    ("moe.router", "block_sparse_moe.router.layer"),
];

const JAMBA: &[Module] = &[
    ("mamba.in_proj", "mamba.in_proj"),
    ("mamba.x_proj", "mamba.x_proj"),
    ("mamba.dt_proj", "mamba.dt_proj"),
    ("mamba.out_proj", "mamba.out_proj"),
    ("mlp.gate_proj", "feed_forward.gate_proj"),
    ("mlp.up_proj", "feed_forward.up_proj"),
    ("mlp.down_proj", "feed_forward.down_proj"),
    ("moe.router", "feed_forward.router"),
];

const NEMOTRON_H: &[Module] = &[
    ("mamba.in_proj", "mixer.in_proj"),
    ("attention.q_proj", "mixer.q_proj"),
    ("attention.k_proj", "mixer.k_proj"),
    ("attention.v_proj", "mixer.v_proj"),
    ("attention.o_proj", "mixer.o_proj"),
    ("mlp.up_proj", "mixer.up_proj"),
    ("mlp.down_proj", "mixer.down_proj"),
    ("moe.latent_in", "mixer.fc1_latent_proj"),
    ("moe.latent_out", "mixer.fc2_latent_proj"),
];

const MAMBA: &[Module] = &[("mamba.in_proj", "mixer.in_proj")];

// models/qwen2_moe/modeling_qwen2_moe.py, `Qwen2MoeSparseMoeBlock.shared_expert`.
const QWEN_MOE: &[Module] = &[
    ("moe.router", "mlp.gate"),
    ("mlp.gate_proj", "mlp.shared_expert.gate_proj"),
    ("mlp.up_proj", "mlp.shared_expert.up_proj"),
    ("mlp.down_proj", "mlp.shared_expert.down_proj"),
];

const QWEN3_NEXT: &[Module] = &[
    ("moe.router", "mlp.gate"),
    ("mlp.gate_proj", "mlp.shared_expert.gate_proj"),
    ("mlp.up_proj", "mlp.shared_expert.up_proj"),
    ("mlp.down_proj", "mlp.shared_expert.down_proj"),
    ("linear.qkvz_proj", "linear_attn.in_proj_qkvz"),
    ("linear.ba_proj", "linear_attn.in_proj_ba"),
    ("linear.out_proj", "linear_attn.out_proj"),
];

const QWEN35: &[Module] = &[
    ("linear.qkv_proj", "linear_attn.in_proj_qkv"),
    ("linear.z_proj", "linear_attn.in_proj_z"),
    ("linear.b_proj", "linear_attn.in_proj_b"),
    ("linear.a_proj", "linear_attn.in_proj_a"),
    ("linear.out_proj", "linear_attn.out_proj"),
];

const BERT: &[Module] = &[
    ("attention.q_proj", "attention.self.query"),
    ("attention.k_proj", "attention.self.key"),
    ("attention.v_proj", "attention.self.value"),
    ("attention.o_proj", "attention.output.dense"),
    ("mlp.up_proj", "intermediate.dense"),
    ("mlp.down_proj", "output.dense"),
    ("pooler", "pooler.dense"),
    ("head.dense", "transform.dense"),
    ("head.binary", "cls.seq_relationship"),
    ("head", "classifier"),
];

const ELECTRA: &[Module] = &[
    ("embedding.project", "embeddings_project"),
    ("attention.q_proj", "attention.self.query"),
    ("attention.k_proj", "attention.self.key"),
    ("attention.v_proj", "attention.self.value"),
    ("attention.o_proj", "attention.output.dense"),
    ("mlp.up_proj", "intermediate.dense"),
    ("mlp.down_proj", "output.dense"),
    ("head.dense", "generator_predictions.dense"),
    ("head.dense", "discriminator_predictions.dense"),
    ("head.dense", "classifier.dense"),
    ("head.binary", "dense_prediction"),
    ("head", "classifier.out_proj"),
    ("head", "classifier"),
];

const DEBERTA: &[Module] = &[
    ("attention.q_proj", "attention.self.query_proj"),
    ("attention.k_proj", "attention.self.key_proj"),
    ("attention.v_proj", "attention.self.value_proj"),
    ("attention.pos_key_proj", "attention.self.pos_key_proj"),
    ("attention.pos_query_proj", "attention.self.pos_query_proj"),
    ("attention.o_proj", "attention.output.dense"),
    ("mlp.up_proj", "intermediate.dense"),
    ("mlp.down_proj", "output.dense"),
    ("head.dense", "pooler.dense"),
    ("head.dense", "transform.dense"),
    ("head", "classifier"),
];

const MODERNBERT: &[Module] = &[
    ("attention.qkv_proj", "attn.Wqkv"),
    ("attention.o_proj", "attn.Wo"),
    ("mlp.gate_up_proj", "mlp.Wi"),
    ("mlp.down_proj", "mlp.Wo"),
    ("head.dense", "head.dense"),
    ("head", "classifier"),
];

const ALBERT: &[Module] = &[
    ("embedding.project", "embedding_hidden_mapping_in"),
    ("attention.q_proj", "attention.query"),
    ("attention.k_proj", "attention.key"),
    ("attention.v_proj", "attention.value"),
    ("attention.o_proj", "attention.dense"),
    ("mlp.up_proj", "ffn"),
    ("mlp.down_proj", "ffn_output"),
    ("pooler", "pooler"),
    ("head.dense", "predictions.dense"),
    ("head.binary", "sop_classifier.classifier"),
    ("head", "classifier"),
];

const DISTILBERT: &[Module] = &[
    ("attention.q_proj", "attention.q_lin"),
    ("attention.k_proj", "attention.k_lin"),
    ("attention.v_proj", "attention.v_lin"),
    ("attention.o_proj", "attention.out_lin"),
    ("mlp.up_proj", "ffn.lin1"),
    ("mlp.down_proj", "ffn.lin2"),
    ("head.dense", "pre_classifier"),
    ("head.dense", "vocab_transform"),
    ("head", "classifier"),
];

const ROBERTA: &[Module] = &[
    ("attention.q_proj", "attention.self.query"),
    ("attention.k_proj", "attention.self.key"),
    ("attention.v_proj", "attention.self.value"),
    ("attention.o_proj", "attention.output.dense"),
    ("mlp.up_proj", "intermediate.dense"),
    ("mlp.down_proj", "output.dense"),
    ("pooler", "pooler.dense"),
    ("head.dense", "dense"),
    ("head", "classifier.out_proj"),
];

const VIT: &[Module] = &[
    ("attention.q_proj", "attention.attention.query"),
    ("attention.k_proj", "attention.attention.key"),
    ("attention.v_proj", "attention.attention.value"),
    ("attention.o_proj", "attention.output.dense"),
    ("mlp.up_proj", "intermediate.dense"),
    ("mlp.down_proj", "output.dense"),
    ("head", "classifier"),
];

const T5: &[Module] = &[
    ("attention.q_proj", "Attention.q"),
    ("attention.k_proj", "Attention.k"),
    ("attention.v_proj", "Attention.v"),
    ("attention.o_proj", "Attention.o"),
    ("mlp.gate_proj", "DenseReluDense.wi_0"),
    ("mlp.up_proj", "DenseReluDense.wi_1"),
    ("mlp.up_proj", "DenseReluDense.wi"),
    ("mlp.down_proj", "DenseReluDense.wo"),
];

/// diffusers 0.39, models/attention_processor.py, models/attention.py and models/resnet.py.
const UNET: &[Module] = &[
    ("attention.q_proj", "to_q"),
    ("attention.k_proj", "to_k"),
    ("attention.v_proj", "to_v"),
    ("attention.o_proj", "to_out.0"),
    ("mlp.gate_up_proj", "ff.net.0.proj"),
    ("mlp.down_proj", "ff.net.2"),
    ("transformer.proj_in", "proj_in"),
    ("transformer.proj_out", "proj_out"),
    ("resnet.time", "time_emb_proj"),
];

/// Every linear layer that a model of `family` can have, by its names under `profile`.
#[must_use]
pub fn linear_layers(family: Family, profile: &Profile) -> Vec<Module> {
    if let Some(own) = profile.modules.linear_layers.is {
        return own.to_vec();
    }
    let own = match family {
        Family::Gpt2 | Family::Nanogpt => GPT2,
        Family::Opt | Family::Whisper | Family::Bart | Family::Mbart => OPT,
        Family::T5 => T5,
        Family::GptNeox => NEOX,
        Family::Bloom | Family::Falcon => BLOOM,
        Family::Phi => PHI,
        Family::Mixtral => MIXTRAL,
        Family::Qwen2Moe | Family::Qwen3Moe => QWEN_MOE,
        Family::Lfm2 => LFM2,
        Family::Bamba | Family::FalconH1 => BAMBA,
        Family::Jamba => JAMBA,
        Family::GraniteHybrid => GRANITE_HYBRID,
        Family::NemotronH => NEMOTRON_H,
        Family::Mamba | Family::Mamba2 => MAMBA,
        Family::Qwen3Next => QWEN3_NEXT,
        Family::Qwen35 | Family::Qwen35Moe => QWEN35,
        Family::Bert => BERT,
        Family::Roberta => ROBERTA,
        Family::Distilbert => DISTILBERT,
        Family::Electra => ELECTRA,
        Family::Deberta => DEBERTA,
        Family::ModernBert => MODERNBERT,
        Family::Albert => ALBERT,
        Family::Vit => VIT,
        Family::Unet => UNET,
        _ => &[],
    };
    let usual = USUAL.iter().filter(|(operator, _)| own.iter().all(|(known, _)| known != operator));
    own.iter().chain(usual).copied().collect()
}

/// What adapters stand on only where they are named: the embedding and the output matrix of a decoder.
#[must_use]
pub fn vocabulary_layers(family: Family, profile: &Profile) -> Vec<Module> {
    if let Some(own) = profile.modules.vocabulary_layers.is {
        return own.to_vec();
    }
    let (embedding, head) = match family {
        Family::Gpt2 | Family::Nanogpt => ("transformer.wte", "lm_head"),
        Family::GptNeox => ("gpt_neox.embed_in", "embed_out"),
        Family::Bloom | Family::Falcon => ("transformer.word_embeddings", "lm_head"),
        Family::Mamba | Family::Mamba2 | Family::NemotronH => ("backbone.embeddings", "lm_head"),
        _ => ("model.embed_tokens", "lm_head"),
    };
    vec![(EMBEDDING, embedding), (HEAD, head)]
}

/// Modules that adapters stand on where a plan names none; none where the user has to name some.
///
/// peft 0.21.2, `utils/constants.py`, `TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING`, by `model_type`, unless
/// the framework has its own.
#[must_use]
pub const fn default_targets(family: Family, profile: &Profile) -> &'static [&'static str] {
    if let Some(own) = profile.modules.adapter_targets.is {
        return own;
    }
    match family {
        Family::Gpt2 | Family::Nanogpt => &["c_attn"],
        Family::GptNeox | Family::Bloom | Family::Falcon => &["query_key_value"],
        Family::Opt
        | Family::Bart
        | Family::Llama
        | Family::Mistral
        | Family::Mixtral
        | Family::Qwen2
        | Family::Qwen3
        | Family::Gemma
        | Family::Gemma2
        | Family::Gemma3Text => &["q_proj", "v_proj"],
        Family::Phi => &["q_proj", "v_proj", "fc1", "fc2"],
        Family::T5 => &["q", "v"],
        Family::Bert | Family::Roberta | Family::Electra => &["query", "value"],
        Family::Deberta => &["query_proj", "value_proj"],
        _ => &[],
    }
}

/// Whether a target means that module: its path, or the end of it (peft, tuners/tuners_utils.py,
/// `check_target_module_exists`).
#[must_use]
pub fn is_meant(path: &str, target: &str) -> bool {
    path == target || path.strip_suffix(target).is_some_and(|before| before.ends_with('.'))
}
