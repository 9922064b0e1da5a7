"""The scheduler protocol and the bounds every policy obeys. Source: power_reference.md sections 2.2, 3.1."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


def bounded_draft_len(wanted_tokens: int, remaining_tokens: int, remaining_context: int) -> int:
    """Return how many drafts fit: one emitted token is reserved for the correction or bonus."""
    return max(0, min(wanted_tokens, remaining_tokens - 1, remaining_context))


def minimum_batch_rows(draft_max: int) -> int:
    """Return the smallest batch for K drafts: anchor, K drafts, and one row for the recurrent splitter."""
    return draft_max + 2


@runtime_checkable
class DraftScheduler(Protocol):
    """Decides the draft width of one request; never shared between requests."""

    def next_limit(self, remaining_tokens: int, remaining_context: int) -> int:
        """Most drafts for the next round, 0 for none."""
        ...

    def observe(self, accepted_tokens: int, drafted_tokens: int) -> None:
        """Learn the outcome of a round that drafted."""
        ...
