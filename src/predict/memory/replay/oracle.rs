//! The allocator's rules said the plain way: every free block is looked at, segment by segment. What lists by size
//! give must be the same.

use super::blocks::{Allocator, BlockIndex, Memory, Request};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A block: its bytes, and who has it.
#[derive(Clone, Copy)]
struct Piece {
    bytes: u64,
    owner: Option<usize>,
}

/// A segment of a pool.
struct Segment {
    small: bool,
    pieces: Vec<Piece>,
}

#[derive(Default)]
struct PlainAllocator {
    segments: Vec<Segment>,
    room: u64,
    most: u64,
}

impl PlainAllocator {
    fn reserved(&self) -> u64 {
        self.segments.iter().flat_map(|segment| &segment.pieces).map(|piece| piece.bytes).sum()
    }

    /// The smallest free piece that is large enough, of several the first.
    fn best(&self, bytes: u64, small: bool) -> Option<(usize, usize)> {
        let mut best: Option<(u64, (usize, usize))> = None;
        for (at, segment) in self.segments.iter().enumerate().filter(|(_, segment)| segment.small == small) {
            for (piece_at, piece) in segment.pieces.iter().enumerate() {
                let fits = piece.owner.is_none() && piece.bytes >= bytes;
                if fits && best.is_none_or(|(least, _)| piece.bytes < least) {
                    best = Some((piece.bytes, (at, piece_at)));
                }
            }
        }
        best.map(|(_, place)| place)
    }

    fn take(&mut self, owner: usize, bytes: u64) {
        let bytes = bytes.max(1).next_multiple_of(512);
        let small = bytes <= MIB;
        let (segment, at) = self.best(bytes, small).unwrap_or_else(|| {
            let whole = match bytes {
                _ if small => 2 * MIB,
                bytes if bytes < 10 * MIB => 20 * MIB,
                bytes => bytes.next_multiple_of(2 * MIB),
            };
            if self.reserved() + whole > self.room {
                self.segments.retain(|segment| segment.pieces.iter().any(|piece| piece.owner.is_some()));
            }
            self.segments.push(Segment { small, pieces: vec![Piece { bytes: whole, owner: None }] });
            (self.segments.len() - 1, 0)
        });
        self.most = self.most.max(self.reserved());
        let pieces = &mut self.segments[segment].pieces;
        let left = pieces[at].bytes - bytes;
        pieces[at].owner = Some(owner);
        if (small && left >= 512) || left > MIB {
            pieces[at].bytes = bytes;
            pieces.insert(at + 1, Piece { bytes: left, owner: None });
        }
    }

    fn give(&mut self, owner: usize) {
        for segment in &mut self.segments {
            for piece in &mut segment.pieces {
                piece.owner = piece.owner.filter(|one| *one != owner);
            }
            segment.pieces.dedup_by(|next, piece| {
                let joins = next.owner.is_none() && piece.owner.is_none();
                piece.bytes += if joins { next.bytes } else { 0 };
                joins
            });
        }
    }
}

/// Sizes as they occur beside each other: alike ones, odd ones, small and large ones.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => prop::sample::select(vec![512, 4096, 16_384, MIB / 2, MIB, 4 * MIB, 8 * MIB, 12 * MIB, 32 * MIB]),
        1 => 1..3 * MIB,
        1 => 1..60 * MIB,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_by_size_give_what_the_rules_give(
        steps in prop::collection::vec((sizes(), any::<prop::sample::Index>(), 0..5_u8), 1..200),
        room in prop_oneof![Just(u64::MAX / 2), (40_u64..400).prop_map(|mib| mib * MIB)],
    ) {
        let (mut plain, mut listed) = (PlainAllocator { room, ..PlainAllocator::default() }, Allocator::within(room));
        let mut held: Vec<(usize, BlockIndex)> = Vec::new();
        for (owner, (bytes, which, action)) in steps.into_iter().enumerate() {
            if action < 2 && !held.is_empty() {
                let (owner, place) = held.swap_remove(which.index(held.len()));
                plain.give(owner);
                listed.give(place);
            } else if action == 2 {
                plain.take(owner, bytes);
                plain.give(owner);
                listed.pass(Request::of(bytes));
            } else {
                plain.take(owner, bytes);
                held.push((owner, listed.take(Request::of(bytes))));
            }
            prop_assert_eq!(listed.most(), plain.most);
            prop_assert_eq!(listed.is_over(), plain.most > room);
        }
    }
}
