//! What to do about a plan: sweeps over its keys, searches, bottlenecks with their fixes, memory that ran out,
//! exports read back. Whatever
//! is said of a change was computed by predicting the changed plan.

mod axis;
mod export;
mod findings;
mod fixes;
pub mod follow;
mod legal;
mod limits;
mod operators;
mod search;
mod shortage;
mod sweep;
mod waiting;
mod walk_cache;
mod walls;

pub use axis::{Axis, MOST_POINTS};
pub use export::export;
pub use findings::{Advice, Finding, Severity, advise};
pub use fixes::{Fix, FixKind, savings};
pub use legal::left_out;
pub use limits::{FewestGpus, LargestModel, Limit, fewest_gpus, is_largest_tried, largest_model};
pub use operators::operators;
pub use search::{
    ChangedPlan, FoldedPlan, KNOBS, Knobs, RankedPlan, Request, SearchOutcome, SearchProgress, SearchStatus,
    SmallestChange, divisors, fold, search, search_aloud, smallest_change, why_slower,
};
pub use shortage::{MemoryClaim, PlanForMessage, PlanMismatch, Shortage, offered, shortage};
pub use sweep::{NoPlan, ProgressCounter, Sweep, SweepPoint, sweep, sweep_counted};
pub use walls::{AxisWalls, BandwidthWall, CapacityWall, throughput};
