//! How far predictions stray from runs with which nothing is wrong, from measured cases.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::plan::keywords::Framework;

/// How far figures stray from predictions although nothing is wrong: one standard
/// deviation, as a share of the figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bands {
    /// Device-used, reserved and allocated bytes.
    pub memory: f64,
    /// Step time and tokens a second.
    pub time: f64,
    /// DRAM bytes of a step.
    pub traffic: f64,
    /// Matrix operations of a step.
    pub flops: f64,
}

/// No measured case holds what a step moves: caches keep some of what the operators ask for.
const TRAFFIC: f64 = 0.08;

/// What a step computes is exact; activity of the matrix units is not quite a share of their peak.
const FLOPS: f64 = 0.04;

/// Not even a prediction that met every case so far is nearer than this: rounding and
/// libraries differ from one version to the next.
const NEAREST: f64 = 0.015;

/// With fewer measured cases than this a framework takes the band of all.
const ENOUGH: usize = 4;

/// How many cases, and within how many percent 68 of 100 of them lie.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    cases: usize,
    within_pct: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// None: all of them.
    framework: Option<String>,
    memory: Measured,
    time: Measured,
}

/// The table, or nothing where it does not read: a test holds that it does.
fn table() -> &'static [Row] {
    static TABLE: OnceLock<Vec<Row>> = OnceLock::new();
    TABLE.get_or_init(|| serde_yaml::from_str(include_str!("../../configs/accuracy.yaml")).unwrap_or_default())
}

impl Bands {
    /// For runs of `framework`.
    #[must_use]
    pub fn of(framework: Framework) -> Self {
        let row = |name: Option<&str>| table().iter().find(move |row| row.framework.as_deref() == name);
        let pick = |of: fn(&Row) -> Measured| {
            let own = row(Some(framework.name())).map(of).filter(|measured| measured.cases >= ENOUGH);
            let percent = own.or_else(|| row(None).map(of)).map_or(10.0, |measured| measured.within_pct);
            (percent / 100.0).max(NEAREST)
        };
        Self { memory: pick(|row| row.memory), time: pick(|row| row.time), traffic: TRAFFIC, flops: FLOPS }
    }
}
