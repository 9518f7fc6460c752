//! Whatever bytes come: an answer in bounded time, and never a panic.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use memwall::import::{self, ProcessView};
use proptest::prelude::*;

use crate::CaseFiles;
use crate::support::catalog;

/// Words that mean something to some reader, to get behind the first test of each.
const WORDS: &[&str] = &[
    "torchrun",
    "--nproc_per_node",
    "8",
    "pretrain_gpt.py",
    "--num-layers",
    "--hidden-size",
    "--num-attention-heads",
    "--micro-batch-size",
    "-m",
    "torchtitan.train",
    "--job.config_file",
    "a.toml",
    "a.json",
    "a.yaml",
    "train.py",
    "a.py",
    "accelerate",
    "launch",
    "--config_file",
    "deepspeed",
    "--deepspeed",
    "axolotl",
    "train",
    "tune",
    "run",
    "srun",
    "-N4",
    "bash",
    "-c",
    "env",
    "python",
    "-18446744073709551616",
    "99999999999999999999",
    "--moe-layer-freq",
    "([0]*9+[1]*",
    "--",
    "=",
    "--=",
    "-",
    "",
    "--global-batch-size",
    "0",
    "--tensor-model-parallel-size",
    "--num-experts",
    "--seq-length",
    "llamafactory-cli",
    "litgpt",
    "pretrain",
    "composer",
    "mpirun",
    "-np",
    "--window-size",
    "--per_device_train_batch_size",
];

fn everything(command: Vec<String>, text: &str) {
    let names = ["a.toml", "a.json", "a.yaml", "a.py", "a.sh", "train.py", "config.json"];
    let files = CaseFiles(names.iter().map(|name| ((*name).to_owned(), text.to_owned())).collect());
    let mut run = ProcessView::of(command.clone(), &files);
    run.ancestors = vec![command];
    run.variables = BTreeMap::from([
        ("WORLD_SIZE".to_owned(), "18446744073709551615".to_owned()),
        ("RANK".to_owned(), "0".to_owned()),
    ]);
    let imported = import::run(&run, catalog());
    assert!(memwall::plan::Document::parse(&imported.yaml("x")).is_ok());
    for name in names {
        if let Ok(imported) = import::file(name, text, &run, catalog()) {
            assert!(memwall::plan::Document::parse(&imported.yaml("x\ny")).is_ok());
        }
        let _ = import::is_foreign(name, text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_words_and_bytes(command in prop::collection::vec(prop::sample::select(WORDS), 0..24), text in "\\PC{0,200}") {
        everything(command.iter().map(|word| (*word).to_owned()).collect(), &text);
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), words in prop::collection::vec("\\PC{0,20}", 0..8)) {
        everything(words, &String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn bombs_and_depths_are_refused_in_a_line() {
    let aliases = (1..40).fold("a0: &a0 [x, x, x, x]\n".to_owned(), |text, n| {
        format!("{text}a{n}: &a{n} [*a{p}, *a{p}, *a{p}, *a{p}]\n", p = n - 1)
    });
    for (name, text) in [
        ("a.yaml", aliases),
        ("a.yaml", "[".repeat(100_000)),
        ("a.json", "{\"a\":".repeat(100_000)),
        ("a.json", format!("{{{}\"b\":0}}", (0..100_000).map(|key| format!("\"k{key}\":0,")).collect::<String>())),
        ("a.toml", format!("a = {}", "[".repeat(100_000))),
        ("a.toml", format!("a = {}", "{a = ".repeat(100_000))),
        ("a.toml", "[a]\n".repeat(1000)),
        ("a.yaml", "x".repeat(10_000_001)),
        ("a.toml", "#".repeat(10_000_001)),
        ("a.sh", "(".repeat(1_000_000)),
        ("a.sh", "$".repeat(1_000_000)),
        ("a.py", "a = (".repeat(100_000)),
    ] {
        let files = CaseFiles(BTreeMap::new());
        let start = Instant::now();
        let why = import::file(name, &text, &ProcessView::of(Vec::new(), &files), catalog()).unwrap_err().to_string();
        assert!(start.elapsed() < Duration::from_secs(5), "{name}: {:?}", start.elapsed());
        assert!(!why.contains('\n') && why.len() < 400, "{name}: {why}");
    }
}

#[test]
fn a_command_of_megabytes_is_read_in_time() {
    let many: Vec<String> =
        std::iter::once("torchrun".to_owned()).chain((0..200_000).map(|n| format!("--option-{n}"))).collect();
    everything(many, "");
    everything(vec!["bash".to_owned(), "-c".to_owned(), "a=\"$a$a\";".repeat(100_000)], "");
}

/// Each of these took over 50 s while every place was looked at with all the text.
#[test]
fn a_script_that_says_one_thing_ten_thousand_times_is_read_in_time() {
    let script = "from transformers import HfArgumentParser\nlora = LoraConfig(r=8)\n";
    for part in [
        "    load_in_4bit=x,\n",
        "BitsAndBytesConfig(load_in_4bit=x,((\n",
        "SFTTrainer(peft_config=lora if a else b,\n",
    ] {
        let text = format!("{script}model = f(\n{}", part.repeat(25_000));
        let files = CaseFiles(BTreeMap::from([("train.py".to_owned(), text)]));
        let words = "torchrun train.py --model_name_or_path gpt2 --per_device_train_batch_size 2 --output_dir x";
        let command = words.split(' ').map(str::to_owned).collect();
        let start = Instant::now();
        let imported = import::run(&ProcessView::of(command, &files), catalog());
        assert!(start.elapsed() < Duration::from_secs(5), "{part}: {:?}", start.elapsed());
        assert!(imported.yaml("x").contains("gpt2"), "{part}");
    }
}
