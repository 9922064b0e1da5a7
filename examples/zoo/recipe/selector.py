"""What DFlash2 adds: a dynamic convolution inside blocks, and a selector that scores pairs of neighbouring tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class DynamicConv(nn.Module):
    """Causal convolution over the rows of a block; each row adds its own coefficients, one per group of channels.

    ``base[side]`` is used before (0) and after (1) the layer that it surrounds. It starts as the identity.
    """

    def __init__(self, hidden: int, kernel: int, group: int) -> None:
        super().__init__()
        self.kernel, self.group = kernel, group
        self.projection = nn.Linear(hidden, 2 * kernel * (hidden // group), bias=False)
        self.base = nn.Parameter(torch.zeros(2, kernel, hidden))
        self.base.data[:, 0] = 1.0

    def coefficients(self, rows: Tensor) -> Tensor:
        """Return ``[..., side, tap, group]`` of rows ``[..., hidden]``."""
        return self.projection(rows).unflatten(-1, (2, self.kernel, -1))

    def forward(self, rows: Tensor, coefficients: Tensor, *, side: int) -> Tensor:
        """Convolve ``[batch, blocks, block rows, hidden]``."""
        weights = self.base[side] + coefficients[..., side, :, :].repeat_interleave(self.group, dim=-1)
        shifted = (functional.pad(rows, (0, 0, tap, 0))[:, :, : rows.shape[2]] for tap in range(self.kernel))
        return sum(weights[..., tap, :] * part for tap, part in enumerate(shifted))  # type: ignore[return-value]


class Selector(nn.Module):
    """Low-rank score of a token after another, gated by the row."""

    def __init__(self, vocabulary_tokens: int, hidden: int, rank: int) -> None:
        super().__init__()
        self.predecessor = nn.Embedding(vocabulary_tokens, rank)
        self.successor = nn.Linear(rank, vocabulary_tokens, bias=False)
        self.gate = nn.Linear(hidden, rank, bias=False)
        self.successor.is_head = True
        nn.init.zeros_(self.successor.weight)

    def forward(self, rows: Tensor, before: Tensor) -> Tensor:
        """Return scores ``[..., vocabulary]`` of every token of rows ``[..., hidden]`` after tokens ``before``."""
        return self.successor(self.predecessor(before) * self.gate(rows))
