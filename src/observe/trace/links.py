"""What segments are to each other: where they stand, what they hold, and which of them made what another one reads, where a gradient
may flow to it (with parts of a model frozen it may not)."""

from segment import HOMES, Writer


def reads(assembly, writers):
    """By segment that ran: a tensor of its own, the segment that made it, and the tensor there. Of those to which no gradient may flow,
    what is saved."""
    found = []
    for writer in writers:
        is_read = lambda v, here: writer.tensors[here][3] == HOMES["elsewhere"] and (
            writer.tensors[here][4] or assembly.r.tensors[v].storage in assembly.saves)
        read = [(v, here) for v, here in writer.ids.items() if is_read(v, here)]
        found.append([(here, assembly.made_in[v], writers[assembly.made_in[v]].ids[v]) for v, here in read
                      if v in assembly.made_in and v in writers[assembly.made_in[v]].ids])
    return found


def by_place(assembly, writers, order):
    """The same by place: that of the segment, its tensor, that of the maker, and the tensor there."""
    found = reads(assembly, writers)
    return [[place, here, assembly.run[maker], there] for place, at in enumerate(order) for here, maker, there in found[at]]


def of_pending(assembly, writers):
    """What each gradient is of that waits: the place of its maker, and the tensor there; none where that is not known."""
    ids = [(order, writers[order].ids.get(v)) for order, v in assembly.pending_of]
    return [None if there is None else [assembly.run[order], there] for order, there in ids]


def named(assembly, writers):
    """What Python has a name for while later segments run, of what autograd saves as well: where that is frozen, the name alone has it.
    The place of the maker, the tensor there, and the places behind which and up to which it is held."""
    found = []
    for order, writer in enumerate(writers):
        main = assembly.main.get(order)
        for storage in assembly.stored.get(order, ()):
            record = assembly.r.storages[storage]
            lasts = storage in assembly.saves and record.named is not None and storage in writer.roots
            if not lasts or storage in assembly.kept | assembly.swapped or assembly.is_cached(record.first):
                continue
            comes_in = main is not None and assembly.r.tensors[main].storage == storage and order + 1 in assembly.readers(main)
            first, until = order + comes_in, held_until(assembly, record.named)
            if until > first:
                found.append([assembly.run[order], writer.roots[storage], assembly.run[first], assembly.run[until]])
    return found


def held_until(assembly, end):
    """The last segment that runs while something is there that goes behind as many operators: one that is no block may begin with
    that."""
    order = assembly.segment_of(max(0, end - 1))
    groups = assembly.pieces[assembly.run[order]][2]
    begins = not assembly.pieces[assembly.run[order]][1] and groups and end <= (groups[0].first + groups[-1].last) // 2
    return order - 1 if begins and order else order


def written(assembly):
    """Segments that ran, which of them stands at each place, and what they hold for each other by place."""
    writers = [Writer(assembly, order) for order in range(len(assembly.run))]
    made = [writer.write() for writer in writers]
    order, at = [], -1
    for _, _, groups in assembly.pieces:
        at += groups is not None
        order.append(at)
    places = lambda entries: [[assembly.run[one[0]], assembly.run[one[1]], *one[2:]] for one in entries]
    # With a reader's place there is one more.
    held = lambda entries: [[*one[:5], *(assembly.run[reader] for reader in one[5:])] for one in places(entries)]
    passing = held(assembly.passing)
    for from_, to, *what in held(assembly.gathered):
        following = from_ + 1
        while following < to and assembly.pieces[following][2] is None:
            passing.append([following, to, *what])
            following += 1
    paths = [path for path, _, _ in assembly.pieces]
    return (made, order, places(assembly.pending), passing, by_place(assembly, writers, order),
            of_pending(assembly, writers), paths, named(assembly, writers))
