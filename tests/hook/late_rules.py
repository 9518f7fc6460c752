"""The rules by which late steps and their places are known, on made-up times and stacks. Argument: the hook's folder.
Prints what comes out as JSON: `tests/observe/hook/rules.rs` knows what should."""

import json
import sys
import types

sys.path.insert(0, sys.argv[1])
import memwall_hook as hook

hook._torch_root[0] = "/t/torch/"
results = {}


def watch(times=(), model=None):
    """A watch over steps that took so long."""
    wire = types.SimpleNamespace(looked=0.0, listeners=["nobody"])
    made = types.SimpleNamespace(wire=wire, steps=len(times), late_s=float("inf"), model=model, over=False, last_step=0.0)
    made.torch = types.SimpleNamespace()
    ended, made.times = 0.0, []
    for step, took in enumerate(times, 1):
        ended += took
        made.times.append((took, step, ended))
    made.last_step = ended
    return hook._Watch(made, 0, None)


def late_of(times):
    one = watch(times)
    one.steps.learn_usual(one.hook)
    return [step for step, _, _ in one.steps.noted]


# Before eight steps nobody knows the usual one; then those before are known, too, however often they come.
results["first"] = late_of([0.02, 0.02, 0.02, 0.08] * 2)
results["every third"] = late_of([0.1, 0.1, 0.25] * 10)[:3]
results["twice as long"] = late_of([0.02] * 9 + [0.041])
# Every second one, or a few more: the faster ones are usual.
results["every second"] = late_of([0.01, 0.16] * 8)[:3]
results["two of three"] = late_of([0.01, 0.16, 0.17] * 8)[:3]
results["most"] = late_of([0.01, 0.16, 0.16, 0.16, 0.17] * 8)
results["every second, thrice"] = late_of([0.05, 0.15] * 8)[:3]
# Two micro batches, or a second loss: so it is by design, whichever kind is one more; one that takes longer still is late.
results["twice, every second"] = late_of(([0.1, 0.2] * 32)[:63]) + late_of(([0.2, 0.1] * 32)[:63])
results["twice, three of four"] = late_of([0.1, 0.2, 0.2, 0.2] * 8)
results["second loss"] = late_of(([0.03, 0.07] * 32)[:63])
results["late among two kinds"] = late_of([0.1, 0.2] * 15 + [0.1, 0.9])
# Longer sequences from some step on: two fifths of all are enough to be usual.
results["phase"] = late_of([0.1] * 20 + [0.4] * 43) + late_of([0.1] * 35 + [0.2] * 28) + late_of([0.4] * 43 + [0.1] * 20)
# One to three micro batches a step, lengths that differ, and a fast step with the noise of a scheduler.
results["uneven"] = late_of([0.02, 0.04, 0.06] * 8)
results["lengths"] = late_of([0.01 * (1 + step * 7 % 10) for step in range(40)])
results["noise"] = late_of([0.001] * 20 + [0.005])


def code(file, text):
    """Functions of a file that is not there."""
    scope = {}
    exec(compile(text, file, "exec"), scope)
    return scope


TORCH = code("/t/torch/serialization.py", "def save(f):\n    return f()\n")
CALL = code("/t/torch/nn/modules/module.py", "def _call_impl(self, f):\n    return f()\n")
JSON = code("/l/site-packages/json/__init__.py", "def dump(f):\n    return f()\n")
WAIT = code("/l/site-packages/subprocess.py", "def wait(f):\n    return f()\n")
SCRIPT = code(
    "/w/train.py",
    """def loop(f):
    return f()
def save(f, inner):
    return inner(f)
def dump(f):
    return f()
def save_checkpoint(f):
    return f()
def predict(module, f, call):
    return call(module, f)
def hooked(f):
    return f()
def checkpoint(f, probe):
    return f(probe)
def __getitem__(f):
    return f()
""",
)
LOADER = code("/t/torch/utils/data/dataloader.py", "def __next__(f, probe):\n    return f(probe)\n")


def seen_in(call, one):
    """What a watch sees of the thread while `call` runs what it is given, below the training loop."""
    one.stacks.loop = {id(SCRIPT["loop"].__code__): None}
    seen = []

    def probe(*_):
        seen.append(one.stacks.seen(sys._getframe(1)))

    SCRIPT["loop"](lambda: call(probe))
    return seen[0]


def placed(call):
    return seen_in(call, watch())[0]


def said(place):
    return [place[0], place[1], place[2].co_name]


save, here = SCRIPT["save"], lambda probe: probe()
results["torch.save in save"] = said(placed(lambda probe: save(probe, TORCH["save"])))
results["a figure's save"] = said(placed(lambda probe: save(probe, JSON["dump"])))[0]
results["json.dump"] = said(placed(JSON["dump"]))[0]
results["dump of the script"] = said(placed(SCRIPT["dump"]))[0]
results["save_checkpoint"] = said(placed(SCRIPT["save_checkpoint"]))[:2]
# What a function's name alone does not say: it saves, or it checkpoints activations.
results["checkpoint"] = [
    said(placed(lambda probe: SCRIPT["checkpoint"](TORCH["save"], probe))),
    said(placed(lambda probe: SCRIPT["checkpoint"](SCRIPT["hooked"], probe)))[0],
]
# The data set's own function says more than the loop that asks for a batch; of a worker's wait nobody knows more.
results["loader"] = [
    said(placed(lambda probe: LOADER["__next__"](SCRIPT["__getitem__"], probe))),
    said(placed(lambda probe: LOADER["__next__"](TORCH["save"], probe))),
]
module = types.SimpleNamespace(training=False)
evaluating = placed(lambda probe: SCRIPT["predict"](module, probe, CALL["_call_impl"]))
training = placed(lambda probe: SCRIPT["predict"](types.SimpleNamespace(training=True), probe, CALL["_call_impl"]))
results["forward"] = [evaluating[0], training[0]]
# Python's own `wait` waits for no device; a call that is made right there may.
results["waits"] = [placed(WAIT["wait"])[5], placed(here)[5]]

def waits_at():
    """Where a watch sees a thread whose event loop waits: the coroutine that makes steps is at its third line."""
    import asyncio

    scope = code("/w/async_train.py", "async def learn(made, one):\n    made()\n    await one\nasync def other(one):\n    await one\n")
    one, seen = watch(), []

    async def main():
        event = asyncio.get_running_loop().create_future()
        runs = asyncio.base_events.BaseEventLoop._run_once.__code__
        one.stacks.loop = {id(runs): runs, id(scope["learn"].__code__): scope["learn"].__code__}
        tasks = [asyncio.ensure_future(scope["learn"](int, event)), asyncio.ensure_future(scope["other"](event))]
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(look, event)
        await asyncio.gather(*tasks)

    def look(event):
        # Its event loop's frame, as it is while it waits for the selector.
        frame = sys._getframe(0)
        while not frame.f_code.co_filename.endswith("/asyncio/base_events.py"):
            frame = frame.f_back
        found = one.stacks.seen(frame)[0]
        seen.append([found[0], found[2].co_filename, found[3]])
        event.set_result(None)

    asyncio.run(main())
    return seen[0]


results["awaited"] = waits_at()

# Steps of 0.1 s: half forward, then half backward, sampled in each; the fifth takes 0.1 s more somewhere.
FUNCTION = SCRIPT["loop"].__code__


def at(kind, line, function=FUNCTION):
    return (kind, "", function, line, -1, True)


def after(late_place, inside=None, healthy=20, late_at=0.15, also=None, batches=(None, None)):
    """What is said of a late step after so many healthy ones; the batches of those and of the late one."""
    usual, larger = batches
    one = watch([0.1] * 10, model=None)
    one.stacks.loop = {id(FUNCTION): None}
    one.steps.learn_usual(one.hook)
    now = one.hook.last_step
    for _ in range(healthy):
        for place, batch in ((at("forward", 3), usual), (also or at("backward", 4), None)):
            one.steps.samples.append((now, now + 0.05, place, None, batch))
            one.steps.pending.append((now + 0.05, place, None, batch))
            now += 0.05
    one.steps.settle(now)
    began = now
    last = (0.05, also or at("backward", 4), None, None)
    for length, place, called, batch in ((0.05, at("forward", 3), None, larger), (late_at, late_place, inside, None), last):
        one.steps.samples.append((now, now + length, place, called, batch))
        now += length
    one.steps.note_late(healthy + 1, now - began, now)
    one.steps.settle(now)
    (row,) = one.message(False, now)["late"]
    described = one.message(False, now)["places"][row[2]]
    return [described["call" if larger else "activity"], described["line"]]


HOOK = SCRIPT["hooked"].__code__
results["code"] = after(at("code", 7))
# 0.06 s of a call that takes half of each step are fewer than usual.
results["more than usual"] = after(at("code", 7), late_at=0.04, also=at("code", 9))
results["evaluation"] = after(at("evaluating", 8))
results["work elsewhere"] = after(at("forward", 8))
results["work as ever"] = after(at("forward", 3))
results["a module's hook"] = after(at("forward", 3), inside=at("code", 16, HOOK))
results["too few samples"] = after(at("evaluating", 8), healthy=5)
# A module's id and the numbers in what it takes: 8 times as many, two fifths more, of a module that nobody knows, where few
# are known; code is no work of the batch's.
results["batches"] = [
    after(at("backward", 4), batches=((1, 100), (1, 800))),
    after(at("backward", 4), batches=((1, 100), (1, 140))),
    after(at("backward", 4), batches=((1, 100), (2, 800))),
    after(at("backward", 4), batches=((1, 100), (1, 800)), healthy=7),
    after(at("code", 7), batches=((1, 100), (1, 800))),
]


def numbers(*args, **kwargs):
    """Those that a module is called with, as a watch sees its call."""
    made = watch()
    made.stacks.tensor_class = Tensor
    call = code("/t/torch/nn/modules/module.py", "def _call_impl(self, *args, **kwargs):\n    return self.probe()\n")["_call_impl"]
    *_, batch = seen_in(lambda probe: call(types.SimpleNamespace(training=True, probe=probe), *args, **kwargs), made)
    return batch[1] if batch is not None else None


class Tensor:
    def __init__(self, count):
        self.count = count

    def numel(self):
        return self.count


class Foreign(Tensor):
    """One whose own code would run in another thread."""

    def numel(self):
        raise AssertionError


# By place, by name, in a dictionary of lists; other tensors and numbers are none, a batch of none is not known.
results["numbers"] = [numbers(Tensor(8), 3, mask=Tensor(2)), numbers({"boxes": [Tensor(5), Tensor(6)]}), numbers(Foreign(4))]



def few(late, healthy=11):
    """What is said of so many late steps at one line of the loop after a few healthy samples at others."""
    one = watch([0.1] * 10)
    one.stacks.loop = {id(FUNCTION): None}
    one.steps.learn_usual(one.hook)
    one.steps.pending = [(0.05 * number, at(("forward", "backward")[number % 2], 3), None, None) for number in range(healthy)]
    one.steps.settle(9.0)
    one.steps.late = [(step, 0.0, 0.5, at("forward", 8), None, 0.4, None) for step in range(late)]
    message = one.message(False, 9.0)
    return message["places"][message["late"][0][2]]["activity"]


results["few samples"] = [few(9), few(3), few(9, healthy=0)]


def shares():
    """Shares of all steps by what is told: of ten samples, six are at two lines of a function, four at work."""
    one = watch([0.1] * 10)
    one.stacks.loop = {id(FUNCTION): None}
    one.steps.learn_usual(one.hook)
    places = [at("code", 15, HOOK)] * 3 + [at("code", 16, HOOK)] * 3 + [at("backward", 4)] * 4
    one.steps.pending = [(0.05 * number, place, None, None) for number, place in enumerate(places)]
    one.steps.settle(9.0)
    healthy = [place["share"] for place in one.message(False, 9.0)["places"]]
    one.steps.late = [(step, 0.0, 0.5, at("code", 16, HOOK), None, 0.4, None) for step in range(3)]
    return [healthy, [place["share"] for place in one.message(False, 9.0)["places"]]]


results["shares"] = shares()


def lines(*places):
    """The lines that late steps at those places are said to be at."""
    one = watch([0.1] * 10)
    one.stacks.loop = {id(FUNCTION): None}
    one.steps.learn_usual(one.hook)
    one.steps.late = [(step, 0.0, 0.5, place, None, 0.1 * (step + 1), None) for step, place in enumerate(places)]
    message = one.message(False, 9.0)
    return [message["places"][row[2]]["line"] for row in message["late"]]


# Lines of one function; one line of a function and of the one that is written in it; of the loop each is for itself.
OTHER = SCRIPT["dump"].__code__
results["one place"] = [
    lines(at("code", 15, HOOK), at("code", 16, HOOK)),
    len({lines(at("code", 5, HOOK), ("code", "sort", OTHER, 5, -1, True))[number] for number in (0, 1)}),
    lines(at("code", 7), at("code", 8)),
    # Model and optimizer are saved on two lines: one checkpoint.
    lines(*[("checkpoint", "torch.save", FUNCTION, line, -1, True) for line in (7, 8)]),
]
SCHEDULER = code("/t/torch/optim/lr_scheduler.py", "def step(f):\n    return f()\n")
OPTIMIZER = code("/t/torch/optim/sgd.py", "def step(f):\n    return f()\n")
results["scheduler"] = [placed(SCHEDULER["step"])[0], placed(OPTIMIZER["step"])[0]]


def seconds(*samples):
    one = watch([0.0045] * 10)
    one.steps.samples = [(due, now, at("code", line), None, None) for due, now, line in samples]
    return {place[3]: round(length, 4) for place, length in one.steps.seconds_between(1.0, 1.018).items()}


# On time: what lies between is shared. Late: a call kept the thread that samples from coming.
results["around samples"] = [
    seconds((1.008, 1.008, 7), (1.016, 1.016, 4)),
    seconds((1.002, 1.002, 4), (1.004, 1.016, 7)),
    seconds((0.9, 0.999, 4), (1.019, 1.019, 4)),
]

# Late by 0.4 s, among others that the machine makes late by 0.05 s: told alone where they are at one place.
def told(lines, among=8):
    one = watch([0.1] * 10)
    one.stacks.loop = {id(FUNCTION): None}
    one.steps.learn_usual(one.hook)
    for step, line in enumerate(lines):
        one.steps.late.append((step, 0.0, 0.5, at("code", line), None, 0.4, None))
        one.steps.late += [(step, 0.0, 0.15, at("backward", 4), None, 0.05, None)] * among
    message = one.message(False, 9.0)
    return [message["places"][row[2]]["line"] for row in message["late"]]


results["long ones"] = [told([7, 7, 7]), told([7, 7, 8]), told([7, 7])]

# Samples come closer while late steps come, and no closer than what the last turn cost allows.
def watched(usual):
    one = watch([usual] * 10)
    one.steps.learn_usual(one.hook)
    return one


def period(one, now, cost):
    one.hook.last_step, one.sample_due = now, now + one.sample_every(now)
    return round(one.next_period(now, cost), 6)


one = watched(0.1)
rare = period(one, 100.0, 1e-6)
one.steps.note_late(11, 0.3, 100.0)
one.steps.settle(100.0)
results["closer"] = [rare, period(one, 101.0, 1e-6), period(one, 161.0, 1e-6)]
results["costly"] = [period(one, 101.0, 0.0002), period(one, 161.0, 0.0002)]
short = watched(0.001)
short.steps.note_late(11, 0.3, 100.0)
short.steps.settle(100.0)
results["short"] = [period(short, 101.0, 0.00005), period(short, 107.0, 0.00005)]

# How many steps a trainer makes in all: 3 epochs of 10 batches, 4 to a step; 5 steps at most; batches without an end.
FIT = code("/l/site-packages/lightning/pytorch/loops/fit_loop.py", "def run(self, f):\n    return f()\n")["run"]
TRAIN = code("/l/site-packages/transformers/trainer.py", "def train(self, f):\n    return f()\n")["train"]


def total(call, steps=1, **trainer):
    made = types.SimpleNamespace(**trainer)
    made.trainer = made.state = made
    return call(made, lambda: hook._total(sys._getframe(0), steps))


lightning = dict(optimizers=[1], max_steps=-1, max_epochs=3, num_training_batches=10, accumulate_grad_batches=4)
results["lightning"] = [
    total(FIT, global_step=0, **lightning),
    total(FIT, global_step=0, **{**lightning, "max_steps": 5}),
    total(FIT, global_step=0, **{**lightning, "num_training_batches": float("inf")}),
    total(FIT, global_step=0, **{**lightning, "optimizers": [1, 2]}),
]
# Resumed at step 60, and ten steps later.
results["transformers"] = [total(TRAIN, 1, max_steps=100, global_step=60), total(TRAIN, 11, max_steps=100, global_step=70)]
results["own loop"] = hook._total(sys._getframe(0), 1)
print(json.dumps(results))
