//! The program of `memwall bench`: what PyTorch's kernels reach on this machine. It needs PyTorch 1.13 or later in the
//! user's environment, and nothing else. [`crate::bench`] reads and fits what it writes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The program: one file without dependencies.
pub const PROGRAM: &str = one_python_file!(
    "python/bench.py",
    "python/kernels.py",
    "python/machine.py",
    "python/collectives.py",
    "python/run.py"
);

/// Writes the program into `folder`; its path.
///
/// # Errors
/// Where it cannot be written.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join("memwall_bench.py");
    fs::write(&path, PROGRAM)?;
    Ok(path)
}
