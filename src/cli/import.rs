//! `memwall import FILE`, `memwall import -- COMMAND…`.

use std::path::Path;

use super::args::ImportArgs;
use super::infer::{HostFiles, deliver};
use super::{Exit, Streams};
use crate::catalog::Catalog;
use crate::plan::import::{self, Imported, Run};

pub fn run(args: &ImportArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let files = HostFiles { folder: std::env::current_dir().unwrap_or_default() };
    let mut run = Run::of(args.command.clone(), &files);
    run.world = args.gpus;
    let read = match &args.file {
        Some(file) => match streams.read(file) {
            Ok(text) => of_text(file, &text, &run, catalog),
            Err(exit) => return exit,
        },
        None => Ok((format!("Imported from the command: {}", shown(&args.command)), import::run(&run, catalog))),
    };
    match read {
        Ok((heading, imported)) => deliver(&heading, &imported, &args.to, streams),
        Err(message) => streams.fail(Exit::Usage, &message),
    }
}

fn of_text(file: &Path, text: &str, run: &Run, catalog: &Catalog) -> Result<(String, Imported), String> {
    let name = file.display().to_string();
    let imported = import::file(&name, text, run, catalog)?;
    Ok((format!("Imported from {name} ({})", imported.tool), imported))
}

fn shown(words: &[String]) -> String {
    words.join(" ").chars().take(200).collect()
}
