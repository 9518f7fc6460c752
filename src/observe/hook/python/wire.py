# How messages go to those who listen.

# A datagram is one message.
_LARGEST = 60_000


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
    """The sockets in a private directory; none in any other."""
    import stat

    try:
        whose = os.lstat(directory)
        if not stat.S_ISDIR(whose.st_mode) or whose.st_uid != os.getuid() or whose.st_mode & 0o077:
            return []
        return sorted(os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".sock"))
    except OSError:
        return []


def _namespace():
    """This process's PID namespace, by its inode; none where the system does not tell."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


class _Wire:
    """Sends messages to every socket in the directory; whoever is gone or slow misses them."""

    def __init__(self):
        self.socket = None
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
        found = [path for directory in _directories() for path in _sockets(directory)][:16]
        new = [path for path in found if path not in self.listeners]
        self.listeners = found
        return new

    def send(self, message, to=None):
        import json
        import socket

        message["began"] = _BEGAN
        if self.namespace is not None:
            message["namespace"] = self.namespace
        text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        if len(text) > _LARGEST:
            self.lost += 1
            return
        if self.socket is None or self.pid != os.getpid():
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.setblocking(False)
            self.pid = os.getpid()
        for path in self.listeners if to is None else to:
            try:
                self.socket.sendto(text, path)
            except OSError:
                # Nobody there any more, or its queue is full: this message is lost, training goes on.
                self.lost += 1
