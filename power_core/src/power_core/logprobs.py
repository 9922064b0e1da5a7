"""Log-probabilities of emitted tokens: the target's own distribution at the row, before any sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.sampler import Sampler, SamplerSnapshot
from power_core.target import TargetContext
from power_core.tokens import TokenId


@attrs.frozen(kw_only=True)
class TokenLogprobs:
    """What the target thought of one emitted token.

    Attributes:
        token: The emitted token.
        logprob: Natural logarithm of its probability.
        top: The likeliest tokens with theirs, likeliest first, the lower id first on ties; impossible ones left out.
    """

    token: TokenId
    logprob: float
    top: tuple[tuple[TokenId, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        top = [{"token": token, "logprob": logprob} for token, logprob in self.top]
        return {"token": self.token, "logprob": self.logprob, "top": top}


def measure_logprobs(logits: NDArray[np.float32], token: TokenId, top_tokens: int) -> TokenLogprobs:
    """Return the token's log-probability and the ``top_tokens`` likeliest. Equal logits give equal bits.

    Args:
        logits: float32[n_vocab] with a finite maximum.
        token: The emitted token.
        top_tokens: How many of the likeliest tokens to name; 0 names none.
    """
    largest = float(logits.max())
    normaliser = largest + float(np.log(np.exp(logits.astype(np.float64) - largest).sum()))
    count = min(top_tokens, len(logits))
    best: list[int] = []
    if count:
        least = np.partition(logits, len(logits) - count)[len(logits) - count]
        candidates = np.flatnonzero((logits >= least) & np.isfinite(logits))
        best = candidates[np.argsort(-logits[candidates], kind="stable")][:count].tolist()
    return TokenLogprobs(
        token=token,
        logprob=float(logits[token]) - normaliser,
        top=tuple((each, float(logits[each]) - normaliser) for each in best),
    )


class RecordingSampler:
    """A sampler that also records the log-probabilities of what it draws (``power_core.sampler.Sampler``).

    Attributes:
        records: One entry per token drawn since ``begin``, in order; ``restore`` takes entries back.
    """

    def __init__(self, sampler: Sampler, context: TargetContext, top_tokens: int) -> None:
        self.records: list[TokenLogprobs] = []
        self._sampler = sampler
        self._context = context
        self._top_tokens = top_tokens

    def begin(self, prompt: Sequence[TokenId]) -> None:
        """Start a request; earlier records are dropped."""
        self._sampler.begin(prompt)
        self.records.clear()

    def sample(self, row: int) -> TokenId:
        """Draw, and record what the row said of the drawn token."""
        token = self._sampler.sample(row)
        self.records.append(measure_logprobs(self._context.logits(row), token, self._top_tokens))
        return token

    def snapshot(self) -> SamplerSnapshot:
        """Return the sampler's snapshot and the number of records."""
        return self._sampler.snapshot(), len(self.records)

    def restore(self, snapshot: SamplerSnapshot) -> None:
        """Return to the snapshot exactly."""
        inner, count = snapshot
        self._sampler.restore(inner)
        del self.records[count:]

    def close(self) -> None:
        """Close the sampler."""
        self._sampler.close()
