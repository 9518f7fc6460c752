//! `memwall validate`.

use serde_json::Value;

use super::args::{ReportFormat, ValidateArgs};
use super::progress::ProgressLine;
use super::{Exit, Streams, output, picture, plans};
use crate::catalog::Catalog;
use crate::plan::Fault;
use crate::predict::{Job, Prediction, counted, predict};
use crate::report::plots;
use crate::report::validate::{self, Refusal, ValidationOutcome};

pub fn run(args: &ValidateArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let plots = args.plot || picture::is_picture(args.output.as_deref());
    let format = match output::format(args.format, args.output.as_deref().filter(|_| !plots)) {
        Ok(format) => format,
        Err(message) => return streams.fail(Exit::Usage, &message),
    };
    let mut outcome = ValidationOutcome::default();
    let mut exit = Exit::Done;
    for file in &args.cases {
        let text = match streams.read(file) {
            Ok(text) => text,
            Err(failed) => {
                exit = exit.and(failed);
                continue;
            }
        };
        let shown = file.display();
        let cases = match validate::read(&text) {
            Ok(cases) => cases,
            Err(error) => {
                exit = exit.and(streams.fail(Exit::Usage, &format!("{shown}: {error}")));
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
        return exit.and(picture::deliver(&plots::validation(&outcome), args.output.as_deref(), streams));
    }
    let text = match format {
        ReportFormat::Text => {
            let page = output::page(args.output.as_deref());
            page.show(&validate::text(&outcome, page.width))
        }
        ReportFormat::Json => format!("{:#}\n", validate::json(&outcome)),
        ReportFormat::Csv => match validate::csv(&outcome) {
            Ok(text) => text,
            Err(error) => return streams.fail(Exit::Failed, &error.to_string()),
        },
    };
    exit.and(streams.deliver(args.output.as_deref(), &text))
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
