//! `memwall validate`.

use std::collections::HashSet;

use serde_json::Value;

use super::Bench;
use crate::support::truth;

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
