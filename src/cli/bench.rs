//! `memwall bench`: PyTorch measures this machine, and predictions read its curves.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::args::BenchArgs;
use super::{Exit, Streams, user_catalog};
use crate::bench::{Fitted, MeasuredFile, MeasuredLinks, Rows, fit};
use crate::catalog::Catalog;
use crate::files;
use crate::observe::bench::{PROGRAM, install};
use crate::observe::{self, SourceChoice, SourceContext};
use crate::plan;
use crate::reading::{Moment, Reading};

/// Rows of a thousand ranks' groups are some hundred kB.
const MOST_BYTES: u64 = 16 << 20;

/// A spread from which the user is told that something else ran.
const RESTLESS: f64 = 0.2;

/// `memwall bench`.
pub fn run(args: &BenchArgs, catalog: &Catalog, streams: &mut Streams<'_>) -> Exit {
    if args.program {
        return streams.print(PROGRAM);
    }
    let text = match &args.rows {
        Some(file) => match streams.read(file) {
            Ok(text) => text,
            Err(exit) => return exit,
        },
        None => match measured(args, streams) {
            Ok(text) => text,
            Err(exit) => return exit,
        },
    };
    let rows = match Rows::read(&text) {
        Ok(rows) => rows,
        Err(error) => return streams.fail(Exit::Failed, &format!("the rows cannot be read: {error}")),
    };
    let links = MeasuredLinks { node: args.interconnect.as_deref(), network: args.network.as_deref() };
    match fit(&rows, catalog, links) {
        Ok(fitted) => deliver(args, &fitted, streams),
        Err(error) => streams.fail(Exit::Failed, &error.to_string()),
    }
}

/// Has PyTorch measure. Gives its rows.
fn measured(args: &BenchArgs, streams: &mut Streams<'_>) -> Result<String, Exit> {
    if !args.cpu {
        free(args, streams)?;
        streams.note(&format!("uses the GPU for about {}", humantime::format_duration(args.time)));
    }
    let fail = |streams: &mut Streams<'_>, message: &str| Err(streams.fail(Exit::Failed, message));
    let folder = match tempfile::Builder::new().prefix("memwall-bench-").tempdir() {
        Ok(folder) => folder,
        Err(error) => return fail(streams, &format!("no folder for the program: {error}")),
    };
    let output = folder.path().join("rows.jsonl");
    let started = install(folder.path()).and_then(|program| start(args, &program, &output));
    match started {
        Ok(status) if status.success() => {}
        Ok(status) => return fail(streams, &format!("the program ended early ({status}): nothing was written")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let shown = args.python.display();
            return fail(
                streams,
                &format!("{shown}: there is no such program: --python names the Python that has PyTorch"),
            );
        }
        Err(error) => return fail(streams, &format!("{}: {error}", args.python.display())),
    }
    files::read_text(&output, MOST_BYTES).or_else(|error| fail(streams, &format!("{}: {error}", output.display())))
}

fn start(args: &BenchArgs, program: &Path, output: &Path) -> io::Result<ExitStatus> {
    let mut command = Command::new(&args.python);
    command.arg("-B");
    if let Some(ranks) = args.ranks {
        command.args(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]).arg(ranks.to_string());
    }
    command.arg(program).arg("--output").arg(output).arg("--seconds").arg(args.time.as_secs_f64().to_string());
    if args.cpu {
        command.arg("--cpu");
    } else {
        command.arg("--device").arg(args.gpu.to_string());
    }
    command.stdin(Stdio::null()).status()
}

/// Refuses where another process is on a GPU that would be measured, or nobody can tell.
fn free(args: &BenchArgs, streams: &mut Streams<'_>) -> Result<(), Exit> {
    if args.shared {
        return Ok(());
    }
    let refused = |streams: &mut Streams<'_>, why: &str| {
        Err(streams
            .fail(Exit::Failed, &format!("{why}: --shared measures all the same, and finds it slower than it is")))
    };
    let mut source = match observe::open(SourceChoice::Auto, SourceContext::default()) {
        Ok(source) => source,
        Err(error) => return refused(streams, &format!("nobody tells which processes are on the GPU ({error})")),
    };
    let devices = source.sample(Moment::default()).devices;
    // PyTorch may count them otherwise than the driver does: every one that it may mean has to be free.
    let all = args.ranks.is_some() || std::env::var_os("CUDA_VISIBLE_DEVICES").is_some();
    let meant =
        devices.iter().enumerate().filter(|(at, _)| all || devices.len() == 1 || *at as u64 == u64::from(args.gpu));
    let mut seen = false;
    for (at, device) in meant {
        seen = true;
        match &device.processes {
            Reading::Known { value, .. } => {
                if let Some(process) = value.first() {
                    return refused(streams, &format!("process {} is on GPU {at}", process.pid));
                }
            }
            Reading::Absent(why) => {
                return refused(streams, &format!("nobody tells which processes are on GPU {at} ({why})"));
            }
        }
    }
    if seen { Ok(()) } else { Err(streams.fail(Exit::Usage, &format!("there is no GPU {} here", args.gpu))) }
}

/// Writes the user's file, and says what was found.
fn deliver(args: &BenchArgs, fitted: &Fitted, streams: &mut Streams<'_>) -> Exit {
    let path = match &args.save {
        Some(path) => path.clone(),
        None => match user_catalog::folder(|name| std::env::var_os(name)) {
            Some(folder) => folder.join("efficiency.yaml"),
            None => {
                return streams.fail(Exit::Failed, "neither HOME nor XDG_CONFIG_HOME is set: --save names the file");
            }
        },
    };
    let written = merge(&path, fitted);
    match written {
        Ok(()) => streams.print(summary(fitted, &path)),
        Err(message) => streams.fail(Exit::Failed, &message),
    }
}

fn merge(path: &Path, fitted: &Fitted) -> Result<(), String> {
    let shown = path.display();
    let existing = match files::read_text(path, 1 << 20) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    let text = MeasuredFile::merged(existing.as_deref(), fitted).map_err(|error| format!("{shown}: {error}"))?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    // What the user wrote by hand there keeps its comments in the copy.
    if let Some(text) = existing.filter(|text| !text.starts_with("# Measured by `memwall bench`")) {
        let copy = PathBuf::from(format!("{shown}.before-bench"));
        plan::save(&copy, &text).map_err(|fault| format!("{}: {fault}", copy.display()))?;
    }
    plan::save(path, &text).map_err(|fault| format!("{shown}: {fault}"))
}

fn summary(fitted: &Fitted, path: &Path) -> String {
    let (curves, mut text) = (&fitted.curves, String::new());
    let _ = writeln!(text, "{}: measured on this machine", fitted.name);
    if let Some(own) = &fitted.own {
        for (element, rate) in &own.peaks {
            let _ = writeln!(text, "  {element} matmuls   {:.3} TFLOP/s", rate / 1e12);
        }
        let _ = writeln!(text, "  memory          {:.1} GB/s", own.bandwidth * curves.memory.share / 1e9);
    } else {
        let _ = writeln!(text, "  16-bit matmuls  {:.0} % of the peak", 100.0 * curves.matrix.half);
        let _ = writeln!(text, "  memory          {:.0} % of the peak", 100.0 * curves.memory.share);
    }
    let _ = writeln!(text, "  a kernel        {:.1} us", curves.memory.kernel_us);
    for link in &fitted.links {
        let name = link.link.as_deref().unwrap_or(&link.scope);
        let _ =
            writeln!(text, "  {name}        {:.0} % of the link, {:.0} us to start", 100.0 * link.ring, link.start_us);
    }
    if let Some(measured) = &curves.measured {
        let _ = writeln!(text, "  matmuls fitted within {:.0} %", 100.0 * measured.matmul_error);
        if measured.spread > RESTLESS {
            let spread = 100.0 * measured.spread;
            let _ =
                writeln!(text, "  times spread by {spread:.0} %: other programs ran; measure again when it is quiet");
        }
    }
    let _ = writeln!(text, "saved {}", path.display());
    text
}
