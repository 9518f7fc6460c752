//! `memwall bench`: PyTorch measures this machine, and predictions read its curves.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::args::BenchArgs;
use super::trace::no_python;
use super::{Exit, Failure, Streams, user_catalog};
use crate::bench::{Fitted, MeasuredFile, MeasuredLinks, Rows, fit};
use crate::catalog::Catalog;
use crate::files;
use crate::observe::bench::{PROGRAM, install};
use crate::observe::{self, SourceChoice, SourceContext};
use crate::plan;
use crate::reading::{Moment, Reading};

/// Rows of a thousand ranks' groups are some hundred kB.
const MOST_BYTES: u64 = 16 << 20;

/// `memwall bench`.
pub fn run(args: &BenchArgs, catalog: &Catalog, streams: &mut Streams<'_>) -> Result<Exit, Failure> {
    if args.program {
        return Ok(streams.print(PROGRAM));
    }
    let text = match &args.rows {
        Some(file) => streams.read(file)?,
        None => measured(args, streams)?,
    };
    let rows = Rows::read(&text).map_err(|error| Failure::failed(format!("the rows cannot be read: {error}")))?;
    let links = MeasuredLinks { node: args.interconnect.as_deref(), network: args.network.as_deref() };
    let fitted = fit(&rows, catalog, links).map_err(Failure::failed)?;
    deliver(args, &fitted, streams)
}

/// Has PyTorch measure. Gives its rows.
fn measured(args: &BenchArgs, streams: &mut Streams<'_>) -> Result<String, Failure> {
    if !args.cpu {
        free(args)?;
    }
    if !has_torch(&args.python).map_err(|error| no_python(&args.python, &error))? {
        let shown = args.python.display();
        return Err(Failure::failed(format!("{shown}: it has no PyTorch: --python names the Python that has it")));
    }
    if !args.cpu {
        streams.note(&format!("uses the GPU for about {}", humantime::format_duration(args.time)));
    }
    let folder = tempfile::Builder::new().prefix("memwall-bench-").tempdir();
    let folder = folder.map_err(|error| Failure::failed(format!("no folder for the program: {error}")))?;
    let output = folder.path().join("rows.jsonl");
    let started = install(folder.path()).and_then(|program| start(args, &program, &output));
    let status = started.map_err(|error| no_python(&args.python, &error))?;
    if !status.success() {
        return Err(Failure::failed(format!("the program ended early ({status}): nothing was written")));
    }
    let read = files::read_text(&output, MOST_BYTES);
    read.map_err(|error| Failure::failed(format!("{}: {error}", output.display())))
}

/// Whether that Python finds PyTorch. Without it the program would end in a traceback of its own.
fn has_torch(python: &Path) -> io::Result<bool> {
    let find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
    let status = Command::new(python).args(["-B", "-c", find]).stdin(Stdio::null()).status()?;
    Ok(status.code() != Some(1))
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
fn free(args: &BenchArgs) -> Result<(), Failure> {
    if args.shared {
        return Ok(());
    }
    let refused =
        |why: String| Failure::failed(format!("{why}: --shared measures all the same, and finds it slower than it is"));
    let mut source = observe::open(SourceChoice::Auto, SourceContext::default())
        .map_err(|error| refused(format!("nobody tells which processes are on the GPU ({error})")))?;
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
                    return Err(refused(format!("process {} is on GPU {at}", process.pid)));
                }
            }
            Reading::Absent(why) => {
                return Err(refused(format!("nobody tells which processes are on GPU {at} ({why})")));
            }
        }
    }
    if seen { Ok(()) } else { Err(Failure::usage(format!("there is no GPU {} here", args.gpu))) }
}

/// Writes the user's file, and says what was found.
fn deliver(args: &BenchArgs, fitted: &Fitted, streams: &mut Streams<'_>) -> Result<Exit, Failure> {
    let own = || user_catalog::folder(|name| std::env::var_os(name)).map(|folder| folder.join("efficiency.yaml"));
    let homeless = || Failure::failed("neither HOME nor XDG_CONFIG_HOME is set: --save names the file");
    let path = args.save.clone().or_else(own).ok_or_else(homeless)?;
    merge(&path, fitted)?;
    Ok(streams.print(summary(fitted, &path)))
}

fn merge(path: &Path, fitted: &Fitted) -> Result<(), Failure> {
    let shown = path.display();
    let existing = match files::read_text(path, 1 << 20) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::failed(format!("{shown}: {error}"))),
    };
    let merged = MeasuredFile::merged(existing.as_deref(), fitted);
    let text = merged.map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    }
    // What the user wrote by hand there keeps its comments in the copy.
    if let Some(text) = existing.filter(|text| !text.starts_with("# Measured by `memwall bench`")) {
        let copy = PathBuf::from(format!("{shown}.before-bench"));
        plan::save(&copy, &text).map_err(|fault| Failure::failed(format!("{}: {fault}", copy.display())))?;
    }
    plan::save(path, &text).map_err(|fault| Failure::failed(format!("{shown}: {fault}")))
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
        let fit = measured.doubt();
        let fit = fit.unwrap_or_else(|| format!("matmuls fitted within {:.0} %", 100.0 * measured.matmul_error));
        let _ = writeln!(text, "  {fit}");
        if measured.doubt().is_some() {
            let _ = writeln!(text, "  step times predicted from this may be far off: measure again on a quiet machine");
        }
    }
    let _ = writeln!(text, "saved {}", path.display());
    text
}
