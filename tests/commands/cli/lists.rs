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

    // A list that is not whole says so.
    let broken = Bench::with(&[("config/memwall/gpus.yaml", "gpus: 3\n")]);
    let done = broken.run(&["gpus"]).exits(1);
    assert!(done.err.contains("config/memwall/gpus.yaml"), "{done:?}");
}

#[test]
fn a_fault_in_the_users_own_file_stops_only_plans_that_name_it() {
    let bench = Bench::with(&[
        ("config/memwall/gpus.yaml", "gpus:\n- name: MyGPU\n"),
        ("a.yaml", "model: {preset: gpt2}\nhardware: {gpu_type: A100}\n"),
        ("b.yaml", "model: {preset: gpt2}\nhardware: {gpu_type: MyGPU}\n"),
    ]);
    let why = "config/memwall/gpus.yaml:2: MyGPU: `short` is missing";
    let done = bench.run(&["predict", "a.yaml", "--format", "json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.starts_with("memwall: warning: ") && done.err.contains(why), "{done:?}");
    assert!(done.json()["capacity"]["fits"].as_bool().unwrap());
    let done = bench.run(&["predict", "b.yaml"]).exits(2);
    assert!(done.err.contains("hardware.gpu_type: MyGPU cannot be used: ") && done.err.contains(why), "{done:?}");
    let done = bench.run(&["gpus"]).exits(1);
    assert!(done.out.contains("A100") && done.err.contains(why), "{done:?}");
    let doctor = bench.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("MyGPU"), "{doctor:?}");
}

#[test]
fn a_list_on_a_pipe_has_a_line_for_each_entry_and_a_filter() {
    let bench = Bench::new();
    let piped = |args: &[&str]| {
        let mut command = bench.command(args);
        Done::of(&command.env_remove("COLUMNS").output().unwrap()).exits(0).out
    };
    let row = |list: &str, name: &str| list.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    // The last column is on the line of the name: link and vocabulary.
    assert!(row(&piped(&["gpus"]), "NVIDIA H100 SXM 80GB ").ends_with("nvlink_4"));
    assert!(row(&piped(&["models"]), "llama-3-8b ").ends_with("128256"));
    let narrow = bench.run(&["gpus"]).exits(0).out;
    let done = Done::of(&bench.command(&["gpus"]).env("COLUMNS", "60").output().unwrap()).exits(0);
    assert!(done.out.lines().count() > narrow.lines().count(), "{}", done.out);
    let filtered = piped(&["gpus", "h-200"]);
    assert!(filtered.contains("H200 SXM") && !filtered.contains("A100"), "{filtered}");
    assert!(bench.run(&["gpus", "h200", "--format", "json"]).exits(0).json().as_array().unwrap().len() > 1);
    let models = piped(&["models", "gpt2"]);
    assert!(models.contains("gpt2-xl") && !models.contains("llama"), "{models}");
    let none = bench.run(&["gpus", "H900"]).exits(1);
    assert!(none.out.is_empty() && none.err.contains("nearest: H800"), "{none:?}");
    assert!(bench.run(&["models", "llaama-3-8b"]).exits(1).err.contains("nearest: llama-3-8b"));
}

#[test]
fn a_locale_without_unicode_gets_ascii() {
    let bench = Bench::with(&[("a.yaml", "model: {preset: gpt2}\nhardware: {gpu_type: A100}\n")]);
    for args in [
        &["gpus"][..],
        &["models", "gpt2"],
        &["roofline", "a.yaml"],
        &["sweep", "a.yaml", "--vary", "batch_size=8,16", "--plot"],
        &["predict", "a.yaml", "--verbose"],
        &["explain", "ridge"],
        &["help", "screen"],
    ] {
        let done = Done::of(&bench.command(args).env("LC_ALL", "C").output().unwrap()).exits(0);
        assert!(done.out.is_ascii(), "{args:?}: {}", done.out);
        // The same lines as elsewhere: nothing moves.
        let unicode = Done::of(&bench.command(args).env("LC_ALL", "C.UTF-8").output().unwrap()).exits(0).out;
        assert_eq!(done.out.lines().count(), unicode.lines().count(), "{args:?}");
    }
    let unicode = Done::of(&bench.command(&["gpus"]).env("LC_ALL", "C.UTF-8").output().unwrap()).exits(0).out;
    assert!(!unicode.is_ascii(), "{unicode}");
}

#[test]
fn a_theme_that_there_is_not_is_a_fault_of_the_configuration() {
    let bench = Bench::with(&[("config/memwall/config.yaml", "theme: nosuch\n")]);
    let config = bench.run(&["config"]).exits(2);
    assert!(config.out.contains("theme:      dark or light"), "{config:?}");
    assert!(config.err.contains("config.yaml:1:8: theme: no theme `nosuch`; known: dark, light"), "{config:?}");
    let doctor = bench.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("`nosuch`"), "{doctor:?}");
    let own = Bench::with(&[
        ("config/memwall/config.yaml", "theme: mine\n"),
        ("config/memwall/themes/mine.yaml", "base: dark\n"),
    ]);
    assert!(own.run(&["config"]).exits(0).out.contains("theme:      mine"));
}

#[test]
fn completions_are_written_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Bench::new().run(&["completions", shell]).exits(0).out;
        assert!(script.contains("max-batch-size"), "{shell}");
        // The others offer no values.
        if ["bash", "zsh", "fish"].contains(&shell) {
            assert!(script.contains("H100-SXM-80GB"), "{shell}");
        }
    }
    let script = Bench::new().run(&["completions", "bash"]).exits(0).out;
    let words = |command: &str| {
        let (_, rest) = script.split_once(&format!("        memwall__subcmd__{command})\n")).unwrap();
        rest.split_once("opts=\"").unwrap().1.split_once('"').unwrap().0.to_owned()
    };
    assert!(words("help").contains("roofline") && words("help").contains("oom"), "{}", words("help"));
    assert!(words("models").contains("llama-3-8b"), "{}", words("models"));
    assert!(script.contains("solarized-light") && words("explain").contains("memory-wall"), "{script}");
    // A log to explain is a file, which zsh offers only where no names are given.
    assert!(!Bench::new().run(&["completions", "zsh"]).exits(0).out.contains("memory-wall"));
    assert!(words("man").contains("predict"), "{}", words("man"));
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
