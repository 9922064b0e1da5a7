"""The three block drafters: heads on the backbone, their training objectives, and how each picks its drafts."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor, nn
from torch.nn import functional

from recipe.blocks import Backbone, DraftShape, block_tokens
from recipe.selector import Selector

POSITION_DECAY_ROWS = 4.0
DSPARK_CROSS_ENTROPY = 0.1
DSPARK_DISTANCE = 0.9
SELECTOR_UNARY = 0.5


@attrs.frozen(kw_only=True, eq=False)
class ScoredDraft:
    """A draft and how it was chosen.

    Attributes:
        token: The token with the largest score.
        scores: Scores of all tokens; those that were no candidates have -inf.
        margin: By how much the choice was won; with candidates also, by how much the last of them became one.
    """

    token: int
    scores: Tensor
    margin: float


def scored_draft(scores: Tensor, candidate_margin: float = math.inf) -> ScoredDraft:
    """Choose the largest of ``[vocabulary]`` scores."""
    best = scores.topk(2)
    margin = min(float(best.values[0] - best.values[1]), candidate_margin)
    return ScoredDraft(token=int(best.indices[0]), scores=scores, margin=margin)


class MarkovHead(nn.Module):
    """DSpark: shifts a row's logits by the token before it, and tells how likely its draft is right."""

    def __init__(self, vocabulary_tokens: int, hidden: int, rank: int) -> None:
        super().__init__()
        self.before = nn.Embedding(vocabulary_tokens, rank)
        self.after = nn.Linear(rank, vocabulary_tokens, bias=False)
        self.confidence = nn.Linear(hidden + rank, 1)
        self.after.is_head = True
        nn.init.zeros_(self.after.weight)

    def shift(self, before: Tensor) -> Tensor:
        """Return logits to add, for the token before each row."""
        return self.after(self.before(before))

    def doubt(self, rows: Tensor, before: Tensor) -> Tensor:
        """Return the confidence's logit; it learns from the rows without changing them."""
        return self.confidence(torch.cat([rows, self.before(before)], dim=-1).detach()).squeeze(-1)


class BlockDrafter(nn.Module):
    """A backbone with the heads of its kind; embeddings and output matrix are the target's, unchanged."""

    def __init__(self, shape: DraftShape, embeddings: Tensor, head: Tensor, mask_token: int) -> None:
        super().__init__()
        self.shape, self.mask_token = shape, mask_token
        self.backbone = Backbone(shape)
        self.register_buffer("embeddings", embeddings, persistent=False)
        self.register_buffer("head", head, persistent=False)
        tokens = len(embeddings)
        self.markov = MarkovHead(tokens, shape.hidden, shape.markov_rank) if shape.kind == "dspark" else None
        self.selector = Selector(tokens, shape.hidden, shape.selector_rank) if shape.kind == "dflash2" else None

    def draft_rows(self, features: Tensor, tokens: Tensor, anchors: Tensor, drafts: int) -> Tensor:
        """Return the rows that predict, ``[batch, blocks, drafts, hidden]``."""
        first = self.shape.first_draft_row
        block = block_tokens(tokens, anchors, drafts + first, self.mask_token)
        rows = self.backbone(features, anchors, functional.embedding(block, self.embeddings))
        return rows[:, :, first:]

    def losses(
        self, features: Tensor, tokens: Tensor, hidden: Tensor, anchors: Tensor, drafts: int
    ) -> dict[str, Tensor]:
        """Return losses and shares of right drafts at blocks of ``drafts`` drafts, given the tokens before each.

        ``hidden`` are the target's last rows; from them follows its distribution, which the rows learn beside its text.
        """
        rows = self.draft_rows(features, tokens, anchors, drafts)
        places = anchors.unsqueeze(1) + torch.arange(drafts)
        before, wanted = tokens[:, places], tokens[:, places + 1]
        unary = functional.linear(rows, self.head)
        weights = torch.exp(-torch.arange(drafts) / POSITION_DECAY_ROWS)
        taught = functional.linear(hidden[:, places], self.head).softmax(-1)
        if self.markov is not None:
            logits = unary + self.markov.shift(before)
            loss = dspark_loss(logits, wanted, weights)
            right = (logits.argmax(-1) == wanted).float()
            doubt = functional.binary_cross_entropy_with_logits(self.markov.doubt(rows, before), right)
            extra = {"confidence": doubt}
        elif self.selector is not None:
            logits = unary + self.selector(rows, before)
            loss = weighted(cross_entropy(logits, wanted), weights)
            extra = {"unary": SELECTOR_UNARY * weighted(cross_entropy(unary, wanted), weights)}
            extra["distance"] = weighted(divergence(logits, taught), weights)
        else:
            logits, extra = unary, {"distance": weighted(divergence(unary, taught), weights)}
            loss = weighted(cross_entropy(logits, wanted), weights)
        return {"loss": loss + sum(extra.values()), **extra, **right_shares(logits, wanted)}

    @torch.no_grad()
    def draft(self, features: Tensor, tokens: Tensor, anchor: int, drafts: int) -> list[ScoredDraft]:
        """Return what the drafter proposes after the token at ``anchor`` of one text, draft by draft.

        Args:
            features: As in ``Backbone.forward``, of one text.
            tokens: ``[1, rows]``.
            anchor: Position of the last committed token.
            drafts: Number of drafts.
        """
        anchors = torch.tensor([anchor])
        rows = self.draft_rows(features, tokens, anchors, drafts)[0, 0]
        logits = functional.linear(rows, self.head)
        before, chosen = tokens[0, anchor], []
        for index in range(drafts):
            chosen.append(self._choose(rows[index], logits[index], before))
            before = torch.tensor(chosen[-1].token)
        return chosen

    def _choose(self, row: Tensor, logits: Tensor, before: Tensor) -> ScoredDraft:
        if self.markov is not None:
            return scored_draft(logits + self.markov.shift(before))
        if self.selector is None:
            return scored_draft(logits)
        best = logits.topk(self.shape.selector_width + 1)
        allowed = torch.full_like(logits, -torch.inf).scatter(-1, best.indices[:-1], 0.0)
        return scored_draft(logits + self.selector(row, before) + allowed, float(best.values[-2] - best.values[-1]))


def cross_entropy(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return the cross-entropy of each row."""
    return functional.cross_entropy(logits.flatten(0, -2), wanted.flatten(), reduction="none").view_as(wanted)


def divergence(logits: Tensor, taught: Tensor) -> Tensor:
    """Return the cross-entropy of each row against the target's distribution."""
    return -(taught * logits.log_softmax(-1)).sum(-1)


def dspark_loss(logits: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy and total-variation distance; greedy decoding makes the target's distribution a single token."""
    surprise = cross_entropy(logits, wanted)
    return weighted(DSPARK_CROSS_ENTROPY * surprise + DSPARK_DISTANCE * (1 - torch.exp(-surprise)), weights)


def weighted(values: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of ``[batch, blocks, drafts]``, earlier drafts weighing more."""
    return (values * weights).sum() / (weights.sum() * values.shape[0] * values.shape[1])


def right_shares(logits: Tensor, wanted: Tensor) -> dict[str, Tensor]:
    """Return the shares of right drafts at the first and the fourth place, given right tokens before."""
    right = (logits.argmax(-1) == wanted).float().mean(dim=(0, 1))
    return {"right_1": right[0], "right_4": right[min(3, len(right) - 1)]}
