# How messages go to those who listen.

# A datagram is one message.
_LARGEST = 60_000

# As many are told; of more, the newest.
_MOST_LISTENERS = 32


def _directories():
    """Where listeners may have their sockets; as MemWall computes it."""
    named = os.environ.get("MEMWALL_HOOK_DIR")
    if named:
        return [named]
    user = os.getuid()
    temporary = "/tmp/memwall-%d" % user
    # Root's is never below another user's directory, which `sudo -E` leaves in XDG_RUNTIME_DIR.
    if user == 0:
        return ["/run/memwall", temporary]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [os.path.join(runtime, "memwall") if runtime else temporary]


def _sockets(directory):
    """The sockets in a private directory, with when each was made; none in any other."""
    import stat

    try:
        whose = os.lstat(directory)
        if not stat.S_ISDIR(whose.st_mode) or whose.st_uid != os.getuid() or whose.st_mode & 0o077:
            return []
        found = list(os.scandir(directory))
    except OSError:
        return []
    sockets = []
    for entry in found:
        try:
            if entry.name.endswith(".sock"):
                sockets.append((entry.path, entry.stat(follow_symlinks=False).st_mtime))
        except OSError:
            # Gone between the two looks.
            pass
    return sockets


def _told(sockets):
    """Those that are told, in a steady order. The `memwall run` that started this process is always among them."""
    own = os.environ.get("MEMWALL_RUN", "?") + "-"
    order = sorted(sockets, key=lambda socket: (not os.path.basename(socket[0]).startswith(own), -socket[1]))
    return sorted(path for path, _ in order[:_MOST_LISTENERS])


def _namespace():
    """This process's PID namespace, by its inode; none where the system does not tell."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


class _Wire:
    """Sends messages to every socket in the directory; whoever is gone or slow misses them."""

    def __init__(self):
        # One for each: what a listener has not read yet is charged to the socket that it came from, and one that is
        # suspended must not cost the others theirs.
        self.sockets = {}
        self.pid = None
        # Whoever listens may be in another PID namespace, where this process has another number.
        self.namespace = _namespace()
        self.listeners = []
        self.looked = float("-inf")
        self.lost = 0

    def new_listeners(self, now):
        """Looks for listeners now and then; those that were not there at the last look."""
        if now - self.looked < _LOOK_EVERY:
            return []
        self.looked = now
        found = _told([socket for directory in _directories() for socket in _sockets(directory)])
        new = [path for path in found if path not in self.listeners]
        self.listeners = found
        return new

    def _socket(self, path):
        import socket

        # Those of the process that this one was forked from are its; those of listeners that have gone are not kept.
        if self.pid != os.getpid() or (path not in self.sockets and len(self.sockets) >= _MOST_LISTENERS):
            self.sockets, self.pid = {}, os.getpid()
        # The thread that watches may come by at any time: what it takes away here is kept until this returns.
        one = self.sockets.get(path)
        if one is None:
            one = self.sockets[path] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            one.setblocking(False)
        return one

    def send(self, message, to=None):
        import json

        message["began"] = _BEGAN
        if self.namespace is not None:
            message["namespace"] = self.namespace
        text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        if len(text) > _LARGEST:
            self.lost += 1
            return
        for path in self.listeners if to is None else to:
            try:
                self._socket(path).sendto(text, path)
            except OSError:
                # Nobody there any more, or its queue is full: this message is lost, training goes on.
                self.lost += 1
