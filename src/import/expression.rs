//! Arithmetic over whole numbers, as shells (`$((A * 8))`) and configuration files in Python
//! (`5 * 8`) write it.

/// How many brackets may stand in each other.
const MAX_DEPTH: usize = 32;

/// The value of an expression of whole numbers, names, `+ - * / // %` and brackets as shells have it; none where
/// it holds anything else. `known` gives the value of a name.
pub fn whole(text: &str, known: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    read(text, known, false)
}

/// The same as Python has it: `/` gives a fraction, so a whole number only where it divides; `//` goes down.
pub fn python(text: &str, known: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    read(text, known, true)
}

fn read(text: &str, known: &dyn Fn(&str) -> Option<i64>, python: bool) -> Option<i64> {
    let mut reader = Reader { rest: text.trim(), known, python };
    let value = reader.sum(0)?;
    reader.rest.trim_start().is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    python: bool,
    known: &'a dyn Fn(&str) -> Option<i64>,
}

impl Reader<'_> {
    fn sum(&mut self, depth: usize) -> Option<i64> {
        let mut value = self.product(depth)?;
        loop {
            if self.takes("+") {
                value = value.checked_add(self.product(depth)?)?;
            } else if self.takes("-") {
                value = value.checked_sub(self.product(depth)?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self, depth: usize) -> Option<i64> {
        let mut value = self.one(depth)?;
        loop {
            if self.rest.trim_start().starts_with("**") {
                return None;
            } else if self.takes("*") {
                value = value.checked_mul(self.one(depth)?)?;
            } else if self.takes("//") {
                let divisor = self.one(depth)?;
                value = if self.python { floored(value, divisor)? } else { value.checked_div(divisor)? };
            } else if self.takes("/") {
                let divisor = self.one(depth)?;
                if self.python && value.checked_rem(divisor)? != 0 {
                    return None;
                }
                value = value.checked_div(divisor)?;
            } else if self.takes("%") {
                value = value.checked_rem(self.one(depth)?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn one(&mut self, depth: usize) -> Option<i64> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.takes("(") {
            let value = self.sum(depth + 1)?;
            return self.takes(")").then_some(value);
        }
        if self.takes("-") {
            return self.one(depth + 1)?.checked_neg();
        }
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if word.starts_with(|letter: char| letter.is_ascii_digit()) {
            word.replace('_', "").parse().ok()
        } else {
            (self.known)(word)
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        if let Some(rest) = rest {
            self.rest = rest;
        }
        rest.is_some()
    }
}

fn floored(value: i64, divisor: i64) -> Option<i64> {
    let quotient = value.checked_div(divisor)?;
    let below = value.checked_rem(divisor)? != 0 && (value < 0) != (divisor < 0);
    quotient.checked_sub(i64::from(below))
}

#[cfg(test)]
mod tests {
    use super::{python, whole};

    #[test]
    fn python_divides_into_fractions() {
        for (text, value) in [("8 / 2", Some(4)), ("7 / 2", None), ("7 // 2", Some(3)), ("-7 // 2", Some(-4))] {
            assert_eq!(python(text, &|_| None), value, "{text}");
        }
        assert_eq!(whole("7 / 2", &|_| None), Some(3));
    }

    #[test]
    fn arithmetic_as_shells_and_python_have_it() {
        let known = |name: &str| (name == "GPUS").then_some(8);
        for (text, value) in [
            ("5 * 8", Some(40)),
            ("2 + 3*(GPUS - 1)", Some(23)),
            ("-4 // 2", Some(-2)),
            ("1_000 % 7", Some(6)),
            ("GPUS/0", None),
            ("2**40", None),
            ("other", None),
            ("9223372036854775807 + 1", None),
            ("(1", None),
            ("1 2", None),
            ("", None),
        ] {
            assert_eq!(whole(text, &known), value, "{text}");
        }
        assert_eq!(whole(&"(".repeat(100_000), &known), None);
        assert_eq!(whole(&"-".repeat(100_000), &known), None);
    }
}
