//! Quantities as types, so that bytes are never added to seconds and GB never
//! taken for GiB.
//!
//! `Bytes` is an exact count (`u64`, saturating: a plan whose sizes could reach
//! 2^63 is refused before it gets here). The rest are `f64` in their base unit.
//! Every quantity prints itself with its unit and three significant figures;
//! [`Bytes`] in binary multiples, because `nvidia-smi` and PyTorch do so, rates in
//! decimal ones, because datasheets do so.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

/// Three significant figures without an exponent: `0.295`, `2.95`, `29.5`, `295`, `2950`.
#[must_use]
pub fn three_figures(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = value.abs();
    let decimals = if magnitude >= 99.95 {
        0
    } else if magnitude >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

/// Every digit, thousands set apart: `12 000`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

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

/// A decimal prefix and the value in it.
fn si(value: f64) -> (f64, &'static str) {
    const STEPS: [(f64, &str); 6] = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    STEPS
        .iter()
        // A value that would print as 1000 of the smaller prefix takes the larger.
        .find(|(scale, _)| value.abs() >= scale * 0.9995)
        .map_or((value, ""), |(scale, prefix)| (value / scale, prefix))
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl $name {
            /// This over another of its kind, as a plain ratio; none when the other is 0.
            #[must_use]
            pub fn ratio_to(self, other: Self) -> Option<f64> {
                (other.0 != 0.0).then(|| self.0 / other.0)
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, times: f64) -> Self {
                Self(self.0 * times)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, by: f64) -> Self {
                Self(self.0 / by)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                Self(iter.map(|one| one.0).sum())
            }
        }
    };
    ($(#[$doc:meta])* $name:ident, $unit:literal, si) => {
        quantity!($(#[$doc])* $name, $unit);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (value, prefix) = si(self.0);
                f.pad(&format!("{} {prefix}{}", three_figures(value), $unit))
            }
        }
    };
    ($(#[$doc:meta])* $name:ident, $unit:literal, plain) => {
        quantity!($(#[$doc])* $name, $unit);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!("{} {}", three_figures(self.0), $unit))
            }
        }
    };
}

quantity!(
    /// Floating-point operations; a multiply-add counts as two.
    Flops, "FLOP", si
);
quantity!(
    /// Floating-point operations a second.
    FlopsPerSec, "FLOP/s", si
);
quantity!(
    /// Bytes a second, in decimal multiples as datasheets print bandwidth.
    BytesPerSec, "B/s", si
);
quantity!(
    /// Tokens a second.
    TokensPerSec, "tok/s", si
);
quantity!(
    /// Arithmetic intensity: operations for each byte moved to or from DRAM.
    Intensity, "FLOP/B", plain
);
quantity!(
    /// Power.
    Watts, "W", plain
);
quantity!(
    /// Energy.
    Joules, "J", si
);
quantity!(
    /// Temperature in degrees Celsius.
    Celsius, "°C", plain
);
quantity!(
    /// Clock frequency in MHz, the unit that NVML uses.
    Megahertz, "MHz", plain
);
quantity!(
    /// A duration in seconds.
    Seconds, "s"
);
quantity!(
    /// A share of a whole: 1.0 is all of it.
    Fraction, "%"
);

impl FlopsPerSec {
    /// `tera` TFLOP/s.
    #[must_use]
    pub fn from_tera(tera: f64) -> Self {
        Self(tera * 1e12)
    }
}

impl BytesPerSec {
    /// `giga` GB/s (1e9 bytes).
    #[must_use]
    pub fn from_giga(giga: f64) -> Self {
        Self(giga * 1e9)
    }
}

impl Fraction {
    /// In percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.0 * 100.0
    }

    /// From percent.
    #[must_use]
    pub fn from_percent(percent: f64) -> Self {
        Self(percent / 100.0)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.0} %", self.percent()))
    }
}

impl fmt::Display for Seconds {
    /// `85.0 µs`, `3.56 s`, `12 min 05 s`, `1 h 12 min`, `14 d 03 h`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        let whole = seconds.round() as u64;
        let text = if seconds.is_nan() || seconds < 0.0 {
            "–".to_owned()
        } else if seconds == 0.0 {
            "0 s".to_owned()
        } else if seconds < 0.999_5e-3 {
            format!("{} µs", three_figures(seconds * 1e6))
        } else if seconds < 0.999_5 {
            format!("{} ms", three_figures(seconds * 1e3))
        } else if seconds < 119.5 {
            // Whole seconds are mostly ages and countdowns: no false precision.
            if seconds.fract() == 0.0 { format!("{seconds:.0} s") } else { format!("{} s", three_figures(seconds)) }
        } else if whole < 3600 {
            format!("{} min {:02} s", whole / 60, whole % 60)
        } else if whole < 48 * 3600 {
            format!("{} h {:02} min", whole / 3600, whole / 60 % 60)
        } else {
            format!("{} d {:02} h", whole / 86400, whole / 3600 % 24)
        };
        f.pad(&text)
    }
}

impl Flops {
    /// Operations over bytes; none when no bytes move.
    #[must_use]
    pub fn over(self, bytes: Bytes) -> Option<Intensity> {
        (bytes.0 > 0).then(|| Intensity(self.0 / bytes.as_f64()))
    }

    /// How long these take at `rate`; infinite at a rate of 0.
    #[must_use]
    pub fn at(self, rate: FlopsPerSec) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Bytes {
    /// How long these take at `rate`; infinite at a rate of 0.
    #[must_use]
    pub fn at(self, rate: BytesPerSec) -> Seconds {
        Seconds(self.as_f64() / rate.0)
    }
}

impl FlopsPerSec {
    /// The ridge point of a roofline: the intensity at which memory and compute bind alike.
    #[must_use]
    pub fn ridge(self, bandwidth: BytesPerSec) -> Intensity {
        Intensity(self.0 / bandwidth.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_binary_multiples_with_three_figures() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes::from_mib(512).to_string(), "0.50 GiB");
        assert_eq!(Bytes::from_mib(20).to_string(), "20.0 MiB");
        // nvidia-smi's 81559 MiB of an H100: 81559 / 1024 = 79.647...
        assert_eq!(Bytes::from_mib(81_559).to_string(), "79.6 GiB");
        assert_eq!(Bytes(u64::MAX).round_up(512), Bytes(u64::MAX / 512 * 512 + 511));
    }

    #[test]
    fn differences_keep_their_sign() {
        let difference = Bytes::from_mib(1024) - Bytes::from_mib(3072);
        assert_eq!(difference.to_string(), "-2.00 GiB");
        assert_eq!((Bytes::from_mib(3072) - Bytes::from_mib(1024)).to_string(), "+2.00 GiB");
    }

    #[test]
    fn rates_print_in_decimal_multiples() {
        assert_eq!(BytesPerSec::from_giga(3352.0).to_string(), "3.35 TB/s");
        assert_eq!(FlopsPerSec::from_tera(989.4).to_string(), "989 TFLOP/s");
        assert_eq!(FlopsPerSec::from_tera(999.9).to_string(), "1.00 PFLOP/s");
    }

    #[test]
    fn durations_read_as_people_say_them() {
        assert_eq!(Seconds(85e-6).to_string(), "85.0 µs");
        assert_eq!(Seconds(3.56).to_string(), "3.56 s");
        assert_eq!(Seconds(725.0).to_string(), "12 min 05 s");
        assert_eq!(Seconds(4320.0).to_string(), "1 h 12 min");
        assert_eq!(Seconds(14.0 * 86400.0 + 3.0 * 3600.0).to_string(), "14 d 03 h");
    }

    #[test]
    fn the_ridge_of_an_h100_in_bf16() {
        // 989.4e12 / 3352e9 = 295.2 FLOP a byte.
        let ridge = FlopsPerSec::from_tera(989.4).ridge(BytesPerSec::from_giga(3352.0));
        assert_eq!(ridge.to_string(), "295 FLOP/B");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1_840, 12_000, 1_234_567].map(grouped), ["0", "999", "1 840", "12 000", "1 234 567"]);
    }
}
