//! A run on a CPU that has not got its cores: it is told from one that waits for data.

use super::explained_of;
use crate::support::catalog;
use memwall::compare::{
    Bands, Calibration, Candidates, Circumstance, Evidence, Expectation, Explanation, Subject, explain,
};
use memwall::plan::Document;
use memwall::predict::{self, Job};
use memwall::reading::{Moment, Reading};
use memwall::units::{Bytes, Fraction};

const PLAN: &str = "model: {preset: gpt2, batch_size: 8}\n";

/// What is named for a run whose memory is as planned, whose steps take `times` as long, and which waited for a core for
/// that share of the time.
fn explained(times: f64, wait: f64) -> Vec<Explanation> {
    with_places(times, wait, None)
}

/// The same where its stack was sampled, of which that share was in a data loader.
fn with_places(times: f64, wait: f64, data: Option<f64>) -> Vec<Explanation> {
    let at = Moment(1_000);
    explained_of(PLAN, |plain| Evidence {
        device_used: Reading::measured(plain.device_used, at),
        settled: true,
        step: Reading::measured(plain.step * times, at),
        cpu_wait: Reading::measured(Fraction(wait), at),
        data_wait: data.map_or_else(Reading::not_read, |share| Reading::measured(Fraction(share), at)),
        ..Evidence::default()
    })
}

fn first(found: &[Explanation]) -> Vec<Option<Circumstance>> {
    found.first().map_or_else(Vec::new, |best| best.causes.iter().map(|cause| cause.circumstance).collect())
}

/// Three quarters of the time without a core make steps four times as long: 1 / (1 - 0.75).
#[test]
fn a_run_without_a_core_waits_for_one_and_not_for_data() {
    let found = explained(4.0, 0.75);
    assert_eq!(first(&found), [Some(Circumstance::BusyCpu)], "{found:?}");
    let data = |one: &Explanation| one.causes.iter().any(|cause| cause.circumstance == Some(Circumstance::DataLoading));
    assert!(!found.iter().any(|one| one.fits && data(one)), "{found:?}");
}

#[test]
fn a_run_that_has_its_cores_waits_for_none() {
    let found = explained(4.0, 0.0);
    let busy = |one: &Explanation| one.causes.iter().any(|cause| cause.circumstance == Some(Circumstance::BusyCpu));
    assert!(!found.is_empty() && !found.iter().any(busy), "{found:?}");
}

/// Half of the time without a core makes steps twice as long: what is left of eight times is something else.
#[test]
fn what_a_wait_for_a_core_does_not_explain_is_something_else_besides() {
    let best = first(&explained(8.0, 0.5));
    assert!(best.len() == 2 && best.contains(&Some(Circumstance::BusyCpu)), "{best:?}");
}

/// A loader that takes three quarters of the steps makes them four times as long; one that takes none does not. Where
/// nobody sees the loader, and no device tells that it waits, long steps speak for it no more than for anything else.
#[test]
fn a_run_waits_for_data_only_where_it_is_in_a_loader() {
    let waits = |found: &[Explanation]| {
        found.iter().flat_map(|one| &one.causes).any(|cause| cause.circumstance == Some(Circumstance::DataLoading))
    };
    assert!(waits(&with_places(4.0, 0.0, Some(0.75))));
    assert!(!waits(&with_places(4.0, 0.0, None)));
    assert!(!waits(&with_places(4.0, 0.0, Some(0.0))));
}

/// Of a run that says that its steps have the plan's tokens, no cause changes them: two that cancel out may.
#[test]
fn tokens_that_are_known_are_not_doubted() {
    let document = Document::parse(PLAN).unwrap();
    let job = Job::resolve(&document.plan().unwrap(), catalog()).unwrap();
    let prediction = predict::predict(&job);
    let plain = Expectation::of(&prediction, prediction.largest());
    let at = Moment(1_000);
    // Half of everything: half the samples, or half the length.
    let evidence = Evidence {
        device_used: Reading::measured(Bytes::from_f64(plain.device_used.as_f64() * 0.6), at),
        settled: true,
        step: Reading::measured(plain.step * 0.5, at),
        ..Evidence::default()
    };
    let plan = Candidates::of(&document, None, None);
    let tokens = |same_tokens| {
        let calibration = Calibration::default();
        let subject = Subject { plan: &plan, catalog: catalog(), stage: None, calibration, stated: &[], same_tokens };
        let found = explain(&subject, &evidence, &Bands::of(&job));
        found.iter().map(|one| (one.expected.tokens / plain.tokens * 100.0).round()).collect::<Vec<_>>()
    };
    assert!(tokens(false).iter().any(|share| *share < 100.0), "{:?}", tokens(false));
    assert!(tokens(true).iter().all(|share| (*share - 100.0).abs() <= 1.0), "{:?}", tokens(true));
}
