"""Samplers whose draws can be counted, or whose history is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from power_core.sampler import SamplingSettings
from power_core.target import TargetContext
from power_core.tokens import TokenId

TOP_K = 5
PENALTY = 2.0


class CountingSampler:
    """Draws among the five largest logits, the last accepted token made less likely (``Sampler``).

    Attributes:
        draws: Random draws since ``begin``; they go back with ``restore``.
        accepted: The prompt and every drawn token; likewise.
    """

    def __init__(self, context: TargetContext, seed: int = 5) -> None:
        self.draws = 0
        self.accepted: list[TokenId] = []
        self._context = context
        self._seed = seed
        self._random = np.random.default_rng(seed)

    def begin(self, prompt: Sequence[TokenId]) -> None:
        self._random = np.random.default_rng(self._seed)
        self.draws, self.accepted = 0, list(prompt)

    def sample(self, row: int) -> TokenId:
        """Draw once, and accept what was drawn."""
        logits = self._context.logits(row).astype(np.float64)
        logits[self.accepted[-1]] -= PENALTY
        best = np.argsort(-logits, kind="stable")[:TOP_K]
        shares = np.exp(logits[best] - logits[best[0]])
        place = int(np.searchsorted(np.cumsum(shares) / shares.sum(), self._random.random()))
        self.draws += 1
        self.accepted.append(int(best[place]))
        return self.accepted[-1]

    def snapshot(self) -> Any:
        return self._random.bit_generator.state, self.draws, len(self.accepted)

    def restore(self, snapshot: Any) -> None:
        self._random.bit_generator.state, self.draws, length = snapshot
        del self.accepted[length:]

    def close(self) -> None:
        """Nothing to free."""


class KnownSampler:
    """A sampler of the target that remembers what led to its state, over snapshots too.

    Attributes:
        prompt: What it began with.
        rows: Rows it drew at since then, without what ``restore`` took back.
        drawn: The tokens it drew there.
    """

    def __init__(self, context: TargetContext, sampling: SamplingSettings) -> None:
        self.prompt: tuple[TokenId, ...] = ()
        self.rows: list[int] = []
        self.drawn: list[TokenId] = []
        self._sampler = context.open_sampler(sampling)
        self._sampler.begin(())
        self._marks = [self._mark()]

    def step(self, step: str, at: int, prompt: Sequence[TokenId]) -> None:
        """Draw at row ``at`` (d), take a snapshot (s), restore one of those that were taken (r), or begin (b)."""
        if step == "d":
            self.rows.append(at)
            self.drawn.append(self._sampler.sample(at))
        elif step == "s":
            self._marks.append(self._mark())
        elif step == "r":
            snapshot, self.prompt, rows, drawn = self._marks[at % len(self._marks)]
            self._sampler.restore(snapshot)
            self.rows, self.drawn = list(rows), list(drawn)
        else:
            self._sampler.begin(prompt)
            self.prompt, self.rows, self.drawn = tuple(prompt), [], []

    def _mark(self) -> tuple[Any, tuple[TokenId, ...], tuple[int, ...], tuple[TokenId, ...]]:
        return self._sampler.snapshot(), self.prompt, tuple(self.rows), tuple(self.drawn)
