"""Drafts with external DFlash2 drafts."""

from power_dflash2.config import DEFAULT_DRAFT_MAX_TOKENS, STRATEGY

__all__ = ["DEFAULT_DRAFT_MAX_TOKENS", "STRATEGY"]
