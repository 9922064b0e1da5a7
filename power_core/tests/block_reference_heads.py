"""How a block draft's rows become tokens: output head, DSpark's Markov chain and confidence, DFlash2's lattice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from block_reference_file import Array, DraftFile


def output_logits(file: DraftFile, rows: Array) -> Array:
    """Logits [n, V]; tokens outside a reduced draft vocabulary have -inf."""
    logits = rows @ file.head.T
    return _scattered(file, logits, -np.inf)


def _scattered(file: DraftFile, values: Array, elsewhere: float) -> Array:
    """Place values of the draft vocabulary at the ids of the target's."""
    ids = file.optional("d2t")
    if ids is None:
        return values
    full = np.full((*values.shape[:-1], len(file.embeddings)), elsewhere)
    full[..., ids] = values
    return full


def softmax_at(scores: Array, index: int) -> float:
    return float(1.0 / np.exp(scores - scores[index]).sum())


def choose_largest(logits: Array) -> tuple[list[int], Array]:
    """Largest logit of each row, and its softmax probability."""
    tokens = [int(row.argmax()) for row in logits]
    return tokens, np.asarray([softmax_at(row, token) for row, token in zip(logits, tokens, strict=True)])


def markov_chain(
    file: DraftFile, rows: Array, logits: Array, anchor: int, path: Sequence[int] | None
) -> tuple[list[int], Array | None]:
    """DSpark: shift each row's logits, in place, by the token before it: the anchor, then ``path`` or each choice.

    Returns:
        Largest shifted logit of each row and, when the draft has a confidence head, the rows' confidences.
    """
    before, after = file.weight("markov_w1.weight"), file.weight("markov_w2.weight")
    projection, bias = file.optional("conf_proj.weight"), file.optional("conf_proj.bias")
    tokens, confidences = [], []
    previous = anchor
    for index, row in enumerate(rows):
        if projection is not None:
            score = float(projection[0] @ np.concatenate([row, before[previous]]))
            confidences.append(1.0 / (1.0 + np.exp(-score - (0.0 if bias is None else bias[0]))))
        logits[index] += _scattered(file, after @ before[previous], 0.0)
        tokens.append(int(logits[index].argmax()))
        previous = tokens[-1] if path is None else path[index]
    return tokens, np.asarray(confidences) if confidences else None


def pair_scores(file: DraftFile, row: Array, logits: Array, before: Sequence[int]) -> Array:
    """DFlash2: score [len(before), V] of every token of a row after each token of the row before."""
    gate = file.weight("selector_hidden.weight") @ row
    predecessors = file.weight("selector_predecessor.weight")[list(before)] * gate
    return predecessors @ file.weight("selector_successor.weight").T + logits


def walk(file: DraftFile, rows: Array, logits: Array, anchor: int) -> tuple[list[int], Array]:
    """DFlash2: among each row's best tokens by logit, choose the one that scores best after the choice before.

    Returns:
        Tokens, and confidences: softmax of the chosen score among those of its row's best tokens.
    """
    width = int(file.size("selector_top_k"))
    tokens, confidences = [], []
    previous = anchor
    for row, row_logits in zip(rows, logits, strict=True):
        scores = pair_scores(file, row, row_logits, [previous])[0]
        scores[np.argsort(-row_logits, kind="stable")[width:]] = -np.inf
        previous = int(scores.argmax())
        tokens.append(previous)
        confidences.append(softmax_at(scores, previous))
    return tokens, np.asarray(confidences)
