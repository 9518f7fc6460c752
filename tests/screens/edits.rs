//! Random edits through form and text: the text always says the plan that is shown, comments
//! stay, and undo goes back to the first byte.

use crate::support::catalog;
use memwall::app::{Effect, Event, KeyPress, Overlay, State, update};
use memwall::plan::{Document, EXAMPLES, Fault, LoadedPlan};
use memwall::predict::{self, Prediction};
use memwall::reading::Moment;
use proptest::prelude::*;

/// Edits of one sequence.
const EDITS: usize = 50;

/// Layouts that edits must cope with: line ends, a byte order mark, braces, quotes, JSON.
const ODD: &[&str] = &[
    "\u{feff}# head\r\nmodel: # m\r\n  preset: 'gpt2' # p\r\n  batch_size: 8\r\n\r\n# tail",
    "{model: {preset: gpt2, batch_size: 16}, training: {micro_batch_size: 2}} # all on one line\n",
    "{\n\t\"model\": {\n\t\t\"preset\": \"gpt2\",\n\t\t\"batch_size\": 4\n\t}\n}\n",
    "training:\n    precision: \"bf16-mixed\" # quoted\nmodel:\n    preset: llama-2-7b # far in\n    sequence_length: 2_048\n",
];

/// One thing that a user does.
#[derive(Debug, Clone)]
enum Edit {
    /// Goes to a field and steps, down where false.
    Step(usize, bool),
    /// Goes to a field and gives it a value.
    Type(usize, String),
    /// The most that fits.
    Largest(usize),
    Undo,
    Redo,
    /// Goes to a line's end in the text, and types or deletes letters of its value.
    Text(usize, Vec<KeyPress>),
    /// Writes a whole new line into the text and completes it.
    Line(usize, String),
}

fn edits() -> impl Strategy<Value = Edit> {
    let value = prop_oneof![
        (1..5000_u32).prop_map(|number| number.to_string()),
        proptest::sample::select(vec![
            "h200", "gpt2", "fp8", "none", "full", "32k", "2.5e3", "true", "3", "megatron", "nonsense"
        ])
        .prop_map(str::to_owned),
    ];
    let letters = proptest::collection::vec(
        prop_oneof![
            Just(KeyPress::Backspace),
            proptest::char::ranges(vec!['0'..='9', 'a'..='f'].into()).prop_map(KeyPress::Char)
        ],
        1..4,
    );
    let line = proptest::sample::select(vec!["  dropout: 0.1", "run: {total_tokens: 1e9}", "  : [", "x: \"", "# word"]);
    prop_oneof![
        4 => (0..24_usize, any::<bool>()).prop_map(|(field, up)| Edit::Step(field, up)),
        4 => (0..24_usize, value).prop_map(|(field, value)| Edit::Type(field, value)),
        1 => (4..7_usize).prop_map(Edit::Largest),
        2 => Just(Edit::Undo),
        1 => Just(Edit::Redo),
        3 => (0..40_usize, letters).prop_map(|(line, keys)| Edit::Text(line, keys)),
        1 => (0..40_usize, line).prop_map(|(at, line)| Edit::Line(at, line.to_owned())),
    ]
}

fn press(state: &mut State, keys: impl IntoIterator<Item = KeyPress>) {
    for key in keys {
        let effects = update(state, Event::Key(key));
        assert!(!effects.contains(&Effect::Quit));
    }
}

fn select(state: &mut State, field: usize) {
    press(state, [KeyPress::Home]);
    press(state, std::iter::repeat_n(KeyPress::Down, field));
}

/// Text before the comment of a line; what is in quotes is no comment in these plans.
fn without_comment(line: &str) -> &str {
    line.find(" #").map_or(line, |at| &line[..at])
}

fn happen(state: &mut State, edit: &Edit) {
    match edit {
        Edit::Step(field, up) => {
            select(state, *field);
            press(state, [if *up { KeyPress::Right } else { KeyPress::Left }]);
        }
        Edit::Type(field, value) => {
            select(state, *field);
            press(state, [KeyPress::Enter]);
            press(state, value.chars().map(KeyPress::Char));
            press(state, [KeyPress::Enter]);
            if state.dialogs.picker.is_some() {
                press(state, [KeyPress::Esc]);
            }
        }
        Edit::Largest(field) => {
            select(state, *field);
            press(state, [KeyPress::Char('m')]);
            if state.dialogs.overlay.is_some() {
                press(state, [KeyPress::Enter]);
            }
        }
        Edit::Undo => press(state, [KeyPress::Char('u')]),
        Edit::Redo => press(state, [KeyPress::Char('U')]),
        Edit::Text(line, keys) => {
            press(state, [KeyPress::Char('e')]);
            let view = state.plans.text.as_mut().unwrap();
            let line = line % view.lines().len();
            let end = without_comment(&view.lines()[line]).chars().count();
            let is_comment = view.lines()[line].trim_start().starts_with('#');
            view.go_to(line, end);
            // Comments are the user's: this test must not write them itself.
            if !is_comment && end > 0 {
                press(state, keys.iter().copied().take(end));
            }
            close_text(state);
        }
        Edit::Line(line, text) => {
            press(state, [KeyPress::Char('e')]);
            let view = state.plans.text.as_mut().unwrap();
            let line = line % view.lines().len();
            view.go_to(line, view.lines()[line].chars().count());
            press(state, [KeyPress::Enter]);
            press(state, text.chars().map(KeyPress::Char));
            close_text(state);
        }
    }
    assert_eq!((state.dialogs.overlay, state.plans.text.is_none()), (None::<Overlay>, true));
}

/// An offer is closed first.
fn close_text(state: &mut State) {
    while state.plans.text.is_some() {
        press(state, [KeyPress::Esc]);
    }
}

fn predicted(text: &str) -> Result<Prediction, Vec<Fault>> {
    predict::of(&Document::parse(text)?.plan()?, catalog())
}

/// What is shown is what the text says: read anew, it gives the same prediction, or faults.
fn says_what_is_shown(state: &State) -> Result<(), TestCaseError> {
    let editor = &state.plans.editor;
    match predicted(editor.text()) {
        Ok(prediction) => {
            prop_assert_eq!(editor.faults(), &[]);
            prop_assert_eq!(Some(&prediction), editor.prediction());
        }
        Err(faults) => prop_assert_eq!(faults.len(), editor.faults().len(), "{}", editor.text()),
    }
    Ok(())
}

/// The comments of the text that was opened, as they stood there.
fn comments(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.find('#').map(|at| line[at..].trim_end())).collect()
}

fn sequences() -> impl Strategy<Value = (String, Vec<Edit>)> {
    let texts: Vec<&str> = EXAMPLES.iter().map(|(_, text)| *text).chain(ODD.iter().copied()).collect();
    (proptest::sample::select(texts).prop_map(str::to_owned), proptest::collection::vec(edits(), EDITS))
}

/// PROPTEST_CASES=200 makes 10 000 edits.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_text_says_what_is_shown_comments_stay_and_undo_ends_at_the_first_byte((text, edits) in sequences()) {
        let loaded = LoadedPlan::from_text("test", &text).unwrap();
        let without_custom = loaded.document.without("hardware.custom").unwrap().text().to_owned();
        let mut state = State::new(loaded, catalog().clone(), None, Moment(0));
        for edit in &edits {
            happen(&mut state, edit);
            says_what_is_shown(&state)?;
            let now = comments(state.plans.editor.text());
            // A GPU by name replaces the figures of one's own, and with them what is said of these.
            let custom = state.plans.editor.text().contains("custom:");
            for comment in comments(if custom { &text } else { &without_custom }) {
                prop_assert!(now.contains(&comment), "{edit:?} lost {comment:?}:\n{}", state.plans.editor.text());
            }
        }
        let last = state.plans.editor.text().to_owned();
        let mut steps = 0;
        while state.plans.editor.modified() && steps < 10_000 {
            press(&mut state, [KeyPress::Char('u')]);
            steps += 1;
        }
        prop_assert_eq!(state.plans.editor.text(), text.as_str());
        // Undone changes can be made again, to the last byte, unless a change came back to the first text.
        for _ in 0..steps {
            press(&mut state, [KeyPress::Char('U')]);
        }
        prop_assert_eq!(state.plans.editor.text(), last.as_str());
    }
}
