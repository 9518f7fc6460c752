

# Where the training thread is: this file goes on where memwall_hook.py ends, both are one module.
#
# A thread of its own reads the training thread's Python stack a few times a second, more often while a
# step is late. It keeps no frame, and it wakes less often where waking costs more than its share.
# MEMWALL_HOOK_SAMPLER=0 turns it off.

# A step is late that takes this many times the usual one, and so many seconds more. Where steps differ by themselves it
# must take so many times longer than what lies between the usual step and the fastest ones: late steps do not move
# those, however many there are.
_LATE = 1.5
_SLACK = 0.005
_SHORT_SLACK = 0.01
_SPREAD = 3.0

# Seconds between two samples while steps are long, while they are short, while one is late, and between two looks while
# nobody listens.
_SAMPLE_EVERY = 0.05
_SELDOM_EVERY = 0.2
_SHORT_STEP = 0.005
_LATE_EVERY = 0.01
_SHORT_LATE_EVERY = 0.02
_ALONE_EVERY = 2.0
_SLOWEST = 1.0
_BEGINS_WITHIN = 2.0

# All that the thread does may take this share of the time. While a step is late, and for so many seconds after one was,
# fewer where steps are short, that one: for so many late steps.
_SHARE = 0.001
_LATE_SHARE = 0.004
_SOUGHT = 30
_SOUGHT_FOR = 60.0
_SHORT_SOUGHT_FOR = 5.0

# Seconds between two messages, between two while nothing is new, and between two in a stall.
_PLACES_EVERY = 0.5
_SHARES_EVERY = 10.0
_STALL_EVERY = 2.0

# A step that takes this many times the usual one, and so many seconds more, stalls. Before a step is usual: seconds.
_STALL = 5.0
_STALL_SLACK = 5.0
_UNUSUAL_STALL = 60.0

# Step times that the usual one is worked out from, and how many it takes.
_TIMES = 63
_LEAST_TIMES = 8
_USUAL_EVERY = 0.5

_DEEPEST = 128
_MOST_TASKS = 1000
# Late steps that are kept and told of: the newest, or those of the kept ones that are late by this share of the longest,
# where so many are and all at one place.
_KEPT_LATE = 30
_LONG_SHARE = 0.25
_LEAST_LONG = 3
_KEPT_SAMPLES = 512
_MOST_PLACES = 6
_MEMORY = 2400

# A collection of garbage that takes this long is a place.
_LONG_COLLECTION = 0.02

# Calls of PyTorch that many ranks make together.
_COLLECTIVES = frozenset(
    "all_reduce all_reduce_coalesced all_gather all_gather_into_tensor _all_gather_base all_gather_coalesced "
    "all_gather_object reduce_scatter reduce_scatter_tensor _reduce_scatter_base broadcast broadcast_object_list "
    "reduce gather gather_object scatter scatter_object_list all_to_all all_to_all_single barrier monitored_barrier "
    "send recv batch_isend_irecv".split()
)

# Methods that wait until the device has come so far.
_WAITING = ("item", "cpu", "tolist", "numpy", "synchronize", "wait")

# Healthy samples from which on it is known what healthy steps do, and the share of them that a place has which they do
# not have to speak of. Where there are fewer, what they do not do: chance alone would put so many late steps where none of
# them was with less than this probability.
_KNOWN_SAMPLES = 20
_UNLIKE = 0.02
_CHANCE = 5e-4

# What is said where nothing better is known, and not taken for the cause of anything.
_WORK = ("forward", "backward", "optimizer")

# Files of PyTorch's folder of optimizers that hold none.
_BESIDE_OPTIMIZERS = ("optim/lr_scheduler.py", "optim/swa_utils.py")

_SAVES = ("checkpoint", "ckpt", "pretrained", "state", "model", "weights", "snapshot")
_EVALUATES = ("eval", "evaluate", "evaluation", "evaluator", "validate", "validation", "val", "estimate_loss")


def _words(name):
    return name.lower().strip("_").split("_")


def _activity(path, name):
    """What a function does, by its file and name: an activity and the name of the call; none of most."""
    if path.startswith(_torch_root[0]):
        return _torch_activity(path[len(_torch_root[0]) :], name)
    words = _words(name)
    if words[0] in ("save", "dump", "write") and any(word in _SAVES for word in words[1:]):
        return ("checkpoint", name)
    if path.endswith("/safetensors/torch.py") and words[0] in ("save", "load"):
        return ("checkpoint", "safetensors." + name)
    # Figures and logs are saved as well: it is what it calls.
    if words == ["save"]:
        return ("save", name)
    if "evaluation_loop" in path or name.strip("_") == "estimate_loss":
        return ("evaluation", name)
    if words[0] in _EVALUATES or (words[0] in ("run", "do") and words[1:2] and words[1] in _EVALUATES):
        return ("evaluation", name)
    return None


def _torch_activity(path, name):
    if path == "utils/data/dataloader.py":
        return ("data", "DataLoader." + name) if name in ("__next__", "__iter__") else None
    if path == "serialization.py" and name in ("save", "load"):
        return ("checkpoint", "torch." + name)
    if path.startswith("distributed/checkpoint/") and name in ("save", "save_state_dict", "load", "async_save"):
        return ("checkpoint", "torch.distributed.checkpoint." + name)
    if path == "distributed/distributed_c10d.py" and name in _COLLECTIVES:
        return ("collective", name)
    # A scheduler's step is none of the optimizer's: it may call the script's own functions.
    if path.startswith("optim/") and name in ("step", "wrapper") and path not in _BESIDE_OPTIMIZERS:
        return ("optimizer", "optimizer.step")
    if path in ("_tensor.py", "autograd/__init__.py") and name == "backward":
        return ("backward", "backward")
    if path == "nn/modules/module.py" and name in ("_call_impl", "_wrapped_call_impl"):
        return ("forward", "forward")
    return None


# The folder of PyTorch and that of Python's own library.
_torch_root = ["?"]
_STANDARD = os.path.dirname(os.__file__) + "/"


def _is_library(path):
    return (
        "/site-packages/" in path
        or "/dist-packages/" in path
        or path.startswith((_STANDARD, _torch_root[0], "<frozen"))
        or path == __file__
    )


class _Codes:
    """What is known of functions, by their code: looked at once."""

    def __init__(self):
        self.known = {}

    def of(self, code):
        known = self.known.get(id(code))
        if known is None:
            if len(self.known) > 20000:
                self.known.clear()
            # The code itself is kept: another one will not have its id.
            known = (_activity(code.co_filename, code.co_name), _is_library(code.co_filename), code)
            self.known[id(code)] = known
        return known


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
        self.codes = _Codes()
        self.loop = {}
        self.period = _SAMPLE_EVERY
        self.sample_due = 0.0
        self.seen = 0
        self.usual = None
        self.usual_due = 0.0
        # Steps that were late, as the training thread noted them; samples with the times when they were due and taken.
        self.noted = []
        self.samples = []
        # When the thread was to wake for this turn.
        self.wake_at = 0.0
        self.pending = []
        # Of the newest sample: the script's own function that work has called. How often it was there in healthy steps.
        self.inside = None
        self.insides = {}
        # Of the newest sample: the batch that the model is called with. What healthy steps' batches were.
        self.batch = None
        self.batches = _Batches()
        self.tensor_class = getattr(hook.torch, "Tensor", None)
        self.collections = []
        self.collecting = None
        self.shares = {}
        self.healthy = 0
        self.late = []
        self.late_steps = 0
        self.texts = {}
        self.told_at = float("-inf")
        self.news = False
        self.stalling = None
        self.stall_told = float("-inf")
        self.recorder_at = float("-inf")
        self.collective = None
        # Late steps that were looked into closely, and the time of the newest one.
        self.sought = 0
        self.late_at = float("-inf")

    def learn_loop(self, frame):
        """Notes the functions that make the optimizer step: whatever a late step does, it does inside of them."""
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(_torch_root[0]) and code.co_filename != __file__:
                self.loop[id(code)] = code
            frame = frame.f_back

    def note_late(self, step, took, ended):
        """Called in the training thread behind a step that was late."""
        if len(self.noted) < 64:
            self.noted.append((step, took, ended))

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
                if ended - began >= _LONG_COLLECTION and len(self.collections) < 64:
                    self.collections.append((began, ended, self.place(sys._getframe(1), "gc")))
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
        if hook.steps != self.seen and (self.usual is None or now >= self.usual_due):
            self.usual_due = now + _USUAL_EVERY
            self.on_steps(hook)
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
        if samples or self.noted:
            self.settle(hook.last_step)
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
        seeks = is_late or self.usual is None or self.seeks(now)
        least = _LATE_EVERY
        if self.is_short():
            # Each time that it wakes, the thread that trains waits for it: a large part of so short a step.
            least = _SHORT_LATE_EVERY if seeks else _SELDOM_EVERY
        soonest = max(least, cost / (_LATE_SHARE if seeks else _SHARE))
        return min(max(due, soonest), _SLOWEST)

    def sample_every(self, now):
        """Seconds between two samples of steps that are not late so far."""
        if self.is_short():
            return _SHORT_LATE_EVERY if self.seeks(now) else _SELDOM_EVERY
        # What makes a step late may come first in it: by the time that it is late, that is over.
        return min(self.usual / 4, _SAMPLE_EVERY) if self.seeks(now) else _SAMPLE_EVERY

    def is_short(self):
        return self.usual is not None and self.usual < _SHORT_STEP

    def seeks(self, now):
        """Whether steps were late lately, and not many were looked into closely."""
        lately = now - self.late_at <= (_SHORT_SOUGHT_FOR if self.is_short() else _SOUGHT_FOR)
        return self.usual is not None and self.sought < _SOUGHT and lately

    def on_steps(self, hook):
        """Works out from the newest steps what is usual."""
        self.seen = hook.steps
        times = list(hook.times)
        ordered = sorted(took for took, _, _ in times)
        if len(ordered) < _LEAST_TIMES:
            return
        first = self.usual is None
        self.usual = ordered[len(ordered) // 2]
        spread = self.usual - ordered[len(ordered) // 10]
        slack = _SHORT_SLACK if self.is_short() else _SLACK
        hook.late_s = self.usual + max((_LATE - 1) * self.usual, _SPREAD * spread, slack)
        if first:
            # Of the steps until now nobody knew that they were late.
            for took, step, ended in times:
                if took > hook.late_s:
                    self.note_late(step, took, ended)

    def sample(self, now):
        frame = sys._current_frames().get(self.thread)
        if frame is None:
            return
        place = self.place(frame)
        del frame
        self.samples.append((min(self.wake_at, now), now, place, self.inside, self.batch))
        if len(self.samples) > _KEPT_SAMPLES:
            del self.samples[: _KEPT_SAMPLES // 2]
        self.pending.append((now, place, self.inside, self.batch))

    def place(self, frame, activity=None):
        """Where the thread is: an activity, a call, a code with its line and instruction, and whether the call is made
        there and not in what is called."""
        codes, loop, frames = self.codes, self.loop, []
        self.inside = self.batch = None
        cause, known = None, (activity, "gc.collect") if activity is not None else None
        model = None
        # From the innermost frame out to the training loop.
        while frame is not None:
            code = frame.f_code
            frames.append(frame)
            if id(code) in loop or len(frames) == _DEEPEST:
                break
            found = codes.of(code)[0]
            if found is not None and found[0] == "save":
                found = ("checkpoint", found[1]) if known is not None and known[0] == "checkpoint" else None
            if found is not None and found[0] == "forward":
                model = frame
            # The outermost call says most: an evaluation's data is the evaluation's.
            if found is not None and activity is None and (known is None or found[0] not in _WORK or known[0] in _WORK):
                cause, known = len(frames) - 1, found
            frame = frame.f_back
        inner = len(frames) - 1
        where = 0 if cause is None else cause + 1
        # Who called it, and not a wrapper in a library.
        while where < inner and codes.of(frames[where].f_code)[1]:
            where += 1
        found = frames[where]
        # A library's own loop calls it: what it runs of the script says more.
        if known is not None and known[0] == "data" and codes.of(found.f_code)[1]:
            own = [frame for frame in frames[:where] if not codes.of(frame.f_code)[1]]
            found = own[-1] if own else found
        if (known is None or known[0] in _WORK) and self.evaluates():
            known = ("evaluation", "")
        elif known is not None and known[0] == "forward" and _evaluates(model):
            known = ("evaluating", known[1])
        elif known is not None and known[0] == "forward":
            self.batch = _batch_of(model, self.tensor_class)
        if known is None and found.f_code.co_filename.endswith("/asyncio/base_events.py"):
            awaited = self.awaited(found)
            if awaited is not None:
                return ("code", "", awaited.f_code, awaited.f_lineno, awaited.f_lasti, False)
        kind, call = known if known is not None else ("code", "")
        if kind == "evaluating" or kind in _WORK:
            self.inside = self.own(frames[: where + 1])
        return (kind, call, found.f_code, found.f_lineno, found.f_lasti, where == 0)

    def awaited(self, runner):
        """Where the coroutine that makes the steps waits: while its event loop, whose frame that is, runs nothing, it is on
        no stack. None where nobody knows, and where several tasks make steps."""
        waiting = []
        try:
            tasks = sys.modules["asyncio.tasks"].all_tasks(runner.f_locals["self"])
            for task in list(tasks)[:_MOST_TASKS]:
                coroutine, frame = task.get_coro(), None
                is_loop = False
                # From the task's own down to the innermost one of the script that it awaits.
                while getattr(coroutine, "cr_frame", None) is not None:
                    if id(coroutine.cr_code) in self.loop:
                        is_loop = True
                    if frame is None or not self.codes.of(coroutine.cr_code)[1]:
                        frame = coroutine.cr_frame
                    coroutine = coroutine.cr_await
                if is_loop:
                    waiting.append(frame)
        except Exception:
            return None
        return waiting[0] if len(waiting) == 1 else None

    def own(self, frames):
        """The innermost function of the script among those that work has called: a hook of a module, say."""
        for depth, frame in enumerate(frames[:-1]):
            if not self.codes.of(frame.f_code)[1]:
                return ("code", "", frame.f_code, frame.f_lineno, frame.f_lasti, depth == 0)
        return None

    def group(self, place):
        """What is one place: a call from a function; in the training loop itself, from a line of it."""
        kind, call, code, line = place[:4]
        return (kind, call, id(code), line if id(code) in self.loop else 0)

    def evaluates(self):
        model = self.hook.model
        return model is not None and getattr(model, "training", True) is False

    def named(self, place, inside=None, batch=None):
        """What is said of a place in a late step. Work at a place where healthy steps do none is none of theirs: an
        evaluation where the model is in that mode, else code of the script. So is a function that work calls, `inside`,
        where healthy steps do not call it. Work on a larger batch takes longer, wherever it was seen."""
        kind, call, code, line, instruction, direct = place
        if not _is_work(place):
            return place
        if inside is not None:
            function = self.group(inside)
            here = sum(1 for late in self.late if late[4] is not None and self.group(late[4]) == function)
            if self.is_of_late_steps(self.insides.get(function, 0), here):
                return inside
        if place[0] in _WORK and batch is not None and self.batches.times_larger(batch[0]) is not None:
            return ("batch", "", *batch[1][2:])
        share = self.share(place)
        here = sum(1 for late in self.late if self.group(late[3]) == self.group(place))
        if not self.is_of_late_steps(share * self.healthy, here) or _is_library(code.co_filename):
            return ("forward", call, code, line, instruction, direct) if kind == "evaluating" else place
        if kind == "evaluating":
            return ("evaluation", "", code, line, instruction, direct)
        return ("code", "", code, line, instruction, direct)

    def is_of_late_steps(self, healthy, late):
        """Whether so many healthy samples and so many late steps at a place say that healthy steps are not there."""
        if self.healthy >= _KNOWN_SAMPLES:
            return healthy < _UNLIKE * self.healthy
        # Whatever share the place has of all steps, each as likely as any other: none of the healthy samples met it, and
        # that many of the late ones did.
        chance = 1.0
        for other in range(late):
            chance *= (len(self.late) - other) / (self.healthy + 2 + other)
        return healthy == 0 and chance < _CHANCE

    def settle(self, last):
        """Samples of steps that have ended: healthy ones are counted, late ones belong to their step."""
        while self.noted:
            step, took, ended = self.noted.pop(0)
            self.late_step(step, took, ended)
        if self.usual is None:
            # Nobody knows yet which steps are late.
            del self.pending[:-_KEPT_SAMPLES]
            return
        rest = []
        for at, place, inside, batch in self.pending:
            if at > last:
                rest.append((at, place, inside, batch))
            elif not any(began <= at <= ended for _, began, ended, *_ in self.late):
                self.healthy += 1
                # Of work the line is enough.
                place = place if place[0] == "code" else (*place[:4], -1, False)
                self.shares[place] = self.shares.get(place, 0) + 1
                if inside is not None:
                    function = self.group(inside)
                    self.insides[function] = self.insides.get(function, 0) + 1
                if batch is not None:
                    self.batches.healthy(batch)
        self.pending = rest
        if self.healthy > _MEMORY:
            self.healthy //= 2
            self.shares = {place: count / 2 for place, count in self.shares.items() if count >= 2}
            self.insides = {function: count / 2 for function, count in self.insides.items() if count >= 2}

    def late_step(self, step, took, ended):
        self.late_steps += 1
        # A step that is late after a long time is looked into like the first one.
        self.sought = 1 if ended - self.late_at > _SOUGHT_FOR else self.sought + 1
        self.late_at = ended
        began = ended - took
        seconds = self.seconds_between(began, ended)
        if not seconds:
            return
        # Lines of one function are one place: the line that most were seen at.
        together = {}
        for place, length in seconds.items():
            together.setdefault(self.group(place), []).append((length, place))
        # What takes more than it does in every step.
        def more(parts):
            return sum(length for length, _ in parts) - self.share(parts[0][1]) * self.usual

        most = max(together.values(), key=more)
        # Where it waits says more than where it was seen most.
        place = max(most, key=lambda part: (self.described(part[1])["activity"] == "synchronization", part[0]))[1]
        spent = sum(length for length, _ in most)
        inside = self.called_by_work(began, ended, spent) if _is_work(place) else None
        batch = self.largest_batch(began, ended) if _is_work(place) else None
        self.late.append((step, began, ended, place, inside, spent, batch))
        del self.late[:-_KEPT_LATE]
        self.news = True

    def called_by_work(self, began, ended, spent):
        """The script's function that work has called for most of the time."""
        seconds = {}
        for since, until, _, inside in self.sampled(began, ended):
            if inside is not None:
                parts = seconds.setdefault(self.group(inside), {})
                parts[inside] = parts.get(inside, 0.0) + until - since
        function = max(seconds, key=lambda function: sum(seconds[function].values()), default=None)
        if function is None or sum(seconds[function].values()) < spent / 2:
            return None
        return max(seconds[function], key=seconds[function].get)

    def largest_batch(self, began, ended):
        """The largest batch that a module was called with in a step, and the place of that call; none where it was never seen
        in one."""
        seen = [(batch, place) for _, at, place, _, batch in self.samples if began < at <= ended and batch is not None]
        return max(seen, key=lambda one: self.batches.times_larger(one[0]) or 0.0, default=None)

    def sampled(self, began, ended):
        """The samples between two moments with the time that each stands for. What lies between two is shared among them.
        One that comes after it was due stands for that time alone: the thread that trains kept it waiting, in a call that
        does not let go of Python's lock."""
        inner = [sample for sample in self.samples if began < sample[1] <= ended]
        parts, since = [], began
        for sample, following in zip(inner, inner[1:] + [None]):
            until = ended if following is None else (sample[1] + max(following[0], sample[1])) / 2
            parts.append((since, until, sample[2], sample[3]))
            since = until
        return parts

    def seconds_between(self, began, ended):
        """The time between two moments by places: garbage was collected, and samples stand for the time around them."""
        seconds = {}
        collected = [part for part in self.collections if part[1] > began and part[0] < ended]
        self.collections = [part for part in self.collections if part[0] >= ended]
        for since, until, place in collected:
            seconds[place] = seconds.get(place, 0.0) + min(until, ended) - max(since, began)
        for since, until, place, _ in self.sampled(began, ended):
            length = until - since
            for from_, to, _ in collected:
                length -= max(min(until, to) - max(since, from_), 0.0)
            if length > 0.0:
                seconds[place] = seconds.get(place, 0.0) + length
        return seconds

    def look_for_stall(self, now, last):
        usual = self.usual
        least = _UNUSUAL_STALL if usual is None else max(_STALL * usual, usual + _STALL_SLACK)
        if now - last < least:
            if self.stalling is not None:
                self.stalling = self.collective = None
                self.news = True
            return
        # The first one stands for the time since the step began.
        stalled = [(at, place) for _, at, place, *_ in self.samples if at > last]
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
        every = _STALL_EVERY if stalls else _PLACES_EVERY if self.news else _SHARES_EVERY
        if now - self.told_at < every or (not stalls and not self.news and not self.healthy):
            return
        self.told_at, self.news = now, False
        self.wire.send(self.message(stalls, now))

    def tell_end(self, wire, last):
        """At the end of the process, in the thread that is watched: what was not told yet."""
        if not self.turning.acquire(timeout=_BEGINS_WITHIN):
            return
        try:
            if self.usual is None:
                self.on_steps(self.hook)
            self.settle(last)
            if self.usual is not None and (self.healthy or self.late):
                wire.send(self.message(False, time.perf_counter()))
        finally:
            self.turning.release()

    def message(self, stalls, now):
        indices, places, shared = {}, [], set()

        def index(place, functions=None):
            described = self.described(place)
            if described["activity"] == "batch":
                described["call"] = larger
            key = (described["call"], described["file"], described["line"])
            if key not in indices:
                indices[key] = len(places)
                # The share is that of a whole function: it is told once.
                functions = set(functions or (self.group(place),)) - shared
                described["share"] = sum(self.share_of(function) for function in functions)
                shared.update(functions)
                places.append(described)
            return indices[key]

        message = {"v": VERSION, "kind": "places", "pid": self.pid, "step": self.hook.steps, "at": time.time()}
        for name, variable in (("rank", "RANK"), ("launcher", "MEMWALL_RUN")):
            if os.environ.get(variable, "").isdigit():
                message[name] = int(os.environ[variable])
        if self.usual is not None:
            message["usual_s"] = self.usual
        message["samples"] = int(self.healthy)
        message["late_steps"] = self.late_steps
        told = self.told_late()
        larger = self.larger_batches(told)
        message["late"] = [
            [step, ended - began, index(place, functions), spent, max(now - ended, 0.0)]
            for step, began, ended, place, spent, functions in self.together(told)
        ]
        if stalls:
            for_s, place, here_s = self.stalling
            message["stall"] = {"for_s": for_s, "place": index(self.named(place)), "here_s": here_s}
            if self.collective is not None:
                message["stall"]["collective"] = self.collective
        most = sorted(self.shares.items(), key=lambda share: -share[1])[:_MOST_PLACES]
        for place, _ in most:
            if self.group(place) not in shared:
                index(self.named(place))
        message["places"] = places
        return message

    def told_late(self):
        """What the machine's other work makes late hides what is late by much more."""
        if self.usual is None or not self.late:
            return self.late
        late_by = [ended - began - self.usual for _, began, ended, *_ in self.late]
        long = [one for one, by in zip(self.late, late_by) if by >= _LONG_SHARE * max(late_by)]
        places = [self.named(place, inside, batch) for _, _, _, place, inside, _, batch in long]
        is_one = len({self.group(place) for place in places}) == 1 and not _is_work(places[0])
        return long if is_one and len(long) >= _LEAST_LONG else self.late

    def larger_batches(self, late):
        """How much larger than the usual ones the batches of late steps are, in words."""
        times = [self.batches.times_larger(batch[0]) for *_, batch in late if batch is not None]
        times = sorted(one for one in times if one is not None)
        return "a batch %.3g times as large" % times[len(times) // 2] if times else ""

    def together(self, late):
        """Late steps with what is said of them and the functions that it stands for. They are late at one place where
        they are in one function, or at one line of several: a line is that of a function and of what is written in it.
        Said is where most of the time went."""
        late = [(*one[:3], self.named(one[3], one[4], one[6]), one[5]) for one in late]
        lines = {}
        for *_, place, spent in late:
            function = lines.setdefault(self.group(place), {})
            function[place] = function.get(place, 0.0) + spent
        most = {function: max(spent, key=spent.get) for function, spent in lines.items()}
        alike = {}
        for function, place in most.items():
            alike.setdefault((place[0], place[2].co_filename, place[3]), []).append(function)
        said = {}
        for functions in alike.values():
            place = most[max(functions, key=lambda function: sum(lines[function].values()))]
            said.update((function, (place, functions)) for function in functions)
        told = []
        for step, began, ended, place, spent in late:
            place, functions = said[self.group(place)]
            told.append((step, began, ended, place, spent, functions))
        return told

    def share(self, place):
        """Of the time of healthy steps, what the same call from the same function takes."""
        return self.share_of(self.group(place))

    def share_of(self, same):
        count = sum(count for other, count in self.shares.items() if self.group(other) == same)
        return count / self.healthy if self.healthy else 0.0

    def described(self, place):
        described = self.texts.get(place)
        if described is None:
            if len(self.texts) > 1000:
                self.texts.clear()
            kind, call, code, line, instruction, direct = place
            if kind == "code" and instruction >= 0:
                call = _called(code, line, instruction, direct) or call
            if kind == "code" and call.startswith("."):
                kind = "synchronization"
            described = {
                "activity": kind,
                "call": (call or code.co_name)[:80],
                "file": code.co_filename[-200:],
                "line": line,
                "function": code.co_name[:80],
            }
            self.texts[place] = described
        return dict(described)


def _thread_lock():
    import _thread as threads

    return threads.allocate_lock()


def _is_work(place):
    return place[0] == "evaluating" or place[0] in _WORK


def _backends():
    """The backends of PyTorch's process groups; none where there are none."""
    distributed = sys.modules.get("torch.distributed")
    try:
        return str(distributed.get_backend()).lower() if distributed.is_initialized() else ""
    except Exception:
        return ""


def _evaluates(frame):
    """Whether the module whose call that frame is, PyTorch's own, is in evaluation mode. Of the frame's values none is
    kept that it does not keep itself."""
    try:
        return frame.f_locals["self"].training is False
    except Exception:
        return False


def _called(code, line, instruction, direct):
    """The call that an instruction makes, as the source has it: `.item()` where it waits for the device, else
    the name; empty where the source cannot be read. What is written in Python does not wait for the device."""
    import linecache
    import re

    text = linecache.getline(code.co_filename, line)
    if hasattr(code, "co_positions"):
        positions = list(code.co_positions())[instruction // 2 : instruction // 2 + 1]
        first, last, begin, end = positions[0] if positions else (None,) * 4
        if first is None or first != last or begin is None:
            return ""
        text = linecache.getline(code.co_filename, first).encode()[begin:end].decode(errors="replace")
        waits = direct and re.search(r"\.(%s)\([^()]*\)$" % "|".join(_WAITING), text)
        named = re.match(r"([\w.]+)\(", text)
        if waits or named:
            return "." + waits.group(1) + "()" if waits else named.group(1)
        # Between two calls: what the line calls is meant.
        text = linecache.getline(code.co_filename, line)
    waits = direct and re.search(r"\.(%s)\(" % "|".join(_WAITING), text)
    return "." + waits.group(1) + "()" if waits else ""


def _watch(hook):
    """Starts the thread that watches this one. It is none of the script's: `threading` does not list it."""
    if os.environ.get("MEMWALL_HOOK_SAMPLER") == "0":
        return None
    import _thread as threads
    import collections
    import gc

    # Whatever it imports is loaded before it starts: a fork must not meet it in an import.
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
