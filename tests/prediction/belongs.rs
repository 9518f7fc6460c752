//! What a model or a framework has not: refused, or said, and in no figure. And what a token passes of a mixture of experts.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

fn tried(plan: &str) -> Result<Prediction, String> {
    let plan = Document::parse(plan).unwrap().plan().unwrap();
    let said =
        |faults: Vec<memwall::plan::Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    predict::of(&plan, catalog()).map_err(said)
}

fn predicted(plan: &str) -> Prediction {
    tried(plan).unwrap_or_else(|faults| panic!("{plan}: {faults}"))
}

fn refused(plan: &str, words: &str) {
    let said = tried(plan).unwrap_err();
    assert!(said.contains(words), "{plan}: {said}");
}

/// Mixtral 8x7B: 46 702 792 704 parameters, of which 6 of 8 experts of 3 x 4096 x 14336 in each of 32 layers are passed by.
#[test]
fn a_token_passes_its_experts_alone_whoever_runs_them() {
    let passed = 46_702_792_704 - 32 * 6 * 3 * 4096 * 14336;
    for framework in ["pytorch", "megatron", "torchtitan"] {
        let plan = format!(
            "{{model: {{preset: mixtral-8x7b, framework: {framework}, batch_size: 8, sequence_length: 512}},
             training: {{precision: bf16}}, cluster: {{num_gpus: 8}}}}"
        );
        assert_eq!(predicted(&plan).params.active_per_token, passed, "{framework}");
    }
}

/// Measured on one host with a process group that sends nothing (PyTorch 2.9.1, 24 modules of 8 parameters): FSDP1 keeps the
/// host 270 and 302 us a module, forward and backward, FSDP2 250 and 327.
#[test]
fn the_host_takes_as_long_for_fsdp2_as_for_fsdp1() {
    let step = |engine: &str| {
        let plan = format!(
            "{{model: {{preset: gpt2-medium, batch_size: 16, sequence_length: 128}}, training: {{precision: bf16}},
             cluster: {{num_gpus: 8}}, distribution: {{strategy: fsdp, engine: {engine}}}}}"
        );
        predicted(&plan).time.step.0
    };
    let ratio = step("fsdp2") / step("fsdp1");
    assert!((0.9..1.15).contains(&ratio), "{ratio}");
}

/// Liger's and torchtune's losses are written for what says the next token.
#[test]
fn losses_without_logits_are_not_modelled_where_nothing_says_tokens() {
    let of = |loss: &str| {
        predicted(&format!(
            "{{model: {{preset: bert-base-uncased, batch_size: 8, sequence_length: 512}}, training: {{precision: bf16{loss}}}}}"
        ))
    };
    let fused = of(", loss: fused");
    assert!(fused.not_modelled().any(|key| key == "training.loss"));
    assert_eq!(fused.largest().peak_allocated, of("").largest().peak_allocated);
    let decoder =
        "{model: {preset: gpt2, batch_size: 8, sequence_length: 512}, training: {precision: bf16, loss: fused}}";
    assert!(!predicted(decoder).not_modelled().any(|key| key == "training.loss"));
}

/// megatron-core, core/transformer/transformer_config.py, `__post_init__`: both raise.
#[test]
fn megatron_recomputes_modules_that_a_model_has() {
    let plan = |preset: &str, more: &str| {
        format!(
            "{{model: {{preset: {preset}, framework: megatron, batch_size: 8, sequence_length: 2048}}, \
             training: {{{more}}}, cluster: {{num_gpus: 8}}}}"
        )
    };
    refused(&plan("llama-3-8b", "activation_checkpointing: {modules: [mla_up_proj]}"), "multi-latent attention alone");
    assert!(tried(&plan("deepseek-v2-lite", "activation_checkpointing: {modules: [mla_up_proj]}")).is_ok());
    let turn = "moe_grouped_gemm: false, activation_checkpointing: {modules: [moe_act]}";
    refused(&plan("mixtral-8x7b", turn), "moe_grouped_gemm alone");
}

#[test]
fn kernels_and_frameworks_have_their_models() {
    refused(
        "{model: {preset: t5-large, framework: megatron, batch_size: 16, sequence_length: 512}}",
        "predicted as transformers runs it alone",
    );
    refused(
        "{model: {architecture: {hidden_size: 2112, num_layers: 4, num_attention_heads: 8, head_dim: 264}, batch_size: 1}, \
         training: {attention: flash}}",
        "heads of 256 at most, these have 264",
    );
}

/// Stable Diffusion's UNet reads latents and a text's states: what makes them is another model, and its weights a key.
#[test]
fn a_diffusion_model_says_what_stands_beside_it() {
    let of = |more: &str| {
        let plan =
            format!("{{model: {{preset: stable-diffusion-xl, batch_size: 1}}, training: {{precision: bf16{more}}}}}");
        predicted(&plan).not_modelled().any(|key| key.starts_with("VAE and text encoders"))
    };
    assert!(of("") && !of(", frozen_models_billions: 0.9"));
}

#[test]
fn every_block_recomputed_is_all_of_them() {
    let of = |what: &str| {
        predicted(&format!(
            "{{model: {{preset: gpt2, batch_size: 8, sequence_length: 512}}, training: {{activation_checkpointing: {what}}}}}"
        ))
    };
    assert_eq!(of("{every: 1}").time.step, of("full").time.step);
}

/// What fields leave open is taken from their kin, and said.
#[test]
fn open_fields_are_listed() {
    let plan = "{model: {architecture: {hidden_size: 512, num_layers: 2, num_attention_heads: 8, activation: swiglu}}}";
    let said = predicted(plan).assumptions;
    for line in ["norm: rmsnorm", "position: rope", "tie_embeddings: false", "linear_bias: false"] {
        assert!(said.iter().any(|said| said.starts_with(&format!("model.architecture.{line}"))), "{line}: {said:?}");
    }
}
