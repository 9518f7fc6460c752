//! The mouse: what is drawn under it is what it chooses.

use crate::support::demo::{happen, look, open, press, press_and_search, run, screen};
use memwall::app::{Event, KeyPress, MouseTarget, Pane, State};
use memwall::ui::{Pointer, hit};

const SIZES: [(u16, u16); 4] = [(60, 20), (80, 24), (120, 40), (200, 50)];

fn dashboard() -> State {
    let mut state = open("13b_long_sequence");
    run(&mut state, 60);
    state
}

#[test]
fn the_mouse_takes_arrows_and_the_keys_of_the_bottom_line() {
    let mut state = dashboard();
    state.views.size = (120, 40);
    press(&mut state, &[KeyPress::Char('1')]);
    let at = |state: &State, text: &str| {
        let drawn = screen(state, &look(), (120, 40));
        let (row, line) = drawn.lines().enumerate().find(|(_, line)| line.contains(text)).unwrap();
        let column = line[..line.find(text).unwrap()].chars().count();
        Pointer { column: u16::try_from(column).unwrap(), row: u16::try_from(row).unwrap(), rows: None }
    };
    // The first field with arrows beside its value.
    press(&mut state, &[KeyPress::Home, KeyPress::Down, KeyPress::Down, KeyPress::Down, KeyPress::Down]);
    let before = state.plans.editor.text().to_owned();
    let target = hit(&state, at(&state, "›")).unwrap();
    assert_eq!(target, MouseTarget::Key(KeyPress::Right));
    happen(&mut state, Event::Click(target));
    assert_ne!(state.plans.editor.text(), before, "the arrow is the key");
    let target = hit(&state, at(&state, "z zoom")).unwrap();
    assert_eq!(target, MouseTarget::Key(KeyPress::Char('z')));
    happen(&mut state, Event::Click(target));
    assert!(state.views.zoomed);
    // A question's answers are buttons.
    press(&mut state, &[KeyPress::Char('s')]);
    let target = hit(&state, at(&state, "esc goes back")).unwrap();
    assert_eq!(target, MouseTarget::Key(KeyPress::Esc));
    happen(&mut state, Event::Click(target));
    assert_eq!(state.dialogs.overlay, None);
    // A row of a list is selected, and taken by a second click.
    press(&mut state, &[KeyPress::Char('n')]);
    let target = hit(&state, at(&state, "template: All of Llama")).unwrap();
    assert!(matches!(target, MouseTarget::Choice(_)), "{target:?}");
    happen(&mut state, Event::Click(target));
    assert_eq!(state.dialogs.picker.as_ref().unwrap().choice().unwrap().name, "8b_single_gpu");
    happen(&mut state, Event::Click(target));
    assert_eq!(state.plans.editor.name(), "my_8b_single_gpu");
}

/// Where the mark of the selected row is: its column and its line.
fn mark(drawn: &str) -> (u16, u16) {
    let marked = drawn.lines().enumerate().skip(2).find_map(|(row, line)| Some((line.find("│▸ ")?, line, row)));
    let (place, line, row) = marked.unwrap_or_else(|| panic!("no row is selected\n{drawn}"));
    (u16::try_from(line[..place].chars().count() + 1).unwrap(), u16::try_from(row).unwrap())
}

/// Each row of what lies on top is what a click on it selects, at every size; a click on the selected one takes it.
#[test]
fn the_mouse_takes_rows_of_what_lies_on_top() {
    let opened: [(&str, &[KeyPress], usize); 3] = [
        ("fixes", &[KeyPress::Char('X')], 3),
        ("search", &[KeyPress::Char('f')], 5),
        ("sweep", &[KeyPress::Char('1'), KeyPress::Char('w')], 3),
    ];
    for (what, keys, most) in opened {
        for size in SIZES {
            let mut state = dashboard();
            state.views.size = size;
            press_and_search(&mut state, keys);
            press(&mut state, &[KeyPress::Up; 12]);
            for place in 0..most {
                let (column, row) = mark(&screen(&state, &look(), size));
                let target = hit(&state, Pointer { column, row, rows: None });
                assert_eq!(
                    target,
                    Some(MouseTarget::Choice(place)),
                    "{what} {size:?}\n{}",
                    screen(&state, &look(), size)
                );
                press(&mut state, &[KeyPress::Down]);
            }
            // From the last row back to the first, which has not moved where all are in view.
            happen(&mut state, Event::Click(MouseTarget::Choice(0)));
            let (column, row) = mark(&screen(&state, &look(), size));
            let target = hit(&state, Pointer { column: column + 4, row, rows: None });
            assert_eq!(target, Some(MouseTarget::Choice(0)), "{what} {size:?}");
            let heads = Pointer { column, row: row - 1, rows: None };
            assert_eq!(hit(&state, heads), None, "{what} {size:?}");
        }
    }
    let mut state = dashboard();
    press(&mut state, &[KeyPress::Char('X')]);
    let before = state.plans.editor.text().to_owned();
    happen(&mut state, Event::Click(MouseTarget::Choice(1)));
    assert_eq!(state.plans.editor.text(), before, "the first click selects");
    happen(&mut state, Event::Click(MouseTarget::Choice(1)));
    assert_ne!(state.plans.editor.text(), before, "the second takes");
}

#[test]
fn the_mouse_takes_a_cell_of_two_keys_and_an_open_plan() {
    let mut state = dashboard();
    let size = (120, 40);
    state.views.size = size;
    press(&mut state, &[KeyPress::Home, KeyPress::Char('w'), KeyPress::Char('a')]);
    for letter in "tens".chars() {
        press(&mut state, &[KeyPress::Char(letter)]);
    }
    press(&mut state, &[KeyPress::Enter]);
    let wide = state.dialogs.sweep.as_ref().unwrap().columns();
    for (key, moved) in [(KeyPress::Right, 1), (KeyPress::Down, wide), (KeyPress::Left, 0)] {
        let drawn = screen(&state, &look(), size);
        let at = drawn.lines().enumerate().skip(4).find_map(|(row, line)| {
            let place = line.find('[').filter(|_| line.contains(']'))?;
            Some((line[..place].chars().count(), row))
        });
        let (column, row) = at.unwrap_or_else(|| panic!("no cell is selected\n{drawn}"));
        let pointer =
            Pointer { column: u16::try_from(column + 1).unwrap(), row: u16::try_from(row).unwrap(), rows: None };
        let selected = state.dialogs.sweep.as_ref().unwrap().selected;
        assert_eq!(hit(&state, pointer), Some(MouseTarget::Choice(selected)), "{moved}\n{drawn}");
        press(&mut state, &[key]);
    }
    press(&mut state, &[KeyPress::Esc, KeyPress::Char('=')]);
    let (_, row) = mark(&screen(&state, &look(), size));
    assert_eq!(hit(&state, Pointer { column: 10, row, rows: None }), Some(MouseTarget::Choice(0)));
    assert_eq!(hit(&state, Pointer { column: 10, row: row + 1, rows: None }), None);
}

/// The number of the selected row of the focused pane.
fn selected(state: &State) -> usize {
    match state.views.focus {
        Pane::Plan => state.plans.form.selected,
        Pane::Vram => state.views.memory.selected,
        Pane::Roofline => state.views.roofline.selected,
        Pane::Monitor => state.monitor.selected_row(),
        Pane::Compare => state.views.compared,
    }
}

/// Where the focused pane, which has the whole screen, marks its selected row.
fn marked(drawn: &str) -> Option<(u16, u16)> {
    drawn.lines().enumerate().skip(2).find_map(|(row, line)| {
        // Below a chart the selected point is told in words after the same mark.
        let is_mark = |(column, symbol): (usize, char)| symbol == '▸' || (symbol == '◆' && column > 2);
        let column = line.chars().enumerate().position(is_mark)?;
        Some((u16::try_from(column).unwrap(), u16::try_from(row).unwrap()))
    })
}

/// The row that a pane marks after some keys is the one that a click there selects, whichever was selected before.
#[test]
fn the_mouse_takes_rows_of_every_pane() {
    let key = KeyPress::Char;
    let views: [(&str, Vec<KeyPress>); 9] = [
        ("layers", vec![key('2'), key('v')]),
        ("timeline", vec![key('2'), key('v'), key('v'), key('v')]),
        ("terms", vec![key('2'), key('v'), key('v'), key('v'), key('v')]),
        ("times", vec![key('2'), key('v'), key('v'), key('v'), key('v'), key('v')]),
        ("roofline", vec![key('3')]),
        ("operators", vec![key('3'), key('v')]),
        ("monitor", vec![key('4')]),
        ("processes", vec![key('4'), key('v'), key('v')]),
        ("compare", vec![key('5')]),
    ];
    for (what, keys) in views {
        for size in [(80, 24), (120, 40), (200, 50)] {
            let mut state = dashboard();
            state.views.size = size;
            press(&mut state, &keys);
            press(&mut state, &[key('z'), KeyPress::Home]);
            let mut clicked = 0;
            for _ in 0..30 {
                let chosen = selected(&state);
                let drawn = screen(&state, &look(), size);
                if let Some((column, row)) = marked(&drawn) {
                    let pane = state.views.focus;
                    let target = hit(&state, Pointer { column, row, rows: None });
                    let found =
                        matches!(target, Some(MouseTarget::Row { pane: on, row, .. }) if on == pane && row == chosen);
                    assert!(found, "{what} {size:?}: row {chosen} is {target:?}\n{drawn}");
                    let mut elsewhere = state.clone();
                    press(&mut elsewhere, &[KeyPress::End]);
                    happen(&mut elsewhere, Event::Click(target.unwrap()));
                    assert_eq!(selected(&elsewhere), chosen, "{what} {size:?}");
                    clicked += 1;
                }
                press(&mut state, &[KeyPress::Down]);
            }
            assert!(clicked >= 5, "{what} {size:?}: {clicked} rows\n{}", screen(&state, &look(), size));
        }
    }
}

/// A click beside what can be selected gives the pane the focus, and selects nothing else.
#[test]
fn the_mouse_beside_rows_chooses_the_pane() {
    let mut state = dashboard();
    state.views.size = (200, 50);
    press(&mut state, &[KeyPress::Char('5'), KeyPress::Down, KeyPress::Char('1')]);
    let drawn = screen(&state, &look(), (200, 50));
    let (row, line) = drawn.lines().enumerate().find(|(_, line)| line.contains("5 Compare")).unwrap();
    let column = line.chars().collect::<String>().find("5 Compare").map(|place| line[..place].chars().count()).unwrap();
    let pointer = Pointer { column: u16::try_from(column).unwrap(), row: u16::try_from(row).unwrap(), rows: None };
    assert_eq!(hit(&state, pointer), Some(MouseTarget::Pane(Pane::Compare)));
    happen(&mut state, Event::Click(MouseTarget::Pane(Pane::Compare)));
    assert_eq!((state.views.focus, state.views.compared), (Pane::Compare, 1));
}
