//! A key and the values that it is to take.

use std::path::Path;

use crate::plan::schema::{self, PlanKey, ValueKind};
use crate::plan::{Change, Fault, PlanOverlay};

/// Most points that a sweep takes: more rows than this nobody reads, and a slip (`1..1e9`) asks for.
pub const MOST_POINTS: usize = 100_000;

/// One key of the plan, with values to try in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The key.
    pub key: &'static PlanKey,
    /// Its values as a plan would write them; `null`: the key is left out.
    pub values: Vec<String>,
    overlays: Vec<PlanOverlay>,
}

impl Axis {
    /// Reads `KEY=v1,v2,…`. A value is written as in a plan; `1..8` counts up by one, `1..=64x2` doubles,
    /// `2048..8192+2048` adds; the last number is among the values where the steps meet it. Paths of files start at
    /// `folder`.
    ///
    /// # Errors
    /// Where the key is unknown, a value is none of its kind, or there are too many.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Fault> {
        let (name, values) =
            text.split_once('=').ok_or_else(|| Fault::of(text, "needs values: KEY=v1,v2,… or KEY=1..64x2"))?;
        let key = schema::named(name.trim())?;
        if key.kind == ValueKind::Section {
            return Err(Fault::of(key.path, "is a group of keys; name one of them"));
        }
        let counts = !matches!(key.kind, ValueKind::Text | ValueKind::Texts | ValueKind::PathOrKeys);
        let mut all = Vec::new();
        for part in parts(values) {
            match part.split_once("..").filter(|_| counts) {
                Some((from, rest)) => range(key.path, from, rest, &mut all)?,
                None => all.push(part.to_owned()),
            }
            if all.len() > MOST_POINTS {
                return Err(too_many(key.path));
            }
        }
        let overlays =
            all.iter().map(|value| PlanOverlay::read(&change(key, value), folder)).collect::<Result<_, _>>()?;
        Ok(Self { key, values: all, overlays })
    }

    /// What its `index`-th value makes of a plan.
    pub(super) fn overlay(&self, index: usize) -> &PlanOverlay {
        &self.overlays[index]
    }

    /// The values as numbers, where all of them are.
    #[must_use]
    pub fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(|value| value.parse().ok().filter(|number: &f64| number.is_finite())).collect()
    }
}

fn change(key: &'static PlanKey, value: &str) -> Change {
    if value == "null" { Change { set: Vec::new(), remove: vec![key.path] } } else { Change::to(key.path, value) }
}

fn too_many(key: &str) -> Fault {
    Fault::of(key, format!("more than {MOST_POINTS} values"))
}

/// The text between commas that stand in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// Counts from `from` to the end that `rest` names, by its step.
fn range(key: &str, from: &str, rest: &str, into: &mut Vec<String>) -> Result<(), Fault> {
    let refused = |why: &str| Err(Fault::of(key, format!("`{from}..{rest}`: {why}")));
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    let (to, step) = match rest.find(['x', '+']) {
        Some(at) => (&rest[..at], Some((rest.as_bytes()[at], &rest[at + 1..]))),
        None => (rest, None),
    };
    let number = |text: &str| text.trim().replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite());
    let by = step.map_or(Some(1.0), |(_, by)| number(by));
    let (Some(first), Some(last), Some(by)) = (number(from), number(to), by) else {
        return refused("not a range; write 1..8, 1..64x2 or 2048..8192+2048");
    };
    let doubles = matches!(step, Some((b'x', _)));
    if last < first {
        return refused("ends before it starts");
    }
    if (doubles && (by <= 1.0 || first <= 0.0)) || (!doubles && by <= 0.0) {
        return refused("its steps never reach the end");
    }
    // Counted from the start, so that 0.1 + 0.1 + 0.1 is 0.3.
    for count in 0.. {
        let value = if doubles { first * by.powi(count) } else { first + by * f64::from(count) };
        if value > last * (1.0 + 1e-12) {
            break;
        }
        if into.len() > MOST_POINTS {
            return Err(too_many(key));
        }
        into.push(written(value));
    }
    Ok(())
}

/// Without the digits that only the float's binary form has.
fn written(value: f64) -> String {
    let rounded = format!("{value:.9}");
    rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Result<Vec<String>, String> {
        Axis::parse(text, Path::new("")).map(|axis| axis.values).map_err(|fault| fault.to_string())
    }

    #[test]
    fn values_are_listed_counted_and_doubled() {
        assert_eq!(values("batch_size=8, 16").unwrap(), ["8", "16"]);
        assert_eq!(values("batch_size=1..4,9").unwrap(), ["1", "2", "3", "4", "9"]);
        assert_eq!(values("batch_size=1..=40x3").unwrap(), ["1", "3", "9", "27"]);
        assert_eq!(values("sequence_length=2048..=8192+2048").unwrap(), ["2048", "4096", "6144", "8192"]);
        assert_eq!(values("training.dropout=0..0.3+0.1").unwrap(), ["0", "0.1", "0.2", "0.3"]);
        let modules = values("training.activation_checkpointing=none,{every: 2},{modules: [mlp, moe_act]}").unwrap();
        assert_eq!(modules, ["none", "{every: 2}", "{modules: [mlp, moe_act]}"]);
        assert_eq!(values("micro_batch_size=null,1").unwrap(), ["null", "1"]);
    }

    #[test]
    fn what_makes_no_sense_is_one_clear_fault() {
        for (text, said) in [
            ("batch_size", "needs values"),
            ("batch_size=", "needs a value"),
            ("colour=1", "unknown key `colour`"),
            ("model=1", "is a group of keys"),
            ("batch_size=8..1", "ends before it starts"),
            ("batch_size=1..8x1", "never reach the end"),
            ("batch_size=1..8+0", "never reach the end"),
            ("batch_size=1..1000000000", "more than 100000 values"),
            ("batch_size=1..b", "not a range"),
            ("batch_size=0", "`0` where a whole number from 1"),
            ("precision=bf16,bf61", "no precision"),
        ] {
            let told = values(text).unwrap_err();
            assert!(told.contains(said), "{text}: {told}");
        }
    }
}
