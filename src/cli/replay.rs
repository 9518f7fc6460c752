//! `memwall replay --format`: a recording in figures, without a screen.

use std::path::Path;

use super::args::ReportFormat;
use super::{Exit, Streams};
use crate::observe::{OpenError, Recording, Samples};
use crate::report::recording::RecordingSummary;

pub fn summarise(path: &Path, format: ReportFormat, streams: &mut Streams) -> Exit {
    let recording = match Recording::open(path) {
        Ok(recording) => recording,
        Err(why) => return streams.fail(exit_for(&why), &why.to_string()),
    };
    let summary = RecordingSummary::of(&mut Samples::of(recording));
    let text = match format {
        ReportFormat::Text => summary.text(),
        ReportFormat::Json => format!("{:#}\n", summary.json()),
        ReportFormat::Csv => match summary.csv() {
            Ok(text) => text,
            Err(error) => return streams.fail(Exit::Failed, &error.to_string()),
        },
    };
    let exit = streams.print(&text);
    // The figures are right as far as they go: that they do not go to the end is no failure.
    summary.damage.map_or(exit, |damage| exit.and(streams.fail(Exit::Done, &damage)))
}

/// What it means that a recording cannot be opened.
pub fn exit_for(why: &OpenError) -> Exit {
    if why.is_usage() { Exit::Usage } else { Exit::Failed }
}
