//! glibc's malloc on paper, as it serves a CPU's tensors (glibc 2.36, malloc/malloc.c; PyTorch asks it through
//! `posix_memalign`, c10/core/impl/alloc_cpu.cpp): one heap that grows at its end, best fit among what is free in it, and
//! blocks mapped for themselves where the heap would have to grow by as much as its threshold, which rises with the
//! mapped blocks that are freed. What is free inside the heap stays resident.

use super::blocks::{BlockIndex, Memory, NOWHERE, Request};
use super::pool::{FreeBlock, Pool};

/// Before a block (`SIZE_SZ` and what keeps chunks at whole 16 bytes).
const HEADER: u64 = 16;
/// What `posix_memalign` asks for beyond a block, to find an address of whole 64 bytes in it, and gives back in pieces
/// before and behind it (`_int_memalign`: alignment + `MINSIZE`).
const ALIGNED: u64 = 64 + 32;
/// `DEFAULT_MMAP_THRESHOLD_MIN` and `_MAX`.
const FIRST_THRESHOLD: u64 = 128 << 10;
const LAST_THRESHOLD: u64 = 32 << 20;
/// What the heap grows by beyond what is asked (`DEFAULT_TOP_PAD`).
const PAD: u64 = 128 << 10;
/// Freed blocks below that do not shrink the heap (`FASTBIN_CONSOLIDATION_THRESHOLD`).
const SHRINKS: u64 = 64 << 10;
const PAGE: u64 = 4 << 10;

/// Of four blocks of a forward pass, in the pieces beside so many a node of autograd's graph keeps what it holds (edges to the
/// next nodes, 32 bytes, and shapes of inputs): the block's hole is then too small, by these pieces, for the next block of its
/// size. The nodes go with their graph, when the loss is bound to the next one, a whole forward pass later. Counted after the
/// first step of small trainings by the addresses that glibc gave (PyTorch 2.9.1, transformers 4.57.6): pieces with such an
/// object beside holes that were not taken again, 53 of 100 in a Llama with adapters, 58 in GPT-2, 43 in Mixtral.
const NODES_OF_FOUR: u32 = 2;

/// What is asked of the heap for a block, however large.
fn whole(asked: u64) -> u64 {
    asked.saturating_add(HEADER + ALIGNED).min(u64::MAX / 2)
}

/// A piece of the heap, or a mapped block.
#[derive(Debug, Clone, Copy)]
struct Piece {
    bytes: u64,
    address: u64,
    before: BlockIndex,
    behind: BlockIndex,
    free: bool,
    mapped: bool,
    /// What was asked for.
    asked: u64,
}

/// The heap of a process, and what is mapped beside it.
#[derive(Debug)]
pub(super) struct Heap {
    pieces: Vec<Piece>,
    /// Places in `pieces` that joined pieces left.
    spare: Vec<BlockIndex>,
    free: Pool,
    /// The piece before the heap's free end, where that end begins, and where the heap ends.
    last: BlockIndex,
    top: u64,
    end: u64,
    mapped: u64,
    threshold: u64,
    room: u64,
    most: u64,
    asked: u64,
    most_asked: u64,
    /// Blocks so far.
    count: u32,
    /// Whether a forward pass runs, and the pieces that nodes keep: of the graph before, and of this one.
    builds: bool,
    nodes: [Vec<BlockIndex>; 2],
}

impl Heap {
    /// An empty heap in so many bytes of memory.
    pub(super) fn within(room: u64) -> Self {
        Self {
            pieces: Vec::new(),
            spare: Vec::new(),
            free: Pool::default(),
            last: NOWHERE,
            top: 0,
            end: 0,
            mapped: 0,
            threshold: FIRST_THRESHOLD,
            room,
            most: 0,
            asked: 0,
            most_asked: 0,
            count: 0,
            builds: false,
            nodes: [Vec::new(), Vec::new()],
        }
    }

    /// Whether a node keeps the pieces beside the next block: a fixed share, spread over blocks of any period.
    fn has_node(&mut self) -> bool {
        self.count = self.count.wrapping_add(1);
        self.builds && self.count.wrapping_mul(0x9E37_79B9) >> 30 < NODES_OF_FOUR
    }

    #[allow(clippy::cast_possible_truncation)]
    fn piece(&mut self, piece: Piece) -> BlockIndex {
        if let Some(place) = self.spare.pop() {
            self.pieces[place as usize] = piece;
            return place;
        }
        self.pieces.push(piece);
        self.pieces.len() as BlockIndex - 1
    }

    /// The piece of a block that begins at `address`, behind `before`; and the pieces beside it, where a node keeps them.
    /// Both and the last of them.
    fn lay(&mut self, before: BlockIndex, address: u64, asked: u64) -> (BlockIndex, BlockIndex) {
        let whole = whole(asked);
        let has_node = self.has_node();
        let bytes = if has_node { whole - ALIGNED } else { whole };
        let new = Piece { bytes, address, before, behind: NOWHERE, free: false, mapped: false, asked };
        let place = self.piece(new);
        if before != NOWHERE {
            self.pieces[before as usize].behind = place;
        }
        if !has_node {
            return (place, place);
        }
        let node = Piece { bytes: ALIGNED, address: address + bytes, before: place, asked: 0, ..new };
        let beside = self.piece(node);
        self.nodes[1].push(beside);
        self.pieces[place as usize].behind = beside;
        (place, beside)
    }

    /// A block in a hole.
    fn fill(&mut self, at: usize, hole: BlockIndex, asked: u64) -> BlockIndex {
        self.free.take(at);
        let Piece { bytes, address, before, behind, .. } = self.pieces[hole as usize];
        self.spare.push(hole);
        let (place, mut end) = self.lay(before, address, asked);
        let rest = bytes - whole(asked);
        if rest > 0 {
            let address = address + (bytes - rest);
            let new = Piece { bytes: rest, address, before: end, behind, free: true, mapped: false, asked: 0 };
            let left = self.piece(new);
            self.pieces[end as usize].behind = left;
            self.free.insert(FreeBlock { bytes: rest, address, block: left });
            end = left;
        }
        self.pieces[end as usize].behind = behind;
        if behind != NOWHERE {
            self.pieces[behind as usize].before = end;
        }
        place
    }

    /// A block at the heap's end, which grows where it must.
    fn grow(&mut self, asked: u64) -> BlockIndex {
        let whole = whole(asked);
        let (place, last) = self.lay(self.last, self.top, asked);
        self.last = last;
        self.top += whole;
        if self.top > self.end {
            self.end = (self.top + PAD).next_multiple_of(PAGE);
        }
        place
    }

    fn map(&mut self, asked: u64) -> BlockIndex {
        let bytes = whole(asked).next_multiple_of(PAGE);
        self.mapped = self.mapped.saturating_add(bytes);
        self.piece(Piece { bytes, address: 0, before: NOWHERE, behind: NOWHERE, free: false, mapped: true, asked })
    }

    /// A piece of the heap joins free neighbours, or the free end.
    fn join(&mut self, place: BlockIndex) {
        let Piece { mut bytes, mut address, mut before, mut behind, .. } = self.pieces[place as usize];
        self.spare.push(place);
        for neighbour in [before, behind] {
            if neighbour == NOWHERE || !self.pieces[neighbour as usize].free {
                continue;
            }
            let other = self.pieces[neighbour as usize];
            self.free.remove(other.bytes, other.address);
            self.spare.push(neighbour);
            bytes += other.bytes;
            if neighbour == before {
                (address, before) = (other.address, other.before);
            } else {
                behind = other.behind;
            }
        }
        if behind == NOWHERE {
            (self.last, self.top) = (before, address);
            if before != NOWHERE {
                self.pieces[before as usize].behind = NOWHERE;
            }
            // `systrim`, where the free end is twice the threshold.
            if bytes >= SHRINKS && self.end - self.top >= 2 * self.threshold {
                self.end = (self.top + PAD).next_multiple_of(PAGE);
            }
            return;
        }
        let joined = self.piece(Piece { bytes, address, before, behind, free: true, mapped: false, asked: 0 });
        self.pieces[behind as usize].before = joined;
        if before != NOWHERE {
            self.pieces[before as usize].behind = joined;
        }
        self.free.insert(FreeBlock { bytes, address, block: joined });
    }
}

impl Memory for Heap {
    fn most(&self) -> u64 {
        self.most
    }

    fn most_asked(&self) -> u64 {
        self.most_asked
    }

    /// The kernel is asked for nothing back.
    fn ran_short(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        self.most > self.room
    }

    fn take(&mut self, request: Request) -> BlockIndex {
        let asked = request.bytes();
        self.asked = self.asked.saturating_add(asked);
        self.most_asked = self.most_asked.max(self.asked);
        let whole = whole(asked);
        let place = match self.free.best(whole) {
            Some((at, hole)) => self.fill(at, hole.block, asked),
            None if self.end - self.top >= whole || whole < self.threshold => self.grow(asked),
            None => self.map(asked),
        };
        self.most = self.most.max(self.end.saturating_add(self.mapped));
        place
    }

    fn begin_graph(&mut self) {
        self.builds = true;
    }

    fn bind_graph(&mut self) {
        self.builds = false;
        let built = std::mem::take(&mut self.nodes[1]);
        let gone = std::mem::replace(&mut self.nodes[0], built);
        gone.into_iter().for_each(|place| self.join(place));
    }

    fn pass(&mut self, request: Request) {
        let place = self.take(request);
        self.give(place);
    }

    fn give(&mut self, place: BlockIndex) {
        let Piece { bytes, mapped, asked, .. } = self.pieces[place as usize];
        self.asked = self.asked.saturating_sub(asked);
        if !mapped {
            self.join(place);
            return;
        }
        self.spare.push(place);
        self.mapped = self.mapped.saturating_sub(bytes);
        if bytes > self.threshold && bytes <= LAST_THRESHOLD {
            self.threshold = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn heap() -> Heap {
        Heap::within(u64::MAX / 2)
    }

    /// Whether a node keeps the pieces beside the block after so many, in a forward pass.
    const fn has_node(count: u32) -> bool {
        count.wrapping_add(1).wrapping_mul(0x9E37_79B9) >> 30 < NODES_OF_FOUR
    }

    fn take(heap: &mut Heap, mib: u64) -> BlockIndex {
        heap.take(Request::of(mib * MIB))
    }

    /// mallopt(3): blocks of 128 KiB and more are mapped; once one was freed, blocks up to its size come from the heap; but
    /// never above 32 MiB.
    #[test]
    fn the_threshold_rises_with_what_is_freed() {
        let mut heap = heap();
        let first = take(&mut heap, 4);
        assert_eq!((heap.end, heap.mapped), (0, 4 * MIB + PAGE), "a page for what stands before it");
        heap.give(first);
        take(&mut heap, 4);
        assert_eq!((heap.mapped, heap.end / MIB), (0, 4), "in the heap");
        let large = take(&mut heap, 40);
        heap.give(large);
        take(&mut heap, 40);
        assert_eq!(heap.mapped, 40 * MIB + PAGE, "mapped again");
    }

    /// The free end goes back to the kernel once it is twice the threshold (M_TRIM_THRESHOLD; malloc.c, `free`).
    #[test]
    fn the_end_shrinks_and_holes_stay() {
        let mut heap = heap();
        let first = take(&mut heap, 2);
        heap.give(first);
        let all: Vec<BlockIndex> = (0..4).map(|_| heap.grow(MIB)).collect();
        let end = heap.end;
        heap.give(all[0]);
        heap.give(all[1]);
        assert_eq!(heap.end, end, "two MiB inside the heap");
        heap.give(all[2]);
        heap.give(all[3]);
        assert!(heap.end < MIB, "all was free: {}", heap.end);
    }

    /// A hole serves a smaller block; one of its own size only where the pieces beside it are free as well.
    #[test]
    fn holes_serve_their_own_size_only_where_the_pieces_beside_them_are_free() {
        for count in 0..16 {
            let holed = || {
                let mut heap = Heap { threshold: LAST_THRESHOLD, count, ..heap() };
                heap.begin_graph();
                let hole = take(&mut heap, 8);
                take(&mut heap, 8);
                heap.give(hole);
                (heap.top, heap)
            };
            let (top, mut heap) = holed();
            take(&mut heap, 4);
            take(&mut heap, 3);
            assert_eq!(heap.top, top, "both inside");
            let (top, mut heap) = holed();
            take(&mut heap, 8);
            assert_eq!(heap.top > top, has_node(count), "{count}");
        }
    }

    /// A loss that is bound anew lets the graph before it go, not its own: what lay beside the nodes is one hole again.
    #[test]
    fn a_graph_goes_when_the_loss_is_bound_to_the_next() {
        let mut heap = Heap { threshold: LAST_THRESHOLD, ..heap() };
        let before = take(&mut heap, 1);
        heap.begin_graph();
        let blocks: Vec<BlockIndex> = (0..8).map(|_| take(&mut heap, 8)).collect();
        heap.bind_graph();
        blocks.into_iter().for_each(|block| heap.give(block));
        let with_nodes = heap.top;
        assert!(with_nodes > 8 * MIB, "the last node keeps the end from falling: {with_nodes}");
        heap.bind_graph();
        assert!(heap.top < 2 * MIB, "{}", heap.top);
        heap.give(before);
    }

    /// The largest request there is has a sum.
    #[test]
    fn absurd_blocks_are_more_than_there_is() {
        let mut heap = Heap::within(1 << 40);
        let all: Vec<BlockIndex> = (0..3).map(|_| heap.take(Request::of(u64::MAX))).collect();
        assert!(heap.is_over());
        all.into_iter().for_each(|place| heap.give(place));
    }
}
