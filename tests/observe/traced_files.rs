//! What a traced script does to files, and where the tracer keeps a file of its own: nothing of the user's changes, and nobody else can
//! replace what is kept.

use std::path::Path;
use std::process::Command;

use crate::traced::{memwall, python, torch};

/// A script as people write them: numbers and tensors on the GPU, samples at drawn places, evaluation before training, a
/// weight from a file, autocast around the model's own forward function, and files of its own.
const SCRIPT: &str = r#"
import copy, json, os, struct, sys
import torch
from torch import nn

os.makedirs("out/logs")
with open("out/logs/log.txt", "w") as log:
    log.write("started")
assert open("out/logs/log.txt").read() == "started" and os.listdir("out") == ["logs"]
os.replace("out/logs/log.txt", "out/logs/old.txt")
os.remove("data.txt")
assert not os.path.exists("data.txt") and os.path.isfile("out/logs/old.txt")

scale = torch.tensor([2.0, 3.0], device="cuda")
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
model.load_state_dict(copy.deepcopy(model.state_dict()))
model.cuda()
inner = model.forward
model.forward = lambda x: torch.autocast("cuda", dtype=torch.bfloat16)(inner)(x)
data = torch.arange(1000, dtype=torch.float32)

def batch():
    places = torch.randint(1000 - 16, (8,))
    return torch.stack([data[place:place + 16] for place in places]).pin_memory().to("cuda", non_blocking=True)

losses = torch.zeros(100)
model.eval()
with torch.no_grad():
    for at in range(100):
        losses[at] = model(batch()).mean().item()
print(f"before training: {losses.mean():.3f}")
model.train()
loss = (model(batch()) * scale[0]).mean()
loss.backward()
raise SystemExit("the step is traced before this line")
"#;

#[test]
fn a_script_is_traced_as_it_is_and_writes_nothing() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.py"), SCRIPT).unwrap();
    std::fs::write(folder.path().join("data.txt"), "kept").unwrap();
    let out = memwall(folder.path(), &["trace", "-o", "t.tape.json.gz", "--", &python(), "train.py"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    // 16 x 64 + 64 and 64 x 16 + 16 parameters, autocast where the forward function has it, 8 samples.
    assert!(said.contains("2,128 parameters") && said.contains("B 8 alone, in mixed precision"), "{said}");
    assert_eq!(std::fs::read_to_string(folder.path().join("data.txt")).unwrap(), "kept");
    assert!(!folder.path().join("out").exists());
}

/// What a script does to files, and what it sees of them, without PyTorch.
const FILES: &str = r#"
import os, shutil, sys, tempfile
sys.path.insert(0, sys.argv[1])
from sandbox import Sandbox

with Sandbox():
    assert open("data.txt").read() == "kept"
    with open("data.txt", "a") as file:
        file.write(" and more")
    assert open("data.txt").read() == "kept and more"
    os.makedirs("out/a", exist_ok=True)
    try:
        os.mkdir("out")
        raise SystemExit("made twice")
    except FileExistsError:
        pass
    descriptor = os.open("out/a/lock", os.O_CREAT | os.O_RDWR)
    os.close(descriptor)
    assert sorted(os.listdir(".")) == ["data.txt", "files.py", "folder", "out"], os.listdir(".")
    assert sorted(entry.name for entry in os.scandir(".")) == ["data.txt", "files.py", "folder", "out"]
    shutil.rmtree("folder")
    assert not os.path.exists("folder/one") and not os.path.exists("folder")
    os.mkdir("folder")
    assert os.listdir("folder") == []
    os.rename("data.txt", "out/data.txt")
    assert not os.path.exists("data.txt") and open("out/data.txt").read() == "kept and more"
    import socket
    try:
        socket.getaddrinfo("example.org", 80)
        raise SystemExit("looked up")
    except OSError as error:
        assert "no network" in str(error)
print("done")
"#;

/// Runs `files.py` of a folder, which makes a sandbox of its own.
fn run_in_sandbox(folder: &Path) {
    let tracer = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/observe/trace");
    let mut command = Command::new(python());
    command.current_dir(folder).env("HF_HOME", folder.join("none")).arg("-B").arg("files.py").arg(tracer);
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn what_a_script_writes_lies_over_the_users_files() {
    if torch().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("files.py"), FILES).unwrap();
    std::fs::write(path("data.txt"), "kept").unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    std::fs::write(path("folder/one"), "1").unwrap();
    run_in_sandbox(folder.path());
    assert_eq!(std::fs::read_to_string(path("data.txt")).unwrap(), "kept");
    assert_eq!(std::fs::read_to_string(path("folder/one")).unwrap(), "1");
    assert!(!path("out").exists());
}

/// Libraries that open files in C, as OpenCV and libsndfile do, and a script that uses them.
const BELOW: &str = r#"
import ctypes

C = ctypes.CDLL(None)
C.fopen.restype, C.fopen.argtypes, C.fclose.argtypes = ctypes.c_void_p, [ctypes.c_char_p] * 2, [ctypes.c_void_p]

def opens(path, mode):
    file = C.fopen(str(path).encode(), mode.encode())
    if file:
        C.fclose(file)
    return bool(file)

def imwrite(filename, image):
    return opens(filename, "w")

def imread(filename):
    return opens(filename, "r")

class SoundFile:
    def __init__(self, file, mode="r"):
        if not opens(file, mode):
            raise OSError(file)
"#;

const OPENING: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
from sandbox import Sandbox

with Sandbox():
    import cv2, soundfile
    assert cv2.imwrite("kept.png", None) and cv2.imwrite(filename="new.png", image=None)
    assert cv2.imread("kept.png") and cv2.imread("new.png") and not cv2.imread("none.png")
    soundfile.SoundFile("new.wav", "w")
    soundfile.SoundFile("new.wav")
print("done")
"#;

#[test]
fn what_libraries_write_below_python_lies_over_the_users_files() {
    if torch().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, text) in [("cv2.py", BELOW), ("soundfile.py", BELOW), ("files.py", OPENING), ("kept.png", "kept")] {
        std::fs::write(path(name), text).unwrap();
    }
    run_in_sandbox(folder.path());
    assert_eq!(std::fs::read_to_string(path("kept.png")).unwrap(), "kept");
    assert!(!path("new.png").exists() && !path("new.wav").exists());
}

#[test]
fn a_library_is_kept_only_where_nobody_else_can_replace_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("home/.cache/memwall");
    std::fs::create_dir_all(&cache).unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode));
    let home = folder.path().join("home");
    let is_private = || {
        let program = "import pathlib, sys, device; print(device.is_private(pathlib.Path(sys.argv[1])))";
        let mut command = Command::new("python3");
        let modules = concat!(env!("CARGO_MANIFEST_DIR"), "/src/observe/trace");
        let out = command.args(["-B", "-c", program]).arg(&cache).env("PYTHONPATH", modules).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        out.stdout == b"True\n"
    };
    assert!(is_private());
    for (path, bits, private) in [
        (&home, 0o777, false),
        (&home, 0o770, false),
        // As /tmp: what is ours there nobody else can rename.
        (&home, 0o1777, true),
        (&cache, 0o1777, false),
        (&cache, 0o700, true),
    ] {
        mode(path, bits).unwrap();
        assert_eq!(is_private(), private, "{} {bits:o}", path.display());
    }
    // Only root can give a folder away: as root finds the home of whoever typed `sudo -E`.
    if std::os::unix::fs::chown(&home, Some(1000), Some(1000)).is_ok() {
        assert!(!is_private(), "below another user's folder");
    }
}

/// Blocks that are recomputed within a call that is recomputed, both of the reentrant kind.
const NESTED: &str = "
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

again = lambda call, x: checkpoint(call, x, use_reentrant=True)

class Group(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = again(block, x)
        return x

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.group, self.head = nn.Linear(64, 64), Group(), nn.Linear(64, 64)

    def forward(self, x):
        return self.head(again(self.group, self.first(x)))

model = Model()
model(torch.randn(32, 64)).mean().backward()
";

/// Each matrix takes 2 x 32 x 64 x 64 operations: 4 of them forward; backward one of the first, whose input learns nothing, and two of
/// each other one, the group's two once more, and each of its blocks' once more for itself.
#[test]
fn blocks_in_a_recomputed_call_run_a_third_time() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = "model: {trace: t.tape.json.gz, batch_size: 32}\ntraining: {precision: fp32}\nhardware: {gpu_type: NVIDIA H100}\n";
    std::fs::write(folder.path().join("train.py"), NESTED).unwrap();
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let out = memwall(folder.path(), &["trace", "--cpu", "-o", "t.tape.json.gz", "--", &python(), "train.py"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let out = memwall(folder.path(), &["predict", "plan.yaml", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let product = f64::from(2 * 32 * 64 * 64);
    assert_eq!(report["flops"]["forward"].as_f64(), Some(4.0 * product), "{}", report["flops"]);
    assert_eq!(report["flops"]["backward"].as_f64(), Some((1.0 + 6.0 + 2.0 + 2.0) * product), "{}", report["flops"]);
}
