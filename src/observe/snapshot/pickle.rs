//! Reads a pickle that holds nothing but data: numbers, texts, lists, tuples, dictionaries.
//!
//! A pickle is a program for a small stack machine. Whatever would look up a name or call
//! something is refused. Values live in one table and refer to each other by number, so that what
//! the pickle shares is shared here as well, and depth costs nothing: a bomb of references stays as
//! small as it is on disk. Memory and
//! steps have bounds.

mod machine;

use std::cell::Cell;

use machine::Machine;

use crate::units::Bytes;

/// The number of a value in the table.
pub type ValueId = u32;

/// Why a pickle is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// Its end is missing.
    #[error("it is cut off")]
    CutOff,
    /// It would look up a name or call something.
    #[error("it asks for code to be run; a snapshot holds data alone")]
    AsksForCode,
    /// An operation that plain data does not need, or that there is not.
    #[error("no pickle of plain data (operation {operation:#04x} at byte {at})")]
    NotData {
        /// Its code.
        operation: u8,
        /// Where it stands.
        at: usize,
    },
    /// More than its places can count.
    #[error("larger than 4 GiB")]
    FileTooLarge,
    /// The file and its values would take more memory than they may.
    #[error("the file and its values need more than {0} of memory: `--memory` allows more")]
    TooMuchMemory(Bytes),
    /// A length or a number beyond what there is room for.
    #[error("too large")]
    TooLarge,
    /// What an operation needs is not there.
    #[error("{0}")]
    Malformed(&'static str),
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::box_collection, reason = "most values are numbers, and every one takes as much as the largest")]
pub enum Value {
    /// None.
    Nothing,
    /// True or false.
    Truth(bool),
    /// A whole number; those beyond 64 bits are cut to its ends.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A text: its bytes within the pickle.
    Text(u32, u32),
    /// A list or a tuple.
    List(Box<Vec<ValueId>>),
    /// Pairs, in order.
    Dictionary(Box<Vec<(ValueId, ValueId)>>),
}

/// A pickle that was read.
#[derive(Debug)]
pub struct Pickle<'a> {
    bytes: &'a [u8],
    values: Vec<Value>,
    root: ValueId,
    /// Steps that may still be gone from value to value: see [`Pickle::is_exhausted`].
    steps: Cell<u64>,
}

/// Steps that any pickle may be gone through with, and for each of its values besides: a snapshot's take ten or so.
const STEPS: u64 = 50_000_000;
const STEPS_A_VALUE: u64 = 20;

/// A text is cut here.
const LONGEST_TEXT: usize = 4096;

impl<'a> Pickle<'a> {
    /// Reads a pickle. Its bytes and its values together take at most `most` of memory.
    ///
    /// # Errors
    /// Where it is cut off, is none, would run code, or is too large.
    pub fn read(bytes: &'a [u8], most: Bytes) -> Result<Self, PickleError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(PickleError::FileTooLarge);
        }
        let (values, root) = Machine::run(bytes, most)?;
        let steps = Cell::new(STEPS + STEPS_A_VALUE * values.len() as u64);
        Ok(Self { bytes, values, root, steps })
    }

    /// Whether reading has gone more steps than there is reason to: a small pickle may refer to its parts so often that
    /// going through them never ends. From then on there is nothing to be found in it.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    /// Takes so many steps; whether they could be taken.
    pub fn step(&self, count: usize) -> bool {
        self.steps.set(self.steps.get().saturating_sub(count as u64));
        !self.is_exhausted()
    }

    /// The outermost value.
    #[must_use]
    pub fn root(&self) -> &Value {
        self.value(self.root)
    }

    /// How many values there are: their numbers are smaller.
    #[must_use]
    pub const fn value_count(&self) -> usize {
        self.values.len()
    }

    /// The value of a number.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        // Numbers come from the table alone.
        self.values.get(id as usize).unwrap_or(&Value::Nothing)
    }

    /// A dictionary's value of that key.
    #[must_use]
    pub fn get(&self, dictionary: &Value, key: &str) -> Option<&Value> {
        self.get_id(dictionary, key).map(|id| self.value(id))
    }

    /// The number of a dictionary's value of that key.
    #[must_use]
    pub fn get_id(&self, dictionary: &Value, key: &str) -> Option<ValueId> {
        let Value::Dictionary(pairs) = dictionary else { return None };
        if !self.step(1 + pairs.len()) {
            return None;
        }
        pairs.iter().find(|(name, _)| self.bytes_of(self.value(*name)) == Some(key.as_bytes())).map(|(_, value)| *value)
    }

    /// A list's values.
    pub fn items<'b>(&'b self, list: Option<&'b Value>) -> impl Iterator<Item = &'b Value> {
        let ids: &[ValueId] = match list {
            Some(Value::List(ids)) if self.step(1 + ids.len()) => ids,
            _ => &[],
        };
        ids.iter().map(|id| self.value(*id))
    }

    /// A count.
    #[must_use]
    pub fn count(&self, value: Option<&Value>) -> Option<u64> {
        match value {
            Some(Value::Integer(number)) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A text, its beginning where it is long; bytes that are none are replaced.
    #[must_use]
    pub fn text(&self, value: Option<&Value>) -> Option<std::borrow::Cow<'a, str>> {
        let bytes = self.bytes_of(value?)?;
        Some(String::from_utf8_lossy(bytes.get(..LONGEST_TEXT).unwrap_or(bytes)))
    }

    fn bytes_of(&self, value: &Value) -> Option<&'a [u8]> {
        match value {
            Value::Text(start, end) => self.bytes.get(*start as usize..*end as usize),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
