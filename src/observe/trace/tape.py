"""The tape: steps of several sizes laid beside, each number as a polynomial of batch and lengths."""

import gzip
import json
import os
import re
from fractions import Fraction
from functools import reduce
from itertools import combinations
from math import gcd
from operator import mul

VERSION = 4
# Of what the model itself does not recompute, which programs that read no later version read too.
WITHOUT_RECOMPUTING = 3
# What segments are to each other, as plan::traced reads it.
BETWEEN = ("pending", "passing", "links", "pending_of", "paths", "named")
# Stands for a number in what all sizes have in common.
PLACE = "#"
# What plan::traced reads.
LARGEST = 1 << 63


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


def lcm(one, other):
    return one * other // gcd(one, other)


def is_parallel(one, other):
    """Whether two columns are multiples of each other."""
    return all(a * d == b * c for a, b in zip(one, other) for c, d in zip(one, other))


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
                below = reduce(lcm, (entry.denominator for row in solved for entry in row))
                rows = [[int(entry * below) for entry in row] for row in solved]
                checks = [[value_of(term, point) for term in terms] for point in points[len(terms):]]
                self.tries.append((terms, rows, below, checks))
        self.terms = self.tries[-1][0] if self.tries else [{}]
        self.known, self.polynomials, self.unfit = {}, [], []
        # Each term at all points, and the few points at which a further precision is traced.
        self.columns = [tuple(value_of(term, point) for point in points) for term in self.terms]
        self.few = self.find_few()
        self.seen, self.seen_of = {}, 0
        self.recognised = {}

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
        for terms, rows, below, checks in self.tries:
            factors = [sum(map(mul, row, values)) for row in rows]
            fits = all(sum(map(mul, factors, check)) == value * below
                       for check, value in zip(checks, values[len(terms):]))
            common = reduce(gcd, factors, below)
            made = [below // common, *(factor // common for factor in factors)]
            # Where no point is left to check, whole factors do: what follows no polynomial has none.
            if fits and (checks or made[0] == 1) and max(map(abs, made)) < LARGEST:
                return made
        self.unfit.append(len(self.polynomials))
        return [1, values[-1]]

    # Few points

    def find_few(self):
        """Three points, the last among them, that tell all terms apart; all where there are none."""
        count = len(self.points)
        for first, second in combinations(range(count - 1), 2):
            chosen = (first, second, count - 1)
            columns = [[column[at] for at in chosen] for column in self.columns]
            if not any(is_parallel(one, other) for one, other in combinations(columns, 2)):
                return chosen
        return tuple(range(count))

    def recognise(self, few):
        """The values at all points of a size of which `few` are known: those of a size that was traced at all of them, of
        twice or half of one, or of the only sum of one or two terms that goes through. None where that is not one answer."""
        if few not in self.recognised:
            found = self.candidates(few)
            self.recognised[few] = found.pop() if len(found) == 1 else None
        return self.recognised[few]

    def candidates(self, few):
        if self.seen_of != len(self.known):
            self.seen, self.seen_of = {}, len(self.known)
            for values in self.known:
                self.seen.setdefault(tuple(values[at] for at in self.few), []).append(values)
        found = set(self.seen.get(few, ()))
        found.update(tuple(2 * value for value in values)
                     for values in self.seen.get(tuple(value // 2 for value in few), ()) if not any(value % 2 for value in few))
        found.update(tuple(value // 2 for value in values) for values in self.seen.get(tuple(2 * value for value in few), ())
                     if not any(value % 2 for value in values))
        if len(set(few)) == 1:
            found.add((few[0],) * len(self.points))
        return found or self.sums(few)

    def sums(self, few):
        """What sums of one or two terms make of it, in whole numbers."""
        found = set()
        shown = [tuple(column[at] for at in self.few) for column in self.columns]
        for (one, a), (two, b) in combinations(zip(self.columns, shown), 2):
            # Two of the three points on which these two terms are no multiples of each other.
            at, to = next((pair for pair in combinations(range(len(few)), 2)
                           if a[pair[0]] * b[pair[1]] != a[pair[1]] * b[pair[0]]), (0, 0))
            below = a[at] * b[to] - a[to] * b[at]
            if not below:
                continue
            first, second = few[at] * b[to] - few[to] * b[at], a[at] * few[to] - a[to] * few[at]
            if any(first * x + second * y != value * below for x, y, value in zip(a, b, few)):
                continue
            made = [first * x + second * y for x, y in zip(one, two)]
            if not any(value % below or value // below < 0 for value in made):
                found.add(tuple(value // below for value in made))
        return found


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
        columns = zip(*(self.steps[point][1] for point in sorted(self.steps)))
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
