# How the hook comes into PyTorch.

# `memwall run --trace` follows the step after this one: caches and optimizer states are built by then.
_TRACE_AFTER = 2


def _patch(torch):
    """Has every optimizer's step call the hook. Public since PyTorch 2.1; before, each class's step
    is wrapped the way its profiler does it."""
    hook = _Hook(torch)
    atexit.register(hook.at_exit)
    _note_printed(hook)
    if os.environ.get("MEMWALL_MODULES") == "1":
        hook.look_at_first_pass()
    optimizer = sys.modules.get("torch.optim.optimizer")
    register = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if register is not None:

        def after(optimizer, *_):
            hook.after_step(optimizer)

        # A compiled step leaves it out of its graph.
        after._torchdynamo_disable = True
        register(after)
        return
    import functools

    profiled = torch.optim.Optimizer._hook_for_profile

    def hook_for_profile(self):
        profiled(self)
        kind = type(self)
        step = kind.step
        if getattr(step, "_memwall", False):
            return

        @functools.wraps(step)
        def wrapped(self, *args, **options):
            result = step(self, *args, **options)
            hook.after_step(self)
            return result

        wrapped.hooked = True
        wrapped._memwall = True
        kind.step = wrapped

    torch.optim.Optimizer._hook_for_profile = hook_for_profile


def _arm_trace(torch, folder, usual):
    """Has the tracer follow the next step. The first process that comes here does it."""

    def report(text):
        with open(os.path.join(folder, "report"), "w") as file:
            file.write(text)

    try:
        os.close(os.open(os.path.join(folder, "taken"), os.O_CREAT | os.O_EXCL))
    except OSError:
        return
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 1):
        return report("no tape: PyTorch 2.1 or later is needed")
    # What stands if no such step follows.
    report("no tape: after the optimizer's second step no module was trained by loss.backward()")
    try:
        _tracer(folder).arm(os.environ["MEMWALL_TRACE"], usual, report)
    except Exception as error:
        report("no tape: %s: %s" % (type(error).__name__, error))


def _tracer(folder):
    """The tracer, by names of its own: what it calls `modules` or `step` may be the script's as well."""
    import importlib

    names = [name[:-3] for name in os.listdir(folder) if name.endswith(".py")]
    theirs = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("live")
    finally:
        sys.path.remove(folder)
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(theirs)


class _Finder:
    """Waits for `import torch`: finds it as everybody else does, and patches it once it is loaded."""

    def __init__(self):
        self.looking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.looking:
            return None
        import importlib.util

        # Looking does not mean importing: many libraries ask whether there is a torch.
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            load = spec.loader.exec_module

            def exec_module(module):
                # The loader is an object of this import alone: it is as it was before torch runs.
                del spec.loader.exec_module
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                load(module)
                _try_patch(module)

            spec.loader.exec_module = exec_module
        return spec


def _try_patch(torch):
    try:
        _patch(torch)
    except Exception:
        pass


_installed = False


def install():
    """Puts the hook in place, now or as soon as torch is imported. Twice is once."""
    global _installed
    if _installed or os.environ.get("MEMWALL_HOOK") == "0":
        return
    _installed = True
    torch = sys.modules.get("torch")
    if torch is not None:
        _try_patch(torch)
    else:
        sys.meta_path.insert(0, _Finder())
