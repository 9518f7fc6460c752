//! W&B's summary of a run (`wandb-summary.json`, `SUMMARY_FNAME` in `wandb/sdk/lib/filenames.py` of wandb 0.31): the
//! last value of each thing that it logged.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::super::formats::flatten;
use super::{EventRow, millis};
use crate::regular_file;

/// How W&B calls it, in a run's `files`.
pub const NAME: &str = "wandb-summary.json";

/// Tables and histograms are in files of their own.
const LARGEST: u64 = 1 << 20;

/// Reads it whole whenever it has changed: W&B writes it anew each time.
#[derive(Debug)]
pub struct SummaryDecoder {
    path: PathBuf,
    told: Option<EventRow>,
}

impl SummaryDecoder {
    /// Of the file at `path`.
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), told: None }
    }

    /// Gives what it says now, where that is not what it said before. One that is being written says nothing yet.
    pub fn push(&mut self, mut row: impl FnMut(EventRow)) {
        let now = regular_file(&self.path, LARGEST).ok().and_then(|text| row_of(&text));
        if let Some(now) = now
            && self.told.as_ref() != Some(&now)
        {
            self.told = Some(now.clone());
            row(now);
        }
    }
}

/// The numbers of a summary that has a step.
fn row_of(text: &str) -> Option<EventRow> {
    let written: Map<String, Value> = serde_json::from_str(text).ok()?;
    let mut fields = Vec::new();
    flatten(&written, "", 0, &mut fields);
    let number = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, number)| *number);
    number("_step")?;
    let stamp = number("_timestamp").and_then(millis);
    Some(EventRow { fields, stamp })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_values_are_told_once_each_time_that_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let mut decoder = SummaryDecoder::of(&path);
        let mut steps = Vec::new();
        for text in [
            r#"{"_step": 10, "_timestamp": 1700000000.5, "train/loss": 2.5, "note": "x", "_wandb": {"runtime": 3}}"#,
            r#"{"_step": 10, "_timestamp": 1700000000.5, "train/loss": 2.5, "note": "x", "_wandb": {"runtime": 3}}"#,
            r#"{"_step": 20, "_times"#,
            r#"{"_step": 20, "train/loss": 2.25}"#,
            r#"{"loss": 1.0}"#,
        ] {
            std::fs::write(&path, text).unwrap();
            decoder.push(|row| {
                let number = |wanted: &str| row.fields.iter().find(|(name, _)| name == wanted).map(|field| field.1);
                steps.push((number("_step"), number("train/loss"), row.stamp));
            });
        }
        let expected = [(Some(10.0), Some(2.5), Some(1_700_000_000_500)), (Some(20.0), Some(2.25), None)];
        assert_eq!(steps, expected);
    }
}
