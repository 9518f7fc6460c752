//! W&B's log of a run (`run-ID.wandb`): blocks as LevelDB's log has them, each record a `Record` in protocol buffers
//! (`wandb/sdk/internal/datastore.py` of wandb 0.16, `wandb/proto/wandb_internal.proto` of 0.31).

use prost::Message;
use serde_json::{Map, Value};

use super::super::follow::{LogContinuity, LogPiece};
use super::super::formats::flatten;
use super::{EventRow, millis};

/// Records do not cross a block but in parts.
const BLOCK: u64 = 32 * 1024;
/// A part's checksum (4 bytes), length (2) and kind (1). The file's own head is as long.
const HEAD: usize = 7;
/// How the file begins.
const MAGIC: &[u8] = b":W&B";
/// Longer records are passed over.
const LARGEST: usize = 1 << 20;

/// Kinds of parts.
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(message, optional, tag = "2")]
    history: Option<History>,
}

#[derive(Clone, PartialEq, Message)]
struct History {
    #[prost(message, repeated, tag = "1")]
    items: Vec<HistoryItem>,
    #[prost(message, optional, tag = "2")]
    step: Option<HistoryStep>,
}

#[derive(Clone, PartialEq, Message)]
struct HistoryStep {
    #[prost(int64, tag = "1")]
    num: i64,
}

#[derive(Clone, PartialEq, Message)]
struct HistoryItem {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, repeated, tag = "2")]
    nested_key: Vec<String>,
    #[prost(sint64, optional, tag = "5")]
    integer: Option<i64>,
    #[prost(double, optional, tag = "6")]
    number: Option<f64>,
    /// JSON of numbers, texts and objects: all that versions before 0.31 write.
    #[prost(string, tag = "16")]
    value_json: String,
}

/// Parts of records that come in pieces.
#[derive(Debug, Default)]
pub struct WandbDecoder {
    /// Where in the file `pending` begins.
    at: u64,
    pending: Vec<u8>,
    /// Parts of a record without its last.
    record: Option<Vec<u8>>,
    /// The rest of this block is passed over.
    lost: bool,
    /// The file is none of W&B's.
    foreign: bool,
}

impl WandbDecoder {
    /// Gives a row for each entry of the history that the piece ends.
    pub fn push(&mut self, piece: &LogPiece, mut row: impl FnMut(EventRow)) {
        if piece.from != LogContinuity::Before {
            *self = Self { at: piece.offset, lost: piece.offset > 0, ..Self::default() };
        }
        self.pending.extend_from_slice(&piece.bytes);
        let mut read = 0;
        while !self.foreign
            && let Some(long) = self.part(read, &mut row)
        {
            read += long;
            self.at += long as u64;
        }
        if self.foreign {
            read = self.pending.len();
        }
        self.pending.drain(..read);
    }

    /// Takes in the part that stands at `read`, and gives its length; none where more of it is needed.
    fn part(&mut self, read: usize, row: &mut impl FnMut(EventRow)) -> Option<usize> {
        let bytes = &self.pending[read..];
        let left = usize::try_from(BLOCK - self.at % BLOCK).ok()?;
        if self.lost {
            self.record = None;
            self.lost = bytes.len() < left;
            return Some(bytes.len().min(left)).filter(|long| *long > 0);
        }
        if left < HEAD {
            return (bytes.len() >= left).then_some(left);
        }
        let head = bytes.first_chunk::<HEAD>()?;
        if self.at == 0 {
            self.foreign = !head.starts_with(MAGIC);
            return Some(HEAD);
        }
        let [c0, c1, c2, c3, l0, l1, kind] = *head;
        let long = HEAD + usize::from(u16::from_le_bytes([l0, l1]));
        if long > left {
            self.lost = true;
            return Some(0);
        }
        let data = bytes.get(HEAD..long)?;
        // Of the kind and the data, as zlib has it.
        if crc32fast::hash(&bytes[HEAD - 1..long]) != u32::from_le_bytes([c0, c1, c2, c3]) {
            self.lost = true;
            return Some(0);
        }
        match kind {
            FULL | FIRST => self.record = Some(data.to_vec()),
            MIDDLE | LAST => {
                self.record = self.record.take().filter(|record| record.len() < LARGEST).map(|mut record| {
                    record.extend_from_slice(data);
                    record
                });
            }
            _ => self.record = None,
        }
        if matches!(kind, FULL | LAST)
            && let Some(record) = self.record.take()
            && let Some(told) = Record::decode(&record[..]).ok().and_then(|record| row_of(record.history?))
        {
            row(told);
        }
        Some(long)
    }
}

fn row_of(history: History) -> Option<EventRow> {
    let mut fields = Vec::new();
    let mut written = Map::new();
    for item in history.items {
        let name = if item.key.is_empty() { item.nested_key.join("/") } else { item.key };
        #[allow(clippy::cast_precision_loss)]
        match item.number.or(item.integer.map(|integer| integer as f64)) {
            Some(number) => fields.push((name, number)),
            None => drop(serde_json::from_str(&item.value_json).map(|value: Value| written.insert(name, value))),
        }
    }
    flatten(&written, "", 0, &mut fields);
    if fields.is_empty() {
        return None;
    }
    if let (Some(step), false) = (history.step, fields.iter().any(|(name, _)| name == "_step")) {
        fields.push(("_step".to_owned(), step.num as f64));
    }
    let stamp = fields.iter().find(|(name, _)| name == "_timestamp").and_then(|(_, seconds)| millis(*seconds));
    Some(EventRow { fields, stamp })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Moment;

    /// A part of a record.
    fn part(kind: u8, data: &[u8]) -> Vec<u8> {
        let body = [&[kind], data].concat();
        let check = crc32fast::hash(&body).to_le_bytes();
        [&check[..], &u16::try_from(data.len()).unwrap().to_le_bytes(), &body].concat()
    }

    fn entry(step: i64, filling: usize) -> Vec<u8> {
        let item =
            |key: &str, value: String| HistoryItem { key: key.to_owned(), value_json: value, ..HistoryItem::default() };
        let items = vec![item("loss", "2.5".to_owned()), item("note", format!("\"{}\"", "x".repeat(filling)))];
        Record { history: Some(History { items, step: Some(HistoryStep { num: step }) }) }.encode_to_vec()
    }

    /// A file of entries, cut into blocks as LevelDB's log is.
    fn written(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut file = [MAGIC, &[0xe1, 0xbe, 0]].concat();
        for entry in entries {
            let (mut rest, mut begun) = (&entry[..], false);
            loop {
                let left = 32_768 - file.len() % 32_768;
                if left < HEAD {
                    file.resize(file.len() + left, 0);
                    continue;
                }
                let (now, then) = rest.split_at(rest.len().min(left - HEAD));
                let kind = match (begun, then.is_empty()) {
                    (false, true) => FULL,
                    (false, false) => FIRST,
                    (true, false) => MIDDLE,
                    (true, true) => LAST,
                };
                file.extend(part(kind, now));
                (rest, begun) = (then, true);
                if rest.is_empty() {
                    break;
                }
            }
        }
        file
    }

    fn steps(bytes: &[u8], offset: usize, size: usize) -> Vec<f64> {
        let mut decoder = WandbDecoder::default();
        let mut seen = Vec::new();
        for (index, part) in bytes[offset..].chunks(size).enumerate() {
            let from = match (index, offset) {
                (0, 0) => LogContinuity::Start,
                (0, _) => LogContinuity::Within,
                _ => LogContinuity::Before,
            };
            let offset = (offset + index * size) as u64;
            let piece = LogPiece { bytes: part.to_vec(), from, offset, written: Moment(0), old: false };
            decoder.push(&piece, |row| seen.extend(row.fields.iter().find(|(name, _)| name == "_step").map(|f| f.1)));
        }
        seen
    }

    #[test]
    fn records_over_several_blocks_in_pieces_of_any_size() {
        let file = written(&[entry(1, 10), entry(2, 40_000), entry(3, 80_000), entry(4, 10)]);
        for size in [1, 1000, 1 << 20] {
            assert_eq!(steps(&file, 0, size), [1.0, 2.0, 3.0, 4.0], "{size}");
        }
    }

    #[test]
    fn from_within_a_file_reading_begins_at_a_block() {
        let file = written(&[entry(1, 10), entry(2, 40_000), entry(3, 10), entry(4, 10)]);
        // Of the second entry the first part is in the first block.
        assert_eq!(steps(&file, 100, 4096), [3.0, 4.0]);
    }

    #[test]
    fn a_damaged_block_is_passed_over() {
        let mut file = written(&[entry(1, 10), entry(2, 10), entry(3, 40_000), entry(4, 10)]);
        file[20] ^= 0xff;
        assert_eq!(steps(&file, 0, 1 << 20), [4.0]);
        assert_eq!(steps(b"none of W&B's, though long enough", 0, 5), [0.0; 0]);
    }
}
