//! Formulas over the keys of a configuration, in Python's notation and with its arithmetic: `+ - * // /`, brackets,
//! `int`, `min`, `max`, names with dots; `differ(a,b)` is 1 where two numbers are not equal, else 0.

use thiserror::Error;

/// Why a formula has no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormulaError {
    /// A key that the configuration and its class do not give as a number.
    #[error("{0}")]
    Unknown(String),
    /// What is left at a place where nothing of a formula follows.
    #[error("{0}: not a formula")]
    Malformed(String),
    /// What is left where a bracket should close.
    #[error("{0}: a bracket is open")]
    OpenBracket(String),
    /// More brackets within brackets than any formula has.
    #[error("brackets too deep")]
    TooDeep,
    /// A division by 0, or a number beyond 128 bits.
    #[error("divides by 0, or is beyond 128 bits")]
    OutOfRange,
}

/// A number as Python has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// `int`.
    Whole(i128),
    /// `float`.
    Real(f64),
}

impl Number {
    const fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn truncated(self) -> Self {
        match self {
            Self::Real(real) => Self::Whole(real as i128),
            whole @ Self::Whole(_) => whole,
        }
    }
}

/// The value of `formula`; `lookup` knows the names.
///
/// # Errors
/// What `lookup` says of a name, or what is wrong with the formula: a sign too many, a division by 0, a number beyond
/// 128 bits.
pub fn value(formula: &str, lookup: &dyn Fn(&str) -> Result<Number, FormulaError>) -> Result<Number, FormulaError> {
    let mut reader = Reader { rest: formula, lookup, depth: 0 };
    let value = reader.sum()?;
    if reader.rest.is_empty() { Ok(value) } else { Err(FormulaError::Malformed(reader.rest.to_owned())) }
}

struct Reader<'a> {
    rest: &'a str,
    lookup: &'a dyn Fn(&str) -> Result<Number, FormulaError>,
    depth: u32,
}

/// Brackets within brackets; the formulas have a dozen.
const DEEPEST: u32 = 64;

impl<'a> Reader<'a> {
    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Result<Number, FormulaError> {
        let mut sum = self.product()?;
        loop {
            if self.takes("+") {
                sum = combined(sum, self.product()?, i128::checked_add, |a, b| a + b)?;
            } else if self.takes("-") {
                sum = combined(sum, self.product()?, i128::checked_sub, |a, b| a - b)?;
            } else {
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<Number, FormulaError> {
        let mut product = self.factor()?;
        loop {
            if self.takes("*") {
                product = combined(product, self.factor()?, i128::checked_mul, |a, b| a * b)?;
            } else if self.takes("//") {
                product = combined(product, self.factor()?, i128::checked_div_euclid, |a, b| (a / b).floor())?;
            } else if self.takes("/") {
                product = Number::Real(product.real() / self.factor()?.real());
            } else {
                return Ok(product);
            }
        }
    }

    fn factor(&mut self) -> Result<Number, FormulaError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(FormulaError::TooDeep);
        }
        let factor = if self.takes("(") { self.bracket() } else { self.word() };
        self.depth -= 1;
        factor
    }

    fn bracket(&mut self) -> Result<Number, FormulaError> {
        let inner = self.sum()?;
        if self.takes(")") { Ok(inner) } else { Err(FormulaError::OpenBracket(self.rest.to_owned())) }
    }

    fn word(&mut self) -> Result<Number, FormulaError> {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(self.rest.len());
        let (word, rest): (&'a str, &'a str) = self.rest.split_at(end);
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let whole = word.parse().map(Number::Whole);
            return whole
                .or_else(|_| word.parse().map(Number::Real))
                .map_err(|_| FormulaError::Malformed(word.to_owned()));
        }
        if !matches!(word, "int" | "min" | "max" | "differ") {
            return if word.is_empty() { Err(FormulaError::Malformed(rest.to_owned())) } else { (self.lookup)(word) };
        }
        let mut of = if self.takes("(") { self.sum()? } else { return Err(FormulaError::Malformed(word.to_owned())) };
        while self.takes(",") {
            let other = self.sum()?;
            of = match word {
                "differ" => Number::Whole(i128::from(other != of)),
                _ if (word == "max") == (other.real() > of.real()) => other,
                _ => of,
            };
        }
        if !self.takes(")") {
            return Err(FormulaError::OpenBracket(self.rest.to_owned()));
        }
        Ok(if word == "int" { of.truncated() } else { of })
    }
}

fn combined(
    a: Number,
    b: Number,
    whole: impl Fn(i128, i128) -> Option<i128>,
    real: impl Fn(f64, f64) -> f64,
) -> Result<Number, FormulaError> {
    match (a, b) {
        (Number::Whole(a), Number::Whole(b)) => whole(a, b).map(Number::Whole).ok_or(FormulaError::OutOfRange),
        _ => Ok(Number::Real(real(a.real(), b.real()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(formula: &str) -> Result<Number, FormulaError> {
        value(formula, &|name| match name {
            "hidden_size" => Ok(Number::Whole(768)),
            "depths.0" => Ok(Number::Whole(3)),
            "mlp_ratio" => Ok(Number::Real(2.5)),
            _ => Err(FormulaError::Unknown(name.to_owned())),
        })
    }

    #[test]
    fn arithmetic_is_pythons() {
        assert_eq!(of("2+3*4"), Ok(Number::Whole(14)));
        assert_eq!(of("(2+3)*4-1"), Ok(Number::Whole(19)));
        assert_eq!(of("hidden_size*depths.0//5"), Ok(Number::Whole(460)));
        assert_eq!(of("int(hidden_size*mlp_ratio)+1"), Ok(Number::Whole(1921)));
        assert_eq!(of("int(hidden_size/7)"), Ok(Number::Whole(109)));
        assert_eq!(of("max(depths.0,8)*min(2,depths.0)"), Ok(Number::Whole(16)));
        assert_eq!(of("differ(hidden_size,768)*5+differ(hidden_size,depths.0)*7"), Ok(Number::Whole(7)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(of("other+1"), Err(FormulaError::Unknown("other".to_owned())));
        for broken in ["", "1+", "(1", "1)", "1//0", "int", "9999999999999999999999*9999999999999999999999"] {
            assert!(of(broken).is_err(), "{broken}");
        }
        assert!(of(&"(".repeat(100_000)).is_err());
    }
}
