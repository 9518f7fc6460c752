//! Undo and redo without end: what each change took out of the text and put into it.

/// One change of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Revision {
    /// Bytes before it.
    at: usize,
    removed: String,
    inserted: String,
    /// Typed letter by letter: the next letter behind it belongs to it.
    typed: bool,
}

/// Every change since a text was opened.
#[derive(Debug, Clone, Default)]
pub struct Revisions {
    done: Vec<Revision>,
    undone: Vec<Revision>,
}

/// Bytes that are compared at a time.
const BLOCK: usize = 4096;

/// How many bytes are the same from where both begin: whole blocks first, which large texts are told apart by quickly.
fn alike<'a>(
    blocks: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    bytes: impl Iterator<Item = (&'a u8, &'a u8)>,
) -> usize {
    let blocks: usize = blocks.take_while(|(one, other)| one == other).map(|(one, _)| one.len()).sum();
    blocks + bytes.skip(blocks).take_while(|(one, other)| one == other).count()
}

impl Revision {
    /// What makes `after` of `before`; none where they are the same.
    fn between(before: &str, after: &str, typed: bool) -> Option<Self> {
        let (one, other) = (before.as_bytes(), after.as_bytes());
        let mut start = alike(one.chunks(BLOCK).zip(other.chunks(BLOCK)), one.iter().zip(other));
        while !before.is_char_boundary(start) || !after.is_char_boundary(start) {
            start -= 1;
        }
        let (old, new) = (&before[start..], &after[start..]);
        let (one, other) = (old.as_bytes(), new.as_bytes());
        let mut end = alike(one.rchunks(BLOCK).zip(other.rchunks(BLOCK)), one.iter().rev().zip(other.iter().rev()));
        while !old.is_char_boundary(old.len() - end) || !new.is_char_boundary(new.len() - end) {
            end -= 1;
        }
        let (removed, inserted) = (&old[..old.len() - end], &new[..new.len() - end]);
        (!removed.is_empty() || !inserted.is_empty()).then(|| Self {
            at: start,
            removed: removed.to_owned(),
            inserted: inserted.to_owned(),
            typed,
        })
    }

    /// Whether `next` goes on where this left off, within one word or number.
    fn goes_on(&self, next: &Self) -> bool {
        let letters = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
        self.typed
            && next.typed
            && next.removed.is_empty()
            && letters(&self.inserted)
            && letters(&next.inserted)
            && next.at == self.at + self.inserted.len()
    }
}

impl Revisions {
    /// Notes that `after` was made of `before`. What had been undone cannot be redone any more.
    pub fn note(&mut self, before: &str, after: &str, typed: bool) {
        self.note_at(0, before, after, typed);
    }

    /// Notes that behind so many bytes `after` stands in the place of `before`.
    pub fn note_at(&mut self, at: usize, before: &str, after: &str, typed: bool) {
        let Some(mut next) = Revision::between(before, after, typed) else { return };
        next.at += at;
        self.undone.clear();
        match self.done.last_mut() {
            Some(last) if last.goes_on(&next) => last.inserted.push_str(&next.inserted),
            _ => self.done.push(next),
        }
    }

    /// The text before the last change, and the byte up to which that change is taken back.
    pub fn undo(&mut self, text: &str) -> Option<(String, usize)> {
        let revision = self.done.pop()?;
        let before = replaced(text, revision.at, &revision.inserted, &revision.removed);
        let end = revision.at + revision.removed.len();
        self.undone.push(revision);
        Some((before, end))
    }

    /// The text with the change made again that was undone last, and the byte at its end.
    pub fn redo(&mut self, text: &str) -> Option<(String, usize)> {
        let revision = self.undone.pop()?;
        let after = replaced(text, revision.at, &revision.removed, &revision.inserted);
        let end = revision.at + revision.inserted.len();
        self.done.push(revision);
        Some((after, end))
    }
}

/// `text` with `old` at that byte replaced.
fn replaced(text: &str, at: usize, old: &str, new: &str) -> String {
    let mut result = String::with_capacity(text.len() + new.len());
    result.push_str(text.get(..at).unwrap_or_default());
    result.push_str(new);
    result.push_str(text.get(at + old.len()..).unwrap_or_default());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the changes one after the other; the last text.
    fn made(revisions: &mut Revisions, texts: &[&str], typed: bool) -> String {
        for pair in texts.windows(2) {
            revisions.note(pair[0], pair[1], typed);
        }
        texts[texts.len() - 1].to_owned()
    }

    #[test]
    fn undo_goes_back_to_the_first_byte_and_redo_to_the_last() {
        let texts = ["a: 1\r\n", "a: 12\r\n", "ä: 12\r\n", "", "b: é # x\n", "b: è # x\n"];
        let mut revisions = Revisions::default();
        let mut text = made(&mut revisions, &texts, false);
        for before in texts.iter().rev().skip(1) {
            text = revisions.undo(&text).unwrap().0;
            assert_eq!(text, *before);
        }
        assert_eq!(revisions.undo(&text), None);
        for after in &texts[1..] {
            text = revisions.redo(&text).unwrap().0;
            assert_eq!(text, *after);
        }
        assert_eq!(revisions.redo(&text), None);
    }

    #[test]
    fn a_typed_word_is_undone_at_once() {
        let mut revisions = Revisions::default();
        let text = made(&mut revisions, &["a: ", "a: 1", "a: 12", "a: 12 ", "a: 12 #"], true);
        let (text, _) = revisions.undo(&text).unwrap();
        assert_eq!(text, "a: 12 ");
        let (text, _) = revisions.undo(&text).unwrap();
        assert_eq!(text, "a: 12");
        assert_eq!(revisions.undo(&text).unwrap(), ("a: ".to_owned(), 3));
    }

    #[test]
    fn a_new_change_ends_what_could_be_redone() {
        let mut revisions = Revisions::default();
        let text = made(&mut revisions, &["1", "2"], false);
        let (text, _) = revisions.undo(&text).unwrap();
        revisions.note(&text, "3", false);
        assert_eq!(revisions.redo("3"), None);
    }
}
