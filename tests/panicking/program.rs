//! The dashboard's loop around a source that panics, for the tests: the program itself has no
//! way to be made to.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use memwall::app::State;
use memwall::catalog::Catalog;
use memwall::cli::dashboard::{Clock, WatchOptions, watch};
use memwall::observe::{FollowOptions, SharedRequirements, Source};
use memwall::plan::{EXAMPLES, LoadedPlan};
use memwall::reading::{Moment, Sample, SourceInfo, SourceKind};
use memwall::ui::{EMBEDDED, Look, Theme};

/// Gives some samples, so that the screen is up and drawn, then fails.
struct Panicking {
    way: String,
    samples: u32,
}

impl Source for Panicking {
    fn info(&self) -> SourceInfo {
        SourceInfo { kind: SourceKind::Demo, detail: "about to panic".to_owned() }
    }

    fn sample(&mut self, now: Moment) -> Sample {
        self.samples += 1;
        match self.way.as_str() {
            "while sampling" if self.samples == 5 => panic!("the source panicked while sampling"),
            "on another thread" if self.samples == 5 => {
                drop(thread::spawn(|| panic!("the source panicked on another thread")));
            }
            _ => {}
        }
        Sample { at: now, ..Sample::default() }
    }
}

fn main() -> ExitCode {
    let way = std::env::args().nth(1).unwrap();
    let (name, text) = EXAMPLES[0];
    let clock = Clock::start();
    let state = State::new(LoadedPlan::from_text(name, text).unwrap(), Catalog::embedded().unwrap(), None, clock.now());
    let (name, text) = EMBEDDED[0];
    let look = Look::new(Theme::parse(name, text).unwrap(), false);
    let open = move |_: &SharedRequirements| {
        assert!(way != "while opening", "the source panicked while opening");
        let source: Box<dyn Source> = Box::new(Panicking { way: way.clone(), samples: 0 });
        Ok(source)
    };
    let follow = FollowOptions::default();
    let outside = WatchOptions {
        every: Duration::from_millis(20),
        clock,
        store: None,
        calibration: None,
        follow,
        pending_demo: None,
        session: None,
        themes: Vec::new(),
    };
    match watch(state, &look, open, outside) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("memwall: {message}");
            ExitCode::from(1)
        }
    }
}
