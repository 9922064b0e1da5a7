"""Layers of a block draft, row by row as the papers write them, in float64. Rows are [n, E], heads [n, H, D]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from block_reference_file import Array, DraftFile


def rms_norm(rows: Array, weight: Array, epsilon: float) -> Array:
    return rows / np.sqrt((rows**2).mean(-1, keepdims=True) + epsilon) * weight


def rope(heads: Array, positions: Sequence[int], file: DraftFile) -> Array:
    """Rotate pairs (i, i + rotated/2). M-RoPE sections of a draft give every pair to the temporal position."""
    sections = file.size("rope.dimension_sections")
    rotated = int(file.size("rope.dimension_count"))
    assert sections is None or list(sections[1:]) == [0, 0, 0]
    half = rotated // 2
    frequencies = file.size("rope.freq_base") ** (-np.arange(half) / half)
    angles = np.outer(positions, frequencies)[:, None, :]
    first, second, rest = heads[..., :half], heads[..., half:rotated], heads[..., rotated:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], -1)


def keys_and_values(file: DraftFile, block: int, rows: Array, positions: Sequence[int]) -> tuple[Array, Array]:
    """Keys (normed, rotated) and values [n, H_kv, D] of rows, of committed features and block rows alike.

    Both are rounded to float16, the type of the library's cache.
    """
    width = int(file.size("attention.key_length"))
    keys = (rows @ file.weight(f"blk.{block}.attn_k.weight").T).reshape(len(rows), -1, width)
    values = (rows @ file.weight(f"blk.{block}.attn_v.weight").T).reshape(len(rows), -1, width)
    keys = rms_norm(keys, file.weight(f"blk.{block}.attn_k_norm.weight"), epsilon(file))
    return rounded(rope(keys, positions, file)), rounded(values)


def rounded(values: Array) -> Array:
    return values.astype(np.float16).astype(np.float64)


def epsilon(file: DraftFile) -> float:
    return float(file.size("attention.layer_norm_rms_epsilon"))


def visible(file: DraftFile, block: int, queries: Sequence[int], keys: Sequence[int]) -> np.ndarray:
    """bool[n_queries, n_keys] by positions: nothing older than the window, nothing later when the block is causal."""
    distance = np.subtract.outer(np.asarray(queries), np.asarray(keys))
    seen = np.ones_like(distance, dtype=bool)
    window = file.window_tokens(block)
    if window is not None:
        seen &= distance < window
    if file.size("attention.causal", False):
        seen &= distance >= 0
    return seen


def attend(queries: Array, keys: Array, values: Array, seen: np.ndarray, sinks: Array | None) -> Array:
    """Softmax attention, [n, H, D]; a sink is one more score of its head, with a value of zero."""
    repeat = queries.shape[1] // keys.shape[1]
    keys, values = (np.repeat(array, repeat, axis=1) for array in (keys, values))
    scores = np.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(queries.shape[-1])
    scores = np.where(seen, scores, -np.inf)
    if sinks is not None:
        column = np.broadcast_to(sinks[:, None, None], (*scores.shape[:2], 1))
        scores = np.concatenate([scores, column], -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True))[..., : len(keys)]
    return np.einsum("hqk,khd->qhd", rounded(weights), values)


def feed_forward(file: DraftFile, block: int, rows: Array) -> Array:
    gate, up, down = (file.weight(f"blk.{block}.ffn_{name}.weight") for name in ("gate", "up", "down"))
    gated = rows @ gate.T
    if file.size("hidden_activation", "silu") == "silu":
        active = gated / (1.0 + np.exp(-gated))
    else:
        active = 0.5 * gated * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (gated + 0.044715 * gated**3)))
    return (active * (rows @ up.T)) @ down.T


def convolve(rows: Array, dynamic: Array, base: Array, side: int, group: int) -> Array:
    """DFlash2's dynamic convolution over the block's own rows, nothing before the first.

    Args:
        rows: [n, E].
        dynamic: [n, 2 * kernel * E/group]: per row and side, a coefficient for each tap of each group of channels.
        base: [2, kernel, E]: per side, a coefficient for each tap of each channel.
        side: 0 before the layer, 1 after it.
        group: Channels of a group.
    """
    kernel = base.shape[1]
    coefficients = dynamic.reshape(len(rows), 2, kernel, -1)[:, side]
    result = np.zeros_like(rows)
    for row in range(len(rows)):
        for tap in range(min(kernel, row + 1)):
            weights = base[side, tap] + np.repeat(coefficients[row, tap], group)
            result[row] += weights * rows[row - tap]
    return result
