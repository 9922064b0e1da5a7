"""Checks of a target header: one fault at a time, each with its verdict (B109, B110, B115, B116)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.artifacts.roles import describe_role
from power_core.artifacts.target_checks import check_target
from power_core.artifacts.validation import Check
from power_core.testing.headers import GgufBytes, minimal_target, text
from power_core.testing.models import build_tiny_target

U8, U32, I8, I32, I64 = ValueType.UINT8, ValueType.UINT32, ValueType.INT8, ValueType.INT32, ValueType.INT64
F32, BOOL, STRING = ValueType.FLOAT32, ValueType.BOOL, ValueType.STRING
TOKENS = 4


def failures(path: Path) -> list[Check]:
    return list(check_target(scan_header(path)).failures)


def failed(folder: Path, content: GgufBytes) -> dict[str, str]:
    path = folder / "m.gguf"
    path.write_bytes(content.build())
    return {check.id.removeprefix("target."): check.message for check in failures(path)}


def changed(key: str, value_type: ValueType, value: object) -> GgufBytes:
    """The good header with one key replaced, or added when it has none."""
    base = minimal_target().without(key)
    return (
        base.with_array(key, value_type, value) if isinstance(value, list) else base.with_value(key, value_type, value)
    )


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("models") / "hybrid.gguf"
    return build_tiny_target(path, kind="hybrid", hidden=128, dtype="Q8_0").read_bytes()


def patched(content: bytes, key: str, value: int) -> bytes:
    position = content.index(text(key)) + len(text(key)) + 4
    return content[:position] + struct.pack("<I", value) + content[position + 4 :]


def test_good_headers_pass(tmp_path: Path) -> None:
    assert failed(tmp_path, minimal_target()) == {}
    many = changed("qwen3.attention.head_count_kv", U32, [1])
    assert failed(tmp_path, many) == {}


@pytest.mark.parametrize(
    "key",
    [
        "general.architecture",
        "qwen3.context_length",
        "qwen3.embedding_length",
        "qwen3.block_count",
        "qwen3.attention.head_count",
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.merges",
    ],
)
def test_missing_key_is_named(tmp_path: Path, key: str) -> None:
    messages = failed(tmp_path, minimal_target().without(key)).values()
    assert any(f"{key!r} is missing" in message for message in messages)


@pytest.mark.parametrize(
    ("key", "value_type", "value", "check"),
    [
        ("qwen3.context_length", U32, 0, "context_length"),
        ("qwen3.context_length", ValueType.UINT64, 64, "context_length"),
        ("qwen3.embedding_length", U32, 0, "embedding_length"),
        ("qwen3.block_count", U32, 0, "block_count"),
        ("qwen3.block_count", U32, 513, "block_count"),
        ("qwen3.block_count", U32, 2, "blocks"),
        ("qwen3.nextn_predict_layers", U32, 1, "trunk_blocks"),
        ("qwen3.nextn_predict_layers", U32, 7, "trunk_blocks"),
        ("qwen3.nextn_predict_layers", I32, 0, "nextn_predict_layers"),
        ("other.nextn_predict_layers", STRING, "1", "nextn_predict_layers"),
        ("qwen3.attention.head_count", U32, 0, "head_count"),
        ("qwen3.attention.head_count", U32, [0], "head_count"),
        ("qwen3.attention.head_count", U32, [2, 2], "attention.head_count"),
        ("qwen3.attention.head_count", I32, [-1], "attention.head_count"),
        ("qwen3.attention.head_count", F32, [2.0], "attention.head_count"),
        ("qwen3.attention.head_count", STRING, ["2"], "attention.head_count"),
        ("qwen3.attention.head_count", F32, 2.0, "attention.head_count"),
        ("qwen3.attention.head_count_kv", U32, 3, "head_groups"),
        ("qwen3.attention.key_length", U32, 8, "head_widths"),
        ("qwen3.attention.key_length", U32, 0, "attention.key_length"),
        ("qwen3.rope.dimension_count", U32, 14, "rope_dimensions"),
        ("qwen3.rope.dimension_count", U32, 2**31, "rope.dimension_count"),
        ("qwen3.rope.scaling.type", STRING, "su", "rope_scaling_type"),
        ("qwen3.rope.scaling.type", U32, 1, "rope_scaling_type"),
        ("qwen3.rope.freq_base", F32, 0.0, "rope.freq_base"),
        ("qwen3.rope.freq_base", F32, float("inf"), "rope.freq_base"),
        ("qwen3.rope.dimension_sections", I32, [100, 0, 0, 0], "rope_sections"),
        ("qwen3.rope.dimension_sections", I32, [1, 1], "rope.dimension_sections"),
        ("qwen3.attention.layer_norm_rms_epsilon", F32, -1.0, "attention.layer_norm_rms_epsilon"),
        ("qwen3.attention.layer_norm_rms_epsilon", F32, float("nan"), "attention.layer_norm_rms_epsilon"),
        ("qwen3.attention.layer_norm_rms_epsilon", U32, 1, "attention.layer_norm_rms_epsilon"),
        ("qwen3.attention.sliding_window", U32, 2**31, "attention.sliding_window"),
        ("qwen3.expert_count", U32, 2000, "expert_count"),
        ("qwen3.expert_count", U32, 8, "experts"),
        ("qwen3.expert_used_count", U32, 2, "experts"),
        ("qwen3.expert_group_count", U32, 2, "expert_groups"),
        ("tokenizer.ggml.tokens", STRING, ["a", "b", "c"], "token_embd"),
    ],
)
def test_each_fault_has_its_check(tmp_path: Path, key: str, value_type: ValueType, value: object, check: str) -> None:
    assert check in failed(tmp_path, changed(key, value_type, value))


def test_values_that_are_allowed(tmp_path: Path) -> None:
    for key, value_type, value in (
        ("tokenizer.ggml.scores", F32, [0.0] * TOKENS),
        ("tokenizer.ggml.scores", I32, [0] * TOKENS),
        ("tokenizer.ggml.tokens", STRING, ["", "", "a", "b"]),
        ("tokenizer.ggml.tokens", STRING, [b"\xff", b"\xfe", b"a", b"b"]),
        ("tokenizer.ggml.merges", STRING, ["a b", "  b"]),
        ("qwen3.rope.scaling.type", STRING, "yarn"),
        ("qwen3.rope.dimension_count", U32, 16),
        ("qwen3.nextn_predict_layers", U32, 0),
        ("qwen3.attention.sliding_window", U32, 0),
    ):
        assert failed(tmp_path, changed(key, value_type, value)) == {}


def test_missing_and_transposed_embedding(tmp_path: Path) -> None:
    bare = GgufBytes(pairs=minimal_target().pairs).with_tensor("blk.0.attn_norm.weight")
    assert failed(tmp_path, bare) == {"token_embd": "token_embd.weight is missing"}
    turned = bare.with_tensor("token_embd.weight", (4, 32))
    assert "shape (4, 32)" in failed(tmp_path, turned)["token_embd"]


def test_begin_token_that_is_needed_must_exist(tmp_path: Path) -> None:
    flagged = changed("tokenizer.ggml.add_bos_token", BOOL, True)
    assert failed(tmp_path, flagged.with_value("tokenizer.ggml.bos_token_id", U32, 0)) == {}


def test_blocks_beyond_the_count_are_named(tmp_path: Path) -> None:
    extra = minimal_target().with_tensor("blk.1.attn_norm.weight")
    assert "blocks beyond it: [1]" in failed(tmp_path, extra)["blocks"]


def test_hybrid_model_passes(tmp_path: Path, hybrid: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(hybrid)
    assert failures(path) == []


@pytest.mark.parametrize(
    ("suffix", "value", "check"),
    [
        ("full_attention_interval", 0, "full_attention_interval"),
        ("ssm.time_step_rank", 0, "ssm.time_step_rank"),
        ("ssm.time_step_rank", 3, "delta_net"),
        ("ssm.group_count", 0, "ssm.group_count"),
        ("ssm.group_count", 4, "delta_net"),
        ("ssm.state_size", 16, "delta_net"),
        ("ssm.inner_size", 65, "delta_net"),
        ("ssm.conv_kernel", 1, "delta_net"),
        ("nextn_predict_layers", 5, "trunk_blocks"),
        ("nextn_predict_layers", 2, "nextn_tensors"),
        ("block_count", 4, "blocks"),
        ("rope.dimension_count", 66, "rope_dimensions"),
    ],
)
def test_hybrid_faults(tmp_path: Path, hybrid: bytes, suffix: str, value: int, check: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(patched(hybrid, f"qwen35.{suffix}", value))
    assert f"target.{check}" in [failure.id for failure in failures(path)]


def test_b116_declared_prediction_block_without_tensors(tmp_path: Path, hybrid: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(hybrid.replace(b"blk.4.", b"xlk.4."))
    assert [failure.message for failure in failures(path)] == ["declared MTP block 4 has no tensors"]
    path.write_bytes(hybrid.replace(b"blk.4.nextn.hnorm", b"blk.4.nextn.xnorm"))
    assert [failure.message for failure in failures(path)] == ["MTP block 4 lacks ['nextn.hnorm.weight']"]


def test_b115_prediction_blocks_that_are_not_declared(tmp_path: Path, hybrid: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(hybrid.replace(b"nextn_predict_layers", b"nextn_predict_levels"))
    assert scan_header(path).nextn_layers == 0
    assert describe_role(scan_header(path)).role == "target"


@pytest.mark.parametrize("name", ["attn_qkv", "attn_gate"])
def test_recurrent_block_without_an_input(tmp_path: Path, hybrid: bytes, name: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(hybrid.replace(f"blk.1.{name}.".encode(), f"blk.1.x{name[1:]}.".encode()))
    (failure,) = failures(path)
    assert failure.message == f"1 recurrent blocks lack an input: ['blk.1.{name}.weight']"
