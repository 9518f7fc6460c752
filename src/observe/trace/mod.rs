//! The tracer: a Python program that follows one training step of a model on tensors without values, and writes the tape
//! that [`crate::plan::traced`] reads. It needs PyTorch 2.1 or later in the user's environment, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::packed;

/// The program that is started.
const MAIN: &str = "memwall_trace.py";

/// Its files, what starts it, the ways in, recording, and the tape: their texts by name, as the build packs the Python
/// and C++ files of this folder.
const FILES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracer.json.zz"));

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
    let files: BTreeMap<String, String> = serde_json::from_str(&packed::text(FILES)?)?;
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    Ok(folder.join(MAIN))
}
