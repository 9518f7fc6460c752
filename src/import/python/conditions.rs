//! Whether a condition of a script holds.

use serde_json::Value;

use super::script::FollowedScript;
use super::store::Collection;
use super::syntax::Expression;
use super::value::{ArgumentSource, Known};

/// No deeper lists are compared.
const DEEPEST: usize = 3;

impl FollowedScript<'_> {
    /// Whether a condition holds, none where that is not known, and what that rests upon.
    pub(super) fn holds(&mut self, condition: &Expression) -> (Option<bool>, ArgumentSource) {
        match condition {
            Expression::Not(inner) => {
                let (holds, source) = self.holds(inner);
                (holds.map(|holds| !holds), source)
            }
            Expression::Compare(first, others) => {
                let mut left = self.evaluate(first);
                let (mut answer, mut source) = (Some(true), left.source());
                for (sign, other) in others {
                    let right = self.evaluate(other);
                    source = source.and(&right.source());
                    match self.compare(&left, sign, &right) {
                        Some(true) => {}
                        Some(false) => return (Some(false), source),
                        None => answer = None,
                    }
                    left = right;
                }
                (answer, source)
            }
            _ => {
                let value = self.evaluate(condition);
                (self.truth(&value), value.source())
            }
        }
    }

    /// Whether a value counts as true.
    pub(super) fn truth(&self, value: &Known) -> Option<bool> {
        match value {
            Known::Plain(Value::Bool(truth), _) => Some(*truth),
            Known::Plain(Value::Null, _) => Some(false),
            Known::Plain(Value::Number(number), _) => number.as_f64().map(|number| number != 0.0),
            Known::Plain(Value::String(text), _) => Some(!text.is_empty()),
            Known::Collection(at) => match self.store.get(*at)? {
                Collection::List(items) => items.as_ref().map(|items| !items.is_empty()),
                Collection::Names(names) if names.object || !names.values.is_empty() => Some(true),
                Collection::Names(names) => (!names.open).then_some(false),
            },
            Known::Function(..) | Known::Class(_) | Known::Library(_) => Some(true),
            _ => None,
        }
    }

    fn compare(&self, left: &Known, sign: &str, right: &Known) -> Option<bool> {
        let open = |value: &Known| value.is_open() || matches!(value, Known::Made(..));
        if matches!(sign, "is" | "is not") {
            let same = match (left, right) {
                // What a library makes is something.
                (Known::Made(..), Known::Plain(Value::Null, _)) => false,
                _ if open(left) || open(right) => return None,
                _ => left.same(right),
            };
            return Some(same == (sign == "is"));
        }
        if open(left) || open(right) {
            return None;
        }
        let numbers = left.number().zip(right.number());
        match sign {
            "==" | "!=" => {
                #[allow(clippy::float_cmp)]
                let same = numbers.map_or_else(|| self.alike(left, right, 0), |(left, right)| Some(left == right))?;
                Some(same == (sign == "=="))
            }
            "<" => numbers.map(|(left, right)| left < right),
            ">" => numbers.map(|(left, right)| left > right),
            "<=" => numbers.map(|(left, right)| left <= right),
            ">=" => numbers.map(|(left, right)| left >= right),
            "in" | "not in" => self.within(left, right).map(|within| within == (sign == "in")),
            _ => None,
        }
    }

    fn alike(&self, left: &Known, right: &Known, depth: usize) -> Option<bool> {
        match (self.store.items(left), self.store.items(right)) {
            _ if depth > DEEPEST => None,
            (Some(left), Some(right)) if left.len() != right.len() => Some(false),
            (Some(left), Some(right)) => left
                .iter()
                .zip(right)
                .map(|(left, right)| self.alike(left, right, depth + 1))
                .try_fold(true, |all, one| Some(all && one?)),
            _ if left.is_open() || right.is_open() => None,
            _ => Some(left.same(right)),
        }
    }

    fn within(&self, one: &Known, all: &Known) -> Option<bool> {
        if let Some(items) = self.store.items(all) {
            let answers: Vec<Option<bool>> = items.iter().map(|item| self.alike(one, item, 0)).collect();
            return if answers.contains(&Some(true)) {
                Some(true)
            } else {
                (!answers.contains(&None)).then_some(false)
            };
        }
        match (all, one.text()) {
            (Known::Plain(Value::String(text), _), Some(part)) => Some(text.contains(part)),
            (Known::Collection(at), Some(name)) => {
                let names = self.store.names(*at)?;
                if names.values.contains_key(name) { Some(true) } else { (!names.open).then_some(false) }
            }
            _ => None,
        }
    }
}
