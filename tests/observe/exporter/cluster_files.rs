//! The files under `configs/cluster/`: each is valid for the program that reads it, and names metrics that there are.

use std::collections::BTreeSet;
use std::process::Command;

use memwall::cli::EXPORTED_METRICS;
use serde_json::Value;

use super::{hold, installed, path};

const FILES: [(&str, &str); 5] = [
    ("prometheus", "prometheus.yml"),
    ("rules", "memwall.rules.yml"),
    ("grafana", "grafana.json"),
    ("systemd", "memwall-exporter.service"),
    ("kubernetes", "memwall-exporter.yaml"),
];

fn read(file: &str) -> String {
    std::fs::read_to_string(path("configs/cluster").join(file)).unwrap()
}

/// Every name in an expression that looks like a metric of ours: exported, or recorded by the rules.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let names = text.split(|letter| !is_name(letter)).filter(|name| name.starts_with("memwall"));
    names.filter(|name| name.starts_with("memwall_") || name.starts_with("memwall:")).map(str::to_owned).collect()
}

fn known_metrics() -> BTreeSet<String> {
    let rules: serde_yaml::Value = serde_yaml::from_str(&read("memwall.rules.yml")).unwrap();
    let groups = rules["groups"].as_sequence().unwrap();
    let all = groups.iter().flat_map(|group| group["rules"].as_sequence().unwrap());
    let recorded = all.filter_map(|rule| rule["record"].as_str()).map(str::to_owned);
    EXPORTED_METRICS.iter().map(|family| family.name.to_owned()).chain(recorded).collect()
}

#[test]
fn an_installed_program_prints_them() {
    for (name, file) in FILES {
        let output = Command::new(env!("CARGO_BIN_EXE_memwall")).args(["exporter", "--print", name]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), read(file), "{name}");
    }
    let listed = std::fs::read_dir(path("configs/cluster")).unwrap().count();
    assert_eq!(listed, FILES.len(), "a file that nothing prints");
}

#[test]
fn prometheus_takes_its_configuration_and_rules() {
    if !installed("promtool") {
        return;
    }
    hold(&["check", "config", path("configs/cluster/prometheus.yml").to_str().unwrap()], "");
    hold(&["check", "rules", path("configs/cluster/memwall.rules.yml").to_str().unwrap()], "");
    hold(&["test", "rules", path("tests/cluster/rules_test.yml").to_str().unwrap()], "");
}

#[test]
fn rules_name_metrics_that_are_exported() {
    let unknown: Vec<String> = metrics_in(&read("memwall.rules.yml")).difference(&known_metrics()).cloned().collect();
    assert_eq!(unknown, Vec::<String>::new());
}

/// The expressions of a dashboard, with its variables replaced as Grafana does for `All`.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let replaced =
        |text: &str| ["$job", "$instance", "$run"].iter().fold(text.to_owned(), |text, name| text.replace(name, ".*"));
    targets.map(|target| replaced(target["expr"].as_str().unwrap())).collect()
}

#[test]
fn the_dashboard_is_whole_and_its_expressions_can_be_read() {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    for key in ["uid", "title", "schemaVersion", "templating", "time"] {
        assert!(!dashboard[key].is_null(), "{key}");
    }
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels share an id");
    let mut taken: BTreeSet<(u64, u64)> = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title}: Grafana's grid has 24 columns");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{title} lies over another panel");
            }
        }
        if panel["type"] != "row" {
            assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{title}");
            assert!(panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{title}");
        }
    }
    let expressions = expressions(&dashboard);
    let known = known_metrics();
    for expression in &expressions {
        let names = metrics_in(expression);
        assert!(!names.is_empty() && names.is_subset(&known), "{expression}: {names:?}");
    }
    if installed("promtool") {
        let rule = |(number, expression): (usize, &String)| serde_json::json!({ "record": format!("panel:{number}"), "expr": expression });
        let rules: Vec<Value> = expressions.iter().enumerate().map(rule).collect();
        let file = tempfile::Builder::new().suffix(".yml").tempfile().unwrap();
        let group = serde_json::json!({ "groups": [{ "name": "panels", "rules": rules }] });
        std::fs::write(file.path(), group.to_string()).unwrap();
        hold(&["check", "rules", file.path().to_str().unwrap()], "");
    }
}

#[test]
fn systemd_takes_the_unit() {
    let unit = read("memwall-exporter.service");
    for line in ["[Unit]", "[Service]", "[Install]", "DynamicUser=yes"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    let program = env!("CARGO_BIN_EXE_memwall");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/memwall ")).unwrap();
    assert!(start.starts_with("exporter --listen 127.0.0.1:"), "{start}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memwall-exporter.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/memwall", program)).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&file).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => eprintln!("not run: systemd-analyze is not installed"),
    }
}

#[test]
fn the_daemon_set_has_what_kubernetes_requires() {
    let text = read("memwall-exporter.yaml");
    let documents: Vec<serde_yaml::Value> =
        text.split("\n---\n").map(|document| serde_yaml::from_str(document).unwrap()).collect();
    let [namespace, set] = documents.as_slice() else { panic!("{} documents", documents.len()) };
    assert_eq!((namespace["kind"].as_str(), namespace["apiVersion"].as_str()), (Some("Namespace"), Some("v1")));
    assert_eq!((set["kind"].as_str(), set["apiVersion"].as_str()), (Some("DaemonSet"), Some("apps/v1")));
    assert_eq!(set["metadata"]["namespace"], namespace["metadata"]["name"]);
    // A set whose selector does not choose its own pods is refused.
    let (selector, template) = (&set["spec"]["selector"]["matchLabels"], &set["spec"]["template"]);
    for (label, wanted) in selector.as_mapping().unwrap() {
        assert_eq!(template["metadata"]["labels"].get(label), Some(wanted), "{label:?}");
    }
    let pod = &template["spec"];
    let [container] = pod["containers"].as_sequence().unwrap().as_slice() else { panic!("one container") };
    assert!(container["name"].is_string() && container["image"].is_string(), "{container:?}");
    let words: Vec<&str> =
        container["command"].as_sequence().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let port = container["ports"][0]["containerPort"].as_u64().unwrap();
    assert_eq!(words, ["memwall", "exporter", "--listen", &format!("0.0.0.0:{port}")]);
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["path"].as_str(), Some("/-/healthy"), "{probe}");
    }
    // It must not take a GPU from a training.
    assert!(container["resources"]["limits"].get("nvidia.com/gpu").is_none());
}
