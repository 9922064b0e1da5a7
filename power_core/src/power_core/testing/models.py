"""Tiny random-weight target models: real GGUF files of a few megabytes for tests, demos and the contract kit.

Their text means nothing, but every part of a real model is there: a tokenizer, attention, recurrent state, a sliding
window, prediction blocks. Weights depend on the seed alone. Greedy output is varied and never reaches an end token.

Source: llama_cpp_details.md section A (keys).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from power_core.cache_dir import cache_subdir
from power_core.testing.gguf_files import Tensor, WeightType, require, write_model
from power_core.testing.tiny_weights import (
    CONV_KERNEL,
    FULL_ATTENTION_INTERVAL,
    HEAD_WIDTH,
    STATE_WIDTH,
    TargetKind,
    TinyPlan,
    tiny_tensors,
    tiny_weights,
)

if TYPE_CHECKING:
    from gguf import GGUFWriter

ARCHITECTURES: dict[str, str] = {"hybrid": "qwen35", "attention": "qwen3", "sliding-window": "gemma3"}
WINDOW_TOKENS = 32
SOURCES = ("models.py", "gguf_files.py", "tiny_weights.py", "tokenizer.py")


def build_tiny_target(
    path: Path,
    *,
    kind: TargetKind,
    seed: int = 0,
    dtype: WeightType = "F32",
    nextn_layers: int | None = None,
    hidden: int = 256,
) -> Path:
    """Write a random-weight target model; an existing file is replaced at once, never half-written.

    Equal arguments give equal bytes.

    Args:
        path: Where to write; the folder must exist.
        kind: ``hybrid`` (gated delta net and attention, prediction blocks), ``attention``, or ``sliding-window``.
        seed: Seed of the weights.
        dtype: Storage of the matrices; vectors and convolutions are always F32.
        nextn_layers: Prediction blocks, for ``hybrid`` alone; 1 by default, 0 leaves them out.
        hidden: Width of the hidden rows, a multiple of 128.

    Returns:
        ``path``.

    Raises:
        ConfigError: an argument is outside what is allowed, or the file cannot be written.
    """
    plan = _checked_plan(kind, dtype, nextn_layers, hidden)
    return write_model(
        Path(path), ARCHITECTURES[kind], lambda writer: _add_keys(writer, plan), _tensors(plan, seed, dtype)
    )


def default_target_path() -> Path:
    """Return the target that runs when no model is given: a random-weight hybrid with one prediction block.

    It is built at first use and kept in the cache folder. Its name carries a digest of the code that builds it, so a
    changed builder builds anew. Safe to call from several processes at once.

    Raises:
        ConfigError: the cache folder cannot be written.
    """
    path = cache_subdir("models") / f"tiny-hybrid-{_content_version()}.gguf"
    return path if path.is_file() else build_tiny_target(path, kind="hybrid")


def _content_version() -> str:
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    digest.update(f"gguf {version('gguf')} numpy {version('numpy')}".encode())
    return digest.hexdigest()[:12]


def _checked_plan(kind: TargetKind, dtype: WeightType, nextn_layers: int | None, hidden: int) -> TinyPlan:
    require(kind in get_args(TargetKind), "kind", kind, f"one of {get_args(TargetKind)}")
    require(dtype in get_args(WeightType), "dtype", dtype, f"one of {get_args(WeightType)}")
    width = 2 * HEAD_WIDTH
    require(hidden > 0 and hidden % width == 0, "hidden", hidden, f"a positive multiple of {width}")
    if nextn_layers is None:
        nextn_layers = 1 if kind == "hybrid" else 0
    require(
        nextn_layers == 0 or (nextn_layers > 0 and kind == "hybrid"),
        "nextn_layers",
        nextn_layers,
        f"0 for kind {kind!r}, or more for 'hybrid'",
    )
    return TinyPlan(kind=kind, hidden=hidden, nextn_layers=nextn_layers)


def _tensors(plan: TinyPlan, seed: int, dtype: WeightType) -> Iterator[Tensor]:
    random = np.random.default_rng(seed)
    for name, shape in tiny_tensors(plan):
        yield name, tiny_weights(name, shape, plan, random), dtype


def _add_keys(writer: GGUFWriter, plan: TinyPlan) -> None:
    writer.add_name(f"tiny {plan.kind} target, random weights")
    writer.add_embedding_length(plan.hidden)
    writer.add_block_count(plan.blocks)
    writer.add_feed_forward_length(plan.feed_forward)
    writer.add_head_count(plan.heads)
    writer.add_head_count_kv(plan.key_heads)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_rope_dimension_count(HEAD_WIDTH // 4 if plan.kind == "hybrid" else HEAD_WIDTH)
    if plan.kind == "hybrid":
        writer.add_rope_dimension_sections([3, 3, 2, 0])
        writer.add_ssm_conv_kernel(CONV_KERNEL)
        writer.add_ssm_state_size(STATE_WIDTH)
        writer.add_ssm_group_count(plan.key_heads)
        writer.add_ssm_time_step_rank(plan.heads)
        writer.add_ssm_inner_size(plan.state_inner)
        writer.add_full_attention_interval(FULL_ATTENTION_INTERVAL)
    if plan.nextn_layers:
        writer.add_nextn_predict_layers(plan.nextn_layers)
    if plan.kind == "sliding-window":
        writer.add_sliding_window(WINDOW_TOKENS)
        writer.add_float32("gemma3.rope.freq_base_swa", 10_000.0)
