"""Numbers of a step as polynomials of batch and lengths."""

from fractions import Fraction
from functools import reduce
from itertools import combinations
from math import gcd
from operator import mul

# What plan::traced reads.
LARGEST = 1 << 63
# The nearest polynomial of a size that follows none: what its factors are divided by, and how far it may be off at the traced points.
PARTS = 1 << 20
NEAR = 0.02
# What the factors of polynomials with further terms are divided by, at most: what grows in steps needs larger ones.
SMALL = 8


def terms_of(axes, varies=True):
    """Monomials, as exponents by axis: those that nearly all sizes are sums of, and further ones, of which a size may have one or two
    beside them. A batch against itself, as contrastive losses and experts of a whole batch have it, and pairs of places in threes,
    as triangles of proteins have them."""
    one = {"I": [0, 1, 2, 4] if varies else [0], "S": [0, 1, 2]}
    further = []
    if "I" in axes:
        lengths = [{"I": power} for power in one["I"]]
        further = [{"I": 3}] if varies else []
    elif "T" in axes:
        lengths = [{}, {"S": 1}, {"T": 1}, {"S": 2}, {"T": 2}, {"S": 1, "T": 1}]
        further = [{"S": 3}, {"T": 3}]
    elif "S" in axes:
        lengths = [{"S": power} for power in one["S"]]
        further = [{"S": 3}]
    else:
        lengths = [{}]
    if "B" in axes:
        squares = [{"B": 2}, *({**length, "B": 2} for length in lengths if any(length.values())), *([] if lengths[1:] else [{"B": 3}])]
        further = [*squares, *({**term, "B": 1} for term in further), *further]
        lengths = [{**length, "B": power} for power in (0, 1) for length in lengths]
    plain = lambda terms: [{axis: power for axis, power in term.items() if power} for term in terms]
    return plain(lengths), plain(further)


def value_of(term, point):
    product = 1
    for axis, power in term.items():
        product *= point.get(axis, 1) ** power
    return product


def lcm(one, other):
    return one * other // gcd(one, other)


def is_parallel(one, other):
    """Whether two columns are multiples of each other."""
    return all(a * d == b * c for a, b in zip(one, other) for c, d in zip(one, other))


def reduced(rows):
    """The rows of a matrix that tell all its columns apart, the first ones that do, and the inverse of what they make."""
    size = len(rows[0])
    chosen, echelon = [], []
    for at, row in enumerate(rows):
        left = list(map(Fraction, row))
        for pivot, known in echelon:
            if left[pivot]:
                factor = left[pivot] / known[pivot]
                left = [a - factor * b for a, b in zip(left, known)]
        pivot = next((column for column in range(size) if left[column]), None)
        if pivot is not None:
            echelon.append((pivot, left))
            chosen.append(at)
        if len(chosen) == size:
            return chosen, inverse([rows[one] for one in chosen])
    return None, None


def inverse(rows):
    """The inverse of a matrix that has one."""
    size = len(rows)
    left = [[Fraction(value) for value in row] + [Fraction(int(i == j)) for j in range(size)] for i, row in enumerate(rows)]
    for column in range(size):
        pivot = next(row for row in range(column, size) if left[row][column])
        left[column], left[pivot] = left[pivot], left[column]
        by = left[column][column]
        left[column] = [value / by for value in left[column]]
        for row in range(size):
            if row != column and left[row][column]:
                factor = left[row][column]
                left[row] = [a - factor * b for a, b in zip(left[row], left[column])]
    return [row[size:] for row in left]


class Candidate:
    """Some terms: the points that decide their factors, and those that check them."""

    def __init__(self, terms, points):
        self.terms = terms
        rows = [[value_of(term, point) for term in terms] for point in points]
        self.chosen, solved = reduced(rows)
        self.is_solved = solved is not None
        if self.is_solved:
            self.below = reduce(lcm, (entry.denominator for row in solved for entry in row))
            self.rows = [[int(entry * self.below) for entry in row] for row in solved]
            self.checks = [(at, row) for at, row in enumerate(rows) if at not in self.chosen]

    def factors_of(self, values):
        """The numerators of its factors, where it goes through all values, and what they are divided by."""
        given = [values[at] for at in self.chosen]
        factors = [sum(map(mul, row, given)) for row in self.rows]
        if any(sum(map(mul, factors, row)) != values[at] * self.below for at, row in self.checks):
            return None
        common = reduce(gcd, factors, self.below)
        made = [self.below // common, *(factor // common for factor in factors)]
        return made if max(map(abs, made)) < LARGEST else None


class Fitter:
    """Polynomials through values at the traced points."""

    def __init__(self, axes, points, varies=True):
        # Those at which every step is traced, and all.
        self.usual, self.points = points, points
        self.terms, self.further = terms_of(axes, varies)
        self.plain, self.others = Candidate(self.terms, points), None
        self.known, self.polynomials = {}, []
        # Sizes that follow no polynomial; how far the nearest ones are off, and how many are held for want of one.
        self.unfit, self.off, self.held = [], 0.0, 0
        self.few = self.find_few()
        self.seen, self.seen_of = {}, 0
        self.recognised = {}
        self.columns, self.columns_of = [], None

    def widen(self, points):
        """Takes in further points, which tell further terms apart."""
        self.points = [*self.points, *points]
        self.plain, self.others = Candidate(self.terms, self.points), None

    def is_plain(self, values):
        """Whether a size is a sum of the usual terms, as a point that is left to check says."""
        return len(set(values)) == 1 or bool(self.plain.is_solved and self.plain.checks and self.plain.factors_of(values))

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
        made = self.plain.factors_of(values) if self.plain.is_solved else None
        # Where no point is left to check, whole factors do: what follows no polynomial has none.
        if made is not None and (self.plain.checks or made[0] == 1):
            return made
        return self.fit_further(values) or self.near(values)

    def fit_further(self, values):
        """A polynomial with further terms that at least one point checks; the terms join those of the tape."""
        if self.others is None:
            usual = self.plain.terms
            chosen = [[term] for term in self.further] + [list(pair) for pair in combinations(self.further, 2)]
            self.others = [(more, Candidate([*usual, *more], self.points)) for more in chosen if len(usual) + len(more) < len(self.points)]
        for more, candidate in self.others:
            made = candidate.factors_of(values) if candidate.is_solved else None
            if made is None or made[0] > SMALL:
                continue
            usual = len(self.plain.terms)
            laid = made[:usual + 1] + [0] * (len(self.terms) - usual)
            for term, factor in zip(more, made[usual + 1:]):
                if term not in self.terms:
                    self.terms = [*self.terms, term]
                    laid.append(0)
                laid[1 + self.terms.index(term)] = factor
            return laid
        return None

    def near(self, values):
        """The nearest polynomial of what grows in steps, as rows that are shared out; held at the last point where none is near."""
        self.unfit.append(len(self.polynomials))
        rows = [[value_of(term, point) for term in self.plain.terms] for point in self.points]
        columns = list(zip(*rows))
        if self.plain.is_solved and self.plain.checks:
            squares = inverse([[sum(map(mul, one, other)) for other in columns] for one in columns])
            towards = [sum(map(mul, column, values)) for column in columns]
            factors = [round(sum(map(mul, row, towards)) * PARTS) for row in squares]
            apart = [abs(sum(map(mul, factors, row)) / PARTS - value) for row, value in zip(rows, values)]
            if max(map(abs, factors)) < LARGEST and all(one <= max(1, NEAR * value) for one, value in zip(apart, values)):
                self.off = max([self.off, *(one / value for one, value in zip(apart, values) if value)])
                return [PARTS, *factors]
        self.held += 1
        return [1, values[-1]]

    def notes(self, axes):
        """What is said of sizes that follow no polynomial."""
        named, notes = " and ".join(axes), []
        if near := len(self.unfit) - self.held:
            notes.append(f"{near} sizes grow in steps: the nearest polynomials of {named} stand for them, off by {100 * self.off:.1f} % at "
                         "most where traced")
        if self.held:
            notes.append(f"{self.held} sizes follow no polynomial of {named}: held at {self.points[-1]}")
        return notes

    # Few points

    def find_few(self):
        """Three points, the last among them, that tell all terms apart; all where there are none."""
        count = len(self.points)
        lists = [[value_of(term, point) for point in self.points] for term in [*self.terms, *self.further[:1]]]
        for first, second in combinations(range(count - 1), 2):
            chosen = (first, second, count - 1)
            columns = [[column[at] for at in chosen] for column in lists]
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
        if self.columns_of != (len(self.terms), len(self.points)):
            self.columns_of = (len(self.terms), len(self.points))
            columns = [tuple(value_of(term, point) for point in self.points) for term in self.terms]
            self.columns = [(column, tuple(column[at] for at in self.few)) for column in columns]
        for (one, a), (two, b) in combinations(self.columns, 2):
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
