//! Plots of what is predicted, swept, searched, measured and recorded.

mod measured;
mod memory;
mod swept;

pub use measured::{recording, validation};
pub use memory::{ranks, stages, step};
pub use swept::{pareto, sweep};

/// GiB as a number for an axis.
fn gib(bytes: crate::units::Bytes) -> f64 {
    bytes.as_f64() / crate::units::GIB as f64
}

/// The last part of a plan's path without its ending: a title has no paths.
pub(super) fn plan_name(plan: &str) -> &str {
    let name = plan.rsplit(['/', '\\']).next().unwrap_or(plan);
    name.strip_suffix(".yaml")
        .or_else(|| name.strip_suffix(".yml"))
        .or_else(|| name.strip_suffix(".json"))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests;
