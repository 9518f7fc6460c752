//! What would be if the plan were another: what would help it, the largest size that fits, sweeps of a key or two, the best of all plans.

pub(super) mod fixes;
pub(super) mod largest;
pub(super) mod search;
pub(super) mod sweep;
