//! A run whose steps are long because its thread is in code beside their work: the stack says where.

use crate::support::catalog;
use memwall::compare::{
    Bands, Calibration, Candidates, Circumstance, Evidence, Expectation, Explanation, Subject, explain,
};
use memwall::plan::Document;
use memwall::predict::{self, Job};
use memwall::reading::{Activity, CodePlace, HookPlaces, HookedRun, Moment, Reading};
use memwall::units::Fraction;

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
    let document = Document::parse("model: {preset: gpt2, batch_size: 8}\n").unwrap();
    let job = Job::resolve(&document.plan().unwrap(), catalog()).unwrap();
    let prediction = predict::predict(&job);
    let plain = Expectation::of(&prediction, prediction.largest());
    let at = Moment(1_000);
    let evidence = Evidence {
        device_used: Reading::measured(plain.device_used, at),
        settled: true,
        step: Reading::measured(plain.step * times, at),
        busy: Reading::measured(Fraction(plain.busy.0 * busy), at),
        data_wait: Reading::measured(Fraction(0.0), at),
        own_code: run.own_code(),
        ..Evidence::default()
    };
    let plan = Candidates::of(&document, None, None);
    let calibration = Calibration::default();
    let subject =
        Subject { plan: &plan, catalog: catalog(), stage: None, calibration, stated: &[], same_tokens: false };
    explain(&subject, &evidence, &Bands::of(&job))
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
