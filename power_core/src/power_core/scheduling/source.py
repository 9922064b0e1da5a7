"""One scheduler per request, and what they hand on to each other within a session."""

from __future__ import annotations

from power_core.scheduling.adaptive import AdaptiveScheduler
from power_core.scheduling.base import DraftScheduler, OnDecision
from power_core.scheduling.fixed import FixedScheduler
from power_core.scheduling.goodput import GoodputScheduler, SpeculationLedger
from power_core.scheduling.guarded import GuardedScheduler


class SchedulerSource:
    """Opens the schedulers of a session.

    Args:
        name: ``fixed``, ``adaptive`` or ``goodput``.
        draft_max: K; 0 without a strategy, and then nothing is decided.
        draft_min: Fewest drafts worth verifying.
        rollback_tokens: S, drafts that may be rejected without a replay.
        guard_rows: Rollback window when a block may exceed it; every scheduler is wrapped by the guard then.
    """

    def __init__(
        self, name: str, *, draft_max: int, draft_min: int = 0, rollback_tokens: int, guard_rows: int | None = None
    ) -> None:
        self._name = name if draft_max else "fixed"
        self._draft_max = draft_max
        self._draft_min = draft_min
        self._rollback_tokens = rollback_tokens
        self._guard_rows = guard_rows
        self._ledger = SpeculationLedger(draft_max)

    def open(self, on_decision: OnDecision) -> DraftScheduler:
        """Return the scheduler of a new request; it calls ``on_decision`` with every change of the width."""
        scheduler = self._unguarded(on_decision)
        return scheduler if self._guard_rows is None else GuardedScheduler(scheduler, self._guard_rows)

    def drafts_in_next_request(self) -> bool:
        """Tell whether the next request needs the drafter at all; call it once a request."""
        return self._name != "goodput" or self._ledger.drafts_in_next_request()

    def _unguarded(self, on_decision: OnDecision) -> DraftScheduler:
        if self._name == "adaptive":
            narrowest = max(1, self._draft_min)
            return AdaptiveScheduler(
                draft_max=self._draft_max,
                draft_min=narrowest,
                rollback_tokens=max(narrowest, self._rollback_tokens),
                on_decision=on_decision,
            )
        if self._name == "goodput":
            return GoodputScheduler(self._ledger, draft_min=self._draft_min, on_decision=on_decision)
        return FixedScheduler(self._draft_max)
