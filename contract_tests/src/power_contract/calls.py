"""Watches what a session asks of its target and of its schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from power_core.scheduling import DraftScheduler, OnDecision, RoundOutcome, SchedulerSource
from power_core.target import TargetContext


class Evaluations:
    """Evaluations of a context: for each the positions of its rows."""

    def __init__(self) -> None:
        self.positions: list[range] = []

    def widest_after(self, first_pos: int) -> int:
        """Return the most rows of one sequence that were evaluated at once, from a position on."""
        return max(len(each) for each in self.positions if each.start >= first_pos)

    @property
    def highest_pos(self) -> int:
        """The highest position that a row was evaluated at."""
        return max(each[-1] for each in self.positions)


@contextmanager
def watched_evaluations(context: TargetContext) -> Iterator[Evaluations]:
    """Watch the evaluations of this context; others of its class go unnoticed."""
    seen, kind = Evaluations(), type(context)
    evaluate = kind.evaluate

    def evaluate_and_note(self: TargetContext, sequences: Any, **keywords: Any) -> None:
        evaluate(self, sequences, **keywords)
        if self is context:
            seen.positions += [range(rows.start_pos, rows.start_pos + len(rows.tokens)) for rows in sequences]

    with patch.object(kind, "evaluate", evaluate_and_note):
        yield seen


class WatchedScheduler:
    """Passes every call on and keeps what the scheduler was told (``DraftScheduler``)."""

    def __init__(self, inner: DraftScheduler, outcomes: list[RoundOutcome]) -> None:
        self._inner = inner
        self._outcomes = outcomes

    def next_limit(self, remaining_tokens: int, remaining_context: int) -> int:
        return self._inner.next_limit(remaining_tokens, remaining_context)

    def observe(self, outcome: RoundOutcome) -> None:
        """Note the outcome and pass it on."""
        self._outcomes.append(outcome)
        self._inner.observe(outcome)


@contextmanager
def watched_schedulers() -> Iterator[list[RoundOutcome]]:
    """Watch the schedulers of every session; yield what they were told, in order."""
    outcomes: list[RoundOutcome] = []
    opened = SchedulerSource.open

    def open_watched(self: SchedulerSource, on_decision: OnDecision) -> DraftScheduler:
        return WatchedScheduler(opened(self, on_decision), outcomes)

    with patch.object(SchedulerSource, "open", open_watched):
        yield outcomes
