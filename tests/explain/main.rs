//! Runs that do something else than their plan says: whether the true cause is named first.
//!
//! A scenario is a plan, one or two deviations from it, and what a machine would show of the run: the figures of
//! the changed plan, with noise. The deviations are written out here in keys and values, apart from the list that
//! the program tries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod scenario;

use scenario::{Befallen, Deviation, Looking, Scenario, healthy, scenarios};

const SEED: u64 = 20_250_601;

fn share(of: &[Scenario], found: impl Fn(&Scenario) -> bool) -> f64 {
    let missed: Vec<String> = of.iter().filter(|scenario| !found(scenario)).map(Scenario::story).collect();
    for story in &missed {
        eprintln!("{story}");
    }
    1.0 - missed.len() as f64 / of.len() as f64
}

#[test]
fn a_single_cause_is_named_first() {
    for looking in Looking::ALL {
        let all = scenarios(SEED, 100, 1, looking);
        assert_eq!(all.len(), 100);
        let right = share(&all, |scenario| scenario.rank().is_some_and(|rank| rank < 1));
        eprintln!("single cause, {looking:?}: first in {:.0} %", 100.0 * right);
        assert!(right >= 0.90, "{looking:?}: first in {:.0} %", 100.0 * right);
    }
}

#[test]
fn two_causes_are_among_the_first_three() {
    for looking in Looking::ALL {
        let all = scenarios(SEED + 1, 100, 2, looking);
        assert_eq!(all.len(), 100);
        let right = share(&all, |scenario| scenario.rank().is_some_and(|rank| rank < 3));
        eprintln!("two causes, {looking:?}: in the first three in {:.0} %", 100.0 * right);
        assert!(right >= 0.80, "{looking:?}: in the first three in {:.0} %", 100.0 * right);
    }
}

#[test]
fn nothing_is_explained_where_nothing_is_wrong() {
    for looking in Looking::ALL {
        let all = scenarios(SEED + 2, 200, 0, looking);
        let quiet = share(&all, |scenario| scenario.explanations().is_empty());
        eprintln!("no cause, {looking:?}: quiet in {:.1} %", 100.0 * quiet);
        assert!(quiet >= 0.98, "{looking:?}: quiet in {:.0} %", 100.0 * quiet);
    }
}

#[test]
fn runs_that_stray_as_measured_ones_do_are_left_in_peace() {
    for looking in Looking::ALL {
        let all = healthy(SEED + 3, 100, looking);
        let quiet = share(&all, |scenario| scenario.explanations().is_empty());
        eprintln!("healthy, {looking:?}: quiet in {:.1} %", 100.0 * quiet);
        assert!(quiet >= 0.98, "{looking:?}: quiet in {:.0} %", 100.0 * quiet);
    }
}

#[test]
fn waiting_for_data_is_told_from_a_slow_link_by_what_the_gpu_does() {
    let all = [Befallen::DataLoading, Befallen::SlowLink];
    for befallen in all {
        let scenario = Scenario::of("8b_fsdp", vec![Deviation::Befallen(befallen)], 7, Looking::Everything);
        assert_eq!(scenario.rank(), Some(0), "{}", scenario.story());
    }
}
