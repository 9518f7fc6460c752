//! Many dashboards beside one training.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use super::{Meeting, hear, output, python, text};

/// Of sixty that listen already half hear it at most, but the `memwall run` that started it does, and so does the newest.
#[test]
fn among_many_listeners_its_own_and_the_newest_hear_it() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let first = meeting.listen();
    let own = first.path().to_owned();
    let other = |number: u32| own.with_file_name(format!("{}-{number}.sock", std::process::id()));
    let others: Vec<_> = (1_000..1_060).map(|number| UnixDatagram::bind(other(number))).collect();
    let made = |path: &Path| path.metadata().unwrap().modified().unwrap();
    let mut newest = meeting.listen();
    // The system's clock for files goes in steps of some milliseconds.
    while made(newest.path()) == made(&other(1_059)) {
        newest = meeting.listen();
    }
    let done = output(&mut meeting.run(&python, "train_fake.py", &["300", "0.01", "0"]));
    hear(&mut newest, "a step", |run| run.step.is_some());
    assert!(text(&done.stderr).contains("memwall: 300 steps, "), "{}", text(&done.stderr));
    // Thirty-two are told, these two among them; which of those that were made in one tick of the clock nobody says.
    // How it ended they all hear, from `memwall run`.
    let heard_steps = |other: &UnixDatagram| {
        other.set_nonblocking(true).unwrap();
        let mut message = [0; 4096];
        let mut messages = std::iter::from_fn(|| other.recv(&mut message).ok().map(|read| text(&message[..read])));
        messages.any(|message| message.contains("\"kind\":\"step\""))
    };
    assert!(others.iter().filter(|other| heard_steps(other.as_ref().unwrap())).count() <= 30);
}
