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
                let catalog = catalog(streams);
                dashboard::once(&asked.dashboard, catalog, streams)
            }
            None => show(asked.dashboard, streams),
        },
    };
    streams.end(outcome)
}

/// The catalogue with the user's own entries, asked for by the commands that need it: completions are asked for while
/// a package is built, help when a file is broken. What is wrong with the user's files is said; what can be read of them
/// counts.
pub fn catalog(streams: &mut Streams) -> Catalog {
    let (catalog, faults) = own_catalog();
    faults.iter().for_each(|fault| streams.note(&format!("warning: {fault}")));
    catalog
}

/// The same, with what is wrong, a line each.
#[must_use]
pub fn own_catalog() -> (Catalog, Vec<String>) {
    user_catalog::load(|name| std::env::var_os(name))
}

/// Lists a part of the catalogue, which is not whole where an entry cannot be used.
fn listed(
    streams: &mut Streams,
    list: impl FnOnce(&Catalog, &mut Streams) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let (catalog, faults) = own_catalog();
    let exit = list(&catalog, streams)?;
    Ok(faults.iter().fold(exit, |exit, fault| exit.and(streams.fail(Exit::Failed, fault))))
}

fn carry_out(
    command: Command,
    streams: &mut Streams,
    show: impl FnOnce(DashboardArgs, &mut Streams) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    match command {
        Command::Predict(args) => predict::run(&args, &catalog(streams), streams),
        Command::Sweep(args) => sweep::run(&args, &catalog(streams), streams),
        Command::Search(args) => search::run(&args, &catalog(streams), streams),
        Command::Roofline(args) => roofline::run(&args, &catalog(streams), streams),
        Command::Validate(args) => validate::run(&args, &catalog(streams), streams),
        Command::Exporter(args) => exporter::run(&args, &catalog(streams), streams),
        Command::Record(args) => record::run(&args, &catalog(streams), streams),
        Command::Replay(args) if args.plot || picture::is_picture(args.output.as_deref()) => {
            replay::plot(&args.file, args.output.as_deref(), &catalog(streams), streams)
        }
        Command::Replay(args) if args.format.is_some() || args.output.is_some() => {
            let format = output::format(args.format, args.output.as_deref())?;
            replay::summarise(&args.file, format, args.output.as_deref(), streams)
        }
        Command::Replay(args) => show(args.dashboard(), streams),
        Command::Infer(args) => infer::run(&args, &catalog(streams), streams),
        Command::New(args) => new::run(&args, &catalog(streams), streams),
        Command::Import(args) => import::run(&args, &catalog(streams), streams),
        Command::Export(args) => export::run(&args, &catalog(streams), streams),
        Command::Gpus(args) => listed(streams, |catalog, streams| catalogue::gpus(&args, catalog, streams)),
        Command::Models(args) => listed(streams, |catalog, streams| catalogue::models(&args, catalog, streams)),
        Command::Run(args) => {
            let catalog = catalog(streams);
            run::run(&args, &catalog, streams)
        }
        Command::Explain(args) => explain::run(&args, &catalog(streams), streams),
        Command::Tutorial(args) => show(args.dashboard(), streams),
        Command::Trace(args) => trace::run(&args),
        Command::Bench(args) => bench::run(&args, &catalog(streams), streams),
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
