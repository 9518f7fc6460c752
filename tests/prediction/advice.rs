//! Bottlenecks and fixes: what is found, and that each effect told is that of the changed plan.

use crate::support::catalog;
use memwall::advise::{Advice, Finding, Severity, advise, throughput};
use memwall::plan::{Document, EXAMPLES};
use memwall::predict::{self, Job, Verdict};
use memwall::report::{Report, json, text};

/// 8 billion parameters with their states, eager attention: more than a GPU of 80 GB.
const TOO_LARGE: &str = "\
model: {preset: llama-3-8b, batch_size: 16, sequence_length: 4096}
training: {attention: eager, precision: bf16}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 8}
";

fn advice(text: &str) -> Advice {
    let catalog = catalog();
    let plan = Document::parse(text).unwrap().plan().unwrap();
    let job = Job::resolve(&plan, catalog).unwrap();
    advise(&plan, &job, &predict::predict(&job), catalog)
}

fn kind<'a>(advice: &'a Advice, kind: &str) -> Option<&'a Finding> {
    advice.findings.iter().find(|finding| finding.kind == kind)
}

/// The edited text, predicted the plain way, says what the fix says.
fn effects_are_computed(text: &str) {
    let catalog = catalog();
    let advice = advice(text);
    let before = predict::of(&Document::parse(text).unwrap().plan().unwrap(), catalog).unwrap();
    for fix in advice.findings.iter().flat_map(|finding| &finding.fixes) {
        let edited = Document::parse(text).unwrap().changed(&fix.change).unwrap();
        let after =
            predict::of(&edited.plan().unwrap(), catalog).unwrap_or_else(|faults| panic!("{}: {faults:?}", fix.name));
        assert_eq!(after.capacity, fix.outline.capacity, "{}", fix.name);
        assert_eq!(after.time, fix.outline.time, "{}", fix.name);
        assert_eq!(fix.memory, after.capacity.needed - before.capacity.needed, "{}", fix.name);
        assert_eq!(fix.fits, after.capacity.verdict() != Verdict::DoesNotFit, "{}", fix.name);
        let line = fix.line(&advice.outline);
        assert!(line.starts_with(&fix.name) && line.contains('B'), "{line}");
    }
}

#[test]
fn every_effect_is_that_of_the_changed_plan() {
    effects_are_computed(TOO_LARGE);
    for (_, text) in EXAMPLES {
        effects_are_computed(text);
    }
}

#[test]
fn a_plan_that_does_not_fit_is_told_which_one_change_makes_it_fit() {
    let text = TOO_LARGE.replace("batch_size: 16", "batch_size: 8").replace("4096", "1024");
    let advice = advice(&text);
    let first = &advice.findings[0];
    assert_eq!((first.severity, first.kind), (Severity::Critical, "does_not_fit"));
    let remedy = advice.remedy().unwrap();
    assert!(remedy.fits);
    let line = remedy.line(&advice.outline);
    assert!(line.ends_with("fits") || line.ends_with("fits, tight"), "{line}");
}

#[test]
fn findings_stand_in_the_order_of_their_severity() {
    for (name, text) in EXAMPLES {
        let advice = advice(text);
        assert!(advice.findings.is_sorted_by_key(|finding| finding.severity), "{name}");
        assert_eq!(
            advice.outline.capacity.verdict() == Verdict::DoesNotFit,
            kind(&advice, "does_not_fit").is_some(),
            "{name}"
        );
        assert!(throughput(&advice.outline) > 0.0);
    }
}

#[test]
fn a_deep_pipeline_with_few_micro_batches_waits() {
    // (8 - 1) / 8 of the passes' time is added by the bubble: 47 % of the step.
    let text = "model: {preset: llama-2-7b, framework: megatron, batch_size: 8, sequence_length: 2048}\n\
                training: {micro_batch_size: 1}\ncluster: {num_gpus: 8}\ndistribution: {pipeline_parallel: 8}\n";
    let advice = advice(text);
    let finding = kind(&advice, "pipeline_bubble").unwrap();
    assert_eq!(finding.severity, Severity::High);
    assert!(finding.message.contains("8 stages for 8 micro-batches"), "{}", finding.message);
    assert!(!finding.fixes.is_empty() && finding.fixes.iter().all(|fix| fix.speed > 0.0));
}

#[test]
fn replicas_that_each_hold_all_states_are_named() {
    let text = "model: {preset: llama-3.2-1b, framework: megatron, batch_size: 8, sequence_length: 2048}\n\
                cluster: {num_gpus: 8}\n";
    let advice = advice(text);
    let finding = kind(&advice, "replicated_states").unwrap();
    assert!(finding.message.contains("8 replicas"), "{}", finding.message);
    let fix = &finding.fixes[0];
    // Masters and two moments, 12 bytes of 1.24 billion parameters, of which an eighth stays: 12.1 GiB less.
    let gib = fix.memory.magnitude().gib();
    assert!(fix.memory.is_negative() && (11.0..13.5).contains(&gib), "{}", fix.line(&advice.outline));
}

#[test]
fn the_report_holds_them() {
    let catalog = catalog();
    let plan = Document::parse(TOO_LARGE).unwrap().plan().unwrap();
    let job = Job::resolve(&plan, catalog).unwrap();
    let prediction = predict::predict(&job);
    let advice = advise(&plan, &job, &prediction, catalog);
    let report = Report { advice: Some(&advice), ..Report::of("a", &prediction) };
    let value = json::report(&report);
    let first = &value["bottlenecks"][0];
    assert_eq!(first["severity"], "critical");
    assert_eq!(first["kind"], "does_not_fit");
    assert!(first["fixes"].as_array().unwrap().iter().all(|fix| fix.as_str().unwrap().contains('B')));
    assert!(text::report(&report, false, 80).contains("critical: "));
}

/// The names of the fixes of a finding.
fn names(finding: &Finding) -> Vec<&str> {
    finding.fixes.iter().map(|fix| fix.name.as_str()).collect()
}

#[test]
fn what_no_single_change_makes_fit_is_told_several_at_once() {
    // All weights of Llama-3 8B in fp32 with fp32 gradients and Adam: 16 bytes for each of 8.03 billion, 120 GiB.
    // Without adapters 80 GB take 16-bit weights, either 8-bit states or gradients that are used as they are made (16 GB
    // less each), and an activation saver: nothing alone is enough.
    let text = "model: {preset: llama-3-8b, batch_size: 8, sequence_length: 4096}\n\
                hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 1}\n";
    let advice = advice(text);
    let remedy = advice.remedy().unwrap();
    assert!(remedy.fits && remedy.name.contains(" + "), "{}", remedy.name);
    assert!(!remedy.name.contains("offload") && !remedy.name.contains("LoRA"), "{}", remedy.name);
    assert!(remedy.name.contains("precision bf16"), "{}", remedy.name);
    let saves_states = ["8-bit optimizer", "optimizer in backward"].iter().any(|name| remedy.name.contains(name));
    assert!(saves_states, "{}", remedy.name);
    let adapters = advice.findings[0].fixes.iter().find(|fix| fix.name.contains("LoRA")).unwrap();
    assert!(adapters.fits);
    effects_are_computed(text);
}

#[test]
fn a_server_without_room_is_told_fewer_or_shorter_requests() {
    // Llama-2 13B: 26 GB of weights, 40 layers x 2 x 5120 x 2 bytes = 0.82 MB a token; 32 x 4096 tokens are 107 GB.
    let text = "model: {preset: llama-2-13b, batch_size: 32, sequence_length: 4096}\n\
                training: {mode: inference, precision: bf16}\nhardware: {gpu_type: NVIDIA A100}\ncluster: {num_gpus: 1}\n";
    let advice = advice(text);
    let told = names(&advice.findings[0]);
    // 26 + 8 x 4096 x 0.82 MB = 53 GB fit, twice as many (80 GB and the context) do not.
    assert_eq!(told[0], "8 requests at a time", "{told:?}");
    assert!(told.iter().any(|name| name.contains("tokens a request")), "{told:?}");
    assert!(!told.iter().any(|name| name.contains("accumulated") || name.contains("checkpointing")), "{told:?}");
    effects_are_computed(text);
}

#[test]
fn tensor_parallelism_is_kept_within_a_node() {
    let text = "model: {preset: llama-3-70b, framework: megatron, batch_size: 256, sequence_length: 4096}\n\
                training: {micro_batch_size: 1, distributed_optimizer: true}\ncluster: {num_gpus: 64}\n\
                distribution: {data_parallel: 4, tensor_parallel: 16, sequence_parallel: true}\n";
    let advice = advice(text);
    let finding = kind(&advice, "tensor_across_nodes").unwrap();
    assert!(finding.message.contains("nodes of 8 GPUs"), "{}", finding.message);
    assert!(finding.fixes.iter().all(|fix| fix.name.contains("tensor parallel 8")), "{:?}", names(finding));
    assert!(finding.fixes[0].speed > 0.1, "{:?}", names(finding));
    let beyond = |name: &&str| name.contains("tensor parallel 32");
    assert!(!advice.findings.iter().flat_map(names).any(|name| beyond(&name)));
}

#[test]
fn a_quicker_type_is_no_cure_for_waiting() {
    for (name, text) in EXAMPLES {
        for finding in advice(text).findings.iter().filter(|finding| finding.kind != "compute_bound") {
            assert!(!names(finding).iter().any(|fix| fix.starts_with("precision")), "{name}: {:?}", finding.kind);
        }
    }
}

#[test]
fn a_card_that_waits_for_the_host_is_named() {
    // Twelve small layers of one short sample: the modules of transformers launch slower than an H100 computes.
    let advice = advice(
        "model: {preset: gpt2, batch_size: 1, sequence_length: 256}\ntraining: {precision: bf16-mixed}\n\
         hardware: {gpu_type: H100}\ncluster: {num_gpus: 1}\n",
    );
    let finding = kind(&advice, "launches").unwrap();
    assert!(finding.severity <= Severity::Medium, "{finding:?}");
    assert!(names(finding).contains(&"torch.compile"), "{finding:?}");
    // 256 tokens leave most of a GPU idle: with more of them as many kernels do more, though that learns otherwise.
    let larger = finding.fixes.iter().find(|fix| fix.change.set.iter().any(|(key, _)| *key == "model.batch_size"));
    assert!(larger.unwrap().speed > 1.0, "{finding:?}");
    assert!(advice.findings.iter().flat_map(|finding| &finding.fixes).all(|fix| fix.fits), "{advice:?}");
}

#[test]
fn products_on_the_wrong_units_are_grave() {
    // 312 dense TFLOP/s in BF16 for 19.5 in fp32, 156 in TF32 (NVIDIA A100 data sheet).
    let advice = advice(
        "model: {preset: llama-2-13b, batch_size: 8, sequence_length: 2048}\ntraining: {precision: fp32}\n\
         hardware: {gpu_type: A100 80GB}\ncluster: {num_gpus: 8}\ndistribution: {strategy: fsdp}\n",
    );
    let finding = kind(&advice, "compute_bound").unwrap();
    assert_eq!((finding.severity, names(finding)), (Severity::High, vec!["precision bf16-mixed", "precision tf32"]));
}

#[test]
fn a_framework_is_not_told_what_it_refuses() {
    // Megatron raises on --cpu-offloading-num-layers with pipeline stages, and keeps its weights on the GPU.
    let advice = advice(
        "model: {preset: llama-3-70b, framework: megatron, batch_size: 64, sequence_length: 8192}\n\
         training: {precision: bf16-fp32-master, micro_batch_size: 1}\nhardware: {gpu_type: H100}\n\
         cluster: {num_gpus: 64, nodes: 8, gpus_per_node: 8}\n\
         distribution: {tensor_parallel: 4, pipeline_parallel: 4, data_parallel: 4}\n",
    );
    let fixes = advice.findings.iter().flat_map(|finding| &finding.fixes);
    let offloaded: Vec<&str> = fixes.map(|fix| fix.name.as_str()).filter(|name| name.contains("offload")).collect();
    assert!(!offloaded.iter().any(|name| name.contains("activations") || name.contains("parameters")), "{offloaded:?}");
}

/// All weights, gradients and states of Llama-2 7B in fp32 are 16 bytes for each of 6.74 billion, 100 GiB of 80 GB.
/// Fetching the parameters from the host for every layer multiplies the step; training in 16 bit makes it shorter.
#[test]
fn training_several_times_slower_is_not_the_first_advice() {
    let text = "model: {preset: llama-2-7b, batch_size: 8, sequence_length: 2048}\n\
                training: {precision: bf16-mixed, micro_batch_size: 1}\nhardware: {gpu_type: NVIDIA H100}\n\
                cluster: {num_gpus: 1}\n";
    let advice = advice(text);
    let told = names(&advice.findings[0]);
    let place = |part: &str| told.iter().position(|name| name.contains(part)).unwrap_or_else(|| panic!("{told:?}"));
    assert!(place("precision bf16") < place("offload of parameters"), "{told:?}");
}

/// Llama-3 70B in fp32 is 282 GB: in eight parts 35 GB, which an H100 holds with its cache; in four 71 GB, which it does
/// not. No doubling of one degree goes there, and nothing on the host is as quick.
#[test]
fn degrees_are_tried_as_far_as_the_node_goes() {
    let text = "model: {preset: llama-3-70b, batch_size: 16, sequence_length: 4096}\n\
                training: {mode: inference, precision: bf16-mixed}\ncluster: {num_gpus: 8}\n";
    let advice = advice(text);
    let remedy = advice.remedy().unwrap();
    assert_eq!(remedy.name, "tensor parallel 8", "{:?}", names(&advice.findings[0]));
    effects_are_computed(text);
}

/// Of bf16 weights, gradients and moments with a block's input alone kept, what is left on each of 8 GPUs is more than 40 GB:
/// two ranks that share matrices, norms and dropouts halve weights, logits and activations, without a host.
#[test]
fn tensor_parallelism_is_proposed_with_sequence_parallelism() {
    let text = "model: {preset: llama-3-8b, framework: megatron, batch_size: 16, sequence_length: 8192}\n\
                training: {precision: bf16, activation_checkpointing: full}\nhardware: {gpu_type: A100 40GB}\n\
                cluster: {num_gpus: 8}\ndistribution: {sharding: zero1}\n";
    let advice = advice(text);
    let remedy = advice.remedy().unwrap();
    assert_eq!(remedy.name, "tensor parallel 2, sequence parallel", "{:?}", names(&advice.findings[0]));
    effects_are_computed(text);
}

/// What goes to the host and back is slow: where changes together do without it, they are told as well, before it.
#[test]
fn a_fix_on_the_host_is_not_the_only_one() {
    for precision in ["bf16", "bf16-fp32-master"] {
        let text = format!(
            "model: {{preset: llama-3-8b, batch_size: 16, sequence_length: 8192}}\ntraining: {{precision: {precision}}}\n\
             hardware: {{gpu_type: A100 40GB}}\ncluster: {{num_gpus: 8}}\ndistribution: {{sharding: zero1}}\n"
        );
        let advice = advice(&text);
        assert!(!advice.remedy().unwrap().name.contains("offload"), "{:?}", names(&advice.findings[0]));
        effects_are_computed(&text);
    }
}

/// megatron-core 0.16, core/transformer/moe/moe_layer.py, `MoELayer.forward`: experts train under tensor parallelism with
/// sequence parallelism alone.
#[test]
fn experts_are_told_tensor_parallelism_with_sequence_parallelism() {
    let text = "model: {preset: mixtral-8x7b, framework: megatron, batch_size: 32, sequence_length: 4096}\n\
                cluster: {num_gpus: 16}\n";
    let advice = advice(text);
    let told = advice.findings.iter().flat_map(|finding| &finding.fixes);
    let cut =
        told.filter(|fix| fix.change.set.iter().any(|(key, to)| *key == "distribution.tensor_parallel" && to != "1"));
    let cut: Vec<_> = cut.collect();
    let split = |fix: &&memwall::advise::Fix| {
        fix.change.set.iter().any(|(key, to)| *key == "distribution.sequence_parallel" && to == "true")
    };
    assert!(!cut.is_empty() && cut.iter().all(split), "{:?}", cut.iter().map(|fix| &fix.name).collect::<Vec<_>>());
}

/// Of Llama-3 8B on GPUs of 80 GB, FSDP: it moves weights to the host or nothing, and no Trainer has stages. A V100 has no
/// units for bf16 and no flash kernels.
#[test]
fn plain_pytorch_is_told_what_it_has() {
    let told = |text: &str| -> Vec<String> {
        advice(text).findings.iter().flat_map(|finding| &finding.fixes).map(|fix| fix.name.clone()).collect()
    };
    let base = "model: {preset: llama-3-8b, framework: pytorch, batch_size: 16, sequence_length: 8192}\n";
    let fsdp = told(&format!(
        "{base}training: {{precision: bf16-mixed}}\nhardware: {{gpu_type: H100}}\ncluster: {{num_gpus: 8}}\n\
         distribution: {{strategy: fsdp}}\n"
    ));
    assert!(!fsdp.is_empty());
    assert!(!fsdp.iter().any(|name| name.contains("pipeline") || name.contains("offload of optimizer")), "{fsdp:?}");
    let volta = told(
        "model: {preset: gpt2, framework: pytorch, batch_size: 64, sequence_length: 1024}\n\
         training: {precision: bf16-mixed, micro_batch_size: 8}\nhardware: {gpu_type: V100 32GB}\ncluster: {num_gpus: 8}\n",
    );
    assert!(volta.iter().any(|name| name == "precision fp16-mixed"), "{volta:?}");
}
