//! Why a run differs from its plan: the changes to the plan, and the circumstances outside
//! of it, that would make the prediction meet what is seen.
//!
//! Every candidate is predicted like any plan and held against the evidence. A candidate's
//! misfit is a negative log-likelihood; what it assumes beyond the plan adds to it, so that
//! a simple cause wins over an elaborate one that fits no better. The shares of the
//! explanations are what Bayes' rule makes of that, the plan itself among them.

mod candidates;
mod circumstances;
mod other_models;
mod plan_causes;

pub use candidates::Candidates;
pub use circumstances::Circumstance;

use std::cmp::Ordering;

use super::bands::Bands;
use super::calibration::Calibration;
use super::comparison::is_met;
use super::evidence::{Evidence, Misfit};
use super::expected::Expectation;
use crate::catalog::{Catalog, Generation};
use crate::order::StableOrder;
use crate::plan::Change;
use crate::predict::{self, Fragmentation, Job};
use crate::units::Fraction;

/// One deviation from the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// In words: what the run does, or what befalls it.
    pub words: String,
    /// The change of the plan that makes it so; none for what lies outside of the plan.
    pub change: Option<Change>,
    /// What befalls the run; none where the plan is what differs.
    pub circumstance: Option<Circumstance>,
    /// The run's own stack shows it.
    pub on_stack: bool,
}

impl Cause {
    fn of_plan(words: impl Into<String>, change: Change) -> Self {
        Self { words: words.into(), change: Some(change), circumstance: None, on_stack: false }
    }

    fn outside(circumstance: Circumstance, evidence: &Evidence) -> Self {
        let on_stack = match circumstance {
            Circumstance::OwnCode => true,
            Circumstance::DataLoading => evidence.data_wait.value().is_some(),
            _ => false,
        };
        Self { words: circumstance.words_of(evidence), change: None, circumstance: Some(circumstance), on_stack }
    }
}

/// A plan that could explain a run, and what it would show.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// One cause, or two that act together.
    pub causes: Vec<Cause>,
    /// Other causes that would show the very same.
    pub alike: Vec<Cause>,
    /// How much of the belief falls on it, among everything that was tried.
    pub share: Fraction,
    /// What the run would show.
    pub expected: Expectation,
    /// Every figure that is observed lies within the bands of what the run would show.
    pub fits: bool,
}

impl Explanation {
    /// The causes with how sure they are; of what does not fit, that it is only the nearest.
    #[must_use]
    pub fn verdict(&self) -> String {
        match self.fits {
            true => format!("{} ({:.0} %)", self.words(), self.share.percent()),
            false => format!("nothing tried fits; nearest: {}", self.words()),
        }
    }

    /// Whether it fits, and the run's own stack shows all of it.
    #[must_use]
    pub fn is_seen(&self) -> bool {
        self.fits && self.causes.iter().all(|cause| cause.on_stack)
    }

    /// The causes in one line.
    #[must_use]
    pub fn words(&self) -> String {
        self.causes.iter().map(|cause| cause.words.as_str()).collect::<Vec<_>>().join(" and ")
    }

    /// What to change in the plan so that it says what the run does; none where the plan is right.
    #[must_use]
    pub fn change(&self) -> Option<Change> {
        let mut changes = self.causes.iter().filter_map(|cause| cause.change.as_ref());
        let first = changes.next()?.clone();
        changes.try_fold(first, |all, change| all.with(change))
    }
}

/// A cause that is less than this many times as likely as another is not told from it: e.
const NOT_TOLD_APART: f64 = std::f64::consts::E;

/// What a search names first: the likeliest explanation, with the next one where the evidence does not tell it from that.
/// Twice the samples and sequences of twice the length need about the same memory and time.
#[must_use]
pub fn named_first(found: &[Explanation]) -> &[Explanation] {
    let [first, second, ..] = found else { return found };
    let is_near = second.share.0 * NOT_TOLD_APART >= first.share.0;
    let are_single = first.causes.len() == 1 && second.causes.len() == 1;
    &found[..if first.fits && second.fits && is_near && are_single { 2 } else { 1 }]
}

/// What is named first in a line: `sequences of 8192 (54 %) or micro batch 4 (38 %)`; none where nothing is found.
#[must_use]
pub fn verdict(found: &[Explanation]) -> Option<String> {
    let named: Vec<String> = named_first(found).iter().map(Explanation::verdict).collect();
    (!named.is_empty()).then(|| named.join(" or "))
}

/// What is asked: why a run differs from its plan.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The plan, and what changed versions of it would show.
    pub plan: &'a Candidates,
    /// Names of hardware and models.
    pub catalog: &'a Catalog,
    /// The stage of the observed GPU; none: the one that needs most.
    pub stage: Option<u64>,
    /// What this machine is known to show over predictions.
    pub calibration: Calibration,
    /// Keys that the run itself was told, with their values, of which there may be several: no cause has it do otherwise.
    pub stated: &'a [(&'static str, String)],
    /// The run says how many tokens a step has, and they are as many as the plan's: no cause changes them.
    pub same_tokens: bool,
}

impl Subject<'_> {
    /// Whether a change has the run do otherwise than it was told. A key that is told several values may be any of them.
    fn contradicts(&self, change: &Change) -> bool {
        contradicts(self.stated, change)
    }

    /// Whether an expectation has the tokens of a step that the run says it has, where it says so; `plain` is the plan's.
    fn meets_tokens(&self, expected: &Expectation, plain: &Expectation) -> bool {
        !self.same_tokens || (expected.tokens - plain.tokens).abs() <= SAME_TOKENS * plain.tokens
    }

    /// What the changed plan would show; `job` is the plan's own.
    fn expected(&self, change: &Change, job: &Job, fragmentation: Fragmentation) -> Option<Expectation> {
        let expected = self.plan.expected(change, (job, self.catalog), self.stage, fragmentation)?;
        Some(self.calibration.applied(&expected))
    }
}

fn contradicts(stated: &[(&'static str, String)], change: &Change) -> bool {
    let told = |key: &str| stated.iter().any(|(told, _)| *told == key);
    let may_be = |key: &str, value: &String| stated.iter().any(|(told, one)| *told == key && one == value);
    change.remove.iter().any(|key| told(key)) || change.set.iter().any(|(key, value)| told(key) && !may_be(key, value))
}

/// What [`explain`] tries on a plan, each in a word or two: keys whose values the run was not told, then what may befall it.
#[must_use]
pub fn tried(job: &Job, stated: &[(&'static str, String)], evidence: &Evidence) -> Vec<String> {
    let causes = plan_causes::of(job);
    let changes = causes.iter().filter_map(|cause| cause.change.as_ref()).filter(|change| !contradicts(stated, change));
    let keys = changes.filter_map(|change| change.set.first().map(|(key, _)| *key).or(change.remove.first().copied()));
    let other = (!other_models::is_told(stated)).then(|| "model".to_owned());
    let mut tried: Vec<String> = other.into_iter().collect();
    for key in keys {
        let word = key.rsplit('.').next().unwrap_or(key).replace('_', " ");
        if !tried.contains(&word) {
            tried.push(word);
        }
    }
    let on_cpu = job.hardware.gpu.generation == Generation::Cpu;
    // Without such a place on the stack there is no such cause to try.
    let there = |one: &&Circumstance| **one != Circumstance::OwnCode || evidence.own_code.value().is_some();
    tried.extend(Circumstance::of(on_cpu).iter().filter(there).map(|one| one.words().to_owned()));
    tried
}

/// Tokens of a step that are counted in two ways differ by less than this.
pub const SAME_TOKENS: f64 = 0.01;

/// A second cause is as rare as this: what it takes beyond a first one, as a logarithm.
const SECOND: f64 = 4.0;

/// A cause must be this many times as likely as the plan itself before it is offered: e^4 = 55, as some fifty are
/// tried at a time and noise favours one of them.
const CONVINCING: f64 = 4.0;

/// What still misses the evidence by this is no explanation, however much worse the plan itself is: half of 6², one
/// figure that lies six standard deviations off; or, where many were observed, all of them two and a half, on average.
const UNEXPLAINED: f64 = 18.0;
const UNEXPLAINED_EACH: f64 = 0.5 * 2.5 * 2.5;

/// Whether an expectation leaves open what it should explain.
fn leaves_open(misfit: Misfit) -> bool {
    misfit.sum >= UNEXPLAINED.max(UNEXPLAINED_EACH * f64::from(misfit.figures))
}

/// Something that nobody tried may always be it.
const SUREST: f64 = 0.99;

/// Pairs that are predicted in full, after all were estimated.
const PAIRS: usize = 60;

/// Explanations that are handed out.
const OFFERED: usize = 5;

/// Two candidates whose figures differ by less than this show the same.
const SAME: f64 = 0.004;

/// A candidate and how well it does.
#[derive(Debug, Clone)]
struct CauseTrial {
    causes: Vec<Cause>,
    expected: Expectation,
    /// What it takes beyond the plan, as a negative log-probability.
    assumed: f64,
    misfit: Misfit,
}

impl CauseTrial {
    /// Misfit and what it assumes.
    fn cost(&self) -> f64 {
        self.misfit.sum + self.assumed
    }
}

/// The best explanations, most likely first; none where the plan itself does.
#[must_use]
pub fn explain(subject: &Subject<'_>, evidence: &Evidence, bands: &Bands) -> Vec<Explanation> {
    let Some(job) = subject.plan.job(subject.catalog) else { return Vec::new() };
    let prediction = predict::predict(&job);
    let plain = subject.calibration.applied(&Expectation::of_stage(&prediction, subject.stage));
    let expected = |change: &Change| subject.expected(change, &job, prediction.fragmentation);
    let misfit = |expected: &Expectation| expected.misfit(evidence, bands);
    let at_plan = misfit(&plain);
    let nothing = at_plan.sum;
    if nothing < CONVINCING {
        // No cause could be convincing: the search would be for nothing.
        return Vec::new();
    }
    let befallen = |circumstances: &[Circumstance], to: &CauseTrial| {
        let mut tried = Vec::new();
        for circumstance in circumstances {
            let Some((expected, free)) = circumstance.applied(&to.expected, evidence, prediction.on_cpu) else {
                continue;
            };
            let assumed = to.assumed + free + if to.causes.is_empty() { 0.0 } else { SECOND };
            let causes = to.causes.iter().cloned().chain([Cause::outside(*circumstance, evidence)]).collect();
            tried.push(CauseTrial { causes, misfit: misfit(&expected), expected, assumed });
        }
        tried
    };
    let single: Vec<CauseTrial> = plan_causes::of(&job)
        .into_iter()
        .filter(|cause| !cause.change.as_ref().is_some_and(|change| subject.contradicts(change)))
        .filter_map(|cause| {
            let expected = expected(cause.change.as_ref()?)?;
            let assumed = cause.change.as_ref().map_or(0.0, |change| plan_causes::rarity(&job, change));
            Some(CauseTrial { misfit: misfit(&expected), expected, assumed, causes: vec![cause] })
        })
        .filter(|tried| !same(&tried.expected, &plain))
        .collect();
    let as_planned = CauseTrial { causes: Vec::new(), expected: plain, assumed: 0.0, misfit: at_plan };
    let mut tried = Vec::new();
    let circumstances = Circumstance::of(prediction.on_cpu);
    for (index, first) in circumstances.iter().enumerate() {
        for one in befallen(&[*first], &as_planned) {
            tried.extend(befallen(&circumstances[index + 1..], &one));
            tried.push(one);
        }
    }
    tried.extend(single.iter().flat_map(|one| befallen(circumstances, one)));
    tried.extend(pairs(&expected, &single, &plain, &misfit));
    tried.extend(other_models::likeliest(subject, &job, evidence, plain.step, |change| {
        let expected = expected(change)?;
        Some((misfit(&expected), expected))
    }));
    tried.extend(single);
    // Two changes together may keep the tokens that each of them alone would change: they are told apart here.
    tried.retain(|tried| subject.meets_tokens(&tried.expected, &plain));
    ranked(tried, nothing, &|expected| is_met(expected, evidence, bands))
}

/// Two changes of the plan together. What both do is estimated as what each does, one
/// after the other; those that come out best are predicted.
fn pairs(
    expected: &impl Fn(&Change) -> Option<Expectation>,
    single: &[CauseTrial],
    plain: &Expectation,
    misfit: &impl Fn(&Expectation) -> Misfit,
) -> Vec<CauseTrial> {
    let mut estimated: Vec<(f64, &CauseTrial, &CauseTrial)> = Vec::new();
    for (index, first) in single.iter().enumerate() {
        for second in &single[index + 1..] {
            estimated.push((misfit(&together(&first.expected, &second.expected, plain)).sum, first, second));
        }
    }
    estimated.order_by(|one, other| one.0.total_cmp(&other.0));
    estimated
        .into_iter()
        .filter_map(|(_, first, second)| {
            let causes: Vec<Cause> = first.causes.iter().chain(&second.causes).cloned().collect();
            let change = causes[0].change.as_ref()?.with(causes[1].change.as_ref()?)?;
            Some((causes, change, SECOND + first.assumed + second.assumed))
        })
        .take(PAIRS)
        .filter_map(|(causes, change, assumed)| {
            let expected = expected(&change)?;
            Some(CauseTrial { misfit: misfit(&expected), expected, assumed, causes })
        })
        .collect()
}

/// What each of two does to `plain`, multiplied.
fn together(one: &Expectation, other: &Expectation, plain: &Expectation) -> Expectation {
    let bytes = |of: fn(&Expectation) -> f64| of(one) * of(other) / of(plain).max(1.0);
    let time = |of: fn(&Expectation) -> f64| if of(plain) > 0.0 { of(one) * of(other) / of(plain) } else { of(plain) };
    Expectation {
        device_used: crate::units::Bytes::from_f64(bytes(|e| e.device_used.as_f64())),
        reserved: crate::units::Bytes::from_f64(bytes(|e| e.reserved.as_f64())),
        allocated: crate::units::Bytes::from_f64(bytes(|e| e.allocated.as_f64())),
        step: crate::units::Seconds(time(|e| e.step.0)),
        traffic: crate::units::Bytes::from_f64(bytes(|e| e.traffic.as_f64())),
        flops: crate::units::Flops(time(|e| e.flops.0)),
        tokens: time(|e| e.tokens),
        ..*plain
    }
}

/// Whether nothing that is observed could tell one from the other.
fn same(one: &Expectation, other: &Expectation) -> bool {
    let close = |one: f64, other: f64| (one - other).abs() <= SAME * one.abs().max(other.abs());
    [
        (one.device_used.as_f64(), other.device_used.as_f64()),
        (one.reserved.as_f64(), other.reserved.as_f64()),
        (one.allocated.as_f64(), other.allocated.as_f64()),
        (one.step.0, other.step.0),
        (one.traffic.as_f64(), other.traffic.as_f64()),
        (one.flops.0, other.flops.0),
        (one.tokens, other.tokens),
        (one.others.as_f64(), other.others.as_f64()),
        (one.busy.0, other.busy.0),
        (one.clock.0, other.clock.0),
        (one.cpu_wait.0, other.cpu_wait.0),
    ]
    .into_iter()
    .all(|(one, other)| close(one, other))
}

/// Orders what was tried, puts alike ones together, and keeps what convinces.
fn ranked(mut tried: Vec<CauseTrial>, nothing: f64, fits: &impl Fn(&Expectation) -> bool) -> Vec<Explanation> {
    tried.order_by(|one, other| {
        one.cost()
            .total_cmp(&other.cost())
            .then_with(|| one.causes.len().cmp(&other.causes.len()))
            .then(Ordering::Equal)
    });
    if tried.iter().any(|tried| !leaves_open(tried.misfit)) {
        tried.retain(|tried| !leaves_open(tried.misfit));
    } else {
        // Nothing that was tried is an explanation: the nearest says at least where to look.
        tried.truncate(1);
    }
    let Some(best) = tried.first().map(CauseTrial::cost) else { return Vec::new() };
    if nothing - best < CONVINCING {
        return Vec::new();
    }
    let mut kept: Vec<(CauseTrial, Vec<Cause>)> = Vec::new();
    for one in tried {
        match kept.iter_mut().find(|(known, _)| same(&known.expected, &one.expected)) {
            // Two causes that show what one does explain nothing more.
            Some((_, alike)) if one.causes.len() == 1 => alike.extend(one.causes),
            Some(_) => {}
            None => kept.push((one, Vec::new())),
        }
    }
    let weight = |cost: f64| (best - cost).exp();
    let all: f64 = weight(nothing) + kept.iter().map(|(tried, _)| weight(tried.cost())).sum::<f64>();
    kept.into_iter()
        .take(OFFERED)
        .map(|(tried, alike)| Explanation {
            share: Fraction((weight(tried.cost()) / all).min(SUREST)),
            causes: tried.causes,
            alike,
            fits: fits(&tried.expected),
            expected: tried.expected,
        })
        .collect()
}
