//! Quantities as types, so that bytes are never added to seconds and GB never
//! taken for GiB.
//!
//! `Bytes` is an exact count (`u64`, saturating: a plan whose sizes could reach
//! 2^63 is refused before it gets here). The rest are `f64` in their base unit.
//! Every quantity prints itself with its unit and three significant figures;
//! [`Bytes`] in binary multiples, because `nvidia-smi` and PyTorch do so, rates in
//! decimal ones, because datasheets do so.

mod bytes;

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

pub use bytes::{Bytes, GIB, MIB, SignedBytes};

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

/// A count with its noun, in the singular of one.
///
/// ```
/// # use memwall_core as memwall;
/// use memwall::units::counted;
///
/// assert_eq!([1, 1_840].map(|count| counted(count, "pass", "passes")), ["1 pass", "1 840 passes"]);
/// ```
#[must_use]
pub fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { several })
}

/// A count of parameters: every one of a small model, three figures of a large one.
///
/// ```
/// # use memwall_core as memwall;
/// use memwall::units::parameter_count;
///
/// assert_eq!([328_936, 124_439_808, 6_738_415_616].map(parameter_count), ["328 936", "124 M", "6.74 B"]);
/// ```
#[must_use]
pub fn parameter_count(params: u64) -> String {
    match params {
        0..10_000_000 => grouped(params),
        10_000_000..1_000_000_000 => format!("{} M", three_figures(params as f64 / 1e6)),
        _ => format!("{} B", three_figures(params as f64 / 1e9)),
    }
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

        impl $name {
            /// None at all (a known zero, not an unknown).
            pub const ZERO: Self = Self(0.0);

            /// The greater of both.
            #[must_use]
            pub const fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            /// The smaller of both.
            #[must_use]
            pub const fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
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

        impl Mul<$name> for f64 {
            type Output = $name;
            fn mul(self, one: $name) -> $name {
                $name(self * one.0)
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

impl Seconds {
    /// What can be said of a time that lies ahead: `45 s`, `24 min`, `5 h`, `2.6 d`, `12 d`.
    #[must_use]
    pub fn roughly(self) -> String {
        let seconds = self.0;
        if !seconds.is_finite() || seconds < 0.0 {
            "–".to_owned()
        } else if seconds < 90.0 {
            format!("{seconds:.0} s")
        } else if seconds < 5400.0 {
            format!("{:.0} min", seconds / 60.0)
        } else if seconds < 48.0 * 3600.0 {
            format!("{:.0} h", seconds / 3600.0)
        } else {
            let days = seconds / 86_400.0;
            if days < 9.95 { format!("{days:.1} d") } else { format!("{days:.0} d") }
        }
    }
}

impl Seconds {
    /// What can be said of a time that has passed: `45 s`, `90 s`, `2 min 05 s`, `1 h 12 min`.
    #[must_use]
    pub fn to_the_second(self) -> String {
        Self(self.0.round()).to_string()
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

impl FlopsPerSec {
    /// The ridge point of a roofline: the intensity at which memory and compute bind alike.
    #[must_use]
    pub fn ridge(self, bandwidth: BytesPerSec) -> Intensity {
        Intensity(self.0 / bandwidth.0)
    }
}

#[cfg(test)]
mod tests;
