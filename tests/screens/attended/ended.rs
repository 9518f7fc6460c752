//! What a run's end leaves on the screen, and its restart.

use super::{Live, SIZE, second_line};
use crate::support::demo::{happen, look, press, screen};
use memwall::app::{Alert, Event, KeyPress, RaisedAlert};
use memwall::reading::{HookEnd, HookMemory, HookStep, HookedRun, OutOfMemory, Reading, RunNews};
use memwall::units::{Bytes, Seconds};

/// 70 GiB in tensors, 6.5 GiB in pieces, 1 GiB free, 2 GiB asked for.
fn message() -> OutOfMemory {
    OutOfMemory {
        backend: "CUDA".to_owned(),
        device: Some(0),
        asked: Some(Bytes::from_gib(2.0)),
        capacity: Some(Bytes::from_gib(79.1)),
        free: Some(Bytes::from_gib(1.0)),
        allocated: Some(Bytes::from_gib(70.0)),
        unallocated: Some(Bytes::from_gib(6.5)),
        in_process: Some(Bytes::from_gib(78.1)),
        // Told since 2.1 alone.
        has_expandable_segments: true,
        names_alloc_conf: false,
        ..OutOfMemory::default()
    }
}

#[test]
fn memory_that_ran_out_is_explained_at_once() {
    let mut live = Live::start("");
    live.train(5);
    let news = RunNews { pid: Some(7), out_of_memory: Some(message()), ..RunNews::default() };
    happen(&mut live.state, Event::Run(Box::new(news.clone())));
    let shown = screen(&live.state, &look(), SIZE);
    // 2 GiB asked and 1 GiB free: 1 GiB short, which the 6.5 GiB in pieces would have been enough for.
    for said in [
        "CUDA out of memory on GPU 0: 1.00 GiB short (2.00 GiB asked, 1.00 GiB free)",
        "expandable_segments:True, up to 6.50 GiB less held in pieces: enough for this request",
        "training.activation_checkpointing: full",
        "less by prediction",
        "the plan foresees",
    ] {
        assert!(shown.contains(said), "no {said:?} in\n{shown}");
    }
    assert!(second_line(&live.state).contains("why: CUDA out of memory"), "{}", second_line(&live.state));
    // Dismissed it stays so while the same is told again, and comes back by its key.
    press(&mut live.state, &[KeyPress::Esc]);
    happen(&mut live.state, Event::Run(Box::new(news)));
    assert_eq!(live.state.dialogs.overlay, None);
    press(&mut live.state, &[KeyPress::Char('O')]);
    assert!(screen(&live.state, &look(), SIZE).contains("what helps"));
    // Another run has taken its place.
    press(&mut live.state, &[KeyPress::Esc]);
    happen(&mut live.state, Event::Run(Box::new(RunNews { pid: Some(7), ..RunNews::default() })));
    press(&mut live.state, &[KeyPress::Char('O')]);
    assert_eq!(live.state.dialogs.overlay, None);
}

/// Who comes back after a night sees that the run that goes well now is not the one that was left.
#[test]
fn how_a_run_ended_outlives_its_restart_until_somebody_has_seen_it() {
    let mut live = Live::start("");
    live.train(5);
    let news = RunNews { pid: Some(7), out_of_memory: Some(message()), ..RunNews::default() };
    happen(&mut live.state, Event::Run(Box::new(news)));
    press(&mut live.state, &[KeyPress::Esc]);
    live.second(55.0, 60.0, None);
    // The verdict and its reason say it: it does not stand there twice.
    assert_eq!(second_line(&live.state).matches("CUDA out of memory").count(), 1, "{}", second_line(&live.state));
    happen(&mut live.state, Event::Run(Box::new(RunNews { pid: Some(7), ..RunNews::default() })));
    live.second(55.0, 60.0, None);
    let said = second_line(&live.state);
    assert!(said.contains("! restarted after CUDA out of memory"), "{said}");
    // The next process ends so, too: that is told anew.
    let again = RunNews { pid: Some(7), out_of_memory: Some(message()), ..RunNews::default() };
    happen(&mut live.state, Event::Run(Box::new(again)));
    press(&mut live.state, &[KeyPress::Esc]);
    live.second(55.0, 60.0, None);
    let alerts = &live.state.run.alerts;
    let of = |raised: &RaisedAlert| raised.alert == Alert::OutOfMemory;
    assert_eq!(
        (alerts.raised.iter().filter(|one| of(one)).count(), alerts.past.iter().filter(|one| of(one)).count()),
        (1, 1)
    );
    happen(&mut live.state, Event::Run(Box::new(RunNews { pid: Some(7), ..RunNews::default() })));
    live.second(55.0, 60.0, None);
    press(&mut live.state, &[KeyPress::Char('A')]);
    live.second(55.0, 60.0, None);
    assert!(!second_line(&live.state).contains("restarted"), "{}", second_line(&live.state));
}

#[test]
fn the_end_says_after_how_many_steps_and_how() {
    let mut live = Live::start("");
    let at = live.now;
    let step = HookStep {
        step: 1_840,
        step_time: Reading::measured(Seconds(1.0), at),
        memory: HookMemory::Allocator,
        allocated: Reading::not_read(),
        reserved: Reading::not_read(),
        peak_allocated: Reading::not_read(),
        peak_reserved: Reading::not_read(),
        tokens: None,
        retries: 0,
        ooms: 0,
    };
    let end = HookEnd { error: Some("OutOfMemoryError".into()), out_of_memory: Some(message()), code: Some(1) };
    let hook = HookedRun { step: Some(step), end: Some(end), ..HookedRun::new(7, at) };
    live.second(55.0, 60.0, None);
    happen(&mut live.state, Event::Run(Box::new(RunNews { hooks: vec![hook], ..RunNews::default() })));
    let first = screen(&live.state, &look(), SIZE).lines().next().unwrap().to_owned();
    assert!(first.contains("▶ 7 ended") && first.ends_with(" OUT OF MEMORY"), "{first}");
    // What the hook said of it is explained, too, and hours later it still stands there.
    assert!(screen(&live.state, &look(), SIZE).contains("1.00 GiB short"));
    press(&mut live.state, &[KeyPress::Esc]);
    live.now = live.now.plus_millis(3_600_000);
    live.second(0.0, 40.0, None);
    let first = screen(&live.state, &look(), SIZE).lines().next().unwrap().to_owned();
    assert!(first.contains("▶ 7 ended") && first.ends_with(" OUT OF MEMORY"), "{first}");
}
