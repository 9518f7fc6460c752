//! `memwall replay --format`: a recording in figures, without a screen.

use std::path::Path;

use super::args::ReportFormat;
use super::{Exit, Streams, output, picture};
use crate::catalog::Catalog;
use crate::observe::{OpenError, Recording, Samples};
use crate::plan::LoadedPlan;
use crate::predict::{self, Prediction};
use crate::report::plots;
use crate::report::recording::RecordingSummary;

pub fn summarise(path: &Path, format: ReportFormat, file: Option<&Path>, streams: &mut Streams) -> Exit {
    let recording = match Recording::open(path) {
        Ok(recording) => recording,
        Err(why) => return streams.fail(exit_for(&why), &why.to_string()),
    };
    let summary = RecordingSummary::of(&mut Samples::of(recording));
    let text = match format {
        ReportFormat::Text => {
            let page = output::page(file);
            page.show(&summary.text(page.width))
        }
        ReportFormat::Json => format!("{:#}\n", summary.json()),
        ReportFormat::Csv => match summary.csv() {
            Ok(text) => text,
            Err(error) => return streams.fail(Exit::Failed, &error.to_string()),
        },
    };
    let exit = streams.deliver(file, &text);
    // The figures are right as far as they go: that they do not go to the end is no failure.
    summary.damage.map_or(exit, |damage| exit.and(streams.fail(Exit::Done, &damage)))
}

/// Plots the memory of a recording against what its plan predicts.
pub fn plot(path: &Path, file: Option<&Path>, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let recording = match Recording::open(path) {
        Ok(recording) => recording,
        Err(why) => return streams.fail(exit_for(&why), &why.to_string()),
    };
    let plan = recording.header().plan.as_ref().and_then(|plan| LoadedPlan::from_text(&plan.name, &plan.text).ok());
    let prediction = plan.and_then(|plan| predict::of(&plan.plan, catalog).ok());
    let stage = prediction.as_ref().map(Prediction::largest);
    let plot = plots::recording(&path.display().to_string(), &mut Samples::of(recording), stage);
    picture::deliver(&[plot], file, streams)
}

/// What it means that a recording cannot be opened.
pub fn exit_for(why: &OpenError) -> Exit {
    if why.is_usage() { Exit::Usage } else { Exit::Failed }
}
