# Where the training thread is, by its Python stack: the place that a sample stands for.

_DEEPEST = 128
_MOST_TASKS = 1000

# What is one thing though several lines do it.
_OF_SEVERAL_LINES = ("checkpoint", "evaluation", "data")


def _name_of(frame):
    """The function of that frame, with its class where it is a method: `Tokens.__getitem__`."""
    code = frame.f_code
    name = getattr(code, "co_qualname", None)
    if name is not None:
        return name.rsplit("<locals>.", 1)[-1]
    try:
        return "%s.%s" % (type(frame.f_locals["self"]).__name__, code.co_name)
    except Exception:
        return code.co_name


def _function(code):
    """The function that a code is of: what is written in it without a name has its."""
    names = getattr(code, "co_qualname", code.co_name).split(".<locals>.")
    named = [name for name in names if not name.startswith("<")]
    return named[-1].rsplit(".", 1)[-1] if named else code.co_name


class _Stacks:
    """Names the places of stacks, and what is said of a place."""

    def __init__(self, hook):
        self.hook = hook
        self.codes = _Codes()
        self.loop = {}
        self.texts = {}
        self.tensor_class = getattr(hook.torch, "Tensor", None)

    def learn_loop(self, frame):
        """Notes the functions that make the optimizer step: whatever a late step does, it does inside of them."""
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(_torch_root[0]) and code.co_filename != __file__:
                self.loop[id(code)] = code
            frame = frame.f_back

    def seen(self, frame, activity=None):
        """Where the thread is: an activity, a call, a code with its line and instruction, and whether the call is made
        there and not in what is called. With it, of work, the script's own function that the work has called, as such a
        place, and the batch that a model is called with; none where there is none."""
        codes, loop, frames = self.codes, self.loop, []
        inside = batch = None
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
        # What a loader runs of the script says more than who asks it for a batch: the data set, what makes a batch of samples.
        if known is not None and known[0] == "data":
            own = [frame for frame in frames[:where] if not codes.of(frame.f_code)[1]]
            if own:
                found = own[-1]
                known = ("data", "%s (%s)" % (known[1], _name_of(found)))
        if (known is None or known[0] in _WORK) and self.evaluates():
            known = ("evaluation", "")
        elif known is not None and known[0] == "forward" and _evaluates(model):
            known = ("evaluating", known[1])
        elif known is not None and known[0] == "forward":
            batch = _batch_of(model, self.tensor_class)
        if known is None and found.f_code.co_filename.endswith("/asyncio/base_events.py"):
            awaited = self.awaited(found)
            if awaited is not None:
                return ("code", "", awaited.f_code, awaited.f_lineno, awaited.f_lasti, False), None, None
        kind, call = known if known is not None else ("code", "")
        if kind == "evaluating" or kind in _WORK:
            inside = self.own(frames[: where + 1])
        return (kind, call, found.f_code, found.f_lineno, found.f_lasti, where == 0), inside, batch

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
        """What is one place: a call from a function; in the training loop itself, from a line of it. Two lines of it that save
        are one checkpoint."""
        kind, call, code, line = place[:4]
        return (kind, call, id(code), line if id(code) in self.loop and kind not in _OF_SEVERAL_LINES else 0)

    def evaluates(self):
        model = self.hook.model
        return model is not None and getattr(model, "training", True) is False

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
                "call": (call or _function(code))[:80],
                "file": code.co_filename[-200:],
                "line": line,
                "function": code.co_name[:80],
            }
            self.texts[place] = described
        return dict(described)
