//! A run whose steps are long because its thread is in code beside their work: the stack says where.

use super::explained_of;
use memwall::compare::{Circumstance, Evidence, Explanation};
use memwall::reading::{Activity, CodePlace, HookPlaces, HookedRun, Moment, Reading};
use memwall::units::{Fraction, Seconds};

/// A run whose thread is in that call in so much of its steps.
fn hooked(activity: Activity, share: f64) -> HookedRun {
    let place = CodePlace {
        activity,
        call: "time.sleep".to_owned(),
        file: "/home/ada/train.py".to_owned(),
        line: 18,
        share: Fraction(share),
    };
    let places = HookPlaces { samples: 100, places: vec![place], ..HookPlaces::default() };
    HookedRun { places: Some(places), ..HookedRun::new(1, Moment(1_000)) }
}

/// What is named where memory is as planned and steps take `times` as long; `busy` is how busy the device is of what it
/// is by plan.
fn explained(run: &HookedRun, times: f64, busy: f64) -> Vec<Explanation> {
    let at = Moment(1_000);
    let step = |plain: Seconds| Reading::measured(plain * times, at);
    explained_of("model: {preset: gpt2, batch_size: 8}\n", |plain| Evidence {
        device_used: Reading::measured(plain.device_used, at),
        settled: true,
        own_code: run.own_code(&step(plain.step)),
        step: step(plain.step),
        busy: Reading::measured(Fraction(plain.busy.0 * busy), at),
        data_wait: Reading::measured(Fraction(0.0), at),
        ..Evidence::default()
    })
}

fn names_own_code(found: &[Explanation]) -> bool {
    let own = |one: &Explanation| one.causes.iter().any(|cause| cause.circumstance == Some(Circumstance::OwnCode));
    found.iter().any(|one| one.fits && own(one))
}

/// Three quarters of a step beside its work make it four times as long: 1 / (1 - 0.75); the device is busy for a quarter
/// of what it would be.
#[test]
fn code_beside_the_work_is_named_with_its_place() {
    let found = explained(&hooked(Activity::Code, 0.75), 4.0, 0.25);
    let best = found.first().unwrap();
    assert!(best.fits);
    assert_eq!(best.words(), "75 % of the step in time.sleep, train.py:18");
}

/// A run that took 0.4 s a step and takes 1.9 s now: places in the steps before it are none of these.
#[test]
fn places_of_other_steps_are_not_taken_for_these() {
    let mut run = hooked(Activity::Code, 0.9);
    let now = |seconds| Reading::measured(Seconds(seconds), Moment(1_000));
    assert!(run.own_code(&now(1.9)).value().is_some(), "nobody knows of which steps they are");
    run.places.as_mut().unwrap().usual = Some(Seconds(0.4));
    assert!(run.own_code(&now(1.9)).value().is_none() && run.data_wait(&now(1.9)).value().is_none());
    assert!(run.own_code(&now(0.5)).value().is_some());
}

/// A thread that does something else while the device has work for the whole of the step delays nothing.
#[test]
fn code_that_a_busy_device_hides_is_no_cause() {
    assert!(!names_own_code(&explained(&hooked(Activity::Code, 0.75), 4.0, 1.0)));
}

/// A tenth of the step cannot make it four times as long, and a thread in the forward pass, or one that waits for the
/// device, does its work.
#[test]
fn little_code_and_the_work_itself_are_no_causes() {
    assert!(!names_own_code(&explained(&hooked(Activity::Code, 0.1), 4.0, 0.25)));
    for activity in [Activity::Forward, Activity::Backward, Activity::Optimizer, Activity::Synchronization] {
        assert!(!names_own_code(&explained(&hooked(activity, 0.75), 4.0, 0.25)), "{activity:?}");
    }
}
