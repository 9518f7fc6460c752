//! Edits change what they are asked to and nothing else.

use proptest::prelude::*;

use crate::plan::schema::{self, ValueKind};
use crate::plan::{Document, EXAMPLES};

fn edited(text: &str, key: &str, value: &str) -> String {
    Document::parse(text).unwrap().with_value(key, value).unwrap_or_else(|fault| panic!("{fault}")).text().to_owned()
}

fn without(text: &str, key: &str) -> String {
    Document::parse(text).unwrap().without(key).unwrap_or_else(|fault| panic!("{fault}")).text().to_owned()
}

#[test]
fn a_value_changes_in_place() {
    let text = "# head\nmodel:\n  batch_size:   32   # global\r\n  preset: 'llama' # name\n";
    assert_eq!(edited(text, "model.batch_size", "64"), text.replace("32", "64"));
    assert_eq!(edited(text, "model.preset", "gpt 2"), text.replace("'llama'", "'gpt 2'"));
    assert_eq!(edited(text, "model.preset", "it's"), text.replace("'llama'", "'it''s'"));
    assert_eq!(
        edited("training: {precision: \"bf16\", compile: true}", "training.precision", "fp32"),
        "training: {precision: \"fp32\", compile: true}"
    );
}

#[test]
fn an_absent_key_becomes_the_last_line_of_its_section() {
    let text = "model:\n    preset: a  # x\n\n# how\ntraining:\n    mode: train\n";
    assert_eq!(
        edited(text, "model.batch_size", "8"),
        "model:\n    preset: a  # x\n    batch_size: 8\n\n# how\ntraining:\n    mode: train\n"
    );
    assert_eq!(edited(text, "training.lora.rank", "8"), format!("{text}    lora:\n        rank: 8\n"));
    assert_eq!(edited("model:\n  preset: a", "model.batch_size", "8"), "model:\n  preset: a\n  batch_size: 8");
    assert_eq!(
        edited("model:\r\n  preset: a\r\n", "model.batch_size", "8"),
        "model:\r\n  preset: a\r\n  batch_size: 8\r\n"
    );
    assert_eq!(
        edited("model:\n  stages:\n", "run.total_tokens", "1e9"),
        "model:\n  stages:\nrun:\n  total_tokens: 1e9\n"
    );
}

#[test]
fn an_absent_section_comes_in_the_contracts_order() {
    let text = "# head\n\nmodel:\n  preset: a\n\n# last\nrun:\n  total_tokens: 1e9\n";
    assert_eq!(
        edited(text, "cluster.num_gpus", "8"),
        "# head\n\nmodel:\n  preset: a\n\ncluster:\n  num_gpus: 8\n\n# last\nrun:\n  total_tokens: 1e9\n"
    );
    assert_eq!(edited(text, "analysis.basic_mode", "true"), format!("{text}\nanalysis:\n  basic_mode: true\n"));
    assert_eq!(
        edited("# head\n\n# how many\ncluster: {nodes: 1}\n", "model.preset", "a"),
        "# head\n\nmodel:\n  preset: a\n# how many\ncluster: {nodes: 1}\n"
    );
    assert_eq!(
        edited("# head\ncluster: {nodes: 1}\n", "model.preset", "a"),
        "# head\nmodel:\n  preset: a\ncluster: {nodes: 1}\n"
    );
}

#[test]
fn empty_sections_are_filled() {
    assert_eq!(edited("", "model.preset", "a"), "model:\n  preset: a\n");
    assert_eq!(edited("# plan\n", "model.preset", "a"), "# plan\nmodel:\n  preset: a\n");
    assert_eq!(edited("# plan", "model.preset", "a"), "# plan\nmodel:\n  preset: a");
    assert_eq!(edited("---\n", "model.preset", "a"), "---\nmodel:\n  preset: a\n");
    assert_eq!(edited("{}\n", "model.preset", "a"), "{\"model\": {\"preset\": \"a\"}}\n");
    assert_eq!(edited("model:\nrun:\n", "model.preset", "a"), "model:\n  preset: a\nrun:\n");
    assert_eq!(edited("model: # what\n", "model.preset", "a"), "model: # what\n  preset: a\n");
    assert_eq!(edited("model: ~ # what\nrun:\n", "model.preset", "a"), "model: # what\n  preset: a\nrun:\n");
    assert_eq!(edited("model: {}\n", "model.preset", "a"), "model: {preset: a}\n");
    assert_eq!(edited("model:\n  preset:\n  type: cnn\n", "model.preset", "a"), "model:\n  preset: a\n  type: cnn\n");
    assert_eq!(edited("model: {preset: , type: cnn}\n", "model.preset", "a"), "model: {preset: a , type: cnn}\n");
    assert_eq!(
        edited("hardware: {custom: null}\n", "hardware.custom.memory_gb", "80"),
        "hardware: {custom: {memory_gb: 80}}\n"
    );
}

#[test]
fn braces_take_keys_in_their_layout() {
    assert_eq!(edited("model: {preset: a}\n", "model.batch_size", "8"), "model: {preset: a, batch_size: 8}\n");
    assert_eq!(edited("model: {preset: a, }\n", "model.batch_size", "8"), "model: {preset: a, batch_size: 8, }\n");
    let json = "{\n  \"model\": {\n    \"preset\": \"a\"\n  }\n}\n";
    assert_eq!(
        edited(json, "model.batch_size", "4_096"),
        "{\n  \"model\": {\n    \"preset\": \"a\",\n    \"batch_size\": 4096\n  }\n}\n"
    );
    assert_eq!(
        edited(json, "run.total_tokens", "2.0e11"),
        "{\n  \"model\": {\n    \"preset\": \"a\"\n  },\n  \"run\": {\"total_tokens\": 2.0e11}\n}\n"
    );
    assert_eq!(edited(json, "model.preset", "b \"c\""), json.replace("\"a\"", "\"b \\\"c\\\"\""));
    assert_eq!(
        edited(json, "training.activation_checkpointing", "{every: 2}"),
        "{\n  \"model\": {\n    \"preset\": \"a\"\n  },\n  \"training\": {\"activation_checkpointing\": {\"every\":2}}\n}\n"
    );
    let commented = "model: {\n  preset: a # name\n}\n";
    assert_eq!(edited(commented, "model.batch_size", "8"), "model: {\n  preset: a, # name\n  batch_size: 8\n}\n");
}

#[test]
fn texts_are_quoted_where_they_must_be() {
    for (text, written) in [
        ("plain name", "plain name"),
        ("4090", "\"4090\""),
        ("true", "\"true\""),
        ("null", "\"null\""),
        ("", "\"\""),
        ("a: b", "\"a: b\""),
        ("a #b", "\"a #b\""),
        (" a ", "\" a \""),
        ("- a", "\"- a\""),
        ("*a", "\"*a\""),
        ("@a", "\"@a\""),
        ("a\nb", "\"a\\nb\""),
        ("Et*3|(tt|)*6mL", "Et*3|(tt|)*6mL"),
        ("größe", "größe"),
        ("a, b", "a, b"),
    ] {
        assert_eq!(edited("hardware:\n", "hardware.gpu_type", text), format!("hardware:\n  gpu_type: {written}\n"));
    }
    assert_eq!(edited("hardware: {}", "hardware.gpu_type", "a, b"), "hardware: {gpu_type: \"a, b\"}");
    assert_eq!(edited("distribution:\n", "distribution.strategy", "@odd"), "distribution:\n  strategy: \"@odd\"\n");
}

#[test]
fn lists_and_groups_are_given_with_brackets() {
    let text = "training:\n  activation_checkpointing: full # c\n  mode: train\n";
    assert_eq!(
        edited(text, "training.activation_checkpointing", "{modules: [mlp, moe_act]}"),
        text.replace("full", "{modules: [mlp, moe_act]}")
    );
    let block = "training:\n  activation_checkpointing: # c\n    every: 2 \n  mode: train\n";
    assert_eq!(edited(block, "training.activation_checkpointing", "full"), text);
    let list = "training:\n  frozen:\n  - a\n  - b";
    assert_eq!(edited(list, "training.frozen", "[c]"), "training:\n  frozen: [c]");
}

#[test]
fn what_cannot_be_done_is_refused_and_says_why() {
    let refused = |text: &str, key: &str, value: &str| {
        Document::parse(text).unwrap().with_value(key, value).unwrap_err().to_string()
    };
    assert_eq!(
        refused("", "training.precison", "fp32"),
        "training.precison: unknown key `precison`; did you mean `precision`?"
    );
    assert_eq!(
        refused("", "trainig.precision", "fp32"),
        "trainig.precision: unknown key `trainig`; did you mean `training`?"
    );
    assert_eq!(refused("", "model.batch_size", " "), "model.batch_size: needs a value");
    assert_eq!(refused("", "model.batch_size", "1\n2"), "model.batch_size: needs a value of one line");
    assert_eq!(
        refused("", "model.batch_size", "a: 1"),
        "model.batch_size: `a: 1` needs braces or brackets to be written here"
    );
    assert_eq!(
        refused("model: x\n", "model.batch_size", "1"),
        "1:8: model.batch_size: its section is `x`, not a group of keys"
    );
    assert!(
        refused(
            "training:\n  lora: # a\n    # why\n    rank: 1\n    # b\n    dropout: 0.1\n",
            "training.lora",
            "{rank: 2}"
        )
        .contains("comment")
    );
    let shared = "training: {micro_batch_size: &a 4, gradient_accumulation_steps: *a}\n";
    assert!(refused(shared, "training.micro_batch_size", "8").contains("alias"));
    assert_eq!(edited(shared, "training.gradient_accumulation_steps", "8"), shared.replace("*a", "8"));
    let section = "hardware:\n  custom: &c\n    memory_gb: 80\ntraining:\n  lora: *c\n";
    assert_eq!(edited(section, "training.lora", "{rank: 8}"), section.replace("*c", "{rank: 8}"));
}

#[test]
fn keys_go_with_their_lines_and_emptied_sections() {
    let text = "# head\nmodel:\n  preset: a # x\n  batch_size: 8\n\n# how\ntraining:\n  lora:\n    rank: 8\n\nrun:\n  total_tokens: 1e9\n";
    assert_eq!(without(text, "model.preset"), text.replace("  preset: a # x\n", ""));
    assert_eq!(
        without(text, "training.lora.rank"),
        "# head\nmodel:\n  preset: a # x\n  batch_size: 8\n\n# how\n\nrun:\n  total_tokens: 1e9\n"
    );
    assert_eq!(without(text, "run.total_tokens"), text.replace("\nrun:\n  total_tokens: 1e9\n", ""));
    assert_eq!(without(text, "run"), text.replace("\nrun:\n  total_tokens: 1e9\n", ""));
    assert_eq!(without(text, "cluster.num_gpus"), text);
    assert_eq!(without("model:\n  preset: a", "model.preset"), "");
    assert_eq!(
        without("model: {preset: a, batch_size: 8, type: cnn}\n", "model.preset"),
        "model: {batch_size: 8, type: cnn}\n"
    );
    assert_eq!(
        without("model: {preset: a, batch_size: 8, type: cnn}\n", "model.batch_size"),
        "model: {preset: a, type: cnn}\n"
    );
    assert_eq!(
        without("model: {preset: a, batch_size: 8, type: cnn}\n", "model.type"),
        "model: {preset: a, batch_size: 8}\n"
    );
    let json = "{\n  \"model\": {\n    \"preset\": \"a\",\n    \"batch_size\": 8\n  }\n}\n";
    assert_eq!(without(json, "model.batch_size"), "{\n  \"model\": {\n    \"preset\": \"a\"\n  }\n}\n");
    assert_eq!(without(json, "model.preset"), "{\n  \"model\": {\n    \"batch_size\": 8\n  }\n}\n");
    assert_eq!(without(json, "model"), "{\n}\n");
}

/// A key and a good value of its kind.
pub fn change() -> impl Strategy<Value = (&'static str, String)> {
    let keys: Vec<_> = schema::keys().iter().filter(|key| key.kind != ValueKind::Section).collect();
    (prop::sample::select(keys), 1..100_u64).prop_map(|(key, seed)| {
        let words = key.kind.words();
        let word = |at: u64| words[usize::try_from(at).unwrap() % words.len()].name;
        let value = match key.kind {
            ValueKind::Section | ValueKind::PathOrKeys | ValueKind::Text => {
                format!("it's #{seed}: {}", "ä \"b\", ".repeat(usize::try_from(seed % 3).unwrap()))
            }
            ValueKind::Word(_) | ValueKind::WordOrSection(_) => word(seed).to_owned(),
            ValueKind::Words(_) => format!("[{}, {}]", word(seed), word(seed + 1)),
            ValueKind::Whole { .. } => seed.to_string(),
            ValueKind::Choice(choices) => choices[0].to_string(),
            ValueKind::Wholes { .. } => format!("[{seed}]"),
            ValueKind::Positive { .. } | ValueKind::Amount { .. } | ValueKind::Share => format!("0.{seed}"),
            ValueKind::Flag | ValueKind::FlagOrAmount => (seed % 2 == 0).to_string(),
            ValueKind::Texts => "[q_proj, 'v: proj']".to_owned(),
        };
        (key.path, value)
    })
}

fn example() -> impl Strategy<Value = String> {
    let texts: Vec<_> = EXAMPLES.iter().map(|(_, text)| *text).collect();
    (prop::sample::select(texts), 0..4_u8).prop_map(|(text, layout)| match layout {
        0 => text.to_owned(),
        1 => text.replace('\n', "\r\n"),
        2 => text.trim_end().to_owned(),
        _ => {
            let json = Document::parse(text).unwrap().root().to_json();
            serde_json::to_string_pretty(&json).unwrap()
        }
    })
}

pub fn comments(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.find("# ").map(|at| line[at..].trim_end())).collect()
}

proptest! {
    #[test]
    fn comments_and_all_other_values_survive(text in example(), changes in prop::collection::vec(change(), 1..6)) {
        let mut document = Document::parse(&text).unwrap();
        for (key, value) in changes {
            let Ok(next) = document.with_value(key, &value) else {
                // Only a word where a group of keys would have to be is in the way.
                prop_assert!(key.starts_with("training.activation_checkpointing"), "{} {}", key, value);
                continue;
            };
            for known in schema::keys().iter().filter(|known| !known.kind.holds_keys()) {
                let related = known.path.starts_with(key) || key.starts_with(known.path);
                prop_assert!(related || document.value(known.path) == next.value(known.path), "{}", known.path);
            }
            document = next;
        }
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
        prop_assert!(!json(&text) || json(document.text()), "{}", document.text());
        let kept: Vec<_> = comments(&text);
        let now = comments(document.text());
        prop_assert!(kept.iter().all(|comment| now.contains(comment)), "{:?}", document.text());
    }

    #[test]
    fn putting_the_old_value_back_gives_the_old_bytes(text in example(), (key, value) in change()) {
        let document = Document::parse(&text).unwrap();
        let Ok(changed) = document.with_value(key, &value) else { return Ok(()) };
        let back = match document.value(key) {
            Some(serde_json::Value::String(old)) => changed.with_value(key, &old).unwrap(),
            Some(_) => changed.with_value(key, document.written(key).unwrap()).unwrap(),
            None => changed.without(key).unwrap(),
        };
        prop_assert_eq!(back.text(), &text, "{} {}", key, value);
    }
}
