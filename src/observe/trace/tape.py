"""The tape: steps of several sizes laid beside, each number as a polynomial of batch and lengths."""

import gzip
import json
import os
from fractions import Fraction

from segments import Number

VERSION = 2


def points_of(axes, longest=None, side=None, varies=True, lengths=None):
    """Sizes at which a step is traced: enough for every term, and one more to check them."""
    batches = (2, 3)
    if lengths is not None:
        *lengths, check = lengths
    elif longest is not None and longest < 384:
        lengths = [max(8, longest // 8), max(16, longest // 4), max(24, longest // 2)]
        check = max(12, longest * 3 // 8)
    else:
        lengths, check = [128, 192, 320], 256
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


def terms_of(axes, varies=True):
    """Monomials, as exponents by axis; the first of these lists that fits all points is taken."""
    one = {"I": [0, 1, 2, 4] if varies else [0], "S": [0, 1, 2]}
    if "I" in axes:
        lengths = [{"I": power} for power in one["I"]]
    elif "T" in axes:
        lengths = [{}, {"S": 1}, {"T": 1}, {"S": 2}, {"T": 2}, {"S": 1, "T": 1}]
    elif "S" in axes:
        lengths = [{"S": power} for power in one["S"]]
    else:
        lengths = [{}]
    if "B" not in axes:
        return [lengths]
    both = [{**length, "B": power} for power in (0, 1) for length in lengths]
    # A batch against itself, as contrastive losses have it: one term more, which the last point decides.
    return [both, [*both, {"B": 2}]]


def value_of(term, point):
    product = 1
    for axis, power in term.items():
        product *= point.get(axis, 1) ** power
    return product


def inverse(rows):
    size = len(rows)
    left = [[Fraction(value) for value in row] + [Fraction(int(i == j)) for j in range(size)] for i, row in enumerate(rows)]
    for column in range(size):
        pivot = next((row for row in range(column, size) if left[row][column]), None)
        if pivot is None:
            return None
        left[column], left[pivot] = left[pivot], left[column]
        by = left[column][column]
        left[column] = [value / by for value in left[column]]
        for row in range(size):
            if row != column and left[row][column]:
                factor = left[row][column]
                left[row] = [a - factor * b for a, b in zip(left[row], left[column])]
    return [row[size:] for row in left]


class Fitter:
    """Polynomials through values at the traced points."""

    def __init__(self, axes, points, varies=True):
        self.points = points
        self.tries = []
        for terms in terms_of(axes, varies):
            terms = [{axis: power for axis, power in term.items() if power} for term in terms]
            if len(terms) > len(points):
                continue
            solved = inverse([[value_of(term, point) for term in terms] for point in points[:len(terms)]])
            if solved is not None:
                self.tries.append((terms, solved))
        self.terms = self.tries[-1][0] if self.tries else [{}]
        self.known, self.polynomials, self.unfit = {}, [], []

    def index(self, values):
        values = tuple(values)
        at = self.known.get(values)
        if at is None:
            at = self.known[values] = len(self.polynomials)
            self.polynomials.append(self.fit(values))
        return at

    def fit(self, values):
        if len(set(values)) == 1:
            return [1, values[0]]
        for terms, solved in self.tries:
            factors = [sum(a * b for a, b in zip(row, values)) for row in solved]
            fits = all(sum(factor * value_of(term, point) for term, factor in zip(terms, factors)) == value
                       for point, value in zip(self.points, values))
            if fits:
                below = 1
                for factor in factors:
                    below = below * factor.denominator // gcd(below, factor.denominator)
                return [below, *(int(factor * below) for factor in factors)]
        self.unfit.append(len(self.polynomials))
        return [1, values[-1]]


def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


def numbers_of(tree, found):
    if isinstance(tree, Number):
        found.append(tree.value)
        return "#"
    if isinstance(tree, dict):
        return {key: numbers_of(value, found) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [numbers_of(value, found) for value in tree]
    return tree


def filled(tree, numbers):
    if tree == "#":
        return next(numbers)
    if isinstance(tree, dict):
        return {key: filled(value, numbers) for key, value in tree.items()}
    if isinstance(tree, list):
        return [filled(value, numbers) for value in tree]
    return tree


class Trace:
    """One precision: the segments of each traced size."""

    def __init__(self, fitter):
        self.fitter = fitter
        self.steps = []

    def add(self, segments, order, pending, passing):
        numbers = []
        laid = [{**segment, "path": ""} for segment in segments]
        skeleton = numbers_of([laid, order, pending, passing], numbers)
        self.steps.append((json.dumps(skeleton), numbers, [segment["path"] for segment in segments]))

    def finish(self):
        """Kinds of segments and their order; or why sizes do not agree."""
        first = self.steps[0][0]
        if any(step[0] != first for step in self.steps):
            return None
        columns = zip(*(step[1] for step in self.steps))
        indices = iter([self.fitter.index(column) for column in columns])
        segments, order, pending, passing = filled(json.loads(first), indices)
        kinds, known, of = [], {}, []
        for segment, path in zip(segments, self.steps[0][2]):
            key = json.dumps(segment)
            if key not in known:
                known[key] = len(kinds)
                kinds.append({**segment, "path": path})
            of.append(known[key])
        return {"kinds": kinds, "order": [of[at] for at in order], "pending": pending, "passing": passing}


def write(tape, path):
    text = json.dumps(tape, separators=(",", ":")).encode()
    beside = f"{path}.part"
    with open(beside, "wb") as file:
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=9) as packed:
            packed.write(text)
    os.replace(beside, path)
    return len(text)
