"""Traces steps of a subject, or its forward pass alone, at every size and precision, and puts the tape together."""

import contextlib
import gc
import time

import torch

import beside
import caches
import checkpoints
import collector
import fake
import foreign_kernels
import held
import lasting
import layout
import lengths
import lifetimes
import modules
import names
import polynomials
import recomputation
import segments
import tape
import undrawn
from links import written
from recorder import Recorder
from shortcut import Shortcut
from sources import Refused, first_tensor

# The last two are what FSDP makes of mixed precision: weights that are gathered in 16 bit, under autocast (accelerate,
# accelerator.py, prepare_model, wraps the forward pass under FSDP as well), over a batch of fp32 that the root casts. FSDP2
# casts what comes into each block as well (torch/distributed/fsdp/_fully_shard/_fsdp_state.py, `_pre_forward`).
PRECISIONS = ("fp32", "mixed", "half", "gathered", "cast")
AUTOCAST = ("mixed", "gathered", "cast")
# What another process traces meanwhile, where there is one: about half of all.
BESIDE = AUTOCAST


class Tracer:
    """A model under fake tensors."""

    def __init__(self, device, say):
        self.device, self.say = device, say
        self.fake_mode = fake.Mode(allow_non_fake_inputs=True)
        fake.install(self.fake_mode)
        checkpoints.install()
        # Whether probabilities are ones is asked of their values.
        torch.distributions.Distribution.set_default_validate_args(False)
        self.shortcut = Shortcut(self.fake_mode)
        self.target = device.torch_device()
        self.answered = {}
        # Code of the user's own: what it writes down is known on the device.
        self.holds = False
        # What was built: name and parameters.
        self.built = None
        self.leaks = lasting.Leaks()

    @collector.without
    def build(self, subject):
        values = fake.Values(self.fake_mode, builds=True, shortcut=self.shortcut)
        guessed = values.keep() if subject.is_own else None
        with self.fake_mode, values, contextlib.nullcontext() if subject.is_own else undrawn.weights():
            try:
                model = subject.build()
            except Refused:
                raise
            except Exception as error:
                if foreign_kernels.advice(type(error).__name__, str(error)) or not subject.versions:
                    raise
                raise Refused(f"{subject.name} cannot be built as it is configured: {names.reason(error)}") from error
            for parameter in model.parameters():
                if parameter.dtype != torch.float32 and parameter.is_floating_point():
                    model.float()
                    break
            model = model.to(self.target)
        subject.notes.extend(note for note in (guessed.notes(model) if guessed else []) if note not in subject.notes)
        model.train(not subject.answers)
        self.built = f"{subject.name} has {layout.count(model)['total']:,} parameters"
        if subject.cannot:
            raise Refused(f"{self.built}, and {subject.cannot}")
        return model

    def recorder(self, experts, precision):
        made = Recorder(self.fake_mode, self.target, self.shortcut)
        made.experts, made.autocast, made.holds = experts, precision in AUTOCAST, self.holds
        return made

    @collector.without
    def record(self, model, prepare, run, precision, skipped=frozenset(), blocks=None, experts=1, answers=False):
        """One forward and backward pass, written down; where the model `answers`, the forward pass without gradients."""
        recorder = self.recorder(experts, precision)
        calls = modules.Calls(model, blocks, torch.bfloat16 if precision == "cast" else None)
        calls.recorder = recorder
        calls.pass_over(skipped)
        for parameter in model.parameters():
            parameter.grad = None
        with self.fake_mode, calls, recorder, without_gradients(answers):
            for parameter in model.parameters():
                recorder.identify(parameter, kind="parameter")
            batch = prepare()
            held.forget(batch)
            for one in batch.values():
                recorder.identify(one, kind="batch")
            recorder.start_forward()
            try:
                with torch.autocast(self.target.type, dtype=torch.bfloat16, enabled=recorder.autocast):
                    made = run(modules.lowered(batch, torch.bfloat16) if precision in ("gathered", "cast") else batch)
            finally:
                recorder.stop_saving()
            if answers:
                result = recorder.identify(answer_of(made))
                recorder.end_answer(made)
            else:
                if made.grad_fn is None:
                    asked = f", where questions for values were answered ({', '.join(recorder.answered)})" if recorder.answered else ""
                    raise Refused(f"the loss needs no gradient: no parameter that requires one takes part in it{asked}")
                recorder.end_forward(made)
                recorder.run_backward(made)
                result = recorder.identify(made)
                del made, batch
                recorder.let_go()
                self.leaks.follow(recorder)
        self.note(recorder.answered)
        assembly = segments.Assembly(recorder, model, result)
        assembly.plan_leaving()
        assembly.resting = lasting.resting(recorder, model)
        return assembly

    @collector.without
    def survey(self, model, prepare, run, blocks, experts, answers, precision="fp32", skipped=frozenset()):
        """A forward pass, as a rule through all blocks: which of them are equal."""
        recorder = self.recorder(experts, precision)
        calls = modules.Calls(model, blocks)
        calls.recorder = recorder
        calls.pass_over(skipped)
        with self.fake_mode, calls, recorder, without_gradients(answers):
            for parameter in model.parameters():
                recorder.identify(parameter, kind="parameter")
            batch = prepare()
            held.forget(batch)
            recorder.start_forward()
            try:
                with torch.autocast(self.target.type, dtype=torch.bfloat16, enabled=recorder.autocast):
                    run(batch)
            finally:
                recorder.stop_saving()
            if not answers:
                del batch
                recorder.let_go()
                self.leaks.follow(recorder)
        return recorder

    def trace(self, subject, model=None):
        """The tape of a subject, whose `model` may be built: it is what no step has changed yet."""
        started, self.holds = time.time(), subject.is_own
        # What another trace of this process has frozen is in no list of Python's objects, and never let go.
        gc.unfreeze()
        axes = subject.axes()
        if model is None:
            model = self.build(subject)
            self.say(f"{self.built}, built in {time.time() - started:.1f} s")
        steps, buffers = Steps(self, subject, model), layout.buffers_of(model)
        varies, points = steps.find_points(axes)
        points = [{**subject.held, **point} for point in points]
        try:
            steps.skip_equal(points[0])
        except Refused:
            raise
        except Exception as error:
            if subject.otherwise(error):
                return self.trace(subject, steps.unchanged())
            raise (subject.why or error) from None
        if steps.depends_on_length(points):
            steps.hold(points)
            return self.trace(subject, steps.unchanged())
        fitter = polynomials.Fitter(axes, points, varies)
        notes, traces, fixed = list(subject.notes), {}, False
        few = len(fitter.few) < len(points)
        with beside.Beside(lambda: steps.at_few(fitter), few) as others:
            recorded = {"fp32": steps.recorded("fp32", fitter, range(len(points)))}
            if len(recorded["fp32"]) == len(points):
                points = steps.widen(fitter, recorded["fp32"], varies)
                if others.child is not None:
                    recorded["half"] = steps.recorded("half", fitter, fitter.few)
                recorded.update(self.picked_up(others) or {})
        for precision in PRECISIONS:
            if precision == "cast" and precision not in recorded and not steps.casts:
                continue
            trace = recorded.get(precision) or steps.recorded(precision, fitter, fitter.few)
            if isinstance(trace, str):
                notes.append(f"{precision}: not traced: {trace}")
                continue
            trace = tape.Trace(fitter, trace)
            finished = trace.finish()
            if finished is None and trace.agrees() and trace.lacking():
                more = steps.recorded(precision, fitter, trace.lacking())
                if isinstance(more, str):
                    notes.append(f"{precision}: not traced: {more}")
                    continue
                trace.steps.update(more)
                finished = trace.finish()
            if lengths.narrowed(subject, steps, trace, finished, varies):
                return self.trace(subject, steps.unchanged())
            if finished is None:
                notes.append(f"{precision}: what runs differs between sizes: the tape holds for {points[-1]} alone")
                trace.alone()
                finished, fixed = trace.finish(), True
            traces[precision] = finished
            self.say(f"{precision}: {len(finished['order'])} segments of {len(finished['kinds'])} kinds, {time.time() - started:.1f} s")
        notes.extend([*fitter.notes(axes), *checkpoints.COUNTS.notes("model"), *self.leaks.notes()])
        made = layout.laid_out(self.device, self.answered, subject, model, axes, points, fitter, traces, notes, varies, fixed)
        return {**made, "buffers": buffers}

    def picked_up(self, others):
        """What another process recorded, and what it was asked."""
        found = others.result()
        if found is None:
            return None
        recorded, answered = found
        self.note(answered)
        # A model that differentiates in its forward pass cannot in a forked process: it is traced here.
        return {one: steps for one, steps in recorded.items() if not (isinstance(steps, str) and "fork" in steps)}

    def note(self, answered):
        for what, times in answered.items():
            self.answered[what] = self.answered.get(what, 0) + times


class Steps:
    """Steps of one subject's model, in any precision and at any size."""

    def __init__(self, tracer, subject, model):
        self.tracer, self.subject, self.model = tracer, subject, model
        self.blocks = modules.find_blocks(model)
        self.experts = getattr(subject, "experts", 1)
        self.skipped = frozenset()
        self.is_lower, self.precision = False, "fp32"
        self.attributes = caches.Attributes(model)
        # Lengths that one may stand for, as the batch varies beside them.
        axes = subject.axes()
        self.lengths = [axis for axis in axes if axis in "ST"] if "B" in axes else []
        # What comes into blocks would be cast by FSDP2.
        self.casts = False
        # How long Python has names for tensors, which is the same in all precisions.
        self.lifetimes = None

    def batch(self, point, lower=None):
        return lambda: self.subject.batch(point, self.tracer.target, lower)

    def run(self, batch):
        return self.subject.run(self.model, batch)

    def unchanged(self):
        """The model as it was before its first step; none where it has been in another precision."""
        if self.is_lower:
            return None
        self.attributes.restore()
        return self.model

    def record(self, precision, point):
        low = torch.bfloat16
        forgotten = precision != self.precision and caches.forget_results(self.model)
        self.precision = precision
        changed = set()
        if self.is_lower != (precision not in ("fp32", "mixed")):
            self.is_lower = not self.is_lower
            changed = self.attributes.restore()
            with self.tracer.fake_mode:
                self.model.to(low if self.is_lower else torch.float32)
        if forgotten or changed:
            # What is kept is made again, in the type of the weights; by blocks that are passed over too, where they keep something.
            within = {part for block in self.blocks.values() for part in block.modules()}
            skipped = frozenset() if changed & within else self.skipped
            self.survey(point, low if precision == "half" else None, precision, skipped)
        batch = self.batch(point, low if precision == "half" else None)
        made = self.tracer.record(self.model, batch, self.run, precision, self.skipped, self.blocks, self.experts,
                                  self.subject.answers)
        self.casts |= precision == "gathered" and made.r.meets_fp32
        if self.lifetimes:
            self.lifetimes.tell(made.r)
        return made

    def recorded(self, precision, fitter, chosen):
        """The steps at the chosen points, by point; or why there are none."""
        trace = tape.Trace(fitter)
        try:
            for at in chosen:
                assembly = self.record(precision, fitter.points[at])
                trace.add(at, assembly.resting, *written(assembly))
                if precision == "fp32" and self.traced_again(trace):
                    break
        except Exception as error:
            if precision == "fp32":
                raise
            return str(error) if isinstance(error, Refused) else names.reason(error)
        return trace.steps

    def widen(self, fitter, recorded, varies):
        """Records further sizes where some number is no sum of the usual terms; all points."""
        trace = tape.Trace(fitter, recorded)
        subject, axes = self.subject, self.subject.axes()
        if not axes or not trace.agrees() or all(map(fitter.is_plain, trace.columns())):
            return fitter.points
        further = tape.further_points(axes, subject.longest, subject.side, varies, subject.lengths)
        known = len(fitter.points)
        fitter.widen([{**subject.held, **point} for point in further])
        recorded.update(self.recorded("fp32", fitter, range(known, len(fitter.points))))
        return fitter.points

    def traced_again(self, trace):
        """Whether sizes differ in what runs, and one length alone will be traced."""
        return bool(self.lengths) and not trace.agrees()

    def at_few(self, fitter):
        """The precisions that this process leaves to another one, at few sizes, and what they were asked."""
        self.tracer.answered = {}
        made = {}
        for one in BESIDE:
            if one != "cast" or self.casts:
                made[one] = self.recorded(one, fitter, fitter.few)
        return made, self.tracer.answered

    def survey(self, point, lower=None, precision="fp32", skipped=frozenset()):
        batch = self.batch(point, lower)
        return self.tracer.survey(self.model, batch, self.run, self.blocks, self.experts, self.subject.answers, precision, skipped)

    def skip_equal(self, point):
        if not self.subject.answers:
            self.blocks = recomputation.blocks_of(self.model, self.blocks, lambda: self.survey(point), self.subject.notes)
        hooked = frozenset(path for path, module in self.model.named_modules() if lasting.is_hooked(module))
        self.skipped = modules.passed_over(self.survey(point), hooked)
        if not self.subject.answers:
            self.lifetimes = self.lifetimes_at(point)
        # Of what a long pass left, nothing need be looked at again.
        gc.collect()
        gc.freeze()

    def lifetimes_at(self, point):
        return lifetimes.of(self.tracer, self.model, self.batch(point), self.run, self.skipped, self.blocks, self.experts)

    def depends_on_length(self, points):
        """Whether other operators run at another length, as in a loop over tokens: one will be traced alone. Asked before the first
        backward pass, behind which no other process can be forked."""
        first = points[0]
        other = next((one for one in points if any(one[axis] != first[axis] for axis in self.lengths)), None)
        if other is None or self.lifetimes is None:
            return False
        there = self.lifetimes_at(other)
        return there is not None and there.places.keys() != self.lifetimes.places.keys()

    def hold(self, points):
        """Traces at the length of the last point alone."""
        self.subject.hold({axis: points[-1][axis] for axis in self.lengths})

    def find_points(self, axes):
        """Sizes to trace at; images of other sizes only where the model takes them."""
        subject = self.subject
        points = tape.points_of(axes, subject.longest, subject.side, lengths=subject.lengths)
        if "I" not in axes:
            return True, points
        other = next(point for point in points if point["I"] != (subject.side or 224))
        if subject.varies and self.takes(other):
            return True, points
        return False, tape.points_of(axes, subject.longest, subject.side, varies=False)

    def takes(self, point):
        """Whether a step of this size runs; tried in another process where there is one."""
        def runs():
            try:
                self.record("fp32", point)
            except Exception:
                return False
            return True

        with beside.Beside(runs) as tried:
            found = tried.result()
        return runs() if found is None else found


def without_gradients(answers):
    return torch.no_grad() if answers else contextlib.nullcontext()


def answer_of(made):
    """The tensor that a forward pass is for."""
    first = first_tensor(made)
    if first is None:
        raise Refused(f"the model returns {type(made).__name__}, in which there is no tensor of floating point")
    return first
