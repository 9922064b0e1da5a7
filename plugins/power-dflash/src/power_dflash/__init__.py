"""Drafts with external DFlash drafts."""

from power_dflash.config import DEFAULT_DRAFT_MAX_TOKENS, STRATEGY

__all__ = ["DEFAULT_DRAFT_MAX_TOKENS", "STRATEGY"]
