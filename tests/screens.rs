//! Every pane at the sizes that people have, on a made-up run of an example plan. Time is
//! passed in, so that each frame is the same every time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memwall::app::{Event, Key, State, update};
use memwall::catalog::Catalog;
use memwall::observe::{Demo, Source};
use memwall::plan::{EXAMPLES, Loaded};
use memwall::reading::Moment;
use memwall::ui::{EMBEDDED, Look, Theme, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const START: Moment = Moment(1_790_000_000_000);

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

fn look() -> Look {
    let (name, text) = EMBEDDED[0];
    Look { theme: Theme::parse(name, text).unwrap(), ascii: false }
}

fn open(example: &str) -> State {
    let (name, text) = EXAMPLES.iter().find(|(name, _)| *name == example).unwrap();
    let loaded = Loaded::from_text(name, text).unwrap();
    State::new(loaded, Catalog::embedded().unwrap(), None, START)
}

/// The dashboard after `seconds` of the demo run, at one sample a second.
fn run(state: &mut State, seconds: u64) {
    let job = state.editor.job().unwrap();
    let mut demo = Demo::new(state.editor.prediction().unwrap(), &job.gpu);
    update(state, Event::SourceStarted(demo.info()));
    for second in 0..seconds {
        let now = START.plus_millis(second * 1000);
        update(state, Event::Sample(Box::new(demo.sample(now))));
    }
}

fn press(state: &mut State, keys: &[Key]) {
    for key in keys {
        update(state, Event::Key(*key));
    }
}

fn screen(state: &State, look: &Look, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, look, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(width as usize).map(|row| {
        let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn look_at_it() {
    let mut state = open("13b_long_sequence");
    run(&mut state, 120);
    for size in SIZES {
        println!("{}", screen(&state, &look(), size));
    }
    for digit in ['2', '3', '4', '5'] {
        press(&mut state, &[Key::Char(digit)]);
        println!("{}", screen(&state, &look(), SIZES[0]));
    }
}
