"""From a recorded step to the tape: the model's blocks and what lies between them, each with its operators, tensors and
weights, as autograd runs them. Numbers that depend on sizes are kept apart, so that steps of other sizes can be laid
beside."""

import checkpoints
import lasting
import versions
import waiting
from groups import Groups
from names import Number, element_of, within


class Assembly(Groups):
    """One recorded step, cut into segments."""

    def __init__(self, recorder, model, loss):
        self.r = recorder
        versions.split(recorder)
        self.parameters = {}
        for name, parameter in model.named_parameters():
            owner = model.get_submodule(name.rpartition(".")[0])
            self.parameters[recorder.identify(parameter, kind="parameter")] = (name, parameter, owner)
        self.model = model
        self.alias = list(range(len(recorder.tensors)))
        # Whether the gradient that comes to a tensor through collapsed views is a view.
        self.arrives_as_view, self.read_by = {}, None
        self.unmatched = 0
        # A pass without gradients.
        self.answers = not recorder.nodes
        self.loss = loss
        if self.loss >= len(self.alias):
            self.alias.extend(range(len(self.alias), len(recorder.tensors)))
        # What functions saved that lead to no loss: it is held as long as their output.
        self.unled = set()
        self.groups = self.gather()
        left = []
        for group in self.groups:
            self.connect(group)
            if not self.collapse(group):
                left.append(group)
        self.groups = left
        self.cut()
        self.find_uses()
        self.swapped = self.find_swapped()
        self.kept = self.find_kept() - self.swapped

    def cut(self):
        """Blocks and what lies between them: path, class, groups; none for a block that was passed over."""
        r = self.r
        # Pieces that a backward pass of their own recomputes, to the last operator; the first operator of each call's.
        pieces, self.reentrant, self.inputs_last, self.started = [], set(), set(), {}
        named = lambda path: type(self.model.get_submodule(path)).__name__
        calls = [(path, named(path), start, end) for path, start, end, _ in r.regions.calls] or r.blocks
        reentrant = {start: how for _, start, _, how in r.regions.calls if how}
        rest = list(self.groups)
        taken = 0

        def until(end):
            nonlocal taken
            start = taken
            while taken < len(rest) and rest[taken].first < end:
                taken += 1
            return rest[start:taken]

        first = True
        for path, cls, start, end in calls:
            if start is None:
                pieces.append((path, cls, None))
                continue
            between = until(start)
            if first or between:
                pieces.append(("", "", between))
            first = False
            pieces.append((path, cls, until(end)))
            self.started[len(pieces) - 1] = start
            if start in reentrant:
                self.reentrant.add(len(pieces) - 1)
                self.inputs_last.update([len(pieces) - 1] if reentrant[start] == checkpoints.INPUTS_LAST else [])
        pieces.append(("", "", until(len(r.ops) + 1)))
        if len(pieces) == 1:
            pieces = [("", "", []), *pieces]
        self.pieces = pieces
        self.run = [index for index, piece in enumerate(pieces) if piece[2] is not None]
        self.place = {}
        for order, index in enumerate(self.run):
            for group in pieces[index][2]:
                for op_at in range(group.first, group.last + 1):
                    self.place[op_at] = order

    def segment_of(self, op_at):
        """The segment of an operator, or of the last one before it that is left: what is let go of behind a view is gone when the
        next segment starts."""
        return next((self.place[at] for at in range(op_at, -1, -1) if at in self.place), 0)

    def find_uses(self):
        """Which segments read, save and pass gradients to what others made."""
        r = self.r
        self.made_in, self.reads, self.saves, self.flows = {}, {}, {}, {}
        for order, index in enumerate(self.run):
            for group in self.pieces[index][2]:
                for number in group.inputs:
                    self.reads.setdefault(r.tensors[number].storage, set()).add(order)
                    if number in group.flows:
                        self.flows.setdefault(self.resolve(number), set()).add(order)
                for number in group.saved:
                    if self.on_device(number):
                        self.saves.setdefault(r.tensors[number].storage, set()).add(order)
                for number in group.outputs:
                    self.made_in.setdefault(self.resolve(number), order)
                    storage = r.tensors[number].storage
                    if r.storages[storage].born >= group.first:
                        self.made_in.setdefault(("storage", storage), order)
        # Storages that each segment made.
        self.stored = {}
        for number in range(len(r.storages)):
            order = self.made_in.get(("storage", number))
            if order is not None:
                self.stored.setdefault(order, []).append(number)

    def find_kept(self):
        """Storages that somebody has a name for beyond the step: weights that `torch.nn.utils.weight_norm` and `spectral_norm` make in
        each pass, what a layer keeps to be looked at, features that hooks put into lists. The next step finds them there, and puts its
        own in their place."""
        kept = set(self.r.remaining)
        if self.answers:
            kept.update(map(self.made_alone, lasting.named_by(self.model)))
        elif not self.r.is_alone:
            kept.update(map(self.made_here, lasting.named_by(self.model)))
        return frozenset(kept) - {None}

    def find_swapped(self):
        """Storages that a step puts in the place of a parameter's or a buffer's own (`param.data = …`): the old one goes."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return frozenset(map(self.r.known, tensors)) - {None}

    def made_here(self, tensor):
        """The storage of a tensor that a segment made."""
        storage = self.r.known(tensor)
        return storage if ("storage", storage) in self.made_in else None

    def made_alone(self, tensor):
        """The storage of a tensor that one segment made, and no other one uses."""
        storage = self.r.known(tensor)
        order = self.made_in.get(("storage", storage))
        uses = self.reads.get(storage, set()) | self.saves.get(storage, set())
        return storage if order is not None and uses <= {order} else None

    def died_in(self, storage):
        """The segment in whose course a storage is released in the forward pass; the last where it is not."""
        died = self.r.storages[storage].died
        if died is None or died < 0 or died >= self.r.forward_ops:
            return len(self.run) - 1
        return self.segment_of(max(0, died - 1))

    # What leaves segments

    def plan_leaving(self):
        """The main output of each segment, other tensors whose gradients come back, and what is held for whom."""
        count, r = len(self.run), self.r
        self.graded = self.find_graded()
        self.main, self.extra, self.held_outputs, self.kept_by = {}, {}, set(), {}
        # Storages that their makers hold; segments whose own operators alone save their output, beside the next one: recomputed, they
        # leave it to that one; and other tensors that they make again.
        self.held, self.own_outputs, self.made_again = set(), set(), {}
        # Segments whose output's gradient is another tensor's as well, until they have run backward.
        self.shared_gradients = set()
        # Gradients that wait, and the segment and the tensor that each is for.
        self.pending, self.pending_of, self.passing = [], [], []
        # What is held up to the end: blocks that were passed over hold as much.
        self.gathered = []
        # What is there when a segment that is no block starts, and goes in its course: by segment.
        self.arriving = {}
        # What segments far behind its maker save first: by segment.
        self.taken_over = {}
        self.weights_by_segment()
        leaving = {order: [] for order in range(count)}
        for v, made in list(self.made_in.items()):
            if isinstance(v, tuple) or v in self.parameters or r.tensors[v].storage in self.swapped:
                continue
            later = {one for one in self.readers(v) if one > made}
            if later:
                leaving[made].append((v, later))
        for order in range(count - 1):
            # What the next segment reads first: sizes must not decide, as they differ from step to step.
            first = self.reading_order(order + 1)
            early = lambda entry: (first.get(entry[0], len(first)), -entry[0])
            graded = [entry for entry in leaving[order] if entry[0] in self.graded]
            chosen = [entry for entry in graded if order + 1 in entry[1]] or graded \
                or [entry for entry in leaving[order] if order + 1 in entry[1]]
            if chosen:
                self.main[order] = min(chosen, key=early)[0]
            self.extra[order] = [v for v, _ in graded if v != self.main.get(order)]
        for order in range(count):
            done = set()
            for v, later in sorted(leaving[order], key=lambda entry: entry[0] != self.main.get(order)):
                self.leave(order, v, later, done)
            self.outlive(order, done)
        waiting.hold_wholes(self)

    def outlive(self, order, done):
        """What nobody reads any more and a frame, or a part of the graph that leads to no loss, holds while later segments run: as
        probabilities that a block returns beside its output, which its caller has until the next block returns."""
        for number in self.stored.get(order, ()):
            if number in self.saves and number not in self.unled and not self.answers:
                continue
            storage = self.r.storages[number]
            lasts = storage.kind == "made" and number not in done and number not in self.r.cache and number not in self.kept | self.swapped
            if lasts and not self.is_cached(storage.first):
                self.pass_on(order, self.last_beside(number), number, [1])

    def last_beside(self, storage):
        """The last segment that runs while a storage is there: what is no block may begin with its release."""
        order, died = self.died_in(storage), self.r.storages[storage].died
        if self.answers or storage in self.unled or died is None or self.pieces[self.run[order]][1]:
            return order
        groups = self.pieces[self.run[order]][2]
        middle = (groups[0].first + groups[-1].last) // 2 if groups else died
        return order - 1 if 0 <= died <= middle else order

    def reading_order(self, order):
        """Tensors in the order in which a segment first reads them."""
        first = {}
        for group in self.pieces[self.run[order]][2]:
            for number in group.inputs:
                first.setdefault(self.resolve(number), len(first))
        return first

    def leave(self, order, v, later, done):
        """What a tensor that `order` made costs while later segments use it."""
        tensor = self.r.tensors[v]
        storage, is_main = tensor.storage, v == self.main.get(order)
        next_takes = is_main and order + 1 in later
        flows = sorted(one for one in self.flows.get(v, ()) if one > order)
        if flows and flows[-1] > order + next_takes:
            first = order + (2 if next_takes and waiting.shares_gradient(self, order, v, flows) else 1)
            if flows[-1] >= first:
                self.pending.append([flows[-1], first, [Number(side) for side in tensor.shape], element_of(tensor.dtype)[0]])
                self.pending_of.append((order, v))
        if storage in done or storage in self.r.cache:
            return
        if self.made_in.get(("storage", storage)) != order:
            before = self.main.get(order - 1)
            written = before is not None and self.r.tensors[before].storage == storage
            holds = storage in self.held or storage in self.taken_over.get(order, ())
            if next_takes and (written or holds or self.r.storages[storage].kind != "made"):
                # Written over: this segment has it from its start on. Or it is a view of what an earlier one or this one holds, or of
                # the batch.
                self.held_outputs.add(order)
            return
        done.add(storage)
        if storage in self.kept:
            # Whoever saves it or reads it, it is there.
            if next_takes:
                self.held_outputs.add(order)
            return
        saved = self.saves.get(storage, set())
        if order in saved:
            self.held.add(storage)
            self.held_outputs.update([order] if next_takes else ())
            if next_takes and max(saved | self.reads.get(storage, set())) <= order + 1:
                self.own_outputs.add(order)
            else:
                self.let_go(order, v, later, saved - {order})
        elif saved and next_takes and self.leaves_in(order + 1, storage):
            # What the next segment hands on is a part of what comes to it, which it holds whole.
            return
        elif saved and not (next_takes and order + 1 in saved):
            if self.is_taken_over(min(saved), order):
                self.taken_over.setdefault(min(saved), set()).add(storage)
                self.hand_on(order, min(saved) - 1, storage, later, next_takes)
                return
            self.keep(order, storage)
            if next_takes:
                self.held_outputs.add(order)
        elif not saved:
            self.hand_on(order, self.died_in(storage), storage, later, next_takes)

    def let_go(self, order, v, later, saved):
        """What a block saves, and not the next one: recomputed, it makes that again, and what reads it in the forward pass is the last to
        have it, or the first block that reads it, until that has run again."""
        first = min((one for one in later if self.pieces[self.run[one]][1]), default=None)
        others = saved if first is None else first == order + 1 or min(saved, default=first) < first
        if self.pieces[self.run[order]][1] and not others:
            if v == self.main.get(order):
                self.own_outputs.add(order)
            else:
                self.made_again.setdefault(order, []).append(v)
            self.pass_on(order, max(later), self.r.tensors[v].storage, [5] if first is None else [4, first])

    def leaves_in(self, order, storage):
        """Whether what leaves a segment lies in a storage that an earlier one made."""
        v = self.main.get(order)
        return v is not None and self.r.tensors[v].storage == storage

    def is_taken_over(self, saver, order):
        """Whether what `order` made goes with the first segment that saves it, long before `order` runs backward; of blocks, the maker
        keeps it."""
        return not self.answers and saver > order + 1 and not self.pieces[self.run[saver]][1]

    def hand_on(self, order, died, storage, later, next_takes):
        """What segments behind `order` read, up to `died`."""
        first = order + (1 if next_takes else 0)
        # No block reads it behind that segment, so that none that is recomputed holds it; that segment reads it as what comes in.
        blocks = [one for one in later if one > first and self.pieces[self.run[one]][1]]
        known = (0 if blocks else 1) + (2 if next_takes else 0)
        self.pass_on(first, died, storage, [known] if known else ())

    def pass_on(self, first, died, storage, named=()):
        """Memory that is held behind segment `first`, and released in the course of segment `died`; `named`: what is
        known of it (src/plan/traced/mod.rs, `TracedPassing`)."""
        to_the_end = (self.answers or storage in self.unled) and died == len(self.run) - 1
        if died > first and self.goes_in(died, storage):
            self.arriving.setdefault(died, []).append(storage)
            died -= 1
        if died > first:
            self.passing.append([first, died, [Number(self.r.storages[storage].bytes)], "u8", *named])
            if to_the_end:
                self.gathered.append(self.passing[-1])

    def goes_in(self, segment, storage):
        """Whether a storage is there when a segment that is no block starts, and is known to go in its course: in a step of the last
        segment alone, where memory is the most."""
        if self.answers:
            return not self.pieces[self.run[segment]][1]
        died = self.r.storages[storage].died
        return segment == len(self.run) - 1 and died is not None and 0 <= died < self.r.forward_ops

    def keep(self, order, storage):
        """The operator that made a storage keeps it, as if it saved it."""
        born = self.r.storages[storage].born
        self.held.add(storage)
        for group in self.pieces[self.run[order]][2]:
            if group.first <= born <= group.last:
                self.kept_by.setdefault((order, group.first), []).append(storage)
                return

    def readers(self, v):
        if not hasattr(self, "_readers"):
            self._readers = {}
            for order, index in enumerate(self.run):
                for group in self.pieces[index][2]:
                    for number in [*group.inputs, *group.saved]:
                        self._readers.setdefault(self.resolve(number), set()).add(order)
        return self._readers.get(v, set())

    def find_graded(self):
        """Tensors that a gradient flows to."""
        graded = {self.resolve(self.loss)}
        for index in self.run:
            for group in self.pieces[index][2]:
                graded.update(self.resolve(number) for number in group.flows)
        for v, (_, parameter, _) in self.parameters.items():
            if parameter.requires_grad:
                graded.add(v)
        return graded

    def weights_by_segment(self):
        """Where each parameter is used with a gradient, and which segment has it."""
        self.weight_uses, self.weight_home, self.own_parameters = {}, {}, {}
        read = {}
        for order, index in enumerate(self.run):
            for group in self.pieces[index][2]:
                for number in group.inputs:
                    v = self.resolve(number)
                    if v in self.parameters:
                        read.setdefault(v, []).append(order)
                    if v in self.parameters and number in group.flows:
                        uses = self.weight_uses.setdefault(v, [])
                        if not uses or uses[-1] != order:
                            uses.append(order)
        by_path = {}
        for order, index in enumerate(self.run):
            path, cls, _ = self.pieces[index]
            if cls:
                by_path.setdefault(path, order)
        skipped = {path for path, cls, groups in self.pieces if groups is None} - set(by_path)
        for v, (name, _, _) in self.parameters.items():
            if v in read:
                home = read[v][0]
            elif within(name, skipped) is not None:
                # Of a block that was passed over: its like has it.
                continue
            else:
                home = by_path.get(within(name, by_path), 0)
            self.weight_home[v] = home
            self.own_parameters.setdefault(home, []).append(v)

    def trains(self, v):
        """Whether a parameter is trained: 1; 2 where it is to be, and no gradient reaches it. An optimizer passes such by and has
        no state of it (torch/optim/adam.py, `_init_group`)."""
        parameter = self.parameters[v][1]
        if not parameter.requires_grad:
            return 0
        return 2 if not self.answers and parameter.grad is None and v not in self.weight_uses else 1

    def parameters_of(self, order):
        return self.own_parameters.get(order, ())

    def leaving(self, order):
        return self.main.get(order)
