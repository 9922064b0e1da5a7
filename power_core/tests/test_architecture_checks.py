"""Keys that single architectures need: each absent or wrong one has its verdict, and right ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from power_core.artifacts.architecture_checks import EQUAL_HEAD_WIDTHS, NEEDS_EXPERTS, ROTATES_WHOLE_HEAD
from power_core.artifacts.gguf import ValueType, scan_header
from power_core.artifacts.target_checks import check_target
from power_core.testing.headers import GgufBytes

SIZES = {"context_length": 64, "embedding_length": 32, "block_count": 1, "attention.head_count": 2}
STATE = {"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.time_step_rank": 4, "ssm.group_count": 2}
EXPERTS = {"expert_count": 4, "expert_used_count": 2}


def failed(folder: Path, architecture: str, keys: dict[str, int | list[int]]) -> dict[str, str]:
    content = GgufBytes().with_value("general.architecture", ValueType.STRING, architecture)
    for suffix, value in {**SIZES, **keys}.items():
        key = f"{architecture}.{suffix}"
        if isinstance(value, list):
            content = content.with_array(key, ValueType.UINT32, value)
        else:
            content = content.with_value(key, ValueType.UINT32, value)
    content = (
        content.with_value("tokenizer.ggml.model", ValueType.STRING, "llama")
        .with_array("tokenizer.ggml.tokens", ValueType.STRING, ["<unk>", "<s>", "</s>", "a"])
        .with_tensor("token_embd.weight", (32, 4))
        .with_tensor("blk.0.attn_norm.weight", (32,))
    )
    path = folder / "m.gguf"
    path.write_bytes(content.build())
    return {check.id.removeprefix("target."): check.message for check in check_target(scan_header(path)).failures}


EXTRA: dict[str, dict[str, int | list[int]]] = {
    "grovemoe": {"experts_per_group": 2},
    "lfm2moe": {"shortconv.l_cache": 3},
    "qwen35moe": {"ssm.conv_kernel": 4, "ssm.state_size": 8, "ssm.group_count": 2, "ssm.time_step_rank": 4}
    | {"ssm.inner_size": 32},
}
EXTRA["qwen3next"] = EXTRA["qwen35moe"]


@pytest.mark.parametrize("architecture", NEEDS_EXPERTS)
def test_mixtures_of_experts_need_experts(tmp_path: Path, architecture: str):
    extra = EXTRA.get(architecture, {})
    assert failed(tmp_path, architecture, {**extra, **EXPERTS}) == {}
    count, used = f"{architecture}.expert_count", f"{architecture}.expert_used_count"
    assert f"{count} is None, {used} is None" in failed(tmp_path, architecture, extra)["has_experts"]
    assert "has_experts" in failed(tmp_path, architecture, {**extra, "expert_count": 4})
    assert "has_experts" in failed(tmp_path, architecture, {**extra, "expert_count": 0, "expert_used_count": 0})
    assert "has_experts" in failed(tmp_path, architecture, {**extra, "expert_count": 4, "expert_used_count": [0]})


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gemma3", "granite", "lfm2", "nemotron_h"])
def test_dense_models_need_none(tmp_path: Path, architecture: str):
    extra: dict[str, int | list[int]] = {"lfm2": {"shortconv.l_cache": 3}, "nemotron_h": STATE}.get(architecture, {})
    assert failed(tmp_path, architecture, extra) == {}


@pytest.mark.parametrize(
    ("architecture", "suffix", "good", "bad"),
    [
        ("ernie4_5-moe", "interleave_moe_layer_step", 1, 0),
        ("grovemoe", "experts_per_group", 2, 0),
        ("lfm2", "shortconv.l_cache", 3, 1),
        ("lfm2moe", "shortconv.l_cache", 3, 1),
    ],
)
def test_keys_that_must_be_large_enough(tmp_path: Path, architecture: str, suffix: str, good: int, bad: int):
    experts = EXPERTS if architecture != "lfm2" else {}
    assert failed(tmp_path, architecture, {**experts, suffix: good}) == {}
    assert f"{architecture}.{suffix} is {bad}" in failed(tmp_path, architecture, {**experts, suffix: bad})[suffix]
    assert "is missing" in failed(tmp_path, architecture, experts)[suffix]


@pytest.mark.parametrize("architecture", ["jamba", "granitehybrid", "mamba"])
def test_state_is_twice_as_wide_as_the_model(tmp_path: Path, architecture: str):
    assert failed(tmp_path, architecture, STATE) == {}
    found = failed(tmp_path, architecture, {**STATE, "ssm.inner_size": 32})
    assert list(found) == ["state_width"]
    assert f"{architecture}.ssm.inner_size is 32, {architecture}.embedding_length is 32" in found["state_width"]


@pytest.mark.parametrize("architecture", ["falcon-h1", "granitehybrid", "mamba2", "nemotron_h", "nemotron_h_moe"])
@pytest.mark.parametrize(
    ("suffix", "value", "check"),
    [
        ("ssm.group_count", 0, "ssm.group_count"),
        ("ssm.group_count", 3, "state_heads"),
        ("ssm.time_step_rank", 0, "ssm.time_step_rank"),
        ("ssm.time_step_rank", 5, "state_heads"),
        ("ssm.conv_kernel", 1, "ssm.conv_kernel"),
        ("ssm.inner_size", 0, "ssm.inner_size"),
    ],
)
def test_state_heads_divide_the_state(tmp_path: Path, architecture: str, suffix: str, value: int, check: str):
    assert failed(tmp_path, architecture, STATE) == {}
    found = failed(tmp_path, architecture, {**STATE, suffix: value})
    assert architecture in found[check]


def test_plamo2_has_no_groups(tmp_path: Path):
    assert failed(tmp_path, "plamo2", {**STATE, "ssm.group_count": 0}) == {}
    assert "plamo2.ssm.group_count is 2" in failed(tmp_path, "plamo2", STATE)["ssm.group_count"]


@pytest.mark.parametrize("architecture", ["nemotron_h", "nemotron_h_moe"])
def test_blocks_with_experts_need_a_width(tmp_path: Path, architecture: str):
    keys: dict[str, int | list[int]] = {**STATE, "block_count": 2, "feed_forward_length": 64, "expert_count": 4}
    used = {**keys, "expert_used_count": [2, 0]}
    assert "[1]" in failed(tmp_path, architecture, used)["expert_width"]
    for right in ({"expert_feed_forward_length": 16}, {"feed_forward_length": [64, 0]}, {"expert_used_count": [2, 2]}):
        assert "expert_width" not in failed(tmp_path, architecture, {**used, **right})


@pytest.mark.parametrize("architecture", ["olmo2", "command-r", "phi3", "gemma3"])
def test_widths_that_the_graph_takes_as_equal(tmp_path: Path, architecture: str):
    assert architecture in EQUAL_HEAD_WIDTHS
    assert "head_widths" in failed(tmp_path, architecture, {"attention.key_length": 8})
    assert failed(tmp_path, architecture, {"attention.key_length": 8, "attention.value_length": 8}) == {}


@pytest.mark.parametrize("architecture", ["olmo2", "seed_oss", "smollm3"])
def test_rotation_that_the_graph_takes_as_whole(tmp_path: Path, architecture: str):
    assert architecture in ROTATES_WHOLE_HEAD
    assert "rope_dimensions" in failed(tmp_path, architecture, {"rope.dimension_count": 8})
    assert failed(tmp_path, architecture, {"rope.dimension_count": 16}) == {}


def test_partial_rotation_is_kept_where_graphs_allow_it(tmp_path: Path):
    for architecture in ("phi2", "gptneox", "stablelm", "glm4"):
        assert failed(tmp_path, architecture, {"rope.dimension_count": 8}) == {}


def test_whole_rotation_implies_equal_widths():
    assert set(ROTATES_WHOLE_HEAD) <= set(EQUAL_HEAD_WIDTHS)
