//! `memwall trace`: the tracer in the user's Python.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use super::args::TraceArgs;
use super::{Exit, Streams};
use crate::observe::trace::install;

/// `memwall trace`.
pub fn run(args: &TraceArgs, streams: &mut Streams<'_>) -> Exit {
    let folder = match tempfile::Builder::new().prefix("memwall-trace-").tempdir() {
        Ok(folder) => folder,
        Err(error) => return streams.fail(Exit::Failed, &format!("no folder for the tracer: {error}")),
    };
    let program = match install(folder.path()) {
        Ok(program) => program,
        Err(error) => return streams.fail(Exit::Failed, &format!("{}: {error}", folder.path().display())),
    };
    // A training command names its Python itself.
    let (python, command) = match args.command.split_first() {
        Some((first, rest)) if is_python(first) => (first.clone(), rest),
        Some(_) => (args.python.clone().into_os_string(), args.command.as_slice()),
        None => (args.python.clone().into_os_string(), [].as_slice()),
    };
    let mut child = Command::new(&python);
    child.arg("-B").arg(&program).args(options(args));
    if !command.is_empty() {
        child.arg("--").args(command);
    }
    child.stdin(Stdio::null());
    match child.status() {
        // Python's own exits: 0, 1 where tracing failed, 2 where what was asked for is none.
        Ok(status) => Exit::Child(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let shown = python.to_string_lossy();
            streams.fail(
                Exit::Failed,
                &format!("{shown}: there is no such program: --python names the Python that has PyTorch"),
            )
        }
        Err(error) => streams.fail(Exit::Failed, &format!("{}: {error}", python.to_string_lossy())),
    }
}

fn is_python(program: &OsString) -> bool {
    let path = std::path::Path::new(program);
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
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
    option("--loss", text(&args.loss));
    option("--device", args.cpu.then(|| "cpu".into()));
    option("--output", Some(args.output.clone().into_os_string()));
    if args.quiet {
        options.push("--quiet".into());
    }
    options.extend(args.target.iter().map(OsString::from));
    options
}
