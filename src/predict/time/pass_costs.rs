//! What the forward and the backward pass take.

use std::ops::{Add, AddAssign, Mul, Sub};

use crate::units::Seconds;

/// Time of both passes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::predict) struct PassCosts {
    pub forward: Seconds,
    /// With what is recomputed.
    pub backward: Seconds,
}

impl PassCosts {
    pub fn all(self) -> Seconds {
        self.forward + self.backward
    }

    /// The smaller of both, each way.
    pub const fn least(self, other: Self) -> Self {
        Self { forward: self.forward.min(other.forward), backward: self.backward.min(other.backward) }
    }

    /// The larger of both, each way.
    pub const fn most(self, other: Self) -> Self {
        Self { forward: self.forward.max(other.forward), backward: self.backward.max(other.backward) }
    }

    /// What is more than `other`, each way; 0 where it is less.
    pub fn beyond(self, other: Self) -> Self {
        let Self { forward, backward } = self - other;
        Self { forward: forward.max(Seconds::ZERO), backward: backward.max(Seconds::ZERO) }
    }
}

impl Add for PassCosts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { forward: self.forward + other.forward, backward: self.backward + other.backward }
    }
}

impl AddAssign for PassCosts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for PassCosts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { forward: self.forward - other.forward, backward: self.backward - other.backward }
    }
}

impl Mul<f64> for PassCosts {
    type Output = Self;

    fn mul(self, count: f64) -> Self {
        Self { forward: self.forward * count, backward: self.backward * count }
    }
}
