//! What would be if the plan were another: the largest size that fits, sweeps of a key or two, the best of all plans.

pub(super) mod largest;
pub(super) mod search;
pub(super) mod sweep;
