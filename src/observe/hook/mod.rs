//! The hook inside of PyTorch processes: the Python files, the directory where both sides meet,
//! and the socket that listens.

mod directory;
mod message;
mod places;
mod printed;
mod receive;
mod senders;

pub use directory::{Directory, DirectoryError, HOOK_DIRECTORY_VARIABLE};
pub use receive::{Listener, WakeHandle, tell_exits};

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crate::files;

/// The hook. One file without dependencies, for every PyTorch since 1.13.
pub const HOOK: &str = one_python_file!(
    "python/hook.py",
    "python/wire.py",
    "python/modules.py",
    "python/tensors.py",
    "python/ends.py",
    "python/install.py",
    "python/activities.py",
    "python/batches.py",
    "python/printed.py",
    "python/stacks.py",
    "python/late.py",
    "python/watch.py"
);

/// What has Python load it at its start.
const SITECUSTOMIZE: &str = include_str!("python/sitecustomize.py");

/// Writes the Python files into the private directory; the folder that `PYTHONPATH` must begin with.
///
/// # Errors
/// Where the files cannot be written.
pub fn install(directory: &Directory) -> io::Result<PathBuf> {
    // Another version of the program may be running: each has a folder of its own.
    let mut hasher = DefaultHasher::new();
    (HOOK, SITECUSTOMIZE).hash(&mut hasher);
    let folder = directory.path().join(format!("python-{:016x}", hasher.finish()));
    if !folder.is_dir() {
        fs::create_dir(&folder).or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) })?;
    }
    for (name, text) in [("memwall_hook.py", HOOK), ("sitecustomize.py", SITECUSTOMIZE)] {
        write(&folder, name, text)?;
    }
    Ok(folder)
}

/// At once or not at all: a run that starts beside this one reads the file.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = folder.join(name);
    if files::read(&path, text.len() as u64).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
