//! Reading keys of a Hugging Face configuration: absent, `null` or of a known type.

use serde_json::{Map, Value};

use crate::plan::Fault;

/// Sizes beyond these are mistakes, and products of them would not fit in 64 bits.
pub const MAX_WIDTH: u64 = 1 << 20;
/// Layers, heads and experts.
pub const MAX_COUNT: u64 = 100_000;
/// Rows of a vocabulary or of a position table.
pub const MAX_ROWS: u64 = 1 << 27;

/// A configuration's keys, with the path by which faults name them.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    map: &'a Map<String, Value>,
}

impl<'a> Keys<'a> {
    /// The keys of `map`.
    pub const fn of(map: &'a Map<String, Value>) -> Self {
        Self { map }
    }

    fn get(self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A fault of the key `name`.
    pub fn fault(name: &str, message: impl Into<String>) -> Fault {
        Fault::of(format!("model.hf_config.{name}"), message)
    }

    /// A whole number from 1 to `most` under the first of `names` that is there.
    pub fn count(self, names: &[&str], most: u64) -> Result<Option<u64>, Fault> {
        let Some((name, value)) = names.iter().find_map(|name| Some((name, self.get(name)?))) else {
            return Ok(None);
        };
        let whole = value
            .as_u64()
            .ok_or_else(|| Self::fault(name, format!("must be a whole number above 0, is {}", short(value))))?;
        if whole == 0 || whole > most {
            return Err(Self::fault(name, format!("must be from 1 to {most}, is {whole}")));
        }
        Ok(Some(whole))
    }

    /// A whole number from 0 to `most`.
    pub fn whole(self, name: &str, most: u64) -> Result<Option<u64>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(whole) if whole <= most => Ok(Some(whole)),
                _ => Err(Self::fault(name, format!("must be a whole number from 0 to {most}, is {}", short(value)))),
            },
        }
    }

    /// True or false, `otherwise` when absent. A class keeps an explicit null as `None`, which is false.
    pub fn flag(self, name: &str, otherwise: bool) -> Result<bool, Fault> {
        match self.map.get(name) {
            None => Ok(otherwise),
            Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(value) => Err(Self::fault(name, format!("must be true or false, is {}", short(value)))),
        }
    }

    /// A number from 0 to 1, `otherwise` when absent.
    pub fn share(self, names: &[&str], otherwise: f64) -> Result<f64, Fault> {
        let Some((name, value)) = names.iter().find_map(|name| Some((name, self.get(name)?))) else {
            return Ok(otherwise);
        };
        match value.as_f64() {
            Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(Self::fault(name, format!("must be a number from 0 to 1, is {}", short(value)))),
        }
    }

    /// A positive number.
    pub fn number(self, name: &str) -> Result<Option<f64>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) if number.is_finite() && number > 0.0 && number < 1e3 => Ok(Some(number)),
                _ => Err(Self::fault(name, format!("must be a number above 0 and below 1000, is {}", short(value)))),
            },
        }
    }

    /// A text under the first of `names`.
    pub fn text(self, names: &[&str]) -> Option<&'a str> {
        names.iter().find_map(|name| self.get(name)?.as_str())
    }

    /// A list of whole numbers, each at most `most`.
    pub fn counts(self, name: &str, most: u64) -> Result<Option<Vec<u64>>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let broken = || Self::fault(name, format!("must be a list of whole numbers up to {most}, is {}", short(value)));
        let list = value.as_array().ok_or_else(broken)?;
        let counts: Option<Vec<u64>> = list.iter().map(|item| item.as_u64().filter(|count| *count <= most)).collect();
        counts.map(Some).ok_or_else(broken)
    }

    /// A list of pairs of whole numbers, each at most `most`.
    pub fn pairs(self, name: &str, most: u64) -> Result<Option<Vec<(u64, u64)>>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let broken = || Self::fault(name, format!("must be a list of pairs of whole numbers, is {}", short(value)));
        let count = |value: &Value| value.as_u64().filter(|count| *count <= most);
        let pair = |item: &Value| match item.as_array().map(Vec::as_slice) {
            Some([first, second]) => count(first).zip(count(second)),
            _ => None,
        };
        let pairs: Option<Vec<_>> = value.as_array().ok_or_else(broken)?.iter().map(pair).collect();
        pairs.map(Some).ok_or_else(broken)
    }

    /// The first text of a list.
    pub fn first_text(self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_array()?.first()?.as_str()
    }

    /// How far from the end a place is that is counted from there: -1 is the last; none where it is not.
    pub fn place_from_end(self, name: &str, otherwise: u64) -> Option<u64> {
        match self.map.get(name) {
            None | Some(Value::Null) => Some(otherwise),
            Some(value) => value.as_i64().filter(|place| *place < 0).map(i64::unsigned_abs),
        }
    }

    /// Whether the key holds a list.
    pub fn is_list(self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_array)
    }

    /// A list of texts.
    pub fn texts(self, name: &str) -> Option<Vec<&'a str>> {
        self.get(name)?.as_array()?.iter().map(Value::as_str).collect()
    }

    /// A list of truths.
    pub fn flags(self, name: &str) -> Option<Vec<bool>> {
        self.get(name)?.as_array()?.iter().map(Value::as_bool).collect()
    }

    /// Whether the key is there and `null`: set to nothing, where an absent one has its class's default.
    pub fn is_null(self, name: &str) -> bool {
        self.map.get(name).is_some_and(Value::is_null)
    }

    /// Whether the key is there and not `null`.
    pub fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether the key holds a number below 0.
    pub fn is_negative(self, name: &str) -> bool {
        self.get(name).and_then(Value::as_f64).is_some_and(|number| number < 0.0)
    }

    /// Entries of an inner mapping.
    pub fn size_of(self, name: &str) -> Option<u64> {
        let entries = self.get(name)?.as_object()?.len() as u64;
        (entries > 0).then_some(entries)
    }

    /// An inner mapping.
    pub fn inner(self, name: &str) -> Option<Self> {
        self.get(name)?.as_object().map(Keys::of)
    }
}

/// A value as a message shows it: at most forty characters.
fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 { text } else { text.chars().take(39).chain(['…']).collect() }
}
