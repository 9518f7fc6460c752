# Which steps are late, and what makes them late: what healthy steps do not do.

# A step is late that takes this many times the usual one, and so many seconds more. Where steps differ by themselves it
# must take so many times longer than what lies between the usual step and the fastest ones: late steps do not move
# those, however many there are.
_LATE = 1.5
_SLACK = 0.005
_SHORT_SLACK = 0.01
_SPREAD = 3.0

# Step times that the usual one is worked out from, and how many it takes.
_TIMES = 63
_LEAST_TIMES = 8

# Late steps that are looked into closely: so many, and for so many seconds after one was, fewer where steps are short.
_SOUGHT = 30
_SOUGHT_FOR = 60.0
_SHORT_SOUGHT_FOR = 5.0
_SHORT_STEP = 0.005

# Late steps that are kept and told of: the newest, or those of the kept ones that are late by this share of the longest,
# where so many are and all at one place.
_KEPT_LATE = 30
_LONG_SHARE = 0.25
_LEAST_LONG = 3
_KEPT_SAMPLES = 512
_MOST_PLACES = 6
_MEMORY = 2400

# Healthy samples from which on it is known what healthy steps do, and the share of them that a place has which they do
# not have to speak of. Where there are fewer, what they do not do: chance alone would put so many late steps where none of
# them was with less than this probability.
_KNOWN_SAMPLES = 20
_UNLIKE = 0.02
_CHANCE = 5e-4


# Of two kinds of steps the slower ones may be late where a quarter of all or more are as they should be. They are so where
# they take this many times as long: less is what another micro batch or a second loss takes.
_FASTER = 4
_APART = 2.5


def _middle_half(ordered):
    """How far apart the middle half of some times lies."""
    return ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4]


class _LateSteps:
    """What is usual, what healthy steps do, and the steps that are late with where they were seen."""

    def __init__(self, stacks):
        self.stacks = stacks
        self.usual = self.median = None
        # Steps that were late, as the training thread noted them; samples with the times when they were due and taken.
        self.noted = []
        self.samples = []
        # Samples of steps that have not ended.
        self.pending = []
        self.collections = []
        # Of healthy steps: how often each place was seen, each function that work called, and their batches.
        self.healthy = 0
        self.shares = {}
        self.insides = {}
        self.batches = _Batches()
        self.late = []
        self.count = 0
        # Something is new since it was told.
        self.news = False
        # Late steps that were looked into closely, and the time of the newest one.
        self.sought = 0
        self.late_at = float("-inf")

    def note_late(self, step, took, ended):
        """Called in the training thread behind a step that was late."""
        if len(self.noted) < 64:
            self.noted.append((step, took, ended))

    def note_collection(self, began, ended, place):
        """Called in the training thread behind a collection of garbage that took long."""
        if len(self.collections) < 64:
            self.collections.append((began, ended, place))

    def learn_usual(self, hook):
        """Works out from the newest steps what is usual."""
        times = list(hook.times)
        ordered = sorted(took for took, _, _ in times)
        if len(ordered) < _LEAST_TIMES:
            return
        first, before = self.usual is None, self.usual
        self.median = ordered[len(ordered) // 2]
        self.usual, hook.late_s = self.late_from(self.usual_kind(times, ordered), ordered)
        if not first and self.is_another_phase(times, before):
            self.forget_healthy()
        if first:
            # Of the steps until now nobody knew that they were late.
            for took, step, ended in times:
                if took > hook.late_s:
                    self.note_late(step, took, ended)

    def is_another_phase(self, times, before):
        """Whether all of the newest steps are such as what is usual now, and far from what was `before`."""
        slower = self.usual > _LATE * before
        if not slower and before <= _LATE * self.usual:
            return False
        between = (self.usual * before) ** 0.5
        return all((took > between) == slower for took, _, _ in times[-_LEAST_TIMES:])

    def forget_healthy(self):
        """What steps of an earlier phase did says nothing of those of this one."""
        self.healthy, self.shares, self.insides, self.batches = 0, {}, {}, _Batches()

    def late_from(self, usual, ordered):
        """The usual one of some step times in order, and from when on a step is late."""
        middle = usual[len(usual) // 2]
        spread = middle - ordered[len(ordered) // 10]
        slack = _SHORT_SLACK if middle < _SHORT_STEP else _SLACK
        return middle, middle + max((_LATE - 1) * middle, _SPREAD * spread, slack)

    def usual_kind(self, times, ordered):
        """The times of the usual steps, in order: all of them, but where there are two kinds that lie far apart, and about as
        many or more of the slower one. Then it is the faster ones if the others take much longer and come between them,
        as late steps do. Else it is the slower ones: they are so by design, or another phase has begun."""
        gaps = [(ordered[at] - ordered[at - 1], at) for at in range(max(len(ordered) // _FASTER, 1), 3 * len(ordered) // 5 + 1)]
        gap, at = max(gaps)
        faster, slower = ordered[:at], ordered[at:]
        apart = max(_middle_half(faster), _middle_half(slower))
        if slower[0] <= self.late_from(faster, faster)[1] or gap <= _SPREAD * apart:
            return ordered
        late = [took >= slower[0] for took, _, _ in times]
        changes = sum(one != other for one, other in zip(late, late[1:]))
        # A run of faster ones is four steps long at most, on average.
        are_mixed = 2 * changes >= len(faster)
        return faster if are_mixed and slower[len(slower) // 2] >= _APART * faster[at // 2] else slower

    def is_short(self):
        return self.usual is not None and self.usual < _SHORT_STEP

    def seeks(self, now):
        """Whether steps were late lately, and not many were looked into closely."""
        lately = now - self.late_at <= (_SHORT_SOUGHT_FOR if self.is_short() else _SOUGHT_FOR)
        return self.usual is not None and self.sought < _SOUGHT and lately

    def add_sample(self, due, now, seen):
        """A sample that was due and taken at those times, with what was seen."""
        self.samples.append((due, now, *seen))
        if len(self.samples) > _KEPT_SAMPLES:
            del self.samples[: _KEPT_SAMPLES // 2]
        self.pending.append((now, *seen))

    def settle(self, last):
        """Samples of steps that have ended: healthy ones are counted, late ones belong to their step."""
        while self.noted:
            step, took, ended = self.noted.pop(0)
            self.late_step(step, took, ended)
        if self.usual is None:
            # Nobody knows yet which steps are late.
            del self.pending[:-_KEPT_SAMPLES]
            return
        rest = []
        for at, place, inside, batch in self.pending:
            if at > last:
                rest.append((at, place, inside, batch))
            elif not any(began <= at <= ended for _, began, ended, *_ in self.late):
                self.healthy += 1
                # Of work the line is enough.
                place = place if place[0] == "code" else (*place[:4], -1, False)
                self.shares[place] = self.shares.get(place, 0) + 1
                if inside is not None:
                    function = self.stacks.group(inside)
                    self.insides[function] = self.insides.get(function, 0) + 1
                if batch is not None:
                    self.batches.healthy(batch)
        self.pending = rest
        if self.healthy > _MEMORY:
            self.healthy //= 2
            self.shares = {place: count / 2 for place, count in self.shares.items() if count >= 2}
            self.insides = {function: count / 2 for function, count in self.insides.items() if count >= 2}

    def late_step(self, step, took, ended):
        self.count += 1
        # A step that is late after a long time is looked into like the first one.
        self.sought = 1 if ended - self.late_at > _SOUGHT_FOR else self.sought + 1
        self.late_at = ended
        began = ended - took
        seconds = self.seconds_between(began, ended)
        if not seconds:
            return
        # Lines of one function are one place: the line that most were seen at.
        together = {}
        for place, length in seconds.items():
            together.setdefault(self.stacks.group(place), []).append((length, place))
        # What takes more than it does in every step.
        def more(parts):
            return sum(length for length, _ in parts) - self.share(parts[0][1]) * self.usual

        most = max(together.values(), key=more)
        # Where it waits says more than where it was seen most.
        place = max(most, key=lambda part: (self.stacks.described(part[1])["activity"] == "synchronization", part[0]))[1]
        spent = sum(length for length, _ in most)
        inside = self.called_by_work(began, ended, spent) if _is_work(place) else None
        batch = self.largest_batch(began, ended) if _is_work(place) else None
        self.late.append((step, began, ended, place, inside, spent, batch))
        del self.late[:-_KEPT_LATE]
        self.news = True

    def called_by_work(self, began, ended, spent):
        """The script's function that work has called for most of the time."""
        seconds = {}
        for since, until, _, inside in self.sampled(began, ended):
            if inside is not None:
                parts = seconds.setdefault(self.stacks.group(inside), {})
                parts[inside] = parts.get(inside, 0.0) + until - since
        function = max(seconds, key=lambda function: sum(seconds[function].values()), default=None)
        if function is None or sum(seconds[function].values()) < spent / 2:
            return None
        return max(seconds[function], key=seconds[function].get)

    def largest_batch(self, began, ended):
        """The largest batch that a module was called with in a step, and the place of that call; none where it was never seen
        in one."""
        seen = [(batch, place) for _, at, place, _, batch in self.samples if began < at <= ended and batch is not None]
        return max(seen, key=lambda one: self.batches.times_larger(one[0]) or 0.0, default=None)

    def sampled(self, began, ended):
        """The samples between two moments with the time that each stands for. What lies between two is shared among them.
        One that comes after it was due stands for that time alone: the thread that trains kept it waiting, in a call that
        does not let go of Python's lock."""
        inner = [sample for sample in self.samples if began < sample[1] <= ended]
        parts, since = [], began
        for sample, following in zip(inner, inner[1:] + [None]):
            until = ended if following is None else (sample[1] + max(following[0], sample[1])) / 2
            parts.append((since, until, sample[2], sample[3]))
            since = until
        return parts

    def seconds_between(self, began, ended):
        """The time between two moments by places: garbage was collected, and samples stand for the time around them."""
        seconds = {}
        collected = [part for part in self.collections if part[1] > began and part[0] < ended]
        self.collections = [part for part in self.collections if part[0] >= ended]
        for since, until, place in collected:
            seconds[place] = seconds.get(place, 0.0) + min(until, ended) - max(since, began)
        for since, until, place, _ in self.sampled(began, ended):
            length = until - since
            for from_, to, _ in collected:
                length -= max(min(until, to) - max(since, from_), 0.0)
            if length > 0.0:
                seconds[place] = seconds.get(place, 0.0) + length
        return seconds

    def named(self, place, inside=None, batch=None):
        """What is said of a place in a late step. Work at a place where healthy steps do none is none of theirs: an
        evaluation where the model is in that mode, else code of the script. So is a function that work calls, `inside`,
        where healthy steps do not call it. Work on a larger batch takes longer, wherever it was seen."""
        kind, call, code, line, instruction, direct = place
        if not _is_work(place):
            return place
        if inside is not None:
            function = self.stacks.group(inside)
            here = sum(1 for late in self.late if late[4] is not None and self.stacks.group(late[4]) == function)
            if self.is_of_late_steps(self.insides.get(function, 0), here):
                return inside
        if place[0] in _WORK and batch is not None and self.batches.times_larger(batch[0]) is not None:
            return ("batch", "", *batch[1][2:])
        share = self.share(place)
        here = sum(1 for late in self.late if self.stacks.group(late[3]) == self.stacks.group(place))
        if not self.is_of_late_steps(share * self.healthy, here) or _is_library(code.co_filename):
            return ("forward", call, code, line, instruction, direct) if kind == "evaluating" else place
        if kind == "evaluating":
            return ("evaluation", "", code, line, instruction, direct)
        return ("code", "", code, line, instruction, direct)

    def is_of_late_steps(self, healthy, late):
        """Whether so many healthy samples and so many late steps at a place say that healthy steps are not there."""
        if self.healthy >= _KNOWN_SAMPLES:
            return healthy < _UNLIKE * self.healthy
        # Whatever share the place has of all steps, each as likely as any other: none of the healthy samples met it, and
        # that many of the late ones did.
        chance = 1.0
        for other in range(late):
            chance *= (len(self.late) - other) / (self.healthy + 2 + other)
        return healthy == 0 and chance < _CHANCE

    def told_late(self):
        """What the machine's other work makes late hides what is late by much more."""
        if self.usual is None or not self.late:
            return self.late
        late_by = [ended - began - self.usual for _, began, ended, *_ in self.late]
        long = [one for one, by in zip(self.late, late_by) if by >= _LONG_SHARE * max(late_by)]
        places = [self.named(place, inside, batch) for _, _, _, place, inside, _, batch in long]
        is_one = len({self.stacks.group(place) for place in places}) == 1 and not _is_work(places[0])
        return long if is_one and len(long) >= _LEAST_LONG else self.late

    def larger_batches(self, late):
        """How much larger than the usual ones the batches of late steps are, in words."""
        times = [self.batches.times_larger(batch[0]) for *_, batch in late if batch is not None]
        times = sorted(one for one in times if one is not None)
        return "a batch %.3g times as large" % times[len(times) // 2] if times else ""

    def together(self, late):
        """Late steps with what is said of them and the functions that it stands for. They are late at one place where
        they are in one function, or at one line of several: a line is that of a function and of what is written in it.
        Said is where most of the time went."""
        late = [(*one[:3], self.named(one[3], one[4], one[6]), one[5]) for one in late]
        lines = {}
        for *_, place, spent in late:
            function = lines.setdefault(self.stacks.group(place), {})
            function[place] = function.get(place, 0.0) + spent
        most = {function: max(spent, key=spent.get) for function, spent in lines.items()}
        alike = {}
        for function, place in most.items():
            alike.setdefault((place[0], place[2].co_filename, place[3]), []).append(function)
        said = {}
        for functions in alike.values():
            place = most[max(functions, key=lambda function: sum(lines[function].values()))]
            said.update((function, (place, functions)) for function in functions)
        told = []
        for step, began, ended, place, spent in late:
            place, functions = said[self.stacks.group(place)]
            told.append((step, began, ended, place, spent, functions))
        return told

    def share(self, place):
        """Of the time of healthy steps, what the same call from the same function takes."""
        return self.share_of(self.stacks.group(place))

    def share_of(self, same):
        count = sum(count for other, count in self.shares.items() if self.stacks.group(other) == same)
        return count / self.healthy if self.healthy else 0.0

    def most_of_healthy_steps(self):
        """The places where healthy steps are most, those first."""
        return [place for place, _ in sorted(self.shares.items(), key=lambda share: -share[1])[:_MOST_PLACES]]
