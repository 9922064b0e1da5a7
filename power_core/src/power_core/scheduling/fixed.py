"""The same width every round."""

from __future__ import annotations

from power_core.scheduling.base import RoundOutcome, bounded_draft_len


class FixedScheduler:
    """Always asks for K drafts, within the budget and the context."""

    def __init__(self, draft_max: int) -> None:
        self._draft_max = draft_max

    def next_limit(self, remaining_tokens: int, remaining_context: int) -> int:
        """Return K bounded by what is left."""
        return bounded_draft_len(self._draft_max, remaining_tokens, remaining_context)

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn nothing."""
