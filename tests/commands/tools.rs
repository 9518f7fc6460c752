//! What other programs get, and what one look gives: schemas, the Python client, man pages, `--once`, `doctor`, models
//! by name.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Output, errors and exit code.
fn ran(args: &[&str], folder: &Path) -> (String, String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(args).current_dir(folder).env("XDG_CONFIG_HOME", folder.join("config")).stdin(Stdio::null());
    let done = command.env("HF_HOME", folder.join("hf")).env_remove("HF_HUB_CACHE").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(done.stdout), text(done.stderr), done.status.code().unwrap())
}

pub(super) fn in_folder(args: &[&str]) -> (String, String, i32) {
    ran(args, tempfile::tempdir().unwrap().path())
}

fn schema(name: &str) -> Value {
    let (out, err, code) = in_folder(&["schema", name]);
    assert_eq!((err.as_str(), code), ("", 0));
    serde_json::from_str(&out).unwrap()
}

/// What is wrong with a value by JSON Schema, draft 7, as far as the schemas here use it.
fn wrong(value: &Value, rule: &Value, root: &Value, at: &str) -> Vec<String> {
    if let Some(reference) = rule["$ref"].as_str() {
        return wrong(value, root.pointer(&reference[1..]).unwrap(), root, at);
    }
    let mut found = Vec::new();
    if let Some(choices) = rule["anyOf"].as_array() {
        let of_each: Vec<Vec<String>> = choices.iter().map(|rule| wrong(value, rule, root, at)).collect();
        if of_each.iter().all(|faults| !faults.is_empty()) {
            found.extend(of_each.into_iter().flatten());
        }
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        other => panic!("{other}"),
    };
    let kinds: Vec<&str> = match &rule["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.into_iter().any(is) {
        found.push(format!("{at}: {value} is none of {}", rule["type"]));
    }
    if rule["enum"].as_array().is_some_and(|choices| !choices.contains(value)) {
        found.push(format!("{at}: {value} is none of {}", rule["enum"]));
    }
    if let Some((text, pattern)) = value.as_str().zip(rule["pattern"].as_str())
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        found.push(format!("{at}: {text} does not match {pattern}"));
    }
    if let Some(number) = value.as_f64() {
        let holds =
            |name: &str, test: fn(f64, f64) -> bool| rule[name].as_f64().is_none_or(|bound| test(number, bound));
        let within = holds("minimum", |one, bound| one >= bound)
            && holds("maximum", |one, bound| one <= bound)
            && holds("exclusiveMinimum", |one, bound| one > bound)
            && holds("exclusiveMaximum", |one, bound| one < bound);
        if !within {
            found.push(format!("{at}: {number} is out of bounds"));
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(wrong(item, &rule["items"], root, &format!("{at}[{index}]")));
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{at}.{key}");
        match (rule["properties"].get(key), &rule["additionalProperties"]) {
            (Some(rule), _) => found.extend(wrong(inner, rule, root, &path)),
            (None, Value::Bool(false)) => found.push(format!("{path} is not known")),
            (None, others) => found.extend(wrong(inner, others, root, &path)),
        }
    }
    for key in rule["required"].as_array().into_iter().flatten().filter(|_| value.is_object()) {
        if value.get(key.as_str().unwrap()).is_none() {
            found.push(format!("{at}: {key} is missing"));
        }
    }
    found
}

fn files(folder: &str) -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_plans_schema_takes_every_example_and_refuses_what_the_reader_refuses() {
    let schema = schema("plan");
    let plans = files("configs/plans");
    assert!(plans.len() >= 10);
    for file in plans {
        let plan: Value = serde_yaml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(wrong(&plan, &schema, &schema, "plan"), Vec::<String>::new(), "{}", file.display());
    }
    // As a reader of YAML 1.1 hands on `1.5e13` and `8e0`.
    let as_texts =
        json!({"run": {"total_tokens": "1.5e13"}, "model": {"batch_size": "8e0"}, "training": {"dropout": "1E-1"}});
    assert_eq!(wrong(&as_texts, &schema, &schema, "plan"), Vec::<String>::new());
    for plan in [
        json!({"run": {"total_tokens": "many"}}),
        json!({"model": {"presett": "gpt2"}}),
        json!({"training": {"precision": "bf17"}}),
        json!({"model": {"batch_size": 0}}),
        json!({"model": {"batch_size": "8"}}),
        json!({"training": {"lora": {"base_bits": 5}}}),
        json!({"training": {"dropout": 1}}),
        json!({"training": {"activation_checkpointing": {"every": 0}}}),
        json!([]),
    ] {
        assert!(!wrong(&plan, &schema, &schema, "plan").is_empty(), "{plan}");
    }
    assert!(schema["properties"]["training"]["properties"]["optimizer"]["description"].as_str().unwrap().len() > 40);
}

#[test]
fn the_reports_schema_names_every_key_of_real_reports() {
    let schema = schema("report");
    for file in files("configs/plans") {
        let (out, _, code) = in_folder(&["predict", file.to_str().unwrap(), "--format", "json", "--bottlenecks"]);
        assert!(matches!(code, 0 | 3));
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(wrong(&report, &schema, &schema, "report"), Vec::<String>::new(), "{}", file.display());
        let known = schema["properties"].as_object().unwrap();
        let unknown: Vec<&String> =
            report.as_object().unwrap().keys().filter(|key| !known.contains_key(*key)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        for list in ["stages", "terms", "timeline", "bottlenecks"] {
            let known = known[list]["items"]["properties"].as_object().unwrap();
            for entry in report[list].as_array().unwrap() {
                assert!(entry.as_object().unwrap().keys().eq(known.keys()), "{list}: {entry}");
            }
        }
    }
}

#[test]
fn recordings_and_cases_are_as_their_schemas_say() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/plans/8b_single_gpu.yaml");
    let record = ["record", "-o", "a.jsonl", "--source", "demo", "--duration", "1s", "--interval", "100ms"];
    let (_, err, code) = ran(&[&record[..], &[plan.to_str().unwrap()]].concat(), folder.path());
    assert_eq!((err.as_str(), code), ("", 0));
    let schema_of_lines = schema("recording");
    let text = fs::read_to_string(folder.path().join("a.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 3);
    // What a simulated run tells is its own: a replay compares it with the plan.
    assert_eq!(lines[0]["attach"], lines.last().unwrap()["processes"][0]["pid"], "{}", lines[0]);
    for line in &lines {
        assert_eq!(wrong(line, &schema_of_lines, &schema_of_lines, "line"), Vec::<String>::new());
    }
    assert!(!wrong(&json!({"colour": 1}), &schema_of_lines, &schema_of_lines, "line").is_empty());
    let schema_of_cases = schema("cases");
    for file in ["params.json", "allocator.json"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/truth").join(file));
        let Ok(text) = text else { continue };
        let cases: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(wrong(&cases, &schema_of_cases, &schema_of_cases, "cases"), Vec::<String>::new(), "{file}");
    }
    let good = json!([{"id": "a", "plan": {"model": {"preset": "gpt2"}}, "measured": {"params": 1, "fits": true}}]);
    assert_eq!(wrong(&good, &schema_of_cases, &schema_of_cases, "cases"), Vec::<String>::new());
    for bad in [json!([{"id": "a", "plan": {}}]), json!([{"plan": {"modle": 1}, "measured": {}}])] {
        assert!(!wrong(&bad, &schema_of_cases, &schema_of_cases, "cases").is_empty(), "{bad}");
    }
}

/// What a program would do with the client: published counts, faults, many plans, sweeps, a path.
const CLIENT: &str = r#"
import os, sys
import memwall

gpt2 = {"model": {"preset": "gpt2", "batch_size": 8}, "hardware": {"gpu_type": "NVIDIA H100"}}
medium = {"model": {"preset": "gpt2-medium", "batch_size": 8}}
assert memwall.predict(gpt2)["params"]["total"] == 124439808
assert memwall.predict("model:\n  preset: gpt2-medium\n")["params"]["total"] == 354823168
assert memwall.predict(gpt2)["bottlenecks"] == []
try:
    memwall.predict({"training": {"precision": "bf17"}})
    sys.exit("a faulty plan was predicted")
except memwall.PlanError as error:
    assert error.faults[0]["key"] == "training.precision", error.faults
    assert "bf17" in str(error)
# The process that answered that goes on.
assert memwall.predict(medium)["params"]["total"] == 354823168

plans = (gpt2 if at % 2 else {"modle": 1} if at == 30 else medium for at in range(200))
totals = [report["params"]["total"] if "params" in report else report["faults"][0]["key"]
          for report in memwall.predict_all(plans)]
assert len(totals) == 200 and totals[30] == "modle" and totals[31] == 124439808 and totals[32] == 354823168, totals
# Answers that nobody reads are not taken for others.
for report in memwall.predict_all([gpt2] * 20):
    break
assert memwall.predict(medium)["params"]["total"] == 354823168

largest = memwall.max_batch_size(gpt2)
assert largest["batch_size"] > 8 and "max_sequence_length" not in largest, largest
rows = memwall.sweep(gpt2, {"batch_size": [8, 16]})["rows"]
assert [row["model.batch_size"] for row in rows] == ["8", "16"] or [row["model.batch_size"] for row in rows] == [8, 16], rows
best = memwall.search({**gpt2, "cluster": {"num_gpus": 2}}, top=3)
assert best, best
cases = [{"id": "a", "plan": {"model": {"preset": "gpt2"}}, "measured": {"params": 124439808}}]
assert memwall.validate(cases)["summary"]["params"]["max_abs_pct"] == 0
with open("plan.json", "w") as file:
    file.write('{"model": {"hf_config": "config.json"}}')
with open("config.json", "w") as file:
    file.write('{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2}')
# Two blocks of 12 x 768^2 + 13 x 768, embeddings and the last norm.
by_hand = 50257 * 768 + 1024 * 768 + 2 * 768 + 2 * (12 * 768 * 768 + 13 * 768)
assert memwall.predict("plan.json")["params"]["total"] == by_hand
try:
    memwall.infer(2**31 - 7)
    sys.exit("a process that is not there has a plan")
except memwall.MemwallError as error:
    assert error.code == 1, error.code
try:
    memwall.Client("/nonexistent/memwall").predict(gpt2)
    sys.exit("no program answered")
except memwall.MemwallError:
    pass
with memwall.Client() as client:
    assert client.predict(gpt2, bottlenecks=True)["params"]["total"] == 124439808
try:
    import pandas
    table = memwall.frame(memwall.predict_all([gpt2, medium]))
    assert list(table["params.total"]) == [124439808, 354823168]
except ImportError:
    pass
print("done")
"#;

#[test]
fn the_python_client_answers() {
    let python = std::env::var("MEMWALL_TEST_PYTHON").unwrap_or_else(|_| "/usr/bin/python3".to_owned());
    if !Path::new(&python).exists() {
        println!("{python} is not there: the client is not tried");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (module, _, code) = ran(&["python"], folder.path());
    assert_eq!(code, 0);
    fs::write(folder.path().join("memwall.py"), module).unwrap();
    fs::write(folder.path().join("client.py"), CLIENT).unwrap();
    let mut command = Command::new(python);
    command.args(["-W", "error::SyntaxWarning", "client.py"]).current_dir(folder.path());
    command.env("MEMWALL", env!("CARGO_BIN_EXE_memwall")).env("XDG_CONFIG_HOME", folder.path().join("config"));
    let done = command.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && done.stdout.starts_with(b"done"), "{told}");
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let (_, err, code) = ran(&["man", "--output", "pages"], folder.path());
    assert_eq!((err.as_str(), code), ("", 0));
    let (page, ..) = ran(&["man", "predict"], folder.path());
    assert!(page.contains(".TH memwall-predict 1") && page.contains("max\\-batch\\-size"), "{page}");
    assert_eq!(fs::read_to_string(folder.path().join("pages/memwall-predict.1")).unwrap(), page);
    let program = fs::read_to_string(folder.path().join("pages/memwall.1")).unwrap();
    assert!(program.starts_with(".ie") && program.contains("memwall\\-doctor"), "{program}");
    let (_, err, code) = ran(&["man", "prdict"], folder.path());
    assert!(code == 2 && err.starts_with("memwall: man: no command `prdict`"), "{err}");
}

#[test]
fn one_look_at_the_simulated_run_tells_gpu_plan_and_verdict() {
    let (out, err, code) = in_folder(&["--once", "--json", "--source", "demo", "--interval", "100ms"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let seen: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(seen["source"]["kind"], "demo");
    assert_eq!(seen["plan"]["name"], "13b_long_sequence");
    let gpu = &seen["gpus"][0];
    // The run of the demo holds about what its plan predicts.
    let (held, predicted) = (gpu["memory_used"].as_f64().unwrap(), seen["plan"]["device_used"].as_f64().unwrap());
    assert!((held / predicted - 1.0).abs() < 0.1, "{held} {predicted}");
    assert!(seen["run"]["pid"].is_u64() && seen["verdict"]["words"].is_string(), "{seen}");
    let (out, _, code) = in_folder(&["--once", "--source", "demo", "--interval", "100ms"]);
    let starts: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(code == 0 && starts.contains(&"GPU") && starts.contains(&"verdict"), "{out}");
    assert!(!out.contains('\x1b'));
}

#[test]
fn without_a_terminal_there_is_a_hint() {
    let (out, err, _) = in_folder(&["--source", "demo", "--interval", "100ms"]);
    assert!(err.starts_with("memwall: no terminal for the dashboard: this is `memwall --once`"), "{err}");
    assert!(out.contains("verdict"), "{out}");
    let (_, err, code) = in_folder(&["--json"]);
    assert!(code == 2 && err.contains("--once"), "{err}");
}

#[test]
fn the_doctor_names_what_is_broken() {
    let (out, _, code) = in_folder(&["doctor"]);
    assert!(matches!(code, 0 | 1), "{out}");
    for name in ["memwall", "driver", "processes", "clock", "hook", "python", "terminal", "files"] {
        assert!(out.lines().any(|line| line.split_whitespace().nth(1) == Some(name)), "{name}: {out}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("config/memwall")).unwrap();
    fs::write(folder.path().join("config/memwall/gpus.yaml"), "gpus: 3\n").unwrap();
    let (out, _, code) = ran(&["doctor"], folder.path());
    assert!(code == 1 && out.lines().any(|line| line.starts_with("broken") && line.contains("gpus.yaml")), "{out}");
}

#[test]
fn a_model_is_predicted_by_its_name() {
    let answer = |args: &[&str]| {
        let (out, err, code) = in_folder(&[args, &["--format", "json"]].concat());
        assert!(matches!(code, 0 | 3), "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let quick = ["predict", "llama-3-8b", "--inference", "--context", "32768", "--batch", "8"];
    let report = answer(&quick);
    assert_eq!(report["params"]["total"], 8_030_261_248_u64);
    // 32 layers, keys and values, 8 heads of 128, 2 bytes: 131072 bytes a token, for 8 x 32768 of them.
    assert_eq!(report["memory"]["components"]["kv_cache"], 131_072_u64 * 8 * 32_768);
    assert_eq!(report["memory"]["components"]["parameters"], 8_030_261_248_u64 * 2);
    // FP8: matrices of the blocks 1 byte, 2 x 128256 x 4096 of embedding and head and 65 norms of 4096 stay at 2.
    let rest = 2 * 128_256 * 4096 + 65 * 4096_u64;
    let eight = answer(&[&quick[..], &["--bits", "8"]].concat());
    assert_eq!(eight["memory"]["components"]["parameters"], 8_030_261_248 + rest);
    // 4 bits with 20 bits of scale and zero point for 128 of them.
    let four = answer(&[&quick[..], &["--bits", "4"]].concat());
    let found = four["memory"]["components"]["parameters"].as_u64().unwrap() as f64;
    let by_hand = (8_030_261_248 - rest) as f64 * (4.0 + 20.0 / 128.0) / 8.0 + 2.0 * rest as f64;
    assert!((found / by_hand - 1.0).abs() < 0.001, "{found} for {by_hand}");
    for (args, told) in [
        (&["predict", "llama-3-8b", "--bits", "8"][..], "--inference"),
        (&["predict", "none.yaml", "--inference"], "--inference goes with the name of a model"),
        (&["predict", "transformer", "7", "1", "--context", "9"], "--context goes with the name of a model"),
    ] {
        let (_, err, code) = in_folder(args);
        assert!(code == 2 && err.contains(told), "{err}");
    }
}

#[test]
fn a_model_that_was_downloaded_is_found_by_its_name_on_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("hf/hub/models--someone--two-layers/snapshots/abc");
    fs::create_dir_all(&snapshot).unwrap();
    let config = r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2}"#;
    fs::write(snapshot.join("config.json"), config).unwrap();
    let (out, err, _) = ran(&["predict", "someone/two-layers", "--format", "json"], folder.path());
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
    let by_hand = 50257 * 768 + 1024 * 768 + 2 * 768 + 2 * (12 * 768 * 768 + 13 * 768);
    assert_eq!(report["params"]["total"], by_hand);
    // Of the catalogue where it was not downloaded.
    let (out, ..) = ran(&["predict", "openai-community/gpt2", "--format", "json"], folder.path());
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["params"]["total"], 124_439_808);
}
