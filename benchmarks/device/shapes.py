"""Shapes of the random-weight models that are measured on a device: sizes only, in elements.

``FULL`` has the widths of a 27B hybrid target (public figures of that class of model) with few layers; cost is measured
with two depths and scaled by layers. ``SMALL`` has the same parts and runs anywhere in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

DrafterKind: TypeAlias = Literal["dspark", "dflash2"]
Tensors: TypeAlias = Iterator[tuple[str, tuple[int, ...]]]


@attrs.frozen(kw_only=True)
class TargetShape:
    """A hybrid target: every ``attention_interval``-th layer has full attention, the others a gated delta net.

    ``layers`` is what is built, ``real_layers`` what the figures are scaled to.
    """

    hidden: int
    feed_forward: int
    vocabulary: int
    heads: int
    key_heads: int
    head_width: int
    state_heads: int
    state_key_heads: int
    state_width: int
    real_layers: int
    layers: int = 4
    conv_kernel: int = 4
    attention_interval: int = 4

    @property
    def state_inner(self) -> int:
        """Elements of a delta net's value rows."""
        return self.state_heads * self.state_width

    @property
    def conv_width(self) -> int:
        """Channels of a delta net's convolution."""
        return 2 * self.state_key_heads * self.state_width + self.state_inner


@attrs.frozen(kw_only=True)
class DrafterShape:
    """A block drafter beside a target of the same ``hidden``."""

    kind: DrafterKind
    blocks: int
    feed_forward: int
    heads: int
    key_heads: int
    head_width: int
    block_size: int
    target_layers: tuple[int, ...] = (0, 1, 2, 3)
    rank: int = 256
    conv_kernel: int = 2
    conv_group: int = 128
    lattice_width: int = 16


FULL_TARGET = TargetShape(
    hidden=5120,
    feed_forward=17_408,
    vocabulary=248_320,
    heads=24,
    key_heads=4,
    head_width=256,
    state_heads=48,
    state_key_heads=16,
    state_width=128,
    real_layers=64,
)
SMALL_TARGET = TargetShape(
    hidden=256,
    feed_forward=512,
    vocabulary=512,
    heads=4,
    key_heads=2,
    head_width=64,
    state_heads=8,
    state_key_heads=4,
    state_width=32,
    real_layers=64,
)
FULL_DRAFTERS = (
    DrafterShape(
        kind="dspark", blocks=5, feed_forward=17_408, heads=32, key_heads=8, head_width=128, block_size=16, rank=256
    ),
    DrafterShape(
        kind="dflash2", blocks=5, feed_forward=17_408, heads=32, key_heads=8, head_width=128, block_size=16, rank=64
    ),
)
SMALL_DRAFTERS = (
    DrafterShape(
        kind="dspark", blocks=2, feed_forward=512, heads=4, key_heads=2, head_width=64, block_size=16, rank=32
    ),
    DrafterShape(
        kind="dflash2",
        blocks=2,
        feed_forward=512,
        heads=4,
        key_heads=2,
        head_width=64,
        block_size=16,
        rank=32,
        conv_group=32,
        lattice_width=8,
    ),
)


def target_tensors(shape: TargetShape) -> Tensors:
    """Yield the target's tensors with one prediction block, in ggml's order of dimensions."""
    yield "token_embd.weight", (shape.hidden, shape.vocabulary)
    yield "output_norm.weight", (shape.hidden,)
    yield "output.weight", (shape.hidden, shape.vocabulary)
    for layer in range(shape.layers + 1):
        recurrent = layer < shape.layers and (layer + 1) % shape.attention_interval != 0
        parts = {**(_delta_net(shape) if recurrent else _attention(shape)), **_feed_forward(shape)}
        if layer == shape.layers:
            parts |= _nextn(shape)
        for name, size in parts.items():
            yield f"blk.{layer}.{name}", size


def drafter_tensors(shape: DrafterShape, target: TargetShape) -> Tensors:
    """Yield a drafter's tensors; it shares the target's embeddings and head."""
    hidden, vocabulary = target.hidden, target.vocabulary
    yield "fc.weight", (len(shape.target_layers) * hidden, hidden)
    yield "enc.output_norm.weight", (hidden,)
    yield "output_norm.weight", (hidden,)
    if shape.kind == "dspark":
        yield "markov_w1.weight", (shape.rank, vocabulary)
        yield "markov_w2.weight", (shape.rank, vocabulary)
        yield "conf_proj.weight", (hidden + shape.rank, 1)
        yield "conf_proj.bias", (1,)
    else:
        yield "selector_predecessor.weight", (shape.rank, vocabulary)
        yield "selector_successor.weight", (shape.rank, vocabulary)
        yield "selector_hidden.weight", (hidden, shape.rank)
    for block in range(shape.blocks):
        for name, size in _drafter_block(shape, hidden).items():
            yield f"blk.{block}.{name}", size


def _attention(shape: TargetShape) -> dict[str, tuple[int, ...]]:
    return {
        "attn_norm.weight": (shape.hidden,),
        "attn_q.weight": (shape.hidden, 2 * shape.heads * shape.head_width),
        "attn_k.weight": (shape.hidden, shape.key_heads * shape.head_width),
        "attn_v.weight": (shape.hidden, shape.key_heads * shape.head_width),
        "attn_output.weight": (shape.heads * shape.head_width, shape.hidden),
        "attn_q_norm.weight": (shape.head_width,),
        "attn_k_norm.weight": (shape.head_width,),
    }


def _delta_net(shape: TargetShape) -> dict[str, tuple[int, ...]]:
    return {
        "attn_norm.weight": (shape.hidden,),
        "attn_qkv.weight": (shape.hidden, shape.conv_width),
        "attn_gate.weight": (shape.hidden, shape.state_inner),
        "ssm_conv1d.weight": (shape.conv_kernel, shape.conv_width),
        "ssm_dt.bias": (shape.state_heads,),
        "ssm_a": (shape.state_heads,),
        "ssm_beta.weight": (shape.hidden, shape.state_heads),
        "ssm_alpha.weight": (shape.hidden, shape.state_heads),
        "ssm_norm.weight": (shape.state_width,),
        "ssm_out.weight": (shape.state_inner, shape.hidden),
    }


def _feed_forward(shape: TargetShape) -> dict[str, tuple[int, ...]]:
    return {
        "post_attention_norm.weight": (shape.hidden,),
        "ffn_gate.weight": (shape.hidden, shape.feed_forward),
        "ffn_up.weight": (shape.hidden, shape.feed_forward),
        "ffn_down.weight": (shape.feed_forward, shape.hidden),
    }


def _nextn(shape: TargetShape) -> dict[str, tuple[int, ...]]:
    return {
        "nextn.eh_proj.weight": (2 * shape.hidden, shape.hidden),
        "nextn.enorm.weight": (shape.hidden,),
        "nextn.hnorm.weight": (shape.hidden,),
        "nextn.shared_head_norm.weight": (shape.hidden,),
    }


def _drafter_block(shape: DrafterShape, hidden: int) -> dict[str, tuple[int, ...]]:
    tensors: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (hidden,),
        "attn_q.weight": (hidden, shape.heads * shape.head_width),
        "attn_k.weight": (hidden, shape.key_heads * shape.head_width),
        "attn_v.weight": (hidden, shape.key_heads * shape.head_width),
        "attn_output.weight": (shape.heads * shape.head_width, hidden),
        "attn_q_norm.weight": (shape.head_width,),
        "attn_k_norm.weight": (shape.head_width,),
        "ffn_norm.weight": (hidden,),
        "ffn_gate.weight": (hidden, shape.feed_forward),
        "ffn_up.weight": (hidden, shape.feed_forward),
        "ffn_down.weight": (shape.feed_forward, hidden),
    }
    if shape.kind == "dflash2":
        projected = 2 * shape.conv_kernel * hidden // shape.conv_group
        for name in ("attn_conv", "ffn_conv"):
            tensors |= {
                f"{name}_base": (hidden, shape.conv_kernel, 2),
                f"{name}_proj.weight": (hidden, projected),
            }
    return tensors
