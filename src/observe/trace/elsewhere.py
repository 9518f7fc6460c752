"""Files that are opened neither by `open` nor by `os.open`: by a name that a library took before, or below Python."""

import importlib.util
import os
import sys


def move(opened, open_moved, sandbox):
    """Opens them where the sandbox has them."""
    openers = getattr(sys.modules.get("numpy.lib._datasource"), "_file_openers", None)
    if openers is not None:
        # `numpy.savetxt` and `loadtxt` (numpy/lib/_datasource.py, `_FileOpeners`).
        known = openers._file_openers
        known.update((ending, open_moved) for ending, function in list(known.items()) if function is opened)
    if importlib.util.find_spec("_sqlite3") is None:
        return
    import sqlite3

    connect = sqlite3.connect

    def connected(database, *args, **kwargs):
        return connect(moved(database, sandbox), *args, **kwargs)

    sqlite3.connect = sqlite3.dbapi2.connect = connected


def moved(database, sandbox):
    """Where a database of SQLite lies, of which a URI may name the file (sqlite.org/uri.html)."""
    text = os.fsdecode(database) if isinstance(database, (str, bytes, os.PathLike)) else ":memory:"
    path, question, options = text.removeprefix("file:").partition("?") if text.startswith("file:") else (text, "", "")
    if not path or path == ":memory:" or "mode=memory" in options:
        return database
    path = "/" + path.lstrip("/") if path.startswith("//") else path
    return f"{'file:' if text.startswith('file:') else ''}{sandbox.writing(path, True)}{question}{options}"
