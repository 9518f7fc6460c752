//! Free blocks of one pool: by size, and those of one size by address.

use super::blocks::BlockIndex;

/// A pool's free blocks.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Sizes of free blocks, the smallest first.
    sizes: Vec<u64>,
    /// The blocks of each size with their addresses, the lowest address last.
    blocks: Vec<Vec<(u64, BlockIndex)>>,
    /// Lists that sizes left.
    spare: Vec<Vec<(u64, BlockIndex)>>,
}

impl Pool {
    /// Whether a block of so many bytes is free.
    #[inline]
    pub(super) fn has(&self, bytes: u64) -> bool {
        self.sizes.last().is_some_and(|largest| *largest >= bytes)
    }

    /// Takes out the smallest block of at least so many bytes, of several the one with the lowest address.
    #[inline]
    pub(super) fn pop(&mut self, bytes: u64) -> Option<BlockIndex> {
        let at = self.sizes.partition_point(|size| *size < bytes);
        let blocks = self.blocks.get_mut(at)?;
        let found = blocks.pop().map(|(_, block)| block);
        self.leave_empty(at);
        found
    }

    /// Adds a block.
    #[inline]
    pub(super) fn insert(&mut self, bytes: u64, address: u64, block: BlockIndex) {
        let at = self.sizes.partition_point(|size| *size < bytes);
        if self.sizes.get(at) != Some(&bytes) {
            self.sizes.insert(at, bytes);
            self.blocks.insert(at, self.spare.pop().unwrap_or_default());
        }
        let blocks = &mut self.blocks[at];
        if blocks.last().is_none_or(|(lowest, _)| address < *lowest) {
            blocks.push((address, block));
        } else {
            let at = blocks.partition_point(|(other, _)| *other > address);
            blocks.insert(at, (address, block));
        }
    }

    /// Takes out the block of a size at an address.
    #[inline]
    pub(super) fn remove(&mut self, bytes: u64, address: u64) {
        let at = self.sizes.partition_point(|size| *size < bytes);
        let blocks = &mut self.blocks[at];
        if blocks.last().is_some_and(|(lowest, _)| *lowest == address) {
            blocks.pop();
        } else {
            let at = blocks.partition_point(|(other, _)| *other > address);
            blocks.remove(at);
        }
        self.leave_empty(at);
    }

    #[inline]
    fn leave_empty(&mut self, at: usize) {
        if self.blocks[at].is_empty() {
            self.sizes.remove(at);
            let blocks = self.blocks.remove(at);
            self.spare.push(blocks);
        }
    }

    /// Keeps those of which `keep` is true of their size and index.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u64, BlockIndex) -> bool) {
        for at in (0..self.sizes.len()).rev() {
            let bytes = self.sizes[at];
            self.blocks[at].retain(|(_, block)| keep(bytes, *block));
            self.leave_empty(at);
        }
    }
}
