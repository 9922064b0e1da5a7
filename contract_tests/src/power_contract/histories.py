"""Counts of what the histories of a run really reached. A history kind that was never reached proves nothing."""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias, get_args

Reached: TypeAlias = Literal["zero", "partial", "full", "rejected suffix over mutable state", "own drafts compared"]
REACHED: tuple[Reached, ...] = get_args(Reached)
MUTABLE: Reached = "rejected suffix over mutable state"
COMPARED: Reached = "own drafts compared"
"""Own drafts, at least one, were compared with those of a fresh drafter that was fed the committed tokens."""


class HistoryCounts:
    """Rounds by target kind and by how far the target accepted a non-empty proposal."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Reached]] = Counter()

    def __repr__(self) -> str:
        return "<counts>"

    def add(self, target_kind: str, *, accepted_tokens: int, proposed_tokens: int, mutable: bool) -> None:
        """Count one verified round; a round without a proposal counts as nothing."""
        if proposed_tokens == 0:
            return
        reached: Reached = "zero" if accepted_tokens == 0 else "partial"
        self._counts[target_kind, "full" if accepted_tokens == proposed_tokens else reached] += 1
        if mutable and accepted_tokens < proposed_tokens:
            self._counts[target_kind, MUTABLE] += 1

    def add_comparison(self, target_kind: str, drafts: int) -> None:
        """Count a comparison of the plugin's own drafts; one of no drafts counts as nothing."""
        self._counts[target_kind, COMPARED] += drafts > 0

    def table(self, target_kinds: tuple[str, ...]) -> dict[str, dict[str, int]]:
        """Return every count, the zeros too, by target kind."""
        return {kind: {reached: self._counts[kind, reached] for reached in REACHED} for kind in target_kinds}
