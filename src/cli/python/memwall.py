"""Predict the memory and time of training plans with MemWall, from Python.

This module needs Python 3.9 or later and nothing else. It runs the program
``memwall`` and keeps one process for all predictions, so that each takes about
a millisecond::

    import memwall

    plan = {"model": {"preset": "llama-3-8b", "batch_size": 8}, "cluster": {"num_gpus": 8}}
    report = memwall.predict(plan)
    print(report["memory"]["device_used"], report["time"]["step_s"])

A plan is a mapping with the keys of the plan file (``memwall help plan``), its
YAML or JSON as a text of several lines, or the path of a file. A report is the
object that ``memwall predict --format json`` writes: bytes, seconds and flops,
unrounded, for each GPU unless the name says otherwise.

The program is looked up in the environment variable ``MEMWALL``, then in
``PATH``.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import shutil
import subprocess
import threading
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

__all__ = [
    "Client",
    "MemwallError",
    "PlanError",
    "frame",
    "infer",
    "max_batch_size",
    "predict",
    "predict_all",
    "search",
    "sweep",
    "validate",
]

Report = Dict[str, Any]
Plan = Union[Mapping[str, Any], str, "os.PathLike[str]"]

# Exit codes of the program: done, and "no plan fits", which is an answer.
_ANSWERS = (0, 3)


class MemwallError(RuntimeError):
    """The program failed, or was not found. The message is its own.

    ``code`` is its exit code where it ran to its end.
    """

    def __init__(self, message: str, code: Optional[int] = None) -> None:
        super().__init__(message)
        self.code: Optional[int] = code


class PlanError(ValueError):
    """A plan is faulty.

    ``faults`` has a mapping for each fault: ``key``, ``message``, and ``line``
    and ``column`` in the plan's text where they are known.
    """

    def __init__(self, faults: Sequence[Mapping[str, Any]]) -> None:
        self.faults: List[Mapping[str, Any]] = list(faults)
        super().__init__("; ".join(_words(fault) for fault in self.faults))


def _words(fault: Mapping[str, Any]) -> str:
    key = fault.get("key")
    return f"{key}: {fault['message']}" if key else str(fault["message"])


class _Stream:
    """A process ``memwall predict -``: a plan in, a line out."""

    def __init__(self, command: Sequence[str]) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._ended = False
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def is_usable(self) -> bool:
        """Whether it runs and belongs to this process: a fork shares pipes, not answers."""
        return self._owner == os.getpid() and not self._ended and self._process.poll() is None

    def ask(self, plans: Iterable[bytes]) -> Iterator[Report]:
        """The answers to plans, in their order; a faulty one has the key ``faults``."""
        with self._lock:
            # Each plan that was written lets one answer be read; then none, or what went wrong.
            written: "queue.SimpleQueue[Union[None, bool, BaseException]]" = queue.SimpleQueue()

            def write() -> None:
                pipe = self._process.stdin
                assert pipe is not None
                end: Optional[BaseException] = None
                try:
                    for plan in plans:
                        pipe.write(plan)
                        pipe.flush()
                        written.put(True)
                except BaseException as error:  # raised where the answers are read
                    end = error
                written.put(end)

            threading.Thread(target=write, daemon=True).start()
            finished = False
            try:
                while True:
                    sign = written.get()
                    if sign is not True:
                        break
                    yield self._answer()
                finished = True
            finally:
                if not finished:
                    # Answers that nobody read would be taken for those to the next plans.
                    self._end()
            if isinstance(sign, OSError):
                raise self._failed()
            if isinstance(sign, BaseException):
                raise sign

    def ask_one(self, plan: bytes) -> Report:
        """The answer to one plan."""
        with self._lock:
            pipe = self._process.stdin
            assert pipe is not None
            try:
                pipe.write(plan)
                pipe.flush()
            except OSError:
                raise self._failed() from None
            return self._answer()

    def _answer(self) -> Report:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._failed()
        answer: Report = json.loads(line)
        return answer

    def _failed(self) -> MemwallError:
        assert self._process.stderr is not None
        self._end()
        told = self._process.stderr.read().decode(errors="replace").strip()
        return MemwallError(told or "memwall ended without an answer")

    def _end(self) -> None:
        self._ended = True
        self._process.kill()

    def close(self) -> None:
        """Ends the process."""
        if self._owner != os.getpid():
            return
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass
        self._process.wait()


class Client:
    """The program, with the processes that it keeps.

    The functions of this module use one client of their own. Make another to
    name the program yourself, or to end its processes: it is a context manager.
    """

    def __init__(self, program: Optional[str] = None) -> None:
        found = program or os.environ.get("MEMWALL") or shutil.which("memwall")
        if found is None:
            raise MemwallError("memwall is not in PATH; set MEMWALL to the program")
        self.program: str = found
        self._streams: Dict[Tuple[str, ...], _Stream] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes that were kept."""
        with self._lock:
            streams, self._streams = list(self._streams.values()), {}
        for stream in streams:
            stream.close()

    def predict(self, plan: Plan, *, bottlenecks: bool = False) -> Report:
        """The report of a plan.

        With ``bottlenecks``, the report also says what limits the plan, and what
        each change would do. Some forty changed plans are predicted for that.

        Raises ``PlanError`` where the plan is faulty.
        """
        return self._one(plan, ("--bottlenecks",) if bottlenecks else ())

    def predict_all(self, plans: Iterable[Plan]) -> Iterator[Report]:
        """The reports of many plans, in their order, computed on all cores.

        A faulty plan does not stop the others: its report has ``faults`` instead
        of numbers. Plans are mappings, or JSON objects as texts; they may come from a
        generator.
        """
        return self._stream(()).ask(_line(plan) for plan in plans)

    def max_batch_size(self, plan: Plan) -> Report:
        """The largest batch that fits: ``micro_batch_size``, ``batch_size``, ``device_used``.

        Sizes are 0 where not even one sample fits. For an inference plan,
        ``max_sequence_length`` has the longest context.
        """
        report = self._one(plan, ("--max-batch-size",))
        largest: Report = dict(report["max_batch_size"])
        longest = report["max_sequence_length"]
        if longest["sequence_length"] is not None:
            largest["max_sequence_length"] = longest
        return largest

    def sweep(self, plan: Plan, vary: Mapping[str, Any], set: Optional[Mapping[str, Any]] = None) -> Report:
        """A plan with each value of a key, or of several (every combination).

        ``vary`` maps a key to its values: a sequence, or a text as ``--vary`` of the
        program takes it (``"1..64x2"``). ``set`` changes keys first.
        """
        options = [word for key, values in vary.items() for word in ("--vary", f"{key}={_values(values)}")]
        result: Report = self._json("sweep", plan, options + _set(set))
        return result

    def search(
        self,
        plan: Plan,
        *,
        keep: Sequence[str] = (),
        set: Optional[Mapping[str, Any]] = None,
        top: int = 10,
        free_batch: bool = False,
    ) -> Report:
        """The best plans over every parallel and memory knob.

        ``keep`` names keys that stay as the plan has them, ``set`` changes keys
        first, ``top`` is how many plans to list, ``free_batch`` lets the batch vary.
        """
        options = [word for key in keep for word in ("--keep", key)] + ["--top", str(top)]
        options += ["--free-batch"] if free_batch else []
        result: Report = self._json("search", plan, options + _set(set))
        return result

    def validate(self, cases: Union[Sequence[Mapping[str, Any]], str, "os.PathLike[str]"]) -> Report:
        """Predictions against measured cases: ``rows``, ``summary``, ``failed``.

        ``cases`` are mappings with ``id``, ``plan`` and ``measured``, or the path of
        a file that holds them.
        """
        if isinstance(cases, (str, os.PathLike)):
            file, given = os.fspath(cases), b""
        else:
            file, given = "-", json.dumps(list(cases)).encode()
        # It exits with 1 where a case failed, which its rows tell.
        result: Report = self._run(["validate", file, "--format", "json"], given, answers=(0, 1))
        return result

    def infer(self, pid: int) -> Report:
        """The plan of a running training process: ``plan``, ``origins``, what is missing, notes."""
        result: Report = self._run(["infer", str(int(pid)), "--format", "json"])
        return result

    def _one(self, plan: Plan, options: Tuple[str, ...]) -> Report:
        if isinstance(plan, Mapping):
            report = self._stream(options).ask_one(_line(plan))
            if "faults" in report:
                raise PlanError(report["faults"])
            return report
        # A text may be more than one plan, and what a file refers to is found beside it: the program reads both itself.
        try:
            return dict(self._json("predict", plan, options))
        except MemwallError as error:
            if error.code != 2:
                raise
            faults = [{"key": None, "message": line} for line in str(error).splitlines()]
            raise PlanError(faults) from None

    def _stream(self, options: Tuple[str, ...]) -> _Stream:
        with self._lock:
            known = self._streams.get(options)
            if known is None or not known.is_usable():
                command = [self.program, "predict", "-", "--format", "json", "--faults", *options]
                try:
                    known = _Stream(command)
                except OSError as error:
                    raise MemwallError(f"{self.program}: {error.strerror}") from error
                self._streams[options] = known
            return known

    def _json(self, command: str, plan: Plan, options: Sequence[str]) -> Any:
        if isinstance(plan, Mapping):
            file, text = "-", json.dumps(plan)
        elif isinstance(plan, str) and _is_text(plan):
            file, text = "-", plan
        else:
            file, text = os.fspath(plan), ""
        return self._run([command, file, "--format", "json", *options], text.encode())

    def _run(self, words: Sequence[str], given: bytes = b"", answers: Sequence[int] = _ANSWERS) -> Any:
        try:
            done = subprocess.run([self.program, *words], input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            raise MemwallError(f"{self.program}: {error.strerror}") from error
        if done.returncode in answers and done.stdout.strip():
            return json.loads(done.stdout)
        told = done.stderr.decode(errors="replace").replace("memwall: ", "").strip()
        raise MemwallError(told or f"memwall {words[0]} exited with {done.returncode}", done.returncode)


def _is_text(plan: str) -> bool:
    return "\n" in plan or plan.lstrip().startswith("{")


def _line(plan: Plan) -> bytes:
    """A plan as a line of the stream."""
    if isinstance(plan, str) and _is_text(plan):
        plan = json.loads(plan)
    if not isinstance(plan, Mapping):
        raise TypeError(f"{plan!r}: a plan of many is a mapping, or a JSON object as a text")
    return json.dumps(plan).encode() + b"\n"


def _written(value: Any) -> str:
    """A value as a plan writes it: YAML reads JSON, but for words, which stay bare."""
    return value if isinstance(value, str) else json.dumps(value)


def _values(values: Any) -> str:
    return values if isinstance(values, str) else ",".join(_written(value) for value in values)


def _set(changes: Optional[Mapping[str, Any]]) -> List[str]:
    return [word for key, value in (changes or {}).items() for word in ("--set", f"{key}={_written(value)}")]


def frame(reports: Iterable[Mapping[str, Any]]) -> Any:
    """Reports, or rows of a sweep, as a ``pandas.DataFrame``: nested keys joined by dots, lists left out.

    Raises ``ImportError`` where pandas is not installed.
    """
    import pandas

    return pandas.DataFrame([dict(_cells("", report)) for report in reports])


def _cells(path: str, value: Mapping[str, Any]) -> Iterator[Tuple[str, Any]]:
    for key, inner in value.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(inner, Mapping):
            yield from _cells(name, inner)
        elif not isinstance(inner, list):
            yield name, inner


_client: Optional[Client] = None
_making = threading.Lock()


def _default() -> Client:
    global _client
    with _making:
        if _client is None:
            _client = Client()
            atexit.register(_client.close)
        return _client


def predict(plan: Plan, *, bottlenecks: bool = False) -> Report:
    """The report of a plan: see ``Client.predict``."""
    return _default().predict(plan, bottlenecks=bottlenecks)


def predict_all(plans: Iterable[Plan]) -> Iterator[Report]:
    """The reports of many plans: see ``Client.predict_all``."""
    return _default().predict_all(plans)


def max_batch_size(plan: Plan) -> Report:
    """The largest batch that fits: see ``Client.max_batch_size``."""
    return _default().max_batch_size(plan)


def sweep(plan: Plan, vary: Mapping[str, Any], set: Optional[Mapping[str, Any]] = None) -> Report:
    """A plan with each value of a key: see ``Client.sweep``."""
    return _default().sweep(plan, vary, set)


def search(plan: Plan, **options: Any) -> Report:
    """The best plans: see ``Client.search``."""
    return _default().search(plan, **options)


def validate(cases: Union[Sequence[Mapping[str, Any]], str, "os.PathLike[str]"]) -> Report:
    """Predictions against measured cases: see ``Client.validate``."""
    return _default().validate(cases)


def infer(pid: int) -> Report:
    """The plan of a running training process: see ``Client.infer``."""
    return _default().infer(pid)
