//! What lies over the panes: no larger than what it says, in words that every terminal has.

use memwall::app::{Event, KeyPress, State, offer, update};
use memwall::ui::Look;

use super::{PLAN, go_to, letters, press};
use crate::support::demo::{self, look, screen};
use crate::support::plan::{draft, open};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

/// Columns and lines of the frame whose title holds that.
fn frame(shown: &str, title: &str) -> (usize, usize) {
    let lines: Vec<Vec<char>> = shown.lines().map(|line| line.chars().collect()).collect();
    let top = shown.lines().position(|line| line.contains(title)).unwrap_or_else(|| panic!("{title}:\n{shown}"));
    let at = shown.lines().nth(top).unwrap().find(title).unwrap();
    let column = shown.lines().nth(top).unwrap()[..at].chars().count();
    let left = (0..=column).rev().find(|at| lines[top][*at] == '╭').unwrap();
    let right = (column..lines[top].len()).find(|at| lines[top][*at] == '╮').unwrap();
    let bottom = (top..lines.len()).find(|row| lines[*row].get(left) == Some(&'╰')).unwrap();
    (right - left + 1, bottom - top + 1)
}

#[test]
fn what_was_kept_takes_as_much_room_as_it_says() {
    let mut state = open(PLAN);
    offer(&mut state, vec![draft(&PLAN.replace("batch_size: 32", "batch_size: 64"))]);
    for size in SIZES {
        let shown = screen(&state, &look(), size);
        let (width, height) = frame(&shown, "unsaved at 2026");
        // Two lines around the changed one on each side, which is out and in, and the frame.
        assert_eq!(height, 2 + 2 + 2 + 2, "{shown}");
        assert!(width < 70, "{width}:\n{shown}");
        assert!(shown.contains("+   batch_size: 64   # the base") || shown.contains("+   batch_size: 64"), "{shown}");
    }
}

#[test]
fn a_long_one_still_fills_the_screen_and_is_scrolled() {
    let text: String = (0..100).map(|line| format!("# line {line}\n")).collect();
    let mut state = open(&format!("{PLAN}{text}"));
    offer(&mut state, vec![draft(PLAN)]);
    let shown = screen(&state, &look(), (120, 40));
    assert_eq!(frame(&shown, "unsaved at 2026").1, 40 - 2 - 1, "{shown}");
    press(&mut state, &[KeyPress::Char('d')]);
    assert_eq!(state.dialogs.overlay, None);
}

fn ascii(state: &State, size: (u16, u16)) -> String {
    screen(state, &Look::new(look().theme, true), size)
}

#[test]
fn without_other_letters_figures_do_not_run_together_and_keys_have_names() {
    let mut state = demo::open("13b_long_sequence");
    demo::run(&mut state, 120);
    for size in SIZES {
        let shown = ascii(&state, size);
        assert!(shown.contains("memory 55.0 -> 5") && shown.contains("Enter set"), "{shown}");
        let joined = |pair: &[char]| pair[0].is_ascii_digit() && pair[1] == '>' && pair[2].is_ascii_digit();
        let letters: Vec<char> = shown.chars().collect();
        assert!(!letters.windows(3).any(joined), "{shown}");
    }
    go_to(&mut state, "training.precision");
    press(&mut state, &[KeyPress::Char('m')]);
    assert!(ascii(&state, (80, 24)).contains("Enter takes it into the plan"));
}

#[test]
fn a_search_says_in_words_what_its_keys_do() {
    let mut state = open(PLAN);
    press(&mut state, &[KeyPress::Char('f')]);
    update(&mut state, Event::Resized(80, 24));
    for (next, keys) in [("smallest change", ""), ("fewest GPUs", "a"), ("largest model", "a"), ("fastest", "a")] {
        letters(&mut state, keys);
        let shown = screen(&state, &look(), (80, 24));
        assert!(shown.lines().last().unwrap().contains(&format!("a next: {next}   esc leaves")), "{shown}");
        assert!(shown.contains(" g GPUs 8  u GPU "), "{shown}");
    }
}
