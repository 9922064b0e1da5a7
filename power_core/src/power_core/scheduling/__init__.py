"""Draft-width policies: how many tokens a round may draft."""

from power_core.scheduling.adaptive import AdaptiveScheduler
from power_core.scheduling.base import (
    Decision,
    DraftScheduler,
    OnDecision,
    RoundOutcome,
    bounded_draft_len,
    ignore_decision,
    minimum_batch_rows,
)
from power_core.scheduling.fixed import FixedScheduler
from power_core.scheduling.goodput import GoodputScheduler, SpeculationLedger
from power_core.scheduling.guarded import GuardedScheduler
from power_core.scheduling.source import SchedulerSource

__all__ = [
    "AdaptiveScheduler",
    "Decision",
    "DraftScheduler",
    "FixedScheduler",
    "GoodputScheduler",
    "GuardedScheduler",
    "OnDecision",
    "RoundOutcome",
    "SchedulerSource",
    "SpeculationLedger",
    "bounded_draft_len",
    "ignore_decision",
    "minimum_batch_rows",
]
