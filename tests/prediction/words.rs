//! What is said beside the figures: keys without effect, names with a slip, whose figures are told.

use crate::support::catalog;
use memwall::lessons::lesson;
use memwall::plan::{Document, EXAMPLES, schema};
use memwall::predict::{Job, predict, scaling_efficiency};
use memwall::report::Report;
use memwall::report::setup::Setup;
use memwall::report::text::report;

fn job(text: &str) -> Job {
    Job::resolve(&Document::parse(text).unwrap().plan().unwrap(), catalog()).unwrap()
}

fn example(name: &str) -> Job {
    let (_, text) = EXAMPLES.iter().find(|(known, _)| known.contains(name)).unwrap();
    job(text)
}

#[test]
fn a_model_that_is_given_twice_says_which_one_decides() {
    let said = |text: &str| {
        let lines = job(text).assumptions;
        lines.iter().filter(|line| line.contains("has no effect beside")).cloned().collect::<Vec<String>>()
    };
    let beside = |key: &str| vec![format!("{key}: has no effect beside model.preset, which the plan gives")];
    assert_eq!(said("model: {preset: gpt2, architecture: {num_layers: 3}}"), beside("model.architecture"));
    assert_eq!(said("model: {preset: gpt2, size_billions: 7}"), beside("model.size_billions"));
    assert_eq!(said("model: {preset: gpt2}"), [""; 0]);
    assert_eq!(said("model: {size_billions: 7}"), [""; 0]);
}

#[test]
fn a_reference_model_of_inference_is_not_said_to_be_of_adapters() {
    let text = "model: {preset: llama-3-8b, batch_size: 1}\ntraining: {mode: inference, reference_model: true}\n";
    let lines = job(text).assumptions;
    let line = lines.iter().find(|line| line.contains("reference_model")).unwrap();
    assert!(line.contains("(inference)") && !line.contains("adapters"), "{line}");
}

#[test]
fn a_key_is_named_by_its_last_parts() {
    assert_eq!(schema::named("lora.rank").unwrap().path, "training.lora.rank");
    assert_eq!(schema::named("batch_size").unwrap().path, "model.batch_size");
    let fault = schema::named("lore.rank").unwrap_err().to_string();
    assert!(fault.ends_with("there is no `lore` with a key `rank`; did you mean training.lora.rank?"), "{fault}");
}

#[test]
fn a_line_too_far_in_below_a_comment_is_named_itself() {
    let faults = Document::parse("model:\n  preset: gpt2 # the small one\n      batch_size: 2\n").unwrap_err();
    let fault = faults[0].to_string();
    assert!(fault.starts_with("3:7: ") && fault.contains("indent it like that key"), "{fault}");
}

#[test]
fn explained_figures_say_what_they_are_of() {
    let trained = example("hybrid_example");
    let prediction = predict(&trained);
    let share = scaling_efficiency(&trained, &prediction.time).unwrap();
    let told = lesson("scaling efficiency").unwrap().numbers(&trained, &prediction);
    assert!(told[0].starts_with(&format!("{share} of what 8 lone GPUs")), "{told:?}");
    let served = job("model: {preset: gpt2, batch_size: 1, sequence_length: 512}\ntraining: {mode: inference}\n");
    let prediction = predict(&served);
    assert!(prediction.decode.is_some());
    let told = |name: &str| lesson(name).unwrap().numbers(&served, &prediction);
    assert!(told("arithmetic intensity").iter().all(|line| line.ends_with("in reading the prompts")));
    assert!(told("memory-bound").iter().all(|line| line.ends_with("a step of generation")));
    assert!(told("parameters")[0].ends_with("in all"), "{:?}", told("parameters"));
}

/// The parts are those of the GPU that needs most: the last stage under GPipe, which holds all micro-batches and the head's
/// logits, and the first under 1F1B, which has as many micro-batches under way as there are stages.
#[test]
fn a_bubble_is_told_with_its_stage() {
    for schedule in ["gpipe", "1f1b"] {
        let job = job(&format!(
            "model: {{preset: llama-3-8b, framework: megatron, batch_size: 64, sequence_length: 4096}}\n\
             training: {{micro_batch_size: 1}}\nhardware: {{gpu_type: NVIDIA H100}}\ncluster: {{num_gpus: 8}}\n\
             distribution: {{pipeline_parallel: 8, pipeline_schedule: {schedule}}}\n"
        ));
        let prediction = predict(&job);
        let fullest = prediction.stages.iter().max_by_key(|stage| stage.device_used).unwrap().stage;
        let text = report(&Report::of("plan", &prediction), false, 200);
        assert!(text.contains(&format!("of stage {fullest} of 8, which fills, drains and waits")), "{text}");
    }
}

fn printed(text: &str) -> String {
    let job = job(text);
    let (prediction, setup) = (predict(&job), Setup::of(&job));
    report(&Report { setup: Some(&setup), ..Report::of("a", &prediction) }, true, 400)
}

/// A line names what the model has: Mamba attends to nothing, a vision transformer has no vocabulary, FLUX denoises.
#[test]
fn a_model_is_described_by_what_it_has() {
    let line = |preset: &str| {
        let text = printed(&format!("model: {{preset: {preset}, batch_size: 1}}"));
        text.lines().find(|line| line.trim_start().starts_with("model ")).unwrap().trim_start()[5..].trim().to_owned()
    };
    assert!(
        !line("mamba-1.4b").contains("heads") && line("mamba-1.4b").contains("vocabulary"),
        "{}",
        line("mamba-1.4b")
    );
    assert!(
        !line("vit-large").contains("vocabulary") && line("vit-large").contains("16 heads"),
        "{}",
        line("vit-large")
    );
    assert!(line("flux.1-dev").starts_with("diffusion_model"), "{}", line("flux.1-dev"));
}

/// Links are among the plan's own GPUs, however many a domain could join.
#[test]
fn links_join_the_gpus_of_the_plan() {
    for (cluster, said) in [
        ("num_gpus: 2", "among 2 GPUs"),
        ("num_gpus: 8, nvlink_domain: 72", "among 8 GPUs"),
        ("num_gpus: 16, nodes: 2", "among 8 GPUs"),
    ] {
        let text = printed(&format!("model: {{preset: gpt2, batch_size: 16}}\ncluster: {{{cluster}}}\n"));
        assert!(text.lines().any(|line| line.contains("links") && line.contains(said)), "{cluster}: {text}");
    }
}

/// Half the bytes of bf16: the blocks' matrices lie in FP8. An A100 has no FP8 units: 312 TFLOP/s are those of bf16.
#[test]
fn weights_in_fp8_are_called_so() {
    let of = |gpu: &str| {
        printed(&format!(
            "model: {{preset: llama-3-8b, batch_size: 1, sequence_length: 512}}\n\
             training: {{mode: inference, precision: fp8-mixed}}\nhardware: {{gpu_type: {gpu}}}\n"
        ))
    };
    let [new, old] = [of("H100"), of("A100")];
    assert!(new.contains("weights bf16, blocks' matrices in FP8"), "{new}");
    assert!(old.contains("312 TFLOP/s in bf16") && !old.contains("312 TFLOP/s in fp8"), "{old}");
    assert!(old.contains("has no FP8 units") && !new.contains("has no FP8 units"), "{old}");
}

#[test]
fn what_no_model_can_be_is_refused() {
    let said = |text: &str| {
        let plan = Document::parse(text).unwrap().plan().unwrap();
        Job::resolve(&plan, catalog()).unwrap_err()[0].to_string()
    };
    // 2 x 32 000 x 768 of the smallest published shape's vocabulary are 49 million.
    assert!(said("model: {size_billions: 1.0e-9}").contains("no Llama-like model is that small"));
    assert!(Job::resolve(&Document::parse("model: {size_billions: 0.06}").unwrap().plan().unwrap(), catalog()).is_ok());
    let wide = "{model: {preset: llama-3-8b, batch_size: 1}, training: {lora: {rank: 1000000}}}";
    let wide = Job::resolve(&Document::parse(wide).unwrap().plan().unwrap(), catalog()).unwrap();
    assert!(wide.assumptions.iter().any(|line| line.contains("no matrix of this model has a rank above 4096")));
    let stage = said("{model: {preset: llama-3-8b, batch_size: 1}, distribution: {first_stage_layers: 3}}");
    assert!(stage.contains("there is one stage, with all 32 layers"), "{stage}");
}
