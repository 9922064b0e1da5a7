"""Shapes and random weights of the tiny models, tensor by tensor.

Source: llama_cpp_details.md section A (tensor names, shapes in ggml order).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.testing.tokenizer import SPECIAL_TOKENS, VOCABULARY_TOKENS

TargetKind: TypeAlias = Literal["hybrid", "attention", "sliding-window"]
Shape: TypeAlias = tuple[int, ...]

HEAD_WIDTH = 64
STATE_WIDTH = 32
CONV_KERNEL = 4
FULL_ATTENTION_INTERVAL = 4
TRUNK_BLOCKS = 4
WINDOW_TRUNK_BLOCKS = 6
EMBEDDING_DEVIATION = 1.0
LOGIT_DEVIATION = 3.0
HEAD_NORM = 2.0
SPECIAL_ROW_SCALE = 0.05


@attrs.frozen(kw_only=True)
class TinyPlan:
    """Kind and sizes of one model, in elements."""

    kind: TargetKind
    hidden: int
    nextn_layers: int

    @property
    def trunk_blocks(self) -> int:
        return WINDOW_TRUNK_BLOCKS if self.kind == "sliding-window" else TRUNK_BLOCKS

    @property
    def blocks(self) -> int:
        return self.trunk_blocks + self.nextn_layers

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
    def state_inner(self) -> int:
        return STATE_WIDTH * self.heads

    @property
    def conv_width(self) -> int:
        return 2 * STATE_WIDTH * self.key_heads + self.state_inner

    def is_recurrent(self, block: int) -> bool:
        trunk = block < self.trunk_blocks
        return self.kind == "hybrid" and trunk and (block + 1) % FULL_ATTENTION_INTERVAL != 0


def tiny_tensors(plan: TinyPlan) -> Iterator[tuple[str, Shape]]:
    """Yield names and shapes in ggml order (first dimension contiguous)."""
    yield "token_embd.weight", (plan.hidden, VOCABULARY_TOKENS)
    yield "output_norm.weight", (plan.hidden,)
    if plan.kind != "sliding-window":
        yield "output.weight", (plan.hidden, VOCABULARY_TOKENS)
    for block in range(plan.blocks):
        parts = [_delta_net(plan) if plan.is_recurrent(block) else _attention(plan), _feed_forward(plan)]
        if block >= plan.trunk_blocks:
            parts.append(_nextn(plan))
        for part in parts:
            for name, shape in part.items():
                yield f"blk.{block}.{name}", shape


def _attention(plan: TinyPlan) -> dict[str, Shape]:
    gated = 2 if plan.kind == "hybrid" else 1
    return {
        "attn_norm.weight": (plan.hidden,),
        "attn_q.weight": (plan.hidden, gated * plan.heads * HEAD_WIDTH),
        "attn_k.weight": (plan.hidden, plan.key_heads * HEAD_WIDTH),
        "attn_v.weight": (plan.hidden, plan.key_heads * HEAD_WIDTH),
        "attn_output.weight": (plan.heads * HEAD_WIDTH, plan.hidden),
        "attn_q_norm.weight": (HEAD_WIDTH,),
        "attn_k_norm.weight": (HEAD_WIDTH,),
    }


def _delta_net(plan: TinyPlan) -> dict[str, Shape]:
    return {
        "attn_norm.weight": (plan.hidden,),
        "attn_qkv.weight": (plan.hidden, plan.conv_width),
        "attn_gate.weight": (plan.hidden, plan.state_inner),
        "ssm_conv1d.weight": (CONV_KERNEL, plan.conv_width),
        "ssm_dt.bias": (plan.heads,),
        "ssm_a": (plan.heads,),
        "ssm_beta.weight": (plan.hidden, plan.heads),
        "ssm_alpha.weight": (plan.hidden, plan.heads),
        "ssm_norm.weight": (STATE_WIDTH,),
        "ssm_out.weight": (plan.state_inner, plan.hidden),
    }


def _feed_forward(plan: TinyPlan) -> dict[str, Shape]:
    norms: dict[str, dict[str, Shape]] = {
        "hybrid": {"post_attention_norm.weight": (plan.hidden,)},
        "attention": {"ffn_norm.weight": (plan.hidden,)},
        "sliding-window": {
            "post_attention_norm.weight": (plan.hidden,),
            "ffn_norm.weight": (plan.hidden,),
            "post_ffw_norm.weight": (plan.hidden,),
        },
    }
    return {
        **norms[plan.kind],
        "ffn_gate.weight": (plan.hidden, plan.feed_forward),
        "ffn_up.weight": (plan.hidden, plan.feed_forward),
        "ffn_down.weight": (plan.feed_forward, plan.hidden),
    }


def _nextn(plan: TinyPlan) -> dict[str, Shape]:
    return {
        "nextn.eh_proj.weight": (2 * plan.hidden, plan.hidden),
        "nextn.enorm.weight": (plan.hidden,),
        "nextn.hnorm.weight": (plan.hidden,),
        "nextn.shared_head_norm.weight": (plan.hidden,),
    }


def tiny_weights(name: str, shape: Shape, plan: TinyPlan, random: np.random.Generator) -> NDArray[np.float32]:
    """Draw a tensor; numpy's dimensions are those of ggml reversed.

    The scales keep logits finite and spread. Two of them keep greedy output from running in circles: the head norms
    make attention pick few positions instead of averaging all, and random signs in the output norm of a sliding-window
    model, whose embedding is also its output matrix, keep it from answering every token with that same token. Special
    tokens have small output rows, so that greedy output runs on to its token limit.
    """
    size = shape[::-1]
    if name.endswith("ssm_a"):
        return -random.uniform(0.02, 0.5, size).astype(np.float32)
    if name.endswith("ssm_dt.bias"):
        return random.uniform(-1.0, 1.0, size).astype(np.float32)
    if len(shape) == 1:
        if plan.kind == "sliding-window" and name == "output_norm.weight":
            return random.choice([-1.0, 1.0], size).astype(np.float32)
        return np.full(size, HEAD_NORM if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0, np.float32)
    values = (random.standard_normal(size) * _deviation(name, shape, plan)).astype(np.float32)
    if name == _output_matrix(plan):
        values[-len(SPECIAL_TOKENS) :] *= SPECIAL_ROW_SCALE
    return values


def _output_matrix(plan: TinyPlan) -> str:
    """Name of the matrix whose rows give the logits."""
    return "token_embd.weight" if plan.kind == "sliding-window" else "output.weight"


def _deviation(name: str, shape: Shape, plan: TinyPlan) -> float:
    fan_in = 1.0 / math.sqrt(shape[0])
    if name == _output_matrix(plan):
        return LOGIT_DEVIATION * fan_in
    if name == "token_embd.weight":
        return EMBEDDING_DEVIATION
    return fan_in
