"""`memwall trace`: one training step of a model on tensors without values, written as a tape."""

import argparse
import contextlib
import logging
import os
import re
import sys
import sysconfig
import tempfile

import foreign_kernels

# Where Python's own modules and installed ones lie.
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


# How the program was started, whatever a script makes of it.
STARTED = ([sys.executable, *getattr(sys, "orig_argv", [None, *sys.argv])[1:]], dict(os.environ), os.getcwd())
# Where messages go, whatever a script makes of `sys.stderr`.
MESSAGES = os.fdopen(os.dup(2), "w", errors="replace")


def arguments():
    parser = argparse.ArgumentParser(prog="memwall trace")
    parser.add_argument("target", nargs="?")
    parser.add_argument("--hf")
    parser.add_argument("--class", dest="class_name")
    parser.add_argument("--attention")
    parser.add_argument("--timm")
    parser.add_argument("--torchvision")
    parser.add_argument("--diffusers")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--loss")
    parser.add_argument("--length", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--forward", action="store_true")
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--device")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("-o", "--output", required=True)
    given = sys.argv[1:]
    command = []
    if "--" in given:
        at = given.index("--")
        given, command = given[:at], given[at + 1:]
    parsed = parser.parse_args(given)
    parsed.command = command
    # Whatever folder a script changes to.
    parsed.named, parsed.output = parsed.output, os.path.abspath(parsed.output)
    return parsed


def told(message, code):
    """Says one line, and gives the exit status back."""
    print(f"memwall trace: {' '.join(str(message).split())}", file=MESSAGES, flush=True)
    return code


def fail(message):
    sys.exit(told(message, 1))


def import_torch():
    """Imports PyTorch; its complaint that the stand-in came first is nobody's business."""
    with tempfile.TemporaryFile() as caught:
        before = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            import torch  # noqa: F401
        finally:
            os.dup2(before, 2)
            os.close(before)
            caught.seek(0)
            said = [line for line in caught.read().decode(errors="replace").splitlines()
                    if "Higher priority item already registered" not in line]
            if said:
                print("\n".join(said), file=sys.stderr)


def check_version():
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        fail(f"{sys.executable} has no PyTorch: --python names one that has")
    version = {}
    from pathlib import Path

    folder = Path(next(iter(importlib.util.find_spec("torch").submodule_search_locations)))
    try:
        exec((folder / "version.py").read_text().split("git_version")[0].replace("from typing import Optional", ""), version)
        number = str(version["__version__"])
        major, minor = (int("".join(c for c in part if c.isdigit()) or 0) for part in number.split(".")[:2])
    except Exception:
        return
    if (major, minor) < (2, 1):
        fail(f"PyTorch 2.1 or later is needed, {sys.executable} has {number}: --python names another")


def main():
    options = arguments()
    check_version()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # Weights are read in this thread: what runs in others is seen by no mode (transformers 5, core_model_loading.py).
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"
    import device as devices

    device = devices.prepare(options.device)
    import_torch()
    # A way to run a model that fails is another one's turn, not the user's business.
    logging.getLogger("torch._subclasses.fake_tensor").disabled = True
    devices.stand_in(device)
    import kernels

    kernels.install(device)
    foreign_kernels.LAUNCHES.install()
    import absent
    import hugging_face
    import lengths
    import libraries
    import sandbox
    import script
    import several
    import sources
    import step
    import tape
    import transforms

    absent.install()
    transforms.install()
    step_aside()

    say = (lambda text: None) if options.quiet else (lambda text: print(text, file=MESSAGES, flush=True))
    tracer = step.Tracer(device, say)
    subject = lambda: subject_of(options, sources, hugging_face, libraries)

    def concluded(make):
        """Writes the tape that `make` gives, or says why there is none; the exit status."""
        try:
            made = make()
            size = tape.write(made, options.output)
        except sources.Refused as refused:
            return told(refused, 2)
        except several.Again as chosen:
            run_again(several.VARIABLE, str(chosen))
        except KeyboardInterrupt:
            return told("stopped", 130)
        except Exception as error:
            if os.environ.get("MEMWALL_TRACE_DEBUG"):
                raise
            why = explained(error, is_made_up=not options.command)
            return told(f"{tracer.built}, but its step cannot be traced: {why}" if tracer.built else why, 1)
        for note in [*made["differences"], *made["notes"]]:
            say(f"note: {note}")
        say(f"{options.named}: {made['name']}, {made['parameters']['total']:,} parameters, "
            f"{os.path.getsize(options.output):,} bytes ({size:,} unpacked)")
        return 0

    def make():
        if options.command:
            if options.class_name and not options.forward:
                raise sources.Refused("--class with a script goes with --forward: a step is of the model that is trained")
            return script.trace(options.command, device, say, concluded, options.forward, options.class_name, options.allow)
        # A function of the user's own may do what a script does.
        with sandbox.Sandbox(options.allow) if options.target else contextlib.nullcontext():
            return lengths.traced(tracer, subject())

    sys.exit(concluded(make))


def run_again(variable, value):
    """Starts over in this process, as it was started but for a variable that says what was found."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    command, environment, folder = STARTED
    os.chdir(folder)
    os.execve(sys.executable, command, {**environment, variable: value})


def step_aside():
    """Gives the names of the tracer's files back: a model's own `modules` or `device` are what its script imports."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    for name, module in list(sys.modules.items()):
        if name != "__main__" and os.path.dirname(getattr(module, "__file__", None) or "") == here:
            del sys.modules[name]


def subject_of(options, sources, hugging_face, libraries):
    ways = [(options.hf, lambda: hugging_face.hugging_face(options.hf, options.class_name, options.attention,
                                                  options.forward)),
            (options.timm, lambda: libraries.timm_model(options.timm)),
            (options.torchvision, lambda: libraries.torchvision_model(options.torchvision)),
            (options.diffusers, lambda: libraries.diffusers_model(options.diffusers)),
            (options.target, lambda: sources.own(options.target, options.input, options.loss))]
    chosen = [make for wanted, make in ways if wanted]
    if len(chosen) != 1:
        raise sources.Refused("name one thing to trace: --hf config.json, file.py:make_model, --timm NAME, "
                              "--torchvision NAME, --diffusers config.json, or -- python train.py")
    subject = chosen[0]()
    if options.length:
        subject.hold_at(options.length)
    if options.batch:
        subject.hold_batch(options.batch)
    return subject.answer() if options.forward else subject


def explained(error, is_made_up):
    """A failure in one line, with what to do about it; inputs may be made up for the model."""
    import traceback

    while isinstance(error, ImportError) and isinstance(error.__cause__, ImportError):
        # What a library that imports late could not (transformers/utils/import_utils.py, `_LazyModule.__getattr__`).
        error = error.__cause__
    name = type(error).__name__
    said = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no reason given"]
    # A line that ends so says of what the next one is (fastai/learner.py, `_with_events`).
    text = " ".join(lines[:2] if lines[0].endswith(":") else lines[:1])
    host = re.search(r"a traced script asks no network: ([\w.:-]+)", said)
    if host:
        text = f"the script asks {host[1]}"
    place = ""
    # The script's own line, else that of a library which it calls.
    frames = [frame for frame in reversed(traceback.extract_tb(error.__traceback__))
              if "site-packages/torch" not in frame.filename and os.path.dirname(__file__) not in frame.filename
              and not frame.filename.startswith("<")]
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARIES) and "-packages" not in frame.filename]
    for frame in (own or frames)[:1]:
        place = f" ({os.path.basename(frame.filename)}:{frame.lineno})"
    asked = foreign_kernels.advice(name, str(error))
    if asked:
        return f"{text}{place}: {asked}"
    if "LocalEntryNotFound" in name or "OfflineMode" in str(error) or "couldn't connect" in str(error) or "asks no network" in str(error) or "appear to have a file" in str(error):
        return f"{name}: {text}{place}: nothing is downloaded while a script is traced: run it once, or name what lies here"
    if "TensorWrapper" in text or "BatchedTensor" in text:
        return (f"torch.func takes gradients inside of the step{place}, where a trace sees neither parameters nor gradients: trace the "
                "step without it, with loss.backward()")
    if "SparseTensorImpl" in text:
        return f"sparse gradients have no place in a tape{place}: trace the layer with sparse=False"
    if isinstance(error, FileNotFoundError):
        return f"{name}: {text}{place}: the script needs it to reach its first step; a stand-in of the same form does"
    if isinstance(error, AssertionError):
        return f"{name}: {text}{place}: where it is of values, a traced step has not those: trace what trains with file.py:function"
    if "DataDependent" in name or "DynamicOutputShape" in name:
        return f"{text}{place}: sizes depend on values, which a traced step has not"
    if is_made_up and not own and isinstance(error, (AttributeError, IndexError, KeyError, TypeError, ValueError)):
        # Made-up inputs, or a configuration that sets less than the model reads.
        return (f"{name}: {text}{place}: the model's own code fails as it is configured, with the inputs made up for it: trace what "
                "runs for you, memwall trace -- python …")
    return f"{name}: {text}{place}"


if __name__ == "__main__":
    main()
