//! `memwall run`: a command with the PyTorch hook in place, its output untouched, its exit status
//! passed on.

mod cpu_waits;
mod ends;
mod listening;
mod losses;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::process::{Pid, Signal as Number, kill_process};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;

use self::cpu_waits::RunWaits;
use self::ends::{CommandEnd, ending, exit_codes};
use self::listening::{HookListener, HookReport};
use super::args::RunArgs;
use super::dashboard::Clock;
use super::plans::PlanSource;
use super::signals::{GroupSignals, Signals};
use super::trace::Tracer;
use super::{Exit, Failure, Streams, plans};
use crate::advise::shortage;
use crate::app::{Mismatch, ToldSettings, planned_model, told_model, told_ranks};
use crate::catalog::Catalog;
use crate::compare::{Bands, Calibration, Candidates, Evidence, Explanation, Subject, explain, resident_evidence};
use crate::compare::{last_start, late_steps_of_run, step_share};
use crate::files;
use crate::observe::OomKills;
use crate::observe::hook::{Directory, HOOK, HOOK_DIRECTORY_VARIABLE, Listener, install, tell_exits};
use crate::observe::trace::{REPORT, TAPE_VARIABLE, TRACER_VARIABLE};
use crate::order::StableOrder;
use crate::predict::{Job, Prediction, predict};
use crate::printable::printable;
use crate::reading::{HookPlaces, HookStep, HookedRun, exit_words};
use crate::report::hooked;

/// Has the hook look into the first pass.
const MODULES_VARIABLE: &str = "MEMWALL_MODULES";

/// A report of the tracer is a line.
const MOST_REPORTED: u64 = 4096;

/// By this the hook knows who started its process.
const LAUNCHER_VARIABLE: &str = "MEMWALL_RUN";

/// `memwall run`.
pub fn run(args: &RunArgs, catalog: &Catalog, streams: &mut Streams<'_>) -> Result<Exit, Failure> {
    // Training comes first: with a plan that is none, and without a place for the hook, it runs as it would have.
    let planned = args.plan.as_deref().and_then(|plan| match planned(plan, catalog, streams) {
        Ok(planned) => Some(planned),
        Err(failure) => {
            streams.end(Err(failure));
            streams.note("runs without the plan");
            None
        }
    });
    let placed = match place(|name| std::env::var_os(name)) {
        Ok(placed) => Some(placed),
        Err(why) => {
            streams.note(&format!("runs without the hook: {why}"));
            None
        }
    };
    let clock = Clock::start();
    let (listening, mut variables) = match placed {
        Some(HookLocation { listener, directory, variables }) => {
            (Some((HookListener::start(listener, clock), directory)), variables)
        }
        None => (None, Vec::new()),
    };
    let traced = args.trace.as_deref().filter(|_| listening.is_some()).and_then(|tape| match TracedRun::of(tape) {
        Ok(traced) => Some(traced),
        Err(failure) => {
            streams.note(&format!("runs without a trace: {failure}"));
            None
        }
    });
    variables.extend(traced.iter().flat_map(TracedRun::variables));
    // A plan of a CPU is held against what the first pass takes: few steps are too short for the sample of a later one.
    let looks = args.modules || planned.as_ref().is_some_and(PlannedCommand::looks_at_first_pass);
    variables.extend(looks.then(|| (MODULES_VARIABLE, "1".into())));
    let mut asked = None;
    let kills = || OomKills::look(Path::new("/proc"), Path::new("/sys/fs/cgroup"));
    let before = kills();
    let ended = start(&args.command, variables, || asked = asked.or(Some(clock.now())));
    let at = clock.now();
    let (mut heard, directory) =
        listening.map_or((HookReport::default(), None), |(listening, directory)| (listening.end(), Some(directory)));
    heard.retain_own();
    let (pid, status) = ended?;
    let code = code(status);
    if let Some(directory) = directory {
        tell_exits(&directory, &exit_codes(&heard.runs, code));
    }
    let mut text = traced.as_ref().map_or_else(String::new, |traced| format!("memwall: {}\n", traced.report()));
    if !args.quiet {
        let for_memory = before.zip(kills()).and_then(|(before, now)| now.words_since(before));
        text.push_str(&killed(code, for_memory));
        text.push_str(&summary(&heard, planned.as_ref(), CommandEnd { pid, code, at, asked }, catalog));
    }
    // Standard output is the command's.
    if !text.is_empty() {
        streams.begin_line();
    }
    for line in text.lines() {
        streams.note(line.strip_prefix("memwall: ").unwrap_or(line));
    }
    Ok(Exit::Child(code))
}

/// How the command ended, what its hook told and, beside a plan, why it was not as planned.
fn summary(heard: &HookReport, planned: Option<&PlannedCommand>, end: CommandEnd, catalog: &Catalog) -> String {
    let (first, words) = ending(&heard.runs, &heard.reports, end);
    let line = |said: &String| format!("memwall: {}\n", printable(said));
    let mut text: String = words.iter().chain(&ran_out(&heard.runs, planned)).map(line).collect();
    text.push_str(&hooked::summary(&heard.runs, heard.forgotten, planned.map(|planned| &planned.prediction), first));
    heard.losses.words(&heard.runs).iter().for_each(|loss| text.push_str(&format!("memwall: {loss}\n")));
    let cause = planned.and_then(|planned| planned.cause(&heard.runs, &heard.cpu_waits, catalog));
    cause.iter().for_each(|cause| text.push_str(&format!("memwall: {cause}\n")));
    text.extend(lost(&heard.runs).iter().map(line));
    text
}

/// `memwall hook`: the hook itself, for the two lines in a script.
pub fn hook(streams: &mut Streams<'_>) -> Exit {
    streams.print(HOOK)
}

/// A run of which one step becomes a tape.
struct TracedRun {
    tracer: Tracer,
    tape: PathBuf,
}

impl TracedRun {
    fn of(tape: &Path) -> Result<Self, Failure> {
        // The command may change its folder.
        let tape =
            std::path::absolute(tape).map_err(|error| Failure::failed(format!("{}: {error}", tape.display())))?;
        Ok(Self { tracer: Tracer::install()?, tape })
    }

    fn variables(&self) -> [(&'static str, OsString); 2] {
        [(TRACER_VARIABLE, self.tracer.folder().as_os_str().to_owned()), (TAPE_VARIABLE, self.tape.clone().into())]
    }

    /// What became of it.
    fn report(&self) -> String {
        match files::read_text(&self.tracer.folder().join(REPORT), MOST_REPORTED) {
            Ok(report) => printable(&report),
            Err(_) => {
                "no tape: no optimizer in a PyTorch process took two steps, after which one is followed; memwall trace \
                       -- python … needs no optimizer"
                    .to_owned()
            }
        }
    }
}

/// The plan that the run is set against.
struct PlannedCommand {
    source: PlanSource,
    job: Job,
    prediction: Prediction,
}

impl PlannedCommand {
    /// Modules that are compiled would be compiled again for it.
    fn looks_at_first_pass(&self) -> bool {
        self.prediction.on_cpu && !self.job.training.compile
    }

    /// Why a run differs from its plan: by what it tells itself, and of a run on a CPU by its figures; the dashboard says
    /// that of GPUs.
    fn cause(&self, runs: &[HookedRun], waits: &RunWaits, catalog: &Catalog) -> Option<String> {
        // One that steps no optimizer has a model all the same.
        let told = || runs.iter().find(|run| run.about.is_some());
        let run = hooked::fullest(runs).map(|(run, _)| run).or_else(told)?;
        // What the process says itself is right, whatever its figures are.
        let by_name = self.source.document().value("model.size_billions").is_none();
        let about = run.about.as_ref();
        let other = about.and_then(|about| told_model(about, &self.job, &self.prediction, by_name));
        let settings = ToldSettings::of(run, &self.job);
        let ranks = about.and_then(|about| told_ranks(about, &self.prediction));
        // What another model shows is no guess at this one's settings.
        let step = run.usual_step().filter(|_| self.prediction.on_cpu && other.is_none());
        let found = step.map_or_else(Vec::new, |step| self.by_figures(&settings, (run, &step), waits, catalog));
        // What the process itself says is no guess: beside it stands what its figures say only where that agrees and fits.
        let told = settings.words();
        let is_told = !told.is_empty() || ranks.is_some();
        let stands =
            |one: &&Explanation| !is_told || one.fits && settings.agree_with(&one.change().unwrap_or_default());
        let figures = found.iter().find(stands).map(Explanation::verdict);
        let settings_words = (!told.is_empty()).then(|| Mismatch::Settings(told.join("; ")));
        let told = [other.map(Mismatch::Model), settings_words, ranks].into_iter().flatten();
        let told: Vec<String> = told.map(|mismatch| mismatch.words()).collect();
        let told = (!told.is_empty()).then(|| told.join("; "));
        let words: Vec<String> = told.into_iter().chain(figures).collect();
        let planned = (!words.is_empty()).then(|| format!("not as planned: {}", words.join("; by its figures: ")));
        let machine = settings.machine().map(|machine| format!("the run has {machine}"));
        let on_cpu = about.is_some_and(|about| about.device == "cpu");
        let no_gpu =
            (on_cpu && !self.prediction.on_cpu).then(|| Mismatch::NoGpu(self.prediction.gpu_short.clone()).words());
        let said: Vec<String> = planned.into_iter().chain(machine).chain(no_gpu).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// What the figures of a run on a CPU say, beside what it tells itself.
    fn by_figures(
        &self,
        settings: &ToldSettings,
        (run, step): (&HookedRun, &HookStep),
        waits: &RunWaits,
        catalog: &Catalog,
    ) -> Vec<Explanation> {
        let model = run.about.as_ref().and_then(|about| planned_model(about, &self.job, &self.prediction));
        let stated: Vec<_> = settings.as_planned().into_iter().chain(model).collect();
        let plan = self.source.plan();
        let subject = Subject {
            plan: &Candidates::of(self.source.document(), plan.model.hf_config.as_ref(), plan.trace()),
            catalog,
            stage: None,
            calibration: Calibration::default(),
            stated: &stated,
            same_tokens: settings.same_tokens(),
        };
        let seen = resident_evidence(step, &self.prediction);
        let evidence = Evidence {
            cpu_wait: waits.of(run.pid),
            data_wait: run.data_wait(&seen.step),
            own_code: run.own_code(&seen.step),
            ..seen
        };
        explain(&subject, &evidence, &Bands::of(&self.job))
    }
}

fn planned(plan: &std::path::Path, catalog: &Catalog, streams: &mut Streams<'_>) -> Result<PlannedCommand, Failure> {
    let (sources, exit) = plans::of_file(&plan.to_string_lossy(), streams);
    let source = sources.into_iter().next().ok_or(exit)?;
    let job = Job::resolve(source.plan(), catalog).map_err(|faults| source.refused(faults))?;
    Ok(PlannedCommand { prediction: predict(&job), job, source })
}

/// What a command that a signal ended cannot say itself; `for_memory` is what the kernel's own count tells.
fn killed(code: u8, for_memory: Option<String>) -> String {
    const SIGKILL: u8 = 128 + 9;
    let words = exit_words(code.into());
    match (code, for_memory) {
        (SIGKILL, Some(why)) => format!("memwall: the command was killed ({words}): {why}\n"),
        (_, Some(why)) => format!("memwall: {why}\n"),
        (SIGKILL, None) => format!(
            "memwall: the command was killed ({words}), by you, a scheduler, or for lack of memory: dmesg tells of the last\n"
        ),
        // Whoever presses ^C knows.
        (129 | 131..=192, None) => format!("memwall: the command ended with {words}\n"),
        (_, None) => String::new(),
    }
}

/// What ran out, in the words of `memwall explain`, where a process ended for that, and how to ask what helps.
fn ran_out(runs: &[HookedRun], planned: Option<&PlannedCommand>) -> Vec<String> {
    let Some(message) = runs.iter().find_map(|run| run.end.as_ref()?.out_of_memory.as_ref()) else { return Vec::new() };
    let plan = planned.map_or("PLAN", |planned| planned.source.name.as_str());
    let helps =
        format!("memwall explain LOG --plan {plan} says what helps by how much; LOG has what the command printed");
    vec![shortage(message, None).headline, helps]
}

/// Where time was lost: the late steps of each rank, else what their steps wait for. A rank that waits for the others in its
/// backward pass has none of its own.
fn lost(runs: &[HookedRun]) -> Vec<String> {
    const MOST: usize = 3;
    let mut ranks: Vec<&HookPlaces> = last_start(runs).into_iter().filter_map(|run| run.places.as_ref()).collect();
    ranks.order_by_key(|places| places.rank);
    let late: Vec<String> = late_steps_of_run(&ranks).into_iter().take(MOST).collect();
    if late.is_empty() { step_share(&ranks).into_iter().collect() } else { late }
}

/// Where the hook was put.
struct HookLocation {
    listener: Listener,
    directory: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

fn place(variable: impl Fn(&str) -> Option<OsString>) -> Result<HookLocation, Failure> {
    let directory = Directory::open(&variable).map_err(Failure::failed)?;
    let not_written = |error: io::Error| Failure::failed(format!("{}: {error}", directory.path().display()));
    let folder = install(&directory).map_err(not_written)?;
    let listener = Listener::bind(&directory).map_err(Failure::failed)?;
    let before = variable("PYTHONPATH").filter(|path| !path.is_empty());
    let paths = std::iter::once(folder).chain(before.iter().flat_map(std::env::split_paths));
    let path = std::env::join_paths(paths).map_err(Failure::failed)?;
    let variables = vec![
        ("PYTHONPATH", path),
        (HOOK_DIRECTORY_VARIABLE, directory.path().as_os_str().to_owned()),
        (LAUNCHER_VARIABLE, std::process::id().to_string().into()),
    ];
    Ok(HookLocation { listener, directory: directory.path().to_owned(), variables })
}

/// Runs the command to its end, with the process that it began as; one that cannot be run ends as a shell would.
/// `asked` is called when somebody asks it to end.
fn start(
    command: &[OsString],
    variables: Vec<(&'static str, OsString)>,
    mut asked: impl FnMut(),
) -> Result<(Option<u32>, ExitStatus), Failure> {
    let Some((program, arguments)) = command.split_first() else { return Err(Failure::failed("no command")) };
    let shown = PathBuf::from(program);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("no event loop: {error}")))?;
    runtime.block_on(async {
        // Before the command starts: from here on a signal reaches it.
        let mut signals = Signals::listen()?;
        let mut group = GroupSignals::watch();
        let mut child = spawn(program, arguments, variables)
            .map_err(|error| Failure::new(not_run(&error), format!("{}: {error}", shown.display())))?;
        let pid = child.id();
        loop {
            tokio::select! {
                status = child.wait() => {
                    return status.map(|status| (pid, status)).map_err(|error| Failure::failed(format!("{}: {error}", shown.display())));
                }
                number = signals.next() => {
                    if !matches!(number, Number::USR1 | Number::USR2) {
                        asked();
                    }
                    let received = match &mut group {
                        Some(group) => group.has_received(number).await,
                        None => None,
                    };
                    if !received.unwrap_or_else(|| comes_from_keyboard(number)) {
                        forward(&child, number);
                    }
                }
            }
        }
    })
}

/// As a shell starts it: a script without a first line that says by what is the shell's own.
fn spawn(program: &OsStr, arguments: &[OsString], variables: Vec<(&'static str, OsString)>) -> io::Result<Child> {
    const NOT_EXECUTABLE: i32 = 8;
    let child = Command::new(program).args(arguments).envs(variables.iter().cloned()).spawn();
    match child {
        Err(error) if error.raw_os_error() == Some(NOT_EXECUTABLE) && Path::new(program).components().count() > 1 => {
            Command::new("/bin/sh").arg(program).args(arguments).envs(variables).spawn()
        }
        child => child,
    }
}

/// What shells, `env` and `nohup` exit with where a program is not there, or is and cannot be run.
fn not_run(error: &io::Error) -> Exit {
    Exit::Child(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Passes a signal on.
fn forward(child: &Child, number: Number) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        // It has ended already: nobody is left to be told.
        let _ = kill_process(pid, number);
    }
}

/// What the keyboard sends goes to the command by itself, as it is in the terminal's foreground group.
fn comes_from_keyboard(number: Number) -> bool {
    matches!(number, Number::INT | Number::QUIT) && in_foreground()
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
