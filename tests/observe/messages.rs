//! Out-of-memory messages of public issues, read by eye: every amount, whose memory it is, what is advised.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use memwall::advise::shortage;
use memwall::observe::out_of_memory::{find, unexplained};
use memwall::reading::OutOfMemory;
use memwall::reading::UnexplainedFailure;
use memwall::units::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    source: String,
    text: String,
    expect: BTreeMap<String, Value>,
    /// Parts of advice that must be there.
    #[serde(default)]
    helps: Vec<String>,
    /// Parts of advice that must not be there.
    #[serde(default)]
    never: Vec<String>,
}

/// `32.00 MiB` in bytes.
fn amount(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let power = ["B", "KiB", "MiB", "GiB"].iter().position(|known| *known == unit)?;
    Some(number.parse::<f64>().ok()? * 1024_f64.powi(i32::try_from(power).ok()?))
}

/// Amounts that differ by no more than their last written digit; sums of two by twice that.
fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(text), Value::Number(bytes)) if amount(text).is_some() => {
            let wanted = amount(text).unwrap();
            (bytes.as_f64().unwrap() - wanted).abs() <= (wanted * 0.006).max(1.0)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (a, b) => a == b,
    }
}

fn told(oom: &OutOfMemory) -> Value {
    let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0);
    json!({
        "backend": oom.backend, "memory": oom.kind.word(), "device": oom.device, "own_pid": oom.own_pid,
        "process": oom.process, "asked": bytes(oom.asked), "capacity": bytes(oom.capacity), "free": bytes(oom.free),
        "allowed": bytes(oom.allowed), "allocated": bytes(oom.allocated), "private_pools": bytes(oom.private_pools),
        "unallocated": bytes(oom.unallocated), "in_process": bytes(oom.in_process),
        "cache": oom.cache.map(|cache| json!([cache.wanted, cache.there])),
        "others": oom.others.iter().map(|(pid, held)| json!([pid, held.0])).collect::<Vec<_>>(),
    })
}

fn faults(message: &Message) -> Vec<String> {
    let found = find(&message.text);
    if message.expect.contains_key("killed_without_reason") {
        let good = found.is_none() && unexplained(&message.text) == Some(UnexplainedFailure::Killed);
        return if good { Vec::new() } else { vec![format!("{found:?}")] };
    }
    let Some(oom) = found else { return vec!["refused".to_owned()] };
    let told = told(&oom);
    let mut faults: Vec<String> = message
        .expect
        .iter()
        .filter(|(key, value)| !same(value, &told[key.as_str()]))
        .map(|(key, value)| format!("{key}: {} instead of {value}", told[key.as_str()]))
        .collect();
    let helps = shortage(&oom, None).helps.join("\n");
    faults
        .extend(message.helps.iter().filter(|part| !helps.contains(part.as_str())).map(|part| format!("no `{part}`")));
    faults.extend(
        message.never.iter().filter(|part| helps.contains(part.as_str())).map(|part| format!("advises `{part}`")),
    );
    if !faults.is_empty() {
        faults.push(helps);
    }
    faults
}

#[test]
fn every_amount_of_public_messages_is_read_and_the_advice_is_sound() {
    let text = std::fs::read_to_string("tests/out_of_memory/messages.yaml").unwrap();
    let messages: Vec<Message> = serde_yaml::from_str(&text).unwrap();
    assert!(messages.len() >= 60, "{} messages", messages.len());
    let mut wrong = String::new();
    for message in &messages {
        let faults = faults(message);
        if !faults.is_empty() {
            let _ = writeln!(wrong, "{}:\n  {}", message.source, faults.join("\n  "));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Texts about memory that are no message of it.
#[test]
fn other_texts_are_no_message() {
    for text in [
        "we ran out of memory",
        "the job may run out of memory",
        "iteration 3 | loss 2.1 | CUDA memory 12 GiB",
        "except MemoryError:",
        "torch.OutOfMemoryError",
        "Out of memory handling: enabled",
        "NCCL INFO Connected all rings",
        "(1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called.",
        "Tried to allocate a port, all are in use",
        "if you encounter CUDA out-of-memory, reduce the batch",
        "(raylet) 0 Workers (tasks / actors) killed due to memory pressure (OOM), 1 Workers crashed due to other reasons",
        "the query exceeded memory limit (3 > 2)",
    ] {
        assert_eq!(find(text), None, "{text}");
        assert_eq!(unexplained(text), None, "{text}");
    }
}

/// What may have been for memory is told as that, in public issues: swz30/Restormer 75, TheAtticusProject/cuad 9, Mukosame/AODA
/// 9, ArjunaCluster/ArjunaUsers 52 and cuad's kin.
#[test]
fn failures_without_a_reason_are_told_as_that() {
    for (text, failure) in [
        (
            "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:33, unhandled cuda error, NCCL version 2.7.8\n\
             ncclUnhandledCudaError: Call to CUDA function failed.",
            UnexplainedFailure::Nccl,
        ),
        ("  what():  NCCL Error 1: unhandled cuda error\nAborted (core dumped)", UnexplainedFailure::Nccl),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            UnexplainedFailure::Handle,
        ),
        (
            "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  python3 main.py --epochs 400",
            UnexplainedFailure::Killed,
        ),
        ("Killed\n", UnexplainedFailure::Killed),
        // bitsandbytes' csrc/ops.cu, cextension.py and csrc/ops.cu once more: none is about memory.
        (
            "Error named symbol not found at line 529 in file /tmp/git/bitsandbytes/csrc/ops.cu",
            UnexplainedFailure::BitsandbytesKernel,
        ),
        (
            "Error no kernel image is available for execution on the device at line 167 in file D:\\bnb\\csrc\\ops.cu",
            UnexplainedFailure::BitsandbytesKernel,
        ),
        (
            "RuntimeError:\n        CUDA Setup failed despite GPU being available. Please run the following command",
            UnexplainedFailure::BitsandbytesSetup,
        ),
        ("cuBLAS API failed with status 15\nerror detected", UnexplainedFailure::BitsandbytesInt8),
    ] {
        assert_eq!(find(text), None, "{text}");
        assert_eq!(unexplained(text), Some(failure), "{text}");
    }
    // The shell names the process first.
    assert_eq!(unexplained("note: line 3: Killed"), None);
}
