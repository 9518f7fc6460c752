//! Operators under their roofs: what binds each, and that none stands above what its GPU can do.

use crate::support::catalog;
use memwall::advise::operators;
use memwall::plan::{Document, EXAMPLES, Plan};
use memwall::predict::{self, Bound, Job, Prediction, RooflineOp};

fn plan(text: &str) -> Plan {
    Document::parse(text).unwrap().plan().unwrap()
}

fn op<'a>(prediction: &'a Prediction, name: &str) -> &'a RooflineOp {
    let mut ops = prediction.roofline.ops.iter();
    ops.find(|op| op.name == name).unwrap_or_else(|| panic!("{name}: {:?}", prediction.roofline.ops))
}

/// Each example on GPUs of every generation, and small kernels, long sequences and FP8 besides.
fn predictions() -> Vec<Prediction> {
    let mut all = Vec::new();
    for gpu in ["V100", "A100", "RTX 4090", "H100", "B200"] {
        for (_, text) in EXAMPLES {
            let mut plan = plan(text);
            plan.hardware.gpu_type = Some(gpu.to_owned());
            plan.hardware.custom = None;
            all.extend(predict::of(&plan, catalog()));
        }
        for text in [
            "model: {preset: gpt2, batch_size: 1, sequence_length: 128}\n",
            "model: {preset: llama-3-8b, batch_size: 1, sequence_length: 65536}\ntraining: {attention: flash}\n",
            "model: {preset: llama-3-8b, framework: megatron, batch_size: 4}\ntraining: {precision: fp8-mixed}\n",
        ] {
            let mut plan = plan(text);
            plan.hardware.gpu_type = Some(gpu.to_owned());
            all.extend(predict::of(&plan, catalog()));
        }
    }
    assert!(all.len() > 40, "{}", all.len());
    all
}

#[test]
fn no_operator_stands_above_its_roof() {
    for prediction in predictions() {
        let roofline = &prediction.roofline;
        for op in &roofline.ops {
            let rate = op.flops.0 / op.seconds.0;
            let slope = op.flops.0 / op.bytes.as_f64() * roofline.bandwidth.0;
            let said = || format!("{} on {}: {}: {rate:.3e}", prediction.model, prediction.gpu, op.name);
            assert!(rate <= op.peak.0 * (1.0 + 1e-9), "{} over the peak {:.3e}", said(), op.peak.0);
            assert!(op.bytes.0 == 0 || rate <= slope * (1.0 + 1e-9), "{} over DRAM {slope:.3e}", said());
            assert!((0.0..=1.0 + 1e-9).contains(&roofline.reached(op)), "{}", said());
        }
    }
}

#[test]
fn a_roof_binds_an_operator_on_its_side_of_the_ridge_or_none_does() {
    let mut small = 0;
    for prediction in predictions() {
        let roofline = &prediction.roofline;
        for op in &roofline.ops {
            let Some(intensity) = op.intensity else { continue };
            let ridge = op.peak.0 / roofline.bandwidth.0;
            match op.bound {
                Bound::Memory => assert!(intensity.0 < ridge, "{}: {intensity} over {ridge}", op.name),
                Bound::Compute => assert!(intensity.0 >= ridge, "{}: {intensity} under {ridge}", op.name),
                // What long kernels reach is at most the roof: an operator that reaches half of that is none.
                Bound::SmallKernel => assert!(roofline.reached(op) < 0.5, "{}", op.name),
            }
            small += u64::from(op.bound == Bound::SmallKernel);
        }
    }
    assert!(small > 10, "{small}");
}

/// One sequence of 4096 through 32 blocks of 4096 channels. Two matmuls of scores, a multiply-add counted as two:
/// 4 x 4096^2 x 4096 = 2.749e11 for all pairs; backward five matmuls for two (FlashAttention, arXiv 2205.14135); a causal
/// mask leaves half of them to do.
#[test]
fn causal_attention_counts_the_half_that_runs_and_mfu_all_of_it() {
    let text = "model: {preset: llama-2-7b, batch_size: 1, sequence_length: 4096}\ntraining: {attention: flash}\n\
                hardware: {gpu_type: NVIDIA A100 80GB}\n";
    let prediction = predict::of(&plan(text), catalog()).unwrap();
    let whole = 4.0 * 4096_f64.powi(2) * 4096.0 * 32.0 * 3.5;
    let core = op(&prediction, "attention.core");
    assert!((core.flops.0 / (whole / 2.0) - 1.0).abs() < 0.01, "{:.4e} of {whole:.4e}", core.flops.0);
    // (6 N + 12 L h s) x tokens a second over the peak (PaLM, arXiv 2204.02311, appendix B).
    let tokens = prediction.time.tokens_per_s.unwrap();
    let flops = 6.0 * prediction.params.total as f64 + 12.0 * 32.0 * 4096.0 * 4096.0;
    assert!((prediction.time.mfu.unwrap() / (flops * tokens / 312e12) - 1.0).abs() < 1e-3);
}

/// The layers of Mamba-2 attend to nothing: 6 N alone. Of Nemotron-H 4B's 52 four attend (its `hybrid_override_pattern` has four
/// `*`), with 32 heads of 128 (its config.json).
#[test]
fn mfu_counts_scores_of_layers_that_attend() {
    for (model, scores) in [("mamba2-1.3b", 0.0), ("nemotron-h-4b", 12.0 * 4.0 * 32.0 * 128.0 * 8192.0)] {
        let text = format!(
            "model: {{preset: {model}, batch_size: 1, sequence_length: 8192}}\ntraining: {{precision: bf16}}\n\
             hardware: {{gpu_type: NVIDIA H100}}\n"
        );
        let prediction = predict::of(&plan(&text), catalog()).unwrap();
        let flops = 6.0 * prediction.params.total as f64 + scores;
        let wanted = flops * prediction.time.tokens_per_s.unwrap() / 989.4e12;
        let mfu = prediction.time.mfu.unwrap();
        assert!((mfu / wanted - 1.0).abs() < 2e-3, "{model}: {mfu} {wanted}");
    }
}

/// Each token of Mistral 7B is set against 4096 keys in all 32 layers, whatever the sequence (its config.json), with 32 heads of
/// 128; those of Gemma 3 4B against 1024 in 29 of 34 layers, with 8 heads of 256.
#[test]
fn mfu_counts_the_keys_of_a_window() {
    let mistral = 12.0 * 32.0 * 4096.0 * 4096.0;
    let gemma = 12.0 * 8.0 * 256.0 * (29.0 * 1024.0 + 5.0 * 16384.0);
    for (model, scores) in [("mistral-7b", mistral), ("gemma-3-4b", gemma)] {
        let text = format!(
            "model: {{preset: {model}, batch_size: 1, sequence_length: 16384}}\ntraining: {{precision: bf16, attention: flash}}\n\
             hardware: {{gpu_type: NVIDIA H100}}\n"
        );
        let prediction = predict::of(&plan(&text), catalog()).unwrap();
        let flops = 6.0 * prediction.params.total as f64 + scores;
        let wanted = flops * prediction.time.tokens_per_s.unwrap() / 989.4e12;
        let mfu = prediction.time.mfu.unwrap();
        assert!((mfu / wanted - 1.0).abs() < 2e-3, "{model}: {mfu} {wanted}");
    }
}

/// HFU is what runs: with adapters forward and the gradients of activations alone.
#[test]
fn hfu_of_adapters_is_what_the_hardware_computes() {
    let text = "model: {preset: llama-3-8b, batch_size: 4, sequence_length: 2048}\n\
                training: {precision: bf16, micro_batch_size: 4, lora: {rank: 16, targets: [q_proj, v_proj]}}\n\
                hardware: {gpu_type: NVIDIA A100 80GB}\n";
    let prediction = predict::of(&plan(text), catalog()).unwrap();
    let ran = prediction.flops.forward.0 + prediction.flops.backward.0;
    let wanted = ran / prediction.time.step.0 / 312e12;
    let (mfu, hfu) = (prediction.time.mfu.unwrap(), prediction.time.hfu.unwrap());
    assert!((hfu / wanted - 1.0).abs() < 1e-3, "{hfu} {wanted}");
    // Nothing is recomputed: what runs is what is needed, about 4 N of 6 N (no gradients of frozen weights).
    assert!((hfu / mfu - 1.0).abs() < 1e-9, "{hfu} of {mfu}");
    let all = 6.0 * prediction.params.total as f64 * prediction.time.tokens_per_s.unwrap() / 312e12;
    assert!((0.6..0.75).contains(&(mfu / all)), "{mfu} of {all}");
}

/// Products with 16 columns read two bytes an element for 16 multiply-adds: 16 FLOP/B at most, a tenth of the A100's
/// ridge (312 TFLOP/s over 2.04 TB/s = 153).
#[test]
fn narrow_matmuls_of_adapters_are_not_compute_bound() {
    for gpu in ["NVIDIA A100 80GB", "NVIDIA H100"] {
        let text = format!(
            "model: {{preset: llama-2-7b, batch_size: 4, sequence_length: 2048}}\ntraining: {{lora: {{rank: 16}}}}\n\
             hardware: {{gpu_type: {gpu}}}\n"
        );
        let prediction = predict::of(&plan(&text), catalog()).unwrap();
        let narrow = op(&prediction, "lora.a");
        assert!(narrow.intensity.unwrap().0 < 16.0, "{:?}", narrow.intensity);
        assert_ne!(narrow.bound, Bound::Compute);
    }
}

/// GPT-2's kernels at a batch of one and 128 tokens are over in microseconds (a few MB each at 2 TB/s).
#[test]
fn kernels_of_a_small_model_are_small_and_the_host_is_waited_for() {
    let text = "model: {preset: gpt2, batch_size: 1, sequence_length: 128}\nhardware: {gpu_type: NVIDIA A100 80GB}\n";
    let plan = plan(text);
    let job = Job::resolve(&plan, catalog()).unwrap();
    let prediction = predict::predict(&job);
    let small = prediction.roofline.ops.iter().filter(|op| op.bound == Bound::SmallKernel).count();
    assert!(2 * small > prediction.roofline.ops.len(), "{small} of {}", prediction.roofline.ops.len());
    let name = prediction.roofline.ops.iter().find(|op| op.bound == Bound::SmallKernel).unwrap().name.to_string();
    let found = operators(&plan, &job, &prediction, &[&name], catalog());
    let said = &found[0].message;
    assert!(said.contains("waiting: the host takes") && said.contains("small kernel"), "{said}");
}

#[test]
fn what_helps_an_operator_is_what_the_changed_plan_takes_for_it() {
    let text = "model: {preset: llama-3-8b, batch_size: 8, sequence_length: 4096}\n\
                training: {attention: eager, precision: bf16, micro_batch_size: 1}\n\
                hardware: {gpu_type: NVIDIA B200}\ncluster: {num_gpus: 8}\n";
    let given = plan(text);
    let job = Job::resolve(&given, catalog()).unwrap();
    let prediction = predict::predict(&job);
    let names: Vec<&str> = prediction.roofline.ops.iter().map(|op| op.name.as_ref()).collect();
    let found = operators(&given, &job, &prediction, &names, catalog());
    assert_eq!(found.len(), names.len());
    let mut helped = 0;
    for (finding, name) in found.iter().zip(&names) {
        assert!(finding.message.starts_with(&format!("{name}: {} a step", op(&prediction, name).seconds)));
        for fix in &finding.fixes {
            let edited = Document::parse(text).unwrap().changed(&fix.change).unwrap().plan().unwrap();
            let after = predict::of(&edited, catalog()).unwrap();
            assert_eq!(after.time, fix.outline.time, "{}", fix.name);
            let batch = |plan: &Plan| Job::resolve(plan, catalog()).unwrap().batch.global as f64;
            let seconds = after.roofline.ops.iter().find(|op| op.name == *name).map_or(0.0, |op| op.seconds.0);
            let same_samples = seconds * batch(&given) / batch(&edited);
            assert!(same_samples < 0.9 * op(&prediction, name).seconds.0 + 1e-12, "{}", fix.name);
            assert!(fix.speed > 0.0 && (fix.fits || fix.memory.0 <= 0), "{}", fix.name);
            helped += 1;
        }
    }
    assert!(helped > 5, "{helped}");
}

/// GPT-2's four linear layers of a block have 3 + 1 + 4 + 1 times 768 outputs, and each has a bias. In bf16, 8 x 1024 tokens
/// and twelve blocks make 9 x 768 x 8192 x 12 elements of 2 bytes whose gradients are summed.
#[test]
fn a_bias_takes_a_kernel_that_reads_the_gradient_of_the_output() {
    let text = "model: {preset: gpt2, batch_size: 8, sequence_length: 1024}\ntraining: {precision: bf16}\n";
    let prediction = predict::of(&plan(text), catalog()).unwrap();
    let sums = op(&prediction, "bias.gradient");
    assert_eq!((sums.count, sums.bytes.0), (48, 9 * 768 * 8192 * 12 * 2));
    // Inductor's kernels that make the gradient sum it, Transformer Engine's matmul does.
    for text in [text.replace("bf16}", "bf16, compile: true}"), text.replace("gpt2,", "gpt2, framework: megatron,")] {
        let prediction = predict::of(&plan(&text), catalog()).unwrap();
        assert!(prediction.roofline.ops.iter().all(|op| op.name != "bias.gradient"), "{text}");
    }
}

/// Each of the 192 x 12 x 197 x 197 scores of a block. In fp16 the softmax reads 2 bytes and writes 4, the cast of its result
/// 4 and 2; backward the cast's 2 and 4, the softmax's gradient and result of 4 each and 2 written: 28 bytes. In bf16 the
/// scores are cast before: 2 and 4, then 4 read for 2, and as many backward: 44.
#[test]
fn a_softmax_reads_fp16_scores_as_they_are() {
    let scores = 192 * 12 * 197 * 197 * 12;
    for (precision, each) in [("fp16-mixed", 28), ("bf16-mixed", 44)] {
        let text = format!(
            "model: {{framework: pytorch, batch_size: 192, hf_config: {{architectures: [ViTForImageClassification], \
             model_type: vit, image_size: 224, patch_size: 16, num_channels: 3, hidden_size: 768, intermediate_size: 3072, \
             num_hidden_layers: 12, num_attention_heads: 12, num_labels: 1000, hidden_act: gelu, qkv_bias: true, \
             attention_probs_dropout_prob: 0.0, hidden_dropout_prob: 0.0}}}}\n\
             training: {{precision: {precision}, attention: eager}}\n"
        );
        let prediction = predict::of(&plan(&text), catalog()).unwrap();
        assert_eq!(op(&prediction, "attention.softmax").bytes.0, each * scores, "{precision}");
        assert!(prediction.roofline.ops.iter().all(|op| op.name != "attention.mask"), "{precision}");
    }
}

/// BERT-base in fp32, eager, 8 x 384 tokens of 768 channels: queries, keys, values and the result of each of twelve blocks are
/// copied into another order and their gradients back, 4 x 8 x 384 x 768 x 12 elements of 4 bytes read and written. The mask
/// is added forward, and a sum's gradient takes no kernel: 8 x 12 x 384 x 384 scores read and written once.
#[test]
fn gradients_of_reordered_heads_are_copied_back() {
    let text = "model: {framework: pytorch, batch_size: 8, sequence_length: 384, hf_config: {architectures: \
                [BertForQuestionAnswering], model_type: bert, vocab_size: 30522, max_position_embeddings: 512, \
                type_vocab_size: 2, hidden_act: gelu, hidden_size: 768, intermediate_size: 3072, num_hidden_layers: 12, \
                num_attention_heads: 12}}\ntraining: {precision: fp32, attention: eager}\n";
    let prediction = predict::of(&plan(text), catalog()).unwrap();
    let copies = op(&prediction, "gradient.reorder");
    assert_eq!((copies.count, copies.bytes.0), (4 * 12, 4 * 8 * 384 * 768 * 12 * 2 * 4));
    let masks = op(&prediction, "attention.mask");
    assert_eq!((masks.count, masks.bytes.0), (12, 8 * 12 * 384 * 384 * 12 * 2 * 4));
}

/// Muon makes a matrix of n x m, n the smaller, orthogonal in five iterations of 2 n n m, 2 n n n and 2 n n m operations
/// (torch/optim/_muon.py). Two layers of 1024 channels with a hidden layer of 4096: four square matrices, and three of
/// 1024 x 4096.
#[test]
fn muon_multiplies_matrices() {
    let text = |optimizer: &str| {
        format!(
            "model: {{architecture: {{hidden_size: 1024, num_layers: 2, num_attention_heads: 16, intermediate_size: 4096, \
             vocab_size: 32000, activation: swiglu}}, batch_size: 8, sequence_length: 1024}}\n\
             training: {{precision: bf16, optimizer: {optimizer}}}\n"
        )
    };
    let flops = |optimizer: &str| op(&predict::of(&plan(&text(optimizer)), catalog()).unwrap(), "optimizer").flops.0;
    let n = 1024.0_f64;
    let (square, oblong) = (5.0 * 6.0 * n.powi(3), 5.0 * (4.0 * n * n * 4096.0 + 2.0 * n.powi(3)));
    let more = flops("muon") - flops("lion");
    let expected = 2.0 * (4.0 * square + 3.0 * oblong);
    assert!((more / expected - 1.0).abs() < 1e-9, "{more} {expected}");
}
