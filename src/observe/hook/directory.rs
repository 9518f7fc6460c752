//! The private directory in which listeners have their sockets.
//!
//! Python code is put there that a training executes, with the rights of whoever trains. So nobody else may be able to
//! replace it: not the directory, nor any above it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use thiserror::Error;

/// The environment variable that names the directory to both sides.
pub const HOOK_DIRECTORY_VARIABLE: &str = "MEMWALL_HOOK_DIR";

/// Group or others may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Only the owner of an entry may rename or remove it, as in `/tmp`.
const STICKY: u32 = 0o1000;

/// Why there is no directory that is safe to execute code from.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// The system refuses a folder.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, io::Error),
    /// The path names no folder.
    #[error("{}: no directory", .0.display())]
    NoName(PathBuf),
    /// It is not a folder of this user's alone.
    #[error("{} must be a directory of yours that nobody else can enter (mode 700)", .0.display())]
    NotPrivate(PathBuf),
    /// A folder above it is not safe.
    #[error("{}: {}", .0.display(), .1)]
    Replaceable(PathBuf, Box<DirectoryError>),
    /// A folder is somebody else's.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// Somebody else can write to a folder.
    #[error("other users can write to {}", .0.display())]
    Writable(PathBuf),
}

/// A directory that is this user's alone. The hook computes the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The directory of this user, made where it is missing: `$MEMWALL_HOOK_DIR`, else
    /// `$XDG_RUNTIME_DIR/memwall`, else `/tmp/memwall-UID`. Root's is `/run/memwall`, else `/tmp/memwall-0`, whatever
    /// `XDG_RUNTIME_DIR` says: `sudo -E` leaves it as the other user's.
    ///
    /// # Errors
    /// It cannot be made, it is not this user's alone, or somebody else could replace it.
    pub fn open(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, DirectoryError> {
        let own = own_id().map_err(|error| DirectoryError::Io(PathBuf::from("/proc"), error))?;
        let mut why = None;
        for path in candidates(variable, own) {
            match Self::at(path, own) {
                Ok(directory) => return Ok(directory),
                Err(fault) => why = why.or(Some(fault)),
            }
        }
        Err(why.unwrap_or_else(|| DirectoryError::NoName(PathBuf::new())))
    }

    fn at(path: PathBuf, own: u32) -> Result<Self, DirectoryError> {
        let failed = |error: io::Error| DirectoryError::Io(path.clone(), error);
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Links above are followed here, once, and not any more below.
        let above = fs::canonicalize(above).map_err(failed)?;
        let name = path.file_name().ok_or_else(|| DirectoryError::NoName(path.clone()))?;
        let real = above.join(name);
        // Nothing is made where somebody else could replace it.
        let parent = open_safe(&above, own).map_err(|why| DirectoryError::Replaceable(path.clone(), Box::new(why)))?;
        match DirBuilder::new().mode(0o700).create(&real) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let meta = open_below(&parent, Path::new(name)).and_then(|folder| folder.metadata());
        match meta {
            Ok(meta) if meta.uid() == own && meta.mode() & 0o077 == 0 => Ok(Self { path: real }),
            _ => Err(DirectoryError::NotPrivate(path)),
        }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Where the directory of that user may be, the best first.
fn candidates(variable: impl Fn(&str) -> Option<OsString>, own: u32) -> Vec<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set(HOOK_DIRECTORY_VARIABLE) {
        return vec![path];
    }
    let temporary = PathBuf::from(format!("/tmp/memwall-{own}"));
    if own == 0 {
        return vec![PathBuf::from("/run/memwall"), temporary];
    }
    vec![set("XDG_RUNTIME_DIR").map_or(temporary, |runtime| runtime.join("memwall"))]
}

/// Opens a directory without links in its path, from the root down, and looks at what was opened: each belongs to this
/// user or to root, and nobody else can replace what is below it.
fn open_safe(path: &Path, own: u32) -> Result<File, DirectoryError> {
    let failed = |at: &Path, error: io::Error| DirectoryError::Io(at.to_path_buf(), error);
    let mut at = PathBuf::from("/");
    let mut folder = File::open("/").map_err(|error| failed(&at, error))?;
    let root = folder.metadata().map_err(|error| failed(&at, error))?.uid();
    refuse_writable(&at, &folder, own, root)?;
    for part in path.components().filter(|part| matches!(part, Component::Normal(_))) {
        at.push(part);
        folder = open_below(&folder, Path::new(part.as_os_str())).map_err(|error| failed(&at, error))?;
        refuse_writable(&at, &folder, own, root)?;
    }
    Ok(folder)
}

/// Refuses a directory in which others could replace what is ours or root's: in a sticky one they cannot.
fn refuse_writable(at: &Path, folder: &File, own: u32, root: u32) -> Result<(), DirectoryError> {
    let meta = folder.metadata().map_err(|error| DirectoryError::Io(at.to_path_buf(), error))?;
    if !is_trusted(&meta, own, root) {
        return Err(DirectoryError::Foreign(at.to_path_buf()));
    }
    if meta.mode() & WRITABLE_BY_OTHERS != 0 && meta.mode() & STICKY == 0 {
        return Err(DirectoryError::Writable(at.to_path_buf()));
    }
    Ok(())
}

/// Whether it belongs to this user or to root. In a user namespace root may have another number: whoever owns `/` can
/// replace Python itself. Root trusts root alone.
fn is_trusted(meta: &Metadata, own: u32, root: u32) -> bool {
    meta.uid() == own || meta.uid() == 0 || (own != 0 && meta.uid() == root)
}

/// Opens a directory by its name, which must not be a link.
fn open_below(folder: &File, name: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, Mode::empty())?.into())
}

/// The user that runs this process.
fn own_id() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn open(path: &Path) -> Result<Directory, String> {
        Directory::open(|name| (name == HOOK_DIRECTORY_VARIABLE).then(|| path.as_os_str().to_owned()))
            .map_err(|why| why.to_string())
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn it_is_made_private_and_refused_where_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memwall");
        assert_eq!(open(&path).unwrap().path(), path);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert!(open(&path).is_ok(), "twice");
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(open(&link).unwrap_err().contains("must be a directory of yours"));
        mode(&path, 0o755);
        assert!(open(&path).unwrap_err().contains("mode 700"));
        assert!(open(&folder.path().join("a/b")).unwrap_err().contains("No such file"));
    }

    #[test]
    fn it_is_refused_where_others_could_replace_it() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().join("a");
        let path = above.join("b/memwall");
        fs::create_dir_all(above.join("b")).unwrap();
        assert!(open(&path).is_ok());
        for writable in [0o777, 0o770] {
            mode(&above, writable);
            assert!(open(&path).unwrap_err().contains("other users can write to"), "{writable:o}");
        }
        // As /tmp: what is ours there nobody else can rename.
        mode(&above, 0o1777);
        assert!(open(&path).is_ok());
        // The same by a link.
        mode(&above, 0o777);
        symlink(above.join("b"), folder.path().join("link")).unwrap();
        assert!(open(&folder.path().join("link/memwall")).unwrap_err().contains("other users can write to"));
    }

    #[test]
    fn what_is_below_another_users_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("run/user/1000");
        fs::create_dir_all(&theirs).unwrap();
        // Only root can give a directory away.
        if chown(&theirs, Some(1000), Some(1000)).is_err() {
            eprintln!("not run: this user is not root");
            return;
        }
        mode(&theirs, 0o700);
        assert!(open(&theirs.join("memwall")).unwrap_err().ends_with("run/user/1000 belongs to another user"));
        assert!(!theirs.join("memwall").exists());
    }

    #[test]
    fn the_runtime_directory_is_the_users_and_never_roots() {
        let variable = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| OsString::from("/run/user/1000"));
        assert_eq!(candidates(variable, 1000), [PathBuf::from("/run/user/1000/memwall")]);
        assert_eq!(candidates(|_| None, 1000), [PathBuf::from("/tmp/memwall-1000")]);
        assert_eq!(candidates(variable, 0), [PathBuf::from("/run/memwall"), PathBuf::from("/tmp/memwall-0")]);
    }
}
