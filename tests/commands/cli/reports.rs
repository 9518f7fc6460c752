//! What predictions and searches say, by the names of the contract.

use serde_json::Value;

use super::{Bench, PIPELINE, SMALL, TOO_LARGE};

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
