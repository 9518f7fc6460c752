//! PyTorch's CUDA caching allocator on paper (PyTorch 2.9, c10/cuda/CUDACachingAllocator.cpp): two pools, best fit, blocks
//! split where enough is left and joined with free neighbours; segments in which nothing lies go back to the GPU when it
//! has no room for another (`release_cached_blocks`).

/// Largest request that the pool of small blocks serves (`kSmallSize`), and what must be left of a large block so that
/// it is split.
const SMALL: u64 = 1 << 20;
/// Segment of the small pool (`kSmallBuffer`), and granule of large segments (`kRoundLarge`).
const SMALL_SEGMENT: u64 = 2 << 20;
/// Segment for requests below ten MiB (`kLargeBuffer`).
const LARGE_SEGMENT: u64 = 20 << 20;
/// Requests from here on have a segment of their own size (`kMinLargeAlloc`).
const LARGE: u64 = 10 << 20;
/// Granule of blocks (`kMinBlockSize`).
const BLOCK: u64 = 512;

use super::pool::{FreeBlock, Pool};

/// Index of a block.
pub(super) type BlockIndex = u32;

/// No block.
pub(super) const NOWHERE: BlockIndex = BlockIndex::MAX;

/// What is asked of the allocator: bytes in whole granules, and which pool serves them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    bytes: u64,
    small: bool,
}

impl Request {
    /// A request of at least so many bytes.
    pub(super) fn of(bytes: u64) -> Self {
        let bytes = bytes.max(1).div_ceil(BLOCK).saturating_mul(BLOCK);
        Self { bytes, small: bytes <= SMALL }
    }

    /// Its bytes, in whole granules.
    pub(super) const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// What tensors lie in: the caching allocator's segments, or the heap of a process.
pub(super) trait Memory {
    /// The most bytes held so far.
    fn most(&self) -> u64;

    /// The most bytes that were asked for at one time: no memory is smaller, whatever is given back.
    fn most_asked(&self) -> u64;

    /// Whether there was no room for more, and what was free went back.
    fn ran_short(&self) -> bool;

    /// Whether more is held than there is.
    fn is_over(&self) -> bool;

    /// A block for a request.
    fn take(&mut self, request: Request) -> BlockIndex;

    /// A block that is given back at once: where one is free, everything is as before.
    fn pass(&mut self, request: Request);

    /// A block that nobody uses any more.
    fn give(&mut self, place: BlockIndex);

    /// A forward pass begins to build autograd's graph, whose nodes are small objects beside the tensors.
    fn begin_graph(&mut self) {}

    /// It is built: the loss that held the one before is bound to it.
    fn bind_graph(&mut self) {}
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy)]
struct Block {
    bytes: u64,
    /// What was asked for of it while it is taken.
    asked: u64,
    /// Segments lie one behind the other in the order in which they are reserved.
    address: u64,
    before: BlockIndex,
    behind: BlockIndex,
    small: bool,
    free: bool,
}

/// The allocator.
#[derive(Debug, Default)]
pub(super) struct Allocator {
    blocks: Vec<Block>,
    /// Places in `blocks` that joined blocks left.
    spare: Vec<BlockIndex>,
    /// Free blocks: large ones, small ones.
    pools: [Pool; 2],
    /// Bytes of the GPU that segments may take.
    room: u64,
    /// Where the next segment begins.
    end: u64,
    reserved: u64,
    most: u64,
    /// Whether a segment was wanted for which there was no room.
    short: bool,
    /// Bytes that were asked for and are not given back, and the most there were.
    asked: u64,
    most_asked: u64,
}

impl Allocator {
    /// An allocator whose segments have so many bytes of the GPU. It takes more where nothing can be given back.
    pub(super) fn within(room: u64) -> Self {
        Self { room, ..Self::default() }
    }

    #[cold]
    fn segment(&mut self, bytes: u64, small: bool) -> BlockIndex {
        let whole = match bytes {
            _ if small => SMALL_SEGMENT,
            bytes if bytes < LARGE => LARGE_SEGMENT,
            bytes => bytes.div_ceil(SMALL_SEGMENT).saturating_mul(SMALL_SEGMENT),
        };
        if self.reserved.saturating_add(whole) > self.room {
            self.short = true;
            self.release();
        }
        let address = self.end;
        self.end = self.end.saturating_add(whole);
        self.reserved = self.reserved.saturating_add(whole);
        self.most = self.most.max(self.reserved);
        self.block(Block { bytes: whole, asked: 0, address, before: NOWHERE, behind: NOWHERE, small, free: false })
    }

    /// Segments in which nothing lies go back.
    fn release(&mut self) {
        let Self { blocks, spare, pools, reserved, .. } = self;
        for pool in pools {
            pool.retain(|bytes, place| {
                let block = &blocks[place as usize];
                let whole = block.before == NOWHERE && block.behind == NOWHERE;
                if whole {
                    *reserved -= bytes;
                    spare.push(place);
                }
                !whole
            });
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn block(&mut self, block: Block) -> BlockIndex {
        if let Some(place) = self.spare.pop() {
            self.blocks[place as usize] = block;
            return place;
        }
        self.blocks.push(block);
        self.blocks.len() as BlockIndex - 1
    }

    /// Leaves what was asked for of a block where enough is left to be a block of its own, which is to be listed.
    #[inline(always)]
    fn split(&mut self, place: BlockIndex, request: Request) -> Option<FreeBlock> {
        let whole = self.blocks[place as usize];
        let bytes = whole.bytes - request.bytes;
        if !((request.small && bytes >= BLOCK) || bytes > SMALL) {
            return None;
        }
        let address = whole.address + request.bytes;
        let rest = self.block(Block { bytes, address, before: place, free: true, ..whole });
        if whole.behind != NOWHERE {
            self.blocks[whole.behind as usize].before = rest;
        }
        let block = &mut self.blocks[place as usize];
        (block.bytes, block.behind) = (request.bytes, rest);
        Some(FreeBlock { bytes, address, block: rest })
    }

    /// What lies behind `place` becomes part of it.
    fn join(&mut self, place: BlockIndex, other: BlockIndex) {
        let Block { bytes, behind, .. } = self.blocks[other as usize];
        self.spare.push(other);
        let block = &mut self.blocks[place as usize];
        block.bytes += bytes;
        block.behind = behind;
        if behind != NOWHERE {
            self.blocks[behind as usize].before = place;
        }
    }
}

impl Memory for Allocator {
    fn most(&self) -> u64 {
        self.most
    }

    fn most_asked(&self) -> u64 {
        self.most_asked
    }

    fn ran_short(&self) -> bool {
        self.short
    }

    fn is_over(&self) -> bool {
        self.most > self.room
    }

    fn take(&mut self, request: Request) -> BlockIndex {
        let Request { bytes, small } = request;
        self.asked = self.asked.saturating_add(bytes);
        self.most_asked = self.most_asked.max(self.asked);
        let pool = usize::from(small);
        let place = match self.pools[pool].best(bytes) {
            Some((at, found)) => {
                let place = found.block;
                match self.split(place, request) {
                    Some(rest) => self.pools[pool].put(at, rest),
                    None => self.pools[pool].take(at),
                }
                place
            }
            None => {
                let place = self.segment(bytes, small);
                if let Some(rest) = self.split(place, request) {
                    self.pools[pool].insert(rest);
                }
                place
            }
        };
        let block = &mut self.blocks[place as usize];
        (block.free, block.asked) = (false, bytes);
        place
    }

    fn pass(&mut self, request: Request) {
        if self.pools[usize::from(request.small)].has(request.bytes) {
            self.most_asked = self.most_asked.max(self.asked.saturating_add(request.bytes));
        } else {
            let place = self.take(request);
            self.give(place);
        }
    }

    fn give(&mut self, place: BlockIndex) {
        let Block { bytes, address, before, behind, small, asked, .. } = self.blocks[place as usize];
        self.asked = self.asked.saturating_sub(asked);
        self.blocks[place as usize].free = true;
        let pool = usize::from(small);
        let free =
            |block: BlockIndex| (block != NOWHERE).then(|| self.blocks[block as usize]).filter(|block| block.free);
        match (free(before), free(behind)) {
            (None, None) => self.pools[pool].insert(FreeBlock { bytes, address, block: place }),
            (None, Some(next)) => {
                self.join(place, behind);
                let joined = FreeBlock { bytes: bytes + next.bytes, address, block: place };
                self.pools[pool].replace((next.bytes, next.address), joined);
            }
            (Some(last), None) => {
                self.join(before, place);
                let joined = FreeBlock { bytes: last.bytes + bytes, address: last.address, block: before };
                self.pools[pool].replace((last.bytes, last.address), joined);
            }
            (Some(last), Some(next)) => {
                self.join(before, place);
                self.join(before, behind);
                self.pools[pool].remove(next.bytes, next.address);
                let joined = FreeBlock { bytes: last.bytes + bytes + next.bytes, address: last.address, block: before };
                self.pools[pool].replace((last.bytes, last.address), joined);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    impl Allocator {
        fn take_bytes(&mut self, bytes: u64) -> BlockIndex {
            self.take(Request::of(bytes))
        }
    }

    /// Sizes of segments as the allocator's constants have them.
    #[test]
    fn segments() {
        let reserved = |bytes: &[u64]| {
            let mut allocator = Allocator::within(u64::MAX);
            for bytes in bytes {
                allocator.take_bytes(*bytes);
            }
            allocator.most() / MIB
        };
        assert_eq!(reserved(&[1]), 2, "a small one");
        assert_eq!(reserved(&[MIB, MIB, 512]), 4, "two of one MiB fill a small segment");
        assert_eq!(reserved(&[MIB + 512]), 20);
        assert_eq!(reserved(&[9 * MIB, 9 * MIB]), 20, "the second from what is left of the first's segment");
        assert_eq!(reserved(&[9 * MIB, 9 * MIB, 2 * MIB]), 20, "what is left is a block");
        assert_eq!(reserved(&[9 * MIB, 10 * MIB]), 20);
        assert_eq!(reserved(&[11 * MIB + 1]), 12);
    }

    /// A hole serves what fits; of two the smaller is taken; neighbours that are free are one.
    #[test]
    fn holes() {
        let mut allocator = Allocator::within(u64::MAX);
        let all: Vec<BlockIndex> = [30, 40, 30].map(|size| allocator.take_bytes(size * MIB)).to_vec();
        assert_eq!(allocator.most(), 100 * MIB);
        allocator.give(all[1]);
        allocator.give(all[0]);
        let inside = allocator.take_bytes(25 * MIB);
        assert_eq!(allocator.most(), 100 * MIB, "in the smaller of 30 and 40");
        allocator.take_bytes(40 * MIB);
        assert_eq!(allocator.most(), 100 * MIB, "the larger was left whole");
        allocator.give(inside);
        allocator.take_bytes(30 * MIB);
        assert_eq!(allocator.most(), 100 * MIB, "25 and the 5 behind it are one hole again");
        allocator.take_bytes(2 * MIB);
        assert_eq!(allocator.most(), 120 * MIB, "no hole is left");
    }

    /// A large block is split only where more than one MiB is left.
    #[test]
    fn remainders() {
        let mut allocator = Allocator::within(u64::MAX);
        let whole = allocator.take_bytes(20 * MIB);
        allocator.give(whole);
        allocator.take_bytes(19 * MIB);
        allocator.take_bytes(MIB);
        assert_eq!(allocator.most(), 22 * MIB, "one MiB is left inside the block; the small pool has its own");
    }

    /// Of 100 MiB, 30 and 40 are given back: a segment of 60 has room once both have gone, and one of 10 is still there.
    #[test]
    fn empty_segments_go_back_where_the_card_is_full() {
        let mut allocator = Allocator::within(100 * MIB);
        let all: Vec<BlockIndex> = [30, 40, 30].map(|size| allocator.take_bytes(size * MIB)).to_vec();
        allocator.give(all[0]);
        allocator.give(all[1]);
        allocator.take_bytes(60 * MIB);
        assert_eq!(allocator.most(), 100 * MIB, "30 + 60 now, 100 at most");
        allocator.take_bytes(10 * MIB);
        assert_eq!(allocator.most(), 100 * MIB);
        allocator.take_bytes(10 * MIB);
        assert_eq!(allocator.most(), 110 * MIB, "nothing is left to give back");
    }
}
