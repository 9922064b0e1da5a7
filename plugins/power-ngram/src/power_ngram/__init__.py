"""Drafts by looking the last tokens up in the prompt and in the output. Needs no weights."""

from power_ngram.config import NgramConfig, NgramPoolConfig

__all__ = ["NgramConfig", "NgramPoolConfig"]
