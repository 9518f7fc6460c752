"""What a PyTorch training process tells MemWall: time and memory of each step, and on a few
steps the memory of each kind of module.

`memwall run -- COMMAND` puts it in place without a change to the script. Two lines do the same:

    import memwall_hook
    memwall_hook.install()

It never raises into the script, never prints, never waits, resets no statistics and
synchronises no device. Where nobody listens it counts steps, keeps the newest line with a loss that
the script prints, looks every two seconds for somebody who listens, and does nothing else. MEMWALL_HOOK=0 turns it off, MEMWALL_HOOK_SAMPLER=0 the thread that
reads the training thread's Python stack.
"""

import atexit
import os
import sys
import time

VERSION = 1

# Tells this program from one that has, or had, the same pid.
_BEGAN = time.time()

# Seconds between two messages on steps, and between two looks for somebody who listens. Between two
# messages lies at least what the last one cost, divided by this share: whatever the machine and however
# short the steps, telling takes no more of the time than that.
_EVERY = 0.5
_LONGEST_EVERY = 5.0
_LOOK_EVERY = 2.0
_TELLING = 0.001

# Sampled steps may cost this share of the time that has passed. The first two steps are none
# to sample: they build caches and optimizer states. What the first sample will cost nobody knows:
# so many seconds, and so many for each parameter, are reckoned with.
_BUDGET = 0.001
_FIRST_SAMPLE = 3
_FIRST_COST = 2.5e-4
_FIRST_COST_EACH = 2.5e-5
_REST = 10.0
_LONGEST_REST = 600.0
_MOST_FAULTS = 3

# Parameters beside the model are a loss's, such as a learned temperature, up to this share of the model's.
_BESIDE = 0.05



class _Hook:
    """The state of one process: steps, the optimizer that makes them, and what was seen."""

    def __init__(self, torch):
        self.torch = torch
        self.wire = _Wire()
        self.pid = os.getpid()
        self.faults = 0
        self.steps = 0
        self.leader = None
        # A second optimizer was seen: what the model takes between two steps of the first may be for the other.
        self.others = None
        self.started = None
        self.due = float("-inf")
        self.told_at = None
        self.told_steps = 0
        self.tell_after = float("-inf")
        self.step_s = None
        self.last_step = float("nan")
        self.times = None
        # Steps that take longer are late: the thread that watches this one knows from when on.
        self.late_s = float("inf")
        self.watch = None
        self.looks = 0
        self.over = False
        self.sampler = None
        self.sampler_began = 0.0
        self.sample_after = None
        self.sample_cost = 0.0
        self.samples = 0
        self.model = None
        self.about = None
        self.modules = None
        self.tokens = None
        self.printed = _Printed()
        # A module was seen that runs again for the backward pass.
        self.recomputes = False
        # Optimizer steps from the first to the last, where a trainer knows them.
        self.total = None
        # Looks into the first pass, where `memwall run --modules` asks for it: also of a script without an optimizer.
        self.first = None
        tracer = os.environ.get("MEMWALL_TRACER")
        self.tracer = tracer if os.environ.get("RANK", "0") == "0" else None

    def after_step(self, optimizer):
        """Called behind every optimizer step. Nearly all of them are counted and no more."""
        # Several optimizers may make one step: the first one counts.
        if self.leader != id(optimizer) and not self._leads(optimizer):
            if self.others is None:
                self.others = _weak(optimizer)
            return
        self.steps += 1
        now = time.perf_counter()
        took = now - self.last_step
        self.last_step = now
        # A sampled step is late by what looking at it takes.
        if self.times is not None and self.sampler is None:
            self.times.append((took, self.steps, now))
            if took > self.late_s:
                self.watch.steps.note_late(self.steps, took, now)
        if self.tracer is not None and self.steps == _TRACE_AFTER and os.getpid() == self.pid:
            _arm_trace(self.torch, self.tracer, took)
        if now < self.due or self.faults >= _MOST_FAULTS:
            return
        try:
            self.due = self._look_and_tell(optimizer, now)
        except Exception:
            self.faults += 1
            self._drop_sampler()

    def _leads(self, optimizer):
        if self.leader is not None:
            return False
        # A forked child that makes the first step is a trainer of its own (accelerate's notebook_launcher,
        # Lightning's ddp_fork); others tell nothing.
        self.pid = os.getpid()
        self.leader = id(optimizer)
        try:
            _at_end_of_child(self.at_exit)
        except Exception:
            self.faults += 1
        return True

    def _look_and_tell(self, optimizer, now):
        """What is due at this step; when something is due again."""
        if os.getpid() != self.pid:
            return float("inf")
        if self.started is None:
            self.started = self.told_at = now
            self.watch = _watch(self)
        if self.watch is not None and self.looks < 8:
            self.looks += 1
            self.watch.stacks.learn_loop(sys._getframe(2))
        if self.about is None:
            self.total = _total(sys._getframe(2), self.steps)
        if self.first is not None:
            self._finish_first(optimizer)
        if self.sampler is not None:
            self._finish_sample(optimizer, now - self.sampler_began)
        new = self.wire.new_listeners(now)
        if not self.wire.listeners:
            return now + _LOOK_EVERY
        if self.about is None:
            self.about = self._about(optimizer)
        if new:
            self.wire.send(self.about, new)
            if self.modules is not None:
                self.wire.send(self.modules, new)
            if self.watch is not None:
                # What it has seen so far is told in its own thread.
                self.watch.steps.news = True
        if now >= self.tell_after or new:
            first = self.told_steps == 0
            # While the thread waits for a core it is others that take the time.
            begun = time.thread_time()
            self._tell(now)
            # The first one loads what it needs: that is paid once.
            cost = 0.0 if first else time.thread_time() - begun
            self.tell_after = now + min(max(_EVERY, cost / _TELLING), _LONGEST_EVERY)
        if self._may_sample(optimizer, now):
            self.sampler = _Sampler(self.torch, (one for group in optimizer.param_groups for one in group["params"]))
            self.sampler_began = time.perf_counter()
            return now
        return min(self.tell_after, self.wire.looked + _LOOK_EVERY, self._sampled_next(now))

    def at_exit(self):
        """The steps since the last message, and how the process ends. Forked children tell nothing."""
        try:
            if os.getpid() != self.pid or self.over:
                return
            if self.watch is not None:
                self.watch.wait_until_begun()
            if self.leader is None and self.first is not None:
                self._finish_first(None)
            failures = _failures(self.pid)
            if self.leader is None and self.modules is None and failures is None:
                return
            self.over = True
            self.wire.looked = float("-inf")
            new = self.wire.new_listeners(time.perf_counter())
            if not self.wire.listeners:
                return
            if failures is not None:
                self.wire.send(failures)
            if self.leader is None and self.modules is None:
                return
            if self.about is not None and new:
                self.wire.send(self.about, new)
            if self.leader is not None:
                self._tell(self.last_step)
                self._tell_places()
            else:
                self.wire.send(self.modules)
            self.wire.send(_end(self.pid))
        except Exception:
            pass

    def _tell_places(self):
        try:
            if self.watch is not None:
                self.watch.tell_end(self.wire, self.last_step)
        except Exception:
            pass

    def _tell(self, now):
        """Memory now, and the steps up to `now`, the time of the newest one."""
        steps = self.steps - self.told_steps
        message = {"v": VERSION, "kind": "step", "pid": self.pid, "step": self.steps, "at": time.time(), "steps": steps}
        if self.told_steps and now > self.told_at:
            self.step_s = (now - self.told_at) / steps
        if self.step_s is not None:
            message["step_s"] = self.step_s
        message.update(_memory(self.torch))
        if self.tokens:
            message["tokens"] = self.tokens
        if self.wire.lost:
            message["lost"] = self.wire.lost
        printed = self.printed.message()
        if printed is not None:
            message["printed"] = printed
        self.told_at, self.told_steps = now, self.steps
        self.wire.send(message)

    def _may_sample(self, optimizer, now):
        if self.sample_after is None:
            tensors = sum(len(group["params"]) for group in optimizer.param_groups)
            self.sample_after = self.started + (_FIRST_COST + _FIRST_COST_EACH * tensors) / _BUDGET
        return self.steps >= _FIRST_SAMPLE and now >= self.sample_after and not _compiles()

    def _sampled_next(self, now):
        """When the next sample may be taken; a step later where only the number of steps is missing."""
        if self.modules is None and self.samples >= _MOST_FAULTS:
            return float("inf")
        return self.sample_after if self.sample_after > now else now + (_EVERY if _compiles() else 0.0)

    def _finish_sample(self, optimizer, took):
        sampler, self.sampler = self.sampler, None
        sampler.stop()
        begun = time.perf_counter()
        self.samples += 1
        if sampler.model is None:
            self.sample_after = float("inf") if self.samples >= _MOST_FAULTS else begun
            return
        self.model = sampler.model
        self.recomputes |= sampler.recomputed
        self.tokens = sampler.tokens or self.tokens
        if self.others is not None:
            sampler.passes = None
        self.modules = sampler.report(self.pid, self.steps)
        self.about = self._about(optimizer)
        self.wire.send(self.about)
        self.wire.send(self.modules)
        # What a sampled step costs is its excess over the usual one, and the report.
        usual = (self.last_step - self.started) / max(self.steps - 1, 1)
        ended = time.perf_counter()
        self.sample_cost += max(took - usual, 0.0) + ended - begun
        rest = min(_REST * 2 ** min(self.samples, 10), _LONGEST_REST)
        self.sample_after = max(ended + rest, self.started + self.sample_cost / _BUDGET)

    def look_at_first_pass(self):
        self.first = _Sampler(self.torch, ())

    def _finish_first(self, optimizer):
        sampler, self.first = self.first, None
        sampler.stop()
        # Who else trains in it nobody knows so early.
        sampler.passes = None
        if sampler.model is not None:
            self.model, self.tokens, self.recomputes = sampler.model, sampler.tokens, sampler.recomputed
            self.modules = sampler.report(self.pid, self.steps)
            self.about = self._about(optimizer)

    def _drop_sampler(self):
        sampler, self.sampler = self.sampler, None
        if sampler is not None:
            try:
                sampler.stop()
            except Exception:
                pass

    def _parameters(self, groups):
        """The model's, and whether they are all. A script that calls parts of a model itself has no module that takes its
        passes: an optimizer that trains one of them trains the others."""
        if self.model is None:
            return groups, False
        own = list(self.model.parameters())
        known = {id(parameter) for parameter in own}
        beside = [parameter for parameter in groups if id(parameter) not in known]
        # Flat copies of a model's weights, or another model's, share nothing with it.
        if len(beside) == len(groups):
            return own, True
        count = sum(_count(parameter) for parameter in beside)
        return own + beside, count <= _BESIDE * sum(_count(parameter) for parameter in own)

    def _about(self, optimizer):
        torch = self.torch
        groups = [one for group in optimizer.param_groups for one in group["params"]] if optimizer is not None else []
        if self.model is None and _compiles():
            self.model = _holder(torch.nn.Module, groups)
        parameters, is_model = self._parameters(groups)
        about = {"v": VERSION, "kind": "run", "pid": self.pid, "torch": str(torch.__version__)[:40], "at": time.time()}
        numbers = (("rank", "RANK"), ("local_rank", "LOCAL_RANK"), ("world", "WORLD_SIZE"), ("launcher", "MEMWALL_RUN"))
        for name, variable in numbers:
            if os.environ.get(variable, "").isdigit():
                about[name] = int(os.environ[variable])
        if os.environ.get("TORCHELASTIC_RESTART_COUNT", "").isdigit():
            about["restarts"] = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
            # torchrun's own process: the one that has started all its ranks.
            about["torchrun"] = os.getppid()
        about.update(_place(torch))
        about["params"] = sum(_count(parameter) for parameter in parameters)
        about["trainable"] = sum(_count(parameter) for parameter in parameters if parameter.requires_grad)
        about["params_are_all"] = self.model is not None
        about["counts_packed"] = any(_packed(parameter) is not None for parameter in parameters)
        about["param_bytes"] = _bytes(parameters)
        about["gradient_bytes"] = _bytes(parameter.grad for parameter in parameters if parameter.grad is not None)
        states = (state for state in getattr(optimizer, "state", {}).values() if isinstance(state, dict))
        held = [value for state in states for value in state.values()]
        about["optimizer_state_bytes"] = _bytes([*held, *_masters(parameters, groups)])
        dtypes = {}
        for parameter in parameters:
            name = str(parameter.dtype).replace("torch.", "")
            dtypes[name] = dtypes.get(name, 0) + _count(parameter)
        about["dtypes"] = dtypes
        about["optimizer"] = type(optimizer).__name__[:80] if optimizer is not None else ""
        options = ("lr", "betas", "eps", "weight_decay", "momentum", "foreach", "fused", "capturable", "amsgrad")
        first = optimizer.param_groups[0] if optimizer is not None else {}
        kept = {name: value for name, value in first.items() if name in options and _plain(value)}
        about["optimizer_options"] = kept
        device = next((parameter.device for parameter in parameters), None)
        about["device"] = str(device)
        if device is not None and device.type == "cuda":
            about["device_name"] = torch.cuda.get_device_name(device)[:80]
        threads = getattr(torch, "get_num_threads", None)
        if device is not None and device.type == "cpu" and threads is not None:
            about["threads"] = threads()
        if self.model is not None:
            # What shares it among ranks is no name of a model.
            if is_model:
                about["model"] = type(_unwrapped(self.model)).__name__[:80]
            about["checkpointed"] = self.recomputes or _checkpointed(self.model)
            other = self.others() if self.others is not None else None
            known = {id(parameter) for parameter in parameters}
            trained = [one for group in getattr(other, "param_groups", ()) for one in group["params"] if id(one) not in known]
            if trained:
                about["beside"] = [type(other).__name__[:80], sum(_count(parameter) for parameter in trained)]
        if self.total is not None:
            about["total_steps"] = self.total
        if _compiles():
            about["no_modules"] = "compiled: looking into modules would compile them again"
        return about
