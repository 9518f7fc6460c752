//! A plan that answers requests: what it is judged by, and no word of training.

use memwall::app::KeyPress;

use super::press;
use crate::support::demo::{self, look, screen};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

#[test]
fn no_pane_of_a_server_speaks_of_training() {
    let mut state = demo::open("7b_inference");
    demo::run(&mut state, 120);
    let words = ["ETA", "gradient", "optimizer", "backward", "loss", "checkpoint", "MFU", "saved each", "step 1"];
    for pane in ['1', '2', '3', '4', '5'] {
        press(&mut state, &[KeyPress::Char(pane)]);
        // All views of the pane but the formulas of the terms.
        for view in 0..4 {
            for size in SIZES {
                let shown = screen(&state, &look(), size);
                let found = words.into_iter().find(|word| shown.contains(word));
                assert_eq!(found, None, "pane {pane}, view {view}:\n{shown}");
            }
            press(&mut state, &[KeyPress::Char('v')]);
        }
    }
}

#[test]
fn the_top_tells_how_fast_a_server_answers_and_when_the_first_token_comes() {
    let mut state = demo::open("7b_inference");
    demo::run(&mut state, 120);
    let prediction = state.plans.editor.prediction().unwrap();
    let decode = prediction.decode.as_ref().unwrap();
    // 16 requests get a token each at a time.
    let rate = 16.0 / decode.step.0;
    assert!((decode.tokens_per_s.unwrap() / rate - 1.0).abs() < 1e-9);
    for size in SIZES {
        let shown = screen(&state, &look(), size);
        let top = shown.lines().nth(1).unwrap();
        assert!(top.contains("decode ") && top.contains(" tok/s"), "{top}");
        let first = prediction.time.step.to_string();
        let first = format!("first token {}→– s", first.trim_end_matches(" s"));
        assert_eq!(top.contains(&first), size.0 > 80, "{top}");
    }
    // Training says what it did.
    let mut state = demo::open("13b_long_sequence");
    demo::run(&mut state, 120);
    assert!(!screen(&state, &look(), (200, 50)).contains("decode "));
}
