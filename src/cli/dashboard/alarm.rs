//! Alerts told to the world outside: the terminal's bell, a notification of the desktop through the terminal, a
//! command of the user's.

use std::process::{Command, Stdio};

use crate::app::{Alarm, Event};
use crate::printable::printable;

/// What the terminal is sent: the bell, and a notification in the words that it understands.
/// `variable` looks up an environment variable.
pub fn bytes(alarm: &Alarm, variable: impl Fn(&str) -> Option<String>) -> String {
    let mut bytes = String::new();
    if alarm.ways.bell {
        bytes.push('\x07');
    }
    if alarm.ways.desktop {
        // A terminal would take a semicolon for the end of the text; what steers it has gone before.
        let text = printable(&format!("{}: {}", alarm.plan, alarm.text)).replace(';', ",");
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

/// Runs the command of an alert, its facts in the environment, and waits for its end; an event where it fails.
/// No shell is between: nothing in a fact is obeyed.
pub fn run(alarm: &Alarm) -> Option<Event> {
    let (program, arguments) = alarm.ways.command.split_first()?;
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    // A NUL cannot be passed on at all.
    let passed = |text: &str| printable(text);
    let status = Command::new(program)
        .args(arguments)
        .env("MEMWALL_ALERT", alarm.name)
        .env("MEMWALL_ALERT_TEXT", passed(&alarm.text))
        .env("MEMWALL_ALERT_VALUE", &alarm.value)
        .env("MEMWALL_ALERT_THRESHOLD", &alarm.threshold)
        .env("MEMWALL_ALERT_GPU", number(alarm.gpu))
        .env("MEMWALL_ALERT_PID", number(alarm.pid))
        .env("MEMWALL_ALERT_PLAN", passed(&alarm.plan))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let why = match status {
        Ok(status) if status.success() => return None,
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    Some(Event::AlarmFailed(format!("the command of the alert `{}`: {program}: {why}", alarm.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Ways;

    fn alarm(command: &[&str]) -> Alarm {
        Alarm {
            name: "loss",
            text: "the loss is NaN; \x1b]2;mine\x07 $(touch hacked)".to_owned(),
            value: String::new(),
            threshold: String::new(),
            gpu: Some(3),
            pid: None,
            plan: "7b".to_owned(),
            ways: Ways { bell: true, desktop: true, command: command.iter().map(|word| (*word).to_owned()).collect() },
        }
    }

    #[test]
    fn the_terminal_is_sent_nothing_that_steers_it_beyond_the_alert_itself() {
        let sent = bytes(&alarm(&[]), |name| (name == "TERM").then(|| "xterm-256color".to_owned()));
        assert_eq!(sent, "\x07\x1b]9;7b: the loss is NaN, ·]2,mine· $(touch hacked)\x1b\\");
        let sent = bytes(&alarm(&[]), |name| (name == "TERM").then(|| "foot-extra".to_owned()));
        assert!(sent.contains("\x1b]777;notify;MemWall;7b: the loss"));
        // As tmux(1) wants it: escapes doubled within its own sequence.
        let sent = bytes(&alarm(&[]), |name| (name == "TMUX").then(|| "/tmp/tmux-1000/default,1,0".to_owned()));
        assert_eq!(sent, "\x07\x1bPtmux;\x1b\x1b]9;7b: the loss is NaN, ·]2,mine· $(touch hacked)\x1b\x1b\\\x1b\\");
        assert_eq!(bytes(&Alarm { ways: Ways::default(), ..alarm(&[]) }, |_| None), "");
    }

    #[test]
    fn the_command_gets_facts_in_its_environment_and_no_shell_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("said");
        let script = "printf '%s|%s|%s' \"$MEMWALL_ALERT\" \"$MEMWALL_ALERT_TEXT\" \"$MEMWALL_ALERT_GPU\" > \"$1\"";
        let said = run(&alarm(&["sh", "-c", script, "-", out.to_str().unwrap()]));
        assert_eq!(said, None);
        let said = std::fs::read_to_string(out).unwrap();
        assert_eq!(said, "loss|the loss is NaN; ·]2;mine· $(touch hacked)|3");
        let pager = folder.path().join("pager");
        let Some(Event::AlarmFailed(why)) = run(&alarm(&[pager.to_str().unwrap()])) else { panic!("no fault") };
        assert!(why.contains(pager.to_str().unwrap()) && why.contains("loss"), "{why}");
        assert!(run(&alarm(&["false"])).is_some());
        assert_eq!(run(&alarm(&[])), None);
    }
}
