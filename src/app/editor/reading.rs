//! Texts so long that reading one takes longer than a key may: they are read beside the loop, and the last good
//! plan stays meanwhile.

use super::Editor;
use crate::catalog::Catalog;
use crate::plan::{Document, Fault};

/// Bytes up to which a text is read at once.
pub const AT_ONCE: usize = 256 * 1024;

/// How the reading of a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadingState {
    /// It is read.
    #[default]
    Read,
    /// It is to be read.
    Unread,
    /// It is being read, under that number.
    Asked(u64),
    /// An older one is being read, under that number.
    Stale(u64),
}

impl ReadingState {
    /// The text is another one now.
    pub const fn changed(self) -> Self {
        match self {
            Self::Read | Self::Unread => Self::Unread,
            Self::Asked(number) | Self::Stale(number) => Self::Stale(number),
        }
    }

    /// Somebody reads under that number.
    pub fn waits_for(self, number: u64) -> bool {
        matches!(self, Self::Asked(asked) | Self::Stale(asked) if asked == number)
    }
}

impl Editor {
    /// How the reading of the text stands.
    #[must_use]
    pub const fn standing(&self) -> ReadingState {
        self.standing
    }

    /// The text, where it is to be read and nobody does; from now on somebody does, under that number.
    pub fn begin_reading(&mut self, number: u64) -> Option<String> {
        (self.standing == ReadingState::Unread).then(|| {
            self.standing = ReadingState::Asked(number);
            self.text.clone()
        })
    }

    /// Takes in what a text was read as; one that has changed meanwhile is to be read again.
    pub fn take_reading(&mut self, read: Result<Document, Vec<Fault>>, catalog: &Catalog) {
        if let ReadingState::Stale(_) = self.standing {
            self.standing = ReadingState::Unread;
            return;
        }
        self.take_read(read, catalog);
    }

    /// Reads the text again, or leaves it to be read where that takes long.
    pub(super) fn follow_text(&mut self, catalog: &Catalog) {
        if self.text.len() <= AT_ONCE {
            return self.read_again(catalog);
        }
        self.document = None;
        self.standing = self.standing.changed();
    }
}
