"""Traces steps of a subject, or its forward pass alone, at every size and precision, and puts the tape together."""

import contextlib
import time

import torch

import fake
import modules
import segment
import segments
import tape
from recorder import Recorder
from sources import Refused, first_tensor

# The last is what FSDP makes of mixed precision: weights that are gathered in 16 bit, under autocast (accelerate,
# accelerator.py, prepare_model, wraps the forward pass under FSDP as well).
PRECISIONS = ("fp32", "mixed", "half", "gathered")
# Equal blocks in a row beyond these are passed over.
KEPT = 3


class Tracer:
    """A model under fake tensors."""

    def __init__(self, device, say):
        self.device, self.say = device, say
        self.fake_mode = fake.Mode(allow_non_fake_inputs=True)
        fake.install(self.fake_mode)
        self.target = device.torch_device()
        self.answered = {}
        # What was built: name and parameters.
        self.built = None

    def build(self, subject):
        values = fake.Values(self.fake_mode)
        with self.fake_mode, values:
            model = subject.build()
            for parameter in model.parameters():
                if parameter.dtype != torch.float32 and parameter.is_floating_point():
                    model.float()
                    break
            model = model.to(self.target)
        model.train(not subject.answers)
        return model

    def record(self, model, prepare, run, precision, skipped=frozenset(), blocks=None, experts=1, answers=False):
        """One forward and backward pass, written down; where the model `answers`, the forward pass without gradients."""
        recorder = Recorder(self.fake_mode, self.target, {})
        recorder.experts = experts
        recorder.autocast = precision in ("mixed", "gathered")
        calls = modules.Calls(model, blocks)
        calls.recorder, calls.skipped = recorder, skipped
        for parameter in model.parameters():
            parameter.grad = None
        with self.fake_mode, calls, recorder, without_gradients(answers):
            for parameter in model.parameters():
                recorder.identify(parameter, kind="parameter")
            batch = prepare()
            for one in batch.values():
                recorder.identify(one)
            recorder.start_forward()
            try:
                with torch.autocast(self.target.type, dtype=torch.bfloat16, enabled=recorder.autocast):
                    made = run(batch)
            finally:
                recorder.stop_saving()
            if answers:
                result = answer_of(made)
                recorder.end_answer(made)
            else:
                result = made
                if result.grad_fn is None:
                    raise Refused("the loss needs no gradient: no parameter that requires one takes part in it")
                recorder.end_forward(result)
                recorder.run_backward(result)
        for what, times in recorder.answered.items():
            self.answered[what] = self.answered.get(what, 0) + times
        assembly = segments.Assembly(recorder, model, result)
        assembly.plan_leaving()
        return assembly

    def survey(self, model, prepare, run, blocks, experts, answers):
        """A forward pass through all blocks: which of them are equal."""
        recorder = Recorder(self.fake_mode, self.target, {})
        recorder.experts, recorder.autocast = experts, False
        calls = modules.Calls(model, blocks)
        calls.recorder = recorder
        with self.fake_mode, calls, recorder, without_gradients(answers):
            for parameter in model.parameters():
                recorder.identify(parameter, kind="parameter")
            batch = prepare()
            recorder.start_forward()
            try:
                run(batch)
            finally:
                recorder.stop_saving()
        return recorder

    def trace(self, subject):
        started = time.time()
        axes = subject.axes()
        model = self.build(subject)
        self.built = f"{subject.name} has {count(model)['total']:,} parameters"
        self.say(f"{self.built}, built in {time.time() - started:.1f} s")
        blocks = modules.find_blocks(model)
        experts = getattr(subject, "experts", 1)
        varies, points = self.find_points(subject, model, axes, blocks, experts)
        fitter = tape.Fitter(axes, points, varies)
        skipped, notes, traces, fixed = None, list(subject.notes), {}, False
        for precision in PRECISIONS:
            lower = torch.bfloat16 if precision in ("half", "gathered") else None
            if lower is not None:
                with self.fake_mode:
                    model.to(lower)
            trace = tape.Trace(fitter)
            for point in points:
                def prepare(point=point):
                    return subject.batch(point, self.target, lower)

                def run(batch):
                    return subject.run(model, batch)

                try:
                    if skipped is None:
                        skipped = passed_over(self.survey(model, prepare, run, blocks, experts, subject.answers))
                    assembly = self.record(model, prepare, run, precision, skipped, blocks, experts, subject.answers)
                except Refused:
                    raise
                except Exception as error:
                    if precision == "fp32":
                        raise
                    notes.append(f"{precision}: not traced: {reason(error)}")
                    trace = None
                    break
                trace.add(*written(assembly))
            if trace is None:
                continue
            finished = trace.finish()
            if finished is None and "I" in axes and varies:
                # Windows and paddings that depend on the image's size: its own size alone is traced.
                subject.varies = False
                return self.trace(subject)
            if finished is None:
                trace.steps = trace.steps[-1:]
                notes.append(f"{precision}: what runs differs between sizes: the tape holds for {points[-1]} alone")
                trace.steps *= len(points)
                finished, fixed = trace.finish(), True
            traces[precision] = finished
            self.say(f"{precision}: {len(finished['order'])} segments of {len(finished['kinds'])} kinds, {time.time() - started:.1f} s")
        if fitter.unfit:
            notes.append(f"{len(fitter.unfit)} sizes follow no polynomial of {' and '.join(axes)}: held at {points[-1]}")
        return laid_out(self.device, self.answered, subject, model, axes, points, fitter, traces, notes, varies, fixed)

    def find_points(self, subject, model, axes, blocks, experts):
        """Sizes to trace at; images of other sizes only where the model takes them."""
        points = tape.points_of(axes, subject.longest, subject.side, lengths=subject.lengths)
        if "I" not in axes:
            return True, points
        if not subject.varies:
            return False, tape.points_of(axes, subject.longest, subject.side, varies=False)
        other = next(point for point in points if point["I"] != (subject.side or 224))
        try:
            self.record(model, lambda: subject.batch(other, self.target, None), lambda batch: subject.run(model, batch),
                        "fp32", frozenset(), blocks, experts, subject.answers)
            return True, points
        except Refused:
            raise
        except Exception:
            return False, tape.points_of(axes, subject.longest, subject.side, varies=False)


def without_gradients(answers):
    return torch.no_grad() if answers else contextlib.nullcontext()


def answer_of(made):
    """The tensor that a forward pass is for."""
    first = first_tensor(made)
    if first is None:
        raise Refused(f"the model returns {type(made).__name__}, in which there is no tensor of floating point")
    return first


def laid_out(device, answered, subject, model, axes, points, fitter, traces, notes, varies, fixed):
    """The tape of what was traced."""
    if answered:
        asked = sorted(answered.items(), key=lambda pair: -pair[1])
        notes.append(f"values were asked for and answered evenly: {', '.join(name for name, _ in asked[:3])}")
    buffers = {}
    for buffer in model.buffers():
        key = (segments.element_of(buffer.dtype)[0], buffer.numel())
        buffers[key] = buffers.get(key, 0) + 1
    sides = lambda one: [fitter.index([one.side(side, point) for point in points]) for side in one.sides]
    return {
        "memwall_tape": tape.VERSION, "pass": "forward" if subject.answers else "step",
        "name": subject.name, "source": subject.source,
        "versions": {"torch": torch.__version__, **getattr(subject, "versions", {})},
        "device": f"{device.name} ({device.how})", "differences": device.differences, "notes": notes,
        "parameters": count(model), "axes": axes, "points": points,
        "terms": [[term.get(axis, 0) for axis in axes] for term in fitter.terms],
        "image": subject.side if "I" in axes else None, "image_varies": bool(varies and "I" in axes),
        "longest": subject.longest, "fixed": fixed,
        "sizes": fitter.polynomials, "unfit": fitter.unfit,
        "inputs": [[one.name.lstrip("_"), segments.element_of(one.dtype)[0], int(one.dtype.is_floating_point), sides(one)]
                   for one in subject.inputs],
        "buffers": [[dtype, numel, times] for (dtype, numel), times in sorted(buffers.items())],
        "traces": traces,
    }


def count(model):
    return {"total": sum(p.numel() for p in model.parameters()),
            "trainable": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "tensors": sum(1 for _ in model.parameters())}


def written(assembly):
    """Segments that ran, which of them stands at each place, and what they hold for each other by place."""
    made = [segment.Writer(assembly, order).write() for order in range(len(assembly.run))]
    order, at = [], -1
    for _, _, groups in assembly.pieces:
        at += groups is not None
        order.append(at)
    places = lambda entries: [[assembly.run[one[0]], assembly.run[one[1]], *one[2:]] for one in entries]
    passing = places(assembly.passing)
    for from_, to, *what in places(assembly.gathered):
        following = from_ + 1
        while following < to and assembly.pieces[following][2] is None:
            passing.append([following, to, *what])
            following += 1
    return made, order, places(assembly.pending), passing


def passed_over(recorder):
    """Calls of blocks that run what those about them run."""
    keys = []
    for path, cls, start, end in recorder.blocks:
        key = [cls]
        for op in recorder.ops[start:end]:
            shapes = tuple((recorder.tensors[one].shape, str(recorder.tensors[one].dtype)) for one in op.outputs)
            key.append((op.name, op.path[len(path):], op.graded, len(op.saved), len(op.inputs), shapes))
        keys.append((hash(tuple(key)), end))
    skipped, row = set(), []

    def close():
        # The first ones and the last may differ from the others in another precision.
        if len(row) > KEPT:
            skipped.update(row[KEPT - 1:-1])

    last = None
    for call, (key, end) in enumerate(keys):
        if key != last:
            close()
            row, last = [], key
        row.append(call)
        if call + 1 < len(keys) and recorder.blocks[call + 1][2] != end:
            # Something runs between this block and the next.
            close()
            row, last = [], None
    close()
    return frozenset(skipped)


def reason(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no reason given'}"
