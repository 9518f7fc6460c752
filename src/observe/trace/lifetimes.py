"""How long Python has names for tensors that autograd saves as well: where parts of a model are frozen, that is how long they are there.
A forward pass without gradients tells."""

import torch

import collector
import modules


def places_of(ops):
    """Operators by what they are, where they stand, and the how manieth such they are."""
    found, times = {}, {}
    for at, op in enumerate(ops):
        key = op.path, op.name
        times[key] = times.get(key, 0) + 1
        found[(*key, times[key])] = at
    return found


def made_by(recorder, keys):
    """The storages that operators made, each with the key of its operator and the number of the output that lies in it."""
    for at, key in keys.items():
        for order, number in enumerate(recorder.ops[at].outputs):
            storage = recorder.tensors[number].storage
            if storage is not None and recorder.storages[storage].born == at and recorder.storages[storage].kind == "made":
                yield (key, order), recorder.storages[storage]


class Lifetimes:
    """Those of a pass without gradients."""

    def __init__(self, recorder):
        self.places = places_of(recorder.ops)
        self.keys = {at: key for key, at in self.places.items()}
        # How many operators had run when each storage went, by the operator that made it and which of its outputs that is in.
        self.ends = {name: storage.died for name, storage in made_by(recorder, self.keys)}

    def tell(self, recorder):
        """Says of each storage of a pass with gradients how many operators had run when Python let go of it."""
        here = places_of(recorder.ops[:recorder.forward_ops])
        keys = {at: key for key, at in here.items()}
        for name, storage in made_by(recorder, keys):
            if name not in self.ends:
                continue
            end = self.ends[name]
            while end and self.keys[end - 1] not in here:
                end -= 1
            storage.named = here[self.keys[end - 1]] + 1 if end else recorder.forward_ops


@collector.without
def of(tracer, model, prepare, run, skipped, blocks, experts):
    """A forward pass in fp32 without gradients, in which the same blocks run; none where it fails."""
    recorder = tracer.recorder(experts, "fp32")
    calls = modules.Calls(model, blocks)
    calls.recorder, calls.skipped = recorder, frozenset() if isinstance(skipped, dict) else skipped
    with tracer.fake_mode, calls, recorder, torch.no_grad():
        for parameter in model.parameters():
            recorder.identify(parameter, kind="parameter")
        batch = prepare()
        recorder.start_forward()
        try:
            made = run(batch)
        except Exception:
            return None
        finally:
            recorder.stop_saving()
        del made
    return Lifetimes(recorder)
