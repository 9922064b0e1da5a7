"""How a block draft's rows become tokens: output head, DSpark's Markov chain and confidence, DFlash2's lattice."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
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


@attrs.define
class Choices:
    """The best token of each row, one after the other.

    ``cut_margins``: DFlash2: how far the last of a row's best tokens lies before the first that is left out.
    """

    tokens: list[int] = attrs.field(factory=list)
    shortfalls: list[float] = attrs.field(factory=list)
    confidences: Array | None = None
    cut_margins: list[float] = attrs.field(factory=list)

    def choose(self, scores: Array, path: Sequence[int] | None) -> int:
        """Take the row's best token; return the one that the next row follows."""
        best = int(scores.argmax())
        followed = best if path is None else path[len(self.tokens)]
        self.tokens.append(best)
        self.shortfalls.append(float(scores[best] - scores[followed]))
        return followed


def choose_largest(logits: Array, path: Sequence[int] | None) -> Choices:
    """Largest logit of each row; confidences are the softmax probabilities of the tokens that are followed."""
    choices = Choices()
    followed = [choices.choose(row, path) for row in logits]
    choices.confidences = np.asarray([softmax_at(row, token) for row, token in zip(logits, followed, strict=True)])
    return choices


def markov_chain(file: DraftFile, rows: Array, logits: Array, anchor: int, path: Sequence[int] | None) -> Choices:
    """DSpark: shift each row's logits, in place, by the token before it: the anchor, then ``path`` or each choice.

    Confidences are the rows' own, None without a confidence head.
    """
    before, after = file.weight("markov_w1.weight"), file.weight("markov_w2.weight")
    projection, bias = file.optional("conf_proj.weight"), file.optional("conf_proj.bias")
    choices, confidences = Choices(), []
    previous = anchor
    for index, row in enumerate(rows):
        if projection is not None:
            score = float(projection[0] @ np.concatenate([row, before[previous]]))
            confidences.append(1.0 / (1.0 + np.exp(-score - (0.0 if bias is None else bias[0]))))
        logits[index] += _scattered(file, after @ before[previous], 0.0)
        previous = choices.choose(logits[index], path)
    choices.confidences = np.asarray(confidences) if confidences else None
    return choices


def pair_scores(file: DraftFile, row: Array, logits: Array, before: Sequence[int]) -> Array:
    """DFlash2: score [len(before), V] of every token of a row after each token of the row before."""
    gate = file.weight("selector_hidden.weight") @ row
    predecessors = file.weight("selector_predecessor.weight")[list(before)] * gate
    return predecessors @ file.weight("selector_successor.weight").T + logits


def walk(file: DraftFile, rows: Array, logits: Array, anchor: int, path: Sequence[int] | None = None) -> Choices:
    """DFlash2: among each row's best tokens by logit, choose the one that scores best after the choice before.

    A token of the path that only just misses the row's best by logit falls short by that, not without end. Confidences
    are the softmax of the followed score among those of the row's best tokens.
    """
    width = int(file.size("selector_top_k"))
    choices, confidences = Choices(), []
    previous = anchor
    for row, row_logits in zip(rows, logits, strict=True):
        all_scores = pair_scores(file, row, row_logits, [previous])[0]
        order = np.argsort(-row_logits, kind="stable")
        best = order[:width]
        choices.cut_margins.append(float(row_logits[best[-1]] - row_logits[order[width]]))
        scores = np.full_like(all_scores, -np.inf)
        scores[best] = all_scores[best]
        if path is not None and (missing := row_logits[best[-1]] - row_logits[path[len(choices.tokens)]]) > 0:
            scores[path[len(choices.tokens)]] = scores.max() - missing
        previous = choices.choose(scores, path)
        confidences.append(softmax_at(scores, previous))
    choices.confidences = np.asarray(confidences)
    return choices
