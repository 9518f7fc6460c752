//! Many dashboards beside one training.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use super::{Meeting, hear, output, python, text};
use memwall::reading::Moment;

/// Of sixty that listen already none hears it, but the `memwall run` that started it does, and so does the newest.
#[test]
fn among_many_listeners_its_own_and_the_newest_hear_it() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let mut first = meeting.listen();
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
    assert!(others.iter().all(Result::is_ok));
    // Thirty-two are told: the oldest is not.
    first.listen(Duration::from_millis(50), || Moment(1)).unwrap();
    assert!(first.runs().iter().all(|run| run.step.is_none()), "{:?}", first.runs());
}
