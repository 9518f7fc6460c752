//! The bands that comparisons are drawn with are what measured cases say that no constant was fitted on.

use crate::support::{catalog, truth};
use std::collections::{BTreeMap, BTreeSet};

use memwall::compare::{Bands, Key, MeasuredBand, RunKind};
use memwall::plan::Document;
use memwall::predict::{self, Job};
use memwall::report::validate::{Case, ValidationOutcome, read};
use serde_json::Value;

const QUANTITIES: [&str; 4] = ["allocated", "reserved", "device_used", "time"];

/// Which quantities a measured value speaks of: few cases hold device-used bytes, which are the reserved ones and what
/// CUDA and NCCL add to them, so that either speaks of both. Rates count as the time that they take.
fn speaks_of(family: &str) -> (&'static [usize], f64) {
    match family {
        "peak_allocated_bytes" => (&[0], 1.0),
        "peak_reserved_bytes" | "device_used_bytes" => (&[1, 2], 1.0),
        "step_time_s" => (&[3], 1.0),
        "tokens_per_s_per_gpu" | "samples_per_s_per_gpu" => (&[3], -1.0),
        _ => (&[], 0.0),
    }
}

/// Steps that were followed tensor by tensor, where no GPU took part: they say how exact a walk is, and nothing of what
/// libraries and drivers add.
const FOLLOWED: [&str; 2] = ["allocator.json", "ours.json"];

/// One measured value.
#[derive(Clone)]
struct Error {
    kind: RunKind,
    /// Of [`QUANTITIES`].
    quantity: usize,
    /// The repository or paper that it is from.
    source: String,
    /// The logarithm of measured over predicted.
    log: f64,
    /// Which of two halves of its group it is in: ids sorted, every second one.
    half: bool,
}

/// Groups of published.json whose first half, and every second case from there on, constants of time were fitted on
/// (configs/efficiency.yaml).
const FITTED: [&str; 7] =
    ["torchtitan", "llm-foundry", "vtrain", "korthikanti", "simumax", "megatron-bridge", "nemo-24.07"];

fn errors() -> Vec<Error> {
    let mut all = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(truth::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter(|path| !FOLLOWED.iter().any(|file| path.ends_with(file)))
        .collect();
    files.sort();
    for file in files {
        let mut cases = read(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let fits = file.ends_with("published.json");
        cases.sort_by_key(|case| case.as_ref().ok().map(|case| (case.group.clone(), case.id.clone())));
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for case in cases {
            let mut case = case.unwrap();
            // BLOOM's tables say Megatron for want of a word: it ran under Megatron-DeepSpeed (bigscience, train/tr11-176B-ml).
            if case.group.as_deref().is_some_and(|group| group.starts_with("bloom")) {
                case.plan["model"]["framework"] = "megatron-deepspeed".into();
            }
            let group = case.group.clone().unwrap_or_default();
            let count = seen.entry(group.clone()).or_default();
            let half = count.is_multiple_of(2);
            *count += usize::from(is_timed(&case));
            let fitted = fits && half && FITTED.contains(&group.as_str());
            add(case, (fitted, half), &mut all);
        }
    }
    all
}

fn is_timed(case: &Case) -> bool {
    ["step_time_s", "tokens_per_s_per_gpu", "samples_per_s_per_gpu"].iter().any(|key| case.measured.contains_key(*key))
}

fn add(case: Case, (fitted, half): (bool, bool), all: &mut Vec<Error>) {
    let mut kind = None;
    // "owner/repository file"; mlcommons has one for each round.
    let source = case.source.as_deref().unwrap_or_default();
    let source = source.split([' ', ',']).next().unwrap_or_default();
    let source = source.split("_v").next().unwrap_or_default().to_owned();
    let mut outcome = ValidationOutcome::default();
    outcome.add(Ok(case), |plan: &Value| {
        let plan = Document::parse(&plan.to_string()).and_then(|document| document.plan());
        let plan = plan.map_err(|_| "not a plan".to_owned())?;
        let job = Job::resolve(&plan, catalog()).map_err(|_| "not predicted".to_owned())?;
        kind = Some(RunKind::of(&job));
        Ok::<_, String>(predict::predict(&job))
    });
    for row in &outcome.rows {
        let (of, sign) = speaks_of(row.family());
        let Some(error) = row.error_pct else { continue };
        // predicted / measured - 1 = error
        let log = -sign * (1.0 + error / 100.0).ln();
        for quantity in of.iter().filter(|quantity| !(fitted && **quantity == 3)) {
            all.push(Error { kind: kind.unwrap(), quantity: *quantity, source: source.clone(), log, half });
        }
    }
}

/// How many cases of a key, of how many sources, and within which percent of the prediction 95 of 100 lie: the tenth and the ninetieth percentile
/// of the logarithms, as much further out as two deviations of a normal distribution are beyond it (2 of 1.2816). The tails
/// themselves are single cases.
fn spread(errors: &[Error], key: Key, quantity: usize) -> (usize, usize, f64, f64) {
    let of = |error: &&Error| {
        let named = [error.kind.model, error.kind.framework, error.kind.generation, error.kind.gpus];
        error.quantity == quantity && key.iter().zip(named).all(|(key, own)| key.is_none_or(|key| key == own))
    };
    let sources: BTreeSet<&str> = errors.iter().filter(of).map(|error| error.source.as_str()).collect();
    let mut logs: Vec<f64> = errors.iter().filter(of).map(|error| error.log).collect();
    logs.sort_by(f64::total_cmp);
    let count = logs.len();
    let beyond = ((count + 1) as f64 * 0.1).floor() as usize;
    let at = beyond.max(1) - 1;
    let (low, high) = if count == 0 { (0.0, 0.0) } else { (logs[at], logs[count - 1 - at]) };
    let percent = |log: f64| ((log * 1.56).exp() - 1.0) * 100.0;
    (count, sources.len(), (-percent(low)).max(0.0), percent(high).max(0.0))
}

fn keys(errors: &[Error]) -> BTreeSet<Key> {
    errors.iter().flat_map(|error| error.kind.wider()).collect()
}

/// A bound that has moved by less than this, in points, is still told right.
const SLACK: f64 = 1.0;

const NAMES: [&str; 4] = ["model", "framework", "generation", "gpus"];

#[test]
fn the_bands_are_the_measured_cases_own() {
    let errors = errors();
    let path = format!("{}/configs/accuracy.yaml", env!("CARGO_MANIFEST_DIR"));
    let table: Value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut wanted, mut right) = (String::new(), true);
    for key in keys(&errors) {
        let row = table
            .as_array()
            .unwrap()
            .iter()
            .find(|row| NAMES.iter().zip(key).all(|(name, key)| row[*name].as_str() == key));
        let named: Vec<String> =
            NAMES.iter().zip(key).filter_map(|(name, key)| Some(format!("{name}: {}", key?))).collect();
        let mut fields = named;
        for (quantity, name) in QUANTITIES.iter().enumerate() {
            let (cases, sources, below, above) = spread(&errors, key, quantity);
            if cases == 0 {
                continue;
            }
            fields.push(format!(
                "{name}: {{cases: {cases}, sources: {sources}, below_pct: {below:.1}, above_pct: {above:.1}}}"
            ));
            let said = row.map_or(&Value::Null, |row| &row[*name]);
            let near = |of: &str, now: f64| {
                let said = said[of].as_f64().unwrap_or(f64::NAN);
                (said - now).abs() <= SLACK.max(0.1 * now)
            };
            right &= said["cases"].as_u64() == Some(cases as u64)
                && said["sources"].as_u64() == Some(sources as u64)
                && near("below_pct", below)
                && near("above_pct", above);
        }
        wanted += &format!("- {{{}}}\n", fields.join(", "));
    }
    if let Ok(path) = std::env::var("MEMWALL_BANDS") {
        std::fs::write(path, &wanted).unwrap();
    }
    assert!(right, "configs/accuracy.yaml should hold:\n{wanted}");
}

fn is_within(error: &Error, bands: &Bands) -> bool {
    let band = [bands.allocated, bands.reserved, bands.device_used, bands.time][error.quantity].within(2.0);
    !band.is_left_by(error.log.exp() - 1.0)
}

/// Asserts that of all cases 90 to 98 of 100 lie within their bands, and of each kind of model and each quantity 85 and more:
/// how many of how many do, by kind.
fn assert_shares(by: BTreeMap<&str, (usize, usize)>) {
    for (name, (inside, count)) in by {
        let share = inside as f64 / count as f64;
        println!("{name}: {inside} of {count} within, {:.1} %", share * 100.0);
        let (least, most) = if name == "all" { (0.90, 0.98) } else { (0.85, 1.0) };
        assert!((least..=most).contains(&share), "{name}: {inside} of {count}");
    }
}

/// The band that these cases make for runs of a kind, in percent below and above.
fn band(from: &[Error], kind: RunKind, quantity: usize) -> Option<MeasuredBand> {
    kind.spread(|key| {
        let (cases, sources, below_pct, above_pct) = spread(from, *key, quantity);
        (cases > 0).then_some(MeasuredBand { cases, sources, below_pct, above_pct })
    })
}

/// Whether a case lies within such a band, which is never narrower than 2 %.
fn lies_within(error: &Error, band: MeasuredBand) -> bool {
    let percent = (error.log.exp() - 1.0) * 100.0;
    (-band.below_pct.max(2.0)..=band.above_pct.max(2.0)).contains(&percent)
}

/// Of measured cases that no constant was fitted on 90 to 98 of 100 lie within their bands, and of each kind of model with
/// enough cases 85 and more.
#[test]
fn measured_cases_lie_within_their_bands() {
    let errors = errors();
    let mut by: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for error in &errors {
        let within = usize::from(is_within(error, &Bands::of_kind(error.kind)));
        for name in ["all", error.kind.model, QUANTITIES[error.quantity]] {
            let (inside, count) = by.entry(name).or_default();
            *inside += within;
            *count += 1;
        }
    }
    assert_shares(by);
}

/// Bands drawn from one half of the cases hold for the other.
#[test]
fn bands_of_one_half_hold_for_the_other() {
    let all = errors();
    let (one, other): (Vec<Error>, Vec<Error>) = all.into_iter().partition(|error| error.half);
    for (from, to) in [(&one, &other), (&other, &one)] {
        let inside = to.iter().filter(|error| {
            let unknown = MeasuredBand { cases: 0, sources: 0, below_pct: 100.0, above_pct: 100.0 };
            lies_within(error, band(from, error.kind, error.quantity).unwrap_or(unknown))
        });
        let share = inside.count() as f64 / to.len() as f64;
        println!("{:.1} % of {}", share * 100.0, to.len());
        assert!(share > 0.85, "{share}");
    }
}

/// Bands drawn without a source hold for its cases: of all 90 to 98 of 100, and of each kind of model and each quantity 85
/// and more.
#[test]
fn bands_of_other_sources_hold_for_a_source() {
    let all = errors();
    let sources: BTreeSet<&str> = all.iter().map(|error| error.source.as_str()).collect();
    let mut by: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for source in sources {
        let (own, others): (Vec<Error>, Vec<Error>) = all.iter().cloned().partition(|error| error.source == source);
        let mut known: BTreeMap<(RunKind, usize), Option<MeasuredBand>> = BTreeMap::new();
        for error in &own {
            let of = (error.kind, error.quantity);
            let Some(band) = known.entry(of).or_insert_with(|| band(&others, error.kind, error.quantity)) else {
                continue;
            };
            let within = usize::from(lies_within(error, *band));
            for name in ["all", error.kind.model, QUANTITIES[error.quantity]] {
                let (inside, count) = by.entry(name).or_default();
                *inside += within;
                *count += 1;
            }
        }
    }
    assert_shares(by);
}
