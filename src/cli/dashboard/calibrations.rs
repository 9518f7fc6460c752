//! Calibrations in a file of the user's state: read once, written whole or not at all, and never lost through a
//! file that cannot be read.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::app::{CalibrationError, Calibrations, SavedCalibration};
use crate::cli::user_catalog;
use crate::files;

/// Thousands of calibrations.
const MOST_BYTES: u64 = 4 << 20;

/// The file, `$XDG_STATE_HOME/memwall/calibration.json`; none without a home.
pub fn file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    user_catalog::state_folder(variable).map(|folder| folder.join("calibration.json"))
}

/// The name of this machine: a state folder may be shared by many.
fn machine() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// What the file holds; nothing where there is none, and a line where it cannot be read.
pub fn read(file: Option<&Path>) -> (Calibrations, Option<String>) {
    let read = file.map_or(Ok(Calibrations::default()), held);
    let (mut all, fault) = match read {
        Ok(all) => (all, None),
        Err(why) => (Calibrations::default(), Some(format!("no calibration is used: {why}"))),
    };
    all.machine = machine();
    (all, fault)
}

fn held(file: &Path) -> Result<Calibrations, CalibrationError> {
    let unreadable = |why: String| CalibrationError::Unreadable { path: file.display().to_string(), why };
    match files::read_text(file, MOST_BYTES) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| unreadable(error.to_string())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Calibrations::default())
        }
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Puts a calibration into the file, or takes it out; what the file holds then. Others may have written to it
/// since it was read: theirs stay. A file that cannot be read is moved aside.
///
/// # Errors
/// Why nothing was written.
pub fn write(file: Option<&Path>, kept: SavedCalibration, keep: bool) -> Result<Calibrations, CalibrationError> {
    let file = file.ok_or(CalibrationError::NoHome)?;
    let failed =
        |error: std::io::Error| CalibrationError::NotKept { path: file.display().to_string(), why: error.to_string() };
    let folder = file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(failed)?;
    let all = match held(file) {
        Ok(all) => all,
        Err(_) => {
            fs::rename(file, beside(file)).map_err(failed)?;
            Calibrations::default()
        }
    };
    let all = if keep { all.with(kept) } else { all.without(&kept) };
    let text = serde_json::to_string_pretty(&all).map_err(|error| failed(error.into()))?;
    let mut next = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    next.write_all(text.as_bytes()).and_then(|()| next.as_file().sync_all()).map_err(failed)?;
    next.persist(file).map_err(|error| failed(error.error))?;
    Ok(all)
}

/// A name beside the file that nothing has: `calibration.json.broken`, `calibration.json.broken2` …
fn beside(file: &Path) -> PathBuf {
    let name = |number: u32| {
        let number = if number == 1 { String::new() } else { number.to_string() };
        PathBuf::from(format!("{}.broken{number}", file.display()))
    };
    (1..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Calibration, Factor};
    use crate::reading::Moment;

    fn kept(framework: &str, times: f64) -> SavedCalibration {
        let factors = Calibration { memory: Some(Factor { times, runs: 1 }), time: None };
        SavedCalibration {
            machine: "a".into(),
            gpu: "NVIDIA H100".into(),
            framework: framework.into(),
            factors,
            at: Moment(7),
        }
    }

    #[test]
    fn what_is_kept_is_found_again_replaced_and_dropped() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("memwall/calibration.json");
        let file = Some(path.as_path());
        write(file, kept("megatron", 1.1), true).unwrap();
        write(file, kept("pytorch", 1.2), true).unwrap();
        write(file, kept("megatron", 1.3), true).unwrap();
        let (all, fault) = read(file);
        assert_eq!((all.kept.clone(), fault), (vec![kept("pytorch", 1.2), kept("megatron", 1.3)], None));
        assert!(!all.machine.is_empty());
        assert_eq!(write(file, kept("pytorch", 1.2), false).unwrap().kept, [kept("megatron", 1.3)]);
        assert_eq!(read(None).0.kept, []);
    }

    #[test]
    fn a_broken_file_is_a_line_and_is_moved_aside_not_lost() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("calibration.json");
        for number in ["", "2"] {
            fs::write(&file, "{\"kept\": [precious").unwrap();
            let (all, fault) = read(Some(&file));
            assert!(all.kept.is_empty() && fault.unwrap().contains("calibration.json"));
            assert_eq!(write(Some(&file), kept("pytorch", 1.2), true).unwrap().kept.len(), 1);
            let aside = home.path().join(format!("calibration.json.broken{number}"));
            assert_eq!(fs::read_to_string(aside).unwrap(), "{\"kept\": [precious");
        }
    }
}
