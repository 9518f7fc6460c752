//! Models that PyTorch itself was traced to run, against real steps of them that were followed tensor by tensor
//! (`tests/allocator/trace_cases.py`): families that the catalogue has no rules for, at four times the batch and twice the
//! length of the traced sizes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use memwall::plan::{Document, Fault, Plan, plan_of};
use memwall::predict::{self, Component, Job, Prediction};
use serde_json::Value;

use crate::support::catalog;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/truth/traced")
}

fn cases(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn plan(text: &str) -> Plan {
    plan_of(&Document::parse(text).unwrap(), &folder()).unwrap()
}

fn predicted(text: &str) -> Prediction {
    predict::of(&plan(text), catalog()).unwrap()
}

fn faults(text: &str) -> Vec<Fault> {
    let plan = plan_of(&Document::parse(text).unwrap(), &folder());
    plan.and_then(|plan| predict::of(&plan, catalog())).unwrap_err()
}

fn faults_or_none(tape: &str, rest: &str) -> Vec<Fault> {
    let plan = plan_of(&Document::parse(&with(tape, rest)).unwrap(), &folder());
    plan.and_then(|plan| predict::of(&plan, catalog())).err().unwrap_or_default()
}

/// Errors in percent of each quantity over the cases of a file.
fn errors(file: &str) -> BTreeMap<&'static str, Vec<(f64, String)>> {
    let mut errors: BTreeMap<&str, Vec<(f64, String)>> = BTreeMap::new();
    for case in cases(file) {
        let prediction = predicted(&case["plan"].to_string());
        let stage = &prediction.stages[0];
        for (name, found) in [
            ("params", prediction.params.total as f64),
            ("trainable_params", prediction.params.trainable as f64),
            ("peak_allocated_bytes", stage.peak_allocated.as_f64()),
            ("activation_bytes", stage.activations_end_of_forward.as_f64()),
            ("flops_forward", prediction.flops.forward.0),
            ("flops_backward", prediction.flops.backward.0),
        ] {
            let Some(measured) = case["measured"][name].as_f64() else { continue };
            let error = if measured == found { 0.0 } else { 100.0 * (found / measured - 1.0) };
            errors.entry(name).or_default().push((error.abs(), format!("{} {error:+.2} %", case["id"])));
        }
    }
    errors
}

fn hold(errors: &BTreeMap<&str, Vec<(f64, String)>>, cases: usize) {
    for (name, list) in errors {
        let (mean, worst) = match *name {
            "params" | "trainable_params" => (0.0, 0.0),
            "peak_allocated_bytes" | "activation_bytes" => (1.0, 5.0),
            _ => (0.5, 0.5),
        };
        let average = list.iter().map(|(error, _)| error).sum::<f64>() / list.len() as f64;
        let most = list.iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        assert!(average <= mean, "{name}: {average:.3} % on average, {}", most.1);
        assert!(most.0 <= worst, "{name}: {}", most.1);
    }
    assert!(errors["params"].len() >= cases, "{} cases", errors["params"].len());
}

#[test]
fn traced_models_are_predicted_as_they_run() {
    let errors = errors("cases.jsonl");
    hold(&errors, 1282);
    // A rule of its own stands behind each of these, so that none is off by a tensor.
    let exact = [
        "drawn-molecules",
        "drawn-variables",
        "drawn-branches",
        "drawn-measured",
        "user-nested",
        "eighth-heads",
        "ninth-recurrent-fp32-lora",
        "ninth-nested",
        "tenth-values",
    ];
    let ruled = |name: &str| errors[name].iter().filter(|(_, id)| exact.iter().any(|model| id.contains(model)));
    let off = |(error, _): &&(f64, String)| *error > 0.1;
    for name in ["peak_allocated_bytes", "activation_bytes", "flops_forward", "flops_backward"] {
        assert_eq!(ruled(name).count(), 30, "{name}");
        assert_eq!(ruled(name).find(off), None, "{name}");
    }
}

/// torchvision's detectors, which pick boxes by their values: steps on the host with real values
/// (`tests/allocator/detect_cases.py`), against tapes in which every stage keeps as many boxes as it may.
#[test]
fn traced_detectors_are_predicted_as_they_run() {
    hold(&errors("detectors.jsonl"), 5);
}

/// Passes without gradients, with the keys and values that they keep for later tokens.
#[test]
fn traced_forward_passes_are_predicted_as_they_run() {
    hold(&errors("forward.jsonl"), 120);
}

/// Keys and values that OLMo-2's four layers keep: two tensors of 16 heads of 64 values of 2 bytes a token; and what a plan
/// may ask.
#[test]
fn a_forward_pass_answers_for_inference_alone() {
    let text = |training: &str| {
        format!("model: {{trace: olmo2.forward.tape.json.gz, sequence_length: 512}}\ntraining: {{{training}}}")
    };
    let prediction = predicted(&text("precision: bf16, micro_batch_size: 3"));
    assert_eq!(prediction.largest().component(Component::KvCache).0, 3 * 512 * 4 * 2 * 16 * 64 * 2);
    for absent in [Component::Gradients, Component::OptimizerStates] {
        assert_eq!(prediction.largest().component(absent).0, 0);
    }
    assert!(prediction.assumptions.iter().any(|line| line.contains("one forward pass without gradients")));
    for (asked, key) in [("mode: train", "training.mode"), ("weight_bits: 4", "training.weight_bits")] {
        let faults = faults(&text(asked));
        assert!(faults.iter().any(|fault| fault.key == key), "{asked}: {faults:?}");
    }
    let twice = predicted(&text("precision: bf16, micro_batch_size: 6"));
    // The rotary angles are made once for all rows: 512 positions by 32 frequencies.
    assert_eq!(twice.flops.forward.0, 2.0 * prediction.flops.forward.0 - 2.0 * 512.0 * 32.0);
}

/// A tape that is written anew under its name is the new one.
#[test]
fn a_tape_is_read_as_it_lies_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.tape.json.gz");
    let text = "model: {trace: model.tape.json.gz, sequence_length: 128}\ntraining: {precision: fp32}";
    let params = || {
        let plan = plan_of(&Document::parse(text).unwrap(), folder.path()).unwrap();
        predict::of(&plan, catalog()).unwrap().params.total
    };
    // As PyTorch counts them (`measured.params` of both in cases.jsonl).
    for (tape, count) in [("bert", 109_514_298), ("gpt2", 124_439_808), ("bert", 109_514_298)] {
        std::fs::copy(self::folder().join(format!("{tape}.tape.json.gz")), &path).unwrap();
        assert_eq!((params(), params()), (count, count), "{tape}");
    }
}

/// Real steps with peft's adapters, with and without full checkpointing (`truth/allocator.json`), against tapes of the same
/// models without any.
#[test]
fn adapters_on_tapes_are_predicted_as_they_run() {
    hold(&errors("lora.jsonl"), 6);
}

/// Rank 0 of eight under FSDP and DDP, its real steps followed tensor by tensor (`tests/allocator/shard_cases.py`), against tapes
/// that know nothing of ranks.
#[test]
fn sharded_steps_are_predicted_from_whole_tapes() {
    let errors = errors("sharded.jsonl");
    assert!(errors["params"].len() >= 51 && errors["params"].iter().all(|(error, _)| *error == 0.0));
    let list = &errors["peak_allocated_bytes"];
    let average = list.iter().map(|(error, _)| error).sum::<f64>() / list.len() as f64;
    assert!(average <= 0.2, "{average:.2} %: {list:?}");
    assert!(list.iter().all(|(error, _)| *error <= 1.0), "{list:?}");
}

/// A tape without the weights that FSDP gathers cannot say what mixed precision holds there.
#[test]
fn mixed_precision_under_fsdp_needs_its_own_trace() {
    let sharded = "cluster: {num_gpus: 8}\ndistribution: {sharding: fsdp}";
    let found = faults(&with("electra", &format!("training: {{precision: bf16-mixed}}\n{sharded}")));
    assert!(found.iter().any(|fault| fault.key == "training.precision"), "{found:?}");
    predicted(&with("electra", &format!("training: {{precision: fp32}}\n{sharded}")));
    predicted(&with("distilbert.gathered", &format!("training: {{precision: bf16-mixed}}\n{sharded}")));
}

/// `memwall validate --traced` over default configurations with few layers, a family and precision each: what PyTorch was
/// traced to run beside the rules of the catalogue. LFM2's backward flops are left out: PyTorch's own counter takes the gradient of
/// a filter for each channel apart for one of all channels by all (torch/utils/flop_counter.py, `conv_backward_flop`). Models
/// that see stand in fp32 and mixed alone: the tracer hands images in 16 bits to weights of 16, processors in fp32.
#[test]
fn the_rules_of_each_family_agree_with_what_pytorch_runs() {
    let families: std::collections::BTreeSet<String> =
        cases("known.jsonl").iter().map(|case| case["plan"]["model"]["hf_config"]["model_type"].to_string()).collect();
    assert!(families.len() >= 72, "{families:?}");
    hold(&errors("known.jsonl"), 211);
}

/// Steps of Qwen3-Next and Qwen3.5 with flash-linear-attention's own code, its kernels passed over, and causal-conv1d's interface.
/// Flops are no part of them: nothing counts those of a kernel.
#[test]
fn layers_of_the_gated_delta_rule_are_predicted_as_they_run() {
    hold(&errors("delta.jsonl"), 18);
}

/// Steps of Mamba, Mamba-2 and hybrids of them with attention, of mamba-ssm's own code, its kernels passed over, and causal-conv1d's
/// interface; with and without full checkpointing. Flops are no part of them.
#[test]
fn state_space_layers_are_predicted_as_they_run() {
    hold(&errors("state_space.jsonl"), 58);
}

/// The tape of a case, and a plan of it with one more line of settings.
fn with(name: &str, rest: &str) -> String {
    format!("model: {{trace: {name}.tape.json.gz, sequence_length: 256}}\n{rest}")
}

#[test]
fn what_a_trace_cannot_answer_is_refused() {
    for (rest, key) in [
        ("distribution: {tensor_parallel: 2}", "distribution.tensor_parallel"),
        ("distribution: {pipeline_parallel: 2}", "distribution.pipeline_parallel"),
        ("training: {mode: inference}", "training.mode"),
        ("training: {precision: fp8-mixed}", "training.precision"),
        // peft has defaults for some model types alone; a tape names none.
        ("training: {lora: {rank: 8}}", "training.lora.targets"),
        ("training: {lora: {rank: 8, targets: [dropout]}}", "training.lora.targets"),
        ("training: {lora: {rank: 8, targets: [word_embeddings]}}", "training.lora.targets"),
        ("training: {lora: {rank: 8, targets: [q_lin], base_bits: 4}}", "training.lora.base_bits"),
    ] {
        let faults = faults(&with("distilbert", rest));
        assert!(faults.iter().any(|fault| fault.key == key), "{rest}: {faults:?}");
    }
    // peft would let gradients through the blocks that were frozen; the matrix behind them ran backward when it was traced.
    let adapted = |layer: &str| faults_or_none("half-frozen", &format!("training: {{lora: {{targets: [{layer}]}}}}"));
    assert!(adapted("out").is_empty());
    let found = adapted("up");
    assert!(found.iter().any(|fault| fault.to_string().contains("blocks.0.up: it and all before it")), "{found:?}");
    // peft puts an adapter on the convolution too (tuners/lora/layer.py, `dispatch_default`).
    let found = faults_or_none("timm-vit-tiny", "training: {lora: {targets: [proj]}}");
    assert!(found.iter().any(|fault| fault.to_string().contains("patch_embed.proj as well")), "{found:?}");
    assert!(faults_or_none("timm-vit-tiny", "training: {lora: {targets: [attn.proj]}}").is_empty());
    // 10^6 rows of 10^6 tokens, of which one layer makes one tensor of 4096 numbers: 3 x 10^16 bytes and more, 32 layers of
    // some forty such tensors: 5 x 10^19, and 64 bits count up to 1.8 x 10^19.
    let text =
        "model: {trace: llama-2-7b.tape.json.gz, sequence_length: 1000000}\ntraining: {micro_batch_size: 1000000}";
    let found = faults(text);
    assert!(found.iter().any(|fault| fault.to_string().contains("more than can be counted")), "{found:?}");
    let found = faults("model: {trace: none.tape.json.gz}");
    assert!(
        found[0].to_string().contains("model.trace: ") && found[0].to_string().contains("no such file"),
        "{found:?}"
    );
}

/// Mamba-2 loops over its tokens: a tape of one length answers for no other, and for any batch.
#[test]
fn a_tape_of_one_length_answers_for_no_other() {
    let plan = |length: u64| format!("model: {{trace: mamba2.tape.json.gz, sequence_length: {length}}}");
    let found = faults(&plan(512));
    assert!(found.iter().any(|fault| fault.key == "model.sequence_length"), "{found:?}");
    let flops =
        |batch: u64| predicted(&format!("{}\ntraining: {{micro_batch_size: {batch}}}", plan(256))).flops.forward.0;
    assert!(flops(6) > flops(3));
    // A plan that names no length has the tape's.
    let unnamed = predicted("model: {trace: mamba2.tape.json.gz}\ntraining: {micro_batch_size: 3}");
    assert_eq!(unnamed.flops.forward.0, flops(3));
}

/// LUKE's 500 000 entities of 256 channels (transformers, models/luke, LukeConfig) get no gradient from a batch without
/// entities, so that AdamW has no states of them; they are among the parameters that may be trained.
#[test]
fn what_no_gradient_reaches_has_no_states() {
    let tape = "luke-lukeforsequenceclassification.tape.json.gz";
    let text = format!("model: {{trace: {tape}, sequence_length: 128}}\ntraining: {{precision: fp32}}");
    let prediction = predicted(&text);
    assert_eq!(prediction.params.total, prediction.params.trainable);
    let states = prediction.largest().component(Component::OptimizerStates).0;
    assert!(states < 8 * (prediction.params.total - 500_000 * 256), "{states}");
}

#[test]
fn settings_apply_without_another_trace() {
    let memory = |rest: &str| predicted(&with("distilbert", rest)).stages[0].clone();
    let plain = memory("training: {micro_batch_size: 8}");
    let again = memory("training: {micro_batch_size: 8, activation_checkpointing: full}");
    assert!(again.activations_end_of_forward < plain.activations_end_of_forward);
    let frozen = predicted(&with("distilbert", "training: {frozen: [embeddings]}"));
    // 30 522 tokens and 512 positions of 768 channels each (transformers, models/distilbert, DistilBertConfig).
    assert_eq!(frozen.params.total - frozen.params.trainable, (30_522 + 512) * 768);
    let plain = memory("training: {micro_batch_size: 8, precision: fp32}");
    let sharded = memory(
        "training: {micro_batch_size: 8, precision: fp32}\ncluster: {num_gpus: 8}\ndistribution: {sharding: fsdp}",
    );
    assert!(sharded.static_bytes.0 * 7 < plain.static_bytes.0 * 2, "an eighth of weights and states, and workspaces");
}

/// Adapters beside linear layers of a tape: peft's own counts, and for GPT-2 the memory of the catalogue's rules, which
/// were followed step by step with peft (`truth/allocator.json`).
#[test]
fn adapters_stand_on_any_linear_layer_of_a_tape() {
    for (name, targets, trained) in [
        // Rank 8 beside 768 x 2304 in 12 layers, the figure that peft's own `print_trainable_parameters` gives.
        ("gpt2", "[c_attn]", 294_912),
        // Two of 768 x 768 in each of 12.
        ("bert", "[query, value]", 12 * 2 * 8 * (768 + 768)),
        // Six layers: q, k, v and out of 768 x 768, and lin1 and lin2 of 768 x 3072. The classifier stays out.
        ("distilbert", "[all-linear]", 6 * 8 * (4 * 1536 + 2 * 3840)),
        // Named, it gets one: 768 x 2.
        ("distilbert", "[classifier]", 8 * (768 + 2)),
    ] {
        let found = predicted(&with(name, &format!("training: {{lora: {{rank: 8, targets: {targets}}}}}"))).params;
        assert_eq!(found.trainable, trained, "{name}");
    }
    let config = "hf_config: {model_type: gpt2, architectures: [GPT2LMHeadModel]}";
    for precision in ["fp32", "bf16-mixed", "bf16"] {
        for checkpointing in ["none", "full"] {
            let rest = format!(
                "training: {{micro_batch_size: 8, precision: {precision}, activation_checkpointing: {checkpointing}, \
                 lora: {{rank: 16, targets: [c_attn], dropout: 0.1}}}}\nhardware: {{library_workspaces: false}}"
            );
            let traced = predicted(&with("gpt2", &rest));
            let known = predicted(&format!("model: {{{config}, sequence_length: 256}}\n{rest}"));
            let peak = |prediction: &Prediction| prediction.stages[0].peak_allocated.as_f64();
            let error = 100.0 * (peak(&traced) / peak(&known) - 1.0);
            assert!(error.abs() < 1.0, "{precision}, {checkpointing}: {error:+.2} %");
            let flops = |prediction: &Prediction| prediction.flops.backward.0;
            // The tape is of transformers 5, which asks for the embedding's gradient where it recomputes
            // (`modeling_utils.py`, `activation_checkpointing_enable`): 2048 tokens go back through the first block's c_attn and
            // its adapter, 768 x 2304 and 768 x 16.
            let asked = if checkpointing == "full" { 2.0 * 2048.0 * 768.0 * (2304.0 + 16.0) } else { 0.0 };
            let error = (flops(&traced) - asked) / flops(&known) - 1.0;
            assert!(error.abs() < 0.005, "{precision}, {checkpointing}: {error:+.4}");
        }
    }
}

#[test]
fn a_prediction_of_a_tape_takes_no_longer_than_a_frame() {
    let plan = plan(&with("distilbert", "training: {micro_batch_size: 8}"));
    let start = Instant::now();
    for _ in 0..5 {
        assert!(predict::predict(&Job::resolve(&plan, catalog()).unwrap()).params.total > 0);
    }
    // 5 ms each in a release build; tests are built without optimisation, on machines that do other things.
    assert!(start.elapsed().as_millis() < 5 * 250, "{:?}", start.elapsed() / 5);
}

/// Blocks recomputed by class: the encoder's and the decoder's of BART come to all of them, in operations and in what is
/// not kept, and a class that no block has is refused with those that there are.
#[test]
fn blocks_are_recomputed_by_their_class() {
    let text = |how: &str| {
        format!(
            "{{model: {{trace: bart.tape.json.gz, sequence_length: 256, decoder_sequence_length: 128}}, training: \
             {{precision: fp32, micro_batch_size: 4, activation_checkpointing: {how}}}}}"
        )
    };
    let (encoder, decoder) = ("BartEncoderLayer", "BartDecoderLayer");
    let [none, full, first, second, both] = [
        "none".to_owned(),
        "full".to_owned(),
        format!("{{classes: [{encoder}]}}"),
        format!("{{classes: [{decoder}]}}"),
        format!("{{classes: [{encoder}, {decoder}]}}"),
    ]
    .map(|how| predicted(&text(&how)));
    let flops = |one: &Prediction| one.flops.recompute.0;
    assert!(flops(&first) > 0.0 && flops(&second) > 0.0 && flops(&none) == 0.0);
    assert_eq!(flops(&first) + flops(&second), flops(&full));
    assert_eq!(flops(&both), flops(&full));
    let kept = |one: &Prediction| one.stages[0].activations_end_of_forward.as_f64();
    assert_eq!(kept(&both), kept(&full));
    let saved = |one: &Prediction| kept(&none) - kept(one);
    assert!((saved(&first) + saved(&second)) / saved(&full) - 1.0 < 0.02);
    let fault = faults(&text("{classes: [BartLayer]}")).remove(0);
    let said = "BartLayer: no class of a block of model.trace; its blocks are BartDecoderLayer, BartEncoderLayer";
    assert_eq!((fault.key.as_str(), fault.message.as_str()), ("training.activation_checkpointing.classes", said));
    let catalogue = faults("{model: {preset: llama-3-8b}, training: {activation_checkpointing: {classes: [Block]}}}");
    assert!(catalogue[0].message.contains("a traced model has classes alone"), "{catalogue:?}");
}

/// Three blocks alike of 256 channels: two norms of 512, four matrices of 256 x 256 and two of 256 x 1024, with biases.
#[test]
fn one_of_blocks_alike_is_frozen_or_adapted() {
    let params = |name: &str, rest: &str| predicted(&with(name, &format!("training: {{{rest}}}"))).params;
    let block = 2 * 512 + 4 * (256 * 256 + 256) + (256 * 1024 + 1024) + (1024 * 256 + 256);
    let whole = params("frozen-conditioned", "precision: fp32").trainable;
    assert_eq!(params("frozen-conditioned", "frozen: [blocks.1]").trainable, whole - block);
    assert_eq!(params("frozen-conditioned", "frozen: [blocks]").trainable, whole - 3 * block);
    let adapted =
        |name: &str, targets: &str| params(name, &format!("lora: {{rank: 8, targets: [{targets}]}}")).trainable;
    // Rank 8 beside 256 x 256.
    let one = 8 * (256 + 256);
    assert_eq!(adapted("frozen-conditioned", "blocks.1.q"), one);
    assert_eq!(adapted("frozen-conditioned", "q"), 3 * one);
    // One block that runs four times, and a layer that runs twice.
    assert_eq!(adapted("frozen-repeated", "q, mix"), 2 * one);
    // The output layers of three of PyTorch's attentions, whose adapters never run: peft makes them all the same.
    assert_eq!(adapted("frozen-encoded", "out_proj, score"), 3 * one + 8 * (256 + 1));
    let found = faults_or_none("frozen-conditioned", "training: {lora: {targets: [blocks.3.q]}}");
    assert!(found.iter().any(|fault| fault.to_string().contains("`blocks.3.q` is no linear layer")), "{found:?}");
}
