"""The margin guard: near-ties that other arithmetic could decide otherwise are decided again by single rows.

A row that is computed with others differs from the same row alone by some noise in its logits. The largest logit stays
the largest unless the noise exceeds the margin to the second one. The probe measures the noise, a calibrated multiple
of it is the margin below which a choice is not trusted. What the guard cannot see is noise that earlier rows left in
the memory; ``benchmarks/margin_guard.py`` measures how often a choice differs from plain decoding all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from power_core.cache_state import Checkpoint
from power_core.report import Report
from power_core.sequence import BlockRows, TargetSequence
from power_core.tokens import TokenId

NOISE_MULTIPLE = 2.0
"""Margins below this many times the largest measured difference are near-ties: each of two logits may be off by it.

How often choices differ all the same, and what other multiples cost, stands in docs/exactness.md.
"""


def margin(logits: NDArray[np.float32]) -> float:
    """Return how far the largest logit is above the second one, 0 for a tie, infinity for a vocabulary of one."""
    first = int(logits.argmax())
    rest = [part.max() for part in (logits[:first], logits[first + 1 :]) if part.size]
    return float(logits[first] - max(rest)) if rest else float("inf")


class GuardedRows(BlockRows):
    """Rows of a block whose near-ties are decided by single rows.

    A row inside a wider slice whose margin is below ``threshold`` is not drawn from: the memory goes back to the last
    committed state, the block's rows up to this one are evaluated one by one, and the draw is made there. Decisions on
    rows before it stand. The rows after it continue in slices.

    Attributes:
        guarded_rows: Rows that were decided again.
        guard_calls: Target calls that this took; they count as ``calls`` too.
        guard_ns: Nanoseconds spent on margins and on deciding again; the latter count as ``evaluate_ns`` too.
    """

    def __init__(
        self,
        sequence: TargetSequence,
        tokens: Sequence[TokenId],
        draw: Callable[[int], TokenId],
        *,
        threshold: float,
        checkpoint: Checkpoint | None,
    ) -> None:
        super().__init__(sequence, tokens, draw)
        self._threshold = threshold
        self._checkpoint = checkpoint
        self.guarded_rows = 0
        self.guard_calls = 0
        self.guard_ns = 0

    def sample(self, row: int) -> TokenId:
        """Draw the target's token at ``row``, evaluating it first, and again where its margin is too small."""
        if row >= self.evaluated_rows:
            self._evaluate_slice(row)
        started_ns = time.perf_counter_ns()
        if self.evaluated_rows - self._slice_start > 1:
            logits = self._sequence.context.logits(row - self._slice_start)
            if margin(logits) < self._threshold:
                self._evaluate_singly(row)
        self.guard_ns += time.perf_counter_ns() - started_ns
        return self._draw(row - self._slice_start)

    def add_to(self, report: Report, elapsed_ns: int) -> None:
        """Count the guard's part as well."""
        super().add_to(report, elapsed_ns)
        report.guarded_rows += self.guarded_rows
        report.guard_calls += self.guard_calls
        report.timings_ns.guard += self.guard_ns

    def _evaluate_singly(self, row: int) -> None:
        calls = self.calls
        self._start_over(self._checkpoint)
        for index in range(row + 1):
            self._evaluate_rows(index, 1)
        self.guarded_rows += 1
        self.guard_calls += self.calls - calls
