"""What every draft-width policy is made of: the protocol, what it learns, what it decides, the bounds it obeys.

Source: power_reference.md sections 2.2, 3.1; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

MOST_SLICE_ROWS = 65
"""The anchor and 64 drafts."""


def bounded_draft_len(wanted_tokens: int, remaining_tokens: int, remaining_context: int) -> int:
    """Return how many drafts fit: one emitted token is reserved for the correction or bonus."""
    if 0 <= wanted_tokens < remaining_tokens and wanted_tokens <= remaining_context:
        return wanted_tokens
    return max(0, min(wanted_tokens, remaining_tokens - 1, remaining_context))


def minimum_batch_rows(draft_max: int) -> int:
    """Return the smallest batch for K drafts: anchor, K drafts, and one row for the recurrent splitter."""
    return draft_max + 2


@attrs.frozen(kw_only=True)
class RoundOutcome:
    """What a committed round did and cost; a scheduler looks at what it needs.

    Attributes:
        asked_tokens: Drafts that were asked for; 0 in a round that did not draft.
        drafted_tokens: Drafts that were put up for verification, at most ``asked_tokens``.
        accepted_tokens: Drafts that the target confirmed, at most ``drafted_tokens``.
        draft_ns: Time of the drafter: saving its state, proposing, and taking in the committed rows.
        verify_ns: The rest of the round's time: evaluating, drawing, rolling back. What the state needed before it, a
            rebuild or a measurement of the probe, belongs to neither.
        target_calls: Native evaluations of the target: slices, and what a replay took.
        slice_rows: Most rows of one slice.
    """

    asked_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    draft_ns: int = 0
    verify_ns: int = 0
    target_calls: int = 1
    slice_rows: int = MOST_SLICE_ROWS


@attrs.frozen(kw_only=True)
class Decision:
    """A width that a scheduler chose, and why.

    Attributes:
        width_tokens: Most drafts from now on.
        reason: One word of docs/scheduling.md.
        expected_rate: Committed tokens per second that the choice rests on; None where none was computed.
        final: It holds for the rest of the request.
        without_drafter: Nor will the request, when it is resumed, draft again: the drafter needs no more rows.
    """

    width_tokens: int
    reason: str
    expected_rate: float | None = None
    final: bool = False
    without_drafter: bool = False


OnDecision: TypeAlias = Callable[[Decision], None]


def ignore_decision(decision: Decision) -> None:
    """Take no note of a decision."""


@runtime_checkable
class DraftScheduler(Protocol):
    """Decides the draft width of one request; never shared between requests."""

    def next_limit(self, remaining_tokens: int, remaining_context: int) -> int:
        """Most drafts for the next round, 0 for none; never more than ``bounded_draft_len`` allows."""
        ...

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn the outcome of a committed round, also of one that did not draft."""
        ...
