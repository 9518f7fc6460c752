//! One GPU closely, and more of them than a screen has lines.

use crate::snapshots::{SIZES, focused, snapshot};
use crate::support::demo::{look, press, screen};
use memwall::app::{Event, KeyPress, Pane, State, update};
use memwall::reading::{Absence, DeviceSample, Reading};
use memwall::units::Celsius;

/// The same run on more GPUs than a node has: those of the sample again and again.
fn with_gpus(count: usize) -> State {
    let mut state = focused(Pane::Monitor);
    let mut sample = state.monitor.sample.clone().unwrap();
    let devices = sample.devices.clone();
    sample.devices = (0..count)
        .map(|index| {
            let mut device = devices[index % devices.len()].clone();
            device.index = u32::try_from(index).unwrap();
            device
        })
        .collect();
    // One is off the bus, one is hot.
    sample.devices[count - 1] = DeviceSample::absent(u32::try_from(count - 1).unwrap(), &Absence::Gone);
    sample.devices[0].temperature = Reading::measured(Celsius(91.0), sample.at);
    update(&mut state, Event::Sample(Box::new(sample)));
    state
}

#[test]
fn any_number_of_gpus_leaves_processes_and_keys_on_the_screen() {
    for count in [1, 2, 8, 16, 64] {
        let mut state = with_gpus(count);
        if count > 8 {
            snapshot(&format!("monitor_{count}_gpus"), &state);
        }
        for zoomed in [false, true] {
            state.views.zoomed = zoomed;
            for size in SIZES {
                let drawn = screen(&state, &look(), size);
                assert!(drawn.contains("command") && drawn.contains("? help"), "{count} at {size:?}:\n{drawn}");
                let process = if count == 1 { "no process" } else { "train.py" };
                assert!(count == 1 || drawn.contains(process), "{count} at {size:?}:\n{drawn}");
            }
        }
    }
}

#[test]
fn one_gpu_closely_and_the_processes_as_a_tree() {
    let mut state = focused(Pane::Monitor);
    press(&mut state, &[KeyPress::Char('v')]);
    snapshot("monitor_device", &state);
    press(&mut state, &[KeyPress::Char('v'), KeyPress::Char('s')]);
    snapshot("monitor_processes", &state);
    press(&mut state, &[KeyPress::Char('/'), KeyPress::Char('2'), KeyPress::Char('w'), KeyPress::Char('o')]);
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains("/2wo") && !drawn.contains("train.py"), "{drawn}");
}
