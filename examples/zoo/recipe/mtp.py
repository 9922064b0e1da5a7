"""The target's prediction head (MTP): one attention block, from a token and the row before it to the next row."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from recipe.layers import FeedForward, RmsNorm
from recipe.target import Target, TargetShape

LATER_STEP_WEIGHT = 0.5
STEPS = 2


class MtpHead(nn.Module):
    """Row ``q`` sees the token at ``q`` and the target's row at ``q - 1``, and predicts the token at ``q + 1``."""

    def __init__(self, shape: TargetShape) -> None:
        super().__init__()
        self.token_norm = RmsNorm(shape.hidden)
        self.row_norm = RmsNorm(shape.hidden)
        self.join = nn.Linear(2 * shape.hidden, shape.hidden, bias=False)
        self.mixer_norm = RmsNorm(shape.hidden)
        self.mixer = shape.attention()
        self.inner_norm = RmsNorm(shape.hidden)
        self.inner = FeedForward(shape.hidden, shape.inner)
        self.norm = RmsNorm(shape.hidden)

    def forward(self, embedded: Tensor, before: Tensor) -> Tensor:
        """Return normed rows, ``[batch, rows, hidden]`` like both arguments."""
        rows = self.join(torch.cat([self.token_norm(embedded), self.row_norm(before)], dim=-1))
        mixed, _ = self.mixer(self.mixer_norm(rows))
        rows = rows + mixed
        return self.norm(rows + self.inner(self.inner_norm(rows)))


def step_logits(head: MtpHead, target: Target, tokens: Tensor, hidden: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Draft one, two, ... tokens ahead at every position, each step from the state of the step before.

    Args:
        head: The head.
        target: Its embeddings and output matrix are used, unchanged.
        tokens: ``[batch, rows]``.
        hidden: The target's normed rows, ``[batch, rows, hidden]``.

    Yields:
        Logits of the step and the tokens that they should predict.
    """
    before = hidden
    for step in range(1, STEPS + 1):
        seen = tokens[:, step:-1]
        rows = head(functional.embedding(seen, target.embeddings.weight), before[:, : seen.shape[1]])
        yield functional.linear(rows, target.head.weight), tokens[:, step + 1 :]
        before = rows


def mtp_losses(head: MtpHead, target: Target, tokens: Tensor, hidden: Tensor, written_from: int) -> dict[str, Tensor]:
    """Return the loss on tokens that the target wrote itself, and the share of right drafts one token ahead."""
    losses, right = [], []
    for logits, wanted in step_logits(head, target, tokens, hidden):
        logits, wanted = logits[:, written_from:], wanted[:, written_from:]
        losses.append(functional.cross_entropy(logits.flatten(0, 1), wanted.flatten()))
        right.append((logits.argmax(-1) == wanted).float().mean())
    return {"loss": losses[0] + LATER_STEP_WEIGHT * losses[1], "right_1": right[0], "right_2": right[1]}
