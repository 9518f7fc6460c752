"""What PyTorch's CUDA caching allocator (c10/cuda/CUDACachingAllocator.cpp) reserves for a list of requests, where memory
is never short: two pools, best fit, blocks split where enough is left and joined with free neighbours."""

import bisect

MIB = 1 << 20


class Block:
    def __init__(self, size, address, small):
        self.size, self.address, self.small = size, address, small
        self.before = self.behind = None
        self.free = False

    def order(self):
        return self.size, self.address


def segment(size):
    """Bytes that are reserved for a request that no free block serves."""
    if size <= MIB:
        return 2 * MIB
    return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB


def join(block, behind):
    block.size += behind.size
    block.behind = behind.behind
    if block.behind:
        block.behind.before = block


def reserved(events):
    """Bytes of all segments after `events`: a key with the bytes that are taken under it, or 0 where they are given back."""
    pools, held, total = {True: [], False: []}, {}, 0
    for key, size in events:
        if size:
            small = size <= MIB
            pool = pools[small]
            at = bisect.bisect_left(pool, (size, 0), key=Block.order)
            if at < len(pool):
                block = pool.pop(at)
            else:
                block = Block(segment(size), total, small)
                total += block.size
            left = block.size - size
            if left >= 512 if small else left > MIB:
                rest = Block(left, block.address + size, small)
                rest.free, rest.before, rest.behind = True, block, block.behind
                if rest.behind:
                    rest.behind.before = rest
                block.size, block.behind = size, rest
                bisect.insort(pool, rest, key=Block.order)
            block.free, held[key] = False, block
        elif key in held:
            block = held.pop(key)
            pool = pools[block.small]
            if block.behind and block.behind.free:
                pool.remove(block.behind)
                join(block, block.behind)
            if block.before and block.before.free:
                pool.remove(block.before)
                block = block.before
                join(block, block.behind)
            block.free = True
            bisect.insort(pool, block, key=Block.order)
    return total
