//! `memwall sweep`.

use std::path::Path;

use super::args::{ReportFormat, SweepArgs};
use super::plans::{self, PlanSource};
use super::{Exit, Failure, Streams, output, picture, progress};
use crate::advise::{Axis, ProgressCounter, Sweep, sweep_counted};
use crate::catalog::Catalog;
use crate::plan::Fault;
use crate::report::page::Page;
use crate::report::{plots, sweep as report};

pub fn run(args: &SweepArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let plots = args.plot || picture::is_picture(args.output.as_deref());
    let format = output::format(args.format, args.output.as_deref().filter(|_| !plots))?;
    let source = plans::only(&args.plan, &args.set, streams)?;
    let axes = axes(args, &source);
    let work = |counter: &ProgressCounter| axes.and_then(|axes| sweep_counted(source.plan(), axes, catalog, counter));
    let swept = progress::watched("predictions", work, streams)?;
    let swept = swept.map_err(|fault| Failure::usage(format!("--vary: {fault}")))?;
    if plots {
        return picture::deliver(&plots::sweep(&source.name, &swept), args.output.as_deref(), streams);
    }
    let text = written(&source.name, &swept, format, output::page(args.output.as_deref()))?;
    Ok(streams.deliver(args.output.as_deref(), &text))
}

fn axes(args: &SweepArgs, source: &PlanSource) -> Result<Vec<Axis>, Fault> {
    let folder = source.folder().unwrap_or(Path::new(""));
    args.vary.iter().map(|text| Axis::parse(text, folder)).collect()
}

fn written(name: &str, swept: &Sweep, format: ReportFormat, page: Page) -> Result<String, Failure> {
    Ok(match format {
        ReportFormat::Text => page.show(&report::text(name, swept, page.width)),
        ReportFormat::Json => format!("{}\n", report::json(name, swept)),
        ReportFormat::Csv => report::csv(swept).map_err(Failure::failed)?,
    })
}
