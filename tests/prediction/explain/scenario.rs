//! Scenarios: plans, what the runs do instead, and what is seen of them.

use super::plans::{self, Book};
use crate::support::catalog;
use memwall::compare::{
    Band, Bands, Calibration, Candidates, Cause, Circumstance, Evidence, Expectation, Explanation, Subject, explain,
};
use memwall::plan::Document;
use memwall::predict;
use memwall::reading::{Moment, Reading};
use memwall::units::{Bytes, BytesPerSec, FlopsPerSec, Fraction, Seconds, TokensPerSec};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Each figure is off by this much, one standard deviation.
pub const NOISE: f64 = 0.02;

/// What is drawn from: plans, with how far figures are off, at least and at most.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    pub book: Book,
    pub noise: [f64; 2],
}

/// One node and less, 2 %.
pub const FIRST: Draw = Draw { book: plans::FIRST, noise: [NOISE; 2] };

/// The other kinds, 3 to 5 %.
pub const FURTHER: Draw = Draw { book: plans::FURTHER, noise: [0.03, 0.05] };

/// What may befall a run, as this test makes it happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Befallen {
    /// The GPUs are idle for a third of each step.
    DataLoading,
    /// Heat takes a third of the clock.
    Throttling,
    /// Exposed collectives add two fifths to the step.
    SlowLink,
    /// 9 GiB of somebody else's.
    OtherProcess,
    /// A third more reserved than needed.
    Fragmentation,
}

/// What a run does otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deviation {
    /// Keys and values of the plan.
    Plan(&'static str),
    /// Something outside of it.
    Befallen(Befallen),
}

/// What there is to look with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looking {
    /// GPM counters, a log and the hook.
    Everything,
    /// GPM counters and a log.
    WithLog,
    /// A log, and what every driver tells: memory, activity and clocks.
    WithoutCounters,
}

impl Looking {
    pub const ALL: [Self; 2] = [Self::Everything, Self::WithLog];
}

pub struct Scenario {
    plan: &'static str,
    text: &'static str,
    deviations: Vec<Deviation>,
    evidence: Evidence,
    planned: Expectation,
    truth: Expectation,
    noise: f64,
}

/// SplitMix64, and normal deviates by summing twelve uniform ones.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

pub fn changed(text: &str, deviations: &[Deviation]) -> Option<Document> {
    let mut document = Document::parse(text).unwrap();
    for deviation in deviations {
        let Deviation::Plan(edits) = deviation else { continue };
        for edit in edits.split(' ') {
            let (key, value) = edit.split_once('=').unwrap();
            document = if value == "-" { document.without(key) } else { document.with_value(key, value) }.unwrap();
        }
    }
    document.plan().ok().map(|_| document)
}

fn expected(document: &Document) -> Option<Expectation> {
    let prediction = predict::of(&document.plan().ok()?, catalog()).ok()?;
    Some(Expectation::of(&prediction, prediction.largest()))
}

impl Scenario {
    pub fn of(plan: &str, deviations: Vec<Deviation>, seed: u64, looking: Looking) -> Self {
        let book = FIRST.book.iter().chain(FURTHER.book);
        let (name, text, _) = book.into_iter().find(|(name, ..)| *name == plan).unwrap();
        Self::noisy((name, text), deviations, seed, looking, NOISE)
    }

    /// A run that does what its plan says, and strays from the prediction as the measured ones do.
    pub fn healthy(plan: &'static str, seed: u64, looking: Looking) -> Self {
        Self::straying(plan, Vec::new(), seed, looking)
    }

    /// A run that strays from the prediction of what it does as the measured ones do.
    pub fn straying(plan: &'static str, deviations: Vec<Deviation>, seed: u64, looking: Looking) -> Self {
        let mut chance = Chance::new(seed);
        let mut scenario = Self::of(plan, deviations, chance.next(), looking);
        let bands = scenario.bands();
        let mut stray = |band: Band| {
            let off = chance.normal();
            (off * if off < 0.0 { band.below } else { band.above }).exp()
        };
        let (allocated, time, traffic, flops) =
            (stray(bands.allocated), stray(bands.time), stray(bands.traffic), stray(bands.flops));
        // What holds more holds what is in it.
        let beyond = |band: Band, inner: Band| Band {
            below: (band.below.powi(2) - inner.below.powi(2)).max(0.0).sqrt(),
            above: (band.above.powi(2) - inner.above.powi(2)).max(0.0).sqrt(),
        };
        let reserved = allocated * stray(beyond(bands.reserved, bands.allocated));
        let device = reserved * stray(beyond(bands.device_used, bands.reserved));
        let evidence = &mut scenario.evidence;
        let bytes = |reading: &Reading<Bytes>, by: f64| reading.map(|bytes| Bytes::from_f64(bytes.as_f64() * by));
        evidence.allocated = bytes(&evidence.allocated, allocated);
        evidence.reserved = bytes(&evidence.reserved, reserved);
        evidence.device_used = bytes(&evidence.device_used, device);
        evidence.step = evidence.step.map(|step| *step * time);
        evidence.tokens = evidence.tokens.map(|rate| TokensPerSec(rate.0 / time));
        evidence.bandwidth = evidence.bandwidth.map(|rate| BytesPerSec(rate.0 * traffic / time));
        evidence.compute = evidence.compute.map(|rate| FlopsPerSec(rate.0 * flops / time));
        scenario
    }

    fn bands(&self) -> Bands {
        let plan = Document::parse(self.text).unwrap().plan().unwrap();
        Bands::of(&predict::Job::resolve(&plan, catalog()).unwrap())
    }

    fn noisy(
        (plan, text): (&'static str, &'static str),
        deviations: Vec<Deviation>,
        seed: u64,
        looking: Looking,
        noise: f64,
    ) -> Self {
        let planned = expected(&Document::parse(text).unwrap()).expect("the plan itself");
        let mut truth = expected(&changed(text, &deviations).unwrap()).expect("the changed plan");
        let (mut others, mut slowed, mut idle) = (Bytes::ZERO, false, 0.0);
        for deviation in &deviations {
            let Deviation::Befallen(befallen) = deviation else { continue };
            match befallen {
                Befallen::DataLoading => {
                    idle = 1.0 / 3.0;
                    truth.step = truth.step * 1.5;
                }
                Befallen::Throttling => {
                    slowed = true;
                    truth.clock = Fraction(0.67);
                    truth.step += truth.compute * (1.0 / 0.67 - 1.0);
                }
                Befallen::SlowLink => truth.step = truth.step * 1.4,
                Befallen::OtherProcess => others = Bytes::from_gib(9.0),
                Befallen::Fragmentation => {
                    let extra = Bytes::from_f64(truth.reserved.as_f64() / 3.0);
                    truth.reserved += extra;
                    truth.device_used += extra;
                }
            }
        }
        let mut chance = Chance::new(seed);
        let at = Moment(1_000_000);
        let mut noisy = |value: f64| value * (noise * chance.normal()).exp();
        let step = noisy(truth.step.0);
        let has_counters = looking != Looking::WithoutCounters;
        let counted = |reading| if has_counters { reading } else { Reading::not_read() };
        let rated = |reading| if has_counters { reading } else { Reading::not_read() };
        let everything = looking == Looking::Everything;
        let hook =
            |bytes: f64| if everything { Reading::measured(Bytes::from_f64(bytes), at) } else { Reading::not_read() };
        let evidence = Evidence {
            device_used: Reading::measured(Bytes::from_f64(noisy((truth.device_used + others).as_f64())), at),
            reserved: hook(noisy(truth.reserved.as_f64())),
            allocated: hook(noisy(truth.allocated.as_f64())),
            settled: true,
            others: Reading::measured(others, at),
            step: Reading::measured(Seconds(step), at),
            tokens: Reading::measured(TokensPerSec(noisy(truth.tokens / truth.step.0)), at),
            bandwidth: counted(Reading::measured(BytesPerSec(noisy(truth.traffic.as_f64() / truth.step.0)), at)),
            compute: rated(Reading::estimated(FlopsPerSec(noisy(truth.flops.0 / truth.step.0)), at)),
            busy: Reading::measured(Fraction((noisy(1.0 - idle)).min(1.0)), at),
            clock: Reading::measured(Fraction(noisy(truth.clock.0)), at),
            slowed: Reading::measured(slowed, at),
            cpu_wait: Reading::not_read(),
            own_code: Reading::not_read(),
            data_wait: Reading::not_read(),
            power: Reading::not_read(),
        };
        Self { plan, text, deviations, evidence, planned, truth, noise }
    }

    pub fn explanations(&self) -> Vec<Explanation> {
        // As in the dashboard, a plan's changes are predicted once, whatever is asked about it.
        static PLANS: Mutex<BTreeMap<&str, Arc<Candidates>>> = Mutex::new(BTreeMap::new());
        let document = || Document::parse(self.text).unwrap();
        let plan = {
            let mut plans = PLANS.lock().unwrap();
            Arc::clone(plans.entry(self.text).or_insert_with(|| Arc::new(Candidates::of(&document(), None, None))))
        };
        let calibration = Calibration::default();
        let subject =
            Subject { plan: &plan, catalog: catalog(), stage: None, calibration, stated: &[], same_tokens: false };
        explain(&subject, &self.evidence, &self.bands())
    }

    /// Where the true causes stand among the explanations.
    pub fn rank(&self) -> Option<usize> {
        self.explanations().iter().position(|explanation| {
            let named = self.deviations.iter().filter(|deviation| {
                explanation.causes.iter().chain(&explanation.alike).any(|cause| is(cause, deviation))
            });
            named.count() == self.deviations.len() && explanation.causes.len() == self.deviations.len()
        })
    }

    /// Whether it shows: a deviation within what figures stray anyway is none that anybody could find.
    pub fn shows(&self) -> bool {
        let bands = self.bands();
        let off = |now: f64, then: f64, band: Band| band.and(Band::even(self.noise)).off(now, then).abs() > 3.0;
        let (now, then) = (&self.truth, &self.planned);
        let others = self.evidence.others.value().copied().unwrap_or_default();
        others > Bytes::ZERO
            || off(now.device_used.as_f64(), then.device_used.as_f64(), bands.device_used)
            || off(now.step.0, then.step.0, bands.time)
            || off(now.traffic.as_f64(), then.traffic.as_f64(), bands.traffic)
            || off(now.flops.0, then.flops.0, bands.flops)
    }

    pub fn story(&self) -> String {
        self.told(&self.explanations())
    }

    /// The scenario with what is said of it.
    pub fn told(&self, explanations: &[Explanation]) -> String {
        let said: Vec<String> = explanations
            .iter()
            .map(|explanation| format!("{} ({:.0} %)", explanation.words(), explanation.share.percent()))
            .collect();
        format!("{} {:?}: said {}", self.plan, self.deviations, said.join("; "))
    }
}

fn is(cause: &Cause, deviation: &Deviation) -> bool {
    match deviation {
        Deviation::Plan(edits) => cause.change.as_ref().is_some_and(|change| {
            edits.split(' ').all(|edit| {
                let (key, value) = edit.split_once('=').unwrap();
                if value == "-" {
                    change.remove.contains(&key)
                } else {
                    change.set.iter().any(|(known, said)| *known == key && said == value)
                }
            })
        }),
        Deviation::Befallen(befallen) => {
            let circumstance = match befallen {
                Befallen::DataLoading => Circumstance::DataLoading,
                Befallen::Throttling => Circumstance::Throttling,
                Befallen::SlowLink => Circumstance::SlowLink,
                Befallen::OtherProcess => Circumstance::OtherProcess,
                Befallen::Fragmentation => Circumstance::Fragmentation,
            };
            cause.circumstance == Some(circumstance)
        }
    }
}

/// Everything that may happen to a plan.
fn possible(deviations: &'static [&'static str], text: &str, looking: Looking) -> Vec<Deviation> {
    let mut all: Vec<Deviation> = deviations.iter().map(|edits| Deviation::Plan(edits)).collect();
    all.extend([Befallen::DataLoading, Befallen::Throttling, Befallen::OtherProcess].map(Deviation::Befallen));
    if text.contains("num_gpus") {
        all.push(Deviation::Befallen(Befallen::SlowLink));
    }
    // From outside, fragmentation is a name for anything that holds more.
    if looking == Looking::Everything {
        all.push(Deviation::Befallen(Befallen::Fragmentation));
    }
    all
}

/// `count` scenarios with `causes` causes each, whose effects show.
pub fn scenarios(draw: Draw, seed: u64, count: usize, causes: usize, looking: Looking) -> Vec<Scenario> {
    let mut chance = Chance::new(seed);
    let mut found = Vec::new();
    while found.len() < count {
        let (plan, text, deviations) = draw.book[chance.below(draw.book.len())];
        let mut all = possible(deviations, text, looking);
        let mut chosen = Vec::new();
        for _ in 0..causes {
            chosen.push(all.swap_remove(chance.below(all.len())));
        }
        let Some(document) = changed(text, &chosen) else { continue };
        if expected(&document).is_none() || clash(&chosen) {
            continue;
        }
        let noise = draw.noise[0] + (draw.noise[1] - draw.noise[0]) * chance.uniform();
        let scenario = Scenario::noisy((plan, text), chosen, chance.next(), looking, noise);
        if causes == 0 || scenario.shows() {
            found.push(scenario);
        }
    }
    found
}

/// `count` runs that do what their plans say.
pub fn healthy(draw: Draw, seed: u64, count: usize, looking: Looking) -> Vec<Scenario> {
    let mut chance = Chance::new(seed);
    (0..count).map(|_| Scenario::healthy(draw.book[chance.below(draw.book.len())].0, chance.next(), looking)).collect()
}

/// Two values of one key are no two causes.
fn clash(chosen: &[Deviation]) -> bool {
    let keys = |deviation: &Deviation| match deviation {
        Deviation::Plan(edits) => edits.split(' ').map(|edit| edit.split_once('=').unwrap().0).collect::<Vec<_>>(),
        Deviation::Befallen(_) => Vec::new(),
    };
    match chosen {
        [one, other] => keys(one).iter().any(|key| keys(other).contains(key)),
        _ => false,
    }
}
