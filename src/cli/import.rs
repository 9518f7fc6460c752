//! `memwall import FILE`, `memwall import -- COMMAND…`.

use std::path::Path;

use super::args::ImportArgs;
use super::infer::{HostFiles, deliver};
use super::user_catalog;
use super::{Exit, Streams};
use crate::catalog::Catalog;
use crate::observe;
use crate::plan::import::{self, Imported, Run};
use crate::plan::{Fault, Loaded, MAX_BYTES};

pub fn run(args: &ImportArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let files = HostFiles { folder: std::env::current_dir().ok() };
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

/// A plan file, or a file of another tool as the plan that it spells: that one has a name that
/// says so and no path, so that nothing is ever written over the other tool's file.
///
/// # Errors
/// As [`Loaded::load`].
pub fn open(path: &Path) -> Result<Loaded, Vec<Fault>> {
    Loaded::load(path).or_else(|faults| foreign(path).unwrap_or(Err(faults)))
}

/// The plan of another tool's file; none where it is not one.
fn foreign(path: &Path) -> Option<Result<Loaded, Vec<Fault>>> {
    let text = observe::regular_file(path, MAX_BYTES as u64).ok()?;
    let name = path.display().to_string();
    if !import::is_foreign(&name, &text) {
        return None;
    }
    let catalog = user_catalog::load(|name| std::env::var_os(name)).unwrap_or_default();
    let files = HostFiles { folder: std::env::current_dir().ok() };
    let run = Run::of(Vec::new(), &files);
    let spelled = of_text(path, &text, &run, &catalog);
    Some(spelled.map_err(|why| vec![Fault::of("", why)]).and_then(|(heading, imported)| {
        let name = format!("{} ({})", path.file_name().unwrap_or_default().to_string_lossy(), imported.tool);
        Loaded::from_text(&name, &imported.yaml(&heading))
    }))
}

fn of_text(file: &Path, text: &str, run: &Run, catalog: &Catalog) -> Result<(String, Imported), String> {
    let name = file.display().to_string();
    let imported = import::file(&name, text, run, catalog)?;
    Ok((format!("Imported from {name} ({})", imported.tool), imported))
}

fn shown(words: &[String]) -> String {
    words.join(" ").chars().take(200).collect()
}
