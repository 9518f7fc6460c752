//! What a first-time reader comes to ask: `memwall --help` alone says which command answers it, and that command runs.

use std::process::{Command, Output, Stdio};

const PLAN: &str = "\
model: {preset: gpt2, batch_size: 8, sequence_length: 1024}
training: {precision: bf16-mixed}
hardware: {gpu_type: NVIDIA A100 80GB}
";

/// torch 2.4's message, `c10/cuda/CUDACachingAllocator.cpp`.
const LOG: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of \
                   79.25 GiB of which 1.12 GiB is free. Process 41 has 78.12 GiB memory in use. Of the allocated memory \
                   76.00 GiB is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated.\n";

const SCRIPT: &str =
    "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --bf16\n";

fn run(folder: &tempfile::TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(args).current_dir(folder.path()).env("XDG_CONFIG_HOME", folder.path().join("config"));
    command.stdin(Stdio::null()).output().unwrap()
}

/// What an answer has to hold, by the question's decisive word.
const ANSWERS: [(&str, &[&str]); 10] = [
    ("How fast", &["GiB", "step"]),
    ("make it fit", &["GiB"]),
    ("largest batch", &["batch"]),
    ("walls", &["wall"]),
    ("best plan", &["GiB"]),
    ("operators", &["ridge"]),
    ("begin", &["saved mine.yaml"]),
    ("script", &["gpt2"]),
    ("exhausted", &["2.00 GiB", "allocated"]),
    // 312 TFLOP/s over 2 039 GB/s, NVIDIA's data sheet of the A100 80GB.
    ("word", &["153 FLOP/B"]),
];

#[test]
fn the_help_alone_leads_to_ten_answers() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("plan.yaml", PLAN), ("train.log", LOG), ("train.sh", SCRIPT)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let help = String::from_utf8(run(&folder, &["--help"]).stdout).unwrap();
    let questions: Vec<&str> = help.lines().filter(|line| line.contains("? ") && line.contains(" memwall ")).collect();
    assert_eq!(questions.len(), ANSWERS.len(), "{help}");
    for (word, parts) in ANSWERS {
        let line = questions.iter().find(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {help}"));
        assert!(line.chars().count() <= 80, "{line}");
        let (_, command) = line.split_once(" memwall ").unwrap();
        let done = run(&folder, &command.split_whitespace().collect::<Vec<_>>());
        let answer = String::from_utf8_lossy(&done.stdout);
        assert_eq!(done.status.code(), Some(0), "{command}: {answer}{}", String::from_utf8_lossy(&done.stderr));
        for part in parts {
            assert!(answer.to_lowercase().contains(&part.to_lowercase()), "{command}: no {part}\n{answer}");
        }
    }
}

#[test]
fn a_term_is_explained_with_its_formula_and_the_plans_numbers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.yaml"), PLAN).unwrap();
    let said = |args: &[&str]| {
        let done = run(&folder, args);
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap(), done.status.code())
    };
    let (alone, _, code) = said(&["explain", "KV", "cache"]);
    assert_eq!(code, Some(0));
    assert!(alone.contains("2 x layers x KV heads x head size") && alone.contains("Where to see it"), "{alone}");
    assert!(alone.lines().all(|line| line.chars().count() <= 80), "{alone}");
    let (beside, _, _) = said(&["explain", "zero-3", "--plan", "plan.yaml", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_str(&beside).unwrap();
    assert_eq!(value["term"], "ZeRO-3");
    let (list, _, _) = said(&["explain"]);
    assert!(
        ["Ridge", "MFU", "Reserved", "ZeRO-3", "Bubble", "KV cache"].iter().all(|term| list.contains(term)),
        "{list}"
    );
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    let (_, near, code) = said(&["explain", "bublle"]);
    assert_eq!(
        (near.as_str(), code),
        ("memwall: bublle: there is no such file or term; did you mean `Bubble`?\n", Some(2))
    );
    let (_, unknown, code) = said(&["explain", "xyzzy"]);
    let words = "memwall: xyzzy: there is no such file or term; memwall explain without a word lists the terms\n";
    assert_eq!((unknown.as_str(), code), (words, Some(2)));
    // The cache of latents: kv_lora_rank 512 + 64 of the rotated key, DeepSeek-V3's config.json.
    let (latent, _, _) = said(&["explain", "mla"]);
    assert!(latent.contains("576 values"), "{latent}");
    // The message itself, as it is copied from a terminal.
    let (message, _, code) = said(&["explain", LOG.trim()]);
    assert_eq!(code, Some(0));
    assert!(message.contains("2.00 GiB"), "{message}");
}
