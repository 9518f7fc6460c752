# How a process ends, and what a launcher says of the ranks that it had started.

_MOST_FAILED = 64


def _end(pid):
    """How a process ends: with the exception that nobody caught, if there was one."""
    message = {"v": VERSION, "kind": "end", "pid": pid, "at": time.time()}
    kind, error = getattr(sys, "last_type", None), getattr(sys, "last_value", "")
    if kind is None:
        # A child of multiprocessing ends while its exception is in flight.
        kind, error, _ = sys.exc_info()
    if kind is not None and not issubclass(kind, (SystemExit, GeneratorExit)):
        message["error"] = kind.__name__[:80]
        message["message"] = str(error)[:4000]
    return message


def _at_end_of_child(tell):
    """Has a child of multiprocessing tell that it ends: one that was forked leaves without `atexit`."""
    processes, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if util is not None and getattr(processes, "parent_process", lambda: None)() is not None:
        # Behind whatever the script has registered, and before the process is gone (`BaseProcess._bootstrap`).
        util.Finalize(None, tell, exitpriority=-100)


def _failures(pid):
    """The ranks that failed, where this process had started them and ends because of them; none else."""
    error = getattr(sys, "last_value", None)
    name, module = type(error).__name__, type(error).__module__
    ranks = []
    if name == "ChildFailedError" and module.startswith("torch.distributed.elastic"):
        root, _ = error.get_first_failure()
        order = [root] + [rank for rank in error.failures if rank != root]
        ranks = [(rank, error.failures[rank].pid, error.failures[rank].exitcode) for rank in order]
    elif module == "torch.multiprocessing.spawn" and hasattr(error, "error_index"):
        # It counts the processes of this machine, and not ranks. One that raised exits with 1 (`_wrap`).
        ranks = [(None, error.pid, getattr(error, "exit_code", 1))]
    if not ranks:
        return None
    message = {"v": VERSION, "kind": "failures", "pid": pid, "at": time.time()}
    if os.environ.get("MEMWALL_RUN", "").isdigit():
        message["launcher"] = int(os.environ["MEMWALL_RUN"])
    message["ranks"] = [{"rank": rank, "pid": one, "code": code} for rank, one, code in ranks[:_MOST_FAILED]]
    return message
