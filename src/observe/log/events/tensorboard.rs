//! TensorBoard's event files: records of TFRecord's form, each an `Event` in protocol buffers
//! (`tensorflow/core/lib/io/record_writer.h`, `tensorflow/core/util/event.proto`,
//! `tensorflow/core/framework/summary.proto`).

use prost::Message;

use super::super::follow::{LogContinuity, LogPiece};
use super::{EventRow, millis};

/// Longer records are pictures and graphs: passed over.
const LARGEST: u64 = 1 << 20;

/// A record's length (8 bytes) and its checksum (4).
const HEAD: usize = 12;
/// The checksum behind a record.
const TAIL: usize = 4;

/// `DataType` of `tensorflow/core/framework/types.proto`.
const FLOAT: i32 = 1;
const DOUBLE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    values: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, Message)]
struct SummaryValue {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
    #[prost(message, optional, tag = "8")]
    tensor: Option<Tensor>,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(bytes = "vec", tag = "4")]
    content: Vec<u8>,
    #[prost(float, repeated, tag = "5")]
    floats: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    doubles: Vec<f64>,
}

impl SummaryValue {
    /// The number; none where it is a picture, a histogram, a text.
    fn number(&self) -> Option<f64> {
        self.simple_value.map(f64::from).or_else(|| self.tensor.as_ref().and_then(Tensor::scalar))
    }
}

impl Tensor {
    /// The only element.
    fn scalar(&self) -> Option<f64> {
        match (self.dtype, &self.content[..], &self.floats[..], &self.doubles[..]) {
            (FLOAT, [], [value], _) => Some(f64::from(*value)),
            (DOUBLE, [], _, [value]) => Some(*value),
            (FLOAT, content, [], _) => Some(f64::from(f32::from_le_bytes(content.try_into().ok()?))),
            (DOUBLE, content, _, []) => Some(f64::from_le_bytes(content.try_into().ok()?)),
            _ => None,
        }
    }
}

/// What stands at the beginning of some bytes.
enum TfRecord<'a> {
    /// A record and its length in the file.
    Whole(&'a [u8], usize),
    /// One that is too long to be looked at, of so many bytes.
    Large(u64),
    /// None.
    Damaged,
}

/// Records that come in pieces.
#[derive(Debug, Default)]
pub struct TensorBoardDecoder {
    /// The beginning of a record that is not all there.
    pending: Vec<u8>,
    /// So many bytes more belong to a record that is passed over.
    skip: u64,
}

impl TensorBoardDecoder {
    /// Gives a row for each event with numbers that the piece ends.
    pub fn push(&mut self, piece: &LogPiece, mut row: impl FnMut(EventRow)) {
        if piece.from != LogContinuity::Before {
            *self = Self::default();
        }
        let over = usize::try_from(self.skip).unwrap_or(usize::MAX).min(piece.bytes.len());
        self.skip -= over as u64;
        self.pending.extend_from_slice(&piece.bytes[over..]);
        let mut at = 0;
        while let Some(found) = record(&self.pending[at..]) {
            match found {
                TfRecord::Whole(data, long) => {
                    if let Some(told) = Event::decode(data).ok().and_then(|event| row_of(&event)) {
                        row(told);
                    }
                    at += long;
                }
                TfRecord::Large(long) => {
                    let here = self.pending.len() - at;
                    self.skip = long.saturating_sub(here as u64);
                    at += usize::try_from(long).unwrap_or(usize::MAX).min(here);
                }
                // Within a record, or behind a fault: the next is where a length has its checksum.
                TfRecord::Damaged => at += 1,
            }
        }
        self.pending.drain(..at);
    }
}

/// What `bytes` begin with; none where more of them are needed.
fn record(bytes: &[u8]) -> Option<TfRecord<'_>> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    if masked(length) != u32::from_le_bytes(*check) {
        return Some(TfRecord::Damaged);
    }
    let long = u64::from_le_bytes(*length);
    if long > LARGEST {
        return Some(TfRecord::Large(long.saturating_add((HEAD + TAIL) as u64)));
    }
    let long = usize::try_from(long).ok()?;
    let data = rest.get(..long)?;
    let check = rest.get(long..)?.first_chunk::<4>()?;
    if masked(data) == u32::from_le_bytes(*check) {
        Some(TfRecord::Whole(data, HEAD + long + TAIL))
    } else {
        Some(TfRecord::Damaged)
    }
}

/// CRC-32C, turned and moved so that a checksum of checksums is a good one (`tensorflow/core/lib/hash/crc32c.h`).
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn row_of(event: &Event) -> Option<EventRow> {
    let values = event.summary.as_ref()?.values.iter();
    let mut fields: Vec<_> = values.filter_map(|value| Some((value.tag.clone(), value.number()?))).collect();
    if fields.is_empty() {
        return None;
    }
    // A tag of that name is a figure that somebody drew over steps.
    fields.retain(|(name, _)| name != "step");
    fields.insert(0, ("step".to_owned(), event.step as f64));
    Some(EventRow { fields, stamp: millis(event.wall_time) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Moment;

    fn piece(bytes: &[u8], from: LogContinuity) -> LogPiece {
        LogPiece { bytes: bytes.to_vec(), from, offset: 0, written: Moment(0), old: false }
    }

    /// One record around an event.
    fn written(event: &Event) -> Vec<u8> {
        let data = event.encode_to_vec();
        let length = (data.len() as u64).to_le_bytes();
        let (head, tail) = (masked(&length).to_le_bytes(), masked(&data).to_le_bytes());
        [&length[..], &head, &data, &tail].concat()
    }

    fn event(step: i64, value: SummaryValue) -> Event {
        Event { wall_time: 1.7e9, step, summary: Some(Summary { values: vec![value] }) }
    }

    fn loss(step: i64) -> Event {
        event(step, SummaryValue { tag: "loss".to_owned(), simple_value: Some(2.5), tensor: None })
    }

    fn steps(decoder: &mut TensorBoardDecoder, piece: &LogPiece) -> Vec<f64> {
        let mut seen = Vec::new();
        decoder.push(piece, |row| seen.push(row.fields[0].1));
        seen
    }

    #[test]
    fn a_checksum_as_its_specification_has_it() {
        // RFC 3720, B.4: 32 bytes of zeros; the mask is that of LevelDB's `util/crc32c.h`.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked(&[0; 32]), 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }

    #[test]
    fn records_in_pieces_of_any_size() {
        let bytes: Vec<u8> = (0..9).flat_map(|step| written(&loss(step))).collect();
        for size in [1, 7, 50, 4096] {
            let mut decoder = TensorBoardDecoder::default();
            let parts = bytes.chunks(size).map(|part| piece(part, LogContinuity::Before));
            let seen: Vec<f64> = parts.flat_map(|part| steps(&mut decoder, &part)).collect();
            assert_eq!(seen, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "{size}");
        }
    }

    #[test]
    fn behind_a_fault_the_next_record_is_found() {
        let mut bytes: Vec<u8> = (0..4).flat_map(|step| written(&loss(step))).collect();
        let long = bytes.len() / 4;
        // Within the second record's data; a length of another; and a beginning within the first.
        bytes[long + HEAD + 3] ^= 0xff;
        bytes[2 * long] ^= 0xff;
        let mut decoder = TensorBoardDecoder::default();
        assert_eq!(steps(&mut decoder, &piece(&bytes[5..], LogContinuity::Within)), [3.0]);
    }

    #[test]
    fn pictures_are_passed_over_without_being_held() {
        let length = (3_u64 << 20).to_le_bytes();
        let mut bytes = [&length[..], &masked(&length).to_le_bytes()].concat();
        bytes.resize(bytes.len() + (3 << 20) + TAIL, 7);
        bytes.extend(written(&loss(4)));
        let mut decoder = TensorBoardDecoder::default();
        let mut seen = Vec::new();
        for part in bytes.chunks(100_000) {
            seen.extend(steps(&mut decoder, &piece(part, LogContinuity::Before)));
            assert!(decoder.pending.len() < 200_000);
        }
        assert_eq!(seen, [4.0]);
    }

    #[test]
    fn tensors_of_one_number_are_numbers() {
        // 2.5 as an f32 is 0x40200000, 0.5 as an f64 0x3fe0000000000000 (IEEE 754).
        let float = Tensor { dtype: FLOAT, content: vec![0, 0, 0x20, 0x40], ..Tensor::default() };
        let double = Tensor { dtype: DOUBLE, content: vec![0, 0, 0, 0, 0, 0, 0xe0, 0x3f], ..Tensor::default() };
        let listed = Tensor { dtype: FLOAT, floats: vec![1.5], ..Tensor::default() };
        let text = Tensor { dtype: 7, ..Tensor::default() };
        let two = Tensor { dtype: FLOAT, floats: vec![1.5, 2.5], ..Tensor::default() };
        let numbers = [float, double, listed, text, two].map(|tensor| tensor.scalar());
        assert_eq!(numbers, [Some(2.5), Some(0.5), Some(1.5), None, None]);
    }
}
