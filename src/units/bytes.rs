//! Counts of bytes and their differences.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize};

use super::{BytesPerSec, Fraction, Seconds, three_figures};

/// A count of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// One binary megabyte.
pub const MIB: u64 = 1 << 20;
/// One binary gigabyte.
pub const GIB: u64 = 1 << 30;

impl Bytes {
    /// No bytes at all (a known zero, not an unknown).
    pub const ZERO: Self = Self(0);

    /// `mib` binary megabytes.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(MIB))
    }

    /// `gib` binary gigabytes, rounded to the byte. Negative and NaN give 0.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn from_gib(gib: f64) -> Self {
        Self((gib * GIB as f64).round() as u64)
    }

    /// From a float in bytes, rounded. Negative and NaN give 0.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn from_f64(bytes: f64) -> Self {
        Self(bytes.round() as u64)
    }

    /// In binary gigabytes.
    #[must_use]
    pub fn gib(self) -> f64 {
        self.0 as f64 / GIB as f64
    }

    /// As a float, in bytes.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// `self - other`, not below zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Up to the next multiple of `multiple` bytes (a power of two or not; 0 leaves it).
    #[must_use]
    pub const fn round_up(self, multiple: u64) -> Self {
        if multiple == 0 {
            return self;
        }
        Self(self.0.div_ceil(multiple).saturating_mul(multiple))
    }

    /// This as a share of `whole`; none when `whole` is 0.
    #[must_use]
    pub fn share_of(self, whole: Self) -> Option<Fraction> {
        (whole.0 > 0).then(|| Fraction(self.as_f64() / whole.as_f64()))
    }

    /// The bare number in GiB to three figures, for a column whose head says GiB.
    #[must_use]
    pub fn in_gib(self) -> String {
        three_figures(self.gib())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0 >= GIB / 10 {
            format!("{} GiB", self.in_gib())
        } else if self.0 >= MIB / 10 {
            format!("{} MiB", three_figures(self.as_f64() / MIB as f64))
        } else if self.0 >= 1024 {
            format!("{} KiB", three_figures(self.as_f64() / 1024.0))
        } else {
            format!("{} B", self.0)
        };
        f.pad(&text)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    /// Signed: what is missing or left over matters as much as the amount.
    type Output = SignedBytes;
    fn sub(self, other: Self) -> SignedBytes {
        SignedBytes(i128::from(self.0) - i128::from(other.0))
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// A difference between two byte counts: prints with its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SignedBytes(pub i128);

impl SignedBytes {
    /// The size of the difference.
    #[must_use]
    pub fn magnitude(self) -> Bytes {
        Bytes(u64::try_from(self.0.unsigned_abs()).unwrap_or(u64::MAX))
    }

    /// In GiB without the unit, the sign before it: `+3.10`.
    #[must_use]
    pub fn in_gib(self) -> String {
        let sign = if self.is_negative() { '-' } else { '+' };
        format!("{sign}{}", self.magnitude().in_gib())
    }

    /// Below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

impl fmt::Display for SignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { '-' } else { '+' };
        f.pad(&format!("{sign}{}", self.magnitude()))
    }
}

impl Bytes {
    /// How long these take at `rate`; infinite at a rate of 0.
    #[must_use]
    pub fn at(self, rate: BytesPerSec) -> Seconds {
        Seconds(self.as_f64() / rate.0)
    }
}
