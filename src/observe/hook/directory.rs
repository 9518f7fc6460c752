//! The private directory in which listeners have their sockets.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The environment variable that names the directory to both sides.
pub const HOOK_DIRECTORY_VARIABLE: &str = "MEMWALL_HOOK_DIR";

/// A directory that is this user's alone. The hook computes the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The directory of this user, made where it is missing: `$MEMWALL_HOOK_DIR`, else
    /// `$XDG_RUNTIME_DIR/memwall`, else `/tmp/memwall-UID`.
    ///
    /// # Errors
    /// In a line: it cannot be made, or it is not this user's alone.
    pub fn open(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let own = own_id().map_err(|error| format!("/proc: {error}"))?;
        let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = set(HOOK_DIRECTORY_VARIABLE)
            .or_else(|| set("XDG_RUNTIME_DIR").map(|runtime| runtime.join("memwall")))
            .unwrap_or_else(|| PathBuf::from(format!("/tmp/memwall-{own}")));
        Self::at(path, own)
    }

    fn at(path: PathBuf, own: u32) -> Result<Self, String> {
        let shown = path.display();
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{shown}: {error}")),
        }
        // Not followed: a link that somebody else put there leads elsewhere.
        let meta = fs::symlink_metadata(&path).map_err(|error| format!("{shown}: {error}"))?;
        if !meta.is_dir() || meta.uid() != own || meta.mode() & 0o077 != 0 {
            return Err(format!("{shown} must be a directory of yours that nobody else can enter (mode 700)"));
        }
        Ok(Self { path })
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The user that runs this process.
fn own_id() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn it_is_made_private_and_refused_where_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memwall");
        let open = |path: &Path| {
            let path = path.to_owned();
            Directory::open(move |name| (name == HOOK_DIRECTORY_VARIABLE).then(|| path.clone().into_os_string()))
        };
        assert_eq!(open(&path).unwrap().path(), path);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert!(open(&path).is_ok(), "twice");
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(open(&link).unwrap_err().contains("must be a directory of yours"));
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        assert!(open(&path).unwrap_err().contains("mode 700"));
        assert!(open(&folder.path().join("a/b")).unwrap_err().contains("No such file"));
    }

    #[test]
    fn the_runtime_directory_comes_before_the_temporary_one() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().to_owned();
        let directory =
            Directory::open(|name| (name == "XDG_RUNTIME_DIR").then(|| runtime.clone().into_os_string())).unwrap();
        assert_eq!(directory.path(), folder.path().join("memwall"));
    }
}
