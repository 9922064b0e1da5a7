"""Counts the evaluations of one target's context, whoever asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from power_core.target import TargetContext


class Evaluations:
    """Evaluations of a context: for each the positions of its rows."""

    def __init__(self) -> None:
        self.positions: list[range] = []

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
