//! What a name of a script stands for, as far as it can be told without running it.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::{Number, Value};

use super::syntax::{Class, Function};

/// No text that matters is longer.
const LONGEST_TEXT: usize = 65_536;

/// Which of the script's own arguments a value comes from.
#[derive(Debug, Clone, Default)]
pub struct ArgumentSource {
    names: Option<Rc<BTreeSet<String>>>,
    /// Whether the script divides it among its ranks.
    pub divided: bool,
}

impl ArgumentSource {
    /// Of what the script divides among its ranks.
    pub const DIVIDED: Self = Self { names: None, divided: true };

    /// An argument.
    pub fn argument(name: &str) -> Self {
        Self { names: Some(Rc::new(BTreeSet::from([name.to_owned()]))), divided: false }
    }

    /// What comes from both.
    pub fn and(&self, other: &Self) -> Self {
        let names = match (&self.names, &other.names) {
            (Some(one), Some(two)) => Some(Rc::new(one.union(two).cloned().collect())),
            (one, two) => one.clone().or_else(|| two.clone()),
        };
        Self { names, divided: self.divided || other.divided }
    }

    /// The arguments by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flat_map(|names| names.iter().map(String::as_str))
    }
}

/// A value.
#[derive(Debug, Clone)]
pub enum Known {
    /// A text, a number, a truth value, `None`.
    Plain(Value, ArgumentSource),
    /// A list, a dictionary, an object: by its place in the [`ScriptState`](super::store::ScriptState).
    Collection(usize),
    /// A function of the script's own, and the object that it is called of.
    Function(Rc<Function>, Option<usize>),
    /// A class of the script's own.
    Class(Rc<Class>),
    /// Something of a library, by its path: `torch.bfloat16`.
    Library(String),
    /// What a call of a library gave, by the path of what was called, and the place of that call among those that were
    /// seen, where it is one.
    Made(String, Option<usize>),
    /// A file that is open for reading, by its path, and what that rests upon.
    Opened(String, ArgumentSource),
    /// How many processes train.
    Ranks,
    /// What a file of settings was asked for and has not: no run comes there.
    Absent,
    /// Not known; the names by which it was asked for.
    Open(Vec<String>),
}

impl Known {
    /// Nothing that could be told.
    pub const UNKNOWN: Self = Self::Open(Vec::new());

    /// A plain value.
    pub fn plain(value: impl Into<Value>) -> Self {
        Self::Plain(value.into(), ArgumentSource::default())
    }

    /// A text; one that is too long is not known.
    pub fn of_text(text: String) -> Self {
        if text.len() <= LONGEST_TEXT { Self::plain(text) } else { Self::UNKNOWN }
    }

    /// A number, as a whole one where it is such.
    pub fn numeral(number: f64, whole: bool) -> Self {
        #[allow(clippy::cast_possible_truncation)]
        let as_whole = number as i64;
        if whole && number.abs() < 2_f64.powi(53) {
            return Self::plain(as_whole);
        }
        Number::from_f64(number).map_or(Self::UNKNOWN, |number| Self::plain(Value::Number(number)))
    }

    /// The same value, which rests upon a further source.
    pub fn also(self, source: &ArgumentSource) -> Self {
        match self {
            Self::Plain(value, own) => Self::Plain(value, own.and(source)),
            other => other,
        }
    }

    /// Where it comes from.
    pub fn source(&self) -> ArgumentSource {
        match self {
            Self::Plain(_, source) => source.clone(),
            _ => ArgumentSource::default(),
        }
    }

    /// Its text, where it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Plain(Value::String(text), _) => Some(text),
            _ => None,
        }
    }

    /// Its number; a truth value counts as in Python.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Plain(Value::Number(number), _) => number.as_f64(),
            Self::Plain(Value::Bool(truth), _) => Some(f64::from(u8::from(*truth))),
            _ => None,
        }
    }

    /// Its whole number.
    pub fn whole(&self) -> Option<i64> {
        match self {
            Self::Plain(Value::Number(number), _) => number.as_i64(),
            Self::Plain(Value::Bool(truth), _) => Some(i64::from(*truth)),
            _ => None,
        }
    }

    /// Whether it is not known.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Ranks | Self::Absent)
    }

    /// What either of two is, it is not known which: none where nothing can be told of both.
    pub fn either(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            _ if self.same(other) => Some(self.clone().also(&other.source())),
            // Of two calls it is such a thing, though not known with what in it.
            (Self::Made(one, _), Self::Made(two, _)) if one == two => Some(Self::Made(one.clone(), None)),
            _ => None,
        }
    }

    /// Whether both are the same for certain.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(one, _), Self::Plain(two, _)) => one == two,
            (Self::Collection(one), Self::Collection(two)) => one == two,
            (Self::Function(one, of), Self::Function(two, other)) => Rc::ptr_eq(one, two) && of == other,
            (Self::Class(one), Self::Class(two)) => Rc::ptr_eq(one, two),
            (Self::Library(one), Self::Library(two)) => one == two,
            (Self::Made(one, call), Self::Made(two, other)) => one == two && call == other,
            (Self::Ranks, Self::Ranks) | (Self::Absent, Self::Absent) => true,
            // Neither is known, so neither name is better than the other.
            _ => false,
        }
    }
}
