"""Tiny random-weight target models: real GGUF files of a few megabytes for tests, demos and the contract kit.

Their text means nothing, but every part of a real model is there: a tokenizer, attention, recurrent state, a sliding
window, prediction blocks. Weights depend on the seed alone. Greedy output is varied and never reaches an end token.

Source: llama_cpp_details.md section A (keys).
"""

from __future__ import annotations

import hashlib
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from power_core.cache_dir import cache_subdir
from power_core.errors import ConfigError
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
from power_core.testing.tokenizer import CHAT_TEMPLATE, END_OF_TEXT, MASK, tiny_tokenizer

if TYPE_CHECKING:
    from gguf import GGUFWriter

WeightType: TypeAlias = Literal["F32", "F16", "Q8_0"]

ARCHITECTURES: dict[str, str] = {"hybrid": "qwen35", "attention": "qwen3", "sliding-window": "gemma3"}
CONTEXT_TOKENS = 8192
WINDOW_TOKENS = 32
SOURCES = ("models.py", "tiny_weights.py", "tokenizer.py")


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
    path = Path(path)
    try:
        _write_whole(path, plan, seed, dtype)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}",
            field="path",
            value=str(path),
            allowed="a path in a folder that exists and can be written",
            hint="make the folder, or choose another one",
        ) from error
    return path


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
    for field, value, allowed in (("kind", kind, get_args(TargetKind)), ("dtype", dtype, get_args(WeightType))):
        if value not in allowed:
            raise ConfigError(f"{field} is {value!r}, expected one of {allowed}", field=field, value=value)
    if hidden <= 0 or hidden % (2 * HEAD_WIDTH):
        raise ConfigError(
            f"hidden is {hidden!r}, expected a positive multiple of {2 * HEAD_WIDTH}", field="hidden", value=hidden
        )
    if nextn_layers is None:
        nextn_layers = 1 if kind == "hybrid" else 0
    if nextn_layers < 0 or (nextn_layers > 0 and kind != "hybrid"):
        raise ConfigError(
            f"nextn_layers is {nextn_layers!r} for kind {kind!r}, expected 0, or more for 'hybrid'",
            field="nextn_layers",
            value=nextn_layers,
        )
    return TinyPlan(kind=kind, hidden=hidden, nextn_layers=nextn_layers)


def _write_whole(path: Path, plan: TinyPlan, seed: int, dtype: WeightType) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as handle:
        partial = Path(handle.name)
    try:
        _write(partial, plan, seed, dtype)
        partial.chmod(0o644)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _write(path: Path, plan: TinyPlan, seed: int, dtype: WeightType) -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(path, ARCHITECTURES[plan.kind])
    _add_sizes(writer, plan)
    _add_tokenizer(writer)
    random = np.random.default_rng(seed)
    for name, shape in tiny_tensors(plan):
        _add_tensor(writer, name, tiny_weights(name, shape, plan, random), dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_sizes(writer: GGUFWriter, plan: TinyPlan) -> None:
    writer.add_type("model")
    writer.add_name(f"tiny {plan.kind} target, random weights")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(plan.hidden)
    writer.add_block_count(plan.blocks)
    writer.add_feed_forward_length(plan.feed_forward)
    writer.add_head_count(plan.heads)
    writer.add_head_count_kv(plan.key_heads)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1_000_000.0)
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


def _add_tokenizer(writer: GGUFWriter) -> None:
    tokenizer = tiny_tokenizer()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(tokenizer.token_types)
    writer.add_token_merges(tokenizer.merges)
    writer.add_eos_token_id(tokenizer.id_of(END_OF_TEXT))
    writer.add_mask_token_id(tokenizer.id_of(MASK))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_tensor(writer: GGUFWriter, name: str, values: NDArray[np.float32], dtype: WeightType) -> None:
    from gguf import GGMLQuantizationType, quants

    if values.ndim == 1 or name.endswith("ssm_conv1d.weight") or dtype == "F32":
        writer.add_tensor(name, values)
    elif dtype == "F16":
        writer.add_tensor(name, values.astype(np.float16))
    else:
        packed = quants.quantize(values, GGMLQuantizationType.Q8_0)
        writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q8_0)
