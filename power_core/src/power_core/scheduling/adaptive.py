"""The request-local controller: widths follow what was accepted, with few changes of shape.

Source: power_reference.md section 3.4 (the last published version). docs/scheduling.md has the rules in words.
"""

from __future__ import annotations

import math
from collections import deque

from power_core.scheduling.base import Decision, OnDecision, RoundOutcome, bounded_draft_len, ignore_decision

MEAN_WEIGHT = 0.35
"""Weight of the newest round in the running mean of accepted drafts."""
WINDOW_ROUNDS = 12
"""Drafting rounds that the target-only rule looks back on."""
MIN_ACCEPTED_PER_ROUND = 0.75
"""Mean yield of a full window below which drafting may end."""


class AdaptiveScheduler:
    """Starts at min(K, S), opens K or closes it after the first round, then grows, keeps or shrinks the width.

    Sustained low yield ends drafting for the rest of the request.

    Args:
        draft_max: K, at least 1.
        draft_min: Narrowest width, from 1 to ``rollback_tokens``.
        rollback_tokens: S, drafts that may be rejected without a replay; more than K counts as K.
        on_decision: Called with every change of the width.

    Attributes:
        cap_tokens: Widest width still allowed: K, or S once the wide path is closed.
        guard_round: Drafting round whose rejected suffix exceeded S, None so far.
        target_only_round: Drafting round after which drafting ended, None so far.
    """

    def __init__(
        self, *, draft_max: int, draft_min: int, rollback_tokens: int, on_decision: OnDecision = ignore_decision
    ) -> None:
        self._rollback_tokens = min(draft_max, rollback_tokens)
        self._narrowest = max(1, draft_min)
        assert 1 <= self._narrowest <= self._rollback_tokens
        self._on_decision = on_decision
        self._width = self._rollback_tokens
        self._rounds = 0
        self._mean = 0.0
        self._window: deque[int] = deque(maxlen=WINDOW_ROUNDS)
        self.cap_tokens = draft_max
        self.guard_round: int | None = None
        self.target_only_round: int | None = None
        on_decision(Decision(width_tokens=self._width, reason="start"))

    @property
    def width_tokens(self) -> int:
        """The width before budget and context; 0 once drafting has ended."""
        return 0 if self.target_only_round is not None else self._width

    def next_limit(self, remaining_tokens: int, remaining_context: int) -> int:
        """Return the width bounded by what is left."""
        return bounded_draft_len(self.width_tokens, remaining_tokens, remaining_context)

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn from a round that drafted; others say nothing about the drafter."""
        drafted = outcome.drafted_tokens
        if drafted == 0 or self.target_only_round is not None:
            return
        accepted = min(outcome.accepted_tokens, drafted)
        self._rounds += 1
        before = self._width
        closed = self._close(drafted - accepted)
        self._remember(accepted)
        self._width, resized = self._resized(accepted, drafted)
        if closed or self._width != before:
            self._on_decision(Decision(width_tokens=self._width, reason=closed or resized))
        self._end_if_low()

    def _close(self, rejected: int) -> str:
        """Lower the cap to S for good, after a rejection beyond S or a first round that was not fully accepted."""
        oversized = rejected > self._rollback_tokens
        if self.cap_tokens == self._rollback_tokens or not (oversized or (self._rounds == 1 and rejected)):
            return ""
        if oversized:
            self.guard_round = self._rounds
        self.cap_tokens = self._rollback_tokens
        self._width = min(self._width, self.cap_tokens)
        return "guard" if oversized else "closed"

    def _remember(self, accepted: int) -> None:
        self._window.append(accepted)
        if self._rounds == 1:
            self._mean = float(accepted)
        else:
            self._mean = MEAN_WEIGHT * accepted + (1.0 - MEAN_WEIGHT) * self._mean

    def _resized(self, accepted: int, drafted: int) -> tuple[int, str]:
        if accepted == 0:
            return max(self._narrowest, math.ceil(self._width / 2)), "zero"
        if accepted == drafted:
            opened = self._rounds == 1 and self.cap_tokens > self._rollback_tokens
            return (self.cap_tokens, "opened") if opened else (min(self._width + 1, self.cap_tokens), "full")
        if 2 * accepted >= drafted:
            return self._width, "healthy"
        return max(self._narrowest, min(math.ceil(self._mean) + 1, self.cap_tokens)), "partial"

    def _end_if_low(self) -> None:
        window = self._window
        mostly_zero = 2 * window.count(0) >= WINDOW_ROUNDS
        if len(window) == WINDOW_ROUNDS and sum(window) < MIN_ACCEPTED_PER_ROUND * WINDOW_ROUNDS and mostly_zero:
            self.target_only_round = self._rounds
            self._on_decision(Decision(width_tokens=0, reason="target-only", final=True))
