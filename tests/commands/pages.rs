//! What commands print at 80 columns: no line is wider, so that no terminal breaks a word.

use std::path::Path;
use std::process::Command;

use crate::support::truth;

/// A plan of each kind, and what foreign tools leave.
const PLANS: [&str; 10] = [
    "13b_long_sequence",
    "70b_hybrid_training",
    "7b_inference",
    "7b_lora",
    "8b_fsdp_torchtitan",
    "8b_single_gpu",
    "gpt2_nanogpt",
    "hybrid_example",
    "moe_expert_parallel",
    "own_model_and_gpu",
];

fn printed(folder: &Path, line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command
        .args(line.split(' '))
        .current_dir(folder)
        .env("COLUMNS", "80")
        .env("XDG_CONFIG_HOME", folder.join("config"));
    let done = command.output().unwrap();
    assert!(matches!(done.status.code(), Some(0 | 3)), "{line}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// A word that is longer than a line stands alone on it: nothing else can be done with it.
fn fits(line: &str) -> bool {
    line.chars().count() <= 80 || line.split_whitespace().count() == 1
}

fn hold(folder: &Path, lines: &[String]) {
    for line in lines {
        let text = printed(folder, line);
        assert!(!text.is_empty() && !text.contains('\x1b'), "{line}: {text}");
        let wide: Vec<&str> = text.lines().filter(|line| !fits(line)).collect();
        assert!(wide.is_empty(), "memwall {line} passes 80 columns: {wide:#?}");
    }
}

fn plans() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/plans")
}

#[test]
fn reports_of_every_example_plan_fit_80_columns() {
    let mut lines = Vec::new();
    for plan in PLANS {
        lines.push(format!("predict {plan}.yaml --verbose --bottlenecks"));
        lines.push(format!("roofline {plan}.yaml --op mine=1e12:1e10"));
        lines.push(format!("sweep {plan}.yaml --vary batch_size=1..64x2 --vary precision=bf16,fp32"));
    }
    hold(&plans(), &lines);
}

#[test]
fn searches_catalogues_and_measured_cases_fit_80_columns() {
    let cases = truth::folder().join("llm-foundry.json").display().to_string();
    let mut lines: Vec<String> = ["search 8b_single_gpu.yaml", "search hybrid_example.yaml --fewest-gpus"]
        .into_iter()
        .chain(["gpus", "gpus --verbose", "models", "models --verbose", "config", "config --example"])
        .chain(["--theme", "explain", "models --fit RTX4090 --train lora", "models --scales H100"])
        .map(str::to_owned)
        .collect();
    lines.push(format!("validate {cases}"));
    hold(&plans(), &lines);
}

/// Plans as they are printed, whose comments say where each value is from.
#[test]
fn plans_fit_80_columns_and_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --bf16\n";
    std::fs::write(folder.path().join("train.sh"), script).unwrap();
    let mut lines: Vec<String> = PLANS.iter().map(|name| format!("new {name}")).collect();
    lines.extend(["new llama-3-8b", "new", "import train.sh", "infer train.sh"].map(str::to_owned));
    hold(folder.path(), &lines);
    for line in lines {
        let text = printed(folder.path(), &line);
        memwall::plan::Document::parse(&text).unwrap_or_else(|faults| panic!("{line}: {faults:?}\n{text}"));
    }
}

#[test]
fn every_help_fits_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    let help = printed(folder.path(), "help");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // What a command does may go on below its name, further in.
    let named = |line: &&str| !line.starts_with("    ");
    let names: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter(named)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"predict"), "{help}");
    let topics = help.lines().skip_while(|line| *line != "Topics:").skip(1);
    let topics =
        topics.take_while(|line| !line.is_empty()).filter(named).filter_map(|line| line.split_whitespace().next());
    let lines: Vec<String> = names.into_iter().chain(topics).map(|name| format!("help {name}")).collect();
    hold(folder.path(), &lines);
}

/// A size of a kind is a model that is given; a plan that names none is about somebody else's.
#[test]
fn only_a_plan_that_says_nothing_of_a_model_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    for (name, model, told) in [
        ("none", "preset:", true),
        ("decoder", "size_billions: 7", false),
        ("encoder", "{type: transformer_encoder, size_billions: 1}", false),
    ] {
        let model = if model.starts_with('{') { format!("model: {model}\n") } else { format!("model:\n  {model}\n") };
        std::fs::write(folder.path().join(format!("{name}.yaml")), model).unwrap();
        let said = printed(folder.path(), &format!("predict {name}.yaml"));
        assert_eq!(said.contains("no model is given"), told, "{said}");
    }
}
