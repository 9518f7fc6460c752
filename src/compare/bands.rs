//! How far predictions stray from runs with which nothing is wrong, from measured cases that no constant was fitted on.
//!
//! For each kind of run (model, framework, GPU generation, one GPU or several) and quantity `configs/accuracy.yaml` holds
//! how far 95 of 100 measured values lie below and above their predictions. Where fewer than [`ENOUGH`] cases are of that
//! kind, or where all of them come from one source and so share its setup, the narrowest wider kind that has so many from
//! several stands in, and [`Bands::few`] says so; where that one is of other frameworks or models altogether, it is widened
//! ([`RunKind::spread`]). What no measured case holds (traffic, operations) has a band of its own reasoning.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::catalog::Generation;
use crate::framework::Profile;
use crate::model::{Input, ModelShape};
use crate::predict::Job;

/// How far a figure strays to either side: one standard deviation of the logarithm of observed over predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Below the prediction.
    pub below: f64,
    /// Above it.
    pub above: f64,
}

impl Band {
    /// As far to both sides.
    #[must_use]
    pub const fn even(width: f64) -> Self {
        Self { below: width, above: width }
    }

    /// The band of a rate, where this is the band of the time that it takes.
    #[must_use]
    pub const fn of_rate(self) -> Self {
        Self { below: self.above, above: self.below }
    }

    /// What strays by this and, apart from it, by `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { below: self.below.hypot(other.below), above: self.above.hypot(other.above) }
    }

    /// How many deviations `observed` lies from `expected`; both above zero.
    #[must_use]
    pub fn off(self, observed: f64, expected: f64) -> f64 {
        let off = (observed / expected).ln();
        off / if off < 0.0 { self.below } else { self.above }
    }

    /// What lies within so many deviations, in shares of the prediction.
    #[must_use]
    pub fn within(self, deviations: f64) -> Tolerance {
        Tolerance { below: 1.0 - (-deviations * self.below).exp(), above: (deviations * self.above).exp() - 1.0 }
    }
}

/// How far a figure may lie from its prediction before it is worth a word, as shares of that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Below it: less than 1.
    pub below: f64,
    /// Above it.
    pub above: f64,
}

impl Tolerance {
    /// Whether a difference, as a share of the prediction, lies outside.
    #[must_use]
    pub fn is_left_by(self, relative: f64) -> bool {
        relative <= -self.below || relative >= self.above
    }
}

/// The bands of everything that is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bands {
    /// Allocated bytes.
    pub allocated: Band,
    /// Reserved bytes.
    pub reserved: Band,
    /// Device-used bytes.
    pub device_used: Band,
    /// Step time.
    pub time: Band,
    /// DRAM bytes of a step.
    pub traffic: Band,
    /// Matrix operations of a step.
    pub flops: Band,
    /// Few measured runs are of this kind, or all are of one source: the band of time is a wider kind's.
    pub few: bool,
}

/// No measured case holds what a step moves: caches keep some of what the operators ask for.
const TRAFFIC: Band = Band::even(0.08);

/// What a step computes is exact; activity of the matrix units is not quite a share of their peak.
const FLOPS: Band = Band::even(0.04);

/// Of runs of which none was measured, such as a CPU's: about a fifth to either side.
const UNMEASURED: Band = Band::even(0.1);

/// Not even a prediction that met every case so far is nearer than this: rounding and
/// libraries differ from one version to the next.
const NEAREST: f64 = 0.01;

/// Cases of a kind that are enough for a band of its own.
pub const ENOUGH: usize = 10;

/// What decides how far a run strays from its prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKind {
    /// `language`, `encoder`, `image` or `diffusion`.
    pub model: &'static str,
    /// The framework's name in plans.
    pub framework: &'static str,
    /// The GPU's generation, as the catalogue names it.
    pub generation: &'static str,
    /// `one` or `several`.
    pub gpus: &'static str,
}

impl RunKind {
    /// The kind of a job's runs.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let model = match (&job.architecture.shape, job.architecture.input()) {
            (ModelShape::Unet(_) | ModelShape::DiT(_), _) => "diffusion",
            (_, Input::Image(..)) => "image",
            (ModelShape::Decoder(_), _) => "language",
            _ => "encoder",
        };
        Self {
            model,
            framework: job.profile.name(),
            generation: job.hardware.gpu.generation.name(),
            gpus: if job.degrees.num_gpus > 1 { "several" } else { "one" },
        }
    }

    /// This kind and wider ones, the narrowest first: what each names of model, framework, generation and GPUs. Runs on
    /// GPUs tell nothing of a CPU's.
    #[must_use]
    pub fn wider(&self) -> [Key; 7] {
        let (model, framework, generation, gpus) =
            (Some(self.model), Some(self.framework), Some(self.generation), Some(self.gpus));
        if self.generation == Generation::Cpu.name() {
            let all = [None, None, generation, None];
            let of_model = [model, None, generation, None];
            return [[model, framework, generation, gpus], of_model, all, all, all, all, all];
        }
        [
            [model, framework, generation, gpus],
            [model, framework, None, gpus],
            [model, framework, None, None],
            [model, None, None, gpus],
            [model, None, None, None],
            [None, None, None, gpus],
            [None; 4],
        ]
    }
}

/// What a kind names of model, framework, generation and GPUs.
pub type Key = [Option<&'static str>; 4];

impl RunKind {
    /// How far runs of this kind stray, where `measured` tells what was measured of a kind: the narrowest kind with enough
    /// cases. Where that is of other frameworks, or of other models, the next one may stray as the widest of these does, and
    /// from all of them as a further case does from few.
    pub fn spread(&self, measured: impl Fn(&Key) -> Option<MeasuredBand>) -> Option<MeasuredBand> {
        let key = self.wider().into_iter().find(|key| measured(key).is_some_and(MeasuredBand::is_enough))?;
        let band = measured(&key)?;
        let has_cases = |key: Key| measured(&key).filter(|one| one.cases >= ENOUGH);
        let of_framework = [Some(self.model), Some(self.framework), None, None];
        if key[1].is_some() || self.generation == Generation::Cpu.name() || has_cases(of_framework).is_some() {
            return Some(band);
        }
        let alike: Vec<Key> = match key[0] {
            Some(_) => Profile::names().map(|framework| [Some(self.model), Some(framework), None, None]).collect(),
            None => MODELS.map(|model| [Some(model), None, None, None]).to_vec(),
        };
        Some(alike.into_iter().filter_map(has_cases).fold(band, MeasuredBand::widest).of_another_source())
    }
}

/// Kinds of models.
const MODELS: [&str; 4] = ["language", "encoder", "image", "diffusion"];

/// How many cases, and within how many percent of the prediction 95 of 100 lie.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredBand {
    /// Measured cases.
    pub cases: usize,
    /// Repositories and papers that published them.
    pub sources: usize,
    /// Below the prediction.
    pub below_pct: f64,
    /// Above it.
    pub above_pct: f64,
}

impl MeasuredBand {
    /// As wide to either side as the wider of both.
    const fn widest(self, other: Self) -> Self {
        let (below_pct, above_pct) = (self.below_pct.max(other.below_pct), self.above_pct.max(other.above_pct));
        Self { below_pct, above_pct, ..self }
    }

    /// For a source that is none of these: of k sources the spread is known with k - 1 degrees of freedom, and the next one
    /// strays from their mean, which is itself uncertain: sqrt((k + 1) / (k - 1)) times as far in logarithms.
    fn of_another_source(self) -> Self {
        let sources = self.sources.max(2) as f64;
        let further = ((sources + 1.0) / (sources - 1.0)).sqrt();
        let percent = |percent: f64| 100.0 * (further * (percent / 100.0).ln_1p()).exp_m1();
        Self { below_pct: -percent(-self.below_pct), above_pct: percent(self.above_pct), ..self }
    }

    /// Whether they make a band of their own.
    const fn is_enough(self) -> bool {
        self.cases >= ENOUGH && self.sources > 1
    }

    /// One deviation is a half of what 95 of 100 lie within.
    fn band(self) -> Band {
        let below = -(-self.below_pct / 100.0).ln_1p() / 2.0;
        let above = (self.above_pct / 100.0).ln_1p() / 2.0;
        Band { below: below.max(NEAREST), above: above.max(NEAREST) }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// None of these: all of them.
    model: Option<String>,
    framework: Option<String>,
    generation: Option<String>,
    gpus: Option<String>,
    allocated: Option<MeasuredBand>,
    reserved: Option<MeasuredBand>,
    device_used: Option<MeasuredBand>,
    time: Option<MeasuredBand>,
}

impl Row {
    fn is_of(&self, kind: &Key) -> bool {
        [&self.model, &self.framework, &self.generation, &self.gpus].map(|name| name.as_deref()) == *kind
    }
}

/// Why the table inside the binary is none.
#[derive(Debug, thiserror::Error)]
pub enum BandsError {
    /// Its text does not read.
    #[error(
        "configs/accuracy.yaml: {0}: this build has no bands to compare with; build it again from an unchanged source"
    )]
    Malformed(&'static serde_json::Error),
    /// It has no row for frameworks without a measured case.
    #[error("configs/accuracy.yaml: no row without a framework; build it again from an unchanged source")]
    NoRowForOthers,
}

/// The table of the file, as `configs/build.rs` made it of YAML.
fn table() -> &'static Result<Vec<Row>, serde_json::Error> {
    static TABLE: OnceLock<Result<Vec<Row>, serde_json::Error>> = OnceLock::new();
    TABLE.get_or_init(|| serde_json::from_str(include_str!(concat!(env!("OUT_DIR"), "/accuracy.json"))))
}

/// Its rows; none where the program did not start for want of them.
fn rows() -> &'static [Row] {
    table().as_deref().unwrap_or_default()
}

impl Bands {
    /// Whether the table inside the binary reads. The program asks before anything else: from then on every framework
    /// has a band.
    ///
    /// # Errors
    /// Where `configs/accuracy.yaml` is malformed; a test holds that it is not.
    pub fn check() -> Result<(), BandsError> {
        let rows = table().as_ref().map_err(BandsError::Malformed)?;
        if rows.iter().any(|row| row.is_of(&[None; 4])) { Ok(()) } else { Err(BandsError::NoRowForOthers) }
    }

    /// For a job's runs.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let bands = Self::of_kind(RunKind::of(job));
        let doubtful = job.speed.curves.measured.as_ref().filter(|measured| measured.doubt().is_some());
        let Some(measured) = doubtful else { return bands };
        // Times that come from kernels which the fit misses by so much stray by that too.
        let missed = Band::even((1.0 + measured.matmul_error.max(measured.spread)).ln());
        Self { time: bands.time.and(missed), ..bands }
    }

    /// For runs of a kind.
    #[must_use]
    pub fn of_kind(kind: RunKind) -> Self {
        let band = |of: fn(&Row) -> Option<MeasuredBand>| {
            let measured = |key: &Key| rows().iter().find(|row| row.is_of(key)).and_then(of);
            kind.spread(measured).map_or(UNMEASURED, MeasuredBand::band)
        };
        let own = rows().iter().find(|row| row.is_of(&kind.wider()[0])).and_then(|row| row.time);
        Self {
            allocated: band(|row| row.allocated),
            reserved: band(|row| row.reserved),
            device_used: band(|row| row.device_used),
            time: band(|row| row.time),
            traffic: TRAFFIC,
            flops: FLOPS,
            few: own.is_none_or(|own| !own.is_enough()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two deviations of 0.1: e^0.2 = 1.2214 and e^-0.2 = 0.8187. GPUs' language models stray otherwise.
    #[test]
    fn a_cpu_takes_no_band_of_gpus() {
        let of = |generation| {
            let kind = RunKind { model: "language", framework: "pytorch", generation, gpus: "one" };
            Bands::of_kind(kind)
        };
        let within = of("cpu").time.within(2.0);
        assert!((within.below - 0.1813).abs() < 1e-4 && (within.above - 0.2214).abs() < 1e-4, "{within:?}");
        assert!(of("cpu").few && of("cpu").reserved == UNMEASURED && of("ampere").reserved != UNMEASURED);
    }

    /// Three sources: sqrt(4 / 2) = 1.414 times as far: e^(1.414 ln 0.9) = 0.8616 and e^(1.414 ln 1.2) = 1.2941; by the sibling
    /// 1.5 is the wider one above: e^(1.414 ln 1.5) = 1.7743.
    #[test]
    fn a_framework_that_nobody_measured_may_stray_as_the_widest_does() {
        let kind = RunKind { model: "language", framework: "litgpt", generation: "ampere", gpus: "one" };
        let three = MeasuredBand { cases: 30, sources: 3, below_pct: 10.0, above_pct: 20.0 };
        let single = MeasuredBand { cases: 10, sources: 1, below_pct: 4.0, above_pct: 50.0 };
        let of = |framework: Option<MeasuredBand>| {
            let measured = |key: &Key| match key {
                [Some("language"), None, None, Some("one")] => Some(three),
                [Some("language"), Some("torchtitan"), None, None] => framework,
                _ => None,
            };
            kind.spread(measured).unwrap()
        };
        let alone = of(None);
        assert!((alone.below_pct - 13.84).abs() < 0.01 && (alone.above_pct - 29.41).abs() < 0.01, "{alone:?}");
        let beside = of(Some(single));
        assert!((beside.below_pct - 13.84).abs() < 0.01 && (beside.above_pct - 77.43).abs() < 0.01, "{beside:?}");
        // Ten cases of the framework itself, if of one source, are as near as what is measured comes.
        let known = RunKind { framework: "torchtitan", ..kind };
        let measured = |key: &Key| match key {
            [Some("language"), None, None, Some("one")] => Some(three),
            [Some("language"), Some("torchtitan"), None, None] => Some(single),
            _ => None,
        };
        assert_eq!(known.spread(measured), Some(three));
    }

    #[test]
    fn a_band_is_a_ratio_to_either_side() {
        let band = Band { below: 0.1, above: 0.2 };
        // e^-0.2 = 0.8187, e^0.4 = 1.4918
        let within = band.within(2.0);
        assert!((within.below - 0.1813).abs() < 1e-4 && (within.above - 0.4918).abs() < 1e-4, "{within:?}");
        assert!(!within.is_left_by(-0.18) && within.is_left_by(-0.19) && !within.is_left_by(0.49));
        assert!(
            (band.off(1.0_f64.exp(), 1.0) - 5.0).abs() < 1e-9 && (band.off(1.0, 1.0_f64.exp()) + 10.0).abs() < 1e-9
        );
        // Twice the time is half the rate.
        assert_eq!(band.of_rate().off(0.5, 1.0), -band.off(2.0, 1.0));
    }
}
