//! Predicted against observed, in the same unit, side by side; why they differ; and where the run is going.

mod bands;
mod calibration;
mod comparison;
mod evidence;
mod expected;
mod explain;
mod failures;
mod forecast;
mod growth;
mod late_steps;
mod level;
mod observation;
mod phases;
mod resident;
mod residual;
mod rhythm;
mod standstill;
mod stragglers;
mod waits;

pub use bands::{Band, Bands, BandsError, ENOUGH, Key, MeasuredBand, RunKind, Tolerance};
pub use calibration::{Calibration, Factor};
pub use comparison::{ComparedStage, Comparison, RunPoint, compare, run_point};
pub use evidence::Evidence;
pub use expected::Expectation;
pub use explain::{
    Candidates, Cause, Circumstance, Explanation, SAME_TOKENS, Subject, explain, named_first, tried, verdict,
};
pub use failures::{ProcessEnd, failure_words, first_failure, last_job, last_start, process_ends};
pub use forecast::{Forecast, MemoryGrowth, forecast};
pub use growth::{Counts, GrowthKind, MemoryRise};
pub use late_steps::{StalledRank, late_steps, late_steps_among, late_steps_of_run, stalled, step_share};
pub use level::{Claim, claimed, level};
pub use observation::{MemoryOwner, Observation};
pub use phases::{Phases, RunPhase};
pub use resident::resident_evidence;
pub use residual::Residual;
pub use rhythm::period;
pub use standstill::stood_still;
pub use stragglers::{INTERVALS, Straggler, StragglerCause, StragglerWatch};
pub use waits::waiting;
