"""The K > S guard: one exact replay, then the width stays within the rollback window for the request."""

from __future__ import annotations

from power_core.scheduling.base import DraftScheduler, RoundOutcome


class GuardedScheduler:
    """Wraps a scheduler and clamps it for good after the first round whose rejected suffix exceeded the window.

    A rejected suffix equal to the window does not clamp. Source: power_reference.md section 3.3.

    Attributes:
        activated: True after the clamp.
    """

    def __init__(self, inner: DraftScheduler, rollback_rows: int) -> None:
        self._inner = inner
        self._rollback_rows = max(1, rollback_rows)
        self.activated = False

    @property
    def draft_limit(self) -> int:
        """The width after the clamp."""
        return self._rollback_rows

    def next_limit(self, remaining_tokens: int, remaining_context: int) -> int:
        """Return the inner limit, clamped once activated."""
        limit = self._inner.next_limit(remaining_tokens, remaining_context)
        return min(limit, self._rollback_rows) if self.activated else limit

    def observe(self, outcome: RoundOutcome) -> None:
        """Clamp when the rejected suffix exceeded the window; tell the inner scheduler."""
        if outcome.drafted_tokens - outcome.accepted_tokens > self._rollback_rows:
            self.activated = True
        self._inner.observe(outcome)
