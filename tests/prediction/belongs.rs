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
/// host 270 and 302 us a module, forward and backward, FSDP2 250 and 327. Weights that stay gathered have their hooks too.
#[test]
fn the_host_takes_as_long_for_fsdp2_as_for_fsdp1() {
    let step = |engine: &str, sharding: &str| {
        let plan = format!(
            "{{model: {{preset: gpt2-medium, batch_size: 16, sequence_length: 128}}, training: {{precision: bf16}},
             cluster: {{num_gpus: 8}}, distribution: {{engine: {engine}, sharding: {sharding}}}}}"
        );
        predicted(&plan).time.step.0
    };
    for sharding in ["zero3", "zero2"] {
        let ratio = step("fsdp2", sharding) / step("fsdp1", sharding);
        assert!((0.9..1.15).contains(&ratio), "{sharding}: {ratio}");
    }
}

/// Liger's and torchtune's losses are written for what says the next token.
#[test]
fn losses_without_logits_are_the_usual_one_where_nothing_says_tokens() {
    let of = |loss: &str| {
        predicted(&format!(
            "{{model: {{preset: bert-base-uncased, batch_size: 8, sequence_length: 512}}, training: {{precision: bf16{loss}}}}}"
        ))
    };
    let said = |of: &Prediction| {
        of.assumptions.iter().any(|line| line.starts_with("training.loss: hf: fused is written for what says"))
    };
    let fused = of(", loss: fused");
    assert!(said(&fused) && fused.not_modelled().count() == 0);
    assert_eq!(fused.largest().peak_allocated, of("").largest().peak_allocated);
    let decoder =
        "{model: {preset: gpt2, batch_size: 8, sequence_length: 512}, training: {precision: bf16, loss: fused}}";
    assert!(!said(&predicted(decoder)));
    // Megatron's own loss is another one.
    let megatron = |loss: &str| {
        predicted(&format!(
            "{{model: {{preset: bert-base-uncased, batch_size: 8, sequence_length: 512, framework: megatron}}{loss}}}"
        ))
    };
    let (chunked, usual) = (megatron(", training: {loss: chunked}"), megatron(""));
    assert_eq!(chunked.largest().peak_allocated, usual.largest().peak_allocated);
    assert_eq!(chunked.time, usual.time);
    assert!(
        chunked.assumptions.iter().any(|line| line.starts_with("training.loss: vocab_parallel: chunked is written"))
    );
}

/// megatron-core, core/transformer/transformer_config.py, `__post_init__`: both raise.
#[test]
fn megatron_recomputes_modules_that_a_model_has() {
    let plan = |preset: &str, framework: &str, more: &str| {
        format!(
            "{{model: {{preset: {preset}, framework: {framework}, batch_size: 8, sequence_length: 2048}}, \
             training: {{{more}}}, cluster: {{num_gpus: 8}}}}"
        )
    };
    let latent = "activation_checkpointing: {modules: [mla_up_proj]}";
    refused(&plan("llama-3-8b", "megatron", latent), "multi-latent attention alone");
    assert!(tried(&plan("deepseek-v2-lite", "megatron", latent)).is_ok());
    let turn = "moe_grouped_gemm: false, activation_checkpointing: {modules: [moe_act]}";
    refused(&plan("mixtral-8x7b", "megatron", turn), "moe_grouped_gemm alone");
    // Who runs them grouped, or is not Megatron, is asked nothing.
    let grouped = "activation_checkpointing: {modules: [moe_act]}";
    for framework in ["megatron", "torchtitan"] {
        assert!(tried(&plan("mixtral-8x7b", framework, grouped)).is_ok(), "{framework}");
    }
}

#[test]
fn kernels_and_frameworks_have_their_models() {
    for (preset, framework, is_there) in [
        // megatron-core's T5 is another; llm-foundry trains transformers' own class (models/hf/hf_t5.py).
        ("t5-large", "megatron", false),
        ("bart-large", "megatron", false),
        ("t5-large", "llm-foundry", true),
        ("t5-large", "pytorch", true),
    ] {
        let plan =
            format!("{{model: {{preset: {preset}, framework: {framework}, batch_size: 16, sequence_length: 512}}}}");
        assert_eq!(tried(&plan).is_ok(), is_there, "{preset} {framework}: {:?}", tried(&plan).err());
    }
    let wide = "{model: {architecture: {hidden_size: 2112, num_layers: 4, num_attention_heads: 8, head_dim: 264}, batch_size: 1}";
    refused(&format!("{wide}, training: {{attention: flash}}}}"), "heads of 256 at most, these have 264");
    assert!(tried(&format!("{wide}}}")).is_ok());
}

/// Stable Diffusion's UNet reads latents and a text's states: what makes them is another model, and its weights a key of plans
/// that train.
#[test]
fn a_diffusion_model_says_what_stands_beside_it() {
    let of = |more: &str| {
        let plan =
            format!("{{model: {{preset: stable-diffusion-xl, batch_size: 1}}, training: {{precision: bf16{more}}}}}");
        predicted(&plan).not_modelled().any(|key| key == "VAE and text encoders")
    };
    assert!(of("") && !of(", frozen_models_billions: 0.9"));
    assert!(of(", mode: inference") && of(", mode: inference, frozen_models_billions: 0.9"));
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

/// A reference model's forward pass trains nothing: neither way of counting has it.
#[test]
fn mfu_counts_no_reference_model() {
    let counted = |more: &str| {
        let plan = format!(
            "{{model: {{preset: llama-3.2-1b, batch_size: 2, sequence_length: 2048}}, training: {{precision: bf16{more}}}}}"
        );
        let time = predicted(&plan).time;
        time.mfu.unwrap() * time.step.0
    };
    for how in ["", ", lora: {rank: 16, targets: [q_proj, v_proj]}"] {
        let (alone, beside) = (counted(how), counted(&format!("{how}, reference_model: true")));
        assert!((beside / alone - 1.0).abs() < 1e-6, "{how}: {alone} {beside}");
    }
}

#[test]
fn what_cannot_run_is_refused() {
    let of = |gpu: &str, training: &str| {
        format!(
            "{{model: {{preset: gpt2, batch_size: 8, sequence_length: 512}}, hardware: {{gpu_type: {gpu}}}, training: {{{training}}}}}"
        )
    };
    // torch/_inductor/exc.py, `GPUTooOldForTriton`: compute capability 7.0; the P100 has 6.0, the V100 7.0.
    refused(&of("NVIDIA P100", "compile: true, precision: fp32"), "training.compile");
    assert!(tried(&of("NVIDIA V100", "compile: true, precision: fp32")).is_ok());
    // torchtune, recipes/full_finetune_single_device.py
    let clips = "optimizer_in_backward: true, gradient_clipping: true";
    refused(&of("NVIDIA H100", clips), "training.gradient_clipping: true: gradients cannot be clipped");
    for key in ["training: {gradient_dtype: int8}", "distribution: {reduce_dtype: fp8}, cluster: {num_gpus: 8}"] {
        let plan = format!("{{model: {{preset: gpt2, batch_size: 8, sequence_length: 512}}, {key}}}");
        refused(&plan, "gradients have 16 or 32 bits");
    }
    // The widest shape of 10 000 layers has 31 881 billion; BERT tiny's embedding alone has 30 522 x 128 parameters.
    refused("{model: {size_billions: 50000, batch_size: 1, sequence_length: 512}}", "model.size_billions: 50000");
    let encoder = "{model: {type: transformer_encoder, size_billions: 0.0001, batch_size: 1, sequence_length: 512}}";
    refused(encoder, "model.size_billions: 0.0001: of the");
}
