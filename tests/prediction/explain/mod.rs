//! Runs that do something else than their plan says: whether the true cause is named first.
//!
//! A scenario is a plan, one or two deviations from it, and what a machine would show of the run: the figures of
//! the changed plan, with noise. The deviations are written out here in keys and values, apart from the list that
//! the program tries.

mod cpu_wait;
mod first_cause;
mod header;
mod own_code;
mod plans;
mod scenario;

use scenario::{Befallen, Deviation, FIRST, FURTHER, Looking, Scenario, healthy, scenarios};

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
        let all = scenarios(FIRST, SEED, 100, 1, looking);
        assert_eq!(all.len(), 100);
        let right = share(&all, |scenario| scenario.rank().is_some_and(|rank| rank < 1));
        eprintln!("single cause, {looking:?}: first in {:.0} %", 100.0 * right);
        assert!(right >= 0.90, "{looking:?}: first in {:.0} %", 100.0 * right);
    }
}

#[test]
fn two_causes_are_among_the_first_three() {
    for looking in Looking::ALL {
        let all = scenarios(FIRST, SEED + 1, 100, 2, looking);
        assert_eq!(all.len(), 100);
        let right = share(&all, |scenario| scenario.rank().is_some_and(|rank| rank < 3));
        eprintln!("two causes, {looking:?}: in the first three in {:.0} %", 100.0 * right);
        assert!(right >= 0.80, "{looking:?}: in the first three in {:.0} %", 100.0 * right);
    }
}

#[test]
fn nothing_is_explained_where_nothing_is_wrong() {
    for looking in Looking::ALL {
        let all = scenarios(FIRST, SEED + 2, 200, 0, looking);
        let quiet = share(&all, |scenario| scenario.explanations().is_empty());
        eprintln!("no cause, {looking:?}: quiet in {:.1} %", 100.0 * quiet);
        assert!(quiet >= 0.98, "{looking:?}: quiet in {:.0} %", 100.0 * quiet);
    }
}

#[test]
fn runs_that_stray_as_measured_ones_do_are_left_in_peace() {
    for looking in Looking::ALL {
        let all = healthy(FIRST, SEED + 3, 100, looking);
        let quiet = share(&all, |scenario| scenario.explanations().is_empty());
        eprintln!("healthy, {looking:?}: quiet in {:.1} %", 100.0 * quiet);
        assert!(quiet >= 0.98, "{looking:?}: quiet in {:.0} %", 100.0 * quiet);
    }
}

/// Shares of single causes named first, of two among the first three, and of nothing said where nothing is wrong or a
/// run strays as measured ones do, of `count` scenarios each; of the last four times as many.
fn shares(count: usize, looking: Looking) -> [f64; 3] {
    let single = scenarios(FURTHER, SEED + 10, count, 1, looking);
    let two = scenarios(FURTHER, SEED + 11, count, 2, looking);
    let mut quiet = scenarios(FURTHER, SEED + 12, 2 * count, 0, looking);
    quiet.extend(healthy(FURTHER, SEED + 13, 2 * count, looking));
    let found = [
        share(&single, |scenario| scenario.rank().is_some_and(|rank| rank < 1)),
        share(&two, |scenario| scenario.rank().is_some_and(|rank| rank < 3)),
        share(&quiet, |scenario| scenario.explanations().is_empty()),
    ];
    let [first, three, silent] = found.map(|share| share * 100.0);
    eprintln!("{count} of each, {looking:?}: first {first:.1} %, in the first three {three:.1} %, quiet {silent:.1} %");
    found
}

/// Twenty of each; `MEMWALL_SCENARIOS=200` looks at so many, seen in every way, in minutes.
#[test]
fn other_kinds_of_runs_with_more_noise() {
    let asked = std::env::var("MEMWALL_SCENARIOS").ok().map(|count| count.parse().unwrap());
    let ways = if asked.is_some() { Looking::ALL.to_vec() } else { vec![Looking::Everything] };
    for looking in ways {
        let [first, three, silent] = shares(asked.unwrap_or(20), looking);
        // Of those missed all but one are a link slowed to a time within the band of such runs, of which nothing is said.
        assert!(first >= 0.80 && three >= 0.80 && silent >= 0.95, "{looking:?}: {first} {three} {silent}");
    }
}

#[test]
fn waiting_for_data_is_told_from_a_slow_link_by_what_the_gpu_does() {
    let all = [Befallen::DataLoading, Befallen::SlowLink];
    for befallen in all {
        let scenario = Scenario::of("8b_fsdp", vec![Deviation::Befallen(befallen)], 7, Looking::Everything);
        // Within the band of such runs nothing is said; what is said is not the other cause.
        let quiet = scenario.explanations().is_empty() && befallen == Befallen::SlowLink;
        assert!(quiet || scenario.rank() == Some(0), "{}", scenario.story());
    }
}
