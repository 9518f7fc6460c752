//! What is said beside the figures: keys without effect, names with a slip, whose figures are told.

use crate::support::catalog;
use memwall::lessons::lesson;
use memwall::plan::{Document, EXAMPLES, schema};
use memwall::predict::{Job, predict, scaling_efficiency};
use memwall::report::Report;
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
