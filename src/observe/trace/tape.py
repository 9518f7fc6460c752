"""The tape: steps of several sizes laid beside, each number as a polynomial of batch and lengths."""

import gzip
import json
import os
import re

VERSION = 4
# Of what the model itself does not recompute, which programs that read no later version read too.
WITHOUT_RECOMPUTING = 3
# What segments are to each other, as plan::traced reads it.
BETWEEN = ("pending", "passing", "links", "pending_of", "paths", "named")
# Stands for a number in what all sizes have in common.
PLACE = "#"


def lengths_of(longest=None, lengths=None):
    """Three lengths, and one more to check what they say."""
    if lengths is not None:
        return lengths[:-1], lengths[-1]
    if longest is not None and longest < 384:
        return [max(8, longest // 8), max(16, longest // 4), max(24, longest // 2)], max(12, longest * 3 // 8)
    return [128, 192, 320], 256


def points_of(axes, longest=None, side=None, varies=True, lengths=None):
    """Sizes at which a step is traced: enough for every term, and one more to check them."""
    batches = (2, 3)
    lengths, check = lengths_of(longest, lengths)
    if "I" in axes:
        own = side or 224
        sides = [own, own * 2, own * 3, own * 4] if varies else [own]
        points = [{"B": b, "I": i} for b in batches for i in (sides if varies else [own])]
        points.append({"B": 4, "I": own * 5 if varies else own})
    elif "T" in axes:
        shorter = [length // 2 for length in lengths]
        pairs = [(lengths[0], shorter[0]), (lengths[1], shorter[0]), (lengths[2], shorter[0]), (lengths[0], shorter[1]),
                 (lengths[0], shorter[2]), (lengths[1], shorter[1])]
        points = [{"B": b, "S": s, "T": t} for b in batches for s, t in pairs] + [{"B": 4, "S": check, "T": check // 2}]
    elif "S" in axes:
        points = [{"B": b, "S": s} for b in batches for s in lengths] + [{"B": 4, "S": check}]
    elif "B" in axes:
        points = [{"B": b} for b in (2, 3)] + [{"B": 4}]
    else:
        points = [{}]
    return [{axis: point[axis] for axis in axes if axis in point} for point in points]


def further_points(axes, longest=None, side=None, varies=True, lengths=None):
    """Sizes at which a step is traced as well where some number is no sum of the usual terms."""
    lengths, _ = lengths_of(longest, lengths)
    # No length of before: of four, a cube goes through all.
    longer = lengths[2] + lengths[1] - lengths[0]
    if "I" in axes:
        own = side or 224
        points = [{"B": 4, "I": own * (2 if varies else 1)}, {"B": 5, "I": own * (6 if varies else 1)}]
    elif "T" in axes:
        points = [{"B": 4, "S": lengths[0], "T": lengths[2] // 2}, {"B": 5, "S": longer, "T": longer // 2}]
    elif "S" in axes:
        points = [{"B": 4, "S": lengths[0]}, {"B": 5, "S": longer}]
    else:
        points = [{"B": 5}, {"B": 8}]
    return [{axis: point[axis] for axis in axes if axis in point} for point in points]


class Trace:
    """One precision: the segments of each traced size."""

    def __init__(self, fitter, steps=None):
        self.fitter = fitter
        # By point: what all sizes have in common, the numbers, and where the segments stand.
        self.steps = {} if steps is None else steps

    def add(self, point, resting, segments, order, *between):
        """`resting` is what lies beside, whatever runs: its numbers are no sizes of the step."""
        numbers = []

        def place(number):
            numbers.append(number.value)
            return PLACE

        laid = [{**segment, "path": ""} for segment in segments]
        skeleton = json.dumps([laid, order, *between], default=place)
        self.steps[point] = (skeleton, numbers, [segment["path"] for segment in segments], resting)

    def agrees(self):
        """Whether the same runs at all sizes."""
        return len({step[0] for step in self.steps.values()}) == 1

    def columns(self):
        """Each number at all points that are traced."""
        return zip(*(self.steps[point][1] for point in sorted(self.steps)))

    def lacking(self):
        """Points that are not traced."""
        return [at for at in range(len(self.fitter.points)) if at not in self.steps]

    def alone(self):
        """Holds the last size for all."""
        last = max(self.steps)
        self.steps = dict.fromkeys(range(len(self.fitter.points)), self.steps[last])

    def finish(self):
        """Kinds of segments and their order; none where sizes do not agree, or too few of them were traced to tell."""
        if not self.agrees():
            return None
        columns = self.columns()
        if len(self.steps) < len(self.fitter.points):
            columns = [self.fitter.recognise(column) for column in columns]
            if None in columns:
                return None
        indices = map(str, map(self.fitter.index, columns))
        skeleton, _, paths, _ = self.steps[min(self.steps)]
        segments, order, *between = json.loads(re.sub(json.dumps(PLACE), lambda _: next(indices), skeleton))
        kinds, known, of = [], {}, []
        for segment, path in zip(segments, paths):
            key = json.dumps(segment)
            if key not in known:
                known[key] = len(kinds)
                kinds.append({**segment, "path": path})
            of.append(known[key])
        made = {"kinds": kinds, "order": [of[at] for at in order], **dict(zip(BETWEEN, between))}
        # Tables that grow with what was read are not what a plan's step finds: those of the last size.
        resting = self.steps[max(self.steps)][3]
        return {**made, "resting": resting} if resting else made


def write(tape, path):
    text = json.dumps(tape, separators=(",", ":")).encode()
    beside = f"{path}.part"
    with open(beside, "wb") as file:
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=9) as packed:
            packed.write(text)
    os.replace(beside, path)
    return len(text)
