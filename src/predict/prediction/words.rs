//! Texts in a prediction that are put together only where they are read: a prediction is made with every key press
//! and read a screen at a time, and writing its texts out takes longer than computing them.

use std::fmt;

use crate::units::Bytes;

/// Words with figures in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// Words alone.
    Plain(&'static str),
    /// One after another.
    Pieces(Vec<WordsPiece>),
}

/// A part of [`Words`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordsPiece {
    /// As it stands.
    Text(&'static str),
    /// A number.
    Count(u64),
    /// A size, with its unit.
    Size(Bytes),
}

impl Words {
    /// Nothing.
    pub const NONE: Self = Self::Plain("");

    /// These, and `more` behind them.
    #[must_use]
    pub fn then(self, more: Self) -> Self {
        match (self, more) {
            (Self::NONE, more) | (more, Self::NONE) => more,
            (Self::Pieces(mut pieces), Self::Plain(text)) => {
                pieces.push(WordsPiece::Text(text));
                Self::Pieces(pieces)
            }
            (Self::Plain(text), Self::Plain(more)) => {
                Self::Pieces(vec![WordsPiece::Text(text), WordsPiece::Text(more)])
            }
            (Self::Plain(text), Self::Pieces(mut pieces)) => {
                pieces.insert(0, WordsPiece::Text(text));
                Self::Pieces(pieces)
            }
            (Self::Pieces(mut pieces), Self::Pieces(more)) => {
                pieces.extend(more);
                Self::Pieces(pieces)
            }
        }
    }
}

impl From<&'static str> for Words {
    fn from(text: &'static str) -> Self {
        Self::Plain(text)
    }
}

impl From<&'static str> for WordsPiece {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for WordsPiece {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<Bytes> for WordsPiece {
    fn from(size: Bytes) -> Self {
        Self::Size(size)
    }
}

impl fmt::Display for WordsPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => count.fmt(f),
            Self::Size(size) => size.fmt(f),
        }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::Pieces(pieces) => pieces.iter().try_for_each(|piece| piece.fmt(f)),
        }
    }
}

/// [`Words`] of texts, counts and sizes in a row, with room for what may come behind them.
macro_rules! words {
    ($($piece:expr),+ $(,)?) => {{
        let mut pieces = Vec::with_capacity(12);
        pieces.extend([$($crate::predict::WordsPiece::from($piece)),+]);
        $crate::predict::Words::Pieces(pieces)
    }};
}
pub(in crate::predict) use words;

/// Where in the step something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A part that has a name ("loss and head").
    Named(&'static str),
    /// The layer of that number.
    Layer(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.pad(name),
            Self::Layer(layer) => write!(f, "block {layer}"),
        }
    }
}
