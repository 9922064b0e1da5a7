"""A target whose every possible row was computed beforehand: real logits and samplers, and requests of microseconds.

A few tokens are allowed, so a few rounds have few possible histories. All of them are evaluated in one batch of a real
context; a request on the table runs the whole loop, with real samplers that draw at those rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from power_core.drafter import Drafter
from power_core.sampler import Sampler, SamplingSettings
from power_core.session import Session, SessionPlan
from power_core.settings import SessionSettings
from power_core.target import ContextSettings, TargetContext, TargetModel
from power_core.testing.fakes import FakeContext, FakeModel
from power_core.tokens import SequenceRows, TokenId


class TableTarget:
    """All rows of ``prompt`` and up to ``depth`` tokens after it, out of a model's ``width`` likeliest next tokens.

    Attributes:
        allowed: The tokens that may follow, the likeliest first; ``only`` allows no others.
    """

    def __init__(self, model: TargetModel, prompt: Sequence[TokenId], *, width: int = 5, depth: int = 3) -> None:
        self.prompt = list(prompt)
        self.n_vocab = model.info.n_vocab
        sequences = sum(width**length for length in range(depth + 1))
        rows = sequences * (len(prompt) + depth)
        self.context: TargetContext = model.open_context(
            ContextSettings(ctx_tokens=len(prompt) + depth, batch_rows=rows, sequences=sequences, threads=1)
        )
        self._evaluate([()])
        self.allowed = np.argsort(-self.context.logits(len(prompt) - 1))[:width].tolist()
        self.context.clear(0)
        histories = [
            history for length in range(depth + 1) for history in itertools.product(self.allowed, repeat=length)
        ]
        self._evaluate(histories)
        ends = np.cumsum([len(prompt) + len(history) for history in histories]) - 1
        self._rows: dict[tuple[TokenId, ...], int] = dict(zip(histories, ends.tolist(), strict=True))

    @property
    def only(self) -> dict[TokenId, float]:
        """Biases that forbid every token but the allowed ones."""
        return {token: float("-inf") for token in range(self.n_vocab) if token not in self.allowed}

    def open_session(self, drafter: Drafter | None, *, draft_max: int = 4) -> Session:
        """Open a session on the table; requests take ``self.prompt`` and at most ``depth + 1`` tokens."""
        model = FakeModel(n_vocab=self.n_vocab)
        context = _TableContext(ContextSettings(ctx_tokens=64, batch_rows=32), table=self)
        return Session(
            settings=SessionSettings(),
            plan=SessionPlan(strategy="table", draft_max=draft_max if drafter else 0, slice_rows=draft_max + 1),
            model=model,
            context=context,
            drafter=drafter,
            taps=False,
            resources=ExitStack(),
        )

    def row_of(self, history: Sequence[TokenId]) -> int:
        """The real context's row that follows a history."""
        return self._rows[tuple(history[len(self.prompt) :])]

    def close(self) -> None:
        """Close the real context."""
        self.context.close()

    def _evaluate(self, histories: Sequence[tuple[TokenId, ...]]) -> None:
        rows = [
            SequenceRows(seq_id=index, start_pos=0, tokens=[*self.prompt, *history], logits="last")
            for index, history in enumerate(histories)
        ]
        self.context.evaluate(rows, kernels="decode")


class _TableContext(FakeContext):
    def __init__(self, settings: ContextSettings, *, table: TableTarget) -> None:
        super().__init__(settings, n_vocab=table.n_vocab, n_embd=4, recurrent=False)
        self._table = table

    def open_sampler(self, settings: SamplingSettings) -> Sampler:
        return _TableSampler(self._table.context.open_sampler(settings), self)

    def real_row(self, row: int) -> int:
        return self._table.row_of(self._rows[row][1])


class _TableSampler:
    """A real sampler over the table's rows."""

    def __init__(self, sampler: Sampler, context: _TableContext) -> None:
        self._sampler = sampler
        self._context = context

    def begin(self, prompt: Sequence[TokenId]) -> None:
        self._sampler.begin(prompt)

    def sample(self, row: int) -> TokenId:
        return self._sampler.sample(self._context.real_row(row))

    def snapshot(self) -> Any:
        return self._sampler.snapshot()

    def restore(self, snapshot: Any) -> None:
        self._sampler.restore(snapshot)

    def close(self) -> None:
        self._sampler.close()
