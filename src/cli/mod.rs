//! The command line: arguments, and the commands that need no screen.

pub mod args;
mod bench;
mod catalogue;
pub mod config;
pub mod dashboard;
mod demo;
mod doctor;
mod exit;
mod explain;
mod export;
mod exporter;
mod followed_run;
mod graphics;
mod help;
mod hub;
mod import;
pub mod infer;
mod limits;
mod models_fit;
mod models_scales;
mod new;
mod output;
mod picture;
mod plans;
mod predict;
mod progress;
mod record;
mod replay;
mod roofline;
mod run;
mod search;
mod shape;
mod signals;
mod sweep;
mod termination;
mod tools;
mod trace;
mod user_catalog;
mod validate;
mod versions;

pub use args::{Cli, Command, DashboardArgs};
pub use exit::{Exit, Failure};
pub use exporter::EXPORTED_METRICS;
pub use output::Streams;
pub use predict::without_screen;

use crate::catalog::Catalog;

/// Carries out what the command line asks. The dashboard, which owns the terminal, is
/// passed in.
pub fn run(
    asked: Cli,
    streams: &mut Streams,
    show: impl FnOnce(DashboardArgs, &mut Streams) -> Result<Exit, Failure>,
) -> Exit {
    let outcome = match asked.command {
        Some(command) => carry_out(command, streams, show),
        None if asked.dashboard.look.theme.as_deref() == Some(args::LIST_THEMES) => {
            Ok(streams.print(dashboard::themes()))
        }
        None => match asked.dashboard.no_such_plan() {
            Some(message) => Err(Failure::usage(message)),
            None if asked.dashboard.once => {
                catalog().and_then(|catalog| dashboard::once(&asked.dashboard, catalog, streams))
            }
            None => show(asked.dashboard, streams),
        },
    };
    streams.end(outcome)
}

/// The catalogue with the user's own entries, asked for by the commands that need it: completions are asked for while
/// a package is built, help when a file is broken.
///
/// # Errors
/// The first fault of the user's files.
pub fn catalog() -> Result<Catalog, Failure> {
    let (catalog, faults) = user_catalog::load(|name| std::env::var_os(name));
    faults.into_iter().next().map_or(Ok(catalog), |fault| Err(Failure::failed(fault)))
}

fn carry_out(
    command: Command,
    streams: &mut Streams,
    show: impl FnOnce(DashboardArgs, &mut Streams) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    match command {
        Command::Predict(args) => predict::run(&args, &catalog()?, streams),
        Command::Sweep(args) => sweep::run(&args, &catalog()?, streams),
        Command::Search(args) => search::run(&args, &catalog()?, streams),
        Command::Roofline(args) => roofline::run(&args, &catalog()?, streams),
        Command::Validate(args) => validate::run(&args, &catalog()?, streams),
        Command::Exporter(args) => exporter::run(&args, &catalog()?, streams),
        Command::Record(args) => record::run(&args, &catalog()?, streams),
        Command::Replay(args) if args.plot || picture::is_picture(args.output.as_deref()) => {
            replay::plot(&args.file, args.output.as_deref(), &catalog()?, streams)
        }
        Command::Replay(args) if args.format.is_some() || args.output.is_some() => {
            let format = output::format(args.format, args.output.as_deref())?;
            replay::summarise(&args.file, format, args.output.as_deref(), streams)
        }
        Command::Replay(args) => show(args.dashboard(), streams),
        Command::Infer(args) => infer::run(&args, &catalog()?, streams),
        Command::New(args) => new::run(&args, &catalog()?, streams),
        Command::Import(args) => import::run(&args, &catalog()?, streams),
        Command::Export(args) => export::run(&args, &catalog()?, streams),
        Command::Gpus(args) => Ok(catalogue::gpus(&args, &catalog()?, streams)),
        Command::Models(args) => catalogue::models(&args, &catalog()?, streams),
        Command::Run(args) => {
            // A training runs without our files where they are broken.
            let (catalog, faults) = user_catalog::load(|name| std::env::var_os(name));
            faults.iter().for_each(|fault| streams.note(fault));
            run::run(&args, &catalog, streams)
        }
        Command::Explain(args) => explain::run(&args, &catalog()?, streams),
        Command::Tutorial(args) => show(args.dashboard(), streams),
        Command::Trace(args) => trace::run(&args),
        Command::Bench(args) => bench::run(&args, &catalog()?, streams),
        Command::Hook => Ok(run::hook(streams)),
        Command::Config(args) => Ok(config::run(&args, streams)),
        Command::Completions(args) => Ok(tools::completions(&args, streams)),
        Command::Man(args) => tools::man(&args, streams),
        Command::Python => Ok(tools::python(streams)),
        Command::Schema(args) => Ok(tools::schema(&args, streams)),
        Command::Doctor => Ok(doctor::run(streams)),
        Command::Help(args) => help::run(&args, streams),
        Command::ReportGroupSignals => Ok(signals::report(streams)),
    }
}
