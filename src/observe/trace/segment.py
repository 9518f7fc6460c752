"""One segment of a step, written as the tape has it."""

from names import COPIES, Number, element_of, group_of, part_of

HOMES = {"local": 0, "input": 1, "elsewhere": 2}
# Beyond the step; up to the end of the backward pass; in another segment, whether this one saves it or not. 1 is up to the end of
# autocast.
KEPT, LASTS, STAYS = 2, 3, 4
FLOWS = {"stop": 0, "pass": 1, "new": 2, "new view": 3}


def called(path, cls, kernel, work):
    """What screens and reports call an operator."""
    if work and work[0] == "attention":
        return "attention.core"
    plain = kernel.strip("_")
    if plain == "to_copy":
        plain = "cast"
    if not path:
        return plain
    # A layer of torch.nn is one operator, as a rule.
    return path if work and plain != "cast" else f"{path}.{plain}"


class Writer:
    """Writes segment `order` of an assembly."""

    def __init__(self, assembly, order):
        self.a, self.r, self.order = assembly, assembly.r, order
        self.path, self.cls, self.groups = assembly.pieces[assembly.run[order]]
        self.is_last = order == len(assembly.run) - 1
        self.tensors, self.weights, self.ops, self.for_others = [], [], [], []
        self.ids, self.roots, self.weight_at = {}, {}, {}
        self.written = set()
        self.came_in = assembly.main.get(order - 1) if order else None
        self.input_id = None
        # Uses of a weight with a gradient that are still to come: the last of them holds the gradient.
        self.uses_left = {}
        for group in self.groups:
            for number in group.flows:
                v = assembly.resolve(number)
                if v in assembly.parameters:
                    self.uses_left[v] = self.uses_left.get(v, 0) + 1

    def write(self):
        a = self.a
        self.cross = a.leaving(self.order)
        if self.came_in is not None and self.order in a.readers(self.came_in):
            self.input_id = self.tensor_of(self.came_in)
        for parameter in a.parameters_of(self.order):
            self.weight(parameter)
        holds = self.holds()
        self.arrive(holds)
        self.take_over()
        starts = []
        for index, group in enumerate(self.groups):
            starts.append(len(self.ops))
            self.op(group)
            held = holds.get(index)
            if held:
                self.hold(held)
        out = a.main.get(self.order)
        output = self.ids.get(out) if out is not None else None
        if self.is_last:
            output = self.ids.get(a.resolve(a.loss), output)
        also = [self.ids[v] for v in a.extra.get(self.order, ()) if v in self.ids]
        segment = {
            "name": self.cls or ("first" if self.order == 0 else "last" if self.is_last else "between"),
            "path": self.path, "block": bool(self.cls),
            "borrows": self.order > 0 and (self.order - 1) in a.held_outputs,
            "weights": self.weights, "tensors": self.tensors, "ops": self.ops, "output": output, "also": also,
        }
        made_again = [self.ids[v] for v in a.made_again.get(self.order, ()) if v in self.ids and self.ids[v] in also]
        known = {"also_made_again": made_again, "leaves_output": self.order in a.own_outputs, "shares_gradient": self.order in a.shared_gradients,
                 "inner": self.inner([*starts, len(self.ops)]), "for_others": self.for_others,
                 "reruns_all": a.run[self.order] in a.reentrant, "input_lasts": a.run[self.order] in a.inputs_last}
        return {**segment, **{name: what for name, what in known.items() if what}}

    def inner(self, starts):
        """Checkpoints in this one, by the places of their operators, of which groups start at `starts`."""
        calls = self.r.regions.within.get(self.a.started.get(self.a.run[self.order]), ())
        place = lambda op_at: starts[sum(group.first < op_at for group in self.groups)]
        found = [(place(start), place(end), again) for start, end, again in calls]
        return [list(one) for one in found if one[0] < one[1]]

    # Tensors

    def shape(self, tensor):
        shape = [Number(side) for side in tensor.shape]
        if element_of(tensor.dtype)[1] > 1:
            shape.append(Number(element_of(tensor.dtype)[1]))
        return shape

    def add(self, shape, dtype, group, home, grad, cached=0, view=None):
        self.tensors.append([shape, dtype, group, HOMES.get(home, home), int(grad), cached, view])
        return len(self.tensors) - 1

    def tensor_of(self, number, group="residual"):
        v = self.a.resolve(number)
        known = self.ids.get(v)
        if known is not None:
            return known
        tensor = self.r.tensors[v]
        if v in self.a.parameters:
            return self.weight_tensor(v)
        element = element_of(tensor.dtype)[0]
        grad = v in self.a.graded
        place = self.a.made_in.get(v)
        if place == self.order:
            made = self.local(v, tensor, element, group, grad)
        elif v == self.came_in or (self.came_in is not None and self.input_id is None
                                   and self.r.tensors[self.came_in].storage == tensor.storage and v == self.came_in):
            made = self.input(tensor, element, grad)
        elif self.input_id is not None and not grad and self.is_in_input(tensor):
            # What came in, as an operator that writes over it saw it before: this segment may be the one to hold it.
            made = self.add(self.shape(tensor), element, group, "local", grad, 0, self.roots[tensor.storage])
        else:
            made = self.add(self.shape(tensor), element, group, "elsewhere", grad, self.stays(tensor.storage),
                            self.roots[tensor.storage] if self.is_taken_over(tensor.storage, {self.order}) else None)
            self.roots.setdefault(tensor.storage, made)
        self.ids[v] = made
        return made

    def input(self, tensor, element, grad):
        """What comes in; where that is a part of what is in memory, or expanded, all that is there beside it."""
        there, lasts = self.r.storages[tensor.storage].bytes, self.lasts(tensor.storage)
        if there == tensor.numel * tensor.dtype.itemsize:
            made = self.roots[tensor.storage] = self.add(self.shape(tensor), element, "residual", "input", grad, lasts)
            return made
        root = self.roots[tensor.storage] = self.add([Number(there)], "u8", "residual", "input", False, lasts)
        return self.add(self.shape(tensor), element, "residual", "input", grad, 0, root)

    def is_in_input(self, tensor):
        """Whether it lies in the memory of what comes in."""
        return self.r.tensors[self.came_in].storage == tensor.storage and tensor.storage in self.roots

    def take_over(self):
        """What comes from far before and is first saved here is there from the start."""
        made = [(one, self.add([Number(self.r.storages[one].bytes)], "u8", "residual", "local", False))
                for one in sorted(self.a.taken_over.get(self.order, ()))]
        self.roots.update(made)
        self.hold([], [root for _, root in made])
        self.written.update(root for _, root in made)

    def is_taken_over(self, storage, orders=None):
        return any(storage in self.a.taken_over[order] for order in self.a.taken_over if orders is None or order in orders)

    def stays(self, storage):
        others = self.a.saves.get(storage, set()) - {self.order}
        return STAYS if others or storage in self.a.kept or storage in self.r.lasting else 0

    def lasts(self, storage):
        return LASTS if storage in self.r.lasting else 0

    def local(self, v, tensor, element, group, grad):
        storage = self.r.storages[tensor.storage]
        root = self.roots.get(tensor.storage)
        here = self.a.made_in.get(("storage", tensor.storage)) == self.order
        if root is not None:
            return self.add(self.shape(tensor), element, group, "local", grad, 0, root)
        cached = self.lasts(tensor.storage) or int(self.a.is_cached(v) and not self.is_taken_over(tensor.storage))
        if cached == 1:
            group = "weight_copy"
        if tensor.storage in self.r.cache:
            cached, group = 1, "kv_cache"
        if here and tensor.storage in self.a.kept | self.a.swapped:
            # The model has it between steps as well: it is counted with its buffers, or is a parameter or a buffer now.
            kept = KEPT if tensor.storage in self.a.kept else 0
            root = self.roots[tensor.storage] = self.add([Number(storage.bytes)], "u8", group, "elsewhere", False, kept)
            return self.add(self.shape(tensor), element, group, "local", grad, 0, root)
        whole = tensor.numel * tensor.dtype.itemsize == storage.bytes
        if here and whole:
            made = self.add(self.shape(tensor), element, group, "local", grad, cached)
            self.roots[tensor.storage] = made
            return made
        if here:
            root = self.add([Number(storage.bytes)], "u8", group, "local", False, cached)
        else:
            owner = storage.first if storage.first < len(self.a.alias) else None
            if owner is not None and self.a.resolve(owner) in self.a.parameters:
                root = self.weight_tensor(self.a.resolve(owner))
            elif self.came_in is not None and self.r.tensors[self.came_in].storage == tensor.storage:
                root = self.tensor_of(self.came_in)
            else:
                root = self.add([Number(storage.bytes)], "u8", group, "elsewhere", False)
        self.roots[tensor.storage] = root
        return self.add(self.shape(tensor), element, group, "local", grad, 0, root)

    # Weights

    def weight(self, v):
        at = self.weight_at.get(v)
        if at is not None:
            return at
        name, parameter, owner = self.a.parameters[v]
        uses = self.a.weight_uses.get(v, [])
        home = self.a.weight_home.get(v, self.order)
        meets = 0
        if len(uses) > 1:
            # Parts of its gradient come from several segments: the last one's waits for the others'.
            meets = 1 if self.order == uses[-1] else 2
        short = name[len(self.path) + 1:] if self.path and name.startswith(self.path + ".") else name
        at = self.weight_at[v] = len(self.weights)
        self.weights.append([short, list(parameter.shape), element_of(parameter.dtype)[0], part_of(name, parameter.shape, owner),
                             self.a.trains(v), int(home != self.order), meets, *([1] if parameter.dtype.is_complex else [])])
        return at

    def weight_tensor(self, v):
        at = self.weight(v)
        if v not in self.ids:
            tensor = self.r.tensors[v]
            parameter = self.a.parameters[v][1]
            self.ids[v] = self.add(self.shape(tensor), element_of(tensor.dtype)[0], "weight_copy", 3 + at,
                                   parameter.requires_grad)
            self.roots[tensor.storage] = self.ids[v]
        return self.ids[v]

    def operand(self, number, flow, group):
        """An operand; an earlier use of a weight that is used again makes a part of its gradient that goes at once."""
        v = self.a.resolve(number)
        if v in self.uses_left and flow != "stop":
            self.uses_left[v] -= 1
            if self.uses_left[v]:
                tensor = self.r.tensors[v]
                root = self.weight_tensor(v)
                return self.add(self.shape(tensor), element_of(tensor.dtype)[0], "weight_copy", "elsewhere", True, 0, root)
        return self.tensor_of(number, group)

    # Operators

    def op(self, group):
        first = group.ops[0]
        relative = first.path[len(self.path):].lstrip(".") if first.path.startswith(self.path) else first.path
        term = group_of(first.path, first.cls, self.is_last)
        work = next((op.args for op in group.ops if op.args), None)
        inputs = []
        for number in group.inputs:
            flow = group.flows.get(number, "stop")
            inputs.append([self.operand(number, flow, term), FLOWS[flow]])
        outputs = []
        for number in group.outputs:
            made = self.tensor_of(number, term)
            root = self.tensors[made][6]
            # A root of its own stands before its views.
            if root is not None and self.tensors[root][3] == HOMES["local"] and root not in self.written and root not in outputs:
                outputs.append(root)
            if made not in outputs:
                outputs.append(made)
        self.written.update(outputs)
        saved = []
        for number in group.saved:
            if self.on_device(number):
                one = self.tensor_of(number, term)
                if one not in saved:
                    saved.append(one)
        for storage in self.a.kept_by.get((self.order, group.first), ()):
            one = self.roots.get(storage)
            if one is not None and one not in saved:
                saved.append(one)
                self.for_others.append(one)
        node = self.r.nodes.get(group.node) if group.node is not None else None
        ran = node is not None and node.ran
        views = all(self.is_view(op) for op in group.ops)
        kernel = first.name if len(group.ops) == 1 else node.name if node is not None else "custom function"
        self.ops.append([
            called(relative, first.cls, kernel, work), first.cls, kernel, self.unit(work, group), self.work(work), inputs, outputs, saved,
            Number(group.scratch + self.beside_old(group)), Number(node.scratch if ran else 0), Number(sum(op.flops for op in group.ops)),
            Number(node.flops if ran else 0), 0 if views else len(group.ops), int(first.name not in COPIES),
            *([1] if any(op.kept for op in group.ops) else []),
        ])

    def beside_old(self, group):
        """Bytes of what takes a parameter's or a buffer's place, which is there still when it is made."""
        made = {self.r.tensors[number].storage for op in group.ops for number in op.outputs} & self.a.swapped
        return sum(self.r.storages[one].bytes for one in made if self.r.storages[one].born >= group.first)

    def on_device(self, number):
        return self.r.tensors[number].storage is not None

    def is_view(self, op):
        storages = {self.r.tensors[number].storage for number in op.inputs}
        return not op.mutates and bool(op.outputs) and all(
            self.r.tensors[number].storage in storages for number in op.outputs)

    def unit(self, work, group):
        if not work or work[0] in ("rows", "normalized"):
            return "vector"
        made = next((self.r.tensors[number] for number in group.outputs), None)
        element = element_of(made.dtype)[0] if made is not None else "f32"
        return f"{'attention' if work[0] == 'attention' else 'matrix'}:{element}"

    @staticmethod
    def work(work):
        return [work[0], [Number(one) for one in work[1:]]] if work else None

    # Names that Python has for tensors

    def holds(self):
        """Tensors that are released later than their last use: by the group behind which they are."""
        a, r = self.a, self.r
        last_use = {}
        for index, group in enumerate(self.groups):
            for number in [*group.inputs, *group.outputs]:
                last_use[r.tensors[number].storage] = index
        firsts = [group.first for group in self.groups]
        held = {}
        end = len(self.groups) - 1
        for storage, index in last_use.items():
            record = r.storages[storage]
            if record.kind != "made" or storage is None or storage in r.cache or storage in a.kept | a.swapped:
                continue
            if a.made_in.get(("storage", storage)) != self.order and not (
                    self.came_in is not None and r.tensors[self.came_in].storage == storage):
                continue
            died = record.died
            if storage in a.saves and record.named is not None and not a.is_cached(record.first):
                # Autograd has it longer, unless what saves it is frozen; of a frozen weight autocast keeps no copy.
                died = record.named
            if died is None or died < 0 or died > len(r.ops):
                until = end if storage not in a.saves else index
            else:
                until = index
                while until < end and firsts[until + 1] < died:
                    until += 1
            if until > index:
                held.setdefault(until, []).append(storage)
        return held

    def arrive(self, holds):
        """What earlier segments left comes in, and is released behind the group in whose course it goes."""
        for storage in self.a.arriving.get(self.order, ()):
            self.roots[storage] = self.add([Number(self.r.storages[storage].bytes)], "u8", "residual", "input", False)
            died = self.r.storages[storage].died
            before = [index for index, group in enumerate(self.groups) if died is not None and group.first < died]
            holds.setdefault(before[-1] if before else 0, []).append(storage)

    def hold(self, storages, there=()):
        """What is released here, and what is there from here on."""
        inputs = [[self.roots[one], 0] for one in storages if one in self.roots]
        if inputs or there:
            zero = Number(0)
            self.ops.append(["hold", "", "hold", "vector", None, inputs, list(there), [], zero, zero, zero, zero, 0, 0])
