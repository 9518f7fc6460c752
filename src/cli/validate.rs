//! `memwall validate`.

mod traced;

use std::path::Path;

use serde_json::Value;
use traced::TracedCases;

use super::args::{ReportFormat, ValidateArgs};
use super::progress::ProgressLine;
use super::{Exit, Failure, Streams, output, picture, plans};
use crate::catalog::Catalog;
use crate::plan::Fault;
use crate::predict::{Job, Prediction, counted, predict};
use crate::report::plots;
use crate::report::validate::{self, Refusal, ValidationOutcome};

pub fn run(args: &ValidateArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let plots = args.plot || picture::is_picture(args.output.as_deref());
    let format = output::format(args.format, args.output.as_deref().filter(|_| !plots))?;
    let mut outcome = ValidationOutcome::default();
    let mut exit = Exit::Done;
    let tracer = args.traced.then(|| TracedCases::new(&args.python, catalog)).transpose()?;
    for file in &args.cases {
        let shown = file.display();
        let read = match &tracer {
            Some(tracer) => Ok(tracer.of(file)),
            None => streams
                .read(file)
                .and_then(|text| validate::read(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))),
        };
        let cases = match read {
            Ok(cases) => cases,
            Err(failure) => {
                exit = exit.and(streams.end(Err(failure)));
                continue;
            }
        };
        // Paths of a traced case are those of the command line.
        let folder = if args.traced { Path::new("") } else { file.parent().unwrap_or(file) };
        let failed_before = outcome.failed.len();
        let mut progress = ProgressLine::new("cases", cases.len());
        for case in cases {
            progress.tick(streams);
            outcome.add(case, |plan| predicted(plan, folder, catalog));
        }
        progress.clear(streams);
        for failure in &outcome.failed[failed_before..] {
            // A configuration is its own case.
            let error = failure.error.strip_prefix(&format!("{shown}: ")).unwrap_or(&failure.error);
            let case = if args.traced { String::new() } else { format!("{}: ", failure.id) };
            exit = exit.and(streams.fail(Exit::Failed, &format!("{shown}: {case}{error}")));
        }
    }
    if plots {
        let drawn = picture::deliver(&plots::validation(&outcome), args.output.as_deref(), streams);
        return Ok(exit.and(streams.end(drawn)));
    }
    if !outcome.rows.is_empty() && outcome.rows.iter().all(|row| row.error_pct.is_none()) {
        let nothing = "nothing was compared: no measured quantity has a prediction (`memwall schema cases` lists them)";
        exit = exit.and(streams.fail(Exit::Failed, nothing));
    }
    let text = match format {
        ReportFormat::Text => {
            let page = output::page(args.output.as_deref());
            page.show(&validate::text(&outcome, if args.traced { "traced" } else { "measured" }, page.width))
        }
        ReportFormat::Json => format!("{:#}\n", validate::json(&outcome)),
        ReportFormat::Csv => validate::csv(&outcome).map_err(Failure::failed)?,
    };
    Ok(exit.and(streams.deliver(args.output.as_deref(), &text)))
}

fn predicted(plan: &Value, folder: &Path, catalog: &Catalog) -> Result<Prediction, Refusal> {
    let plan = plans::of_case(plan, folder).map_err(|faults| Refusal { reason: in_a_line(faults), count: None })?;
    Job::resolve(&plan, catalog)
        .map(|job| predict(&job))
        .map_err(|faults| Refusal { reason: in_a_line(faults), count: counted(&plan) })
}

/// A case is on one line: its key says more than a column there.
fn in_a_line(faults: Vec<Fault>) -> String {
    let each = faults.into_iter().map(|fault| Fault { at: None, ..fault }.to_string());
    each.collect::<Vec<_>>().join("; ")
}
