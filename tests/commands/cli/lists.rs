//! What is listed: catalogues, completions, help.

use std::process::Stdio;

use super::{Bench, Done};

#[test]
fn the_catalogues_are_listed() {
    let bench = Bench::new();
    let gpus = bench.run(&["gpus"]).exits(0).out;
    assert!(gpus.contains("H100") && gpus.contains("GB/s"), "{gpus}");
    let gpus = bench.run(&["gpus", "--format", "json", "--verbose"]).exits(0).json();
    for gpu in gpus.as_array().unwrap() {
        assert!(gpu["memory_bytes"].is_u64() && !gpu["sources"].as_array().unwrap().is_empty(), "{gpu}");
    }
    let models = bench.run(&["models"]).exits(0).out;
    assert!(models.contains("gpt2") && models.contains("124 M"), "{models}");
    assert!(bench.run(&["models", "--format", "json"]).exits(0).json()[0]["hf_config"].is_object());
    assert!(bench.run(&["gpus", "--verbose"]).exits(0).out.contains("also: "));
}

#[test]
fn the_users_own_files_extend_the_catalogue() {
    let own = "sources: {bench: measured here}\ngpus:\n- {name: Workbench 9000, short: W9000, vendor: nvidia, \
               architecture: ada, memory_gib: {value: 12, source: bench}, bandwidth_gb_s: {value: 500, source: bench}, \
               peak_tflops: {source: bench, fp32: 20, bf16: 80}, link: pcie_4}\n";
    let bench = Bench::with(&[
        ("config/memwall/gpus.yaml", own),
        ("a.yaml", "model: {preset: gpt2}\nhardware: {gpu_type: workbench 9000}\n"),
    ]);
    assert!(bench.run(&["gpus"]).exits(0).out.contains("Workbench 9000"));
    let report = bench.run(&["predict", "a.yaml", "--format", "json"]).exits(0).json();
    assert_eq!(report["capacity"]["bytes"], 12_u64 << 30);

    let broken = Bench::with(&[("config/memwall/gpus.yaml", "gpus: 3\n")]);
    let done = broken.run(&["gpus"]).exits(1);
    assert!(done.err.contains("config/memwall/gpus.yaml"), "{done:?}");
}

#[test]
fn completions_are_written_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Bench::new().run(&["completions", shell]).exits(0).out;
        assert!(script.contains("max-batch-size"), "{shell}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let bench = Bench::new();
    for args in [&["gpus", "--verbose"][..], &["completions", "bash"], &["predict", "transformer", "1", "1"]] {
        let mut child =
            bench.command(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        Done::of(&child.wait_with_output().unwrap()).exits(0);
    }
}

#[test]
fn help_names_what_there_is() {
    let help = Bench::new().run(&["--help"]).exits(0).out;
    for word in ["predict", "validate", "gpus", "models", "completions", "--attach", "--interval"] {
        assert!(help.contains(word), "{word}");
    }
    let usage = Bench::new().run(&["predict", "--help"]).exits(0).out;
    assert!(usage.contains("predict [OPTIONS] MODEL_TYPE SIZE BATCH"), "{usage}");
}
