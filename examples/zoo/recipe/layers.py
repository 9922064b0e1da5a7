"""Parts that the target and the drafters share: norm, rotation, feed-forward, gated attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

NORM_EPSILON = 1e-6


class RmsNorm(nn.Module):
    """Root-mean-square norm with a weight per element."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, rows: Tensor) -> Tensor:
        return functional.rms_norm(rows, (rows.shape[-1],), self.weight, NORM_EPSILON)


class FeedForward(nn.Module):
    """Gated feed-forward layer (SiLU)."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(rows)) * self.up(rows))


def rotate(heads: Tensor, positions: Tensor, rotated: int, base: float) -> Tensor:
    """Rotate the first ``rotated`` elements of each head by its position, first half against second half.

    Args:
        heads: ``[batch, heads, rows, width]``.
        positions: ``[rows]`` or ``[batch, rows]``.
        rotated: Elements that turn, even.
        base: Base of the frequencies.
    """
    half = rotated // 2
    frequencies = base ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = positions.to(torch.float32).unsqueeze(-1) * frequencies
    angles = angles.unsqueeze(-3)
    cosine, sine = angles.cos(), angles.sin()
    first, second, rest = heads.split([half, half, heads.shape[-1] - rotated], dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], dim=-1)


def split_heads(rows: Tensor, width: int) -> Tensor:
    """Turn ``[batch, rows, heads * width]`` into ``[batch, heads, rows, width]``."""
    return rows.unflatten(-1, (-1, width)).transpose(1, 2)


def join_heads(heads: Tensor) -> Tensor:
    """Turn ``[batch, heads, rows, width]`` into ``[batch, rows, heads * width]``."""
    return heads.transpose(1, 2).flatten(2)


class GatedAttention(nn.Module):
    """Causal attention whose output is gated by its input; keys and values are shared by groups of heads.

    The query projection yields, head by head, the query and the gate.
    """

    def __init__(self, hidden: int, *, heads: int, key_heads: int, width: int, rotated: int, base: float) -> None:
        super().__init__()
        self.width, self.rotated, self.base = width, rotated, base
        self.query = nn.Linear(hidden, 2 * heads * width, bias=False)
        self.key = nn.Linear(hidden, key_heads * width, bias=False)
        self.value = nn.Linear(hidden, key_heads * width, bias=False)
        self.output = nn.Linear(heads * width, hidden, bias=False)
        self.query_norm = RmsNorm(width)
        self.key_norm = RmsNorm(width)

    def forward(self, rows: Tensor, past: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Attend over the past and the rows themselves.

        Returns:
            The output rows, and the keys and values including these rows (the next call's ``past``).
        """
        done = 0 if past is None else past[0].shape[2]
        positions = torch.arange(done, done + rows.shape[1])
        query, gate = split_heads(self.query(rows), 2 * self.width).chunk(2, dim=-1)
        query = rotate(self.query_norm(query), positions, self.rotated, self.base)
        key = rotate(self.key_norm(split_heads(self.key(rows), self.width)), positions, self.rotated, self.base)
        value = split_heads(self.value(rows), self.width)
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        attend = functional.scaled_dot_product_attention
        mixed = attend(query, key, value, is_causal=past is None, enable_gqa=True)
        return self.output(join_heads(mixed * gate.sigmoid())), (key, value)
