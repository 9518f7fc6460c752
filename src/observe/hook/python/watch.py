# Where the training thread spends its time.
#
# A thread of its own reads the training thread's Python stack a few times a second, more often while a
# step is late. It keeps no frame, and it wakes less often where waking costs more than its share.
# MEMWALL_HOOK_SAMPLER=0 turns it off.

# Seconds between two samples while steps are long, while they are short, while one is late, and between two looks while
# nobody listens.
_SAMPLE_EVERY = 0.05
_SELDOM_EVERY = 0.2
_LATE_EVERY = 0.01
_SHORT_LATE_EVERY = 0.02
_ALONE_EVERY = 2.0
_SLOWEST = 1.0
_BEGINS_WITHIN = 2.0

# All that the thread does may take this share of the time. While a step is late, and for some time after one was, that one.
_SHARE = 0.001
_LATE_SHARE = 0.004

# Seconds between two looks at what is usual.
_USUAL_EVERY = 0.5

# Seconds between two messages, between two while nothing is new, and between two in a stall.
_PLACES_EVERY = 0.5
_SHARES_EVERY = 10.0
_STALL_EVERY = 2.0

# A step that takes this many times the usual one, and so many seconds more, stalls. Before a step is usual: seconds.
_STALL = 5.0
_STALL_SLACK = 5.0
_UNUSUAL_STALL = 60.0

# A collection of garbage that takes this long is a place.
_LONG_COLLECTION = 0.02


class _Watch:
    """Reads the training thread's stack, and tells where steps that are late spend their time."""

    def __init__(self, hook, thread, unbegun):
        self.hook = hook
        self.thread = thread
        # A lock that is held until the thread that watches runs.
        self.unbegun = unbegun
        # Held while a turn lasts: at its end the thread that is watched tells what is left.
        self.turning = _thread_lock()
        self.pid = os.getpid()
        self.wire = _Wire()
        self.stacks = _Stacks(hook)
        self.steps = _LateSteps(self.stacks)
        self.period = _SAMPLE_EVERY
        self.sample_due = 0.0
        # Steps that what is usual was learnt from, and when it is learnt again.
        self.known = 0
        self.usual_due = 0.0
        # When the thread was to wake for this turn.
        self.wake_at = 0.0
        self.collecting = None
        self.told_at = float("-inf")
        self.stalling = None
        self.recorder_at = float("-inf")
        self.collective = None

    def on_collection(self, phase, details):
        """Called by the garbage collector; only collections of all generations take time."""
        if details["generation"] != 2 or self.hook.over:
            return
        try:
            if _thread() != self.thread:
                return
            if phase == "start":
                self.collecting = time.perf_counter()
            elif self.collecting is not None:
                began, self.collecting = self.collecting, None
                ended = time.perf_counter()
                if ended - began >= _LONG_COLLECTION:
                    self.steps.note_collection(began, ended, self.stacks.seen(sys._getframe(1), "gc")[0])
        except Exception:
            pass

    def run(self):
        self.unbegun.release()
        faults = 0
        while faults < _MOST_FAULTS:
            try:
                self.wake_at = time.perf_counter() + self.period
                time.sleep(self.period)
                if self.hook.over or os.getpid() != self.pid:
                    return
                with self.turning:
                    self.turn(time.perf_counter())
            except Exception:
                faults += 1

    def wait_until_begun(self):
        """Before the process ends: Python takes down what it has of its threads, and one that it starts up after that
        crashes the process (CPython's thread_run sets its state before anything is asked)."""
        if self.unbegun.acquire(timeout=_BEGINS_WITHIN):
            self.unbegun.release()

    def turn(self, now):
        begun = time.thread_time()
        hook = self.hook
        if hook.steps != self.known and (self.steps.usual is None or now >= self.usual_due):
            self.usual_due = now + _USUAL_EVERY
            self.known = hook.steps
            self.steps.learn_usual(hook)
        # While steps are made, the training thread looks for listeners.
        if now - hook.wire.looked > 2 * _LOOK_EVERY:
            # Who comes while no step ends hears what runs all the same.
            new = self.wire.new_listeners(now)
            for message in (hook.about, hook.modules):
                if new and message is not None:
                    self.wire.send(message, new)
        else:
            self.wire.listeners = hook.wire.listeners
        if not self.wire.listeners:
            self.period = _ALONE_EVERY
            return
        last = hook.last_step
        samples = now >= self.sample_due or now - last > hook.late_s
        if samples:
            self.sample(now)
            self.sample_due = now + self.sample_every(now)
        if samples or self.steps.noted:
            self.steps.settle(hook.last_step)
            self.look_for_stall(now, last)
        self.tell(now)
        self.period = self.next_period(now, time.thread_time() - begun)

    def next_period(self, now, cost):
        """Until the next sample is due, or the step that is made now is late; what this turn cost is waited for."""
        lasts = now - self.hook.last_step
        is_late = lasts > self.hook.late_s
        # The longer a step lasts, the less one sample more or less says.
        due = lasts / 20 if is_late else min(self.sample_due - now, self.hook.late_s - lasts)
        # Of the first steps nobody knows yet whether they are late.
        seeks = is_late or self.steps.usual is None or self.steps.seeks(now)
        least = _LATE_EVERY
        if self.steps.is_short():
            # Each time that it wakes, the thread that trains waits for it: a large part of so short a step.
            least = _SHORT_LATE_EVERY if seeks else _SELDOM_EVERY
        soonest = max(least, cost / (_LATE_SHARE if seeks else _SHARE))
        return min(max(due, soonest), _SLOWEST)

    def sample_every(self, now):
        """Seconds between two samples of steps that are not late so far."""
        if self.steps.is_short():
            return _SHORT_LATE_EVERY if self.steps.seeks(now) else _SELDOM_EVERY
        # What makes a step late may come first in it: by the time that it is late, that is over.
        return min(self.steps.usual / 4, _SAMPLE_EVERY) if self.steps.seeks(now) else _SAMPLE_EVERY

    def sample(self, now):
        frame = sys._current_frames().get(self.thread)
        if frame is None:
            return
        seen = self.stacks.seen(frame)
        del frame
        self.steps.add_sample(min(self.wake_at, now), now, seen)

    def look_for_stall(self, now, last):
        # However many steps are late: those of every other one are no stall.
        usual = self.steps.median
        least = _UNUSUAL_STALL if usual is None else max(_STALL * usual, usual + _STALL_SLACK)
        if now - last < least:
            if self.stalling is not None:
                self.stalling = self.collective = None
                self.steps.news = True
            return
        # The first one stands for the time since the step began.
        stalled = [(at, place) for _, at, place, *_ in self.steps.samples if at > last]
        if stalled:
            at, place = next(one for one in stalled if one[1] == stalled[-1][1])
            self.stalling = (now - last, place, now - (last if at == stalled[0][0] else at))
        self.collective = self.recorded(now)

    def recorded(self, now):
        """The oldest collective that has not ended, as PyTorch's flight recorder has it."""
        if now - self.recorder_at < 5 * _STALL_EVERY:
            return self.collective
        self.recorder_at = now
        bindings = sys.modules.get("torch._C._distributed_c10d")
        dump = getattr(bindings, "_dump_nccl_trace", None)
        if dump is None or "nccl" not in _backends():
            return None
        import pickle

        try:
            # PyTorch's own bytes, without stacks where it can leave them out.
            trace = pickle.loads(dump(True, False, False))
        except TypeError:
            trace = pickle.loads(dump())
        entries = trace.get("entries", []) if isinstance(trace, dict) else []
        # `pg_id` counts the groups of this process: two ranks of two groups have the same. Names are the same on all
        # ranks of a group, and no other group's (FlightRecorder.hpp; _process_group_name in distributed_c10d.py).
        names = {str(entry.get("pg_id")): str(entry.get("process_group", ("",))[0])[:40] for entry in entries}
        status = trace.get("pg_status", {}) if isinstance(trace, dict) else {}
        enqueued = {
            names[str(number)]: int(state["last_enqueued_collective"])
            for number, state in list(status.items())[:32]
            if "last_enqueued_collective" in state and str(number) in names
        }
        collective = {"enqueued": enqueued}
        open_ = [entry for entry in entries if entry.get("state") != "completed" and not entry.get("is_p2p")]
        if open_:
            first = min(open_, key=lambda entry: entry.get("record_id", 0))
            collective["call"] = str(first.get("profiling_name", ""))[:80]
            collective["group"] = names[str(first.get("pg_id"))]
            collective["sequence"] = int(first.get("collective_seq_id", first.get("seq_id", 0)))
            collective["state"] = str(first.get("state", ""))[:20]
        return collective

    def tell(self, now):
        stalls = self.stalling is not None
        every = _STALL_EVERY if stalls else _PLACES_EVERY if self.steps.news else _SHARES_EVERY
        if now - self.told_at < every or (not stalls and not self.steps.news and not self.steps.healthy):
            return
        self.told_at, self.steps.news = now, False
        self.wire.send(self.message(stalls, now))

    def tell_end(self, wire, last):
        """At the end of the process, in the thread that is watched: what was not told yet."""
        if not self.turning.acquire(timeout=_BEGINS_WITHIN):
            return
        try:
            steps = self.steps
            if steps.usual is None:
                steps.learn_usual(self.hook)
            steps.settle(last)
            # One that stood still until its end has made no step since.
            now = time.perf_counter()
            self.look_for_stall(now, last)
            stalls = self.stalling is not None
            if stalls or (steps.usual is not None and (steps.healthy or steps.late)):
                wire.send(self.message(stalls, now))
        finally:
            self.turning.release()

    def message(self, stalls, now):
        steps, indices, places, shared = self.steps, {}, [], set()

        def index(place, functions=None):
            described = self.stacks.described(place)
            if described["activity"] == "batch":
                described["call"] = larger
            key = (described["call"], described["file"], described["line"])
            if key not in indices:
                indices[key] = len(places)
                # The share is that of a whole function: it is told once.
                functions = set(functions or (self.stacks.group(place),)) - shared
                described["share"] = sum(steps.share_of(function) for function in functions)
                shared.update(functions)
                places.append(described)
            return indices[key]

        message = {"v": VERSION, "kind": "places", "pid": self.pid, "step": self.hook.steps, "at": time.time()}
        for name, variable in (("rank", "RANK"), ("launcher", "MEMWALL_RUN")):
            if os.environ.get(variable, "").isdigit():
                message[name] = int(os.environ[variable])
        if steps.usual is not None:
            message["usual_s"] = steps.usual
        message["samples"] = int(steps.healthy)
        message["late_steps"] = steps.count
        told = steps.told_late()
        larger = steps.larger_batches(told)
        message["late"] = [
            [step, ended - began, index(place, functions), spent, max(now - ended, 0.0)]
            for step, began, ended, place, spent, functions in steps.together(told)
        ]
        if stalls:
            for_s, place, here_s = self.stalling
            message["stall"] = {"for_s": for_s, "place": index(steps.named(place)), "here_s": here_s}
            if self.collective is not None:
                message["stall"]["collective"] = self.collective
        for place in steps.most_of_healthy_steps():
            if self.stacks.group(place) not in shared:
                index(steps.named(place))
        message["places"] = places
        return message


def _thread_lock():
    import _thread as threads

    return threads.allocate_lock()


def _backends():
    """The backends of PyTorch's process groups; none where there are none."""
    distributed = sys.modules.get("torch.distributed")
    try:
        return str(distributed.get_backend()).lower() if distributed.is_initialized() else ""
    except Exception:
        return ""


def _watch(hook):
    """Starts the thread that watches this one. It is none of the script's: `threading` does not list it."""
    if os.environ.get("MEMWALL_HOOK_SAMPLER") == "0":
        return None
    import _thread as threads
    import collections
    import gc

    # Whatever it imports is loaded before it starts: a fork must not meet it in an import.
    import itertools  # noqa: F401
    import json  # noqa: F401
    import linecache  # noqa: F401
    import re  # noqa: F401
    import socket  # noqa: F401
    import stat  # noqa: F401
    import threading  # noqa: F401

    _torch_root[0] = os.path.dirname(getattr(hook.torch, "__file__", None) or "?/?") + "/"
    hook.times = collections.deque(maxlen=_TIMES)
    unbegun = threads.allocate_lock()
    unbegun.acquire()
    watch = _Watch(hook, threads.get_ident(), unbegun)
    gc.callbacks.append(watch.on_collection)
    threads.start_new_thread(watch.run, ())
    return watch
