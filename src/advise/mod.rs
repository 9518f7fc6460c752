//! What to do about a plan: sweeps over its keys, and later searches and fixes. Whatever is said of a change
//! was computed by predicting the changed plan.

mod axis;
mod follow;
mod sweep;
mod walls;

pub use axis::{Axis, MOST_POINTS};
pub use sweep::{Point, Sweep, sweep};
pub use walls::{Capacity, Throughput, Wall, throughput};
