"""Shapes and random weights of the tiny block drafts, tensor by tensor.

Source: llama_cpp_details.md section A (tensor names, shapes in ggml order).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.testing.tiny_weights import HEAD_WIDTH, SPECIAL_ROW_SCALE, Shape
from power_core.testing.tokenizer import SPECIAL_TOKENS, VOCABULARY_TOKENS

DraftKind: TypeAlias = Literal["dflash", "dflash2", "dspark"]

MARKOV_RANK = 64
CONV_KERNEL = 3
CONV_GROUP = 32
SELECTOR_RANK = 96
SELECTOR_TOP_K = 5
ORDINARY_TOKENS = VOCABULARY_TOKENS - len(SPECIAL_TOKENS)

HEAD_NORM = 3.0
ATTENTION_SCALE = 2.0
OUTPUT_NORM = 1.5
OWN_LOGIT_DEVIATION = 4.5
PAIR_DEVIATION = 3.0
CONFIDENCE_DEVIATION = 3.0
TAP_DEVIATION = 0.2


@attrs.frozen(kw_only=True)
class DraftPlan:
    """Kind and sizes of one draft, in elements."""

    kind: DraftKind
    hidden: int
    blocks: int
    target_layers: tuple[int, ...]
    own_embeddings: bool
    own_head: bool
    draft_vocabulary_tokens: int | None
    confidence_head: bool

    @property
    def heads(self) -> int:
        return self.hidden // HEAD_WIDTH

    @property
    def key_heads(self) -> int:
        return self.heads // 2

    @property
    def feed_forward(self) -> int:
        return 2 * self.hidden

    @property
    def head_rows(self) -> int:
        return self.draft_vocabulary_tokens or VOCABULARY_TOKENS


def draft_tensors(plan: DraftPlan) -> Iterator[tuple[str, Shape]]:
    """Yield names and shapes in ggml order (first dimension contiguous)."""
    yield "fc.weight", (len(plan.target_layers) * plan.hidden, plan.hidden)
    yield "enc.output_norm.weight", (plan.hidden,)
    yield "output_norm.weight", (plan.hidden,)
    if plan.own_embeddings:
        yield "token_embd.weight", (plan.hidden, VOCABULARY_TOKENS)
    if plan.own_head:
        yield "output.weight", (plan.hidden, plan.head_rows)
    if plan.draft_vocabulary_tokens is not None:
        yield "d2t", (plan.draft_vocabulary_tokens,)
    yield from _heads(plan).items()
    for block in range(plan.blocks):
        for name, shape in {**_block(plan), **_convolutions(plan)}.items():
            yield f"blk.{block}.{name}", shape


def _block(plan: DraftPlan) -> dict[str, Shape]:
    return {
        "attn_norm.weight": (plan.hidden,),
        "attn_q.weight": (plan.hidden, plan.heads * HEAD_WIDTH),
        "attn_k.weight": (plan.hidden, plan.key_heads * HEAD_WIDTH),
        "attn_v.weight": (plan.hidden, plan.key_heads * HEAD_WIDTH),
        "attn_output.weight": (plan.heads * HEAD_WIDTH, plan.hidden),
        "attn_q_norm.weight": (HEAD_WIDTH,),
        "attn_k_norm.weight": (HEAD_WIDTH,),
        "ffn_norm.weight": (plan.hidden,),
        "ffn_gate.weight": (plan.hidden, plan.feed_forward),
        "ffn_up.weight": (plan.hidden, plan.feed_forward),
        "ffn_down.weight": (plan.feed_forward, plan.hidden),
    }


def _heads(plan: DraftPlan) -> dict[str, Shape]:
    """Tensors that choose tokens from the block's rows, apart from the output matrix."""
    if plan.kind == "dflash2":
        return {
            "selector_predecessor.weight": (SELECTOR_RANK, VOCABULARY_TOKENS),
            "selector_successor.weight": (SELECTOR_RANK, VOCABULARY_TOKENS),
            "selector_hidden.weight": (plan.hidden, SELECTOR_RANK),
        }
    if plan.kind == "dflash":
        return {}
    heads: dict[str, Shape] = {
        "markov_w1.weight": (MARKOV_RANK, VOCABULARY_TOKENS),
        "markov_w2.weight": (MARKOV_RANK, plan.head_rows),
    }
    if plan.confidence_head:
        heads |= {"conf_proj.weight": (plan.hidden + MARKOV_RANK, 1), "conf_proj.bias": (1,)}
    return heads


def _convolutions(plan: DraftPlan) -> dict[str, Shape]:
    if plan.kind != "dflash2":
        return {}
    projected = 2 * CONV_KERNEL * plan.hidden // CONV_GROUP
    return {
        "attn_conv_base": (plan.hidden, CONV_KERNEL, 2),
        "attn_conv_proj.weight": (plan.hidden, projected),
        "ffn_conv_base": (plan.hidden, CONV_KERNEL, 2),
        "ffn_conv_proj.weight": (plan.hidden, projected),
    }


def draft_weights(name: str, shape: Shape, random: np.random.Generator) -> NDArray[Any]:
    """Draw a tensor; numpy's dimensions are those of ggml reversed.

    The scales give logits with clear margins and confidences from near 0 to near 1, and let attention to the committed
    tokens outweigh the mask's embedding, so that the rows of a block differ. Drafts never name a special token: a draft
    vocabulary leaves them out, and their output rows are small. Draft ids are in no order.
    """
    size = shape[::-1]
    if name == "d2t":
        return random.permutation(ORDINARY_TOKENS)[: shape[0]].astype(np.int64)
    if name == "conf_proj.bias":
        return np.zeros(size, np.float32)
    if len(shape) == 1:
        return np.full(size, _norm(name), np.float32)
    values = (random.standard_normal(size) * _deviation(name, shape)).astype(np.float32)
    if name.endswith("conv_base"):
        values[:, 0] += 1.0
    if name == "token_embd.weight" or (name == "output.weight" and shape[1] == VOCABULARY_TOKENS):
        values[-len(SPECIAL_TOKENS) :] *= SPECIAL_ROW_SCALE
    return values


def _norm(name: str) -> float:
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return HEAD_NORM
    return OUTPUT_NORM if name == "output_norm.weight" else 1.0


def _deviation(name: str, shape: Shape) -> float:
    fan_in = 1.0 / math.sqrt(shape[0])
    if name in ("token_embd.weight", "output.weight"):
        return OWN_LOGIT_DEVIATION / OUTPUT_NORM * fan_in
    if name in ("markov_w1.weight", "selector_predecessor.weight"):
        return 1.0
    if name in ("markov_w2.weight", "selector_successor.weight"):
        return PAIR_DEVIATION * fan_in
    if name.endswith("attn_output.weight"):
        return ATTENTION_SCALE * fan_in
    if name == "conf_proj.weight":
        return CONFIDENCE_DEVIATION / OUTPUT_NORM * fan_in
    if name.endswith("conv_proj.weight"):
        return 2 * TAP_DEVIATION * fan_in
    return TAP_DEVIATION if name.endswith("conv_base") else fan_in
