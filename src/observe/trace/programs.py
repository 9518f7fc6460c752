"""Programs that a traced script, or a function of the user's that makes a model, starts: what only tells something, or builds
what PyTorch needs, runs; nothing else does, as it would write, download or train for real."""

import os
import re
import shlex
import sys
import sysconfig

from sources import Refused

# They print what they know.
TELLING = {"[", "arch", "basename", "cat", "cut", "df", "dirname", "du", "echo", "expr", "false", "fc-list", "fc-match", "file", "free", "getconf", "grep",
           "groups", "head", "id", "lsb_release", "ls", "lsblk", "lscpu", "lsmod", "lspci", "md5sum", "nproc", "printf", "ps", "pwd",
           "readlink", "realpath", "sha256sum", "sleep", "stat", "tail", "test", "tput", "tr", "true", "tty", "type", "uname",
           "uptime", "wc", "whereis", "which", "whoami", "clear"}
# They tell something where their words, put together, are these.
ASKED = {
    "hostname": r"((-\w+|--[\w-]+) ?)*", "ldconfig": "(-p|--print-cache|-N -X -v)", "env": "", "date": r"((\+.*|-u|-I\w*|-R) ?)*",
    "ifconfig": "(-a)?", "ip": "(-o )?(link|addr|a|route)( show)?", "arp": "-an", "stty": "size", "sysctl": r"((-n|-a|[\w.]+) ?)*",
    "nvidia-smi": r"((-L|-q|-x|-i|-d|-m|-h|topo|\d+|--list-gpus|--(query|format|id)[\w-]*(=\S*)?|[A-Z_,]+) ?)*",
    "rocm-smi": r"((--show\w*|--json|--csv|-a|-i) ?)*", "rocminfo": "",
}
VERSIONS = {"--version", "-version", "-V", "--help"}
# Git changes nothing with these words behind it.
GIT = {"rev-parse", "describe", "log", "status", "diff", "show", "rev-list", "ls-files", "ls-tree", "cat-file", "merge-base",
       "shortlog", "name-rev", "version"}
GIT_ASKED = {"branch": r"((--show-current|--list|-a|-r|-v+|--no-color) ?)*", "remote": r"(-v|get-url \S+)?",
             "config": r"((--global|--local) )?(--list|-l|--get(-all|-regexp)? \S+)"}
COMPILERS = r"(.*-)?(cc|c\+\+|gcc|g\+\+|clang|clang\+\+|nvcc|hipcc|ptxas|ld|objdump)(-[\d.]+)?"
SHELLS = {"sh", "bash", "dash", "zsh"}
# What parts commands of a shell, and where their output may go.
PARTS, NOWHERE = {"&&", "||", ";", "|"}, re.compile(r"\s*\d?>+\s*(/dev/null|&\d)|\s*&>\s*/dev/null")
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
EVENTS = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.spawn", "pty.spawn")


class Programs:
    """Judges what is started, before it is. `allowed` are names that the user lets run; what compilers write lies in `folder`."""

    def __init__(self, allowed, folder):
        self.allowed, self.folder = set(allowed), folder
        # The program that was judged last.
        self.refused = None
        # `git status` refreshes its index.
        os.environ.setdefault("GIT_OPTIONAL_LOCKS", "0")

    def audit(self, event, args):
        if event not in EVENTS:
            return
        words = words_of(event, args)
        if event == "os.exec":
            raise Refused(f"the script becomes `{shortened([os.path.basename(words[0]), *words[1:]])}`{place()}: trace that command")
        if not self.tells(words):
            raise Refused(f"the script starts `{shortened(words)}`{place()}, which would run for real: do that once before, or let it "
                          f"run with --allow {self.refused}")

    def tells(self, words):
        """Whether a command changes nothing that stays."""
        if not words:
            return True
        name, rest = os.path.basename(words[0]), words[1:]
        self.refused = name
        if name in self.allowed:
            return True
        if os.sep in words[0] and not os.path.isabs(words[0]):
            # One of the project's own that is called like them.
            return False
        if name in SHELLS:
            return len(rest) == 2 and rest[0] in ("-c", "-lc") and self.shell_tells(rest[1])
        if name in TELLING:
            return True
        if rest and all(word in VERSIONS for word in rest):
            return True
        if name in ASKED:
            return re.fullmatch(ASKED[name], " ".join(rest)) is not None
        if name == "git":
            return git_tells(rest)
        if re.fullmatch(COMPILERS, name):
            return self.builds(rest)
        return False

    def shell_tells(self, text):
        text = NOWHERE.sub(" ", text)
        if re.search(r"[`<>()\n]|\$\(", text):
            return False
        try:
            lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&")
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:
            return False
        command = []
        for word in [*words, ";"]:
            if word in PARTS:
                if not self.tells(command):
                    return False
                command = []
            elif word == "&":
                return False
            elif command or not re.fullmatch(r"\w+=.*", word):
                command.append(word)
        return True

    def builds(self, words):
        """Whether a compiler writes to the folder that goes away."""
        written = [after for word, after in zip(words, words[1:]) if word in ("-o", "--output-file")]
        written += [word[2:] for word in words if word.startswith("-o") and len(word) > 2]
        return bool(written) and all(os.path.realpath(path).startswith((self.folder + "/", "/dev/null")) for path in written) or \
            bool(words) and all(word.startswith(("-print", "-dump")) or word == "-v" for word in words)


def git_tells(words):
    while words and words[0].startswith("-"):
        if words[0] in VERSIONS:
            return True
        if words[0] not in ("-C", "--git-dir", "--work-tree", "--no-pager") and not words[0].startswith(("--git-dir=", "--work-tree=")):
            return False
        words = words[1:] if "=" in words[0] or words[0] == "--no-pager" else words[2:]
    if not words or any(word.startswith(("--output", "--ext-diff")) for word in words):
        return False
    asked = GIT_ASKED.get(words[0])
    return words[0] in GIT if asked is None else re.fullmatch(asked, " ".join(words[1:])) is not None


def words_of(event, args):
    """The words of a command, as each of Python's ways to start one tells them to a hook (PEP 578)."""
    if event == "os.system":
        return ["sh", "-c", text(args[0])]
    if event == "pty.spawn":
        return [text(one) for one in args[0]]
    program, given = args[1:3] if event == "os.spawn" else args[:2]
    return [text(program), *(text(one) for one in given[1:])]


def text(word):
    return os.fsdecode(word) if isinstance(word, (bytes, str, os.PathLike)) else str(word)


def shortened(words):
    words = words[2:] if len(words) == 3 and words[1] == "-c" and os.path.basename(words[0]) in SHELLS else words
    said = " ".join(" ".join(words).split())
    return said if len(said) <= 60 else said[:59] + "…"


def place():
    """Where the script does it: its own line."""
    frame, here = sys._getframe(1), os.path.dirname(os.path.abspath(__file__))
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((*LIBRARIES, here, "<")):
            return f" ({os.path.basename(file)}:{frame.f_lineno})"
        frame = frame.f_back
    return ""
