//! The tracer: a Python program that follows one training step of a model on tensors without values, and writes the tape
//! that [`crate::plan::traced`] reads. It needs PyTorch 2.1 or later in the user's environment, and nothing else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The program that is started.
const MAIN: &str = "memwall_trace.py";

/// Its files: what starts it, the ways in, recording, and the tape.
const FILES: [(&str, &str); 33] = [
    (MAIN, include_str!("memwall_trace.py")),
    ("arrays.py", include_str!("arrays.py")),
    ("beside.py", include_str!("beside.py")),
    ("checkpoints.py", include_str!("checkpoints.py")),
    ("counts.py", include_str!("counts.py")),
    ("device.py", include_str!("device.py")),
    ("fake.py", include_str!("fake.py")),
    ("foreign_kernels.py", include_str!("foreign_kernels.py")),
    ("groups.py", include_str!("groups.py")),
    ("guesses.py", include_str!("guesses.py")),
    ("held.py", include_str!("held.py")),
    ("hf_inputs.py", include_str!("hf_inputs.py")),
    ("hugging_face.py", include_str!("hugging_face.py")),
    ("kernels.py", include_str!("kernels.py")),
    ("libraries.py", include_str!("libraries.py")),
    ("live.py", include_str!("live.py")),
    ("modules.py", include_str!("modules.py")),
    ("names.py", include_str!("names.py")),
    ("no_gpu.cpp", include_str!("no_gpu.cpp")),
    ("places.py", include_str!("places.py")),
    ("processes.py", include_str!("processes.py")),
    ("programs.py", include_str!("programs.py")),
    ("recorder.py", include_str!("recorder.py")),
    ("sandbox.py", include_str!("sandbox.py")),
    ("script.py", include_str!("script.py")),
    ("segment.py", include_str!("segment.py")),
    ("segments.py", include_str!("segments.py")),
    ("shortcut.py", include_str!("shortcut.py")),
    ("sources.py", include_str!("sources.py")),
    ("step.py", include_str!("step.py")),
    ("tape.py", include_str!("tape.py")),
    ("truths.py", include_str!("truths.py")),
    ("weights.py", include_str!("weights.py")),
];

/// The environment variables that tell the hook which folder holds the tracer, and where the tape goes.
pub const TRACER_VARIABLE: &str = "MEMWALL_TRACER";
/// See [`TRACER_VARIABLE`].
pub const TAPE_VARIABLE: &str = "MEMWALL_TRACE";

/// The file in the tracer's folder in which it says what became of a step of a run.
pub const REPORT: &str = "report";

/// Writes the tracer into `folder`; the program to start.
///
/// # Errors
/// Where the files cannot be written.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    for (name, text) in FILES {
        fs::write(folder.join(name), text)?;
    }
    Ok(folder.join(MAIN))
}
