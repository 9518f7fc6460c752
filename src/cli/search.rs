//! `memwall search`.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::args::{ReportFormat, SearchArgs};
use super::plans::{self, PlanSource};
use super::{Exit, Failure, Streams, output, picture};
use crate::advise::{
    FewestGpus, KNOBS, LargestModel, Limit, RankedPlan, Request, SearchOutcome, SearchProgress, SmallestChange,
    fewest_gpus, largest_model, left_out, search, smallest_change,
};
use crate::catalog::Catalog;
use crate::compare::Bands;
use crate::plan::{self, Fault, keys, schema};
use crate::predict::{Job, lacking};
use crate::report::{plots, search as report};

/// Between two looks at the progress.
const LOOK: Duration = Duration::from_millis(100);

/// What was asked for.
enum Answer {
    Plans(Box<SearchOutcome>),
    Gpus(Box<Limit<FewestGpus>>),
    Model(Box<Limit<LargestModel>>),
    Change(Box<Option<SmallestChange>>),
}

pub fn run(args: &SearchArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let written_plan = args.output.as_deref().filter(|file| is_plan(file));
    let plots = args.plot || picture::is_picture(args.output.as_deref());
    let format = output::format(args.format, args.output.as_deref().filter(|file| !plots && !is_plan(file)))?;
    let is_limit = args.smallest_change || args.fewest_gpus || args.largest_model;
    if is_limit && (plots || matches!(format, ReportFormat::Csv)) {
        let words = "--smallest-change, --fewest-gpus and --largest-model answer in text or json alone";
        return Err(Failure::usage(words));
    }
    let source = plans::only(&args.plan, &args.set, streams)?;
    let keep = kept(args).map_err(|fault| Failure::usage(format!("--keep: {fault}")))?;
    // As text, variants that are alike are one row: of more plans as many rows remain.
    let top = if matches!(format, ReportFormat::Text) { args.top.saturating_mul(2) } else { args.top };
    let request = Request { plan: source.plan(), keep, top, free_batch: args.free_batch };
    let start = Instant::now();
    let asked = |progress: &SearchProgress| ask(args, &request, catalog, progress);
    let (answer, cancelled) = watched(asked, streams)?;
    let answer = answer.map_err(|faults| source.refused(faults))?;
    let stopped =
        if cancelled { streams.fail(Exit::Failed, "stopped: what follows is the best so far") } else { Exit::Done };
    let (name, file) = (source.name.as_str(), args.output.as_deref().filter(|file| !is_plan(file)));
    let told = match &answer {
        Answer::Plans(found) if plots => {
            let drawn = picture::deliver(&[plots::pareto(&source.name, found)], args.output.as_deref(), streams);
            streams.end(drawn).and(fits(!found.ranked.is_empty()))
        }
        Answer::Plans(found) => {
            let told = plans_told((&source, catalog), found, start.elapsed(), format, args, streams);
            streams.end(told)
        }
        Answer::Gpus(found) => {
            let told = LimitReport {
                text: &|width| report::gpus(name, found, width),
                json: &|| report::gpus_json(name, found),
            };
            told.deliver(format, file, streams).and(fits(found.any.is_some()))
        }
        Answer::Change(found) => {
            let found = found.as_ref().as_ref();
            let told = LimitReport {
                text: &|width| report::smallest(name, found, width),
                json: &|| report::smallest_json(name, found),
            };
            told.deliver(format, file, streams).and(fits(found.is_some()))
        }
        Answer::Model(found) => {
            let told = LimitReport {
                text: &|width| report::model(name, found, width),
                json: &|| report::model_json(name, found),
            };
            told.deliver(format, file, streams).and(fits(found.any.billions.is_some()))
        }
    };
    let winner = match &answer {
        Answer::Plans(found) => found.ranked.first(),
        Answer::Gpus(found) => found.any.as_ref().map(|(_, plan)| plan),
        Answer::Change(found) => found.as_ref().as_ref().and_then(|found| Some(&found.plans.first()?.ranked)),
        // A published model before a made-up size, and before both what a host must hold that no plan speaks of.
        Answer::Model(found) => [&found.kept, &found.any].into_iter().find_map(|LargestModel { preset, billions }| {
            preset.as_ref().map(|(_, plan)| plan).or(billions.as_ref().map(|(_, plan)| plan))
        }),
    };
    let saved = written_plan.zip(winner).map_or(Ok(Exit::Done), |(file, winner)| save(&source, winner, file));
    Ok(stopped.and(told).and(streams.end(saved)))
}

/// An answer that is no list of plans, in either form.
struct LimitReport<'a> {
    text: &'a dyn Fn(usize) -> String,
    json: &'a dyn Fn() -> Value,
}

impl LimitReport<'_> {
    fn deliver(&self, format: ReportFormat, file: Option<&Path>, streams: &mut Streams) -> Exit {
        let text = if matches!(format, ReportFormat::Json) {
            format!("{}\n", (self.json)())
        } else {
            let page = output::page(file);
            page.show(&(self.text)(page.width))
        };
        streams.deliver(file, &text)
    }
}

fn is_plan(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml"))
}

fn fits(does: bool) -> Exit {
    if does { Exit::Done } else { Exit::DoesNotFit }
}

/// Knobs that stay: those of `--keep`, and those that `--set` decided.
fn kept(args: &SearchArgs) -> Result<Vec<&'static str>, Fault> {
    let mut keep = Vec::new();
    for name in &args.keep {
        let key = schema::named(name)?.path;
        let known = KNOBS.iter().find(|knob| **knob == key);
        keep.push(
            *known.ok_or_else(|| {
                Fault::of(key, format!("is not a knob of the search; known are {}", KNOBS.join(", ")))
            })?,
        );
    }
    for text in &args.set {
        let name = text.split('=').next().unwrap_or(text).trim();
        keep.extend(schema::named(name).ok().and_then(|key| KNOBS.iter().find(|knob| **knob == key.path)));
    }
    Ok(keep)
}

fn ask(
    args: &SearchArgs,
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Result<Answer, Vec<Fault>> {
    if args.smallest_change {
        return smallest_change(request, catalog, progress).map(|found| Answer::Change(Box::new(found)));
    }
    if args.fewest_gpus {
        return fewest_gpus(request, catalog, progress).map(|found| Answer::Gpus(Box::new(found)));
    }
    if args.largest_model {
        return largest_model(request, catalog, progress).map(|found| Answer::Model(Box::new(found)));
    }
    search(request, catalog, progress).map(|found| Answer::Plans(Box::new(found)))
}

/// Runs `work` on a thread of its own; shows how far it is on a terminal, and stops it at Ctrl-C. With what came of
/// it, whether it was stopped.
fn watched<T: Send>(
    work: impl FnOnce(&SearchProgress) -> T + Send,
    streams: &mut Streams,
) -> Result<(T, bool), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("no search could be started: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    // One listener for all looks: with one for each, a key between two of them would be missed.
    let mut interrupt = runtime.block_on(async { signal(SignalKind::interrupt()) }).map_err(failed)?;
    let progress = SearchProgress::default();
    let shown = std::io::stderr().is_terminal();
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&progress));
        runtime.block_on(async {
            while !worker.is_finished() {
                tokio::select! {
                    _ = interrupt.recv() => progress.cancel(),
                    () = tokio::time::sleep(LOOK) => if shown { show(&progress, streams) },
                }
            }
        });
        worker.join()
    });
    if shown {
        // The line is for the eye; a terminal that takes no more has none.
        let _ = write!(streams.err, "\r\x1b[K");
    }
    let result = result.map_err(|_| Failure::failed("the search failed"))?;
    Ok((result, progress.is_cancelled()))
}

fn show(progress: &SearchProgress, streams: &mut Streams) {
    let _ = write!(streams.err, "\r\x1b[K{}", report::progress(&progress.seen()));
    let _ = streams.err.flush();
}

fn plans_told(
    (source, catalog): (&PlanSource, &Catalog),
    found: &SearchOutcome,
    took: Duration,
    format: ReportFormat,
    args: &SearchArgs,
    streams: &mut Streams,
) -> Result<Exit, Failure> {
    // Knobs do not change the kind of run.
    let best = || source.document().changed(&found.ranked.first()?.change).ok()?.plan().ok();
    let job = Job::resolve(source.plan(), catalog).ok().or_else(|| Job::resolve(&best()?, catalog).ok());
    let bands = job.as_ref().map(Bands::of);
    let keep = kept(args).unwrap_or_default();
    if let Some(job) = &job {
        for (_, missing) in lacking(&job.hardware.gpu.name, &job.assumptions) {
            streams.note(&format!("warning: {missing}"));
        }
    }
    let file = args.output.as_deref().filter(|file| !is_plan(file));
    let text = match format {
        ReportFormat::Text => {
            let page = output::page(file);
            let trust =
                bands.as_ref().map_or_else(String::new, |bands| report::trust(found, (bands, args.top), page.width));
            let subject = job.as_ref().map_or_else(String::new, |job| subject(job, &keep));
            let text = report::text(&source.name, &subject, found, (took, args.top), page.width);
            page.show(&format!("{text}{trust}"))
        }
        ReportFormat::Json => {
            let mut value = report::json(&source.name, found, took);
            if let Some(bands) = &bands {
                report::trust_json(&mut value, found, bands);
            }
            format!("{value}\n")
        }
        ReportFormat::Csv => report::csv(found, bands.as_ref()).map_err(Failure::failed)?,
    };
    Ok(streams.deliver(file, &text).and(fits(!found.ranked.is_empty())))
}

/// What every plan of the search has in common, and which sharding is in none of them.
fn subject(job: &Job, keep: &[&str]) -> String {
    let (gpus, batch) = (job.degrees.num_gpus, &job.batch);
    let gpus = if gpus == 1 { "one".to_owned() } else { format!("{gpus}x") };
    let left_out: Vec<String> = left_out(job).iter().map(ToString::to_string).collect();
    let names = left_out.join(" and ");
    let unsearched = match left_out.is_empty() || keep.contains(&keys::distribution::sharding) {
        true => String::new(),
        false => format!("; sharding {names}, of another engine, only where the plan or --set asks for it"),
    };
    format!("on {gpus} {}, batch {}, sequence {}{unsearched}", job.hardware.gpu.name, batch.global, batch.sequence)
}

/// The user's plan with the winner's changes, comments and order kept.
fn save(source: &PlanSource, winner: &RankedPlan, file: &Path) -> Result<Exit, Failure> {
    let edited = source.document().changed(&winner.change).map_err(Failure::failed)?;
    let saved = plan::save(file, edited.text());
    saved.map_err(|fault| Failure::failed(format!("{}: {fault}", file.display())))?;
    Ok(Exit::Done)
}
