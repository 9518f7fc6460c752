"""Kernels that are not PyTorch's: Triton's are passed over, as they write what Python has allocated; for others a rule is
asked for."""

import importlib.util

# What an operator needs that PyTorch knows nothing of (torch.library).
RULE = "an operator of its own needs a shape rule: @torch.library.register_fake(\"lib::op\"), then return torch.empty_like(x)"
WRAP = "a kernel that reads memory needs to be an operator: @torch.library.custom_op(\"lib::op\", mutates_args=()) on the function " \
       "that calls it, then @op.register_fake with return torch.empty_like(x)"
GPU = "PyTorch has no shape rule for an operator of it and wants a GPU to run it: memwall run --trace follows it there"
MARKS = (("driver version is insufficient", GPU), ("UnsupportedOperator", RULE), ("has no fake", RULE),
         ("fake impl", RULE), ("meta kernel", RULE),
         ("Cannot access data pointer", WRAP), ("data pointer of Tensor", WRAP), ("doesn't have storage", WRAP),
         ("not allocated yet", WRAP))


def advice(name, text):
    """What to do about an error that a kernel of one's own gives; none where it gives no such."""
    lower = f"{name} {text}".lower()
    return next((how for mark, how in MARKS if mark.lower() in lower), None)


class Launches:
    """Launches of Triton's kernels that were passed over, by name."""

    def __init__(self):
        self.counts = {}

    def install(self):
        if importlib.util.find_spec("triton") is None:
            return
        import held

        try:
            from triton.runtime import autotuner, jit
        except ImportError:
            return

        def run(kernel, *args, **kwargs):
            # What it writes nobody knows.
            for one in (*args, *kwargs.values()):
                held.lose(one)
            while not hasattr(kernel, "__name__") and hasattr(kernel, "fn"):
                kernel = kernel.fn
            name = getattr(kernel, "__name__", type(kernel).__name__)
            self.counts[name] = self.counts.get(name, 0) + 1

        for kind in (jit.JITFunction, autotuner.Autotuner, autotuner.Heuristics):
            kind.run = run

    def notes(self):
        if not self.counts:
            return []
        names = sorted(self.counts, key=lambda name: -self.counts[name])
        return [f"{sum(self.counts.values())} launches of Triton kernels ({', '.join(names[:3])}): their memory is what Python "
                "allocates for them, their operations are not counted"]


LAUNCHES = Launches()
