"""Which lengths a model is traced at: the longest row of tokens that one of the user's own takes, where it is shorter than what is
traced otherwise, as a table of positions has so many rows; and one alone, where steps of others differ from it."""

import tape
from sources import Refused


def traced(tracer, subject):
    """The trace of a subject; at shorter lengths, where the usual ones are too long for it."""
    try:
        return tracer.trace(subject)
    except Refused:
        raise
    except Exception as error:
        if not shorten(tracer, subject):
            raise
        named = " ".join(str(error).split())[:120]
        subject.notes.append(f"traced with {subject.longest} tokens at most: with more it fails ({type(error).__name__}: {named})")
        return tracer.trace(subject)


def shorten(tracer, subject):
    """Finds the most tokens that it takes; whether there are fewer than the usual ones."""
    axes = subject.axes()
    if not subject.is_own or subject.longest is not None or not any(axis in "ST" for axis in axes):
        return False
    model = tracer.build(subject)

    def runs(length):
        sizes = {"B": 2, "S": length, "T": max(1, length // 2)}
        try:
            tracer.survey(model, lambda: subject.batch(sizes, tracer.target, None), lambda batch: subject.run(model, batch), None,
                          getattr(subject, "experts", 1), True)
        except Exception:
            return False
        return True

    most = max(point.get("S", 0) for point in tape.points_of(axes))
    least = next((length for length in (256, 128, 64, 32, 16) if length < most and runs(length)), None)
    if least is None or runs(most):
        return False
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if runs(middle) else (least, middle)
    subject.longest = least
    # Where a length must be a multiple of something, the lengths to trace at are none that it takes.
    return all(runs(point["S"]) for point in tape.points_of(axes, least))


def narrowed(subject, steps, trace, finished, varies):
    """Whether what was traced holds at one size alone, where the subject is then to be traced."""
    fitter = trace.fitter
    depends = not trace.agrees() if finished is None else bool(fitter.unfit)
    if steps.lengths and depends:
        # Operators that depend on the length, or sizes that grow in steps.
        steps.hold(fitter.usual)
        return True
    if "I" in subject.axes() and varies and (finished is None or fitter.unfit):
        # Windows and paddings that depend on the image's size: its own size alone.
        subject.varies = False
        return True
    return False
