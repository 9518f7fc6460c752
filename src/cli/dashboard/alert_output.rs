//! Alerts told to the world outside: the terminal's bell, a notification of the desktop through the terminal, a
//! command of the user's.

use std::collections::VecDeque;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::app::{AlertMessage, Event};
use crate::printable::printable;

/// What the terminal is sent: the bell, and a notification in the words that it understands.
/// `variable` looks up an environment variable.
pub fn bytes(alert: &AlertMessage, variable: impl Fn(&str) -> Option<String>) -> String {
    let mut bytes = String::new();
    if alert.channels.bell {
        bytes.push('\x07');
    }
    if alert.channels.desktop {
        // A terminal would take a semicolon for the end of the text; what steers it has gone before.
        let text = printable(&format!("{}: {}", alert.plan, alert.text)).replace(';', ",");
        let term = variable("TERM").unwrap_or_default();
        // urxvt's words, which VTE, foot and others have taken over; iTerm2's elsewhere.
        let urxvts = term.starts_with("rxvt") || term.starts_with("foot") || variable("VTE_VERSION").is_some();
        let words =
            if urxvts { format!("\x1b]777;notify;MemWall;{text}\x1b\\") } else { format!("\x1b]9;{text}\x1b\\") };
        // tmux keeps such words to itself, unless they are passed through it.
        let inside_tmux = variable("TMUX").is_some_and(|tmux| !tmux.is_empty());
        bytes += &if inside_tmux { format!("\x1bPtmux;{}\x1b\\", words.replace('\x1b', "\x1b\x1b")) } else { words };
    }
    bytes
}

/// How long the command of an alert may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks whether a command has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the commands of alerts one at a time; those that come meanwhile wait.
pub struct Commands {
    alarms: mpsc::Sender<AlertMessage>,
}

impl Commands {
    /// Starts the thread for them. What fails goes to `tell`.
    ///
    /// # Errors
    /// Where the system gives none.
    pub fn start(patience: Duration, tell: impl Fn(Event) + Send + 'static) -> io::Result<Self> {
        let (alarms, coming) = mpsc::channel();
        thread::Builder::new().name("alerts".to_owned()).spawn(move || {
            let mut waiting = VecDeque::new();
            while let Some(alert) = next(&coming, &mut waiting) {
                // A pager that has just lost its network finds it again.
                let failed = run(&alert, patience).and_then(|_| run(&alert, patience));
                failed.into_iter().for_each(&tell);
            }
        })?;
        Ok(Self { alarms })
    }

    /// Has the command of that alert run, where it has one.
    pub fn send(&self, alert: AlertMessage) {
        if !alert.channels.command.is_empty() {
            // The thread ends with this value alone.
            drop(self.alarms.send(alert));
        }
    }
}

/// The alert whose command is next; none when no more come. One that has come again meanwhile is told once, with what
/// it says now.
fn next(coming: &mpsc::Receiver<AlertMessage>, waiting: &mut VecDeque<AlertMessage>) -> Option<AlertMessage> {
    if waiting.is_empty() {
        waiting.push_back(coming.recv().ok()?);
    }
    for alert in coming.try_iter() {
        let same = |other: &&mut AlertMessage| {
            (other.name, &other.gpu, &other.channels.command) == (alert.name, &alert.gpu, &alert.channels.command)
        };
        match waiting.iter_mut().find(same) {
            Some(earlier) => *earlier = alert,
            None => waiting.push_back(alert),
        }
    }
    waiting.pop_front()
}

/// Runs the command of an alert, its facts in the environment, and waits for its end; an event where it fails or takes
/// longer than `patience`. No shell is between: nothing in a fact is obeyed.
fn run(alert: &AlertMessage, patience: Duration) -> Option<Event> {
    let (program, arguments) = alert.channels.command.split_first()?;
    // A NUL cannot be passed on at all.
    let passed = |text: &str| printable(text);
    let child = Command::new(program)
        .args(arguments)
        .env("MEMWALL_ALERT", alert.name)
        .env("MEMWALL_ALERT_TEXT", passed(&alert.text))
        .env("MEMWALL_ALERT_VALUE", &alert.value)
        .env("MEMWALL_ALERT_THRESHOLD", &alert.threshold)
        .env("MEMWALL_ALERT_GPU", passed(alert.gpu.as_deref().unwrap_or_default()))
        .env("MEMWALL_ALERT_PID", alert.pid.map(|pid| pid.to_string()).unwrap_or_default())
        .env("MEMWALL_ALERT_PLAN", passed(&alert.plan))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A group of its own: what it has started ends with it.
        .process_group(0)
        .spawn();
    let why = match child.and_then(|mut child| ended(&mut child, patience)) {
        Ok(Some(status)) if status.success() => return None,
        Ok(Some(status)) => status.to_string(),
        Ok(None) => format!("not done within {} s: ended", patience.as_secs_f32()),
        Err(error) => error.to_string(),
    };
    Some(Event::AlertFailed(format!("the alert command for `{}` failed twice: {program}: {why}", alert.name)))
}

/// How a command ended; none where it took too long, and was ended with all that it had started.
fn ended(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < patience {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK.min(patience));
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Ended just now: nothing is left to end.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait().map(|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::AlertChannels;

    fn alert(command: &[&str]) -> AlertMessage {
        AlertMessage {
            name: "loss",
            text: "the loss is NaN; \x1b]2;mine\x07 $(touch hacked)".to_owned(),
            value: String::new(),
            threshold: String::new(),
            gpu: Some("node17/3".to_owned()),
            pid: None,
            plan: "7b".to_owned(),
            channels: AlertChannels {
                bell: true,
                desktop: true,
                command: command.iter().map(|word| (*word).to_owned()).collect(),
            },
        }
    }

    #[test]
    fn the_terminal_is_sent_nothing_that_steers_it_beyond_the_alert_itself() {
        let sent = bytes(&alert(&[]), |name| (name == "TERM").then(|| "xterm-256color".to_owned()));
        assert_eq!(sent, "\x07\x1b]9;7b: the loss is NaN, ·]2,mine· $(touch hacked)\x1b\\");
        let sent = bytes(&alert(&[]), |name| (name == "TERM").then(|| "foot-extra".to_owned()));
        assert!(sent.contains("\x1b]777;notify;MemWall;7b: the loss"));
        // As tmux(1) wants it: escapes doubled within its own sequence.
        let sent = bytes(&alert(&[]), |name| (name == "TMUX").then(|| "/tmp/tmux-1000/default,1,0".to_owned()));
        assert_eq!(sent, "\x07\x1bPtmux;\x1b\x1b]9;7b: the loss is NaN, ·]2,mine· $(touch hacked)\x1b\x1b\\\x1b\\");
        assert_eq!(bytes(&AlertMessage { channels: AlertChannels::default(), ..alert(&[]) }, |_| None), "");
    }

    #[test]
    fn the_command_gets_facts_in_its_environment_and_no_shell_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("said");
        let script = "printf '%s|%s|%s' \"$MEMWALL_ALERT\" \"$MEMWALL_ALERT_TEXT\" \"$MEMWALL_ALERT_GPU\" > \"$1\"";
        let said = run(&alert(&["sh", "-c", script, "-", out.to_str().unwrap()]), PATIENCE);
        assert_eq!(said, None);
        let said = std::fs::read_to_string(out).unwrap();
        assert_eq!(said, "loss|the loss is NaN; ·]2;mine· $(touch hacked)|node17/3");
        let pager = folder.path().join("pager");
        let Some(Event::AlertFailed(why)) = run(&alert(&[pager.to_str().unwrap()]), PATIENCE) else {
            panic!("no fault")
        };
        assert!(why.contains(pager.to_str().unwrap()) && why.contains("loss"), "{why}");
        assert!(run(&alert(&["false"]), PATIENCE).is_some());
        assert_eq!(run(&alert(&[]), PATIENCE), None);
    }

    /// Commands whose failures are received.
    fn commands(patience: Duration) -> (Commands, mpsc::Receiver<Event>) {
        let (sender, failures) = mpsc::channel();
        (Commands::start(patience, move |event| sender.send(event).unwrap()).unwrap(), failures)
    }

    #[test]
    fn a_command_that_hangs_is_ended_told_and_holds_up_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("said");
        let (commands, failures) = commands(Duration::from_secs(1));
        // With a child of its own, which holds nothing up either.
        commands.send(alert(&["sh", "-c", "sleep 1000 & sleep 1000"]));
        commands.send(AlertMessage { name: "power", ..alert(&["touch", out.to_str().unwrap()]) });
        commands.send(AlertMessage { name: "last", ..alert(&["false"]) });
        let Event::AlertFailed(why) = failures.recv().unwrap() else { panic!("no fault") };
        assert!(why.contains("`loss` failed twice: sh: not done within 1 s"), "{why}");
        let Event::AlertFailed(why) = failures.recv().unwrap() else { panic!("no fault") };
        assert!(why.contains("`last`") && out.exists(), "{why}");
    }

    #[test]
    fn a_command_that_fails_once_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let tries = folder.path().join("tries");
        let (commands, failures) = commands(PATIENCE);
        let script = "echo x >> \"$1\"; [ $(wc -l < \"$1\") = 2 ]";
        commands.send(alert(&["sh", "-c", script, "-", tries.to_str().unwrap()]));
        commands.send(AlertMessage { name: "last", ..alert(&["false"]) });
        let Event::AlertFailed(why) = failures.recv().unwrap() else { panic!("no fault") };
        assert!(why.contains("`last`"), "{why}");
        assert_eq!(std::fs::read_to_string(tries).unwrap(), "x\nx\n");
    }

    #[test]
    fn what_comes_again_while_it_waits_is_told_once_as_it_is_now() {
        let (sender, coming) = mpsc::channel();
        for (name, text) in [("loss", "1"), ("power", "2"), ("loss", "3")] {
            sender.send(AlertMessage { name, text: text.to_owned(), ..alert(&["page"]) }).unwrap();
        }
        drop(sender);
        let mut waiting = VecDeque::new();
        let told = std::iter::from_fn(|| next(&coming, &mut waiting)).map(|alert| (alert.name, alert.text));
        assert_eq!(told.collect::<Vec<_>>(), [("loss", "3".to_owned()), ("power", "2".to_owned())]);
    }
}
