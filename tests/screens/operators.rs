//! What the selected operator costs, why, and what would help it.

use memwall::app::{KeyPress, Overlay, Pane};

use crate::snapshots::assert_drawn;
use crate::support::demo::{look, open, press, run, screen};

#[test]
fn an_operator_is_explained_and_a_fix_of_it_taken() {
    let mut state = open("13b_long_sequence");
    run(&mut state, 60);
    press(&mut state, &[KeyPress::Char('3'), KeyPress::Enter]);
    assert_eq!((state.views.focus, state.dialogs.overlay), (Pane::Roofline, Some(Overlay::Fixes)));
    let view = state.dialogs.fixes.clone().unwrap();
    let name = state.plans.editor.prediction().unwrap().roofline.ops[0].name.to_string();
    assert!(view.findings[0].message.starts_with(&name), "{}", view.findings[0].message);
    for (width, height) in [(60, 20), (80, 24), (120, 40), (200, 50)] {
        let drawn = screen(&state, &look(), (width, height));
        assert!(drawn.contains(&name) && drawn.contains("-bound"), "{drawn}");
        assert_drawn(&format!("operator_{width}x{height}"), &drawn);
    }
    let fix = view.fixes().next().unwrap().clone();
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.plans.editor.prediction().unwrap().time, fix.outline.time);
}
