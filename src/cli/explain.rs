//! `memwall explain`: an out-of-memory message, or a PyTorch memory snapshot.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::args::{ExplainArgs, ListFormat};
use super::{Exit, Streams, output, plans};
use crate::advise::{ShortagePlan, savings};
use crate::catalog::Catalog;
use crate::files;
use crate::observe::snapshot::PickleError;
use crate::observe::{out_of_memory, snapshot};
use crate::plan::reason;
use crate::predict::{Job, predict};
use crate::report::explain::{self, json};
use crate::units::Bytes;

/// How much of a log's end is searched for a message.
const TAIL: u64 = 16 << 20;

/// `memwall explain`.
pub fn run(args: &ExplainArgs, catalog: &Catalog, streams: &mut Streams<'_>) -> Exit {
    let plan = match args.plan.as_deref().map(|plan| plans::only(&plan.to_string_lossy(), &[], streams)).transpose() {
        Ok(plan) => plan,
        Err(exit) => return exit,
    };
    let prediction = match plan.as_ref().map(|plan| Job::resolve(plan.plan(), catalog)).transpose() {
        Ok(job) => job.map(|job| predict(&job)),
        Err(faults) => return plan.map_or(Exit::Usage, |plan| plan.tell(faults, streams)),
    };
    let page = output::page(None);
    let shown = args.file.display();
    let bytes = match bytes(&args.file, args.memory, streams) {
        Ok(bytes) => bytes,
        Err(error) => return streams.fail(exit_for(&error), &format!("{shown}: {}", reason(&error))),
    };
    if snapshot::is_snapshot(&bytes) {
        return match snapshot::read(&bytes, args.memory) {
            Ok(devices) => streams.print(&match args.format {
                ListFormat::Text => page.show(&explain::snapshot(&devices, prediction.as_ref(), page.width)),
                ListFormat::Json => format!("{:#}\n", json::snapshot(&devices, prediction.as_ref())),
            }),
            Err(why) => streams.fail(Exit::Usage, &format!("{shown}: {why}")),
        };
    }
    let text = String::from_utf8_lossy(&bytes);
    let Some(message) = out_of_memory::find(&text) else {
        if out_of_memory::killed_without_reason(&text) {
            return streams.print(&match args.format {
                ListFormat::Text => page.show(&explain::killed(page.width)),
                ListFormat::Json => format!("{:#}\n", json::killed()),
            });
        }
        let message = format!("{shown}: neither a memory snapshot nor a text with an out-of-memory message");
        return streams.fail(Exit::Usage, &message);
    };
    let fixes = plan.as_ref().map(|plan| savings(plan.plan(), catalog)).unwrap_or_default();
    let beside = prediction.as_ref().map(|prediction| ShortagePlan { prediction, relief: &fixes });
    streams.print(&match args.format {
        ListFormat::Text => page.show(&explain::out_of_memory(&message, beside, page.width)),
        ListFormat::Json => format!("{:#}\n", json::out_of_memory(&message, beside)),
    })
}

/// A snapshot whole, a log's end; standard input for `-`.
fn bytes(file: &Path, memory: Bytes, streams: &mut Streams<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        streams.input.take(TAIL).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    let mut file = files::open_argument(file)?;
    let mut start = [0; 2];
    let read = file.read(&mut start)?;
    let length = file.metadata()?.len();
    if snapshot::is_snapshot(&start[..read]) {
        // Its values take several times as much.
        if length > memory.0 {
            let why = PickleError::TooMuchMemory(memory).to_string();
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        file.seek(SeekFrom::Start(0))?;
        bytes.reserve_exact(usize::try_from(length).unwrap_or(0) + 1);
        file.take(length).read_to_end(&mut bytes)?;
    } else if length > 0 {
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        file.take(TAIL).read_to_end(&mut bytes)?;
    } else {
        // A pipe has no length and cannot go back.
        bytes.extend(&start[..read]);
        file.take(TAIL).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn exit_for(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::FileTooLarge => Exit::Usage,
        _ => Exit::Failed,
    }
}
