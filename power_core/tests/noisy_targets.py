"""Fake targets whose arithmetic depends on how many rows are evaluated at once, and sessions on them.

The runner-up of every row is a fixed token; ``margins(history)`` says how far it is below the choice of the fake, and
``noise(depth_tokens, rows)`` how much an evaluation of so many rows lifts it. What single rows choose stays
``plain_decode``, what wider slices choose does not.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
from core_sessions import N_VOCAB
from numpy.typing import NDArray

from power_core.drafter import Drafter
from power_core.exactness.cache import ProbeCache
from power_core.exactness.guarantor import Guarantor
from power_core.planning import guaranteed_plan
from power_core.session import Session, SessionPlan
from power_core.settings import SessionArithmetic, SessionSettings
from power_core.target import ContextSettings, Kernels
from power_core.testing.fakes import FakeContext, FakeModel
from power_core.tokens import SequenceRows, TapRequest, TokenId

Noise = Callable[[int, int], float]
Margins = Callable[[Sequence[TokenId]], float]


def exact_up_to(widest_rows: int, noise: float = 2**-8) -> Noise:
    """Wider slices differ."""
    return lambda depth_tokens, rows: noise if rows > widest_rows else 0.0


def near_ties(history: Sequence[TokenId]) -> float:
    """About one row in four is a near-tie."""
    return 2**-10 if zlib.crc32(bytes(token % 256 for token in history)) % 4 == 0 else 0.5


class NoisyContext(FakeContext):
    """A fake whose logits are not one-hot: the runner-up's depends on the rows of the evaluation."""

    noise: Noise = staticmethod(lambda depth_tokens, rows: 0.0)
    margins: Margins = staticmethod(lambda history: 0.5)
    lift = 0.0

    def evaluate(self, sequences: Sequence[SequenceRows], *, kernels: Kernels) -> None:
        super().evaluate(sequences, kernels=kernels)
        rows = sum(len(sequence.tokens) for sequence in sequences)
        self.lift = 0.0 if kernels == "prefill" else self.noise(sequences[0].start_pos, rows)

    def logits(self, row: int) -> NDArray[np.float32]:
        values = np.zeros(self.n_vocab, dtype=np.float32)
        best = super().argmax(row)
        values[best] = 1.0
        values[(best + 1) % self.n_vocab] = 1.0 - self.margins(self._rows[row][1]) + self.lift
        return values

    def argmax(self, row: int) -> TokenId:
        return int(self.logits(row).argmax())


class NoisyModel(FakeModel):
    """Opens noisy contexts."""

    def open_context(self, settings: ContextSettings) -> NoisyContext:
        return NoisyContext(settings, n_vocab=self.info.n_vocab, n_embd=self.info.n_embd, recurrent=self.info.recurrent)


def open_noisy_context(noise: Noise, *, recurrent: bool = False, rows: int = 8, ctx_tokens: int = 3000) -> NoisyContext:
    """Open a context with one sequence; it has room for ``rows`` rows at once."""
    settings = ContextSettings(ctx_tokens=ctx_tokens, batch_rows=max(rows, 4), snapshots=rows - 1 if recurrent else 0)
    context = NoisyModel(n_vocab=N_VOCAB, recurrent=recurrent).open_context(settings)
    context.noise = noise
    return context


def open_noisy_session(
    drafter: Drafter | None,
    noise: Noise,
    *,
    arithmetic: SessionArithmetic = "exact",
    margins: Margins = near_ties,
    recurrent: bool = False,
    slice_rows: int = 5,
    draft_max: int = 4,
    taps: bool = False,
    ctx_tokens: int = 3000,
    cache: ProbeCache | None = None,
) -> Session:
    """Open a session on a noisy target, measured as ``open_session`` does it."""
    model = NoisyModel(n_vocab=N_VOCAB, recurrent=recurrent)
    context = model.open_context(
        ContextSettings(
            ctx_tokens=ctx_tokens,
            batch_rows=64,
            snapshots=slice_rows - 1,
            taps=TapRequest(nextn=True, layers=(2, 0)) if taps else TapRequest(),
        )
    )
    context.noise, context.margins = noise, margins
    guarantor = Guarantor(
        context=context,
        arithmetic=arithmetic,
        slice_rows=slice_rows,
        block_rows=draft_max + 1,
        n_vocab=N_VOCAB,
        cache=cache or ProbeCache(key=None),
    )
    plan = SessionPlan(strategy="scripted", draft_max=draft_max, slice_rows=slice_rows)
    return Session(
        settings=SessionSettings(arithmetic=arithmetic),
        plan=guaranteed_plan(plan, guarantor),
        model=model,
        context=context,
        drafter=drafter,
        taps=taps,
        guarantor=guarantor,
        resources=ExitStack(),
    )


def noisy_context(session: Session) -> NoisyContext:
    """Return the fake behind a session."""
    assert isinstance(session.context, NoisyContext)
    return session.context
