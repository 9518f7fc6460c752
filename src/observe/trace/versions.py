"""Writes through views: autograd puts one function in the place of the base's, which takes the gradient of all of it, and makes
views anew when they are read (torch/csrc/autograd/variable.cpp, `rebase_history`; functions/tensor.cpp, `CopySlices`). What stands
behind such a write is another tensor than what stood before."""

import copy


class Versions:
    """The tensors of a recorder that are written through their views."""

    def __init__(self, recorder):
        self.r = recorder
        # By storage: the tensor that owns it now, and how often it was written.
        self.owner, self.writes = {}, {}
        # By tensor: what stands for it now; by view: of which write it is.
        self.now, self.seen = {}, {}
        # The view that was made last, by storage and shape.
        self.views = {}

    def split(self):
        ops = self.r.ops[:self.r.forward_ops]
        for at, op in enumerate(ops):
            op.inputs = [self.current(number) for number in op.inputs]
            node = self.r.nodes.get(op.seq + 1) if op.mutates and op.graded and op.inputs else None
            if node is not None and "CopySlices" in node.name and op.node not in self.r.nodes:
                self.write(at, op, ops[at + 1] if at + 1 < len(ops) else None)
            else:
                self.note(op)
            op.saved = [self.now.get(number, number) for number in op.saved]

    def storage(self, number):
        return self.r.tensors[number].storage

    def current(self, number):
        """What stands for a tensor that is read."""
        if number in self.now:
            return self.now[number]
        storage = self.storage(number)
        writes = self.writes.get(storage, 0)
        if not writes or self.seen.get(number, writes) == writes:
            return number
        made = self.views.get((storage, self.r.tensors[number].shape))
        return made if made is not None and self.seen[made] == writes else number

    def note(self, op):
        """Owners of memory, and views of it."""
        for number in (*op.inputs, *op.outputs):
            storage = self.storage(number)
            if storage is None:
                continue
            owner = self.owner.setdefault(storage, number)
            if number == owner or number in op.inputs:
                continue
            if op.mutates and op.inputs[:1] == [owner]:
                # In place on the owner itself: the same tensor goes on.
                self.owner[storage] = number
                continue
            self.seen[number] = self.writes.get(storage, 0)
            if not op.mutates:
                self.views[storage, self.r.tensors[number].shape] = number

    def write(self, at, op, behind):
        """A write through a view: the owner's tensor is another one from here on."""
        r, view = self.r, op.inputs[0]
        storage = self.storage(view)
        before = self.owner.setdefault(storage, view)
        after = copy.copy(r.tensors[before])
        after.maker, after.seq = at, op.seq + 1
        r.tensors.append(after)
        number = len(r.tensors) - 1
        for one, stands in list(self.now.items()):
            if stands == before:
                self.now[one] = number
        self.now[before] = self.owner[storage] = number
        self.writes[storage] = self.writes.get(storage, 0) + 1
        for made in op.outputs:
            self.seen[made] = self.writes[storage] - 1
        op.node = op.seq + 1
        op.inputs = [before, *(one for one in op.inputs if one != before)]
        op.outputs = [*op.outputs, number]
        if behind is not None and not behind.mutates and behind.saved and storage in map(self.storage, behind.inputs):
            # What it saves is packed behind the view that is made anew.
            op.saved, behind.saved = [*op.saved, *behind.saved], []


def split(recorder):
    if any("CopySlices" in node.name for node in recorder.nodes.values()):
        Versions(recorder).split()
