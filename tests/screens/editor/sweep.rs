//! What the sweep shows of its walls and of the selected point.

use memwall::app::{KeyPress, State};

use super::{go_to, letters, press};
use crate::support::demo::{self, look, screen};

/// A sweep of the long sequence, of which the longest need several GPUs' memory.
fn swept() -> State {
    let mut state = demo::open("13b_long_sequence");
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Char('w')]);
    state
}

#[test]
fn the_last_that_fits_and_the_first_that_does_not_are_both_named() {
    let state = swept();
    let view = state.dialogs.sweep.as_ref().unwrap();
    let fits = |at: usize| {
        let capacity = view.sweep.points[at].outcome.as_ref().unwrap().capacity;
        capacity.needed <= capacity.bytes
    };
    let first = (0..view.sweep.points.len()).find(|at| !fits(*at)).unwrap();
    let value = |at: usize| view.sweep.value(&view.sweep.points[at], 0);
    let said = format!("{} fits, {} does not", value(first - 1), value(first));
    for size in [(80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        assert!(shown.contains(&said), "{said}:\n{shown}");
        let row = shown.lines().find(|line| line.contains(&format!("│  {} ", value(first - 1)))).unwrap();
        assert!(row.contains("◂ last that fits"), "{row}");
    }
}

#[test]
fn both_walls_are_named_on_the_axis_and_what_lies_above_the_chart_is_an_arrow() {
    let state = swept();
    for (size, long) in [((80, 24), false), ((120, 40), false), ((200, 50), true)] {
        let shown = screen(&state, &look(), size);
        let axes: Vec<&str> = shown.lines().filter(|line| line.contains('└')).collect();
        let named = axes.iter().map(|axis| axis.matches("▲").count()).sum::<usize>();
        assert_eq!(named, 4, "two walls in two charts:\n{shown}");
        let names = if long { ["bandwidth wall▲", "▲capacity wall"] } else { ["bandwidth▲", "▲capacity"] };
        for name in names {
            assert_eq!(shown.matches(name).count(), 2, "{name}:\n{shown}");
        }
        // 262144 tokens need 264 GiB, more than twice the GPU: the chart ends before.
        assert!(shown.contains("GiB a GPU by sequence · ↑ above"), "{shown}");
        assert_eq!(shown.matches('↑').count(), 3, "the title, the point, the keys:\n{shown}");
    }
}

#[test]
fn two_keys_use_the_screen_for_the_selected_cell_and_its_lines() {
    let mut state = swept();
    press(&mut state, &[KeyPress::Char('a')]);
    letters(&mut state, "tensor");
    press(&mut state, &[KeyPress::Enter]);
    let shown = screen(&state, &look(), (200, 50));
    for said in ["◆ sequence 16384, tensor par. 4", "between steps", "compute", "of the GPU's"] {
        assert!(shown.contains(said), "{said}:\n{shown}");
    }
    let titles = ["tok/s by sequence, tensor par. 4", "GiB a GPU by tensor par., sequence 16384"];
    assert!(titles.into_iter().all(|title| shown.contains(title)), "{shown}");
    let blank = shown.lines().filter(|line| line.trim_matches(['│', ' ']).is_empty()).count();
    assert!(blank < 3, "{blank} blank lines:\n{shown}");
    // Another cell is another account, against the plan as it is.
    press(&mut state, &[KeyPress::Up]);
    let shown = screen(&state, &look(), (200, 50));
    assert!(shown.contains("◆ sequence 8192, tensor par. 4") && shown.contains("to now"), "{shown}");
}
