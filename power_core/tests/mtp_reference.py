"""A slow, independent reference of one MTP head, in float64 NumPy; it shares no code with the plugin or the library.

A row at position q holds the token there and the target's state row of the position before. The head's input is
``eh_proj [norm(embedding), norm(state)]``, then one gated attention layer and a feed-forward. A chain goes on with the
head's own choice and its own normed output as the state row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from power_core.artifacts import scan_header

Array = NDArray[np.float64]


class MtpReference:
    """The head of a target with one prediction block, stored as F32."""

    def __init__(self, target: Path) -> None:
        self._header = scan_header(target)
        key = self._header.arch_key
        sizes = [self._header.require(key(name)) for name in ("block_count", "attention.key_length")]
        self._block, self._width = f"blk.{sizes[0] - 1}", sizes[1]
        self._rotated = self._header.require(key("rope.dimension_count"))
        self._base = self._header.require(key("rope.freq_base"))
        self._epsilon = self._header.require(key("attention.layer_norm_rms_epsilon"))

    def drafts(self, prompt: Sequence[int], states: Array, anchor: int, count: int) -> tuple[list[int], list[float]]:
        """Return drafts, and by how much each one leads the second best logit.

        Args:
            prompt: Committed tokens.
            states: float[n, n_embd], the target's state row at each of them.
            anchor: Token after them.
            count: Drafts wanted.
        """
        before = np.concatenate((np.zeros((1, states.shape[1])), states.astype(np.float64)))
        rows = [self._input(token, state) for token, state in zip((*prompt, anchor), before, strict=True)]
        tokens: list[int] = []
        leads = []
        while len(tokens) < count:
            state, logits = self._last_row(np.stack(rows))
            second, first = np.sort(logits)[-2:]
            tokens.append(int(np.argmax(logits)))
            leads.append(float(first - second))
            rows.append(self._input(tokens[-1], state))
        return tokens, leads

    def _input(self, token: int, state: Array) -> Array:
        embedding = self._norm(self._weight("token_embd.weight")[token], self._of_block("nextn.enorm"))
        hidden = self._norm(state, self._of_block("nextn.hnorm"))
        return np.concatenate((embedding, hidden)) @ self._of_block("nextn.eh_proj").T

    def _last_row(self, rows: Array) -> tuple[Array, Array]:
        """Return state row and logits of the last of some rows at positions 0, 1, ..."""
        row = rows[-1] + self._attention(self._norm(rows, self._of_block("attn_norm")))
        normed = self._norm(row, self._of_block("post_attention_norm"))
        gate, up = (normed @ self._of_block(f"ffn_{name}").T for name in ("gate", "up"))
        row = row + (gate / (1.0 + np.exp(-gate)) * up) @ self._of_block("ffn_down").T
        state = self._norm(row, self._of_block("nextn.shared_head_norm"))
        return state, state @ self._weight("output.weight").T

    def _attention(self, rows: Array) -> Array:
        """Return what the last row's attention adds."""
        queries, gates = np.moveaxis((rows[-1] @ self._of_block("attn_q").T).reshape(-1, 2, self._width), 1, 0)
        query = self._turn(self._norm(queries, self._of_block("attn_q_norm"))[np.newaxis], len(rows) - 1)
        keys = (rows @ self._of_block("attn_k").T).reshape(len(rows), -1, self._width)
        keys = self._turn(self._norm(keys, self._of_block("attn_k_norm")), 0)
        values = (rows @ self._of_block("attn_v").T).reshape(keys.shape)
        shared = query.shape[1] // keys.shape[1]
        keys, values = (np.repeat(each, shared, axis=1) for each in (keys, values))
        scores = np.einsum("hd,nhd->hn", query[0], keys) / np.sqrt(self._width)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        heads = np.einsum("hn,nhd->hd", weights / weights.sum(axis=1, keepdims=True), values)
        gated = heads / (1.0 + np.exp(-gates))
        return gated.reshape(-1) @ self._of_block("attn_output").T

    def _turn(self, rows: Array, first_pos: int) -> Array:
        """Rotate the first elements of each head, [n, heads, width], by their position; halves are paired."""
        half = self._rotated // 2
        angles = np.arange(first_pos, first_pos + len(rows))[:, np.newaxis] * self._base ** (-np.arange(half) / half)
        cosine, sine = (function(angles)[:, np.newaxis] for function in (np.cos, np.sin))
        left, right = rows[..., :half], rows[..., half : 2 * half]
        turned = (left * cosine - right * sine, left * sine + right * cosine, rows[..., 2 * half :])
        return np.concatenate(turned, axis=-1)

    def _norm(self, rows: Array, weight: Array) -> Array:
        return rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + self._epsilon) * weight

    def _of_block(self, name: str) -> Array:
        return self._weight(f"{self._block}.{name}.weight")

    def _weight(self, name: str) -> Array:
        tensor, header = self._header.tensors[name], self._header
        offset = header.data_offset_bytes + tensor.offset_bytes
        stored = np.fromfile(header.path, np.float32, tensor.size_bytes // 4, offset=offset)
        return stored.reshape(tensor.shape[::-1]).astype(np.float64)
