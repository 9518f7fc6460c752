//! Saving a file so that nothing is lost on the way, and so that it stays what it was: whose it is, who may read and
//! write it, its attributes, its other names.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};

use super::fault::Fault;
use super::load::reason;

/// How a file begins and ends that is written beside the one it replaces.
const BESIDE: (&str, &str) = (".memwall-", ".tmp");

/// What a copy is called that is kept while a file is written in place.
const BACKUP: &str = "memwall-backup";

/// A file beside that nobody has written to for so long was left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(600);

/// The longest list of names and the longest value of an extended attribute that Linux has.
const LONGEST_ATTRIBUTE: usize = 65_536;

/// Writes a file so that it holds either the old content or the new, whatever happens: the new
/// one is written beside it and takes its place when it is on the disk. Owner, group, mode, access
/// list and attributes stay; a link stays and what it points to changes.
///
/// Where a new file cannot have what the old one has (another owner, a second name, a mount of its own), the content is
/// written into the old one, after a copy of it is on the disk.
///
/// # Errors
/// Where that is not possible; the file is untouched then, or the message names the copy.
pub fn save(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<(), Fault> {
    let path = path.as_ref();
    replace(path, content.as_ref()).map_err(|error| Fault::of("", format!("not saved: {}", reason(&error))))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = followed(path)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let old = match fs::metadata(&target) {
        Ok(meta) if meta.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("this is not a file")),
        // Whoever may write all the same has to say so to the file system first.
        Ok(meta) if meta.permissions().readonly() => return Err(ErrorKind::ReadOnlyFilesystem.into()),
        // A rename would replace what its owner has protected against writing.
        Ok(meta) => Some((OpenOptions::new().read(true).write(true).open(&target)?, meta)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if !folder.exists() {
        return Err(io::Error::other("there is no such folder"));
    }
    sweep(folder);
    let Some((mut file, meta)) = old else { return create(&target, folder, content) };
    // A second name would go on showing the old text.
    if meta.nlink() > 1 || !put_in_place(&target, folder, content, &file, &meta)? {
        return write_in_place(&target, &mut file, content);
    }
    Ok(())
}

/// A new file, as any program makes one: the user's mask decides who may read it.
fn create(target: &Path, folder: &Path, content: &[u8]) -> io::Result<()> {
    // The folder is there: one like /proc takes no files.
    let taken = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => io::Error::other("its folder takes no files"),
        _ => error,
    };
    let mut file = beside(0o666).tempfile_in(folder).map_err(taken)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    sync(folder);
    Ok(())
}

/// Writes the content to a file beside `target` and renames it over; whether that keeps all that the old one is. Nothing
/// has changed where not.
fn put_in_place(target: &Path, folder: &Path, content: &[u8], old: &File, meta: &Metadata) -> io::Result<bool> {
    // Nobody but its owner reads it before it is what the old one is.
    let mut file = beside(0o600).tempfile_in(folder)?;
    file.write_all(content)?;
    if !dress(file.as_file(), old, meta) {
        return Ok(false);
    }
    file.as_file().sync_all()?;
    match file.persist(target) {
        Ok(_) => {
            sync(folder);
            Ok(true)
        }
        // A file with a mount of its own, as containers have their configuration.
        Err(error) if error.error.kind() == ErrorKind::ResourceBusy => Ok(false),
        Err(error) => Err(error.error),
    }
}

/// Gives the new file what the old one has; whether all of it could be had.
fn dress(new: &File, old: &File, meta: &Metadata) -> bool {
    let Ok(made) = new.metadata() else { return false };
    let other = |wanted: u32, has: u32| (wanted != has).then_some(wanted);
    let (owner, group) = (other(meta.uid(), made.uid()), other(meta.gid(), made.gid()));
    if (owner.is_some() || group.is_some()) && fchown(new, owner, group).is_err() {
        return false;
    }
    // After the owner: to change that takes bits of the mode away. The access list comes last, its mask is the mode's.
    if new.set_permissions(meta.permissions()).is_err() || !copy_attributes(old, new) {
        return false;
    }
    let Ok(dressed) = new.metadata() else { return false };
    (dressed.uid(), dressed.gid(), dressed.mode()) == (meta.uid(), meta.gid(), meta.mode())
}

/// Extended attributes, access lists among them; whether the new file has those of the old one and no others.
fn copy_attributes(old: &File, new: &File) -> bool {
    // A file system without them has none.
    let Some(wanted) = attributes(old) else { return true };
    let had = attributes(new).unwrap_or_default();
    // A folder's default access list is on every new file.
    let removed = had.iter().filter(|(name, _)| wanted.iter().all(|(wanted, _)| wanted != name));
    removed.for_each(|(name, _)| _ = fremovexattr(new, name.as_slice()));
    let missing = wanted.iter().filter(|attribute| !had.contains(attribute));
    missing.for_each(|(name, value)| _ = fsetxattr(new, name.as_slice(), value, XattrFlags::empty()));
    attributes(new).is_some_and(|has| has == wanted)
}

/// Each attribute with its value, by name; none where the file system has no such thing.
fn attributes(file: &File) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; LONGEST_ATTRIBUTE];
    let length = flistxattr(file, &mut names[..]).ok()?;
    let mut found = Vec::new();
    for name in names.get(..length)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; LONGEST_ATTRIBUTE];
        let length = fgetxattr(file, name, &mut value[..]).ok()?;
        value.truncate(length);
        found.push((name.to_owned(), value));
    }
    found.sort();
    Some(found)
}

/// Writes the content into the file that is there, after a copy of it is on the disk. Where that breaks off the copy stays.
fn write_in_place(target: &Path, file: &mut File, content: &[u8]) -> io::Result<()> {
    let backup = back_up(target, file).map_err(|error| {
        let why = reason(&error);
        io::Error::other(format!("it would have to be written in place, and no copy can be made beside it: {why}"))
    })?;
    let written = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.write_all(content))
        .and_then(|()| file.set_len(content.len() as u64))
        .and_then(|()| file.sync_all());
    match written {
        Ok(()) => {
            // It is needed no more; one that stays harms nobody.
            drop(fs::remove_file(backup));
            Ok(())
        }
        Err(error) => {
            let (why, copy) = (reason(&error), backup.display());
            Err(io::Error::other(format!("{why}; what was there before is in {copy}")))
        }
    }
}

/// A copy of the file beside it, which nobody but this user can read, on the disk.
fn back_up(target: &Path, file: &mut File) -> io::Result<PathBuf> {
    /// More copies than anybody leaves behind.
    const MOST: u32 = 100;
    file.seek(SeekFrom::Start(0))?;
    for number in 1..=MOST {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let path = PathBuf::from(format!("{}.{BACKUP}{number}", target.display()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut copy) => {
                let made = io::copy(file, &mut copy).and_then(|_| copy.sync_all());
                if made.is_err() {
                    drop(fs::remove_file(&path));
                }
                made?;
                sync(target.parent().unwrap_or(Path::new(".")));
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many copies already"))
}

fn beside(mode: u32) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(BESIDE.0).suffix(BESIDE.1).permissions(fs::Permissions::from_mode(mode));
    builder
}

/// Removes files that a program left beside when it was killed while it saved.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = name.starts_with(BESIDE.0) && name.ends_with(BESIDE.1);
        let age = || entry.metadata().ok()?.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if ours && age().is_some_and(|age| age > LEFT_BEHIND) {
            // Another's: it is not removed, and not needed to be.
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// So that a new name is on the disk too; not every file system can.
fn sync(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// What a chain of links ends at, also where nothing is there yet.
fn followed(path: &Path) -> io::Result<PathBuf> {
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};
    use std::process::Command;

    use super::*;

    fn folder_with(name: &str, content: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn saving_keeps_mode_and_links_and_leaves_nothing_beside() {
        let (folder, path) = folder_with("plan.yaml", "model: {}\n");
        mode(&path, 0o640);
        let link = folder.path().join("link.yaml");
        symlink("plan.yaml", &link).unwrap();
        save(&link, "run: {}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "run: {}\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let new = folder.path().join("new.yaml");
        save(&new, "a").unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o600, 0o600);
        assert_eq!(names(folder.path()), 3);
    }

    #[test]
    fn what_cannot_be_saved_stays_as_it_is() {
        let (folder, path) = folder_with("plan.yaml", "model: {}\n");
        assert!(save(folder.path(), "x").unwrap_err().message.contains("not saved: this is a directory"));
        assert!(save(folder.path().join("no/such.yaml"), "x").unwrap_err().message.contains("no such folder"));
        assert!(save(path.join("below"), "x").is_err());
        let circle = folder.path().join("circle");
        symlink("circle", &circle).unwrap();
        assert!(save(&circle, "x").unwrap_err().message.contains("too many links"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "model: {}\n");
    }

    #[test]
    fn roots_save_leaves_a_users_file_the_users() {
        let (_folder, path) = folder_with("plan.yaml", "model: {}\n");
        if chown(&path, Some(1000), Some(1001)).is_err() {
            eprintln!("not run: this user is not root");
            return;
        }
        mode(&path, 0o640);
        save(&path, "run: {}\n").unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (1000, 1001, 0o640));
        assert_eq!(fs::read_to_string(&path).unwrap(), "run: {}\n");
    }

    #[test]
    fn a_second_name_shows_the_new_text_too() {
        let (folder, path) = folder_with("plan.yaml", "a longer text than the new one\n");
        let other = folder.path().join("other.yaml");
        fs::hard_link(&path, &other).unwrap();
        save(&path, "run: {}\n").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "run: {}\n");
        assert_eq!(fs::metadata(&path).unwrap().ino(), fs::metadata(&other).unwrap().ino());
        // The copy is gone with its reason.
        assert_eq!(names(folder.path()), 2);
    }

    #[test]
    fn attributes_and_access_lists_stay() {
        let (_folder, path) = folder_with("plan.yaml", "model: {}\n");
        mode(&path, 0o640);
        let file = File::open(&path).unwrap();
        // Version 2; the owner rw-, user 1000 r--, the group ---, the mask r--, others ---: linux/posix_acl_xattr.h.
        let entry = |tag: u16, rights: u16, id: u32| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let list = [entry(1, 6, none), entry(2, 4, 1000), entry(4, 0, none), entry(16, 4, none), entry(32, 0, none)];
        let list = [&2_u32.to_le_bytes()[..], &list.concat()].concat();
        if fsetxattr(&file, "system.posix_acl_access", &list, XattrFlags::empty()).is_err() {
            eprintln!("not run: this file system has no access lists");
            return;
        }
        fsetxattr(&file, "user.note", b"mine", XattrFlags::empty()).unwrap();
        let before = (attributes(&file), fs::metadata(&path).unwrap().mode());
        save(&path, "run: {}\n").unwrap();
        let after = (attributes(&File::open(&path).unwrap()), fs::metadata(&path).unwrap().mode());
        assert!(after.0.as_ref().unwrap().iter().any(|(name, value)| name == b"user.note" && value == b"mine"));
        assert_eq!(before, after);
    }

    #[test]
    fn what_a_killed_program_left_beside_is_swept_away() {
        let (folder, path) = folder_with("plan.yaml", "model: {}\n");
        let (old, new) = (folder.path().join(".memwall-old.tmp"), folder.path().join(".memwall-new.tmp"));
        let aged = SystemTime::now() - 2 * LEFT_BEHIND;
        File::create(&old).unwrap().set_modified(aged).unwrap();
        File::create(&new).unwrap();
        save(&path, "run: {}\n").unwrap();
        assert!(!old.exists() && new.exists(), "another program may be writing the new one");
    }

    /// Run again by the test below, where the file is a mount of its own.
    #[test]
    fn into_a_mount() {
        let Some(path) = std::env::var_os("MEMWALL_TEST_MOUNTED").map(PathBuf::from) else { return };
        let before = fs::metadata(&path).unwrap().ino();
        save(&path, "run: {}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "run: {}\n");
        assert_eq!(fs::metadata(&path).unwrap().ino(), before);
    }

    #[test]
    fn a_file_that_is_a_mount_of_its_own_is_written_in_place() {
        let (folder, path) = folder_with("plan.yaml", "model: {}\n");
        let source = folder.path().join("source.yaml");
        fs::write(&source, "model: {}\n").unwrap();
        let script = "mount --bind \"$1\" \"$2\" || exit 77; exec \"$0\" --exact plan::save::tests::into_a_mount";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(std::env::current_exe().unwrap()).args([&source, &path]);
        match command.env("MEMWALL_TEST_MOUNTED", &path).output() {
            Ok(done) if done.status.success() => assert_eq!(fs::read_to_string(&source).unwrap(), "run: {}\n"),
            Ok(done) if done.status.code() == Some(101) => panic!("{done:?}"),
            _ => eprintln!("not run: this user may not mount"),
        }
    }
}
