//! Where a process writes to.

use std::fs;
use std::path::{Path, PathBuf};

use crate::reading::Absence;

/// The files behind standard output and error.
pub fn outputs(proc: &Path, pid: u32) -> Result<Vec<PathBuf>, Absence> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut why = None;
    for descriptor in ["1", "2"] {
        let link = proc.join(format!("{pid}/fd/{descriptor}"));
        let target = match fs::read_link(&link) {
            Ok(target) => target,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Err(Absence::NoPermission),
            Err(_) => return Err(Absence::Gone),
        };
        let same = |path: &Path| files_agree(path, &link);
        // A file that was deleted, or lies in another mount namespace, is still open under the link.
        let path = if same(&target) { target.clone() } else { link.clone() };
        match fs::metadata(&path) {
            Ok(meta) if meta.is_file() => {
                if !files.iter().any(|known| files_agree(known, &path)) {
                    files.push(path);
                }
            }
            Ok(_) => why = why.or(Some(what(&target))),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Err(Absence::NoPermission),
            Err(_) => why = why.or(Some(what(&target))),
        }
    }
    match why {
        Some(why) if files.is_empty() => Err(Absence::Because(why.into())),
        _ => Ok(files),
    }
}

/// Whether both are the same file.
fn files_agree(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

/// What an output goes to that is no file.
fn what(target: &Path) -> &'static str {
    match target.to_string_lossy() {
        text if text.starts_with("pipe:") => "its output goes into a pipe",
        text if text.starts_with("/dev/pts/") || text.starts_with("/dev/tty") => "its output goes to a terminal",
        text if text.starts_with("/dev/null") => "its output is thrown away",
        _ => "its output is no file",
    }
}
