//! `memwall predict`.

mod split;
mod stream;

use super::args::{DashboardArgs, PredictArgs, ReportFormat, ShapeArgs};
use super::plans::{self, PlanSource};
use super::{Exit, Streams, limits, output, replay, shape};
use crate::advise::{Advice, advise};
use crate::catalog::Catalog;
use crate::observe::SourceChoice;
use crate::plan::keywords::{Mode, Position};
use crate::plan::{Fault, Plan};
use crate::predict::{Job, Prediction, counted, predict, scaling_efficiency};
use crate::report::{self, MaxBatch, MaxSequence, Report, csv, json, text};
use crate::units::Fraction;

pub fn run(args: &PredictArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let format = match output::format(args.format, args.output.as_deref()) {
        Ok(format) => format,
        Err(message) => return streams.fail(Exit::Usage, &message),
    };
    if args.what == ["-"] {
        return stream::run(args, format, catalog, streams);
    }
    if args.faults {
        return streams.fail(Exit::Usage, stream::FAULTS_NEED);
    }
    let (sources, mut exit) = match sources(args, streams) {
        Ok(found) => found,
        Err(exit) => return exit,
    };
    let mut answers = Vec::new();
    let mut known = String::new();
    for source in &sources {
        match answer(source, args, catalog) {
            Ok(answer) => answers.push(answer),
            Err(faults) => {
                known.push_str(&parameters(source, &faults, format));
                exit = exit.and(source.tell(faults, streams));
            }
        }
    }
    if answers.is_empty() {
        return if known.is_empty() { exit } else { exit.and(streams.deliver(args.output.as_deref(), &known)) };
    }
    if answers.iter().any(|answer| !answer.fits()) {
        exit = exit.and(Exit::DoesNotFit);
    }
    let written = match written(&answers, format, args.verbose) {
        Ok(written) => written + &known,
        Err(message) => return streams.fail(Exit::Failed, &message),
    };
    exit.and(streams.deliver(args.output.as_deref(), &written))
}

/// What `memwall PLAN` does where there is no terminal to draw on: the report as text.
pub fn without_screen(args: &DashboardArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    if let Some(SourceChoice::Replay { path, .. }) = &args.source {
        return replay::summarise(path, ReportFormat::Text, streams);
    }
    let Some(plan) = &args.plan else {
        let message = "no terminal for the dashboard and no plan to report: name a plan, or see memwall --help";
        return streams.fail(Exit::Usage, message);
    };
    let args = PredictArgs {
        what: vec![plan.to_string_lossy().into_owned()],
        format: None,
        output: None,
        verbose: false,
        bottlenecks: false,
        max_batch_size: false,
        faults: false,
        shape: ShapeArgs::default(),
    };
    run(&args, catalog, streams)
}

/// What is known of a model that is refused: its parameters. A table of predictions has no row for that.
fn parameters(source: &PlanSource, faults: &[Fault], format: ReportFormat) -> String {
    let Some(count) = counted(source.plan()) else { return String::new() };
    match format {
        ReportFormat::Text => report::counted::text(&source.name, &count),
        ReportFormat::Json => {
            let reasons: Vec<String> = faults.iter().map(ToString::to_string).collect();
            format!("{}\n", report::counted::json(&source.name, &count, &reasons))
        }
        ReportFormat::Csv => String::new(),
    }
}

struct Answer<'a> {
    name: &'a str,
    prediction: Prediction,
    scaling: Option<Fraction>,
    max_batch: Option<MaxBatch>,
    max_sequence: Option<MaxSequence>,
    advice: Option<Advice>,
}

impl Answer<'_> {
    fn fits(&self) -> bool {
        self.prediction.capacity.needed <= self.prediction.capacity.bytes
    }

    fn report(&self) -> Report<'_> {
        Report {
            plan: self.name,
            prediction: &self.prediction,
            scaling: self.scaling,
            max_batch: self.max_batch,
            max_sequence: self.max_sequence,
            advice: self.advice.as_ref(),
        }
    }
}

/// The plans that the command line names.
fn sources(args: &PredictArgs, streams: &mut Streams) -> Result<(Vec<PlanSource>, Exit), Exit> {
    if let Some(plan) = shape::plan(&args.what, &args.shape) {
        return Ok(plans::of_words(args.what.join(" "), &plan, streams));
    }
    if shape::lacks_batch(&args.what) {
        let message = format!("{}: BATCH is missing: memwall predict MODEL_TYPE SIZE BATCH", args.what.join(" "));
        return Err(streams.fail(Exit::Usage, &message));
    }
    if let Some(option) = args.shape.first_given() {
        let message = format!("{option} goes with MODEL_TYPE SIZE BATCH; a plan file has a key for it");
        return Err(streams.fail(Exit::Usage, &message));
    }
    let mut all = Vec::new();
    let mut exit = Exit::Done;
    for word in &args.what {
        let (sources, read) = plans::of_file(word, streams);
        all.extend(sources);
        exit = exit.and(read);
    }
    Ok((all, exit))
}

fn answer<'a>(source: &'a PlanSource, args: &PredictArgs, catalog: &Catalog) -> Result<Answer<'a>, Vec<Fault>> {
    let job = Job::resolve(source.plan(), catalog)?;
    let prediction = predict(&job);
    let again = |plan: &Plan| Job::resolve(plan, catalog).ok().map(|job| predict(&job));
    let ratio = job.batch.global / job.batch.micro.max(1);
    let max_batch = args.max_batch_size.then(|| limits::batch(source.plan(), ratio, again));
    let generates = job.training.mode == Mode::Inference;
    let max_sequence =
        (args.max_batch_size && generates).then(|| limits::sequence(source.plan(), longest_sequence(&job), again));
    // Some forty changed plans are predicted for it: it is asked for, here or in the plan.
    let wanted = args.bottlenecks || source.plan().analysis.enable_bottlenecks == Some(true);
    let advice = wanted.then(|| advise(source.plan(), &job, &prediction, catalog));
    let scaling = scaling_efficiency(&job, &prediction.time);
    Ok(Answer { name: &source.name, prediction, scaling, max_batch, max_sequence, advice })
}

/// As far as the plan's key goes, or a table of learned positions.
fn longest_sequence(job: &Job) -> u64 {
    const SCHEMA: u64 = 1 << 27;
    let Some(decoder) = job.decoder() else { return SCHEMA };
    decoder.max_positions.filter(|_| decoder.position == Position::Learned).map_or(SCHEMA, |rows| rows.min(SCHEMA))
}

fn written(answers: &[Answer], format: ReportFormat, verbose: bool) -> Result<String, String> {
    let reports: Vec<Report> = answers.iter().map(Answer::report).collect();
    Ok(match format {
        ReportFormat::Text => {
            reports.iter().map(|report| text::report(report, verbose)).collect::<Vec<_>>().join("\n\n")
        }
        ReportFormat::Json => reports.iter().map(|report| format!("{}\n", json::report(report))).collect(),
        ReportFormat::Csv => csv::reports(&reports).map_err(|error| error.to_string())?,
    })
}
