//! `memwall doctor`: what works on this machine, what does not, and what to do about it.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::config::Config;
use super::dashboard::{has_sixteen_colours, unable};
use super::{Exit, Streams, output, user_catalog};
use crate::observe::hook::Directory;
use crate::observe::{self, SharedRequirements, SourceChoice, SourceContext, SourceError};
use crate::reading::{Moment, Reading, ReadingKind, Sample};
use crate::report::page::beside;

/// A driver that has not answered by then hangs.
const PATIENCE: Duration = Duration::from_secs(8);

/// Between the two samples that counters need.
const BETWEEN: Duration = Duration::from_millis(300);

/// 2024-01-01 in seconds since the Unix epoch: before it nothing of this program was written.
const EARLIEST: u64 = 1_704_067_200;

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckStatus {
    Works,
    Limited,
    Broken,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Check {
    name: &'static str,
    standing: CheckStatus,
    found: String,
    /// What to do; empty where nothing needs to be done.
    remedy: &'static str,
}

impl Check {
    fn works(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, standing: CheckStatus::Works, found: found.into(), remedy: "" }
    }

    fn limited(name: &'static str, found: impl Into<String>, remedy: &'static str) -> Self {
        Self { name, standing: CheckStatus::Limited, found: found.into(), remedy }
    }

    fn broken(name: &'static str, found: impl Into<String>, remedy: &'static str) -> Self {
        Self { name, standing: CheckStatus::Broken, found: found.into(), remedy }
    }

    fn lines(&self, width: usize) -> String {
        let word = match self.standing {
            CheckStatus::Works => "ok",
            CheckStatus::Limited => "limited",
            CheckStatus::Broken => "broken",
        };
        let remedy =
            if self.remedy.is_empty() { String::new() } else { beside(&format!("{:20} > ", ""), self.remedy, width) };
        beside(&format!("{word:8} {:12} ", self.name), &self.found, width) + &remedy
    }
}

/// Tells everything; exits with 1 if something is broken.
pub fn run(streams: &mut Streams) -> Exit {
    let variable = |name: &str| env::var_os(name);
    let mut checks = vec![version()];
    checks.extend(driver());
    checks.extend([processes(), clock(SystemTime::now()), hook(variable), python(variable)]);
    checks.extend(terminal(variable, io::stdout().is_terminal()));
    checks.extend(files(variable));
    let broken = checks.iter().any(|check| check.standing == CheckStatus::Broken);
    let page = output::page(None);
    let text: String = checks.iter().map(|check| check.lines(page.width)).collect();
    streams.print(page.show(&text)).and(if broken { Exit::Failed } else { Exit::Done })
}

fn version() -> Check {
    let linked = if cfg!(target_env = "musl") { ", static" } else { "" };
    let found = format!("{} for {} {}{linked}", env!("CARGO_PKG_VERSION"), env::consts::OS, env::consts::ARCH);
    Check::works("memwall", found)
}

/// What a source saw, or why it could not be opened.
type SourceAnswer = Result<(String, Sample), SourceError>;

/// Opens a source and takes two samples; none where it does not answer.
fn seen(choice: SourceChoice) -> Option<SourceAnswer> {
    let (answer, answered) = mpsc::channel();
    let look = move || {
        let context = SourceContext { requirements: SharedRequirements::everything(), ..SourceContext::default() };
        observe::open(choice, context).map(|mut source| {
            source.sample(Moment(0));
            thread::sleep(BETWEEN);
            let sample = source.sample(Moment(u64::try_from(BETWEEN.as_millis()).unwrap_or(0)));
            (source.info().detail, sample)
        })
    };
    // A driver that hangs keeps this thread, not the program.
    thread::Builder::new().spawn(move || drop(answer.send(look()))).ok()?;
    answered.recv_timeout(PATIENCE).ok()
}

fn driver() -> Vec<Check> {
    match seen(SourceChoice::Nvml) {
        Some(Ok((detail, sample))) => devices(&detail, &sample),
        Some(Err(nvidia)) => match seen(SourceChoice::Amdgpu) {
            Some(Ok((detail, sample))) => devices(&detail, &sample),
            _ if matches!(&nvidia, SourceError::Nvml(why) if why.is_broken()) => {
                vec![Check::broken("driver", nvidia.to_string(), "`memwall --source demo` works without it")]
            }
            _ => vec![no_driver(&nvidia)],
        },
        None => {
            let found = format!("it has not answered for {} s", PATIENCE.as_secs());
            vec![Check::broken("driver", found, "`nvidia-smi` hangs too? Then the driver or a GPU needs a restart")]
        }
    }
}

fn no_driver(nvidia: &SourceError) -> Check {
    let device = fs::metadata("/dev/nvidiactl").is_ok();
    match device && File::open("/dev/nvidiactl").is_err() {
        true => Check::broken("driver", "/dev/nvidiactl: no permission", "join the group that owns it (video, render)"),
        false if device => Check::broken("driver", nvidia.to_string(), "start the container with the GPUs: --gpus all"),
        false => Check::limited("driver", nvidia.to_string(), "predictions and `--source demo` work without a GPU"),
    }
}

fn devices(detail: &str, sample: &Sample) -> Vec<Check> {
    let names = sample.devices.iter().map(|device| device.name.value().map_or("a GPU without a name", String::as_str));
    let found = format!("{detail}: {}", names.collect::<Vec<_>>().join(", "));
    let mut checks = vec![Check::works("driver", found)];
    if let Some(device) = sample.devices.first() {
        checks.push(counters(&device.dram_bandwidth));
    }
    checks
}

fn counters<T>(bandwidth: &Reading<T>) -> Check {
    match bandwidth {
        Reading::Known { kind: ReadingKind::Measured, .. } => Check::works("counters", "DRAM traffic is measured"),
        Reading::Known { .. } => {
            Check::limited("counters", "DRAM traffic is an upper bound", "counters (GPM) need Hopper or later")
        }
        Reading::Absent(why) => Check::limited("counters", format!("DRAM traffic: {why}"), "`memwall help nvml`"),
    }
}

fn processes() -> Check {
    if observe::sees_all_processes() {
        return Check::works("processes", "this PID namespace sees all");
    }
    let found = "a PID namespace of its own: processes outside have no names here";
    Check::limited("processes", found, "start the container with --pid=host to see them")
}

/// Recordings, logs and hooks are put in order by time.
fn clock(now: SystemTime) -> Check {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if seconds < EARLIEST {
        return Check::broken("clock", "the system's clock stands before 2024", "set it, or start its time service");
    }
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    Check::works("clock", source.map_or_else(|_| "set".to_owned(), |source| format!("set; {}", source.trim())))
}

fn hook(variable: impl Fn(&str) -> Option<OsString>) -> Check {
    match Directory::open(variable) {
        Ok(directory) => Check::works("hook", format!("{} is private", directory.path().display())),
        Err(why) => Check::broken("hook", why.to_string(), "MEMWALL_HOOK_DIR names another folder"),
    }
}

fn python(variable: impl Fn(&str) -> Option<OsString>) -> Check {
    let folders: Vec<PathBuf> = variable("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let found = folders.iter().map(|folder| folder.join("python3")).find(|file| file.is_file());
    match found {
        Some(file) => Check::works("python", file.display().to_string()),
        None => {
            Check::limited("python", "no python3 in PATH", "`memwall trace` and the hook need the run's own Python")
        }
    }
}

fn terminal(variable: impl Fn(&str) -> Option<OsString>, is_terminal: bool) -> Vec<Check> {
    if !is_terminal {
        return vec![Check::works("terminal", "standard output is none: reports are plain text")];
    }
    let kind = variable("TERM");
    if let Some(why) = unable(kind.as_deref()) {
        return vec![Check::broken("terminal", why, "")];
    }
    let text =
        |name: &str| variable(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned());
    // The order in which the C library looks (locale(7)).
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| text(name)).unwrap_or_default();
    let unicode = locale.to_uppercase().replace('-', "").contains("UTF8");
    let (columns, rows) = crossterm::terminal::size().unwrap_or((0, 0));
    let fewest = if has_sixteen_colours(&variable) { "16 colours: theme ansi" } else { "256 colours or fewer" };
    let colours = text("COLORTERM").unwrap_or_else(|| fewest.to_owned());
    let found = format!("{} {columns}x{rows}, {colours}", kind.unwrap_or_default().to_string_lossy());
    let size = if columns < 80 || rows < 24 {
        Check::limited("terminal", found, "80x24 shows every pane")
    } else {
        Check::works("terminal", found)
    };
    let letters = if unicode {
        Check::works("locale", locale)
    } else {
        Check::limited("locale", format!("`{locale}` is not UTF-8"), "`memwall --ascii`, or a locale such as C.UTF-8")
    };
    vec![size, letters]
}

fn files(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Check> {
    let (_, mut faults) = user_catalog::load(&variable);
    faults.extend(Config::load(&variable).faults);
    if !faults.is_empty() {
        let broken = |fault| Check::broken("files", fault, "`memwall config --example`, `memwall help config`");
        return faults.into_iter().map(broken).collect();
    }
    let folder = user_catalog::folder(&variable)
        .map_or_else(|| "no folder: HOME is not set".to_owned(), |folder| format!("{}: no fault", folder.display()));
    vec![Check::works("files", folder)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_the_program_is_broken() {
        assert_eq!(clock(UNIX_EPOCH).standing, CheckStatus::Broken);
        assert_eq!(clock(UNIX_EPOCH + Duration::from_secs(EARLIEST)).standing, CheckStatus::Works);
    }

    #[test]
    fn a_terminal_that_cannot_place_text_and_a_locale_without_letters_are_told() {
        let variables = |term: &'static str, lang: &'static str| {
            move |name: &str| match name {
                "TERM" => Some(OsString::from(term)),
                "LANG" => Some(OsString::from(lang)),
                _ => None,
            }
        };
        assert_eq!(terminal(variables("dumb", "C.UTF-8"), true)[0].standing, CheckStatus::Broken);
        assert_eq!(terminal(variables("xterm", "de_DE.utf8"), true)[1].standing, CheckStatus::Works);
        assert_eq!(terminal(variables("xterm", "C"), true)[1].standing, CheckStatus::Limited);
        assert_eq!(terminal(variables("dumb", "C"), false).len(), 1);
    }

    #[test]
    fn files_with_faults_are_each_told() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("memwall");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("models.yaml"), "models: 3").unwrap();
        std::fs::write(folder.join("config.yaml"), "thme: dark\n").unwrap();
        let found = files(|name| (name == "XDG_CONFIG_HOME").then(|| home.path().into()));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|check| check.standing == CheckStatus::Broken));
    }
}
