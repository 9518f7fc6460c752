//! `memwall export PLAN --to TOOL`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::args::{ExportArgs, ExportTarget};
use super::{Exit, Failure, Streams, plans};
use crate::advise::export;
use crate::catalog::Catalog;
use crate::plan::export::Target;

pub fn run(args: &ExportArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let (sources, exit) = plans::of_file(&args.plan, streams);
    let [source] = sources.as_slice() else {
        return if sources.is_empty() { Ok(exit) } else { Err(Failure::usage("export takes one plan")) };
    };
    if args.output.as_deref().is_some_and(|output| is_same(Path::new(&args.plan), output)) {
        return Err(Failure::usage(format!("--output: {} is the plan itself", args.plan)));
    }
    let target = match args.to {
        ExportTarget::Megatron => Target::Megatron,
        ExportTarget::Torchrun => Target::Torchrun,
        ExportTarget::Deepspeed => Target::Deepspeed,
        ExportTarget::Torchtitan => Target::Torchtitan,
        ExportTarget::TorchtitanPython => Target::TorchtitanPython,
    };
    let exported = export(source.plan(), catalog, target).with_notes(target);
    if let Some(why) = exported.refused {
        return Err(Failure::failed(format!("{}: {why}", source.name)));
    }
    // JSON has no comments: what it does not say goes beside it.
    if !target.takes_comments() {
        streams.note(&format!("written for {}", target.versions()));
    }
    for note in exported.notes.iter().filter(|_| !target.takes_comments()) {
        streams.note(&format!("not said: {note}"));
    }
    Ok(exit.and(streams.deliver(args.output.as_deref(), &exported.text)))
}

/// Whether both names lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    identity(one).is_some_and(|found| identity(other) == Some(found))
}
