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

/// Index of a block.
pub(super) type BlockIndex = u32;

/// A piece of a segment.
#[derive(Debug, Clone, Copy)]
struct Block {
    bytes: u64,
    /// Segments lie one behind the other in the order in which they are reserved.
    address: u64,
    before: Option<BlockIndex>,
    behind: Option<BlockIndex>,
    small: bool,
    free: bool,
}

/// The allocator.
#[derive(Debug, Default)]
pub(super) struct Allocator {
    blocks: Vec<Block>,
    /// Places in `blocks` that joined blocks left.
    spare: Vec<BlockIndex>,
    /// Free blocks of each pool by size, then address.
    free: [Vec<(u64, u64, BlockIndex)>; 2],
    /// Bytes of the GPU that segments may take.
    room: u64,
    /// Where the next segment begins.
    end: u64,
    reserved: u64,
    most: u64,
}

impl Allocator {
    /// An allocator whose segments have so many bytes of the GPU. It takes more where nothing can be given back.
    pub(super) fn within(room: u64) -> Self {
        Self { room, ..Self::default() }
    }

    /// The most bytes of all segments so far.
    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    /// A block of at least so many bytes.
    pub(super) fn take(&mut self, bytes: u64) -> BlockIndex {
        let bytes = bytes.max(1).div_ceil(BLOCK).saturating_mul(BLOCK);
        let small = bytes <= SMALL;
        let pool = &mut self.free[usize::from(small)];
        let fit = pool.partition_point(|(size, ..)| *size < bytes);
        let place = if fit < pool.len() { pool.remove(fit).2 } else { self.segment(bytes, small) };
        let block = &mut self.blocks[place as usize];
        block.free = false;
        let left = block.bytes - bytes;
        if (small && left >= BLOCK) || left > SMALL {
            self.split(place, bytes);
        }
        place
    }

    /// A block that is given back at once: where one is free, everything is as before.
    pub(super) fn pass(&mut self, bytes: u64) {
        let rounded = bytes.max(1).div_ceil(BLOCK).saturating_mul(BLOCK);
        if self.free[usize::from(rounded <= SMALL)].last().is_none_or(|(size, ..)| *size < rounded) {
            let place = self.take(bytes);
            self.give(place);
        }
    }

    /// A block that nobody uses any more.
    pub(super) fn give(&mut self, place: BlockIndex) {
        let Block { before, behind, .. } = self.blocks[place as usize];
        let mut kept = place;
        if let Some(neighbour) = before.filter(|one| self.blocks[*one as usize].free) {
            self.unlist(neighbour);
            self.join(neighbour, place);
            kept = neighbour;
        }
        if let Some(neighbour) = behind.filter(|one| self.blocks[*one as usize].free) {
            self.unlist(neighbour);
            self.join(kept, neighbour);
        }
        let block = &mut self.blocks[kept as usize];
        block.free = true;
        let entry = (block.bytes, block.address, kept);
        let small = block.small;
        self.list(small, entry);
    }

    fn list(&mut self, small: bool, entry: (u64, u64, BlockIndex)) {
        let pool = &mut self.free[usize::from(small)];
        let at = pool.partition_point(|one| *one < entry);
        pool.insert(at, entry);
    }

    fn segment(&mut self, bytes: u64, small: bool) -> BlockIndex {
        let whole = match bytes {
            _ if small => SMALL_SEGMENT,
            bytes if bytes < LARGE => LARGE_SEGMENT,
            bytes => bytes.div_ceil(SMALL_SEGMENT).saturating_mul(SMALL_SEGMENT),
        };
        if self.reserved.saturating_add(whole) > self.room {
            self.release();
        }
        let address = self.end;
        self.end = self.end.saturating_add(whole);
        self.reserved = self.reserved.saturating_add(whole);
        self.most = self.most.max(self.reserved);
        self.block(Block { bytes: whole, address, before: None, behind: None, small, free: false })
    }

    /// Segments in which nothing lies go back.
    fn release(&mut self) {
        let blocks = &self.blocks;
        for pool in &mut self.free {
            pool.retain(|(bytes, _, place)| {
                let block = &blocks[*place as usize];
                let whole = block.before.is_none() && block.behind.is_none();
                if whole {
                    self.reserved -= bytes;
                    self.spare.push(*place);
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

    fn split(&mut self, place: BlockIndex, bytes: u64) {
        let whole = self.blocks[place as usize];
        let rest = Block {
            bytes: whole.bytes - bytes,
            address: whole.address + bytes,
            before: Some(place),
            behind: whole.behind,
            free: true,
            ..whole
        };
        let entry = (rest.bytes, rest.address);
        let behind = self.block(rest);
        self.list(whole.small, (entry.0, entry.1, behind));
        if let Some(next) = whole.behind {
            self.blocks[next as usize].before = Some(behind);
        }
        let block = &mut self.blocks[place as usize];
        block.bytes = bytes;
        block.behind = Some(behind);
    }

    fn unlist(&mut self, place: BlockIndex) {
        let Block { bytes, address, small, .. } = self.blocks[place as usize];
        let pool = &mut self.free[usize::from(small)];
        let at = pool.partition_point(|one| *one < (bytes, address, place));
        pool.remove(at);
    }

    /// What lies behind `place` becomes part of it.
    fn join(&mut self, place: BlockIndex, other: BlockIndex) {
        let Block { bytes, behind, .. } = self.blocks[other as usize];
        self.spare.push(other);
        let block = &mut self.blocks[place as usize];
        block.bytes += bytes;
        block.behind = behind;
        if let Some(next) = behind {
            self.blocks[next as usize].before = Some(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Sizes of segments as the allocator's constants have them.
    #[test]
    fn segments() {
        let reserved = |bytes: &[u64]| {
            let mut allocator = Allocator::within(u64::MAX);
            for bytes in bytes {
                allocator.take(*bytes);
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
        let all: Vec<BlockIndex> = [30, 40, 30].map(|size| allocator.take(size * MIB)).to_vec();
        assert_eq!(allocator.most(), 100 * MIB);
        allocator.give(all[1]);
        allocator.give(all[0]);
        let inside = allocator.take(25 * MIB);
        assert_eq!(allocator.most(), 100 * MIB, "in the smaller of 30 and 40");
        allocator.take(40 * MIB);
        assert_eq!(allocator.most(), 100 * MIB, "the larger was left whole");
        allocator.give(inside);
        allocator.take(30 * MIB);
        assert_eq!(allocator.most(), 100 * MIB, "25 and the 5 behind it are one hole again");
        allocator.take(2 * MIB);
        assert_eq!(allocator.most(), 120 * MIB, "no hole is left");
    }

    /// A large block is split only where more than one MiB is left.
    #[test]
    fn remainders() {
        let mut allocator = Allocator::within(u64::MAX);
        let whole = allocator.take(20 * MIB);
        allocator.give(whole);
        allocator.take(19 * MIB);
        allocator.take(MIB);
        assert_eq!(allocator.most(), 22 * MIB, "one MiB is left inside the block; the small pool has its own");
    }

    /// Of 100 MiB, 30 and 40 are given back: a segment of 60 has room once both have gone, and one of 10 is still there.
    #[test]
    fn empty_segments_go_back_where_the_card_is_full() {
        let mut allocator = Allocator::within(100 * MIB);
        let all: Vec<BlockIndex> = [30, 40, 30].map(|size| allocator.take(size * MIB)).to_vec();
        allocator.give(all[0]);
        allocator.give(all[1]);
        allocator.take(60 * MIB);
        assert_eq!(allocator.most(), 100 * MIB, "30 + 60 now, 100 at most");
        allocator.take(10 * MIB);
        assert_eq!(allocator.most(), 100 * MIB);
        allocator.take(10 * MIB);
        assert_eq!(allocator.most(), 110 * MIB, "nothing is left to give back");
    }
}
