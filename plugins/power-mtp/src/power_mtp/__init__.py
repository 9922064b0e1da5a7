"""Drafts with the multi-token-prediction (MTP) heads that a target carries in its own file."""

from power_mtp.config import MtpConfig

__all__ = ["MtpConfig"]
