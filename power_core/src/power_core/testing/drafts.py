"""Tiny random-weight block drafts (DFlash, DFlash2, DSpark) for the tiny targets: real GGUF files.

Every form of the format can be built: shared or own embeddings and head, a reduced draft vocabulary, a sliding window,
M-RoPE sections, causal blocks, both anchor layouts. Weights depend on the arguments alone. Drafts vary with what was
committed, the best two logits of a row lie about 1 apart, and confidences reach from near 0 to near 1.

Source: llama_cpp_details.md section A (keys).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import attrs
import numpy as np

from power_core.testing.draft_weights import (
    CONV_GROUP,
    CONV_KERNEL,
    ORDINARY_TOKENS,
    SELECTOR_RANK,
    SELECTOR_TOP_K,
    DraftKind,
    DraftPlan,
    draft_tensors,
    draft_weights,
)
from power_core.testing.gguf_files import Tensor, WeightType, require, write_model
from power_core.testing.tiny_weights import HEAD_WIDTH, TargetKind, TinyPlan

if TYPE_CHECKING:
    from gguf import GGUFWriter


def build_tiny_draft(
    path: Path,
    *,
    kind: DraftKind,
    target: TargetKind = "hybrid",
    seed: int = 0,
    dtype: WeightType = "F32",
    head_dtype: WeightType | None = None,
    hidden: int = 256,
    blocks: int = 2,
    block_size_rows: int = 8,
    target_layers: Sequence[int] = (1, 2, 3),
    own_embeddings: bool = False,
    own_head: bool = False,
    draft_vocabulary_tokens: int | None = None,
    window_tokens: int | None = None,
    sections: bool | None = None,
    causal: bool | None = None,
    sample_from_anchor: bool = True,
    confidence_head: bool = True,
) -> Path:
    """Write a random-weight draft; an existing file is replaced at once, never half-written.

    Equal arguments give equal bytes.

    Args:
        path: Where to write; the folder must exist.
        kind: ``dflash``, ``dflash2`` or ``dspark``.
        target: Kind of the target that it drafts for (``build_tiny_target``), of the same ``hidden``.
        seed: Seed of the weights.
        dtype: Storage of the matrices; vectors and convolutions are always F32.
        head_dtype: Storage of the own head; ``dtype`` when None.
        hidden: Width of the hidden rows, a multiple of 128.
        blocks: Transformer blocks.
        block_size_rows: Rows of a block in training.
        target_layers: Layers of the target whose inputs are the features, in this order.
        own_embeddings: Carries its own embeddings; without an own head they are the head too.
        own_head: Carries its own output matrix.
        draft_vocabulary_tokens: Drafts only that many tokens of the vocabulary; carries an own head then.
        window_tokens: Every other block, from the first, sees that many positions only.
        sections: Has M-RoPE sections; None: when the target is ``hybrid``.
        causal: Rows of a block see no later rows; None leaves the key out, which means False.
        sample_from_anchor: ``dspark``: the anchor's row predicts the first draft.
        confidence_head: ``dspark``: has one.

    Returns:
        ``path``.

    Raises:
        ConfigError: an argument is outside what is allowed, or the file cannot be written.
    """
    form = DraftForm(
        target=target,
        block_size_rows=block_size_rows,
        window_tokens=window_tokens,
        sections=target == "hybrid" if sections is None else sections,
        causal=causal,
        sample_from_anchor=sample_from_anchor,
    )
    plan = DraftPlan(
        kind=kind,
        hidden=hidden,
        blocks=blocks,
        target_layers=tuple(target_layers),
        own_embeddings=own_embeddings,
        own_head=own_head or draft_vocabulary_tokens is not None,
        draft_vocabulary_tokens=draft_vocabulary_tokens,
        confidence_head=confidence_head,
    )
    _check(plan, form, dtype, head_dtype)
    tensors = _tensors(plan, seed, dtype, head_dtype or dtype)
    return write_model(Path(path), "dflash", lambda writer: _add_keys(writer, plan, form), tensors)


@attrs.frozen(kw_only=True)
class DraftForm:
    """What the keys say beyond the sizes; as the arguments of ``build_tiny_draft``."""

    target: TargetKind
    block_size_rows: int
    window_tokens: int | None
    sections: bool
    causal: bool | None
    sample_from_anchor: bool


def _check(plan: DraftPlan, form: DraftForm, dtype: WeightType, head_dtype: WeightType | None) -> None:
    require(plan.kind in get_args(DraftKind), "kind", plan.kind, f"one of {get_args(DraftKind)}")
    require(form.target in get_args(TargetKind), "target", form.target, f"one of {get_args(TargetKind)}")
    require(dtype in get_args(WeightType), "dtype", dtype, f"one of {get_args(WeightType)}")
    require(
        head_dtype is None or (plan.own_head and head_dtype in get_args(WeightType)),
        "head_dtype",
        head_dtype,
        f"one of {get_args(WeightType)} for an own head, else None",
    )
    width = 2 * HEAD_WIDTH
    require(plan.hidden > 0 and plan.hidden % width == 0, "hidden", plan.hidden, f"a positive multiple of {width}")
    require(plan.blocks > 0, "blocks", plan.blocks, "at least 1")
    _check_layers(plan, form.target)
    _check_form(plan, form)


def _check_layers(plan: DraftPlan, target: TargetKind) -> None:
    last = TinyPlan(kind=target, hidden=plan.hidden, nextn_layers=0).trunk_blocks - 1
    layers = plan.target_layers
    distinct = len(set(layers)) == len(layers) > 0
    require(
        distinct and all(0 <= layer <= last for layer in layers),
        "target_layers",
        layers,
        f"different layers of 0..{last}, at least one",
    )


def _check_form(plan: DraftPlan, form: DraftForm) -> None:
    dspark = plan.kind == "dspark"
    least = 1 if dspark and form.sample_from_anchor else 2
    require(form.block_size_rows >= least, "block_size_rows", form.block_size_rows, f"at least {least}")
    window = form.window_tokens
    require(window is None or window > 0, "window_tokens", window, "at least 1, or None")
    tokens = plan.draft_vocabulary_tokens
    require(
        tokens is None or SELECTOR_TOP_K <= tokens <= ORDINARY_TOKENS,
        "draft_vocabulary_tokens",
        tokens,
        f"{SELECTOR_TOP_K}..{ORDINARY_TOKENS}, or None",
    )
    only = f"True for kind {plan.kind!r}"
    require(dspark or form.sample_from_anchor, "sample_from_anchor", form.sample_from_anchor, only)
    require(dspark or plan.confidence_head, "confidence_head", plan.confidence_head, only)


def _tensors(plan: DraftPlan, seed: int, dtype: WeightType, head_dtype: WeightType) -> Iterator[Tensor]:
    random = np.random.default_rng(seed)
    for name, shape in draft_tensors(plan):
        yield name, draft_weights(name, shape, random), head_dtype if name == "output.weight" else dtype


def _add_keys(writer: GGUFWriter, plan: DraftPlan, form: DraftForm) -> None:
    writer.add_name(f"tiny {plan.kind} draft for a tiny {form.target} target, random weights")
    writer.add_embedding_length(plan.hidden)
    writer.add_block_count(plan.blocks)
    writer.add_feed_forward_length(plan.feed_forward)
    writer.add_head_count(plan.heads)
    writer.add_head_count_kv(plan.key_heads)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_uint32("dflash.block_size", form.block_size_rows)
    writer.add_array("dflash.target_layers", plan.target_layers)
    if form.sections:
        writer.add_rope_dimension_sections([HEAD_WIDTH // 2, 0, 0, 0])
    if form.target == "sliding-window" and not plan.own_embeddings:
        writer.add_embedding_scale(math.sqrt(plan.hidden))
    if form.window_tokens is not None:
        writer.add_sliding_window(form.window_tokens)
        writer.add_sliding_window_pattern([block % 2 == 0 for block in range(plan.blocks)])
    if form.causal is not None:
        writer.add_causal_attention(form.causal)
    _add_kind_keys(writer, plan, form)


def _add_kind_keys(writer: GGUFWriter, plan: DraftPlan, form: DraftForm) -> None:
    if plan.kind == "dspark":
        writer.add_bool("dflash.sample_from_anchor", form.sample_from_anchor)
        writer.add_bool("dflash.has_confidence_head", plan.confidence_head)
    if plan.kind == "dflash2":
        writer.add_uint32("dflash.conv_kernel_size", CONV_KERNEL)
        writer.add_uint32("dflash.conv_group_size", CONV_GROUP)
        writer.add_uint32("dflash.selector_rank", SELECTOR_RANK)
        writer.add_uint32("dflash.selector_top_k", SELECTOR_TOP_K)
