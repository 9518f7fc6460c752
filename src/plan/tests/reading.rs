//! What is refused, what is said, and where.

use crate::plan::{Document, Fault, Plan};

fn plan(text: &str) -> Plan {
    Document::parse(text).unwrap().plan().unwrap_or_else(|faults| panic!("{text}: {faults:#?}"))
}

fn faults(text: &str) -> Vec<String> {
    let faults = Document::parse(text).and_then(|document| document.plan()).unwrap_err();
    faults.iter().map(Fault::to_string).collect()
}

#[test]
fn every_fault_is_reported_in_the_order_of_the_text() {
    let text =
        "model:\n  batch_size: 0\ntraining:\n  precison: bf16\n  precision: bf61-mixed\n  compile: [yes]\nrunn: {}\n";
    let said = faults(text);
    assert_eq!(said.len(), 5, "{said:#?}");
    assert_eq!(said[0], "2:15: model.batch_size: `0` where a whole number from 1 to 16777216 is needed");
    assert_eq!(said[1], "4:3: training.precison: unknown key `precison`; did you mean `precision`?");
    assert!(
        said[2].starts_with(
            "5:14: training.precision: `bf61-mixed` is no precision; nearest: `bf16-mixed`; known: fp32, "
        )
    );
    assert_eq!(said[3], "6:12: training.compile: a list where true or false is needed");
    assert_eq!(said[4], "7:1: runn: unknown key `runn`; did you mean `run`?");
}

#[test]
fn whole_numbers_are_forgiving_in_spelling_and_strict_in_value() {
    for (written, value) in [("4096", 4096), ("4_096", 4096), ("32.0", 32), ("1e3", 1000), ("+7", 7)] {
        assert_eq!(plan(&format!("model: {{batch_size: {written}}}")).model.batch_size, Some(value), "{written}");
    }
    for written in [
        "0",
        "-1",
        "-0",
        "1.5",
        "nan",
        ".nan",
        ".inf",
        "inf",
        "1000000000000000000",
        "1e18",
        "1e400",
        "99999999999999999999999999",
        "true",
        "abc",
        "'32'",
        "\"32\"",
        "[32]",
        "{a: 1}",
        "0x20",
    ] {
        let said = faults(&format!("model: {{batch_size: {written}}}"));
        assert_eq!(said.len(), 1, "{written}: {said:?}");
        assert!(said[0].starts_with("1:21: model.batch_size: "), "{said:?}");
        assert!(said[0].contains("where a whole number from 1 to 16777216 is needed"), "{said:?}");
    }
}

#[test]
fn numbers_may_be_written_as_whole_ones() {
    assert_eq!(plan("model: {size_billions: 13}").model.size_billions, Some(13.0));
    assert_eq!(plan("run: {total_tokens: 200_000_000_000}").run.total_tokens, Some(2e11));
    assert_eq!(plan("run: {price_per_gpu_hour: 0}").run.price_per_gpu_hour, Some(0.0));
    for (key, written) in [
        ("model.size_billions", "0"),
        ("model.size_billions", "-7"),
        ("model.size_billions", ".nan"),
        ("model.size_billions", "1e18"),
        ("training.dropout", "1.0"),
        ("training.dropout", "-0.1"),
        ("training.weight_decay", "2"),
        ("hardware.memory_limit_gb", ".inf"),
    ] {
        let (section, name) = key.split_once('.').unwrap();
        let said = faults(&format!("{section}: {{{name}: {written}}}"));
        assert!(said[0].contains(key) && said.len() == 1, "{said:?}");
    }
}

#[test]
fn null_is_absent_everywhere() {
    let nothing = plan("");
    assert_eq!(nothing, Plan::default());
    assert_eq!(plan("# only a comment\n"), nothing);
    assert_eq!(plan("model:\ntraining: ~\nhardware: {custom: null, gpu_type: Null}\ncluster: {}\n"), nothing);
    assert_eq!(plan("training:\n  activation_checkpointing:\n  frozen: ~\n  lora: null\n"), nothing);
}

#[test]
fn texts_are_texts() {
    assert_eq!(plan("hardware: {custom: {name: '4090'}}").hardware.custom.unwrap().name.as_deref(), Some("4090"));
    let said = faults("hardware: {gpu_type: 100}");
    assert_eq!(said, ["1:22: hardware.gpu_type: `100` where a text is needed (in quotes, if it is meant so)"]);
    assert_eq!(faults("model: {preset: ''}"), ["1:17: model.preset: the text `` where a text is needed"]);
    assert_eq!(
        faults("training: {frozen: embeddings}"),
        ["1:20: training.frozen: `embeddings` where a list of texts is needed"]
    );
    assert_eq!(
        faults("training: {frozen: [a, 1]}"),
        ["1:20: training.frozen: a list with `1` where a list of texts is needed"]
    );
}

#[test]
fn what_a_key_does_not_take_is_said_with_the_way_to_write_it() {
    let cases = [
        ("model: llama-3-8b", "`model: {preset: llama-3-8b}` names a model"),
        ("model: {framework: deepspeed}", "; write `distribution.engine: deepspeed`"),
        ("model: {sequence_length: 4k}", " is needed: write 4096 or 4000"),
        ("training: {activation_checkpointing: true}", "full, {every: K}, {modules: […]}, {classes: […]}"),
    ];
    for (text, said) in cases {
        let faults = faults(text);
        assert!(faults.len() == 1 && faults[0].ends_with(said) || faults[0].contains(said), "{faults:?}");
    }
}

#[test]
fn sections_are_sections() {
    assert_eq!(faults("model: 5"), ["1:8: model: `5` where a group of keys is needed"]);
    assert_eq!(faults("- model"), ["1:1: a list where a group of keys is needed"]);
    assert_eq!(
        faults("model: {architecture: llama}"),
        ["1:23: model.architecture: `llama` where a group of keys is needed"]
    );
    assert_eq!(faults("hello"), ["1:1: `hello` where a group of keys is needed"]);
}

#[test]
fn checkpointing_is_a_word_or_exactly_one_of_three_keys() {
    use crate::plan::Checkpointing;
    let read = |value: &str| {
        plan(&format!("training: {{activation_checkpointing: {value}}}")).training.activation_checkpointing
    };
    assert_eq!(read("full"), Some(Checkpointing::Full));
    assert_eq!(read("selective-op"), Some(Checkpointing::SelectiveOp));
    assert_eq!(read("{every: 2}"), Some(Checkpointing::Every(2)));
    assert_eq!(read("{classes: [Block]}"), Some(Checkpointing::Classes(vec!["Block".to_owned()])));
    let refused = |value: &str| faults(&format!("training: {{activation_checkpointing: {value}}}"));
    assert!(refused("ful")[0].contains("nearest: `full`"));
    assert!(refused("{}")[0].ends_with("needs one of `every`, `modules` and `classes`"));
    assert!(refused("{every: 2, modules: [mlp]}")[0].ends_with("needs one of `every`, `modules` and `classes`"));
    assert!(
        refused("{classes: [Block], modules: [mlp]}")[0].ends_with("needs one of `every`, `modules` and `classes`")
    );
    assert!(refused("{classes: []}")[0].ends_with("needs one of `every`, `modules` and `classes`"));
    assert_eq!(refused("{every: 0}").len(), 1);
    assert!(refused("{modules: [mpl]}")[0].starts_with(
        "1:49: training.activation_checkpointing.modules: `mpl` is none of the known words; nearest: `mlp`"
    ));
    assert!(refused("{evry: 1}").iter().any(|said| said.contains("did you mean `every`?")));
    assert_eq!(refused("[full]").len(), 1);
}

#[test]
fn an_inline_configuration_keeps_every_key_as_json() {
    let text = "model:\n  hf_config:\n    model_type: llama\n    vocab_size: 32000\n    rms_norm_eps: 1.0e-05\n    rope_scaling: null\n    architectures: [LlamaForCausalLM]\n    tie_word_embeddings: false\n    id: '7'\n";
    let Some(crate::plan::HfConfig::Inline(config)) = plan(text).model.hf_config else { panic!() };
    assert_eq!(
        serde_json::Value::Object(config),
        serde_json::json!({"model_type": "llama", "vocab_size": 32000, "rms_norm_eps": 1e-5, "rope_scaling": null,
            "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": false, "id": "7"})
    );
    assert_eq!(faults("model: {hf_config: [a]}").len(), 1);
    assert_eq!(faults("model: {hf_config: 3}").len(), 1);
}

#[test]
fn places_of_keys_for_faults_found_elsewhere() {
    let document = Document::parse("model:\n  batch_size: 7\n\ntraining:\n  lora:\n    rank: 4\n").unwrap();
    let place = |key: &str| document.locate(key).map(|at| (at.line, at.column));
    assert_eq!(place("model.batch_size"), Some((2, 15)));
    assert_eq!(place("model"), Some((1, 1)));
    assert_eq!(place("training.lora.rank"), Some((6, 11)));
    assert_eq!(place("training.micro_batch_size"), Some((4, 1)), "the section stands in for a key that is missing");
    assert_eq!(place("cluster.num_gpus"), None);
}

#[test]
fn a_flood_of_faults_is_cut_short() {
    let text: String = (0..10_000).map(|number| format!("key{number}: 1\n")).collect();
    let said = faults(&text);
    assert!(said.len() <= 101 && said.last().is_some_and(|last| last.contains("more faults")), "{}", said.len());
    let words = format!("training: {{activation_checkpointing: {{modules: [{}]}}}}", "x, ".repeat(5000));
    assert_eq!(faults(&words).len(), 1);
}

proptest::proptest! {
    /// Whatever the text, reading comes to an end with a plan or faults.
    #[test]
    fn any_text_is_read_or_refused(text in "[ a-z0-9:{}\\[\\],'\"#&*|>~!%@`\\-\n\t\r]{0,80}") {
        if let Ok(document) = Document::parse(&text) {
            let _ = document.plan();
        }
    }
}
