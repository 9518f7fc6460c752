//! What a selected number means: by a key, over the panes.

use crate::support::demo::{look, open, press, screen};
use memwall::app::{KeyPress, Overlay, PickerPurpose};

#[test]
fn the_selected_number_is_explained_with_the_plans_own() {
    let mut state = open("8b_single_gpu");
    state.views.size = (120, 40);
    for (pane, name) in [('1', "Parameters"), ('2', "Parameters"), ('4', "GPU utilization"), ('5', "Step time")] {
        press(&mut state, &[KeyPress::Char(pane), KeyPress::Char('K')]);
        assert_eq!(state.dialogs.overlay, Some(Overlay::Lesson(0)));
        assert_eq!(state.dialogs.lesson.unwrap().name, name);
        let shown = screen(&state, &look(), (120, 40));
        assert!(shown.contains("Where to see it") && shown.contains("In 8b_single_gpu"), "{shown}");
        press(&mut state, &[KeyPress::Esc]);
        assert_eq!(state.dialogs.overlay, None);
    }
}

#[test]
fn the_help_leads_to_it_and_it_leads_to_every_other_term() {
    let mut state = open("13b_long_sequence");
    state.views.size = (80, 24);
    press(&mut state, &[KeyPress::Char('1'), KeyPress::Down, KeyPress::Down, KeyPress::Char('?'), KeyPress::Enter]);
    assert_eq!(state.dialogs.lesson.unwrap().name, "Ridge");
    let shown = screen(&state, &look(), (80, 24));
    // 989.4 TFLOP/s over 3 350 GB/s: NVIDIA's data sheet of the H100 SXM.
    assert!(shown.contains("295 FLOP/B"), "{shown}");
    press(&mut state, &[KeyPress::Char('/')]);
    assert_eq!(state.dialogs.picker.as_ref().unwrap().purpose, PickerPurpose::Term);
    let keys: Vec<KeyPress> = "zero 3".chars().map(KeyPress::Char).chain([KeyPress::Enter]).collect();
    press(&mut state, &keys);
    assert_eq!(state.dialogs.lesson.unwrap().name, "ZeRO-3");
    press(&mut state, &[KeyPress::Down, KeyPress::Esc]);
    assert_eq!(state.dialogs.overlay, None);
}

#[test]
fn each_row_of_the_components_is_selected_and_explained() {
    let mut state = open("8b_single_gpu");
    press(&mut state, &[KeyPress::Char('2')]);
    // In the order of the list, which has a row of a KV cache for servers alone.
    let rows = [
        ("parameters", "Parameters"),
        ("gradients", "Gradients"),
        ("optimizer", "Optimizer states"),
        ("activations", "Activations"),
        ("temporaries", "Temporaries"),
        ("buffers", "Communication buffers"),
        ("overhead", "Overhead"),
        ("allocated", "Allocated"),
        ("reserved", "Reserved"),
        ("device-used", "Device-used"),
    ];
    for (row, term) in rows {
        let shown = screen(&state, &look(), (120, 40));
        let chosen = shown.lines().find(|line| line.contains("│▸")).unwrap_or_else(|| panic!("{shown}"));
        assert!(chosen.contains(row), "{row}: {chosen}");
        press(&mut state, &[KeyPress::Char('K')]);
        assert_eq!(state.dialogs.lesson.unwrap().name, term);
        press(&mut state, &[KeyPress::Esc, KeyPress::Down]);
    }
}
