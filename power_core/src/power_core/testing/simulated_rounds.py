"""Rounds without a model: a cost curve, an acceptance pattern and a scheduler give time and tokens, always the same.

The pattern decides per token of the output whether a draft of it would be right, so schedulers of any width are judged
on the same text.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import attrs

from power_core.deferred_feeding import MOST_OWED_ROWS
from power_core.scheduling import Decision, FixedScheduler, OnDecision, RoundOutcome, SchedulerSource, ignore_decision

Acceptance: TypeAlias = Callable[[int, int], float]
"""Probability that a draft of output token ``index`` is right as the ``position``-th of its block, counted from 0."""


@attrs.frozen(kw_only=True)
class Machine:
    """What rounds cost.

    Attributes:
        verify_ms: Milliseconds of one evaluation by rows; rows between two entries cost what the straight line says.
        draft_ms: Milliseconds of the drafter: fixed part of a proposal, and per draft asked for.
        feed_ms: Milliseconds in which the drafter takes in the rows of one round.
        owed_ms: Milliseconds per row of rounds that did not draft, handed over before the next draft, or 64 at a time.
        start_ms: What the first rounds of a session take beyond their cost, one after another.
        first_draft_ms: What the first proposal takes beyond its cost.
        change_ms: What the first rounds after a change of the number of drafts take beyond their cost.
        slice_rows: Rows per verification slice.
        noise: Relative standard deviation of every time.
        growth: Relative growth of every time per 1000 tokens of output.
    """

    verify_ms: Mapping[int, float]
    draft_ms: tuple[float, float] = (0.3, 0.0)
    feed_ms: float = 0.0
    owed_ms: float = 0.0
    start_ms: Sequence[float] = ()
    first_draft_ms: float = 0.0
    change_ms: Sequence[float] = ()
    slice_rows: int = 8
    noise: float = 0.0
    growth: float = 0.0

    def without_drafter(self) -> Machine:
        """Return the machine with nobody who takes in rows: what ``off`` runs on."""
        return attrs.evolve(self, feed_ms=0.0, owed_ms=0.0)

    def verify_at(self, rows: int) -> float:
        """Return the milliseconds of one evaluation of ``rows`` rows."""
        below = max(size for size in self.verify_ms if size <= rows)
        if below == rows:
            return self.verify_ms[rows]
        above = min(size for size in self.verify_ms if size > rows)
        share = (rows - below) / (above - below)
        return (1 - share) * self.verify_ms[below] + share * self.verify_ms[above]


@attrs.frozen(kw_only=True)
class SimulatedRun:
    """Totals of one run. ``widths`` counts rounds by drafts asked for; ``request_ms`` are the times of its requests."""

    tokens: int
    time_ms: float
    widths: Mapping[int, int]
    request_ms: Sequence[float]

    @property
    def tokens_per_second(self) -> float:
        """Tokens over simulated time."""
        return 1000.0 * self.tokens / self.time_ms


def simulate(
    source: SchedulerSource,
    machine: Machine,
    acceptance: Acceptance,
    *,
    requests: int = 1,
    tokens_per_request: int = 2000,
    proposes: Callable[[int], bool] = lambda index: True,
    seed: int = 0,
    on_decision: OnDecision = ignore_decision,
) -> SimulatedRun:
    """Run requests one after another and return time and tokens.

    Args:
        source: Opens the scheduler of every request, as a session does.
        machine: Costs.
        acceptance: Of drafts; indices go on from one request to the next.
        requests: How many.
        tokens_per_request: Budget of each.
        proposes: Whether the drafter proposes anything at an output token; it then proposes all that is asked for.
        seed: Of text and noise.
        on_decision: Called with every change of the width.
    """
    draws = random.Random(seed)
    luck = [draws.random() for _ in range(requests * tokens_per_request + 256)]
    clock = _Clock(machine, random.Random(seed + 1))
    widths: Counter[int] = Counter()
    ends_ms = [0.0]

    def decide(decision: Decision) -> None:
        clock.drafter_left_out |= decision.without_drafter
        on_decision(decision)

    for request in range(requests):
        clock.drafter_left_out = not source.drafts_in_next_request()
        scheduler = FixedScheduler(0) if clock.drafter_left_out else source.open(decide)
        done, end = request * tokens_per_request, (request + 1) * tokens_per_request
        while done < end:
            asked = scheduler.next_limit(end - done, 1 << 20)
            drafted = asked if proposes(done) else 0
            accepted = _accepted(luck, acceptance, done, drafted)
            scheduler.observe(clock.round(asked, drafted, accepted, done))
            widths[asked] += 1
            done += accepted + 1
        ends_ms.append(clock.total_ns / 1e6)
    request_ms = [end - begin for begin, end in pairwise(ends_ms)]
    return SimulatedRun(
        tokens=requests * tokens_per_request, time_ms=ends_ms[-1], widths=dict(widths), request_ms=request_ms
    )


def _accepted(luck: Sequence[float], acceptance: Acceptance, index: int, drafted: int) -> int:
    for position in range(drafted):
        if luck[index + position] >= acceptance(index + position, position):
            return position
    return drafted


class _Clock:
    """Adds up what rounds cost, with noise.

    Attributes:
        drafter_left_out: The drafter gets no more rows.
    """

    def __init__(self, machine: Machine, rng: random.Random) -> None:
        self._machine = machine
        self._rng = rng
        self._rounds = 0
        self._drafted_before = False
        self._owed_rows = 0
        self._last_drafts = 0
        self._unchanged_rounds = len(machine.change_ms)
        self.drafter_left_out = False
        self.total_ns = 0

    def round(self, asked: int, drafted: int, accepted: int, index: int) -> RoundOutcome:
        machine, rows, calls = self._machine, drafted + 1, 0
        verify_ms = self._unusual_ms(drafted)
        for start in range(0, rows, machine.slice_rows):
            if start <= accepted:
                calls += 1
                verify_ms += machine.verify_at(min(machine.slice_rows, rows - start))
        draft_ns, verify_ns = self._spend(self._draft_ms(asked), index), self._spend(verify_ms, index)
        return RoundOutcome(
            asked_tokens=asked,
            drafted_tokens=drafted,
            accepted_tokens=accepted,
            draft_ns=draft_ns,
            verify_ns=verify_ns,
            target_calls=calls,
            slice_rows=machine.slice_rows,
        )

    def _unusual_ms(self, drafted: int) -> float:
        """Return what the start of the session and a change of shapes add."""
        machine = self._machine
        self._unchanged_rounds = 0 if drafted != self._last_drafts else self._unchanged_rounds + 1
        self._last_drafts = drafted
        self._rounds += 1
        return sum(
            extra_ms[at]
            for extra_ms, at in ((machine.start_ms, self._rounds - 1), (machine.change_ms, self._unchanged_rounds))
            if at < len(extra_ms)
        )

    def _draft_ms(self, asked: int) -> float:
        machine, draft_ms = self._machine, self._machine.feed_ms
        if self.drafter_left_out:
            return 0.0
        if asked or self._owed_rows == MOST_OWED_ROWS:
            draft_ms += machine.owed_ms * self._owed_rows
            self._owed_rows = 0
        if not asked:
            self._owed_rows += 1
            return draft_ms
        fixed_ms, each_ms = machine.draft_ms
        first_ms = 0.0 if self._drafted_before else machine.first_draft_ms
        self._drafted_before = True
        return draft_ms + fixed_ms + each_ms * asked + first_ms

    def _spend(self, milliseconds: float, index: int) -> int:
        machine = self._machine
        noise = max(0.5, self._rng.gauss(1.0, machine.noise)) if machine.noise else 1.0
        spent_ns = int(1e6 * milliseconds * noise * (1.0 + machine.growth * index / 1000))
        self.total_ns += spent_ns
        return spent_ns
