//! Files of sysfs: one value each, or a reason why there is none.

use std::borrow::Cow;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::reading::{Absence, Moment, Reading};

/// A folder of such files.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    /// That one.
    pub const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What a file says, without its line end.
    pub fn text(&self, name: &str) -> Result<String, Absence> {
        let text = fs::read_to_string(self.0.join(name)).map_err(|error| absence(&error))?;
        Ok(text.trim().to_owned())
    }

    /// The number in a file, `scale` of the wanted unit each.
    pub fn number(&self, name: &str, scale: f64, now: Moment) -> Reading<f64> {
        match self.text(name) {
            Ok(text) => match text.parse::<f64>() {
                Ok(number) => Reading::measured(number * scale, now),
                Err(_) => Reading::Absent(Absence::Failed(Cow::Owned(format!("{name} has no number")))),
            },
            Err(why) => Reading::Absent(why),
        }
    }

    /// Names given by files `prefix1_label`, `prefix2_label`, …, each with the file of its value.
    pub fn labelled(&self, prefix: &str) -> Vec<(String, String)> {
        let found = (1..=9).filter_map(|number| {
            let label = self.text(&format!("{prefix}{number}_label")).ok()?;
            Some((label, format!("{prefix}{number}_input")))
        });
        found.collect()
    }
}

/// Why a file gives nothing. What a GPU lacks has no file, or one that refuses.
pub fn absence(error: &io::Error) -> Absence {
    /// `EOPNOTSUPP` and `EINVAL`: the driver's answers for a sensor that this chip has not.
    const REFUSED: [i32; 2] = [95, 22];
    /// `ENODEV`: the GPU is off the bus.
    const NO_DEVICE: i32 = 19;
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::NotFound | ErrorKind::Unsupported, _) => Absence::NotSupported,
        (ErrorKind::PermissionDenied, _) => Absence::NoPermission,
        (_, Some(code)) if REFUSED.contains(&code) => Absence::NotSupported,
        (_, Some(NO_DEVICE)) => Absence::Gone,
        _ => Absence::Failed(Cow::Owned(error.to_string())),
    }
}
