//! `memwall explain`: a term, an out-of-memory message, or a PyTorch memory snapshot.

use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::json;

use super::args::{ExplainArgs, ListFormat};
use super::plans::PlanSource;
use super::{Exit, Failure, Streams, help, output, plans};
use crate::advise::PlanForMessage;
use crate::catalog::Catalog;
use crate::files;
use crate::lessons::{Lesson, lesson, lessons, nearest};
use crate::observe::snapshot::PickleError;
use crate::observe::{out_of_memory, snapshot};
use crate::plan::reason;
use crate::predict::{Job, Prediction, predict};
use crate::report::explain::{self, json};
use crate::units::Bytes;

/// How much of a log's end is searched for a message.
const TAIL: u64 = 16 << 20;

/// A plan beside what is explained.
struct ChosenPlan {
    source: PlanSource,
    job: Job,
    prediction: Prediction,
}

/// `memwall explain`.
pub fn run(args: &ExplainArgs, catalog: &Catalog, streams: &mut Streams<'_>) -> Result<Exit, Failure> {
    if args.what.is_empty() {
        return Ok(streams.print(output::page(None).show(&list())));
    }
    let plan = args.plan.as_deref().map(|plan| chosen(plan, catalog, streams)).transpose()?;
    let words = args.what.join(&OsString::from(" "));
    let (file, text) = (Path::new(&words), words.to_string_lossy());
    let is_file = text == "-" || file.symlink_metadata().is_ok();
    if let Some(lesson) = lesson(&text).filter(|_| !is_file) {
        return Ok(tell(lesson, plan.as_ref(), args.format, streams));
    }
    if !is_file && out_of_memory::find(&text).is_some() {
        return explain_text(&text, "the message", plan.as_ref(), (args, catalog), streams);
    }
    if let Some(near) = nearest(&text).filter(|_| !is_file) {
        return Err(Failure::usage(format!("{text}: there is no such file or term; did you mean `{near}`?")));
    }
    // A word that is no path was meant as a term.
    if !is_file && !text.contains(['/', '.']) {
        return Err(Failure::usage(format!(
            "{text}: there is no such file or term; memwall explain without a word lists the terms"
        )));
    }
    explain_file(file, plan.as_ref(), (args, catalog), streams)
}

fn chosen(plan: &Path, catalog: &Catalog, streams: &mut Streams<'_>) -> Result<ChosenPlan, Failure> {
    let source = plans::only(&plan.to_string_lossy(), &[], streams)?;
    let job = Job::resolve(source.plan(), catalog).map_err(|faults| source.refused(faults))?;
    Ok(ChosenPlan { prediction: predict(&job), source, job })
}

/// The terms, each with the beginning of its lesson.
fn list() -> String {
    let widest = lessons().iter().map(|lesson| lesson.name.len()).max().unwrap_or(0);
    let first = |lesson: &Lesson| lesson.text.split(". ").next().unwrap_or_default().replace('\n', " ");
    let line = |lesson: &Lesson| {
        let text = format!("{:widest$}  {}", lesson.name, first(lesson));
        let whole = text.chars().count() <= LINE;
        let cut: String = text.chars().take(LINE - 2).collect();
        if whole {
            format!("{text}\n")
        } else {
            format!("{} …\n", cut.rsplit_once(' ').map_or(&*cut, |(cut, _)| cut))
        }
    };
    let lines: String = lessons().iter().map(line).collect();
    format!(
        "memwall explain TERM [--plan PLAN.yaml]\nmemwall explain FILE: a log that ran out of memory; - is standard input\n\n{lines}"
    )
}

/// The longest line in the list.
const LINE: usize = 80;

fn tell(lesson: &Lesson, plan: Option<&ChosenPlan>, format: ListFormat, streams: &mut Streams<'_>) -> Exit {
    let numbers = plan.map(|plan| lesson.numbers(&plan.job, &plan.prediction));
    match format {
        ListFormat::Text => {
            let plan = plan.map(|plan| (plan.source.name.as_str(), &plan.job, &plan.prediction));
            help::show(&lesson.markdown(plan), streams)
        }
        ListFormat::Json => {
            let said = json!({"term": lesson.name, "also": lesson.aliases, "text": lesson.text,
                "formula": lesson.formula, "numbers": numbers, "seen": lesson.seen});
            streams.print(format!("{said:#}\n"))
        }
    }
}

fn explain_file(
    file: &Path,
    plan: Option<&ChosenPlan>,
    (args, catalog): (&ExplainArgs, &Catalog),
    streams: &mut Streams<'_>,
) -> Result<Exit, Failure> {
    let page = output::page(None);
    let shown = file.display();
    let unread = |error: io::Error| Failure::new(exit_for(&error), format!("{shown}: {}", reason(&error)));
    let bytes = bytes(file, args.memory, streams).map_err(unread)?;
    let prediction = plan.map(|plan| &plan.prediction);
    if snapshot::is_snapshot(&bytes) {
        let read = snapshot::read(&bytes, args.memory);
        let devices = read.map_err(|why| Failure::usage(format!("{shown}: {why}")))?;
        return Ok(streams.print(match args.format {
            ListFormat::Text => page.show(&explain::snapshot(&devices, prediction, page.width)),
            ListFormat::Json => format!("{:#}\n", json::snapshot(&devices, prediction)),
        }));
    }
    explain_text(&decoded(&bytes), &shown.to_string(), plan, (args, catalog), streams)
}

/// UTF-16 where it begins with that mark, as PowerShell redirects to a file; else UTF-8, with what is none replaced.
fn decoded(bytes: &[u8]) -> String {
    let units = |rest: &[u8], of: fn([u8; 2]) -> u16| -> Vec<u16> {
        rest.chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect()
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => String::from_utf16_lossy(&units(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => String::from_utf16_lossy(&units(rest, u16::from_be_bytes)),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn explain_text(
    text: &str,
    name: &str,
    plan: Option<&ChosenPlan>,
    (args, catalog): (&ExplainArgs, &Catalog),
    streams: &mut Streams<'_>,
) -> Result<Exit, Failure> {
    let page = output::page(None);
    let Some(message) = out_of_memory::find(text) else {
        if let Some(failure) = out_of_memory::unexplained(text) {
            return Ok(streams.print(match args.format {
                ListFormat::Text => page.show(&explain::unexplained(failure, page.width)),
                ListFormat::Json => format!("{:#}\n", json::unexplained(failure)),
            }));
        }
        let why = format!("{name}: neither a memory snapshot nor a text with an out-of-memory message");
        return Err(Failure::usage(why));
    };
    let beside = plan.and_then(|plan| PlanForMessage::of(&message, plan.source.plan(), catalog));
    Ok(streams.print(match args.format {
        ListFormat::Text => page.show(&explain::out_of_memory(&message, beside.as_ref(), page.width)),
        ListFormat::Json => format!("{:#}\n", json::out_of_memory(&message, beside.as_ref())),
    }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_in_either_order_of_utf16_and_in_utf8() {
        // U+00E9 in each.
        for bytes in [&b"\xff\xfea\0\xe9\0"[..], b"\xfe\xff\0a\0\xe9", b"a\xc3\xa9"] {
            assert_eq!(decoded(bytes), "a\u{e9}");
        }
        assert_eq!(decoded(b"a\xe9"), "a\u{fffd}");
    }
}
