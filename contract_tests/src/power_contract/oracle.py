"""The slow, obvious reference: plain decoding on a context of its own, one token after the other.

The prompt goes by its own chunks with prefill kernels, generated tokens one by one with decode kernels: the arithmetic
that they have in a session.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from power_core.sampler import SamplingSettings
from power_core.target import TargetContext
from power_core.tokens import SequenceRows, Taps, TokenId

GREEDY = SamplingSettings()


class Oracle:
    """Answers questions about the target alone. It closes its context.

    Args:
        context: A context that nobody else uses, opened with the settings of the context under test.
        n_vocab: Size of the vocabulary.
    """

    def __init__(self, context: TargetContext, n_vocab: int) -> None:
        self.n_vocab = n_vocab
        self._context = context
        self._known: dict[tuple[tuple[TokenId, ...], SamplingSettings], list[TokenId]] = {}

    def tokens(self, prompt: Sequence[TokenId], count: int, sampling: SamplingSettings = GREEDY) -> Sequence[TokenId]:
        """Return the first ``count`` tokens after ``prompt``, fewer when the context is full before."""
        count = min(count, self._context.ctx_tokens - len(prompt) + 1)
        known = self._known.get((tuple(prompt), sampling), [])
        if len(known) < count:
            known = self._decode(prompt, min(2 * count + 16, self._context.ctx_tokens - len(prompt) + 1), sampling)
            self._known[tuple(prompt), sampling] = known
        return known[:count]

    def logits_after(
        self, prompt: Sequence[TokenId], generated: Sequence[TokenId], probe: Sequence[TokenId]
    ) -> NDArray[np.float32]:
        """Return the logits of each token of ``probe`` after the committed tokens, float32[n, n_vocab]."""
        self.replay(prompt, generated)
        return probed_logits(self._context, probe)

    def replay(self, prompt: Sequence[TokenId], generated: Sequence[TokenId]) -> list[Taps]:
        """Evaluate committed tokens anew; return the hidden rows of the evaluations: prompt chunks, then tokens."""
        return replay(self._context, prompt, generated)

    def close(self) -> None:
        """Close the context."""
        self._context.close()

    def _decode(self, prompt: Sequence[TokenId], count: int, sampling: SamplingSettings) -> list[TokenId]:
        sampler = self._context.open_sampler(sampling)
        try:
            sampler.begin(prompt)
            row, _ = prefill(self._context, prompt)
            tokens = [sampler.sample(row)]
            while len(tokens) < count:
                evaluate_next(self._context, tokens[-1:])
                tokens.append(sampler.sample(0))
        finally:
            sampler.close()
        return tokens


def prefill(context: TargetContext, prompt: Sequence[TokenId], seq_id: int = 0) -> tuple[int, list[Taps]]:
    """Evaluate a prompt anew by the context's own chunks.

    Returns:
        The row that holds its last logits, and the hidden rows of each chunk.
    """
    context.clear(seq_id)
    taps = []
    chunk: Sequence[TokenId] = ()
    for at in range(0, len(prompt), context.ubatch_rows):
        chunk = prompt[at : at + context.ubatch_rows]
        rows = SequenceRows(seq_id=seq_id, start_pos=at, tokens=chunk, logits="last")
        context.evaluate((rows,), kernels="prefill")
        taps.append(context.read_taps(0, len(chunk)))
    return len(chunk) - 1, taps


def evaluate_next(context: TargetContext, tokens: Sequence[TokenId], seq_id: int = 0) -> None:
    """Evaluate tokens exactly, at the end of the sequence."""
    start = context.length_tokens(seq_id)
    context.evaluate((SequenceRows(seq_id=seq_id, start_pos=start, tokens=list(tokens)),), kernels="decode")


def replay(
    context: TargetContext, prompt: Sequence[TokenId], generated: Sequence[TokenId], seq_id: int = 0
) -> list[Taps]:
    """Evaluate committed tokens anew, generated ones one by one; return the hidden rows of each evaluation."""
    _, taps = prefill(context, prompt, seq_id)
    for token in generated:
        evaluate_next(context, [token], seq_id)
        taps.append(context.read_taps(0, 1))
    return taps


def probed_logits(context: TargetContext, probe: Sequence[TokenId], seq_id: int = 0) -> NDArray[np.float32]:
    """Evaluate ``probe`` token by token after what the sequence holds; return the logits, float32[n, n_vocab]."""
    rows = []
    for token in probe:
        evaluate_next(context, [token], seq_id)
        rows.append(context.logits(0).copy())
    return np.stack(rows)
