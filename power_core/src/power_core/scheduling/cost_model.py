"""What rounds cost on this machine with this model: measured per size, robust to noise and drift, kept by the session.

A time is modelled as (pace now) x (cost of the size): the pace follows every round, whatever its width, so a longer
context or a busier machine moves the costs of widths that are not in use along with those that are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from power_core.scheduling.base import RoundOutcome

SURE_SAMPLES = 3
"""Samples from which a mean counts as known."""
SETTLED = 0.05
"""Share below the mean from which a sample is counted as the first: caches still filled, graphs were still built, and
what came before says little."""
STALL = 5.0
"""Times what was expected from which a round with too few samples is a stall (weights that are paged in, say)."""
MOST_SURPRISE_ROUNDS = 4.0
"""Plain rounds that a round with too few samples counts for at most: two slow ones leave credit to try again."""
DOUBT_ROUNDS = 64
"""Rounds after which a size with too few samples, and dear ones, counts as not measured: they may have been slow."""
DEAR = 2.0
"""Times the guess from sure sizes that such samples are."""
MOST_PACE_CHANGE = 1.5
"""Change of the pace since the last plain round from which plain rounds are measured again: not everything grows alike
with a longer context."""
LEAST_APART_ROUNDS = 96
"""Fewest rounds between two measurements for that reason."""
MOST_TRUST = 64
"""Samples that a mean weighs at most: it moves by at least a 64th of every new deviation."""
STALE_ROUNDS = 512
"""Rounds after which a size counts as not measured lately: its next sample replaces what was known of it, for what the
pace made of it meanwhile is a guess. Plain rounds are measured again then."""
PACE_WEIGHT = 0.2
"""Weight of the newest round in the pace."""
MOST_DEVIATION = 0.25
"""Most that one sample deviates from its mean, relative to it, so that outliers hardly move it."""
FIRST_SLOPE = 0.1
"""Growth per size that is assumed while one size is known, relative to its cost."""
CAUTION = 0.9
"""Where between the next smaller known cost (0) and the straight line (1) an unknown size is assumed to lie."""
CURIOUS_CAUTION = 0.5
"""The same once gains pay for finding out: costs may rise in steps, and a width just below one looks too dear."""
CURIOUS_DOUBT_ROUNDS = 16
CURIOUS_DEAR = 1.1
"""``DOUBT_ROUNDS`` and ``DEAR`` then: the first round of a new width is often a slow one."""


class CostCurve:
    """Cost by size (rows, or drafts asked for), from noisy samples.

    A size not seen yet lies between its known neighbours, nearer to the smaller one than the straight line would have
    it: a hopeful guess is tried and corrected by its first samples, a fearful one would never be.

    Attributes:
        curious: Whether unknown sizes are guessed hopefully, and doubtful ones soon again.
    """

    def __init__(self) -> None:
        self._means: dict[int, float] = {}
        self._trust: dict[int, int] = {}
        self._seen_at: dict[int, int] = {}
        self._now = 0
        self.curious = False

    def add(self, size: int, cost: float) -> None:
        """Take in one sample; one of a size that was not measured lately replaces what was known of it."""
        trust = self._trust_for_new(size)
        if trust < SURE_SAMPLES and cost < self.estimate(size) * (1.0 - SETTLED):
            trust, self._trust[size] = 0, 1
        if trust == 0:
            self._means[size] = cost
        else:
            self._means[size] += clipped(cost, self._means[size]) / (trust + 1)

    def skip_round(self) -> None:
        """Take in that a round had no sample: what is known grows older."""
        self._now += 1

    def shift(self, size: int, deviation: float) -> None:
        """Take in that a round with this size deviated from what was expected, relative to it."""
        self._means[size] *= 1.0 + deviation / (self._trust_for_new(size) + 1)

    def _trust_for_new(self, size: int) -> int:
        """Count a new sample and return how many are behind the mean."""
        trust = 0 if self._is_stale(size) else self._trust.get(size, 0)
        self._now += 1
        self._seen_at[size] = self._now
        self._trust[size] = min(MOST_TRUST, trust + 1)
        return trust

    def doubt(self, size: int) -> None:
        """Let a size count as not measured lately."""
        self._seen_at[size] = self._now - STALE_ROUNDS - 1

    def _is_stale(self, size: int) -> bool:
        return self._now - self._seen_at.get(size, 0) > STALE_ROUNDS

    def estimate(self, size: int) -> float:
        """Return the estimate of a size that was measured, 0 for any other."""
        return self._means.get(size, 0.0)

    def is_sure(self, size: int) -> bool:
        """Tell whether the size was measured often enough."""
        return self._trust.get(size, 0) >= SURE_SAMPLES

    def is_fresh(self, size: int) -> bool:
        """Tell whether the size was measured often enough, and lately."""
        return self.is_sure(size) and not self._is_stale(size)

    def table(self, first: int, last: int) -> list[float]:
        """Return the estimates of the sizes ``first`` to ``last``; zeros while nothing is known."""
        means, sizes = self._means, range(first, last + 1)
        sure = sorted(size for size, trust in self._trust.items() if trust >= SURE_SAMPLES)
        known = sure
        if len(sure) < len(means):
            known = sorted(size for size in means if size in sure or not self._is_doubtful(size, sure))
        if not known:
            return [0.0] * len(sizes)
        return [means[size] if size in known else self._between(size, known) for size in sizes]

    def _is_doubtful(self, size: int, sure: Sequence[int]) -> bool:
        """Tell whether a size with too few samples looks dear, and its last sample is long ago."""
        least, dear = (CURIOUS_DOUBT_ROUNDS, CURIOUS_DEAR) if self.curious else (DOUBT_ROUNDS, DEAR)
        rested = self._now - self._seen_at[size] >= least
        return rested and bool(sure) and self._means[size] > dear * self._between(size, sure)

    def guess(self, size: int) -> float:
        """Return the estimate of any size, 0 while nothing is known."""
        return self._means[size] if self.is_sure(size) else self.table(size, size)[0]

    def _between(self, size: int, known: Sequence[int]) -> float:
        at = bisect_right(known, size)
        if at == 0:
            return self._means[known[0]]
        low = known[at - 1]
        low_cost = self._means[low]
        if low == size:
            return low_cost
        if len(known) == 1:
            return low_cost * (1.0 + FIRST_SLOPE * (size - low))
        other = known[at] if at < len(known) else known[at - 2]
        slope = max(0.0, (self._means[other] - low_cost) / (other - low))
        return low_cost + (CURIOUS_CAUTION if self.curious else CAUTION) * slope * (size - low)


def clipped(sample: float, mean: float) -> float:
    """Return how far a sample lies from its mean, outliers cut."""
    most = MOST_DEVIATION * mean
    return max(-most, min(most, sample - mean))


class RoundCosts:
    """Cost of a round by drafts asked for and drafts verified, in slices as wide as the last round's.

    All costs are in nanoseconds at the pace of the first round; ``pace`` converts them to those of now.

    Attributes:
        pace: How much longer a round takes now.
    """

    def __init__(self, draft_max: int) -> None:
        self._draft_max = draft_max
        self._slice_rows = draft_max + 1
        self._draft = CostCurve()
        self._verify = CostCurve()
        self._stalled: set[int] = set()
        self._drafted_tokens = 0
        self._plain_pace = 1.0
        self._rounds_since_plain = 0
        self.pace = 1.0

    @property
    def baseline_known(self) -> bool:
        """Whether a round without drafts has been measured, lately and often enough."""
        return self._verify.is_fresh(1)

    @property
    def baseline(self) -> float:
        """Cost of a round without drafter: one row; 0 while unknown."""
        return self._verify.estimate(1)

    def learn(self, outcome: RoundOutcome) -> float:
        """Take in a round: the drafter's time by drafts asked for, the target's by rows of its slices.

        What a drafter that was not asked takes for its rows is no cost of a width: ``feeding_rounds`` tells it.
        Returns what the round counts for: its cost, outliers cut. A stall teaches nothing, once per number of drafts: a
        fearful first sample would never be corrected, for the width would not be tried again. Nor does a round without
        drafts after one with some: the library builds its graph anew then, which plain decoding never does.
        """
        self._slice_rows = min(outcome.slice_rows, self._draft_max + 1)
        full, rest = divmod(outcome.drafted_tokens + 1, self._slice_rows)
        calls = max(1, min(outcome.target_calls, full + (rest > 0)))
        full_calls, rest = min(calls, full), rest if calls > full else 0
        full_cost = full_calls * self._verify.guess(self._slice_rows) if full_calls else 0.0
        asked_tokens, draft_ns = outcome.asked_tokens, outcome.draft_ns if outcome.asked_tokens else 0
        expected = full_cost + (self._draft.guess(asked_tokens) if asked_tokens else 0.0)
        if rest:
            expected += self._verify.guess(rest)
        measured = (draft_ns + outcome.verify_ns) / self.pace
        new_shape = self._drafted_tokens > 0 and outcome.drafted_tokens == 0
        self._drafted_tokens = outcome.drafted_tokens
        self._doubt_plain_rounds(drafted=asked_tokens > 0)
        if not asked_tokens:
            self._draft.skip_round()
        if new_shape:
            return expected + clipped(measured, expected)
        if expected and self._is_sure(asked_tokens, full_calls, rest):
            return expected + self._follow(asked_tokens, full_calls, rest, measured, expected)
        if expected and measured > STALL * expected and asked_tokens not in self._stalled:
            self._stalled.add(asked_tokens)
            return min(STALL * expected, self._most_surprise())
        if asked_tokens:
            self._draft.add(asked_tokens, draft_ns / self.pace)
        if rest:
            self._verify.add(rest, max(0.0, outcome.verify_ns / self.pace - full_cost))
        else:
            self._verify.add(self._slice_rows, outcome.verify_ns / self.pace / calls)
        return min(measured, self._most_surprise()) if self.baseline_known else measured

    def _follow(self, asked_tokens: int, full_calls: int, rest_rows: int, measured: float, expected: float) -> float:
        """Move the pace, and all that the round was made of by the same share; return by how much it deviated.

        Pace and costs see one and the same deviation: with two of different means they would drift apart for ever.
        """
        deviation = clipped(measured, expected)
        share = deviation / expected
        self.pace *= 1.0 + PACE_WEIGHT * share
        if asked_tokens:
            self._draft.shift(asked_tokens, share)
        if full_calls:
            self._verify.shift(self._slice_rows, share)
        if rest_rows:
            self._verify.shift(rest_rows, share)
        return deviation

    def _doubt_plain_rounds(self, *, drafted: bool) -> None:
        """Have plain rounds measured again when the pace changed much without one."""
        self._rounds_since_plain += 1
        if not drafted:
            self._plain_pace, self._rounds_since_plain = self.pace, 0
        change = max(self.pace, self._plain_pace) / min(self.pace, self._plain_pace)
        if self._rounds_since_plain >= LEAST_APART_ROUNDS and change >= MOST_PACE_CHANGE:
            self._rounds_since_plain = 0
            self._verify.doubt(1)

    def feeding_rounds(self, outcome: RoundOutcome) -> float:
        """Return what the drafter took of a round without drafts, in plain rounds; 0 while those are unknown."""
        return outcome.draft_ns / self.pace / self.baseline if self.baseline_known and self.baseline else 0.0

    def be_curious(self, curious: bool) -> None:
        """Guess unknown widths hopefully or with caution."""
        self._draft.curious = self._verify.curious = curious

    def _most_surprise(self) -> float:
        return MOST_SURPRISE_ROUNDS * self.baseline

    def _is_sure(self, asked_tokens: int, full_calls: int, rest_rows: int) -> bool:
        """Tell whether every part of such a round was measured lately and often enough to judge the pace by it."""
        return (
            (not asked_tokens or self._draft.is_fresh(asked_tokens))
            and (not full_calls or self._verify.is_fresh(self._slice_rows))
            and (not rest_rows or self._verify.is_fresh(rest_rows))
        )

    def draft_table(self) -> list[float]:
        """Return the drafter's cost by drafts asked for, 0 to K; none for 0, for a drafter may be left out."""
        return [0.0, *self._draft.table(1, self._draft_max)]

    def verify_table(self, reach: Sequence[float]) -> list[float]:
        """Return the target's expected cost by drafts put up for verification, 0 to K.

        A slice is evaluated if everything before it was accepted: ``reach[i]`` is the probability that the first i
        drafts are, ``reach[0]`` = 1.
        """
        rows_cost = [0.0, *self._verify.table(1, self._slice_rows)]
        table, full_cost = [], 0.0
        for drafted in range(self._draft_max + 1):
            in_slice = drafted % self._slice_rows + 1
            table.append(full_cost + reach[drafted + 1 - in_slice] * rows_cost[in_slice])
            if in_slice == self._slice_rows:
                full_cost = table[-1]
        return table
