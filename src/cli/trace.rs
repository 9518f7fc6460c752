//! `memwall trace`: the tracer in the user's Python.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::args::TraceArgs;
use super::{Exit, Failure};
use crate::observe::trace::install;

/// `memwall trace`.
pub fn run(args: &TraceArgs) -> Result<Exit, Failure> {
    let tracer = Tracer::install()?;
    // A training command names its Python itself, unless an option names another.
    let is_named = args.python != Path::new("python3");
    let (python, command) = match args.command.split_first() {
        Some((first, rest)) if is_python(first) => (if is_named { &args.python } else { Path::new(first) }, rest),
        Some(_) => (args.python.as_path(), args.command.as_slice()),
        None => (args.python.as_path(), [].as_slice()),
    };
    let mut child = tracer.command(python);
    child.args(options(args));
    if !command.is_empty() {
        child.arg("--").args(command);
    }
    let status = child.status().map_err(|error| no_python(python, &error))?;
    // Python's own exits: 0, 1 where tracing failed, 2 where what was asked for is none.
    Ok(Exit::Child(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// The tracer in a folder of its own, which goes with this value.
pub struct Tracer {
    program: PathBuf,
    folder: TempDir,
}

impl Tracer {
    /// Writes the tracer.
    pub fn install() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("memwall-trace-").tempdir();
        let folder = folder.map_err(|error| Failure::failed(format!("no folder for the tracer: {error}")))?;
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", folder.path().display()));
        Ok(Self { program: install(folder.path()).map_err(failed)?, folder })
    }

    /// The folder, for what is of no use later.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The tracer in this Python; its options follow.
    pub fn command(&self, python: &Path) -> Command {
        let mut command = Command::new(python);
        command.arg("-B").arg(&self.program).stdin(Stdio::null());
        command
    }
}

/// What is said where the Python that is to run one of our programs cannot be started.
pub fn no_python(python: &Path, error: &io::Error) -> Failure {
    let shown = python.display();
    Failure::failed(match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{shown}: there is no such program: --python names the Python that has PyTorch")
        }
        _ => format!("{shown}: {error}"),
    })
}

fn is_python(program: &OsString) -> bool {
    Path::new(program).file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
}

/// The tracer's own options.
fn options(args: &TraceArgs) -> Vec<OsString> {
    let mut options: Vec<OsString> = Vec::new();
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            options.push(name.into());
            options.push(value);
        }
    };
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.clone().into_os_string());
    let text = |text: &Option<String>| text.as_ref().map(OsString::from);
    option("--hf", path(&args.hf));
    option("--class", text(&args.class));
    option("--attention", text(&args.attention));
    option("--timm", text(&args.timm));
    option("--torchvision", text(&args.torchvision));
    option("--diffusers", path(&args.diffusers));
    for input in &args.input {
        option("--input", Some(input.into()));
    }
    for program in &args.allow {
        option("--allow", Some(program.into()));
    }
    option("--loss", text(&args.loss));
    option("--length", args.length.map(|length| length.to_string().into()));
    option("--batch", args.batch.map(|batch| batch.to_string().into()));
    option("--device", args.cpu.then(|| "cpu".into()));
    option("--output", Some(args.output.clone().into_os_string()));
    if args.forward {
        options.push("--forward".into());
    }
    if args.quiet {
        options.push("--quiet".into());
    }
    options.extend(args.target.iter().map(OsString::from));
    options
}
