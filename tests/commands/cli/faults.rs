//! What is asked wrongly: said in a line, with its place and what would be right.

use std::process::Command;

use super::{Bench, Done, PIPELINE, SMALL};

#[test]
fn a_shape_with_faults_is_bad_usage() {
    let bench = Bench::with(&[("small.yaml", SMALL)]);
    for (line, told) in [
        ("predict transfromer 7.0 32", "model.type"),
        ("predict transformer 7.0 0", "model.batch_size"),
        ("predict transformer 7.0 32 --precision bf17", "training.precision"),
        ("predict small.yaml --gpus 8", "--gpus goes with MODEL_TYPE SIZE BATCH"),
    ] {
        let done = bench.run(&line.split(' ').collect::<Vec<_>>()).exits(2);
        assert!(done.err.contains(told) && done.out.is_empty(), "{line}: {done:?}");
    }
}

#[test]
fn a_bad_plan_is_told_with_its_place_a_line_a_fault() {
    let bad = "model:\n  preset: gpt2\n  batch_siz: 3\ntraining:\n  precision: bf17\n";
    let bench = Bench::with(&[("bad.yaml", bad), ("small.yaml", SMALL)]);
    let done = bench.run(&["predict", "bad.yaml"]).exits(2);
    let lines: Vec<&str> = done.err.lines().collect();
    assert_eq!(lines.len(), 2, "{done:?}");
    assert!(lines[0].starts_with("memwall: bad.yaml:3:") && lines[0].contains("batch_size"), "{done:?}");
    assert!(lines[1].starts_with("memwall: bad.yaml:5:") && lines[1].contains("training.precision"), "{done:?}");
    // The plans beside it are reported all the same.
    let done = bench.run(&["predict", "bad.yaml", "small.yaml"]).exits(2);
    assert!(done.out.starts_with("fits: "), "{done:?}");
}

#[test]
fn an_unknown_gpu_is_told_with_its_place_and_the_nearest() {
    let bench = Bench::with(&[("a.yaml", "model:\n  preset: gpt2\nhardware:\n  gpu_type: NVIDIA H10O\n")]);
    let done = bench.run(&["predict", "a.yaml"]).exits(2);
    assert!(done.err.starts_with("memwall: a.yaml:4:") && done.err.contains("hardware.gpu_type: "), "{done:?}");
    assert!(done.err.contains("H100"), "{done:?}");
}

#[test]
fn a_missing_file_is_bad_usage() {
    for args in [&["predict", "none.yaml"][..], &["validate", "none.json"], &["none.yaml"]] {
        let done = Bench::new().run(args).exits(2);
        assert!(done.err.contains("none."), "{done:?}");
    }
    let configured = Bench::with(&[("a.yaml", "model: {hf_config: none.json}\n")]);
    let done = configured.run(&["predict", "a.yaml"]).exits(2);
    assert!(done.err.starts_with("memwall: a.yaml:1:") && done.err.contains("none.json"), "{done:?}");
}

#[test]
fn a_plan_is_not_written_over_by_what_it_is_exported_to() {
    let bench = Bench::with(&[("a.yaml", PIPELINE)]);
    for output in ["a.yaml", "./a.yaml"] {
        let done = bench.run(&["export", "a.yaml", "--to", "megatron", "-o", output]).exits(2);
        assert!(done.err.contains("is the plan itself"), "{done:?}");
    }
    assert_eq!(bench.file("a.yaml"), PIPELINE);
}

#[test]
fn a_configuration_is_found_beside_the_plan_that_names_it() {
    let config = r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2}"#;
    let bench = Bench::with(&[("deep/a.yaml", "model: {hf_config: config.json}\n"), ("deep/config.json", config)]);
    let report = bench.run(&["predict", "deep/a.yaml", "--format", "json"]).exits(0).json();
    // GPT-2's embeddings and last norm, and two of its blocks.
    let block = 12 * 768 * 768 + 13 * 768;
    assert_eq!(report["params"]["total"], 50257 * 768 + 1024 * 768 + 2 * 768 + 2 * block);
}

#[test]
fn a_layer_that_does_not_fit_its_input_is_bad_usage() {
    let bench = Bench::with(&[("wrong.yaml", "model:\n  layers: [\"linear:8x4\", \"linear:8x4\"]\n")]);
    let shape = |input: &'static str| ["predict", "--layer", "linear:8x4", "--input", input];
    for (words, said) in [
        (&shape("2x9")[..], "--input 2x9: has 9 columns, the first layer reads 8"),
        (&shape("2x3x4x8"), "--input 2x3x4x8: must be SAMPLESxROWSxCOLUMNS"),
        (&shape("many"), "--input many: must be"),
        (&shape("0x8"), "model.batch_size: `0` where a whole number from 1"),
        (&["predict", "--layer", "lstm", "--input", "2x8"], "`lstm` is no layer; known are linear:INxOUT"),
        (&["predict", "--layer", "linear:8x4"], "--input"),
        (&["predict", "wrong.yaml"], "wrong.yaml:2:11: model.layers: layer 2, linear:8x4, takes 8 columns"),
    ] {
        let done = bench.run(words).exits(2);
        assert!(done.err.contains(said), "{words:?}: {}", done.err);
    }
}

#[test]
fn what_cannot_be_written_leaves_the_file_as_it_was() {
    let bench = Bench::with(&[("small.yaml", SMALL), ("out.json", "of yesterday\n")]);
    // No file of this process may grow beyond nothing, as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" predict small.yaml --output out.json";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_memwall")]).current_dir(bench.folder.path());
    let done = Done::of(&command.env("XDG_CONFIG_HOME", bench.folder.path()).output().unwrap());
    assert!(done.code == 1 && done.err.starts_with("memwall: out.json: not saved: "), "{done:?}");
    assert_eq!(bench.file("out.json"), "of yesterday\n");
    let left: Vec<_> = std::fs::read_dir(bench.folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// The README's own line, where there is no such script.
#[test]
fn a_script_that_is_not_there_is_said_to_be_missing() {
    let bench = Bench::with(&[("mine.py", "print('nothing')\n")]);
    let told = |script: &str| bench.run(&["import", "--", "torchrun", script]).exits(1).err;
    assert!(told("train.py").contains("train.py: there is no such file"), "{}", told("train.py"));
    assert!(told("mine.py").contains("`mine.py` is of no framework that is known"), "{}", told("mine.py"));
}

/// What a slip on the command line says: one line, exit 2, and these words in it, those behind `!` not.
#[test]
fn a_slip_is_told_in_one_line_that_says_what_is_right() {
    let bench = Bench::with(&[
        ("small.yaml", SMALL),
        ("idle.yaml", "model: {preset: gpt2}\ncluster: {num_gpus: 8, gpus_per_node: 8, nodes: 3}\n"),
        ("odd.yaml", "model: {preset: gpt2}\ncluster: {num_gpus: 8}\ndistribution: {tensor_parallel: 3}\n"),
    ]);
    let cases: [(&[&str], &[&str]); 15] = [
        (&["max-batch", "small.yaml"], &["max-batch: no such command", "predict --max-batch-size"]),
        (&["small.yaml", "other.yaml"], &["memwall takes one plan", "o in the dashboard opens other.yaml"]),
        (&["predcit", "small.yaml"], &["predcit: no such command", "`predict`"]),
        (&["search", "small.yaml", "--gpus", "-3"], &["'--gpus'", "memwall search --help", "!tip", "!-- --gpus"]),
        (&["predict", "small.yaml", "--frmat", "csv"], &["'--frmat'", "there is --format", "memwall predict --help"]),
        (&["infer", "abc"], &["'abc'", "PID is a whole number", "!digit"]),
        (&["predict", "transformer", "7.0"], &["BATCH is missing"]),
        (&["predict"], &["PLAN", "memwall predict --help"]),
        (&["validate", "small.yaml"], &["small.yaml: ", "not a file of cases", "JSON", "!column"]),
        (&["explain", "nope"], &["nope: there is no such file", "!os error"]),
        (&["replay", "nope", "--format", "text"], &["nope: there is no such file", "!os error"]),
        (&["import", "nope"], &["nope: there is no such file", "!os error"]),
        (&["gpus", "--format", "xml"], &["'xml'", "text, json"]),
        // Eight GPUs stand in the first of three nodes of eight.
        (&["predict", "idle.yaml"], &["idle.yaml:2:", "cluster.num_gpus: ", "1 of 3 nodes"]),
        (&["predict", "odd.yaml"], &["odd.yaml:3:", "distribution.tensor_parallel: 3", "num_gpus 8", "!data_parallel"]),
    ];
    for (args, parts) in cases {
        let done = bench.run(args).exits(2);
        assert_eq!(done.err.lines().count(), 1, "{args:?}: {done:?}");
        for part in parts {
            let (part, wanted) = part.strip_prefix('!').map_or((*part, true), |part| (part, false));
            assert_eq!(done.err.contains(part), wanted, "{args:?} {part}: {done:?}");
        }
    }
    // A node may be used in part.
    let part =
        bench.feed(&["predict", "-"], "model: {preset: gpt2}\ncluster: {num_gpus: 4, gpus_per_node: 8, nodes: 1}\n");
    part.exits(0);
}
