//! `memwall validate`.

use serde_json::Value;

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
    for file in &args.cases {
        let shown = file.display();
        let read = streams
            .read(file)
            .and_then(|text| validate::read(&text).map_err(|error| Failure::usage(format!("{shown}: {error}"))));
        let cases = match read {
            Ok(cases) => cases,
            Err(failure) => {
                exit = exit.and(streams.end(Err(failure)));
                continue;
            }
        };
        let failed_before = outcome.failed.len();
        let mut progress = ProgressLine::new("cases", cases.len());
        for case in cases {
            progress.tick(streams);
            outcome.add(case, |plan| predicted(plan, file.parent().unwrap_or(file), catalog));
        }
        progress.clear(streams);
        for failure in &outcome.failed[failed_before..] {
            exit = exit.and(streams.fail(Exit::Failed, &format!("{shown}: {}: {}", failure.id, failure.error)));
        }
    }
    if plots {
        let drawn = picture::deliver(&plots::validation(&outcome), args.output.as_deref(), streams);
        return Ok(exit.and(streams.end(drawn)));
    }
    let text = match format {
        ReportFormat::Text => {
            let page = output::page(args.output.as_deref());
            page.show(&validate::text(&outcome, page.width))
        }
        ReportFormat::Json => format!("{:#}\n", validate::json(&outcome)),
        ReportFormat::Csv => validate::csv(&outcome).map_err(Failure::failed)?,
    };
    Ok(exit.and(streams.deliver(args.output.as_deref(), &text)))
}

fn predicted(plan: &Value, folder: &std::path::Path, catalog: &Catalog) -> Result<Prediction, Refusal> {
    let in_a_line = |faults: Vec<Fault>| {
        // A case is on one line: its key says more than a column there.
        let each = faults.into_iter().map(|fault| Fault { at: None, ..fault }.to_string());
        each.collect::<Vec<_>>().join("; ")
    };
    let plan = plans::of_case(plan, folder).map_err(|faults| Refusal { reason: in_a_line(faults), count: None })?;
    Job::resolve(&plan, catalog)
        .map(|job| predict(&job))
        .map_err(|faults| Refusal { reason: in_a_line(faults), count: counted(&plan) })
}
