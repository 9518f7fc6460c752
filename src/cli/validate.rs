//! `memwall validate`.

use serde_json::Value;

use super::args::{ReportFormat, ValidateArgs};
use super::{Exit, Streams, plans};
use crate::catalog::Catalog;
use crate::plan::Fault;
use crate::predict::{Job, Prediction, predict};
use crate::report::validate::{self, ValidationOutcome};

pub fn run(args: &ValidateArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
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
        for case in cases {
            outcome.add(case, |plan| predicted(plan, file.parent().unwrap_or(file), catalog));
        }
        for failure in &outcome.failed[failed_before..] {
            exit = exit.and(streams.fail(Exit::Failed, &format!("{shown}: {}: {}", failure.id, failure.error)));
        }
    }
    let text = match args.format {
        ReportFormat::Text => validate::text(&outcome),
        ReportFormat::Json => format!("{:#}\n", validate::json(&outcome)),
        ReportFormat::Csv => match validate::csv(&outcome) {
            Ok(text) => text,
            Err(error) => return streams.fail(Exit::Failed, &error.to_string()),
        },
    };
    exit.and(streams.print(&text))
}

fn predicted(plan: &Value, folder: &std::path::Path, catalog: &Catalog) -> Result<Prediction, String> {
    let in_a_line = |faults: Vec<Fault>| {
        // A case is on one line: its key says more than a column there.
        let each = faults.into_iter().map(|fault| Fault { at: None, ..fault }.to_string());
        each.collect::<Vec<_>>().join("; ")
    };
    let plan = plans::of_case(plan, folder).map_err(in_a_line)?;
    Job::resolve(&plan, catalog).map(|job| predict(&job)).map_err(in_a_line)
}
