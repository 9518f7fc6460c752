//! The command line: arguments, and the commands that need no screen.

pub mod args;
mod bench;
mod catalogue;
mod completions;
pub mod config;
pub mod dashboard;
mod demo;
mod exit;
mod explain;
mod export;
mod exporter;
mod followed_run;
mod help;
mod import;
pub mod infer;
mod limits;
mod new;
mod output;
mod plans;
mod predict;
mod record;
mod replay;
mod roofline;
mod run;
mod search;
mod shape;
mod signals;
mod sweep;
mod termination;
mod trace;
mod user_catalog;
mod validate;

pub use args::{Cli, Command, DashboardArgs};
pub use exit::Exit;
pub use exporter::EXPORTED_METRICS;
pub use output::Streams;
pub use predict::without_screen;

use crate::catalog::Catalog;

/// Carries out what the command line asks. The dashboard, which owns the terminal, is
/// passed in.
pub fn run(asked: Cli, streams: &mut Streams, show: impl FnOnce(DashboardArgs, Catalog, &mut Streams) -> Exit) -> Exit {
    // Completions are asked for while a package is built, help when a file is broken: they need nobody's files.
    match &asked.command {
        Some(Command::Completions(args)) => return completions::run(args, streams),
        Some(Command::Help(args)) => return help::run(args, streams),
        Some(Command::Config(args)) => return config::run(args, streams),
        None if asked.dashboard.look.theme.as_deref() == Some(args::LIST_THEMES) => {
            return streams.print(dashboard::themes());
        }
        _ => {}
    }
    if let Some(Command::ReportGroupSignals) = asked.command {
        return signals::report(streams);
    }
    let (catalog, faults) = user_catalog::load(|name| std::env::var_os(name));
    let comes_first = matches!(asked.command, Some(Command::Run(_)));
    for fault in &faults {
        // A training runs without our files where they are broken.
        let exit = streams.fail(Exit::Failed, fault);
        if !comes_first {
            return exit;
        }
    }
    let Some(command) = asked.command else {
        return match asked.dashboard.no_such_plan() {
            Some(message) => streams.fail(Exit::Usage, &message),
            None => show(asked.dashboard, catalog, streams),
        };
    };
    match command {
        Command::Predict(args) => predict::run(&args, &catalog, streams),
        Command::Sweep(args) => sweep::run(&args, &catalog, streams),
        Command::Search(args) => search::run(&args, &catalog, streams),
        Command::Roofline(args) => roofline::run(&args, &catalog, streams),
        Command::Validate(args) => validate::run(&args, &catalog, streams),
        Command::Exporter(args) => exporter::run(&args, &catalog, streams),
        Command::Record(args) => record::run(&args, &catalog, streams),
        Command::Replay(args) => match args.format {
            Some(format) => replay::summarise(&args.file, format, streams),
            None => show(args.dashboard(), catalog, streams),
        },
        Command::Infer(args) => infer::run(&args, &catalog, streams),
        Command::New(args) => new::run(&args, &catalog, streams),
        Command::Config(args) => config::run(&args, streams),
        Command::Import(args) => import::run(&args, &catalog, streams),
        Command::Export(args) => export::run(&args, &catalog, streams),
        Command::Gpus(args) => catalogue::gpus(&args, &catalog, streams),
        Command::Models(args) => catalogue::models(&args, &catalog, streams),
        Command::Run(args) => run::run(&args, &catalog, streams),
        Command::Explain(args) => explain::run(&args, &catalog, streams),
        Command::Trace(args) => trace::run(&args, streams),
        Command::Bench(args) => bench::run(&args, &catalog, streams),
        Command::Hook => run::hook(streams),
        Command::Completions(args) => completions::run(&args, streams),
        Command::Help(args) => help::run(&args, streams),
        Command::ReportGroupSignals => signals::report(streams),
    }
}
