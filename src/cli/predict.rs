//! `memwall predict`.

mod layer;
mod split;
mod stream;

use super::args::{DashboardArgs, PredictArgs, PredictionPlot, ReportFormat, ShapeArgs};
use super::dashboard::once;
use super::plans::{self, PlanSource};
use super::{Exit, Failure, Streams, limits, output, picture, replay, shape};
use crate::advise::{Advice, advise};
use crate::catalog::Catalog;
use crate::observe::SourceChoice;
use crate::plan::keywords::{Mode, Position};
use crate::plan::{Fault, Plan};
use crate::predict::{Job, Prediction, counted, predict, scaling_efficiency};
use crate::report::layer::LayerReport;
use crate::report::page::Page;
use crate::report::plot::Plot;
use crate::report::setup::Setup;
use crate::report::{self, MaxBatch, MaxSequence, MeasuredSpread, Report, csv, json, plots, text};
use crate::units::Fraction;

pub fn run(args: &PredictArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let plots = args.plot.is_some() || picture::is_picture(args.output.as_deref());
    let format = output::format(args.format, args.output.as_deref().filter(|_| !plots))?;
    if args.what == ["-"] && !plots {
        return stream::run(args, format, catalog, streams);
    }
    if args.faults {
        return Err(Failure::usage(stream::FAULTS_NEED));
    }
    let (sources, mut exit) = sources(args, catalog, streams)?;
    let mut answers = Vec::new();
    let mut known = String::new();
    for source in &sources {
        match answer(source, args, catalog) {
            Ok(answer) => answers.push(answer),
            Err(faults) => {
                known.push_str(&parameters(source, &faults, format));
                exit = exit.and(streams.end(Err(source.refused(faults))));
            }
        }
    }
    if answers.is_empty() {
        let known = (!known.is_empty()).then_some(known);
        return Ok(known.map_or(exit, |known| exit.and(streams.deliver(args.output.as_deref(), &known))));
    }
    if answers.iter().any(|answer| !answer.fits()) {
        exit = exit.and(Exit::DoesNotFit);
    }
    if plots {
        let plots: Vec<Plot> = answers.iter().map(|answer| plot(answer, args.plot)).collect();
        let drawn = picture::deliver(&plots, args.output.as_deref(), streams);
        return Ok(exit.and(streams.end(drawn)));
    }
    let page = output::page(args.output.as_deref());
    let written = written(&answers, (format, args.verbose), page)? + &known;
    Ok(exit.and(streams.deliver(args.output.as_deref(), &written)))
}

/// What `memwall PLAN` does where there is no terminal to draw on: the report as text.
///
/// # Errors
/// As `memwall predict`, `memwall replay` and `memwall --once` end early.
pub fn without_screen(args: &DashboardArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    if let Some(SourceChoice::Replay { path, .. }) = &args.source {
        return replay::summarise(path, ReportFormat::Text, None, streams);
    }
    let Some(plan) = &args.plan else {
        streams.note("no terminal for the dashboard: this is `memwall --once`; `memwall predict PLAN` reports a plan");
        return once(args, catalog.clone(), streams);
    };
    let args = PredictArgs {
        what: vec![plan.to_string_lossy().into_owned()],
        config: Vec::new(),
        format: None,
        output: None,
        verbose: false,
        bottlenecks: false,
        max_batch_size: false,
        plot: None,
        faults: false,
        layer: Vec::new(),
        input: None,
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
    setup: Setup,
    layer: Option<LayerReport>,
    spread: Option<MeasuredSpread>,
    basic: bool,
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
            setup: Some(&self.setup),
            layer: self.layer.as_ref(),
            spread: self.spread,
            basic: self.basic,
        }
    }
}

/// The plans that the command line names.
fn sources(args: &PredictArgs, catalog: &Catalog, streams: &mut Streams) -> Result<(Vec<PlanSource>, Exit), Failure> {
    if !args.layer.is_empty() {
        let plan = layer::plan(args)?;
        return Ok(plans::of_words(args.layer.join(", "), &plan, streams));
    }
    if let Some(plan) = shape::of_model(&args.what, &args.shape, catalog) {
        return Ok(plans::of_words(args.what.join(" "), &plan, streams));
    }
    if let Some(option) = args.shape.first_of_model() {
        let why = format!("{option} goes with the name of a model that `memwall models` lists: memwall predict MODEL");
        return Err(Failure::usage(why));
    }
    if let Some(plan) = shape::plan(&args.what, &args.shape) {
        if let Some(question) = args.shape.open_degrees() {
            return Err(Failure::usage(question));
        }
        return Ok(plans::of_words(args.what.join(" "), &plan, streams));
    }
    if shape::lacks_batch(&args.what) {
        let what = args.what.join(" ");
        return Err(Failure::usage(format!("{what}: BATCH is missing: memwall predict MODEL_TYPE SIZE BATCH")));
    }
    if let Some(option) = args.shape.first_given() {
        return Err(Failure::usage(format!("{option} goes with MODEL_TYPE SIZE BATCH; a plan file has a key for it")));
    }
    let mut all = Vec::new();
    let mut exit = Exit::Done;
    let configured = args.config.iter().map(|file| file.to_string_lossy().into_owned());
    for word in args.what.iter().cloned().chain(configured) {
        let (sources, read) = plans::of_file(&word, streams);
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
    let basic = source.plan().analysis.basic_mode == Some(true);
    let setup = Setup::of(&job);
    let layer = (!args.layer.is_empty()).then(|| layer::report(source.plan(), &job, catalog));
    let spread = MeasuredSpread::of(&job, &prediction);
    Ok(Answer { name: &source.name, prediction, scaling, max_batch, max_sequence, advice, setup, layer, spread, basic })
}

fn plot(answer: &Answer, what: Option<PredictionPlot>) -> Plot {
    match what {
        None | Some(PredictionPlot::Memory) => plots::step(answer.name, &answer.prediction),
        Some(PredictionPlot::Stages) => plots::stages(answer.name, &answer.prediction),
        Some(PredictionPlot::Ranks) => plots::ranks(answer.name, &answer.prediction),
    }
}

/// As far as the plan's key goes, or a table of learned positions.
fn longest_sequence(job: &Job) -> u64 {
    const SCHEMA: u64 = 1 << 27;
    let Some(decoder) = job.decoder() else { return SCHEMA };
    decoder.max_positions.filter(|_| decoder.position == Position::Learned).map_or(SCHEMA, |rows| rows.min(SCHEMA))
}

fn written(answers: &[Answer], (format, verbose): (ReportFormat, bool), page: Page) -> Result<String, Failure> {
    let reports: Vec<Report> = answers.iter().map(Answer::report).collect();
    Ok(match format {
        ReportFormat::Text => {
            let text = |report| page.show(&text::report(report, verbose, page.width));
            reports.iter().map(text).collect::<Vec<_>>().join("\n\n")
        }
        ReportFormat::Json => reports.iter().map(json::line).collect(),
        ReportFormat::Csv => csv::reports(&reports).map_err(Failure::failed)?,
    })
}
