"""What autograd sees as one operator of a recorded step: which operators are its, where its gradients go, and which views stand
for what they are views of."""

from collections import Counter

VIEWS = {"view", "_unsafe_view", "t", "transpose", "permute", "unsqueeze", "squeeze", "detach", "alias", "_reshape_alias"}


class Group:
    """What autograd sees as one operator."""

    __slots__ = ("first", "last", "ops", "node", "inputs", "outputs", "saved", "scratch", "flows")

    def __init__(self, at):
        self.first = self.last = at
        self.ops, self.node, self.inputs, self.outputs, self.saved, self.scratch = [], None, [], [], [], 0
        self.flows = {}


class Groups:
    """Those of a recorder `r`."""

    def resolve(self, number):
        while self.alias[number] != number:
            number = self.alias[number]
        return number

    def on_device(self, number):
        return self.r.tensors[number].storage is not None

    def is_cached(self, v):
        """A copy of a weight that autocast's cache keeps until it is left: of the weight itself, as copies of its views are made anew
        each time (aten/src/ATen/autocast_mode.cpp, `cached_cast`)."""
        tensor = self.r.tensors[v]
        if not self.r.autocast or tensor.maker is None:
            return False
        op = self.r.ops[tensor.maker]
        if op.name != "_to_copy" or not op.inputs or op.inputs[0] not in self.parameters:
            return False
        # Without gradients too: autocast asks whether the weight could have one.
        if not (op.graded or self.answers) or not self.parameters[op.inputs[0]][1].requires_grad:
            return False
        died = self.r.storages[tensor.storage].died
        return died is None or died < 0 or died >= self.r.forward_ops

    def gather(self):
        r, groups, custom = self.r, [], None
        for at, op in enumerate(r.ops[:r.forward_ops]):
            inside = not op.graded and op.node is not None
            if inside and custom is not None and custom.node == op.node:
                group = custom
            else:
                group = Group(at)
                group.node = op.node
                groups.append(group)
                custom = group if inside else None
            group.ops.append(op)
            group.last = at
        for group in groups:
            self.finish_group(group)
        return [group for group in groups if group.outputs or group.saved]

    def finish_group(self, group):
        r = self.r
        made, saved = set(), []
        for op in group.ops:
            for number in op.inputs:
                if number not in made and number not in group.inputs and self.on_device(number):
                    group.inputs.append(number)
            made.update(op.outputs)
            saved.extend(op.saved)
        # What a custom function saves it saves when it has run, and an operator of torch.library is one
        # (torch/_library/autograd.py, `make_autograd_impl`).
        saved.extend(r.saving.pop(group.node, ()))
        # What its context has as attributes is held as what it saves.
        saved.extend(number for number in r.attributes.get(group.node, ()) if number not in saved)
        # A part of the graph that leads to no loss goes with its output, and what it saved with it.
        for number in saved:
            if r.tensors[number].storage in r.dropped:
                self.unled.add(r.tensors[number].storage)
            else:
                group.saved.append(number)
        if len(group.ops) == 1:
            group.outputs = [number for number in group.ops[0].outputs if self.on_device(number)]
            name = group.ops[0].name
            # What is multiplied first, then what by, then what is added.
            if name in ("addmm", "baddbmm") and len(group.inputs) == 3:
                group.inputs = group.inputs[1:] + group.inputs[:1]
            return
        for op in group.ops:
            for number in op.outputs:
                tensor = r.tensors[number]
                if tensor.seq is None:
                    tensor.seq = group.node
        alive = peak = 0
        lasting = set()
        for index, op in enumerate(group.ops):
            at = group.first + index
            for number in op.outputs:
                storage = r.tensors[number].storage
                if storage is None or r.storages[storage].born != at or r.storages[storage].first != number:
                    continue
                died = r.storages[storage].died
                if died is None or died < 0 or died > group.last + 1:
                    lasting.add(number)
                alive += r.storages[storage].bytes
            peak = max(peak, alive)
            for number in {storage for other in group.ops[: index + 1] for storage in
                           (r.tensors[one].storage for one in other.outputs) if storage is not None}:
                if r.storages[number].died == at + 1 and r.storages[number].born >= group.first:
                    alive -= r.storages[number].bytes
        keep = sum(r.storages[r.tensors[number].storage].bytes for number in lasting)
        group.scratch = max(0, peak - keep)
        used = set(group.saved)
        storages = {r.tensors[number].storage for number in lasting}
        group.outputs = [number for op in group.ops for number in op.outputs
                         if self.on_device(number) and (r.tensors[number].storage in storages or number in used)]

    # Gradients

    def connect(self, group):
        """Where the gradients of a group's function go, and whether they are new memory."""
        node = self.r.nodes.get(group.node) if group.node is not None else None
        if node is None or not node.ran:
            return
        left = list(group.inputs)
        for edge, sent in zip(node.edges, node.sent):
            if edge is None or sent is None:
                continue
            tensors = self.r.tensors
            if edge[0] == "parameter":
                found = next((one for one in left if one == edge[1]), None)
            else:
                found = next((one for one in left if tensors[one].seq == edge[0]), None)
                if found is None:
                    # What a function saved of its own output, and a backward pass in the forward pass read.
                    found = next((one for one in left if self.stands_for(one, edge[0])), None)
            if found is None:
                self.unmatched += 1
                continue
            left.remove(found)
            if edge[0] == "parameter" and self.is_leaf_made(found) and found not in group.saved:
                # What adds up its gradient holds it (torch/csrc/autograd/functions/accumulate_grad.h, `variable`).
                group.saved.append(found)
            key, view, _ = sent
            new = key in node._start
            view = self.reaches_as_view(found) or view
            group.flows[found] = ("new view" if view else "new") if new else "pass"

    def stands_for(self, number, seq):
        """Whether a tensor is a view of what a function made, of as many elements."""
        while self.alias[number] != number:
            number = self.alias[number]
            if self.r.tensors[number].seq == seq:
                return True
        return False

    def is_leaf_made(self, number):
        """Whether it was made in this pass, and asks for a gradient of its own, as interpolated samples of gradient penalties do."""
        storage = self.r.tensors[number].storage
        return number in self.r.plain and storage is not None and self.r.storages[storage].kind == "made"

    def reaches_as_view(self, number):
        """Whether gradients of what stands for another tensor come there as views. Those of several readers of the one view are
        summed before, in memory of their own."""
        if not self.arrives_as_view.get(number, False):
            return False
        return self.gradients_for(number) < 2 or self.gradients_for(self.resolve(number)) > 1

    def gradients_for(self, number):
        """How many functions send a gradient to what made a tensor."""
        if self.read_by is None:
            self.read_by = Counter(edge[0] for node in self.r.nodes.values() if node.ran
                                   for edge, sent in zip(node.edges, node.sent) if edge is not None and sent is not None)
        return self.read_by[self.r.tensors[number].seq]

    def collapse(self, group):
        """A view of as many elements stands for what it is a view of."""
        op = group.ops[0]
        if group.saved:
            # What an operator in place on a view saves comes behind the view that is made again
            # (torch/csrc/autograd/variable.cpp, `rebase_history`).
            return False
        if len(group.ops) > 1 or op.name not in VIEWS or len(group.inputs) != 1 or len(group.outputs) != 1 or op.mutates:
            return False
        before, after = group.inputs[0], group.outputs[0]
        tensors = self.r.tensors
        same = tensors[before].numel == tensors[after].numel and tensors[before].dtype == tensors[after].dtype
        flow = group.flows.get(before, "pass")
        if not same or flow != "pass" or tensors[before].storage != tensors[after].storage:
            return False
        storage = tensors[before].storage
        if storage is not None and self.r.storages[storage].kind == "parameter" and self.gradients_for(after) > 1:
            # Gradients of a transposed weight are summed there, as those of a pass and of its own backward pass, and come to the
            # weight together.
            return False
        self.alias[after] = before
        node = self.r.nodes.get(group.node) if group.node is not None else None
        own = any(sent is not None and sent[1] for sent in node.sent) if node is not None and node.ran else False
        self.arrives_as_view[after] = own or self.arrives_as_view.get(before, False)
        return True
