//! A dashboard on an example plan and its simulated run, drawn without a terminal. Time is
//! passed in, so that each frame is the same every time.

use std::time::Duration;

use super::catalog;
use memwall::advise::SearchProgress;
use memwall::app::{Effect, Event, KeyPress, LookAround, Question, SearchRequest, State, update};
use memwall::observe::{Compression, Demo, Header, PlanText, Recorder, Rotation, Source};
use memwall::plan::{EXAMPLES, LoadedPlan};
use memwall::reading::Moment;
use memwall::ui::{EMBEDDED, Look, Screen, Theme, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// When every run here starts.
pub const START: Moment = Moment(1_790_000_000_000);

/// The dark theme in Unicode.
pub fn look() -> Look {
    let (name, text) = EMBEDDED[0];
    Look::new(Theme::parse(name, text).unwrap(), false)
}

/// The dashboard on an example plan, before anything was observed.
pub fn open(example: &str) -> State {
    let (name, text) = EXAMPLES.iter().find(|(name, _)| *name == example).unwrap();
    let loaded = LoadedPlan::from_text(name, text).unwrap();
    State::new(loaded, catalog().clone(), None, START)
}

/// The first `seconds` of the demo run, at one sample a second.
pub fn run(state: &mut State, seconds: u64) {
    let gpu = state.plans.editor.job().unwrap().hardware.gpu.clone();
    let mut demo = Demo::new(state.plans.editor.prediction().unwrap(), &gpu);
    watch(state, &mut demo, 0..seconds);
}

/// What the source sees in those seconds, at one sample a second.
pub fn watch(state: &mut State, source: &mut impl Source, seconds: std::ops::Range<u64>) {
    if seconds.start == 0 {
        happen(state, Event::SourceStarted(source.info()));
    }
    for second in seconds {
        let now = START.plus_millis(second * 1000);
        happen(state, Event::Sample(Box::new(source.sample(now))));
    }
}

/// An event, and what the background makes of it: searches for explanations come back at once, and so does what lies
/// around the plan.
pub fn happen(state: &mut State, event: Event) -> Vec<Effect> {
    let effects = update(state, event);
    answered(state, effects)
}

/// Answers what the background is asked for; the other effects.
pub fn answered(state: &mut State, effects: Vec<Effect>) -> Vec<Effect> {
    let (asked, mut effects): (Vec<_>, Vec<_>) =
        effects.into_iter().partition(|effect| matches!(effect, Effect::Explain(_) | Effect::LookAround(_)));
    for effect in asked {
        let event = match effect {
            Effect::Explain(number) => Event::Explained { number, found: Question::of(state).unwrap().answer() },
            Effect::LookAround(number) => {
                // Nobody waits for it where the plan has gone meanwhile.
                let Some(question) = LookAround::of(state) else { continue };
                Event::LookedAround { number, found: Box::new(question.answer(|| false).unwrap()) }
            }
            _ => continue,
        };
        effects.extend(happen(state, event));
    }
    effects
}

/// Keys, one after the other, with searches for plans, which take longer, answered too.
pub fn press_and_search(state: &mut State, keys: &[KeyPress]) -> Vec<Effect> {
    let mut all = Vec::new();
    for key in keys {
        let effects = happen(state, Event::Key(*key));
        for effect in &effects {
            let Effect::Search(number) = effect else { continue };
            let request = SearchRequest::of(state).unwrap();
            let answer = request.answer(&SearchProgress::default(), &|_| {}).map(Box::new);
            happen(state, Event::Searched { number: *number, answer });
        }
        all.extend(effects);
    }
    all
}

/// Keys, one after the other.
pub fn press(state: &mut State, keys: &[KeyPress]) {
    for key in keys {
        happen(state, Event::Key(*key));
    }
}

/// The screen as text, blanks at the ends of lines cut.
pub fn screen(state: &State, look: &Look, (width, height): (u16, u16)) -> String {
    let mut state = state.clone();
    state.views.size = (width, height);
    let state = &state;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, look, frame)).unwrap();
    // Each part by itself, as a frame with nothing new draws it, stands as in the whole.
    let mut kept = Screen::blank((width, height));
    kept.update(state, look);
    assert!(kept.update(state, look).is_empty(), "a part draws other cells than the whole");
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(width as usize).map(|row| {
        let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// Records the first `seconds` of an example's demo run to a file.
pub fn record(path: &std::path::Path, example: &str, seconds: u64) {
    let state = open(example);
    let gpu = state.plans.editor.job().unwrap().hardware.gpu.clone();
    let mut demo = Demo::new(state.plans.editor.prediction().unwrap(), &gpu);
    let plan = PlanText::new(example, state.plans.editor.text(), None);
    let header = Header { plan: Some(plan), ..Header::new(START, Duration::from_secs(1), demo.info()) };
    let mut recorder = Recorder::create(path, header, Compression::None, Rotation::default()).unwrap();
    for second in 0..seconds {
        recorder.write(&demo.sample(START.plus_millis(second * 1000))).unwrap();
    }
    recorder.finish().unwrap();
}
