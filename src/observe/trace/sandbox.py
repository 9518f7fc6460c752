"""Where a traced script's files go: what it writes, renames and removes lies in a folder that goes away, laid over the
user's own files, and names of hosts are not looked up."""

import builtins
import io
import os
import shutil
import sys
import tempfile

import below
import elsewhere
from programs import Programs

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Caches that libraries write and read below Python, where nothing redirects them: variable, and where they lie else.
CACHES = {"HF_DATASETS_CACHE": "datasets", "HF_EVALUATE_CACHE": "evaluate", "HF_MODULES_CACHE": "modules"}
# Most files of a cache that is laid out again, as links.
LINKS = 20_000
# Functions of `os` that read what a path names, and those that change it.
READING = ("stat", "lstat", "access", "readlink", "chdir", "statvfs")
CHANGING = ("chmod", "utime", "chown", "truncate")


def absolute(path):
    """A path as text, from the root: code that writes a log may hand bytes on (tensorboard, `RecordWriter`)."""
    return os.path.abspath(os.fsdecode(path))


class Sandbox:
    """An overlay in Python: reads see what was written here first, then the user's files."""

    def __init__(self, allowed=()):
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="memwall-trace-"))
        self.temporary, tempfile.tempdir = tempfile.tempdir, self.folder
        self.active, self.programs = True, Programs(allowed, self.folder)
        self.removed, self.mapped = set(), None
        self.real = {name: getattr(os, name) for name in (
            *READING, *CHANGING, "open", "listdir", "scandir", "mkdir", "rmdir", "remove", "unlink", "rename", "replace",
            "link", "symlink")}
        self.caches()

    def caches(self):
        home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
        for variable, name in CACHES.items():
            own = os.environ.get(variable) or os.path.join(home, name)
            shown = os.path.join(self.folder, "caches", name)
            left = LINKS
            os.makedirs(shown)
            for folder, _, files in os.walk(own):
                there = os.path.join(shown, os.path.relpath(folder, own))
                os.makedirs(there, exist_ok=True)
                left -= len(files)
                if left < 0:
                    break
                for file in files:
                    os.symlink(os.path.join(folder, file), os.path.join(there, file))
            os.environ[variable] = shown

    # Paths

    def is_ours(self, path):
        path = self.realpath(os.fsdecode(path))
        return path.startswith((self.folder, "/dev/", "/proc/"))

    def realpath(self, path):
        active, self.active = self.active, False
        try:
            return os.path.realpath(path)
        finally:
            self.active = active

    def exists(self, path):
        try:
            self.real["lstat"](path)
        except (OSError, ValueError):
            return False
        return True

    def is_path(self, path):
        return self.active and isinstance(path, (str, bytes, os.PathLike))

    def reading(self, path):
        """Where a path is read."""
        if not self.is_path(path) or not os.fspath(path) or self.is_ours(path):
            return path
        own = absolute(path)
        moved = self.folder + own
        return moved if own in self.removed or self.exists(moved) else path

    def writing(self, path, keeps):
        """Where a path is written; what stands there is copied where some of it is kept."""
        if not self.is_path(path) or self.is_ours(path):
            return path
        self.move_maps()
        own = absolute(path)
        moved = self.folder + own
        parent = os.path.dirname(own)
        if self.exists(parent) or self.exists(self.folder + parent):
            self.make(os.path.dirname(moved))
        if keeps and not self.exists(moved) and own not in self.removed and self.exists(own):
            active, self.active = self.active, False
            try:
                shutil.copyfile(own, moved)
            finally:
                self.active = active
        self.removed.discard(own)
        return moved

    def move_maps(self):
        """What pyarrow opens below Python, where something was written that it may read (datasets/table.py,
        `_memory_mapped_arrow_table_from_file`)."""
        arrow = sys.modules.get("pyarrow")
        if self.mapped is None and hasattr(arrow, "memory_map"):
            self.mapped, sandbox = (arrow, arrow.memory_map), self
            arrow.memory_map = lambda path, mode="r": sandbox.mapped[1](
                sandbox.writing(path, True) if mode != "r" else sandbox.reading(path), mode)

    def make(self, folder):
        if folder and not self.exists(folder):
            self.make(os.path.dirname(folder))
            self.real["mkdir"](folder)

    def names(self, path):
        own = absolute(path)
        moved, found = self.folder + own, {}
        if own not in self.removed and self.exists(own):
            found.update((name, own) for name in self.real["listdir"](own)
                         if os.path.join(own, name) not in self.removed)
        if self.exists(moved):
            found.update((name, moved) for name in self.real["listdir"](moved))
        elif not found:
            self.real["listdir"](own)
        return found

    # Functions

    def __enter__(self):
        self.move_opening()
        self.move_folders()
        for names, made in ((READING, self.reads), (CHANGING, self.changes), (("rmdir", "remove", "unlink"), self.removes),
                            (("rename", "replace"), self.renames), (("link", "symlink"), self.links)):
            for name in names:
                setattr(os, name, made(self.real[name]))
        # Trees are removed by path: a folder's descriptor does not tell where it lies.
        shutil._use_fd_functions = False
        sys.addaudithook(self.audit)
        return self

    def move_opening(self):
        """Opens files where they are written, or were."""
        opened, low, sandbox = builtins.open, self.real["open"], self

        def open_moved(file, mode="r", *args, **kwargs):
            if any(letter in mode for letter in "wax+"):
                return opened(sandbox.writing(file, "a" in mode or "+" in mode and "w" not in mode), mode, *args, **kwargs)
            return opened(sandbox.reading(file), mode, *args, **kwargs)

        def low_open(path, flags, *args, **kwargs):
            if flags & WRITES and kwargs.get("dir_fd") is None:
                return low(sandbox.writing(path, not flags & os.O_TRUNC), flags, *args, **kwargs)
            return low(sandbox.reading(path), flags, *args, **kwargs)

        builtins.open = io.open = open_moved
        os.open = low_open
        elsewhere.move(opened, open_moved, self)
        below.move(self)

    def move_folders(self):
        """Makes folders where they may be made, and lists those that lie in two places as one."""
        real, sandbox = self.real, self

        def mkdir(path, *args, **kwargs):
            if sandbox.is_path(path) and not sandbox.is_ours(path) and sandbox.exists(sandbox.reading(path)):
                raise FileExistsError(17, "File exists", os.fspath(path))
            return real["mkdir"](sandbox.writing(path, False), *args, **kwargs)

        def listdir(path="."):
            if not sandbox.is_path(path) or sandbox.is_ours(path):
                return real["listdir"](path)
            names = sandbox.names(path)
            return [os.fsencode(name) for name in names] if isinstance(path, bytes) else list(names)

        def scandir(path="."):
            if not sandbox.is_path(path) or isinstance(path, bytes) or sandbox.is_ours(path) or not sandbox.exists(
                    sandbox.folder + absolute(path)):
                return real["scandir"](path)
            return Entries(real["scandir"], sandbox.names(path))

        os.mkdir, os.listdir, os.scandir = mkdir, listdir, scandir

    # What stands for functions of `os`: each takes the real one

    def reads(self, real):
        return lambda path, *args, **kwargs: real(self.reading(path), *args, **kwargs)

    def changes(self, real):
        return lambda path, *args, **kwargs: real(self.writing(path, True), *args, **kwargs)

    def removes(self, real):
        def remove(path, *args, **kwargs):
            if not self.is_path(path) or self.is_ours(path):
                return real(path, *args, **kwargs)
            moved = self.reading(path)
            if not self.exists(moved):
                raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
            if self.is_ours(moved):
                real(moved)
            self.removed.add(absolute(path))

        return remove

    def renames(self, real):
        def rename(before, after, *args, **kwargs):
            copied = self.writing(before, True)
            real(copied, self.writing(after, False), *args, **kwargs)
            if copied is not before:
                self.removed.add(absolute(before))

        return rename

    def links(self, real):
        return lambda before, after, *args, **kwargs: real(before, self.writing(after, False), *args, **kwargs)

    def audit(self, event, args):
        """What none of these functions did."""
        if not self.active:
            return
        self.programs.audit(event, args)
        if event == "open" and isinstance(args[0], (str, bytes)) and isinstance(args[2], int) and args[2] & WRITES:
            if not self.is_ours(args[0]):
                raise PermissionError(f"a traced script writes nothing: {args[0]}")
        elif event in ("os.remove", "os.rmdir", "os.rename", "os.truncate") and isinstance(args[0], (str, bytes)):
            if not self.is_ours(args[0]):
                raise PermissionError(f"a traced script writes nothing: {args[0]}")
        elif event in ("socket.connect", "socket.getaddrinfo"):
            host = args[0] if event == "socket.getaddrinfo" else args[1]
            if isinstance(host, tuple):
                host = host[0]
            if host not in ("localhost", "127.0.0.1", "::1", "") and not str(host).startswith("/"):
                raise OSError(f"a traced script asks no network: {host}")

    def __exit__(self, *_):
        self.active, tempfile.tempdir = False, self.temporary
        if self.mapped is not None:
            arrow, arrow.memory_map = self.mapped
        shutil.rmtree(self.folder, ignore_errors=True)
        return False


class Entries:
    """`os.scandir` of a folder that lies in two places."""

    def __init__(self, scandir, names):
        self.found = iter([entry for folder in sorted(set(names.values())) for entry in scandir(folder)
                           if names.get(entry.name) == folder])

    def __iter__(self):
        return self.found

    def __next__(self):
        return next(self.found)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def close(self):
        pass
