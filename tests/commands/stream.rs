//! `memwall predict -`: a stream of plans, answered as it arrives.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Parameters as their papers and configurations count them (`params` of `configs/models.yaml`).
const GPT2: u64 = 124_439_808;
const GPT2_MEDIUM: u64 = 354_823_168;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.arg("predict").arg("-").args(args).env("XDG_CONFIG_HOME", "/nonexistent");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn plan(preset: &str) -> String {
    format!("{}\n", json!({"model": {"preset": preset, "batch_size": 8}, "hardware": {"gpu_type": "NVIDIA H100"}}))
}

/// Output, errors and exit code of a stream that is given whole.
fn answered(args: &[&str], stream: &str) -> (String, String, i32) {
    let mut child = command(args).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let stream = stream.to_owned();
    // Written beside, because answers come before the stream ends.
    let writer = std::thread::spawn(move || drop(input.write_all(stream.as_bytes())));
    let done = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(done.stdout), text(done.stderr), done.status.code().unwrap())
}

fn reports(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn line(out: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn opened(args: &[&str]) -> (Child, std::process::ChildStdin, BufReader<ChildStdout>) {
    let mut child = command(args).spawn().unwrap();
    let (input, out) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    (child, input, out)
}

#[test]
fn a_plan_is_answered_before_the_next_one_is_written() {
    let (mut child, mut input, mut out) = opened(&["--format", "json"]);
    for (number, (preset, params)) in [("gpt2", GPT2), ("gpt2-medium", GPT2_MEDIUM), ("gpt2", GPT2)].iter().enumerate()
    {
        input.write_all(plan(preset).as_bytes()).unwrap();
        let report = line(&mut out);
        assert_eq!(report["params"]["total"], *params);
        assert_eq!(report["plan"], format!("stdin#{}", number + 1));
    }
    // A YAML document is complete where the next one begins.
    input.write_all(b"---\nmodel:\n  preset: gpt2-medium\n---\n").unwrap();
    assert_eq!(line(&mut out)["params"]["total"], GPT2_MEDIUM);
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn answers_come_in_the_order_of_the_stream() {
    let presets: Vec<&str> = (0..400).map(|at| if at % 3 == 0 { "gpt2" } else { "gpt2-medium" }).collect();
    let stream: String = presets.iter().map(|preset| plan(preset)).collect();
    let (out, err, code) = answered(&["--format", "json"], &stream);
    assert_eq!((err.as_str(), code), ("", 0));
    let found: Vec<(String, u64)> = reports(&out)
        .iter()
        .map(|report| (report["plan"].as_str().unwrap().to_owned(), report["params"]["total"].as_u64().unwrap()))
        .collect();
    let params = |preset: &&str| if *preset == "gpt2" { GPT2 } else { GPT2_MEDIUM };
    let expected: Vec<(String, u64)> =
        presets.iter().enumerate().map(|(at, preset)| (format!("stdin#{}", at + 1), params(preset))).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_bad_plan_is_told_by_its_number_and_the_rest_is_answered() {
    let stream = format!("{}{{\"model\": {{\"presett\": 1}}}}\nmodel: [\n---\n{}", plan("gpt2"), plan("gpt2-medium"));
    let (out, err, code) = answered(&["--format", "json"], &stream);
    assert_eq!(code, 2);
    let names: Vec<Value> = reports(&out).into_iter().map(|mut report| report["plan"].take()).collect();
    assert_eq!(names, ["stdin#1", "stdin#4"]);
    let lines: Vec<&str> = err.lines().collect();
    // The second line of the stream, and the third.
    assert!(lines[0].starts_with("memwall: stdin#2:2:12: model.presett: "), "{err}");
    assert!(lines[1].starts_with("memwall: stdin#3:") && lines.len() == 2, "{err}");
}

#[test]
fn with_faults_each_plan_has_a_line() {
    let stream = format!("{}{{\"training\": {{\"precision\": \"bf17\"}}}}\n{}", plan("gpt2"), plan("gpt2"));
    let (out, err, code) = answered(&["--format", "json", "--faults"], &stream);
    assert_eq!((err.as_str(), code), ("", 2));
    let reports = reports(&out);
    assert_eq!(reports.len(), 3);
    assert_eq!(reports[1]["plan"], "stdin#2");
    assert_eq!(reports[1]["faults"][0]["key"], "training.precision");
    assert_eq!(reports[1]["faults"][0]["line"], 2);
    for args in [&["--faults"][..], &["--faults", "--format", "csv"]] {
        let (_, err, code) = answered(args, &plan("gpt2"));
        assert!(code == 2 && err.starts_with("memwall: --faults goes with "), "{err}");
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let (mut child, mut input, mut out) = opened(&["--format", "json"]);
    let writer = std::thread::spawn(move || {
        let plan = plan("gpt2").repeat(50);
        // Until the program has gone.
        while input.write_all(plan.as_bytes()).is_ok() {}
    });
    line(&mut out);
    drop(out);
    writer.join().unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((told.as_str(), child.wait().unwrap().code()), ("", Some(0)));
}

#[test]
fn a_stream_is_written_to_a_file_and_what_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.csv");
    let stream = format!("{}{}", plan("gpt2"), plan("gpt2-medium"));
    let (out, err, code) = answered(&["--output", file.to_str().unwrap()], &stream);
    assert_eq!((out.as_str(), err.as_str(), code), ("", "", 0));
    let rows: Vec<String> = std::fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
    assert!(rows.len() == 3 && rows[0].starts_with("plan,model,") && rows[2].starts_with("stdin#2,"), "{rows:?}");
    let (_, err, code) = answered(&["--output", "/nonexistent/all.jsonl"], &stream);
    assert!(code == 1 && err.starts_with("memwall: /nonexistent/all.jsonl: "), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn fixes_are_predicted_where_they_are_asked_for() {
    let stream = "model: {type: transformer, size_billions: 70, batch_size: 8}\nhardware: {gpu_type: NVIDIA H100}\n";
    let (out, _, code) = answered(&["--format", "json"], stream);
    assert_eq!((reports(&out)[0]["bottlenecks"].clone(), code), (json!([]), 3));
    let (out, _, _) = answered(&["--format", "json", "--bottlenecks"], stream);
    assert_eq!(reports(&out)[0]["bottlenecks"][0]["kind"], "does_not_fit");
    let asked = format!("{stream}analysis: {{enable_bottlenecks: true}}\n");
    let (out, _, _) = answered(&["--format", "json"], &asked);
    assert_eq!(reports(&out)[0]["bottlenecks"][0]["kind"], "does_not_fit");
}

#[test]
fn reports_as_text_are_those_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["gpt2", "gpt2-medium"].map(|preset| {
        let file = folder.path().join(format!("{preset}.json"));
        std::fs::write(&file, plan(preset)).unwrap();
        file
    });
    let done = Command::new(env!("CARGO_BIN_EXE_memwall")).arg("predict").args(&files).output().unwrap();
    let (out, ..) = answered(&[], &format!("{}{}", plan("gpt2"), plan("gpt2-medium")));
    let mut of_files = String::from_utf8(done.stdout).unwrap();
    for (number, file) in files.iter().enumerate() {
        of_files = of_files.replace(file.to_str().unwrap(), &format!("stdin#{}", number + 1));
    }
    assert_eq!(out, of_files);
}

#[test]
fn garbage_between_plans_costs_only_its_own_answer() {
    for garbage in ["}}}}\n", "\u{0}\u{1}\n", "- a\n- b\n", "{\"a\": \"\n", "\t- : {\n"] {
        let stream = format!("{}---\n{garbage}---\n{}", plan("gpt2"), plan("gpt2-medium"));
        let (out, err, code) = answered(&["--format", "json"], &stream);
        let params: Vec<Value> = reports(&out).iter().map(|report| report["params"]["total"].clone()).collect();
        assert_eq!(params, [GPT2, GPT2_MEDIUM], "{garbage:?}");
        assert!(code == 2 && err.lines().all(|line| line.starts_with("memwall: stdin#2:")), "{garbage:?}: {err}");
    }
}

/// PyYAML reads YAML 1.1, where `3e9` and `1.5e13` are texts: so a client hands them on.
#[test]
fn a_number_that_yaml_1_1_takes_for_a_text_is_read() {
    let of = |tokens: Value| {
        let plan = json!({"model": {"preset": "gpt2", "batch_size": "8e0"}, "hardware": {"gpu_type": "NVIDIA H100"},
                          "run": {"total_tokens": tokens}});
        answered(&["--format", "json"], &format!("{plan}\n"))
    };
    let (as_text, err, code) = of(json!("1.5e13"));
    assert_eq!(code, 0, "{err}");
    assert_eq!(reports(&as_text)[0]["time"], reports(&of(json!(1.5e13)).0)[0]["time"]);
    assert_eq!(reports(&as_text)[0]["setup"]["batch"]["global"], 8);
    for text in ["15000000000000", "many", "1.5e"] {
        let (_, err, code) = of(json!(text));
        assert!(code == 2 && err.contains("run.total_tokens"), "{text}: {err}");
    }
}
