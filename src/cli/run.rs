//! `memwall run`: a command with the PyTorch hook in place, its output untouched, its exit status
//! passed on.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal as Kill, kill_process};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::args::RunArgs;
use super::dashboard::Clock;
use super::{Exit, Streams, plans};
use crate::catalog::Catalog;
use crate::observe::hook::{Directory, HOOK, HOOK_DIRECTORY_VARIABLE, Listener, install, tell_exit};
use crate::predict::{Job, Prediction, predict};
use crate::reading::HookedRun;
use crate::report::hooked;

/// How long the listener waits for a message before it looks whether it shall end.
const TURN: Duration = Duration::from_millis(200);

/// By this the hook knows who started its process.
const LAUNCHER_VARIABLE: &str = "MEMWALL_RUN";

/// `memwall run`.
pub fn run(args: &RunArgs, catalog: &Catalog, streams: &mut Streams<'_>) -> Exit {
    let prediction = match args.plan.as_deref().map(|plan| predicted(plan, catalog, streams)).transpose() {
        Ok(prediction) => prediction,
        Err(exit) => return exit,
    };
    let placed = match place(|name| std::env::var_os(name)) {
        Ok(placed) => Some(placed),
        // Training comes first: without a place for the hook it runs as it would have.
        Err(why) => {
            streams.fail(Exit::Done, &format!("runs without the hook: {why}"));
            None
        }
    };
    let (listening, variables) = match placed {
        Some(Placed { listener, directory, variables }) => (Some((Listening::start(listener), directory)), variables),
        None => (None, Vec::new()),
    };
    let ended = start(&args.command, variables);
    let (mut runs, directory) =
        listening.map_or((Vec::new(), None), |(listening, directory)| (listening.end(), Some(directory)));
    // Other runs meet in the same directory.
    runs.retain(|run| run.about.as_ref().is_some_and(|about| about.launcher == Some(std::process::id())));
    let code = match ended {
        Ok(status) => code(status),
        Err(message) => return streams.fail(Exit::Failed, &message),
    };
    if let Some(directory) = directory {
        let pids: Vec<u32> = runs.iter().map(|run| run.pid).collect();
        tell_exit(&directory, &pids, code);
    }
    let exit = Exit::Child(code);
    if !args.quiet {
        // Standard output is the command's.
        drop(streams.err.write_all(hooked::summary(&runs, prediction.as_ref()).as_bytes()));
    }
    exit
}

/// `memwall hook`: the hook itself, for the two lines in a script.
pub fn hook(streams: &mut Streams<'_>) -> Exit {
    streams.print(HOOK)
}

fn predicted(plan: &std::path::Path, catalog: &Catalog, streams: &mut Streams<'_>) -> Result<Prediction, Exit> {
    let (sources, exit) = plans::of_file(&plan.to_string_lossy(), streams);
    let Some(source) = sources.first() else { return Err(exit) };
    Job::resolve(source.plan(), catalog).map(|job| predict(&job)).map_err(|faults| source.tell(faults, streams))
}

/// Where the hook was put.
struct Placed {
    listener: Listener,
    directory: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

fn place(variable: impl Fn(&str) -> Option<OsString>) -> Result<Placed, String> {
    let directory = Directory::open(&variable)?;
    let folder = install(&directory).map_err(|error| format!("{}: {error}", directory.path().display()))?;
    let listener = Listener::bind(&directory)?;
    let before = variable("PYTHONPATH").filter(|path| !path.is_empty());
    let paths = std::iter::once(folder).chain(before.iter().flat_map(std::env::split_paths));
    let path = std::env::join_paths(paths).map_err(|error| error.to_string())?;
    let variables = vec![
        ("PYTHONPATH", path),
        (HOOK_DIRECTORY_VARIABLE, directory.path().as_os_str().to_owned()),
        (LAUNCHER_VARIABLE, std::process::id().to_string().into()),
    ];
    Ok(Placed { listener, directory: directory.path().to_owned(), variables })
}

/// A listener on a thread of its own.
struct Listening {
    thread: std::thread::JoinHandle<Vec<HookedRun>>,
    ended: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Listening {
    fn start(mut listener: Listener) -> Self {
        use std::sync::atomic::Ordering::Relaxed;
        let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = ended.clone();
        let thread = std::thread::spawn(move || {
            let clock = Clock::start();
            loop {
                // What was sent before the end is heard: the queue is emptied once more.
                let last = told.load(Relaxed);
                let heard = listener.listen(TURN, || clock.now());
                if last || heard.is_err() {
                    return listener.runs().to_vec();
                }
            }
        });
        Self { thread, ended }
    }

    fn end(self) -> Vec<HookedRun> {
        self.ended.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn start(command: &[OsString], variables: Vec<(&'static str, OsString)>) -> Result<ExitStatus, String> {
    let Some((program, arguments)) = command.split_first() else { return Err("no command".to_owned()) };
    let shown = PathBuf::from(program);
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(|error| format!("no event loop: {error}"))?;
    runtime.block_on(async {
        // Before the command starts: from here on a signal reaches it.
        let mut signals = Signals::listen()?;
        let child = Command::new(program).args(arguments).envs(variables).spawn();
        let mut child = child.map_err(|error| format!("{}: {error}", shown.display()))?;
        loop {
            tokio::select! {
                status = child.wait() => return status.map_err(|error| format!("{}: {error}", shown.display())),
                kind = signals.next() => forward(&child, kind),
            }
        }
    })
}

/// The signals that a command is sent on purpose.
struct Signals {
    each: Vec<(Kill, Signal)>,
}

impl Signals {
    fn listen() -> Result<Self, String> {
        let kinds = [
            (Kill::INT, SignalKind::interrupt()),
            (Kill::TERM, SignalKind::terminate()),
            (Kill::HUP, SignalKind::hangup()),
            (Kill::QUIT, SignalKind::quit()),
            (Kill::USR1, SignalKind::user_defined1()),
            (Kill::USR2, SignalKind::user_defined2()),
        ];
        let each: std::io::Result<Vec<_>> =
            kinds.into_iter().map(|(number, kind)| Ok((number, signal(kind)?))).collect();
        each.map(|each| Self { each }).map_err(|error| format!("signals cannot be received: {error}"))
    }

    async fn next(&mut self) -> Kill {
        let waiting = self.each.iter_mut().map(|(number, signal)| {
            Box::pin(async {
                signal.recv().await;
                *number
            })
        });
        futures::future::select_all(waiting).await.0
    }
}

/// Passes a signal on. What the keyboard sends goes to the command by itself, as it is in the
/// terminal's foreground group: a second interrupt would have it give up cleaning up.
fn forward(child: &Child, kind: Kill) {
    if matches!(kind, Kill::INT | Kill::QUIT) && in_foreground() {
        return;
    }
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        // It has ended already: nobody is left to be told.
        let _ = kill_process(pid, kind);
    }
}

fn in_foreground() -> bool {
    let stat = procfs::process::Process::myself().and_then(|me| me.stat());
    stat.is_ok_and(|stat| stat.tpgid > 0 && stat.tpgid == stat.pgrp)
}

/// The number that a shell would show: the command's own, or 128 and the signal that ended it.
fn code(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(number & 0xff).unwrap_or(1)
}
