"""Gated delta net: linear attention with a decaying state, in chunks for training and row by row for generation."""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from recipe.layers import NORM_EPSILON, RmsNorm, join_heads, split_heads

CONV_KERNEL = 4
CHUNK_ROWS = 64

State: TypeAlias = tuple[Tensor, Tensor]


class GatedDeltaNet(nn.Module):
    """One layer; value head ``i`` uses key head ``i % key_heads``, the order that the GGUF stores."""

    def __init__(self, hidden: int, *, key_heads: int, value_heads: int, width: int) -> None:
        super().__init__()
        self.key_heads, self.value_heads, self.width = key_heads, value_heads, width
        inner, keys = value_heads * width, key_heads * width
        self.mixed = nn.Linear(hidden, 2 * keys + inner, bias=False)
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.beta = nn.Linear(hidden, value_heads, bias=False)
        self.alpha = nn.Linear(hidden, value_heads, bias=False)
        self.output = nn.Linear(inner, hidden, bias=False)
        self.norm = RmsNorm(width)
        self.conv = nn.Parameter(torch.randn(2 * keys + inner, CONV_KERNEL) / math.sqrt(CONV_KERNEL))
        self.log_decay = nn.Parameter(torch.linspace(math.log(0.5), math.log(8.0), value_heads))
        self.step_bias = nn.Parameter(torch.full((value_heads,), math.log(math.expm1(0.02))))

    def forward(self, rows: Tensor, past: State | None = None) -> tuple[Tensor, State]:
        """Mix the rows.

        Args:
            rows: ``[batch, rows, hidden]``; with a past, one row.
            past: What the previous call returned; None at the start of a text.

        Returns:
            The output rows and the state after them.
        """
        mixed = self.mixed(rows).transpose(1, 2)
        window = functional.pad(mixed, (CONV_KERNEL - 1, 0)) if past is None else torch.cat([past[1], mixed], dim=2)
        mixed = functional.silu(functional.conv1d(window, self.conv.unsqueeze(1), groups=window.shape[1]))
        keys = self.key_heads * self.width
        query, key, value = mixed.transpose(1, 2).split([keys, keys, self.value_heads * self.width], dim=-1)
        query, key = (self._unit_heads(part) for part in (query, key))
        value = split_heads(value, self.width)
        beta = self.beta(rows).sigmoid().transpose(1, 2)
        decay = -self.log_decay.exp() * functional.softplus(self.alpha(rows) + self.step_bias)
        parts = (query * self.width**-0.5, key, value, beta, decay.transpose(1, 2))
        out, state = chunked_delta_rule(*parts) if past is None else single_delta_rule(*parts, past[0])
        gated = self.norm(out) * functional.silu(split_heads(self.gate(rows), self.width))
        return self.output(join_heads(gated)), (state, window[:, :, -(CONV_KERNEL - 1) :])

    def _unit_heads(self, part: Tensor) -> Tensor:
        heads = split_heads(part, self.width)
        heads = heads * torch.rsqrt(heads.square().sum(-1, keepdim=True) + NORM_EPSILON)
        return heads.repeat(1, self.value_heads // self.key_heads, 1, 1)


def chunked_delta_rule(query: Tensor, key: Tensor, value: Tensor, beta: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """Run the gated delta rule over whole sequences from an empty state.

    Rows are taken in chunks of ``CHUNK_ROWS``. Inside a chunk the rule is a triangular system; between chunks the state
    is carried.

    Args:
        query: ``[batch, heads, rows, width]``, scaled.
        key: As ``query``, of unit length.
        value: As ``query``.
        beta: ``[batch, heads, rows]``, strength of each write.
        decay: ``[batch, heads, rows]``, logarithm of the decay before each row.

    Returns:
        Output ``[batch, heads, rows, width]`` and the last state ``[batch, heads, key width, value width]``.
    """
    rows = query.shape[2]
    padding = -rows % CHUNK_ROWS
    query, key, value = (_chunks(functional.pad(part, (0, 0, 0, padding)), 2) for part in (query, key, value))
    beta, decay = (_chunks(functional.pad(part, (0, padding)), 2) for part in (beta, decay))
    total = decay.cumsum(-1)
    since = (total.unsqueeze(-1) - total.unsqueeze(-2)).tril().exp().tril()
    strong_key = key * beta.unsqueeze(-1)
    system = (strong_key @ key.transpose(-1, -2) * since).tril(-1)
    wanted = torch.cat([value * beta.unsqueeze(-1), strong_key * total.exp().unsqueeze(-1)], dim=-1)
    solved = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    new_value, seen_key = solved.chunk(2, dim=-1)
    inside = query @ key.transpose(-1, -2) * since
    query = query * total.exp().unsqueeze(-1)
    last = total[..., -1:]
    key = key * (last - total).exp().unsqueeze(-1)
    state = torch.zeros_like(key[:, :, 0].transpose(-1, -2) @ value[:, :, 0])
    outputs = []
    for chunk in range(query.shape[2]):
        written = new_value[:, :, chunk] - seen_key[:, :, chunk] @ state
        outputs.append(query[:, :, chunk] @ state + inside[:, :, chunk] @ written)
        state = state * last[:, :, chunk].exp().unsqueeze(-1) + key[:, :, chunk].transpose(-1, -2) @ written
    return torch.cat(outputs, dim=2)[:, :, :rows], state


def single_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, decay: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Run the rule for one row per sequence; arguments as ``chunked_delta_rule``, with the state before the row."""
    state = state * decay.exp().unsqueeze(-1)
    written = (value - key @ state) * beta.unsqueeze(-1)
    state = state + key.transpose(-1, -2) @ written
    return query @ state, state


def _chunks(part: Tensor, dim: int) -> Tensor:
    return part.unflatten(dim, (-1, CHUNK_ROWS))
