//! The run over time beside its plan, in the compare pane.

use crate::support::demo::{look, open, press, run, screen};
use memwall::app::KeyPress;

#[test]
fn step_memory_and_loss_stand_over_time_beside_what_is_predicted() {
    let mut state = open("13b_long_sequence");
    run(&mut state, 120);
    press(&mut state, &[KeyPress::Char('5'), KeyPress::Char('z'), KeyPress::Char('v')]);
    let predicted = state.run.comparison.as_ref().unwrap().memory.predicted;
    for size in [(60, 20), (80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        assert!(shown.contains("over time"), "{shown}");
        // Two of the three have a prediction, dotted, in the unit of the axis.
        assert_eq!(shown.matches("plan ┈").count(), 2, "{shown}");
        assert!(shown.contains(&format!("{} GiB", predicted.in_gib())), "{predicted}\n{shown}");
        for name in [" step ", " memory", " loss ", "now"] {
            assert!(shown.contains(name), "{name}\n{shown}");
        }
        assert!(shown.chars().any(|letter| ('\u{2801}'..='\u{28ff}').contains(&letter)), "{shown}");
        crate::snapshots::assert_drawn(&format!("compare_over_time_{}x{}", size.0, size.1), &shown);
    }
    // And back to the numbers.
    press(&mut state, &[KeyPress::Char('v')]);
    assert!(screen(&state, &look(), (120, 40)).contains("verdict"));
}
