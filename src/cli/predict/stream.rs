//! `memwall predict -`: each plan of a stream is answered as soon as it is complete, in the order of the stream, on all
//! cores. No more than a few plans are held at a time, however long the stream is.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde_json::json;

use super::split::{Splitter, StreamDocument};
use super::{Answer, answer, parameters};
use crate::catalog::Catalog;
use crate::cli::args::{PredictArgs, ReportFormat};
use crate::cli::plans::{self, PlanSource};
use crate::cli::{Exit, Failure, Streams, output};
use crate::plan::Fault;
use crate::printable::printable;
use crate::report::page::Page;
use crate::report::{csv, json, text};

/// What `--faults` goes with.
pub const FAULTS_NEED: &str = "--faults goes with a stream of plans and JSON: memwall predict - --format json --faults";

/// Plans that may wait for a core, and answers that may wait for their turn.
const AHEAD: usize = 256;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 16;

/// What is said of one plan.
struct Answered {
    /// For standard output, or the file.
    out: Output,
    /// For standard error, a line each.
    told: Vec<String>,
    exit: Exit,
}

enum Output {
    Written(String),
    /// A row of a table, whose header is known when all are there.
    Cells(Vec<(String, String)>),
    Nothing,
}

/// A plan, and where its answer goes.
type Work = (StreamDocument, SyncSender<Answered>);

pub fn run(
    args: &PredictArgs,
    format: ReportFormat,
    catalog: &Catalog,
    streams: &mut Streams,
) -> Result<Exit, Failure> {
    if args.faults && format != ReportFormat::Json {
        return Err(Failure::usage(FAULTS_NEED));
    }
    let Streams { input, out, err } = streams;
    let (queue, work) = sync_channel::<Work>(AHEAD);
    let (turns, answers) = sync_channel::<Receiver<Answered>>(AHEAD);
    let work = Mutex::new(work);
    let page = output::page(args.output.as_deref());
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let (exit, read) = thread::scope(|scope| {
        let file = args.output.as_deref();
        let writer =
            scope.spawn(move || Writer { file, format, out, err, opened: None, rows: Vec::new() }.write(&answers));
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((part, turn)) = next(&work) {
                    // Nobody waits for it any more where the output is closed.
                    let _ = turn.send(answered(part, args, (format, page), catalog));
                }
            });
        }
        let read = read(input, |part| {
            let (turn, answer) = sync_channel(1);
            turns.send(answer).is_ok() && queue.send((part, turn)).is_ok()
        });
        drop((queue, turns));
        (writer.join().unwrap_or(Exit::Failed), read)
    });
    read.map_err(|error| Failure::new(exit.and(Exit::Failed), format!("standard input: {error}")))?;
    Ok(exit)
}

/// The next plan that waits; none once the stream has ended.
fn next(work: &Mutex<Receiver<Work>>) -> Option<Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Cuts the stream into plans for `each`, until it says that nobody wants more.
fn read(input: &mut dyn Read, mut each: impl FnMut(StreamDocument) -> bool) -> io::Result<()> {
    let mut splitter = Splitter::default();
    let mut piece = vec![0; PIECE];
    let mut wanted = true;
    while wanted {
        match input.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => splitter.feed(&piece[..read], |part| wanted = wanted && each(part)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if wanted && let Some(part) = splitter.finish() {
        each(part);
    }
    Ok(())
}

fn answered(
    part: StreamDocument,
    args: &PredictArgs,
    (format, page): (ReportFormat, Page),
    catalog: &Catalog,
) -> Answered {
    let name = if part.is_only { "stdin".to_owned() } else { format!("stdin#{}", part.number) };
    let source = match PlanSource::of_part(name.clone(), part.bytes, part.lines_before) {
        Ok(source) => source,
        Err(faults) => return refused(&name, faults, String::new(), args),
    };
    match answer(&source, args, catalog) {
        Ok(answer) => Answered {
            exit: if answer.fits() { Exit::Done } else { Exit::DoesNotFit },
            out: written(&answer, args, (format, page)),
            told: Vec::new(),
        },
        Err(faults) => {
            let known = if args.faults { String::new() } else { parameters(&source, &faults, format) };
            refused(&name, source.placed(faults), known, args)
        }
    }
}

fn written(answer: &Answer, args: &PredictArgs, (format, page): (ReportFormat, Page)) -> Output {
    match format {
        ReportFormat::Text => Output::Written(page.show(&text::report(&answer.report(), args.verbose, page.width))),
        ReportFormat::Json => Output::Written(json::line(&answer.report())),
        ReportFormat::Csv => Output::Cells(csv::cells(&answer.report())),
    }
}

/// The faults of a plan, and what is known of it all the same.
fn refused(name: &str, faults: Vec<Fault>, known: String, args: &PredictArgs) -> Answered {
    if args.faults {
        let out = Output::Written(format!(
            "{}\n",
            json!({"plan": name, "faults": faults.iter().map(fault).collect::<Vec<_>>()})
        ));
        return Answered { out, told: Vec::new(), exit: Exit::Usage };
    }
    let told = faults.into_iter().map(|fault| plans::line(Some(name), fault)).collect();
    let out = if known.is_empty() { Output::Nothing } else { Output::Written(known) };
    Answered { out, told, exit: Exit::Usage }
}

fn fault(fault: &Fault) -> serde_json::Value {
    json!({
        "key": fault.key,
        "line": fault.at.map(|at| at.line),
        "column": fault.at.map(|at| at.column),
        "message": fault.message,
    })
}

/// Writes answers in the order of the stream.
struct Writer<'a> {
    file: Option<&'a Path>,
    format: ReportFormat,
    out: &'a mut (dyn Write + Send),
    err: &'a mut (dyn Write + Send),
    /// The file, once something is to be written to it.
    opened: Option<File>,
    rows: Vec<Vec<(String, String)>>,
}

impl Writer<'_> {
    fn write(mut self, answers: &Receiver<Receiver<Answered>>) -> Exit {
        let mut exit = Exit::Done;
        let mut separator = "";
        while let Ok(turn) = answers.recv() {
            let Ok(answered) = turn.recv() else { return Exit::Failed };
            exit = exit.and(answered.exit);
            for line in answered.told {
                // Nobody is left to be told when standard error is closed too.
                let _ = writeln!(self.err, "memwall: {}", printable(&line));
            }
            let text = match answered.out {
                Output::Nothing => continue,
                Output::Cells(row) => {
                    self.rows.push(row);
                    continue;
                }
                Output::Written(text) => text,
            };
            if let Err(end) = self.put(separator, &text) {
                return end.map_or(exit, |failed| exit.and(failed));
            }
            separator = if self.format == ReportFormat::Text { "\n\n" } else { "" };
        }
        if self.rows.is_empty() {
            return exit;
        }
        let put = match csv::table(std::mem::take(&mut self.rows)) {
            Ok(table) => self.put("", &table),
            Err(error) => Err(Some(self.failed(&error.to_string()))),
        };
        put.map_or_else(|end| end.map_or(exit, |failed| exit.and(failed)), |()| exit)
    }

    /// Writes a text; where nothing more is to be written, the error is the failure, or none if the reader has seen
    /// enough.
    fn put(&mut self, separator: &str, text: &str) -> Result<(), Option<Exit>> {
        let (out, name): (&mut dyn Write, String) = match (self.file, &mut self.opened) {
            (None, _) => (&mut *self.out, "standard output".to_owned()),
            (Some(file), Some(opened)) => (opened, file.display().to_string()),
            (Some(file), empty) => match File::create(file) {
                Ok(opened) => (empty.insert(opened), file.display().to_string()),
                Err(error) => return Err(Some(self.failed(&format!("{}: {error}", file.display())))),
            },
        };
        let written = out.write_all(separator.as_bytes()).and_then(|()| out.write_all(text.as_bytes()));
        match written.and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(None),
            Err(error) => Err(Some(self.failed(&format!("{name}: {error}")))),
        }
    }

    fn failed(&mut self, message: &str) -> Exit {
        let _ = writeln!(self.err, "memwall: {}", printable(message));
        Exit::Failed
    }
}
