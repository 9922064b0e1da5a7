"""Drafts with external DSpark drafts."""

from power_dspark.config import DEFAULT_DRAFT_MAX_TOKENS, STRATEGY

__all__ = ["DEFAULT_DRAFT_MAX_TOKENS", "STRATEGY"]
