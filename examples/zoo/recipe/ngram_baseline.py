"""What counting alone achieves: an interpolated n-gram model (Witten-Bell) of the same text, for comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recipe.target_training import Tokens

LONGEST = 4


def ngram_loss(training: Tokens, validation: Tokens, vocabulary_tokens: int) -> float:
    """Return the mean cross-entropy of the validation text under n-grams of up to ``LONGEST`` tokens, in nats."""
    probability = np.full(len(validation), 1.0 / vocabulary_tokens)
    for order in range(1, LONGEST + 1):
        seen = _keys(training, order, vocabulary_tokens)
        grams, counts = np.unique(seen, return_counts=True)
        histories, first, kinds = np.unique(grams // vocabulary_tokens, return_index=True, return_counts=True)
        totals = np.add.reduceat(counts, first)
        asked = _keys(validation, order, vocabulary_tokens)
        count = _look_up(grams, counts, asked)
        total = _look_up(histories, totals, asked // vocabulary_tokens)
        kind = _look_up(histories, kinds, asked // vocabulary_tokens)
        shorter = probability[order - 1 :]
        known = total > 0
        shorter[known] = ((count + kind * shorter) / np.maximum(total + kind, 1))[known]
    return float(-np.log(probability).mean())


def _keys(tokens: Tokens, order: int, vocabulary_tokens: int) -> NDArray[np.int64]:
    """Number every n-gram of a text by its last token's place."""
    wide = tokens.astype(np.int64)
    count = len(wide) - order + 1
    keys = np.zeros(count, np.int64)
    for offset in range(order):
        keys = keys * vocabulary_tokens + wide[offset : offset + count]
    return keys


def _look_up(keys: NDArray[np.int64], values: NDArray[np.int64], asked: NDArray[np.int64]) -> NDArray[np.int64]:
    places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[places] == asked, values[places], 0)
