//! Free blocks of one pool: by size, and those of one size by address.
//!
//! What a replay spends most of its time in is inlined by hand: the calls cost a tenth of it.

use super::blocks::BlockIndex;

/// No list.
const NONE: u32 = u32::MAX;

/// So many sizes are moved by hand.
const FEW: usize = 16;

/// A free block.
#[derive(Debug, Clone, Copy)]
pub(super) struct FreeBlock {
    pub bytes: u64,
    pub address: u64,
    pub block: BlockIndex,
}

/// The free blocks of a size. Mostly there is one.
#[derive(Debug, Clone, Copy)]
struct SizeClass {
    bytes: u64,
    /// The lowest address, and its block.
    address: u64,
    block: BlockIndex,
    /// Where the others are listed.
    others: u32,
}

impl SizeClass {
    /// Of one block.
    #[inline(always)]
    const fn of(FreeBlock { bytes, address, block }: FreeBlock) -> Self {
        Self { bytes, address, block, others: NONE }
    }
}

/// A pool's free blocks.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The smallest size first.
    classes: Vec<SizeClass>,
    /// Further blocks of a size with their addresses, the lowest address last.
    lists: Vec<Vec<(u64, BlockIndex)>>,
    /// Lists that are empty.
    spare: Vec<u32>,
}

impl Pool {
    /// Whether a block of so many bytes is free.
    #[inline(always)]
    pub(super) fn has(&self, bytes: u64) -> bool {
        self.classes.last().is_some_and(|largest| largest.bytes >= bytes)
    }

    /// Where the blocks of at least so many bytes begin.
    #[inline(always)]
    fn place(&self, bytes: u64) -> usize {
        self.classes.partition_point(|class| class.bytes < bytes)
    }

    /// The smallest block of at least so many bytes, of several the one with the lowest address, and where it is listed.
    #[inline(always)]
    pub(super) fn best(&self, bytes: u64) -> Option<(usize, FreeBlock)> {
        let at = self.place(bytes);
        let SizeClass { bytes, address, block, .. } = *self.classes.get(at)?;
        Some((at, FreeBlock { bytes, address, block }))
    }

    /// Takes out what [`Pool::best`] found.
    #[inline(always)]
    pub(super) fn take(&mut self, at: usize) {
        let class = &mut self.classes[at];
        if class.others == NONE {
            self.drop_class(at);
            return;
        }
        let list = &mut self.lists[class.others as usize];
        if let Some((address, block)) = list.pop() {
            (class.address, class.block) = (address, block);
        }
        if list.is_empty() {
            self.spare.push(class.others);
            class.others = NONE;
        }
    }

    /// Puts another block in the place of what [`Pool::best`] found: what lies between the two sizes moves by a place.
    #[inline(always)]
    pub(super) fn put(&mut self, at: usize, other: FreeBlock) {
        if self.classes[at].others != NONE {
            self.take(at);
            self.insert(other);
            return;
        }
        let classes = self.classes.as_mut_slice();
        if at > FEW && classes[at - FEW].bytes > other.bytes {
            let to = classes[..at].partition_point(|class| class.bytes < other.bytes);
            if classes[to].bytes != other.bytes {
                classes.copy_within(to..at, to + 1);
                classes[to] = SizeClass::of(other);
                return;
            }
        }
        if classes.get(at + FEW).is_some_and(|class| class.bytes < other.bytes) {
            let to = at + classes[at + 1..].partition_point(|class| class.bytes < other.bytes);
            if classes.get(to + 1).is_none_or(|class| class.bytes != other.bytes) {
                classes.copy_within(at + 1..=to, at);
                classes[to] = SizeClass::of(other);
                return;
            }
        }
        let mut to = at;
        while to > 0 && classes[to - 1].bytes > other.bytes {
            classes[to] = classes[to - 1];
            to -= 1;
        }
        while to + 1 < classes.len() && classes[to + 1].bytes < other.bytes {
            classes[to] = classes[to + 1];
            to += 1;
        }
        let alike = |at: usize| classes.get(at).is_some_and(|class| class.bytes == other.bytes);
        match to.checked_sub(1).filter(|before| alike(*before)).or((alike(to + 1)).then_some(to + 1)) {
            None => classes[to] = SizeClass::of(other),
            Some(same) => {
                self.add(same, other.address, other.block);
                self.drop_class(to);
            }
        }
    }

    // The few sizes behind one are moved by hand: to call `memmove` for them costs as much as all else.
    #[inline(always)]
    fn drop_class(&mut self, at: usize) {
        if self.classes.len() - at > FEW {
            self.classes.remove(at);
            return;
        }
        for to in at + 1..self.classes.len() {
            self.classes[to - 1] = self.classes[to];
        }
        self.classes.pop();
    }

    #[inline(always)]
    fn add_class(&mut self, at: usize, class: SizeClass) {
        if self.classes.len() - at > FEW {
            self.classes.insert(at, class);
            return;
        }
        self.classes.push(class);
        for to in (at + 1..self.classes.len()).rev() {
            self.classes[to] = self.classes[to - 1];
        }
        self.classes[at] = class;
    }

    /// Puts another block in the place of the one of a size at an address.
    #[inline(always)]
    pub(super) fn replace(&mut self, (bytes, address): (u64, u64), other: FreeBlock) {
        let at = self.place(bytes);
        if self.classes[at].address == address {
            self.put(at, other);
        } else {
            self.remove_other(at, address);
            self.insert(other);
        }
    }

    /// Adds a block.
    #[inline(always)]
    pub(super) fn insert(&mut self, other: FreeBlock) {
        let at = self.place(other.bytes);
        match self.classes.get(at) {
            Some(class) if class.bytes == other.bytes => self.add(at, other.address, other.block),
            _ => self.add_class(at, SizeClass::of(other)),
        }
    }

    /// Adds a block to those of its size.
    #[inline(always)]
    fn add(&mut self, at: usize, address: u64, block: BlockIndex) {
        let class = &mut self.classes[at];
        let higher = if address < class.address {
            (std::mem::replace(&mut class.address, address), std::mem::replace(&mut class.block, block))
        } else {
            (address, block)
        };
        self.list(at, higher);
    }

    /// Adds a block beside the lowest of its size.
    #[allow(clippy::cast_possible_truncation)]
    fn list(&mut self, at: usize, (address, block): (u64, BlockIndex)) {
        let class = &mut self.classes[at];
        if class.others == NONE {
            class.others = self.spare.pop().unwrap_or(self.lists.len() as u32);
            if class.others as usize == self.lists.len() {
                self.lists.push(Vec::new());
            }
        }
        let list = &mut self.lists[class.others as usize];
        if list.last().is_none_or(|(lowest, _)| address < *lowest) {
            list.push((address, block));
        } else {
            let at = list.partition_point(|(other, _)| *other > address);
            list.insert(at, (address, block));
        }
    }

    /// Takes out the block of a size at an address.
    #[inline(always)]
    pub(super) fn remove(&mut self, bytes: u64, address: u64) {
        let at = self.place(bytes);
        if self.classes[at].address == address {
            self.take(at);
        } else {
            self.remove_other(at, address);
        }
    }

    fn remove_other(&mut self, at: usize, address: u64) {
        let class = &mut self.classes[at];
        let list = &mut self.lists[class.others as usize];
        let from = list.partition_point(|(other, _)| *other > address);
        list.remove(from);
        if list.is_empty() {
            self.spare.push(class.others);
            class.others = NONE;
        }
    }

    /// Keeps those of which `keep` is true of their size and index.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u64, BlockIndex) -> bool) {
        for at in (0..self.classes.len()).rev() {
            let SizeClass { bytes, others, .. } = self.classes[at];
            if others != NONE {
                let list = &mut self.lists[others as usize];
                list.retain(|(_, block)| keep(bytes, *block));
                if list.is_empty() {
                    self.spare.push(others);
                    self.classes[at].others = NONE;
                }
            }
            if !keep(bytes, self.classes[at].block) {
                self.take(at);
            }
        }
    }
}
