"""Draft-width policies: how many tokens a round may draft."""

from power_core.scheduling.base import DraftScheduler, bounded_draft_len, minimum_batch_rows
from power_core.scheduling.fixed import FixedScheduler
from power_core.scheduling.guarded import GuardedScheduler

__all__ = ["DraftScheduler", "FixedScheduler", "GuardedScheduler", "bounded_draft_len", "minimum_batch_rows"]
