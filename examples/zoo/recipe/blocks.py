"""Block drafters (DFlash, DSpark, DFlash2): one backbone that fills masked rows from the target's tapped layers."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
import torch
from torch import Tensor, nn
from torch.nn import functional

from recipe.layers import FeedForward, RmsNorm, join_heads, rotate, split_heads
from recipe.selector import DynamicConv

Kind: TypeAlias = Literal["dflash", "dspark", "dflash2"]


@attrs.frozen(kw_only=True)
class DraftShape:
    """Sizes in elements and rows."""

    kind: Kind
    hidden: int = 256
    inner: int = 512
    layers: int = 2
    heads: int = 4
    key_heads: int = 2
    width: int = 64
    rope_base: float = 10_000.0
    block_rows: int = 8
    target_layers: tuple[int, ...] = (1, 3, 5)
    markov_rank: int = 64
    conv_kernel: int = 2
    conv_group: int = 32
    selector_rank: int = 64
    selector_width: int = 8

    @property
    def first_draft_row(self) -> int:
        """Row of a block that predicts its first draft; DSpark predicts at the anchor."""
        return 0 if self.kind == "dspark" else 1


class DraftLayer(nn.Module):
    """Attention over the committed features and the block, then feed-forward; DFlash2 convolves around both."""

    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        self.shape = shape
        self.mixer_norm = RmsNorm(shape.hidden)
        self.query = nn.Linear(shape.hidden, shape.heads * shape.width, bias=False)
        self.key = nn.Linear(shape.hidden, shape.key_heads * shape.width, bias=False)
        self.value = nn.Linear(shape.hidden, shape.key_heads * shape.width, bias=False)
        self.output = nn.Linear(shape.heads * shape.width, shape.hidden, bias=False)
        self.query_norm = RmsNorm(shape.width)
        self.key_norm = RmsNorm(shape.width)
        self.inner_norm = RmsNorm(shape.hidden)
        self.inner = FeedForward(shape.hidden, shape.inner)
        convolved = shape.kind == "dflash2"
        self.mixer_conv = DynamicConv(shape.hidden, shape.conv_kernel, shape.conv_group) if convolved else None
        self.inner_conv = DynamicConv(shape.hidden, shape.conv_kernel, shape.conv_group) if convolved else None

    def forward(self, rows: Tensor, features: Tensor, positions: Tensor, seen: Tensor) -> Tensor:
        """Transform the rows of all blocks.

        Args:
            rows: ``[batch, blocks, block rows, hidden]``.
            features: Fused features at positions 0, 1, ..., ``[batch, positions, hidden]``.
            positions: ``[blocks, block rows]``.
            seen: bool ``[blocks * block rows, positions + blocks * block rows]``.
        """
        normed = self.mixer_norm(rows)
        mixed = around(self.mixer_conv, normed, lambda part: self._attend(part, features, positions, seen))
        rows = rows + mixed
        return rows + around(self.inner_conv, self.inner_norm(rows), self.inner)

    def _attend(self, rows: Tensor, features: Tensor, positions: Tensor, seen: Tensor) -> Tensor:
        flat, where = rows.flatten(1, 2), positions.flatten()
        context = torch.arange(features.shape[1])
        everything = torch.cat([features, flat], dim=1)
        query = self._turned(self.query_norm(split_heads(self.query(flat), self.shape.width)), where)
        key = self.key_norm(split_heads(self.key(everything), self.shape.width))
        key = self._turned(key, torch.cat([context, where]))
        value = split_heads(self.value(everything), self.shape.width)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)
        return self.output(join_heads(mixed)).view_as(rows)

    def _turned(self, heads: Tensor, positions: Tensor) -> Tensor:
        return rotate(heads, positions, self.shape.width, self.shape.rope_base)


def around(conv: DynamicConv | None, rows: Tensor, inner: nn.Module) -> Tensor:
    """Apply ``inner``, with a convolution before and after it when there is one."""
    if conv is None:
        return inner(rows)
    coefficients = conv.coefficients(rows)
    return conv(inner(conv(rows, coefficients, side=0)), coefficients, side=1)


class Backbone(nn.Module):
    """Features in, rows of blocks out."""

    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        self.shape = shape
        self.fuse = nn.Linear(len(shape.target_layers) * shape.hidden, shape.hidden, bias=False)
        self.fuse_norm = RmsNorm(shape.hidden)
        self.layers = nn.ModuleList(DraftLayer(shape) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.hidden)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
        for layer in self.layers:
            nn.init.zeros_(layer.output.weight)
            nn.init.zeros_(layer.inner.down.weight)
            for conv in (layer.mixer_conv, layer.inner_conv):
                if conv is not None:
                    nn.init.zeros_(conv.projection.weight)

    def forward(self, features: Tensor, anchors: Tensor, embedded: Tensor) -> Tensor:
        """Return normed rows of every block.

        Args:
            features: The target's tapped rows side by side, ``[batch, positions, layers * hidden]``.
            anchors: Position of each block's anchor, ``[blocks]``; a block sees the features before it.
            embedded: Embeddings of the blocks' tokens, ``[batch, blocks, block rows, hidden]``.
        """
        width = embedded.shape[2]
        positions = anchors.unsqueeze(1) + torch.arange(width)
        seen = visible(anchors, width, features.shape[1])
        fused = self.fuse_norm(self.fuse(features))
        rows = embedded
        for layer in self.layers:
            rows = layer(rows, fused, positions, seen)
        return self.norm(rows)


def visible(anchors: Tensor, width: int, context_rows: int) -> Tensor:
    """Return which keys each row sees: committed positions before its anchor, and all rows of its own block."""
    owner = torch.arange(len(anchors)).repeat_interleave(width)
    context = torch.arange(context_rows) < anchors[owner].unsqueeze(1)
    return torch.cat([context, owner.unsqueeze(1) == owner], dim=1)


def block_tokens(tokens: Tensor, anchors: Tensor, rows: int, mask_token: int) -> Tensor:
    """Return ``[batch, blocks, rows]``: each anchor's token, then masks."""
    block = torch.full((tokens.shape[0], len(anchors), rows), mask_token)
    block[:, :, 0] = tokens[:, anchors]
    return block
