# What the script prints of its loss, wherever that goes: what goes to a terminal or into a pipe nobody else can read.

# A loss with its number as people print it, and no loss scale: `loss: nan`, `'loss': 2.5`, `train_loss=inf`; with the words
# before it, since not every loss is what is trained: `eval_loss`, `best val loss`, `min_loss`, `z_loss`, `loss_weight`.
_OTHERS = r"(?i)eval|val|valid|test|dev|best|min|max|prev|last|aux|z_|weight|bound|ratio|delta|diff"
_LOSS = (
    r"(?i)([\w./@-]* ?[\w./@-]*)loss(?![\w ]*(?:scal|weight|ratio))[\w/@.-]*['\"]?\s*[:=|]*\s*(?:tensor\()?([-+]?(?:nan|inf(?:inity)?)(?!\w)"
    r"|[-+]?\d+\.?\d*(?:e[-+]?\d+)?)"
)
# Losses of a generator and of what judges it: neither is the run's. One that is no number ends both.
_TWO_MODELS = (
    r"(?i)(?<![a-z])(?:(?:d|g|disc|discriminator|gen|generator)[_ ]?loss"
    r"|loss[_ ]?(?:d|g|disc|discriminator|gen|generator)(?![a-z]))"
)
_LONGEST_LINE = 500


class _Printed:
    """The newest line with a loss, and the first one since it is no number."""

    def __init__(self):
        self.pattern = self.others = self.two_models = None
        self.last = self.turned = None
        # The newest line that may have a loss, and the steps that were made: most are never looked into.
        self.newest = None

    def note(self, line, steps):
        self.newest = (line, steps)
        may_turn = "nan" in line or "inf" in line or "NaN" in line or "Inf" in line or "NAN" in line
        if may_turn or self.turned is not None:
            self.look()

    def look(self):
        """Looks into the newest line."""
        if self.newest is None:
            return
        (line, steps), self.newest = self.newest, None
        if self.pattern is None:
            import re

            self.pattern, self.others = re.compile(_LOSS), re.compile(_OTHERS)
            self.two_models = re.compile(_TWO_MODELS)
        all_losses = self.pattern.finditer(line)
        found = next((one for one in all_losses if not self.others.search(one.group(1))), None)
        if found is None:
            return
        number = found.group(2).lower()
        if not number.lstrip("+-").startswith(("n", "i")) and self.two_models.search(line):
            return
        self.last = {"line": line, "loss": number, "step": steps}
        if not number.lstrip("+-").startswith(("n", "i")):
            self.turned = None
        elif self.turned is None:
            self.turned = self.last

    def message(self):
        """What there is to tell; none where no loss was printed."""
        self.look()
        if self.last is None or self.turned is None:
            return self.last and {"last": self.last}
        return {"last": self.last, "turned": self.turned}


def _note_printed(hook):
    """Looks at each line that the script prints. What it writes to stays what it is, and so does what is written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.write = _noting(stream.write, hook)
        except Exception:
            pass


def _noting(write, hook):
    # The beginning of a line, and the steps that were made as it was written: a bar's line ends with the next one.
    unfinished = ["", 0]

    def noted(text, *rest):
        result = write(text, *rest)
        try:
            if type(text) is not str or hook.over:
                return result
            begun, steps = unfinished
            if "\n" not in text and "\r" not in text:
                unfinished[:] = (begun + text)[-_LONGEST_LINE:], steps if begun else hook.steps
                return result
            *lines, last = (begun + text[-8 * _LONGEST_LINE :]).replace("\r", "\n").split("\n")
            unfinished[:] = last, hook.steps
            for line in lines:
                if "loss" in line or "Loss" in line or "LOSS" in line:
                    hook.printed.note(line[:_LONGEST_LINE], steps if begun else hook.steps)
                begun = ""
        except Exception:
            pass
        return result

    return noted
