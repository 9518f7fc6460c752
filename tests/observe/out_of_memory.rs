//! `memwall explain` from outside. Snapshots are those that `tests/memory_snapshots/make.py` writes;
//! what is expected was added up by hand from its sizes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memwall::observe::snapshot;
use memwall::reading::BlockPurpose;
use memwall::units::Bytes;

const PLAN: &str = "
model: {preset: gpt2, batch_size: 16, sequence_length: 1024}
training: {micro_batch_size: 8, precision: bf16-mixed}
hardware: {gpu_type: NVIDIA RTX 4090}
";

/// kerrj/lerf issue 73, release 2.1.
const MESSAGE: &str = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty of 23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this process has 20.81 GiB memory in use. Of the allocated memory 12.09 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF\n";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory_snapshots").join(name)
}

/// What it writes to standard output and error, and its exit code.
fn explain(args: &[&str], input: &str) -> (String, String, i32) {
    explain_in(Path::new(env!("CARGO_MANIFEST_DIR")), args, input)
}

fn explain_in(folder: &Path, args: &[&str], input: &str) -> (String, String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command
        .current_dir(folder)
        .arg("explain")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may not read what it does not need.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let done = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(done.stdout), text(done.stderr), done.status.code().unwrap())
}

#[test]
fn a_snapshot_by_state_and_purpose() {
    let devices = snapshot::read(&fs::read(file("training.pickle")).unwrap(), Bytes::from_mib(1)).unwrap();
    let [device] = devices.as_slice() else { panic!("{} devices", devices.len()) };
    // 16 + 16 + 8 + 8 + 1 + 0.5 MiB in tensors; 8 + 4 + 0.25 free beside them; a segment of 20 free.
    assert_eq!(device.allocated, Bytes(99 << 19));
    assert_eq!((device.pending, device.split, device.empty), (Bytes(1 << 18), Bytes(49 << 18), Bytes::from_mib(20)));
    assert_eq!((device.reserved, device.segments), (Bytes::from_mib(40 + 20 + 2 + 20), 4));
    assert_eq!(device.reserved, device.allocated + device.pending + device.split + device.empty);
    assert_eq!(
        (device.rounding, device.largest_split, device.expandable),
        (Some(Bytes(100)), Bytes::from_mib(8), false)
    );
    assert_eq!(device.of(BlockPurpose::Parameters), Bytes::from_mib(16));
    assert_eq!(device.of(BlockPurpose::Gradients), Bytes::from_mib(16));
    assert_eq!(device.of(BlockPurpose::OptimizerStates), Bytes::from_mib(16));
    assert_eq!(device.of(BlockPurpose::Activations), Bytes(3 << 19));
    assert_eq!(device.terms.iter().map(|term| term.bytes).sum::<Bytes>(), device.allocated);
    let loss = device.terms.iter().find(|term| term.part == Some("logits and loss")).unwrap();
    assert_eq!((loss.place.as_str(), loss.bytes, loss.blocks), ("model.py:31 forward", Bytes(1 << 19), 1));
    let states = device.terms.iter().find(|term| term.purpose == BlockPurpose::OptimizerStates).unwrap();
    assert_eq!((states.place.as_str(), states.blocks), ("train.py:40 <module>", 2));
    assert_eq!(device.failed, [(Bytes::from_mib(32), Some(Bytes::from_mib(1)))]);
}

#[test]
fn a_snapshot_of_release_1_13() {
    let devices = snapshot::read(&fs::read(file("release_1_13.pickle")).unwrap(), Bytes::from_mib(1)).unwrap();
    let device = &devices[0];
    assert_eq!((device.allocated, device.split, device.rounding), (Bytes::from_mib(12), Bytes::from_mib(8), None));
    assert_eq!(device.of(BlockPurpose::Parameters), Bytes::from_mib(12));
}

#[test]
fn a_snapshot_beside_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.yaml");
    fs::write(&plan, PLAN).unwrap();
    let path = file("training.pickle");
    let (alone, _, code) = explain(&[path.to_str().unwrap()], "");
    assert_eq!(code, 0);
    assert!(alone.starts_with("GPU 0: 49.5 MiB allocated of 82.0 MiB reserved\n"), "{alone}");
    assert!(alone.contains("a request failed: 32.0 MiB with 1.00 MiB free"), "{alone}");
    assert!(!alone.contains("plan"), "{alone}");
    let (beside, _, code) = explain(&[path.to_str().unwrap(), "--plan", plan.to_str().unwrap()], "");
    assert_eq!(code, 0);
    let head = beside.lines().find(|line| line.contains("allocated for")).unwrap();
    assert!(head.contains("plan") && head.contains("difference"), "{beside}");
    // 124 439 808 parameters of four bytes are 0.464 GiB.
    let parameters = beside.lines().find(|line| line.trim_start().starts_with("parameters")).unwrap();
    assert!(parameters.contains("0.02") && parameters.contains("0.46"), "{parameters}");
}

/// A report without the line breaks of its page.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_message_from_standard_input_and_out_of_a_log() {
    let (text, _, code) = explain(&["-"], MESSAGE);
    assert_eq!(code, 0);
    // 3.00 - 1.66
    assert!(
        text.starts_with("CUDA out of memory on GPU 0: 1.34 GiB short (3.00 GiB asked, 1.66 GiB free)\n"),
        "{text}"
    );
    // 20.81 - 12.09 - 4.84, and 23.65 - 1.66 - 20.81
    for row in
        [["allocated", "12.1"], ["unused", "4.84"], ["outside", "3.88"], ["elsewhere", "1.18"], ["device", "23.7"]]
    {
        let found = text.lines().any(|line| row.iter().all(|part| line.split_whitespace().any(|word| word == *part)));
        assert!(found, "{row:?}\n{text}");
    }
    let words = on_one_line(&text);
    assert!(
        words.contains("expandable_segments:True, up to 4.84 GiB less held in pieces: enough for this request"),
        "{text}"
    );
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    fs::write(&log, format!("iter 1: loss 3\nTraceback (most recent call last):\n{MESSAGE}\nepilogue\n")).unwrap();
    let (same, _, _) = explain(&[log.to_str().unwrap()], "");
    assert_eq!(same, text);
}

#[test]
fn a_kernel_that_wants_a_few_bytes_too_much_is_told_in_bytes() {
    let message = |required: u32| {
        format!(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: {required}, Hardware \
             limit: 232448. Reducing block sizes or `num_stages` may help."
        )
    };
    let (few, _, _) = explain(&["-"], &message(232_456));
    assert!(on_one_line(&few).contains("wants 232 456 B of shared"), "{few}");
    assert!(on_one_line(&few).contains("this device has 232 448 B"), "{few}");
    // 262 144 / 1024 and 232 448 / 1024.
    let (more, _, _) = explain(&["-"], &message(262_144));
    assert!(on_one_line(&more).contains("wants 256 KiB") && on_one_line(&more).contains("has 227 KiB"), "{more}");
}

#[test]
fn fixes_are_predicted_for_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.yaml");
    fs::write(&plan, PLAN).unwrap();
    let (text, _, code) = explain(&["-", "--plan", plan.to_str().unwrap()], MESSAGE);
    assert_eq!(code, 0);
    for part in [
        "training.micro_batch_size: 4, ",
        "training.activation_checkpointing: full, ",
        " less by prediction",
        "the plan foresees ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn what_cannot_be_explained_is_refused_with_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("broken.pickle", &fs::read(file("training.pickle")).unwrap()[..700]);
    write("notes.toml", b"[package]\nname = \"notes\"\n");
    // The file that it asks to be opened for writing lies in this folder: a name as long as that which it has.
    const OPENED: &str = "./the-pickle-was-run!";
    let mut hostile = fs::read(file("hostile.pickle")).unwrap();
    let at = hostile.windows(OPENED.len()).position(|bytes| bytes == b"/tmp/memwall-was-here").unwrap();
    hostile[at..at + OPENED.len()].copy_from_slice(OPENED.as_bytes());
    write("hostile.pickle", &hostile);
    fs::create_dir(folder.path().join("directory")).unwrap();
    let cases = [
        ("hostile.pickle", "asks for code to be run"),
        ("broken.pickle", "it is cut off"),
        ("no-file", "no-file: there is no such file or term; memwall explain without a word lists the terms\n"),
        ("directory", "directory"),
        ("notes.toml", "neither a memory snapshot nor a text"),
    ];
    for (path, part) in cases {
        let (out, err, code) = explain_in(folder.path(), &[path], "");
        assert_eq!((out.as_str(), code), ("", 2), "{path}: {err}");
        assert!(err.starts_with("memwall: ") && err.contains(part) && err.lines().count() == 1, "{path}: {err}");
    }
    assert!(!folder.path().join(OPENED).exists(), "code of a pickle was run");
    let (_, err, code) = explain(&["-"], "\u{0}\u{1}garbage");
    assert_eq!(code, 2, "{err}");
}

#[test]
fn both_as_json_for_scripts() {
    let (out, _, code) = explain(&["-", "--format", "json"], MESSAGE);
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["kind"], &said["device"]), (0, &"out_of_memory".into(), &0.into()));
    // 3 GiB; 20.81 GiB less 12.09 and 4.84 of PyTorch's allocator; no plan, so nothing predicted.
    assert_eq!(said["asked"], Bytes::from_gib(3.0).0);
    let outside = said["outside_torch"].as_f64().unwrap() / f64::from(1 << 30);
    assert!((outside - (20.81 - 12.09 - 4.84)).abs() < 1e-6, "{outside}");
    assert!(said["predicted"].is_null());
    // What the text lists: 4.84 GiB are more than the 1.34 that are short.
    let (text, ..) = explain(&["-"], MESSAGE);
    let helps: Vec<&str> = said["helps"].as_array().unwrap().iter().map(|help| help.as_str().unwrap()).collect();
    assert!(helps[0].starts_with("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, up to 4.84 GiB less"), "{helps:?}");
    assert!(helps.iter().all(|help| on_one_line(&text).contains(help)), "{helps:?}\n{text}");
    assert!(text.contains("--plan PLAN"), "{text}");
    let (out, _, code) = explain(&[file("training.pickle").to_str().unwrap(), "--format", "json"], "");
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["kind"]), (0, &"snapshot".into()));
    let device = &said["devices"][0];
    let purposes = device["allocated_for"].as_array().unwrap();
    let all: u64 = purposes.iter().map(|purpose| purpose["bytes"].as_u64().unwrap()).sum();
    assert_eq!((device["allocated"].as_u64(), all), (Some(99 << 19), 99 << 19));
}

#[test]
fn the_shortest_of_several_ranks_and_a_compiled_programs_table() {
    let rank = |rank: u32, free: &str| {
        format!(
            "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.79 GiB. GPU {rank} has a total capacity of \
             79.11 GiB of which {free} GiB is free. Of the allocated memory 65.29 GiB is allocated by PyTorch, and 3.83 GiB is \
             reserved by PyTorch but unallocated.\n"
        )
    };
    let (out, err, code) = explain(&["-"], &(rank(3, "1.06") + &rank(1, "2.46")));
    assert_eq!((err.as_str(), code), ("", 0));
    // 3.79 - 1.06
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.starts_with("CUDA out of memory on GPU 3: 2.73 GiB short"), "{out}");
    assert!(words.contains("less short: rank 1 (GPU 1)"), "{out}");

    let table = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.\nBufferAssignment OOM \
                 Debugging.\nBufferAssignment stats:\n  parameter allocation:  372.76MiB\n  maybe_live_out allocation:    9.64GiB\n  \
                 preallocated temp allocation:    4.44GiB\n  total allocation:   14.44GiB\n  total fragmentation:  680.30MiB (4.60%)\n";
    let (out, _, code) = explain(&["-"], table);
    assert_eq!(code, 0);
    for row in ["program 14.4", "parameters 0.36", "outputs 9.64", "temporaries 4.44", "gaps 0.66"] {
        assert!(
            out.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(row)),
            "{row}: {out}"
        );
    }
    // 14.44 / 0.95
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("XLA_PYTHON_CLIENT_MEM_FRACTION=.95 on a device of 15.2 GiB or more"), "{out}");
}

/// Eight billion parameters over eight GPUs of 80 GB: some 46 GiB of each.
const LARGE: &str = "
model: {preset: llama-3-8b, batch_size: 64, sequence_length: 4096}
training: {precision: bf16-mixed, micro_batch_size: 1, activation_checkpointing: full}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 8}
distribution: {strategy: fsdp}
";

/// PyTorch's message of a device, in GiB: in all, free, in tensors, asked.
fn message_of(backend: &str, [total, free, allocated, asked]: [f64; 4]) -> String {
    format!(
        "torch.OutOfMemoryError: {backend} out of memory. Tried to allocate {asked:.2} GiB. GPU 0 has a total capacity of \
         {total:.2} GiB of which {free:.2} GiB is free. Of the allocated memory {allocated:.2} GiB is allocated by PyTorch, and \
         0.20 GiB is reserved by PyTorch but unallocated.\n"
    )
}

/// What is said beside that plan, on one line, and as JSON.
fn beside(plan: &str, message: &str) -> (String, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let (text, err, code) = explain_in(folder.path(), &["-", "--plan", "plan.yaml"], message);
    assert_eq!((err.as_str(), code), ("", 0));
    let (json, ..) = explain_in(folder.path(), &["-", "--plan", "plan.yaml", "--format", "json"], message);
    (on_one_line(&text), serde_json::from_str(&json).unwrap())
}

#[test]
fn a_message_of_another_gpu_than_the_plans_says_so_first() {
    // A V100 of 15.78 GiB: nothing that needs more than it has helps, nor is 20 GiB of 14.4 saved.
    let (text, json) = beside(LARGE, &message_of("CUDA", [15.78, 0.01, 14.2, 0.02]));
    let first = "the message is of a GPU with 15.8 GiB, the plan's NVIDIA H100 SXM 80GB has 79.6 GiB";
    let (ahead, behind) = text.split_once(first).unwrap_or_else(|| panic!("{text}"));
    assert!(!ahead.contains("asked 0.02 for one tensor") && behind.contains("for one tensor"), "{text}");
    assert!(
        !text.contains("less by prediction") && json["plan_mismatch"].as_str().unwrap().starts_with(first),
        "{text}"
    );
    let total = 15.78 * f64::from(1 << 30);
    assert!(json["predicted"]["device_used"].as_f64().unwrap() > total, "{json}");
    for fix in text.rsplit("GiB of 15.8 GiB needed by prediction").skip(1) {
        let needed: f64 = fix.trim().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(needed <= 15.8, "{text}");
    }
    // The one AMD GPU of 192 GB: by the plan it would have done.
    let (text, _) = beside(LARGE, &message_of("HIP", [191.98, 4.0, 180.0, 12.0]));
    assert!(text.contains("the plan is predicted for AMD Instinct MI300X"), "{text}");
    assert!(text.contains("the plan of this run: by this one") && !text.contains("training.compile"), "{text}");
    // PyTorch says 79.10 GiB of it, NVML 79.6: the plan's own.
    let (text, json) = beside(LARGE, &message_of("CUDA", [79.1, 1.0, 30.0, 2.0]));
    assert!(json["plan_mismatch"].is_null() && text.contains("training.compile: true"), "{text}");
}

#[test]
fn no_change_saves_more_than_the_process_held() {
    let (text, json) = beside(LARGE, &message_of("CUDA", [79.1, 1.0, 9.0, 2.0]));
    let held = 9.2 * f64::from(1 << 30) + 2e7;
    let relief = json["relief"].as_array().unwrap();
    assert!(!relief.is_empty() && relief.iter().all(|fix| fix["saves"].as_f64().unwrap() <= held), "{json}");
    assert!(!text.contains("pipeline_parallel"), "20 GiB of 9.2: {text}");
}

#[test]
fn a_message_of_another_framework_gets_no_keys_of_a_pytorch_plan() {
    for message in [
        "W tensorflow/core/framework/op_kernel.cc:1745] OP_REQUIRES failed at conv_ops.cc:1105 : RESOURCE_EXHAUSTED: OOM when \
         allocating tensor with shape[256,512,28,28] and type float on \
         /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.\n",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 12,884,901,888 \
         bytes).\n",
    ] {
        let (text, json) = beside(LARGE, message);
        assert!(text.contains("plans predict PyTorch only"), "{text}");
        for key in ["training.", "distribution.", "the plan foresees"] {
            assert!(!text.contains(key), "{key}: {text}");
        }
        assert_eq!(json["relief"].as_array().map(Vec::len), Some(0));
    }
}
