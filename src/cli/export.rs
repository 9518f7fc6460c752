//! `memwall export PLAN --to TOOL`.

use super::args::{ExportArgs, ExportTarget};
use super::{Exit, Streams, plans};
use crate::catalog::Catalog;
use crate::plan::export::{Target, export};

pub fn run(args: &ExportArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let (sources, exit) = plans::of_file(&args.plan, streams);
    let [source] = sources.as_slice() else {
        return if sources.is_empty() { exit } else { streams.fail(Exit::Usage, "one plan at a time can be exported") };
    };
    let target = match args.to {
        ExportTarget::Megatron => Target::Megatron,
        ExportTarget::Torchrun => Target::Torchrun,
        ExportTarget::Deepspeed => Target::Deepspeed,
        ExportTarget::Torchtitan => Target::Torchtitan,
    };
    let exported = export(source.plan(), catalog, target);
    let notes = exported.notes.iter().map(|note| format!("# not said: {note}\n"));
    // JSON has no comments: what it does not say goes beside it.
    let text = if target == Target::Deepspeed {
        for note in &exported.notes {
            streams.note(&format!("not said: {note}"));
        }
        exported.text
    } else {
        notes.chain([exported.text]).collect()
    };
    exit.and(streams.deliver(args.output.as_deref(), &text))
}
