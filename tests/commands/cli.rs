//! The commands as a shell sees them: what they print, where, and how they exit.

use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::truth;

const SMALL: &str = "\
model: {preset: gpt2, batch_size: 8, sequence_length: 1024}
training: {precision: bf16-mixed}
hardware: {gpu_type: NVIDIA H100}
";

/// 70 billion parameters with their states on one GPU of 80 GB.
const TOO_LARGE: &str = "\
model: {type: transformer, size_billions: 70, batch_size: 8, sequence_length: 2048}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 1}
";

const PIPELINE: &str = "\
model: {preset: gpt2, batch_size: 16, sequence_length: 1024, framework: megatron}
training: {micro_batch_size: 2}
cluster: {num_gpus: 4}
distribution: {pipeline_parallel: 2, data_parallel: 2}
";

/// The program in a folder of its own and with no files of the user's.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let bench = Self::new();
        for (name, text) in files {
            let path = bench.folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        bench
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.args(args).current_dir(self.folder.path()).env("XDG_CONFIG_HOME", self.folder.path().join("config"));
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        self.feed(args, "")
    }

    fn feed(&self, args: &[&str], input: &str) -> Done {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that stops before it has read everything closes the pipe: its output says why.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Done::of(&child.wait_with_output().unwrap())
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }
}

#[derive(Debug)]
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Ended with `code`, and each line of standard error is a message of ours.
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.lines().all(|line| line.starts_with("memwall: ")), "{self:?}");
        assert_eq!(self.err.is_empty(), code == 0 || code == 3, "{self:?}");
        self
    }
}

/// Every key of the contract's report with the kind of its value: `n` number, `s` string,
/// `b` boolean, `a` array, `o` object; `?` where it may be null.
const REPORT: &str = "\
plan s, model s, gpu s, params o, params.total n, params.trainable n, params.active_per_token n, memory o,
memory.components o, memory.components.parameters n, memory.components.gradients n,
memory.components.optimizer_states n, memory.components.activations n, memory.components.temporaries n,
memory.components.kv_cache n, memory.components.communication_buffers n, memory.components.overhead n,
memory.static n, memory.peak_phase s, memory.peak_cause s, memory.peak_allocated n, memory.peak_reserved n,
memory.device_used n, memory.activations_end_of_forward n, stages a, stages.0.stage n, stages.0.layers n,
stages.0.static n, stages.0.peak_allocated n, stages.0.peak_reserved n, stages.0.device_used n, terms a,
terms.0.name s, terms.0.component s, terms.0.bytes n, terms.0.formula s, terms.0.source s, timeline a,
timeline.0.phase s, timeline.0.at s, timeline.0.allocated n, capacity o, capacity.bytes n, capacity.headroom n,
capacity.fits b, flops o, flops.forward n, flops.backward n, flops.recompute n, traffic o, traffic.total n,
traffic.by o, traffic.by.parameters n, traffic.by.gradients n, traffic.by.activations n,
traffic.by.optimizer_states n, time o, time.step_s n, time.compute_s n, time.memory_bound_s n,
time.communication_s n, time.bubble_s n, time.tokens_per_s n?, time.tokens_per_s_per_gpu n?, time.samples_per_s n,
time.model_tflops_per_gpu n, time.mfu n?, time.hfu n?, time.bandwidth_gb_s n, time.mbu n, time.total_hours n?,
time.total_cost n?, time.launch_s n, time.total_tokens n?, time.total_gpu_hours n?, time.total_energy_kwh n?,
time.power_w n?, time.scaling_efficiency n?, time.bottleneck s, roofline o, roofline.roofs o, roofline.ridge n, roofline.ops a, roofline.ops.0.name s, roofline.ops.0.count n,
roofline.ops.0.flops n, roofline.ops.0.bytes n, roofline.ops.0.intensity n?, roofline.ops.0.bound s,
roofline.ops.0.seconds n, bottlenecks a, assumptions a";

fn hold_to_the_contract(report: &Value) {
    for entry in REPORT.split(',') {
        let (path, kind) = entry.trim().split_once(' ').unwrap();
        let value = report.pointer(&format!("/{}", path.replace('.', "/")));
        let value = value.unwrap_or_else(|| panic!("{path} is missing"));
        let right = match kind {
            "n" => value.is_number(),
            "n?" => value.is_number() || value.is_null(),
            "s" => value.is_string(),
            "b" => value.is_boolean(),
            "a" => value.is_array(),
            _ => value.is_object(),
        };
        assert!(right, "{path} is {value}");
    }
    let sum: u64 = report["memory"]["components"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(report["memory"]["device_used"], sum, "components sum to the whole");
    let headroom = report["capacity"]["bytes"].as_i64().unwrap() - report["memory"]["device_used"].as_i64().unwrap();
    assert_eq!(report["capacity"]["headroom"], headroom);
    assert_eq!(report["capacity"]["fits"], headroom >= 0);
}

#[test]
fn predict_reports_as_text_json_and_csv() {
    let bench = Bench::with(&[("small.yaml", SMALL)]);
    let text = bench.run(&["predict", "small.yaml"]).exits(0).out;
    assert!(text.starts_with("fits: "), "{text}");
    assert!(text.contains("plan small.yaml") && text.contains("nvidia-smi"), "{text}");

    let json = bench.run(&["predict", "small.yaml", "--format", "json"]).exits(0);
    assert_eq!(json.out.lines().count(), 1);
    let report = json.json();
    hold_to_the_contract(&report);
    assert_eq!(report["plan"], "small.yaml");
    assert_eq!(report["params"]["total"], 124_439_808, "GPT-2's own count");

    let csv = bench.run(&["predict", "small.yaml", "--format", "csv"]).exits(0).out;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(reader.headers().unwrap().iter().next(), Some("plan"));
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!((rows.len(), &rows[0][0], &rows[0][3]), (1, "small.yaml", "124439808"));
}

#[test]
fn predict_says_more_when_verbose() {
    let bench = Bench::with(&[("small.yaml", SMALL)]);
    let text = bench.run(&["predict", "small.yaml", "--verbose"]).exits(0).out;
    assert!(text.contains("source: ") && text.contains("allocated over the step"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn predict_exits_3_where_a_plan_does_not_fit() {
    let bench = Bench::with(&[("small.yaml", SMALL), ("large.yaml", TOO_LARGE)]);
    let text = bench.run(&["predict", "large.yaml"]).exits(3).out;
    assert!(text.starts_with("does not fit: "), "{text}");
    let both = bench.run(&["predict", "small.yaml", "large.yaml", "--format", "json"]).exits(3).out;
    let fits: Vec<_> =
        both.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["capacity"]["fits"].clone()).collect();
    assert_eq!(fits, [true, false]);
}

#[test]
fn predict_reports_each_stage_of_a_pipeline() {
    let bench = Bench::with(&[("pipe.yaml", PIPELINE)]);
    let report = bench.run(&["predict", "pipe.yaml", "--format", "json"]).exits(0).json();
    hold_to_the_contract(&report);
    let layers: Vec<_> = report["stages"].as_array().unwrap().iter().map(|stage| stage["layers"].clone()).collect();
    assert_eq!(layers, [6, 6]);
    let text = bench.run(&["predict", "pipe.yaml"]).exits(0).out;
    assert!(text.contains("stages, GiB on each GPU"), "{text}");
}

#[test]
fn predict_reads_a_stream_of_plans() {
    let bench = Bench::new();
    let done = bench.feed(&["predict", "-", "--format", "json"], &format!("{SMALL}---\n{PIPELINE}")).exits(0);
    let reports: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    reports.iter().for_each(hold_to_the_contract);
    let names: Vec<_> = reports.iter().map(|report| report["plan"].as_str().unwrap()).collect();
    assert_eq!(names, ["stdin#1", "stdin#2"]);
}

#[test]
fn predict_takes_a_plan_without_a_file() {
    let line = "predict transformer 7.0 32 --sequence-length 8192 --gpus 8 --strategy tensor_parallel --format json";
    let mut args: Vec<&str> = line.split(' ').collect();
    args.extend(["--gpu-type", "NVIDIA H100"]);
    let done = Bench::new().run(&args);
    assert!(matches!(done.code, 0 | 3), "{done:?}");
    let report = done.json();
    hold_to_the_contract(&report);
    assert_eq!(report["plan"], "transformer 7.0 32");
    let billions = report["params"]["total"].as_f64().unwrap() / 1e9;
    assert!((6.0..8.0).contains(&billions), "{billions}");
}

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

/// 32 x 4096 x 16384 fp32 elements are 8 GiB, and 16384 x 16384 are 1: 26 GiB with the gradients, more than 24 GB.
#[test]
fn a_layer_says_what_it_holds_and_where_it_fails() {
    let bench = Bench::with(&[]);
    let words = ["predict", "--layer", "linear:16384x16384", "--input", "32x4096x16384"];
    let text = bench.run(&words).exits(0).out;
    for said in ["what its backward pass holds", "gradient of the input", "2 147 483 648  8.00", "fails on", "RTX4090"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    let report = bench.run(&[&words[..], &["--format", "json"]].concat()).exits(0).json();
    let tensors = report["layer"]["tensors"].as_array().unwrap();
    let sum: u64 = tensors.iter().map(|tensor| tensor["bytes"].as_u64().unwrap()).sum();
    // The bias and its gradient: 16384 elements each.
    assert_eq!(sum, (26 << 30) + 2 * 16_384 * 4);
    for gpu in report["layer"]["gpus"].as_array().unwrap() {
        let (bytes, fits) = (gpu["bytes"].as_u64().unwrap(), gpu["fits"].as_bool().unwrap());
        assert_eq!(fits, bytes > 27 << 30, "{gpu}");
    }
    bench.run(&[&words[..], &["--gpu-type", "RTX 4090"]].concat()).exits(3);
    let several = ["--layer", "linear:4x8", "--layer", "relu", "--layer", "linear:8x4", "--input", "2x4"];
    bench.run(&[&["predict"][..], &several].concat()).exits(0);
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
fn the_output_files_extension_chooses_the_format() {
    let bench = Bench::with(&[("small.yaml", SMALL)]);
    for (name, start) in [("out.json", "{\"plan\""), ("out.csv", "plan,model,"), ("out.txt", "fits: ")] {
        let done = bench.run(&["predict", "small.yaml", "--output", name]).exits(0);
        assert!(done.out.is_empty(), "{done:?}");
        assert!(bench.file(name).starts_with(start), "{name}");
    }
    bench.run(&["predict", "small.yaml", "--output", "out.xls"]).exits(2);
    bench.run(&["predict", "small.yaml", "--output", "no/such/folder.json"]).exits(1);
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

#[test]
fn the_largest_batch_fits_and_one_more_does_not() {
    let bench = Bench::with(&[("small.yaml", SMALL)]);
    let report = bench.run(&["predict", "small.yaml", "--max-batch-size", "--format", "json"]).exits(0).json();
    let largest = report["max_batch_size"]["batch_size"].as_u64().unwrap();
    assert!(largest > 8, "{largest}");
    for (batch, code) in [(largest, 0), (largest + 1, 3)] {
        let plan = SMALL.replace("batch_size: 8", &format!("batch_size: {batch}"));
        bench.feed(&["predict", "-"], &plan).exits(code);
    }
    let text = bench.run(&["predict", "small.yaml", "--max-batch-size"]).exits(0).out;
    assert!(text.contains(&format!("largest batch that fits: {largest} ")), "{text}");
    let none = bench.feed(&["predict", "-", "--max-batch-size"], TOO_LARGE).exits(3).out;
    assert!(none.contains("largest batch that fits: none"), "{none}");
}

/// Each plan of a search carries the band of measured runs like it, in both forms for programs.
#[test]
fn searched_plans_have_bands() {
    let bench = Bench::with(&[("pipeline.yaml", PIPELINE)]);
    let found = bench.run(&["search", "pipeline.yaml", "--format", "json"]).exits(0).json();
    let [below, above] = [0, 1].map(|end| found["step_band_pct"][end].as_f64().unwrap() / 100.0);
    assert!(below < 0.0 && above > 0.0, "{below} {above}");
    let (ranked, level) = (found["ranked"].as_array().unwrap(), found["level"].as_u64().unwrap());
    assert!(ranked.len() > 2 && level > 0);
    for (place, row) in (0..).zip(ranked) {
        let of = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"));
        assert!((of("step_least_s") / of("step_s") - 1.0 - below).abs() < 1e-9, "{row}");
        assert!((of("step_most_s") / of("step_s") - 1.0 - above).abs() < 1e-9, "{row}");
        assert_eq!(row["is_level"], place < level, "{row}");
    }
    // The given plan may be as fast and the best as slow as 95 of 100 such runs, each for itself.
    let gain =
        |name: &str| found["gain"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", found["gain"])) / 100.0;
    let both = (1.0 + below).ln().hypot((1.0 + above).ln());
    let ratio = found["given"]["step_s"].as_f64().unwrap() / ranked[0]["step_s"].as_f64().unwrap();
    assert!((gain("pct") - (ratio - 1.0)).abs() < 1e-9, "{}", found["gain"]);
    // The best is the luckiest of ten: normal quantiles of 0.025 / 10 and of 0.025 are 2.807 and 1.960, by a table.
    assert_eq!(found["gain"]["among"], 10);
    let wider = -((1.0 + gain("least_pct")) / ratio).ln() / both;
    assert!((wider / (2.807 / 1.960) - 1.0).abs() < 0.04, "{wider} {}", found["gain"]);
    assert!((gain("most_pct") - (ratio * both.exp() - 1.0)).abs() < 1e-9, "{}", found["gain"]);
    assert_eq!(found["gain"]["is_shown"], gain("least_pct") > 0.0);
    let table = bench.run(&["search", "pipeline.yaml", "--format", "csv"]).exits(0).out;
    let first = ranked[0]["step_most_s"].to_string();
    assert!(table.lines().next().unwrap().ends_with(",step_least_s,step_most_s,is_level"), "{table}");
    assert!(table.lines().nth(1).unwrap().ends_with(&format!(",{first},true")), "{table}");
}

#[test]
fn validate_answers_every_quantity_and_names_failed_cases() {
    let cases = r#"{"id": "a", "group": "g", "plan": {"model": {"preset": "gpt2"}}, "measured": {"params": 124439808, "colour": 1}}
{"id": "b", "plan": {"model": {"preset": "gpt-none"}}, "measured": {"params": 1}}
"#;
    let bench = Bench::with(&[("cases.jsonl", cases)]);
    let done = bench.run(&["validate", "cases.jsonl", "--format", "json"]).exits(1);
    assert!(done.err.starts_with("memwall: cases.jsonl: b: "), "{done:?}");
    let value = done.json();
    assert_eq!(value["summary"]["params"]["max_abs_pct"], 0);
    assert_eq!(value["failed"][0]["id"], "b");
    let rows = value["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["predicted"], &rows[0]["error_pct"]), (&Value::from(124_439_808), &Value::from(0)));
    assert!(rows[1]["predicted"].is_null() && rows[1]["reason"].is_string());

    let text = bench.run(&["validate", "cases.jsonl"]).exits(1).out;
    assert!(text.contains("absolute error in percent by quantity"), "{text}");
    let csv = bench.run(&["validate", "cases.jsonl", "--format", "csv"]).exits(1).out;
    assert!(csv.starts_with("id,group,quantity,measured,predicted,error_pct,reason\n"), "{csv}");
}

#[test]
fn validate_refuses_what_nobody_measures_in_a_line() {
    let case = r#"[{"plan": {"model": {"preset": "gpt2"}}, "measured": {"peak_allocated_bytes": -5}}]"#;
    let bench = Bench::with(&[("negative.json", case), ("empty.json", "[]")]);
    for (file, said) in [
        (
            "negative.json",
            "memwall: negative.json: case 1: `peak_allocated_bytes` is -5: what was measured is above zero\n",
        ),
        ("empty.json", "memwall: empty.json: holds no cases\n"),
    ] {
        let done = bench.run(&["validate", file]);
        assert!(done.code != 0 && done.err == said, "{done:?}");
    }
}

#[test]
fn validate_answers_or_names_every_measured_truth() {
    for file in ["params.json", "allocator.json", "published.json"] {
        let cases = truth::cases(file);
        let file = truth::folder().join(file);
        let done = Bench::new().run(&["validate", file.to_str().unwrap(), "--format", "json"]);
        let value = done.json();
        let failed = value["failed"].as_array().unwrap();
        done.exits(if failed.is_empty() { 0 } else { 1 });
        let told: HashSet<&str> =
            value["rows"].as_array().unwrap().iter().chain(failed).map(|row| row["id"].as_str().unwrap()).collect();
        let asked: HashSet<&str> = cases.iter().map(|case| case["id"].as_str().unwrap()).collect();
        assert_eq!(told, asked);
        assert!(failed.len() * 2 < asked.len(), "{}: {} failed", file.display(), failed.len());
    }
}

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
