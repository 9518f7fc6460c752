//! The verdicts of the Compare pane at every width that it has.

use memwall::app::Pane;

use crate::support::demo::{look, open, run, screen};

#[test]
fn every_figure_has_its_verdict_at_every_width() {
    let mut state = open("13b_long_sequence");
    run(&mut state, 120);
    state.views.focus = Pane::Compare;
    for size in [(60, 24), (72, 24), (80, 24), (100, 30), (120, 40), (160, 50), (200, 50)] {
        let shown = screen(&state, &look(), size);
        for (figure, verdict) in [("device-used", "as planned"), ("DRAM", "as planned"), ("step", "as planned")] {
            let row = shown.lines().find(|line| line.contains(&format!(" {figure}  ")) && line.contains(" %"));
            assert!(row.is_some_and(|row| row.contains(verdict)), "{size:?} {figure}:\n{shown}");
        }
        assert!(shown.contains("off by   verdict"), "{size:?}:\n{shown}");
    }
}
