"""Rounds without a model: a cost curve, an acceptance pattern and a scheduler give time and tokens, always the same.

The pattern decides per token of the output whether a draft of it would be right, so schedulers of any width are judged
on the same text.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from power_core.scheduling import DraftScheduler, RoundOutcome

Acceptance: TypeAlias = Callable[[int, int], float]
"""Probability that a draft of output token ``index`` is right as the ``position``-th of its block, counted from 0."""


@attrs.frozen(kw_only=True)
class Machine:
    """What rounds cost.

    Attributes:
        verify_ms: Milliseconds of one evaluation by rows; rows between two entries cost what the straight line says.
        draft_ms: Milliseconds of the drafter: fixed part of a proposal, and per draft asked for.
        feed_ms: Milliseconds in which the drafter takes in the rows of one round.
        slice_rows: Rows per verification slice.
        noise: Relative standard deviation of every time.
        growth: Relative growth of every time per 1000 tokens of output.
    """

    verify_ms: Mapping[int, float]
    draft_ms: tuple[float, float] = (0.3, 0.0)
    feed_ms: float = 0.0
    slice_rows: int = 8
    noise: float = 0.0
    growth: float = 0.0

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
    """Totals of one run. ``widths`` counts rounds by drafts asked for."""

    tokens: int
    time_ms: float
    widths: Mapping[int, int]

    @property
    def tokens_per_second(self) -> float:
        """Tokens over simulated time."""
        return 1000.0 * self.tokens / self.time_ms


def simulate(
    open_scheduler: Callable[[], DraftScheduler],
    machine: Machine,
    acceptance: Acceptance,
    *,
    requests: int = 1,
    tokens_per_request: int = 2000,
    proposes: Callable[[int], bool] = lambda index: True,
    seed: int = 0,
) -> SimulatedRun:
    """Run requests one after another and return time and tokens.

    Args:
        open_scheduler: Called once per request.
        machine: Costs.
        acceptance: Of drafts; indices go on from one request to the next.
        requests: How many.
        tokens_per_request: Budget of each.
        proposes: Whether the drafter proposes anything at an output token; it then proposes all that is asked for.
        seed: Of text and noise.
    """
    draws = random.Random(seed)
    luck = [draws.random() for _ in range(requests * tokens_per_request + 256)]
    clock = _Clock(machine, random.Random(seed + 1))
    widths: Counter[int] = Counter()
    for request in range(requests):
        scheduler = open_scheduler()
        done, end = request * tokens_per_request, (request + 1) * tokens_per_request
        while done < end:
            asked = scheduler.next_limit(end - done, 1 << 20)
            drafted = asked if proposes(done) else 0
            accepted = _accepted(luck, acceptance, done, drafted)
            scheduler.observe(clock.round(asked, drafted, accepted, done))
            widths[asked] += 1
            done += accepted + 1
    return SimulatedRun(tokens=requests * tokens_per_request, time_ms=clock.total_ns / 1e6, widths=dict(widths))


def _accepted(luck: Sequence[float], acceptance: Acceptance, index: int, drafted: int) -> int:
    for position in range(drafted):
        if luck[index + position] >= acceptance(index + position, position):
            return position
    return drafted


class _Clock:
    """Adds up what rounds cost, with noise."""

    def __init__(self, machine: Machine, rng: random.Random) -> None:
        self._machine = machine
        self._rng = rng
        self.total_ns = 0

    def round(self, asked: int, drafted: int, accepted: int, index: int) -> RoundOutcome:
        machine, rows, calls, verify_ms = self._machine, drafted + 1, 0, 0.0
        for start in range(0, rows, machine.slice_rows):
            if start <= accepted:
                calls += 1
                verify_ms += machine.verify_at(min(machine.slice_rows, rows - start))
        fixed_ms, each_ms = machine.draft_ms
        draft_ms = machine.feed_ms + (fixed_ms + each_ms * asked if asked else 0.0)
        draft_ns, verify_ns = self._spend(draft_ms, index), self._spend(verify_ms, index)
        return RoundOutcome(
            asked_tokens=asked,
            drafted_tokens=drafted,
            accepted_tokens=accepted,
            draft_ns=draft_ns,
            verify_ns=verify_ns,
            target_calls=calls,
            slice_rows=machine.slice_rows,
        )

    def _spend(self, milliseconds: float, index: int) -> int:
        machine = self._machine
        noise = max(0.5, self._rng.gauss(1.0, machine.noise)) if machine.noise else 1.0
        spent_ns = int(1e6 * milliseconds * noise * (1.0 + machine.growth * index / 1000))
        self.total_ns += spent_ns
        return spent_ns
