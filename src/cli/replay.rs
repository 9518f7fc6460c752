//! `memwall replay --format`: a recording in figures, without a screen.

use std::path::Path;

use super::args::ReportFormat;
use super::{Exit, Failure, Streams, output, picture};
use crate::catalog::Catalog;
use crate::observe::{OpenError, Recording, Samples};
use crate::plan::LoadedPlan;
use crate::predict::{self, Prediction};
use crate::report::plots;
use crate::report::recording::RecordingSummary;

pub fn summarise(
    path: &Path,
    format: ReportFormat,
    file: Option<&Path>,
    streams: &mut Streams,
) -> Result<Exit, Failure> {
    let recording = Recording::open(path)?;
    let summary = RecordingSummary::of(&mut Samples::of(recording));
    let text = match format {
        ReportFormat::Text => {
            let page = output::page(file);
            page.show(&summary.text(page.width))
        }
        ReportFormat::Json => format!("{:#}\n", summary.json()),
        ReportFormat::Csv => summary.csv().map_err(Failure::failed)?,
    };
    let exit = streams.deliver(file, &text);
    // The figures are right as far as they go: that they do not go to the end is no failure.
    if let Some(damage) = &summary.damage {
        streams.note(damage);
    }
    Ok(exit)
}

/// Plots the memory of a recording against what its plan predicts.
pub fn plot(path: &Path, file: Option<&Path>, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let recording = Recording::open(path)?;
    let plan = recording.header().plan.as_ref().and_then(|plan| LoadedPlan::from_text(&plan.name, &plan.text).ok());
    let prediction = plan.and_then(|plan| predict::of(&plan.plan, catalog).ok());
    let stage = prediction.as_ref().map(Prediction::largest);
    let plot = plots::recording(&path.display().to_string(), &mut Samples::of(recording), stage);
    picture::deliver(&[plot], file, streams)
}

/// What it means that a recording cannot be opened.
impl From<OpenError> for Failure {
    fn from(why: OpenError) -> Self {
        if why.is_usage() { Self::usage(why) } else { Self::failed(why) }
    }
}
