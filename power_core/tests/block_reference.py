"""A slow, independent reference of the block drafters' graphs: DFlash, DFlash2, DSpark, in float64 NumPy.

Written from the papers' formulas for the llama.cpp format; it shares no code with the library. The features are the
rows that the target really computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
from block_reference_file import Array, DraftFile
from block_reference_heads import choose_largest, markov_chain, output_logits, walk
from block_reference_layers import (
    attend,
    convolve,
    epsilon,
    feed_forward,
    keys_and_values,
    rms_norm,
    rope,
    rounded,
    visible,
)


@attrs.frozen(kw_only=True)
class ReferenceBlock:
    """What one block proposes.

    Attributes:
        tokens: The drafts.
        hidden: float64[n_rows, E] of every row of the block.
        logits: float64[n_rows, V] of every row of the block; for DSpark with the Markov shift.
        confidences: One per draft, or None when the draft has no confidence head.
        shortfalls: By how much each token of the path scores below the best one; 0 where it is the best.
        cut_margins: DFlash2: how far the last of a row's candidates lies before the first that is left out; else empty.
    """

    tokens: list[int]
    hidden: Array
    logits: Array
    confidences: Array | None
    shortfalls: Array
    cut_margins: Array


class BlockReference:
    """A block draft beside its target's file."""

    def __init__(self, draft: Path, target: Path) -> None:
        self.file = DraftFile(draft, target)
        self._blocks = int(self.file.size("block_count"))

    def fuse(self, features: Array) -> Array:
        """Feature rows [n, layers * E] as the draft's attention sees them, [n, E]."""
        fused = features.astype(np.float64) @ self.file.weight("fc.weight").T
        return rms_norm(fused, self.file.weight("enc.output_norm.weight"), epsilon(self.file))

    def propose(
        self, features: Array, anchor: int, drafts: int, *, path: Sequence[int] | None = None
    ) -> ReferenceBlock:
        """Draft tokens after committed ones.

        Args:
            features: [n_committed, layers * E], the target's rows at positions 0..n_committed - 1.
            anchor: Token at position n_committed.
            drafts: Tokens wanted.
            path: Tokens that the drafts follow, in place of the best ones; keeps two programs together where scores
                nearly tie.
        """
        first = self.file.first_draft_row
        rows = self.hidden_rows(features, [anchor] + [self.file.mask_token] * (drafts + first - 1))
        logits = output_logits(self.file, rows)
        if "markov_w1.weight" in self.file:
            choices = markov_chain(self.file, rows[first:], logits[first:], anchor, path)
        elif "selector_hidden.weight" in self.file:
            choices = walk(self.file, rows[first:], logits[first:], anchor, path)
        else:
            choices = choose_largest(logits[first:], path)
        return ReferenceBlock(
            tokens=choices.tokens,
            hidden=rows,
            logits=logits,
            confidences=choices.confidences,
            shortfalls=np.asarray(choices.shortfalls),
            cut_margins=np.asarray(choices.cut_margins),
        )

    def hidden_rows(self, features: Array, tokens: list[int]) -> Array:
        """Normed rows [n, E] of the block's tokens, after all layers."""
        context = self.fuse(features)
        rows = self.file.embeddings[tokens] * self.file.size("embedding_scale", 1.0)
        for block in range(self._blocks):
            rows = rows + self._attention(block, context, rows)
            rows = rows + self._feed_forward(block, rows)
        return rms_norm(rows, self.file.weight("output_norm.weight"), epsilon(self.file))

    def _attention(self, block: int, context: Array, rows: Array) -> Array:
        file, name = self.file, f"blk.{block}"
        rows = rms_norm(rows, file.weight(f"{name}.attn_norm.weight"), epsilon(file))
        dynamic = self._dynamic(f"{name}.attn", rows)
        rows = self._convolved(f"{name}.attn", rows, dynamic, side=0)
        committed, new = range(len(context)), range(len(context), len(context) + len(rows))
        queries = (rows @ file.weight(f"{name}.attn_q.weight").T).reshape(
            len(rows), -1, int(file.size("attention.key_length"))
        )
        queries = rms_norm(queries, file.weight(f"{name}.attn_q_norm.weight"), epsilon(file))
        queries = rounded(rope(queries, new, file))
        stored = (keys_and_values(file, block, context, committed), keys_and_values(file, block, rows, new))
        keys, values = (np.concatenate(parts) for parts in zip(*stored, strict=True))
        seen = visible(file, block, new, range(len(keys)))
        heads = attend(queries, keys, values, seen, file.optional(f"{name}.attn_sinks.weight"))
        result = heads.reshape(len(rows), -1) @ file.weight(f"{name}.attn_output.weight").T
        return self._convolved(f"{name}.attn", result, dynamic, side=1)

    def _feed_forward(self, block: int, rows: Array) -> Array:
        name = f"blk.{block}.ffn"
        rows = rms_norm(rows, self.file.weight(f"blk.{block}.ffn_norm.weight"), epsilon(self.file))
        dynamic = self._dynamic(name, rows)
        rows = self._convolved(name, rows, dynamic, side=0)
        return self._convolved(name, feed_forward(self.file, block, rows), dynamic, side=1)

    def _dynamic(self, name: str, rows: Array) -> Array | None:
        projection = self.file.optional(f"{name}_conv_proj.weight")
        return None if projection is None else rows @ projection.T

    def _convolved(self, name: str, rows: Array, dynamic: Array | None, *, side: int) -> Array:
        if dynamic is None:
            return rows
        return convolve(
            rows, dynamic, self.file.weight(f"{name}_conv_base"), side, int(self.file.size("conv_group_size"))
        )
